"""MEDIAN and quantiles in SQL: which column, which share, and over which rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce

import numpy as np
from sqlglot import exp

from hush.core.arrays import Floats
from hush.core.domain import Clique
from hush.core.errors import QueryError
from hush.schema import Integer, Numeric
from hush.schema.column_kinds import clamp_note, clamps
from hush.sql.constants import constant_number, is_literal
from hush.sql.formula import Cells
from hush.sql.predicate import TRUE, conjunction, truth
from hush.sql.scope import Scope, quote, refusal

FINEST_SHARE = 10**9  # the largest denominator of a share
CONTINUOUS = (exp.Median, exp.PercentileCont)


@dataclass(frozen=True, slots=True)
class QuantileItem:
    """The quantile of a column over the rows that all masks let through, one mask for each attribute that matters."""

    column: Integer | Numeric
    share: Fraction
    masks: Mapping[str, Floats]
    continuous: bool = False  # asked for in words that interpolate between two values in SQL

    @property
    def ends(self) -> tuple[Floats, Floats]:
        """The least and the largest value of each level that has numbers."""
        low, high = np.array([self.column.ends(code) for code in range(self.column.levels)], dtype=float).T
        return low, high

    @property
    def binned(self) -> bool:
        """Whether some level holds several values."""
        low, high = self.ends
        return bool((low < high).any())

    def clique(self, groups: Clique) -> Clique:
        """The table it is read from."""
        return (*groups, self.column.name, *(name for name in self.masks if name not in (*groups, self.column.name)))


def quantile_item(node: exp.Expr, where: Cells, scope: Scope) -> QuantileItem | None:
    """The quantile that an item of SELECT asks for; None where it asks for something else."""
    inner = node.unnest()
    if isinstance(inner, exp.Filter) and _asked(inner.this) is not None:
        where = conjunction(where, truth(inner.expression.this, scope))
        inner = inner.this
    asked = _asked(inner)
    if asked is None:
        return None
    of, share = asked
    if not isinstance(of, exp.Column) or not is_literal(share):
        raise refusal(node, "write MEDIAN(column), or QUANTILE(column, 0.9) with a number between 0 and 1")
    column = scope.column(of)
    q = Fraction(constant_number(share)).limit_denominator(FINEST_SHARE)  # 0.8 is 4/5
    if not isinstance(column, Integer | Numeric):
        raise QueryError(f"column {column.name!r} is {column.kind}, without quantiles; COUNT it instead")
    if not 0 < q < 1:
        raise QueryError(
            f"{quote(node)}: expected a share between 0 and 1, such as 0.9; extremes cannot be read from counts"
        )
    if column.name in scope.groups:
        raise QueryError(f"{quote(node)} is grouped by its own column; leave {column.name!r} out of GROUP BY")
    if clamps(column):
        scope.note(clamp_note(column))
    asked_as = inner.this if isinstance(inner, exp.WithinGroup) else inner
    return QuantileItem(column, q, _masks(where, node), isinstance(asked_as, CONTINUOUS))


def _asked(node: exp.Expr) -> tuple[exp.Expr, exp.Expr] | None:
    """The column and the share of a quantile, in any of its spellings."""
    match node:
        case exp.Median():
            return node.this, exp.Literal.number("0.5")
        case exp.Quantile() | exp.ApproxQuantile():
            return node.this, node.args["quantile"]
        case exp.PercentileCont() | exp.PercentileDisc() if node.expression:
            return node.this, node.expression
        case exp.WithinGroup() if isinstance(node.this, exp.PercentileCont | exp.PercentileDisc):
            return node.expression.expressions[0].this, node.this.this
    return None


def _masks(where: Cells, node: exp.Expr) -> dict[str, Floats]:
    """A condition as one mask for each attribute; refused where it is not the AND of such."""
    allowed = where.values == TRUE
    if not allowed.any():
        raise QueryError(f"{quote(node)}: no value of the schema meets the condition, so there is no quantile")
    axes = range(allowed.ndim)
    masks = [allowed.any(axis=tuple(other for other in axes if other != axis)) for axis in axes]
    if masks and not np.array_equal(reduce(np.logical_and.outer, masks), allowed):
        raise refusal(node, "its condition joins columns by OR; ask with conditions on one column each, joined by AND")
    return {name: mask.astype(float) for name, mask in zip(where.names, masks, strict=True)}
