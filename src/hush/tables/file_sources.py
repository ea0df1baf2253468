"""File sources: the rows of CSV and Parquet files, of one or of all that a pattern matches."""

from __future__ import annotations

import glob
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from hush.errors import DataError, shown
from hush.tables.csv_header import ending_of, read_csv_header
from hush.tables.dialects.dialect import attempt
from hush.tables.dialects.duckdb import DUCKDB
from hush.tables.sources import RowSource

CSV_ENDINGS = (".csv", ".tsv", ".tab", ".txt")
PARQUET_ENDINGS = (".parquet", ".pq")
UNNAMED = "check that the first line is the header and spells it so"
ACCEPTED = "a .csv, .tsv or .txt file (also .gz) or a .parquet file, or a pattern such as 'part-*.parquet'"


def file_source(path: str | Path, wanted: Collection[str], connect: Callable[[], Any]) -> RowSource:
    """The source of one file, or of all files that a pattern matches; `wanted` are the columns it will be asked for.

    Privacy: reads headers and file sizes only.
    """
    files = attempt(lambda: _files(path), f"the path {shown(str(path))} cannot be looked up; check it")
    endings = {ending_of(file) for file in files}
    name = f"the file {str(path)!r}" if len(files) == 1 else f"the files {str(path)!r}"
    if endings <= set(PARQUET_ENDINGS):
        return _parquet(name, files, connect())
    if endings <= set(CSV_ENDINGS):
        return _csv(name, files, wanted, connect())
    raise DataError(f"{name}: cannot tell the format from the ending {min(endings)!r}; give {ACCEPTED}")


def _files(path: str | Path) -> list[Path]:
    """The files meant: the path itself where it exists, else what it matches as a pattern."""
    text = str(path)
    exact = Path(path).expanduser()
    if exact.is_dir():
        raise DataError(f"{text!r} is a folder; give {ACCEPTED}")
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


def _distinct(files: Sequence[Path]) -> list[Path]:
    """Each file once, under its first name: by a link or a doubled `**` its rows would count twice."""
    kept: dict[tuple[int, int], Path] = {}
    for file in files:
        status = file.stat()
        kept.setdefault((status.st_dev, status.st_ino), file)
    return list(kept.values())


def _parquet(name: str, files: Sequence[Path], connection: Any) -> RowSource:
    failed = f"{name} cannot be read as Parquet; check that it is complete and that all parts have the same columns"
    footers = [attempt(partial(pq.ParquetFile, file), failed) for file in files]
    columns = tuple(footers[0].schema_arrow.names)
    if any(tuple(footer.schema_arrow.names) != columns for footer in footers):
        raise DataError(f"{name} differ in their columns; read them one kind at a time")
    select = DUCKDB.select_parquet(files)
    described, types = DUCKDB.describe(connection, select, failed)
    return RowSource(
        dialect=DUCKDB,
        name=name,
        connection=connection,
        select=select,
        columns=columns if len(columns) == len(described) else described,  # DuckDB renames those that differ in case
        types=types,
        explain=lambda trouble: failed,
        rows=sum(footer.metadata.num_rows for footer in footers),
    )


def _csv(name: str, files: Sequence[Path], wanted: Collection[str], connection: Any) -> RowSource:
    """All fields are text: parsing is the encoder's, so that a CSV file and a typed table agree."""
    headers = [read_csv_header(file, wanted) for file in files]
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
        explain=lambda trouble: DUCKDB.explain_csv(name, trouble),
        rows=volume / (4 * max(1, len(columns))),  # about four bytes a field, with its delimiter
    )
