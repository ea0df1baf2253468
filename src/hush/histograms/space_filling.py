"""The Hilbert curve: cells of a grid in an order in which neighbours in line are neighbours in the grid."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from hush.core.arrays import Integers
from hush.core.errors import DomainError


@lru_cache(maxsize=8)
def hilbert_order(rows: int, columns: int) -> Integers:
    """Flat indices of the cells of a grid along a Hilbert curve over the least square of side 2^k that holds it.

    In such a square every run of 4^j cells that starts at a multiple of 4^j is a square too. Consecutive cells of the
    square share a side; a smaller grid leaves out what is outside of it. O(cells of the square).

    Reference: [Li 2013, Sec. 6.6]; the bitwise construction of [Warren 2013, Sec. 16].

    >>> hilbert_order(2, 2).tolist()
    [0, 1, 3, 2]
    """
    if rows < 1 or columns < 1:
        raise DomainError(f"a grid of {rows} x {columns} cells: expected at least one each way")
    bits = (max(rows, columns) - 1).bit_length()
    steps = np.arange(4**bits, dtype=np.int64)
    x, y = np.zeros_like(steps), np.zeros_like(steps)
    for k in range(bits):
        right = (steps >> 1) & 1
        up = (steps & 1) ^ right
        size = 1 << k
        flipped = (up == 0) & (right == 1)
        x, y = np.where(flipped, size - 1 - x, x), np.where(flipped, size - 1 - y, y)
        x, y = np.where(up == 0, y, x), np.where(up == 0, x, y)
        x, y = x + size * right, y + size * up
        steps >>= 2
    inside = (x < rows) & (y < columns)
    order = x[inside] * columns + y[inside]
    order.setflags(write=False)
    return order
