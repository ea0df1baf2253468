"""File sources: the rows of files of any format, of one or of all that a pattern matches or a folder holds."""

from __future__ import annotations

import glob
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hush.core.errors import DataError, shown
from hush.tables.dialects.dialect import attempt
from hush.tables.dialects.duckdb import DUCKDB
from hush.tables.formats.csv_header import ending_of, read_csv_header
from hush.tables.formats.database_files import SQLITE, duckdb_file, is_duckdb, sqlite_file
from hush.tables.formats.spreadsheets import EXCEL_ENDINGS, read_sheet
from hush.tables.formats.standard_input import DASH, standard_input
from hush.tables.formats.standard_input import NAME as STANDARD_INPUT
from hush.tables.frames import SpellingOf, spelling_of
from hush.tables.sources import RowSource

CSV_ENDINGS = (".csv", ".tsv", ".tab", ".txt")
PARQUET_ENDINGS = (".parquet", ".pq")
UNNAMED = "check that the first line is the header and spells it so"
PARQUET, GZIP = b"PAR1", b"\x1f\x8b"  # how such files begin
PLAINLY = spelling_of()
ACCEPTED = (
    "a .csv, .tsv or .txt file (also .gz), a .parquet file or a folder of them, an .xlsx file, a file of DuckDB or "
    "SQLite, or a pattern such as 'part-*.parquet'"
)


def file_source(
    path: str | Path,
    wanted: Collection[str],
    connect: Callable[..., Any],
    *,
    table: str | None = None,
    query: str | None = None,
    spell: SpellingOf = PLAINLY,
    partly: bool = False,
) -> RowSource:
    """The source of one file, of all files that a pattern matches, of a folder of Parquet, or of standard input.

    `wanted` are the columns it will be asked for, with `partly` those of them that it has. `table` and `query` say what
    is meant of a file of a database, `table` also which sheet of a spreadsheet. `spell` is for files whose values have
    types of their own.

    Privacy: reads headers and file sizes only, but all of a spreadsheet and of standard input.
    """
    if str(path) == DASH:
        _only_with_databases(STANDARD_INPUT, table, query)
        return _from_pipe(wanted, connect)
    files = attempt(lambda: files_of(path), f"the path {shown(str(path))} cannot be looked up; check it")
    endings = {ending_of(file) for file in files}
    folder = Path(path).expanduser().is_dir()
    name = f"the {'folder' if folder else 'file' if len(files) == 1 else 'files'} {str(path)!r}"
    if len(files) == 1 and not folder:
        head = attempt(partial(_head, files[0]), f"{name} cannot be read; check that you may read it")
        if is_duckdb(head):
            return duckdb_file(name, files[0], connect, table, query)
        if head == SQLITE:
            return sqlite_file(name, files[0], wanted, connect, table, query, spell=spell, partly=partly)
        if endings <= set(EXCEL_ENDINGS):
            _only_with_databases(name, None, query)
            name, sheet = read_sheet(name, files[0], table, wanted, spell)
            columns = sheet.column_names
            return replace(DUCKDB.open_frame(name, columns, _numbered(sheet), connect()), typed=False)
    _only_with_databases(name, table, query)
    if endings <= set(PARQUET_ENDINGS):
        return _parquet(name, files, connect(), partitioned=folder and _partitioned(files, Path(path).expanduser()))
    if endings <= set(CSV_ENDINGS):
        return _csv(name, files, wanted, connect())
    raise DataError(f"{name}: cannot tell the format from the ending {min(endings)!r}; give {ACCEPTED}")


def _only_with_databases(name: str, table: str | None, query: str | None) -> None:
    if table is not None or query is not None:
        option = "table=" if query is None else "query="
        raise DataError(
            f"{option} goes with databases{'' if query else ' and spreadsheets'}, and {name} is none; drop it"
        )


def _head(file: Path) -> bytes:
    with file.open("rb") as raw:
        return raw.read(len(SQLITE))


def _from_pipe(wanted: Collection[str], connect: Callable[..., Any]) -> RowSource:
    file = standard_input()
    head = _head(file)
    if head.startswith(GZIP):
        raise DataError(f"{STANDARD_INPUT} is packed by gzip; unpack it first: gzip -dc FILE | hush ...")
    if head.startswith(PARQUET):
        return _parquet(STANDARD_INPUT, [file], connect())
    return _csv(STANDARD_INPUT, [file], wanted, connect())


def _numbered(rows: pa.Table) -> pa.Table:
    """The rows under names that differ: those of a sheet may repeat."""
    return rows.rename_columns([f"c{index}" for index in range(rows.num_columns)])


