"""Row labels: what an expression in GROUP BY, such as CASE, EXTRACT or arithmetic, makes of the levels of columns.

An expression groups rows if it has one value in every cell. A date level that spans a change of the value, or a bin
that only CASE and comparisons may ask about, has none, and the query is refused for that reason.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlglot import exp

from hush.domain import Clique, Domain
from hush.errors import QueryError, SizeError
from hush.schema import Column, Date, Integer
from hush.schema.column import Value
from hush.schema.column_kinds import clamp_note, clamps
from hush.sql.constants import is_literal, literal_value
from hush.sql.formula import Cells, combine
from hush.sql.predicate import FALSE, TRUE, UNKNOWN, truth
from hush.sql.scope import Scope, quote, refusal

LARGEST_LABELLED = 2**20  # cells
MOST_LABELS = 1000
LARGEST_NUMBER = 2**53
ADVICE = "group by columns, CASE WHEN ... THEN ... END, EXTRACT(YEAR FROM ...), conditions, or whole-number arithmetic"
PARTS: dict[str, Callable[[dt.date], Value]] = {
    "YEAR": lambda day: day.year,
    "QUARTER": lambda day: (day.month + 2) // 3,
    "MONTH": lambda day: day.month,
    "DAY": lambda day: day.day,
    "WEEK": lambda day: day.isocalendar().week,
    "DOW": lambda day: day.isoweekday() % 7,
    "DAYOFWEEK": lambda day: day.isoweekday() % 7,
    "ISODOW": lambda day: day.isoweekday(),
    "DAYOFYEAR": lambda day: day.timetuple().tm_yday,
    "DOY": lambda day: day.timetuple().tm_yday,
}
STARTS: dict[str, Callable[[dt.date], Value]] = {
    "YEAR": lambda day: day.replace(month=1, day=1),
    "QUARTER": lambda day: day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1),
    "MONTH": lambda day: day.replace(day=1),
    "WEEK": lambda day: max(day.toordinal() - day.weekday(), 1),
    "DAY": lambda day: day,
}
FUNCTIONS: dict[type[exp.Expr], str] = {
    exp.Year: "YEAR",
    exp.Quarter: "QUARTER",
    exp.Month: "MONTH",
    exp.Day: "DAY",
    exp.DayOfMonth: "DAY",
    exp.Week: "WEEK",
    exp.WeekOfYear: "WEEK",
    exp.DayOfWeek: "DOW",
    exp.DayOfWeekIso: "ISODOW",
    exp.DayOfYear: "DOY",
}
ARITHMETIC: dict[type[exp.Expr], Callable[[Any, Any], Any]] = {
    exp.Add: lambda a, b: a + b,
    exp.Sub: lambda a, b: a - b,
    exp.Mul: lambda a, b: a * b,
    exp.Div: lambda a, b: a / b,
    exp.IntDiv: lambda a, b: math.trunc(a / b),  # towards zero, as in SQL
    exp.Mod: math.fmod,
}
ROUNDING: dict[type[exp.Expr], Callable[[Any], Any]] = {exp.Floor: math.floor, exp.Ceil: math.ceil, exp.Abs: abs}
WHOLE = (exp.DataType.Type.INT, exp.DataType.Type.BIGINT)
CONDITIONS = (exp.Predicate, exp.Not, exp.Boolean, exp.And, exp.Or)


@dataclass(frozen=True, slots=True)
class RowLabels:
    """The values of an expression in GROUP BY, in order with null last, and which of them each cell has."""

    values: tuple[Value, ...]
    codes: Cells

    def mask(self, code: int) -> Cells:
        """Where the expression has one of its values, as a condition."""
        return combine(lambda codes: np.where(codes == code, TRUE, FALSE).astype(np.int8), self.codes)


def row_labels(node: exp.Expr, scope: Scope) -> RowLabels:
    """The labels that an expression gives to rows.

    >>> import sqlglot
    >>> from hush.datasets import people_schema
    >>> case = sqlglot.parse_one("CASE WHEN age < 18 THEN 'child' ELSE 'adult' END")
    >>> row_labels(case, Scope(people_schema(), ["t"])).values
    ('adult', 'child')
    """
    cells = _labels(node, scope)
    found = set(cells.values.ravel().tolist())
    if len(found) > MOST_LABELS:
        raise SizeError(f"GROUP BY {quote(node)} has {len(found):,} groups: at most {MOST_LABELS:,} are possible")
    kinds = {_kind(value) for value in found if value is not None}
    if len(kinds) > 1:
        raise QueryError(f"GROUP BY {quote(node)} has values of several kinds: {' and '.join(sorted(kinds))}; use one")
    values = tuple(sorted(value for value in found if value is not None))
    values += (None,) if None in found else ()
    codes = np.frompyfunc({value: code for code, value in enumerate(values)}.__getitem__, 1, 1)
    return RowLabels(values, combine(lambda labels: np.asarray(codes(labels), dtype=np.intp), cells))


def _labels(node: exp.Expr, scope: Scope) -> Cells:
    """The value of an expression in each cell, as objects; None for null."""
    match node:
        case exp.Paren():
            return _labels(node.this, scope)
        case exp.Column():
            return _column(node, scope)
        case exp.Case():
            return _case(node, scope)
        case exp.If():
            chosen = _labels(node.args["true"], scope), _labels(node.args.get("false") or exp.Null(), scope)
            return _combine(_choose, truth(node.this, scope), *chosen)
        case exp.Coalesce():
            first, *others = (_labels(side, scope) for side in (node.this, *node.expressions))
            for other in others:
                first = _combine(lambda a, b: b if a is None else a, first, other)
            return first
        case exp.Extract() | exp.TimestampTrunc() | exp.DateTrunc():
            trunc = not isinstance(node, exp.Extract)
            unit = (node.args["unit"] if trunc else node.this).name.upper()
            return _of_days(node, node.this if trunc else node.expression, STARTS if trunc else PARTS, unit, scope)
        case exp.Anonymous() if node.name.upper() in ("DATE_PART", "DATEPART") and len(node.expressions) == 2:
            return _of_days(node, node.expressions[1], PARTS, node.expressions[0].name.upper(), scope)
        case exp.Cast() if node.to.is_type(*WHOLE) and not is_literal(node):
            return _numbers(round, scope, node.this)
    if type(node) in FUNCTIONS:
        return _of_days(node, node.this, PARTS, FUNCTIONS[type(node)], scope)
    if isinstance(node, CONDITIONS):
        return _combine({TRUE: True, FALSE: False, UNKNOWN: None}.__getitem__, truth(node, scope))
    if is_literal(node):
        return _constant(literal_value(node), scope)
    if isinstance(node, exp.Neg):
        return _numbers(lambda a: -a, scope, node.this)
    if type(node) in ARITHMETIC:
        return _numbers(ARITHMETIC[type(node)], scope, node.this, node.expression)
    if type(node) in ROUNDING and not any(value for key, value in node.args.items() if key != "this"):
        return _numbers(ROUNDING[type(node)], scope, node.this)
    if node.find(exp.AggFunc):
        raise QueryError(f"GROUP BY {quote(node)} is an aggregate; group by columns")
    raise refusal(node, ADVICE)


def _column(node: exp.Column, scope: Scope) -> Cells:
    """The levels of a column by their values; those of bins are labels."""
    column = scope.column(node)
    _check_labelled(scope.domain, (column.name,))
    values: list[Value] = list(column.level_values())
    if column.binned:
        values[: column.levels] = [column.label(code) for code in range(column.levels)]
    return _levels(column, values, scope)


def _levels(column: Column, values: list[Value], scope: Scope) -> Cells:
    if clamps(column):
        scope.note(clamp_note(column))
    return Cells((column.name,), _objects(values), scope.domain).reduced()


def _case(node: exp.Case, scope: Scope) -> Cells:
    result = _labels(node.args.get("default") or exp.Null(), scope)
    for branch in reversed(node.args["ifs"]):
        when = branch.this
        if node.this is not None:
            when = exp.EQ(this=node.this.copy(), expression=branch.this.copy())
        result = _combine(_choose, truth(when, scope), _labels(branch.args["true"], scope), result)
    return result


def _of_days(
    node: exp.Expr, inner: exp.Expr, functions: dict[str, Callable[[dt.date], Value]], part: str, scope: Scope
) -> Cells:
    """A part or the start of the days of a column; refused if a level has days that differ in it."""
    known = functions.get(part)
    if known is None:
        raise refusal(node, f"the parts of a date are {', '.join(functions)}")
    bare = inner.unnest()
    column = scope.column(bare) if isinstance(bare, exp.Column) else None
    if column is not None:
        _check_labelled(scope.domain, (column.name,))
    if not isinstance(column, Date):
        found = quote(inner) if column is None else f"column {column.name!r}, which is {column.kind}"
        raise QueryError(f"{quote(node)} takes a part of {found}; only a date column has one")
    values: list[Value] = []
    for code in range(column.levels):
        first, last = column.days(code)
        value = known(first)
        if any(known(first + dt.timedelta(days=k)) != value for k in range(1, (last - first).days + 1)):
            raise QueryError(
                f"{quote(node)} is not known: column {column.name!r} counts each {column.granularity} as one level, "
                f"and {first} to {last} has more than one {part.lower()}; give it a finer granularity in the schema"
            )
        values.append(dt.date.fromordinal(value) if functions is STARTS and isinstance(value, int) else value)
    return _levels(column, [*values, *[None] * (column.size - column.levels)], scope)


def _numbers(function: Callable[..., Any], scope: Scope, *sides: exp.Expr) -> Cells:
    """A function of numbers; null of null."""
    for side in sides:
        for node in side.find_all(exp.Column):
            column = scope.column(node)
            if column.binned:
                raise QueryError(
                    f"column {column.name!r} was counted by bins, so arithmetic on it has no single value in "
                    f"{column.label(0)}; group by the column, or by CASE with comparisons at its edges"
                )
            if not isinstance(column, Integer | Date):
                raise QueryError(f"column {column.name!r} is {column.kind} and takes no part in arithmetic; use CASE")

    def known(*values: Any) -> Value:
        if None in values:
            return None
        if not all(isinstance(value, int | float) for value in values):
            raise QueryError(f"{' and '.join(map(quote, sides))}: arithmetic takes numbers; use CASE for other values")
        try:
            result: int | float = function(*values)
        except ZeroDivisionError:
            raise QueryError("division by zero; divide by a number other than 0") from None
        except (OverflowError, ValueError):
            result = math.inf
        if not abs(result) <= LARGEST_NUMBER:
            raise QueryError(f"the numbers of GROUP BY grow beyond {LARGEST_NUMBER:,}; use smaller ones")
        return int(result) if float(result).is_integer() else result

    return _combine(known, *(_labels(side, scope) for side in sides))


def _choose(condition: int, yes: Value, no: Value) -> Value:
    return yes if condition == TRUE else no


def _combine(function: Callable[..., Value], *arguments: Cells) -> Cells:
    """A function of single values, cell by cell."""
    domain = arguments[0].domain
    names = domain.clique({name for argument in arguments for name in argument.names})
    _check_labelled(domain, names)
    each = np.frompyfunc(function, len(arguments), 1)
    return combine(lambda *values: np.asarray(each(*values), dtype=object), *arguments)


def _check_labelled(domain: Domain, names: Clique) -> None:
    if domain.size(names) > LARGEST_LABELLED:
        raise SizeError(
            f"GROUP BY depends on {', '.join(names)}, with {domain.size(names):,} cells: at most {LARGEST_LABELLED:,} "
            "are possible; name fewer columns in it"
        )


def _constant(value: Value, scope: Scope) -> Cells:
    return Cells((), _objects([value]).reshape(()), scope.domain)


def _objects(values: list[Value]) -> np.ndarray[Any, Any]:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _kind(value: Value) -> str:
    if isinstance(value, bool):
        return "TRUE or FALSE"
    return {str: "text", int: "numbers", float: "numbers", dt.date: "dates"}[type(value)]
