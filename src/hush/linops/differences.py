"""Differences of neighbouring levels: the inverses of prefix sums and of all ranges."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hush.errors import WorkloadError
from hush.linops.combination import Transposed
from hush.linops.operator import Array, LinearOperator


@dataclass(frozen=True, slots=True)
class Differences(LinearOperator):
    """x_0, x_1 - x_0, x_2 - x_1, ...: the inverse of prefix sums.

    >>> Differences(3) @ np.array([1.0, 3.0, 6.0])
    array([1., 2., 3.])
    """

    size: int

    def __post_init__(self) -> None:
        _check_size(self.size)

    @property
    def shape(self) -> tuple[int, int]:
        return self.size, self.size

    def matmat(self, x: Array) -> Array:
        return np.diff(x, axis=0, prepend=0.0)

    def transpose(self) -> LinearOperator:
        return Transposed(self)

    def adjoint(self, y: Array) -> Array:
        return -np.diff(y, axis=0, append=0.0)

    def pinv(self) -> LinearOperator:
        from hush.linops.blocks import Prefix

        return Prefix(self.size)

    def trace(self) -> float:
        return float(self.size)


@dataclass(frozen=True, slots=True)
class SecondDifferences(LinearOperator):
    """2 x_i - x_{i-1} - x_{i+1} with zeros beyond the ends.

    Symmetric; with levels counted from 1, its inverse is min(i, j) (n + 1 - max(i, j)) / (n + 1).
    """

    size: int

    def __post_init__(self) -> None:
        _check_size(self.size)

    @property
    def shape(self) -> tuple[int, int]:
        return self.size, self.size

    def matmat(self, x: Array) -> Array:
        return -np.diff(x, n=2, axis=0, prepend=0.0, append=0.0)

    def transpose(self) -> LinearOperator:
        return self

    def trace(self) -> float:
        return 2.0 * self.size


def _check_size(size: int) -> None:
    if size < 1:
        raise WorkloadError(f"size={size}: expected at least one level")
