"""MarginalLoss, the interface of a convex loss of marginals; sums of losses, and losses that a user writes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import numpy as np

from hush.core.arrays import Floats, reordered
from hush.core.domain import Domain
from hush.core.errors import DataError, WorkloadError, shown
from hush.core.validation import check_number
from hush.inference.factors import Factors

LossFunction: TypeAlias = Callable[[list[Floats]], tuple[float, Sequence[Floats]]]

DIFFERENCE_STEP = 1e-5  # relative, for numerical second derivatives


class MarginalLoss(ABC):
    """A convex function L(mu) of the marginals of some cliques, held in one flat vector in the layout of `factors`."""

    factors: Factors
    numbers: int  # how many noisy numbers it is a misfit to; 0 if unknown
    smooth: bool  # whether the gradient is Lipschitz; only then are `curvature`, `diagonal` and `lipschitz` finite
    quadratic: bool = False  # whether the Hessian is the same everywhere

    @property
    @abstractmethod
    def lipschitz(self) -> float:
        """K: the largest eigenvalue of the Hessian anywhere, or an upper bound; infinite if not smooth."""

    @abstractmethod
    def value_and_gradient(self, flat: Floats, gradient: Floats) -> float:
        """L at `flat`; its gradient, or a subgradient, is written over `gradient`."""

    @abstractmethod
    def curvature(self, flat: Floats, vector: Floats, out: Floats | None = None) -> Floats:
        """The Hessian at `flat` times a vector, written into `out` if given; smooth losses only."""

    @abstractmethod
    def diagonal(self, flat: Floats) -> Floats:
        """The diagonal of the Hessian at `flat`, or an upper bound of it for each cell."""

    @abstractmethod
    def parts(self, flat: Floats) -> list[float]:
        """The losses of the single measurements, in the order given; they add up to L."""

    def value(self, flat: Floats) -> float:
        return self.value_and_gradient(flat, np.empty(self.factors.size))

    def refuse_curvature(self) -> NotImplementedError:
        """The error that a loss without second derivatives raises."""
        return NotImplementedError(f"{type(self).__name__} has no second derivative; check `smooth` before asking")


class SumLoss(MarginalLoss):
    """The sum of losses over the same factors, such as Gaussian and Laplace measurements together."""

    def __init__(self, losses: Sequence[MarginalLoss]) -> None:
        self.losses = tuple(losses)
        if not self.losses:
            raise WorkloadError("a sum of losses needs at least one; none were given")
        self.factors = self.losses[0].factors
        if any(loss.factors != self.factors for loss in self.losses):
            raise WorkloadError("the losses of a sum have different factors; construct them all with the same factors=")
        self.numbers = sum(loss.numbers for loss in self.losses)
        self.smooth = all(loss.smooth for loss in self.losses)
        self.quadratic = all(loss.quadratic for loss in self.losses)
        self._scratch = np.empty(self.factors.size)

    @property
    def lipschitz(self) -> float:
        return sum(loss.lipschitz for loss in self.losses)

    def value_and_gradient(self, flat: Floats, gradient: Floats) -> float:
        value = self.losses[0].value_and_gradient(flat, gradient)
        for loss in self.losses[1:]:
            value += loss.value_and_gradient(flat, self._scratch)
            gradient += self._scratch
        return value

    def curvature(self, flat: Floats, vector: Floats, out: Floats | None = None) -> Floats:
        total = self.losses[0].curvature(flat, vector, out)
        for loss in self.losses[1:]:
            total += loss.curvature(flat, vector, self._scratch)
        return total

    def diagonal(self, flat: Floats) -> Floats:
        return np.asarray(np.sum([loss.diagonal(flat) for loss in self.losses], axis=0))

    def parts(self, flat: Floats) -> list[float]:
        """Loss by loss, each in the order of its own measurements."""
        return [value for loss in self.losses for value in loss.parts(flat)]


class ReorderedLoss(MarginalLoss):
    """A loss of tables over one domain, for tables whose axes are in the order of another domain."""

    def __init__(self, loss: MarginalLoss, domain: Domain) -> None:
        self.loss = loss
        self.numbers, self.smooth, self.quadratic = loss.numbers, loss.smooth, loss.quadratic
        self.factors = Factors(domain, loss.factors.cliques)

    @property
    def lipschitz(self) -> float:
        return self.loss.lipschitz

    def value_and_gradient(self, flat: Floats, gradient: Floats) -> float:
        slopes = np.empty(self.factors.size)
        value = self.loss.value_and_gradient(self._inward(flat), slopes)
        self._outward(slopes, gradient)
        return value

    def curvature(self, flat: Floats, vector: Floats, out: Floats | None = None) -> Floats:
        return self._outward(self.loss.curvature(self._inward(flat), self._inward(vector)), out)

    def diagonal(self, flat: Floats) -> Floats:
        return self._outward(self.loss.diagonal(self._inward(flat)))

    def parts(self, flat: Floats) -> list[float]:
        return self.loss.parts(self._inward(flat))

    def _inward(self, flat: Floats) -> Floats:
        return _reordered_tables(flat, self.factors, self.loss.factors, np.empty(self.factors.size))

    def _outward(self, flat: Floats, out: Floats | None = None) -> Floats:
        return _reordered_tables(
            flat, self.loss.factors, self.factors, np.empty(self.factors.size) if out is None else out
        )


def _reordered_tables(flat: Floats, source: Factors, target: Factors, out: Floats) -> Floats:
    """The tables of `source` with their axes in the order of `target`, written into `out`."""
    for index, (names, order) in enumerate(zip(source.cliques, target.cliques, strict=True)):
        target.table(out, index)[...] = reordered(source.table(flat, index), names, order)
    return out


class CustomLoss(MarginalLoss):
    """A convex function of tables of counts that returns its value and its gradient for each table.

    The function gets one read-only table per clique, in the order given and with the clique's own order of axes. If
    `lipschitz` is given, a Lipschitz constant of the gradient, the loss counts as smooth and its curvature is computed
    from differences of gradients. Otherwise the function may return any subgradient.

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
        if lipschitz is not None:
            check_number(WorkloadError, "lipschitz", lipschitz, above=0, hint="; leave it out if unknown")
        self._cliques = [domain.check(clique) for clique in cliques]
        if not self._cliques:
            raise WorkloadError("a loss needs at least one clique; none were given")
        self.factors = Factors(domain, self._cliques) if factors is None else factors
        self.numbers, self.smooth = numbers, lipschitz is not None
        self._function = function
        self._lipschitz = math.inf if lipschitz is None else lipschitz
        self._indices = [self.factors.index(clique) for clique in self._cliques]

    @property
    def lipschitz(self) -> float:
        return self._lipschitz

    def value_and_gradient(self, flat: Floats, gradient: Floats) -> float:
        tables = self._tables(flat)
        for table in tables:
            table.setflags(write=False)
        result = self._function(tables)
        if not isinstance(result, tuple) or len(result) != 2:
            raise DataError(f"the loss function returned {shown(result)}: expected (value, list of gradients)")
        value, slopes = float(result[0]), list(result[1])
        if not math.isfinite(value):
            raise DataError(f"the loss function returned the value {value}: expected a finite number for any counts")
        if len(slopes) != len(tables):
            raise DataError(f"the loss function returned {len(slopes)} gradients for {len(tables)} tables")
        gradient[:] = 0.0
        for clique, target, given in zip(self._cliques, self._tables(gradient), slopes, strict=True):
            slope = np.asarray(given, dtype=np.float64)
            if slope.shape != target.shape or not np.isfinite(slope).all():
                raise DataError(
                    f"the loss function's gradient for {clique!r} has shape {slope.shape}: expected finite numbers of "
                    f"shape {target.shape}"
                )
            target += slope
        return value

    def _tables(self, flat: Floats) -> list[Floats]:
        """Views of the tables, with axes in the order of the cliques as given."""
        pairs = zip(self._cliques, self._indices, strict=True)
        return [reordered(self.factors.table(flat, i), self.factors.cliques[i], clique) for clique, i in pairs]

    def curvature(self, flat: Floats, vector: Floats, out: Floats | None = None) -> Floats:
        """(gradient(flat + h vector) - gradient(flat - h vector)) / 2 h."""
        if not self.smooth:
            raise self.refuse_curvature()
        change = np.empty(self.factors.size) if out is None else out
        length = float(np.linalg.norm(vector))
        if length == 0:
            change[:] = 0.0
            return change
        h = DIFFERENCE_STEP * max(1.0, float(np.linalg.norm(flat))) / length
        before = np.empty(self.factors.size)
        self.value_and_gradient(flat - h * vector, before)
        self.value_and_gradient(flat + h * vector, change)
        change -= before
        change /= 2 * h
        return change

    def diagonal(self, flat: Floats) -> Floats:
        if not self.smooth:
            raise self.refuse_curvature()
        return np.full(self.factors.size, self.lipschitz)

    def parts(self, flat: Floats) -> list[float]:
        return [self.value(flat)]
