"""The strategy of least total squared error under Gaussian noise, for any queries, with a certificate.

For queries with Gram matrix V = R R^T, the best strategy A has A^T A = X where X solves

    minimise  tr(V X^+)   subject to  diag(X) <= 1,

and its dual, over weights d >= 0 of sum 1 on the cells, is

    maximise  f(d)^2,     f(d) = tr (R^T D R)^{1/2},       D = diag(d).

Uniform weights give the SVD bound. X = R (R^T D R)^{-1/2} R^T is the primal point of d: tr(V X^+) = f, X D X = V, and
X_jj / 2 is the gradient of f. Column completion, X + diag(max X_jj - X_jj), takes the gap between the two values from
first to second order in the distance from the optimum, since V's derivative X^+ V X^+ is D. The optimum of a Kronecker
product of workloads is the Kronecker product of the optima: f and diag(X) multiply.

Such duals are powers of a concave f of degree k < 1, f(td) = t^k f(d), and `ascend` finds their weights by Newton's
method. With x = gradient / k, the weighted mean of x is f, and at the best weights x = f wherever d > 0 and x <= f
elsewhere. In z = log d, scaled so that f = sum d = 1, the step solves

    (M + diag(d max(1 - x, 0)) + mu diag(d)) dz = d (x - 1),        M = -D (Hessian / k) D,

which is positive definite, keeps every weight positive and lets those of slack constraints die. The first step is the
fixed point's, d <- d x^2; a step that loses ground is taken back and replaced by d <- d x. Weights may come in groups,
each adding up to one. With D^{1/2} R = U diag(s) Q^T, -D Hessian D is half of

    M_jk = sum_ab U_ja U_jb U_ka U_kb s_a s_b / (s_a + s_b) = int_0^inf ((U diag(s e^{-ts}) U^T)_jk)^2 dt,

and the integral is a trapezoid sum over log t of about ten squared matrix products.

Reference: [Li 2013, Program 3.4.2] for the problem; [Denisov et al. 2022, Thm 3.2] for the fixed point d <- d diag(X);
[Boyd and Vandenberghe 2004, sec. 9.5] for Newton's method.
Differs from [Li 2013]: no semidefinite program, which costs O(n^8), but about five steps of O(n^3) each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import scipy

from hush.core.arrays import Floats
from hush.core.errors import WorkloadError
from hush.core.memory import require_memory
from hush.core.solution import SOLVED, Solution
from hush.linops import Dense, LinearOperator

Primal = TypeVar("Primal")

INITIAL_DAMPING = 1e-3  # of Newton steps; a step that loses ground multiplies it by ten
DUAL_ROUNDING = 1e-10  # of the dual value, where queries differ much in scale
LEAST_WEIGHT = 1e-100  # slack constraints lose their weight down to this
LONGEST_LOG_STEP = 2.0  # the log of a weight moves by at most this in a step


@dataclass(frozen=True, slots=True, kw_only=True)
class DualPoint(Generic[Primal]):
    """What is known at some weights: bounds on the optimum, x / f, and M / f when it is asked for.

    Steps of log d are `stretch` times those of the variable that M is the curvature in.
    """

    lower: float
    upper: float
    primal: Primal
    slope: Floats  # (n,)
    curvature: Callable[[], Floats]  # -> (n, n)
    stretch: Floats | float = 1.0  # (n,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ascent(Generic[Primal]):
    """The best primal point seen with its value, and the best weights with their value."""

    primal: Primal
    upper: float
    weights: Floats  # (n,)
    lower: float


def ascend(
    evaluate: Callable[[Floats], DualPoint[Primal]],
    start: Floats,  # (n,)
    *,
    tolerance: float,
    iterations: int,
    first: int | None = None,
) -> Solution[Ascent[Primal]]:
    """Weights whose primal point is within a factor 1 + `tolerance` of the best, or a status that says how far it is.

    All weights add up to one; with `first`, so do the first of them, and so do the rest. `stats` has `iterations`
    (evaluations), `value`, `lower_bound` and `gap`, which is certified: value / bound - 1.
    """
    weights = _normalised(start, first)
    upper, lower, damping, retreated = np.inf, 0.0, INITIAL_DAMPING, False
    for iteration in range(1, iterations + 1):
        # Keep the best primal point and the best dual value seen, which need not be at the same weights.
        point = evaluate(weights)
        if point.upper < upper or iteration == 1:
            upper, primal = point.upper, point.primal
        gained = point.lower >= lower * (1 - DUAL_ROUNDING)
        if gained:
            lower, best, slope = max(lower, point.lower), weights, point.slope
        if upper <= (1 + tolerance) * lower or iteration == iterations or (retreated and not gained):
            break
        # After a step that lost ground, go back to the best weights and take the step of the fixed point. The first
        # step is the square of that one; every other step is Newton's.
        if not gained:
            damping, weights, retreated = 10 * damping, best * slope, True
        elif iteration == 1:
            weights, retreated = weights * slope**2, False
        else:
            step = point.stretch * _newton(weights, slope, point.curvature(), damping)
            weights, retreated = weights * np.exp(np.clip(step, -LONGEST_LOG_STEP, LONGEST_LOG_STEP)), False
        weights = _normalised(weights, first)
        del point  # free its arrays before the next are allocated
    gap = upper / lower - 1 if lower > 0 else 0.0
    status = SOLVED
    if gap > tolerance:
        status = f"within {gap:.2g} of the best, not the {tolerance:g} asked for; raise iterations or the tolerance"
    return Solution(
        value=Ascent(primal=primal, upper=upper, weights=best, lower=lower),
        status=status,
        stats={"iterations": float(iteration), "value": upper, "lower_bound": lower, "gap": gap},
    )


def _newton(weights: Floats, slope: Floats, curvature: Floats, damping: float) -> Floats:
    short = slope - 1
    diagonal = weights * (np.maximum(-short, 0) + damping * np.abs(short).max() + 1e-12)
    curvature[np.diag_indices_from(curvature)] += diagonal
    scale = 1 / np.sqrt(curvature.diagonal())
    curvature *= scale[:, None]
    curvature *= scale
    try:
        root = scipy.linalg.cho_factor(curvature.T, overwrite_a=True, check_finite=False)
        return np.asarray(scale * scipy.linalg.cho_solve(root, scale * weights * short, check_finite=False))
    except scipy.linalg.LinAlgError:
        return np.asarray(short)


def _normalised(weights: Floats, first: int | None) -> Floats:
    weights = np.maximum(weights, LEAST_WEIGHT)
    if first is None:
        return np.asarray(weights / weights.sum())
    return np.concatenate([weights[:first] / weights[:first].sum(), weights[first:] / weights[first:].sum()])


ARRAYS_HELD = 10  # of n x n numbers held at the same time, those of the eigen-solver and the caller among them
INVERSION_JITTER = 1e-11  # added to a unit diagonal before it is inverted
LEAST_SQUARED_RATIO = 1e-10  # the least ratio of eigenvalues for which A^T A is precise enough
LOG_TIME_STEP = 1.5  # of the trapezoid sum over log t, which is then within 1.5 % of the integral
FAINT_SHARE = 1e-4  # of the largest factor at some t; smaller ones are left out


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimum:
    """X = A^T A of a strategy with max diag(X) = 1, its dual weights, tr(V X^+), and what no strategy can beat."""

    gram: Floats  # (n, n)
    weights: Floats  # (n,)
    error: float
    lower_bound: float

    @property
    def strategy(self) -> LinearOperator:
        """A with A^T A = X, (n, n), computed on demand."""
        return gram_root(self.gram)


def gram_root(gram: Floats) -> LinearOperator:
    """A with A^T A = X, (n, n): the upper triangular factor, or the scaled eigenvectors where X is singular."""
    try:
        return Dense(np.linalg.cholesky(gram).T)
    except np.linalg.LinAlgError:
        e, q = np.linalg.eigh(gram)
        return Dense(np.sqrt(np.maximum(e, 0))[:, None] * q.T)


def gram_factor(gram: Floats) -> Floats:
    """R of full column rank with R R^T = V, (n, rank): the eigenvectors of nonzero eigenvalues times their roots."""
    n = len(gram)
    if gram.shape != (n, n) or not np.isfinite(gram).all():
        raise WorkloadError("the Gram matrix of the queries must be square and finite")
    _check_memory(n)
    e, q = scipy.linalg.eigh(gram, driver="evd", check_finite=False)
    if e[0] < -1e-8 * max(e[-1], 0.0) or e[-1] <= 0:
        raise WorkloadError(
            f"a Gram matrix W^T W has no negative eigenvalue and is not zero; this one has {e[0]:.3g} .. {e[-1]:.3g}"
        )
    nonzero = e > 4 * n * np.finfo(np.float64).eps * e[-1]
    return np.asarray(q[:, nonzero] * np.sqrt(e[nonzero]))


def optimal_gram(
    factor: Floats,  # (n, r)
    *,
    tolerance: float = 1e-4,
    iterations: int = 40,
    completed: bool = True,
) -> Solution[Optimum]:
    """The optimum for queries with W^T W = R R^T, to within `tolerance` of the least total squared error.

    R is any factor, such as W^T or `gram_factor(gram)`. Without column completion X has the row space of the queries,
    and the search takes a step or two more. Stopped early by `iterations`, the result still supports the queries;
    `status` says how far from the best it may be, and `stats` has `value`, `lower_bound` and `gap`.

    Complexity: one eigen-decomposition and about ten products of (n, r) matrices per step; ten n x n arrays.

    >>> solution = optimal_gram(np.tri(64).T)
    >>> solution.solved, round(solution.value.error, 1), solution.stats["gap"] < 1e-4
    (True, 282.2, True)
    """
    if factor.ndim != 2 or not factor.size or not np.isfinite(factor).all():
        raise WorkloadError("the factor of a Gram matrix must be a non-empty two-dimensional array of finite numbers")
    n = len(factor)
    _check_memory(n)
    # Solve for the cells that queries ask for, scaled so that the largest entry is one.
    used = np.flatnonzero(factor.any(axis=1))
    if not len(used):
        raise WorkloadError("the queries are all zero; ask for something")
    scale = float(np.abs(factor).max())
    r = _full_rank(factor[used] / scale)
    solution = ascend(
        lambda d: _evaluate(r, d, completed), np.ones(len(used)), tolerance=tolerance, iterations=max(1, iterations)
    )
    # Back to all cells.
    best = solution.value
    gram, weights = best.primal, best.weights
    if len(used) < n:
        gram, weights = np.diag(np.full(n, float(completed))), np.zeros(n)
        gram[np.ix_(used, used)] = best.primal
        weights[used] = best.weights
    value, lower = best.upper * scale**2, best.lower * scale**2
    return Solution(
        value=Optimum(gram=gram, weights=weights, error=value, lower_bound=lower),
        status=solution.status,
        stats={**solution.stats, "value": value, "lower_bound": lower},
    )


def dual_value(gram: Floats, weights: Floats) -> float:
    """f(d)^2 for d of sum 1, below tr(V X^+) for every X with diag(X) <= 1; for uniform weights the SVD bound.

    f is the sum of the roots of the eigenvalues of D^{1/2} V D^{1/2}.
    """
    root = np.sqrt(weights)
    return root_sum(scipy.linalg.eigvalsh(root[:, None] * gram * root)) ** 2


def root_sum(eigenvalues: Floats) -> float:
    """The sum of the square roots of rising eigenvalues, each lowered by what rounding may have added to it."""
    slack = len(eigenvalues) * np.finfo(np.float64).eps * max(float(eigenvalues[-1]), 0.0)
    return float(np.sqrt(np.maximum(eigenvalues - slack, 0)).sum())


def _evaluate(factor: Floats, weights: Floats, completed: bool) -> DualPoint[Floats]:
    root = np.sqrt(weights)[:, None]
    u, s, dual_root = _singular(root * factor)
    f = float(s.sum())
    diagonal = u**2 @ s / weights
    largest = float(diagonal.max())
    half = u * (np.sqrt(s / largest) / root)
    gram = half @ half.T
    del half
    upper = f * largest
    if completed:
        gram[np.diag_indices_from(gram)] = 1 + INVERSION_JITTER
        upper = min(upper * (1 + INVERSION_JITTER), _inverse_trace(gram, factor) * (1 + INVERSION_JITTER))
        gram /= 1 + INVERSION_JITTER
    return DualPoint(
        lower=dual_root**2, upper=upper, primal=gram, slope=diagonal / f, curvature=lambda: harmonic_kernel(u, s / f)
    )


def _singular(matrix: Floats) -> tuple[Floats, Floats, float]:
    """Left singular vectors (n, r) and rising singular values (r,) of full column rank, and a lower bound on their sum.

    From the eigenvectors of A^T A, several times faster than the decomposition itself, unless squaring would lose the
    smallest of them to rounding.
    """
    eps = len(matrix) * np.finfo(np.float64).eps
    e, q = scipy.linalg.eigh((matrix.T @ matrix).T, driver="evd", overwrite_a=True, check_finite=False)
    if e[0] > LEAST_SQUARED_RATIO * e[-1]:
        s = np.sqrt(e)
        q /= s
        return matrix @ q, s, root_sum(e)
    left, s, _ = scipy.linalg.svd(matrix, full_matrices=False, overwrite_a=True, check_finite=False)
    least = float(np.maximum(s - eps * s[0], 0).sum())
    return left[:, ::-1], np.maximum(s[::-1], eps * s[0]), least


def harmonic_kernel(vectors: Floats, values: Floats) -> Floats:
    """sum_ab U_ja U_jb U_ka U_kb s_a s_b / (s_a + s_b), (n, n), for U (n, r) and rising s (r,); within 2 %.

    Computed in single precision: it only steers the search, and no certificate depends on it.
    """
    single = vectors.astype(np.float32)
    total = np.zeros((len(vectors), len(vectors)), dtype=np.float32)
    for log_t in np.arange(-np.log(values[-1]) - 4.5, -np.log(values[0]) + LOG_TIME_STEP, LOG_TIME_STEP):
        t = np.exp(log_t)
        w = values * np.exp(-t * values)
        strong = w > FAINT_SHARE * w.max()
        half = single[:, strong] * np.sqrt(w[strong] * np.sqrt(LOG_TIME_STEP * t)).astype(np.float32)
        product = half @ half.T
        product *= product
        total += product
    return total.astype(np.float64)


def _inverse_trace(gram: Floats, factor: Floats) -> float:
    """tr(R^T X^-1 R); infinite where X is singular."""
    try:
        root = scipy.linalg.cholesky(gram, lower=True, check_finite=False)
    except scipy.linalg.LinAlgError:
        return np.inf
    half = scipy.linalg.solve_triangular(root, factor, lower=True, check_finite=False)
    return float(np.vdot(half, half))


def _full_rank(factor: Floats) -> Floats:
    """A factor of the same R R^T with independent columns; a factor with orthogonal columns is returned as it is."""
    n, r = factor.shape
    if r > n:
        return gram_factor(factor @ factor.T)
    inner = factor.T @ factor
    norms = np.sqrt(inner.diagonal())
    if norms.min() > 0:
        rows = enumerate(inner[:-1])
        cosines = (float(np.abs(row[k + 1 :] / norms[k + 1 :]).max()) / norms[k] for k, row in rows)
        if max(cosines, default=0.0) < 1e-6:
            return factor
    left, values, _ = scipy.linalg.svd(factor, full_matrices=False, check_finite=False)
    nonzero = values > n * np.finfo(np.float64).eps * values[0]
    return np.asarray(left[:, nonzero] * values[nonzero])


def _check_memory(n: int) -> None:
    remedy = "coarsen the cells, or use a product of strategies for the attributes"
    require_memory(ARRAYS_HELD * 8 * n * n, f"the best strategy for {n} cells", remedy)
