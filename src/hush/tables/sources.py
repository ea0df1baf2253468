"""Source: rows that DuckDB can read, wherever they lie.

CSV and Parquet files as sources.
"""

from __future__ import annotations

import csv
import difflib
import glob
import gzip
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hush.errors import DataError, shown
from hush.schema import Schema
from hush.tables import engine
from hush.tables.sql_types import literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A SELECT over a connection, and what messages call it.

    `rows` is about how many rows there are, where that is known without reading them; private. A source that is read
    `once` is used up by it.
    """

    name: str
    connection: Any
    select: str
    columns: tuple[str, ...]  # names as the source has them, possibly repeated
    types: tuple[str, ...]  # of DuckDB
    advice: str = ""  # for a column that is not there, instead of a name that is: that may be somebody's cell
    frames: Mapping[str, pa.Table | pa.RecordBatchReader] = field(default_factory=dict)
    explain: engine.Explain | None = None
    rows: float | None = None
    once: bool = False

    @contextmanager
    def session(self) -> Iterator[Any]:
        """A session on the connection in which the source can be read."""
        session = engine.attempt(lambda: engine.open_session(self.connection, dict(self.frames)), self.failure)
        try:
            yield session
        finally:
            session.close()

    def failure(self, trouble: str) -> str:
        """What to say when the engine could not read the source, without quoting the engine."""
        return self.explain(trouble) if self.explain else f"{self.name} cannot be read; check it and its types"

    def position(self, name: str) -> int:
        """Where the column of this name is; refuses a name that is not there or there twice."""
        return find_column(name, self.columns, self.name, self.advice)


def find_column(name: str, columns: Sequence[str], where: str, advice: str = "", *, similar: bool = True) -> int:
    """The position of a name among the columns of `where`; DataError with the likeliest cause otherwise.

    Privacy: a column of `where` is quoted only if it is the name but for case and spaces, or `similar` allows it.
    """
    found = [place for place, column in enumerate(columns) if column == name]
    if len(found) == 1:
        return found[0]
    if found:
        raise DataError(f"{where} has several columns named {name!r}; rename all but one")
    folded = [column for column in columns if column.strip().lower() == name.strip().lower()]
    near = folded or (difflib.get_close_matches(name, columns, n=1) if similar else [])
    hint = f"did you mean {near[0]!r}?" if near else "none of its columns is spelled alike"
    raise DataError(f"{where} has no column {name!r}; {advice or hint}")


DELIMITERS = (",", ";", "\t", "|")
LONGEST_HEADER = 2**20
CSV_ENDINGS = (".csv", ".tsv", ".tab", ".txt")
PARQUET_ENDINGS = (".parquet", ".pq")
UNNAMED = "check that the first line is the header and spells it so"
ACCEPTED = "a .csv, .tsv or .txt file (also .gz) or a .parquet file, or a pattern such as 'part-*.parquet'"


def file_source(path: str | Path, schema: Schema, connection: Callable[[], Any]) -> Source:
    """The source of one file, or of all files that a pattern matches.

    Privacy: reads headers and file sizes only.
    """
    files = engine.attempt(lambda: _files(path), f"the path {shown(str(path))} cannot be looked up; check it")
    endings = {_ending(file) for file in files}
    name = f"the file {str(path)!r}" if len(files) == 1 else f"the files {str(path)!r}"
    if endings <= set(PARQUET_ENDINGS):
        return _parquet(name, files, connection())
    if endings <= set(CSV_ENDINGS):
        return _csv(name, files, schema, connection())
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
    found = [Path(match) for match in sorted(glob.glob(str(exact), recursive=True)) if Path(match).is_file()]
    if not found:
        raise DataError(f"the pattern {text!r} matches no file; check the path")
    return _distinct(found)


def _distinct(files: Sequence[Path]) -> list[Path]:
    """Each file once, under its first name: by a link or a doubled `**` its rows would count twice."""
    kept: dict[tuple[int, int], Path] = {}
    for file in files:
        status = file.stat()
        kept.setdefault((status.st_dev, status.st_ino), file)
    return list(kept.values())


def _ending(file: Path) -> str:
    endings = [ending.lower() for ending in file.suffixes]
    if endings[-1:] == [".gz"]:
        endings.pop()
    return endings[-1] if endings else ""


def _listed(files: Sequence[Path]) -> str:
    """A list of paths for DuckDB, which would take characters of a pattern as such."""
    return "[" + ", ".join(literal(glob.escape(str(file))) for file in files) + "]"


def _parquet(name: str, files: Sequence[Path], connection: Any) -> Source:
    failed = f"{name} cannot be read as Parquet; check that it is complete and that all parts have the same columns"
    schemas = [engine.attempt(partial(pq.ParquetFile, file), failed) for file in files]
    rows = sum(found.metadata.num_rows for found in schemas)
    if any(found.schema_arrow.names != schemas[0].schema_arrow.names for found in schemas):
        raise DataError(f"{name} differ in their columns; read them one kind at a time")
    select = f"SELECT * FROM read_parquet({_listed(files)}, hive_partitioning = false)"
    columns, types = engine.describe(connection, select, failed)
    own = tuple(schemas[0].schema_arrow.names)  # DuckDB renames columns that differ in case only
    return Source(
        name=name,
        connection=connection,
        select=select,
        columns=own if len(own) == len(columns) else columns,
        types=types,
        explain=lambda trouble: failed,
        rows=rows,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The first line of a CSV file."""

    delimiter: str
    columns: tuple[str, ...]


