"""Columns of dates, in levels of a day, week, month, quarter or year."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from hush.errors import SchemaError, shown
from hush.schema.column import Column, Outside, Value, check_outside


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

    def value(self, code: int) -> Value:
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
        first, after = self.value(code), self.value(code + 1) if code + 1 < self.levels else None
        if not isinstance(first, dt.date):
            raise TypeError(f"level {code} of the column {self.name!r} has no day")
        return first, after - dt.timedelta(days=1) if isinstance(after, dt.date) else self.end

    def label(self, code: int) -> str:
        day = self.value(code) if 0 <= code < self.levels else None
        if not isinstance(day, dt.date):
            return Column.label(self, code)
        match self.granularity:
            case Granularity.YEAR:
                return f"{day.year:04}"
            case Granularity.QUARTER:
                return f"{day.year:04}-Q{(day.month + 2) // 3}"
            case Granularity.MONTH:
                return day.isoformat()[:7]
            case _:
                return day.isoformat()
