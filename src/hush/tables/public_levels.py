"""A schema from what the caller states about a few columns of a frame, and from types that hold their own levels.

Privacy: reads types, never rows. What no type and no argument says is refused, not looked up in the data.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from hush.core.errors import DataError, SchemaError, close_match, shown
from hush.schema import Boolean, Categorical, Column, Date, Granularity, Integer, Numeric, Outside, Schema
from hush.schema.column import Value
from hush.tables.dialects.dialect import is_a
from hush.tables.frame_types import type_of
from hush.tables.frames import recognised
from hush.tables.sources import find_column

Bounds: TypeAlias = tuple[Any, Any] | tuple[Any, Any, int]  # lowest, highest, and how many bins
MOST_SINGLE_INTEGERS = 120  # of which each has a level of its own: ages fit
DEFAULT_BINS = 20
GRANULARITY_BY_DAYS = ((62, Granularity.DAY), (5 * 366, Granularity.MONTH))  # the widest span for each; else years


def public_schema(
    source: Any,
    columns: Sequence[str],
    *,
    levels: Mapping[str, Iterable[Value]],
    bounds: Mapping[str, Bounds],
    missing: bool = False,
) -> Schema:
    """The schema of some columns by stated `levels` or `bounds`, or by types with levels of their own.

    Such types are booleans and polars enums. Categories of pandas are usually those of the rows, so they are not taken.
    Whole bounds less than 120 apart make every integer a level, and whole bounds with bins make bins of integers; real
    numbers take bounds such as (0.0, 4.0). Numbers beyond their bounds are clamped. With `missing` every column gets a
    level for missing values.

    >>> public_schema(None, ["sex", "age"], levels={"sex": ["f", "m"]}, bounds={"age": (0, 99)}).domain
    Domain({'sex': 2, 'age': 100})
    """
    # Check the names: every stated column must be asked for, and the frame must have every one.
    check_stated(levels, bounds)
    for key, stated in (("levels", levels), ("bounds", bounds)):
        for name in stated:
            if name not in columns:
                near = close_match(name, columns)
                hint = f"did you mean {near!r}?" if near else "name the column too, or leave it out"
                raise DataError(f"{key}= states {name!r}, but the call does not count by this column; {hint}")
    frame = recognised(source)
    if frame is not None:
        for name in columns:
            find_column(name, frame[1], frame[0])

    # Make the columns; one message names all whose levels nobody stated.
    made: list[Column] = []
    unknown: list[str] = []
    for name in columns:
        rest: dict[str, Any] = {"name": name, "missing": missing}
        kind: Any = None if frame is None else type_of(source, name)
        if name in levels and name in bounds:
            raise SchemaError(f"column {name!r} has both levels and bounds; keep one")
        if name in levels:
            made.append(Categorical(values=tuple(levels[name]), **rest))
        elif name in bounds:
            made.append(_bounded(bounds[name], **rest))
        elif str(kind).lower() in ("bool", "boolean"):
            made.append(Boolean(**rest))
        elif is_a(kind, "polars", "Enum"):
            made.append(Categorical(values=tuple(kind.categories.to_list()), **rest))
        else:
            unknown.append(name)
    if unknown:
        kinds = [None if frame is None else type_of(source, name) for name in unknown]
        examples = [_example(name, kind) for name, kind in zip(unknown, kinds, strict=True)]
        pandas = ", as pandas does for categories," if "category" in map(str, kinds) else ""
        told = [f"{key}={{{', '.join(e for k, e in examples if k == key)}}}" for key in dict(examples)]
        raise SchemaError(
            f"the levels of {', '.join(map(repr, unknown))} are not known, and taking them from the rows{pandas} would "
            f"give rows away; state what is public, such as {', '.join(told)}, or give schema="
        )
    return Schema(made)


def _example(name: str, kind: Any) -> tuple[str, str]:
    """How to state what a column of a type may hold: the argument, and an example of its entry."""
    if _holds(kind, "date", "timestamp"):
        return "bounds", f"{name!r}: ('2020-01-01', '2020-12-31')"
    if _holds(kind, "float", "double", "int", "decimal"):
        return "bounds", f"{name!r}: (0, 99)"
    return "levels", f"{name!r}: ['a', 'b']"


def check_stated(levels: Any, bounds: Any) -> None:
    """Refuse levels and bounds that are not given by column, and levels that are no list."""
    for key, stated, example in (("levels", levels, "['female', 'male']"), ("bounds", bounds, "(0, 120)")):
        if not isinstance(stated, Mapping):
            raise SchemaError(f"{key}={shown(stated)}: expected them by column, such as {key}={{'COLUMN': {example}}}")
    for name in (*levels, *bounds):
        if not isinstance(name, str):
            raise SchemaError(f"column {shown(name)}: write its name as a text, such as '{shown(name)}'")
    for name, values in levels.items():
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):
            raise SchemaError(f"levels of {name!r} = {shown(values)}: expected a list, such as ['female', 'male']")


def day_of(value: Any) -> Any:
    """The day that a text such as 2020-01-31, a timestamp or a datetime64 states; any other value as it is.

    >>> day_of("2020-01-31"), day_of(dt.datetime(2020, 1, 31, 8)), day_of("soon")
    (datetime.date(2020, 1, 31), datetime.date(2020, 1, 31), 'soon')
    """
    value = value.astype("datetime64[D]").item() if isinstance(value, np.datetime64) else value
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            return dt.date.fromisoformat(value)
    return value.date() if isinstance(value, dt.datetime) else value


def _bounded(stated: Bounds, *, name: str, **rest: Any) -> Column:
    """A column of days, integers or real numbers between bounds, whatever type the frame has for it.

    pandas takes types from the rows: a missing cell, or half a number, makes whole numbers floats.
    """
    if not isinstance(stated, Sequence) or isinstance(stated, str) or len(stated) not in (2, 3):
        raise SchemaError(f"bounds of {name!r}: {shown(stated)}: expected (lowest, highest) or (lowest, highest, bins)")
    low, high, *bins = map(day_of, stated)
    if isinstance(low, str) or isinstance(high, str):
        raise SchemaError(
            f"bounds of {name!r}: {shown(stated)}: expected numbers, such as (0, 99), or days, such as "
            "('2020-01-01', '2020-12-31')"
        )
    rest |= {"name": name, "outside": Outside.CLAMP}
    if isinstance(low, dt.date) and isinstance(high, dt.date):
        if bins:
            raise SchemaError(f"bounds of {name!r}: days have no bins; give (first day, last day)")
        days = (high - low).days
        chosen = next((width for most, width in GRANULARITY_BY_DAYS if days < most), Granularity.YEAR)
        return Date(start=low, end=high, granularity=chosen, **rest)
    whole = all(isinstance(end, int) and not isinstance(end, bool) for end in (low, high))
    if whole and bins:
        return Integer.equal_width(low=low, high=high, bins=bins[0], **rest)
    if whole and high - low < MOST_SINGLE_INTEGERS:
        return Integer(low=low, high=high, **rest)
    return Numeric.equal_width(low=low, high=high, bins=bins[0] if bins else DEFAULT_BINS, **rest)


def _holds(kind: Any, *words: str) -> bool:
    """Whether the name of a type has one of some words."""
    return any(word in str(kind).lower() for word in words)


def check_columns(columns: Sequence[str]) -> None:
    """Refuse no columns, columns that are no names, and a column twice."""
    if not columns:
        raise DataError("no column is named; name at least one column, such as hush.count(df, 'sex', epsilon=0.5)")
    if not all(isinstance(name, str) for name in columns):
        raise DataError(
            f"columns {shown(columns)}: write their names one after the other, such as "
            "hush.count(df, 'sex', 'age', epsilon=0.5)"
        )
    if len(set(columns)) < len(columns):
        raise DataError(f"columns {shown(columns)}: a column is named twice; name each once")
