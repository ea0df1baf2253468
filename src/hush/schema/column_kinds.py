"""The kinds of column: declared values, true or false, integers, real numbers in bins, and dates.

`KINDS` has them by the names that schema files use.
"""

from __future__ import annotations

import bisect
import datetime as dt
import math
import operator
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from itertools import pairwise
from typing import ClassVar

import numpy as np

from hush.csv_cells import cell_text
from hush.errors import SchemaError, check_text, shown
from hush.schema.column import (
    LARGEST_INTEGER,
    MISSING_LABEL,
    OTHER,
    OTHER_LABEL,
    Column,
    Outside,
    Value,
    canonical,
    check_flag,
    check_outside,
)

MOST_BINS = 2**20  # edges are held one by one


@dataclass(frozen=True, slots=True, kw_only=True)
class Categorical(Column):
    """Declared values; anything else is refused, or goes to a level `other` when `other` is true."""

    values: tuple[Value, ...]
    other: bool = False

    kind: ClassVar[str] = "categorical"

    def _check(self) -> None:
        if isinstance(self.values, str):
            raise SchemaError(f"column {self.name!r}: values = {shown(self.values)}: expected a list of values")
        object.__setattr__(self, "values", tuple(_category(self.name, value) for value in self.values))
        check_flag(self.name, "other", self.other)
        if not self.values:
            raise SchemaError(f"column {self.name!r} declares no values; list every value that may occur")
        texts, repeats = self.texts, Counter(self.texts)
        if len(repeats) != len(texts):
            twice = repeats.most_common(1)[0][0]
            raise SchemaError(f"column {self.name!r} declares the value {shown(twice)} twice; list each value once")
        both = sorted(set(texts) & set(self.missing_values))
        if both:
            raise SchemaError(f"column {self.name!r} has {shown(both[0])} both as a value and as missing; keep one")
        if self.other and (OTHER in repeats or OTHER in self.missing_values):
            raise SchemaError(
                f"column {self.name!r} lists {OTHER!r} although other = true already gives that level; "
                f"remove {OTHER!r} or set other = false"
            )
        for label, given in ((OTHER_LABEL, self.other), (MISSING_LABEL, self.missing)):
            if given and label in repeats:
                raise SchemaError(f"column {self.name!r}: the value {label!r} is also a level's label; rename it")

    @property
    def levels(self) -> int:
        return len(self.values)

    @property
    def other_code(self) -> int | None:
        return len(self.values) if self.other else None

    @property
    def texts(self) -> list[str]:
        """The declared values as they are compared."""
        return [canonical(value) for value in self.values]

    @property
    def csv_cells(self) -> dict[str, int]:
        """The spelling in hush's CSV files of each level that begins like a formula, and its code."""
        written = [value if isinstance(value, str) else canonical(value) for value in self.values]
        return {cell_text(text).strip(): code for code, text in enumerate(written) if cell_text(text) != text}

    def value(self, code: int) -> Value:
        return self.values[code]

    def label(self, code: int) -> str:
        return canonical(self.values[code]) if 0 <= code < self.levels else Column.label(self, code)


@dataclass(frozen=True, slots=True, kw_only=True)
class Boolean(Column):
    """False (code 0) and true (code 1)."""

    kind: ClassVar[str] = "boolean"

    @property
    def levels(self) -> int:
        return 2

    def value(self, code: int) -> bool:
        return bool(code)


