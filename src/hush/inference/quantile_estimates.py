"""Quantiles of a column from prefix counts, with the interval of all values that the noise does not rule out.

With n_j rows in level j, N rows in all and q = p / d, let T_k = d sum_{j <= k} n_j - p N. T_k is a sum of counts, so
that its estimate and the law of its error are known; without noise it is a whole number, exact at ties. The q-quantile
lies in the first level k with T_k >= 0, like SQL's QUANTILE_DISC. The interval has every level that the noise does not
rule out,

    { k :  T_k + m_k >= 0  and  T_{k-1} - m_{k-1} <= 0 },

where m_k is the margin of T_k: at the true level each of the two conditions fails with probability at most
(1 - level) / 2. Only the test at the true level can fail, so testing many levels costs nothing. The interval extends to
the ends of its levels.

Reference: the inversion of a test, [Lehmann and Romano 2005, sec. 3.5].
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from hush.core.arrays import Floats
from hush.core.domain import Clique
from hush.core.errors import QueryError, SizeError
from hush.inference.estimates import BoundedEstimates, Estimates
from hush.inference.intervals import Ends, ErrorMargins, Intervals, Rows, product_margins
from hush.linops import Dense, Identity, LinearOperator

MOST_LEVELS = 4096
NO_ROWS_STDERRS = 2.0  # a group whose count is this far below 0, in standard errors, has no rows
ROUNDING_SHARE = 1e-12  # of the largest T_k: the rounding error of whole numbers computed in floats


@dataclass(frozen=True, slots=True, eq=False)
class QuantileIntervals(Intervals):
    """The interval of a quantile in each row; `steps` are the T_k, and levels extend from `low` to `high`."""

    steps: Floats  # (rows, levels)
    margins: ErrorMargins | Floats  # of all steps, or of each row at one confidence level
    low: Floats  # (levels,)
    high: Floats  # (levels,)
    guess: Any  # (rows,) the level of each estimate
    bound_level: float | None  # of confidence, if the margins hold at one level only

    @property
    def level(self) -> float | None:
        return self.bound_level

    def at(self, level: float) -> Ends:
        rows, levels = self.steps.shape
        if isinstance(self.margins, ErrorMargins):
            margin = self.margins.at(level).reshape(rows, levels)
        else:
            margin = np.broadcast_to(self.margins[:, None], (rows, levels))
        margin = margin + ROUNDING_SHARE * np.abs(self.steps).max(axis=1, keepdims=True)
        never_before = np.full((rows, 1), -np.inf)
        before = np.concatenate([never_before, (self.steps - margin)[:, :-1]], axis=1)
        possible = (self.steps + margin >= 0) & (before <= 0)
        possible[:, -1] |= self.steps[:, -1] + margin[:, -1] < 0  # no level is ruled out from above
        possible[np.arange(rows), self.guess] = True
        first, last = possible.argmax(axis=1), levels - 1 - possible[:, ::-1].argmax(axis=1)
        unknown = np.isnan(margin).any(axis=1)
        return np.where(unknown, np.nan, self.low[first]), np.where(unknown, np.nan, self.high[last])

    def take(self, rows: Rows) -> QuantileIntervals:
        chosen = np.arange(len(self.steps))[rows]
        levels = self.steps.shape[1]
        cells = (chosen[:, None] * levels + np.arange(levels)).ravel()
        margins = self.margins.take(cells) if isinstance(self.margins, ErrorMargins) else self.margins[chosen]
        return replace(self, steps=self.steps[chosen], margins=margins, guess=self.guess[chosen])


def quantile_estimates(
    estimates: Estimates,
    groups: Clique,
    column: str,
    share: Fraction,
    masks: dict[str, Floats],
    ends: tuple[Floats, Floats],
    level: float,
) -> tuple[Floats, QuantileIntervals]:
    """The quantile of a column in each combination of levels of the groups, over rows that all masks let through.

    `masks` have a 0 or 1 for every level of an attribute. `ends` have the least and the largest value of each level of
    the column that has numbers; the other levels do not count. The quantile of a group without rows is NaN.
    """
    # Levels that the condition allows.
    low, high = ends
    levels, size = len(low), estimates.domain[column]
    mask = masks.get(column, np.ones(size))
    allowed = np.flatnonzero(mask[:levels])
    if not len(allowed):
        raise QueryError(f"no value of {column!r} satisfies the condition, so there is no quantile")
    if levels > MOST_LEVELS:
        raise SizeError(
            f"the column {column!r} has {levels:,} levels: quantiles are possible for at most {MOST_LEVELS:,}; use "
            "bins in the schema"
        )

    # T_k of every group and level, as one product of query blocks, with margins.
    counted = np.zeros(size)
    counted[:levels] = mask[:levels]
    p, d = share.numerator, share.denominator
    prefixes = (np.tri(levels, size) * d - p)[allowed]
    low, high, levels = low[allowed], high[allowed], len(allowed)
    others = tuple(name for name in masks if name not in (*groups, column))
    clique = (*groups, column, *others)
    blocks: list[LinearOperator] = [Identity(estimates.domain[name]) for name in groups]
    blocks += [Dense(prefixes * counted), *(Dense(masks[name][None, :]) for name in others)]
    values, variances = estimates.product(clique, blocks)
    steps = np.asarray(values, dtype=np.float64).reshape(-1, levels)
    margins: ErrorMargins | Floats = np.zeros(0)
    margin_level: float | None = None
    if isinstance(estimates, BoundedEstimates) and not estimates.has_covariance(clique):
        reach = np.full(len(steps), 1.0)
        margins, margin_level = (
            np.broadcast_to(estimates.margin(clique, -p * reach, d * reach, level), reach.shape),
            level,
        )
    else:
        margins = product_margins(estimates, clique, blocks, np.sqrt(np.maximum(variances, 0.0)))
    guess, part = _crossing(steps, p, d)
    last_error = np.sqrt(np.nan_to_num(np.maximum(variances, 0.0))).reshape(-1, levels)[:, -1]
    some = steps[:, -1] + NO_ROWS_STDERRS * last_error > 0
    estimate = np.where(some, low[guess] + part * (high[guess] - low[guess]), np.nan)
    return estimate, QuantileIntervals(steps, margins, low, high, guess, margin_level)


def _crossing(steps: Floats, p: int, d: int) -> tuple[Any, Floats]:
    """The first level where T reaches 0, in every row, and the place inside the level by linear interpolation.

    T is made monotone first, as the mean of its running maximum from the left and running minimum from the right.
    """
    rising = (np.maximum.accumulate(steps, axis=1) + np.minimum.accumulate(steps[:, ::-1], axis=1)[:, ::-1]) / 2
    reached = rising >= -ROUNDING_SHARE * np.abs(steps).max(axis=1, keepdims=True)
    guess = np.where(reached.any(axis=1), reached.argmax(axis=1), steps.shape[1] - 1)
    rows = np.arange(len(steps))
    total = np.maximum(steps[:, -1] / (d - p), 0.0)
    before = np.where(guess > 0, rising[rows, guess - 1], -p * total)
    rise = rising[rows, guess] - before
    part = np.clip(np.divide(-before, rise, out=np.ones(len(steps)), where=rise > 0), 0.0, 1.0)
    return guess, part
