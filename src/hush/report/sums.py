"""Sums: a released table added up over groups of levels, each sum with its exact standard error."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from hush.domain import Clique
from hush.inference.estimates import Array, Estimates
from hush.release.answers import two_sided_quantile
from hush.report.grouping import Grouping

LEVEL = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """Estimates of groups of cells with their standard errors, one axis per grouping."""

    groupings: tuple[Grouping, ...]
    estimate: Array
    std_error: Array
    laplace: bool = False

    @property
    def names(self) -> Clique:
        """The columns, in the order of the axes."""
        return tuple(grouping.column.name for grouping in self.groupings)

    @property
    def lower(self) -> Array:
        """The lower ends of the 95 % intervals."""
        return np.asarray(self.estimate - self._margin)

    @property
    def upper(self) -> Array:
        """The upper ends of the 95 % intervals."""
        return np.asarray(self.estimate + self._margin)

    @property
    def _margin(self) -> Array:
        return two_sided_quantile(LEVEL, laplace=self.laplace) * self.std_error

    @property
    def doubtful(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Where the interval reaches zero, or the estimate does and no error is known."""
        return np.asarray(np.where(np.isfinite(self.lower), self.lower, self.estimate) <= 0)


def cell_errors(estimates: Estimates, clique: Clique) -> Array:
    """The standard error of every cell of a table."""
    ones = np.ones(estimates.domain.sizes(clique))
    return _root(estimates.covariance(clique, ones, ones, len(clique)))


def grouped(estimates: Estimates, groupings: tuple[Grouping, ...], *, laplace: bool = False) -> Sums:
    """The table over the groupings' columns, added up over their groups.

    The error of a sum over several cells is that of the sum, not of the cells, which share noise: for each combination
    of groups that are not single levels it takes one covariance, O(cells) each; axes of single levels are free.
    """
    names = tuple(grouping.column.name for grouping in groupings)
    counts = estimates.counts(names)
    for axis, grouping in enumerate(groupings):
        if not grouping.whole:
            parts = [counts.take(codes, axis=axis).sum(axis=axis) for codes in grouping.members]
            counts = np.stack(parts, axis=axis)
    return Sums(
        groupings=groupings, estimate=counts, std_error=_root(_variances(estimates, groupings)), laplace=laplace
    )


def _variances(estimates: Estimates, groupings: tuple[Grouping, ...]) -> Array:
    order = sorted(range(len(groupings)), key=lambda axis: not groupings[axis].whole)  # single levels first
    free = [groupings[axis] for axis in order if groupings[axis].whole]
    added = [groupings[axis] for axis in order if not groupings[axis].whole]
    clique = tuple(groupings[axis].column.name for axis in order)
    variances = np.empty(tuple(len(groupings[axis]) for axis in order))
    ones = [np.ones(len(grouping)) for grouping in free]
    for groups in itertools.product(*(range(len(grouping)) for grouping in added)):
        factors = [*ones, *(grouping.indicator(group) for grouping, group in zip(added, groups, strict=True))]
        coefficients = reduce(np.multiply.outer, factors, np.ones(()))
        at: tuple[Any, ...] = (..., *groups)
        variances[at] = estimates.covariance(clique, coefficients, coefficients, len(free))
    return np.transpose(variances, np.argsort(order))


def _root(variances: Array) -> Array:
    return np.asarray(np.sqrt(np.maximum(variances, 0.0)))
