"""ResidualQuery: the exact integer answers of one residual set, and the requests of a whole strategy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from hush.domain import Clique
from hush.errors import BudgetError, DataError, SizeError, WorkloadError
from hush.privacy.gate import LARGEST_ANSWER, Request
from hush.privacy.noise import DiscreteGaussian
from hush.privacy.query import Counts
from hush.privacy.sensitivity import RowNorms, sensitivity
from hush.strategies.basis import Basis
from hush.strategies.residual import ResidualStrategy

Integers = np.ndarray[Any, np.dtype[np.int64]]

LARGEST_ROWS = 2**32
_SHARE_BITS = 48


@dataclass(frozen=True, slots=True)
class ResidualQuery:
    """The integers (kron_{i in A} M_i) v_A of one set; for the empty set the total count.

    Privacy: a row adds the column of its cell, whose norms are products over the attributes, so the largest are the
    products of the largest. The difference of two columns has squared norm at most
    2 prod D_i (1 + max_i opposition_i), as derived in `coefficients`, and L1 norm at most twice the largest; the total
    does not move when a row is replaced.

    Answers are exact as long as the table has at most `LARGEST_ROWS` rows; more raise DataError instead of wrapping.
    Reference: [ResidualPlanner, Alg. 1], in integers and with noise on M v in place of correlated noise.
    """

    clique: Clique
    bases: tuple[Basis, ...]

    def __post_init__(self) -> None:
        if len(self.clique) != len(self.bases):
            raise WorkloadError(f"{len(self.bases)} bases for {len(self.clique)} attributes; give one each")
        if self.largest_factor * LARGEST_ROWS > LARGEST_ANSWER:
            raise SizeError(_too_large(self.clique, self.largest_factor))

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The one clique it reads."""
        return (self.clique,)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of its answers."""
        return tuple(basis.rows for basis in self.bases)

    @property
    def scale(self) -> int:
        """L_A = prod L_i: the answers are L_A times those of the base strategies."""
        return math.prod(basis.scale for basis in self.bases)

    @property
    def largest_factor(self) -> int:
        """The largest number that one row can add to an answer, in absolute value."""
        return math.prod(basis.largest_entry for basis in self.bases)

    @property
    def row_norms(self) -> RowNorms:
        """Exact for a row by itself; for two rows exact in L2 on plain bases, else a bound."""
        return _row_norms(self.bases)

    def answer(self, counts: Counts) -> Integers:
        """M along each axis; exact, since sums modulo 2^64 of numbers that fit in the end are right in the end."""
        values = counts[self.clique]
        if int(values.sum()) > LARGEST_ROWS:
            raise DataError(f"the table has more than {LARGEST_ROWS} rows, too many for exact residual answers")
        for axis, basis in enumerate(self.bases):
            values = basis.measure(values, axis)
        return np.asarray(values, order="C")


@lru_cache(maxsize=4096)
def _row_norms(bases: tuple[Basis, ...]) -> RowNorms:
    if not bases:
        return RowNorms(Fraction(1), Fraction(1), Fraction(0), Fraction(0), one_cell=True)
    l1 = Fraction(math.prod(basis.largest_l1 for basis in bases))
    l2 = Fraction(math.prod(basis.largest_l2_squared for basis in bases))
    return RowNorms(l1, l2, 2 * l1, 2 * l2 * (1 + max(basis.opposition for basis in bases)))


def requests(strategy: ResidualStrategy) -> list[Request]:
    """One request per set of the closure, in its order, whose exact costs add up to at most `strategy.rho`.

    Set A gets the share rho_A = p_A / (2 sigma^2_A), rounded down to a short binary fraction, and discrete Gaussian
    noise of variance Delta^2_A / (2 rho_A) on its integers, where Delta^2_A is the query's squared sensitivity; the
    variance in units of counts is sigma^2_A up to about 2^-47. All shares have a power of two below, so that sums over
    a hundred thousand sets stay short.

    Privacy: for units of one row under `strategy.neighbours`; for units of m rows plan with rho / m^2.
    """
    check_measurable(strategy)
    made = []
    laws: dict[tuple[Fraction, Fraction], DiscreteGaussian] = {}
    for clique, share in zip(strategy.closure, exact_shares(strategy), strict=True):
        query = ResidualQuery(clique, strategy.clique_bases(clique))
        norm = sensitivity(query.row_norms, max_rows=1, neighbours=strategy.neighbours).l2_squared
        law = laws.get((norm, share)) or DiscreteGaussian(norm / (2 * share))
        laws[norm, share] = law
        made.append(Request(query, law))
    return made


def check_measurable(strategy: ResidualStrategy) -> None:
    """Refuse, before anything is charged, a strategy with a set whose exact answers could overflow 64-bit integers."""
    entries = np.array([1.0 if basis is None else float(basis.largest_entry) for basis in strategy.bases])
    factors = strategy.closure.products(entries)
    worst = int(np.argmax(factors))
    if factors[worst] * LARGEST_ROWS > LARGEST_ANSWER:
        raise SizeError(_too_large(strategy.closure.cliques[worst], factors[worst]))


def exact_shares(strategy: ResidualStrategy) -> list[Fraction]:
    """The zCDP cost of each set, as binary fractions that add up to at most `strategy.rho`."""
    weights = strategy.privacy / (2 * strategy.sigma_squared)
    weights = weights * (float(strategy.rho) / max(math.fsum(weights), float(strategy.rho)) * (1 - 2.0**-47))
    known: Mapping[float, Fraction] = {weight: _round_down(weight) for weight in set(weights.tolist())}
    shares = [known[weight] for weight in weights.tolist()]
    total = sum_binary(shares)
    if total > strategy.rho or min(shares) <= 0:
        raise BudgetError(f"rho={float(strategy.rho)!r} is too small to be shared out among {len(shares)} sets")
    return shares


def sum_binary(values: list[Fraction]) -> Fraction:
    """The exact sum of fractions with powers of two below, over one common denominator."""
    bits = max((value.denominator.bit_length() for value in values), default=1)
    return Fraction(
        sum(value.numerator << (bits - value.denominator.bit_length()) for value in values), 1 << (bits - 1)
    )


def _round_down(weight: float) -> Fraction:
    """The largest fraction of `_SHARE_BITS` significant bits not above a float > 0."""
    mantissa, exponent = math.frexp(weight)
    shift = exponent - _SHARE_BITS
    return math.floor(math.ldexp(mantissa, _SHARE_BITS)) * Fraction(2) ** shift


def _too_large(clique: Clique, factor: float) -> str:
    return (
        f"measuring {', '.join(clique)} exactly needs numbers up to {factor:.3g} times the rows, more than 64-bit "
        f"integers hold for {LARGEST_ROWS} rows; use fewer attributes in one set, or fewer levels"
    )
