"""The largest eigenvalue of Q^T Q: how steep a squared misfit can be."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hush.graphical.reordered import Reordered
from hush.linops import Identity, Kronecker, LinearOperator, Scaled, Total

Array = np.ndarray[Any, np.dtype[np.float64]]

MOST_DENSE = 512
MARGIN = 1.01
_STEPS = 300
_SEED = 0  # of a public start vector; no noise


def largest_eigenvalue(query: LinearOperator) -> float:
    """lambda_max(Q^T Q): exact for products of small blocks, otherwise by power iteration and never below it in use.

    The iterate's Rayleigh quotient plus the norm of its residual bounds the nearest eigenvalue; a margin of 1 % covers
    a start vector that happens to be poor.

    >>> from hush.linops import Prefix
    >>> round(largest_eigenvalue(Kronecker([Prefix(2), Total(3)])), 3)
    7.854
    """
    if isinstance(query, Identity):
        return 1.0
    if isinstance(query, Total):
        return float(query.shape[1])
    if isinstance(query, Scaled):
        return query.factor**2 * largest_eigenvalue(query.operator)
    if isinstance(query, Reordered):
        return largest_eigenvalue(query.operator)
    if isinstance(query, Kronecker):
        return math.prod(largest_eigenvalue(factor) for factor in query.factors)
    if query.shape[1] <= MOST_DENSE:
        return float(np.linalg.eigvalsh(query.gram_dense())[-1])
    return _by_iteration(query)


def _by_iteration(query: LinearOperator) -> float:
    n = query.shape[1]
    adjoint = query.transpose()
    v = np.random.Generator(np.random.PCG64(_SEED)).standard_normal((n, 1))
    v += np.sign(v.sum()) * n**-0.5  # most queries add cells up, and then constants have much of the largest vector
    found = 0.0
    for _ in range(_STEPS):
        v /= np.linalg.norm(v)
        moved = adjoint.matmat(query.matmat(v))
        found = float(v[:, 0] @ moved[:, 0])
        residual = float(np.linalg.norm(moved - found * v))
        if residual <= 1e-3 * found:
            break
        v = moved
    return MARGIN * (found + residual)
