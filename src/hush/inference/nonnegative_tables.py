"""Non-negative consistent tables, and whole ones: biased post-processing of unbiased marginals.

Unbiased noisy counts can be negative. Tables over several cliques are moved to the nearest point of the local polytope,
in weighted squared distance. The result is biased upwards where true counts are small, and the standard errors of the
estimates do not apply to it. Use it for display, and for tools that cannot take negative counts.

The local polytope holds the non-negative tables that agree on all they share:

    C = {mu_r >= 0, mu_r and mu_s have the same margin over r and s, mu_r adds up to N, forbidden cells are 0}.

It contains the marginals of every distribution, and more: if cliques form loops, some tables that agree belong to no
distribution, nor to any data set. Tables that agree form an affine space. The projection onto it, in the norm
|x|^2 = sum_r w_r |x_r|^2, is a weighted mean of centred margins: in the mean over A, table r has the weight
w_r / prod_{r - A} n_i. The nearest point of C to a target t is found from the dual: with x(lambda) the projection of
t + lambda,

    max over lambda >= 0 of  d(lambda) = |x(lambda) - t|^2 / 2 - <lambda, x(lambda)>

by ascent lambda <- max(lambda - x(lambda), 0), which alone is Dykstra's method, with momentum and restarts. Mixing in a
little of the uniform tables, which are inside C, brings x(lambda) into C. The squared distance of the mixture, halved,
minus d(lambda) bounds how much further it is from t than the nearest point.

Reference: [Boyle and Dykstra 1986]; [Beck and Teboulle 2009] for momentum; [ResidualPlanner, Thm 4.7] for the margins.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from hush.core.arrays import Booleans, Floats, Integers, reordered
from hush.core.domain import Clique, Domain
from hush.core.errors import DataError, WorkloadError
from hush.core.solution import SOLVED, Solution
from hush.inference._kernels import agree, extrapolate, step_up, weighted_sums
from hush.inference.factors import Factors

ITERATIONS_PER_CHECK = 10  # of the gap
MASS_MOVED = 1e-7  # of the total, by which tables may disagree if forbidden cells rule out mixing
Tables = dict[Clique, Floats]


@dataclass(frozen=True, slots=True, eq=False)
class Nearest:
    """A point of the polytope, and the multipliers and the gap that certify how near it is to the target."""

    counts: Floats
    agreeing: Floats  # x(lambda), which may be a little below zero
    multipliers: Floats
    gap: float  # bounds half its squared distance from the target, minus that of the nearest point
    share: float  # of the total that had to move to enter the polytope
    iterations: int
    solved: bool


class LocalPolytope:
    """Tables over the cliques of `factors` that add up to `total`, in the norm with one weight per clique.

    `allowed` has a boolean table for each clique with forbidden cells.

    >>> from hush.core.domain import Domain
    >>> factors = Factors(Domain({"a": 2, "b": 2}), [("a", "b"), ("a",)])
    >>> polytope = LocalPolytope(factors, np.ones(2), 10.0)
    >>> polytope.nearest(np.array([-1.0, 5, 3, 3, 5, 5]), gap=1e-12).counts.round(6).tolist()
    [0.0, 4.857143, 2.571429, 2.571429, 4.857143, 5.142857]
    """

    def __init__(
        self, factors: Factors, weights: Floats, total: float, allowed: Mapping[Clique, Booleans] | None = None
    ) -> None:
        self.factors = factors
        self.weights = weights
        self.total = total
        self.blocked = np.zeros(0, dtype=np.bool_)
        if allowed:
            self.blocked = np.zeros(factors.size, dtype=np.bool_)
            for clique, table in allowed.items():
                self.blocked[factors.span(factors.index(clique))] = ~table.ravel()
        self._allowed = allowed
        self._uniform = total / np.diff(factors.offsets)
        self._margins = _shared_margins(factors, weights)

    def evenly(self) -> LocalPolytope:
        """The same polytope in the norm of equal weights, where projections take the fewest iterations."""
        return LocalPolytope(self.factors, np.ones(len(self.factors)), self.total, self._allowed)

    def agree(self, flat: Floats, total: float | None = None) -> Floats:
        """Replace tables by the nearest ones that agree and add up to `total`; they may be negative."""
        agree(flat, self.factors.offsets, *self._margins, self.total if total is None else total, self._scratch)
        return flat

    @property
    def _scratch(self) -> Floats:
        largest = max(math.prod(n + 1 for n in self.factors.shape(i) if n > 1) for i in range(len(self.factors)))
        return np.empty((2, largest))

    def nearest(
        self,
        target: Floats,
        *,
        gap: float = math.inf,
        share: float = 1.0,
        multipliers: Floats | None = None,
        iterations: int = 5000,
    ) -> Nearest:
        """The point of the polytope nearest to a target, up to `gap` in half its squared distance.

        `share` limits how much of the uniform tables is mixed in; with forbidden cells the limit is `MASS_MOVED`.
        """
        share = MASS_MOVED if self.blocked.size else share
        lambdas = np.zeros(target.size) if multipliers is None else multipliers
        ahead, point = lambdas.copy(), np.empty(target.size)
        offsets, pace, count = self.factors.offsets, 1.0, 0
        scratch = self._scratch
        while True:
            nearest = self._certified(target, lambdas, count)
            if nearest.gap <= gap and nearest.share <= share:
                return nearest
            if count >= iterations:
                return Nearest(nearest.counts, nearest.agreeing, lambdas, nearest.gap, nearest.share, count, False)
            del nearest
            for _ in range(ITERATIONS_PER_CHECK):
                np.add(target, ahead, out=point)
                agree(point, offsets, *self._margins, self.total, scratch)
                if step_up(ahead, point, lambdas, self.blocked, offsets, self.weights) > 0.0:
                    pace = 1.0
                next_pace = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * pace * pace))
                extrapolate(ahead, point, lambdas, self.blocked, (pace - 1.0) / next_pace)
                pace = next_pace
                count += 1

    def _certified(self, target: Floats, lambdas: Floats, count: int) -> Nearest:
        """The point of the polytope for these multipliers, and its gap."""
        offsets = self.factors.offsets
        point = self.agree(target + lambdas)
        squares, products = weighted_sums(point, target, lambdas, offsets, self.weights)
        counts, share = self.enter(point)
        above, _ = weighted_sums(counts, target, lambdas, offsets, self.weights)
        gap = max(0.5 * (above - squares) + products, 0.0)
        return Nearest(counts, point, lambdas, gap, share, count, True)

    def enter(self, point: Floats) -> tuple[Floats, float]:
        """Tables that agree, made non-negative, and the share of the total that had to move.

        With forbidden cells the uniform tables are not allowed: negative and forbidden cells become 0 and every table
        is scaled to the total, so that tables agree only up to the share.
        """
        starts = self.factors.offsets[:-1]
        if not self.blocked.size:
            lowest = np.minimum(np.minimum.reduceat(point, starts), 0.0)
            share = max(0.0, float(np.max(lowest / (lowest - self._uniform))))
            mixed = (1 - share) * point
            mixed += np.repeat(share * self._uniform, np.diff(self.factors.offsets))
            return np.maximum(mixed, 0.0, out=mixed), share
        clipped = np.maximum(point, 0.0)
        clipped[self.blocked] = 0.0
        moved = float(np.add.reduceat(np.abs(clipped - point), starts).max()) / self.total
        sums = np.add.reduceat(clipped, starts)
        clipped *= np.repeat(self.total / np.where(sums > 0, sums, 1.0), np.diff(self.factors.offsets))
        return clipped, moved


def _shared_margins(factors: Factors, weights: Floats) -> tuple[Any, ...]:
    """The arguments of the kernel `agree`: the margins that each table shares with others, and its weights in them.

    Attributes of one level are left out, because a centred margin over one is zero.
    """
    # For every table all its margins, as masks of axes, and the weight of the table in each.
    domain = factors.domain
    cliques = [tuple(name for name in clique if domain[name] > 1) for clique in factors.cliques]
    sums: dict[Clique, float] = {}
    holders: dict[Clique, int] = {}
    listed: list[list[tuple[int, Clique, float]]] = []
    for clique, weight in zip(cliques, weights, strict=True):
        margins: list[tuple[Clique, int, float]] = [((), 0, weight / domain.size(clique))]
        for axis, name in enumerate(clique):
            margins += [((*kept, name), mask | 1 << axis, share * domain[name]) for kept, mask, share in margins]
        for kept, _, share in margins:
            sums[kept] = sums.get(kept, 0.0) + share
            holders[kept] = holders.get(kept, 0) + 1
        listed.append([(mask, kept, share) for kept, mask, share in margins])

    # Space for the mean of every margin that several tables have; the total comes first.
    starts: dict[Clique, int] = {(): 0}
    size = 1
    for kept, count in holders.items():
        if kept and count > 1:
            starts[kept] = size
            size += domain.size(kept)
    shared = [[entry for entry in margins if entry[1] in starts] for margins in listed]
    flat = [entry for margins in shared for entry in margins]
    return (
        np.array([0, *accumulate(len(clique) for clique in cliques)], dtype=np.int64),
        np.array([domain[name] for clique in cliques for name in clique], dtype=np.int64),
        np.array([0, *accumulate(len(margins) for margins in shared)], dtype=np.int64),
        np.array([mask for mask, _, _ in flat], dtype=np.int64),
        np.array([starts[kept] for _, kept, _ in flat], dtype=np.int64),
        np.array([share / sums[kept] for _, kept, share in flat], dtype=np.float64),
        np.empty(size),
    )


def nonnegative_tables(
    domain: Domain,
    tables: Mapping[Clique, Any],
    *,
    total: float | None = None,
    weights: Mapping[Clique, float] | None = None,
    tolerance: float = 0.01,
    iterations: int = 1000,
) -> Solution[Tables]:
    """The nearest tables that are non-negative, add up to one total and agree on shared margins. Biased.

    `total` is the sum of the first table by default, and at least 0. `weights` are those of each table's squared
    distance (1 by default; one over its variance is sensible). `tolerance` is the share of the uniform table that may
    be mixed in to lift cells that are still below zero. `stats` has that share (`uniform_share`), `iterations`,
    `negative` (the lowest cell before mixing) and `moved` (the root mean square change of a cell).

    Complexity: O(|A| cells(A)) per table and iteration; tens to hundreds of iterations.
    """
    start = checked_tables(domain, tables)
    stated = {domain.clique(clique): float(weight) for clique, weight in (weights or {}).items()}
    if not all(math.isfinite(weight) and weight > 0 for weight in stated.values()):
        raise WorkloadError("weights: expected a finite number > 0 for every table")
    fixed = max(0.0, float(next(iter(start.values())).sum()) if total is None else float(total))
    factors = Factors(domain, start)
    target = np.concatenate([table.ravel() for table in start.values()])
    counts, stats, status = np.zeros(target.size), {"iterations": 0.0, "uniform_share": 0.0, "negative": 0.0}, SOLVED
    if fixed > 0:  # otherwise all cells are zero
        polytope = LocalPolytope(factors, np.array([stated.get(clique, 1.0) for clique in factors.cliques]), fixed)
        nearest = polytope.nearest(target, share=tolerance, iterations=iterations)
        counts, negative = nearest.counts, max(0.0, -float(nearest.agreeing.min()))
        stats = {"iterations": float(nearest.iterations), "uniform_share": nearest.share, "negative": negative}
        if not nearest.solved:
            status = (
                f"after {nearest.iterations} iterations a share of {nearest.share:.2g} of the uniform table was needed"
                f", more than the tolerance {tolerance:g}; raise iterations or tolerance, or ask for smaller tables"
            )
    stats["moved"] = math.sqrt(float(np.mean((counts - target) ** 2)))
    return Solution(value=dict(zip(factors.cliques, factors.tables(counts), strict=True)), status=status, stats=stats)


def checked_tables(domain: Domain, tables: Mapping[Clique, Any]) -> Tables:
    """Tables as arrays, each in the domain order of its clique; refuses wrong shapes and repeated cliques."""
    if not tables:
        raise WorkloadError("no tables were given; give at least one")
    checked: Tables = {}
    for clique, values in tables.items():
        ordered = domain.clique(clique)
        array = np.asarray(values, dtype=np.float64)
        if array.shape != domain.sizes(clique) or not np.isfinite(array).all():
            raise DataError(f"table over {tuple(clique)!r}: expected finite numbers of shape {domain.sizes(clique)}")
        if ordered in checked:
            raise WorkloadError(f"the table over {ordered!r} is given twice; give it once")
        checked[ordered] = reordered(array, tuple(clique), ordered)
    return checked


def whole_tables(domain: Domain, tables: Mapping[Clique, Any], *, total: int | None = None) -> dict[Clique, Integers]:
    """Non-negative integers within one of each cell of non-negative tables that agree with one another.

    Every table has exactly the total, and two tables whose cliques, in domain order, begin with the same attributes
    agree exactly on the margin over those. Other shared margins may differ, each by less than the number of cells that
    it adds up. `total` is the rounded sum of the first table by default.

    >>> from hush.core.domain import Domain
    >>> whole_tables(Domain({"a": 2, "b": 2}), {("a", "b"): [[0.4, 0.3], [0.2, 2.1]]})[("a", "b")].tolist()
    [[1, 0], [0, 2]]
    """
    checked = checked_tables(domain, tables)
    for clique, table in checked.items():
        if table.min() < 0:
            raise DataError(f"the table over {clique!r} has negative cells; make it non-negative first")
    rounded = round(float(next(iter(checked.values())).sum())) if total is None else total
    for clique, table in checked.items():
        if abs(float(table.sum()) - rounded) >= 1:
            raise DataError(f"the table over {clique!r} does not add up to {rounded}; scale it first")
    return {clique: round_nested(table, rounded) for clique, table in checked.items()}


def round_nested(table: Floats, total: int) -> Integers:
    """Integers within one of each cell, and of each sum over trailing axes, that add up to the total.

    Axis by axis: the integers of the margin over the first j axes are shared out among the levels of the next one by
    largest remainder. A margin is within one of its integer, so that the levels' integer parts leave between none and
    all of the levels one more to be given, and no cell moves by one or more.

    Complexity: O(cells log l).
    """
    whole: Integers = np.array(total, dtype=np.int64)
    for axis in range(table.ndim):
        margin = table.sum(axis=tuple(range(axis + 1, table.ndim)))
        # margins that are equal up to float error must be rounded alike in every table that has them
        margin = np.round(margin, 7)
        low = np.floor(margin)
        spare = margin - low
        left = (whole - low.sum(axis=-1).astype(np.int64))[..., None]
        raised = _rank(-spare) < left
        lowered = _rank(np.where(low > 0, spare, 2)) < -left  # only where rounding of floats left one too many
        whole = low.astype(np.int64) + raised - lowered
    return whole


def _rank(values: Floats) -> Integers:
    """The rank of each value along the last axis, ascending, ties by position."""
    order = np.argsort(values, axis=-1, kind="stable")
    return np.argsort(order, axis=-1, kind="stable")
