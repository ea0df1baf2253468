"""Constants of a query: their Python values, and their place among the levels of a column.

A comparison of an ordered column cuts the number line just before or just after a constant c: x >= c keeps what is
after the cut before c, x > c what is after the cut after c. A level is an interval between two cuts, so a comparison
has an answer if and only if its cut is not strictly inside a level.
"""

from __future__ import annotations

import bisect
import datetime as dt
import math
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from hush.core.errors import QueryError, shown
from hush.core.validation import is_number
from hush.schema import Boolean, Categorical, Column, Date, Granularity, Integer, Numeric
from hush.schema.column import OTHER_LABEL, OTHER_VALUE, Value, canonical
from hush.schema.column_kinds import FALSE_TEXTS, TRUE_TEXTS
from hush.sql.scope import nearest, quote, refusal

DAY_PATTERN = re.compile(r"(\d{4})([-/])(\d{1,2})\2(\d{1,2})(?:[ T]00:00(?::00(?:\.0+)?)?)?")  # or its midnight
DAY_TYPES = (exp.DataType.Type.DATE, exp.DataType.Type.TIMESTAMP, exp.DataType.Type.TIMESTAMPNTZ)
Ordered = Integer | Numeric | Date
Point = int | float | dt.date


def is_literal(node: exp.Expr) -> bool:
    """Whether an expression of the query is a constant."""
    inner = node.unnest()
    if isinstance(inner, exp.Neg):
        return is_literal(inner.this)
    if isinstance(inner, exp.Cast):
        return is_date_cast(inner)
    return isinstance(inner, exp.Literal | exp.Boolean | exp.Null)


def is_date_cast(node: exp.Cast) -> bool:
    """Whether a cast is DATE '...' or TIMESTAMP '...', or casts a text to one of them."""
    return bool(node.to.is_type(*DAY_TYPES)) and isinstance(node.this, exp.Literal)


def literal_value(node: exp.Expr) -> Value:
    """The value of a constant; null is None."""
    inner = node.unnest()
    match inner:
        case exp.Null():
            return None
        case exp.Boolean():
            return bool(inner.this)
        case exp.Literal() if inner.is_string:
            return str(inner.this)
        case exp.Literal():
            return number(inner.name)
        case exp.Neg():
            value = literal_value(inner.this)
            if is_number(value):
                return -value
        case exp.Cast() if is_date_cast(inner):
            return day(inner.this.name)
    raise refusal(inner, "write a plain number, text, date, TRUE, FALSE or NULL in its place")


def constant_number(node: exp.Expr) -> int | float:
    """The value of a constant that must be a number."""
    value = literal_value(node)
    if is_number(value):
        return value
    raise QueryError(f"{quote(node)}: expected a number here")


def number(text: str) -> int | float:
    """A number in SQL's spelling: an integer if it has neither point nor exponent."""
    try:
        value = int(text) if text.isdecimal() or (text[:1] in "+-" and text[1:].isdecimal()) else float(text)
    except ValueError:
        raise QueryError(f"{text[:40]!r} is not a number that hush can read; write it in plain digits") from None
    if not abs(value) <= sys.float_info.max:  # infinity, or an integer beyond floats
        raise QueryError(f"{text[:40]!r} is not a finite number; write it in plain digits")
    return value


def day(text: str) -> dt.date:
    """A date written as year-month-day, also with slashes or without leading zeros."""
    match = DAY_PATTERN.fullmatch(text.strip())
    try:
        if match is not None:
            return dt.date(int(match[1]), int(match[3]), int(match[4]))
    except ValueError:
        pass
    raise QueryError(f"{text[:40]!r} is not a date; write it as '2020-01-31'")


@dataclass(frozen=True, slots=True)
class Cut:
    """The first level after a cut; `inside` if the cut divides the level before it."""

    level: int
    inside: bool = False


def point(column: Ordered, value: Value) -> Point:
    """A constant as a value of an ordered column."""
    if isinstance(column, Date):
        if isinstance(value, str):
            return day(value)
        if isinstance(value, dt.date):
            return value
        raise QueryError(f"column {column.name!r} holds dates: {shown(value)} is not one; write it as '2020-01-31'")
    if isinstance(value, str):
        try:
            return number(value.strip())
        except QueryError:
            pass
    elif is_number(value):
        return value
    raise QueryError(f"column {column.name!r} holds numbers: {shown(value)} is not one; compare it with a number")


def cut(column: Ordered, at: Point, *, after: bool) -> Cut:
    """The cut just before or just after a point, by bisection of the level boundaries."""
    if isinstance(column, Integer) and not isinstance(at, dt.date):
        first = math.floor(at) + 1 if after else math.ceil(at)  # the first integer after the cut
        if first <= column.low:
            return Cut(0)
        if first > column.high:
            return Cut(column.levels)
        level = column.code_of(first)
        return Cut(level) if column.ends(level)[0] == first else Cut(level + 1, inside=True)
    position: tuple[float, bool] | int
    boundary: Callable[[int], tuple[float, bool] | int]
    if isinstance(column, Numeric) and not isinstance(at, dt.date):
        position, boundary = (at, after), column.cut
    elif isinstance(column, Date) and isinstance(at, dt.date):
        date, position = column, at.toordinal() + after
        if date.granularity is Granularity.DAY:
            return Cut(min(max(position - date.start.toordinal(), 0), date.levels))

        def boundary(level: int) -> int:
            return date.value(level).toordinal() if level < date.levels else date.end.toordinal() + 1

    else:
        raise TypeError(f"{at!r} is not a value of the column {column.name!r}")
    # Level i lies between boundary(i) and boundary(i + 1).
    index = bisect.bisect_left(range(column.levels + 1), position, key=boundary)
    if index > column.levels:
        return Cut(column.levels)
    return Cut(index, inside=index > 0 and boundary(index) != position)


def code_of(column: Categorical | Boolean, value: Value) -> int:
    """The code of a constant in a column of unordered levels."""
    text = canonical(value) if isinstance(column, Boolean) else column.compared(value)
    if isinstance(column, Boolean):
        if text.casefold() in (*FALSE_TEXTS, *TRUE_TEXTS):
            return int(text.casefold() in TRUE_TEXTS)
        raise QueryError(f"column {column.name!r} is boolean: {shown(value)} is neither TRUE nor FALSE")
    if text in column.texts:
        return column.texts.index(text)
    if column.other_code is not None:
        if text in {OTHER_VALUE, OTHER_LABEL}:
            return column.other_code
        raise QueryError(
            f"{shown(value)} is not a declared value of column {column.name!r}: it is part of {OTHER_LABEL}, which "
            f"{OTHER_VALUE!r} stands for; {nearest(text, column.texts)}"
        )
    raise QueryError(f"{shown(value)} is not a declared value of column {column.name!r}; {nearest(text, column.texts)}")


def check_not_missing(column: Column, value: Value) -> None:
    """Refuse a constant that means missing in the column."""
    missing, text = column.missing_values, canonical(value)
    if isinstance(column, Categorical):
        missing, text = column.missing_texts, column.compared(value)
    if text in missing:
        raise QueryError(f"{shown(value)} means missing in column {column.name!r}; write {column.name} IS NULL")
