"""Discovery: which keys may be released when nobody can list them beforehand, such as queries that people typed.

A key that only one person holds may be released with a small probability delta at most. A key that n units hold is
released with probability pi(n), and

    pi(0) = 0,  pi(n + 1) = min(e^eps pi(n) + delta, 1 - e^-eps (1 - pi(n) - delta), 1),

are the largest probabilities for which the bit "released or not" is (eps, delta)-DP when n changes by one. So a key of
one unit is released with probability delta exactly.

Proof: with p = pi(n) and q = pi(n + 1), the bit is (eps, delta)-DP if and only if q <= e^eps p + delta,
1 - p <= e^eps (1 - q) + delta, and both hold with p and q exchanged. The first two are the terms of the minimum, and
the exchanged ones hold since p <= q. Rounding pi down to multiples of 2^-128 step by step, with e^eps rounded down and
e^-eps rounded up, preserves all four. The bits of different keys are independent given the counts, so the losses and
deltas of the keys that a unit holds add up. A key that no unit holds is never released.

Reference: [Desfontaines et al. 2022, Thm 1].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from hush.core.arrays import Integers
from hush.core.errors import BudgetError, shown
from hush.privacy.events import DiscoveryEvent, Event
from hush.privacy.exact_sampling import WORD_BITS, Entropy, exp_bounds, one_word

PROBABILITY_BITS = 128  # probabilities are multiples of 2^-128
PROBABILITY_ONE = 1 << PROBABILITY_BITS  # in these multiples
LONGEST_TABLE = 1 << 20


@dataclass(frozen=True, slots=True)
class KeyDiscovery:
    """Releases each key by an (epsilon, delta)-DP bit that depends on how many units hold the key.

    >>> law = KeyDiscovery(Fraction(2), Fraction(1, 200_000))
    >>> law.probability(1), law.usual
    (Fraction(1, 200000), 7)

    Privacy: a unit that holds m keys moves m counts by one, or 2 m counts where units are replaced; see the module.
    """

    epsilon: Fraction
    delta: Fraction
    minimum: ClassVar[int] = 1  # units that a key needs to be released at all

    def __post_init__(self) -> None:
        for name, value in (("epsilon", self.epsilon), ("delta", self.delta)):
            if not isinstance(value, Fraction) or value <= 0:
                raise BudgetError(f"{name}={shown(value)} of a key discovery: expected a Fraction above 0")
        if self.delta > Fraction(1, 2) or self.epsilon > 64:
            raise BudgetError(
                f"epsilon={float(self.epsilon):g}, delta={float(self.delta):g}: too large to promise anything"
            )

    def check(self) -> None:
        """Refuse parameters so small that nothing would ever be released; public, so it comes before the charge."""
        _table(self.epsilon, self.delta)

    def event(self, keys: int) -> Event:
        """The cost, for units that move the counts of at most `keys` keys by one each."""
        return DiscoveryEvent(self.epsilon, self.delta, keys)

    @property
    def table(self) -> tuple[int, ...]:
        """2^128 pi(n) for n = 0, 1, ... up to the first n at which a key is always released."""
        return _table(self.epsilon, self.delta)

    def probability(self, units: int) -> Fraction:
        """The exact probability that a key held by a number of units is released.

        For one unit it is delta itself, and not delta rounded to a multiple of 2^-128.
        """
        if units == 1:
            return self.delta
        return Fraction(self.table[min(units, len(self.table) - 1)], PROBABILITY_ONE)

    @property
    def usual(self) -> int:
        """The least number of units at which a key is released at least half the time."""
        return next(units for units, chance in enumerate(self.table) if 2 * chance >= PROBABILITY_ONE)

    def released(self, keys: Sequence[Any], counts: Integers, entropy: Entropy) -> list[Any]:
        """The released keys, given how many units hold each key."""
        return [keys[int(place)] for place in np.flatnonzero(self.choose(counts, entropy))]

    def choose(self, counts: Integers, entropy: Entropy) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which keys are released, given how many units hold each."""
        table = self.table
        high = np.array([min(chance >> WORD_BITS, (1 << WORD_BITS) - 1) for chance in table], dtype=np.uint64)
        units = np.minimum(counts, len(table) - 1)
        drawn = entropy.words(len(counts))
        chosen = drawn < high[units]
        always = units == len(table) - 1
        # A uniform number whose first word does not decide is drawn further, until it is below or above.
        for index in np.flatnonzero((drawn == high[units]) & ~always):
            chance, prefix, bits, below = self.probability(int(units[index])), int(drawn[index]), WORD_BITS, None
            while below is None:
                prefix, bits = (prefix << WORD_BITS) | one_word(entropy), bits + WORD_BITS
                scaled = chance * (1 << bits)
                below = True if prefix + 1 <= scaled else False if prefix >= scaled else None
            chosen[index] = below
        return np.asarray((chosen | always) & (counts > 0))


@lru_cache(maxsize=64)
def _table(epsilon: Fraction, delta: Fraction) -> tuple[int, ...]:
    low, high = exp_bounds(epsilon, PROBABILITY_BITS)
    grown = PROBABILITY_ONE * PROBABILITY_ONE // high  # 2^128 e^eps, rounded down
    least = delta.numerator * PROBABILITY_ONE // delta.denominator
    if not least or not low:
        raise BudgetError(f"delta={float(delta):g}: too small for anything to be released; raise it")
    table = [0]
    while table[-1] < PROBABILITY_ONE:
        chance = table[-1]
        rest = max(PROBABILITY_ONE - chance - least, 0)
        table.append(
            min(
                (grown * chance >> PROBABILITY_BITS) + least,
                PROBABILITY_ONE - (-(-high * rest >> PROBABILITY_BITS)),
                PROBABILITY_ONE,
            )
        )
        if len(table) > LONGEST_TABLE:
            raise BudgetError(f"epsilon={float(epsilon):g}: too small for anything to be released; raise it")
    return tuple(table)
