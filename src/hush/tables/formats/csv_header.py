"""CSV header: the delimiter and the column names of a text file, from its first line alone.

Drafting a schema and reading a table both start here, so that both cut a file into the same columns. Only the first
line is read, so how a file is cut does not depend on its rows.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from hush.core.errors import DataError
from hush.files.csv_cells import cell_text
from hush.tables.dialects.dialect import attempt

DELIMITERS = (",", ";", "\t", "|")
TAB_ENDINGS = (".tsv", ".tab")
LONGEST_HEADER = 2**20  # bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvHeader:
    """The first line of a CSV file, cut at its delimiter."""

    delimiter: str
    columns: tuple[str, ...]


def read_csv_header(file: Path, wanted: Collection[str] = (), *, name: str | None = None) -> CsvHeader:
    """The header under the delimiter that gives most of the wanted names.

    Ties go to a delimiter that fits the quotes of the line, then to the tab in a file whose ending promises tabs, then
    to the one with most columns, then to the comma. Names lose the spaces at their ends, unless they are wanted with
    them or nothing is wanted. A wanted name that hush writes with an apostrophe in front is found by that spelling too.

    Privacy: in a file without a header the first line is somebody's row, so no message quotes it.
    """
    name = name or f"the file {str(file)!r}"
    text = _first_text(file, name)
    failed = f"{name} cannot be read; check that it is a text file and that you may read it"
    tabs = ending_of(file) in TAB_ENDINGS
    cells = {cell_text(name): name for name in wanted if cell_text(name) != name}
    choices: dict[tuple[int, bool, bool, int], CsvHeader] = {}
    for delimiter in DELIMITERS:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=False)
        names = attempt(partial(next, reader), failed)
        columns = tuple(name if not wanted or name in wanted else _wanted_name(name, cells) for name in names)
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


def _wanted_name(cell: str, cells: Mapping[str, str]) -> str:
    """The name that a cell stands for, in a file that hush wrote or in any other."""
    return cells.get(cell) or cells.get(cell.strip()) or cell.strip()


def ending_of(file: Path) -> str:
    """The ending that names the format, in lower case, without that of compression."""
    endings = [ending.lower() for ending in file.suffixes]
    if endings[-1:] == [".gz"]:
        endings.pop()
    return endings[-1] if endings else ""


def _first_text(file: Path, name: str) -> str:
    """The text at the start of a file, with what is not UTF-8 replaced."""
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
