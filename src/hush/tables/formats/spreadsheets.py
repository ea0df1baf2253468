"""Spreadsheets: a sheet of an Excel file, read by openpyxl where that is installed."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from hush.core.errors import DataError
from hush.tables import frames
from hush.tables.dialects.dialect import attempt

EXCEL_ENDINGS = (".xlsx", ".xlsm")


def read_sheet(
    name: str, file: Path, sheet: str | None, wanted: Collection[str], spell: frames.SpellingOf
) -> tuple[str, pa.Table]:
    """What messages call a sheet, and its rows as text, under the names in its first row.

    A cell with a formula has the value that was last computed; a formula that was never computed is refused. Rows
    without any value are left out.

    Privacy: reads the whole sheet. No message quotes a cell, not even of the first row.
    """
    try:
        import openpyxl
    except ImportError:
        raise DataError(f"{name}: reading Excel needs openpyxl; run: pip install 'hush[excel]'") from None
    # Read all cells, and the addresses of formulas without a value.
    failed = f"{name} cannot be read as an Excel file; check that it is complete and has no password"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of features that do not touch values
        book = attempt(lambda: openpyxl.load_workbook(file, read_only=True, data_only=True), failed)
        try:
            listed = ", ".join(map(repr, book.sheetnames))
            if sheet is None and len(book.sheetnames) > 1:
                raise DataError(
                    f"{name} has several sheets; say which with table= (on the command line --table): {listed}"
                )
            if sheet is not None and sheet not in book.sheetnames:
                raise DataError(f"{name} has no sheet {sheet!r}; it has {listed}")
            page = book[sheet or book.sheetnames[0]]
            cells = attempt(lambda: list(page.iter_rows(values_only=True)), failed)
            uncomputed = attempt(lambda: list(_uncomputed(page)), failed)
        finally:
            book.close()
    name = f"the sheet {page.title!r} of {name}"
    rows = [row for row in cells if any(cell is not None for cell in row)]
    if not rows and not uncomputed:
        raise DataError(f"{name} is empty; a table without rows still needs the names of its columns in the first row")
    # Pad short rows, take the names from the first row, and drop empty columns at the end.
    width = max(map(len, rows), default=0)
    rows = [row + (None,) * (width - len(row)) for row in rows]
    header = ["" if cell is None else str(cell) for cell in rows[0]] if rows else []
    columns = [cell if cell in wanted else cell.strip() for cell in header]
    while columns and not columns[-1] and all(row[len(columns) - 1] is None for row in rows):
        columns.pop()
    # Refuse what would give wrong counts, then keep the wanted columns.
    kept = [at for at, column in enumerate(columns) if not wanted or column in wanted]
    all_named = bool(wanted) and set(wanted) <= set(columns)  # else a formula may be a name that is missing
    if empty := [address for at, address in uncomputed if at in kept or not all_named]:
        raise DataError(
            f"{name}: the formula in cell {empty[0]} has no computed value, and others may have none either; open the "
            "file in a spreadsheet program, save it, and read it again"
        )
    if wanted and not set(wanted).intersection(columns):
        raise DataError(f"{name}: none of the schema's columns is in the first row; it must hold the names")
    lists = [[row[at] for row in rows[1:]] for at in kept]
    return name, frames.from_lists([columns[at] for at in kept], lists, spell)


def _uncomputed(page: Any) -> Iterator[tuple[int, str]]:
    """The column, from 0, and the address of each formula without a computed value.

    A computed empty text has the cell type `str`; programs that do not compute formulas write no cell type.
    """
    from openpyxl.utils import coordinate_to_tuple
    from openpyxl.xml.constants import SHEET_MAIN_NS
    from openpyxl.xml.functions import iterparse

    cell, formula, value = (f"{{{SHEET_MAIN_NS}}}{tag}" for tag in "cfv")
    with page._get_source() as source:
        for _, element in iterparse(source):
            if element.tag != cell:
                continue
            address = element.get("r")
            if element.find(formula) is not None and element.get("t") != "str" and not element.findtext(value):
                yield coordinate_to_tuple(address)[1] - 1, address
            element.clear()
