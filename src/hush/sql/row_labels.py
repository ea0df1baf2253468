"""Row labels: the value of an expression in GROUP BY, such as CASE, EXTRACT or arithmetic, in every cell.

An expression can group rows if it has one value in every cell. It has none in a date level that spans several values,
or in a bin, unless CASE and comparisons reduce it to one; such a query is refused. Parts of times, such as
EXTRACT(hour FROM pickup), become the columns by which times are counted.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from sqlglot import exp

from hush.core.domain import Clique, Domain
from hush.core.errors import QueryError, SizeError
from hush.schema import Categorical, Column, Date, Granularity, Schema, Stamp, Timestamp
from hush.schema.column import OTHER_LABEL, Value
from hush.schema.column_kinds import clamp_note, clamps
from hush.schema.stamps import DATE, HOUR, MINUTE, MONTH, TIME_PARTS, WEEKDAY
from hush.sql.constants import is_literal
from hush.sql.formula import FALSE, TRUE, UNKNOWN, Cells, combine
from hush.sql.parsing import ParsedQuery
from hush.sql.predicate import branches_of, truth
from hush.sql.scalars import applied, exact, function_of, plain
from hush.sql.scope import Scope, quote, refusal

LARGEST_LABELLED = 2**20  # cells
MOST_LABELS = 1000
LARGEST_NUMBER = 2**53
DATE_PARTS: dict[str, Callable[[dt.date], Value]] = {
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
PERIOD_STARTS: dict[str, Callable[[dt.date], Value]] = {
    "YEAR": lambda day: day.replace(month=1, day=1),
    "QUARTER": lambda day: day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1),
    "MONTH": lambda day: day.replace(day=1),
    "WEEK": lambda day: max(day.toordinal() - day.weekday(), 1),
    "DAY": lambda day: day,
}
DATE_FUNCTIONS: dict[type[exp.Expr], str] = {
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
STAMP_FUNCTIONS: dict[type[exp.Expr], str] = {
    exp.Hour: HOUR,
    exp.Minute: MINUTE,
    exp.Month: MONTH,
    exp.Dayname: WEEKDAY,
    exp.Date: DATE,
}


@dataclass(frozen=True, slots=True)
class RowLabels:
    """The values of an expression in GROUP BY, in order with null last, and the index of each cell's value."""

    values: tuple[Value, ...]
    codes: Cells

    def mask(self, code: int) -> Cells:
        """The condition that the expression has a certain value."""
        return combine(lambda codes: np.where(codes == code, TRUE, FALSE).astype(np.int8), self.codes)


def row_labels(node: exp.Expr, scope: Scope) -> RowLabels:
    """The labels that an expression gives to rows.

    >>> import sqlglot
    >>> from hush.datasets import people_schema
    >>> case = sqlglot.parse_one("CASE WHEN age < 18 THEN 'child' ELSE 'adult' END")
    >>> row_labels(case, Scope(people_schema(), ["t"])).values
    ('adult', 'child')
    """
    cells = map_values(plain, values_of(node, scope))
    labels = set(cells.values.ravel().tolist())
    if len(labels) > MOST_LABELS:
        raise SizeError(f"GROUP BY {quote(node)} has {len(labels):,} groups: at most {MOST_LABELS:,} are possible")
    names = {bool: "TRUE or FALSE", str: "text", int: "numbers", float: "numbers", dt.date: "dates"}
    kinds = {names[type(value)] for value in labels if value is not None}
    if len(kinds) > 1:
        raise QueryError(f"GROUP BY {quote(node)} has values of several kinds: {' and '.join(sorted(kinds))}; use one")
    values = tuple(sorted(value for value in labels if value is not None))
    values += (None,) if None in labels else ()
    codes = np.frompyfunc({value: code for code, value in enumerate(values)}.__getitem__, 1, 1)
    return RowLabels(values, combine(lambda labels: np.asarray(codes(labels), dtype=np.intp), cells))


