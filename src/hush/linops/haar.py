"""Haar: the wavelet strategy."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hush.core.arrays import Floats
from hush.core.errors import WorkloadError
from hush.linops.blocks import Diagonal
from hush.linops.operator import EqualColumns, LinearOperator, Transposed, check_norm


@dataclass(frozen=True, slots=True)
class Haar(EqualColumns):
    """The total, then for each inner node of the binary tree its left half minus its right half, from the root down.

    n orthogonal rows; every column has log2(n) + 1 entries of +1 or -1. O(n) per column, both ways.

    Reference: [Li 2013, Sec. 3.3]; Y_n.

    >>> Haar(4).dense().astype(int).tolist()
    [[1, 1, 1, 1], [1, 1, -1, -1], [1, -1, 0, 0], [0, 0, 1, -1]]
    """

    size: int

    def __post_init__(self) -> None:
        if self.size < 1 or self.size & (self.size - 1):
            raise WorkloadError(f"Haar({self.size}): expected a power of two; use Tree for any number of levels")

    @property
    def shape(self) -> tuple[int, int]:
        return self.size, self.size

    def matmat(self, x: Floats) -> Floats:
        answers = np.empty((self.size, x.shape[1]))
        sums = x
        while len(sums) > 1:
            half = len(sums) // 2
            np.subtract(sums[0::2], sums[1::2], out=answers[half : 2 * half])
            sums = sums[0::2] + sums[1::2]
        answers[0] = sums[0]
        return answers

    def adjoint(self, y: Floats) -> Floats:
        levels = np.array(y[:1], dtype=np.float64)
        while len(levels) < self.size:
            details = y[len(levels) : 2 * len(levels)]
            levels = np.stack([levels + details, levels - details], axis=1).reshape(-1, y.shape[1])
        return levels

    def pinv(self) -> LinearOperator:
        """A^T diag(1 / |row|^2): the rows are orthogonal."""
        depth = np.frexp(np.maximum(np.arange(self.size), 1))[1] - 1
        return Transposed(self) @ Diagonal(np.ldexp(1.0, depth) / self.size)

    def sensitivity(self, p: int) -> float:
        check_norm(p)
        levels = float(self.size.bit_length())
        return levels if p == 1 else math.sqrt(levels)
