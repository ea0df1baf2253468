"""read: a table from a file, a frame or a database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from hush.domain import Domain
from hush.errors import DataError, SizeError
from hush.schema import Schema, Unit
from hush.tables import engine as duck
from hush.tables import frames
from hush.tables.memory_table import MemoryTable
from hush.tables.source_tables import SqlTable, StreamTable
from hush.tables.sources import Source, file_source, find_column
from hush.tables.sql_types import quoted
from hush.tables.table import Progress, Table
from hush.tables.table import memory_limit as bytes_of

ENGINES = ("auto", "memory", "stream", "sql")
FRAME = "hush_frame"
ACCEPTED = (
    "a path or pattern of CSV or Parquet files, a pandas or polars DataFrame, a polars LazyFrame, a pyarrow Table or "
    "RecordBatchReader, or a DuckDB connection with table= or query="
)


def read(
    source: Any,
    schema: Schema | Domain | str | Path,
    *,
    table: str | None = None,
    query: str | None = None,
    unit: str | Unit | None = None,
    max_rows_per_unit: int | None = None,
    engine: str = "auto",
    memory_limit: int | str | None = None,
    progress: Progress | None = None,
) -> Table:
    """A table from a CSV or Parquet file, a pandas, polars or Arrow table, or a DuckDB connection.

    `schema` may be a Domain, for a table of codes 0 .. size-1, or the path of a schema file. `unit` names the id
    column whose presence is hidden, of which `max_rows_per_unit` rows are used at most; by default the schema says.

    `engine="memory"` encodes all rows once and holds the codes, `"stream"` reads the source anew for each count in
    bounded memory, `"sql"` lets DuckDB count; all three give the same counts. `"auto"` holds the codes if they fit in
    half of `memory_limit`, and streams otherwise. `progress` is called with the fraction done.

    >>> import pyarrow as pa
    >>> table = read(pa.table({"sex": [0, 1, 1], "race": [2, 0, 2]}), Domain({"sex": 2, "race": 3}))
    >>> table.counts([("sex",)])
    {('sex',): array([1, 2])}

    Privacy: reads the data. A value that the schema refuses raises DataError, which names the column only.
    """
    declared = _with_unit(_schema(schema), unit, max_rows_per_unit)
    if engine not in ENGINES:
        raise DataError(f"engine = {engine!r}: expected one of {', '.join(ENGINES)}")
    limit = bytes_of(memory_limit)
    opened = _source(source, declared, table, query, lambda: duck.connect(limit // 2))
    if opened.once and engine in {"stream", "sql"}:
        raise DataError(f"engine = {engine!r}: {opened.name} can be read only once; use engine='memory'")
    if engine == "stream":
        return StreamTable(opened, declared, memory_limit=limit, progress=progress)
    if engine == "sql":
        return SqlTable(opened, declared, memory_limit=limit, progress=progress)
    width = sum(column.dtype.itemsize for column in declared)
    fits = opened.rows is None or opened.rows * width <= limit
    if engine == "memory" or opened.once or fits:
        try:
            return MemoryTable.load(opened, declared, memory_limit=limit, progress=progress)
        except SizeError:
            if engine == "memory" or opened.once:
                raise
    return StreamTable(opened, declared, memory_limit=limit, progress=progress)


def _schema(schema: Schema | Domain | str | Path) -> Schema:
    if isinstance(schema, Domain):
        return Schema.from_domain(schema)
    if isinstance(schema, str | Path):
        return Schema.load(schema)
    if not isinstance(schema, Schema):
        raise DataError(f"schema of type {type(schema).__name__}: expected a Schema, a Domain or the path of a schema")
    return schema


def _with_unit(schema: Schema, unit: str | Unit | None, max_rows: int | None) -> Schema:
    """The schema with the privacy unit that the caller asks for."""
    if unit is None and max_rows is None:
        return schema
    if isinstance(unit, Unit) and max_rows is None:
        chosen = unit
    else:
        given = unit if isinstance(unit, Unit) else None
        column = unit if isinstance(unit, str) else (given or schema.unit).column
        if max_rows is None:
            max_rows = schema.unit.max_rows if column == schema.unit.column else 1
        chosen = Unit(column=column, max_rows=max_rows)
    return schema.with_unit(chosen)


def _source(source: Any, schema: Schema, table: str | None, query: str | None, connect: Callable[[], Any]) -> Source:
    if isinstance(source, duckdb.DuckDBPyConnection):
        return _database(source, table, query)
    if table is not None or query is not None:
        raise DataError("table= and query= go with a DuckDB connection only; drop them")
    if isinstance(source, str | Path):
        return file_source(source, schema, connect)
    unit = schema.unit.column
    wanted = [column.name for column in schema] + ([] if unit is None else [unit])
    if isinstance(source, pa.RecordBatch):
        source = pa.Table.from_batches([source])
    if isinstance(source, pa.Table):
        places = _places(wanted, source.schema.names, "the Arrow table")
        return _frame("the Arrow table", wanted, frames.from_arrow(source, places, unit), connect())
    if isinstance(source, pa.RecordBatchReader):
        places = _places(wanted, source.schema.names, "the Arrow reader")
        return _frame("the Arrow reader", wanted, frames.from_reader(source, places, unit), connect())
    if _is_a(source, "pandas", "DataFrame"):
        labels = [str(label) for label in source.columns]
        indexed = {str(label) for label in source.index.names} - set(labels)
        places = _places(wanted, labels, "the DataFrame", indexed)
        return _frame("the DataFrame", wanted, frames.from_pandas(source, places, unit), connect())
    if _is_a(source, "polars", "LazyFrame"):
        failed = "the LazyFrame cannot be collected; collect it yourself to see why"
        names = duck.attempt(lambda: source.collect_schema().names(), failed)
        _places(wanted, names, "the LazyFrame")
        if not any(name.startswith("^") for name in wanted):  # polars would take it for a pattern
            source = source.select(wanted)
        source = duck.attempt(source.collect, failed)
    if _is_a(source, "polars", "DataFrame"):
        places = _places(wanted, source.columns, "the DataFrame")
        return _frame("the DataFrame", wanted, frames.from_polars(source, places, unit), connect())
    raise DataError(f"source of type {type(source).__name__}: expected {ACCEPTED}")


def _places(wanted: Sequence[str], columns: Sequence[str], where: str, indexed: set[str] | None = None) -> list[int]:
    """Where the columns of a frame are; of one read from a file without a header, the labels are somebody's cells."""
    advice = "it is in the index: call reset_index() first"
    return [
        find_column(name, columns, where, advice if name in (indexed or ()) else "", similar=False) for name in wanted
    ]


