"""AxisGrid: the levels of an ordered column in intervals, called buckets, whose levels are treated as alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hush.core.arrays import Floats, Integers
from hush.core.errors import WorkloadError


@dataclass(frozen=True, eq=False)
class AxisGrid:
    """Intervals of the levels 0 .. n-1 between `cuts` 0 = c_0 < c_1 < ... < c_k = n; public.

    >>> AxisGrid.with_fine_ends(16, 4).cuts.tolist()
    [0, 1, 2, 4, 8, 12, 14, 15, 16]
    """

    cuts: Integers

    def __post_init__(self) -> None:
        cuts = np.array(self.cuts, dtype=np.int64)
        if cuts.ndim != 1 or len(cuts) < 2 or cuts[0] != 0 or (np.diff(cuts) < 1).any():
            raise WorkloadError("the cuts of a grid must rise from 0 to the number of levels")
        cuts.setflags(write=False)
        object.__setattr__(self, "cuts", cuts)

    @classmethod
    def with_fine_ends(cls, size: int, pieces: int) -> AxisGrid:
        """About `pieces` buckets of equal length, the first and the last cut in halves down to single levels.

        Counts pile up at the ends of real columns: at zero, and at the bound where larger values are put.
        """
        even = np.round(np.linspace(0, size, min(pieces, size) + 1)).astype(np.int64)
        halves = 2 ** np.arange(max(int(even[1]), 1).bit_length())
        fine = halves[halves <= even[1]]
        return cls(np.unique(np.concatenate([even, fine, size - fine])))

    @property
    def size(self) -> int:
        """The number of levels."""
        return int(self.cuts[-1])

    @property
    def buckets(self) -> int:
        return len(self.cuts) - 1

    @cached_property
    def lengths(self) -> Integers:
        return np.diff(self.cuts)

    @property
    def whole(self) -> bool:
        """Whether every level is a bucket of its own."""
        return self.buckets == self.size

    def in_runs(self, count: int) -> AxisGrid:
        """The grid whose buckets are runs of `count` of these; the last may be shorter.

        >>> AxisGrid(np.array([0, 1, 3, 4, 9])).in_runs(3).cuts.tolist()
        [0, 4, 9]
        """
        return AxisGrid(np.append(self.cuts[:-1:count], self.cuts[-1]))

    def added(self, table: np.ndarray[Any, Any], axis: int) -> np.ndarray[Any, Any]:
        """The counts of buckets; whole numbers stay exact."""
        return table if self.whole else np.add.reduceat(table, self.cuts[:-1], axis=axis)

    def spread(self, table: Floats, axis: int) -> Floats:
        """The counts of levels, those of a bucket spread evenly: the transpose of averaging over buckets."""
        if self.whole:
            return table
        shape = [1] * table.ndim
        shape[axis] = -1
        return np.repeat(table / self.lengths.reshape(shape), self.lengths, axis=axis)

    def averaged(self, coefficients: Floats, axis: int) -> Floats:
        """The coefficients of buckets that a sum over evenly spread levels has: q_hat = mean of q over the bucket."""
        if self.whole:
            return coefficients
        shape = [1] * coefficients.ndim
        shape[axis] = -1
        return np.add.reduceat(coefficients, self.cuts[:-1], axis=axis) / self.lengths.reshape(shape)


def added(table: np.ndarray[Any, Any], grids: Sequence[AxisGrid]) -> np.ndarray[Any, Any]:
    """The counts of buckets along the leading axes."""
    for axis, grid in enumerate(grids):
        table = grid.added(table, axis)
    return table


def spread(table: Floats, grids: Sequence[AxisGrid]) -> Floats:
    """The counts of levels along the leading axes."""
    for axis, grid in enumerate(grids):
        table = grid.spread(table, axis)
    return table


class AxisForm:
    """The form |W v|^2 of counts v of buckets, for the queries that matter on one axis.

    With m the lengths of buckets, e their ends and n levels, a prefix sum that ends inside a bucket takes a share of
    it. Over all n prefix sums the form has the entries a_max(i, j) off its diagonal, a_j = (m_j + 1) / 2 + n - e_j, and
    (m + 1)(2 m + 1) / (6 m) + n - e on it. Ranges are differences of prefix sums: (n + 1) P - a a^T. Single cells have
    the diagonal 1 / m.
    """

    def __init__(self, grid: AxisGrid, queries: str) -> None:
        m, rest = grid.lengths.astype(float), grid.size - grid.cuts[1:].astype(float)
        if queries == "cells":
            self._reach, diagonal = np.zeros(grid.buckets), 1 / m
        else:
            self._reach = (m + 1) / 2 + rest
            diagonal = (m + 1) * (2 * m + 1) / (6 * m) + rest
        self._beside = diagonal - self._reach  # of the prefix form, beside a_max(i, j)
        self._times = grid.size + 1.0 if queries == "ranges" else 1.0
        self.taken = self._reach if queries == "ranges" else np.zeros(grid.buckets)  # a of - a a^T

    @property
    def trace(self) -> float:
        return self._times * float((self._reach + self._beside).sum()) - float(self.taken @ self.taken)

    def apply(self, rows: Floats) -> Floats:
        """The form applied along the last axis."""
        weighted = rows * self._reach
        after = weighted.sum(axis=-1, keepdims=True) - np.cumsum(weighted, axis=-1)
        product = self._times * (np.cumsum(rows, axis=-1) * self._reach + after + rows * self._beside)
        return np.asarray(product - np.multiply.outer(rows @ self.taken, self.taken))

    def part(self, low: int, high: int) -> Floats:
        """The rows and columns of a run of buckets."""
        later = np.maximum.outer(np.arange(low, high), np.arange(low, high))
        beside = np.diag(self._beside[low:high])
        taken = self.taken[low:high]
        return np.asarray(self._times * (self._reach[later] + beside) - np.multiply.outer(taken, taken))

    def matrix(self) -> Floats:
        return self.part(0, len(self._reach))


def query_count(grids: Sequence[AxisGrid], queries: str) -> int:
    """How many queries of a kind there are: one for each combination of those on every axis.

    >>> query_count([AxisGrid(np.array([0, 4])), AxisGrid(np.array([0, 3]))], "ranges")
    60
    """
    sizes = [grid.size for grid in grids]
    return math.prod(n * (n + 1) // 2 if queries == "ranges" else n for n in sizes)


def levels_below(pieces: int, factor: int) -> list[int]:
    """Ever fewer pieces, each `factor` times fewer than before, down to two.

    >>> levels_below(64, 8)
    [8]
    """
    fewer = []
    while (pieces := pieces // factor) >= 2:
        fewer.append(pieces)
    return fewer
