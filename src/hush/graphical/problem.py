"""Problem: potentials in, loss and gradient out; what every estimator works on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from hush.domain import Clique
from hush.graphical.belief import Belief
from hush.graphical.marginal_loss import MarginalLoss

Floats = np.ndarray[Any, np.dtype[np.float64]]
STOPPED = "the callback asked to stop"

Callback: TypeAlias = Callable[[int, float, dict[Clique, Floats]], object]


@dataclass(slots=True)
class Point:
    """Potentials theta, the counts mu(theta) they imply, and the loss L(mu) with its gradient in mu."""

    potentials: Floats
    counts: Floats
    gradient: Floats
    value: float = np.inf


@dataclass(slots=True)
class Problem:
    """min over theta of L(mu(theta)), where mu(theta) are the counts of a graphical model that add up to `total`.

    L is convex in mu, and mu(theta) runs over the inside of all marginals that some distribution has, so that every
    local minimum is global.

    Reference: [HDMM, sec. 4.2].
    """

    belief: Belief
    loss: MarginalLoss
    total: float
    callback: Callback | None = None
    oracles: int = field(default=0, init=False)
    tangents: int = field(default=0, init=False)

    def point(self, potentials: Floats) -> Point:
        """A point with buffers of its own, evaluated."""
        size = self.loss.factors.size
        return self.evaluate(Point(np.array(potentials, dtype=np.float64), np.empty(size), np.empty(size)))

    def evaluate(self, point: Point) -> Point:
        """Counts, loss and gradient at the point's potentials, into its own buffers."""
        self.oracles += 1
        self.belief.marginals(point.potentials, self.total, point.counts)
        point.value = self.loss.value_and_gradient(point.counts, point.gradient)
        return point

    def tangent(self, direction: Floats, out: Floats) -> Floats:
        """The derivative of the counts of the last evaluation along a direction of potentials."""
        self.tangents += 1
        return self.belief.tangent(direction, out)

    def smooth_step(self, point: Point) -> float:
        """A length of step along the gradient to try first: the best one for the loss's bend in that direction."""
        if not self.loss.smooth:
            return 1.0 / max(float(np.abs(point.gradient).max()), 1e-300)
        change = self.tangent(point.gradient, np.empty_like(point.gradient))
        bend = float(change @ self.loss.curvature(point.counts, change))
        return float(point.gradient @ change) / bend if bend > 0.0 else 1.0

    def lower_bound(self, point: Point) -> float:
        """A value that no distribution's loss is below, from the gradient and the one record that it favours most.

        L(nu) >= L(mu) + <grad L(mu), nu - mu> for every nu, and the right side is least at a single record. Certain,
        but often far below: it needs the gradient to be nearly flat.
        """
        least = -self.total * self.belief.largest(-point.gradient)
        return point.value + least - float(point.gradient @ point.counts)

    def report(self, iteration: int, point: Point) -> bool:
        """Tell the callback where the estimator is; whether it asks to stop, by returning True."""
        if self.callback is None:
            return False
        factors = self.loss.factors
        tables = {clique: factors.table(point.counts, i) for i, clique in enumerate(factors.cliques)}
        for table in tables.values():
            table.setflags(write=False)  # of the view: the estimator goes on writing to what is behind it
        return self.callback(iteration, point.value, tables) is True

    def stats(self, point: Point, iterations: int, remaining: float) -> dict[str, float]:
        """Numbers for a Solution."""
        bound = self.lower_bound(point)
        return {
            "iterations": iterations,
            "oracles": self.oracles,
            "tangents": self.tangents,
            "value": point.value,
            "remaining": remaining,
            "lower_bound": bound,
            "gap": point.value - bound,
        }
