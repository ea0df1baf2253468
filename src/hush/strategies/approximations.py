"""Strategies for Laplace noise borrowed from the Gaussian problem, where exact selection is not convex.

Both are within a factor n of the best, since |u|_2 <= |u|_1 <= sqrt(n) |u|_2.

Reference: [Li 2013, chapter 3].
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hush.linops import Dense, LinearOperator
from hush.solution import Solution
from hush.strategies.optimum import gram_factor, optimal_gram

Floats = np.ndarray[Any, np.dtype[np.float64]]


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
    found = optimal_gram(gram_factor(gram), tolerance=tolerance, iterations=iterations)
    e, q = np.linalg.eigh(found.value.gram)
    scaled = np.sqrt(np.maximum(e, 0))[:, None] * q.T
    roots = [found.value.strategy, Dense(q @ scaled), Dense(scaled)]
    best = min(roots, key=lambda root: root.sensitivity(1))
    return Solution(value=best, status=found.status, stats=found.stats)


def singular_value_approximation(gram: Floats) -> LinearOperator:  # (n, n), W^T W
    """A = diag(xi^{1/2}) P^T for a workload of singular values xi and right singular vectors P; (rank, n).

    It minimises |A|_F^2 |W A^+|_F^2, and among its rotations this one has |A|_F as its bound on the L1 sensitivity's
    covering ball.

    Reference: [Li 2013, chapter 3], the singular value bound approximation.
    """
    factor = gram_factor(gram)
    return Dense((factor / np.sqrt(np.linalg.norm(factor, axis=0))).T)