def _category(name: str, value: Value) -> Value:
    """A declared value as a plain Python value; null, NaN and empty text are how data spells missing."""
    plain = value.item() if isinstance(value, np.generic) else value
    if plain is None or plain != plain or (isinstance(plain, str) and not plain.strip()):
        raise SchemaError(f"column {name!r} lists {shown(plain)} as a value, which means missing; set missing = true")
    match plain:
        case str():
            check_text(f"column {name!r}: value {shown(plain)}", plain)
        case bool():
            pass
        case int() if not -(2**63) <= plain < 2**63:
            raise SchemaError(f"column {name!r} lists an integer of more than 64 bits; write it as text")
        case float() if math.isinf(plain):
            raise SchemaError(f"column {name!r} lists {plain!r} as a value: expected a finite number")
        case int() | float():
            pass
        case dt.date() if not isinstance(plain, dt.datetime):
            pass
        case _:
            raise SchemaError(f"column {name!r}: value {shown(plain)}: expected text, a number, a boolean or a date")
    return plain


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

    def value(self, code: int) -> int:
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
        from_private_data: bool = False,
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
            from_private_data=from_private_data,
        )

    @staticmethod
    def edges_of_equal_width(low: float, high: float, bins: int) -> tuple[float, ...]:
        """The floats nearest to e_k = low + (high - low) k / bins; nothing else rounds them.

        >>> Numeric.edges_of_equal_width(0, 100, 20)[11]
        55.0
        """
        start, width = Fraction(low), (Fraction(high) - Fraction(low)) / bins
        below = math.lcm(start.denominator, width.denominator)
        first, step = (start.numerator * (below // start.denominator), width.numerator * (below // width.denominator))
        return (low, *((first + step * k) / below for k in range(1, bins)), high)  # Python rounds quotients correctly

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
        digits = next(n for n in (6, 9, 12, 15, 17) if _tell_apart(edges, n))
        object.__setattr__(self, "digits", digits)

    @property
    def levels(self) -> int:
        return len(self.edges) - 1

    def value(self, code: int) -> float:
        low, high = self.edges[code], self.edges[code + 1]
        middle = low / 2 + high / 2  # halves first: high - low may overflow
        return middle if low <= middle < high else low  # neighbouring floats have no middle

    def label(self, code: int) -> str:
        if not 0 <= code < self.levels:
            return Column.label(self, code)
        closing = "]" if code == self.levels - 1 else ")"
        low, high = (f"{edge:.{self.digits}g}" for edge in self.edges[code : code + 2])
        return f"[{low}, {high}{closing}"


def _tell_apart(edges: tuple[float, ...], digits: int) -> bool:
    """Whether increasing edges differ when they are shown with so many digits; neighbours are the first to agree."""
    return all(a != b for a, b in pairwise(f"{edge:.{digits}g}" for edge in edges))


def bin_of(column: Numeric, number: float) -> int:
    """The bin of a number within the bounds: the count of inner edges at or below it."""
    return bisect.bisect_right(column.edges, number, 1, column.levels) - 1


def edge_of(column: Numeric, number: float) -> int | None:
    """The index of the edge that equals a number or is shown as it: an edge of 1/3 is shown as 0.333333."""
    index = bisect.bisect_left(column.edges, number)
    near = [k for k in (index, index - 1) if 0 <= k <= column.levels]
    exact = [k for k in near if column.edges[k] == number]
    as_shown = [k for k in near if float(f"{column.edges[k]:.{column.digits}g}") == number]
    return next(iter(exact + as_shown), None)


def short(number: float) -> float:
    """A whole number as an integer, which is easier to read and reads back the same."""
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


class Granularity(StrEnum):
    """The width of a level of a date column."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    QUARTER = "quarter"
    YEAR = "year"


@dataclass(frozen=True, slots=True, kw_only=True)
class Date(Column):
    """Days from `start` to `end`, both included, in levels of a day, week, month, quarter or year.

    Weeks count from `start`; months, quarters and years are those of the calendar. A level is decoded to its
    first day, or to `start` for the first one.
    """

    start: dt.date
    end: dt.date
    granularity: Granularity = Granularity.DAY
    outside: Outside = Outside.REFUSE

    kind: ClassVar[str] = "date"

    def _check(self) -> None:
        for name in ("start", "end"):
            day = getattr(self, name)
            if isinstance(day, dt.datetime) or not isinstance(day, dt.date):
                raise SchemaError(f"column {self.name!r}: {name} = {shown(day)}: expected a date such as 2020-01-31")
        if self.start > self.end:
            raise SchemaError(f"column {self.name!r}: start = {self.start} is after end = {self.end}; swap them")
        try:
            object.__setattr__(self, "granularity", Granularity(self.granularity))
        except ValueError:
            raise SchemaError(
                f"column {self.name!r}: granularity = {shown(self.granularity)}: expected one of "
                + ", ".join(Granularity)
            ) from None
        object.__setattr__(self, "outside", check_outside(self.name, self.outside))

    def ordinal(self, day: dt.date) -> int:
        """The level of a day between start and end."""
        match self.granularity:
            case Granularity.DAY:
                return (day - self.start).days
            case Granularity.WEEK:
                return (day - self.start).days // 7
            case Granularity.MONTH:
                return (day.year - self.start.year) * 12 + day.month - self.start.month
            case Granularity.QUARTER:
                return (day.year - self.start.year) * 4 + (day.month - 1) // 3 - (self.start.month - 1) // 3
            case Granularity.YEAR:
                return day.year - self.start.year

    @property
    def levels(self) -> int:
        return self.ordinal(self.end) + 1

    def value(self, code: int) -> dt.date:
        match self.granularity:
            case Granularity.DAY:
                return self.start + dt.timedelta(days=code)
            case Granularity.WEEK:
                return self.start + dt.timedelta(weeks=code)
            case Granularity.MONTH:
                months = self.start.month - 1 + code
            case Granularity.QUARTER:
                months = ((self.start.month - 1) // 3 + code) * 3
            case Granularity.YEAR:
                months = 12 * code
        first = dt.date(self.start.year + months // 12, months % 12 + 1, 1)
        return max(first, self.start)

    def days(self, code: int) -> tuple[dt.date, dt.date]:
        """The first and the last day of a level."""
        last = self.value(code + 1) - dt.timedelta(days=1) if code + 1 < self.levels else self.end
        return self.value(code), last

    def label(self, code: int) -> str:
        if not 0 <= code < self.levels:
            return Column.label(self, code)
        day = self.value(code)
        match self.granularity:
            case Granularity.YEAR:
                return f"{day.year:04}"
            case Granularity.QUARTER:
                return f"{day.year:04}-Q{(day.month + 2) // 3}"
            case Granularity.MONTH:
                return day.isoformat()[:7]
            case _:
                return day.isoformat()


def clamps(column: Column) -> bool:
    """Whether values beyond the bounds of a column were moved to them."""
    return isinstance(column, Integer | Numeric | Date) and column.outside is Outside.CLAMP


def clamp_note(column: Column) -> str:
    """A note that the first and last levels also hold clamped values."""
    return (
        f"{column.name}: values beyond its bounds were clamped, so the levels {column.label(0)} and "
        f"{column.label(column.levels - 1)} hold them too."
    )


KINDS: dict[str, type[Column]] = {kind.kind: kind for kind in (Categorical, Boolean, Integer, Numeric, Date)}
