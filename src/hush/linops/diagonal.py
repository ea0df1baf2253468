"""Diagonal: a number for every level."""

from __future__ import annotations

from typing import Any

import numpy as np

from hush.arrays import Floats
from hush.errors import WorkloadError
from hush.linops.operator import LinearOperator, check_norm


class Diagonal(LinearOperator):
    """diag(values); compares by its values.

    >>> Diagonal([2.0, 0.0]).pinv().dense().tolist()
    [[0.5, 0.0], [0.0, 0.0]]
    """

    __slots__ = ("values",)

    def __init__(self, values: Any) -> None:
        entries = np.array(values, dtype=np.float64)
        if entries.ndim != 1 or not entries.size or not np.isfinite(entries).all():
            raise WorkloadError("a diagonal must be a non-empty list of finite numbers")
        entries.setflags(write=False)
        self.values = entries

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.values), len(self.values)

    def matmat(self, x: Floats) -> Floats:
        return np.asarray(self.values[:, None] * x)

    def transpose(self) -> LinearOperator:
        return self

    def gram(self) -> LinearOperator:
        return Diagonal(self.values**2)

    def pinv(self) -> LinearOperator:
        return Diagonal(np.divide(1.0, self.values, out=np.zeros_like(self.values), where=self.values != 0))

    def column_norms(self, p: int) -> Floats:
        check_norm(p)
        return np.abs(self.values)

    def trace(self) -> float:
        return float(self.values.sum())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Diagonal) and np.array_equal(self.values, other.values)

    def __hash__(self) -> int:
        return hash((Diagonal, self.values.tobytes()))

    def __repr__(self) -> str:
        return f"Diagonal({len(self.values)})"
