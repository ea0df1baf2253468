"""CSV cells: the only writer of CSV, which keeps spreadsheets from running text as a formula.

A spreadsheet treats a cell that begins with =, +, - or @, also after a tab or a line end, as a formula, and so runs
what a stranger typed. Such texts, in cells and in the header, are written with an apostrophe in front. Texts that are
numbers are written as they are, like everything that is not text. hush reads the cell back as the level that it stands
for.

Reference: [OWASP, CSV Injection].
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    import pyarrow as pa

_FORMULA_START = re.compile(r"'*([\t\r\n]|\s*[=+\-@\uff1d\uff0b\uff0d\uff20])")  # the last four are their wide forms
_NUMBER_TEXT = re.compile(r"\s*[+-]?([0-9]+[.,]?[0-9]*|[.,][0-9]+)([eE][+-]?[0-9]+)?\s*", re.ASCII)


def cell_text(text: str) -> str:
    """The text of a cell that no spreadsheet runs; different for different texts.

    >>> [cell_text(text) for text in ("=1+1", "-5", "-5 to 0", "'=1+1", "'tis")]
    ["'=1+1", '-5', "'-5 to 0", "''=1+1", "'tis"]
    """
    return f"'{text}" if _FORMULA_START.match(text) and not _NUMBER_TEXT.fullmatch(text) else text


class CsvWriter:
    """Arrow tables of one schema, written as CSV one after the other."""

    def __init__(self, file: BinaryIO | pa.NativeFile, schema: pa.Schema) -> None:
        from pyarrow import csv

        self._writer = csv.CSVWriter(file, _cells(schema.empty_table()).schema)

    def write_table(self, table: pa.Table) -> None:
        """Write the rows of a table."""
        self._writer.write_table(_cells(table))

    def close(self) -> None:
        """End the CSV; the file stays open."""
        self._writer.close()


def csv_bytes(table: pa.Table) -> bytes:
    """A table as the content of a CSV file.

    >>> import pyarrow as pa
    >>> print(csv_bytes(pa.table({"@name": ["=1+1", "b", None], "n": [-1, 2, 3]})).decode())
    "'@name","n"
    "'=1+1",-1
    "b",2
    ,3
    <BLANKLINE>
    """
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    writer = CsvWriter(sink, table.schema)
    writer.write_table(table)
    writer.close()
    return bytes(sink.getvalue().to_pybytes())


def _cells(table: pa.Table) -> pa.Table:
    """The table with every text and column name as it is written to a cell."""
    import pyarrow as pa
    from pyarrow import compute

    columns = []
    for column in table.columns:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if is_text(column.type):
            # Convert each distinct text once.
            distinct = compute.unique(column)
            texts = distinct.to_pylist()
            cells = [None if text is None else cell_text(text) for text in texts]
            if cells != texts:
                column = pa.array(cells, column.type).take(compute.index_in(column, value_set=distinct))
        columns.append(column)
    return pa.table(columns, names=[cell_text(name) for name in table.column_names])


def is_text(kind: pa.DataType) -> bool:
    """Whether an Arrow type is one of its three types of text."""
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))
