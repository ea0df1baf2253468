"""Workloads carried over to buckets: a query on cells, when each bucket's count is spread evenly over its cells.

With buckets between cuts, q on cells becomes q_hat on buckets, q_hat_j = sum of q over bucket j / its length, and the
answers are the same. Errors depend on a workload W only by the energy |W x|^2 of vectors x, which prefix sums, ranges
and single cells know without any matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from hush.core.arrays import Floats, Integers
from hush.core.errors import WorkloadError


class CellWorkload(Protocol):
    """Linear queries on n cells in a row."""

    def energies(self, cuts: Integers, counts: Floats, starts: Integers) -> Floats:
        """|W x|^2 for each run of buckets, x the counts of that run alone, spread over its cells.

        `cuts` are the boundaries of k buckets, `counts` has k numbers, and run r holds the buckets from `starts[r]`
        up to the next run.
        """


def carried_over(queries: Floats, cuts: Integers) -> Floats:
    """Queries on cells, (m, n), as queries on buckets, (m, k), with the same answers.

    >>> carried_over(np.array([[1.0, 1.0, 1.0, 0.0]]), np.array([0, 2, 4])).tolist()
    [[1.0, 0.5]]
    """
    queries, cuts = np.atleast_2d(queries), np.asarray(cuts)
    if queries.shape[1] != cuts[-1]:
        raise WorkloadError(f"queries on {queries.shape[1]} cells, buckets on {int(cuts[-1])}: expected the same cells")
    return np.asarray(np.add.reduceat(queries, cuts[:-1], axis=1) / np.diff(cuts))


def expanded(counts: Floats, cuts: Integers) -> Floats:
    """The counts of buckets spread evenly over their cells.

    >>> expanded(np.array([6.0, 1.0]), np.array([0, 3, 4])).tolist()
    [2.0, 2.0, 2.0, 1.0]
    """
    lengths = np.diff(cuts)
    return np.repeat(np.asarray(counts, dtype=np.float64) / lengths, lengths)


@dataclass(frozen=True)
class PrefixSums:
    """All n sums of the first cells. The prefix sums of a run rise along each bucket, and stay behind its end."""

    def energies(self, cuts: Integers, counts: Floats, starts: Integers) -> Floats:
        _, squares, behind, total = _ramps(cuts, counts, starts)
        return np.asarray(squares + behind * total**2)


@dataclass(frozen=True)
class AllRanges:
    """All n (n + 1) / 2 ranges: with prefix sums P_0 = 0, ..., P_n the energy is (n + 1) sum P^2 - (sum P)^2."""

    def energies(self, cuts: Integers, counts: Floats, starts: Integers) -> Floats:
        sums, squares, behind, total = _ramps(cuts, counts, starts)
        cells = int(cuts[-1])
        return np.asarray((cells + 1) * (squares + behind * total**2) - (sums + behind * total) ** 2)


@dataclass(frozen=True)
class SingleCells:
    """Every cell by itself."""

    def energies(self, cuts: Integers, counts: Floats, starts: Integers) -> Floats:
        return np.asarray(np.add.reduceat(counts**2 / np.diff(cuts), starts))


@dataclass(frozen=True, eq=False)
class LinearQueries:
    """Any queries on cells, as a matrix of shape (m, n)."""

    queries: Floats

    def energies(self, cuts: Integers, counts: Floats, starts: Integers) -> Floats:
        answers = np.add.reduceat(carried_over(self.queries, cuts) * counts, starts, axis=1)
        return np.asarray((answers**2).sum(axis=0))


def _ramps(cuts: Integers, counts: Floats, starts: Integers) -> tuple[Floats, Floats, Integers, Floats]:
    """Of each run: sum and sum of squares of its prefix sums at its cells, the cells behind it, and its total.

    In a bucket of m cells that starts at p and holds v, prefix sums are p + v r / m for r = 1 .. m.
    """
    m, v = np.diff(cuts).astype(np.float64), np.asarray(counts, dtype=np.float64)
    ends = np.append(starts[1:], len(v))
    before = np.concatenate([[0.0], np.cumsum(v)])
    p = before[:-1] - np.repeat(before[starts], ends - starts)
    sums = np.add.reduceat(m * p + v * (m + 1) / 2, starts)
    squares = np.add.reduceat(m * p**2 + p * v * (m + 1) + v**2 * (m + 1) * (2 * m + 1) / (6 * m), starts)
    return sums, squares, cuts[-1] - cuts[ends], np.add.reduceat(v, starts)
