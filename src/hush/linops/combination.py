"""Scaled, Sum, Product and Stack: operators built from others, never multiplied out."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np

from hush.core.arrays import Floats, Numbers
from hush.core.errors import WorkloadError, shown
from hush.linops.operator import LinearOperator, OperatorView, check_fits, check_norm


@dataclass(frozen=True, slots=True)
class Scaled(OperatorView):
    """c A for a number c of either sign.

    >>> from hush.linops import Prefix
    >>> (-2 * Prefix(4)).sensitivity(1)
    8.0
    """

    factor: float

    def __post_init__(self) -> None:
        if not math.isfinite(self.factor):
            raise WorkloadError(f"factor={self.factor}: expected a finite number")

    def matmat(self, x: Floats) -> Floats:
        return self.factor * self.operator.matmat(x)

    def along(self, values: Numbers, axis: int) -> Numbers:
        return np.asarray(self.factor * self.operator.along(values, axis))

    def transpose(self) -> LinearOperator:
        return Scaled(self.operator.transpose(), self.factor)

    def dense(self) -> Floats:
        return np.asarray(self.factor * self.operator.dense())

    def gram(self) -> LinearOperator:
        return Scaled(self.operator.gram(), self.factor**2)

    def gram_dense(self) -> Floats:
        return self.factor**2 * self.operator.gram_dense()

    def pinv(self) -> LinearOperator:
        if self.factor == 0:
            return Scaled(self.operator.transpose(), 0.0)
        return Scaled(self.operator.pinv(), 1 / self.factor)

    def column_norms(self, p: int) -> Floats:
        return abs(self.factor) * self.operator.column_norms(p)

    def sensitivity(self, p: int) -> float:
        return abs(self.factor) * self.operator.sensitivity(p)

    def trace(self) -> float:
        return self.factor * self.operator.trace()


@dataclass(frozen=True, slots=True)
class Sum(LinearOperator):
    """A + B + ..., all of one shape."""

    operators: Sequence[LinearOperator]

    def __post_init__(self) -> None:
        object.__setattr__(self, "operators", _flattened(Sum, self.operators))
        shapes = {operator.shape for operator in self.operators}
        if len(shapes) != 1:
            raise WorkloadError(f"a sum of operators of shapes {sorted(shapes)}: expected one shape")

    @property
    def shape(self) -> tuple[int, int]:
        return self.operators[0].shape

    def matmat(self, x: Floats) -> Floats:
        total = np.array(self.operators[0].matmat(x), dtype=np.float64)
        for operator in self.operators[1:]:
            total += operator.matmat(x)
        return total

    def transpose(self) -> LinearOperator:
        return Sum([operator.transpose() for operator in self.operators])

    def trace(self) -> float:
        return math.fsum(operator.trace() for operator in self.operators)


@dataclass(frozen=True, slots=True)
class Product(LinearOperator):
    """A B ..., applied from the right.

    >>> from hush.linops import Prefix, Total
    >>> (Total(3) @ Prefix(3)).dense().tolist()
    [[3.0, 2.0, 1.0]]
    """

    operators: Sequence[LinearOperator]

    def __post_init__(self) -> None:
        object.__setattr__(self, "operators", _flattened(Product, self.operators))
        if not self.operators:
            raise WorkloadError("a product of no operators: expected at least one")
        for left, right in pairwise(self.operators):
            if left.shape[1] != right.shape[0]:
                raise WorkloadError(f"a product of shapes {left.shape} and {right.shape}: the inner sizes differ")

    @property
    def shape(self) -> tuple[int, int]:
        return self.operators[0].shape[0], self.operators[-1].shape[1]

    def matmat(self, x: Floats) -> Floats:
        for operator in reversed(self.operators):
            x = operator.matmat(x)
        return x

    def along(self, values: Numbers, axis: int) -> Numbers:
        for operator in reversed(self.operators):
            values = operator.along(values, axis)
        return values

    def transpose(self) -> LinearOperator:
        return Product([operator.transpose() for operator in reversed(self.operators)])


def _flattened(kind: type[Sum | Product], operators: Sequence[LinearOperator]) -> tuple[LinearOperator, ...]:
    """The operators, those of a nested sum or product in its place."""
    nested = (operator.operators if isinstance(operator, kind) else (operator,) for operator in operators)
    return tuple(itertools.chain.from_iterable(nested))


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
