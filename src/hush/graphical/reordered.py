"""Reordered: queries on a table whose axes stand in another order."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hush.linops import LinearOperator
from hush.linops.combination import Transposed
from hush.linops.operator import Array


@dataclass(frozen=True, slots=True)
class Reordered(LinearOperator):
    """A asked of a table of the given shape after its axes are put in the given order: x -> A transpose(x, axes).

    Like `Permuted` with the cells in the new order, which is never written down.

    >>> from hush.linops import Prefix
    >>> Reordered(Prefix(4), (2, 2), (1, 0)).dense().tolist()
    [[1.0, 0.0, 0.0, 0.0], [1.0, 0.0, 1.0, 0.0], [1.0, 1.0, 1.0, 0.0], [1.0, 1.0, 1.0, 1.0]]
    """

    operator: LinearOperator
    sizes: tuple[int, ...]  # of the table as it comes
    axes: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, int]:
        return self.operator.shape

    @property
    def queries(self) -> int:
        return self.operator.queries

    def matmat(self, x: Array) -> Array:
        k = len(self.axes)
        moved = x.reshape((*self.sizes, x.shape[1])).transpose((*self.axes, k))
        return self.operator.matmat(moved.reshape(x.shape))

    def transpose(self) -> LinearOperator:
        return Transposed(self)

    def adjoint(self, y: Array) -> Array:
        return self._back(self.operator.transpose().matmat(y))

    def column_norms(self, p: int) -> Array:
        return self._back(self.operator.column_norms(p)[:, None])[:, 0]

    def sensitivity(self, p: int) -> float:
        return self.operator.sensitivity(p)

    def _back(self, x: Array) -> Array:
        """Columns over cells in the operator's order, put in the order of the table."""
        k = len(self.axes)
        own = [self.sizes[axis] for axis in self.axes]
        back = sorted(range(k), key=self.axes.__getitem__)
        return x.reshape((*own, x.shape[1])).transpose((*back, k)).reshape(math.prod(own), x.shape[1])
