"""MarginalLoss: how badly marginals explain what was measured; and sums of losses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from hush.errors import WorkloadError
from hush.graphical.factors import Factors

Array = np.ndarray[Any, np.dtype[np.float64]]


class MarginalLoss(ABC):
    """A convex function L(mu) of the marginals of some cliques, held in one flat vector as `factors` says."""

    factors: Factors
    quadratic: bool = False  # whether the Hessian is the same everywhere

    @property
    @abstractmethod
    def smooth(self) -> bool:
        """Whether the gradient is Lipschitz, so that `curvature`, `diagonal` and `lipschitz` are known."""

    @property
    @abstractmethod
    def lipschitz(self) -> float:
        """K: the largest eigenvalue of the Hessian anywhere, or an upper bound; infinite where not smooth."""

    @property
    @abstractmethod
    def numbers(self) -> int:
        """How many noisy numbers it measures the misfit to; 0 where that is not known."""

    @abstractmethod
    def value_and_gradient(self, flat: Array, gradient: Array) -> float:
        """L at `flat`; its gradient, or a subgradient, is written over `gradient`."""

    @abstractmethod
    def curvature(self, flat: Array, vector: Array, out: Array | None = None) -> Array:
        """The Hessian at `flat` times a vector, written into `out` where given; not for losses that are not smooth."""

    @abstractmethod
    def diagonal(self, flat: Array) -> Array:
        """The diagonal of the Hessian at `flat`, or an upper bound of it for each cell."""

    @abstractmethod
    def parts(self, flat: Array) -> list[float]:
        """The losses that add up to L, one per measurement in the order they were given."""

    def value(self, flat: Array) -> float:
        """L at `flat`."""
        return self.value_and_gradient(flat, np.empty(self.factors.size))

    def refuse_curvature(self) -> NotImplementedError:
        """The error of a loss that is not smooth."""
        return NotImplementedError(f"{type(self).__name__} has no second derivative; check `smooth` before asking")


class SumLoss(MarginalLoss):
    """The sum of losses over the same factors, such as Gaussian and Laplace measurements together."""

    def __init__(self, losses: Sequence[MarginalLoss]) -> None:
        self.losses = tuple(losses)
        if not self.losses:
            raise WorkloadError("a sum of no losses: expected at least one")
        self.factors = self.losses[0].factors
        if any(loss.factors != self.factors for loss in self.losses):
            raise WorkloadError("the losses of a sum have different factors; make each of them with factors=")
        self.quadratic = all(loss.quadratic for loss in self.losses)
        self._scratch = np.empty(self.factors.size)

    @property
    def smooth(self) -> bool:
        return all(loss.smooth for loss in self.losses)

    @property
    def lipschitz(self) -> float:
        return sum(loss.lipschitz for loss in self.losses)

    @property
    def numbers(self) -> int:
        return sum(loss.numbers for loss in self.losses)

    def value_and_gradient(self, flat: Array, gradient: Array) -> float:
        value = self.losses[0].value_and_gradient(flat, gradient)
        for loss in self.losses[1:]:
            value += loss.value_and_gradient(flat, self._scratch)
            gradient += self._scratch
        return value

    def curvature(self, flat: Array, vector: Array, out: Array | None = None) -> Array:
        made = self.losses[0].curvature(flat, vector, out)
        for loss in self.losses[1:]:
            made += loss.curvature(flat, vector, self._scratch)
        return made

    def diagonal(self, flat: Array) -> Array:
        return np.asarray(np.sum([loss.diagonal(flat) for loss in self.losses], axis=0))

    def parts(self, flat: Array) -> list[float]:
        """Loss by loss; each in the order of its own measurements."""
        return [part for loss in self.losses for part in loss.parts(flat)]
