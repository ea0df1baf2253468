"""LevelsFactor: every level and their total, with two integer weights; never built, for attributes of any size.

M = [a I; b 1^T] has G = a^2 I + b^2 1 1^T and G^{-1} = (I - c 1 1^T) / a^2 with c = b^2 / (a^2 + l b^2).
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from hush.errors import WorkloadError
from hush.linops import Identity, LinearOperator, Total
from hush.strategies.factor import Factor, Floats, Integers


class LevelsFactor(Factor):
    """Level i weighs `levels`, the total weighs `total`; two are equal if sizes and weights are.

    >>> factor = LevelsFactor(3, levels=4, total=1)
    >>> factor.measure(np.array([5, 1, 0]), 0).tolist(), factor.largest_l1
    ([20, 4, 0, 6], 5)
    """

    def __init__(self, size: int, *, levels: int, total: int) -> None:
        if size < 1 or levels < 1 or total < 0 or max(levels, total) >= 2**30:
            raise WorkloadError(f"LevelsFactor({size}, levels={levels}, total={total}): expected positive integers")
        self._size, self.levels, self.total = size, levels, total

    @property
    def size(self) -> int:
        return self._size

    @property
    def rows(self) -> int:
        return self._size + 1

    @property
    def scale(self) -> int:
        return 1

    @property
    def largest_entry(self) -> int:
        return max(self.levels, self.total)

    @property
    def largest_l1(self) -> int:
        return self.levels + self.total

    @property
    def largest_l2_squared(self) -> int:
        return self.levels**2 + self.total**2

    @property
    def opposition(self) -> Fraction:
        return Fraction(0)

    @property
    def _shrink(self) -> float:
        return self.total**2 / (self.levels**2 + self._size * self.total**2)

    def measure(self, counts: Integers, axis: int) -> Integers:
        total = counts.sum(axis=axis, keepdims=True, dtype=np.int64) * np.int64(self.total)
        return np.concatenate([counts * np.int64(self.levels), total], axis=axis)

    def forward(self, counts: Floats, axis: int) -> Floats:
        return np.concatenate([counts * self.levels, counts.sum(axis=axis, keepdims=True) * self.total], axis=axis)

    def backward(self, answers: Floats, axis: int) -> Floats:
        own, total = np.split(answers, [self._size], axis=axis)
        return np.asarray(own * self.levels + total * self.total)

    def estimate(self, answers: Floats, axis: int) -> Floats:
        v = self.backward(answers, axis)
        return np.asarray((v - self._shrink * v.sum(axis=axis, keepdims=True)) / self.levels**2)

    def adjoint(self, coefficients: Floats, axis: int) -> Floats:
        sums = coefficients.sum(axis=axis, keepdims=True)
        v = (coefficients - self._shrink * sums) / self.levels**2
        return np.concatenate([v * self.levels, v.sum(axis=axis, keepdims=True) * self.total], axis=axis)

    def columns(self, start: int, stop: int) -> Floats:
        """Columns of the symmetric square root (I - t 1 1^T) / a of G^{-1}, and one of zeros."""
        t = (1 - math.sqrt(1 - self._shrink * self._size)) / self._size
        part = np.full((self._size, stop - start), -t / self.levels)
        inside = np.arange(start, min(stop, self._size))
        part[inside, inside - start] += 1 / self.levels
        part[:, self._size - start :] = 0.0
        return part

    @property
    def inverse_gram(self) -> Floats:
        return np.asarray((np.eye(self._size) - self._shrink) / self.levels**2)

    def query_variances(self, block: LinearOperator) -> Floats:
        self._require(block)
        if isinstance(block, Identity):
            return np.full(self._size, (1 - self._shrink) / self.levels**2)
        if isinstance(block, Total):
            return np.array([self._size * (1 - self._shrink * self._size) / self.levels**2])
        return super().query_variances(block)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LevelsFactor) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[int, int, int]:
        return self._size, self.levels, self.total

    def __repr__(self) -> str:
        return f"LevelsFactor({self._size}, levels={self.levels}, total={self.total})"
