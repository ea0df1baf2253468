"""The local polytope: non-negative tables of one total that agree on all they share, and the nearest point of it.

C = {mu_r >= 0, mu_r and mu_s have the same margin over r and s, the cells of mu_r add up to N, forbidden cells are 0}
holds the marginals of every distribution, and more: where cliques form loops, some tables that agree belong to no
distribution. Tables that agree form an affine space, onto which the projection in the norm |x|^2 = sum_r w_r |x_r|^2 is
a weighted mean of centred margins: that over A has in table r the weight w_r / prod_{r - A} n_i.

The nearest point of C to a target t is found from its dual: x(lambda) = projection of t + lambda, and

    max over lambda >= 0 of  d(lambda) = |x(lambda) - t|^2 / 2 - <lambda, x(lambda)>

by ascent lambda <- max(lambda - x(lambda), 0), which alone is Dykstra's method, with momentum and restarts. A point
x(lambda) is brought into C by mixing in a little of the uniform tables, which lie inside it; the distance of the
mixture less d(lambda) bounds how far it is from the nearest.

Reference: [Boyle and Dykstra 1986]; [Beck and Teboulle 2009] for momentum; [ResidualPlanner, Thm 4.7] for the margins.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from hush.core.arrays import Booleans, Floats
from hush.core.domain import Clique
from hush.inference._kernels import agree, extrapolate, step_up, weighted_sums
from hush.inference.factors import Factors

CHECK_EVERY = 10
MASS_MOVED = 1e-7  # of the total in any table, when forbidden cells rule out mixing


@dataclass(frozen=True, slots=True, eq=False)
class Nearest:
    """A point of the polytope, multipliers that say how near it is, and the bound: half a squared distance."""

    counts: Floats
    agreeing: Floats  # x(lambda), which may be a little below zero
    multipliers: Floats
    gap: float
    share: float
    iterations: int
    solved: bool


class LocalPolytope:
    """Tables over the cliques of `factors` that add up to `total`; `weights` are those of the norm, one per clique.

    `allowed` has a table of truth values for each clique with forbidden cells.

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
        """The same tables in the norm of equal weights, where projections need the fewest iterations."""
        return LocalPolytope(self.factors, np.ones(len(self.factors)), self.total, self._allowed)

    def agree(self, flat: Floats, total: float | None = None) -> Floats:
        """The nearest tables that agree and add up to `total`, in place; they may be negative."""
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

        `share` limits how much of the uniform tables may be mixed in; with forbidden cells the limit is `MASS_MOVED`.
        """
        share = MASS_MOVED if self.blocked.size else share
        owed = np.zeros(target.size) if multipliers is None else multipliers
        ahead, point = owed.copy(), np.empty(target.size)
        offsets, pace, count = self.factors.offsets, 1.0, 0
        scratch = self._scratch
        while True:
            nearest = self._certified(target, owed, count)
            if nearest.gap <= gap and nearest.share <= share:
                return nearest
            if count >= iterations:
                return Nearest(nearest.counts, nearest.agreeing, owed, nearest.gap, nearest.share, count, False)
            del nearest
            for _ in range(CHECK_EVERY):
                np.add(target, ahead, out=point)
                agree(point, offsets, *self._margins, self.total, scratch)
                if step_up(ahead, point, owed, self.blocked, offsets, self.weights) > 0.0:
                    pace = 1.0
                faster = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * pace * pace))
                extrapolate(ahead, point, owed, self.blocked, (pace - 1.0) / faster)
                pace = faster
                count += 1

    def _certified(self, target: Floats, owed: Floats, count: int) -> Nearest:
        """A point of the polytope at these multipliers, and how near it is."""
        offsets = self.factors.offsets
        point = self.agree(target + owed)
        squares, products = weighted_sums(point, target, owed, offsets, self.weights)
        counts, share = self.enter(point)
        above, _ = weighted_sums(counts, target, owed, offsets, self.weights)
        gap = max(0.5 * (above - squares) + products, 0.0)
        return Nearest(counts, point, owed, gap, share, count, True)

    def enter(self, point: Floats) -> tuple[Floats, float]:
        """Make tables that agree non-negative; also return the share of the total that had to move.

        With forbidden cells there is no uniform table to mix in: what is out of bounds is cut off and every table is
        scaled to the total, so that tables agree only up to the share.
        """
        starts = self.factors.offsets[:-1]
        if not self.blocked.size:
            lowest = np.minimum(np.minimum.reduceat(point, starts), 0.0)
            share = max(0.0, float(np.max(lowest / (lowest - self._uniform))))
            mixed = (1 - share) * point
            mixed += np.repeat(share * self._uniform, np.diff(self.factors.offsets))
            return np.maximum(mixed, 0.0, out=mixed), share
        cut = np.maximum(point, 0.0)
        cut[self.blocked] = 0.0
        moved = float(np.add.reduceat(np.abs(cut - point), starts).max()) / self.total
        sums = np.add.reduceat(cut, starts)
        cut *= np.repeat(self.total / np.where(sums > 0, sums, 1.0), np.diff(self.factors.offsets))
        return cut, moved


def _shared_margins(factors: Factors, weights: Floats) -> tuple[Any, ...]:
    """Which margins every table shares with others, where their means are kept, and the weights of the means.

    Attributes of one level are left out: a centred margin over one is zero.
    """
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
