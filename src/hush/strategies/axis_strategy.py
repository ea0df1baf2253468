"""Factor: an integer matrix that is measured along one axis, and what its noisy answers say about the counts.

A factor is an integer matrix M (k x l) with a scale L; it stands for the strategy M / L. With G = M^T M / L^2 the least
squares estimate from answers y is (M / L)^+ y, and a query w is answered with variance w G^+ w^T per unit of noise.
Every number is computed from the integers that are measured, so rounding a strategy never loosens what is promised.

LevelsFactor: every level and their total, with two integer weights; never built, for attributes of any size.

M = [a I; b 1^T] has G = a^2 I + b^2 1 1^T and G^{-1} = (I - c 1 1^T) / a^2 with c = b^2 / (a^2 + l b^2).

FactorOperator: the strategy M / L of a factor as an implicit matrix.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import scipy

from hush.arrays import Floats, Integers
from hush.errors import WorkloadError
from hush.linops import Identity, LinearOperator, Total, Transposed
from hush.linops.along import along

RANK_TOLERANCE = 1e-9
_CHUNK_CELLS = 1 << 23


class Factor(ABC):
    """An integer matrix on one axis of l cells, with its pseudo-inverse."""

    @property
    @abstractmethod
    def size(self) -> int:
        """l, the cells of the axis."""

    @property
    @abstractmethod
    def rows(self) -> int:
        """k, the numbers measured."""

    @property
    @abstractmethod
    def scale(self) -> int:
        """L."""

    @property
    @abstractmethod
    def largest_entry(self) -> int:
        """max |M|."""

    @property
    @abstractmethod
    def largest_l1(self) -> int:
        """The largest sum of |M| over a column."""

    @property
    @abstractmethod
    def largest_l2_squared(self) -> int:
        """The largest sum of M^2 over a column: max diag(M^T M)."""

    @property
    @abstractmethod
    def opposition(self) -> Fraction:
        """max(0, -min (M^T M)[r, s]) / max diag(M^T M): how far two levels pull apart when one replaces the other."""

    @abstractmethod
    def measure(self, counts: Integers, axis: int) -> Integers:
        """M along one axis, in exact integers modulo 2^64: size l becomes k."""

    @abstractmethod
    def forward(self, counts: Floats, axis: int) -> Floats:
        """M / L along one axis, in floats: size l becomes k."""

    @abstractmethod
    def backward(self, answers: Floats, axis: int) -> Floats:
        """(M / L)^T along one axis, in floats: size k becomes l."""

    @abstractmethod
    def estimate(self, answers: Floats, axis: int) -> Floats:
        """(M / L)^+ along one axis: k noisy answers, already divided by L, become l counts."""

    @abstractmethod
    def adjoint(self, coefficients: Floats, axis: int) -> Floats:
        """The transpose of `estimate` along one axis: l coefficients on counts become k on answers."""

    @abstractmethod
    def columns(self, start: int, stop: int) -> Floats:
        """Columns of a factor C with G^+ = C C^T: (l, stop - start)."""

    @property
    @abstractmethod
    def inverse_gram(self) -> Floats:
        """G^+, (l, l): the covariance of the estimated counts per unit of noise."""

    @property
    def full(self) -> bool:
        """Whether every query is supported: rank l."""
        return True

    @property
    def max_diagonal(self) -> Fraction:
        """p = max diag(G), exactly: twice the zCDP cost at unit noise."""
        return Fraction(self.largest_l2_squared, self.scale**2)

    def query_variances(self, block: LinearOperator) -> Floats:
        """w G^+ w^T for each row w of a query block. O(rows of the block * l * k)."""
        self._require(block)
        total = np.zeros(block.shape[0])
        for start, stop in _chunks(self.rows, _CHUNK_CELLS // max(block.shape)):
            total += np.sum(block.matmat(self.columns(start, stop)) ** 2, axis=1)
        return total

    def trace(self, gram: Floats) -> float:
        """tr(V G^+): the summed variance of queries with Gram matrix V per unit of noise."""
        return float(np.sum(self.inverse_gram * gram))

    def total_variance(self, block: LinearOperator) -> float:
        """The summed variance of a block's queries per unit of noise."""
        if isinstance(block, Identity | Total):
            return float(self.query_variances(block).sum())
        self._require(block)
        return self.trace(block.gram_dense())

    def supports(self, block: LinearOperator) -> bool:
        """Whether a block's queries can be answered without bias: W M^+ M = W."""
        self._require(block)
        return self.full

    def _require(self, block: LinearOperator) -> None:
        if block.shape[1] != self.size:
            raise WorkloadError(f"a query block of {block.shape[1]} columns on an attribute of {self.size} levels")


