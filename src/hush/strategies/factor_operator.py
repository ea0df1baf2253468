"""FactorOperator: the strategy M / L of a factor as an implicit matrix."""

from __future__ import annotations

from hush.linops import LinearOperator, Transposed
from hush.linops.operator import Array
from hush.strategies.factor import Factor


class FactorOperator(LinearOperator):
    """M / L, by what the factor does along an axis.

    >>> from hush.strategies.basis import PlainBasis
    >>> FactorOperator(PlainBasis(2)).dense().tolist()
    [[0.5, -0.5], [-0.5, 0.5]]
    """

    __slots__ = ("factor",)

    def __init__(self, factor: Factor) -> None:
        self.factor = factor

    @property
    def shape(self) -> tuple[int, int]:
        return self.factor.rows, self.factor.size

    def matmat(self, x: Array) -> Array:
        return self.factor.forward(x, 0)

    def adjoint(self, y: Array) -> Array:
        return self.factor.backward(y, 0)

    def transpose(self) -> LinearOperator:
        return Transposed(self)
