"""Formulas: how a column of the answers is computed from counts, and the numbers over cells that enter it.

A formula is offset + sum of coefficients x counts + measured sums + weighted quotients. Its coefficients are `Cells`:
one number for every combination of levels of the attributes that matter. If only the bin of a value is known, the
coefficient is the middle of the bin, and `low` and `high` are its ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from hush.core.arrays import NamedTable, Numbers, axes_outside
from hush.core.domain import Clique, Domain
from hush.core.errors import QueryError, SizeError
from hush.privacy.sum_query import ValueGrid

LARGEST_TABLE = 2**28  # cells
TRUE, UNKNOWN, FALSE = 1, 0, -1  # so that AND is the minimum, OR the maximum and NOT the negative


@dataclass(frozen=True, slots=True, eq=False)
class Cells(NamedTable):
    """A table over some attributes in domain order, constant along all others."""

    domain: Domain

    @classmethod
    def constant(cls, domain: Domain, value: float, dtype: type = float) -> Cells:
        """The same number everywhere."""
        return cls((), np.array(value, dtype=dtype), domain)

    def reduced(self) -> Cells:
        """The same numbers without the axes along which they are constant."""
        names, values = list(self.names), self.values
        for axis in reversed(range(len(names))):
            first = values.take([0], axis)
            same = values == first
            if values.dtype.kind == "f":  # NaN stands for null, and null equals null here
                same |= np.isnan(values) & np.isnan(first)
            if same.all():
                values = first.squeeze(axis)
                del names[axis]
        return Cells(tuple(names), values, self.domain)

    def any_over(self, names: Iterable[str]) -> Cells:
        """Whether any cell is true, for every combination of levels of those of `names` that matter."""
        requested = set(names)
        kept = tuple(name for name in self.names if name in requested)
        return Cells(kept, np.asarray(self.values.any(axis=axes_outside(self.names, kept))), self.domain)


def combine(function: Callable[..., Numbers], *arguments: Cells) -> Cells:
    """A function of several arrays, cell by cell."""
    domain = arguments[0].domain
    names = domain.clique({name for argument in arguments for name in argument.names})
    check_size(domain, names)
    with np.errstate(over="ignore", invalid="ignore"):  # formulas refuse infinite results
        values = function(*(argument.spread(names) for argument in arguments))
    return Cells(names, values, domain).reduced()


def check_size(domain: Domain, names: Clique) -> None:
    """Refuse a table that is too large, before it is computed."""
    cells = domain.size(names)
    if cells > LARGEST_TABLE:
        raise SizeError(
            f"the query needs a table over {', '.join(names)} with {cells:,} cells: at most {LARGEST_TABLE:,} are "
            "possible; name fewer columns, or coarsen their bins in the schema"
        )


@dataclass(frozen=True, slots=True)
class RowValue:
    """The number that one row adds, NaN for null, and its bounds if only its bin is known."""

    middle: Cells
    low: Cells | None = None  # like `high`, None if the number is known
    high: Cells | None = None

    @property
    def ends(self) -> tuple[Cells, Cells]:
        """The least and the largest possible number."""
        return self.low or self.middle, self.high or self.middle

    def apply(self, function: Callable[..., Numbers], *others: Cells) -> RowValue:
        """A function of the number and other arrays, cell by cell, that is non-decreasing in the number."""
        if self.low is None:
            return RowValue(combine(function, self.middle, *others))
        return RowValue(*(combine(function, side, *others) for side in (self.middle, *self.ends)))

    def negative(self) -> RowValue:
        """The number with its sign changed."""
        flipped = self.apply(np.negative)
        return RowValue(flipped.middle, flipped.high, flipped.low)

    def with_other(self, function: Callable[..., Numbers], other: RowValue) -> RowValue:
        """A sum or a product of both; its ends are the extremes over all ends."""
        middle = combine(function, self.middle, other.middle)
        if self.low is None and other.low is None:
            return RowValue(middle)
        corners = [combine(function, a, b) for a in self.ends for b in other.ends]

        def extreme(pick: Callable[..., Numbers]) -> Cells:
            return combine(lambda *sides: np.asarray(pick(np.broadcast_arrays(*sides))), *corners)

        return RowValue(middle, extreme(np.minimum.reduce), extreme(np.maximum.reduce))

    def chosen(self, condition: Cells, other: RowValue) -> RowValue:
        """This number where a condition is true, another elsewhere."""

        def choose(truths: Numbers, yes: Numbers, no: Numbers) -> Numbers:
            return np.where(truths == TRUE, yes, no)

        middle = combine(choose, condition, self.middle, other.middle)
        if self.low is None and other.low is None:
            return RowValue(middle)
        pairs = zip(self.ends, other.ends, strict=True)
        return RowValue(middle, *(combine(choose, condition, mine, theirs) for mine, theirs in pairs))


@dataclass(frozen=True, slots=True)
class KnownSum:
    """A measured sum of values: its index, the clique it is grouped by, the grid of its values and its noise."""

    index: int
    clique: Clique
    grid: ValueGrid
    stddev: float  # of its noisy integers


@dataclass(frozen=True, slots=True)
class SumPart:
    """sum_x coefficients[x] integers[x] over the cells of the table of a measured sum."""

    known: KnownSum
    coefficients: Cells


@dataclass(frozen=True, slots=True)
class Quotient:
    """weight x numerator^power / denominator; with `positive`, no answer unless the denominator is above 0."""

    weight: float
    numerator: Formula
    denominator: Formula
    power: int = 1
    positive: bool = False


@dataclass(frozen=True, slots=True)
class Formula:
    """offset + sum_x coefficients[x] count[x] + sum_i weight_i numerator_i / denominator_i, within each group.

    Closed under sums, multiples and division, so that every supported expression is a formula. `low` and `high` bound
    the coefficients if they are known only up to bins. `sums` are measured sums, which are added; the coefficients are
    then those of the centre that the sums are measured from.
    """

    coefficients: Cells
    offset: float = 0.0
    quotients: tuple[Quotient, ...] = field(default=())
    low: Cells | None = None
    high: Cells | None = None
    sums: tuple[SumPart, ...] = ()

    def __post_init__(self) -> None:
        if not (math.isfinite(self.offset) and np.isfinite(self.coefficients.values).all()):
            raise QueryError("the numbers of the query grow beyond what a float can hold; use smaller constants")

    @property
    def constant(self) -> bool:
        """Whether it depends on no count."""
        if self.quotients or self.sums:
            return False
        return not self.coefficients.names and not float(self.coefficients.values)

    @property
    def linear(self) -> bool:
        """Whether it is a sum of counts, so that its variance is exact."""
        return not self.quotients

    @property
    def counts_rows(self) -> bool:
        """Whether it depends on counts, and not only on measured sums."""
        inner = (quotient.numerator.counts_rows or quotient.denominator.counts_rows for quotient in self.quotients)
        return bool(self.coefficients.values.any()) or any(inner)

    @property
    def never_negative(self) -> bool:
        """Whether it is a sum of counts with non-negative weights."""
        return self.linear and not self.sums and self.offset >= 0 and bool(np.all(self.coefficients.values >= 0))

    @property
    def names(self) -> frozenset[str]:
        """The attributes on which it depends."""
        inner = [quotient.numerator.names | quotient.denominator.names for quotient in self.quotients]
        ends = [side.names for side in (self.low, self.high) if side is not None]
        summed = (part.coefficients.names for part in self.sums)
        return frozenset(self.coefficients.names).union(*inner, *ends, *summed)

    @property
    def binned(self) -> bool:
        """Whether it adds up values of which only the bins are known."""
        inner = (quotient.numerator.binned or quotient.denominator.binned for quotient in self.quotients)
        return self.low is not None or any(inner)

    def end(self, *, high: bool) -> Formula | None:
        """The formula at the least or the largest possible binned values; None if these are unknown.

        A quotient is monotone in its denominator only if both are never negative.
        """
        side = self.high if high else self.low
        quotients = []
        if self.binned and any(quotient.power != 1 for quotient in self.quotients):
            return None
        for quotient in self.quotients:
            upward = high == (quotient.weight >= 0)
            above = quotient.numerator.end(high=upward)
            below = quotient.denominator.end(high=not upward)
            if above is None or below is None:
                return None
            if quotient.denominator.binned and not (above.never_negative and below.never_negative):
                return None
            quotients.append(replace(quotient, numerator=above, denominator=below))
        return Formula(self.coefficients if side is None else side, self.offset, tuple(quotients), sums=self.sums)

    def clique(self, groups: Clique) -> Clique:
        """The clique of the table it is computed from: the groups, then the other attributes in domain order."""
        domain = self.coefficients.domain
        return (*groups, *domain.clique(self.names - set(groups)))

    def plus(self, other: Formula) -> Formula:
        """The sum of both."""
        low = high = None
        if self.low is not None or other.low is not None:
            low = combine(np.add, self.low or self.coefficients, other.low or other.coefficients)
            high = combine(np.add, self.high or self.coefficients, other.high or other.coefficients)
        return Formula(
            combine(np.add, self.coefficients, other.coefficients),
            self.offset + other.offset,
            self.quotients + other.quotients,
            low,
            high,
            self.sums + other.sums,
        )

    def times(self, factor: float) -> Formula:
        """A multiple."""

        def scaled(cells: Cells) -> Cells:
            return combine(lambda values: values * factor, cells)

        low, high = (None if side is None else scaled(side) for side in (self.low, self.high))
        return Formula(
            scaled(self.coefficients),
            self.offset * factor,
            tuple(replace(quotient, weight=quotient.weight * factor) for quotient in self.quotients),
            *((low, high) if factor >= 0 else (high, low)),
            tuple(replace(part, coefficients=scaled(part.coefficients)) for part in self.sums),
        )

    def over(self, denominator: Formula) -> Formula:
        """The quotient; an exact multiple if the denominator is a constant other than 0."""
        if denominator.constant and denominator.offset != 0:
            return self.times(1 / denominator.offset)
        nothing = Cells.constant(self.coefficients.domain, 0.0)
        return Formula(nothing, 0.0, (Quotient(1.0, self, denominator),))
