"""Basis: what is measured of one attribute beyond its total.

A basis of an attribute of size l is an integer matrix M (k x l) with M 1 = 0 and rank l - 1, and an integer scale L. It
stands for M / L = S P, where S is the attribute's base strategy and P = I - 1 1^T / l takes the mean off. The plain
basis, for counts of single levels, is M = l I - 1 1^T with L = l, so that M / L = P.

With G = M^T M / L^2, a query w on the attribute splits into its residual, answered with variance a[w] = w G^+ w^T per
unit of noise, and its mean, b[w] = (w 1 / l)^2 per unit of variance of the total.

Reference: [ResidualPlanner, sec. 4.2, Sub_m], in the integer form M = l I - 1 1^T, which has the same row space.
Differs from [ResidualPlanner]: the base strategy S may be any, one per attribute; there it is the identity.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from hush.errors import WorkloadError
from hush.linops import Identity, LinearOperator

Floats = np.ndarray[Any, np.dtype[np.float64]]
Integers = np.ndarray[Any, np.dtype[np.int64]]

_CHUNK_CELLS = 1 << 23
_RANK_TOLERANCE = 1e-9


class Basis(ABC):
    """The residual basis of one attribute; every number is computed from the integer matrix that is used."""

    @property
    @abstractmethod
    def size(self) -> int:
        """l, the levels of the attribute."""

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
    def estimate(self, answers: Floats, axis: int) -> Floats:
        """(M / L)^+ along one axis: k noisy residual answers, already divided by L, become l residual counts."""

    @abstractmethod
    def adjoint(self, coefficients: Floats, axis: int) -> Floats:
        """The transpose of `estimate` along one axis: l coefficients on counts become k on residual answers."""

    @abstractmethod
    def columns(self, start: int, stop: int) -> Floats:
        """Columns of a factor C with G^+ = C C^T: (l, stop - start)."""

    @property
    @abstractmethod
    def inverse_gram(self) -> Floats:
        """G^+, (l, l): the covariance of the residual counts per unit of noise."""

    @property
    def max_diagonal(self) -> Fraction:
        """p = max diag(G), exactly: twice the zCDP cost at unit noise."""
        return Fraction(self.largest_l2_squared, self.scale**2)

    def query_residual(self, block: LinearOperator) -> Floats:
        """a[w] = w G^+ w^T for each row w of a query block. O(rows of the block * l * k)."""
        self._require(block)
        total = np.zeros(block.shape[0])
        for start, stop in _chunks(self.rows, _CHUNK_CELLS // max(block.shape)):
            total += np.sum(block.matmat(self.columns(start, stop)) ** 2, axis=1)
        return total

    def query_mean(self, block: LinearOperator) -> Floats:
        """b[w] = (w 1 / l)^2 for each row w of a query block."""
        self._require(block)
        return np.asarray((block.matmat(np.ones((self.size, 1)))[:, 0] / self.size) ** 2)

    def _require(self, block: LinearOperator) -> None:
        if block.shape[1] != self.size:
            raise WorkloadError(f"a query block of {block.shape[1]} columns on an attribute of {self.size} levels")


class PlainBasis(Basis):
    """M = l I - 1 1^T, never built: M v = l v - sum(v). Two are equal if their sizes are.

    >>> PlainBasis(3).measure(np.array([5, 1, 0]), 0).tolist(), PlainBasis(3).max_diagonal
    ([9, -3, -6], Fraction(2, 3))
    """

    def __init__(self, size: int) -> None:
        if size < 2:
            raise WorkloadError(f"an attribute of {size} levels has no residual; leave it out of the workload")
        self._size = size

    @property
    def size(self) -> int:
        return self._size

    @property
    def rows(self) -> int:
        return self._size

    @property
    def scale(self) -> int:
        return self._size

    @property
    def largest_entry(self) -> int:
        return self._size - 1

    @property
    def largest_l1(self) -> int:
        return 2 * (self._size - 1)

    @property
    def largest_l2_squared(self) -> int:
        return self._size * (self._size - 1)

    @property
    def opposition(self) -> Fraction:
        return Fraction(1, self._size - 1)

    def measure(self, counts: Integers, axis: int) -> Integers:
        return np.asarray(counts * np.int64(self._size) - counts.sum(axis=axis, keepdims=True, dtype=np.int64))

    def estimate(self, answers: Floats, axis: int) -> Floats:
        return np.asarray(answers - answers.mean(axis=axis, keepdims=True))

    def adjoint(self, coefficients: Floats, axis: int) -> Floats:
        return self.estimate(coefficients, axis)

    def columns(self, start: int, stop: int) -> Floats:
        part = np.full((self._size, stop - start), -1 / self._size)
        part[np.arange(start, stop), np.arange(stop - start)] += 1
        return part

    @property
    def inverse_gram(self) -> Floats:
        return self.columns(0, self._size)

    def query_residual(self, block: LinearOperator) -> Floats:
        if isinstance(block, Identity):
            self._require(block)
            return np.full(self._size, (self._size - 1) / self._size)
        return super().query_residual(block)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlainBasis) and self._size == other._size

    def __hash__(self) -> int:
        return hash((PlainBasis, self._size))

    def __repr__(self) -> str:
        return f"PlainBasis({self._size})"


class MatrixBasis(Basis):
    """An explicit integer M with its scale; two are equal if their entries and scales are.

    >>> MatrixBasis([[1, -1, 0], [1, 1, -2]], scale=2).max_diagonal
    Fraction(1, 1)
    """

    def __init__(self, matrix: Any, scale: int) -> None:
        entries = np.array(matrix)
        if entries.ndim != 2 or entries.shape[1] < 2 or not np.issubdtype(entries.dtype, np.integer):
            raise WorkloadError("a basis matrix must be a two-dimensional array of integers with two or more columns")
        self.matrix: Integers = entries.astype(np.int64)
        self.matrix.setflags(write=False)
        self._scale = int(scale)
        if self._scale < 1:
            raise WorkloadError(f"scale={scale}: expected an integer >= 1")
        if self.largest_entry * entries.shape[1] >= 2**31 or self.rows * self.largest_entry**2 >= 2**62:
            raise WorkloadError(
                f"a basis entry of {self.largest_entry} is too large for exact sums; use a smaller scale"
            )
        if self.matrix.sum(axis=1).any():
            raise WorkloadError("each row of a basis matrix must add up to zero")
        if self._factors[1].size < self.size - 1:
            raise WorkloadError(
                f"a basis matrix of rank {self._factors[1].size} on an attribute of {self.size} levels cannot answer "
                f"every query; it needs rank {self.size - 1}"
            )

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
        return int(self._gram.diagonal().max())

    @cached_property
    def opposition(self) -> Fraction:
        return Fraction(max(0, -int(self._gram.min())), self.largest_l2_squared)

    def measure(self, counts: Integers, axis: int) -> Integers:
        return _along(self.matrix, counts, axis)

    def estimate(self, answers: Floats, axis: int) -> Floats:
        return _along(self._inverse, answers, axis)

    def adjoint(self, coefficients: Floats, axis: int) -> Floats:
        return _along(self._inverse.T, coefficients, axis)

    def columns(self, start: int, stop: int) -> Floats:
        return self._inverse[:, start:stop]

    @cached_property
    def inverse_gram(self) -> Floats:
        return np.asarray(self._inverse @ self._inverse.T)

    @cached_property
    def _gram(self) -> Integers:
        """M^T M; every entry is below 2^62, since k |M|^2 is."""
        return np.asarray(self.matrix.T @ self.matrix)

    @cached_property
    def _factors(self) -> tuple[Floats, Floats, Floats]:
        """The singular value decomposition of M / L, without the null space."""
        u, s, vt = np.linalg.svd(self.matrix / self._scale, full_matrices=False)
        kept = s > _RANK_TOLERANCE * s[0]
        return u[:, kept], s[kept], vt[kept]

    @cached_property
    def _inverse(self) -> Floats:
        """(M / L)^+, (l, k)."""
        u, s, vt = self._factors
        return np.asarray((vt.T / s) @ u.T)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, MatrixBasis) and self._scale == other._scale and np.array_equal(self.matrix, other.matrix)
        )

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((MatrixBasis, self._scale, self.matrix.shape, self.matrix.tobytes()))

    def __repr__(self) -> str:
        return f"MatrixBasis({self.rows} x {self.size}, scale {self._scale})"


def _along(matrix: np.ndarray[Any, Any], values: np.ndarray[Any, Any], axis: int) -> np.ndarray[Any, Any]:
    """A matrix applied along one axis of a tensor."""
    return np.moveaxis(np.tensordot(matrix, values, axes=(1, axis)), 0, axis)


def _chunks(total: int, step: int) -> Iterator[tuple[int, int]]:
    step = max(1, step)
    return ((start, min(start + step, total)) for start in range(0, total, step))
