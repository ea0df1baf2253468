"""Stopping: when what an estimator could still gain no longer matters beside the noise of the measurements.

For m numbers with Gaussian noise and the exact optimum mu*, convexity gives

    L(mu) - L(mu*) >= sum_j |Q_j (mu_j - mu*_j)|^2 / (2 stddev_j^2),

so a loss within m t^2 / 2 of the least one is a fit whose answers are within t standard deviations of the noise of
those of the exact optimum, in the root mean square. `tolerance` is that t.
"""

from __future__ import annotations

from hush.errors import WorkloadError, shown

TOLERANCE = 0.01
WINDOW = 10


def allowance(tolerance: float, numbers: int, value: float) -> float:
    """The loss that may remain: m t^2 / 2, or t^2 of the loss itself where the numbers are not known."""
    if not isinstance(tolerance, int | float) or isinstance(tolerance, bool) or not 0 < tolerance <= 1:
        raise WorkloadError(
            f"tolerance={shown(tolerance)}: expected a number above 0 and at most 1, the part of a standard deviation "
            "of the noise by which the fit may miss its exact optimum"
        )
    return 0.5 * tolerance**2 * numbers if numbers else tolerance**2 * abs(value)


class Remaining:
    """How much a decreasing sequence of losses still has to go, by the rate at which its decreases shrink.

    The decreases over the last two windows of ten iterations are d0 and d1. Were they to go on shrinking by d1 / d0
    from window to window, d1 r / (1 - r) would be left, r = d1 / d0; what is said is twice that, or d1 if that is more.
    """

    def __init__(self, window: int = WINDOW) -> None:
        self._window = window
        self._values: list[float] = []

    def add(self, value: float) -> float:
        """The next value; returns what remains, infinite until two windows are known."""
        self._values.append(value)
        w = self._window
        if len(self._values) <= 2 * w:
            return float("inf")
        last, middle, first = (self._values[-1 - k * w] for k in range(3))
        d0, d1 = first - middle, middle - last
        if d1 <= 0.0:
            return 0.0
        rate = min(d1 / d0, 0.99) if d0 > 0.0 else 0.99
        return max(d1, 2.0 * d1 * rate / (1.0 - rate))
