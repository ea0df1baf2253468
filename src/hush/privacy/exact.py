"""Exact comparisons of a uniform number with exp(-x), for where floating point cannot decide.

Everything is integer arithmetic: a real number is held between two multiples of 2^-bits.
"""

from __future__ import annotations

import math
from fractions import Fraction

from hush.privacy.entropy import Entropy, one_word

_WORD = 64


def exp_bounds(x: Fraction, bits: int) -> tuple[int, int]:
    """Integers (low, high) with low <= 2^bits exp(-x) <= high, for x >= 0; high - low is at most 1 for bits <= 300.

    exp(-x) = exp(-x / 2^k)^(2^k) with x / 2^k <= 1/2, by its alternating series; each step rounds outward.
    """
    if x == 0:
        return 1 << bits, 1 << bits
    if x > bits:  # exp(-x) < 2^-bits, and squaring would only lose bits
        return 0, 1
    halvings = max(0, math.ceil(x).bit_length() + 1)
    work = bits + 2 * halvings + 24
    low_t = (x.numerator << work) // (x.denominator << halvings)
    low, high = _series(low_t + 1, work, 0), _series(low_t, work, 1)
    for _ in range(halvings):
        low = (low * low) >> work
        high = -((-high * high) >> work)
    extra = work - bits
    return low >> extra, -((-high) >> extra)


def _series(t: int, work: int, parity: int) -> int:
    """A bound on 2^work exp(-t/2^work), 0 <= t/2^work <= 1/2+: below for parity 0, above for parity 1.

    Terms of the alternating series fall, so stopping after a negative (positive) one bounds from below (above).
    """
    total = low_term = high_term = 1 << work
    n = 0
    while n % 2 == parity or high_term > 1:
        n += 1
        low_term = (low_term * t) // (n << work)
        high_term = -((-high_term * t) // (n << work))
        if parity == 0:
            total += -high_term if n % 2 else low_term
        else:
            total += -low_term if n % 2 else high_term
    return total


def below_exp(prefix: int, bits: int, x: Fraction, entropy: Entropy) -> bool:
    """Whether U < exp(-x), where the first `bits` bits of the uniform number U are `prefix`.

    Draws further bits of U, a word at a time, until the bounds on exp(-x) decide; P(more than k words) <= 2^(1-64k).
    """
    while True:
        low, high = exp_bounds(x, bits)
        if prefix + 1 <= low:
            return True
        if prefix >= high:
            return False
        prefix = (prefix << _WORD) | one_word(entropy)
        bits += _WORD
