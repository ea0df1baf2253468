"""Predicates: a condition of a query as a truth value for every cell, by SQL's three-valued logic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Any

import numpy as np
from sqlglot import exp

from hush.core.arrays import Numbers
from hush.core.errors import QueryError, shown
from hush.core.validation import is_number
from hush.schema import Boolean, Categorical, Column, Date, Integer, Numeric
from hush.schema.column import Value
from hush.schema.column_kinds import clamp_note, clamps, mark_of
from hush.sql.constants import Cut, Ordered, Point, check_not_missing, code_of, cut, is_literal, literal_value, point
from hush.sql.formula import FALSE, TRUE, UNKNOWN, Cells, combine
from hush.sql.scalars import compared, pattern_of
from hush.sql.scope import Scope, quote, refusal

Truth = np.ndarray[Any, np.dtype[np.int8]]
CUTS_AFTER = {">=": False, ">": True, "<": False, "<=": True}  # whether a comparison cuts after its constant
SIGNS: dict[type[exp.Expr], str] = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
CHOICES = (exp.Case, exp.If, exp.Coalesce, exp.Nullif)  # expressions that choose one of several others
MIRRORED_SIGNS = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
ADVICE: dict[type[exp.Expr], str] = {
    exp.Glob: "list the values you want with IN",
    exp.RegexpLike: "list the values you want with IN",
    exp.Exists: "subqueries are outside; put the condition into WHERE",
    exp.Literal: "write a comparison, such as age >= 40",
}


def compare(column: Column, sign: str, value: Value, scope: Scope) -> Cells:
    """`column sign value`; unknown where the column is missing, and everywhere if the value is null."""
    if value is None:
        scope.note(f"{column.name} {sign} NULL is never true; write IS NULL or IS NOT NULL to ask for missing values.")
        return everywhere(UNKNOWN, scope)
    if sign in {"=", "<>"}:
        equal = among(column, [value], scope)
        return equal if sign == "=" else replace(equal, values=-equal.values)
    if not isinstance(column, Integer | Numeric | Date):
        raise QueryError(
            f"column {column.name!r} is {column.kind} and has no order for {sign}; list the values you want with IN"
        )
    at = _read(column, value, scope)
    boundary = cut(column, at, after=CUTS_AFTER[sign])
    if boundary.inside:
        raise QueryError(_cut_message(column, sign, at, boundary.level - 1))
    _note_bounds(column, f"{column.name} {sign} {_written(at)}", [boundary], scope)
    truth = _blank(column, FALSE)
    truth[boundary.level : column.levels] = TRUE
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


def everywhere(value: int, scope: Scope) -> Cells:
    """One truth value everywhere: TRUE for a query without WHERE."""
    return Cells.constant(scope.domain, value, np.int8)


def _blank(column: Column, start: int) -> Truth:
    """One truth value for all levels, unknown for missing."""
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
        level, asked = behind.level - 1, f"{column.name} = {_written(at)} asks for one value inside "
        if isinstance(column, Numeric):
            instead = f"{_beside(column, level, '>')} AND {_beside(column, level + 1, '<')}"
            raise QueryError(f"{asked}the bin {column.label(level)}; write {instead}")
        first, last = _first_and_last(column, level)
        instead = f"{column.name} BETWEEN {_written(first)} AND {_written(last)}"
        raise QueryError(f"{asked}{_named(column, level)}; write {instead}")
    _note_bounds(column, f"{column.name} = {_written(at)}", [before, behind], scope)
    return before.level, behind.level


def _read(column: Ordered, value: Value, scope: Scope) -> Point:
    """A constant as a value of the column; a number next to a bin edge, up to rounding, is read as the edge."""
    at = point(column, value)
    if not isinstance(column, Numeric) or not isinstance(at, int | float):
        return at
    mark = mark_of(column, at)
    if mark is None or mark == at:
        return at
    scope.note(f"{column.name}: {_written(at)} is read as the bin edge {mark!r}.")
    return mark


def _note_bounds(column: Ordered, comparison: str, cuts: Sequence[Cut], scope: Scope) -> None:
    """Add a note on a comparison at or beyond the column's bounds, where clamped values are counted."""
    levels, bounds = {boundary.level for boundary in cuts}, {0, column.levels}
    if clamps(column) and levels & bounds:
        scope.note(clamp_note(column))
    elif levels <= bounds:
        scope.note(f"{comparison} is true for all declared levels of {column.name}, or for none.")


