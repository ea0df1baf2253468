"""`hush evaluate`: how close synthetic data is to the real data; for internal use only."""

from __future__ import annotations

import glob
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import hush
from hush.cli.long_work import COMPILES, NO_BAR, long_work
from hush.cli.model_command import fitted, say
from hush.cli.options import (
    PATH,
    DataOptions,
    OutputOptions,
    WorkloadOptions,
    data_options,
    format_option,
    option_group,
    workload_options,
)
from hush.core.errors import printable
from hush.files.atomic_write import write_whole
from hush.render.progress_bar import progress_bar

if TYPE_CHECKING:
    from hush.evaluation.comparison import NumberComparison
    from hush.tables.table import Table

MOST_DRAWN = 100_000  # rows from a model


@click.command()
@click.argument("real", type=str)
@click.argument("synthetic", type=str)
@click.option("--schema", type=PATH, required=True, help="The schema file of both tables.")
@data_options("table", "where", "spark", "counts")
@workload_options
@format_option
@option_group(
    "output",
    OutputOptions,
    click.option("--json", "path", type=PATH, help="Also write all figures to this file."),
    click.option("--force", is_flag=True, help="Overwrite the JSON file if it exists."),
)
def evaluate(
    real: str,
    synthetic: str,
    schema: Path,
    rows_of: DataOptions,
    question: WorkloadOptions,
    as_json: bool,
    output: OutputOptions,
) -> None:
    """Compare synthetic rows with the real ones; not for release.

    REAL is what `hush release` takes; --table, --where, --spark and --counts are about REAL alone. SYNTHETIC is a file
    of rows, or a release or model, whose tables are compared. The default workload is every table over two columns.
    Columns of numbers are also compared by their means, exact zeros and distance; a release or model draws rows for
    that.

    The figures come from the real rows without noise. They cost no budget because they must not be released.
    """
    from rich.console import Console
    from rich.text import Text

    from hush.evaluation.comparison import STAMP, check_schemas, compare, comparison_tables
    from hush.schema import ROW

    # Read the synthetic side, then the real rows.
    read = (*glob.glob(real, recursive=True), *glob.glob(synthetic, recursive=True))
    output.check(*read, schema, question.workload_sql)
    declared = hush.Schema.load(schema)
    workload = question.read(declared) if question.given else None
    compared: hush.Release | hush.Model | Table
    if _is_archive(synthetic):
        compared = _answering(synthetic, declared)
        for caveat in compared.caveats if isinstance(compared, hush.Model) else compared.record.notes:
            say(f"hush: {printable(caveat)}", err=True)
    else:
        with progress_bar("reading synthetic rows") as progress:
            compared = hush.read(synthetic, declared.with_unit(ROW), progress=progress)
    check_schemas(declared, compared.schema)
    source, selection = replace(rows_of, data=real).source()
    with long_work("reading real rows", "", private=True) as progress:
        rows = hush.read(source, declared, **selection, progress=progress)
    with long_work("comparing", f"longer with more rows and tables; {COMPILES}", private=True, after=NO_BAR):
        numbers = _numbers(source, synthetic, compared, declared, **selection)
        with progress_bar("comparing") as progress:
            comparison = compare(rows, compared, workload, numbers=numbers, progress=progress)

    # Print between two stamps.
    console = Console(stderr=as_json)
    console.print(Text(STAMP, style="bold red"))
    if as_json:
        click.echo(json.dumps(comparison.to_dict(), indent=2))
    else:
        for cells in comparison_tables(comparison):
            console.print()
            console.print(cells)
        console.print()
    if output.path is not None:
        write_whole(output.path, (json.dumps(comparison.to_dict(), indent=2) + "\n").encode())
        console.print(Text(printable(f"All figures are in {output.path}.")))
    console.print(Text(STAMP, style="bold red"))


def _numbers(
    real: Any,
    synthetic: str,
    compared: hush.Release | hush.Model | Table,
    schema: hush.Schema,
    **which: str | None,
) -> tuple[NumberComparison, ...]:
    """Numbers of the real rows, and of the synthetic ones or of rows drawn from a model."""
    from hush.evaluation.comparison import compare_numbers
    from hush.schema import Integer, Numeric

    numeric = any(isinstance(column, Integer | Numeric) and column.part is None for column in schema)
    if not numeric or isinstance(compared, hush.Release):
        return ()
    if not isinstance(compared, hush.Model):
        return compare_numbers(real, synthetic, schema, **which)
    drawn = min(max(round(compared.total), 1), MOST_DRAWN)
    say(f"numbers are compared by {drawn:,} rows drawn from the model", err=True)
    return compare_numbers(real, compared.synthesize(drawn, seed=0), schema, **which)


def _is_archive(name: str) -> bool:
    """Whether a file is a release or a model, by its name or its first bytes."""
    if name.lower().endswith(".hush"):
        return True
    try:
        with Path(name).open("rb") as file:
            return file.read(4) == b"PK\x03\x04"  # an archive
    except OSError:
        return False


def _answering(name: str, declared: hush.Schema) -> hush.Release | hush.Model:
    """A model, that of a release, or the release itself if nothing was measured that a model could be fitted to."""
    from hush.evaluation.comparison import check_schemas
    from hush.loading import load_release_or_model

    loaded = load_release_or_model(name)
    check_schemas(declared, loaded.schema)
    return fitted(loaded) if isinstance(loaded, hush.Release) and loaded.record.tables else loaded
