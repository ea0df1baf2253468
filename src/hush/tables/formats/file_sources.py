"""File sources: the rows of one file of any format, of all files that a pattern matches, of a folder, or of a pipe.

Drafting a schema and reading a table cut a CSV file into the same columns, by its first line alone (`read_csv_header`),
so that the columns do not depend on the rows. Standard input is copied to a file first (`standard_input`): a pipe can
be read once, while drafting, checking and comparing read several times.
"""

from __future__ import annotations

import atexit
import csv
import glob
import gzip
import io
import os
import sys
import tempfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, Any

import pyarrow.parquet as pq

from hush.core.errors import DataError, SizeError, shown
from hush.core.memory import memory_limit, readable
from hush.files.csv_cells import cell_text
from hush.tables.dialects.dialect import attempt
from hush.tables.dialects.duckdb import DUCKDB
from hush.tables.formats.database_files import SQLITE_START, duckdb_file, sqlite_file
from hush.tables.formats.spreadsheets import EXCEL_ENDINGS, read_sheet
from hush.tables.frames import PLAIN_SPELLING, SpellingOf
from hush.tables.sources import RowSource

CSV_ENDINGS = (".csv", ".tsv", ".tab", ".txt")
TAB_ENDINGS = (".tsv", ".tab")
PARQUET_ENDINGS = (".parquet", ".pq")
CSV_DELIMITERS = (",", ";", "\t", "|")
LONGEST_HEADER = 2**20  # bytes
PARQUET_START, GZIP_START = b"PAR1", b"\x1f\x8b"  # how such files begin
ACCEPTED_FILES = (
    "a .csv, .tsv or .txt file (also .gz), a .parquet file or a folder of them, an .xlsx file, a file of DuckDB or "
    "SQLite, or a pattern such as 'part-*.parquet'"
)
STANDARD_INPUT_PATH = "-"
STANDARD_INPUT = "standard input"  # what messages call it
_copied_pipes: list[tuple[object, Path]] = []  # each pipe that was read, and the file with its content


def file_source(
    path: str | Path,
    wanted: Collection[str],
    connect: Callable[..., Any],
    *,
    table: str | None = None,
    query: str | None = None,
    spell: SpellingOf = PLAIN_SPELLING,
    partly: bool = False,
) -> RowSource:
    """The source of one file, of all files that a pattern matches, of a folder of Parquet, or of standard input.

    `wanted` are the columns that the caller needs; with `partly`, some may be absent. `table` and `query` select from a
    database file, and `table` names a sheet of a spreadsheet. `spell` turns values of typed cells into text.

    Privacy: reads headers and file sizes only, but all of a spreadsheet and of standard input.
    """
    # Standard input holds CSV or Parquet.
    if str(path) == STANDARD_INPUT_PATH:
        _only_with_databases(STANDARD_INPUT, table, query)
        pipe = standard_input()
        head = _head(pipe)
        if head.startswith(GZIP_START):
            raise DataError(f"{STANDARD_INPUT} is compressed with gzip; decompress it first: gzip -dc FILE | hush ...")
        if head.startswith(PARQUET_START):
            return _parquet(STANDARD_INPUT, [pipe], connect())
        return _csv(STANDARD_INPUT, [pipe], wanted, connect())
    # The first bytes of a single file tell DuckDB and SQLite, its ending a spreadsheet.
    files = attempt(lambda: files_of(path), f"the path {shown(str(path))} cannot be looked up; check it")
    endings = {ending_of(file) for file in files}
    folder = Path(path).expanduser().is_dir()
    name = f"the {'folder' if folder else 'file' if len(files) == 1 else 'files'} {str(path)!r}"
    if len(files) == 1 and not folder:
        head = attempt(partial(_head, files[0]), f"{name} cannot be read; check that you may read it")
        if head[8:12] == b"DUCK":
            return duckdb_file(name, files[0], connect, table, query)
        if head == SQLITE_START:
            return sqlite_file(name, files[0], wanted, connect, table, query, spell=spell, partly=partly)
        if endings <= set(EXCEL_ENDINGS):
            _only_with_databases(name, None, query)
            name, sheet = read_sheet(name, files[0], table, wanted, spell)
            numbered = sheet.rename_columns([f"c{at}" for at in range(sheet.num_columns)])  # names may repeat
            return replace(DUCKDB.open_frame(name, sheet.column_names, numbered, connect()), typed=False)
    # One or several files of CSV or Parquet; folders such as `year=2020` are a column of Parquet.
    _only_with_databases(name, table, query)
    if endings <= set(PARQUET_ENDINGS):
        below = [file.relative_to(Path(path).expanduser()).parts[:-1] for file in files] if folder else []
        partitioned = any("=" in part for parts in below for part in parts)
        return _parquet(name, files, connect(), partitioned=partitioned)
    if endings <= set(CSV_ENDINGS):
        return _csv(name, files, wanted, connect())
    raise DataError(f"{name}: cannot tell the format from the ending {min(endings)!r}; give {ACCEPTED_FILES}")


