"""Columns of numbers: every integer of a range, and real numbers in bins."""

from __future__ import annotations

import bisect
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import ClassVar

import numpy as np

from hush.errors import SchemaError, shown
from hush.schema.column import LARGEST_INTEGER, Column, Outside, Value, check_outside

MOST_BINS = 2**20  # edges are held one by one


@dataclass(frozen=True, slots=True, kw_only=True)
class Integer(Column):
    """Every integer from `low` to `high`, both included."""

    low: int
    high: int
    outside: Outside = Outside.REFUSE

    kind: ClassVar[str] = "integer"

    def _check(self) -> None:
        for name in ("low", "high"):
            bound = getattr(self, name)
            whole = not isinstance(bound, bool | np.bool_) and hasattr(bound, "__index__")
            if not whole or abs(bound) > LARGEST_INTEGER:
                raise SchemaError(
                    f"column {self.name!r}: {name} = {shown(bound)}: expected an integer within -2^53 .. 2^53"
                )
            object.__setattr__(self, name, operator.index(bound))
        if self.low > self.high:
            raise SchemaError(f"column {self.name!r}: low = {self.low} is above high = {self.high}; swap them")
        object.__setattr__(self, "outside", check_outside(self.name, self.outside))

    @property
    def levels(self) -> int:
        return self.high - self.low + 1

    def value(self, code: int) -> Value:
        return self.low + code


@dataclass(frozen=True, slots=True, kw_only=True)
class Numeric(Column):
    """Real numbers in bins between given edges: [e_0, e_1), ..., [e_{k-1}, e_k], the last one closed.

    A level is decoded to the middle of its bin.
    """

    edges: tuple[float, ...]
    outside: Outside = Outside.REFUSE
    digits: int = field(init=False, repr=False, compare=False, default=6)  # enough to tell the edges apart

    kind: ClassVar[str] = "numeric"

    @classmethod
    def equal_width(
        cls,
        *,
        name: str,
        low: float,
        high: float,
        bins: int,
        outside: Outside = Outside.REFUSE,
        missing: bool = False,
        missing_values: Sequence[str] = (),
    ) -> Numeric:
        """`bins` bins of equal width from `low` to `high`."""
        if isinstance(bins, bool) or not isinstance(bins, int) or bins < 1:
            raise SchemaError(f"column {name!r}: bins = {shown(bins)}: expected an integer >= 1")
        low, high = _number(name, "low", low), _number(name, "high", high)
        if low >= high:
            raise SchemaError(f"column {name!r}: low = {low:g} is not below high = {high:g}; swap or widen them")
        if bins > MOST_BINS:
            raise SchemaError(f"column {name!r}: bins = {shown(bins)}: at most {MOST_BINS} are possible")
        return cls(
            name=name,
            edges=cls.edges_of_equal_width(low, high, bins),
            outside=outside,
            missing=missing,
            missing_values=tuple(missing_values),
        )

    @staticmethod
    def edges_of_equal_width(low: float, high: float, bins: int) -> tuple[float, ...]:
        """The floats nearest to e_k = low + (high - low) k / bins; the one place that decides how they are rounded.

        >>> Numeric.edges_of_equal_width(0, 100, 20)[11]
        55.0
        """
        start, width = Fraction(low), Fraction(high) - Fraction(low)
        return (low, *(float(start + width * k / bins) for k in range(1, bins)), high)

    def _check(self) -> None:
        if isinstance(self.edges, str | int | float):
            raise SchemaError(f"column {self.name!r}: edges = {shown(self.edges)}: expected a list of numbers")
        edges = tuple(_number(self.name, "edges", edge) for edge in self.edges)
        object.__setattr__(self, "edges", edges)
        if len(edges) < 2:
            raise SchemaError(f"column {self.name!r}: expected at least two edges, found {len(edges)}")
        if any(a >= b for a, b in pairwise(edges)):
            raise SchemaError(f"column {self.name!r}: edges must increase; use fewer bins or wider bounds")
        object.__setattr__(self, "outside", check_outside(self.name, self.outside))
        digits = next(n for n in (6, 9, 12, 15, 17) if len({f"{edge:.{n}g}" for edge in edges}) == len(edges))
        object.__setattr__(self, "digits", digits)

    @property
    def levels(self) -> int:
        return len(self.edges) - 1

    def value(self, code: int) -> Value:
        low, high = self.edges[code], self.edges[code + 1]
        middle = low / 2 + high / 2  # halves first: high - low may overflow
        return middle if low <= middle < high else low  # neighbouring floats have no middle

    def label(self, code: int) -> str:
        if not 0 <= code < self.levels:
            return Column.label(self, code)
        closing = "]" if code == self.levels - 1 else ")"
        low, high = (f"{edge:.{self.digits}g}" for edge in self.edges[code : code + 2])
        return f"[{low}, {high}{closing}"


def bin_of(column: Numeric, number: float) -> int:
    """The bin of a number within the bounds: the count of inner edges at or below it."""
    return bisect.bisect_right(column.edges, number, 1, column.levels) - 1


def edge_of(column: Numeric, number: float) -> int | None:
    """The place of the edge that is, or is shown as, a number: an edge of 1/3 is shown as 0.333333."""
    place = bisect.bisect_left(column.edges, number)
    near = [k for k in (place, place - 1) if 0 <= k <= column.levels]
    exact = [k for k in near if column.edges[k] == number]
    shown_so = [k for k in near if float(f"{column.edges[k]:.{column.digits}g}") == number]
    return next(iter(exact + shown_so), None)


def short(number: float) -> float:
    """A whole number as an integer, which a person reads more easily and which is read back the same."""
    return int(number) if number.is_integer() and abs(number) <= LARGEST_INTEGER else number


def _number(name: str, key: str, value: float) -> float:
    """A finite float, with -0.0 as 0.0."""
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
        try:
            number = float(value) + 0.0
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    raise SchemaError(f"column {name!r}: {key} = {shown(value)}: expected a finite number")
