"""The kinds of column: which real values a table may hold, and the code of each.

Codes of a column run 0 .. size-1: its ordinary levels first, then `other` where the column has one, then missing
where it allows it. A value outside the declared levels goes to `other`, is clamped to the nearer bound, or is
refused, as the column says; it is never dropped.
"""

from __future__ import annotations

import bisect
import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

import numpy as np

from hush.errors import SchemaError

Value = str | int | float | bool | dt.date | None
LARGEST_INTEGER = 2**53  # integers up to here are exact as float64, so that every source compares them alike
LARGEST_SIZE = 2**31


class Outside(StrEnum):
    """What happens to a value outside the declared bounds of an ordered column."""

    REFUSE = "refuse"
    CLAMP = "clamp"


class Granularity(StrEnum):
    """The width of a level of a date column."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    QUARTER = "quarter"
    YEAR = "year"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """What every kind shares: a name and whether missing has a level of its own.

    `missing_values` are texts (such as "?") that mean missing; null, NaN and empty text always do.
    """

    name: str
    missing: bool = False
    missing_values: tuple[str, ...] = ()

    kind: ClassVar[str]

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise SchemaError(f"column name {self.name!r}: expected non-empty text")
        object.__setattr__(self, "missing_values", tuple(str(text).strip() for text in self.missing_values))
        if self.missing_values and not self.missing:
            raise SchemaError(
                f"column {self.name!r} lists missing_values but does not allow missing; set missing = true"
            )
        if self.size > LARGEST_SIZE:
            raise SchemaError(
                f"column {self.name!r} has {self.size} levels, at most {LARGEST_SIZE} are possible; use wider bins"
            )

    @property
    def levels(self) -> int:
        """Ordinary levels, without `other` and missing."""
        raise NotImplementedError

    @property
    def other_code(self) -> int | None:
        """Code of `other`, where there is one."""
        return None

    @property
    def missing_code(self) -> int | None:
        """Code of missing, where it is allowed: the last one."""
        return self.size - 1 if self.missing else None

    @property
    def size(self) -> int:
        """All codes of the column."""
        return self.levels + (self.other_code is not None) + self.missing

    @property
    def dtype(self) -> np.dtype[np.unsignedinteger]:
        """The smallest unsigned type that holds the codes."""
        return np.dtype(np.uint8 if self.size <= 2**8 else np.uint16 if self.size <= 2**16 else np.uint32)

    def value(self, code: int) -> Value:
        """The real value that stands for an ordinary level."""
        raise NotImplementedError

    def label(self, code: int) -> str:
        """What a person reads for a code."""
        if code == self.missing_code:
            return "(missing)"
        if code == self.other_code:
            return "(other)"
        return str(self.value(code))

    def level_values(self) -> list[Value]:
        """The real value of every code; null for missing, the text "other" for `other`."""
        ordinary = [self.value(code) for code in range(self.levels)]
        return ordinary + (["other"] if self.other_code is not None else []) + ([None] if self.missing else [])


def canonical(value: Value) -> str:
    """The text by which a categorical value is compared, the same whatever type a source stores it in.

    >>> [canonical(value) for value in (" a ", 3, 3.0, -0.0, True, 0.5)]
    ['a', '3', '3', '0', 'true', '0.5']
    """
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, float | np.floating):
        if math.isfinite(value) and value == int(value) and abs(value) <= LARGEST_INTEGER:
            return str(int(value))
        return repr(float(value))
    return str(value).strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Categorical(Column):
    """Declared values; anything else is refused, or goes to a level `other` when `other` is true."""

    values: tuple[Value, ...]
    other: bool = False

    kind: ClassVar[str] = "categorical"

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(self.values))
        if not self.values:
            raise SchemaError(f"column {self.name!r} declares no values; list at least one")
        texts = [canonical(value) for value in self.values]
        if len(set(texts)) != len(texts):
            twice = next(text for text in texts if texts.count(text) > 1)
            raise SchemaError(f"column {self.name!r} declares the value {twice!r} twice; list each value once")
        if None in self.values:
            raise SchemaError(f"column {self.name!r} lists null as a value; set missing = true instead")
        Column.__post_init__(self)
        both = set(texts) & set(self.missing_values)
        if both:
            raise SchemaError(f"column {self.name!r} has {both.pop()!r} both as a value and as missing; keep one")

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

    def value(self, code: int) -> Value:
        return self.values[code]


@dataclass(frozen=True, slots=True, kw_only=True)
class Boolean(Column):
    """False (code 0) and true (code 1)."""

    kind: ClassVar[str] = "boolean"

    @property
    def levels(self) -> int:
        return 2

    def value(self, code: int) -> Value:
        return bool(code)


@dataclass(frozen=True, slots=True, kw_only=True)
class Integer(Column):
    """Every integer from `low` to `high`, both included."""

    low: int
    high: int
    outside: Outside = Outside.REFUSE

    kind: ClassVar[str] = "integer"

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            bound = getattr(self, name)
            if isinstance(bound, bool) or not isinstance(bound, int) or abs(bound) > LARGEST_INTEGER:
                raise SchemaError(f"column {self.name!r}: {name} = {bound!r}: expected an integer within ±2^53")
        if self.low > self.high:
            raise SchemaError(f"column {self.name!r}: low = {self.low} is above high = {self.high}; swap them")
        object.__setattr__(self, "outside", _outside(self.name, self.outside))
        Column.__post_init__(self)

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
            raise SchemaError(f"column {name!r}: bins = {bins!r}: expected an integer >= 1")
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise SchemaError(f"column {name!r}: low = {low!r}, high = {high!r}: expected finite low < high")
        inner = [low + (high - low) * (k / bins) for k in range(1, bins)]
        return cls(
            name=name,
            edges=(float(low), *inner, float(high)),
            outside=outside,
            missing=missing,
            missing_values=tuple(missing_values),
        )

    def __post_init__(self) -> None:
        edges = tuple(float(edge) + 0.0 for edge in self.edges)  # + 0.0 turns -0.0 into 0.0
        object.__setattr__(self, "edges", edges)
        if len(edges) < 2 or not all(map(math.isfinite, edges)):
            raise SchemaError(f"column {self.name!r}: expected at least two finite edges")
        if any(a >= b for a, b in zip(edges, edges[1:], strict=False)):
            raise SchemaError(f"column {self.name!r}: edges must increase; use fewer bins or wider bounds")
        object.__setattr__(self, "outside", _outside(self.name, self.outside))
        Column.__post_init__(self)

    @property
    def levels(self) -> int:
        return len(self.edges) - 1

    def value(self, code: int) -> Value:
        return self.edges[code] + (self.edges[code + 1] - self.edges[code]) / 2

    def label(self, code: int) -> str:
        if not 0 <= code < self.levels:
            return Column.label(self, code)
        closing = "]" if code == self.levels - 1 else ")"
        return f"[{self.edges[code]:.6g}, {self.edges[code + 1]:.6g}{closing}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Date(Column):
    """Days from `start` to `end`, both included, in levels of a day, week, month, quarter or year.

    Weeks count from `start`; months, quarters and years are those of the calendar. A level is decoded to its first
    day, or to `start` for the first one.
    """

    start: dt.date
    end: dt.date
    granularity: Granularity = Granularity.DAY
    outside: Outside = Outside.REFUSE

    kind: ClassVar[str] = "date"

    def __post_init__(self) -> None:
        for name in ("start", "end"):
            day = getattr(self, name)
            if isinstance(day, dt.datetime) or not isinstance(day, dt.date):
                raise SchemaError(f"column {self.name!r}: {name} = {day!r}: expected a date such as 2020-01-31")
        if self.start > self.end:
            raise SchemaError(f"column {self.name!r}: start = {self.start} is after end = {self.end}; swap them")
        try:
            object.__setattr__(self, "granularity", Granularity(self.granularity))
        except ValueError:
            raise SchemaError(
                f"column {self.name!r}: granularity = {self.granularity!r}: expected one of "
                + ", ".join(Granularity)
            ) from None
        object.__setattr__(self, "outside", _outside(self.name, self.outside))
        Column.__post_init__(self)

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

    def value(self, code: int) -> Value:
        match self.granularity:
            case Granularity.DAY | Granularity.WEEK:
                return self.start + dt.timedelta(days=code * (7 if self.granularity is Granularity.WEEK else 1))
            case Granularity.MONTH:
                months = self.start.month - 1 + code
            case Granularity.QUARTER:
                months = ((self.start.month - 1) // 3 + code) * 3
            case Granularity.YEAR:
                months = 12 * code
        first = dt.date(self.start.year + months // 12, months % 12 + 1, 1)
        return max(first, self.start)


def bin_of(column: Numeric, number: float) -> int:
    """The bin of a number within the bounds: the count of inner edges at or below it."""
    return bisect.bisect_right(column.edges, number, 1, column.levels) - 1


def _outside(name: str, policy: str) -> Outside:
    try:
        return Outside(policy)
    except ValueError:
        raise SchemaError(f"column {name!r}: outside = {policy!r}: expected refuse or clamp") from None
