"""Laws for one bounded number, all exact: discrete Laplace and Gaussian noise, Duchi's two points, the piecewise law.

A number between two bounds is rounded at random to one of the two nearest steps j of a grid, 0 <= j <= steps, so that j
is unbiased. A law turns j into a whole number `report` with

    E report = intercept + slope j,

with rational intercept and slope, so that (report - intercept)/slope is an unbiased estimate of j.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator
from fractions import Fraction
from itertools import accumulate

from hush.hybrid.client.choice_laws import (
    SYSTEM_BYTES,
    UNIT,
    UNIT_BITS,
    RandomBytes,
    exp_below,
    scaled_exp,
    uniform_below,
)

TAIL_BITS = 60  # Laplace reports are clamped where a draw ends with probability below 2^-60
GAUSSIAN_BITS = 256  # of the weight of no noise
GAUSSIAN_REACH = 9  # standard deviations; noise beyond has a probability below 2^-60, and its weight is 0


def step_of(value: Fraction, lower: Fraction, upper: Fraction, steps: int, random_bytes: RandomBytes) -> int:
    """The step of a number within its bounds, rounded at random without bias."""
    position = (value - lower) / (upper - lower) * steps
    step, rest = divmod(position.numerator, position.denominator)
    return step + (rest > 0 and uniform_below(position.denominator, random_bytes) < rest)


class LaplaceResponse:
    """j plus a two-sided geometric number: P(y) proportional to a^|y|, a = e^(-epsilon/steps) rounded up to 2^-64.

    Reports are clamped to a range that they leave with probability below 2^-60.

    Privacy: one step changes any probability by a factor of at most 1/a <= e^(epsilon/steps), and clamping does not
    depend on j.
    """

    __slots__ = ("decay", "reach", "steps")
    slope = Fraction(1)
    intercept = Fraction(0)

    def __init__(self, steps: int, epsilon: Fraction) -> None:
        self.steps = steps
        self.decay = min(-(-UNIT * UNIT // scaled_exp(epsilon / steps)), UNIT - 1)
        self.reach = int(TAIL_BITS * Fraction(7, 10) * steps / epsilon) + 1  # ln 2 < 7/10

    def draw(self, value: int, random_bytes: RandomBytes = SYSTEM_BYTES) -> int:
        """A report, given the step."""
        while True:
            negative = uniform_below(2, random_bytes) == 1
            size = self._geometric(random_bytes)
            if size or not negative:
                break
        return min(max(value + (-size if negative else size), -self.reach), self.steps + self.reach)

    def _geometric(self, random_bytes: RandomBytes) -> int:
        """The number of heads in a row of a coin of probability a, up to where every report is clamped anyway."""
        size, most, length = 0, self.steps + 2 * self.reach, UNIT_BITS // 8
        while True:
            words = random_bytes(length * 32)
            for start in range(0, length * 32, length):
                if int.from_bytes(words[start : start + length], "little") >= self.decay or size == most:
                    return size
                size += 1

    def probability(self, value: int, report: int) -> Fraction:
        """The exact probability of a report; each end has the probability of everything beyond it."""
        a = Fraction(self.decay, UNIT)
        tail = a ** abs(report - value) / (1 + a)
        return tail if report in (-self.reach, self.steps + self.reach) else tail * (1 - a)

    def outputs(self) -> Iterator[int]:
        """Every possible report."""
        return iter(range(-self.reach, self.steps + self.reach + 1))

    def variance(self, value: int) -> Fraction:
        """The variance of an estimate of the step: 2 a/(1 - a)^2."""
        a = Fraction(self.decay, UNIT)
        return 2 * a / (1 - a) ** 2


class DuchiResponse:
    """Report 1 or 0; the probability of 1 grows linearly from about 1/(e^eps + 1) to e^eps/(e^eps + 1).

    Privacy: the probabilities at both ends differ by a factor of keep / 2^64 <= e^epsilon, and others lie between them.
    Reference: [Duchi, Jordan and Wainwright 2018, sec. 3.2].
    """

    __slots__ = ("intercept", "keep", "slope", "steps", "total")

    def __init__(self, steps: int, epsilon: Fraction) -> None:
        self.steps = steps
        self.keep = scaled_exp(epsilon)
        self.total = steps * (self.keep + UNIT)
        self.slope = Fraction(self.keep - UNIT, self.total)
        self.intercept = Fraction(UNIT * steps, self.total)

    def _weight(self, value: int) -> int:
        return self.keep * value + UNIT * (self.steps - value)

    def draw(self, value: int, random_bytes: RandomBytes = SYSTEM_BYTES) -> int:
        """A report, given the step."""
        return int(uniform_below(self.total, random_bytes) < self._weight(value))

    def probability(self, value: int, report: int) -> Fraction:
        """The exact probability of a report."""
        p = Fraction(self._weight(value), self.total)
        return p if report else 1 - p

    def outputs(self) -> Iterator[int]:
        """Every possible report."""
        return iter((0, 1))

    def variance(self, value: int) -> Fraction:
        """The variance of an estimate of the step."""
        p = self.probability(value, 1)
        return p * (1 - p) / self.slope**2


class PiecewiseResponse:
    """Report one of steps + width whole numbers; those from j to j + width - 1 have e^epsilon times the weight.

    The width is about steps e^(-epsilon/2), which minimises the variance.

    Privacy: every weight is keep or 2^64, and their sum is the same for every j.
    Reference: [Wang et al. 2019, Alg. 2], here on a grid.
    """

    __slots__ = ("intercept", "keep", "size", "slope", "steps", "total", "width")

    def __init__(self, steps: int, epsilon: Fraction) -> None:
        self.steps = steps
        self.keep = scaled_exp(epsilon)
        self.width = max(1, (2 * steps * UNIT + scaled_exp(epsilon / 2)) // (2 * scaled_exp(epsilon / 2)))
        self.size = steps + self.width  # possible reports
        self.total = self.width * self.keep + steps * UNIT
        self.slope = Fraction((self.keep - UNIT) * self.width, self.total)
        window, everything = self.width * (self.width - 1), self.size * (self.size - 1)
        self.intercept = Fraction((self.keep - UNIT) * window + UNIT * everything, 2 * self.total)

    def draw(self, value: int, random_bytes: RandomBytes = SYSTEM_BYTES) -> int:
        """A report, given the step."""
        drawn = uniform_below(self.total, random_bytes)
        inside = self.width * self.keep
        if drawn < inside:
            return value + drawn // self.keep
        report = (drawn - inside) // UNIT
        return report + (self.width if report >= value else 0)

    def probability(self, value: int, report: int) -> Fraction:
        """The exact probability of a report."""
        return Fraction(self.keep if value <= report < value + self.width else UNIT, self.total)

    def outputs(self) -> Iterator[int]:
        """Every possible report."""
        return iter(range(self.size))

    def variance(self, value: int) -> Fraction:
        """The variance of an estimate of the step."""
        window = _squares(value + self.width) - _squares(value)
        second = Fraction((self.keep - UNIT) * window + UNIT * _squares(self.size), self.total)
        return (second - (self.intercept + self.slope * value) ** 2) / self.slope**2


def _squares(stop: int) -> int:
    """0^2 + 1^2 + ... + (stop - 1)^2."""
    return (stop - 1) * stop * (2 * stop - 1) // 6


class GaussianResponse:
    """j plus z, a whole number of weight about 2^256 e^(-z^2 / (2 s^2)) for |z| <= 9 s, with s = `spread` in steps.

    For means whose clients and curator both add Gaussian noise, so that each group also hides the other.

    Privacy: with delta = sum over y of max(0, P(y | 0) - e^epsilon P(y | steps)), by `delta`. The weights are
    log-concave: one product of neighbours is below a square by a factor e^(1/s^2), and rounding changes a weight by a
    part of 2^-150 at most. So likelihood ratios are monotone, the worst set of reports is everything up to some y, and
    no two steps are further apart than 0 and `steps`.
    """

    __slots__ = ("reach", "spread", "starts", "steps", "weights")
    slope = Fraction(1)
    intercept = Fraction(0)

    def __init__(self, steps: int, spread: Fraction) -> None:
        self.steps, self.spread = steps, spread
        self.reach = math.ceil(GAUSSIAN_REACH * spread)
        # the weight of z + 1 is that of z times r^(2 z + 1), with r = e^(-1 / (2 s^2))
        ratio = exp_below(-1 / (2 * spread**2), GAUSSIAN_BITS)
        square, half = ratio * ratio >> GAUSSIAN_BITS, [1 << GAUSSIAN_BITS]
        for _ in range(self.reach):
            half.append(half[-1] * ratio >> GAUSSIAN_BITS)
            ratio = ratio * square >> GAUSSIAN_BITS
        self.weights = half[:0:-1] + half
        self.starts = list(accumulate(self.weights, initial=0))

    @classmethod
    def for_promise(cls, steps: int, epsilon: Fraction, delta: Fraction) -> GaussianResponse:
        """The law of least spread, up to a thousandth, that keeps epsilon and delta."""
        law = cls(steps, Fraction(math.ceil(1000 * steps * continuous_spread(epsilon, delta)), 1000))
        while law.delta(epsilon) > delta:
            law = cls(steps, Fraction(math.ceil(1001 * law.spread), 1000))
        return law

    def delta(self, epsilon: Fraction) -> Fraction:
        """An upper bound on delta at epsilon, exact but for e^epsilon, which is rounded down."""
        power, w, steps = scaled_exp(epsilon), self.weights, self.steps
        gaps = (UNIT * w[y] - (power * w[y - steps] if y >= steps else 0) for y in range(len(w)))
        return Fraction(sum(gap for gap in gaps if gap > 0), UNIT * self.starts[-1])

    def draw(self, value: int, random_bytes: RandomBytes = SYSTEM_BYTES) -> int:
        """A report, given the step."""
        return value + bisect_right(self.starts, uniform_below(self.starts[-1], random_bytes)) - 1 - self.reach

    def probability(self, value: int, report: int) -> Fraction:
        """The exact probability of a report."""
        noise = report - value
        return Fraction(self.weights[noise + self.reach] if abs(noise) <= self.reach else 0, self.starts[-1])

    def outputs(self) -> Iterator[int]:
        """Every possible report."""
        return iter(range(-self.reach, self.steps + self.reach + 1))

    def variance(self, value: int) -> Fraction:
        """The variance of an estimate of the step, about s^2."""
        squares = sum(z * z * weight for z, weight in enumerate(self.weights[self.reach :]))
        return Fraction(2 * squares, self.starts[-1])


def continuous_spread(epsilon: Fraction, delta: Fraction) -> float:
    """The standard deviation s of continuous Gaussian noise for a promise at sensitivity 1, up to a part of 10^-4.

    delta = P(Z < 1/(2 s) - epsilon s) - e^epsilon P(Z < -1/(2 s) - epsilon s)
    """
    e, low, high = float(epsilon), 2.0**-10, 2.0**30
    while high > 1.0001 * low:
        s = math.sqrt(low * high)
        above = math.erfc((e * s - 0.5 / s) / math.sqrt(2)) / 2
        below = math.exp(e) * math.erfc((e * s + 0.5 / s) / math.sqrt(2)) / 2
        low, high = (low, s) if above - below <= delta else (s, high)
    return high


NumberLaw = LaplaceResponse | DuchiResponse | PiecewiseResponse | GaussianResponse
# laws of pure epsilon, among which a question may choose
NUMBER_LAWS: dict[str, type[LaplaceResponse] | type[DuchiResponse] | type[PiecewiseResponse]] = {
    "laplace": LaplaceResponse,
    "duchi": DuchiResponse,
    "piecewise": PiecewiseResponse,
}