def _cut_message(column: Ordered, sign: str, at: Point, level: int) -> str:
    """The message that a comparison divides a level, with the two nearest comparisons that do not."""
    asked = f"{column.name} {sign} {_written(at)} cuts through "
    if not isinstance(column, Numeric):
        first, last = _first_and_last(column, level)
        near = [_first_and_last(column, level - 1)[1] if level else None, last]
        if not CUTS_AFTER[sign]:
            near = [first, _first_and_last(column, level + 1)[0] if level + 1 < column.levels else None]
        choices = [f"{column.name} {sign} {_written(end)}" for end in near if end is not None]
        return f"{asked}{_named(column, level)}; write {' or '.join(choices)}"
    side = "><"[sign in {"<", "<="}]
    choices = [_beside(column, level, side)]
    if level + 1 < column.levels or side == "<":
        choices.append(_beside(column, level + 1, side))
    return f"{asked}the bin {column.label(level)}; write {' or '.join(choices)}"


def _first_and_last(column: Integer | Date, level: int) -> tuple[Point, Point]:
    return column.days(level) if isinstance(column, Date) else column.ends(level)


def _named(column: Integer | Date, level: int) -> str:
    """A level as a message names it."""
    if isinstance(column, Integer):
        return f"the bin {column.label(level)}"
    first, last = column.days(level)
    return f"the {column.granularity} {first} to {last}"


def _beside(column: Numeric, level: int, side: str) -> str:
    """The comparison that keeps one side of the cut before a level."""
    number, after = column.cut(level)
    return f"{column.name} {side}{'=' * (after == (side == '<'))} {_written(number)}"


def _written(at: Point) -> str:
    """A constant as it is written in a query."""
    if isinstance(at, float) and at.is_integer() and abs(at) < 1e15:
        return str(int(at))
    return repr(at) if isinstance(at, float) else shown(at) if isinstance(at, int) else f"'{at}'"


def truth(node: exp.Expr, scope: Scope) -> Cells:
    """The truth value (1, 0 for unknown, -1) of a condition in every cell of the attributes it depends on."""
    # Logic, tests and choices.
    match node:
        case exp.Paren():
            return truth(node.this, scope)
        case exp.And() | exp.Or():
            meet: Callable[..., Numbers] = np.minimum if isinstance(node, exp.And) else np.maximum
            conditions = (truth(condition, scope) for condition in node.flatten())
            return reduce(lambda left, right: combine(meet, left, right), conditions)
        case exp.Not():
            return combine(np.negative, truth(node.this, scope))
        case exp.Boolean():
            return everywhere(TRUE if node.this else FALSE, scope)
        case exp.Null():
            return everywhere(UNKNOWN, scope)
        case exp.Column():
            column = scope.column(node)
            if not isinstance(column, Boolean):
                raise QueryError(f"column {column.name!r} is {column.kind}, not a condition; compare it with a value")
            levels = _blank(column, FALSE)
            levels[1] = TRUE
            return scope.cells(column, levels)
        case exp.Is():
            if isinstance(node.expression, exp.Null):
                return _null(node.this, scope)
            if not isinstance(node.expression, exp.Boolean):
                raise refusal(node, "IS takes NULL, TRUE or FALSE")
            return exactly(TRUE if node.expression.this else FALSE, truth(node.this.unnest(), scope))
        case exp.NullSafeEQ() | exp.NullSafeNEQ():
            return _null_safe(node, scope)
        case exp.Between():
            if node.args.get("symmetric"):
                raise refusal(node, "write the lower bound first and leave SYMMETRIC out")
            above = _comparison(node.this, ">=", node.args["low"], scope)
            return conjunction(above, _comparison(node.this, "<=", node.args["high"], scope))
        case exp.In():
            return _in(node, scope)
        case exp.Case() | exp.If() | exp.Coalesce():
            return _case(node, lambda branch: truth(branch, scope), scope)
        case exp.Like() | exp.ILike() | exp.Escape() | exp.StartsWith() | exp.Contains():
            return _like(node, scope)
    # Comparisons.
    sign = SIGNS.get(type(node))
    if sign is not None:
        return _comparison(node.this, sign, node.expression, scope)
    raise refusal(node, ADVICE.get(type(node), "compare columns with constants and join conditions by AND, OR and NOT"))


