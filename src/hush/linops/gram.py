"""Gram: the implicit product A^T A."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hush.linops.operator import Array, LinearOperator


@dataclass(frozen=True, slots=True)
class Gram(LinearOperator):
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

    def matmat(self, x: Array) -> Array:
        return self.operator.transpose().matmat(self.operator.matmat(x))

    def transpose(self) -> LinearOperator:
        return self

    def dense(self) -> Array:
        return self.operator.gram_dense()

    def pinv(self) -> LinearOperator:
        inverse = self.operator.pinv()
        return inverse @ inverse.transpose()

    def trace(self) -> float:
        return float(np.sum(self.operator.column_norms(2) ** 2))
