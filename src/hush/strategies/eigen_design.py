"""Eigen-Design: weigh the eigenvectors of a workload's Gram matrix, then complete the columns.

Within a factor n max diag(G^{1/2}) / tr(G^{1/2}) of the SVD bound, and optimal where that bound is tight. The best
strategy of `hush.strategies.optimum` is never worse; these are here for comparison, and for sizes where a few hundred
weights are all that there is time for.

Reference: [Li 2013, Program 5.1.2].
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hush.errors import WorkloadError
from hush.linops import Dense, LinearOperator
from hush.solution import SOLVED, Solution
from hush.strategies.completion import completed
from hush.strategies.optimum import gram_factor
from hush.strategies.weighting import weigh_loads

Floats = np.ndarray[Any, np.dtype[np.float64]]


def eigen_design(
    gram: Floats,  # (n, n), W^T W
    *,
    complete: bool = True,
    tolerance: float = 1e-5,
    iterations: int = 100,
) -> Solution[LinearOperator]:
    """The best weights for every eigenvector; `stats` has `value`, the error before completion, and its `gap`.

    Complexity: O(n^3) a step of the weighting, about ten steps.

    >>> from hush.linops import AllRange
    >>> round(eigen_design(AllRange(8).gram_dense(), complete=False).stats["value"], 3)
    84.871
    """
    costs, vectors = _eigen(gram)
    found = weigh_loads(vectors**2, costs, tolerance=tolerance, iterations=iterations)
    return _strategy(vectors, found.value.scales, complete, found.status, found.stats)


def separation(
    gram: Floats,  # (n, n), W^T W
    *,
    group: int,
    complete: bool = True,
    tolerance: float = 1e-4,
    iterations: int = 100,
) -> Solution[LinearOperator]:
    """Weights found within groups of `group` eigenvectors of like eigenvalue, then one more for each group.

    Reference: [Li 2013, chapter 5], eigen-query separation.
    """
    if group < 1:
        raise WorkloadError(f"group={group}: expected at least one eigenvector to a group")
    costs, vectors = _eigen(gram)
    loads, weights = vectors**2, np.empty(len(costs))
    group_loads, group_costs, statuses = [], [], []
    parts = [slice(start, start + group) for start in range(0, len(costs), group)]
    for part in parts:
        found = weigh_loads(loads[part], costs[part], tolerance=tolerance, iterations=iterations)
        weights[part] = found.value.scales
        group_loads.append(found.value.scales @ loads[part])
        group_costs.append(found.value.error)
        statuses.append(found.status)
    between = weigh_loads(np.array(group_loads), np.array(group_costs), tolerance=tolerance, iterations=iterations)
    for part, scale in zip(parts, between.value.scales, strict=True):
        weights[part] *= scale
    status = next((word for word in [*statuses, between.status] if word != SOLVED), SOLVED)
    return _strategy(vectors, weights, complete, status, {"value": between.value.error, "groups": float(len(parts))})


def principal(
    gram: Floats,  # (n, n), W^T W
    *,
    share: float,
    complete: bool = True,
    tolerance: float = 1e-4,
    iterations: int = 100,
) -> Solution[LinearOperator]:
    """A weight for each of the first eigenvectors, a `share` of them all, and one weight for the others together.

    Reference: [Li 2013, chapter 5], principal vectors.
    """
    if not 0 < share <= 1:
        raise WorkloadError(f"share={share}: expected a share of the eigenvectors, above 0 and at most 1")
    costs, vectors = _eigen(gram)
    loads, k = vectors**2, max(1, round(share * len(costs)))
    own_loads, own_costs = loads[:k], costs[:k]
    if k < len(costs):
        own_loads, own_costs = np.vstack([own_loads, loads[k:].sum(axis=0)]), np.append(own_costs, costs[k:].sum())
    found = weigh_loads(own_loads, own_costs, tolerance=tolerance, iterations=iterations)
    weights = np.append(found.value.scales[:k], np.full(len(costs) - k, found.value.scales[-1]))
    return _strategy(vectors, weights, complete, found.status, found.stats)


def relative_gram(
    workload: Floats,  # (m, n), W
    cell_shares: Floats | None = None,  # (n,)
) -> Floats:  # (n, n)
    """The Gram matrix of queries scaled to one norm: what to design for when relative errors matter.

    With known shares p of the cells, the norm is sqrt(sum_j w_j^2 / p_j). Judge the strategy on the workload itself.

    Reference: [Li 2013, chapter 5], the relative-error variant.
    """
    weights = np.ones(workload.shape[1]) if cell_shares is None else np.asarray(cell_shares, dtype=np.float64)
    if weights.shape != (workload.shape[1],) or not (weights > 0).all():
        raise WorkloadError(f"cell_shares: expected {workload.shape[1]} numbers above 0, one for each cell")
    norms = np.sqrt(workload**2 @ (1 / weights))
    rows = workload[norms > 0] / norms[norms > 0, None]
    return np.asarray(rows.T @ rows)


def _eigen(gram: Floats) -> tuple[Floats, Floats]:
    """The nonzero eigenvalues, largest first, and their eigenvectors as rows."""
    factor = gram_factor(gram)[:, ::-1]
    norms = np.linalg.norm(factor, axis=0)
    return norms**2, (factor / norms).T


def _strategy(vectors: Floats, weights: Floats, complete: bool, status: str, stats: Any) -> Solution[LinearOperator]:
    strategy = Dense(np.sqrt(weights)[:, None] * vectors)
    return Solution(value=completed(strategy) if complete else strategy, status=status, stats=stats)