def conjunction(left: Cells, right: Cells) -> Cells:
    """The AND of two conditions."""
    return combine(np.minimum, left, right)


def _comparison(left: exp.Expr, sign: str, right: exp.Expr, scope: Scope) -> Cells:
    """A comparison of any two expressions."""
    # Constants go to the right and choices such as CASE to the left.
    a, b = left.unnest(), right.unnest()
    if is_literal(a) or isinstance(b, CHOICES):
        a, sign, b = b, MIRRORED_SIGNS[sign], a
    if is_literal(b) and isinstance(a, exp.Column):
        return compare(scope.column(a), sign, literal_value(b), scope)
    if is_literal(a) and is_literal(b):
        x, y = literal_value(a), literal_value(b)  # such as 1 = 1, which generated queries contain
        try:
            holds = compared(sign, x, y)
        except (QueryError, TypeError):
            raise QueryError(f"{x!r} {sign} {y!r} compares constants of different kinds; leave it out") from None
        return everywhere({None: UNKNOWN, True: TRUE, False: FALSE}[holds], scope)
    if isinstance(a, CHOICES):
        return _case(a, lambda branch: _comparison(branch, sign, b, scope), scope)
    whole = f"{quote(left)} {sign} {quote(right)}"
    counted = _counted(a, sign, b, scope)
    if counted is not None:
        return _counted_truth(*counted, scope)
    if sign in {"=", "<>"} and _condition(a, scope) and (_condition(b, scope) or isinstance(b, exp.Null)):
        equal = combine(np.multiply, truth(a, scope), truth(b, scope))  # unknown is 0
        return equal if sign == "=" else combine(np.negative, equal)
    if isinstance(a, exp.Column) and isinstance(b, exp.Column):
        names = scope.column(a).name, scope.column(b).name
        raise QueryError(f"{whole} compares the columns {names[0]!r} and {names[1]!r}; compare each with a constant")
    for side in (a, b):
        if isinstance(side, exp.Subquery | exp.Select):
            raise refusal(side, "subqueries are outside; write the constant in its place")
        if side.find(exp.AggFunc):
            raise refusal(side, "aggregates belong in SELECT and HAVING")
    return _of_values(lambda x, y: compared(sign, x, y), scope, a, b)


def _of_values(holds: Callable[..., bool | None], scope: Scope, *sides: exp.Expr) -> Cells:
    """A condition on the values of expressions in each cell."""
    from hush.sql.row_labels import map_values, values_of  # here, because row_labels imports this module

    codes = {True: TRUE, False: FALSE, None: UNKNOWN}
    arguments = [values_of(side, scope, single=True) for side in sides]
    truths = map_values(lambda *values: codes[holds(*values)], *arguments)
    return combine(lambda values: values.astype(np.int8), truths)


