"""Factor: an integer matrix that is measured along one axis, and what its noisy answers say about the counts.

A factor is an integer matrix M (k x l) with a scale L; it stands for the strategy M / L. With G = M^T M / L^2 the least
squares estimate from answers y is (M / L)^+ y, and a query w is answered with variance w G^+ w^T per unit of noise.
Every number is computed from the integers that are measured, so rounding a strategy never loosens what is promised.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import scipy

from hush.errors import WorkloadError
from hush.linops import Identity, LinearOperator, Total
from hush.linops.along import along

Floats = np.ndarray[Any, np.dtype[np.float64]]
Integers = np.ndarray[Any, np.dtype[np.int64]]

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
