"""Exact sums of values in the cells of a table, as integers on a grid, added up by the database that reads the rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from hush.domain import Clique
from hush.errors import DataError
from hush.schema import Column, Integer, Numeric, Schema
from hush.tables.counting import Counts, as_numpy
from hush.tables.dialects.dialect import Dialect
from hush.tables.row_counts import COUNT
from hush.tables.rows_per_unit import CappedRows
from hush.tables.sources import RowSource

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
    integer = _integer(grid, number, place[grid.column], dialect)
    added = integer if source.counts is None else f"{dialect.cast(integer, dialect.wide_type)} * {COUNT}"
    totals = np.zeros(int(np.prod(sizes, dtype=np.int64)), dtype=np.int64)
    with rows.session() as session:
        chosen = rows.selected(session, number)
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


def _integer(grid: ValueGrid, value: str, level: str, sql: Dialect) -> str:
    """SQL of `ValueGrid.integers`: an integer from -steps to steps for every value."""

    def per_level(numbers: Sequence[float]) -> str:
        listed = [sql.number(number) for number in numbers]
        return sql.element(listed, level) if grid.by_level else listed[0]

    still = [f"{level} IS NULL"]
    if grid.missing is not None:
        still.append(f"{level} = {grid.missing}")
    if 0.0 in grid.units:
        still.append(f"{per_level(grid.units)} = {sql.number(0.0)}")
    distance = f"({value} - {sql.number(grid.origin)})"
    f = {0: sql.number(1.0), 1: value, 2: f"{distance} * {distance}"}[grid.power]
    steps = sql.number(grid.steps)
    u = sql.rounded(f"(({f} - {per_level(grid.centres)}) / {per_level(grid.units)})")
    return f"CASE WHEN {' OR '.join(still)} THEN 0 ELSE CAST(greatest(-{steps}, least({steps}, {u})) AS BIGINT) END"


def unreadable(cliques: Sequence[Clique]) -> DataError:
    """The error for a table that holds codes alone."""
    return DataError(
        f"sums over {', '.join(map(str, cliques))} need the values of the rows, and this table can be read only once; "
        "read it from a file, a frame or a database"
    )
