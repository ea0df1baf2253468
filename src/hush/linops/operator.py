"""LinearOperator, the base of all implicit matrices, with the Gram matrix and the transpose of any of them.

An operator must define `shape` and `matmat`. Every other member has a generic fallback, which an operator overrides
where it knows a closed form. `Symmetric`, `EqualColumns`, `ComparedByValue` and `OperatorView` hold shared members.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Real
from typing import ClassVar, overload

import numpy as np

from hush.core.arrays import Floats, Numbers, apply_along
from hush.core.errors import SizeError, WorkloadError
from hush.core.memory import require_memory

LARGEST_DENSE_INVERSE = 1 << 24  # entries
_BLOCK_ENTRIES = 1 << 21  # of the blocks of columns that generic members work on


class LinearOperator(ABC):
    """An m x n matrix known by what it does to columns."""

    __slots__ = ()
    __array_ufunc__ = None

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """(m, n)."""

    @abstractmethod
    def matmat(self, x: Floats) -> Floats:
        """A X for X of shape (n, k)."""

    def transpose(self) -> LinearOperator:
        """A^T; by default it applies `adjoint`."""
        return Transposed(self)

    def adjoint(self, y: Floats) -> Floats:
        """A^T Y for Y of shape (m, k); by default one block of columns of A at a time."""
        answers = np.empty((self.shape[1], y.shape[1]))
        for start, columns in self._columns():
            answers[start : start + columns.shape[1]] = columns.T @ y
        return answers

    def along(self, values: Numbers, axis: int) -> Numbers:
        """Apply A along one axis of a tensor: n numbers become m."""
        return apply_along(self, values, axis)

    def dense(self) -> Floats:
        """The matrix written out, (m, n); for small matrices and tests."""
        check_fits(self.shape, "keep it implicit: matmat, gram() and column_norms(p) do not need its entries")
        return self.matmat(np.eye(self.shape[1]))

    @property
    def queries(self) -> int:
        """How many queries the operator stands for."""
        return self.shape[0]

    def gram(self) -> LinearOperator:
        """A^T A, kept implicit."""
        return Gram(self)

    def gram_dense(self) -> Floats:
        """A^T A, (n, n)."""
        n = self.shape[1]
        check_fits((n, n), "use gram(), which stays implicit")
        gram_operator = self.gram()
        if not isinstance(gram_operator, Gram):
            return gram_operator.dense()
        adjoint = self.transpose()
        gram = np.empty((n, n))
        for start, columns in self._columns():
            gram[:, start : start + columns.shape[1]] = adjoint.matmat(columns)
        return gram

    def pinv(self) -> LinearOperator:
        """The Moore-Penrose inverse A^+, (n, m); the fallback writes out the matrix, so it takes small ones alone."""
        from hush.linops.explicit import Dense

        m, n = self.shape
        if m * n > LARGEST_DENSE_INVERSE:
            raise SizeError(
                f"the pseudo-inverse of {type(self).__name__} with {m:,} x {n:,} entries is larger than "
                f"{LARGEST_DENSE_INVERSE:,} entries; "
                "build it from parts with known inverses (Kronecker, Haar, MarginalSet), "
                "or solve least squares iteratively with matmat and transpose"
            )
        return Dense(np.linalg.pinv(self.dense(), rtol=max(m, n) * np.finfo(np.float64).eps))

    def column_norms(self, p: int) -> Floats:
        """The L1 (p = 1) or L2 (p = 2) norm of every column, (n,)."""
        check_norm(p)
        norms = np.empty(self.shape[1])
        for start, columns in self._columns():
            norms[start : start + columns.shape[1]] = np.linalg.norm(columns, ord=p, axis=0)
        return norms

    def sensitivity(self, p: int) -> float:
        """The largest column norm: how far one record can move the answers, in L1 (p = 1) or L2 (p = 2).

        Overrides give the same number without the vector of all norms.

        Privacy: for neighbours that differ by one added or removed record.
        Reference: [Li 2013, Sec. 2.3].
        """
        return float(self.column_norms(p).max())

    def trace(self) -> float:
        """The sum of the diagonal of a square matrix."""
        if self.shape[0] != self.shape[1]:
            raise WorkloadError(f"{self.shape[0]} x {self.shape[1]}: only a square matrix has a trace; use gram()")
        return float(sum(np.trace(columns, offset=-start) for start, columns in self._columns()))

    def times(self, other: LinearOperator) -> LinearOperator:
        """A B, kept implicit."""
        from hush.linops.combination import Product

        return Product((self, other))

    @overload
    def __matmul__(self, x: LinearOperator) -> LinearOperator: ...
    @overload
    def __matmul__(self, x: Floats) -> Floats: ...
    def __matmul__(self, x: LinearOperator | Floats) -> LinearOperator | Floats:
        if isinstance(x, LinearOperator):
            return self.times(x)
        return self.matmat(x) if x.ndim == 2 else self.matmat(x[:, None])[:, 0]

    def __mul__(self, factor: float) -> LinearOperator:
        from hush.linops.combination import Scaled

        if not isinstance(factor, Real):
            return NotImplemented
        return Scaled(self, float(factor))

    __rmul__ = __mul__

    def __add__(self, other: LinearOperator) -> LinearOperator:
        from hush.linops.combination import Sum

        if not isinstance(other, LinearOperator):
            return NotImplemented
        return Sum((self, other))

    @property
    def T(self) -> LinearOperator:
        return self.transpose()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.shape[0]} x {self.shape[1]})"

    def _columns(self) -> Iterator[tuple[int, Floats]]:
        """Blocks of columns of A, each with the index of its first column; a large A is never written out whole."""
        m, n = self.shape
        step = max(1, _BLOCK_ENTRIES // max(m, n))
        for start in range(0, n, step):
            count = min(step, n - start)
            units = np.zeros((n, count))
            units[start + np.arange(count), np.arange(count)] = 1.0
            yield start, self.matmat(units)


def check_norm(p: int) -> None:
    """Refuse any norm but L1 and L2."""
    if p not in (1, 2):
        raise WorkloadError(f"p={p!r}: expected 1 for Laplace or 2 for Gaussian noise")


def check_fits(shape: tuple[int, ...], remedy: str) -> None:
    """Refuse an array of float64 that would not fit in memory."""
    require_memory(8 * math.prod(shape), f"an array of {' x '.join(map(str, shape))} numbers", remedy)


class Symmetric(LinearOperator):
    """An operator with A^T = A."""

    __slots__ = ()

    def transpose(self) -> LinearOperator:
        return self


class ComparedByValue(LinearOperator):
    """An operator that equals another of its class if all attributes that `compared` names are equal."""

    __slots__ = ()
    compared: ClassVar[tuple[str, ...]]

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and all(
            np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b
            for a, b in ((getattr(self, name), getattr(other, name)) for name in self.compared)
        )

    def __hash__(self) -> int:
        # Adding 0 turns -0.0, which equals 0.0, into 0.0.
        values = (getattr(self, name) for name in self.compared)
        return hash(tuple((a + 0).tobytes() if isinstance(a, np.ndarray) else a for a in values))


class EqualColumns(LinearOperator):
    """An operator whose columns all have the same norm, which `sensitivity` must give."""

    __slots__ = ()

    def column_norms(self, p: int) -> Floats:
        check_fits(self.shape[1:], "use sensitivity(p): all columns have the same norm")
        return np.full(self.shape[1], self.sensitivity(p))


@dataclass(frozen=True, slots=True)
class OperatorView(LinearOperator):
    """The queries of another operator, asked of cells in another order or rescaled."""

    operator: LinearOperator

    @property
    def shape(self) -> tuple[int, int]:
        return self.operator.shape

    @property
    def queries(self) -> int:
        return self.operator.queries

    def sensitivity(self, p: int) -> float:
        return self.operator.sensitivity(p)


@dataclass(frozen=True, slots=True)
class Gram(Symmetric):
    """A^T A; symmetric, with (A^T A)^+ = A^+ (A^+)^T and trace |A|_F^2.

    >>> from hush.linops import Prefix
    >>> Gram(Prefix(3)).dense().tolist()
    [[3.0, 2.0, 1.0], [2.0, 2.0, 1.0], [1.0, 1.0, 1.0]]
    """

    operator: LinearOperator

    @property
    def shape(self) -> tuple[int, int]:
        n = self.operator.shape[1]
        return n, n

    def matmat(self, x: Floats) -> Floats:
        return self.operator.transpose().matmat(self.operator.matmat(x))

    def dense(self) -> Floats:
        return self.operator.gram_dense()

    def pinv(self) -> LinearOperator:
        inverse = self.operator.pinv()
        return inverse @ inverse.transpose()

    def trace(self) -> float:
        return float(np.sum(self.operator.column_norms(2) ** 2))


@dataclass(frozen=True, slots=True)
class Transposed(LinearOperator):
    """A^T, applied through `adjoint` of A; fast where A overrides it."""

    operator: LinearOperator

    @property
    def shape(self) -> tuple[int, int]:
        m, n = self.operator.shape
        return n, m

    def matmat(self, x: Floats) -> Floats:
        return self.operator.adjoint(x)

    def transpose(self) -> LinearOperator:
        return self.operator

    def adjoint(self, y: Floats) -> Floats:
        return self.operator.matmat(y)

    def pinv(self) -> LinearOperator:
        return self.operator.pinv().transpose()

    def trace(self) -> float:
        return self.operator.trace()