class IdentityFactor(Factor):
    """M = I: every cell by itself. Two are equal if their sizes are."""

    def __init__(self, size: int) -> None:
        if size < 1:
            raise WorkloadError(f"a factor of {size} cells; expected at least one")
        self._size = size

    size = property(lambda self: self._size)
    rows = property(lambda self: self._size)
    scale = property(lambda self: 1)
    largest_entry = property(lambda self: 1)
    largest_l1 = property(lambda self: 1)
    largest_l2_squared = property(lambda self: 1)
    opposition = property(lambda self: Fraction(0))

    def measure(self, counts: Integers, axis: int) -> Integers:
        return counts

    def forward(self, counts: Floats, axis: int) -> Floats:
        return counts

    def backward(self, answers: Floats, axis: int) -> Floats:
        return answers

    def estimate(self, answers: Floats, axis: int) -> Floats:
        return answers

    def adjoint(self, coefficients: Floats, axis: int) -> Floats:
        return coefficients

    def columns(self, start: int, stop: int) -> Floats:
        return np.eye(self._size)[:, start:stop]

    @property
    def inverse_gram(self) -> Floats:
        return np.eye(self._size)

    def trace(self, gram: Floats) -> float:
        return float(np.trace(gram))

    def query_variances(self, block: LinearOperator) -> Floats:
        self._require(block)
        if isinstance(block, Identity):
            return np.ones(self._size)
        return np.asarray(block.transpose().column_norms(2) ** 2)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IdentityFactor) and self._size == other._size

    def __hash__(self) -> int:
        return hash((IdentityFactor, self._size))

    def __repr__(self) -> str:
        return f"IdentityFactor({self._size})"


