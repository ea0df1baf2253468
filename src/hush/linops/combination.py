"""Operators built from others, never multiplied out: Scaled, Sum, Product, Stack, Kronecker, Permuted and Reordered."""

from __future__ import annotations

import functools
import itertools
import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from hush.core.arrays import Floats, Numbers
from hush.core.errors import WorkloadError, shown
from hush.core.validation import check_number
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
        check_number(WorkloadError, "factor", self.factor)

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
    """A + B + ..., all of the same shape."""

    operators: Sequence[LinearOperator]

    def __post_init__(self) -> None:
        object.__setattr__(self, "operators", _flattened(Sum, self.operators))
        shapes = {operator.shape for operator in self.operators}
        if len(shapes) != 1:
            raise WorkloadError(f"a sum of operators of shapes {sorted(shapes)}: expected equal shapes")

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

    def dense(self) -> Floats:
        check_fits(self.shape, "keep it implicit: matmat and column_norms(p) do not need its entries")
        total = np.zeros(self.shape)
        for operator in self.operators:
            total += operator.dense()
        return total

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
    """The operators, with a nested sum or product replaced by its parts."""
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
        weights = [1.0] * len(self.operators) if self.weights is None else self.weights
        object.__setattr__(self, "weights", tuple(float(w) for w in weights))
        columns = {operator.shape[1] for operator in self.operators}
        if len(columns) != 1:
            raise WorkloadError(
                f"a stack of operators with {sorted(columns)} columns: expected the same number of columns"
            )
        if len(weights) != len(self.operators) or not all(math.isfinite(w) for w in weights):
            raise WorkloadError(
                f"weights={shown(weights)}: expected a finite number for each of {len(self.operators)} operators"
            )

    @property
    def shape(self) -> tuple[int, int]:
        return sum(operator.shape[0] for operator in self.operators), self.operators[0].shape[1]

    @property
    def queries(self) -> int:
        return sum(operator.queries for operator in self.operators)

    def matmat(self, x: Floats) -> Floats:
        answers = np.empty((self.shape[0], x.shape[1]))
        for operator, weight, rows in self._parts():
            np.multiply(operator.matmat(x), weight, out=answers[rows])
        return answers

    def adjoint(self, y: Floats) -> Floats:
        total = np.zeros((self.shape[1], y.shape[1]))
        for operator, weight, rows in self._parts():
            total += weight * operator.transpose().matmat(y[rows])
        return total

    def gram(self) -> LinearOperator:
        return Sum([Scaled(operator.gram(), weight**2) for operator, weight, _ in self._parts()])

    def column_norms(self, p: int) -> Floats:
        check_norm(p)
        check_fits(self.shape[1:], "use the sensitivities of the stacked operators")
        powers = np.zeros(self.shape[1])
        for operator, weight, _ in self._parts():
            powers += (abs(weight) * operator.column_norms(p)) ** p
        return powers if p == 1 else np.sqrt(powers)

    def _parts(self) -> Iterator[tuple[LinearOperator, float, slice]]:
        """Every operator with its weight and its rows."""
        end = 0
        for operator, weight in zip(self.operators, self.weights or (), strict=True):
            start, end = end, end + operator.shape[0]
            yield operator, weight, slice(start, end)


