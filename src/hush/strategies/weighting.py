"""How much of each query of a design to measure, so that a workload's total squared error is least.

Design rows Q, scaled by lambda, answer a workload with error sum_i c_i / lambda_i^2, c_i = |column i of W Q^+|^2. With
u = lambda^2 under Gaussian noise and u = lambda under Laplace noise, P = Q o Q or |Q|, and q = 1 or 2,

    minimise  sum_i c_i / u_i^q   subject to  P^T u <= 1.

Its dual, over weights d >= 0 of sum 1 on the cells, is

    maximise  f(d)^(q+1),     f(d) = sum_i c_i^(1/(q+1)) (P d)_i^(q/(q+1)),

and u = (c / P d)^(1/(q+1)) over its largest load is the primal point of d.

Reference: [Li 2013, Programs 5.1.1 and 5.1.3].
Differs from [Li 2013]: the Laplace constraint is |Q|^T u <= 1, misprinted with Q o Q; no semidefinite program.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hush.errors import WorkloadError
from hush.solution import Solution
from hush.strategies.ascent import Point, ascend
from hush.strategies.noise_kind import NoiseKind

Floats = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighting:
    """What to multiply every design query by, for a sensitivity of one, and the error it leaves."""

    scales: Floats  # (k,), lambda
    error: float
    lower_bound: float
    cells: Floats  # (n,), the dual weights


def optimal_weighting(
    design: Floats,  # (k, n), Q
    costs: Floats,  # (k,), c
    *,
    noise: NoiseKind = NoiseKind.GAUSSIAN,
    tolerance: float = 1e-5,
    iterations: int = 100,
) -> Solution[Weighting]:
    """The scales of design queries with the least sum_i c_i / lambda_i^2, to within `tolerance`; see the module.

    Queries of no cost are left out: their scale is zero.

    >>> found = optimal_weighting(np.array([[1.0, 1.0], [1.0, -1.0]]), np.array([4.0, 1.0]))
    >>> found.value.scales**2, round(found.value.error, 6)
    (array([0.66666667, 0.33333333]), 9.0)
    """
    loads = design**2 if noise is NoiseKind.GAUSSIAN else np.abs(design)
    found = weigh_loads(loads, costs, noise=noise, tolerance=tolerance, iterations=iterations)
    value = found.value
    scales = np.sqrt(value.scales) if noise is NoiseKind.GAUSSIAN else value.scales
    return Solution(
        value=Weighting(scales=scales, error=value.error, lower_bound=value.lower_bound, cells=value.cells),
        status=found.status,
        stats=found.stats,
    )


def weigh_loads(
    loads: Floats,  # (k, n), P
    costs: Floats,  # (k,), c
    *,
    noise: NoiseKind = NoiseKind.GAUSSIAN,
    tolerance: float = 1e-5,
    iterations: int = 100,
) -> Solution[Weighting]:
    """The same for items known by what they load on the cells: `scales` is u, with P^T u <= 1.

    Complexity: O(k n^2 + n^3) a step, about ten steps.
    """
    k, n = loads.shape
    costs = np.asarray(costs, dtype=np.float64)
    if costs.shape != (k,) or not np.isfinite(costs).all() or (costs < 0).any() or not costs.any():
        raise WorkloadError(f"the costs of {k} design queries must be as many finite numbers >= 0, and not all 0")
    asked = costs > 0
    touched = loads[asked].any(axis=0)
    if not loads[asked].any(axis=1).all():
        raise WorkloadError("a design query that is zero cannot answer anything; leave it out")
    c, p = costs[asked] / costs.max(), loads[np.ix_(asked, touched)]
    q = 1 if noise is NoiseKind.GAUSSIAN else 2
    found = ascend(
        lambda d: _evaluate(p, c, q, d), np.ones(p.shape[1]), tolerance=tolerance, iterations=max(1, iterations)
    )
    best = found.value
    scales, cells = np.zeros(k), np.zeros(n)
    scales[asked], cells[touched] = best.primal, best.weights
    scale = float(costs.max())
    return Solution(
        value=Weighting(scales=scales, error=best.upper * scale, lower_bound=best.lower * scale, cells=cells),
        status=found.status,
        stats={**found.stats, "value": best.upper * scale, "lower_bound": best.lower * scale},
    )


def design_costs(gram: Floats, design: Floats) -> Floats:  # (n, n), (k, n) -> (k,)
    """c_i = |column i of W Q^+|^2 for a workload with W^T W = `gram`; the design must be independent and support it.

    Reference: [Li 2013, Thm 5.1]. Differs from [Li 2013]: independent rows are asked for; the formula needs them.
    """
    k, n = design.shape
    if gram.shape != (n, n):
        raise WorkloadError(f"a Gram matrix of shape {gram.shape} for a design on {n} cells: expected ({n}, {n})")
    u, s, vt = np.linalg.svd(design, full_matrices=False)
    if k > n or s[-1] <= max(k, n) * np.finfo(np.float64).eps * s[0]:
        raise WorkloadError(f"the {k} design queries depend on each other; leave out those that others add up to")
    inner = vt @ gram @ vt.T
    missed = float(np.trace(gram) - np.trace(inner))
    if missed > 1e-10 * float(np.trace(gram)):
        raise WorkloadError("the design cannot answer all of the workload; add the queries that it misses, or identity")
    inverse = u / s
    return np.asarray(np.einsum("ia,ab,ib->i", inverse, inner, inverse, optimize=True))


def _evaluate(p: Floats, c: Floats, q: int, d: Floats) -> Point[Floats]:
    s = p @ d
    u = (c / s) ** (1 / (q + 1))
    x = p.T @ u
    f = float(s @ u)
    largest = float(x.max())

    def curvature() -> Floats:
        half = np.sqrt(u / (s * f * (q + 1)))[:, None] * p * d
        return np.asarray(half.T @ half)

    return Point(lower=f ** (q + 1), upper=f * largest**q, primal=u / largest, slope=x / f, curvature=curvature)
