"""Exact fractions: as text "numerator/denominator" of any length, and rounded up or down to floats or short text.

Sums of costs have up to millions of digits, which Python would write and read in quadratic time if it did not refuse;
so long integers are written and read by halves.
"""

from __future__ import annotations

import math
import re
import sys
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal, Inexact
from fractions import Fraction

from hush.core.errors import BudgetError

LONGEST_TEXT = 1_000_000  # characters of a fraction that is read; a longer text is a mistake or an attack
_DIGITS_AT_ONCE = 512  # digits or bits; Python converts so many whatever its limit (640 at least)
_RATIONAL_TEXT = re.compile(r"(?:0|[1-9][0-9]*)/[1-9][0-9]*", re.ASCII)


def rational_text(value: Fraction) -> str:
    """A fraction >= 0 in lowest terms as text.

    >>> rational_text(Fraction(2, 6)), rational_text(Fraction(7))
    ('1/3', '7/1')
    """
    return f"{_digits(value.numerator)}/{_digits(value.denominator)}"


def parse_rational(text: object, name: str) -> Fraction:
    """The fraction that `rational_text` wrote; refuses other texts, such as '2/6', '0.5' or '1e9'.

    >>> parse_rational("1/3", "rho")
    Fraction(1, 3)
    """
    if isinstance(text, str) and len(text) <= LONGEST_TEXT and _RATIONAL_TEXT.fullmatch(text):
        numerator, denominator = (_integer(digits) for digits in text.split("/"))
        if math.gcd(numerator, denominator) == 1:
            return Fraction(numerator, denominator)
    raise BudgetError(f"{name}: expected a rational >= 0 in lowest terms, such as '1/3'")


def is_readable(value: Fraction) -> bool:
    """Whether `parse_rational` accepts the text of a fraction; False for some texts of nearly `LONGEST_TEXT` too."""
    bits = value.numerator.bit_length() + value.denominator.bit_length()
    return bits < LONGEST_TEXT or _most_digits(value.numerator) + _most_digits(value.denominator) + 1 <= LONGEST_TEXT


def is_text_of(text: str, value: Fraction) -> bool:
    """Whether a text is what `rational_text` writes for a fraction of any length.

    Much faster than writing the fraction or parsing the text, since neither is reduced to lowest terms.

    >>> is_text_of("1/3", Fraction(1, 3)), is_text_of("2/6", Fraction(1, 3))
    (True, False)
    """
    numerator, denominator = value.numerator, value.denominator
    if len(text) > _most_digits(numerator) + _most_digits(denominator) + 1 or not _RATIONAL_TEXT.fullmatch(text):
        return False
    return tuple(_integer(digits) for digits in text.split("/")) == (numerator, denominator)


def float_up(value: Fraction) -> float:
    """The smallest float not below an exact value; infinite beyond the largest float.

    >>> float_up(Fraction(1, 10)) >= Fraction(1, 10), float_up(Fraction(1, 4))
    (True, 0.25)
    """
    if abs(value) > sys.float_info.max:
        return math.inf if value > 0 else -sys.float_info.max
    near = float(value)
    return near if near >= value else math.nextafter(near, math.inf)


def float_down(value: Fraction) -> float:
    """The largest float not above an exact value.

    >>> float_down(Fraction(1, 10)) <= Fraction(1, 10), float_down(Fraction(1, 4))
    (True, 0.25)
    """
    return -float_up(-value)


def root_down(value: Fraction) -> float:
    """The largest float whose square is not above an exact value > 0.

    >>> root_down(Fraction(2)) ** 2 <= 2, root_down(Fraction(9))
    (True, 3.0)
    """
    doublings = (value.numerator.bit_length() - value.denominator.bit_length()) // 2
    scaled = value / Fraction(4) ** doublings  # within [1/4, 4], so that its float neither overflows nor underflows
    near = float_down(Fraction(math.sqrt(scaled)) * Fraction(2) ** doublings)
    while Fraction(near) ** 2 > value:
        near = math.nextafter(near, 0.0)
    while (above := math.nextafter(near, math.inf)) < math.inf and Fraction(above) ** 2 <= value:
        near = above
    return near


def shown_up(value: Fraction | float) -> str:
    """A number in five digits, rounded up.

    >>> shown_up(Fraction(1, 10)), shown_up(Fraction(1, 3)), shown_up(math.inf)
    ('0.1', '0.33334', 'inf')
    """
    return _shown(value, ROUND_CEILING)


def shown_down(value: Fraction | float) -> str:
    """A number in five digits, rounded down.

    >>> shown_down(Fraction(2, 3)), shown_down(12345678.0)
    ('0.66666', '1.2345e+7')
    """
    return _shown(value, ROUND_FLOOR)


def _shown(value: Fraction | float, rounding: str) -> str:
    if not math.isfinite(value):
        return str(value)
    exact = Fraction(repr(float(value))) if isinstance(value, float) else value  # 0.1 is meant as 1/10
    context = Context(prec=5, rounding=rounding)
    return f"{context.divide(Decimal(exact.numerator), Decimal(exact.denominator)):g}"


def _digits(value: int) -> str:
    """The decimal digits of an integer >= 0, by halves in `decimal`, which multiplies long numbers fast."""
    exact = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[Inexact])
    powers: dict[int, Decimal] = {}

    def power(bits: int) -> Decimal:
        if bits not in powers:
            half = bits // 2
            powers[bits] = (
                Decimal(1 << bits) if bits <= _DIGITS_AT_ONCE else exact.multiply(power(half), power(bits - half))
            )
        return powers[bits]

    def decimal(part: int, bits: int) -> Decimal:
        if bits <= _DIGITS_AT_ONCE:
            return Decimal(part)
        half = bits // 2
        high, low = part >> half, part & ((1 << half) - 1)
        return exact.add(exact.multiply(decimal(high, bits - half), power(half)), decimal(low, half))

    return format(decimal(value, value.bit_length()), "f")


def _most_digits(value: int) -> int:
    """The number of decimal digits of an integer, or one more."""
    return int(value.bit_length() * 0.30103) + 1


def _integer(text: str) -> int:
    """The integer of decimal digits, by halves."""
    if len(text) <= _DIGITS_AT_ONCE:
        return int(text)
    half = len(text) // 2
    power: int = 10**half
    return _integer(text[:-half]) * power + _integer(text[-half:])
