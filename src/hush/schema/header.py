"""Header: the column names and declared types of a data file, found without looking at its rows."""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq

from hush.errors import DataError

LONGEST_HEADER = 2**20
_DELIMITERS = (",", ";", "\t", "|")
_TEXT_ENDINGS = (".csv", ".tsv", ".txt")
_PARQUET_ENDINGS = (".parquet", ".pq")
UNKNOWN, UNSUPPORTED = "", "unsupported"


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """Names and kinds of the columns, and the table expression by which DuckDB reads the rows.

    A kind is `UNKNOWN` where the file declares no type and `UNSUPPORTED` where no kind of column holds it.
    """

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    source: str


def read_header(path: Path) -> Header:
    """The header of a CSV or Parquet file.

    Privacy: reads the first line of a CSV file, or the schema of a Parquet file; no cell, and none of the
    minima, maxima and counts that a Parquet file keeps beside its data. Errors name columns by position: in
    a file without a header line the first line is a person's row.
    """
    endings = [ending.lower() for ending in path.suffixes if ending.lower() != ".gz"]
    ending = endings[-1] if endings else ""
    if ending not in (*_TEXT_ENDINGS, *_PARQUET_ENDINGS):
        raise DataError(f"{path}: cannot tell the format from the name; expected .csv, .tsv or .parquet")
    try:
        header = _parquet_header(path) if ending in _PARQUET_ENDINGS else _text_header(path)
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file; check the path of the data") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or 'it is damaged'}") from None
    _check_names(path, header.names)
    return header


def _check_names(path: Path, names: tuple[str, ...]) -> None:
    if not names:
        raise DataError(f"{path}: there are no columns; expected at least one")
    first: dict[str, int] = {}
    for position, name in enumerate(names, start=1):
        if not name.strip():
            raise DataError(f"{path}: column {position} has no name; give every column a name")
        if name in first:
            raise DataError(f"{path}: columns {first[name]} and {position} have the same name; rename one")
        first[name] = position


def _text_header(path: Path) -> Header:
    records = {mark: record for mark in _DELIMITERS if (record := _first_record(path, mark)) is not None}
    if not records:
        raise DataError(f"{path}: the first line is not a header of comma-separated names")
    delimiter = max(records, key=lambda mark: len(records[mark]))  # the first of the best, so a comma if none
    names = tuple(records[delimiter])
    columns = ", ".join(f"'c{k}': 'VARCHAR'" for k in range(len(names)))
    source = (
        f"read_csv({sql_path(path)}, auto_detect = false, header = true, delim = '{delimiter}', quote = '\"', "
        f"escape = '\"', columns = {{{columns}}})"
    )
    return Header(names=names, kinds=(UNKNOWN,) * len(names), source=source)


def _first_record(path: Path, delimiter: str) -> list[str] | None:
    """The first line cut at a delimiter; None where its quotes do not fit that delimiter."""
    opener = gzip.open if path.suffix.lower() == ".gz" else open
    try:
        with opener(path, "rb") as file:
            record = next(csv.reader(_lines(path, file), delimiter=delimiter, strict=True), None)  # type: ignore[arg-type]
    except UnicodeDecodeError:
        raise DataError(f"{path}: the header is not UTF-8 text; save the file as UTF-8") from None
    except csv.Error:
        return None
    except EOFError:
        raise DataError(f"{path}: the compressed file is cut short or damaged") from None
    if record is None:
        raise DataError(f"{path}: the file is empty; expected a first line of column names")
    return record


def _lines(path: Path, file: IO[bytes]) -> Iterator[str]:
    encoding = "utf-8-sig"
    while line := file.readline(LONGEST_HEADER + 1):
        if len(line) > LONGEST_HEADER:
            raise DataError(f"{path}: the first line is longer than {LONGEST_HEADER} bytes; is this a CSV file?")
        yield line.decode(encoding)
        encoding = "utf-8"


def _parquet_header(path: Path) -> Header:
    try:
        schema = pq.read_schema(path)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise DataError(f"{path}: not a Parquet file, or a damaged one") from None
    aliases = ", ".join(f"c{k}" for k in range(len(schema.names)))
    source = f"read_parquet({sql_path(path)}) AS source({aliases})"
    return Header(names=tuple(schema.names), kinds=tuple(_kind(field.type) for field in schema), source=source)


def _kind(declared: pa.DataType) -> str:
    if pa.types.is_dictionary(declared):
        declared = declared.value_type
    checks = {
        "boolean": (pa.types.is_boolean,),
        "integer": (pa.types.is_integer,),
        "numeric": (pa.types.is_floating, pa.types.is_decimal),
        "date": (pa.types.is_date, pa.types.is_timestamp),
        "categorical": (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    }
    return next((kind for kind, tests in checks.items() if any(test(declared) for test in tests)), UNSUPPORTED)


def sql_path(path: Path) -> str:
    """The path as a literal that DuckDB does not take for a pattern."""
    plain = re.sub(r"([\[*?])", r"[\1]", str(path.absolute()))
    return "'" + plain.replace("'", "''") + "'"
