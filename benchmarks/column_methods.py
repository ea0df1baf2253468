"""Published ways to answer questions about one ordered column, to compare with: each through the gate.

A method takes a gate, the clique of the column, the shape of its table and epsilon, spends exactly that, and returns
a number for every cell. The neighbours and the unit are those of the gate.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from benchmarks.tree_budgets import level_tree
from hush.core.arrays import Floats, Integers
from hush.core.domain import Clique
from hush.core.errors import WorkloadError
from hush.histograms.bucket_trees import BucketTree, BucketTreeQuery, PrefixSums, expanded, greedy_tree, nodes_by_height
from hush.histograms.interval_costs import Curve, IntervalDeviations, NodeScores
from hush.privacy.events import LaplaceEvent
from hush.privacy.gate import Counts, Gate, Query, Request
from hush.privacy.noise import DiscreteLaplace
from hush.privacy.partition_laws import NoisyPartition, PartitionMechanism, SplittingTree
from hush.privacy.selection import ExponentialMechanism, Scores
from hush.privacy.sensitivity import ONE_CELL, RowNorms

Shape = tuple[int, ...]
Method = Callable[[Gate, Clique, Shape, Fraction], Floats]

ROUNDS, SWEEPS = 10, 20  # of multiplied weights
COARSE_TO_FINE = tuple((Fraction(1), Fraction(rate)) for rate in (0, 1, 2, 4))  # parts of a prior


@dataclass(frozen=True, eq=False)
class GroupCounts:
    """How many rows are in each group of cells; every cell, row by row, is in one.

    Privacy: a row adds one to one count.
    """

    clique: Clique
    groups: Integers  # (cells,), from 0
    count: int

    @property
    def cliques(self) -> tuple[Clique, ...]:
        return (self.clique,)

    @property
    def row_norms(self) -> RowNorms:
        return ONE_CELL

    def answer(self, counts: Counts) -> Integers:
        totals = np.zeros(self.count, dtype=np.int64)
        np.add.at(totals, self.groups, counts[self.clique].ravel())
        return totals


@dataclass(frozen=True)
class HaarQuery:
    """The total, and for every node of a binary tree its left half less its right half; cells are padded to 2^k.

    Privacy: a row adds or subtracts one at one node of each depth, and adds one to the total: k + 1 in all.
    """

    clique: Clique
    cells: int

    @property
    def depth(self) -> int:
        """k."""
        return (self.cells - 1).bit_length()

    @property
    def cliques(self) -> tuple[Clique, ...]:
        return (self.clique,)

    @property
    def row_norms(self) -> RowNorms:
        l1 = Fraction(self.depth + 1)
        return RowNorms(l1, l1, 2 * l1, 4 * l1)

    def answer(self, counts: Counts) -> Integers:
        sums = np.zeros(1 << self.depth, dtype=np.int64)
        sums[: self.cells] = counts[self.clique].ravel()
        parts = []
        while len(sums) > 1:
            left, right = sums[::2], sums[1::2]
            parts.append(left - right)
            sums = left + right
        return np.concatenate([sums, *reversed(parts)])

    def inverse(self, answers: Floats) -> Floats:
        """The cells that have these answers."""
        sums, start = np.asarray(answers[:1], dtype=np.float64), 1
        while start < len(answers):
            gap = answers[start : 2 * start]
            sums = np.stack([(sums + gap) / 2, (sums - gap) / 2], axis=1).ravel()
            start *= 2
        return sums[: self.cells]


def noisy(gate: Gate, query: Query, epsilon: Fraction) -> Integers:
    """The answers to a query with the discrete Laplace noise that costs exactly epsilon."""
    trial = gate.event(Request(query, DiscreteLaplace(Fraction(1))))
    if not isinstance(trial, LaplaceEvent):
        raise WorkloadError(f"{type(query).__name__} has no sensitivity to scale noise by")
    law = DiscreteLaplace(trial.sensitivity_l1 / Fraction(epsilon))
    (measurement,) = gate.measure([Request(query, law)])
    return np.asarray(measurement.raw)


def identity(gate: Gate, clique: Clique, shape: Shape, epsilon: Fraction) -> Floats:
    """Every cell with its own noise."""
    cells = math.prod(shape)
    return noisy(gate, GroupCounts(clique, np.arange(cells), cells), epsilon).astype(np.float64).reshape(shape)


def uniform(gate: Gate, clique: Clique, shape: Shape, epsilon: Fraction) -> Floats:
    """The total, spread evenly."""
    cells = math.prod(shape)
    total = noisy(gate, GroupCounts(clique, np.zeros(cells, dtype=np.int64), 1), epsilon)
    return np.full(shape, total[0] / cells)


def wavelet(gate: Gate, clique: Clique, shape: Shape, epsilon: Fraction) -> Floats:
    """Haar wavelets.

    Reference: [Xiao et al. 2011], Privelet; the differences here are its coefficients times their weights.
    """
    query = HaarQuery(clique, _cells(shape))
    return query.inverse(noisy(gate, query, epsilon).astype(np.float64))


def hierarchy(gate: Gate, clique: Clique, shape: Shape, epsilon: Fraction) -> Floats:
    """A tree without its root, all depths alike, of the branching with the least average error on ranges.

    Reference: [Qardaji et al. 2013b], HB.
    """
    cells = _cells(shape)

    def average_error(b: int) -> float:
        h = len(nodes_by_height(cells, b)) - 1
        return (b - 1) * h**3 - 2 * (b + 1) * h**2 / 3

    branching = min(range(2, max(cells, 2) + 1), key=average_error)
    return tree_estimates(gate, clique, level_tree(np.arange(cells + 1), branching), epsilon)


def clusters(gate: Gate, clique: Clique, shape: Shape, epsilon: Fraction) -> Floats:
    """Cells that look alike under noise, wherever they are, are measured together.

    Half of the budget goes to noisy cells. Those below a threshold count as zero; sorted by size, cells join the
    cluster before them while the squared error this predicts is no larger. The other half measures the clusters.

    Reference: [Zhang et al. 2014], AHP, with its greedy clustering and the threshold sqrt(log n) / epsilon.
    """
    cells = _cells(shape)
    half = Fraction(epsilon) / 2
    rough = noisy(gate, GroupCounts(clique, np.arange(cells), cells), half).astype(np.float64)
    rough[rough < math.sqrt(math.log(max(cells, 2))) / float(half)] = 0
    groups = _grouped(rough, 2 / float(half) ** 2)
    count = int(groups.max()) + 1
    totals = noisy(gate, GroupCounts(clique, groups, count), half)
    return np.asarray((totals / np.bincount(groups))[groups])


def _grouped(rough: Floats, variance: float) -> Integers:
    """Groups of cells of like size: a sorted cell joins while that costs no more than a noisy count of its own."""
    order = np.argsort(-rough, kind="stable")
    groups = np.empty(len(rough), dtype=np.int64)
    group, size, total, square = 0, 0, 0.0, 0.0
    for cell in order:
        value = float(rough[cell])
        spread = square + value**2 - (total + value) ** 2 / (size + 1)
        before = square - total**2 / size if size else 0.0
        if size and spread - before + variance / (size + 1) > variance / size + variance:
            group, size, total, square = group + 1, 0, 0.0, 0.0
        groups[cell] = group
        size, total, square = size + 1, total + value, square + value**2
    return groups


def noisy_cost_buckets(gate: Gate, clique: Clique, shape: Shape, epsilon: Fraction) -> Floats:
    """A quarter of the budget for the partition of least noisy cost, the rest for a greedy tree over its buckets.

    Differs from the published program: noisy costs are not cut off from below, which would break the promise.

    Reference: [Li 2013, Chap. 6], DAWA as printed.
    """
    quarter = Fraction(epsilon) / 4
    grid = 4
    penalty = math.floor(grid / (3 * quarter))
    scorer = IntervalDeviations(clique, _cells(shape), centre="mean", grid=grid, bucket_cost=penalty)
    cuts = gate.select(scorer, NoisyPartition(quarter))
    return expanded_estimates(gate, clique, np.array(cuts), 3 * quarter)


def splitting_buckets(gate: Gate, clique: Clique, shape: Shape, epsilon: Fraction) -> Floats:
    """A quarter of the budget for a tree that splits where cells deviate, the rest for a greedy tree over its leaves.

    Reference: [Zhang et al. 2016] for the first tree, [Li 2013, Chap. 6] for the second.
    """
    quarter = Fraction(epsilon) / 4
    law = SplittingTree(quarter, math.floor(1 / (3 * quarter)))
    cuts = gate.select(NodeScores(clique, _cells(shape)), law)
    return expanded_estimates(gate, clique, np.array(cuts), 3 * quarter)


def likely_buckets(gate: Gate, clique: Clique, shape: Shape, epsilon: Fraction) -> Floats:
    """A quarter of the budget for a partition by the exponential mechanism, the rest for a greedy tree over it.

    The prior mixes coarse and fine partitions, so that no setting depends on the data.
    """
    quarter = Fraction(epsilon) / 4
    scorer = IntervalDeviations(clique, _cells(shape), bucket_cost=math.floor(1 / (3 * quarter)))
    cuts = gate.select(scorer, PartitionMechanism(quarter, COARSE_TO_FINE))
    return expanded_estimates(gate, clique, np.array(cuts), 3 * quarter)


@dataclass(frozen=True, eq=False)
class PrefixGaps:
    """How far each prefix sum is from a public guess, in whole rows.

    Privacy: a row moves a prefix sum by one, and the guess not at all.
    """

    clique: Clique
    guess: Integers  # (cells,), prefix sums

    row_norms: ClassVar[RowNorms] = RowNorms.of_number(1, 1)

    @property
    def cliques(self) -> tuple[Clique, ...]:
        return (self.clique,)

    @property
    def candidates(self) -> int:
        return len(self.guess)

    def scores(self, counts: Counts, bound: Fraction) -> Scores:
        gaps = np.abs(np.cumsum(counts[self.clique].ravel()) - self.guess)
        return Scores(gaps.astype(np.float64), float(bound))


def multiplied_weights(gate: Gate, clique: Clique, shape: Shape, epsilon: Fraction) -> Floats:
    """Ten times: choose the prefix sum that is furthest off, measure it, and multiply weights until all fit better.

    Reference: [MWEM, Fig. 1], with all measurements used again in every round; a twentieth of the budget measures the
    total, and half of each round's the choice.
    """
    cells = _cells(shape)
    share = Fraction(epsilon) / 20
    each = (Fraction(epsilon) - share) / (2 * ROUNDS)
    total = max(1.0, float(noisy(gate, GroupCounts(clique, np.zeros(cells, dtype=np.int64), 1), share)[0]))
    estimate = np.full(cells, total / cells)
    measured: list[tuple[int, float]] = []
    for _ in range(ROUNDS):
        guess = np.rint(np.cumsum(estimate)).astype(np.int64)
        last = gate.select(PrefixGaps(clique, guess), ExponentialMechanism(each))
        inside = (np.arange(cells) > last).astype(np.int64)
        measured.append((last, float(noisy(gate, GroupCounts(clique, inside, 2), each)[0])))
        for _ in range(SWEEPS):
            for end, value in measured:
                gap = value - float(estimate[: end + 1].sum())
                estimate[: end + 1] *= math.exp(min(max(gap / (2 * total), -1.0), 1.0))
                estimate *= total / float(estimate.sum())
    return estimate


def expanded_estimates(
    gate: Gate, clique: Clique, cuts: Integers, epsilon: Fraction, curve: Curve = "rows", workload: Any = None
) -> Floats:
    """Cells in line from buckets that a greedy tree measures; for prefix sums, if no workload is given."""
    tree = greedy_tree(cuts, PrefixSums() if workload is None else workload)
    return tree_estimates(gate, clique, tree, epsilon, curve)


def tree_estimates(gate: Gate, clique: Clique, tree: BucketTree, epsilon: Fraction, curve: Curve = "rows") -> Floats:
    """Cells in line from a measured tree."""
    measured = noisy(gate, BucketTreeQuery(clique, tree, curve), epsilon)
    return expanded(tree.estimates(measured.astype(np.float64)), tree.cuts)


def _cells(shape: Shape) -> int:
    if len(shape) != 1:
        raise WorkloadError(f"a table of shape {shape}: expected one ordered column")
    return shape[0]


ONE_DIMENSION: dict[str, Method] = {
    "identity": identity,
    "uniform": uniform,
    "wavelet": wavelet,
    "hierarchy": hierarchy,
    "clusters": clusters,
    "noisy costs": noisy_cost_buckets,
    "splitting tree": splitting_buckets,
    "likely buckets": likely_buckets,
    "multiplied weights": multiplied_weights,
}