def _only_with_databases(name: str, table: str | None, query: str | None) -> None:
    if table is not None or query is not None:
        option = "table=" if query is None else "query="
        raise DataError(
            f"{option} goes with databases{'' if query else ' and spreadsheets'}, and {name} is none; drop it"
        )


def _head(file: Path) -> bytes:
    with file.open("rb") as raw:
        return raw.read(len(SQLITE_START))


def files_of(path: str | Path) -> list[Path]:
    """The files that a path means: the path itself where it exists, else what it matches as a pattern."""
    text = str(path)
    exact = Path(path).expanduser()
    if exact.is_dir():
        return _parts(text, exact)
    if exact.is_file():
        return [exact]
    if exact.exists():
        raise DataError(f"{text!r} is not a regular file; give {ACCEPTED_FILES}")
    if not glob.has_magic(text):
        raise DataError(f"the file {text!r} does not exist; check the path")
    matches = [Path(match) for match in sorted(glob.glob(str(exact), recursive=True)) if Path(match).is_file()]
    if not matches:
        raise DataError(f"the pattern {text!r} matches no file; check the path")
    return _distinct(matches)


def _parts(text: str, folder: Path) -> list[Path]:
    """The Parquet files in a folder and below it, except those whose path has a name that begins with . or _."""
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
        raise DataError(f"the folder {text!r} holds no Parquet file; give {ACCEPTED_FILES}")
    return _distinct(parts)


def _distinct(files: Sequence[Path]) -> list[Path]:
    """Each file once, under its first name: through a link or a doubled `**` its rows would count twice."""
    first: dict[tuple[int, int], Path] = {}
    for file in files:
        status = file.stat()
        first.setdefault((status.st_dev, status.st_ino), file)
    return list(first.values())


def _parquet(name: str, files: Sequence[Path], connection: Any, *, partitioned: bool = False) -> RowSource:
    failed = f"{name} cannot be read as Parquet; check that it is complete and that all parts have the same columns"
    footers = [attempt(partial(pq.read_metadata, file), failed) for file in files]
    columns, *others = (tuple(footer.schema.to_arrow_schema().names) for footer in footers)
    if any(names != columns for names in others):
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


def _csv(name: str, files: Sequence[Path], wanted: Collection[str], connection: Any) -> RowSource:
    """All fields are text: the encoding parses them, so that a CSV file and a typed table agree."""
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
        advice="check that the first line is the header and spells it so",
        typed=False,
        explain=lambda trouble: DUCKDB.explain_csv(name, trouble),
        rows=volume / (4 * max(1, len(columns))),  # about four bytes a field, with its delimiter
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvHeader:
    """The first line of a CSV file, cut at its delimiter."""

    delimiter: str
    columns: tuple[str, ...]


