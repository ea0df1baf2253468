"""Stopping: when what an estimator could still gain no longer matters beside the noise of the measurements.

For m numbers with Gaussian noise and the exact optimum mu*, convexity gives

    L(mu) - L(mu*) >= sum_j |Q_j (mu_j - mu*_j)|^2 / (2 stddev_j^2),

so a loss within m t^2 / 2 of the least one is a fit whose answers are within t standard deviations of the noise of
those of the exact optimum, in the root mean square. `tolerance` is that t. How far the least loss is below is judged
by how the losses fell, and not certain; a certain bound is mostly too far below to stop by. Of 3,000 small problems of
one attribute and one pair, those with standard deviations up to ten times apart ended beyond their tolerance in 0.6 %,
by about twice; with standard deviations a thousand times apart in 6 %, by about five times. Others may do worse.
"""

from __future__ import annotations

from hush.errors import WorkloadError, shown

TOLERANCE = 0.01
WINDOW = 10
SLOWEST = 0.99


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

    Of three values at iterations i < j < k the decreases are d0 and d1. Were decreases to go on shrinking by
    r = d1 / d0, d1 r / (1 - r) would be left. That is exact for losses that shrink by a fixed factor where i, j, k are
    equally far apart: it is said twice, or d1 if that is more, with two windows of ten iterations. It is exact for
    losses that shrink as a power of k, as they do where cells go to zero, where i, j, k are a quarter, half and all of
    the iterations. The two halves of the last window show decreases that grow again, as they do after measurements of
    little noise are met and those of much noise are not. The largest of the three is what remains.
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
