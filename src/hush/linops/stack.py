"""Stack: several operators on the same cells, one below the other."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np

from hush.arrays import Floats
from hush.errors import WorkloadError, shown
from hush.linops.combination import Scaled, Sum
from hush.linops.operator import LinearOperator, check_fits, check_norm


@dataclass(frozen=True, slots=True)
class Stack(LinearOperator):
    """w_1 A_1 above w_2 A_2 above ...; weights may have either sign.

    Reference: [HDMM, Sec. 3.3]; a union of products is a stack of Kronecker products.

    >>> from hush.linops import Identity, Total
    >>> Stack([Identity(2), Total(2)], [1, -2]).dense().tolist()
    [[1.0, 0.0], [0.0, 1.0], [-2.0, -2.0]]
    """

    operators: Sequence[LinearOperator]
    weights: Sequence[float] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "operators", tuple(self.operators))
        given = [1.0] * len(self.operators) if self.weights is None else self.weights
        object.__setattr__(self, "weights", tuple(float(w) for w in given))
        columns = {operator.shape[1] for operator in self.operators}
        if len(columns) != 1:
            raise WorkloadError(f"a stack of operators of {sorted(columns)} columns: expected one number of columns")
        if len(given) != len(self.operators) or not all(math.isfinite(w) for w in given):
            raise WorkloadError(
                f"weights={shown(given)}: expected a finite number for each of {len(self.operators)} operators"
            )

    @property
    def shape(self) -> tuple[int, int]:
        return sum(operator.shape[0] for operator in self.operators), self.operators[0].shape[1]

    @property
    def queries(self) -> int:
        return sum(operator.queries for operator in self.operators)

    def matmat(self, x: Floats) -> Floats:
        answers = np.empty((self.shape[0], x.shape[1]))
        for rows, (operator, weight) in zip(self._rows(), self._weighted(), strict=True):
            np.multiply(operator.matmat(x), weight, out=answers[rows])
        return answers

    def adjoint(self, y: Floats) -> Floats:
        total = np.zeros((self.shape[1], y.shape[1]))
        for rows, (operator, weight) in zip(self._rows(), self._weighted(), strict=True):
            total += weight * operator.transpose().matmat(y[rows])
        return total

    def gram(self) -> LinearOperator:
        return Sum([Scaled(operator.gram(), weight**2) for operator, weight in self._weighted()])

    def gram_dense(self) -> Floats:
        n = self.shape[1]
        check_fits((n, n), "use gram(), which stays implicit")
        gram = np.zeros((n, n))
        for operator, weight in self._weighted():
            gram += weight**2 * operator.gram_dense()
        return gram

    def column_norms(self, p: int) -> Floats:
        check_norm(p)
        check_fits(self.shape[1:], "use the sensitivities of the stacked operators")
        powers = np.zeros(self.shape[1])
        for operator, weight in self._weighted():
            powers += (abs(weight) * operator.column_norms(p)) ** p
        return powers if p == 1 else np.sqrt(powers)

    def _weighted(self) -> Iterator[tuple[LinearOperator, float]]:
        return zip(self.operators, self.weights or (), strict=True)

    def _rows(self) -> Iterator[slice]:
        ends = accumulate((operator.shape[0] for operator in self.operators), initial=0)
        return (slice(start, stop) for start, stop in pairwise(ends))
