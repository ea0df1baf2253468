"""The kinds of column: declared values, true or false, integers, real numbers in bins, and dates.

`KINDS` has them by the names that schema files use.
"""

from __future__ import annotations

import bisect
import datetime as dt
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar, TypeVar

import numpy as np

from hush.core.errors import SchemaError, check_text, shown
from hush.core.validation import check_choice, check_flag, check_number, check_whole, is_whole
from hush.files.csv_cells import cell_text
from hush.schema.column import (
    LARGEST_INTEGER,
    MISSING_LABEL,
    OTHER_LABEL,
    OTHER_VALUE,
    Column,
    Outside,
    Value,
    canonical,
    check_outside,
)
from hush.schema.number_spelling import PLAIN_NUMBERS, NumberSpelling
from hush.schema.text_folding import DIFFERENCES, folded

MOST_BINS = 2**20  # the schema holds every edge
MOST_POINTS = 1000
FALSE_TEXTS = ("false", "f", "no", "n", "0")  # in upper or lower case
TRUE_TEXTS = ("true", "t", "yes", "y", "1")
Number = TypeVar("Number", int, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class Categorical(Column):
    """Declared values; anything else is refused, or goes to a level `other` when `other` is true.

    With `other`, no value need be declared: a discovery may have found none. `ignore` lists differences between texts
    that do not count: "case", "spaces". Values that differ in nothing else are one level, in every engine.
    """

    values: tuple[Value, ...]
    other: bool = False
    ignore: tuple[str, ...] = ()

    kind: ClassVar[str] = "categorical"

    def _check(self) -> None:
        if isinstance(self.values, str):
            raise SchemaError(f"column {self.name!r}: values = {shown(self.values)}: expected a list of values")
        object.__setattr__(self, "values", tuple(_category(self.name, value) for value in self.values))
        check_flag(SchemaError, f"column {self.name!r}: other", self.other)
        what = f"column {self.name!r}: ignore"
        if isinstance(self.ignore, str):
            raise SchemaError(f"{what} = {shown(self.ignore)}: expected a list such as {list(DIFFERENCES)}")
        ignore = {check_choice(SchemaError, what, difference, DIFFERENCES) for difference in self.ignore}
        object.__setattr__(self, "ignore", tuple(known for known in DIFFERENCES if known in ignore))
        if not self.values and not self.other:
            raise SchemaError(f"column {self.name!r} declares no values; list every value that may occur")
        texts, repeats = self.texts, Counter(self.texts)
        if len(repeats) != len(texts):
            twice = repeats.most_common(1)[0][0]
            raise SchemaError(f"column {self.name!r} declares the value {shown(twice)} twice; list each value once")
        both = sorted(set(texts) & set(self.missing_texts))
        if both:
            raise SchemaError(f"column {self.name!r} has {shown(both[0])} both as a value and as missing; keep one")
        if self.other and (OTHER_VALUE in repeats or OTHER_VALUE in self.missing_texts):
            raise SchemaError(
                f"column {self.name!r} lists {OTHER_VALUE!r} although other = true already gives that level; "
                f"remove {OTHER_VALUE!r} or set other = false"
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
        """The texts by which the declared values are compared."""
        return [self.compared(value) for value in self.values]

    @property
    def missing_texts(self) -> tuple[str, ...]:
        """The texts by which missing values are compared."""
        return tuple(map(self.compared, self.missing_values)) if self.ignore else self.missing_values

    def compared(self, value: Value) -> str:
        """The text by which a value is compared: canonical, and without the differences that the column ignores."""
        return folded(canonical(value), self.ignore) if self.ignore else canonical(value)

    @property
    def csv_cells(self) -> dict[str, int]:
        """The codes of levels that begin like a formula, by their spelling in hush's CSV files."""
        written = [value if isinstance(value, str) else canonical(value) for value in self.values]
        cells = {cell_text(text): code for code, text in enumerate(written) if cell_text(text) != text}
        return {self.compared(cell): code for cell, code in cells.items()}

    def value(self, code: int) -> Value:
        return self.values[code]

    def level_label(self, code: int) -> str:
        return canonical(self.values[code])


@dataclass(frozen=True, slots=True, kw_only=True)
class Boolean(Column):
    """False (code 0) and true (code 1)."""

    kind: ClassVar[str] = "boolean"
    levels = 2

    def value(self, code: int) -> bool:
        return bool(code)


def _category(name: str, value: Value) -> Value:
    """A declared value as a plain Python value; refuses null, NaN and empty text, which mean missing."""
    plain = value.item() if isinstance(value, np.generic) else value
    if plain is None or plain != plain or (isinstance(plain, str) and not plain.strip()):
        raise SchemaError(f"column {name!r} lists {shown(plain)} as a value, which means missing; set missing = true")
    if isinstance(plain, str):
        check_text(f"column {name!r}: value {shown(plain)}", plain)
    elif not isinstance(plain, int | float | dt.date) or isinstance(plain, dt.datetime):
        raise SchemaError(f"column {name!r}: value {shown(plain)}: expected text, a number, a boolean or a date")
    elif isinstance(plain, int) and not -(2**63) <= plain < 2**63:
        raise SchemaError(f"column {name!r} lists an integer of more than 64 bits; write it as text")
    elif isinstance(plain, float) and math.isinf(plain):
        raise SchemaError(f"column {name!r} lists {plain!r} as a value: expected a finite number")
    return plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Integer(Column):
    """Every integer from `low` to `high`, both included: each a level of its own, or in bins.

    `starts` holds the first integer of each bin, beginning with `low`. `points` are integers with a level of their own,
    in addition to the bins. A bin is decoded to its middle, rounded down.
    """

    low: int
    high: int
    starts: tuple[int, ...] = ()
    points: tuple[int, ...] = ()
    outside: Outside = Outside.REFUSE
    spelling: NumberSpelling = PLAIN_NUMBERS
    level_starts: tuple[int, ...] = field(init=False, repr=False, compare=False, default=())  # empty without bins

    kind: ClassVar[str] = "integer"

    @classmethod
    def equal_width(cls, *, name: str, low: int, high: int, bins: int, **rest: Any) -> Integer:
        """`bins` bins from `low` to `high` whose widths differ by at most one.

        >>> Integer.equal_width(name="age", low=0, high=99, bins=20).label(13)
        '65 to 69'
        """
        check_whole(SchemaError, f"column {name!r}: bins", bins, least=1, most=MOST_BINS)
        low, high = _whole(name, "low", low), _whole(name, "high", high)
        if low <= high and bins > high - low + 1:
            raise SchemaError(f"column {name!r}: bins = {bins} for {high - low + 1} integers; use fewer, or none")
        return cls(name=name, low=low, high=high, starts=cls.starts_of_equal_width(low, high, bins), **rest)

    @staticmethod
    def starts_of_equal_width(low: int, high: int, bins: int) -> tuple[int, ...]:
        """low + ceil((high + 1 - low) k / bins)."""
        return tuple(low - (low - high - 1) * k // bins for k in range(bins))

    def _check(self) -> None:
        self.spelling.check(self.name)
        for name in ("low", "high"):
            object.__setattr__(self, name, _whole(self.name, name, getattr(self, name)))
        if self.low > self.high:
            raise SchemaError(f"column {self.name!r}: low = {self.low} is above high = {self.high}; swap them")
        object.__setattr__(self, "outside", check_outside(self.name, self.outside))
        starts = tuple(_whole(self.name, "starts", start) for start in _listed(self.name, "starts", self.starts))
        points = _points(self, [_whole(self.name, "points", p) for p in _listed(self.name, "points", self.points)])
        object.__setattr__(self, "starts", starts)
        object.__setattr__(self, "points", points)
        if not starts:
            if points:
                raise SchemaError(
                    f"column {self.name!r}: every integer is a level already, points too; leave points out or add bins"
                )
            return
        if starts[0] != self.low or starts[-1] > self.high or any(a >= b for a, b in pairwise(starts)):
            raise SchemaError(
                f"column {self.name!r}: starts must begin with low = {self.low} and increase up to high = {self.high} "
                "at most"
            )
        after = (point + 1 for point in points if point < self.high)
        object.__setattr__(self, "level_starts", tuple(sorted({*starts, *points, *after})))

    @property
    def binned(self) -> bool:
        return bool(self.starts)

    @property
    def levels(self) -> int:
        return len(self.level_starts) if self.binned else self.high - self.low + 1

    def code_of(self, number: float) -> int:
        """The level of a number within the bounds."""
        return bisect.bisect_right(self.level_starts, number) - 1 if self.binned else math.floor(number) - self.low

    def is_point(self, code: int) -> bool:
        """Whether a level holds a single number, one of the points."""
        return _holds(self.points, self.ends(code)[0])

    def ends(self, code: int) -> tuple[int, int]:
        """The first and the last integer of a level."""
        if not self.binned:
            return self.low + code, self.low + code
        last = self.level_starts[code + 1] - 1 if code + 1 < self.levels else self.high
        return self.level_starts[code], last

    def value(self, code: int) -> int:
        first, last = self.ends(code)
        return (first + last) // 2

    def level_label(self, code: int) -> str:
        return self.run_label(code, code)

    def run_label(self, first: int, last: int) -> str:
        """A label for the levels first .. last, by their first and last integer."""
        begin, end = self.ends(first)[0], self.ends(last)[1]
        return str(begin) if begin == end else f"{begin} to {end}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Numeric(Column):
    """Real numbers in bins between given edges: [e_0, e_1), ..., [e_{k-1}, e_k]; the last bin is closed.

    `points` are numbers with a level of their own. A point inside a bin cuts it: [e_0, p), {p}, (p, e_1), so that every
    level is a range. A bin is decoded to its middle, a point to itself. With a `step`, such as 0.1, the numbers of
    synthetic rows are multiples of it.
    """

    edges: tuple[float, ...]
    points: tuple[float, ...] = ()
    outside: Outside = Outside.REFUSE
    spelling: NumberSpelling = PLAIN_NUMBERS
    step: float | None = None
    # the digits that tell edges and points apart, and the least float of each level
    digits: int = field(init=False, repr=False, compare=False, default=6)
    level_starts: tuple[float, ...] = field(init=False, repr=False, compare=False, default=())

    kind: ClassVar[str] = "numeric"
    binned = True

    @classmethod
    def equal_width(cls, *, name: str, low: float, high: float, bins: int, **rest: Any) -> Numeric:
        """`bins` bins of equal width from `low` to `high`."""
        check_whole(SchemaError, f"column {name!r}: bins", bins, least=1, most=MOST_BINS)
        low, high = _number(name, "low", low), _number(name, "high", high)
        if low >= high:
            raise SchemaError(f"column {name!r}: low = {low:g} is not below high = {high:g}; swap or widen them")
        return cls(name=name, edges=cls.edges_of_equal_width(low, high, bins), **rest)

    @staticmethod
    def edges_of_equal_width(low: float, high: float, bins: int) -> tuple[float, ...]:
        """The floats nearest to e_k = low + (high - low) k / bins, rounded once.

        >>> Numeric.edges_of_equal_width(0, 100, 20)[11]
        55.0
        """
        start, width = Fraction(low), (Fraction(high) - Fraction(low)) / bins
        below = math.lcm(start.denominator, width.denominator)
        first, step = (start.numerator * (below // start.denominator), width.numerator * (below // width.denominator))
        return (low, *((first + step * k) / below for k in range(1, bins)), high)  # Python rounds quotients correctly

    def _check(self) -> None:
        self.spelling.check(self.name)
        edges = tuple(
            [  # a million edges must not take seconds, so finite floats need no call
                edge + 0.0 if type(edge) is float and -math.inf < edge < math.inf else _number(self.name, "edges", edge)
                for edge in _listed(self.name, "edges", self.edges)
            ]
        )
        object.__setattr__(self, "edges", edges)
        if len(edges) < 2:
            raise SchemaError(f"column {self.name!r}: expected at least two edges, found {len(edges)}")
        if any(a >= b for a, b in pairwise(edges)):
            raise SchemaError(f"column {self.name!r}: edges must increase; use fewer bins or wider bounds")
        points = _points(self, [_number(self.name, "points", p) for p in _listed(self.name, "points", self.points)])
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "outside", check_outside(self.name, self.outside))
        if self.step is not None:
            step = _number(self.name, "step", self.step)
            object.__setattr__(self, "step", step)
            if not 0 < step <= edges[-1] - edges[0]:
                raise SchemaError(
                    f"column {self.name!r}: step = {shown(step)}: expected a number above 0 and no wider than all bins "
                    "together"
                )
            if max(map(abs, edges)) / step > LARGEST_INTEGER:
                raise SchemaError(f"column {self.name!r}: step = {shown(step)} is too fine for floats; use a wider one")
        after = (math.nextafter(point, math.inf) for point in points if point < edges[-1])
        object.__setattr__(self, "level_starts", tuple(sorted({*edges[:-1], *points, *after})))
        for digits in (6, 9, 12, 15, 17):
            shown_marks = [f"{mark:.{digits}g}" for mark in self.marks]
            if all(a != b for a, b in pairwise(shown_marks)):
                break
        object.__setattr__(self, "digits", digits)

    @property
    def low(self) -> float:
        """The lower bound."""
        return self.edges[0]

    @property
    def high(self) -> float:
        """The upper bound."""
        return self.edges[-1]

    @property
    def marks(self) -> tuple[float, ...]:
        """Edges and points, in order."""
        return tuple(sorted({*self.edges, *self.points})) if self.points else self.edges

    @property
    def levels(self) -> int:
        return len(self.level_starts)

    def is_point(self, code: int) -> bool:
        """Whether a level holds a single number, one of the points."""
        return _holds(self.points, self.level_starts[code])

    def code_of(self, number: float) -> int:
        """The level of a number within the bounds."""
        return bisect.bisect_right(self.level_starts, number) - 1

    def cut(self, level: int) -> tuple[float, bool]:
        """The number where a level begins, or where the last one ends, and whether it begins just after that number."""
        if level == self.levels:
            return self.high, True
        if level and self.is_point(level - 1):
            return self.level_starts[level - 1], True
        return self.level_starts[level], False

    def ends(self, code: int) -> tuple[float, float]:
        """The numbers between which a level lies; for a point, twice the point."""
        low = self.cut(code)[0]
        if self.is_point(code):
            return self.level_starts[code], self.level_starts[code]
        return low, self.cut(code + 1)[0]

    def multiples(self, code: int) -> tuple[int, int]:
        """The first and the last multiple of the step in a level; last < first if there is none."""
        step, start = Decimal(repr(self.step)), Decimal(repr(self.level_starts[code]))
        end, closed = Decimal(repr(self.ends(code)[1])), code + 1 == self.levels or self.is_point(code)
        first = math.ceil(start / step)
        last = math.floor(end / step) if closed else math.ceil(end / step) - 1
        return first, last

    def value(self, code: int) -> float:
        low, high = self.ends(code)
        middle = low / 2 + high / 2  # halves first: high - low may overflow
        start = self.level_starts[code]
        return middle if start <= middle < high else start  # neighbouring floats have no middle

    def level_label(self, code: int) -> str:
        return self.run_label(code, code)

    def run_label(self, first: int, last: int) -> str:
        """A label for the levels first .. last: an interval, or a point."""
        if first == last and self.is_point(first):
            return f"{self.level_starts[first]:.{self.digits}g}"
        (low, after_low), (high, after_high) = self.cut(first), self.cut(last + 1)
        opening, closing = "(" if after_low else "[", "]" if after_high else ")"
        return f"{opening}{low:.{self.digits}g}, {high:.{self.digits}g}{closing}"


def mark_of(column: Numeric, number: float) -> float | None:
    """The edge or point that equals a number, or is displayed like it: an edge of 1/3 is displayed as 0.333333."""
    marks = column.marks
    index = bisect.bisect_left(marks, number)
    near = [marks[k] for k in (index, index - 1) if 0 <= k < len(marks)]
    as_shown = [mark for mark in near if float(f"{mark:.{column.digits}g}") == number]
    return next(iter([mark for mark in near if mark == number] + as_shown), None)


def short(number: float) -> float:
    """A whole number as an integer, which is easier to read and reads back the same."""
    return int(number) if number.is_integer() and abs(number) <= LARGEST_INTEGER else number


def _number(name: str, key: str, value: float) -> float:
    """A finite float, with -0.0 as 0.0."""
    return check_number(SchemaError, f"column {name!r}: {key}", value) + 0.0


def _whole(name: str, key: str, value: int) -> int:
    """An integer that floats hold exactly."""
    if not is_whole(value) or abs(value) > LARGEST_INTEGER:
        raise SchemaError(f"column {name!r}: {key}={shown(value)}: expected a whole number from -2^53 to 2^53")
    return int(value)


def _listed(name: str, key: str, values: Any) -> Sequence[Any]:
    """A list of numbers."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise SchemaError(f"column {name!r}: {key}={shown(values)}: expected a list of numbers")
    return tuple(values)


def _points(column: Integer | Numeric, points: Sequence[Number]) -> tuple[Number, ...]:
    """Sorted points; refuses one outside the bounds, or one that means missing."""
    if len(points) > MOST_POINTS:
        raise SchemaError(f"column {column.name!r} lists {len(points):,} points: at most {MOST_POINTS:,} are possible")
    for point in points:
        if not column.low <= point <= column.high:
            raise SchemaError(
                f"column {column.name!r}: the point {shown(point)} lies outside {short(float(column.low))} .. "
                f"{short(float(column.high))}; leave it out or widen the bounds"
            )
        if canonical(point) in column.missing_values:
            raise SchemaError(f"column {column.name!r} has {shown(point)} both as a point and as missing; keep one")
    return tuple(sorted(set(points)))


def _holds(points: Sequence[float], number: float) -> bool:
    """Whether a number is one of the sorted points."""
    at = bisect.bisect_left(points, number)
    return at < len(points) and points[at] == number


class Granularity(StrEnum):
    """The width of a level of a date column."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    QUARTER = "quarter"
    YEAR = "year"


_DAYS_PER_LEVEL = {Granularity.DAY: 1, Granularity.WEEK: 7}
_MONTHS_PER_LEVEL = {Granularity.MONTH: 1, Granularity.QUARTER: 3, Granularity.YEAR: 12}


@dataclass(frozen=True, slots=True, kw_only=True)
class Date(Column):
    """Days from `start` to `end`, both included, in levels of a day, week, month, quarter or year.

    Weeks count from `start`; months, quarters and years are those of the calendar. A level is decoded to its first day,
    the first level to `start`.
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
        granularity = check_choice(
            SchemaError, f"column {self.name!r}: granularity", self.granularity, map(str, Granularity)
        )
        object.__setattr__(self, "granularity", Granularity(granularity))
        object.__setattr__(self, "outside", check_outside(self.name, self.outside))

    def ordinal(self, day: dt.date) -> int:
        """The level of a day between start and end."""
        if self.granularity in _DAYS_PER_LEVEL:
            return (day - self.start).days // _DAYS_PER_LEVEL[self.granularity]
        return self._period(day) - self._period(self.start)

    def _period(self, day: dt.date) -> int:
        """The number of a day's month, quarter or year, counted from the year 0."""
        return (12 * day.year + day.month - 1) // _MONTHS_PER_LEVEL[self.granularity]

    @property
    def levels(self) -> int:
        return self.ordinal(self.end) + 1

    def value(self, code: int) -> dt.date:
        if self.granularity in _DAYS_PER_LEVEL:
            return self.start + dt.timedelta(days=code * _DAYS_PER_LEVEL[self.granularity])
        months = (self._period(self.start) + code) * _MONTHS_PER_LEVEL[self.granularity]
        return max(dt.date(months // 12, months % 12 + 1, 1), self.start)

    def days(self, code: int) -> tuple[dt.date, dt.date]:
        """The first and the last day of a level."""
        last = self.value(code + 1) - dt.timedelta(days=1) if code + 1 < self.levels else self.end
        return self.value(code), last

    def level_label(self, code: int) -> str:
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
    """Whether a column clamps values beyond its bounds."""
    return isinstance(column, Integer | Numeric | Date) and column.outside is Outside.CLAMP


def clamp_note(column: Column) -> str:
    """A note that the first and last levels also hold clamped values."""
    return (
        f"{column.name}: values beyond its bounds were clamped, so the levels {column.label(0)} and "
        f"{column.label(column.levels - 1)} hold them too."
    )


KINDS: dict[str, type[Column]] = {kind.kind: kind for kind in (Categorical, Boolean, Integer, Numeric, Date)}
