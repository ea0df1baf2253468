"""Scalars: operators and functions of single values, with DuckDB's semantics, and constant folding by them.

SQL has three kinds of numbers: whole numbers are int, DECIMAL such as 0.5 is an exact Fraction, DOUBLE is float. A cast
to a whole number rounds halves of DECIMAL away from zero and those of DOUBLE to the even number. Null is None.
"""

from __future__ import annotations

import calendar
import datetime as dt
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

from sqlglot import exp

from hush.core.errors import QueryError
from hush.core.validation import is_whole
from hush.schema.column_kinds import FALSE_TEXTS, TRUE_TEXTS
from hush.sql.constants import day, is_literal, literal_value, number
from hush.sql.parsing import ParsedQuery
from hush.sql.scope import quote

Scalar = Any  # None, bool, int, Fraction, float, str, dt.date or Period
Function = Callable[..., Scalar]
PERIOD_UNITS = {"DAY": (0, 1), "WEEK": (0, 7), "MONTH": (1, 0), "QUARTER": (3, 0), "YEAR": (12, 0)}


@dataclass(frozen=True, slots=True)
class Period:
    """INTERVAL: months and days."""

    months: int
    days: int


def function_of(node: exp.Expr) -> tuple[Function, list[exp.Expr]] | None:
    """The function of single values that an expression applies, and its operands; None if it applies none."""
    operator = BINARY_FUNCTIONS.get(type(node))
    if operator is not None:
        return operator, [node.this, node.expression]
    if type(node) in UNARY_FUNCTIONS and not any(value for key, value in node.args.items() if key != "this"):
        return UNARY_FUNCTIONS[type(node)], [node.this]
    if isinstance(node, exp.Cast) and not isinstance(node, exp.TryCast):
        to = node.to.this
        scale = [int(digits.name) for digits in node.to.expressions if digits.name.isdecimal()]
        if to in exp.DataType.INTEGER_TYPES:
            return as_whole, [node.this]
        if to in (exp.DataType.Type.DOUBLE, exp.DataType.Type.FLOAT):
            return as_double, [node.this]
        if to is exp.DataType.Type.DECIMAL:
            return partial(as_decimal, 3 if not scale else scale[1] if len(scale) > 1 else 0), [node.this]
        if to is exp.DataType.Type.BOOLEAN:
            return as_boolean, [node.this]
        if to is exp.DataType.Type.DATE:
            return as_day, [node.this]
        if to in exp.DataType.TEXT_TYPES and not node.to.expressions:
            return as_text, [node.this]
    return None


def applied(function: Function, values: tuple[Scalar, ...], node: exp.Expr) -> Scalar:
    """The function of some values; null if one is null, and QueryError if the function is undefined."""
    if None in values:
        return None
    try:
        result = function(*values)
    except ZeroDivisionError:
        raise QueryError("division by zero; divide by a number other than 0") from None
    except (TypeError, AttributeError):
        raise QueryError(f"{quote(node)}: arithmetic takes numbers, and text functions take texts; use CASE") from None
    except (OverflowError, ValueError):
        result = math.inf
    if isinstance(result, float) and not math.isfinite(result):
        raise QueryError(f"{quote(node)} is too large to represent; use smaller numbers")
    return result


def period_of(node: exp.Interval) -> Period:
    """The period of INTERVAL 7 DAY: whole days, weeks, months, quarters or years."""
    unit = "" if node.args.get("unit") is None else node.args["unit"].name.upper().removesuffix("S")
    count = "" if node.this is None else node.this.name
    if unit not in PERIOD_UNITS or not re.fullmatch(r"[+-]?\d{1,6}", count):
        raise QueryError(f"{quote(node)}: write a whole number of days, weeks, months, quarters or years")
    months, days = PERIOD_UNITS[unit]
    return Period(months * int(count), days * int(count))


def as_whole(value: Scalar) -> int:
    """CAST(... AS INTEGER): halves of DECIMAL and of texts go away from zero, those of DOUBLE to the even number."""
    if isinstance(value, str):
        value = Fraction(str(number(value.strip())))
    _check(value, (int, float, Fraction))
    return round(value) if isinstance(value, float) else _away(Fraction(value))


def as_double(value: Scalar) -> float:
    """CAST(... AS DOUBLE)."""
    _check(value, (int, float, Fraction, str))
    return float(number(value.strip()) if isinstance(value, str) else value)


