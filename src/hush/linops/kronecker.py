"""Kronecker: the product of operators on single attributes, over cells in row-major order."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from hush.core.arrays import Floats
from hush.core.errors import WorkloadError
from hush.linops.operator import LinearOperator, check_fits, check_norm


@dataclass(frozen=True, slots=True)
class Kronecker(LinearOperator):
    """A_1 kron A_2 kron ...; everything but the answers themselves is known factor by factor.

    A column costs one pass per factor, those that shrink it most first, so that no intermediate is larger than the
    larger of input and output.

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
        """(A kron B)(C kron D) = A C kron B D, where the factors fit."""
        if isinstance(other, Kronecker) and [f.shape[1] for f in self.factors] == [f.shape[0] for f in other.factors]:
            return Kronecker([a.times(b) for a, b in zip(self.factors, other.factors, strict=True)])
        return LinearOperator.times(self, other)

    def dense(self) -> Floats:
        check_fits(self.shape, "keep it implicit: every other member works on the factors")
        return kron_product(f.dense() for f in self.factors)

    def gram(self) -> LinearOperator:
        return Kronecker([f.gram() for f in self.factors])

    def gram_dense(self) -> Floats:
        check_fits((self.shape[1], self.shape[1]), "use gram(), which stays implicit")
        return kron_product(f.gram_dense() for f in self.factors)

    def pinv(self) -> LinearOperator:
        return Kronecker([f.pinv() for f in self.factors])

    def column_norms(self, p: int) -> Floats:
        check_norm(p)
        check_fits(self.shape[1:], "use sensitivity(p), which needs the factors alone")
        return kron_product(f.column_norms(p) for f in self.factors)

    def sensitivity(self, p: int) -> float:
        """The product of the factors' sensitivities: norms of columns multiply, and none is negative."""
        return math.prod(f.sensitivity(p) for f in self.factors)

    def trace(self) -> float:
        if all(f.shape[0] == f.shape[1] for f in self.factors):
            return math.prod(f.trace() for f in self.factors)
        return LinearOperator.trace(self)


def kron_product(arrays: Iterable[Floats]) -> Floats:
    """The Kronecker product of arrays, built out."""
    return functools.reduce(lambda left, right: np.asarray(np.kron(left, right), dtype=np.float64), arrays)
