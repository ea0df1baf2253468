"""Apply an integer matrix exactly along one axis of a tensor, or a function along every axis, slab by slab."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hush.core import arrays
from hush.core.arrays import Floats, Numbers

_EXACT_BITS = 53  # integers up to 2^53 are exact as floats

Step = Callable[[Numbers, int], Numbers]


def along(matrix: Numbers, values: Numbers, axis: int) -> Numbers:
    """The tensor with `matrix @` applied along one axis; integers give integers, exact modulo 2^64.

    Integers are cut into limbs so short that floating-point products of them are exact: with |M| < 2^m and n columns,
    limbs have 53 - m - log2(n) bits.

    >>> along(np.array([[1, 1], [1, -1]]), np.array([[2**62, 1], [5, 7]]), 0).tolist()
    [[4611686018427387909, 8], [4611686018427387899, -6]]
    """
    dense = isinstance(matrix, np.ndarray)  # products of sparse integers are exact without limbs, and fast
    whole = dense and np.issubdtype(matrix.dtype, np.integer) and np.issubdtype(values.dtype, np.integer)
    return arrays.apply_along(_ExactMatrix(matrix) if whole else _FloatMatrix(matrix), values, axis)


def along_all(steps: Sequence[Step], values: Numbers, rows: Sequence[int], dtype: Any) -> Numbers:
    """The tensor with `steps[axis](tensor, axis)` applied along every axis, whose size becomes `rows[axis]`.

    A large tensor is cut into slabs along its first axis. Each slab goes through the steps of all other axes; then the
    step along the first axis works in place, a few columns at a time. Memory: the result and a few slabs.

    >>> along_all([lambda t, axis: t.cumsum(axis=axis)] * 2, np.ones((2, 3)), (2, 3), np.float64).tolist()
    [[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]]
    """
    n = values.shape[0] if values.ndim else 1
    if values.ndim < 2 or values.size <= 16 * arrays.BLOCK_CELLS:
        for axis, step in enumerate(steps):
            values = step(values, axis)
        return np.asarray(values)
    out = np.empty((max(n, rows[0]), *rows[1:]), dtype=dtype)
    slab = max(1, 16 * arrays.BLOCK_CELLS * n // values.size)
    for start in range(0, n, slab):
        stop = min(start + slab, n)
        piece = values[start:stop]
        for axis in range(1, values.ndim):
            piece = steps[axis](piece, axis)
        out[start:stop] = piece
    flat = out.reshape(len(out), -1)
    width = max(1, 16 * arrays.BLOCK_CELLS // len(out))
    for start in range(0, flat.shape[1], width):
        flat[: rows[0], start : start + width] = steps[0](np.array(flat[:n, start : start + width]), 0)
    return out[: rows[0]]


class _FloatMatrix:
    """Products of one matrix with columns of floats."""

    def __init__(self, matrix: Numbers) -> None:
        self._matrix = matrix
        self.shape: tuple[int, int] = matrix.shape

    def matmat(self, columns: Numbers) -> Floats:
        return np.asarray(self._matrix @ columns)


class _ExactMatrix(_FloatMatrix):
    """Exact products of one integer matrix with integer columns, modulo 2^64."""

    def __init__(self, matrix: Numbers) -> None:
        super().__init__(matrix.astype(np.float64))
        largest = max(int(matrix.max()), -int(matrix.min())) if matrix.size else 0
        self._bits = _EXACT_BITS - largest.bit_length() - matrix.shape[1].bit_length()
        self._whole = matrix.astype(np.int64, copy=False)

    def matmat(self, columns: Numbers) -> Numbers:
        columns = columns.astype(np.int64, copy=False)
        if self._bits < 8:
            return np.asarray(self._whole @ columns)
        largest = max(int(columns.max()), -int(columns.min())) if columns.size else 0
        total = np.zeros((self.shape[0], columns.shape[1]), dtype=np.int64)
        shift = 0
        while True:
            last = largest >> shift < 1 << self._bits
            limb = columns >> shift if last else (columns >> shift) & ((1 << self._bits) - 1)
            total += (self._matrix @ limb.astype(np.float64)).astype(np.int64) << shift
            if last:
                return total
            shift += self._bits
