"""Column completion: measure more of the cells that a strategy's sensitivity leaves room for, at no cost.

A strategy's noise depends on its largest column norm Delta alone. Rows added where a column is shorter cost nothing,
and no answer gets worse: (A^T A + B^T B)^+ is below (A^T A)^+ for every query that A supports.

Reference: [Li 2013, chapter 3, augmentation; Program 5.1.2, step 4].
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hush.errors import WorkloadError
from hush.linops import Diagonal, LinearOperator, Stack
from hush.strategies.noise_kind import NoiseKind

Floats = np.ndarray[Any, np.dtype[np.float64]]


def missing_norms(strategy: LinearOperator, noise: NoiseKind) -> Floats:
    """How long a row on each cell alone may be: sqrt(Delta_2^2 - |a_j|_2^2), or Delta_1 - |a_j|_1; (n,)."""
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

    Where one of them touches a cell whose column is full already, there is no room and the strategy stays as it is.
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
