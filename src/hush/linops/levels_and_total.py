"""Matrices on one attribute that treat all its levels alike: [a I; b 1^T] and alpha I + beta 1 1^T, at any size.

Both take tensors with any number of axes after the first, and whole numbers give whole numbers where the weights are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hush.core.arrays import Floats, Numbers
from hush.core.errors import WorkloadError
from hush.linops.operator import EqualColumns, LinearOperator, Transposed, check_fits, check_norm


class _Alike(EqualColumns):
    """An operator whose columns are one column with its levels permuted."""

    __slots__ = ()

    def along(self, values: Numbers, axis: int) -> Numbers:
        return self.matmat(values.swapaxes(0, axis)).swapaxes(0, axis)


@dataclass(frozen=True, slots=True)
class LevelsAndTotal(_Alike):
    """Every level times a, and the total times b: [a I; b 1^T], with Gram matrix a^2 I + b^2 1 1^T.

    >>> LevelsAndTotal(2, levels=1.0, total=-3.0).dense().tolist()
    [[1.0, 0.0], [0.0, 1.0], [-3.0, -3.0]]
    """

    size: int
    levels: float = 1.0
    total: float = 1.0

    def __post_init__(self) -> None:
        if self.size < 1 or not math.isfinite(self.levels) or not math.isfinite(self.total):
            raise WorkloadError(
                f"LevelsAndTotal({self.size}, {self.levels}, {self.total}): "
                "expected at least one level and finite weights"
            )

    @property
    def shape(self) -> tuple[int, int]:
        return self.size + 1, self.size

    def matmat(self, x: Numbers) -> Numbers:
        return np.concatenate([self.levels * x, self.total * x.sum(axis=0, keepdims=True)])

    def adjoint(self, y: Floats) -> Floats:
        return np.asarray(self.levels * y[:-1] + self.total * y[-1])

    def gram(self) -> CompoundSymmetric:
        return CompoundSymmetric(self.size, self.levels**2, self.total**2)

    def gram_dense(self) -> Floats:
        return self.gram().dense()

    def pinv(self) -> LinearOperator:
        return self.gram().pinv() @ Transposed(self)

    def sensitivity(self, p: int) -> float:
        check_norm(p)
        return abs(self.levels) + abs(self.total) if p == 1 else math.hypot(self.levels, self.total)


@dataclass(frozen=True, slots=True)
class CompoundSymmetric(_Alike):
    """alpha I + beta 1 1^T: the eigenvalue alpha + n beta on 1, and alpha on everything that adds up to zero.

    >>> CompoundSymmetric(2, 2, -1).dense().tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """

    size: int
    alpha: float
    beta: float

    @property
    def shape(self) -> tuple[int, int]:
        return self.size, self.size

    @property
    def top(self) -> float:
        """alpha + n beta, zero where it is zero up to rounding."""
        value = self.alpha + self.size * self.beta
        limit = 4 * np.finfo(np.float64).eps * (abs(self.alpha) + self.size * abs(self.beta))
        return value if abs(value) > limit else 0

    def matmat(self, x: Numbers) -> Numbers:
        sums = x.sum(axis=0, keepdims=True)
        return np.asarray(self.alpha * x - sums if self.beta == -1 else self.alpha * x + self.beta * sums)

    def transpose(self) -> LinearOperator:
        return self

    def dense(self) -> Floats:
        check_fits(self.shape, "keep it implicit: every other member needs its two numbers alone")
        entries = np.full(self.shape, float(self.beta))
        np.fill_diagonal(entries, self.alpha + self.beta)
        return entries

    def gram(self) -> CompoundSymmetric:
        return CompoundSymmetric(self.size, self.alpha**2, 2 * self.alpha * self.beta + self.size * self.beta**2)

    def gram_dense(self) -> Floats:
        return self.gram().dense()

    def pinv(self) -> CompoundSymmetric:
        low, high = (1 / value if value else 0.0 for value in (self.alpha, self.top))
        beta = -self.beta * low * high if low and high else (high - low) / self.size
        return CompoundSymmetric(self.size, low, beta)

    def sensitivity(self, p: int) -> float:
        check_norm(p)
        diagonal, others = abs(self.alpha + self.beta), abs(self.beta)
        if p == 1:
            return diagonal + (self.size - 1) * others
        return math.hypot(diagonal, math.sqrt(self.size - 1) * others)

    def trace(self) -> float:
        return float(self.size * (self.alpha + self.beta))
