"""Laws for one choice of several: k-ary randomised response, and unary encoding for long lists.

A law is made of integer weights. It draws by comparing a uniform integer with them, and `probability` divides the very
same weights, so that the matrix of probabilities which a test enumerates is the one that is drawn with.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from hush.hybrid.client.device_bits import (
    SYSTEM_BYTES,
    UNIT,
    UNIT_BITS,
    RandomBytes,
    scaled_exp,
    uniform_below,
)


class KaryResponse:
    """Report the true one of k options with the weight `keep`, and each other one with the weight `other`.

        P(true) = keep / (keep + (k - 1) other)

    Randomised response of epsilon and delta has keep : other = e^epsilon + (k - 1) delta/2 : 1 - delta/2, and k = 2 is
    the coin of [Warner 1965]. With one option there is nothing to hide.

    Privacy: at delta = 0 no answer is more than keep / other <= e^epsilon times as likely for one option as for
    another. With delta, P(true) - e^epsilon P(true from another option) <= delta/2, and no other answer exceeds its
    bound.
    Reference: [Kairouz, Bonawitz and Ramage 2016]; [Avent 2023, Alg. 2.4] for delta.
    """

    __slots__ = ("keep", "other", "size")

    def __init__(self, size: int, epsilon: Fraction, delta: Fraction = Fraction(0)) -> None:
        half = UNIT * delta.numerator // (2 * delta.denominator)
        self.size = size
        self.keep = scaled_exp(epsilon) + half * (size - 1)
        self.other = UNIT - half

    @classmethod
    def of_ratio(cls, size: int, ratio: int) -> KaryResponse:
        """The law whose true option weighs `ratio` / 2^64 times as much as another."""
        law = cls.__new__(cls)
        law.size, law.keep, law.other = size, ratio, UNIT
        return law

    @property
    def total(self) -> int:
        return self.keep + (self.size - 1) * self.other

    def draw(self, value: int, random_bytes: RandomBytes = SYSTEM_BYTES) -> int:
        """An option, given the true one."""
        if self.size == 1:
            return 0
        drawn = uniform_below(self.total, random_bytes)
        if drawn < self.keep:
            return value
        option = (drawn - self.keep) // self.other
        return option + (option >= value)

    def probability(self, value: int, report: int) -> Fraction:
        """How likely a report is, exactly."""
        if self.size == 1:
            return Fraction(1)
        return Fraction(self.keep if report == value else self.other, self.total)

    def outputs(self) -> Iterator[int]:
        """Every possible report."""
        return iter(range(self.size))


class UnaryResponse:
    """Report a bit for every option: the true one's is set with probability 1/2, each other with q about 1/(e^eps+1).

    A report is the integer of its bits. For k > 3 e^epsilon + 2 options the estimates have less variance than those of
    k-ary response.

    Privacy: two options change two bits, and the largest ratio is (1/2 (1 - q)) / (q 1/2) = (1 - q)/q <= e^epsilon,
    since q 2^64 is rounded up.
    Reference: [Wang et al. 2017, sec. 4.3], optimised unary encoding.
    """

    __slots__ = ("rare", "size")

    def __init__(self, size: int, epsilon: Fraction) -> None:
        self.size = size
        self.rare = -(-UNIT * UNIT // (scaled_exp(epsilon) + UNIT))

    def draw(self, value: int, random_bytes: RandomBytes = SYSTEM_BYTES) -> int:
        """The bits of one report, as an integer."""
        length = UNIT_BITS // 8
        words = random_bytes(length * self.size)
        bits = 0
        for option in range(self.size):
            word = int.from_bytes(words[option * length : (option + 1) * length], "little")
            bits |= (word < (UNIT // 2 if option == value else self.rare)) << option
        return bits

    def probability(self, value: int, report: int) -> Fraction:
        """How likely a report is, exactly."""
        chance = Fraction(1)
        for option in range(self.size):
            one = Fraction(1, 2) if option == value else Fraction(self.rare, UNIT)
            chance *= one if report >> option & 1 else 1 - one
        return chance

    def outputs(self) -> Iterator[int]:
        """Every possible report: 2^k of them."""
        return iter(range(1 << self.size))
