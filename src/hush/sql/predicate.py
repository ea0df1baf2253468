"""Predicates: the condition of a query as a truth value for each cell, by SQL's three-valued logic."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np
from sqlglot import exp

from hush.errors import QueryError
from hush.schema import Boolean
from hush.schema.column import Value
from hush.sql.cells import Cells, Numbers, combine
from hush.sql.comparison import FALSE, TRUE, UNKNOWN, among, compare, is_missing, is_set, unknown
from hush.sql.literal import is_literal, literal_value
from hush.sql.scope import Scope, quote, refusal

SIGNS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
ADVICE: dict[type[exp.Expr], str] = {
    exp.Like: "list the values you want with IN",
    exp.ILike: "list the values you want with IN",
    exp.Glob: "list the values you want with IN",
    exp.RegexpLike: "list the values you want with IN",
    exp.Exists: "subqueries are outside; put the condition into WHERE",
    exp.Case: "write the condition with AND, OR and NOT",
    exp.If: "write the condition with AND, OR and NOT",
    exp.Literal: "write a comparison, such as age >= 40",
}


def truth(node: exp.Expr, scope: Scope) -> Cells:
    """The truth value (1, 0 for unknown, -1) of a condition in every cell of the attributes it depends on."""
    match node:
        case exp.Paren():
            return truth(node.this, scope)
        case exp.And() | exp.Or():
            meet: Callable[..., Numbers] = np.minimum if isinstance(node, exp.And) else np.maximum
            parts = (truth(part, scope) for part in node.flatten())
            return reduce(lambda left, right: combine(meet, left, right), parts)
        case exp.Not():
            return combine(np.negative, truth(node.this, scope))
        case exp.Boolean():
            return Cells.constant(scope.domain, TRUE if node.this else FALSE, np.int8)
        case exp.Null():
            return unknown(scope)
        case exp.Column():
            column = scope.column(node)
            if not isinstance(column, Boolean):
                raise QueryError(f"column {column.name!r} is {column.kind}, not a condition; compare it with a value")
            return is_set(column, scope)
        case exp.Is():
            return _is(node, scope)
        case exp.NullSafeEQ() | exp.NullSafeNEQ():
            return _null_safe(node, scope)
        case exp.Between():
            return _between(node, scope)
        case exp.In():
            return _in(node, scope)
    sign = SIGNS.get(type(node))
    if sign is not None:
        return _comparison(node.this, sign, node.expression, scope)
    raise refusal(node, ADVICE.get(type(node), "compare columns with constants and join the parts by AND, OR and NOT"))


def always(scope: Scope) -> Cells:
    """The condition of a query without WHERE."""
    return Cells.constant(scope.domain, TRUE, np.int8)


def conjunction(left: Cells, right: Cells) -> Cells:
    """Both conditions."""
    return combine(np.minimum, left, right)


def only_true(values: Numbers) -> Numbers:
    """What WHERE keeps: unknown is like false."""
    return np.where(values == TRUE, TRUE, FALSE).astype(np.int8)


def _comparison(left: exp.Expr, sign: str, right: exp.Expr, scope: Scope) -> Cells:
    a, b = left.unnest(), right.unnest()
    if isinstance(a, exp.Column) and is_literal(b):
        return compare(scope.column(a), sign, literal_value(b), scope)
    if is_literal(a) and isinstance(b, exp.Column):
        return compare(scope.column(b), MIRRORED[sign], literal_value(a), scope)
    if is_literal(a) and is_literal(b):
        return _constants(literal_value(a), sign, literal_value(b), scope)
    whole = f"{quote(left)} {sign} {quote(right)}"
    if isinstance(a, exp.Column) and isinstance(b, exp.Column):
        names = scope.column(a).name, scope.column(b).name
        raise QueryError(f"{whole} compares the columns {names[0]!r} and {names[1]!r}; compare each with a constant")
    for side in (a, b):
        if isinstance(side, exp.Subquery | exp.Select):
            raise refusal(side, "subqueries are outside; write the constant in its place")
        if side.find(exp.AggFunc):
            raise refusal(side, "aggregates belong into SELECT; keep the rows you want from the answers")
    raise QueryError(f"{whole} is not a column compared with a constant; move all arithmetic to the constant")


def _constants(left: Value, sign: str, right: Value, scope: Scope) -> Cells:
    """A comparison such as 1 = 1, which generated queries contain."""
    if left is None or right is None:
        return unknown(scope)
    numbers = all(isinstance(side, int | float) for side in (left, right))
    if not numbers and type(left) is not type(right):
        raise QueryError(f"{left!r} {sign} {right!r} compares constants of different kinds; leave it out")
    order = (left > right) - (left < right)  # type: ignore[operator]
    holds = {"=": order == 0, "<>": order != 0, "<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0}
    return Cells.constant(scope.domain, TRUE if holds[sign] else FALSE, np.int8)


def _between(node: exp.Between, scope: Scope) -> Cells:
    if node.args.get("symmetric"):
        raise refusal(node, "write the lower bound first and leave SYMMETRIC out")
    above = _comparison(node.this, ">=", node.args["low"], scope)
    return conjunction(above, _comparison(node.this, "<=", node.args["high"], scope))


def _in(node: exp.In, scope: Scope) -> Cells:
    if node.args.get("query") is not None:
        raise refusal(node, "subqueries are outside; list the values between parentheses")
    listed = node.expressions
    if not listed or node.args.get("field") is not None or node.args.get("unnest") is not None:
        raise refusal(node, "list the values between parentheses, such as IN ('a', 'b')")
    column = node.this.unnest()
    if not isinstance(column, exp.Column):
        raise refusal(node, "IN takes a column on its left")
    return among(scope.column(column), [literal_value(each) for each in listed], scope)


def _is(node: exp.Is, scope: Scope) -> Cells:
    asked, inner = node.expression, node.this.unnest()
    if isinstance(asked, exp.Null):
        if isinstance(inner, exp.Column):
            return is_missing(scope.column(inner), scope)
        wanted = UNKNOWN
    elif isinstance(asked, exp.Boolean):
        wanted = TRUE if asked.this else FALSE
    else:
        raise refusal(node, "IS takes NULL, TRUE or FALSE")
    return _exactly(truth(inner, scope), wanted)


def _null_safe(node: exp.NullSafeEQ | exp.NullSafeNEQ, scope: Scope) -> Cells:
    """IS [NOT] DISTINCT FROM: null equals null, and the outcome is never unknown."""
    a, b = node.this.unnest(), node.expression.unnest()
    column, other = (a, b) if isinstance(a, exp.Column) else (b, a)
    if not isinstance(column, exp.Column) or not is_literal(other):
        raise refusal(node, "compare one column with one constant")
    value = literal_value(other)
    if value is None:
        same = is_missing(scope.column(column), scope)
    else:
        same = _exactly(compare(scope.column(column), "=", value, scope), TRUE)
    return same if isinstance(node, exp.NullSafeEQ) else combine(np.negative, same)


def _exactly(condition: Cells, wanted: int) -> Cells:
    """True where a condition has the wanted truth value, else false."""
    return combine(lambda values: np.where(values == wanted, TRUE, FALSE).astype(np.int8), condition)
