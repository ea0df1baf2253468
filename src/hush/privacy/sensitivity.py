"""Sensitivity: how far one privacy unit can move integer answers, for either relation of neighbouring tables."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

from hush.core.errors import BudgetError, shown


class Neighbours(Enum):
    """Which tables are neighbours; every sensitivity depends on it.

    ADD_REMOVE: one table has a privacy unit that the other lacks, so the number of units is private.
    REPLACE: the rows of one unit are exchanged for those of another; the number of units is public.
    """

    ADD_REMOVE = "add or remove one unit"
    REPLACE = "replace one unit"


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The largest L1 distance, and squared L2 distance, between the answers on neighbouring tables, exactly.

    `single_cell` says that neighbours differ by one, in one coordinate.
    """

    l1: Fraction
    l2_squared: Fraction
    single_cell: bool = False

    def __post_init__(self) -> None:
        if not (self.l1 > 0 and self.l2_squared > 0):
            raise BudgetError(f"sensitivity {shown(self.l1)}, {shown(self.l2_squared)}: expected numbers above 0")


@dataclass(frozen=True, slots=True)
class RowNorms:
    """The most that one row can add to integer answers, over all rows that the domain allows.

    `l1` and `l2_squared` are the largest norms of a row's own contribution; `gap_l1` and `gap_l2_squared` those of the
    difference of two rows' contributions. `one_cell` says that a row adds one to a single coordinate.
    """

    l1: Fraction
    l2_squared: Fraction
    gap_l1: Fraction
    gap_l2_squared: Fraction
    one_cell: bool = False

    @classmethod
    def of_number(cls, added: int | Fraction, exchanged: int | Fraction) -> RowNorms:
        """For a number that adding a row moves by at most `added`, and exchanging a row by at most `exchanged`."""
        return cls.of_numbers(1, added, exchanged)

    @classmethod
    def of_numbers(cls, count: int, added: int | Fraction, exchanged: int | Fraction) -> RowNorms:
        """The same for several numbers at once, of which a row may move all.

        >>> RowNorms.of_numbers(3, 1, 2).gap_l2_squared
        Fraction(12, 1)
        """
        one, gap = Fraction(added), Fraction(exchanged)
        return cls(count * one, count * one**2, count * gap, count * gap**2)


ONE_CELL = RowNorms(Fraction(1), Fraction(1), Fraction(2), Fraction(2), one_cell=True)


def sensitivity(row: RowNorms, *, max_rows: int, neighbours: Neighbours) -> Sensitivity:
    """The sensitivity of answers that add up over rows, and of any numbers that `RowNorms.of_numbers` bounds.

    A unit has at most m rows, so adding or removing it moves the answers by at most m times the largest row: m l1 and
    m^2 l2^2. Replacing a unit of m rows by another of at most m rows moves them by at most
    m max(gap, own norm), since the numbers of rows may differ. Numbers that do not add up move no further either:
    each of the m rows is a step between two tables.

    Privacy: an upper bound for every pair of neighbours, attained when a unit repeats one row.
    """
    m = Fraction(max_rows)
    if neighbours is Neighbours.ADD_REMOVE:
        single = row.one_cell and max_rows == 1
        return Sensitivity(m * row.l1, m**2 * row.l2_squared, single)
    if neighbours is Neighbours.REPLACE:
        return Sensitivity(m * max(row.gap_l1, row.l1), m**2 * max(row.gap_l2_squared, row.l2_squared))
    raise BudgetError(f"neighbours={neighbours!r}: expected a member of Neighbours")