def _csv(name: str, files: Sequence[Path], schema: Schema, connection: Any) -> Source:
    """All fields are text: parsing is the encoder's, so that a CSV file and a typed table agree."""
    unit = schema.unit.column
    wanted = {column.name for column in schema} | (set() if unit is None else {unit})
    headers = [read_header(file, wanted) for file in files]
    if any(header != headers[0] for header in headers):
        raise DataError(f"{name} differ in their columns; read them one kind at a time")
    header = headers[0]
    if not wanted.intersection(header.columns):
        # without a header line the first line is somebody's row, which no message may show
        raise DataError(f"{name}: none of the schema's columns is in the first line; it must be the header")
    places = range(len(header.columns))
    declared = ", ".join(f"'c{place}': 'VARCHAR'" for place in places)
    select = (
        f"SELECT * FROM read_csv({_listed(files)}, columns = {{{declared}}}, auto_detect = false, "
        f"header = true, delim = {literal(header.delimiter)}, quote = '\"', escape = '\"', nullstr = '', "
        "null_padding = false, ignore_errors = false, strict_mode = true, hive_partitioning = false)"
    )
    packed = any(file.suffix.lower() == ".gz" for file in files)
    volume = sum(file.stat().st_size for file in files) * (8 if packed else 1)
    return Source(
        name=name,
        connection=connection,
        select=select,
        columns=header.columns,
        types=("VARCHAR",) * len(header.columns),
        advice=UNNAMED,
        explain=lambda trouble: _csv_trouble(name, trouble),
        rows=volume / (4 * len(header.columns)),  # about four bytes a field, with its delimiter
    )


def read_header(file: Path, wanted: set[str]) -> Header:
    """Names of the columns, and the delimiter under which most of the wanted names appear.

    Looking at the header only keeps the way a file is read from depending on its rows.
    """
    failed = f"the file {str(file)!r} cannot be read; check that it is a text file and that you may read it"

    def start() -> bytes:
        with file.open("rb") as raw:
            if file.suffix.lower() != ".gz":
                return raw.read(LONGEST_HEADER)
            with gzip.open(raw) as unpacked:
                return unpacked.read(LONGEST_HEADER)

    head = engine.attempt(start, failed)
    if not head.strip():
        raise DataError(f"the file {str(file)!r} is empty; a table without rows still needs its header line")
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError(f"the file {str(file)!r} is UTF-16 text; save it as UTF-8")
    text = head.removeprefix(b"\xef\xbb\xbf").decode("utf-8", errors="replace")
    choices = []
    for delimiter in ("\t",) if _ending(file) in {".tsv", ".tab"} else DELIMITERS:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=False)
        names = engine.attempt(partial(next, reader), failed)
        columns = tuple(column if column in wanted else column.strip() for column in names)
        choices.append((len(wanted.intersection(columns)), len(columns), Header(delimiter=delimiter, columns=columns)))
    header = max(choices, key=lambda choice: choice[:2])[2]
    if any("\n" in column or "\r" in column for column in header.columns):
        # DuckDB would take it for the kind of line end that the file has, and find no rows
        raise DataError(f"the file {str(file)!r} has a line break in the name of a column; rename it")
    if any("�" in column for column in header.columns):
        raise DataError(f"the file {str(file)!r} is not UTF-8 text; convert it, for example with iconv")
    return header


def _csv_trouble(name: str, trouble: str) -> str:
    """Which of the usual faults the engine met, in words that hold nothing of the file."""
    if "unicode" in trouble.lower():
        return f"{name}: not UTF-8 text; convert it, for example with iconv -f latin1 -t utf-8"
    if "Expected Number of Columns" in trouble:
        return f"{name}: some rows have more or fewer fields than the header; repair or quote them"
    if "unterminated quote" in trouble:
        return f"{name}: a quoted field is not closed, or text follows its closing quote; repair it"
    if "state machine" in trouble:
        return f"{name}: not a well-formed CSV file, perhaps of mixed line ends; repair it"
    return f"{name} cannot be read as CSV; check that it is complete and well-formed"
