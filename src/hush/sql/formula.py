"""Formulas: what a column of the answers is made of, and the numbers over cells that enter it.

A formula is offset + sum of coefficients x counts + weighted quotients. Its coefficients are `Cells`: one number for
every combination of levels of the attributes that matter, and of those only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from hush.arrays import NamedTable, Numbers, axes_outside
from hush.domain import Clique, Domain
from hush.errors import QueryError, SizeError

LARGEST_TABLE = 2**28


@dataclass(frozen=True, slots=True, eq=False)
class Cells(NamedTable):
    """A table over attributes in domain order, and constant along all others of the domain."""

    domain: Domain

    @classmethod
    def constant(cls, domain: Domain, value: float, dtype: type = float) -> Cells:
        """The same number everywhere."""
        return cls((), np.array(value, dtype=dtype), domain)

    @classmethod
    def over(cls, domain: Domain, name: str, values: Numbers) -> Cells:
        """Numbers over the levels of one attribute."""
        return cls((name,), values, domain).reduced()

    def reduced(self) -> Cells:
        """The same numbers without the axes along which they do not change."""
        names, values = list(self.names), self.values
        for axis in reversed(range(len(names))):
            first = values.take([0], axis)
            same = values == first
            if values.dtype.kind == "f":  # NaN stands for null, and null is like null
                same |= np.isnan(values) & np.isnan(first)
            if same.all():
                values = first.squeeze(axis)
                del names[axis]
        return Cells(tuple(names), values, self.domain)

    def any_over(self, names: Iterable[str]) -> Cells:
        """Whether anything is true, for every combination of levels of those of `names` that matter."""
        wanted = set(names)
        kept = tuple(name for name in self.names if name in wanted)
        return Cells(kept, np.asarray(self.values.any(axis=axes_outside(self.names, kept))), self.domain)


def combine(function: Callable[..., Numbers], *arguments: Cells) -> Cells:
    """A function of several arrays, cell by cell."""
    domain = arguments[0].domain
    names = domain.clique({name for argument in arguments for name in argument.names})
    check_size(domain, names)
    with np.errstate(over="ignore", invalid="ignore"):  # formulas refuse what is not finite
        values = function(*(argument.spread(names) for argument in arguments))
    return Cells(names, values, domain).reduced()


def check_size(domain: Domain, names: Clique) -> None:
    """Refuse a table that would not fit, before it is made."""
    cells = domain.size(names)
    if cells > LARGEST_TABLE:
        raise SizeError(
            f"the query needs a table over {', '.join(names)} with {cells:,} cells: at most {LARGEST_TABLE:,} are "
            "possible; name fewer columns, or coarsen their bins in the schema"
        )


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
        inner = [quotient.numerator.names | quotient.denominator.names for quotient in self.quotients]
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
            tuple(replace(quotient, weight=quotient.weight * factor) for quotient in self.quotients),
        )

    def over(self, denominator: Formula) -> Formula:
        """The quotient; an exact multiple where the denominator is a constant other than 0."""
        if denominator.constant and denominator.offset != 0:
            return self.times(1 / denominator.offset)
        nothing = Cells.constant(self.coefficients.domain, 0.0)
        return Formula(nothing, 0.0, (Quotient(1.0, self, denominator),))
