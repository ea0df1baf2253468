"""MarginalLoss: how badly marginals explain what was measured; and sums of losses.

A loss that was made for one order of attributes, over tables in another.

CustomLoss: any convex function of marginal tables.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import numpy as np

from hush.arrays import Floats
from hush.domain import Domain
from hush.errors import DataError, WorkloadError, shown
from hush.inference.factors import Factors


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
    def value_and_gradient(self, flat: Floats, gradient: Floats) -> float:
        """L at `flat`; its gradient, or a subgradient, is written over `gradient`."""

    @abstractmethod
    def curvature(self, flat: Floats, vector: Floats, out: Floats | None = None) -> Floats:
        """The Hessian at `flat` times a vector, written into `out` where given; not for losses that are not smooth."""

    @abstractmethod
    def diagonal(self, flat: Floats) -> Floats:
        """The diagonal of the Hessian at `flat`, or an upper bound of it for each cell."""

    @abstractmethod
    def parts(self, flat: Floats) -> list[float]:
        """The losses that add up to L, one per measurement in the order they were given."""

    def value(self, flat: Floats) -> float:
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

    def value_and_gradient(self, flat: Floats, gradient: Floats) -> float:
        value = self.losses[0].value_and_gradient(flat, gradient)
        for loss in self.losses[1:]:
            value += loss.value_and_gradient(flat, self._scratch)
            gradient += self._scratch
        return value

    def curvature(self, flat: Floats, vector: Floats, out: Floats | None = None) -> Floats:
        made = self.losses[0].curvature(flat, vector, out)
        for loss in self.losses[1:]:
            made += loss.curvature(flat, vector, self._scratch)
        return made

    def diagonal(self, flat: Floats) -> Floats:
        return np.asarray(np.sum([loss.diagonal(flat) for loss in self.losses], axis=0))

    def parts(self, flat: Floats) -> list[float]:
        """Loss by loss; each in the order of its own measurements."""
        return [part for loss in self.losses for part in loss.parts(flat)]


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

    def value_and_gradient(self, flat: Floats, gradient: Floats) -> float:
        theirs = np.empty(self.factors.size)
        value = self.loss.value_and_gradient(self._given(flat), theirs)
        self._own(theirs, gradient)
        return value

    def curvature(self, flat: Floats, vector: Floats, out: Floats | None = None) -> Floats:
        made = np.empty(self.factors.size) if out is None else out
        return self._own(self.loss.curvature(self._given(flat), self._given(vector)), made)

    def diagonal(self, flat: Floats) -> Floats:
        return self._own(self.loss.diagonal(self._given(flat)), np.empty(self.factors.size))

    def parts(self, flat: Floats) -> list[float]:
        return self.loss.parts(self._given(flat))

    def _given(self, flat: Floats) -> Floats:
        made = np.empty(self.factors.size)
        for index, axes in enumerate(self._axes):
            self.loss.factors.table(made, index)[...] = self.factors.table(flat, index).transpose(axes)
        return made

    def _own(self, theirs: Floats, out: Floats) -> Floats:
        for index, axes in enumerate(self._back):
            self.factors.table(out, index)[...] = self.loss.factors.table(theirs, index).transpose(axes)
        return out


LossFunction: TypeAlias = Callable[[list[Floats]], tuple[float, Sequence[Floats]]]

_STEP = 1e-5


class CustomLoss(MarginalLoss):
    """A convex function of tables of counts that returns its value and its gradient for each table.

    The function gets one read-only table per clique, in the order given and with axes in the clique's own order. Where
    `lipschitz`, an upper bound of how fast its gradient can change, is given the loss counts as smooth, and its
    curvature is found by differences of gradients; otherwise any subgradient will do.

    >>> def likelihood(tables):
    ...     (ages,) = tables
    ...     return -float(3 * np.log(ages[0]) + np.log(ages[1])), [np.array([-3 / ages[0], -1 / ages[1]])]
    >>> loss = CustomLoss(Domain({"age": 2}), [("age",)], likelihood)
    >>> gradient = np.empty(2)
    >>> round(loss.value_and_gradient(np.array([3.0, 1.0]), gradient), 3), gradient.tolist()
    (-3.296, [-1.0, -1.0])
    """

    def __init__(
        self,
        domain: Domain,
        cliques: Iterable[Iterable[str]],
        function: LossFunction,
        *,
        lipschitz: float | None = None,
        numbers: int = 0,
        factors: Factors | None = None,
    ) -> None:
        if not callable(function):
            raise WorkloadError(f"function={shown(function)}: expected a function of a list of tables")
        if lipschitz is not None and not (math.isfinite(lipschitz) and lipschitz > 0):
            raise WorkloadError(f"lipschitz={shown(lipschitz)}: expected a finite number > 0; leave it out if unknown")
        self._cliques = [domain.check(clique) for clique in cliques]
        if not self._cliques:
            raise WorkloadError("a loss of no cliques: expected at least one")
        self.factors = Factors(domain, self._cliques) if factors is None else factors
        self._function = function
        self._lipschitz = lipschitz
        self._numbers = numbers
        self._places = [
            (self.factors.index(clique), [domain.clique(clique).index(name) for name in clique])
            for clique in self._cliques
        ]

    @property
    def smooth(self) -> bool:
        return self._lipschitz is not None

    @property
    def lipschitz(self) -> float:
        return math.inf if self._lipschitz is None else self._lipschitz

    @property
    def numbers(self) -> int:
        return self._numbers

    def value_and_gradient(self, flat: Floats, gradient: Floats) -> float:
        tables = [self.factors.table(flat, index).transpose(axes) for index, axes in self._places]
        for table in tables:
            table.setflags(write=False)
        found = self._function(tables)
        if not isinstance(found, tuple) or len(found) != 2:
            raise DataError(f"the loss function returned {shown(found)}: expected (value, list of gradients)")
        value, slopes = float(found[0]), list(found[1])
        if not math.isfinite(value):
            raise DataError(f"the loss function returned the value {value}: expected a finite number for any counts")
        if len(slopes) != len(tables):
            raise DataError(f"the loss function returned {len(slopes)} gradients for {len(tables)} tables")
        gradient[:] = 0.0
        for clique, table, slope, (index, axes) in zip(self._cliques, tables, slopes, self._places, strict=True):
            own = np.asarray(slope, dtype=np.float64)
            if own.shape != table.shape or not np.isfinite(own).all():
                raise DataError(
                    f"the loss function's gradient for {clique!r} has shape {own.shape}: expected finite numbers of "
                    f"shape {table.shape}"
                )
            self.factors.table(gradient, index).transpose(axes)[...] += own
        return value

    def curvature(self, flat: Floats, vector: Floats, out: Floats | None = None) -> Floats:
        """(gradient(flat + h vector) - gradient(flat - h vector)) / 2 h."""
        if not self.smooth:
            raise self.refuse_curvature()
        made = np.empty(self.factors.size) if out is None else out
        length = float(np.linalg.norm(vector))
        if length == 0:
            made[:] = 0.0
            return made
        h = _STEP * max(1.0, float(np.linalg.norm(flat))) / length
        other = np.empty(self.factors.size)
        self.value_and_gradient(flat - h * vector, other)
        self.value_and_gradient(flat + h * vector, made)
        made -= other
        made /= 2 * h
        return made

    def diagonal(self, flat: Floats) -> Floats:
        if not self.smooth:
            raise self.refuse_curvature()
        return np.full(self.factors.size, self.lipschitz)

    def parts(self, flat: Floats) -> list[float]:
        return [self.value(flat)]