def values_of(node: exp.Expr, scope: Scope, *, single: bool = False) -> Cells:
    """The value of an expression in each cell, as objects; None for null.

    `single` refuses columns in which a level has several values; otherwise the label of a bin stands for it.
    """
    # Columns, choices, and parts of dates.
    match node:
        case exp.Paren():
            return values_of(node.this, scope, single=single)
        case exp.Column():
            column = scope.column(node)
            _check_labelled(scope.domain, (column.name,))
            if single:
                _check_single(column)
            values: list[Value] = list(column.level_values())
            if column.binned:
                values[: column.levels] = [column.label(code) for code in range(column.levels)]
            return _levels(column, values, scope)
        case exp.Case() | exp.If() | exp.Coalesce() | exp.Nullif():
            branches, default = branches_of(node)
            chosen = values_of(default, scope, single=single)
            for condition, outcome in branches:
                outcomes = values_of(outcome, scope, single=single)
                chosen = map_values(
                    lambda truths, yes, no: yes if truths == TRUE else no, truth(condition, scope), outcomes, chosen
                )
            return chosen
        case exp.TimestampTrunc() | exp.DateTrunc():
            return _of_days(node, node.this, PERIOD_STARTS, node.args["unit"].name.upper(), scope)
        case exp.Cast() if node.to.is_type(exp.DataType.Type.DATE) and isinstance(
            node.this.unnest(), exp.TimestampTrunc | exp.DateTrunc
        ):
            return values_of(node.this, scope)
    # Conditions, constants, and functions of single values.
    if part := _date_part(node):
        return _of_days(node, part[1], DATE_PARTS, part[0], scope)
    if isinstance(node, exp.Predicate | exp.Not | exp.Boolean | exp.And | exp.Or):
        return map_values({TRUE: True, FALSE: False, UNKNOWN: None}.__getitem__, truth(node, scope))
    if is_literal(node) or isinstance(node, exp.Interval):
        return Cells((), _objects([exact(node)]).reshape(()), scope.domain)
    if node.find(exp.AggFunc):
        raise QueryError(f"GROUP BY {quote(node)} is an aggregate; group by columns")
    call = function_of(node)
    if call is None:
        raise refusal(
            node, "use columns, CASE WHEN ... THEN ... END, EXTRACT(YEAR FROM ...), conditions, LOWER, or arithmetic"
        )
    function, operands = call

    def evaluate(*arguments: Any) -> Any:
        result = applied(function, arguments, node)
        if isinstance(result, int | float | Fraction) and not -LARGEST_NUMBER <= result <= LARGEST_NUMBER:
            raise QueryError(f"{quote(node)} has numbers beyond {LARGEST_NUMBER:,}; use smaller ones")
        return result

    return map_values(evaluate, *(values_of(operand, scope, single=True) for operand in operands))


def _check_single(column: Column) -> None:
    """Refuse a column in which some level has several values."""
    if column.binned:
        raise QueryError(
            f"column {column.name!r} was counted by bins, so arithmetic on it has no single value in "
            f"{column.label(0)}; group by the column, or by CASE with comparisons at its edges"
        )
    if isinstance(column, Date) and column.granularity is not Granularity.DAY:
        raise QueryError(
            f"column {column.name!r} counts each {column.granularity} as one level, so arithmetic on it has no single "
            "value; compare the column with a date"
        )
    if isinstance(column, Categorical) and column.other_code is not None:
        raise QueryError(
            f"column {column.name!r} counts values that the schema does not declare together as {OTHER_LABEL}, and "
            "their texts are not known; list the values you want with IN"
        )


def _levels(column: Column, values: list[Value], scope: Scope) -> Cells:
    """The values of a column's levels as cells, with a note if the column clamps."""
    if clamps(column):
        scope.note(clamp_note(column))
    return scope.cells(column, _objects(values))


def _of_days(
    node: exp.Expr, inner: exp.Expr, functions: dict[str, Callable[[dt.date], Value]], part: str, scope: Scope
) -> Cells:
    """A part of a date, or the start of its period, for every level of a column; refused if a level has several."""
    known = functions.get(part)
    if known is None:
        raise refusal(node, f"the parts of a date are {', '.join(functions)}")
    bare = inner.unnest()
    column = scope.column(bare) if isinstance(bare, exp.Column) else None
    if column is not None:
        _check_labelled(scope.domain, (column.name,))
    if not isinstance(column, Date):
        source = quote(inner) if column is None else f"column {column.name!r}, which is {column.kind}"
        raise QueryError(f"{quote(node)} takes a part of {source}; only a date column has one")
    if part == "WEEK":
        scope.note(f"{quote(node)}: weeks start on Mondays and are numbered by ISO 8601.")
    values: list[Value] = []
    for code in range(column.levels):
        first, last = column.days(code)
        value = known(first)
        if any(known(first + dt.timedelta(days=k)) != value for k in range(1, (last - first).days + 1)):
            raise QueryError(
                f"{quote(node)} is not known: column {column.name!r} counts each {column.granularity} as one level, "
                f"and {first} to {last} has more than one {part.lower()}; give it a finer granularity in the schema"
            )
        values.append(dt.date.fromordinal(value) if functions is PERIOD_STARTS and isinstance(value, int) else value)
    return _levels(column, [*values, *[None] * (column.size - column.levels)], scope)


