"""Discovery: which keys of an unknown list may be released, such as queries that many people typed.

Nobody can list the keys beforehand, so a key that one person alone holds must stay unseen but for a small probability
delta. A key that n units hold is released with probability pi(n), and

    pi(0) = 0,  pi(n + 1) = min(e^eps pi(n) + delta, 1 - e^-eps (1 - pi(n) - delta), 1),

is the largest table for which the bit "released or not" is (eps, delta)-DP when n changes by one. A key of one unit is
released with probability delta exactly.

Proof: with p = pi(n) and q = pi(n + 1), the bit is (eps, delta)-DP if and only if q <= e^eps p + delta,
1 - p <= e^eps (1 - q) + delta, and the same with p and q exchanged. The first two are the two terms of the minimum, and
the others hold since p <= q. Rounding pi down to multiples of 2^-128 step by step, with e^eps rounded down and e^-eps
rounded up, keeps both. The bits of different keys are independent given the counts, so the losses and the deltas of the
keys that a unit moves add up; a key that no unit of either table holds is in neither.

Reference: [Desfontaines et al. 2022, Thm 1].
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from hush.core.arrays import Integers
from hush.core.errors import BudgetError
from hush.privacy.events import DiscoveryEvent, Event
from hush.privacy.exact_sampling import Entropy, exp_bounds, one_word

BITS = 128
ONE = 1 << BITS
LONGEST_TABLE = 1 << 20
_WORD = 64


@dataclass(frozen=True, slots=True)
class KeyDiscovery:
    """Release keys by how many units hold them, each at (epsilon, delta).

    >>> law = KeyDiscovery(Fraction(2), Fraction(1, 200_000))
    >>> law.probability(1), law.usual
    (Fraction(1, 200000), 7)

    Privacy: a unit that holds m keys moves m counts by one, or 2 m where units are exchanged; see the module.
    """

    epsilon: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        for name in ("epsilon", "delta"):
            if not isinstance(getattr(self, name), Fraction) or getattr(self, name) <= 0:
                raise BudgetError(f"discovery needs a positive {name}, as a Fraction")
        if self.delta > Fraction(1, 2) or self.epsilon > 64:
            raise BudgetError(
                f"epsilon={float(self.epsilon):g}, delta={float(self.delta):g}: too large to promise anything"
            )

    def check(self) -> None:
        """Refuse parameters so small that nothing would ever be released; public, so it comes before the charge."""
        _table(self.epsilon, self.delta)

    def event(self, keys: int) -> Event:
        """The cost, for units that move the counts of at most this many keys by one each."""
        return DiscoveryEvent(self.epsilon, self.delta, keys)

    @property
    def table(self) -> tuple[int, ...]:
        """2^128 pi(n) for n = 0, 1, ... up to the first n that is released always."""
        return _table(self.epsilon, self.delta)

    def probability(self, units: int) -> Fraction:
        """How likely a key that this many units hold is released, exactly as it is drawn.

        Exactly delta for one unit, where delta is a multiple of 2^-128 or a fraction p/q that is compared as such.
        """
        if units == 1:
            return self.delta
        return Fraction(self.table[min(units, len(self.table) - 1)], ONE)

    @property
    def usual(self) -> int:
        """The least number of units from which a key is released more often than not."""
        return next(units for units, chance in enumerate(self.table) if 2 * chance >= ONE)

    def choose(self, counts: Integers, entropy: Entropy) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which keys are released, given how many units hold each."""
        table = self.table
        high = np.array([min(chance >> _WORD, (1 << _WORD) - 1) for chance in table], dtype=np.uint64)
        units = np.minimum(counts, len(table) - 1)
        drawn = entropy.words(len(counts))
        chosen = drawn < high[units]
        always = units == len(table) - 1
        for index in np.flatnonzero((drawn == high[units]) & ~always):
            chosen[index] = self._finish(int(drawn[index]), int(units[index]), entropy)
        return np.asarray((chosen | always) & (counts > 0))

    def _finish(self, prefix: int, units: int, entropy: Entropy) -> bool:
        """Whether a uniform number that begins with these bits is below the probability, by drawing more of them."""
        chance, bits = self.probability(units), _WORD
        while True:
            prefix, bits = (prefix << _WORD) | one_word(entropy), bits + _WORD
            scaled = chance * (1 << bits)
            if prefix + 1 <= scaled:
                return True
            if prefix >= scaled:
                return False


@lru_cache(maxsize=64)
def _table(epsilon: Fraction, delta: Fraction) -> tuple[int, ...]:
    low, high = exp_bounds(epsilon, BITS)
    grown = ONE * ONE // high  # 2^128 e^eps, rounded down
    least = delta.numerator * ONE // delta.denominator
    if not least or not low:
        raise BudgetError(f"delta={float(delta):g}: too small for anything to be released; raise it")
    table = [0]
    while table[-1] < ONE:
        chance = table[-1]
        rest = max(ONE - chance - least, 0)
        table.append(min((grown * chance >> BITS) + least, ONE - (-(-high * rest >> BITS)), ONE))
        if len(table) > LONGEST_TABLE:
            raise BudgetError(f"epsilon={float(epsilon):g}: too small for anything to be released; raise it")
    return tuple(table)
