"""The strategy with the least maximum error over explicit queries under Gaussian noise, or the least p-norm of errors.

For queries W and a power p > 1, or infinity,

    minimise  |e|_p,    e_i = w_i X^+ w_i^T,    subject to  diag(X) <= 1.

Its dual, over weights d >= 0 of sum 1 on the cells and l >= 0 with |l|_q = 1 on the queries, 1/p + 1/q = 1, is

    maximise  f(l, d)^2,      f = the sum of the singular values s of diag(l)^{1/2} W diag(d)^{1/2} = L diag(s) U^T,

concave in both together and in t = l^q, which adds up to one. X = diag(d)^{-1/2} U diag(s) U^T diag(d)^{-1/2} is the
primal point; its diagonal is (U o U) s / d and its errors are (L o L) s / l. -Hessian in (log l, log d) is half the
kernel of `hush.strategies.optimum` on the rows of L above those of U, with its off-diagonal blocks negated.

Reference: [Li 2013, Program 3.4.2] with another convex function of the errors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy

from hush.core.arrays import Floats
from hush.core.errors import SizeError, WorkloadError
from hush.core.memory import require_memory
from hush.core.solution import Solution
from hush.linops import LinearOperator
from hush.strategies.optimum import DualPoint, ascend, gram_root, harmonic_kernel

MOST_QUERIES = 8192
BYTES_PER_PAIR = 32  # for each pair of queries and cells: the curvature in both precisions and its factor
INVERSION_JITTER = 1e-11  # added to a unit diagonal before it is inverted


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxOptimum:
    """X = A^T A with diag(X) = 1, its errors, and the dual weights of cells and queries."""

    gram: Floats  # (n, n)
    errors: Floats  # (m,)
    cell_weights: Floats  # (n,)
    query_weights: Floats  # (m,)
    lower_bound: float

    @property
    def strategy(self) -> LinearOperator:
        """A with A^T A = X, (n, n), computed on demand."""
        return gram_root(self.gram)


def least_max_error(
    workload: Floats,  # (m, n), W
    *,
    power: float = math.inf,
    tolerance: float = 1e-3,
    iterations: int = 60,
) -> Solution[MaxOptimum]:
    """The strategy with the smallest |errors|_power to within `tolerance`; the largest error unless said otherwise.

    `stats` has `value`, `lower_bound` and the certified `gap`. Complexity: O((m + n)^2 n) a step, and two matrices of
    (m + n)^2 numbers.

    >>> solution = least_max_error(np.tri(8))
    >>> solution.solved, bool((solution.value.errors <= solution.stats["value"] * (1 + 1e-9)).all())
    (True, True)
    """
    w = np.asarray(workload, dtype=np.float64)
    if w.ndim != 2 or not np.isfinite(w).all() or not w.any():
        raise WorkloadError("a workload must be a two-dimensional array of finite numbers, not all of them zero")
    if not power > 1:
        raise WorkloadError(f"power={power}: expected a number above 1; for the sum of errors use optimal_gram")
    if len(w) > MOST_QUERIES:
        raise SizeError(
            f"the largest error over {len(w)} queries is too much to optimise (limit {MOST_QUERIES}); "
            "ask fewer queries, or take the least total error"
        )
    # Solve for the queries and cells that are not zero, scaled so that the largest entry is one.
    m, n = w.shape
    remedy = "ask fewer queries, or take the least total error"
    require_memory(BYTES_PER_PAIR * (m + n) ** 2, f"the largest error of {m} queries on {n} cells", remedy)
    rows, columns = np.flatnonzero(w.any(axis=1)), np.flatnonzero(w.any(axis=0))
    scale = float(np.abs(w).max())
    scaled = w[np.ix_(rows, columns)] / scale
    dual_power = 1.0 if math.isinf(power) else power / (power - 1)
    solution = ascend(
        lambda weights: _evaluate(scaled, weights, power, dual_power),
        np.ones(len(rows) + len(columns)),
        tolerance=tolerance,
        iterations=max(1, iterations),
        first=len(rows),
    )
    # Back to all queries and cells; a cell that no query asks for is measured by itself.
    best = solution.value
    gram, errors, queries, cells = np.eye(n), np.zeros(m), np.zeros(m), np.zeros(n)
    gram[np.ix_(columns, columns)], errors[rows] = best.primal[0], best.primal[1] * scale**2
    queries[rows], cells[columns] = best.weights[: len(rows)] ** (1 / dual_power), best.weights[len(rows) :]
    lower = best.lower * scale**2
    return Solution(
        value=MaxOptimum(gram=gram, errors=errors, cell_weights=cells, query_weights=queries, lower_bound=lower),
        status=solution.status,
        stats={**solution.stats, "value": best.upper * scale**2, "lower_bound": lower},
    )


def _evaluate(w: Floats, weights: Floats, power: float, dual_power: float) -> DualPoint[tuple[Floats, Floats]]:
    # The singular values of diag(l)^{1/2} W diag(d)^{1/2}, whose sum is f
    m, n = w.shape
    shares, d = weights[:m], weights[m:]
    queries = shares ** (1 / dual_power)
    scaled = np.sqrt(queries)[:, None] * w * np.sqrt(d)
    e, u = scipy.linalg.eigh(scaled.T @ scaled, driver="evd", check_finite=False)
    nonzero = e > 4 * max(m, n) * np.finfo(np.float64).eps * e[-1]
    s, u = np.sqrt(e[nonzero]), u[:, nonzero]
    left = scaled @ (u / s)
    f = float(s.sum())
    # The primal point X, scaled to a unit diagonal, and its errors w_i X^-1 w_i^T, which rounding can only raise.
    cell_loads, query_loads = u**2 @ s, left**2 @ s
    half = u * np.sqrt(s) / np.sqrt(d)[:, None]
    gram = half @ half.T / float((cell_loads / d).max())
    gram[np.diag_indices(n)] = 1.0
    root = scipy.linalg.cholesky(gram + INVERSION_JITTER * np.eye(n), lower=True, check_finite=False)
    solved = scipy.linalg.solve_triangular(root, w.T, lower=True, check_finite=False)
    errors = np.sum(solved**2, axis=0) * (1 + INVERSION_JITTER)
    both = np.vstack([left, u])

    def curvature() -> Floats:
        kernel = harmonic_kernel(both, s / f)
        kernel[:m, m:] *= -1
        kernel[m:, :m] *= -1
        kernel[np.arange(m), np.arange(m)] += (dual_power - 1) * shares
        return kernel

    return DualPoint(
        lower=f**2,
        upper=float(np.linalg.norm(errors, ord=power)),
        primal=(gram, errors),
        slope=np.concatenate([query_loads, cell_loads]) / (f * weights),
        curvature=curvature,
        stretch=np.concatenate([np.full(m, dual_power), np.ones(n)]),
    )