def _frame(name: str, columns: Sequence[str], frame: pa.Table | pa.RecordBatchReader, connection: Any) -> Source:
    """A source over Arrow data; its columns are those wanted, under names of our own."""
    once = isinstance(frame, pa.RecordBatchReader)
    sample = frame.schema.empty_table() if once else frame
    failed = f"{name} holds a type that cannot be read; convert it to text, numbers or dates"
    session = duck.attempt(lambda: duck.open_session(connection, {FRAME: sample}), failed)
    select = f"SELECT * FROM {FRAME}"
    _, types = duck.describe(session, select, failed)
    session.close()
    return Source(
        name=name,
        connection=connection,
        select=select,
        columns=tuple(columns),
        types=types,
        frames={FRAME: frame},
        rows=None if once else frame.num_rows,
        once=once,
    )


def _database(connection: Any, table: str | None, query: str | None) -> Source:
    """A table or query of the user's own DuckDB connection, read through a second cursor of it."""
    if (table is None) == (query is None):
        raise DataError("a DuckDB connection needs either table= or query=; give exactly one of them")
    session = duck.attempt(lambda: duck.open_session(connection, {}), "the DuckDB connection is closed; open it again")
    if query is not None:
        name = "the query"
        failed = "the query cannot be run; run it on the connection yourself to see why"
        query = query.strip().rstrip(";")
        statements = duck.attempt(lambda: session.extract_statements(query), failed)
        if len(statements) != 1:
            raise DataError("query= holds several statements; give one SELECT")
        candidates = [f"SELECT * FROM ({query}\n)"]
    else:
        name = f"the table {table!r}"
        failed = (
            f"{name} cannot be seen from a second cursor of the connection: it does not exist, or is temporary, "
            "registered, or not committed; commit it or pass the data itself"
        )
        spellings = {quoted(str(table)): None, ".".join(map(quoted, str(table).split("."))): None}
        candidates = [f"SELECT * FROM {spelling}" for spelling in spellings]
    for select in candidates:
        try:
            # of the query itself: within another SELECT repeated names would be made distinct
            columns, types = duck.describe(session, query or select, failed)
            break
        except DataError:
            if select == candidates[-1]:
                raise
    session.close()
    return Source(name=name, connection=connection, select=select, columns=columns, types=types)


def _is_a(source: object, package: str, name: str) -> bool:
    """Whether the object is of a class that need not be installed here."""
    return any(cls.__name__ == name and cls.__module__.split(".")[0] == package for cls in type(source).__mro__)
