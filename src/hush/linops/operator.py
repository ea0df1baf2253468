"""LinearOperator: three required members, everything else with a generic fallback that may be overridden.

Must define: `shape`, `matmat`, `transpose`. May override: every other member, where a closed form is known.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from numbers import Real
from typing import Any, overload

import numpy as np

from hush.errors import SizeError, WorkloadError
from hush.memory import available_memory, readable

Array = np.ndarray[Any, np.dtype[np.float64]]

LARGEST_DENSE_INVERSE = 1 << 24
_CHUNK = 1 << 21
_UNGUARDED = 1 << 20


class LinearOperator(ABC):
    """An m x n matrix known by what it does to columns."""

    __slots__ = ()
    __array_ufunc__ = None

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """(m, n)."""

    @abstractmethod
    def matmat(self, x: Array) -> Array:
        """A X for X of shape (n, k)."""

    @abstractmethod
    def transpose(self) -> LinearOperator:
        """A^T; `Transposed(self)` is always right, and fast where `adjoint` is."""

    def adjoint(self, y: Array) -> Array:
        """A^T Y for Y of shape (m, k): what `Transposed` applies; by blocks of columns of A where not overridden."""
        made = np.empty((self.shape[1], y.shape[1]))
        for start, columns in self._columns():
            made[start : start + columns.shape[1]] = columns.T @ y
        return made

    def dense(self) -> Array:
        """The matrix itself, (m, n); for small ones and tests."""
        check_fits(self.shape, "keep it implicit: matmat, gram() and column_norms(p) do not need its entries")
        return self.matmat(np.eye(self.shape[1]))

    @property
    def queries(self) -> int:
        """How many queries the operator stands for."""
        return self.shape[0]

    def gram(self) -> LinearOperator:
        """A^T A, kept implicit."""
        from hush.linops.gram import Gram

        return Gram(self)

    def gram_dense(self) -> Array:
        """A^T A, (n, n)."""
        n = self.shape[1]
        check_fits((n, n), "use gram(), which stays implicit")
        adjoint = self.transpose()
        made = np.empty((n, n))
        for start, columns in self._columns():
            made[:, start : start + columns.shape[1]] = adjoint.matmat(columns)
        return made

    def pinv(self) -> LinearOperator:
        """The Moore-Penrose inverse A^+, (n, m); explicit where not overridden, so for small matrices."""
        from hush.linops.dense import Dense

        m, n = self.shape
        if m * n > LARGEST_DENSE_INVERSE:
            raise SizeError(
                f"the pseudo-inverse of {type(self).__name__} with {m} x {n} entries is larger than "
                f"{LARGEST_DENSE_INVERSE}; build it from parts with known inverses (Kronecker, Haar, MarginalSet), "
                "or solve least squares by iterations with matmat and transpose"
            )
        return Dense(np.linalg.pinv(self.dense(), rtol=max(m, n) * np.finfo(np.float64).eps))

    def column_norms(self, p: int) -> Array:
        """The L1 (p = 1) or L2 (p = 2) norm of every column, (n,)."""
        check_norm(p)
        norms = np.empty(self.shape[1])
        for start, columns in self._columns():
            norms[start : start + columns.shape[1]] = np.linalg.norm(columns, ord=p, axis=0)
        return norms

    def sensitivity(self, p: int) -> float:
        """The largest column norm: how far one record can move the answers, in L1 (p = 1) or L2 (p = 2).

        Overrides only say the same number without the vector of all norms.

        Privacy: for neighbours that differ by one added or removed record.
        Reference: [Li 2013, Sec. 2.3].
        """
        return float(self.column_norms(p).max())

    def trace(self) -> float:
        """The sum of the diagonal of a square matrix."""
        self._check_square()
        return float(sum(np.trace(columns, offset=-start) for start, columns in self._columns()))

    def times(self, other: LinearOperator) -> LinearOperator:
        """A B, kept implicit."""
        from hush.linops.combination import Product

        return Product((self, other))

    @overload
    def __matmul__(self, x: LinearOperator) -> LinearOperator: ...
    @overload
    def __matmul__(self, x: Array) -> Array: ...
    def __matmul__(self, x: LinearOperator | Array) -> LinearOperator | Array:
        if isinstance(x, LinearOperator):
            return self.times(x)
        return self.matmat(x) if x.ndim == 2 else self.matmat(x[:, None])[:, 0]

    def __mul__(self, factor: float) -> LinearOperator:
        from hush.linops.combination import Scaled

        if not isinstance(factor, Real):
            return NotImplemented
        return Scaled(self, float(factor))

    def __rmul__(self, factor: float) -> LinearOperator:
        return self * factor

    def __add__(self, other: LinearOperator) -> LinearOperator:
        from hush.linops.combination import Sum

        if not isinstance(other, LinearOperator):
            return NotImplemented
        return Sum((self, other))

    @property
    def T(self) -> LinearOperator:
        """A^T."""
        return self.transpose()

    def _columns(self) -> Iterator[tuple[int, Array]]:
        """The columns in blocks, each with the place of its first; never the whole of a large matrix."""
        m, n = self.shape
        step = max(1, _CHUNK // max(m, n))
        for start in range(0, n, step):
            count = min(step, n - start)
            units = np.zeros((n, count))
            units[start + np.arange(count), np.arange(count)] = 1.0
            yield start, self.matmat(units)

    def _check_square(self) -> None:
        if self.shape[0] != self.shape[1]:
            raise WorkloadError(f"{self.shape[0]} x {self.shape[1]}: only a square matrix has a trace; use gram()")


def check_norm(p: int) -> None:
    """Refuse any norm but L1 and L2."""
    if p not in (1, 2):
        raise WorkloadError(f"p={p!r}: expected 1 for Laplace or 2 for Gaussian noise")


def check_fits(shape: tuple[int, ...], remedy: str) -> None:
    """Refuse an array of float64 that would not fit in memory, before it is made."""
    entries = 1
    for length in shape:
        entries *= length
    if entries > _UNGUARDED and 8 * entries > available_memory():
        size = " x ".join(map(str, shape))
        raise SizeError(f"an array of {size} numbers takes {readable(8 * entries)}, more than is free; {remedy}")