@dataclass(frozen=True, slots=True)
class Kronecker(LinearOperator):
    """A_1 kron A_2 kron ... over cells in row-major order; every member but `matmat` works on one factor at a time.

    `matmat` applies the factors that shrink a column most first, so no intermediate column is larger than the input and
    the output.

    Reference: [HDMM, Sec. 3.3 and Alg. 1].

    >>> from hush.linops import Prefix, Total
    >>> wide = Kronecker([Prefix(10)] * 12)
    >>> wide.shape, wide.sensitivity(1), wide.pinv().shape[0]
    ((1000000000000, 1000000000000), 1000000000000.0, 1000000000000)
    >>> Kronecker([Prefix(2), Total(2)]).dense().tolist()
    [[1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]]
    """

    factors: Sequence[LinearOperator]

    def __post_init__(self) -> None:
        object.__setattr__(self, "factors", tuple(self.factors))
        if not self.factors:
            raise WorkloadError("a Kronecker product of no factors: expected at least one")

    @property
    def shape(self) -> tuple[int, int]:
        return math.prod(f.shape[0] for f in self.factors), math.prod(f.shape[1] for f in self.factors)

    @property
    def queries(self) -> int:
        return math.prod(f.queries for f in self.factors)

    def matmat(self, x: Floats) -> Floats:
        sizes, cells = [f.shape[1] for f in self.factors], x
        shrinking = sorted(enumerate(self.factors), key=lambda item: item[1].shape[0] / item[1].shape[1])
        for axis, factor in shrinking:  # as three axes: an array has at most 64, and there may be more factors
            cells = factor.along(cells.reshape(math.prod(sizes[:axis]), sizes[axis], -1), 1)
            sizes[axis] = factor.shape[0]
        return cells.reshape(self.shape[0], x.shape[1])

    def transpose(self) -> LinearOperator:
        return Kronecker([f.transpose() for f in self.factors])

    def times(self, other: LinearOperator) -> LinearOperator:
        """(A kron B)(C kron D) = A C kron B D, if the sizes of the factors match."""
        if isinstance(other, Kronecker) and [f.shape[1] for f in self.factors] == [f.shape[0] for f in other.factors]:
            return Kronecker([a.times(b) for a, b in zip(self.factors, other.factors, strict=True)])
        return LinearOperator.times(self, other)

    def dense(self) -> Floats:
        check_fits(self.shape, "keep it implicit: its other members work on the factors")
        return kron_product(f.dense() for f in self.factors)

    def gram(self) -> LinearOperator:
        return Kronecker([f.gram() for f in self.factors])

    def pinv(self) -> LinearOperator:
        return Kronecker([f.pinv() for f in self.factors])

    def column_norms(self, p: int) -> Floats:
        check_norm(p)
        check_fits(self.shape[1:], "use sensitivity(p), which needs only the factors")
        return kron_product(f.column_norms(p) for f in self.factors)

    def sensitivity(self, p: int) -> float:
        """The product of the sensitivities of the factors, since the norms of their columns multiply."""
        return math.prod(f.sensitivity(p) for f in self.factors)

    def trace(self) -> float:
        if all(f.shape[0] == f.shape[1] for f in self.factors):
            return math.prod(f.trace() for f in self.factors)
        return LinearOperator.trace(self)


def kron_product(arrays: Iterable[Floats]) -> Floats:
    """The Kronecker product of arrays, written out."""
    return functools.reduce(lambda left, right: np.asarray(np.kron(left, right), dtype=np.float64), arrays)


class _CellsInOrder(OperatorView):
    """A applied to cells in another order."""

    __slots__ = ()

    @abstractmethod
    def _back(self, x: Floats) -> Floats:
        """Columns over cells in the order of A, moved back to the order before."""

    def adjoint(self, y: Floats) -> Floats:
        return self._back(self.operator.transpose().matmat(y))

    def column_norms(self, p: int) -> Floats:
        return self._back(self.operator.column_norms(p)[:, None])[:, 0]


@dataclass(frozen=True, slots=True)
class Permuted(_CellsInOrder):
    """A applied to the levels in the given order: x -> A x[order].

    >>> from hush.linops import Prefix
    >>> Permuted(Prefix(3), [2, 0, 1]).dense().tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 1.0], [1.0, 1.0, 1.0]]
    """

    order: Sequence[int]

    def __post_init__(self) -> None:
        order = tuple(int(level) for level in self.order)
        size = self.operator.shape[1]
        if sorted(order) != list(range(size)):
            raise WorkloadError(f"order={shown(order)}: expected each of the levels 0 .. {size - 1} once")
        object.__setattr__(self, "order", order)

    def matmat(self, x: Floats) -> Floats:
        return self.operator.matmat(x[np.array(self.order, dtype=np.int64)])

    def gram_dense(self) -> Floats:
        return self._back(self._back(self.operator.gram_dense()).T)

    def pinv(self) -> LinearOperator:
        return Permuted(self.operator.pinv().transpose(), self.order).transpose()

    def _back(self, x: Floats) -> Floats:
        return x[np.argsort(np.array(self.order, dtype=np.int64))]


@dataclass(frozen=True, slots=True)
class Reordered(_CellsInOrder):
    """A applied to a table of the given sizes after its axes are put in the given order: x -> A transpose(x, axes).

    The same as `Permuted` with the cells in their new order, without a list of all cells.

    >>> from hush.linops import Prefix
    >>> Reordered(Prefix(4), (2, 2), (1, 0)).dense().tolist()
    [[1.0, 0.0, 0.0, 0.0], [1.0, 0.0, 1.0, 0.0], [1.0, 1.0, 1.0, 0.0], [1.0, 1.0, 1.0, 1.0]]
    """

    sizes: tuple[int, ...]  # of the table before its axes are reordered
    axes: tuple[int, ...]

    def matmat(self, x: Floats) -> Floats:
        k = len(self.axes)
        moved = x.reshape((*self.sizes, x.shape[1])).transpose((*self.axes, k))
        return self.operator.matmat(moved.reshape(x.shape))

    def _back(self, x: Floats) -> Floats:
        k = len(self.axes)
        sizes = [self.sizes[axis] for axis in self.axes]
        inverse = sorted(range(k), key=self.axes.__getitem__)
        return x.reshape((*sizes, x.shape[1])).transpose((*inverse, k)).reshape(math.prod(sizes), x.shape[1])
