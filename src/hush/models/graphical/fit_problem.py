"""The problem that every descent solves, potentials of least loss, and the estimate of how far the loss can still fall.

A descent stops when its loss is within `tolerated_loss` of the least one: closer makes no difference beside the noise
of the measurements. How far the loss can still fall is estimated from how it fell so far (`Remaining`), because
certified lower bounds are mostly too loose. Of 3,000 small problems of one attribute and one pair, 0.6 % missed their
tolerance if standard deviations differed by up to a factor of 10, by about a factor of 2; with a factor of 1,000, 6 %
did, by about a factor of 5. Other problems may do worse.
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

STOPPED_BY_CALLBACK = "the callback asked to stop"
ITERATIONS_PER_WINDOW = 10  # iterations between the losses that `Remaining` compares
SLOWEST_RATE = 0.99  # at which decreases are assumed to shrink from window to window


class Remaining:
    """Estimate how far a decreasing sequence of losses can still fall, from how its decreases shrink.

    Three values at iterations i < j < k give two decreases d0 and d1. If decreases keep shrinking by r = d1 / d0, they
    add up to d1 r / (1 - r) from here on. `add` returns the largest of three such estimates:

    - from the last two windows of ten iterations, doubled and at least d1; exact for geometric convergence,
    - from a quarter, half and all of the iterations; exact for convergence as a power of k, as when cells go to zero,
    - from the halves of the last window; it sees decreases that grow again, as when precise measurements are fitted
      already and noisy ones are not.
    """

    def __init__(self, window: int = ITERATIONS_PER_WINDOW) -> None:
        self._window = window
        self._values: list[float] = []

    def add(self, value: float) -> float:
        """Append a loss, and return how far the losses can still fall; infinite until two windows are full."""
        self._values.append(value)
        k, w = len(self._values) - 1, self._window
        if k < 2 * w:
            return float("inf")
        d, steady = self._extrapolated(k - 2 * w, k - w, k)
        _, slowing = self._extrapolated(k // 4, k // 2, k)
        _, growing = self._extrapolated(k - w, k - w // 2, k)
        return max(d, 2.0 * steady, slowing, growing)

    def _extrapolated(self, i: int, j: int, k: int) -> tuple[float, float]:
        """The last decrease, and the sum of all decreases expected after it."""
        first, middle, last = (self._values[at] for at in (i, j, k))
        d0, d1 = first - middle, middle - last
        if d1 <= 0.0:
            return 0.0, 0.0
        rate = min(d1 / d0, SLOWEST_RATE) if d0 > 0.0 else SLOWEST_RATE
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

    L is convex in mu, and mu(theta) covers the interior of the set of marginals that some distribution has, so that
    every local minimum is global.

    Reference: [HDMM, sec. 4.2].
    """

    belief: Belief
    loss: MarginalLoss
    total: float
    callback: Callback | None = None
    oracles: int = field(default=0, init=False)
    tangents: int = field(default=0, init=False)

    def point(self, potentials: Floats) -> FitPoint:
        """A new point with buffers of its own, evaluated."""
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
        """The first step length to try along the gradient: the best one for the curvature in that direction."""
        if not self.loss.smooth:
            return 1.0 / max(float(np.abs(point.gradient).max()), 1e-300)
        change = self.tangent(point.gradient, np.empty_like(point.gradient))
        curvature = float(change @ self.loss.curvature(point.counts, change))
        return float(point.gradient @ change) / curvature if curvature > 0.0 else 1.0

    def lower_bound(self, point: FitPoint) -> float:
        """A certified lower bound on the loss of every distribution; often far below the least loss.

        L(nu) >= L(mu) + <grad L(mu), nu - mu> for every nu, and the right side is least if nu is a single record. The
        bound is tight only if the gradient is nearly constant.
        """
        least = -self.total * self.belief.largest(-point.gradient)
        return point.value + least - float(point.gradient @ point.counts)

    def report(self, iteration: int, point: FitPoint) -> bool:
        """Call the callback; whether it asks to stop, by returning True."""
        if self.callback is None:
            return False
        factors = self.loss.factors
        tables = {clique: factors.table(point.counts, i) for i, clique in enumerate(factors.cliques)}
        for table in tables.values():
            table.setflags(write=False)  # this view only: the descent still writes to the buffer
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