def as_decimal(scale: int, value: Scalar) -> Fraction:
    """CAST(... AS DECIMAL(p, scale))."""
    exact = Fraction(str(number(value.strip()))) if isinstance(value, str) else Fraction(value)
    return Fraction(_away(exact * 10**scale), 10**scale)


def as_boolean(value: Scalar) -> bool:
    """CAST(... AS BOOLEAN)."""
    if not isinstance(value, str):
        _check(value, (int, float, Fraction))
        return bool(value != 0)
    text = value.strip().casefold()
    if text not in (*TRUE_TEXTS, *FALSE_TEXTS):
        raise QueryError(f"{value[:40]!r} is neither TRUE nor FALSE")
    return text in TRUE_TEXTS


def as_day(value: Scalar) -> dt.date:
    """CAST(... AS DATE)."""
    _check(value, (dt.date, str))
    return day(value) if isinstance(value, str) else value


def as_text(value: Scalar) -> str:
    """CAST(... AS VARCHAR), of texts, whole numbers, dates and conditions."""
    _check(value, (str, int, dt.date))
    return str(value).lower() if isinstance(value, bool) else str(value)


def compared(sign: str, a: Scalar, b: Scalar) -> bool | None:
    """Whether a comparison holds, None if a side is null; a text is read as a value of the other side's kind."""
    if a is None or b is None:
        return None
    if isinstance(a, str) != isinstance(b, str):
        a, b = (_read_as(a, b), b) if isinstance(a, str) else (a, _read_as(b, a))
    if isinstance(a, float) or isinstance(b, float):
        a, b = (float(side) if isinstance(side, Fraction) else side for side in (a, b))
    if isinstance(a, dt.date) != isinstance(b, dt.date):
        raise QueryError("a date is compared with something else; write dates as DATE '2020-01-31'")
    order: int = (a > b) - (a < b)
    return {"=": order == 0, "<>": order != 0, "<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0}[sign]


def pattern_of(text: str, escape: str = "", *, ignore_case: bool = False) -> re.Pattern[str]:
    """The pattern of LIKE: % stands for any text, _ for one character.

    >>> bool(pattern_of("a_c%").fullmatch("abcd")), bool(pattern_of("A%", ignore_case=True).fullmatch("abc"))
    (True, True)
    """
    pieces, characters = [], iter(text)
    for character in characters:
        if character == escape:
            pieces.append(re.escape(next(characters, "")))
        else:
            pieces.append({"%": ".*", "_": "."}.get(character, re.escape(character)))
    return re.compile("".join(pieces), re.DOTALL | (re.IGNORECASE if ignore_case else 0))


def plain(value: Scalar) -> Scalar:
    """A number as answers show it: whole numbers as int, others as float."""
    if isinstance(value, float | Fraction):
        return int(value) if value == int(value) else float(value)
    return value


def folded(query: ParsedQuery) -> ParsedQuery:
    """The query with constant expressions replaced by their values: 6 for 2 * 3.

    Items of GROUP BY and ORDER BY that are constants stay as they are, because a number there is a position.
    """

    def placed(node: exp.Expr) -> exp.Expr:
        result = _folded(node)
        before, after = (side.this if isinstance(side, exp.Ordered) else side for side in (node, result))
        return node if is_literal(after) and not is_literal(before) else result

    return query.rewritten(_folded, positions=placed)


def _folded(node: exp.Expr) -> exp.Expr:
    """An expression with the values of its constant parts, innermost first."""
    whole = node.copy()
    for piece in reversed(list(whole.walk(bfs=False))):  # operands before what applies to them
        call = None if is_literal(piece) else function_of(piece)
        if call is None or not all(is_literal(side) or isinstance(side.unnest(), exp.Interval) for side in call[1]):
            continue
        constant = _literal(applied(call[0], tuple(exact(operand) for operand in call[1]), piece))
        if piece is whole:
            return constant
        piece.replace(constant)
    return whole


def exact(node: exp.Expr) -> Scalar:
    """The value of a constant, DECIMAL as an exact Fraction."""
    inner = node.unnest()
    if isinstance(inner, exp.Interval):
        return period_of(inner)
    if isinstance(inner, exp.Neg):
        value = exact(inner.this)
        return None if value is None else -value
    if isinstance(inner, exp.Literal) and not inner.is_string and re.fullmatch(r"\d*\.\d*", inner.name):
        return Fraction(inner.name if inner.name[-1:] != "." else inner.name + "0")
    return literal_value(inner)


def _literal(value: Scalar) -> exp.Expr:
    """A value as a literal of SQL."""
    if value is None:
        return exp.Null()
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, str):
        return exp.Literal.string(value)
    if isinstance(value, dt.date):
        return exp.cast(exp.Literal.string(value.isoformat()), exp.DataType.Type.DATE)
    if isinstance(value, float):
        text = repr(abs(value))
        written = exp.Literal.number(text if "e" in text else f"{text}e0")
    elif isinstance(value, Fraction):
        digits = 0
        while (value * 10**digits).denominator != 1:
            digits += 1
        whole, part = divmod(abs(int(value * 10**digits)), 10**digits)
        written = exp.Literal.number(f"{whole}.{part:0{max(digits, 1)}d}" if digits else f"{whole}.0")
    else:
        written = exp.Literal.number(str(abs(value)))
    return exp.Neg(this=written) if value < 0 else written


