"""`hush synth`: write synthetic rows from a release or a model, at no cost."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

import hush
from hush.cli.long_work import long_work
from hush.cli.model_command import APPROXIMATE_NOTE, fitted, say, summary
from hush.cli.options import PATH, STDOUT, OutputOptions, Whole, output_options
from hush.cli.query_command import shown_texts
from hush.core.errors import HushError, SchemaError, printable, shown
from hush.files.atomic_write import atomic_write

if TYPE_CHECKING:
    import pyarrow as pa

OUTPUT_SUFFIXES = (".csv", ".csv.gz", ".parquet")


def ending(output: Path) -> str:
    """The ending of a name, one of OUTPUT_SUFFIXES; any other is refused. Standard output, -, is CSV.

    >>> ending(Path("rows.CSV.gz")), ending(Path("-"))
    ('.csv.gz', '.csv')
    """
    if output == STDOUT:
        return ".csv"
    for known in OUTPUT_SUFFIXES:
        if output.name.lower().endswith(known):
            return known
    problem = f"ends in {output.suffix!r}" if output.suffix else "has no ending"
    raise HushError(
        f"{output} {problem}: expected a name that ends in {', '.join(OUTPUT_SUFFIXES[:-1])} or {OUTPUT_SUFFIXES[-1]}"
    )


def check_cells(output: Path, schema: hush.Schema) -> None:
    """Refuse CSV for levels that it cannot tell apart: one that is spelled as another one's cell."""
    from hush.schema import Categorical

    for column in schema if ending(output) != ".parquet" else ():
        if isinstance(column, Categorical):
            for cell in set(column.csv_cells).intersection((*column.texts, *column.missing_texts)):
                level = column.label(column.csv_cells[cell])
                raise HushError(
                    f"column {column.name!r} has {shown(level)} and {shown(cell)}, which is how CSV spells the first; "
                    "write a .parquet file instead"
                )


def write_rows(output: Path, pieces: Iterable[pa.Table], progress: Callable[[int], None]) -> int:
    """Write tables one after the other, all or nothing; returns the number of rows, `progress` gets those so far."""
    rows, writer, kind = 0, None, ending(output)
    with _opened(output, kind) as file:
        for piece in pieces:
            writer = writer or _writer(kind, file, piece.schema)
            writer.write_table(shown_texts(piece) if output == STDOUT and sys.stdout.isatty() else piece)
            rows += piece.num_rows
            progress(rows)
        if writer is not None:
            writer.close()
    return rows


@contextmanager
def _opened(output: Path, kind: str) -> Iterator[Any]:
    """What to write to: a new file, compressed if its name says so, or standard output."""
    if output == STDOUT:
        stream = sys.stdout.buffer
        try:
            yield stream
            stream.flush()
        except BrokenPipeError:  # the reader has enough, as `head` does
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise click.exceptions.Exit(1) from None
        return
    with atomic_write(output) as file:
        if kind != ".csv.gz":
            yield file
            return
        import gzip

        with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:  # equal rows give equal bytes
            yield packed


def _writer(kind: str, file: Any, schema: pa.Schema) -> Any:
    if kind != ".parquet":
        from hush.files.csv_cells import CsvWriter

        return CsvWriter(file, schema)
    from pyarrow.parquet import ParquetWriter

    return ParquetWriter(file, schema)


SYNTHETIC_ROWS_NOTE = (
    "Standard errors computed from synthetic rows as if they were real are too small: they leave out the noise that "
    "made the release private."
)


