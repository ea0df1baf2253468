"""AxisStrategy: an integer matrix measured along one axis, and how its noisy answers estimate the counts.

An axis strategy is an operator M (k x l) of whole numbers with a scale L, and stands for M / L. With G = M^T M / L^2,
the least squares estimate from answers y is (M / L)^+ y, and a query w is answered with variance w G^+ w^T per unit of
noise. Every error is computed from the integers that are measured, so predicted errors hold after rounding too.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np

from hush.core.arrays import Floats, Integers
from hush.core.errors import WorkloadError
from hush.core.validation import check_whole
from hush.linops import CompoundSymmetric, Dense, Identity, LevelsAndTotal, LinearOperator, Scaled, Total
from hush.linops.along import along
from hush.workloads.term import AxisNoise

RANK_TOLERANCE = 1e-9
_CHUNK_CELLS = 1 << 23  # of query blocks multiplied at once


class AxisStrategy:
    """Whole numbers on one axis of l cells: the identity, every level and the total, or any explicit matrix.

    The first two are never written out, so they serve attributes of any size. Two strategies are equal if their
    operators and scales are.

    >>> strategy = AxisStrategy(LevelsAndTotal(3, levels=4, total=1))
    >>> strategy.measure(np.array([5, 1, 0]), 0).tolist(), strategy.largest_l1
    ([20, 4, 0, 6], 5)
    """

    def __init__(self, operator: LinearOperator, scale: int = 1) -> None:
        check_whole(WorkloadError, "scale", scale, least=1)
        self._facts = _column_facts(operator)
        self.levels_alike = self._facts is not None  # exchanging levels only exchanges rows
        self.operator = operator if self._facts or isinstance(operator, Dense) else Dense(operator.dense())
        self.scale = int(scale)
        self.rows, self.size = operator.shape
        self.largest_entry = self._facts[0] if self._facts else _check_entries(self.operator.dense())  # max |M|
        self._key = self.operator, self.scale

    @classmethod
    def of(cls, matrix: Any, scale: int = 1) -> Self:
        """The strategy of an explicit integer matrix.

        >>> strategy = AxisStrategy.of([[2, 0], [0, 2], [1, 1]], scale=2)
        >>> strategy.largest_l1, strategy.max_diagonal, strategy.full
        (3, Fraction(5, 4), True)
        """
        entries = np.array(matrix)
        if entries.ndim != 2 or not entries.size or not np.issubdtype(entries.dtype, np.integer):
            raise WorkloadError("a strategy to measure must be a non-empty two-dimensional array of integers")
        return cls(Dense(entries), scale)

    @property
    def matrix(self) -> Integers:
        """M, written out."""
        return self.operator.dense().astype(np.int64)

    @cached_property
    def largest_l1(self) -> int:
        """The largest sum of |M| over a column."""
        return self._facts[1] if self._facts else int(np.abs(self.matrix).sum(axis=0).max())

    @cached_property
    def largest_l2_squared(self) -> int:
        """The largest sum of M^2 over a column: max diag(M^T M)."""
        if self._facts:
            return self._facts[2]
        matrix = self.matrix
        return int(np.einsum("ij,ij->j", matrix, matrix).max())

    @cached_property
    def opposition(self) -> Fraction:
        """max(0, -min (M^T M)[r, s]) / max diag(M^T M): how far the columns of two levels point apart."""
        if self._facts:
            least = self._facts[3]
        else:
            matrix = self.matrix
            least = int(along(matrix.T, matrix, 0).min())  # every entry is below 2^62, since k |M|^2 is
        return Fraction(max(0, -least), self.largest_l2_squared)

    @property
    def max_diagonal(self) -> Fraction:
        """p = max diag(G), exactly: twice the zCDP cost at unit noise."""
        return Fraction(self.largest_l2_squared, self.scale**2)

    def measure(self, counts: Integers, axis: int) -> Integers:
        """M along one axis, in exact integers modulo 2^64: size l becomes k."""
        counts = counts if counts.dtype == np.int64 else counts.astype(np.int64)
        return self.operator.along(counts, axis) if self._facts else along(self.matrix, counts, axis)

    @cached_property
    def scaled(self) -> LinearOperator:
        """M / L."""
        return self.operator if self.scale == 1 else Scaled(self.operator, 1 / self.scale)

    @cached_property
    def inverse(self) -> LinearOperator:
        """(M / L)^+, (l, k)."""
        if self._facts:
            inverse = self.operator.pinv()
            return inverse if self.scale == 1 else Scaled(inverse, self.scale)
        if self._cholesky is not None:
            import scipy

            return Dense(scipy.linalg.cho_solve(self._cholesky, self.scaled.dense().T))
        u, s, vt = self._singular
        return Dense((vt.T / s) @ u.T)

    def estimate(self, answers: Floats, axis: int) -> Floats:
        """(M / L)^+ along one axis: k noisy answers, already divided by L, become l counts."""
        return self.inverse.along(answers, axis)

    def adjoint(self, coefficients: Floats, axis: int) -> Floats:
        """The transpose of `estimate` along one axis: l coefficients on counts become k on answers."""
        return self.inverse.transpose().along(coefficients, axis)

    @property
    def full(self) -> bool:
        """Whether every query is supported: rank l."""
        if self._alike is not None:
            return bool(self._alike.alpha and self._alike.eigenvalue_of_ones)
        return self._cholesky is not None or self._singular[1].size == self.size

    def supports(self, block: LinearOperator) -> bool:
        """Whether a block's queries can be answered without bias: W M^+ M = W."""
        self._check_block(block)
        if self.full:
            return True
        w, vt = block.dense(), self._singular[2]
        return bool(np.abs(w - (w @ vt.T) @ vt).max() <= 1e-7 * np.abs(w).max())

    @property
    def inverse_gram(self) -> Floats:
        """G^+, (l, l): the covariance of the estimated counts per unit of noise."""
        return self._explicit_inverse_gram if self._alike is None else self._alike.dense()

    @cached_property
    def _explicit_inverse_gram(self) -> Floats:
        if self._cholesky is not None:
            import scipy

            return np.asarray(scipy.linalg.cho_solve(self._cholesky, np.eye(self.size)))
        inverse = self.inverse.dense()
        return np.asarray(inverse @ inverse.T)

    @property
    def level_noise(self) -> AxisNoise:
        """1^T G^+ 1, G^+ 1 and diag G^+, both of length 1 where all levels are alike."""
        n = self.size
        if self.levels_alike:
            total = self.total_variance(Total(n))
            return total, np.array([total / n]), self.query_variances(Identity(n))[:1]
        mixed = self.estimate(self.adjoint(np.ones(n), 0), 0)
        return float(mixed.sum()), np.asarray(mixed), self.query_variances(Identity(n))

    def query_variances(self, block: LinearOperator) -> Floats:
        """w G^+ w^T for each row w of a query block. O(rows of the block * l * k)."""
        self._check_block(block)
        if self._alike is not None:
            squares = block.transpose().column_norms(2) ** 2
            sums = block.matmat(np.ones((self.size, 1)))[:, 0] ** 2
            return np.maximum(self._alike.alpha * squares + self._alike.beta * sums, 0)
        total, inverse = np.zeros(block.shape[0]), self.inverse.dense()
        step = max(1, _CHUNK_CELLS // max(block.shape))
        for start in range(0, self.rows, step):
            total += np.sum(block.matmat(inverse[:, start : start + step]) ** 2, axis=1)
        return total

    def trace(self, gram: Floats) -> float:
        """tr(V G^+): the summed variance of queries with Gram matrix V per unit of noise."""
        if self._alike is not None:
            return float(self._alike.alpha * np.trace(gram) + self._alike.beta * gram.sum())
        return float(np.sum(self.inverse_gram * gram))

    def total_variance(self, block: LinearOperator) -> float:
        """The summed variance of a block's queries per unit of noise."""
        if isinstance(block, Identity | Total):
            return float(self.query_variances(block).sum())
        self._check_block(block)
        if isinstance(block, CompoundSymmetric):  # its Gram matrix is alpha I + beta 1 1^T
            square, n = block.gram(), self.size
            return square.alpha * self.total_variance(Identity(n)) + square.beta * self.total_variance(Total(n))
        return self.trace(block.gram_dense())

    @cached_property
    def _alike(self) -> CompoundSymmetric | None:
        """G^+ where it treats all levels alike."""
        if not self._facts:
            return None
        gram = self.operator.gram()
        inverse = gram.pinv() if isinstance(gram, CompoundSymmetric) else CompoundSymmetric(self.size, 1, 0)
        return CompoundSymmetric(self.size, inverse.alpha * self.scale**2, inverse.beta * self.scale**2)

    @cached_property
    def _cholesky(self) -> tuple[Floats, bool] | None:
        """The Cholesky factor of G where it is well conditioned."""
        import scipy

        gram = self.scaled.gram_dense()
        try:
            factor, lower = scipy.linalg.cho_factor(gram)
        except np.linalg.LinAlgError:
            return None
        condition, _ = scipy.linalg.lapack.dpocon(factor, np.linalg.norm(gram, 1))
        return (factor, lower) if condition > RANK_TOLERANCE**1.5 else None

    @cached_property
    def _singular(self) -> tuple[Floats, Floats, Floats]:
        """The singular value decomposition of M / L, without the null space."""
        u, s, vt = np.linalg.svd(self.scaled.dense(), full_matrices=False)
        nonzero = s > RANK_TOLERANCE * s[0]
        return u[:, nonzero], s[nonzero], vt[nonzero]

    def _check_block(self, block: LinearOperator) -> None:
        if block.shape[1] != self.size:
            raise WorkloadError(f"a query block of {block.shape[1]} columns on an attribute of {self.size} levels")

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return type(self) is type(other) and isinstance(other, AxisStrategy) and self._key == other._key

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.operator!r}, scale={self.scale})"


