r"""Non-negative consistent tables: biased post-processing of unbiased marginals.

Unbiased noisy counts can be negative. Here tables over several cliques are moved, as little as can be in weighted
squared distance, to tables that are non-negative, have one total and agree on whatever they share. The result is biased
upwards where true counts are small, and its error bars are not those of the estimates; use it for display and for tools
that cannot take negative counts, and the unbiased estimates for inference.

Agreement on every shared margin does not mean that some data set has these tables: that is a harder question, which is
not asked here.

The tables that agree form an affine space. In the residual basis the projection onto it is a weighted mean: table c
has, for each A within its clique, a centred margin r_{c,A} of squared length |r_{c,A}|^2 / prod_{c \ A} l, and the
nearest agreeing tables have

    r_A = sum_c w_c / prod_{c \ A} l * r_{c,A}  /  sum_c w_c / prod_{c \ A} l.

Dykstra's method alternates it with clipping at zero, which converges to the nearest point of the intersection. What
remains below zero when it stops is taken away by mixing in a little of the uniform table, which agrees with everything.

Reference: [Boyle and Dykstra 1986].

Whole tables: non-negative integers near a table, with its leading margins kept; biased post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from hush.arrays import Floats, Integers, reordered
from hush.domain import Clique, Domain
from hush.errors import DataError, WorkloadError
from hush.inference.residual_reconstruction import expand, parts
from hush.solution import SOLVED, Solution
from hush.strategies.residual_basis import PlainBasis

Tables = dict[Clique, Floats]


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

    `total` is the first table's sum by default, and at least 0; `weights` says how much each table's squared distance
    counts (1 by default; one over its variance is sensible). `tolerance` is the share of the uniform table that may be
    mixed in to take away what is left below zero; `stats` has that share (`uniform_share`), `iterations`, `negative`
    (the furthest below zero before mixing) and `moved` (the root mean square change of a cell).

    Complexity: O(|A| cells(A)) per table and iteration; tens to hundreds of iterations.
    """
    start = checked_tables(domain, tables)
    stated = {domain.clique(clique): float(weight) for clique, weight in (weights or {}).items()}
    own = {clique: stated.get(clique, 1.0) for clique in start}
    if not all(math.isfinite(weight) and weight > 0 for weight in stated.values()):
        raise WorkloadError("weights: expected a finite number > 0 for every table")
    fixed = max(0.0, float(next(iter(start.values())).sum()) if total is None else float(total))
    space = _Agreement(domain, own, fixed)
    x = space.project(start)
    owed = {clique: np.zeros_like(table) for clique, table in x.items()}
    share, lowest = _uniform_share(x, fixed)
    count = 0
    best, best_share, best_lowest = x, share, lowest
    while best_share > tolerance and count < iterations and fixed > 0:  # a total of zero leaves zeros alone
        clipped = {clique: np.maximum(x[clique] + owed[clique], 0) for clique in x}
        owed = {clique: x[clique] + owed[clique] - clipped[clique] for clique in x}
        x = space.project(clipped)
        count += 1
        share, lowest = _uniform_share(x, fixed)
        if share < best_share:
            best, best_share, best_lowest = x, share, lowest
    mixed = {
        clique: np.maximum((1 - best_share) * table + best_share * fixed / table.size, 0)
        for clique, table in best.items()
    }
    status = SOLVED
    if best_share > tolerance and fixed > 0:
        status = (
            f"a share of {best_share:.2g} of the uniform table was needed after {count} iterations, tolerance "
            f"{tolerance:g}; raise iterations or the tolerance, or ask for smaller tables"
        )
    squares = sum(float(np.sum((mixed[clique] - start[clique]) ** 2)) for clique in start)
    stats = {
        "iterations": float(count),
        "uniform_share": best_share,
        "negative": max(0.0, -best_lowest),
        "moved": math.sqrt(squares / sum(table.size for table in start.values())),
    }
    return Solution(value=mixed, status=status, stats=stats)


def disagreement(domain: Domain, tables: Mapping[Clique, Any]) -> float:
    """The largest difference between two tables on a margin that they share; zero for tables that agree."""
    sums: dict[Clique, list[Floats]] = {}
    for clique, table in checked_tables(domain, tables).items():
        for mask, _ in parts(len(clique)):
            kept = tuple(name for axis, name in enumerate(clique) if mask >> axis & 1)
            gone = tuple(axis for axis in range(len(clique)) if not mask >> axis & 1)
            sums.setdefault(kept, []).append(table.sum(axis=gone))
    return max(float(np.max(np.ptp(np.stack(margins), axis=0))) for margins in sums.values())


