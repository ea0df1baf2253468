"""Compiled sums and small products of tables; `node_tables.py` and `contraction.py` say what they are for."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

Floats = np.ndarray[Any, np.dtype[np.float64]]


@njit(nogil=True, cache=True)
def sum_middle(x: Floats, out: Floats) -> None:
    """out[i, j] = sum_k x[i, k, j]."""
    for i in range(x.shape[0]):
        row = out[i]
        row[:] = x[i, 0]
        for k in range(1, x.shape[1]):
            own = x[i, k]
            for j in range(row.size):
                row[j] += own[j]


@njit(nogil=True, cache=True)
def small_products(left: Floats, right: Floats, out: Floats) -> None:
    """out[b] = left[b] @ right[b] for many small matrices."""
    for b in range(left.shape[0]):
        for i in range(left.shape[1]):
            row = out[b, i]
            row[:] = 0.0
            for k in range(left.shape[2]):
                factor, own = left[b, i, k], right[b, k]
                for j in range(row.size):
                    row[j] += factor * own[j]
