"""Query blocks on one attribute: identity, total, prefix sums, ranges, sums of merged levels, and their inverses.

`LevelsAndTotal`, [a I; b 1^T], and `CompoundSymmetric`, alpha I + beta 1 1^T, treat all levels alike. They take arrays
with any number of axes after the first; whole numbers stay whole if the weights are.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from hush.core.arrays import Floats, Integers, Numbers, merged_along
from hush.core.errors import WorkloadError
from hush.core.validation import check_whole
from hush.linops.combination import Scaled
from hush.linops.explicit import Diagonal
from hush.linops.operator import (
    ComparedByValue,
    EqualColumns,
    LinearOperator,
    Symmetric,
    Transposed,
    check_fits,
    check_norm,
)


@dataclass(frozen=True, slots=True)
class _Sized(LinearOperator):
    """Queries on an attribute of `size` levels."""

    size: int

    def __post_init__(self) -> None:
        check_whole(WorkloadError, f"{type(self).__name__}: size", self.size, least=1)


@dataclass(frozen=True, slots=True)
class _Square(_Sized):
    """As many queries as levels; all but one class have ones on the diagonal."""

    @property
    def shape(self) -> tuple[int, int]:
        return self.size, self.size

    def trace(self) -> float:
        return float(self.size)


class _Counts(_Sized):
    """Queries that count levels: every entry is 0 or 1."""

    __slots__ = ()

    @abstractmethod
    def counted_with(self, low: Floats, high: Floats) -> Floats:
        """How many queries count both levels of every pair low <= high: the entries of the Gram matrix."""

    def gram_dense(self) -> Floats:
        check_fits((self.size, self.size), "use gram(), which stays implicit")
        i = np.arange(self.size, dtype=np.float64)
        return np.asarray(self.counted_with(np.minimum.outer(i, i), np.maximum.outer(i, i)))

    def column_norms(self, p: int) -> Floats:
        check_norm(p)
        i = np.arange(self.size, dtype=np.float64)
        counts = self.counted_with(i, i)
        return counts if p == 1 else np.sqrt(counts)


@dataclass(frozen=True, slots=True)
class Identity(_Square, EqualColumns, Symmetric):
    """Every level by itself: I."""

    def matmat(self, x: Floats) -> Floats:
        return x

    def along(self, values: Numbers, axis: int) -> Numbers:
        return values

    def times(self, other: LinearOperator) -> LinearOperator:
        if self.size != other.shape[0]:
            raise WorkloadError(f"a product of shapes {self.shape} and {other.shape}: the inner sizes differ")
        return other

    def gram(self) -> LinearOperator:
        return self

    def pinv(self) -> LinearOperator:
        return self

    def sensitivity(self, p: int) -> float:
        check_norm(p)
        return 1.0


@dataclass(frozen=True, slots=True)
class Total(_Sized, EqualColumns):
    """The sum of all levels: 1^T."""

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

    def sensitivity(self, p: int) -> float:
        check_norm(p)
        return 1.0


@dataclass(frozen=True, slots=True)
class Prefix(_Counts, _Square):
    """The sum of levels 0 .. i, for every i: the lower triangle of ones."""

    def matmat(self, x: Floats) -> Floats:
        return np.asarray(np.cumsum(x, axis=0))

    def adjoint(self, y: Floats) -> Floats:
        return np.asarray(np.cumsum(y[::-1], axis=0)[::-1])

    def pinv(self) -> LinearOperator:
        return Differences(self.size)

    def counted_with(self, low: Floats, high: Floats) -> Floats:
        return self.size - high


@dataclass(frozen=True, slots=True)
class AllRange(_Counts):
    """The sum of levels i .. j, for every i <= j: n(n+1)/2 rows, ordered by i, then j."""

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

    def pinv(self) -> LinearOperator:
        """(A^T A)^-1 A^T; the Gram matrix is n + 1 times the inverse of second differences."""
        return Scaled(SecondDifferences(self.size), 1 / (self.size + 1)) @ Transposed(self)

    def counted_with(self, low: Floats, high: Floats) -> Floats:
        return (low + 1) * (self.size - high)

    def _starts(self) -> list[tuple[int, slice]]:
        """Every first level, with the rows of its ranges."""
        i = np.arange(self.size + 1)
        ends = (i * self.size - i * (i - 1) // 2).tolist()
        return [(j, slice(start, stop)) for j, (start, stop) in enumerate(pairwise(ends))]


@dataclass(frozen=True, slots=True)
class WidthRange(_Counts):
    """The sum of every run of `width` adjacent levels: n - width + 1 rows."""

    width: int

    def __post_init__(self) -> None:
        check_whole(WorkloadError, "width", self.width, least=1, most=self.size, hint=", the levels of the attribute")

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

    def counted_with(self, low: Floats, high: Floats) -> Floats:
        """Runs that hold both levels start within max(0, high - width + 1) .. min(low, n - width)."""
        first, last = np.maximum(high - self.width + 1, 0), np.minimum(low, self.size - self.width)
        return np.asarray(np.maximum(last - first + 1, 0))


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


@dataclass(frozen=True, slots=True)
class SecondDifferences(_Square, Symmetric):
    """2 x_i - x_{i-1} - x_{i+1} with zeros beyond the ends.

    Symmetric; with levels counted from 1, its inverse is min(i, j) (n + 1 - max(i, j)) / (n + 1).
    """

    def matmat(self, x: Floats) -> Floats:
        return -np.diff(x, n=2, axis=0, prepend=0.0, append=0.0)

    def trace(self) -> float:
        return 2.0 * self.size


class LevelSums(ComparedByValue, EqualColumns):
    """The sums of x over the codes of each merged level: code c counts towards level `codes[c]`.

    >>> LevelSums([0, 1, 1]).dense().tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]]
    """

    __slots__ = ("codes", "levels", "shape")
    shape: tuple[int, int]
    compared = ("codes",)

    def __init__(self, codes: Any) -> None:
        level: Integers = np.array(codes, dtype=np.int64)
        if level.ndim != 1 or not level.size or not np.array_equal(np.unique(level), np.arange(level.max() + 1)):
            raise WorkloadError("merged levels: expected the level of each code, 0 .. k-1, all of them in use")
        level.setflags(write=False)
        self.codes, self.levels = level, int(level.max()) + 1
        self.shape = self.levels, len(level)

    def matmat(self, x: Floats) -> Floats:
        if x.shape[1] == 1:
            return np.bincount(self.codes, weights=x[:, 0], minlength=self.levels).astype(np.float64)[:, None]
        return merged_along(x, self.codes, 0)

    def along(self, values: Numbers, axis: int) -> Numbers:
        return merged_along(values, self.codes, axis)

    def adjoint(self, y: Floats) -> Floats:
        return np.asarray(y[self.codes], dtype=np.float64)

    def gram_dense(self) -> Floats:
        return np.equal.outer(self.codes, self.codes).astype(np.float64)

    def pinv(self) -> LinearOperator:
        """A^T (A A^T)^-1: a level's number spread evenly over its codes."""
        return self.transpose() @ Diagonal(1.0 / np.bincount(self.codes))

    def sensitivity(self, p: int) -> float:
        check_norm(p)
        return 1.0


