"""Spreadsheets: a sheet of an Excel file, read by openpyxl where that is installed."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pyarrow as pa

from hush.errors import DataError
from hush.tables import frames
from hush.tables.dialects.dialect import attempt

EXCEL_ENDINGS = (".xlsx", ".xlsm")


def read_sheet(
    name: str, file: Path, sheet: str | None, wanted: Collection[str], spell: frames.SpellingOf
) -> tuple[str, pa.Table]:
    """The rows of a sheet as text, under the names in its first row, and what messages call it.

    A cell with a formula has the value that was last computed. Rows without any value are left out.

    Privacy: reads the whole sheet. No message quotes a cell, not even of the first row.
    """
    try:
        import openpyxl
    except ImportError:
        raise DataError(f"{name}: reading Excel needs openpyxl; run: pip install 'hush[excel]'") from None
    failed = f"{name} cannot be read as an Excel file; check that it is complete and has no password"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of features that do not touch values
        book = attempt(lambda: openpyxl.load_workbook(file, read_only=True, data_only=True), failed)
        try:
            page = _page(name, book, sheet)
            rows = attempt(
                lambda: [row for row in page.iter_rows(values_only=True) if any(x is not None for x in row)], failed
            )
        finally:
            book.close()
    name = f"the sheet {page.title!r} of {name}"
    if not rows:
        raise DataError(f"{name} is empty; a table without rows still needs the names of its columns in the first row")
    width = max(map(len, rows))
    header = ["" if cell is None else str(cell) for cell in _wide(rows[0], width)]
    columns = [cell if cell in wanted else cell.strip() for cell in header]
    while columns and not columns[-1] and all(_wide(row, width)[len(columns) - 1] is None for row in rows):
        columns.pop()
    if wanted and not set(wanted).intersection(columns):
        raise DataError(f"{name}: none of the schema's columns is in the first row; it must hold the names")
    kept = [at for at, column in enumerate(columns) if not wanted or column in wanted]
    lists = [[_wide(row, width)[at] for row in rows[1:]] for at in kept]
    return name, frames.from_lists([columns[at] for at in kept], lists, spell)


def _page(name: str, book: Any, sheet: str | None) -> Any:
    sheets = book.sheetnames
    if sheet is None and len(sheets) == 1:
        return book[sheets[0]]
    listed = ", ".join(map(repr, sheets))
    if sheet is None:
        raise DataError(f"{name} has several sheets; say which with table= (on the command line --table): {listed}")
    if sheet not in sheets:
        raise DataError(f"{name} has no sheet {sheet!r}; it has {listed}")
    return book[sheet]


def _wide(row: tuple[Any, ...], width: int) -> tuple[Any, ...]:
    return row + (None,) * (width - len(row))
