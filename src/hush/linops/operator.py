"""LinearOperator: three required members, everything else with a generic fallback that may be overridden."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]


class LinearOperator(ABC):
    """An m x n matrix known by what it does to columns."""

    __slots__ = ()

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """(m, n)."""

    @abstractmethod
    def matmat(self, x: Array) -> Array:
        """A X for X of shape (n, k)."""

    @abstractmethod
    def transpose(self) -> LinearOperator:
        """A^T."""

    def dense(self) -> Array:
        """The matrix itself, (m, n); for small ones and tests."""
        return self.matmat(np.eye(self.shape[1]))

    def gram_dense(self) -> Array:
        """A^T A, (n, n)."""
        a = self.dense()
        return a.T @ a

    def column_norms(self, p: int) -> Array:
        """The L1 (p = 1) or L2 (p = 2) norm of every column, (n,); their largest is the sensitivity."""
        a = self.dense()
        return np.asarray(np.linalg.norm(a, ord=p, axis=0))

    def __matmul__(self, x: Array) -> Array:
        return self.matmat(x) if x.ndim == 2 else self.matmat(x[:, None])[:, 0]

    @property
    def T(self) -> LinearOperator:
        """A^T."""
        return self.transpose()
