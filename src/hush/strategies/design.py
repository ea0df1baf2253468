"""Design a basis for what is asked of one attribute: prefix sums, ranges, or any other queries.

On the space orthogonal to 1, the best base strategy X = S^T S for queries with Gram matrix V solves

    minimise  max diag(X) * tr(X^+ V),

the product of privacy cost and summed variance. Its dual, over weights d >= 0 of sum 1 on the levels, is

    maximise  (tr (V^{1/2} diag(d) V^{1/2})^{1/2})^2,

and X = V^{1/2} (V^{1/2} diag(d) V^{1/2})^{-1/2} V^{1/2} is the primal point of d. This is the problem of
`hush.strategies.optimum` on one subspace, without column completion, which would leave it.

The result is rounded, as a matrix, to integers whose rows add up to zero exactly, so that sensitivity and variances
are those of what is measured.

Reference: [Li 2013, chapter 3] for the objective.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hush.errors import SizeError, WorkloadError
from hush.solution import Solution
from hush.strategies import optimum
from hush.strategies.basis import Basis, MatrixBasis, PlainBasis

Floats = np.ndarray[Any, np.dtype[np.float64]]

LARGEST_SIZE = 4096
LEAST_BITS = 7
MOST_BITS = 16
_RIDGE = 1e-6  # share of the Gram matrix given to directions nobody asks for, so that X has full rank


def design_basis(
    gram: Floats,  # (l, l)
    *,
    tolerance: float = 1e-3,
    rounding_loss: float = 1e-3,
) -> Solution[Basis]:
    """The basis for queries of this Gram matrix W^T W, within `tolerance` of the best and rounded to short integers.

    The bits of the entries are the fewest for which rounding costs at most `rounding_loss` of the variance. `stats`
    has `efficiency` (a lower bound on max diag(X) tr(X^+ V) over the value reached, after rounding),
    `svd_bound_ratio` (value over the SVD bound), `bits` and `iterations`. Gram matrices proportional to P, or with
    nothing but totals, get the plain basis.

    Complexity: O(l^3) an iteration, about five iterations.
    """
    n = len(gram)
    if n > LARGEST_SIZE:
        raise SizeError(
            f"an attribute of {n} levels is too large to design a base strategy for (limit {LARGEST_SIZE}); "
            "coarsen its bins, or ask for its levels by themselves"
        )
    if gram.shape != (n, n) or not np.isfinite(gram).all():
        raise WorkloadError("the Gram matrix of the queries must be square and finite")
    v = _centre(gram)
    mean = np.trace(v) / (n - 1)
    if mean <= 1e-12 * np.trace(gram) or np.abs(v - _centre(mean * np.eye(n))).max() <= 1e-9 * mean:
        return Solution(value=PlainBasis(n))
    found = optimal_gram(v + _centre(_RIDGE * mean * np.eye(n)), tolerance=tolerance)
    x, d = found.value
    basis, bits = _round(x, v, rounding_loss)
    value = float(basis.max_diagonal) * float(np.sum(basis.inverse_gram * v))
    stats = {
        "iterations": found.stats["iterations"],
        "efficiency": optimum.dual_value(v, d) / value,
        "svd_bound_ratio": value / optimum.dual_value(v, np.full(n, 1 / n)),
        "bits": float(bits),
    }
    return Solution(value=basis, status=found.status, stats=stats)


def optimal_gram(
    centred: Floats,  # (l, l), of rank l - 1, rows and columns adding up to zero
    *,
    tolerance: float = 1e-3,
    iterations: int = 40,
) -> Solution[tuple[Floats, Floats]]:
    """X = S^T S of the best centred base strategy, with max diag(X) = 1, and its dual weights; see the module."""
    u = _orthonormal(len(centred))
    e, q = np.linalg.eigh(u.T @ centred @ u)
    found = optimum.optimal_gram(
        u @ (q * np.sqrt(np.maximum(e, 0))), tolerance=tolerance, iterations=iterations, completed=False
    )
    return Solution(value=(found.value.gram, found.value.weights), status=found.status, stats=found.stats)


def _round(x: Floats, centred: Floats, rounding_loss: float) -> tuple[MatrixBasis, int]:
    """The shortest integers that lose at most `rounding_loss` against the unrounded strategy."""
    u = _orthonormal(len(x))
    v = u.T @ centred @ u
    e, q = np.linalg.eigh(x)
    s = np.sqrt(np.maximum(e[1:], 0))[:, None] * q[:, 1:].T  # the first eigenvalue is that of 1, zero
    aim = _value(s, u, v) * (1 + rounding_loss)
    for bits in range(LEAST_BITS, MOST_BITS + 1):
        matrix = _round_rows(s * 2.0**bits)
        if _value(matrix / 2.0**bits, u, v) <= aim:
            return MatrixBasis(matrix, 2**bits), bits
    raise WorkloadError(
        "the queries on one attribute differ too much in scale for one base strategy; bring their entries to one scale"
    )


def _value(s: Floats, u: Floats, v: Floats) -> float:
    """max diag(X) tr(X^+ V) for X = S^T S; infinite where X is short of full rank."""
    try:
        root = np.linalg.cholesky((s @ u).T @ (s @ u))
    except np.linalg.LinAlgError:
        return np.inf
    half = np.linalg.solve(root, np.linalg.solve(root, v).T)
    return float(np.sum(s**2, axis=0).max() * np.trace(half))


def _round_rows(values: Floats) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Integers within one of the values, each row adding up to zero like the row it rounds.

    Rounding to nearest leaves a sum of at most l / 2; it is taken off the entries that were moved furthest that way.
    """
    rounded = np.floor(values + 0.5)
    excess = rounded.sum(axis=1).astype(np.int64)
    moved = rounded - values
    for row in np.flatnonzero(excess):
        sign = 1 if excess[row] > 0 else -1
        order = np.argsort(-sign * moved[row], kind="stable")[: abs(excess[row])]
        rounded[row, order] -= sign
    return rounded.astype(np.int64)


def _centre(gram: Floats) -> Floats:
    """P V P."""
    half = gram - gram.mean(axis=0, keepdims=True)
    return np.asarray(half - half.mean(axis=1, keepdims=True))


def _orthonormal(n: int) -> Floats:
    """An orthonormal basis of the space orthogonal to 1: the cosines of the discrete cosine transform, (n, n - 1)."""
    angles = np.pi * np.outer(2 * np.arange(n) + 1, np.arange(1, n)) / (2 * n)
    return np.asarray(np.cos(angles) * np.sqrt(2 / n))
