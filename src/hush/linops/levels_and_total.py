"""LevelsAndTotal: every level and the sum of all."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hush.arrays import Floats
from hush.errors import WorkloadError
from hush.linops.combination import Transposed
from hush.linops.marginal_gram import MarginalGram
from hush.linops.operator import LinearOperator, check_fits, check_norm


@dataclass(frozen=True, slots=True)
class LevelsAndTotal(LinearOperator):
    """[a I; b 1^T], with Gram matrix a^2 I + b^2 1 1^T of eigenvalues a^2 and, on 1, a^2 + n b^2.

    >>> LevelsAndTotal(2, levels=1.0, total=-3.0).dense().tolist()
    [[1.0, 0.0], [0.0, 1.0], [-3.0, -3.0]]
    """

    size: int
    levels: float = 1.0
    total: float = 1.0

    def __post_init__(self) -> None:
        if self.size < 1 or not math.isfinite(self.levels) or not math.isfinite(self.total):
            raise WorkloadError(
                f"LevelsAndTotal({self.size}, {self.levels}, {self.total}): "
                "expected at least one level and finite weights"
            )

    @property
    def shape(self) -> tuple[int, int]:
        return self.size + 1, self.size

    def matmat(self, x: Floats) -> Floats:
        made = np.empty((self.size + 1, x.shape[1]))
        np.multiply(x, self.levels, out=made[:-1])
        made[-1] = self.total * x.sum(axis=0)
        return made

    def transpose(self) -> LinearOperator:
        return Transposed(self)

    def adjoint(self, y: Floats) -> Floats:
        return np.asarray(self.levels * y[:-1] + self.total * y[-1])

    def gram(self) -> MarginalGram:
        return MarginalGram((self.size,), (self.total**2, self.levels**2))

    def gram_dense(self) -> Floats:
        check_fits((self.size, self.size), "use gram(), which stays implicit")
        made = np.full((self.size, self.size), self.total**2)
        np.fill_diagonal(made, self.levels**2 + self.total**2)
        return made

    def pinv(self) -> LinearOperator:
        return self.gram().pinv() @ Transposed(self)

    def column_norms(self, p: int) -> Floats:
        return np.full(self.size, self.sensitivity(p))

    def sensitivity(self, p: int) -> float:
        check_norm(p)
        return abs(self.levels) + abs(self.total) if p == 1 else math.hypot(self.levels, self.total)
