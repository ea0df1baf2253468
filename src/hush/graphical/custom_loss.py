"""CustomLoss: any convex function of marginal tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import numpy as np

from hush.domain import Domain
from hush.errors import DataError, WorkloadError, shown
from hush.graphical.factors import Factors
from hush.graphical.marginal_loss import Array, MarginalLoss

LossFunction: TypeAlias = Callable[[list[Array]], tuple[float, Sequence[Array]]]

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

    def value_and_gradient(self, flat: Array, gradient: Array) -> float:
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

    def curvature(self, flat: Array, vector: Array, out: Array | None = None) -> Array:
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

    def diagonal(self, flat: Array) -> Array:
        if not self.smooth:
            raise self.refuse_curvature()
        return np.full(self.factors.size, self.lipschitz)

    def parts(self, flat: Array) -> list[float]:
        return [self.value(flat)]
