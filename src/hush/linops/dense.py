"""Dense: any explicit matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from hush.errors import WorkloadError
from hush.linops.operator import Array, LinearOperator, check_norm


class Dense(LinearOperator):
    """An explicit matrix; compares by its entries."""

    __slots__ = ("_matrix",)

    def __init__(self, matrix: Any) -> None:
        try:
            entries = np.array(matrix)
            entries = entries.astype(np.float64) if entries.dtype.kind in "biuf" else np.zeros(0)
        except (TypeError, ValueError):
            entries = np.zeros(0)
        if entries.ndim != 2 or not entries.size or not np.isfinite(entries).all():
            raise WorkloadError("a query matrix must be a non-empty two-dimensional array of finite numbers")
        entries.setflags(write=False)
        self._matrix = entries

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self._matrix.shape
        return rows, columns

    def matmat(self, x: Array) -> Array:
        return np.asarray(self._matrix @ x)

    def transpose(self) -> LinearOperator:
        made = object.__new__(Dense)
        made._matrix = self._matrix.T
        return made

    def dense(self) -> Array:
        return self._matrix

    def gram(self) -> LinearOperator:
        return Dense(self.gram_dense())

    def gram_dense(self) -> Array:
        return np.asarray(self._matrix.T @ self._matrix)

    def column_norms(self, p: int) -> Array:
        check_norm(p)
        return np.asarray(np.linalg.norm(self._matrix, ord=p, axis=0))

    def trace(self) -> float:
        self._check_square()
        return float(np.trace(self._matrix))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dense) and np.array_equal(self._matrix, other._matrix)

    def __hash__(self) -> int:
        return hash((self.shape, self._matrix.tobytes()))

    def __repr__(self) -> str:
        return f"Dense({self.shape[0]} x {self.shape[1]})"
