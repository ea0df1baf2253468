"""`hush schema`: draft, check and convert schema files."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

import hush
from hush.cli.long_work import DISCOVERY_TIME, NO_BAR, long_work
from hush.cli.main import BAD_INPUT, INTERRUPTED
from hush.cli.options import (
    PATH,
    BudgetOptions,
    DataOptions,
    LedgerOptions,
    OutputOptions,
    budget_options,
    data_options,
    ledger_options,
    output_options,
)
from hush.core.errors import InterruptedRelease, SchemaError, printable

if TYPE_CHECKING:
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
@data_options("table", "spark", "query", "where")
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
@output_options("Write the draft to this file instead of the terminal.")
def draft(rows_of: DataOptions, from_data: bool, from_public_data: bool, output: OutputOptions) -> None:
    """Write a first schema for DATA, for you to edit.

    DATA is what `hush release` takes. By default only its column names and declared types are read, and the values are
    left open.
    """
    from rich.console import Console

    from hush.tables.drafting import draft_schema

    if from_data and from_public_data:
        raise click.UsageError("--from-data is for private rows and --from-public-data for public ones; keep one")
    output.check(rows_of.data, stdout=True)
    from_rows = from_data or from_public_data
    source, selection = rows_of.source()
    with Console(stderr=True).status("reading the rows" if from_rows else "reading the names"):
        text = draft_schema(source, **selection, from_data=from_rows, public=from_public_data)
    if from_data:
        click.echo(f"hush: {NOT_PRIVATE}", err=True)
    output.write(text, SchemaError)


@schema.command()
@click.argument("file", metavar="SCHEMA", type=PATH)
@click.argument("data", metavar="[DATA]", type=str, required=False)
@data_options("table", "spark", "query", "where", "counts")
@click.option("--json", "as_json", is_flag=True, help="With DATA: print the outcome as JSON, which is private too.")
def check(file: Path, rows_of: DataOptions, as_json: bool) -> None:
    """Show the columns of SCHEMA, or how the rows of DATA fit them.

    SCHEMA is hush's .toml, mbi's .json or dpsynth's .yaml. DATA is what `hush release` takes.

    With DATA, the outcome is PRIVATE: it shows the owner, for all columns at once, how many values are refused, which,
    and why. The exit code is 2 if some are.
    """
    if rows_of.data is not None or rows_of.spark is not None:
        _dry_run(hush.Schema.load(file), rows_of, as_json)
        return
    for option in ("json", "counts", "table", "query", "where"):
        if as_json if option == "json" else getattr(rows_of, option) is not None:
            raise click.UsageError(f"--{option} goes with DATA; name the data file, or leave it out")
    from rich.console import Console
    from rich.text import Text

    from hush.render.text_table import TextColumn, TextTable, counted, number_columns
    from hush.schema.schema import drafted_text

    declared = hush.Schema.load(file)
    console = Console()
    columns = (
        *(TextColumn(heading=heading, fit="fold") for heading in ("column", "kind", "levels")),
        *number_columns("size"),
    )
    rows = [(column.name, column.kind, _levels(column), f"{column.size:,}") for column in declared]
    console.print(TextTable(columns=columns, rows=rows))
    cells, unit = declared.domain.size(), declared.unit
    console.print(Text(f"\ncells: {cells:,}" if cells < 10**15 else f"\ncells: about 10^{math.log10(cells):.0f}"))
    used = f"of which at most {counted(unit.max_rows, 'row')} {'is' if unit.max_rows == 1 else 'are'} used"
    console.print(Text(printable(f"unit: a value of {unit.column!r}, {used}" if unit.column else "unit: a row")))
    for rule in declared.constraints:
        columns_text = " x ".join(rule.clique)
        forbidden = f"{rule.forbidden:,} of {rule.cells:,} combinations forbidden"
        console.print(Text(printable(f"rule: {columns_text}: {forbidden}")))
    if declared.from_private_data:
        console.print(Text(printable(f"NOT PRIVATE: {drafted_text(declared.from_private_data)}")))


@schema.command()
@click.argument("file", metavar="SCHEMA", type=PATH)
@output_options("Write to this file instead of the terminal.")
def convert(file: Path, output: OutputOptions) -> None:
    """Write SCHEMA as hush's TOML.

    SCHEMA is mbi's .json, dpsynth's .yaml or a .toml.
    """
    output.check(file, stdout=True)
    output.write(hush.Schema.load(file).to_toml(), SchemaError)


@schema.command()
@click.argument("data", type=str)
@click.argument("draft_file", metavar="DRAFT", type=PATH)
@data_options("table", "spark", "query", "where", "timeout", "counts")
@budget_options
@click.option("--resume", type=PATH, help="The .partial file of an interrupted discovery, to go on from.")
@click.option("--rows", type=int, help="Expected number of rows, a public guess: refuses a budget that is too small.")
@ledger_options("File that records the charge, made by `hush budget init`; a new one gets this budget as its cap.")
@output_options("File to write the schema to, as TOML.", required=True)
def discover(
    rows_of: DataOptions,
    draft_file: Path,
    limit: BudgetOptions,
    resume: Path | None,
    rows: int | None,
    book: LedgerOptions,
    output: OutputOptions,
) -> None:
    """Find what DRAFT leaves open; spends the budget.

    Reads the rows of DATA, which is as for `hush release`, and adds noise. DRAFT is a schema file with bounds =
    "discover", bins = "discover" or levels = "discover". The schema that is written is public from then on.
    """
    from rich.console import Console

    from hush.discovery.discover import discover as run_discovery
    from hush.render.text_table import counted
    from hush.schema.discovery_draft import Draft

    # Refuse what cannot be written or read, before anything is charged.
    output.check(rows_of.data, draft_file, book.ledger)
    path = cast(Path, output.path)
    if path.suffix.lower() != ".toml":
        raise SchemaError(f"{path}: a schema is written as TOML; give a name that ends in .toml")
    kept = path.with_name(f"{path.name}.partial")
    budget, draft = limit.read(), Draft.load(draft_file)
    source, selection = rows_of.source()
    new_ledger = book.ledger is not None and not book.ledger.exists()
    opened = f"{counted(len(draft.open_columns), 'open column')}; {DISCOVERY_TIME}"
    try:
        with long_work("discovering", opened, private=True, after=NO_BAR), Console(stderr=True).status("discovering"):
            found = run_discovery(
                source,
                draft,
                budget,
                ledger=book.ledger,
                dataset=book.dataset,
                name=path.name,
                partial=kept,
                resume=resume,
                rows=rows,
                **selection,
            )
    except InterruptedRelease as stopped:
        click.echo(f"hush: {printable(f'{stopped}; resume with the same command and --resume {kept}')}", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None

    # Write the schema, then drop what kept the counts; say what was found.
    found.schema.save(path, overwrite=output.force)
    kept.unlink(missing_ok=True)
    for note in found.notes:
        click.echo(printable(note))
    click.echo(f"Schema {path}: spent {budget}; the schema is public from now on.")
    if new_ledger:
        click.echo(f"New ledger {book.ledger}: its cap is this budget. `hush budget init` sets a cap for several runs.")
    if book.ledger is None:
        click.echo("hush: no --ledger was given, so only the schema itself records what was spent", err=True)


def _dry_run(declared: hush.Schema, rows_of: DataOptions, as_json: bool) -> None:
    """Print how the rows fit, and end with a code that scripts can use."""
    from rich.console import Console

    from hush.tables.dry_run import dry_run

    source, selection = rows_of.source()
    with Console(stderr=True).status("reading the rows"):
        outcome = dry_run(source, declared, **selection)
    click.echo(json.dumps(outcome.to_dict(), indent=2) if as_json else str(outcome))
    if not outcome.fits:
        click.get_current_context().exit(BAD_INPUT)


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