class _Agreement:
    """The affine space of tables that agree and have one total, with its weighted projection."""

    def __init__(self, domain: Domain, weights: Mapping[Clique, float], total: float) -> None:
        self.total = total
        self.weights = weights
        self.bases = {clique: [PlainBasis(size) for size in domain.sizes(clique)] for clique in weights}
        self.shares: dict[Clique, float] = {}
        for clique in weights:
            for mask, _ in parts(len(clique)):
                kept = _chosen(clique, mask)
                self.shares[kept] = self.shares.get(kept, 0.0) + self._share(clique, mask)

    def project(self, tables: Tables) -> Tables:
        """The nearest tables in the space."""
        means: Tables = {}
        for clique, table in tables.items():
            extended = _forward(table)
            for mask, part in parts(len(clique)):
                kept = _chosen(clique, mask)
                own = extended[part] * (self._share(clique, mask) / self.shares[kept])
                means[kept] = means[kept] + own if kept in means else np.asarray(own)
        means[()] = np.asarray(self.total)
        found = {}
        for clique, table in tables.items():
            extended = np.empty([size + 1 for size in table.shape])
            for mask, part in parts(len(clique)):
                extended[part] = means[_chosen(clique, mask)]
            found[clique] = expand(extended, self.bases[clique])
        return found

    def _share(self, clique: Clique, mask: int) -> float:
        outside = math.prod(basis.size for axis, basis in enumerate(self.bases[clique]) if not mask >> axis & 1)
        return self.weights[clique] / outside


def _forward(table: Floats) -> Floats:
    """Sums at level 0 and centred levels after it, along every axis."""
    for axis in range(table.ndim):
        total = table.sum(axis=axis, keepdims=True)
        table = np.concatenate([total, table - total / table.shape[axis]], axis=axis)
    return table


def _chosen(clique: Clique, mask: int) -> Clique:
    return tuple(name for axis, name in enumerate(clique) if mask >> axis & 1)


def _uniform_share(tables: Tables, total: float) -> tuple[float, float]:
    """The least share t with (1 - t) x + t total / cells >= 0 everywhere, and the lowest x."""
    share, lowest = 0.0, math.inf
    for table in tables.values():
        least = float(table.min())
        lowest = min(lowest, least)
        if least < 0:
            share = max(share, least / (least - total / table.size))
    return min(share, 1.0), lowest


def checked_tables(domain: Domain, tables: Mapping[Clique, Any]) -> Tables:
    """Tables as arrays, each in the domain order of its clique; refuses misfits."""
    if not tables:
        raise WorkloadError("no tables were given; give at least one")
    made: Tables = {}
    for clique, values in tables.items():
        ordered = domain.clique(clique)
        array = np.asarray(values, dtype=np.float64)
        if array.shape != domain.sizes(clique) or not np.isfinite(array).all():
            raise DataError(f"table over {tuple(clique)!r}: expected finite numbers of shape {domain.sizes(clique)}")
        if ordered in made:
            raise WorkloadError(f"the table over {ordered!r} is given twice; give it once")
        made[ordered] = reordered(array, tuple(clique), ordered)
    return made


def whole_tables(domain: Domain, tables: Mapping[Clique, Any], *, total: int | None = None) -> dict[Clique, Integers]:
    """Non-negative integers within one of each cell of non-negative tables that agree with one another.

    What agrees afterwards, exactly: every table has the total, and two tables whose cliques, in domain order, begin
    with the same attributes agree on the margin over those. What does not: other shared margins, each of which is
    within its number of added cells of the value before. `total` is the rounded sum of the first table by default.

    >>> from hush.domain import Domain
    >>> whole_tables(Domain({"a": 2, "b": 2}), {("a", "b"): [[0.4, 0.3], [0.2, 2.1]]})[("a", "b")].tolist()
    [[1, 0], [0, 2]]
    """
    checked = checked_tables(domain, tables)
    for clique, table in checked.items():
        if table.min() < 0:
            raise DataError(f"the table over {clique!r} has negative cells; make it non-negative first")
    wanted = round(float(next(iter(checked.values())).sum())) if total is None else total
    for clique, table in checked.items():
        if abs(float(table.sum()) - wanted) >= 1:
            raise DataError(f"the table over {clique!r} does not add up to {wanted}; scale it first")
    return {clique: round_nested(table, wanted) for clique, table in checked.items()}


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
        given = _rank(-spare) < left
        taken = _rank(np.where(low > 0, spare, 2)) < -left  # only where rounding of floats left one too many
        whole = low.astype(np.int64) + given - taken
    return whole


def _rank(values: Floats) -> Integers:
    """The place of each value in ascending order along the last axis, ties by position."""
    order = np.argsort(values, axis=-1, kind="stable")
    return np.argsort(order, axis=-1, kind="stable")
