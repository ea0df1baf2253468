"""Query blocks on one attribute of n levels: identity, total, prefix sums, ranges, and any explicit matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hush.errors import WorkloadError
from hush.linops.operator import Array, LinearOperator


@dataclass(frozen=True, slots=True)
class _Sized(LinearOperator):
    size: int

    def __post_init__(self) -> None:
        if self.size < 1:
            raise WorkloadError(f"{type(self).__name__}({self.size}): expected at least one level")

    def transpose(self) -> LinearOperator:
        return Dense(self.dense().T)


@dataclass(frozen=True, slots=True)
class Identity(_Sized):
    """Every level by itself: I."""

    @property
    def shape(self) -> tuple[int, int]:
        return self.size, self.size

    def matmat(self, x: Array) -> Array:
        return x

    def transpose(self) -> LinearOperator:
        return self

    def gram_dense(self) -> Array:
        return np.eye(self.size)


@dataclass(frozen=True, slots=True)
class Total(_Sized):
    """All levels together: 1^T."""

    @property
    def shape(self) -> tuple[int, int]:
        return 1, self.size

    def matmat(self, x: Array) -> Array:
        return np.asarray(x.sum(axis=0, keepdims=True))

    def gram_dense(self) -> Array:
        return np.ones((self.size, self.size))


@dataclass(frozen=True, slots=True)
class Prefix(_Sized):
    """Levels 0 .. i together, for every i: the lower triangle of ones."""

    @property
    def shape(self) -> tuple[int, int]:
        return self.size, self.size

    def matmat(self, x: Array) -> Array:
        return np.asarray(np.cumsum(x, axis=0))

    def gram_dense(self) -> Array:
        i = np.arange(self.size)
        return np.asarray(self.size - np.maximum.outer(i, i), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class AllRange(_Sized):
    """Levels i .. j together, for every i <= j: n(n+1)/2 rows, ordered by i, then j."""

    @property
    def shape(self) -> tuple[int, int]:
        return self.size * (self.size + 1) // 2, self.size

    def matmat(self, x: Array) -> Array:
        sums = np.concatenate([np.zeros((1, x.shape[1])), np.cumsum(x, axis=0)])
        start, stop = np.triu_indices(self.size)
        return np.asarray(sums[stop + 1] - sums[start])

    def gram_dense(self) -> Array:
        i = np.arange(self.size)
        return np.asarray((np.minimum.outer(i, i) + 1) * (self.size - np.maximum.outer(i, i)), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class WidthRange(_Sized):
    """Every run of `width` neighbouring levels: n - width + 1 rows."""

    width: int

    def __post_init__(self) -> None:
        if not 1 <= self.width <= self.size:
            raise WorkloadError(f"width={self.width}: expected 1 .. {self.size}, the levels of the attribute")

    @property
    def shape(self) -> tuple[int, int]:
        return self.size - self.width + 1, self.size

    def matmat(self, x: Array) -> Array:
        sums = np.concatenate([np.zeros((1, x.shape[1])), np.cumsum(x, axis=0)])
        return np.asarray(sums[self.width :] - sums[: -self.width])


class Dense(LinearOperator):
    """An explicit matrix; compares by its entries."""

    __slots__ = ("_matrix",)

    def __init__(self, matrix: Any) -> None:
        entries = np.array(matrix, dtype=np.float64)
        if entries.ndim != 2 or not entries.size or not np.isfinite(entries).all():
            raise WorkloadError("a query matrix must be a non-empty two-dimensional array of finite numbers")
        entries.setflags(write=False)
        self._matrix = entries

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self._matrix.shape
        return rows, columns

    def matmat(self, x: Array) -> Array:
        return np.asarray(self._matrix @ x)

    def transpose(self) -> LinearOperator:
        return Dense(self._matrix.T)

    def dense(self) -> Array:
        return self._matrix

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dense) and np.array_equal(self._matrix, other._matrix)

    def __hash__(self) -> int:
        return hash((self.shape, self._matrix.tobytes()))

    def __repr__(self) -> str:
        return f"Dense({self.shape[0]} x {self.shape[1]})"
