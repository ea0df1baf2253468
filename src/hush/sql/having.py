"""HAVING: a condition on the estimates of each group, by SQL's three-valued logic."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import numpy as np
from sqlglot import exp

from hush.core.arrays import Floats, Numbers
from hush.sql.constants import constant_number, is_literal
from hush.sql.scope import refusal

TRUE, UNKNOWN, FALSE = 1, 0, -1
COMPARISONS: dict[type[exp.Expr], Callable[[Floats, Floats], Numbers]] = {
    exp.EQ: np.equal,
    exp.NEQ: np.not_equal,
    exp.LT: np.less,
    exp.LTE: np.less_equal,
    exp.GT: np.greater,
    exp.GTE: np.greater_equal,
}
ADVICE = "write HAVING with comparisons of aggregates, such as COUNT(*) > 100"


def having_values(node: exp.Expr) -> Iterator[exp.Expr]:
    """What the comparisons of HAVING compare, without constants."""
    inner = node.unnest()
    if isinstance(inner, exp.Connector | exp.Not):
        for part in inner.iter_expressions():
            yield from having_values(part)
    elif isinstance(inner, exp.Predicate):
        yield from (side.unnest() for side in inner.iter_expressions() if not is_literal(side))
    else:
        raise refusal(inner, ADVICE)


def having_truth(node: exp.Expr, estimates: Callable[[exp.Expr], Floats]) -> Numbers:
    """The truth value (1, 0 for unknown, -1) of HAVING in each group; an estimate that is not known is null."""
    inner = node.unnest()

    def value(side: exp.Expr) -> Floats:
        if not is_literal(side):
            return estimates(side.unnest())
        return np.array(np.nan if isinstance(side.unnest(), exp.Null) else float(constant_number(side)))

    def compared(left: exp.Expr, sign: type[exp.Expr], right: exp.Expr) -> Numbers:
        a, b = np.broadcast_arrays(value(left), value(right))
        return np.where(np.isnan(a) | np.isnan(b), UNKNOWN, np.where(COMPARISONS[sign](a, b), TRUE, FALSE))

    match inner:
        case exp.And() | exp.Or():
            meet = np.minimum if isinstance(inner, exp.And) else np.maximum
            return functools.reduce(meet, (having_truth(part, estimates) for part in inner.flatten()))
        case exp.Not():
            return -having_truth(inner.this, estimates)
        case exp.Between() if not inner.args.get("symmetric"):
            low, high = inner.args["low"], inner.args["high"]
            return np.minimum(compared(inner.this, exp.GTE, low), compared(inner.this, exp.LTE, high))
        case exp.In() if inner.expressions and all(is_literal(each) for each in inner.expressions):
            return functools.reduce(np.maximum, (compared(inner.this, exp.EQ, each) for each in inner.expressions))
        case exp.Is() if isinstance(inner.expression, exp.Null):
            return np.where(np.isnan(value(inner.this)), TRUE, FALSE)
    if type(inner) not in COMPARISONS:
        raise refusal(inner, ADVICE)
    return compared(inner.this, type(inner), inner.expression)
