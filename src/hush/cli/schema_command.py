"""`hush schema`: draft, check and convert schema files."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import hush
from hush.cli.options import (
    PATH,
    STDOUT,
    check_output,
    counts_option,
    query_option,
    source_of,
    spark_option,
    table_option,
    where_option,
)
from hush.cli.program import BAD_INPUT
from hush.core.errors import SchemaError, printable
from hush.files.atomic_write import write_whole

if TYPE_CHECKING:
    from hush.core.constraints import Constraint
    from hush.schema import Column

NOT_PRIVATE = (
    "NOT PRIVATE: this draft holds values and bounds taken from the rows. Do not publish it. `hush release` refuses it "
    "until you have replaced every entry by public knowledge and deleted the lines from_private_data."
)


@click.group()
def schema() -> None:
    """Say what the columns of a table may hold."""


@schema.command()
@click.argument("data", type=str, required=False)
@table_option
@spark_option
@query_option
@where_option
@click.option(
    "--from-data",
    is_flag=True,
    help="Fill in the values from the rows. This is not private: releases refuse the draft until you have reviewed it.",
)
@click.option(
    "--from-public-data",
    is_flag=True,
    help="The same for rows that are public, such as invented ones; nothing is marked.",
)
@click.option("-o", "--output", type=PATH, help="Write the draft to this file instead of the terminal.")
@click.option("--force", is_flag=True, help="Overwrite the output file if it exists.")
def draft(
    data: str | None,
    table: str | None,
    spark: str | None,
    query: str | None,
    where: str | None,
    from_data: bool,
    from_public_data: bool,
    output: Path | None,
    force: bool,
) -> None:
    """Write a first schema for DATA, for you to edit.

    DATA is what `hush release` takes. By default only its column names and declared types are read, and the values are
    left open.
    """
    from rich.console import Console

    from hush.tables.drafting import draft_schema

    if from_data and from_public_data:
        raise click.UsageError("--from-data is for private rows and --from-public-data for public ones; keep one")
    if output is not None and output != STDOUT:
        check_output(output, force=force, inputs=[data])
    from_rows = from_data or from_public_data
    source, named = source_of(data, table, spark)
    with Console(stderr=True).status("reading the rows" if from_rows else "reading the names"):
        text = draft_schema(source, table=named, query=query, where=where, from_data=from_rows, public=from_public_data)
    if from_data:
        click.echo(f"hush: {NOT_PRIVATE}", err=True)
    _deliver(text, output)


@schema.command()
@click.argument("file", metavar="SCHEMA", type=PATH)
@click.argument("data", metavar="[DATA]", type=str, required=False)
@table_option
@spark_option
@query_option
@where_option
@counts_option
@click.option("--json", "as_json", is_flag=True, help="With DATA: print the outcome as JSON, which is private too.")
def check(
    file: Path,
    data: str | None,
    table: str | None,
    spark: str | None,
    query: str | None,
    where: str | None,
    counts: str | None,
    as_json: bool,
) -> None:
    """Show the columns of SCHEMA, or how the rows of DATA fit them.

    SCHEMA is hush's .toml, mbi's .json or dpsynth's .yaml. DATA is what `hush release` takes.

    With DATA, the outcome is PRIVATE: it shows the owner, for all columns at once, how many values are refused, which,
    and why. The exit code is 2 if some are.
    """
    if data is not None or spark is not None:
        declared = hush.Schema.load(file)
        source, named = source_of(data, table, spark)
        _dry_run(declared, source, as_json, table=named, query=query, where=where, counts=counts)
        return
    needing = {"--json": as_json or None, "--counts": counts, "--table": table, "--query": query, "--where": where}
    for option, given in needing.items():
        if given is not None:
            raise click.UsageError(f"{option} goes with DATA; name the data file, or leave it out")
    from rich.console import Console
    from rich.text import Text

    from hush.render.text_table import TextColumn, TextTable, number_columns
    from hush.schema.schema import drafted_text

    declared = hush.Schema.load(file)
    console = Console()
    columns = (
        *(TextColumn(heading=heading, fit="fold") for heading in ("column", "kind", "levels")),
        *number_columns("size"),
    )
    rows = [(column.name, column.kind, _levels(column), f"{column.size:,}") for column in declared]
    console.print(TextTable(columns=columns, rows=rows))
    console.print(Text(f"\ncells: {_cells(declared.domain.size())}"))
    console.print(Text(printable(f"unit: {_unit(declared)}")))
    for rule in declared.constraints:
        console.print(Text(printable(f"rule: {_rule(rule)}")))
    if declared.from_private_data:
        console.print(Text(printable(f"NOT PRIVATE: {drafted_text(declared.from_private_data)}")))


@schema.command()
@click.argument("file", metavar="SCHEMA", type=PATH)
@click.option("-o", "--output", type=PATH, help="Write to this file instead of the terminal.")
@click.option("--force", is_flag=True, help="Overwrite the output file if it exists.")
def convert(file: Path, output: Path | None, force: bool) -> None:
    """Write SCHEMA as hush's TOML.

    SCHEMA is mbi's .json, dpsynth's .yaml or a .toml.
    """
    if output is not None and output != STDOUT:
        check_output(output, force=force, inputs=[file])
    _deliver(hush.Schema.load(file).to_toml(), output)


def _dry_run(declared: hush.Schema, data: Any, as_json: bool, **which: str | None) -> None:
    """Print how the rows fit, and end with a code that scripts can use."""
    from rich.console import Console

    from hush.tables.dry_run import dry_run

    with Console(stderr=True).status("reading the rows"):
        outcome = dry_run(data, declared, **which)
    click.echo(json.dumps(outcome.to_dict(), indent=2) if as_json else str(outcome))
    if not outcome.fits:
        click.get_current_context().exit(BAD_INPUT)


def _deliver(text: str, output: Path | None) -> None:
    if output is None or output == STDOUT:
        click.echo(text, nl=False)
        return
    write_whole(output, text.encode(), SchemaError)


def _levels(column: Column) -> str:
    """The ordinary levels in a few words, then `other` and missing if the column has them."""
    from hush.schema import Date, Integer, Numeric

    match column:
        case Integer() if not column.binned:
            text = f"{column.low} .. {column.high}"
        case Integer() | Numeric():
            bins = len(column.starts) if isinstance(column, Integer) else len(column.edges) - 1
            text = f"{column.low:.15g} .. {column.high:.15g} in {bins} bin{'s' if bins != 1 else ''}"
            text += f", points {', '.join(f'{point:g}' for point in column.points)}" if column.points else ""
            text += f", step {column.step:g}" if isinstance(column, Numeric) and column.step is not None else ""
        case Date():
            text = f"{column.start} .. {column.end} by {column.granularity}"
        case _:
            labels = [column.label(code) for code in range(min(column.levels, 4))]
            text = ", ".join(labels) + (", ..." if column.levels > 4 else "")
    text += " + other" if column.other_code is not None else ""
    return text + (" + missing" if column.missing else "")


def _cells(cells: int) -> str:
    return f"{cells:,}" if cells < 10**15 else f"about 10^{math.log10(cells):.0f}"


def _unit(schema: hush.Schema) -> str:
    if schema.unit.column is None:
        return "a row"
    rows = schema.unit.max_rows
    return f"a value of {schema.unit.column!r}, of which at most {rows:,} row{'s' if rows != 1 else ''} are used"


def _rule(rule: Constraint) -> str:
    return f"{' x '.join(rule.clique)}: {rule.forbidden:,} of {rule.cells:,} combinations forbidden"
