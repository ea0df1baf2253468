"""Stamps: columns of times, each counted as several columns: date, month, weekday, hour and minute.

A timestamp has too many values to be counted as one column. Its parts are ordinary columns, named `pickup.hour` and so
on, which workloads, SQL and reports use like any other. `joined` puts parts together to whole times again.
"""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from hush.core.errors import SchemaError, shown
from hush.core.validation import is_whole
from hush.schema.column import Column, Outside, Part, check_outside
from hush.schema.column_kinds import Categorical, Date, Granularity, Integer
from hush.schema.provenance import Discovered

if TYPE_CHECKING:
    import pyarrow as pa

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
DATE, MONTH, WEEKDAY, HOUR, MINUTE = "date", "month", "weekday", "hour", "minute"
DAY_PARTS = (DATE, MONTH, WEEKDAY)  # if they contradict each other, the first counts
TIME_PARTS = (HOUR, MINUTE)
MINUTE_WIDTHS = tuple(width for width in range(1, 31) if 60 % width == 0)
DEFAULT_MINUTES = 15
MOST_LEVELS = 16  # months or weekdays, with missing, rounded up
ANY_DAY = dt.date(2000, 1, 1)  # stands for the day of a time of day
Codes = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp(ABC):
    """A column of times, and the parts that are counted; `minutes` is the width of a level of the part minute."""

    name: str
    parts: tuple[str, ...]
    minutes: int = DEFAULT_MINUTES
    missing: bool = False
    missing_values: tuple[str, ...] = ()
    from_private_data: bool = field(default=False, compare=False, repr=False)
    discovered: Discovered | None = field(default=None, compare=False, repr=False)

    kind: ClassVar[str]
    known: ClassVar[tuple[str, ...]]

    def __post_init__(self) -> None:
        if isinstance(self.parts, str) or not self.parts:
            raise SchemaError(
                f"column {self.name!r}: parts = {shown(self.parts)}: expected a list of some of {', '.join(self.known)}"
            )
        object.__setattr__(self, "parts", tuple(self.parts))
        for part in self.parts:
            if part not in self.known:
                raise SchemaError(
                    f"column {self.name!r}: part {shown(part)}: expected one of {', '.join(self.known)} for the kind "
                    f"{self.kind!r}"
                )
        if len(set(self.parts)) < len(self.parts):
            raise SchemaError(f"column {self.name!r} lists a part twice; keep one")
        if not is_whole(self.minutes) or self.minutes not in MINUTE_WIDTHS:
            raise SchemaError(
                f"column {self.name!r}: minutes = {shown(self.minutes)}: expected a width that divides the hour: "
                f"{', '.join(map(str, MINUTE_WIDTHS))}"
            )
        if MINUTE not in self.parts and self.minutes != DEFAULT_MINUTES:
            raise SchemaError(f"column {self.name!r}: minutes = {self.minutes} goes with the part 'minute'; list it")
        object.__setattr__(self, "missing_values", self.columns[0].missing_values)

    @property
    @abstractmethod
    def days(self) -> tuple[dt.date, dt.date]:
        """The first and the last possible day."""

    @property
    def clamps(self) -> bool:
        """Whether a time before the first day or after the last one is moved to that day, at the same time of day."""
        return False

    @abstractmethod
    def moment(self, text: str) -> dt.datetime:
        """The time that a text spells, in UTC and without a zone; ValueError if it spells none."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """The parts as columns."""
        return tuple(self.column(part) for part in self.parts)

    def column(self, part: str) -> Column:
        """A part as a column, whether it is counted or not."""
        shared: dict[str, Any] = {
            "name": f"{self.name}.{part}" if isinstance(self.name, str) and self.name.strip() else self.name,
            "missing": self.missing,
            "missing_values": self.missing_values,
            "from_private_data": self.from_private_data,
            "part": Part(self, part),
        }
        match part:
            case "date":
                return self._date(shared)
            case "weekday":
                return Categorical(values=WEEKDAYS, **shared)
            case "minute":
                starts = tuple(range(0, 60, self.minutes)) if self.minutes > 1 else ()
                return Integer(low=0, high=59, starts=starts, **shared)
            case _:
                low, high = {MONTH: (1, 12), HOUR: (0, 23)}[part]
                return Integer(low=low, high=high, **shared)

    def _date(self, shared: dict[str, Any]) -> Date:
        raise NotImplementedError

    def day_code(self, part: str, day: dt.date) -> int:
        """The level of a day in the part date, month or weekday."""
        if part == DATE:
            return self._date({"name": self.name}).ordinal(day)
        return day.month - 1 if part == MONTH else day.weekday()


@dataclass(frozen=True, slots=True, kw_only=True)
class Timestamp(Stamp):
    """Moments on the days from `start` to `end`, both included, counted by some of date, month, weekday, hour, minute.

    `granularity` is the width of a level of the part date. With `outside = "clamp"` a day outside is moved to the
    nearer bound; the time of day stays.

    >>> pickup = Timestamp(name="pickup", start=dt.date(2024, 1, 1), end=dt.date(2024, 1, 31), parts=("date", "hour"))
    >>> [(column.name, column.size) for column in pickup.columns]
    [('pickup.date', 31), ('pickup.hour', 24)]
    """

    start: dt.date
    end: dt.date
    granularity: Granularity = Granularity.DAY
    outside: Outside = Outside.REFUSE

    kind: ClassVar[str] = "timestamp"
    known: ClassVar[tuple[str, ...]] = (*DAY_PARTS, *TIME_PARTS)

    def __post_init__(self) -> None:
        object.__setattr__(self, "outside", check_outside(self.name, self.outside))
        date = self._date({"name": self.name})  # checks the days
        object.__setattr__(self, "granularity", date.granularity)
        Stamp.__post_init__(self)
        if DATE not in self.parts and self.granularity is not Granularity.DAY:
            raise SchemaError(
                f"column {self.name!r}: granularity = {self.granularity} goes with the part 'date'; list it"
            )

    @property
    def days(self) -> tuple[dt.date, dt.date]:
        return self.start, self.end

    @property
    def clamps(self) -> bool:
        return self.outside is Outside.CLAMP

    def moment(self, text: str) -> dt.datetime:
        moment = dt.datetime.fromisoformat(text)
        return moment if moment.tzinfo is None else moment.astimezone(dt.UTC).replace(tzinfo=None)

    def _date(self, shared: dict[str, Any]) -> Date:
        return Date(start=self.start, end=self.end, granularity=self.granularity, outside=self.outside, **shared)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeOfDay(Stamp):
    """Times of a day, counted by the hour, or by the hour and the minute.

    >>> [column.size for column in TimeOfDay(name="departure", parts=("hour", "minute"), minutes=15).columns]
    [24, 4]
    """

    parts: tuple[str, ...] = (HOUR,)

    kind: ClassVar[str] = "time"
    known: ClassVar[tuple[str, ...]] = TIME_PARTS
    days = (ANY_DAY, ANY_DAY)

    def moment(self, text: str) -> dt.datetime:
        return dt.datetime.combine(ANY_DAY, dt.time.fromisoformat(text).replace(tzinfo=None))


STAMPS: dict[str, type[Timestamp] | type[TimeOfDay]] = {kind.kind: kind for kind in (Timestamp, TimeOfDay)}


def joined(stamp: Stamp, codes: Mapping[str, Codes], generator: np.random.Generator | None = None) -> pa.Array:
    """Whole times, to the second, from the codes of their parts.

    The day is drawn uniformly from the days within the bounds with the given date, month and weekday; if no day has all
    three, the date counts first, then the month. The time of day is drawn uniformly from the hour and the minutes.
    Parts that are not given are drawn from all their values. The first part of the column decides whether a time is
    missing. Without a generator, the first possible time is taken.
    """
    import pyarrow as pa

    deciding = next(part for part in stamp.parts if part in codes)
    rows, missing = len(codes[deciding]), codes[deciding] == stamp.column(deciding).missing_code
    seconds = _draw(np.zeros(rows, np.int64), np.full(rows, 59), generator)
    for part, length, width, levels in ((HOUR, 3600, 1, 24), (MINUTE, 60, stamp.minutes, 60 // stamp.minutes)):
        code = codes.get(part, np.full(rows, levels))
        low, high = code * width, (code + 1) * width - 1
        known = code < levels
        seconds += length * _draw(np.where(known, low, 0), np.where(known, high, levels * width - 1), generator)
    if isinstance(stamp, TimeOfDay):
        return pa.array(seconds, mask=missing).cast(pa.int32()).cast(pa.time32("s"))
    days = _days(stamp, codes, rows, generator)
    return pa.array((days * 86_400 + seconds).astype("datetime64[s]"), mask=missing)


def _draw(low: Codes, high: Codes, generator: np.random.Generator | None) -> Codes:
    return low.copy() if generator is None else generator.integers(low, high, endpoint=True)


def _days(stamp: Stamp, codes: Mapping[str, Codes], rows: int, generator: np.random.Generator | None) -> Codes:
    """A day for each row, in days since 1970."""
    # The periods of days that the part date gives, and the period of each row; without it, all days are one period.
    periods, keys = [stamp.days], np.zeros(rows, np.int64)
    if DATE in codes and isinstance(date := stamp.column(DATE), Date):
        levels, keys = np.unique(codes[DATE], return_inverse=True)
        periods = [date.days(code) if code < date.levels else stamp.days for code in levels.tolist()]
    ends = np.array(periods, dtype="datetime64[D]").reshape(-1, 2).astype(np.int64)
    given = [part for part in (MONTH, WEEKDAY) if part in codes]
    if not given:
        return _draw(ends[keys, 0], ends[keys, 1], generator)
    # Rows with the same period, month and weekday share a key; list the matching days of each key once.
    for part in given:
        keys = keys * MOST_LEVELS + codes[part]
    distinct, position = np.unique(keys, return_inverse=True)
    parts_of_key = np.stack([distinct // MOST_LEVELS**k % MOST_LEVELS for k in reversed(range(len(given)))], axis=1)
    period_of_key = ends[distinct // MOST_LEVELS ** len(given)]
    matching = [
        _matching(low, high, given, parts) for (low, high), parts in zip(period_of_key, parts_of_key, strict=True)
    ]
    # Draw one of the days of its key for each row.
    counts = np.array([len(days) for days in matching], dtype=np.int64)
    at = (np.cumsum(counts) - counts)[position]
    return np.concatenate([np.zeros(0, np.int64), *matching])[_draw(at, at + counts[position] - 1, generator)]


def _matching(low: int, high: int, parts: Sequence[str], codes: Codes) -> Codes:
    """The days from low to high with these parts; a part that is missing, or that no day has, is ignored."""
    days = np.arange(low, high + 1)
    for part, code in zip(parts, codes, strict=True):
        if part == MONTH:
            levels = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64) % 12
        else:
            levels = (days + 3) % 7  # 1970 began on a Thursday
        with_part = days[levels == code]
        days = with_part if len(with_part) else days
    return days