class _ExchangeableLevels(EqualColumns):
    """An operator whose columns are all permutations of one column."""

    __slots__ = ()

    def along(self, values: Numbers, axis: int) -> Numbers:
        return self.matmat(values.swapaxes(0, axis)).swapaxes(0, axis)


@dataclass(frozen=True, slots=True)
class LevelsAndTotal(_ExchangeableLevels):
    """Each level times a and the total times b: [a I; b 1^T], with Gram matrix a^2 I + b^2 1 1^T.

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

    def pinv(self) -> LinearOperator:
        return self.gram().pinv() @ Transposed(self)

    def sensitivity(self, p: int) -> float:
        check_norm(p)
        return abs(self.levels) + abs(self.total) if p == 1 else math.hypot(self.levels, self.total)


@dataclass(frozen=True, slots=True)
class CompoundSymmetric(_ExchangeableLevels, Symmetric):
    """alpha I + beta 1 1^T, with eigenvalue alpha + n beta on 1 and alpha on vectors that sum to zero.

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
    def eigenvalue_of_ones(self) -> float:
        """alpha + n beta; exactly zero if it is zero up to rounding."""
        value = self.alpha + self.size * self.beta
        limit = 4 * np.finfo(np.float64).eps * (abs(self.alpha) + self.size * abs(self.beta))
        return value if abs(value) > limit else 0

    def matmat(self, x: Numbers) -> Numbers:
        sums = x.sum(axis=0, keepdims=True)
        return np.asarray(self.alpha * x - sums if self.beta == -1 else self.alpha * x + self.beta * sums)

    def dense(self) -> Floats:
        check_fits(self.shape, "keep it implicit: its other members need only alpha and beta")
        entries = np.full(self.shape, float(self.beta))
        np.fill_diagonal(entries, self.alpha + self.beta)
        return entries

    def gram(self) -> CompoundSymmetric:
        return CompoundSymmetric(self.size, self.alpha**2, 2 * self.alpha * self.beta + self.size * self.beta**2)

    def pinv(self) -> CompoundSymmetric:
        low, high = (1 / value if value else 0.0 for value in (self.alpha, self.eigenvalue_of_ones))
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
