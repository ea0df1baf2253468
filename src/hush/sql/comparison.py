"""Comparisons: a column against constants, as a truth value for each of its levels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hush.errors import QueryError, shown
from hush.schema import Boolean, Categorical, Column, Date, Integer, Numeric
from hush.schema.column import Value
from hush.sql.cells import Cells
from hush.sql.clamping import clamp_note, clamps
from hush.sql.levels import (
    Cut,
    Ordered,
    Point,
    check_not_missing,
    code_of,
    cut,
    edge_by_label,
    first_day,
    last_day,
    point,
)
from hush.sql.scope import Scope

TRUE, UNKNOWN, FALSE = 1, 0, -1  # so that AND is the minimum, OR the maximum and NOT the negative
Truth = np.ndarray[Any, np.dtype[np.int8]]
AFTER = {">=": False, ">": True, "<": False, "<=": True}  # whether the cut lies after the constant


def compare(column: Column, sign: str, value: Value, scope: Scope) -> Cells:
    """`column sign value`; unknown where the column is missing, and everywhere if the value is null."""
    if value is None:
        scope.note(f"{column.name} {sign} NULL is never true; write IS NULL or IS NOT NULL to ask for missing values.")
        return unknown(scope)
    if sign in {"=", "<>"}:
        equal = among(column, [value], scope)
        return equal if sign == "=" else Cells(equal.domain, equal.names, -equal.values)
    if not isinstance(column, Integer | Numeric | Date):
        raise QueryError(
            f"column {column.name!r} is {column.kind} and has no order for {sign}; list the values you want with IN"
        )
    at = _read(column, value, scope)
    found = cut(column, at, after=AFTER[sign])
    if found.inside:
        raise QueryError(_cut_message(column, sign, at, found))
    _note_bounds(column, f"{column.name} {sign} {_written(at)}", [found], scope)
    truth = _blank(column, FALSE)
    truth[found.level : column.levels] = TRUE
    if sign in {"<", "<="}:
        truth[: column.levels] *= -1
    return scope.cells(column, truth)


def among(column: Column, values: Sequence[Value], scope: Scope) -> Cells:
    """`column IN (values)`: true where one is equal, else unknown if one of them is null, else false."""
    truth = _blank(column, UNKNOWN if None in values else FALSE)
    for value in values:
        if value is not None:
            check_not_missing(column, value)
            first, last = _equal(column, value, scope)
            truth[first:last] = TRUE
    return scope.cells(column, truth)


def is_missing(column: Column, scope: Scope) -> Cells:
    """`column IS NULL`, which is never unknown."""
    truth = np.full(column.size, FALSE, dtype=np.int8)
    if column.missing_code is not None:
        truth[column.missing_code] = TRUE
    return scope.cells(column, truth)


def is_set(column: Boolean, scope: Scope) -> Cells:
    """A boolean column as a condition."""
    truth = _blank(column, FALSE)
    truth[1] = TRUE
    return scope.cells(column, truth)


def unknown(scope: Scope) -> Cells:
    """Neither true nor false, everywhere."""
    return Cells.constant(scope.domain, UNKNOWN, np.int8)


def _blank(column: Column, start: int) -> Truth:
    truth = np.full(column.size, start, dtype=np.int8)
    if column.missing_code is not None:
        truth[column.missing_code] = UNKNOWN
    return truth


def _equal(column: Column, value: Value, scope: Scope) -> tuple[int, int]:
    """The levels first .. last-1 that equal a value."""
    if isinstance(column, Categorical | Boolean):
        code = code_of(column, value)
        return code, code + 1
    if not isinstance(column, Integer | Numeric | Date):
        raise QueryError(f"column {column.name!r} of kind {column.kind!r} cannot be compared")
    at = _read(column, value, scope)
    before, behind = cut(column, at, after=False), cut(column, at, after=True)
    if before.inside or behind.inside:
        raise QueryError(_inside_message(column, at, behind.level - 1))
    _note_bounds(column, f"{column.name} = {_written(at)}", [before, behind], scope)
    return before.level, behind.level


def _read(column: Ordered, value: Value, scope: Scope) -> Point:
    at = point(column, value)
    if not isinstance(column, Numeric) or not isinstance(at, int | float):
        return at
    edge = edge_by_label(column, at)
    if edge != at:
        scope.note(f"{column.name}: {_written(at)} is read as the bin edge {edge!r}.")
    return edge


def _note_bounds(column: Ordered, said: str, cuts: Sequence[Cut], scope: Scope) -> None:
    """Say what a comparison at or beyond the bounds means: clamped values are counted at the bound."""
    ends = {0, column.levels} & {found.level for found in cuts}
    if clamps(column) and ends:
        scope.note(clamp_note(column))
    elif len({found.level for found in cuts} | {0, column.levels}) == 2:
        scope.note(f"{said} does not tell the declared levels of {column.name} apart.")


def _cut_message(column: Ordered, sign: str, at: Point, found: Cut) -> str:
    """Which level is cut, and the two comparisons nearest to the one asked for."""
    level = found.level - 1
    said = f"{column.name} {sign} {_written(at)} cuts through "
    if isinstance(column, Date):
        days = (first_day(column, level), last_day(column, level))
        near = [last_day(column, level - 1) if level else None, days[1]]
        if not AFTER[sign]:
            near = [days[0], first_day(column, level + 1) if level + 1 < column.levels else None]
        choices = [f"{column.name} {sign} {_written(each)}" for each in near if each is not None]
        return f"{said}the {column.granularity} {days[0]} to {days[1]}; write {' or '.join(choices)}"
    if not isinstance(column, Numeric):
        raise TypeError(f"a level of {column.name!r} cannot be cut")
    low, high = column.edges[level : level + 2]
    lower, upper = (">=", ">") if sign in {">", ">="} else ("<", "<=")
    choices = [f"{column.name} {lower} {_written(low)}"]
    if level + 1 < column.levels:
        choices.append(f"{column.name} {lower} {_written(high)}")
    elif upper == "<=":
        choices.append(f"{column.name} {upper} {_written(high)}")
    return f"{said}the bin {column.label(level)}; write {' or '.join(choices)}"


def _inside_message(column: Ordered, at: Point, level: int) -> str:
    said = f"{column.name} = {_written(at)} asks for one value inside "
    if isinstance(column, Date):
        days = (first_day(column, level), last_day(column, level))
        return (
            f"{said}the {column.granularity} {days[0]} to {days[1]}; "
            f"write {column.name} BETWEEN {_written(days[0])} AND {_written(days[1])}"
        )
    if not isinstance(column, Numeric):
        raise TypeError(f"a level of {column.name!r} cannot be cut")
    low, high = column.edges[level : level + 2]
    closing = "<=" if level + 1 == column.levels else "<"
    return (
        f"{said}the bin {column.label(level)}; "
        f"write {column.name} >= {_written(low)} AND {column.name} {closing} {_written(high)}"
    )


def _written(at: Point) -> str:
    """A point as it is written in a query."""
    if isinstance(at, float) and at.is_integer() and abs(at) < 1e15:
        return str(int(at))
    return repr(at) if isinstance(at, float) else shown(at) if isinstance(at, int) else f"'{at}'"
