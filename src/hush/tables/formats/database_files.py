"""Database files: a table or a query of a DuckDB or SQLite file, opened for reading only."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from hush.core.errors import DataError
from hush.tables import frames
from hush.tables.dialects.dialect import attempt
from hush.tables.dialects.duckdb import DUCKDB, FILE
from hush.tables.sources import RowSource, find_column, gathered

SQLITE_START = b"SQLite format 3\x00"  # how such files begin
BATCH_ROWS = 2**15
MOST_TABLES_NAMED = 8  # in a message
_DUCKDB_TABLES = (
    "SELECT CASE table_schema WHEN 'main' THEN '' ELSE table_schema || '.' END || table_name "
    f"FROM information_schema.tables WHERE table_catalog = '{FILE}' ORDER BY 1"
)
_SQLITE_TABLES = (
    "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT GLOB 'sqlite_*' ORDER BY name"
)


def duckdb_file(name: str, file: Path, connect: Callable[..., Any], table: str | None, query: str | None) -> RowSource:
    """A table or a query of a DuckDB file."""
    locked = (
        f"{name} cannot be opened for reading: it is open for writing elsewhere, or written by a newer DuckDB; close "
        "it there, or give hush.read the open connection"
    )
    connection = attempt(partial(connect, file=file), locked)
    tables = [row[0] for row in connection.cursor().execute(_DUCKDB_TABLES).fetchall()]
    _check_one_given(name, table, query, tables)
    try:
        opened = DUCKDB.open_table(connection, table, query)
    except DataError:
        if table is None:
            raise
        raise _absent(name, table, tables) from None
    return replace(opened, name=f"{opened.name} of {name}")


def sqlite_file(
    name: str,
    file: Path,
    wanted: Collection[str],
    connect: Callable[..., Any],
    table: str | None,
    query: str | None,
    *,
    spell: frames.SpellingOf,
    partly: bool,
) -> RowSource:
    """The wanted columns, or all if none is wanted, of a table or a query of an SQLite file.

    A column of SQLite holds values of any type, whatever it declares, so all become text as in a CSV file. The file is
    read anew for each count, and refused if another program has changed it since it was opened.
    """
    address = f"{file.resolve().as_uri()}?mode=ro"
    failed = f"{name} cannot be read as a file of SQLite; check that it is complete and not locked"
    # reading happens in threads of DuckDB, one at a time
    connection = attempt(lambda: sqlite3.connect(address, uri=True, check_same_thread=False), failed)
    tables = [row[0] for row in attempt(lambda: connection.execute(_SQLITE_TABLES).fetchall(), failed)]
    _check_one_given(name, table, query, tables)
    if table is not None and table not in tables:
        raise _absent(name, table, tables)
    rows = f"SELECT * FROM {DUCKDB.quoted(table)}" if table is not None else str(query).strip().rstrip(";")
    unrun = f"{name}: the query cannot be run; give one SELECT, and run it with the sqlite3 program to see why"
    description = attempt(lambda: connection.execute(rows).description, unrun if table is None else failed)
    if description is None:
        raise DataError(unrun)
    columns = [str(column[0]) for column in description]
    name = f"{'the query' if table is None else f'the table {table!r}'} of {name}"
    present = [column for column in wanted if column in columns] if partly else wanted
    positions = gathered(partial(find_column, column, columns, name) for column in present) or list(range(len(columns)))
    chosen = [columns[at] for at in positions]
    reader = _SqliteRows(name, connection, rows, chosen, positions, spell)
    opened = DUCKDB.open_frame(name, chosen, reader, connect())
    return replace(opened, explain=reader.explain, typed=False)


class _SqliteRows:
    """A query whose rows every call reads anew, as long as no other program changes the file."""

    def __init__(
        self,
        name: str,
        connection: sqlite3.Connection,
        query: str,
        columns: Sequence[str],
        positions: Sequence[int],
        spell: frames.SpellingOf,
    ) -> None:
        self.schema = pa.schema([(f"c{index}", pa.string()) for index in range(len(columns))])
        self._name, self._connection, self._query = name, connection, query
        self._columns, self._positions, self._spell = columns, positions, spell
        self._state = self._version()
        self._trouble: str | None = None

    def _version(self) -> int:
        """A number that changes when another connection has changed the file."""
        return int(self._connection.execute("PRAGMA data_version").fetchone()[0])

    def explain(self, trouble: str) -> str:
        """The message for rows that cannot be read."""
        return self._trouble or f"{self._name} cannot be read; check that it is complete and holds text and numbers"

    def __call__(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self.schema, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        try:
            cursor = self._connection.execute(self._query)
            while rows := cursor.fetchmany(BATCH_ROWS):
                values = list(zip(*rows, strict=True))
                listed = [values[at] for at in self._positions]
                arrays = frames.from_lists(self._columns, listed, self._spell).columns
                yield from pa.Table.from_arrays(arrays, schema=self.schema).to_batches()
            if self._version() != self._state:
                raise DataError(f"{self._name} changed while it was read; count again when it is at rest")
        except DataError as error:
            self._trouble = str(error)
            raise


def _check_one_given(name: str, table: str | None, query: str | None, tables: Sequence[str]) -> None:
    if (table is None) == (query is None):
        raise DataError(
            f"{name} is a database; say which table with table= (on the command line --table): {_listed(tables)}"
        )


def _absent(name: str, table: str, tables: Sequence[str]) -> DataError:
    return DataError(f"{name} has no table {table!r} that can be read; {_listed(tables)}")


def _listed(tables: Sequence[str]) -> str:
    if not tables:
        return "it has none"
    more = ", ..." if len(tables) > MOST_TABLES_NAMED else ""
    return f"it has {', '.join(map(repr, tables[:MOST_TABLES_NAMED]))}{more}"
