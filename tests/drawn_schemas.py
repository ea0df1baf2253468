"""Hypothesis strategies that draw columns and schemas; they need hypothesis, which hush itself does not."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from hush.core.errors import SchemaError
from hush.schema import (
    Boolean,
    Categorical,
    Column,
    Date,
    Granularity,
    Integer,
    Numeric,
    Outside,
    Schema,
    Stamp,
    TimeOfDay,
    Timestamp,
    Unit,
)
from hush.schema.column import LARGEST_INTEGER, canonical
from hush.schema.column_kinds import KINDS
from hush.schema.number_spelling import PLAIN_NUMBERS, NumberSpelling
from hush.schema.stamps import MINUTE_WIDTHS, WEEKDAYS

ALL_KINDS: tuple[type[Column], ...] = tuple(KINDS.values())
ODD_NAMES = ("a.b", 'say "hi"', "new\nline", "tab\t", "back\\slash", "😀", "\x00\x1b[31m", "été", "#", "[x]", "a = 1")
names = st.sampled_from(ODD_NAMES) | st.text(min_size=1, max_size=12).filter(lambda text: bool(text.strip()))
_texts = st.text(min_size=1, max_size=8).filter(lambda text: bool(text.strip()))
_reserved = {"other", "(other)", "(missing)"}
_integers = st.integers(-LARGEST_INTEGER, LARGEST_INTEGER)
_floats = st.floats(allow_nan=False, allow_infinity=False)


spellings = st.just(PLAIN_NUMBERS) | st.builds(
    lambda marks, strip: NumberSpelling(decimal=marks[0], thousands=marks[1], strip=strip),
    st.sampled_from([(".", ""), (",", ""), (",", "."), (".", ","), (",", " "), (".", "'"), (".", "_")]),
    st.sampled_from([(), ("€",), ("%", "$"), ("EUR", "US$")]),
)


def values() -> st.SearchStrategy[Any]:
    """A value that a categorical column may declare."""
    dates = st.dates()
    return st.one_of(_texts, st.integers(-(2**63), 2**63 - 1), _floats, st.booleans(), dates).filter(
        lambda value: canonical(value) not in _reserved
    )


@st.composite
def columns(draw: st.DrawFn, name: str = "x", kinds: Sequence[type[Column]] = ALL_KINDS) -> Column:
    """A column of one of the kinds."""
    shared: dict[str, Any] = {"name": name, "missing": draw(st.booleans()), "from_private_data": draw(st.booleans())}
    if shared["missing"]:
        shared["missing_values"] = tuple(
            draw(st.lists(_texts.filter(lambda text: text.strip() != "other"), max_size=2))
        )
    kind = draw(st.sampled_from(kinds))
    if kind in (Integer, Numeric, Date):
        shared["outside"] = draw(st.sampled_from(Outside))
    if kind in (Integer, Numeric):
        shared["spelling"] = draw(spellings)
    if kind is Categorical:
        marks = {text.strip() for text in shared.get("missing_values", ())}
        listed = draw(
            st.lists(values().filter(lambda value: canonical(value) not in marks), min_size=1, unique_by=canonical)
        )
        return Categorical(values=tuple(listed), other=draw(st.booleans()), **shared)
    if kind is Integer:
        low = draw(_integers)
        high = min(low + draw(st.integers(0, 2**20)), LARGEST_INTEGER)
        within = st.integers(low, high)
        starts = sorted({low, *draw(st.lists(within, max_size=8))}) if draw(st.booleans()) else []
        points = draw(st.lists(within, max_size=3)) if starts else []
        return Integer(low=low, high=high, starts=tuple(starts), points=_no_marks(points, shared), **shared)
    if kind is Numeric:
        return draw(_numeric(shared))
    if kind is Date:
        start, end = sorted((draw(st.dates()), draw(st.dates())))
        return Date(start=start, end=end, granularity=draw(st.sampled_from(Granularity)), **shared)
    return Boolean(**shared)


@st.composite
def _numeric(draw: st.DrawFn, shared: dict[str, Any]) -> Numeric:
    if draw(st.booleans()):
        edges = sorted(draw(st.lists(_floats, min_size=2, max_size=12, unique=True)))
        within = st.sampled_from(edges) | st.floats(edges[0], edges[-1])
        points = _no_marks(draw(st.lists(within, max_size=3)), shared)
        return Numeric(edges=tuple(edges), points=points, **shared)
    low, high = sorted(draw(st.tuples(_floats, _floats).filter(lambda pair: pair[0] != pair[1])))
    try:
        return Numeric.equal_width(low=low, high=high, bins=draw(st.integers(1, 40)), **shared)
    except SchemaError:  # too many bins between floats that are too near or too far apart
        return Numeric(edges=(low, high), **shared)


def _no_marks(points: list[Any], shared: dict[str, Any]) -> tuple[Any, ...]:
    """The points that do not mean missing."""
    marks = {text.strip() for text in shared.get("missing_values", ())}
    return tuple(point for point in points if canonical(point) not in marks)


@st.composite
def stamps(draw: st.DrawFn, name: str = "x") -> Stamp:
    """A column of times of one of the kinds."""
    dated = draw(st.booleans())
    parts = draw(st.lists(st.sampled_from(Timestamp.known if dated else TimeOfDay.known), min_size=1, unique=True))
    shared: dict[str, Any] = {"name": name, "parts": tuple(parts), "missing": draw(st.booleans())}
    shared["from_private_data"] = draw(st.booleans())
    if shared["missing"]:
        marks = _texts.filter(lambda text: text.strip() not in (*WEEKDAYS, "(missing)"))
        shared["missing_values"] = tuple(draw(st.lists(marks, max_size=2)))
    if "minute" in parts:
        shared["minutes"] = draw(st.sampled_from(MINUTE_WIDTHS))
    if not dated:
        return TimeOfDay(**shared)
    if "date" in parts:
        shared["granularity"] = draw(st.sampled_from(Granularity))
    start = draw(st.dates())
    end = min(start.toordinal() + draw(st.integers(0, 3000)), dt.date.max.toordinal())
    return Timestamp(start=start, end=dt.date.fromordinal(end), outside=draw(st.sampled_from(Outside)), **shared)


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    """A schema of a few columns with odd names, and any unit."""
    wanted = draw(st.lists(names, min_size=1, max_size=4, unique=True))
    unit = Unit()
    if draw(st.booleans()):
        column = draw(names.filter(lambda name: name not in wanted))
        unit = Unit(column=column, max_rows=draw(st.integers(1, 10**6)))
    whole = [draw(columns(name) | stamps(name)) for name in wanted]
    return Schema(whole, unit=unit)


def days(column: Date) -> st.SearchStrategy[dt.date]:
    """A day that the column declares."""
    return st.dates(column.start, column.end)
