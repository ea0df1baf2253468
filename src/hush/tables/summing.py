"""Exact sums of values in the cells of a table, as integers on a grid, computed by the engine that reads the rows."""

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
from hush.tables.sources import COUNT_NAME, RowSource

if TYPE_CHECKING:
    from hush.privacy.sum_query import SumQuery, ValueGrid

BATCH_ROWS = 2**17


def check_sum(query: SumQuery, schema: Schema) -> None:
    """Refuse a sum over a column without numbers, or with a grid for other levels; reads no row."""
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
    """The sum of the grid's integers in each cell of each query's table, over the rows selected of each unit.

    `kept` are the columns whose numbers the engine keeps with the coded rows; sums of other columns read the source.

    Privacy: exact, hence private. A row adds at most `grid.steps` to one cell, whatever its value.
    """
    return {query: _summed(source, schema, query, kept) for query in queries}


def _summed(source: RowSource, schema: Schema, query: SumQuery, kept: Sequence[Column]) -> Counts:
    """The sums of one query."""
    grid, dialect = query.grid, source.dialect
    # SQL of the number and the codes of each row, and of its cell.
    column, names = schema[grid.column], {grid.column, *query.clique}
    if keep := column in kept:
        rows = CappedRows(source, schema, schema.columns, numbers=kept, keep=True)
    else:
        rows = CappedRows(source, schema, [other for other in schema if other.name in names], numbers=(column,))
    number = f"v{kept.index(column)}" if keep else "v0"
    place = {coded.name: f"k{index}" for index, coded in enumerate(rows.columns)}
    sizes = schema.domain.sizes(query.clique)
    key = "CAST(0 AS BIGINT)"
    for name, size in zip(query.clique, sizes, strict=True):
        key = f"({key} * {size} + {place[name]})"
    # SQL of f(v) - centre, with v clamped first, so that no step overflows, whatever a row holds.
    level = place[grid.column]
    low, high = map(dialect.number, grid.ends)
    f = f"greatest({low}, least({high}, {number}))"
    if grid.power == 2:
        f = dialect.squared(f"({f} - {dialect.number(grid.origin)})")
    if grid.power == 0:
        f = dialect.number(1.0)
    distance = f"({f} - {_of_level(grid, grid.centres, level, dialect)})"
    integer = _integer(grid, "distance", level, dialect)
    added = integer if source.counts is None else f"{dialect.cast(integer, dialect.wide_type)} * {COUNT_NAME}"
    # Let the engine add up the integers by cell; a NULL cell or a refused row means that the rows changed.
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


def _integer(grid: ValueGrid, distance: str, level: str, sql: Dialect) -> str:
    """SQL of `ValueGrid.integers`: an integer from -steps to steps for every distance from the centre.

    A distance below a quarter of the unit gives 0 without a division: some engines fail on results too small for
    floats.
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
    """SQL of the number for a level, or of the only number."""
    listed = [sql.number(number) for number in numbers]
    return sql.element(listed, level) if grid.by_level else listed[0]


def unreadable(cliques: Sequence[Clique]) -> DataError:
    """The error for a table that holds codes alone."""
    return DataError(
        f"sums over {', '.join(map(str, cliques))} need the values of the rows, and this table can be read only once; "
        "read it from a file, a frame or a database"
    )
