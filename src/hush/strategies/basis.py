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

from fractions import Fraction
from typing import Any

import numpy as np

from hush.errors import WorkloadError
from hush.linops import Identity, LinearOperator
from hush.strategies.factor import Factor, Floats, Integers, MatrixFactor


class Basis(Factor):
    """The residual basis of one attribute: a factor whose rows add up to zero."""

    @property
    def full(self) -> bool:
        """A basis never answers totals."""
        return False

    def supports(self, block: LinearOperator) -> bool:
        """Whether every query of a block adds up to zero."""
        self._require(block)
        return bool(np.abs(block.matmat(np.ones((self.size, 1)))).max() <= 1e-9)

    def mean(self, coefficients: Floats, axis: int) -> Floats:
        """The part of coefficients that the total answers, 1^T c / l along one axis, which is kept with one level."""
        return np.asarray(coefficients.sum(axis=axis, keepdims=True) / self.size)

    def spread(self, totals: Floats, axis: int) -> Floats:
        """Totals, along one axis of one level, spread over the levels: 1 t / l."""
        return np.asarray(np.repeat(totals / self.size, self.size, axis=axis))

    def query_mean(self, block: LinearOperator) -> Floats:
        """b[w] = (w 1 / l)^2 for each row w of a query block."""
        self._require(block)
        return np.asarray((block.matmat(np.ones((self.size, 1)))[:, 0] / self.size) ** 2)


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

    def forward(self, counts: Floats, axis: int) -> Floats:
        return self.estimate(counts, axis)

    def backward(self, answers: Floats, axis: int) -> Floats:
        return self.estimate(answers, axis)

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

    def query_variances(self, block: LinearOperator) -> Floats:
        if isinstance(block, Identity):
            self._require(block)
            return np.full(self._size, (self._size - 1) / self._size)
        return super().query_variances(block)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlainBasis) and self._size == other._size

    def __hash__(self) -> int:
        return hash((PlainBasis, self._size))

    def __repr__(self) -> str:
        return f"PlainBasis({self._size})"


class MatrixBasis(MatrixFactor, Basis):
    """An explicit integer M with its scale; two are equal if their entries and scales are.

    >>> MatrixBasis([[1, -1, 0], [1, 1, -2]], scale=2).max_diagonal
    Fraction(1, 1)
    """

    def __init__(self, matrix: Any, scale: int) -> None:
        super().__init__(matrix, scale)
        if self.size < 2:
            raise WorkloadError("a basis matrix must be a two-dimensional array of integers with two or more columns")
        if self.matrix.sum(axis=1).any():
            raise WorkloadError("each row of a basis matrix must add up to zero")
        if self._singular[1].size < self.size - 1:
            raise WorkloadError(
                f"a basis matrix of rank {self._singular[1].size} on an attribute of {self.size} levels cannot answer "
                f"every query; it needs rank {self.size - 1}"
            )

    @property
    def full(self) -> bool:
        """A basis never answers totals."""
        return False

    supports = Basis.supports
    _solved = None
