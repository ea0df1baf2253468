"""A loss that was made for one order of attributes, over tables in another."""

from __future__ import annotations

import numpy as np

from hush.domain import Domain
from hush.graphical.factors import Factors
from hush.graphical.marginal_loss import Array, MarginalLoss


class ReorderedLoss(MarginalLoss):
    """L over factors of the same cliques whose tables have the axes of another domain."""

    def __init__(self, loss: MarginalLoss, domain: Domain) -> None:
        self.loss = loss
        self.quadratic = loss.quadratic
        self.factors = Factors(domain, loss.factors.cliques)
        given, own = loss.factors.cliques, self.factors.cliques
        self._axes = [[mine.index(name) for name in theirs] for theirs, mine in zip(given, own, strict=True)]
        self._back = [[theirs.index(name) for name in mine] for theirs, mine in zip(given, own, strict=True)]

    @property
    def smooth(self) -> bool:
        return self.loss.smooth

    @property
    def lipschitz(self) -> float:
        return self.loss.lipschitz

    @property
    def numbers(self) -> int:
        return self.loss.numbers

    def value_and_gradient(self, flat: Array, gradient: Array) -> float:
        theirs = np.empty(self.factors.size)
        value = self.loss.value_and_gradient(self._given(flat), theirs)
        self._own(theirs, gradient)
        return value

    def curvature(self, flat: Array, vector: Array, out: Array | None = None) -> Array:
        made = np.empty(self.factors.size) if out is None else out
        return self._own(self.loss.curvature(self._given(flat), self._given(vector)), made)

    def diagonal(self, flat: Array) -> Array:
        return self._own(self.loss.diagonal(self._given(flat)), np.empty(self.factors.size))

    def parts(self, flat: Array) -> list[float]:
        return self.loss.parts(self._given(flat))

    def _given(self, flat: Array) -> Array:
        made = np.empty(self.factors.size)
        for index, axes in enumerate(self._axes):
            self.loss.factors.table(made, index)[...] = self.factors.table(flat, index).transpose(axes)
        return made

    def _own(self, theirs: Array, out: Array) -> Array:
        for index, axes in enumerate(self._back):
            self.factors.table(out, index)[...] = self.loss.factors.table(theirs, index).transpose(axes)
        return out