def read_csv_header(file: Path, wanted: Collection[str] = (), *, name: str | None = None) -> CsvHeader:
    """The header, cut at the delimiter that gives most of the wanted names.

    Ties go to a delimiter that fits the quotes of the line, then to the tab in a .tsv or .tab file, then to the
    delimiter with most columns, then to the comma. Names are trimmed, unless a wanted name has the spaces or nothing is
    wanted. A wanted name is also found with the apostrophe that hush writes before names that begin like a formula.

    Privacy: in a file without a header the first line is somebody's row, so no message quotes it.
    """
    name = name or f"the file {str(file)!r}"
    text = _first_text(file, name)
    failed = f"{name} cannot be read; check that it is a text file and that you may read it"
    tabs = ending_of(file) in TAB_ENDINGS
    cells = {cell_text(column): column for column in wanted if cell_text(column) != column}
    choices: dict[tuple[int, bool, bool, int], CsvHeader] = {}
    for delimiter in CSV_DELIMITERS:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=False)
        names = attempt(partial(next, reader), failed)
        columns = tuple(
            cell if not wanted or cell in wanted else cells.get(cell) or cells.get(cell.strip()) or cell.strip()
            for cell in names
        )
        declared = tabs and delimiter == "\t" and len(columns) > 1
        score = (len({*columns}.intersection(wanted)), _quotes_fit(text, delimiter), declared, len(columns))
        choices.setdefault(score, CsvHeader(delimiter=delimiter, columns=columns))
    header = choices[max(choices)]
    if any("\n" in column or "\r" in column for column in header.columns):
        # DuckDB would take it for the kind of line end that the file has, and find no rows
        raise DataError(f"{name} has a line break in the name of a column; rename it")
    if any("\ufffd" in column for column in header.columns):
        raise DataError(f"{name} is not UTF-8 text; convert it, for example with iconv")
    return header


def ending_of(file: Path) -> str:
    """The ending that names the format, in lower case, without .gz."""
    endings = [ending.lower() for ending in file.suffixes]
    if endings[-1:] == [".gz"]:
        endings.pop()
    return endings[-1] if endings else ""


def _first_text(file: Path, name: str) -> str:
    """The text at the start of a file; bytes that are not UTF-8 are replaced."""
    failed = f"{name} cannot be read; check that it is a text file and that you may read it"

    def start() -> bytes:
        with file.open("rb") as raw:
            if file.suffix.lower() != ".gz":
                return raw.read(LONGEST_HEADER)
            with gzip.open(raw) as unpacked:
                return unpacked.read(LONGEST_HEADER)

    head = attempt(start, failed)
    if not head.strip():
        raise DataError(f"{name} is empty; a table without rows still needs its header line")
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError(f"{name} is UTF-16 text; save it as UTF-8")
    if len(head) == LONGEST_HEADER and b"\n" not in head and b"\r" not in head:
        raise DataError(f"the first line of {name} has more than {LONGEST_HEADER} bytes; is it CSV?")
    return head.removeprefix(b"\xef\xbb\xbf").decode("utf-8", errors="replace")


def _quotes_fit(text: str, delimiter: str) -> bool:
    """Whether each quote in the first line opens or closes a field."""
    try:
        next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
    except csv.Error:
        return False
    return True


def standard_input() -> Path:
    """A file with the content of standard input, which is read at the first call.

    Privacy: the file lies in memory alone where the system allows that; elsewhere it is a temporary file that only this
    user can read, removed when the program ends.
    """
    pipe = getattr(sys.stdin, "buffer", None)
    if pipe is None or pipe.closed or sys.stdin.isatty():
        raise DataError(
            f"nothing comes through {STANDARD_INPUT}; pipe a CSV or Parquet file into it, or give its path instead"
        )
    for known, path in _copied_pipes:
        if known is pipe:
            return path
    file: IO[bytes]
    if hasattr(os, "memfd_create"):
        number = os.memfd_create("hush")
        file, path = os.fdopen(number, "wb"), Path(f"/proc/self/fd/{number}")
    else:
        file = tempfile.NamedTemporaryFile(prefix="hush-")  # noqa: SIM115
        path = Path(file.name)
    room = memory_limit(None) // 2
    while chunk := pipe.read(2**20):
        room -= len(chunk)
        if room < 0:
            file.close()
            raise SizeError(
                f"{STANDARD_INPUT} holds more than {readable(memory_limit(None) // 2)}; give the path of a file instead"
            )
        file.write(chunk)
    file.flush()
    _copied_pipes.append((pipe, path))
    atexit.register(file.close)
    return path
