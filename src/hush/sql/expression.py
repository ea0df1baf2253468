"""Expressions: an item of SELECT, arithmetic over aggregates, as a formula of counts."""

from __future__ import annotations

from sqlglot import exp

from hush.errors import QueryError
from hush.sql.aggregate import aggregate
from hush.sql.cells import Cells
from hush.sql.formula import Formula
from hush.sql.literal import constant_number, is_literal
from hush.sql.scope import Scope, quote, refusal

FLOATS = (exp.DataType.Type.DOUBLE, exp.DataType.Type.FLOAT, exp.DataType.Type.DECIMAL)
SUPPORTED = "COUNT, SUM, AVG, and their sums, differences, multiples and ratios are supported"
ADVICE: dict[type[exp.Expr], str] = {
    exp.Window: "window functions are outside; compute them from the answers",
    exp.Subquery: "subqueries are outside; ask for each number in a query of its own",
    exp.Round: "leave it out and round the answers",
    exp.IntDiv: "write / for a ratio",
    exp.Mod: SUPPORTED,
    exp.Min: "extremes cannot be read from counts; ask for the counts of the levels with GROUP BY",
    exp.Max: "extremes cannot be read from counts; ask for the counts of the levels with GROUP BY",
    exp.Median: "ask for the counts of the levels with GROUP BY and add them up",
    exp.Case: "put CASE inside an aggregate, such as SUM(CASE WHEN ... THEN 1 ELSE 0 END)",
}


def formula_of(node: exp.Expr, where: Cells, scope: Scope) -> Formula:
    """The formula of an item over the rows that satisfy `where`."""
    match node:
        case exp.Paren():
            return formula_of(node.this, where, scope)
        case exp.Add():
            return formula_of(node.this, where, scope).plus(formula_of(node.expression, where, scope))
        case exp.Sub():
            return formula_of(node.this, where, scope).plus(formula_of(node.expression, where, scope).times(-1.0))
        case exp.Neg() if not is_literal(node):
            return formula_of(node.this, where, scope).times(-1.0)
        case exp.Mul():
            return _product(node, where, scope)
        case exp.Div():
            if is_literal(node.expression) and constant_number(node.expression) == 0:
                raise QueryError(f"{quote(node)} divides by zero; divide by a count, a sum or another number")
            return formula_of(node.this, where, scope).over(formula_of(_guarded(node.expression), where, scope))
        case exp.Cast() if node.to.is_type(*FLOATS):
            return formula_of(node.this, where, scope)
        case exp.Cast() if not is_literal(node):
            raise refusal(node, "leave the cast out: answers are numbers with a fraction")
        case exp.Count() | exp.Sum() | exp.Avg() | exp.CountIf() | exp.Filter():
            return aggregate(node, where, scope)
        case exp.Column():
            column = scope.column(node)
            raise QueryError(
                f"column {column.name!r} stands outside an aggregate here; put it into GROUP BY, or COUNT it"
            )
    if is_literal(node):
        return Formula(Cells.constant(scope.domain, 0.0), float(constant_number(node)))
    raise refusal(node, ADVICE.get(type(node), SUPPORTED))


def _product(node: exp.Mul, where: Cells, scope: Scope) -> Formula:
    left, right = (formula_of(side, where, scope) for side in (node.this, node.expression))
    if left.constant:
        return right.times(left.offset)
    if right.constant:
        return left.times(right.offset)
    raise QueryError(f"{quote(node)} multiplies two aggregates; ask for each and multiply the answers")


def _guarded(node: exp.Expr) -> exp.Expr:
    """A denominator without its NULLIF(..., 0): one that may be zero has no answer anyway."""
    inner: exp.Expr = node.unnest()
    if isinstance(inner, exp.Nullif) and is_literal(inner.expression) and constant_number(inner.expression) == 0:
        guarded: exp.Expr = inner.this
        return guarded
    return node
