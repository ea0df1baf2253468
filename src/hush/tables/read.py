"""read: a table from a file, a frame or a database."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hush.core.arrays import Floats
from hush.core.domain import Domain
from hush.core.errors import DataError, SizeError
from hush.core.memory import memory_limit as bytes_of
from hush.core.validation import check_choice
from hush.schema import ROW, Integer, Numeric, Schema, Unit
from hush.tables import frames
from hush.tables.counted_tables import MemoryTable, StreamTable, line_bytes
from hush.tables.counting import as_numpy
from hush.tables.dialects.dialect import Dialect, attempt, is_a
from hush.tables.dialects.duckdb import DUCKDB
from hush.tables.dialects.postgres import POSTGRES
from hush.tables.dialects.spark import SPARK
from hush.tables.encoding import Names, encode_number
from hush.tables.engine_tables import SQL_WAYS, EngineTable
from hush.tables.formats.file_sources import file_source
from hush.tables.row_filter import RowFilter
from hush.tables.rows_per_unit import CappedRows, encoded_rows
from hush.tables.scan_plan import Way
from hush.tables.sources import COUNT_NAME, RowSource, check_counts_column, find_column, gathered, row_count
from hush.tables.table import Counts, Progress, Table

DIALECTS: tuple[Dialect, ...] = (DUCKDB, POSTGRES, SPARK)
NUMBERS_AT_ONCE = 2**17  # distinct numbers in a batch
ACCEPTED_SOURCES = (
    "a path or pattern of CSV or Parquet files, a folder of Parquet, an Excel file, a file of DuckDB or SQLite with "
    "table= or query=, '-' for standard input, a pandas or polars DataFrame, a polars LazyFrame, a pyarrow Table or "
    "RecordBatchReader, or a DuckDB, psycopg or ADBC connection or an address such as 'postgresql://user@host/db' with "
    "table= or query="
)


def read(
    source: Any,
    schema: Schema | Domain | str | Path,
    *,
    table: str | None = None,
    query: str | None = None,
    where: str | None = None,
    unit: str | Unit | None = None,
    max_rows_per_unit: int | None = None,
    counts: str | None = None,
    engine: str = "auto",
    memory_limit: int | str | None = None,
    timeout: float | None = None,
    progress: Progress | None = None,
) -> Table:
    """A table from a file, a pandas, polars or Arrow table, or a database.

    A path is that of a CSV, Parquet or Excel file, a pattern of such files, a folder of Parquet, or a DuckDB or SQLite
    file with `table` or `query`; `"-"` is standard input. A database is a DuckDB, psycopg or ADBC connection, or an
    address such as `postgresql://user@host/db`, with `table` or `query`. PostgreSQL codes and counts its rows itself;
    no statement may take more seconds than `timeout`, an hour by default.

    `schema` may be a Domain, for a table of codes 0 .. size-1, or the path of a schema file. `where` is a condition in
    SQL that selects rows of a file or a frame, such as `age >= 18`. `unit` names the id column of the people to
    protect, of whom at most `max_rows_per_unit` rows each are used; the default is the schema's unit. `counts` names
    the column of an aggregated table that says how many rows each line stands for; every row is then its own unit.

    `engine="memory"` holds the codes of all rows, as `"auto"` does if they fit in half of `memory_limit`; `"stream"`
    reads the source anew for each count, `"sql"` lets the database count. `progress` is called with the fraction done.

    >>> import pyarrow as pa
    >>> table = read(pa.table({"sex": [0, 1, 1], "race": [2, 0, 2]}), Domain({"sex": 2, "race": 3}))
    >>> table.counts([("sex",)])
    {('sex',): array([1, 2])}
    >>> histogram = pa.table({"sex": [0, 1], "n": [2_000, 3_000]})
    >>> read(histogram, Domain({"sex": 2}), counts="n").counts([("sex",)])
    {('sex',): array([2000, 3000])}

    Privacy: reads the data. A value that the schema refuses raises DataError, which names the column only.
    """
    # Open the source without reading rows.
    declared, limit = _with_unit(schema_of(schema), unit, max_rows_per_unit), bytes_of(memory_limit)
    check_choice(DataError, "engine", engine, ("auto", "memory", "stream", "sql"))
    connect = partial(DUCKDB.connect, limit // 2)
    opened = open_source(source, declared, table, query, connect, where=where, counts=counts, timeout=timeout)
    return counted_table(opened, declared, engine=engine, memory_limit=limit, progress=progress)


def counted_table(
    opened: RowSource,
    declared: Schema,
    *,
    engine: str = "auto",
    memory_limit: int,
    progress: Progress | None = None,
) -> Table:
    """The table of an open source: counted by its engine, or from codes held in memory if they seem to fit."""
    if opened.once and engine in {"stream", "sql"}:
        raise DataError(f"engine={engine!r}: {opened.name} can be read only once; use engine='memory'")
    if engine == "sql" or (engine == "auto" and opened.dialect.remote):
        ways = SQL_WAYS if engine == "sql" else tuple(Way)
        return EngineTable(opened, declared, ways=ways, memory_limit=memory_limit, progress=progress)
    held = engine == "memory" or opened.once
    fits = opened.rows is None or opened.rows * line_bytes(declared.columns, opened.counts) <= memory_limit
    if held or (engine == "auto" and fits):
        try:
            return MemoryTable.load(opened, declared, memory_limit=memory_limit, progress=progress)
        except SizeError:
            if held:
                raise
    return StreamTable(opened, declared, memory_limit=memory_limit, progress=progress)


def count_numbers(
    source: Any,
    schema: Schema | Domain | str | Path,
    *,
    table: str | None = None,
    where: str | None = None,
    counts: str | None = None,
    memory_limit: int | str | None = None,
) -> dict[str, tuple[Floats, Counts]]:
    """The numbers in each integer and numeric column of a source, sorted, and how many rows hold each.

    Sources are those of `read` that can be read again; `where` and `counts` are as in `read`. Numbers are neither
    binned nor clamped, and all rows of a unit count. Missing values and texts that are no number are left out.

    Privacy: reads the data. The numbers are exact, hence private, and for the data owner only.

    >>> import pyarrow as pa
    >>> from hush.schema import Numeric
    >>> schema = Schema([Numeric(name="fare", edges=(0, 50, 100))])
    >>> numbers, rows = count_numbers(pa.table({"fare": [7.5, 0.0, 7.5, None]}), schema)["fare"]
    >>> numbers.tolist(), rows.tolist()
    ([0.0, 7.5], [1, 2])
    """
    declared = schema_of(schema).with_unit(ROW)
    connect = partial(DUCKDB.connect, bytes_of(memory_limit) // 2)
    opened = open_source(source, declared, table, None, connect, where=where, counts=counts)
    if counts is not None:
        CappedRows(opened, declared, ()).check_all()
    weight, dialect = "1" if counts is None else row_count(opened), opened.dialect
    counted = {}
    with opened.session() as session:
        for column in declared:
            if not isinstance(column, Integer | Numeric) or column.part is not None:
                continue
            # Let the engine group the column's numbers; it returns them in any order.
            at = opened.position(column.name)
            names = Names.numbered(0, f"c{at}")
            encoding = encode_number(column, opened.types[at], names, dialect)
            rows = encoded_rows(opened, [(names, encoding)], {COUNT_NAME: weight})
            select = (
                f"SELECT k0, CAST(sum({COUNT_NAME}) AS BIGINT) FROM ({rows}) AS coded "
                f"WHERE k0 IS NOT NULL AND {COUNT_NAME} > 0 GROUP BY k0"
            )
            batches = list(dialect.stream(session, select, NUMBERS_AT_ONCE, opened.failure))
            # Join the batches and sort by number.
            numbers, times = (
                np.concatenate([np.zeros(0, kind), *(as_numpy(batch.column(k)) for batch in batches)])
                for k, kind in enumerate((np.float64, np.int64))
            )
            order = np.argsort(numbers)
            counted[column.name] = (numbers[order], times[order])
    return counted


def schema_of(schema: Schema | Domain | str | Path) -> Schema:
    """The schema that a domain or the path of a file stands for."""
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
        return schema.with_unit(unit)
    column = unit if isinstance(unit, str) else (unit or schema.unit).column
    if max_rows is None:
        max_rows = schema.unit.max_rows if column == schema.unit.column else 1
    return schema.with_unit(Unit(column=column, max_rows=max_rows))


def open_source(
    source: Any,
    schema: Schema,
    table: str | None,
    query: str | None,
    connect: Callable[..., Any],
    *,
    where: str | None = None,
    counts: str | None = None,
    partly: bool = False,
    timeout: float | None = None,
) -> RowSource:
    """The rows of any source that `read` takes; with `partly`, columns of the schema may be absent.

    Privacy: reads no row of files and databases, and converts the needed columns of frames.
    """
    if counts is not None:
        check_counts_column(counts, schema)
    condition = None if where is None else RowFilter.parse(where)
    # Files and frames are read only as far as the job needs their columns.
    unit = schema.unit.column
    extra = [name for name in (unit, counts, *(condition.columns if condition else ())) if name is not None]
    needed = list(dict.fromkeys([*(column.source for column in schema), *extra]))
    spell = frames.spelling_of(unit, schema.spellings, counts)
    # Open a connection or the address of a database, a file, or a frame.
    dialect = next((dialect for dialect in DIALECTS if dialect.holds(source)), None)
    if dialect is not None:
        opened = dialect.open_table(source, table, query, timeout=timeout)
    elif isinstance(source, str | Path):
        opened = file_source(source, needed, connect, table=table, query=query, spell=spell, partly=partly)
    elif table is not None or query is not None:
        raise DataError("table= and query= go with connections and files of databases only; drop them")
    else:
        opened = _open_frame(source, needed, spell, connect, partly)
    # Select the rows, and name the column of counts.
    if condition is not None:
        opened = condition.applied(opened, schema.spellings)
    return opened if counts is None else replace(opened, counts=counts)


def _open_frame(
    source: Any, needed: Sequence[str], spell: frames.SpellingOf, connect: Callable[..., Any], partly: bool
) -> RowSource:
    """The needed columns of a pandas, polars or Arrow table."""
    if is_a(source, "polars", "LazyFrame"):
        failed = "the LazyFrame cannot be collected; collect it yourself to see why"
        names = attempt(lambda: source.collect_schema().names(), failed)
        needed = [name for name in needed if name in names] if partly else needed
        _positions(needed, names, "the LazyFrame")
        plain = not any(name.startswith("^") for name in needed)  # polars would take such a name for a pattern
        source = attempt((source.select(needed) if plain else source).collect, failed)
    frame = frames.recognised(source)
    if frame is None:
        raise DataError(f"source of type {type(source).__name__}: expected {ACCEPTED_SOURCES}")
    name, columns, convert = frame
    is_pandas = is_a(source, "pandas", "DataFrame")
    indexed = {str(label) for label in source.index.names} - set(columns) if is_pandas else set()
    if partly:
        needed = [column for column in needed if column in columns]
    positions = _positions(needed, columns, name, indexed)
    return DUCKDB.open_frame(name, needed, convert(source, positions, spell), connect())


def _positions(needed: Sequence[str], columns: Sequence[str], where: str, indexed: Collection[str] = ()) -> list[int]:
    """The positions of columns in a frame. No message quotes a label: if its file had no header, labels are private."""
    advice = "it is in the index: call reset_index() first"
    return gathered(
        partial(find_column, name, columns, where, advice if name in indexed else "", similar=False) for name in needed
    )
