"""Guesses for a draft: the kind of a column from its name, and a column from what the rows show."""

from __future__ import annotations

import datetime as dt
import math
import re
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from typing import Any

from hush.errors import SchemaError
from hush.schema.columns import Boolean, Categorical, Column, Date, Granularity, Integer, Numeric, Outside
from hush.schema.profile import Profile

MOST_INTEGERS = 1000
BINS = 32
_UNIT_WORDS = frozenset({"id", "ids", "uuid", "guid", "ssn", "identifier"})
_FLAG_WORDS = frozenset({"is", "has", "was", "had"})
_KIND_WORDS = {
    "date": frozenset({"date", "datetime", "timestamp", "dob", "birthdate", "birthday"}),
    "integer": frozenset(
        {"age", "year", "years", "month", "hours", "days", "count", "number", "num", "children", "rooms", "quantity"}
    ),
    "numeric": frozenset(
        {"income", "salary", "wage", "price", "amount", "cost", "balance", "weight", "height", "bmi", "gain", "loss"}
        | {"rate", "latitude", "longitude", "temperature", "percent", "fare"}
    ),
}


def _words(name: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def names_a_unit(name: str) -> bool:
    """Whether a name is that of an id column, such as person_id.

    >>> names_a_unit("personID"), names_a_unit("patient_id"), names_a_unit("idle")
    (True, True, False)
    """
    return not _UNIT_WORDS.isdisjoint(_words(name))


def kind_from_name(name: str) -> str:
    """The kind that a name suggests; categorical where it suggests nothing.

    >>> [kind_from_name(name) for name in ("hours-per-week", "admittedAt", "has_children", "sex")]
    ['integer', 'date', 'boolean', 'categorical']
    """
    words = _words(name)
    if len(words) > 1 and words[0] in _FLAG_WORDS:
        return "boolean"
    if len(words) > 1 and words[-1] == "at":
        return "date"
    return next((kind for kind, known in _KIND_WORDS.items() if not known.isdisjoint(words)), "categorical")


def column_from_profile(name: str, profile: Profile) -> Column | None:
    """A column that holds every value of the rows; None where no kind does.

    Privacy: as exact as the profile; for drafts that say so.
    """
    shared: dict[str, Any] = {
        "name": name,
        "missing": profile.missing,
        "missing_values": profile.missing_values,
    }
    try:
        match profile.kind:
            case "boolean":
                return Boolean(**shared)
            case "categorical":
                return Categorical(values=profile.values or (), **shared)
            case "date":
                return _date(profile.first or dt.date.min, profile.last or dt.date.max, shared)
            case _:
                return _number(profile, shared)
    except SchemaError:
        return None


def _number(profile: Profile, shared: dict[str, Any]) -> Column:
    low, high = profile.low or 0.0, profile.high or 0.0
    if profile.kind == "integer" and high - low < MOST_INTEGERS:
        return Integer(low=int(low), high=int(high), **shared)
    low, high = wider_bounds(low, high)
    outside = Outside.CLAMP if profile.infinite else Outside.REFUSE
    return Numeric.equal_width(low=low, high=high, bins=BINS, outside=outside, **shared)


def wider_bounds(low: float, high: float) -> tuple[float, float]:
    """Round bounds outward to two digits of their distance.

    >>> wider_bounds(0.13, 97.2), wider_bounds(1234.0, 1234.0)
    ((0.0, 98.0), (1234.0, 1235.0))
    """
    if low == high:
        return low, math.nextafter(low, math.inf) if abs(low) > 2**52 else low + 1
    span = high - low
    if not math.isfinite(span) or span < 1e-300:
        return low, high
    with localcontext(prec=800):  # enough for any float to be exact
        step = Decimal(10) ** (math.floor(math.log10(span)) - 1)
        down = (Decimal(low) / step).to_integral_value(ROUND_FLOOR) * step
        up = (Decimal(high) / step).to_integral_value(ROUND_CEILING) * step
        return float(down), float(up)


def _date(first: dt.date, last: dt.date, shared: dict[str, Any]) -> Date:
    """Levels of a width that gives a handful to some hundreds; months and wider in whole years."""
    days = (last - first).days + 1
    if days <= 100:
        return Date(start=first, end=last, granularity=Granularity.DAY, **shared)
    if days <= 2 * 365:
        return Date(start=first, end=last, granularity=Granularity.WEEK, **shared)
    granularity = (
        Granularity.MONTH if days <= 25 * 365 else Granularity.QUARTER if days <= 75 * 365 else Granularity.YEAR
    )
    start, end = dt.date(first.year, 1, 1), dt.date(last.year, 12, 31)
    return Date(start=start, end=end, granularity=granularity, **shared)
