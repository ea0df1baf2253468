"""`hush query`: ask a release or a model, at no cost."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

import hush
from hush.cli.options import PATH
from hush.core.errors import WorkloadError, printable

if TYPE_CHECKING:
    import pyarrow as pa


@click.command()
@click.argument("file", type=PATH)
@click.argument("sql", required=False)
@click.option("--term", type=int, help="Instead of SQL: all answers to this term of the workload, counted from 0.")
@click.option("--threshold", help="Instead of SQL: rows that match in r of k columns, as '2-of sex,region,employed'.")
@click.option("--level", type=float, default=0.95, show_default=True, help="Confidence level of the intervals.")
@click.option("--format", "form", type=click.Choice(["table", "csv", "json"]), default="table", show_default=True)
@click.option("--all", "everything", is_flag=True, help="Print all rows of the table, not only the first 20 lines.")
def query(
    file: Path, sql: str | None, term: int | None, threshold: str | None, level: float, form: str, everything: bool
) -> None:
    """Answer SQL from a release or a model. Spends nothing.

    SQL is a counting query such as "SELECT sex, COUNT(*) FROM t WHERE age >= 40 GROUP BY sex".
    FILE is a release, or a model, which answers without errors.

    In CSV, a label that a spreadsheet would take for a formula, such as =1+1, gets an apostrophe in front, and unknown
    errors are empty cells; in JSON they are null. On a terminal, control characters in texts are spelled out.
    """
    from hush.loading import load_release_or_model
    from hush.release.statement import STAMP

    if not 0 < level < 1:
        raise WorkloadError(f"level={level}: expected a number between 0 and 1, such as 0.95")
    if sum(given is not None for given in (sql, term, threshold)) != 1:
        raise click.UsageError("ask either SQL or, with --term, for what the workload asked, or for a --threshold")
    loaded = load_release_or_model(file)
    if sql is not None:
        answers = loaded.sql(sql, level=level)
    elif threshold is not None:
        answers = _threshold(loaded, threshold, level)
    elif isinstance(loaded, hush.Model):
        raise click.UsageError(f"{file} is a model, which has no workload; ask SQL")
    else:
        answers = loaded.term(term or 0, level=level)

    # Print in the form that was asked for.
    if form == "csv":
        from hush.files.csv_cells import csv_bytes

        table = _with_gaps(answers.to_arrow())
        content = csv_bytes(shown_texts(table) if _on_terminal() else table)
        click.echo(content, nl=False)  # click would strip what looks like colour codes from text
        for note in answers.notes:  # which CSV has no place for
            if note.startswith(STAMP):
                click.echo(f"hush: {printable(note)}", err=True)
    elif form == "json":
        click.echo(json.dumps(answers.to_dict(), indent=2))
    else:
        text = answers.text(max(len(answers), 1)) if everything else str(answers)
        click.echo(text)
        if not everything and "more rows" in text:
            click.echo(f"hush: --all prints all {len(answers):,} rows", err=True)


def _threshold(loaded: hush.Release | hush.Model, text: str, level: float) -> hush.Answers:
    """The answers to one threshold, written like a workload of one."""
    from hush.workloads.workload_text import parse_workload

    terms = parse_workload(loaded.schema, text).terms
    if len(terms) != 1 or not terms[0].symmetric:
        raise click.UsageError(f"--threshold {text!r}: expected one set of columns, such as '2-of sex,region,employed'")
    r = terms[0].columns_to_agree
    if isinstance(loaded, hush.Model):
        return loaded.threshold(terms[0].clique, r=r)
    return loaded.threshold(terms[0].clique, r=r, level=level)


def _with_gaps(table: pa.Table) -> pa.Table:
    """The table with null, an empty cell in CSV, for unknown numbers."""
    import pyarrow as pa
    from pyarrow import compute

    for index, column in enumerate(table.columns):
        if pa.types.is_floating(column.type):
            nulled = compute.if_else(compute.is_nan(column), None, column)
            table = table.set_column(index, table.column_names[index], nulled)
    return table


def _on_terminal() -> bool:
    return sys.stdout.isatty()


def shown_texts(table: pa.Table) -> pa.Table:
    """The table with control characters spelled out, so that no text steers the terminal."""
    import pyarrow as pa

    columns = []
    for column in table.columns:
        texts = [printable(value) if isinstance(value, str) else value for value in column.to_pylist()]
        columns.append(pa.array(texts, type=pa.string()) if any(isinstance(text, str) for text in texts) else column)
    return pa.table(columns, names=[printable(name) for name in table.column_names])