def map_values(function: Callable[..., Any], *arguments: Cells) -> Cells:
    """A function of single values, cell by cell."""
    domain = arguments[0].domain
    names = domain.clique({name for argument in arguments for name in argument.names})
    _check_labelled(domain, names)
    vectorised = np.frompyfunc(function, len(arguments), 1)
    return combine(lambda *values: np.asarray(vectorised(*values), dtype=object), *arguments)


def _check_labelled(domain: Domain, names: Clique) -> None:
    """Refuse an expression over too many cells, before its values are computed."""
    if domain.size(names) > LARGEST_LABELLED:
        raise SizeError(
            f"an expression depends on {', '.join(names)}, with {domain.size(names):,} cells: at most "
            f"{LARGEST_LABELLED:,} are possible; name fewer columns in it"
        )


def _objects(values: list[Any]) -> np.ndarray[Any, Any]:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def with_stamp_parts(query: ParsedQuery, schema: Schema) -> ParsedQuery:
    """The query with functions of times, such as EXTRACT(hour FROM pickup), replaced by the columns of their parts.

    `pickup.hour` needs no quotes. A part of the date without a column of its own, such as its year or quarter, is taken
    from the date column.
    """
    stamps = {column.source.casefold(): column.part.stamp for column in schema if column.part is not None}
    if not stamps:
        return query
    tables = {table.casefold() for table in query.tables}

    # A column counts as a time unless it is qualified with something other than the table.
    def of_table(column: exp.Column) -> bool:
        return not column.table or column.table.casefold() in tables

    def rewritten(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column):
            return column_of(node)
        asked = _date_part(node)
        if asked is None and isinstance(node, exp.Cast) and node.to.is_type(exp.DataType.Type.DATE):
            asked = DATE, node.this
        elif asked is None and isinstance(node, exp.TimestampTrunc | exp.DateTrunc):
            asked = "start", node.this
        elif type(node) in STAMP_FUNCTIONS and isinstance(node.this, exp.Expr):
            asked = STAMP_FUNCTIONS[type(node)], node.this
        part, inner = ("", None) if asked is None else (asked[0].lower(), asked[1].unnest())
        stamp = stamps.get(inner.name.casefold()) if isinstance(inner, exp.Column) and of_table(inner) else None
        if inner is None or stamp is None:
            return node
        by_day = isinstance(stamp, Timestamp) and stamp.granularity is Granularity.DAY
        if part in stamp.parts and (part != DATE or by_day):
            return exp.column(f"{stamp.name}.{part}", quoted=True)
        if DATE in stamp.parts and part not in (DATE, *TIME_PARTS):
            inner.replace(exp.column(f"{stamp.name}.{DATE}", quoted=True))
            return node
        raise QueryError(f"{quote(node)} is not known: {_parts_advice(stamp)}")

    def column_of(node: exp.Column) -> exp.Expr:
        whole = of_table(node)
        stamp, part = stamps.get((node.name if whole else node.table).casefold()), node.name.casefold()
        if stamp is None or (not whole and part not in stamp.parts):
            return node
        if whole:
            raise QueryError(
                f"column {stamp.name!r} holds times, which have no level of their own: {_parts_advice(stamp)}"
            )
        return exp.column(f"{stamp.name}.{part}", quoted=True)

    return query.rewritten(lambda node: node.transform(rewritten))


def _date_part(node: exp.Expr) -> tuple[str, exp.Expr] | None:
    """The part of a date that an expression such as EXTRACT or YEAR takes, and its argument; None for others."""
    if isinstance(node, exp.Extract):
        return node.this.name.upper(), node.expression
    two = isinstance(node, exp.Anonymous) and len(node.expressions) == 2
    if two and node.name.upper() in ("DATE_PART", "DATEPART"):
        return node.expressions[0].name.upper(), node.expressions[1]
    part = DATE_FUNCTIONS.get(type(node))
    return None if part is None or not isinstance(node.this, exp.Expr) else (part, node.this)


def _parts_advice(stamp: Stamp) -> str:
    names = ", ".join(f'"{stamp.name}.{part}"' for part in stamp.parts)
    return f"its times are counted by {names}; ask for these"
