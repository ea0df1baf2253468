"""Formula: what a column of the answers is made of, offset + sum of coefficients x counts + weighted quotients."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from hush.domain import Clique
from hush.errors import QueryError
from hush.sql.cells import Cells, combine


@dataclass(frozen=True, slots=True)
class Quotient:
    """weight x numerator / denominator."""

    weight: float
    numerator: Formula
    denominator: Formula


@dataclass(frozen=True, slots=True)
class Formula:
    """offset + sum_x coefficients[x] count[x] + sum_i weight_i numerator_i / denominator_i, within each group.

    Closed under sums, multiples and division, so that every supported expression is one of these.
    """

    coefficients: Cells
    offset: float = 0.0
    quotients: tuple[Quotient, ...] = field(default=())

    def __post_init__(self) -> None:
        if not (math.isfinite(self.offset) and np.isfinite(self.coefficients.values).all()):
            raise QueryError("the numbers of the query grow beyond what a float can hold; use smaller constants")

    @property
    def constant(self) -> bool:
        """Whether no count enters it."""
        return not self.quotients and not self.coefficients.names and not float(self.coefficients.values)

    @property
    def linear(self) -> bool:
        """Whether its variance is that of a sum of counts, hence exact."""
        return not self.quotients

    @property
    def never_negative(self) -> bool:
        """Whether it is a sum of true counts with no negative weight."""
        return self.linear and self.offset >= 0 and bool(np.all(self.coefficients.values >= 0))

    @property
    def names(self) -> frozenset[str]:
        """The attributes on which it depends."""
        inner = [part.numerator.names | part.denominator.names for part in self.quotients]
        return frozenset(self.coefficients.names).union(*inner)

    def clique(self, groups: Clique) -> Clique:
        """The table it is computed from: the groups, then the other attributes in domain order."""
        domain = self.coefficients.domain
        return (*groups, *domain.clique(self.names - set(groups)))

    def plus(self, other: Formula) -> Formula:
        """The sum of both."""
        return Formula(
            combine(np.add, self.coefficients, other.coefficients),
            self.offset + other.offset,
            self.quotients + other.quotients,
        )

    def times(self, factor: float) -> Formula:
        """A multiple."""
        return Formula(
            combine(lambda values: values * factor, self.coefficients),
            self.offset * factor,
            tuple(Quotient(part.weight * factor, part.numerator, part.denominator) for part in self.quotients),
        )

    def over(self, denominator: Formula) -> Formula:
        """The quotient; an exact multiple where the denominator is a constant other than 0."""
        if denominator.constant and denominator.offset != 0:
            return self.times(1 / denominator.offset)
        nothing = Cells.constant(self.coefficients.domain, 0.0)
        return Formula(nothing, 0.0, (Quotient(1.0, self, denominator),))
