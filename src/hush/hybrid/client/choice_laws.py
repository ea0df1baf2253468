"""Exact laws for choices: k-ary randomised response, unary encoding for long lists, and records of two parts.

A law consists of integer weights. It draws by comparing a uniform integer, made of bits of the operating system, with
these weights, and `probability` divides the same weights. So the probabilities that tests enumerate are exactly those
of the draws; no floating-point number is involved.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from decimal import MAX_EMAX, MIN_EMIN, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

RandomBytes = Callable[[int], bytes]
SYSTEM_BYTES: RandomBytes = os.urandom

UNIT_BITS = 64
UNIT = 1 << UNIT_BITS  # the weight of an answer other than the true one
LARGEST_EPSILON = 32
_DECIMALS = Context(prec=120, rounding=ROUND_FLOOR, Emax=MAX_EMAX, Emin=MIN_EMIN)
_EXP_MARGIN = Decimal(10) ** -100  # relative; far above the rounding error of 120 digits at arguments up to 32


def uniform_below(bound: int, random_bytes: RandomBytes = SYSTEM_BYTES) -> int:
    """A uniform integer from 0 to bound - 1, exactly: a number beyond the bound is drawn again."""
    bits = (bound - 1).bit_length()
    length = (bits + 7) // 8
    while True:
        drawn = int.from_bytes(random_bytes(length), "little") & ((1 << bits) - 1) if bits else 0
        if drawn < bound:
            return drawn


def scaled_exp(x: Fraction) -> int:
    """An integer at or just below 2^64 e^x, for 0 <= x <= 32; never above.

    A weight of this much is at most e^x times the weight `UNIT`.

    >>> scaled_exp(Fraction(0)) <= 2**64, scaled_exp(Fraction(0)) >= 2**64 - 1
    (True, True)
    """
    return exp_below(x, UNIT_BITS)


def exp_below(x: Fraction, bits: int) -> int:
    """An integer at or just below 2^bits e^x, for x <= 32; never above."""
    argument = _DECIMALS.divide(Decimal(x.numerator), Decimal(x.denominator))
    power = _DECIMALS.multiply(_DECIMALS.exp(argument), _DECIMALS.subtract(Decimal(1), _EXP_MARGIN))
    return int(_DECIMALS.multiply(power, Decimal(1 << bits)).to_integral_value(ROUND_FLOOR))


class KaryResponse:
    """Report the true one of k options with weight `keep`, and each other option with weight `other`.

        P(true) = keep / (keep + (k - 1) other)

    Randomised response of epsilon and delta has keep : other = e^epsilon + (k - 1) delta/2 : 1 - delta/2, and k = 2 is
    the coin of [Warner 1965]. One option alone hides nothing.

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
        """The law whose true option has `ratio` / 2^64 times the weight of another."""
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
        """The exact probability of a report."""
        if self.size == 1:
            return Fraction(1)
        return Fraction(self.keep if report == value else self.other, self.total)

    def outputs(self) -> Iterator[int]:
        """Every possible report."""
        return iter(range(self.size))


class UnaryResponse:
    """Report a bit for every option: set with probability 1/2 for the true one, and q about 1/(e^eps+1) for others.

    A report is the integer made of its bits. For k > 3 e^epsilon + 2 options the estimates have less variance than with
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
        """The exact probability of a report."""
        chance = Fraction(1)
        for option in range(self.size):
            p_set = Fraction(1, 2) if option == value else Fraction(self.rare, UNIT)
            chance *= p_set if report >> option & 1 else 1 - p_set
        return chance

    def outputs(self) -> Iterator[int]:
        """Every possible report: 2^k of them."""
        return iter(range(1 << self.size))


Record = tuple[int, int]  # the places of a query, and of its URL


class RecordResponse:
    """Report a query by k-ary response; then its URL by k-ary response if the true query was reported, else any URL.

    `sizes[q]` is k_q, the number of URLs of query q, including the wildcard.

        P(q, u | q, u)   = t t_q                  t   keeps the query, at epsilon_Q = share epsilon
        P(q, u' | q, u)  = t (1 - t_q)/(k_q - 1)  t_q keeps the URL, at epsilon_U
        P(q', u' | q, u) = (1 - t)/(k - 1) / k_q'

    t follows from the number of queries k, never from the number of records.

    By default epsilon_U is as large as the promise allows. Probabilities of a report differ by a factor of at most
    e^epsilon_U for two records of one query, and of at most e^epsilon_Q k_q X/(X + k_q - 1), with X = e^epsilon_U, for
    records of two queries. Both factors are at most e^epsilon for

        X = min(e^epsilon, R (k_q - 1)/(k_q - R)),  R = e^(epsilon - epsilon_Q),

    or X = e^epsilon if k_q <= R. Without `spend_slack`, X = R, as plain composition gives it.

    Privacy: e^epsilon for every pair of records, and delta where it is given (`spend_slack` uses none).
    Differs from [Avent 2023, Alg. 2.4]: its proof adds epsilon_Q and epsilon_U, which leaves part of epsilon unspent.
    """

    __slots__ = ("query", "sizes", "urls")

    def __init__(
        self,
        sizes: Sequence[int],
        epsilon: Fraction,
        delta: Fraction = Fraction(0),
        *,
        share: Fraction,
        spend_slack: bool = True,
    ) -> None:
        self.sizes = tuple(sizes)
        query_epsilon = share * epsilon
        self.query = KaryResponse(len(self.sizes), query_epsilon, share * delta)
        if spend_slack:
            left, most = scaled_exp(epsilon - query_epsilon), scaled_exp(epsilon)
            self.urls = tuple(KaryResponse.of_ratio(size, _url_ratio(size, left, most)) for size in self.sizes)
        else:
            self.urls = tuple(KaryResponse(size, epsilon - query_epsilon, delta - share * delta) for size in self.sizes)

    def draw(self, value: Record, random_bytes: RandomBytes = SYSTEM_BYTES) -> Record:
        """A record, given the true one."""
        query, url = value
        reported = self.query.draw(query, random_bytes)
        if reported != query:
            return reported, uniform_below(self.sizes[reported], random_bytes)
        return query, self.urls[query].draw(url, random_bytes)

    def probability(self, value: Record, report: Record) -> Fraction:
        """The exact probability of a report."""
        chance = self.query.probability(value[0], report[0])
        if report[0] == value[0]:
            return chance * self.urls[value[0]].probability(value[1], report[1])
        return chance / self.sizes[report[0]]

    def outputs(self) -> Iterator[Record]:
        """Every possible report."""
        return ((query, url) for query, size in enumerate(self.sizes) for url in range(size))


def _url_ratio(size: int, left: int, most: int) -> int:
    """2^64 X, for `left` = 2^64 R and `most` = 2^64 e^epsilon."""
    if size * UNIT <= left:
        return most
    return min(most, left * (size - 1) * UNIT // (size * UNIT - left))
