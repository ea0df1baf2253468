"""Exact draws on a device: uniform integers from bits of the operating system, and integers near powers of e."""

from __future__ import annotations

import os
from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

RandomBytes = Callable[[int], bytes]
SYSTEM_BYTES: RandomBytes = os.urandom

UNIT_BITS = 64
UNIT = 1 << UNIT_BITS  # the weight of an answer that is not the true one
LARGEST_EPSILON = 32
_WIDE = Context(prec=120, rounding=ROUND_FLOOR, Emax=MAX_EMAX, Emin=MIN_EMIN)
_SHORT = Decimal(10) ** -100  # relative; far above the rounding of 120 digits at arguments up to 32


def uniform_below(bound: int, random_bytes: RandomBytes = SYSTEM_BYTES) -> int:
    """A uniform integer from 0 to bound - 1, exactly: bits beyond the bound are drawn again."""
    bits = (bound - 1).bit_length()
    length = (bits + 7) // 8
    while True:
        drawn = int.from_bytes(random_bytes(length), "little") & ((1 << bits) - 1) if bits else 0
        if drawn < bound:
            return drawn


def scaled_exp(x: Fraction) -> int:
    """An integer at or just below 2^64 e^x, for 0 <= x <= 32; never above.

    Every ratio of weights is at most this over 2^64, hence at most e^x.

    >>> scaled_exp(Fraction(0)) <= 2**64, scaled_exp(Fraction(0)) >= 2**64 - 1
    (True, True)
    """
    argument = _WIDE.divide(Decimal(x.numerator), Decimal(x.denominator))
    power = _WIDE.multiply(_WIDE.exp(argument), _WIDE.subtract(Decimal(1), _SHORT))
    return int(_WIDE.multiply(power, Decimal(UNIT)).to_integral_value(ROUND_FLOOR))
