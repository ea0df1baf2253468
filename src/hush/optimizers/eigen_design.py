"""Eigen-Design: weigh the eigenvectors of a workload's Gram matrix, then complete the columns.

Design rows Q, scaled by lambda, answer a workload with error sum_i c_i / lambda_i^2, c_i = |column i of W Q^+|^2. With
u = lambda^2 under Gaussian noise and u = lambda under Laplace noise, P = Q o Q or |Q|, and q = 1 or 2,

    minimise  sum_i c_i / u_i^q   subject to  P^T u <= 1.

Its dual, over weights d >= 0 of sum 1 on the cells, is

    maximise  f(d)^(q+1),     f(d) = sum_i c_i^(1/(q+1)) (P d)_i^(q/(q+1)),

and u = (c / P d)^(1/(q+1)) over its largest load is the primal point of d.

Completion costs nothing: noise depends on the largest column norm alone, rows added where a column is shorter do not
raise it, and (A^T A + B^T B)^+ is below (A^T A)^+ for every query that A supports.

Eigen-Design is within a factor n max diag(G^{1/2}) / tr(G^{1/2}) of the SVD bound, and optimal where that bound is
tight. The strategy of `hush.strategies.optimum` is never worse; these designs are here for comparison, and for sizes
where there is time for a few hundred weights only. The exact problem is not convex under Laplace noise, so two
strategies are borrowed from the Gaussian problem; both are within a factor n of the best, since
|u|_2 <= |u|_1 <= sqrt(n) |u|_2.

Reference: [Li 2013, chapter 3 and Programs 5.1.1 to 5.1.3].
Differs from [Li 2013]: the Laplace constraint is |Q|^T u <= 1, misprinted with Q o Q; no semidefinite program.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hush.core.arrays import Floats
from hush.core.errors import WorkloadError
from hush.core.solution import SOLVED, Solution
from hush.core.validation import is_whole
from hush.linops import Dense, Diagonal, LinearOperator, Stack
from hush.strategies.optimum import DualPoint, ascend, gram_factor, optimal_gram
from hush.strategies.strategy import NoiseKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighting:
    """The scale of every design query, for a sensitivity of one, and the error that results."""

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

    >>> solution = optimal_weighting(np.array([[1.0, 1.0], [1.0, -1.0]]), np.array([4.0, 1.0]))
    >>> solution.value.scales**2, round(solution.value.error, 6)
    (array([0.66666667, 0.33333333]), 9.0)
    """
    loads = design**2 if noise is NoiseKind.GAUSSIAN else np.abs(design)
    solution = weigh_loads(loads, costs, noise=noise, tolerance=tolerance, iterations=iterations)
    scales = np.sqrt(solution.value.scales) if noise is NoiseKind.GAUSSIAN else solution.value.scales
    return replace(solution, value=replace(solution.value, scales=scales))