class MatrixFactor(Factor):
    """An explicit integer M with its scale; two are equal if their entries and scales are.

    >>> factor = MatrixFactor([[2, 0], [0, 2], [1, 1]], scale=2)
    >>> factor.largest_l1, factor.max_diagonal, factor.full
    (3, Fraction(5, 4), True)
    """

    def __init__(self, matrix: Any, scale: int) -> None:
        entries = np.array(matrix)
        if entries.ndim != 2 or not entries.size or not np.issubdtype(entries.dtype, np.integer):
            raise WorkloadError("a factor must be a non-empty two-dimensional array of integers")
        self.matrix: Integers = entries.astype(np.int64)
        self.matrix.setflags(write=False)
        self._scale = int(scale)
        if self._scale < 1:
            raise WorkloadError(f"scale={scale}: expected an integer >= 1")
        if self.largest_entry * max(entries.shape) >= 2**31 or self.rows * self.largest_entry**2 >= 2**62:
            raise WorkloadError(f"an entry of {self.largest_entry} is too large for exact sums; use a smaller scale")
        if not np.abs(self.matrix).any(axis=0).any():
            raise WorkloadError("a factor of zeros measures nothing; leave the attribute out")

    @property
    def size(self) -> int:
        return int(self.matrix.shape[1])

    @property
    def rows(self) -> int:
        return int(self.matrix.shape[0])

    @property
    def scale(self) -> int:
        return self._scale

    @cached_property
    def largest_entry(self) -> int:
        return max(int(self.matrix.max()), -int(self.matrix.min()))  # in Python integers: |-2^63| has no int64

    @cached_property
    def largest_l1(self) -> int:
        return int(np.abs(self.matrix).sum(axis=0).max())

    @cached_property
    def largest_l2_squared(self) -> int:
        return int(np.einsum("ij,ij->j", self.matrix, self.matrix).max())

    @cached_property
    def opposition(self) -> Fraction:
        gram = along(self.matrix.T, self.matrix, 0)  # every entry is below 2^62, since k |M|^2 is
        return Fraction(max(0, -int(gram.min())), self.largest_l2_squared)

    @property
    def full(self) -> bool:
        return self._solved is not None or self._singular[1].size == self.size

    def measure(self, counts: Integers, axis: int) -> Integers:
        return along(self.matrix, counts, axis)

    def forward(self, counts: Floats, axis: int) -> Floats:
        return along(self.matrix / self._scale, counts, axis)

    def backward(self, answers: Floats, axis: int) -> Floats:
        return along(self.matrix.T / self._scale, answers, axis)

    def estimate(self, answers: Floats, axis: int) -> Floats:
        return along(self._inverse, answers, axis)

    def adjoint(self, coefficients: Floats, axis: int) -> Floats:
        return along(self._inverse.T, coefficients, axis)

    def columns(self, start: int, stop: int) -> Floats:
        return self._inverse[:, start:stop]

    def supports(self, block: LinearOperator) -> bool:
        self._require(block)
        if self.full:
            return True
        vt = self._singular[2]
        w = block.dense()
        return bool(np.abs(w - (w @ vt.T) @ vt).max() <= 1e-7 * np.abs(w).max())

    @cached_property
    def inverse_gram(self) -> Floats:
        if self._solved is not None:
            return np.asarray(scipy.linalg.cho_solve(self._solved, np.eye(self.size)))
        return np.asarray(self._inverse @ self._inverse.T)

    @cached_property
    def _solved(self) -> tuple[Floats, bool] | None:
        """The Cholesky factor of G where it is well conditioned."""
        m = self.matrix / self._scale
        gram = m.T @ m
        try:
            factor, lower = scipy.linalg.cho_factor(gram)
        except np.linalg.LinAlgError:
            return None
        condition, _ = scipy.linalg.lapack.dpocon(factor, np.linalg.norm(gram, 1))
        return (factor, lower) if condition > RANK_TOLERANCE**1.5 else None

    @cached_property
    def _singular(self) -> tuple[Floats, Floats, Floats]:
        """The singular value decomposition of M / L, without the null space."""
        u, s, vt = np.linalg.svd(self.matrix / self._scale, full_matrices=False)
        kept = s > RANK_TOLERANCE * s[0]
        return u[:, kept], s[kept], vt[kept]

    @cached_property
    def _inverse(self) -> Floats:
        """(M / L)^+, (l, k)."""
        if self._solved is not None:
            return np.asarray(scipy.linalg.cho_solve(self._solved, self.matrix.T / self._scale))
        u, s, vt = self._singular
        return np.asarray((vt.T / s) @ u.T)

    def __eq__(self, other: object) -> bool:
        return (
            type(self) is type(other)
            and isinstance(other, MatrixFactor)
            and self._scale == other._scale
            and np.array_equal(self.matrix, other.matrix)
        )

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((type(self), self._scale, self.matrix.shape, self.matrix.tobytes()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.rows} x {self.size}, scale {self._scale})"


def _chunks(total: int, step: int) -> Iterator[tuple[int, int]]:
    step = max(1, step)
    return ((start, min(start + step, total)) for start in range(0, total, step))


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


class FactorOperator(LinearOperator):
    """M / L, by what the factor does along an axis.

    >>> from hush.strategies.residual_basis import PlainBasis
    >>> FactorOperator(PlainBasis(2)).dense().tolist()
    [[0.5, -0.5], [-0.5, 0.5]]
    """

    __slots__ = ("factor",)

    def __init__(self, factor: Factor) -> None:
        self.factor = factor

    @property
    def shape(self) -> tuple[int, int]:
        return self.factor.rows, self.factor.size

    def matmat(self, x: Floats) -> Floats:
        return self.factor.forward(x, 0)

    def adjoint(self, y: Floats) -> Floats:
        return self.factor.backward(y, 0)

    def transpose(self) -> LinearOperator:
        return Transposed(self)
