"""along: a matrix applied along one axis of a tensor, in floats or in exact 64-bit integers, a piece at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

PIECE_CELLS = 1 << 20
_EXACT_BITS = 53  # integers up to 2^53 are exact as floats

Values = np.ndarray[Any, Any]
Step = Callable[[Values, int], Values]


def along(matrix: Values, values: Values, axis: int) -> Values:
    """The tensor with `matrix @` applied along one axis; integers give integers, exact modulo 2^64.

    Memory: the result and a few pieces of `PIECE_CELLS` cells beside the arguments. Integers go through floating-point
    products in limbs so short that every sum is exact: with |M| < 2^m and n columns, limbs have 53 - m - log2(n) bits.

    >>> along(np.array([[1, 1], [1, -1]]), np.array([[2**62, 1], [5, 7]]), 0).tolist()
    [[4611686018427387909, 8], [4611686018427387899, -6]]
    """
    k, n = matrix.shape
    shape = values.shape
    before, after = int(np.prod(shape[:axis], dtype=np.int64)), int(np.prod(shape[axis + 1 :], dtype=np.int64))
    source = np.ascontiguousarray(values).reshape(before, n, after)
    whole = np.issubdtype(matrix.dtype, np.integer) and np.issubdtype(values.dtype, np.integer)
    out = np.empty((before, k, after), dtype=np.int64 if whole else np.float64)
    product = _Limbs(matrix) if whole else matrix.__matmul__
    for rows, columns in _pieces(before, max(k, n), after):
        piece = source[rows, :, columns]
        count, width = piece.shape[0], piece.shape[2]
        flat = piece[0] if count == 1 else piece.transpose(1, 0, 2).reshape(n, -1)
        out[rows, :, columns] = product(flat).reshape(k, count, width).transpose(1, 0, 2)
    return out.reshape((*shape[:axis], k, *shape[axis + 1 :]))


def along_all(steps: Sequence[Step], values: Values, rows: Sequence[int], dtype: Any) -> Values:
    """The tensor with `steps[axis](tensor, axis)` applied along every axis, whose size becomes `rows[axis]`.

    Large tensors are taken in slabs of the first axis, through all other axes at once, into the result; the first axis
    is then applied in place, column by column. Memory: the result and a few pieces beside the argument.

    >>> along_all([lambda t, axis: t.cumsum(axis=axis)] * 2, np.ones((2, 3)), (2, 3), np.float64).tolist()
    [[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]]
    """
    n = values.shape[0] if values.ndim else 1
    if values.ndim < 2 or values.size <= 4 * PIECE_CELLS:
        for axis, step in enumerate(steps):
            values = step(values, axis)
        return np.asarray(values)
    out = np.empty((max(n, rows[0]), *rows[1:]), dtype=dtype)
    slab = max(1, 4 * PIECE_CELLS * n // values.size)
    for start in range(0, n, slab):
        stop = min(start + slab, n)
        piece = values[start:stop]
        for axis in range(1, values.ndim):
            piece = steps[axis](piece, axis)
        out[start:stop] = piece
    flat = out.reshape(len(out), -1)
    width = max(1, 4 * PIECE_CELLS // len(out))
    for start in range(0, flat.shape[1], width):
        flat[: rows[0], start : start + width] = steps[0](np.array(flat[:n, start : start + width]), 0)
    return out[: rows[0]]


class _Limbs:
    """Exact products of one integer matrix with integer columns, modulo 2^64."""

    def __init__(self, matrix: Values) -> None:
        largest = max(int(matrix.max()), -int(matrix.min())) if matrix.size else 0
        self._matrix = matrix.astype(np.float64)
        self._bits = _EXACT_BITS - largest.bit_length() - matrix.shape[1].bit_length()
        self._whole = matrix.astype(np.int64)

    def __call__(self, columns: Values) -> Values:
        columns = columns.astype(np.int64, copy=False)
        if self._bits < 8:
            return np.asarray(self._whole @ columns)
        largest = max(int(columns.max()), -int(columns.min())) if columns.size else 0
        total = np.zeros((len(self._matrix), columns.shape[1]), dtype=np.int64)
        shift = 0
        while True:
            last = largest >> shift < 1 << self._bits
            limb = columns >> shift if last else (columns >> shift) & ((1 << self._bits) - 1)
            total += (self._matrix @ limb.astype(np.float64)).astype(np.int64) << shift
            if last:
                return total
            shift += self._bits


def _pieces(before: int, levels: int, after: int) -> Iterator[tuple[slice, slice]]:
    """Slices of the outer axes such that each piece has about `PIECE_CELLS` cells."""
    width = min(after, max(1, PIECE_CELLS // levels))
    count = max(1, PIECE_CELLS // (levels * width)) if width == after else 1
    for i in range(0, before, count):
        for j in range(0, after, width):
            yield slice(i, min(i + count, before)), slice(j, min(j + width, after))
