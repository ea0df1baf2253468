"""`hush synth`: made-up rows from a release or a model; costs nothing."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

import hush
from hush.cli.options import PATH, progress_bar
from hush.cli.output import check_output
from hush.cli.row_files import check_suffix, write_rows
from hush.errors import SchemaError
from hush.memory import readable
from hush.printable import printable

WARNING = (
    "Standard errors computed from synthetic rows as if they were real are too small: the noise that made the release "
    "private is in the rows and not in such errors."
)


@click.command()
@click.argument("file", type=PATH)
@click.option("--rows", type=click.IntRange(min=0), help="How many.  [default: as many as there are records]")
@click.option("-o", "--output", type=PATH, required=True, help="File to write, .csv or .parquet.")
@click.option("--force", is_flag=True, help="Overwrite the output file if it exists.")
@click.option(
    "--method",
    type=click.Choice(["rounding", "sampling"]),
    default="rounding",
    show_default=True,
    help="rounding keeps the tables of the model, sampling draws rows independently of each other.",
)
@click.option("--seed", type=click.IntRange(min=0), help="Makes the same rows again; public.")
@click.option(
    "--given",
    multiple=True,
    metavar="COLUMN=VALUE",
    help="Only rows with this value: a level, or a condition as in a schema, such as 'age={from = 18, to = 30}'; "
    "several values of one column mean any of them.",
)
@click.option(
    "--max-size-mb",
    type=click.FloatRange(min=0, min_open=True),
    help="Largest exact model; beyond it an approximate one is made.",
)
def synth(
    file: Path,
    rows: int | None,
    output: Path,
    force: bool,
    method: Any,
    seed: int | None,
    given: tuple[str, ...],
    max_size_mb: float | None,
) -> None:
    """Write made-up rows that look like those behind FILE, a release or a model. Spends nothing."""
    from hush.loading import load_release_or_model

    check_suffix(output)
    check_output(output, force=force, inputs=[file])
    loaded = load_release_or_model(file)
    wanted = stated_conditions(loaded.schema, given)
    if isinstance(loaded, hush.Model) and max_size_mb is not None:
        raise click.UsageError(f"{file} is a model, whose size is known; leave --max-size-mb out")
    model = loaded if isinstance(loaded, hush.Model) else _fitted(loaded, max_size_mb)
    count = round(model.total) if rows is None else rows
    pieces = model.batches(count, method=method, given=wanted, seed=seed)
    with progress_bar("writing") as progress:
        written = write_rows(output, pieces, lambda done: progress(done / max(count, 1)))
    for caveat in model.caveats:
        click.echo(f"hush: {printable(caveat)}", err=True)
    kind = "exact" if model.exact else "approximate"
    click.echo(f"Wrote {written:,} rows to {output}; nothing was spent.")
    click.echo(
        f"Model: {kind}, {readable(1e6 * model.size_mb)}, total {model.total:,.0f}, fit {printable(model.status)}."
    )
    click.echo(WARNING)


def stated_conditions(schema: hush.Schema, given: Iterable[str]) -> dict[str, list[Any]]:
    """Conditions by column from texts such as "sex=female": a level's label, or else what a schema's rules may hold.

    >>> from hush.datasets import people_schema
    >>> stated_conditions(people_schema(), ["region=North", "region=East", "age={to = 17}"])
    {'region': ['North', 'East'], 'age': [{'to': 17}]}
    """
    found: dict[str, list[Any]] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise click.UsageError(f"--given {printable(text)}: expected COLUMN=VALUE, such as sex=female")
        condition = _condition(schema, schema.domain.check([name.strip()])[0], value.strip())
        found.setdefault(name.strip(), []).extend(condition if isinstance(condition, list) else [condition])
    return found


def _condition(schema: hush.Schema, name: str, text: str) -> Any:
    import tomllib

    from hush.schema.conditions import Conditions

    column = Conditions(schema[name])
    try:
        column.codes(text)
        return text
    except SchemaError as error:
        try:
            parsed = tomllib.loads(f"value = {text}")
        except tomllib.TOMLDecodeError:
            raise error from None
        if set(parsed) != {"value"} or isinstance(parsed["value"], str):
            raise
        column.codes(parsed["value"])
        return parsed["value"]


def _fitted(release: hush.Release, max_size_mb: float | None) -> hush.Model:
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        return release.model(max_size_mb=max_size_mb)
    with console.status("fitting a model"):
        return release.model(max_size_mb=max_size_mb)
