"""Evaluation: a formula on the estimates of a table, with the variance of the result in every group.

A formula f of counts has the variance of its linearisation, sum_x slope[x] count[x] with slope = df/dcount.
For sums of counts the slope is the coefficient itself and the variance is exact. For a ratio r = a / b the slope is
(slope_a - r slope_b) / b, which gives (Va - 2 r Cab + r^2 Vb) / b^2: the delta method.

Where no variance is known, the error of a sum may still be bounded by that of the whole table.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from hush.domain import Clique
from hush.inference.estimates import Array, Estimates
from hush.sql.cells import Cells
from hush.sql.formula import Formula

CLEAR = 2.0  # standard errors that a denominator must be away from zero


@runtime_checkable
class Bounded(Protocol):
    """Estimates some of whose tables have no covariances, but a bound on their error as a whole."""

    def has_covariance(self, clique: Clique) -> bool:
        """Whether the covariances of a table are known."""

    def l1_bound(self, clique: Clique, level: float) -> float:
        """A bound on sum_x |estimated count - true count|; NaN where there is none."""

    def margin(self, clique: Clique, lowest: Array, highest: Array, level: float) -> Array:
        """How far sums over a table with coefficients between these can be off; NaN where it is not known."""


@dataclass(frozen=True, slots=True)
class Result:
    """One number per group; NaN in all where a denominator is too near zero."""

    estimate: Array  # of the shape of the groups
    std_error: Array
    margin: Array | None = None  # half the width of an interval where there is no standard error


@dataclass(frozen=True, slots=True)
class _Jet:
    value: Array  # of the shape of the groups
    slope: Array  # of the shape of the table
    clear: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]


def evaluate(formula: Formula, groups: Clique, estimates: Estimates, level: float = 0.95) -> Result:
    """The formula in every combination of levels of the groups; `level` is that of margins.

    A sum has a margin where its table has a bound in place of covariances; a ratio of such sums has none.
    """
    table = _Table(formula.clique(groups), len(groups), estimates)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        jet = table.jet(formula)
        std_error = table.std_error(jet.slope)
    clear = jet.clear & np.isfinite(jet.value)
    margin = None
    if formula.linear and isinstance(estimates, Bounded) and not estimates.has_covariance(table.clique):
        lowest, highest = table.extremes(formula.coefficients)
        margin = np.where(clear, estimates.margin(table.clique, lowest, highest, level), np.nan)
    return Result(np.where(clear, jet.value, np.nan), np.where(clear, std_error, np.nan), margin)


class _Table:
    """The estimated counts over a clique, whose first `groups` attributes are those of GROUP BY."""

    def __init__(self, clique: Clique, groups: int, estimates: Estimates) -> None:
        self.clique, self.groups, self.estimates = clique, groups, estimates
        self.counts = np.asarray(estimates.counts(clique), dtype=np.float64)
        self.inner = (1,) * (len(clique) - groups)

    def jet(self, formula: Formula) -> _Jet:
        value = formula.offset + self._sum(formula.coefficients)
        slope = np.broadcast_to(formula.coefficients.along(self.clique), self.counts.shape)
        clear = np.ones(value.shape, dtype=bool)
        for part in formula.quotients:
            above, below = self.jet(part.numerator), self.jet(part.denominator)
            error = self.std_error(below.slope)
            away = np.abs(below.value) if not part.denominator.never_negative else below.value
            # a NaN error means that it is not known, which is no reason to withhold the estimate
            fine = (away > 0) & ~(away < CLEAR * error)
            divisor = np.where(fine, below.value, 1.0)
            ratio = np.where(fine, above.value, 0.0) / divisor
            value = value + part.weight * ratio
            slope = slope + (part.weight * (above.slope - self._spread(ratio) * below.slope)) / self._spread(divisor)
            clear &= fine & above.clear & below.clear
        return _Jet(value, slope, clear)

    def std_error(self, slope: Array) -> Array:
        """The root of the variance of sum_x slope[x] count[x] in every group."""
        variance = self.estimates.covariance(self.clique, slope, slope, self.groups)
        return np.asarray(np.sqrt(np.maximum(variance, 0.0)))  # rounding may leave a small negative variance

    def extremes(self, coefficients: Cells) -> tuple[Array, Array]:
        """The smallest and the largest coefficient that the cells of the table have in the sum of every group.

        Cells of other groups have the coefficient 0.
        """
        values = coefficients.along(self.clique)
        inner = tuple(range(self.groups, len(self.clique)))
        shape = self.counts.shape[: self.groups]
        lowest, highest = (np.broadcast_to(edge(values, axis=inner), shape) for edge in (np.min, np.max))
        if math.prod(shape) == 1:
            return lowest, highest
        return np.minimum(lowest, 0.0), np.maximum(highest, 0.0)

    def _sum(self, coefficients: Cells) -> Array:
        """sum_x coefficients[x] count[x] in every group, without an array of the products."""
        axes = list(range(len(self.clique)))
        shared = [axis for axis in axes if self.clique[axis] in coefficients.names]
        values = coefficients.along(tuple(self.clique[axis] for axis in shared))
        return np.asarray(np.einsum(values, shared, self.counts, axes, axes[: self.groups]))

    def _spread(self, per_group: Array) -> Array:
        return per_group.reshape(per_group.shape + self.inner)
