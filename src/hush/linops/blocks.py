"""Query blocks on one attribute: identity, total, prefix sums, ranges, their inverses, and weighted levels."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from hush.core.arrays import Floats, Numbers
from hush.core.errors import WorkloadError
from hush.linops.combination import Scaled
from hush.linops.operator import LinearOperator, Transposed, check_fits, check_norm


@dataclass(frozen=True, slots=True)
class _Sized(LinearOperator):
    size: int

    def __post_init__(self) -> None:
        if self.size < 1:
            raise WorkloadError(f"{type(self).__name__}({self.size}): expected at least one level")

    def _counts(self) -> Floats | None:
        """How many queries hold each level, where every entry is 0 or 1."""
        return None

    def column_norms(self, p: int) -> Floats:
        check_norm(p)
        counts = self._counts()
        if counts is None:
            return LinearOperator.column_norms(self, p)
        return counts if p == 1 else np.sqrt(counts)


@dataclass(frozen=True, slots=True)
class _Square(_Sized):
    @property
    def shape(self) -> tuple[int, int]:
        return self.size, self.size


@dataclass(frozen=True, slots=True)
class Identity(_Square):
    """Every level by itself: I."""

    def matmat(self, x: Floats) -> Floats:
        return x

    def along(self, values: Numbers, axis: int) -> Numbers:
        return values

    def transpose(self) -> LinearOperator:
        return self

    def times(self, other: LinearOperator) -> LinearOperator:
        if self.size != other.shape[0]:
            raise WorkloadError(f"a product of shapes {self.shape} and {other.shape}: the inner sizes differ")
        return other

    def gram(self) -> LinearOperator:
        return self

    def gram_dense(self) -> Floats:
        check_fits(self.shape, "use gram(), which stays implicit")
        return np.eye(self.size)

    def pinv(self) -> LinearOperator:
        return self

    def trace(self) -> float:
        return float(self.size)

    def _counts(self) -> Floats:
        return np.ones(self.size)


@dataclass(frozen=True, slots=True)
class Total(_Sized):
    """All levels together: 1^T."""

    @property
    def shape(self) -> tuple[int, int]:
        return 1, self.size

    def matmat(self, x: Floats) -> Floats:
        return np.asarray(x.sum(axis=0, keepdims=True))

    def adjoint(self, y: Floats) -> Floats:
        return np.repeat(y, self.size, axis=0)

    def gram_dense(self) -> Floats:
        check_fits((self.size, self.size), "use gram(), which stays implicit")
        return np.ones((self.size, self.size))

    def pinv(self) -> LinearOperator:
        return Scaled(Transposed(self), 1 / self.size)

    def _counts(self) -> Floats:
        return np.ones(self.size)


@dataclass(frozen=True, slots=True)
class Prefix(_Square):
    """Levels 0 .. i together, for every i: the lower triangle of ones."""

    def matmat(self, x: Floats) -> Floats:
        return np.asarray(np.cumsum(x, axis=0))

    def adjoint(self, y: Floats) -> Floats:
        return np.asarray(np.cumsum(y[::-1], axis=0)[::-1])

    def gram_dense(self) -> Floats:
        check_fits(self.shape, "use gram(), which stays implicit")
        i = np.arange(self.size, dtype=np.float64)
        return np.asarray(self.size - np.maximum.outer(i, i))

    def pinv(self) -> LinearOperator:
        return Differences(self.size)

    def trace(self) -> float:
        return float(self.size)

    def _counts(self) -> Floats:
        return np.arange(self.size, 0, -1, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class AllRange(_Sized):
    """Levels i .. j together, for every i <= j: n(n+1)/2 rows, ordered by i, then j."""

    @property
    def shape(self) -> tuple[int, int]:
        return self.size * (self.size + 1) // 2, self.size

    def matmat(self, x: Floats) -> Floats:
        sums = _sums_before(x)
        answers = np.empty((self.shape[0], x.shape[1]))
        for i, rows in self._starts():
            np.subtract(sums[i + 1 :], sums[i], out=answers[rows])
        return answers

    def adjoint(self, y: Floats) -> Floats:
        steps = np.zeros((self.size + 1, y.shape[1]))
        for i, rows in self._starts():
            steps[i] += y[rows].sum(axis=0)
            steps[i + 1 :] -= y[rows]
        return np.asarray(np.cumsum(steps[:-1], axis=0))

    def gram_dense(self) -> Floats:
        check_fits((self.size, self.size), "use gram(), which stays implicit")
        i = np.arange(self.size, dtype=np.float64)
        return np.asarray((np.minimum.outer(i, i) + 1) * (self.size - np.maximum.outer(i, i)))

    def pinv(self) -> LinearOperator:
        """(A^T A)^-1 A^T, with the Gram matrix the inverse of second differences, times n + 1."""
        return Scaled(SecondDifferences(self.size), 1 / (self.size + 1)) @ Transposed(self)

    def _counts(self) -> Floats:
        i = np.arange(self.size, dtype=np.float64)
        return (i + 1) * (self.size - i)

    def _starts(self) -> list[tuple[int, slice]]:
        """Every first level, with the rows of its ranges."""
        i = np.arange(self.size + 1)
        ends = (i * self.size - i * (i - 1) // 2).tolist()
        return [(j, slice(start, stop)) for j, (start, stop) in enumerate(pairwise(ends))]


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

    def matmat(self, x: Floats) -> Floats:
        sums = _sums_before(x)
        return np.asarray(sums[self.width :] - sums[: -self.width])

    def adjoint(self, y: Floats) -> Floats:
        steps = np.zeros((self.size + 1, y.shape[1]))
        steps[: self.shape[0]] += y
        steps[self.width :] -= y
        return np.asarray(np.cumsum(steps[:-1], axis=0))

    def gram_dense(self) -> Floats:
        """Runs that hold both i and j start within max(0, max(i, j) - width + 1) .. min(i, j, n - width)."""
        check_fits((self.size, self.size), "use gram(), which stays implicit")
        i = np.arange(self.size, dtype=np.float64)
        first = np.maximum(np.maximum.outer(i, i) - self.width + 1, 0)
        last = np.minimum(np.minimum.outer(i, i), self.size - self.width)
        return np.asarray(np.maximum(last - first + 1, 0))

    def _counts(self) -> Floats:
        i = np.arange(self.size, dtype=np.float64)
        return np.minimum(i, self.size - self.width) - np.maximum(i - self.width + 1, 0) + 1


def _sums_before(x: Floats) -> Floats:
    """Sums of the first 0 .. n levels, (n + 1, k)."""
    return np.concatenate([np.zeros((1, x.shape[1])), np.cumsum(x, axis=0)])


@dataclass(frozen=True, slots=True)
class Differences(_Square):
    """x_0, x_1 - x_0, x_2 - x_1, ...: the inverse of prefix sums.

    >>> Differences(3) @ np.array([1.0, 3.0, 6.0])
    array([1., 2., 3.])
    """

    def matmat(self, x: Floats) -> Floats:
        return np.diff(x, axis=0, prepend=0.0)

    def adjoint(self, y: Floats) -> Floats:
        return -np.diff(y, axis=0, append=0.0)

    def pinv(self) -> LinearOperator:
        return Prefix(self.size)

    def trace(self) -> float:
        return float(self.size)


@dataclass(frozen=True, slots=True)
class SecondDifferences(_Square):
    """2 x_i - x_{i-1} - x_{i+1} with zeros beyond the ends.

    Symmetric; with levels counted from 1, its inverse is min(i, j) (n + 1 - max(i, j)) / (n + 1).
    """

    def matmat(self, x: Floats) -> Floats:
        return -np.diff(x, n=2, axis=0, prepend=0.0, append=0.0)

    def transpose(self) -> LinearOperator:
        return self

    def trace(self) -> float:
        return 2.0 * self.size


class Diagonal(LinearOperator):
    """diag(values); compares by its values.

    >>> Diagonal([2.0, 0.0]).pinv().dense().tolist()
    [[0.5, 0.0], [0.0, 0.0]]
    """

    __slots__ = ("values",)

    def __init__(self, values: Any) -> None:
        entries = np.array(values, dtype=np.float64)
        if entries.ndim != 1 or not entries.size or not np.isfinite(entries).all():
            raise WorkloadError("a diagonal must be a non-empty list of finite numbers")
        entries.setflags(write=False)
        self.values = entries

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.values), len(self.values)

    def matmat(self, x: Floats) -> Floats:
        return np.asarray(self.values[:, None] * x)

    def transpose(self) -> LinearOperator:
        return self

    def gram(self) -> LinearOperator:
        return Diagonal(self.values**2)

    def pinv(self) -> LinearOperator:
        return Diagonal(np.divide(1.0, self.values, out=np.zeros_like(self.values), where=self.values != 0))

    def column_norms(self, p: int) -> Floats:
        check_norm(p)
        return np.abs(self.values)

    def trace(self) -> float:
        return float(self.values.sum())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Diagonal) and np.array_equal(self.values, other.values)

    def __hash__(self) -> int:
        return hash((Diagonal, self.values.tobytes()))

    def __repr__(self) -> str:
        return f"Diagonal({len(self.values)})"
