"""Literals: the constants of a query as Python values."""

from __future__ import annotations

import datetime as dt
import math
import re

from sqlglot import exp

from hush.errors import QueryError
from hush.schema.column import Value
from hush.sql.scope import quote, refusal

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def is_literal(node: exp.Expr) -> bool:
    """Whether a piece of the query is a constant."""
    inner = node.unnest()
    if isinstance(inner, exp.Neg):
        return is_literal(inner.this)
    if isinstance(inner, exp.Cast):
        return is_date_cast(inner)
    return isinstance(inner, exp.Literal | exp.Boolean | exp.Null)


def is_date_cast(node: exp.Cast) -> bool:
    """Whether it is DATE '...' or a cast of a text to DATE."""
    return bool(node.to.is_type(exp.DataType.Type.DATE)) and isinstance(node.this, exp.Literal)


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
            if isinstance(value, int | float) and not isinstance(value, bool):
                return -value
        case exp.Cast() if is_date_cast(inner):
            return day(inner.this.name)
    raise refusal(inner, "write a plain number, text, date, TRUE, FALSE or NULL in its place")


def constant_number(node: exp.Expr) -> int | float:
    """The value of a constant that must be a number."""
    value = literal_value(node)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise QueryError(f"{quote(node)}: expected a number here")


def number(text: str) -> int | float:
    """A number as SQL spells it: an integer where there is neither point nor exponent."""
    try:
        value = int(text) if text.isdecimal() or (text[:1] in "+-" and text[1:].isdecimal()) else float(text)
    except ValueError:
        raise QueryError(f"{text[:40]!r} is not a number that hush can read; write it in plain digits") from None
    if isinstance(value, float) and not math.isfinite(value):
        raise QueryError(f"{text[:40]!r} is not a finite number; write it in plain digits")
    return value


def day(text: str) -> dt.date:
    """A date written as year-month-day."""
    try:
        if _DAY.fullmatch(text):
            return dt.date.fromisoformat(text)
    except ValueError:
        pass
    raise QueryError(f"{text[:40]!r} is not a date; write it as '2020-01-31'")
