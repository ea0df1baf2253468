"""Sums of buckets along a tree, for a workload that is carried over from cells to buckets.

If each bucket's count is spread evenly over its cells, a query q on cells becomes a query on buckets with the same
answers: q_hat_j = sum of q over bucket j / its length. Errors depend on a workload W only by the energy |W x|^2 of
vectors x, which prefix sums, ranges and single cells know without any matrix.

Each node of a `BucketTree` is measured with a share of the budget, a whole number of units. Along every path from the
root to a bucket the units add up to the same number, so one row moves the measured integers by exactly that.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np

from hush.core.arrays import Floats, Integers, Scalar, Values
from hush.core.domain import Clique
from hush.core.errors import WorkloadError
from hush.histograms.axis_grid import AxisGrid
from hush.histograms.interval_costs import Curve, cell_order, cells_in_line
from hush.privacy.gate import Counts
from hush.privacy.measurement import Measurement
from hush.privacy.sensitivity import RowNorms


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


PATH_UNITS = 1 << 16  # shares of the budget that every path is given
_TRIAL_SHARES = 64  # of a node, tried before the search between them
_GOLDEN_RATIO = (5**0.5 - 1) / 2
_SEARCH_ROUNDS = 24  # of that search: to 1e-5 of the distance between trials, where the error is flat


@dataclass(frozen=True, eq=False)
class BucketTree:
    """A tree over k buckets: the leaves are the buckets, every `branching` nodes in a row have a parent, up to a root.

    `weights[h]` are the units of the nodes at height h, leaves first; they add up to `units` along every path, and
    leaves have at least one. Node q is measured as weights_q times its count, with noise for `units`: its budget is
    the exact fraction weights_q / units of the whole.
    """

    cuts: Integers  # boundaries of the buckets, from 0 to n
    weights: tuple[Integers, ...]
    branching: int = 2

    def __post_init__(self) -> None:
        buckets = len(self.cuts) - 1
        if self.branching < 2 or buckets < 1:
            raise WorkloadError(
                f"a tree of branching {self.branching} over {buckets} buckets: expected two and one, at least"
            )
        if [len(level) for level in self.weights] != nodes_by_height(buckets, self.branching):
            raise WorkloadError(f"shares of a tree over {buckets} buckets: expected one for each node")
        if min(int(level.min()) for level in self.weights) < 0 or int(self.weights[0].min()) < 1:
            raise WorkloadError("shares of a tree: expected no negative ones, and at least one unit for every bucket")
        paths = self._paths(self.weights)
        if paths.min() != paths.max():
            raise WorkloadError("shares of a tree: expected the same sum along every path")

    @property
    def buckets(self) -> int:
        return len(self.cuts) - 1

    @property
    def units(self) -> int:
        """The sum of shares along every path."""
        return sum(int(level[0]) for level in self.weights)

    @property
    def largest_square(self) -> int:
        """The largest sum of squared shares along a path."""
        return int(self._paths(tuple(level**2 for level in self.weights)).max())

    def _paths(self, levels: tuple[Integers, ...]) -> Integers:
        """Sums along the path to every bucket."""
        leaves = np.arange(self.buckets)
        return np.sum([level[leaves // self.branching**h] for h, level in enumerate(levels)], axis=0)  # type: ignore[no-any-return]

    def sums(self, counts: Integers) -> list[Integers]:
        """The counts of all nodes from those of the buckets, by height."""
        levels = [counts]
        for _ in self.weights[1:]:
            levels.append(_parents(levels[-1], self.branching))
        return levels

    def estimates(self, measured: Floats) -> Floats:
        """Weighted least squares: bucket counts from noisy weights_q times count_q of the nodes with a share. O(k).

        Upwards, z and d are the best estimate of a node from what is measured at and below it, and its variance in
        units of the noise: z = (s + d w y) / (1 + d w^2) with s and d the sums over children. Downwards, the difference
        between a node and its children is shared among the children in proportion to their variances.

        Differs from [Li 2013, Program 6.4.1]: the noisy answers are weighted once more by their shares.
        """
        levels, rest = [], np.asarray(measured, dtype=np.float64)
        for w in self.weights:
            values = np.zeros((len(w), 1))
            values[w > 0, 0], rest = rest[: np.count_nonzero(w)], rest[np.count_nonzero(w) :]
            levels.append(values)
        return self._least_squares(levels)[:, 0]

    def inverse_times(self, columns: Floats) -> Floats:
        """(Y^T D^2 Y)^-1 B for columns B over buckets: least squares from leaves B / w, with nothing measured above."""
        w = self.weights[0][:, None].astype(np.float64)
        above = [np.zeros((len(level), columns.shape[1])) for level in self.weights[1:]]
        return self._least_squares([columns / w, *above])

    def _least_squares(self, levels: list[Floats]) -> Floats:
        """Bucket counts, (k, columns), from measured levels of nodes, leaves first, each (nodes, columns)."""
        shares = [w[:, None].astype(np.float64) for w in self.weights]
        z, d = [levels[0] / shares[0]], [1 / shares[0] ** 2]
        sums = []
        for w, y in zip(shares[1:], levels[1:], strict=True):
            s, variance = _parents(z[-1], self.branching), _parents(d[-1], self.branching)
            sums.append((s, variance))
            z.append((s + variance * w * y) / (1 + variance * w**2))
            d.append(variance / (1 + variance * w**2))
        x = z[-1]
        for height in range(len(sums) - 1, -1, -1):
            s, variance = sums[height]
            x = z[height] + d[height] * _children((x - s) / variance, self.branching, len(z[height]))
        return np.asarray(x)

    def variances(self) -> Floats:
        """The diagonal of (Y^T D^2 Y)^-1: variances of the buckets' estimates, in units of the noise.

        A child c of node v has x_c = z_c + d_c (x_v - s) / S with S the sum of d over v's children, so that its
        variance is d_c - d_c^2 / S + (d_c / S)^2 var(x_v).
        """
        below = [1 / self.weights[0].astype(np.float64) ** 2]
        sums = []
        for w in self.weights[1:]:
            sums.append(_parents(below[-1], self.branching))
            below.append(sums[-1] / (1 + sums[-1] * w.astype(np.float64) ** 2))
        variances = below[-1]
        for d, total in zip(reversed(below[:-1]), reversed(sums), strict=True):
            whole, above = (_children(numbers, self.branching, len(d)) for numbers in (total, variances))
            variances = d - d**2 / whole + (d / whole) ** 2 * above
        return variances

    def error(self, workload: CellWorkload) -> float:
        """The expected squared error of all queries by least squares, per variance of the noise: tr(G (Y^T D^2 Y)^-1).

        With noise of variance 2 (units / epsilon)^2 on the measured integers this is the total squared error. M^-1 1
        of a node is a multiple of the concatenation of those of its children, so that only vectors are kept:
        O(k log k) where the workload knows its energies.

        Differs from [Li 2013, (6.7)]: the factor 2 is in the variance of the noise.
        """
        starts = np.arange(self.buckets)
        w = self.weights[0].astype(np.float64)
        v = d = 1 / w**2
        trace = workload.energies(self.cuts, np.ones(self.buckets), starts) / w**2
        for level in self.weights[1:]:
            starts, trace, d = starts[:: self.branching], _parents(trace, self.branching), _parents(d, self.branching)
            energy = workload.energies(self.cuts, v, starts)
            p = level.astype(np.float64) ** 2
            trace = trace - p / (1 + p * d) * energy
            v = v / _spread(1 + p * d, starts, self.buckets)
            d = d / (1 + p * d)
        return float(trace[0])


def nodes_by_height(buckets: int, branching: int) -> list[int]:
    """How many nodes a tree has at each height, from the leaves to the root."""
    nodes = [buckets]
    while nodes[-1] > 1:
        nodes.append(-(-nodes[-1] // branching))
    return nodes


def greedy_tree(
    cuts: Integers, workload: CellWorkload, branching: int = 2, decay: float = 0.5, units: int = PATH_UNITS
) -> BucketTree:
    """The shares that a greedy search from the leaves up finds good for a workload.

    Each node takes the share l of its budget that minimises (e - a l^2 / ((1-l)^2 + l^2 d)) / (1-l)^2, its descendants
    keep 1 - l of theirs. With G the Gram matrix of the workload on the node's buckets, M that of its children's
    measurements and v = M^-1 1, e = tr(G_c M_c^-1) over the children c, d = 1^T v, and a = m v^T G v + (1-m) sum of
    v_c^T G_c v_c; m = branching^(-decay depth) discounts what ancestors will still do. `decay` = 0 does not.
    Vectors alone are kept, as in `BucketTree.error`: O(k log k) where the workload knows its energies.

    Reference: [Li 2013, Program 6.4.1]; differs from [Li 2013, (6.10), (6.11)]: shares are of a budget of one, where
    the formulas are right.
    """
    cuts = np.asarray(cuts)
    nodes = nodes_by_height(len(cuts) - 1, branching)
    starts = np.arange(nodes[0])
    v = d = np.ones(nodes[0])
    trace = energy = workload.energies(cuts, v, starts)
    shares = [np.ones(nodes[0])]
    for height in range(1, len(nodes)):
        starts = starts[::branching]
        e, d, apart = (_parents(numbers, branching) for numbers in (trace, d, energy))
        together = workload.energies(cuts, v, starts)
        m = branching ** (-decay * (len(nodes) - 1 - height))
        share = _best_share(e, m * together + (1 - m) * apart, d)
        rest = (1 - share) ** 2 + share**2 * d
        trace = (e - share**2 / rest * together) / (1 - share) ** 2
        v, d, energy = v / _spread(rest, starts, nodes[0]), d / rest, together / rest**2
        shares.append(share)
    return tree_from_fractions(cuts, branching, shares, units)


def _best_share(e: Floats, a: Floats, d: Floats) -> Floats:
    """argmin over l in [0, 1) of (e - a l^2 / ((1-l)^2 + l^2 d)) / (1-l)^2: a grid, then golden sections."""

    def error(share: Floats | float) -> Floats:
        return np.asarray((e - a * share**2 / ((1 - share) ** 2 + share**2 * d)) / (1 - share) ** 2)

    best, least = np.zeros_like(e), error(np.zeros_like(e))
    for trial in np.arange(1, _TRIAL_SHARES) / _TRIAL_SHARES:
        value = error(trial)
        best, least = np.where(value < least, trial, best), np.minimum(value, least)
    low, high = np.maximum(best - 1 / _TRIAL_SHARES, 0), np.minimum(best + 1 / _TRIAL_SHARES, 1 - 1 / _TRIAL_SHARES)
    for _ in range(_SEARCH_ROUNDS):
        left, right = high - _GOLDEN_RATIO * (high - low), low + _GOLDEN_RATIO * (high - low)
        lower = error(left) <= error(right)
        low, high = np.where(lower, low, left), np.where(lower, right, high)
    share = (low + high) / 2
    return np.where(error(share) < error(np.zeros_like(e)), share, 0.0)


def tree_from_fractions(cuts: Integers, branching: int, shares: list[Floats], units: int) -> BucketTree:
    """A tree from the share that each node takes of what its ancestors leave, in whole units; leaves take the rest."""
    left = np.array([units], dtype=np.int64)
    weights: list[Integers] = []
    for height in range(len(shares) - 1, 0, -1):
        taken = np.minimum(np.rint(shares[height] * left).astype(np.int64), left - 1)
        weights.append(taken)
        left = _children(left - taken, branching, len(shares[height - 1]))
    return BucketTree(cuts, (left, *reversed(weights)), branching)


@dataclass(frozen=True, eq=False)
class BucketTreeQuery:
    """The counts of a tree's nodes times their shares, of those that have one: leaves first, then height by height.

    Privacy: a row is in one bucket. It adds the share of each node on the path to that bucket: `units` in all.
    """

    clique: Clique
    tree: BucketTree
    curve: Curve = "rows"

    @property
    def cliques(self) -> tuple[Clique, ...]:
        return (self.clique,)

    @property
    def largest_factor(self) -> int:
        """The most that one row adds to an answer."""
        return self.tree.units

    @property
    def row_norms(self) -> RowNorms:
        l1, l2_squared = Fraction(self.tree.units), Fraction(self.tree.largest_square)
        return RowNorms(l1, l2_squared, 2 * l1, 2 * l2_squared)

    def answer(self, counts: Counts) -> Integers:
        cells = cells_in_line(counts[self.clique], self.curve)
        levels = self.tree.sums(np.add.reduceat(cells, self.tree.cuts[:-1]))
        weighted = [(w * level)[w > 0] for w, level in zip(self.tree.weights, levels, strict=True)]
        return np.concatenate(weighted)


class TreeFit:
    """Least squares from one measured tree, as counts and covariances of the cells of its table."""

    def __init__(self, measured: Measurement, sizes: tuple[int, ...]) -> None:
        query: BucketTreeQuery = measured.asked  # type: ignore[assignment]
        self._tree, self._order = query.tree, cell_order(sizes, query.curve)
        self.grids = tuple(AxisGrid(np.arange(size + 1)) for size in sizes)  # every level by itself
        self.variance = max(measured.law.stddev**2, 1e-12)
        self.buckets = self._as_table(expanded(self._tree.estimates(measured.raw), self._tree.cuts))

    def _as_table(self, in_line: Floats) -> Floats:
        cells = np.empty(len(in_line))
        cells[self._order] = in_line
        return cells.reshape([grid.size for grid in self.grids])

    @property
    def rows(self) -> int:
        """How many numbers the covariance of one sum takes."""
        return self._tree.buckets

    def products(self, first: list[Floats], second: list[Floats]) -> Floats:
        """Covariances of sums whose coefficients are products over the axes; every combination of rows."""
        if len(self.grids) == 1:
            return self.sums(first[0].T, second[0].T)
        pairs = zip(first[0], second[0], strict=True)
        return np.array([self.sums(f[:, None, None] * first[1].T, s[:, None, None] * second[1].T) for f, s in pairs])

    def sums(self, first: Floats, second: Floats) -> Floats:
        """Covariances of sums with coefficients over cells: `first[..., q]` are those of sum q."""
        left, right = (
            carried_over(side.reshape(len(self._order), -1)[self._order].T, self._tree.cuts).T
            for side in (first, second)
        )
        return np.asarray(np.einsum("kq,kq->q", left, self._tree.inverse_times(right)) * self.variance)

    def bucket_variances(self) -> Floats:
        """The variance of the count of every cell."""
        lengths = np.diff(self._tree.cuts)
        return self._as_table(np.repeat(self._tree.variances() / lengths**2, lengths)) * self.variance


def _parents(numbers: Values[Scalar], branching: int) -> Values[Scalar]:
    """Sums over the children of each node."""
    return np.asarray(np.add.reduceat(numbers, np.arange(0, len(numbers), branching)))


def _children(numbers: Values[Scalar], branching: int, nodes: int) -> Values[Scalar]:
    """The number of its parent, for each of the nodes below."""
    return np.repeat(numbers, branching, axis=0)[:nodes]


def _spread(numbers: Floats, starts: Integers, buckets: int) -> Floats:
    """The number of its node, for each bucket."""
    return np.repeat(numbers, np.diff(np.append(starts, buckets)))