def weigh_loads(
    loads: Floats,  # (k, n), P
    costs: Floats,  # (k,), c
    *,
    noise: NoiseKind = NoiseKind.GAUSSIAN,
    tolerance: float = 1e-5,
    iterations: int = 100,
) -> Solution[Weighting]:
    """`optimal_weighting` of items given by their loads P on the cells: `scales` is u, with P^T u <= 1.

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
    solution = ascend(
        lambda d: _evaluate(p, c, q, d), np.ones(p.shape[1]), tolerance=tolerance, iterations=max(1, iterations)
    )
    best = solution.value
    scales, cells = np.zeros(k), np.zeros(n)
    scales[asked], cells[touched] = best.primal, best.weights
    scale = float(costs.max())
    return Solution(
        value=Weighting(scales=scales, error=best.upper * scale, lower_bound=best.lower * scale, cells=cells),
        status=solution.status,
        stats={**solution.stats, "value": best.upper * scale, "lower_bound": best.lower * scale},
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
        raise WorkloadError(f"the {k} design queries depend on each other; leave out those that are sums of others")
    inner = vt @ gram @ vt.T
    missed = float(np.trace(gram) - np.trace(inner))
    if missed > 1e-10 * float(np.trace(gram)):
        raise WorkloadError("the design cannot answer all of the workload; add the queries that it misses, or identity")
    inverse = u / s
    return np.asarray(np.einsum("ia,ab,ib->i", inverse, inner, inverse, optimize=True))


def _evaluate(p: Floats, c: Floats, q: int, d: Floats) -> DualPoint[Floats]:
    s = p @ d
    u = (c / s) ** (1 / (q + 1))
    x = p.T @ u
    f = float(s @ u)
    largest = float(x.max())

    def curvature() -> Floats:
        half = np.sqrt(u / (s * f * (q + 1)))[:, None] * p * d
        return np.asarray(half.T @ half)

    return DualPoint(lower=f ** (q + 1), upper=f * largest**q, primal=u / largest, slope=x / f, curvature=curvature)


def missing_norms(strategy: LinearOperator, noise: NoiseKind) -> Floats:
    """The room left in each column: sqrt(Delta_2^2 - |a_j|_2^2), or Delta_1 - |a_j|_1 under Laplace noise; (n,)."""
    norms = strategy.column_norms(noise.norm)
    largest = float(norms.max())
    if noise is NoiseKind.LAPLACE:
        return np.asarray(largest - norms)
    return np.sqrt(np.maximum(largest**2 - norms**2, 0))


def completed(strategy: LinearOperator, noise: NoiseKind = NoiseKind.GAUSSIAN) -> LinearOperator:
    """The strategy with a row for each cell whose column was short, so that all column norms are equal.

    >>> from hush.linops import Prefix
    >>> completed(Prefix(3), NoiseKind.LAPLACE).dense()[3:].tolist()
    [[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 2.0]]
    """
    missing = missing_norms(strategy, noise)
    if missing.max() <= 1e-12 * strategy.sensitivity(noise.norm):
        return strategy
    return Stack((strategy, Diagonal(missing)))


def augmented(strategy: LinearOperator, extra: LinearOperator, noise: NoiseKind = NoiseKind.GAUSSIAN) -> LinearOperator:
    """The strategy with other queries added, as large as they can be without raising the sensitivity.

    If one of them touches a cell whose column already has the largest norm, the strategy is returned unchanged.
    """
    if extra.shape[1] != strategy.shape[1]:
        raise WorkloadError(
            f"queries on {extra.shape[1]} cells cannot be added to a strategy on {strategy.shape[1]} cells"
        )
    missing, norms = missing_norms(strategy, noise), extra.column_norms(noise.norm)
    touched = norms > 0
    scale = float((missing[touched] / norms[touched]).min()) if touched.any() else 0.0
    if scale <= 1e-12 * strategy.sensitivity(noise.norm):
        return strategy
    return Stack((strategy, extra), (1.0, scale))


def l2_approximation(
    gram: Floats,  # (n, n), W^T W
    *,
    tolerance: float = 1e-4,
    iterations: int = 40,
) -> Solution[LinearOperator]:
    """The best strategy for Gaussian noise, as the root of X with the smallest L1 sensitivity of three.

    X = A^T A fixes A up to a rotation, on which the L1 sensitivity depends: the triangular root, the symmetric root
    and the scaled eigenvectors are tried.

    >>> from hush.linops import Prefix
    >>> l2_approximation(Prefix(8).gram_dense()).checked().shape
    (8, 8)
    """
    solution = optimal_gram(gram_factor(gram), tolerance=tolerance, iterations=iterations)
    e, q = np.linalg.eigh(solution.value.gram)
    scaled = np.sqrt(np.maximum(e, 0))[:, None] * q.T
    roots = [solution.value.strategy, Dense(q @ scaled), Dense(scaled)]
    best = min(roots, key=lambda root: root.sensitivity(1))
    return Solution(value=best, status=solution.status, stats=solution.stats)


def singular_value_approximation(gram: Floats) -> LinearOperator:  # (n, n), W^T W
    """A = diag(xi^{1/2}) P^T for a workload of singular values xi and right singular vectors P; (rank, n).

    It minimises |A|_F^2 |W A^+|_F^2.

    Reference: [Li 2013, chapter 3], the singular value bound approximation.
    """
    factor = gram_factor(gram)
    return Dense((factor / np.sqrt(np.linalg.norm(factor, axis=0))).T)


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
    solution = weigh_loads(vectors**2, costs, tolerance=tolerance, iterations=iterations)
    return _strategy(vectors, solution.value.scales, complete, solution.status, solution.stats)


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
    groups = [slice(start, start + group) for start in range(0, len(costs), group)]
    for rows in groups:
        solution = weigh_loads(loads[rows], costs[rows], tolerance=tolerance, iterations=iterations)
        weights[rows] = solution.value.scales
        group_loads.append(solution.value.scales @ loads[rows])
        group_costs.append(solution.value.error)
        statuses.append(solution.status)
    between = weigh_loads(np.array(group_loads), np.array(group_costs), tolerance=tolerance, iterations=iterations)
    for rows, scale in zip(groups, between.value.scales, strict=True):
        weights[rows] *= scale
    status = next((word for word in [*statuses, between.status] if word != SOLVED), SOLVED)
    return _strategy(vectors, weights, complete, status, {"value": between.value.error, "groups": float(len(groups))})


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
    kept_loads, kept_costs = loads[:k], costs[:k]
    if k < len(costs):
        kept_loads, kept_costs = np.vstack([kept_loads, loads[k:].sum(axis=0)]), np.append(kept_costs, costs[k:].sum())
    solution = weigh_loads(kept_loads, kept_costs, tolerance=tolerance, iterations=iterations)
    weights = np.append(solution.value.scales[:k], np.full(len(costs) - k, solution.value.scales[-1]))
    return _strategy(vectors, weights, complete, solution.status, solution.stats)


def weighted_design(
    gram: Floats,  # (n, n), W^T W
    design: Floats,  # (k, n), Q
    *,
    noise: NoiseKind = NoiseKind.GAUSSIAN,
    complete: bool = True,
    tolerance: float = 1e-5,
    iterations: int = 100,
) -> Solution[LinearOperator]:
    """The best weights for the rows of any design, such as a wavelet or Fourier basis; then completed columns.

    `stats` has `value`, the error before completion, and its `gap`. Rows that no query needs are left out.

    Reference: [Li 2013, Programs 5.1.1 and 5.1.3].

    >>> from hush.linops import AllRange, Haar
    >>> gram = AllRange(16).gram_dense()
    >>> round(weighted_design(gram, Haar(16).dense()).stats["value"], 1)  # the wavelet itself: 514.1
    485.6
    """
    costs = design_costs(gram, design)
    needed = costs > 1e-12 * costs.max()
    rows = np.asarray(design)[needed]
    solution = optimal_weighting(rows, costs[needed], noise=noise, tolerance=tolerance, iterations=iterations)
    strategy = Dense(solution.value.scales[:, None] * rows)
    return Solution(
        value=completed(strategy, noise) if complete else strategy, status=solution.status, stats=solution.stats
    )


def fourier_basis(*sizes: int) -> Floats:  # (prod n, prod n)
    """The real Fourier basis of a domain: one orthonormal basis of cosines and sines for each attribute, multiplied.

    On attributes of two levels this is the Hadamard basis, whose rows answer marginals.

    Reference: [Li 2013, chapter 5], the Fourier strategy for marginals.

    >>> (np.round(fourier_basis(2, 2) * 2)).astype(int).tolist()
    [[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]]
    """
    if not sizes or any(not is_whole(size) or size < 1 for size in sizes):
        raise WorkloadError(f"fourier_basis{sizes}: expected the number of levels of each attribute")
    basis = np.ones((1, 1))
    for size in sizes:
        cells, rows = np.arange(size), [np.full(size, size**-0.5)]
        for frequency in range(1, size // 2 + 1):
            angles = 2 * np.pi * frequency * cells / size
            if 2 * frequency == size:
                rows.append(np.cos(angles) / size**0.5)
            else:
                rows += [np.cos(angles) * (2 / size) ** 0.5, np.sin(angles) * (2 / size) ** 0.5]
        basis = np.kron(basis, np.array(rows))
    return basis


def fourier(gram: Floats, *sizes: int) -> LinearOperator:  # (n, n), W^T W
    """The rows of the Fourier basis that some query needs, all with the same weight: a yardstick for marginals.

    For marginals the error per unit of P is rank / n times the sum of squared coefficients of the queries.

    >>> w = np.kron(np.eye(2), np.ones(2))  # the marginal of the first of two attributes
    >>> fourier(w.T @ w, 2, 2).shape
    (2, 4)
    """
    basis = fourier_basis(*(sizes or (len(gram),)))
    if len(basis) != len(gram):
        raise WorkloadError(f"attributes of {sizes} levels for a Gram matrix on {len(gram)} cells: expected as many")
    energies = np.einsum("ia,ab,ib->i", basis, gram, basis, optimize=True)
    return Dense(basis[energies > 1e-12 * energies.max()])


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
