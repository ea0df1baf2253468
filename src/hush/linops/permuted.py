"""Queries on cells in another order: Permuted for the levels of an attribute, Reordered for the axes of a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hush.core.arrays import Floats, Integers
from hush.core.errors import WorkloadError, shown
from hush.linops.operator import LinearOperator, OperatorView


@dataclass(frozen=True, slots=True)
class Permuted(OperatorView):
    """A asked of the levels in the given order: x -> A x[order].

    >>> from hush.linops import Prefix
    >>> Permuted(Prefix(3), [2, 0, 1]).dense().tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 1.0], [1.0, 1.0, 1.0]]
    """

    order: Sequence[int]

    def __post_init__(self) -> None:
        given = tuple(int(level) for level in self.order)
        size = self.operator.shape[1]
        if sorted(given) != list(range(size)):
            raise WorkloadError(f"order={shown(given)}: expected each of the levels 0 .. {size - 1} once")
        object.__setattr__(self, "order", given)

    def matmat(self, x: Floats) -> Floats:
        return self.operator.matmat(x[self._order])

    def adjoint(self, y: Floats) -> Floats:
        return self.operator.transpose().matmat(y)[self._positions]

    def gram_dense(self) -> Floats:
        return self.operator.gram_dense()[np.ix_(self._positions, self._positions)]

    def pinv(self) -> LinearOperator:
        return Permuted(self.operator.pinv().transpose(), self.order).transpose()

    def column_norms(self, p: int) -> Floats:
        return self.operator.column_norms(p)[self._positions]

    def sensitivity(self, p: int) -> float:
        return self.operator.sensitivity(p)

    @property
    def _order(self) -> Integers:
        return np.array(self.order, dtype=np.int64)

    @property
    def _positions(self) -> Integers:
        """Where each level stands in the order."""
        return np.argsort(self._order)


@dataclass(frozen=True, slots=True)
class Reordered(OperatorView):
    """A asked of a table of the given shape after its axes are put in the given order: x -> A transpose(x, axes).

    Like `Permuted` with the cells in the new order, which is never written down.

    >>> from hush.linops import Prefix
    >>> Reordered(Prefix(4), (2, 2), (1, 0)).dense().tolist()
    [[1.0, 0.0, 0.0, 0.0], [1.0, 0.0, 1.0, 0.0], [1.0, 1.0, 1.0, 0.0], [1.0, 1.0, 1.0, 1.0]]
    """

    sizes: tuple[int, ...]  # of the table as it comes
    axes: tuple[int, ...]

    def matmat(self, x: Floats) -> Floats:
        k = len(self.axes)
        moved = x.reshape((*self.sizes, x.shape[1])).transpose((*self.axes, k))
        return self.operator.matmat(moved.reshape(x.shape))

    def adjoint(self, y: Floats) -> Floats:
        return self._back(self.operator.transpose().matmat(y))

    def column_norms(self, p: int) -> Floats:
        return self._back(self.operator.column_norms(p)[:, None])[:, 0]

    def sensitivity(self, p: int) -> float:
        return self.operator.sensitivity(p)

    def _back(self, x: Floats) -> Floats:
        """Columns over cells in the operator's order, put in the order of the table."""
        k = len(self.axes)
        sizes = [self.sizes[axis] for axis in self.axes]
        back = sorted(range(k), key=self.axes.__getitem__)
        return x.reshape((*sizes, x.shape[1])).transpose((*back, k)).reshape(math.prod(sizes), x.shape[1])