def _like(node: exp.Expr, scope: Scope) -> Cells:
    """LIKE, ILIKE, starts_with and contains; the declared texts are public, so matching them reveals nothing."""
    escape, test = "", node
    if isinstance(node, exp.Escape):
        escape, test = node.expression.name, node.this
    pattern = test.expression.unnest()
    if (
        not isinstance(test, exp.Like | exp.ILike | exp.StartsWith | exp.Contains)
        or not is_literal(pattern)
        or len(escape) > 1
    ):
        raise refusal(node, "write LIKE with a pattern in single quotes")
    text = literal_value(pattern)
    if text is not None and not isinstance(text, str):
        raise refusal(node, "write LIKE with a pattern in single quotes")

    def holds(value: Value) -> bool | None:
        if value is None or text is None:
            return None
        if not isinstance(value, str):
            raise QueryError(f"{quote(node)}: {shown(value)} is not a text; compare it with =, < or >")
        if isinstance(test, exp.StartsWith | exp.Contains):
            return text in value if isinstance(test, exp.Contains) else value.startswith(text)
        like = pattern_of(text, escape, ignore_case=isinstance(test, exp.ILike))
        return like.fullmatch(value) is not None

    matching = _of_values(holds, scope, test.this)
    return combine(np.negative, matching) if test.args.get("negate") else matching


def counted_conditions(node: exp.Expr, scope: Scope) -> tuple[list[exp.Expr], frozenset[int]] | None:
    """The conditions that a comparison such as (a = 1) + (b = 2) >= 1 adds up, and the sums for which it is true."""
    sign = SIGNS.get(type(node))
    return None if sign is None else _counted(node.this.unnest(), sign, node.expression.unnest(), scope)


def _counted(a: exp.Expr, sign: str, b: exp.Expr, scope: Scope) -> tuple[list[exp.Expr], frozenset[int]] | None:
    if is_literal(a):
        a, sign, b = b, MIRRORED_SIGNS[sign], a
    if not is_literal(b) or not isinstance(a, exp.Add):
        return None
    parts = [_uncast(part) for part in a.flatten()]
    limit = literal_value(b)
    if not is_number(limit) or not all(_condition(part, scope) for part in parts):
        return None
    tests = {"=": limit.__eq__, "<>": limit.__ne__, "<": limit.__gt__, "<=": limit.__ge__}
    tests |= {">": limit.__lt__, ">=": limit.__le__}
    return parts, frozenset(number for number in range(len(parts) + 1) if tests[sign](number) is True)


def _uncast(node: exp.Expr) -> exp.Expr:
    """An expression without parentheses and CAST(... AS INTEGER) around it."""
    inner = node.unnest()
    if isinstance(inner, exp.Cast) and inner.to.this in exp.DataType.INTEGER_TYPES:
        return _uncast(inner.this)
    return inner


def _condition(node: exp.Expr, scope: Scope) -> bool:
    """Whether an expression is a condition, which counts as 1 or 0 in a sum."""
    if isinstance(node, exp.Column):
        return isinstance(scope.column(node), Boolean)
    return isinstance(node, exp.Predicate | exp.Connector | exp.Not | exp.Boolean)


def _counted_truth(parts: Sequence[exp.Expr], sums: frozenset[int], scope: Scope) -> Cells:
    """Whether the number of true conditions is one of `sums`; unknown if any condition is, like a sum with null."""

    def count(*truths: Numbers) -> Numbers:
        stacked = np.broadcast_arrays(*truths)
        number, known = np.zeros(stacked[0].shape, dtype=np.int16), np.ones(stacked[0].shape, dtype=bool)
        for truths_of_part in stacked:
            number += truths_of_part == TRUE
            known &= truths_of_part != UNKNOWN
        return np.where(known, np.where(np.isin(number, list(sums)), TRUE, FALSE), UNKNOWN).astype(np.int8)

    return combine(count, *(truth(part, scope) for part in parts))