def _column_facts(operator: LinearOperator) -> tuple[int, int, int, int] | None:
    """The largest entry, L1 norm and squared L2 norm of a column, and the least inner product of two columns.

    None for an operator that is measured as an explicit matrix.
    """
    match operator:
        case Identity():
            return 1, 1, 1, 0
        case LevelsAndTotal(size=n, levels=a, total=b):
            if not (isinstance(a, int) and isinstance(b, int) and a >= 1 and b >= 0 and max(a, b) < 2**30):
                raise WorkloadError(f"LevelsAndTotal({n}, {a}, {b}): expected positive integers below 2^30 to measure")
            return max(a, b), a + b, a * a + b * b, b * b
        case CompoundSymmetric(size=n, alpha=a, beta=b) if isinstance(a, int) and isinstance(b, int):
            diagonal = a + b
            l2_squared = diagonal**2 + (n - 1) * b * b
            return (
                max(abs(diagonal), abs(b)),
                abs(diagonal) + (n - 1) * abs(b),
                l2_squared,
                b * (2 * diagonal + (n - 2) * b),
            )
    return None


def _check_entries(entries: Floats) -> int:
    """The largest entry of an explicit matrix; refuses entries that are not whole or too large for exact sums."""
    largest, rows = int(np.abs(entries).max()), len(entries)
    if largest * max(entries.shape) >= 2**31 or rows * largest**2 >= 2**62:
        raise WorkloadError(f"an entry of {largest} is too large for exact sums; use a smaller scale")
    if (entries != np.rint(entries)).any():
        raise WorkloadError("a strategy to measure must have whole entries; round it first")
    if not largest:
        raise WorkloadError("a strategy of zeros measures nothing; leave the attribute out")
    return largest
