"""Noisy threshold: which keys of an unknown list may be released, with their noisy counts.

A key that n units hold gets integer noise Y. It is released, with its noisy count n + Y, if n + Y >= `threshold`. Keys
of fewer than `minimum` units are never released, so an engine need not even send them.

Privacy: let a unit add one to the counts of at most m keys. Call a key rare if the unit takes its count from
`minimum` - 1 to `minimum`; without the unit it cannot be released. A rare key is released with probability

    q = P(Y >= threshold - minimum),

so some rare key of the unit is released with probability m q at most. If none is, the output is that of the noise on
the counts of the unit's other keys, which move by one each. So the cost is that of noise of L1 sensitivity m and
squared L2 sensitivity m, except with probability m q, however the unit's keys divide into rare and others. Removing
the unit is the same with both tables exchanged.

q is bounded from above in integers. For t = threshold - minimum >= 1, with rational bounds on exp:

    Laplace   q = p^t / (1 + p),  p = exp(-1 / scale)
    Gaussian  q = sum over y >= t of exp(-y^2 / (2 sigma^2)) / Z,  Z >= max(1, sqrt(2 pi) sigma)

Z is the sum over all integers, at least its integral by Poisson summation. The sum over y >= t is cut into blocks of w
integers from a on; within a block (a + j)^2 >= a^2 + 2 a j, a geometric series. The last block has no end.

Reference: [Korolova et al. 2009] for the threshold; [BS16, sec. 8] for bounds that hold except with probability delta.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from hush.core.arrays import Integers
from hush.core.errors import BudgetError, shown
from hush.core.validation import check_whole
from hush.privacy.events import Event, RareKeyEvent, compose
from hush.privacy.exact_sampling import Entropy, exp_bounds
from hush.privacy.noise import LARGEST_SCALE, DiscreteGaussian, DiscreteLaplace
from hush.privacy.sensitivity import Sensitivity

TAIL_BITS = 192  # of bounds on probabilities
LEAST_DELTA = Fraction(1, 2**128)  # keeps rounding to 2^-192 far below a hundredth of it
MINIMUM_SHARE = 64  # a threshold may rise by this part of itself so that keys of few units stay in their engine
BLOCKS_PER_STDDEV = 8  # into which the Gaussian tail is cut; j^2 / (2 sigma^2) is below 1/128 within a block
NEGLIGIBLE_BITS = 16  # a block that starts at less than 2^-16 of the sum so far is the last one
_PI_FROM_BELOW = Fraction(3141592653589793, 10**15)


@dataclass(frozen=True, slots=True)
class NoisyThreshold:
    """Releases each key whose noisy count reaches a threshold, with that noisy count.

    >>> law = NoisyThreshold.for_delta(DiscreteLaplace(Fraction(2)), Fraction(1, 10**6))
    >>> law.threshold, law.minimum, float(law.delta) <= 1e-6
    (28, 1, True)

    Privacy: see the module.
    """

    noise: DiscreteGaussian | DiscreteLaplace
    threshold: int
    minimum: int = 1

    def __post_init__(self) -> None:
        if type(self.noise) not in (DiscreteGaussian, DiscreteLaplace):
            raise BudgetError(f"noise by {type(self.noise).__name__}: expected DiscreteGaussian or DiscreteLaplace")
        minimum = check_whole(BudgetError, "minimum", self.minimum, least=1, most=LARGEST_SCALE)
        threshold = check_whole(BudgetError, "threshold", self.threshold, least=minimum + 1, most=2**60)
        object.__setattr__(self, "minimum", minimum)
        object.__setattr__(self, "threshold", threshold)

    @classmethod
    def for_delta(
        cls, noise: DiscreteGaussian | DiscreteLaplace, delta: Fraction, *, minimum: int | None = None
    ) -> NoisyThreshold:
        """The least threshold at which a key of `minimum` units is released with probability delta at most.

        By default `minimum` is 1 and a 64th of the threshold more: a key of so few units is next to never released.
        """
        if not isinstance(delta, Fraction) or not LEAST_DELTA <= delta <= Fraction(1, 2):
            raise BudgetError(f"delta={shown(delta)} of a threshold: expected a Fraction from 2^-128 to 1/2")
        # Double the tail's start until its probability is small enough, then bisect; q falls as the start rises.
        low, high = 0, 1
        while tail_bound(noise, high) > delta:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if tail_bound(noise, middle) > delta else (low, middle)
        minimum = 1 + (high + 1) // MINIMUM_SHARE if minimum is None else minimum
        return cls(noise, high + minimum, minimum)

    def check(self) -> None:
        """Refuse what could release nothing; every threshold can be reached."""

    @property
    def delta(self) -> Fraction:
        """An upper bound on the probability that a key of `minimum` units is released."""
        return tail_bound(self.noise, self.threshold - self.minimum)

    def event(self, keys: int) -> Event:
        """The cost, for units that move the counts of at most `keys` keys by one each."""
        bound = Sensitivity(Fraction(keys), Fraction(keys), single_cell=keys == 1)
        return compose([self.noise.event(bound), RareKeyEvent(self.delta, keys)])

    @property
    def usual(self) -> int:
        """The least number of units at which a key is released at least half the time."""
        return self.threshold

    def released(self, keys: Sequence[Any], counts: Integers, entropy: Entropy) -> list[tuple[Any, int]]:
        """The released keys with their noisy counts, given how many units hold each key."""
        noisy = self.noise.sample(len(counts), entropy)
        noisy += counts
        chosen = np.flatnonzero((noisy >= self.threshold) & (counts >= self.minimum))
        return [(keys[int(place)], int(noisy[place])) for place in chosen]


@lru_cache(maxsize=4096)
def tail_bound(noise: DiscreteGaussian | DiscreteLaplace, start: int) -> Fraction:
    """An upper bound on P(Y >= start) for start >= 1; it exceeds the probability by less than 1 %.

    >>> float(tail_bound(DiscreteLaplace(Fraction(1)), 1)) - 1 / (1 + math.e) < 1e-15
    True
    """
    unit = 1 << TAIL_BITS
    if isinstance(noise, DiscreteLaplace):
        p = exp_bounds(1 / noise.scale, TAIL_BITS)[0]
        return Fraction(exp_bounds(start / noise.scale, TAIL_BITS)[1], unit + p)
    variance = noise.variance_parameter
    width = max(1, math.isqrt(variance.numerator // variance.denominator) // BLOCKS_PER_STDDEV)
    total, a, ended = 0, start, False
    while not ended:
        first = exp_bounds(a * a / (2 * variance), TAIL_BITS)[1]
        ratio = exp_bounds(a / variance, TAIL_BITS)[1]
        if ratio >= unit:
            raise BudgetError("noise of this scale is too large for a threshold; raise the budget")
        ended = first << NEGLIGIBLE_BITS < total or first == 1  # the series without an end then adds next to nothing
        beyond = 0 if ended else exp_bounds(a * width / variance, TAIL_BITS)[0]
        total += -(-first * (unit - beyond) // (unit - ratio))
        a += width
    return min(Fraction(total, unit) / _mass_from_below(variance), Fraction(1))


def _mass_from_below(variance: Fraction) -> Fraction:
    """A lower bound on the sum over all integers y of exp(-y^2 / (2 variance)): 1, or sqrt(2 pi variance)."""
    squared = 2 * _PI_FROM_BELOW * variance
    root = Fraction(math.isqrt(squared.numerator * 2**128 // squared.denominator), 2**64)
    return max(Fraction(1), root)
