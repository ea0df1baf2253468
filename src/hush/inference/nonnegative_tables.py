"""Non-negative consistent tables, and whole ones: biased post-processing of unbiased marginals.

Unbiased noisy counts can be negative. Here tables over several cliques are moved, as little as can be in weighted
squared distance, to tables that are non-negative, have one total and agree on whatever they share: the nearest point of
the local polytope. The result is biased upwards where true counts are small, and its error bars are not those of the
estimates. Use it for display and for tools that cannot take negative counts, and the unbiased estimates for inference.

Tables that agree on every shared margin need not come from any data set.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from hush.core.arrays import Floats, Integers, reordered
from hush.core.domain import Clique, Domain
from hush.core.errors import DataError, WorkloadError
from hush.core.solution import SOLVED, Solution
from hush.inference.factors import Factors
from hush.inference.local_polytope import LocalPolytope

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
    mixed in to lift cells that are still below zero; `stats` has that share (`uniform_share`), `iterations`, `negative`
    (the furthest below zero before mixing) and `moved` (the root mean square change of a cell).

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
    if fixed > 0:  # a total of zero leaves zeros alone
        polytope = LocalPolytope(factors, np.array([stated.get(clique, 1.0) for clique in factors.cliques]), fixed)
        nearest = polytope.nearest(target, share=tolerance, iterations=iterations)
        counts, negative = nearest.counts, max(0.0, -float(nearest.agreeing.min()))
        stats = {"iterations": float(nearest.iterations), "uniform_share": nearest.share, "negative": negative}
        if not nearest.solved:
            status = (
                f"a share of {nearest.share:.2g} of the uniform table was needed after {nearest.iterations} iterations"
                f", tolerance {tolerance:g}; raise iterations or the tolerance, or ask for smaller tables"
            )
    stats["moved"] = math.sqrt(float(np.mean((counts - target) ** 2)))
    return Solution(value=dict(zip(factors.cliques, factors.tables(counts), strict=True)), status=status, stats=stats)


def checked_tables(domain: Domain, tables: Mapping[Clique, Any]) -> Tables:
    """Tables as arrays, each in the domain order of its clique; refuses misfits."""
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

    What agrees afterwards, exactly: every table has the total, and two tables whose cliques, in domain order, begin
    with the same attributes agree on the margin over those. What does not: other shared margins, each of which is
    within its number of added cells of the value before. `total` is the rounded sum of the first table by default.

    >>> from hush.core.domain import Domain
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
        raised = _rank(-spare) < left
        lowered = _rank(np.where(low > 0, spare, 2)) < -left  # only where rounding of floats left one too many
        whole = low.astype(np.int64) + raised - lowered
    return whole


def _rank(values: Floats) -> Integers:
    """The rank of each value along the last axis, ascending, ties by position."""
    order = np.argsort(values, axis=-1, kind="stable")
    return np.argsort(order, axis=-1, kind="stable")