def files_of(path: str | Path) -> list[Path]:
    """The files that a path means: the path itself where it exists, else what it matches as a pattern."""
    text = str(path)
    exact = Path(path).expanduser()
    if exact.is_dir():
        return _parts(text, exact)
    if exact.is_file():
        return [exact]
    if exact.exists():
        raise DataError(f"{text!r} is not a regular file; give {ACCEPTED}")
    if not glob.has_magic(text):
        raise DataError(f"the file {text!r} does not exist; check the path")
    matches = [Path(match) for match in sorted(glob.glob(str(exact), recursive=True)) if Path(match).is_file()]
    if not matches:
        raise DataError(f"the pattern {text!r} matches no file; check the path")
    return _distinct(matches)


def _parts(text: str, folder: Path) -> list[Path]:
    """The Parquet files in a folder and below it, but for hidden ones and those that begin with an underscore."""
    for kind, log in (("Delta", "_delta_log"), ("Iceberg", "metadata/*.metadata.json"), ("Hudi", ".hoodie")):
        if any(folder.glob(log)):
            raise DataError(
                f"{text!r} is a table of {kind}, whose files also hold rows that were deleted; read it through an "
                "engine, such as Spark"
            )
    below = ((file, file.relative_to(folder).parts) for file in sorted(folder.rglob("*")))
    parts = [
        file
        for file, names in below
        if ending_of(file) in PARQUET_ENDINGS
        and not any(name.startswith(("_", ".")) for name in names)
        and file.is_file()
    ]
    if not parts:
        raise DataError(f"the folder {text!r} holds no Parquet file; give {ACCEPTED}")
    return _distinct(parts)


def _partitioned(files: Sequence[Path], folder: Path) -> bool:
    """Whether the folders on the way to the files name values, such as `year=2020`."""
    return any("=" in name for file in files for name in file.relative_to(folder).parts[:-1])


def _distinct(files: Sequence[Path]) -> list[Path]:
    """Each file once, under its first name: by a link or a doubled `**` its rows would count twice."""
    kept: dict[tuple[int, int], Path] = {}
    for file in files:
        status = file.stat()
        kept.setdefault((status.st_dev, status.st_ino), file)
    return list(kept.values())


def _parquet(name: str, files: Sequence[Path], connection: Any, *, partitioned: bool = False) -> RowSource:
    failed = f"{name} cannot be read as Parquet; check that it is complete and that all parts have the same columns"
    footers = [attempt(partial(pq.read_metadata, file), failed) for file in files]
    columns = tuple(_columns(footers[0]))
    if any(tuple(_columns(footer)) != columns for footer in footers):
        raise DataError(f"{name} differ in their columns; read them one kind at a time")
    select = DUCKDB.select_parquet(files, partitioned=partitioned)
    described, types = DUCKDB.describe(connection, select, failed)
    return RowSource(
        dialect=DUCKDB,
        name=name,
        connection=connection,
        select=select,
        columns=columns if len(columns) == len(described) else described,  # DuckDB renames those that differ in case
        types=types,
        explain=lambda trouble: failed,
        rows=sum(footer.num_rows for footer in footers),
    )


def _columns(footer: Any) -> list[str]:
    """The names of the columns of a Parquet file."""
    names: list[str] = footer.schema.to_arrow_schema().names
    return names


def _csv(name: str, files: Sequence[Path], wanted: Collection[str], connection: Any) -> RowSource:
    """All fields are text: parsing is the encoder's, so that a CSV file and a typed table agree."""
    headers = [read_csv_header(file, wanted, name=name if len(files) == 1 else None) for file in files]
    if any(header != headers[0] for header in headers):
        raise DataError(f"{name} differ in their columns; read them one kind at a time")
    columns = headers[0].columns
    if wanted and not set(wanted).intersection(columns):
        # without a header line the first line is somebody's row, which no message may show
        raise DataError(f"{name}: none of the schema's columns is in the first line; it must be the header")
    packed = any(file.suffix.lower() == ".gz" for file in files)
    volume = sum(file.stat().st_size for file in files) * (8 if packed else 1)
    return RowSource(
        dialect=DUCKDB,
        name=name,
        connection=connection,
        select=DUCKDB.select_csv(files, len(columns), headers[0].delimiter),
        columns=columns,
        types=(DUCKDB.text_type,) * len(columns),
        advice=UNNAMED,
        typed=False,
        explain=lambda trouble: DUCKDB.explain_csv(name, trouble),
        rows=volume / (4 * max(1, len(columns))),  # about four bytes a field, with its delimiter
    )
