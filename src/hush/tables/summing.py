"""Exact sums of values in the cells of a table, as integers on a grid, added up by the database that reads the rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from hush.core.domain import Clique
from hush.core.errors import DataError
from hush.schema import Column, Integer, Numeric, Schema
from hush.tables.counting import Counts, as_numpy
from hush.tables.dialects.dialect import Dialect
from hush.tables.rows_per_unit import CappedRows
from hush.tables.sources import COUNT, RowSource

if TYPE_CHECKING:
    from hush.privacy.sum_query import SumQuery, ValueGrid

BATCH_ROWS = 2**17


def check_sum(query: SumQuery, schema: Schema) -> None:
    """Refuse the sum of a column that has no numbers, or whose grid is for other levels; reads no row."""
    grid = query.grid
    column = schema[grid.column]
    if not isinstance(column, Integer | Numeric):
        raise DataError(
            f"column {grid.column!r} is {column.kind} and cannot be added up; sum an integer or numeric one"
        )
    if column.part is not None:
        raise DataError(f"column {grid.column!r} is a part of the times in {column.source!r}, which are not added up")
    levels = column.levels if grid.by_level else 1
    if len(grid.centres) != levels or grid.missing != column.missing_code:
        raise DataError(f"the grid of {grid.column!r} is for another schema; plan again with the schema of the table")


def sum_values(
    source: RowSource, schema: Schema, queries: Sequence[SumQuery], *, kept: Sequence[Column] = ()
) -> dict[SumQuery, Counts]:
    """The sum of the grid's integers in each cell of each query's table, over the rows that count for their units.

    `kept` are the columns whose numbers the engine keeps with the coded rows; sums of others read the source.

    Privacy: exact, hence private. A row adds at most `grid.steps` to one cell, whatever its value.
    """
    return {query: _summed(source, schema, query, kept) for query in queries}


def _summed(source: RowSource, schema: Schema, query: SumQuery, kept: Sequence[Column]) -> Counts:
    grid, dialect = query.grid, source.dialect
    column, names = schema[grid.column], {grid.column, *query.clique}
    if keep := column in kept:
        rows = CappedRows(source, schema, schema.columns, numbers=kept, keep=True)
    else:
        rows = CappedRows(source, schema, [each for each in schema if each.name in names], numbers=(column,))
    number = f"v{kept.index(column)}" if keep else "v0"
    place = {each.name: f"k{index}" for index, each in enumerate(rows.columns)}
    sizes = schema.domain.sizes(query.clique)
    key = "CAST(0 AS BIGINT)"
    for name, size in zip(query.clique, sizes, strict=True):
        key = f"({key} * {size} + {place[name]})"
    distance = _distance(grid, number, place[grid.column], dialect)
    integer = _integer(grid, "distance", place[grid.column], dialect)
    added = integer if source.counts is None else f"{dialect.cast(integer, dialect.wide_type)} * {COUNT}"
    totals = np.zeros(int(np.prod(sizes, dtype=np.int64)), dtype=np.int64)
    with rows.session() as session:
        chosen = rows.selected(session, number)
        chosen = f"SELECT *, {distance} AS distance FROM ({chosen}) AS coded {dialect.fence}"
        inner = f"SELECT {key} AS cell, {added} AS u, {rows.refused_by()} AS refused FROM ({chosen}) AS coded"
        select = (
            f"SELECT coalesce(cell, -1) AS cell, CAST(sum(u) AS BIGINT) AS total, bool_or(refused) AS refused "
            f"FROM ({inner}) AS keyed GROUP BY 1"
        )
        for batch in dialect.stream(session, select, BATCH_ROWS, source.failure):
            cells = as_numpy(batch.column(0))
            if batch.column(2).true_count or (len(cells) and int(cells.min()) < 0):
                rows.check_all()
                raise DataError(f"{source.name} changed while it was read; measure again when it is at rest")
            totals[cells] = as_numpy(batch.column(1))
    return totals.reshape(sizes)


def _distance(grid: ValueGrid, value: str, level: str, sql: Dialect) -> str:
    """SQL of f(v) - centre, of a value that is clamped first: no step of it overflows, whatever a row holds."""
    low, high = map(sql.number, grid.ends)
    clamped = f"greatest({low}, least({high}, {value}))"
    if grid.power == 2:
        clamped = sql.squared(f"({clamped} - {sql.number(grid.origin)})")
    f = sql.number(1.0) if grid.power == 0 else clamped
    return f"({f} - {_of_level(grid, grid.centres, level, sql)})"


def _integer(grid: ValueGrid, distance: str, level: str, sql: Dialect) -> str:
    """SQL of `ValueGrid.integers`: an integer from -steps to steps for every distance from the centre.

    A distance below a quarter of the unit is zero; engines that fail on results too small for floats do not divide it.
    """
    still = [f"{level} IS NULL"]
    if grid.missing is not None:
        still.append(f"{level} = {grid.missing}")
    if 0.0 in grid.units:
        still.append(f"{_of_level(grid, grid.units, level, sql)} = {sql.number(0.0)}")
    still.append(f"abs({distance}) < {_of_level(grid, [unit / 4 for unit in grid.units], level, sql)}")
    units = [unit or 1.0 for unit in grid.units]
    steps = sql.number(grid.steps)
    u = sql.rounded(f"({distance} / {_of_level(grid, units, level, sql)})")
    return f"CASE WHEN {' OR '.join(still)} THEN 0 ELSE CAST(greatest(-{steps}, least({steps}, {u})) AS BIGINT) END"


def _of_level(grid: ValueGrid, numbers: Sequence[float], level: str, sql: Dialect) -> str:
    """SQL of the number that a level has among some, or of the only one."""
    listed = [sql.number(number) for number in numbers]
    return sql.element(listed, level) if grid.by_level else listed[0]


def unreadable(cliques: Sequence[Clique]) -> DataError:
    """The error for a table that holds codes alone."""
    return DataError(
        f"sums over {', '.join(map(str, cliques))} need the values of the rows, and this table can be read only once; "
        "read it from a file, a frame or a database"
    )
