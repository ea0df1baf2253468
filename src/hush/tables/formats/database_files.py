"""Database files: a table or a query of a file of DuckDB or SQLite, which is only read."""

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

SQLITE = b"SQLite format 3\x00"  # how such files begin
BATCH_ROWS = 2**15
MOST_LISTED = 8
_TABLES = (
    "SELECT CASE table_schema WHEN 'main' THEN '' ELSE table_schema || '.' END || table_name "
    f"FROM information_schema.tables WHERE table_catalog = '{FILE}' ORDER BY 1"
)
_SQLITE_TABLES = (
    "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT GLOB 'sqlite_*' ORDER BY name"
)


def is_duckdb(head: bytes) -> bool:
    """Whether a file that begins so is one of DuckDB."""
    return head[8:12] == b"DUCK"


def duckdb_file(name: str, file: Path, connect: Callable[..., Any], table: str | None, query: str | None) -> RowSource:
    """A table or a query of a file of DuckDB, opened for reading only."""
    locked = (
        f"{name} cannot be opened for reading: it is open for writing elsewhere, or written by a newer DuckDB; close "
        "it there, or give hush.read the open connection"
    )
    connection = attempt(partial(connect, file=file), locked)
    if (table is None) == (query is None):
        raise _unnamed(name, [row[0] for row in connection.cursor().execute(_TABLES).fetchall()])
    try:
        opened = DUCKDB.open_table(connection, table, query)
    except DataError:
        if table is None:
            raise
        raise _absent(name, table, [row[0] for row in connection.cursor().execute(_TABLES).fetchall()]) from None
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
    """The wanted columns of a table or a query of a file of SQLite, all of them where none is named.

    A column of SQLite holds values of any type, whatever it declares, so all become text as in a CSV file. The file is
    read anew for each count; where somebody else has changed it in between, reading is refused.
    """
    address = f"{file.resolve().as_uri()}?mode=ro"
    failed = f"{name} cannot be read as a file of SQLite; check that it is complete and not locked"
    # reading happens in threads of DuckDB, one at a time
    connection = attempt(lambda: sqlite3.connect(address, uri=True, check_same_thread=False), failed)
    tables = [row[0] for row in attempt(lambda: connection.execute(_SQLITE_TABLES).fetchall(), failed)]
    if (table is None) == (query is None):
        raise _unnamed(name, tables)
    if table is not None and table not in tables:
        raise _absent(name, table, tables)
    rows = f"SELECT * FROM {DUCKDB.quoted(table)}" if table is not None else str(query).strip().rstrip(";")
    unrun = f"{name}: the query cannot be run; give one SELECT, and run it with the sqlite3 program to see why"
    found = attempt(lambda: connection.execute(rows).description, unrun if table is None else failed)
    if found is None:
        raise DataError(unrun)
    columns = [str(column[0]) for column in found]
    name = f"{'the query' if table is None else f'the table {table!r}'} of {name}"
    kept = [column for column in wanted if column in columns] if partly else wanted
    positions = gathered(partial(find_column, column, columns, name) for column in kept) or list(range(len(columns)))
    reader = _Rows(name, connection, rows, [columns[at] for at in positions], positions, spell)
    opened = DUCKDB.open_frame(name, [columns[at] for at in positions], reader, connect())
    return replace(opened, explain=reader.explain, typed=False)


class _Rows:
    """A query that gives its rows again with every call, as long as the file stays as it was."""

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


def _unnamed(name: str, tables: Sequence[str]) -> DataError:
    return DataError(
        f"{name} is a database; say which table with table= (on the command line --table): {_listed(tables)}"
    )


def _absent(name: str, table: str, tables: Sequence[str]) -> DataError:
    return DataError(f"{name} has no table {table!r} that can be read; {_listed(tables)}")


def _listed(tables: Sequence[str]) -> str:
    if not tables:
        return "it has none"
    more = ", ..." if len(tables) > MOST_LISTED else ""
    return f"it has {', '.join(map(repr, tables[:MOST_LISTED]))}{more}"