@click.command()
@click.argument("file", type=PATH)
@click.option("--rows", type=Whole(), help="Number of rows.  [default: the estimated number of records]")
@output_options("File to write: .csv, .csv.gz or .parquet; - for CSV on standard output.", required=True)
@click.option(
    "--method",
    type=click.Choice(["rounding", "sampling"]),
    default="rounding",
    show_default=True,
    help="rounding keeps the tables of the model; sampling draws each row independently.",
)
@click.option("--seed", type=Whole(), help="Gives the same rows again. It is public.")
@click.option(
    "--given",
    multiple=True,
    metavar="COLUMN=VALUE",
    help="Only rows with this value: a level, or a condition as in a schema, such as 'age={from = 18, to = 30}'; "
    "several values of one column mean any of them.",
)
@click.option(
    "--copies",
    type=Whole(),
    help="Write this many files, each drawn anew: FILE-1.csv, FILE-2.csv and so on. They differ only by sampling.",
)
@click.option(
    "--max-size-mb",
    type=click.FloatRange(min=0, min_open=True),
    help="Largest exact model; above it an approximate one is fitted.",
)
def synth(
    file: Path,
    rows: int | None,
    output: OutputOptions,
    method: Any,
    seed: int | None,
    given: tuple[str, ...],
    copies: int | None,
    max_size_mb: float | None,
) -> None:
    """Write synthetic rows from a release or a model. Spends nothing.

    FILE is a model or a release. A release without a model gets one fitted first. In CSV, a text that a spreadsheet
    would take for a formula, such as =1+1, gets an apostrophe in front; hush reads it back without. Parquet keeps texts
    as they are.
    """
    from hush.loading import load_release_or_model
    from hush.release.copies import COPIES_WARNING, copy_seeds
    from hush.schema.number_spelling import spelled_numbers

    # Check the options and load or fit the model.
    target = cast(Path, output.path)
    ending(target)
    if output.stdout and copies is not None:
        raise click.UsageError("--copies writes several files; give -o a file name")
    seeds = [seed] if copies is None else copy_seeds(copies, seed)
    outputs = [target] if copies is None else numbered(target, copies)
    for path in outputs:
        OutputOptions(path, output.force).check(file, stdout=True)
    loaded = load_release_or_model(file)
    check_cells(target, loaded.schema)
    conditions = stated_conditions(loaded.schema, given)
    if isinstance(loaded, hush.Model) and max_size_mb is not None:
        raise click.UsageError(f"{file} is a model, whose size is known; leave --max-size-mb out")
    model = loaded if isinstance(loaded, hush.Model) else fitted(loaded, max_size_mb=max_size_mb)
    count = round(model.total) if rows is None else rows

    # Write each copy piece by piece.
    written = 0
    with long_work("writing rows", "usually seconds, longer for many rows") as progress:
        for index, (path, copy_seed) in enumerate(zip(outputs, seeds, strict=True)):
            pieces = model.batches(count, method=method, given=conditions, seed=copy_seed)
            if ending(path) != ".parquet":  # CSV is text, and so read as the schema spells numbers
                pieces = (spelled_numbers(piece, loaded.schema.spellings) for piece in pieces)

            def on_rows(done: int, before: int = index) -> None:
                progress((before + done / max(count, 1)) / len(outputs))

            written = write_rows(path, pieces, on_rows)

    where = "standard output" if output.stdout else outputs[0]
    where = f"each of {outputs[0]} to {outputs[-1]}" if len(outputs) > 1 else where
    _say_written(model, written, where, SYNTHETIC_ROWS_NOTE if copies is None else COPIES_WARNING, err=output.stdout)


def _say_written(model: hush.Model, rows: int, where: str | Path, note: str, *, err: bool) -> None:
    """Say what was written and what to mind; on stderr if the rows went to stdout."""
    for caveat in model.caveats:
        say(f"hush: {printable(caveat)}", err=True)
    click.echo(f"Wrote {rows:,} rows to {where}; nothing was spent.", err=err)
    click.echo(summary(model), err=err)
    if rows and not model.exact:
        say(APPROXIMATE_NOTE, err=err)
    if rows:
        say(note, err=err)


def numbered(output: Path, copies: int) -> list[Path]:
    """The files of several copies, numbered before the ending.

    >>> [path.name for path in numbered(Path("rows.csv"), 2)]
    ['rows-1.csv', 'rows-2.csv']
    """
    width, end = len(str(copies)), len(ending(output))
    stem, suffix = output.name[:-end], output.name[-end:]
    return [output.with_name(f"{stem}-{number:0{width}}{suffix}") for number in range(1, copies + 1)]


def stated_conditions(schema: hush.Schema, given: Iterable[str]) -> dict[str, list[Any]]:
    """Conditions by column from texts such as "sex=female": a level's label, or a condition as in a schema's rules.

    >>> from hush.datasets import people_schema
    >>> stated_conditions(people_schema(), ["region=North", "region=East", "age={to = 17}"])
    {'region': ['North', 'East'], 'age': [{'to': 17}]}
    """
    conditions: dict[str, list[Any]] = {}
    for text in given:
        _check_sign(schema, text)
        name, equals, value = text.partition("=")
        if not equals:
            raise click.UsageError(f"--given {printable(text)}: expected COLUMN=VALUE, such as sex=female")
        condition = _condition(schema, schema.domain.check([name.strip()])[0], value.strip())
        conditions.setdefault(name.strip(), []).extend(condition if isinstance(condition, list) else [condition])
    return conditions


def _check_sign(schema: hush.Schema, text: str) -> None:
    """Refuse a comparison, and suggest the range that says the same."""
    compared = re.fullmatch(r"\s*(.*?)\s*(>=|<=|!=|<>|>|<)\s*(.*)", text, flags=re.DOTALL)
    if compared is None or compared[1] not in schema.domain or text.partition("=")[0].strip() in schema.domain:
        return
    name, sign, value = (printable(group) for group in compared.groups())
    ways = {
        ">=": f"write {name}={{from = {value}}}",
        "<=": f"write {name}={{to = {value}}}",
        ">": f"write a range such as {name}={{from = {value}}}, which includes its end",
        "<": f"write a range such as {name}={{to = {value}}}, which includes its end",
    }
    way = ways.get(sign, f"name the values to keep, such as {name}=VALUE")
    raise click.UsageError(f"--given {printable(text)}: {sign} is not understood; {way}")


def _condition(schema: hush.Schema, name: str, text: str) -> Any:
    from hush.schema.conditions import Conditions
    from hush.schema.schema_toml import parse_toml

    column = Conditions(schema[name])
    try:
        column.codes(text)
        return text
    except SchemaError as error:
        try:
            parsed = parse_toml(f"value = {text}")
        except SchemaError:
            raise error from None
        if set(parsed) != {"value"} or isinstance(parsed["value"], str):
            raise
        column.codes(parsed["value"])
        return parsed["value"]
