"""The problem that every estimator solves: the potentials of least loss, and when to stop looking for them.

An estimator stops when what it could still gain no longer matters beside the noise of the measurements. For m numbers
with Gaussian noise and the exact optimum mu*, convexity gives

    L(mu) - L(mu*) >= sum_j |Q_j (mu_j - mu*_j)|^2 / (2 stddev_j^2),

so a loss within m t^2 / 2 of the least one is a fit whose answers are within t standard deviations of the noise of
those of the exact optimum, in the root mean square. `tolerance` is that t. How far the least loss lies below is
estimated from how the losses fell; certain bounds are mostly too loose to stop by. Of 3,000 small problems of one
attribute and one pair, 0.6 % of those with standard deviations up to ten times apart missed their tolerance, by about a
factor of two; with standard deviations a thousand times apart 6 % did, by about five. Others may do worse.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from hush.core.arrays import Floats
from hush.core.domain import Clique
from hush.models.graphical.belief_propagation import Belief
from hush.models.graphical.marginal_loss import MarginalLoss

Callback: TypeAlias = Callable[[int, float, dict[Clique, Floats]], object]

STOPPED = "the callback asked to stop"
WINDOW = 10
SLOWEST = 0.99


class Remaining:
    """Estimate how far a decreasing sequence of losses still has to fall, from how its decreases shrink.

    Three values at iterations i < j < k give the decreases d0 and d1. If decreases go on shrinking by r = d1 / d0, then
    d1 r / (1 - r) remains. The largest of three estimates counts. Two windows of ten iterations are exact for losses
    that shrink by a fixed factor; that estimate is doubled, and is at least d1. A quarter, half and all of the
    iterations are exact for losses that shrink as a power of k, as where cells go to zero. The halves of the last
    window show decreases that grow again, as when the precise measurements are met and the noisy ones are not.
    """

    def __init__(self, window: int = WINDOW) -> None:
        self._window = window
        self._values: list[float] = []

    def add(self, value: float) -> float:
        """The next value; returns what remains, infinite until two windows are known."""
        self._values.append(value)
        k, w = len(self._values) - 1, self._window
        if k < 2 * w:
            return float("inf")
        d, steady = self._ahead(k - 2 * w, k - w, k)
        _, slowing = self._ahead(k // 4, k // 2, k)
        _, growing = self._ahead(k - w, k - w // 2, k)
        return max(d, 2.0 * steady, slowing, growing)

    def _ahead(self, i: int, j: int, k: int) -> tuple[float, float]:
        """The last decrease, and the sum of all that would follow it."""
        first, middle, last = (self._values[at] for at in (i, j, k))
        d0, d1 = first - middle, middle - last
        if d1 <= 0.0:
            return 0.0, 0.0
        rate = min(d1 / d0, SLOWEST) if d0 > 0.0 else SLOWEST
        return d1, d1 * rate / (1.0 - rate)


@dataclass(slots=True)
class FitPoint:
    """Potentials theta, the counts mu(theta) they imply, and the loss L(mu) with its gradient in mu."""

    potentials: Floats
    counts: Floats
    gradient: Floats
    value: float = np.inf


@dataclass(slots=True)
class FitProblem:
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

    def point(self, potentials: Floats) -> FitPoint:
        """A new point with new buffers, evaluated."""
        size = self.loss.factors.size
        return self.evaluate(FitPoint(np.array(potentials, dtype=np.float64), np.empty(size), np.empty(size)))

    def evaluate(self, point: FitPoint) -> FitPoint:
        """Counts, loss and gradient at the point's potentials, into its own buffers."""
        self.oracles += 1
        self.belief.marginals(point.potentials, self.total, point.counts)
        point.value = self.loss.value_and_gradient(point.counts, point.gradient)
        return point

    def tangent(self, direction: Floats, out: Floats) -> Floats:
        """The derivative of the counts of the last evaluation along a direction of potentials."""
        self.tangents += 1
        return self.belief.tangent(direction, out)

    def smooth_step(self, point: FitPoint) -> float:
        """A length of step along the gradient to try first: the best one for the loss's bend in that direction."""
        if not self.loss.smooth:
            return 1.0 / max(float(np.abs(point.gradient).max()), 1e-300)
        change = self.tangent(point.gradient, np.empty_like(point.gradient))
        bend = float(change @ self.loss.curvature(point.counts, change))
        return float(point.gradient @ change) / bend if bend > 0.0 else 1.0

    def lower_bound(self, point: FitPoint) -> float:
        """A value that no distribution's loss is below, from the gradient and the one record that it favours most.

        L(nu) >= L(mu) + <grad L(mu), nu - mu> for every nu, and the right side is least at a single record. Certain,
        but often far below: it needs the gradient to be nearly flat.
        """
        least = -self.total * self.belief.largest(-point.gradient)
        return point.value + least - float(point.gradient @ point.counts)

    def report(self, iteration: int, point: FitPoint) -> bool:
        """Tell the callback where the estimator is; whether it asks to stop, by returning True."""
        if self.callback is None:
            return False
        factors = self.loss.factors
        tables = {clique: factors.table(point.counts, i) for i, clique in enumerate(factors.cliques)}
        for table in tables.values():
            table.setflags(write=False)  # the view alone: the estimator still writes to its buffer
        return self.callback(iteration, point.value, tables) is True

    def stats(self, point: FitPoint, iterations: int, remaining: float) -> dict[str, float]:
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
