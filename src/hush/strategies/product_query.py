"""ProductQuery: exact integer answers of a Kronecker product of factors on a table of counts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from hush.domain import Clique
from hush.errors import DataError, SizeError, WorkloadError
from hush.linops.along import along_all
from hush.privacy.gate import LARGEST_ANSWER
from hush.privacy.query import Counts
from hush.privacy.sensitivity import ONE_CELL, RowNorms
from hush.strategies.factor import Factor, IdentityFactor

Integers = np.ndarray[Any, np.dtype[np.int64]]

LARGEST_ROWS = 2**32


@dataclass(frozen=True, slots=True)
class ProductQuery:
    """The integers (kron_g M_g) v, one factor per group of attributes; with no factors the total count.

    The cells of a group of several attributes are one axis, in row-major order.

    Privacy: a row adds the column of its cell, whose norms are products over the factors, so the largest are the
    products of the largest. Two columns have the inner product prod_g (M_g^T M_g)[r_g, s_g], each factor of which is at
    most D_g = max diag(M_g^T M_g) in absolute value, and at least -opposition_g D_g; so the squared norm of their
    difference is at most 2 prod D_g (1 + max_g opposition_g), and its L1 norm at most twice the largest. The total does
    not move when a row is replaced.

    Answers are exact as long as the table has at most `LARGEST_ROWS` rows; more raise DataError instead of wrapping.
    Reference: [ResidualPlanner, Alg. 1] and [HDMM, sec. 3.6], in integers.
    """

    groups: tuple[Clique, ...]
    factors: tuple[Factor, ...]

    def __post_init__(self) -> None:
        if len(self.groups) != len(self.factors):
            raise WorkloadError(f"{len(self.factors)} factors for {len(self.groups)} groups; give one each")
        if self.largest_factor * LARGEST_ROWS > LARGEST_ANSWER:
            raise SizeError(too_large(self.clique, self.largest_factor))

    @property
    def clique(self) -> Clique:
        """The attributes it reads."""
        return tuple(name for group in self.groups for name in group)

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The one clique it reads."""
        return (self.clique,)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of its answers: one axis per factor."""
        return tuple(factor.rows for factor in self.factors)

    @property
    def scale(self) -> int:
        """L = prod L_g: the answers are L times those of the strategy that the integers stand for."""
        return math.prod(factor.scale for factor in self.factors)

    @property
    def largest_factor(self) -> int:
        """The largest number that one row can add to an answer, in absolute value."""
        return math.prod(factor.largest_entry for factor in self.factors)

    @property
    def row_norms(self) -> RowNorms:
        """Exact for a row by itself; for two rows exact in L2 on plain bases, else a bound."""
        return _row_norms(self.factors)

    def answer(self, counts: Counts) -> Integers:
        """M along each axis; exact, since sums modulo 2^64 of numbers that fit in the end are right in the end."""
        values = counts[self.clique]
        if int(values.sum()) > LARGEST_ROWS:
            raise DataError(f"the table has more than {LARGEST_ROWS} rows, too many for exact answers")
        values = values.reshape([factor.size for factor in self.factors])
        return np.ascontiguousarray(
            along_all([factor.measure for factor in self.factors], values, self.shape, np.int64)
        ).reshape(self.shape)


@lru_cache(maxsize=4096)
def _row_norms(factors: tuple[Factor, ...]) -> RowNorms:
    if not factors:
        return RowNorms(Fraction(1), Fraction(1), Fraction(0), Fraction(0), one_cell=True)
    if all(isinstance(factor, IdentityFactor) for factor in factors):
        return ONE_CELL
    l1 = Fraction(math.prod(factor.largest_l1 for factor in factors))
    l2 = Fraction(math.prod(factor.largest_l2_squared for factor in factors))
    return RowNorms(l1, l2, 2 * l1, 2 * l2 * (1 + max(factor.opposition for factor in factors)))


def too_large(clique: Clique, factor: float) -> str:
    """Why a product cannot be measured in 64-bit integers."""
    return (
        f"measuring {', '.join(clique)} exactly needs numbers up to {factor:.3g} times the rows, more than 64-bit "
        f"integers hold for {LARGEST_ROWS} rows; use fewer attributes in one set, or fewer levels"
    )