def branches_of(node: exp.Expr) -> tuple[list[tuple[exp.Expr, exp.Expr]], exp.Expr]:
    """CASE, IF, COALESCE or NULLIF: conditions with their outcomes, last first, and the outcome if none is true."""

    def equal(left: exp.Expr, right: exp.Expr) -> exp.Expr:
        return exp.EQ(this=left.copy(), expression=right.copy())

    match node:
        case exp.Nullif():
            return [(equal(node.this, node.expression), exp.Null())], node.this
        case exp.Coalesce():
            *first, last = [node.this, *node.expressions]
            known = (exp.Not(this=exp.Is(this=side.copy(), expression=exp.Null())) for side in reversed(first))
            return list(zip(known, reversed(first), strict=True)), last
        case exp.If():
            return [(node.this, node.args["true"])], node.args.get("false") or exp.Null()
    subject = node.this
    branches = [
        (branch.this if subject is None else equal(subject, branch.this), branch.args["true"])
        for branch in reversed(node.args["ifs"])
    ]
    return branches, node.args.get("default") or exp.Null()


def _case(node: exp.Expr, outcome: Callable[[exp.Expr], Cells], scope: Scope) -> Cells:
    """The outcome of the first branch whose condition is true, else that of ELSE, which is null by default."""

    def choose(truths: Numbers, yes: Numbers, no: Numbers) -> Numbers:
        return np.asarray(np.where(truths == TRUE, yes, no), dtype=np.int8)

    branches, default = branches_of(node)
    result = outcome(default)
    for condition, then in branches:
        result = combine(choose, truth(condition, scope), outcome(then), result)
    return result


def _in(node: exp.In, scope: Scope) -> Cells:
    if node.args.get("query") is not None:
        raise refusal(node, "subqueries are outside; list the values between parentheses")
    listed = node.expressions
    if not listed or node.args.get("field") is not None or node.args.get("unnest") is not None:
        raise refusal(node, "list the values between parentheses, such as IN ('a', 'b')")
    column = node.this.unnest()
    if isinstance(column, exp.Column) and all(map(is_literal, listed)):
        return among(scope.column(column), [literal_value(value) for value in listed], scope)
    return reduce(partial(combine, np.maximum), (_comparison(column, "=", value, scope) for value in listed))


def _null_safe(node: exp.NullSafeEQ | exp.NullSafeNEQ, scope: Scope) -> Cells:
    """IS [NOT] DISTINCT FROM: null equals null, and the result is never unknown."""
    a, b = node.this.unnest(), node.expression.unnest()
    if isinstance(a, exp.Null) or isinstance(b, exp.Null):
        same = _null(b if isinstance(a, exp.Null) else a, scope)
    else:
        both = conjunction(_null(a, scope), _null(b, scope))
        same = combine(np.maximum, exactly(TRUE, _comparison(a, "=", b, scope)), both)
    return same if isinstance(node, exp.NullSafeEQ) else combine(np.negative, same)


def _null(node: exp.Expr, scope: Scope) -> Cells:
    """Whether an expression is null, which is never unknown."""
    inner = node.unnest()
    if isinstance(inner, exp.Column):
        column = scope.column(inner)
        missing = np.arange(column.size) == (-1 if column.missing_code is None else column.missing_code)
        return scope.cells(column, np.where(missing, TRUE, FALSE).astype(np.int8))
    if is_literal(inner):
        return everywhere(TRUE if literal_value(inner) is None else FALSE, scope)
    if isinstance(inner, CHOICES):
        return _case(inner, lambda branch: _null(branch, scope), scope)
    if _condition(inner, scope):
        return exactly(UNKNOWN, truth(inner, scope))
    return _of_values(lambda value: value is None, scope, inner)


def exactly(value: int, condition: Cells) -> Cells:
    """True where a condition has the given truth value, else false; WHERE keeps the rows that are exactly TRUE."""
    return combine(lambda values: np.where(values == value, TRUE, FALSE).astype(np.int8), condition)