def _check(value: Scalar, kinds: tuple[type, ...]) -> None:
    """Raise TypeError, which `applied` turns into a message, for a value of another kind."""
    if not isinstance(value, kinds):
        raise TypeError


def _away(value: Fraction) -> int:
    """The nearest whole number, halves away from zero."""
    return int(math.copysign(1, value)) * math.floor(abs(value) + Fraction(1, 2))


def _read_as(text: str, other: Scalar) -> Scalar:
    """A text as a value of the kind of the other side of a comparison."""
    if isinstance(other, bool):
        return as_boolean(text)
    return day(text) if isinstance(other, dt.date) else number(text.strip())


def _arithmetic(function: Function) -> Function:
    """A function of two numbers, computed in doubles if one is a double; refuses conditions and texts."""

    def known(a: Scalar, b: Scalar) -> Scalar:
        for side in (a, b):
            if isinstance(side, bool) or not isinstance(side, int | float | Fraction):
                raise TypeError
        if isinstance(a, float) or isinstance(b, float):
            a, b = float(a), float(b)
        return function(a, b)

    return known


def _added(sign: int) -> Function:
    """A sum or a difference, of dates and periods too."""
    numbers = _arithmetic(lambda a, b: a + sign * b)

    def known(a: Scalar, b: Scalar) -> Scalar:
        if isinstance(a, dt.date) and isinstance(b, Period):
            return _moved(a, sign * b.months, sign * b.days)
        if isinstance(a, Period) and isinstance(b, dt.date) and sign > 0:
            return _moved(b, a.months, a.days)
        if isinstance(a, dt.date) and is_whole(b):
            return _moved(a, 0, sign * b)
        if isinstance(a, dt.date) and isinstance(b, dt.date) and sign < 0:
            return (a - b).days
        return numbers(a, b)

    return known


def _moved(start: dt.date, months: int, days: int) -> dt.date:
    """A date moved by months, to the last day of a month that is too short, then by days."""
    year, month = divmod(start.year * 12 + start.month - 1 + months, 12)
    last = calendar.monthrange(year, month + 1)[1]
    return dt.date(year, month + 1, min(start.day, last)) + dt.timedelta(days=days)


def _whole_quotient(a: Scalar, b: Scalar) -> int:
    """a // b, towards zero."""
    if not (isinstance(a, int) and isinstance(b, int)):
        raise TypeError
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _remainder(a: Scalar, b: Scalar) -> Scalar:
    """a % b, with the sign of a."""
    return math.fmod(a, b) if isinstance(a, float) else a - b * math.trunc(Fraction(a) / b)


def _rounding(function: Function) -> Function:
    """A function of one number whose result has the same kind of number."""

    def known(a: Scalar) -> Scalar:
        if isinstance(a, bool):
            raise TypeError
        result = function(a)
        return type(a)(result) if isinstance(a, int | float | Fraction) else result

    return known


BINARY_FUNCTIONS: dict[type[exp.Expr], Function] = {
    exp.Add: _added(1),
    exp.Sub: _added(-1),
    exp.Mul: _arithmetic(lambda a, b: a * b),
    exp.Div: _arithmetic(lambda a, b: float(a) / float(b)),
    exp.IntDiv: _arithmetic(_whole_quotient),
    exp.Mod: _arithmetic(_remainder),
}
UNARY_FUNCTIONS: dict[type[exp.Expr], Function] = {
    exp.Neg: _rounding(lambda a: -a),
    exp.Floor: _rounding(math.floor),
    exp.Ceil: _rounding(math.ceil),
    exp.Round: _rounding(lambda a: _away(Fraction(a))),
    exp.Abs: _rounding(abs),
    exp.Lower: str.lower,
    exp.Upper: str.upper,
    exp.Length: len,
    exp.Trim: lambda text: text.strip(" "),
}
