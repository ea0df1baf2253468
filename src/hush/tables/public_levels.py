"""A schema from what the caller states about a few columns of a frame, and from types that hold their own levels.

Privacy: reads types, never rows. What no type and no argument says is refused, not looked up in the data.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from hush.core.errors import DataError, SchemaError, shown
from hush.schema import Boolean, Categorical, Column, Date, Granularity, Integer, Numeric, Outside, Schema
from hush.schema.column import Value
from hush.tables.dialects.dialect import is_a
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
    for key, stated in (("levels", levels), ("bounds", bounds)):
        for name in stated:
            find_column(name, columns, f"the call counts by {', '.join(columns)}; {key}")
    frame = recognised(source)
    if frame is not None:
        for name in columns:
            find_column(name, frame[1], frame[0])

    # Make the columns; one message names all whose levels nobody stated.
    made: list[Column] = []
    unknown: list[str] = []
    for name in columns:
        rest: dict[str, Any] = {"name": name, "missing": missing}
        kept = None if frame is None else _type_levels(source, name)
        if name in levels and name in bounds:
            raise SchemaError(f"column {name!r} has both levels and bounds; keep one")
        if name in levels:
            made.append(Categorical(values=tuple(levels[name]), **rest))
        elif name in bounds:
            made.append(_bounded(bounds[name], **rest))
        elif kept is bool:
            made.append(Boolean(**rest))
        elif kept is not None:
            made.append(Categorical(values=tuple(kept), **rest))
        else:
            unknown.append(name)
    if unknown:
        number = frame is not None and _holds_numbers(source, unknown[0])
        example = f"bounds={{{unknown[0]!r}: (0, 99)}}" if number else f"levels={{{unknown[0]!r}: ['a', 'b']}}"
        if frame is not None and _type_name(source, unknown[0]) == "category":
            example = f"levels={{{unknown[0]!r}: frame[{unknown[0]!r}].cat.categories}} if its categories are"
        raise SchemaError(
            f"the levels of {', '.join(map(repr, unknown))} are not known, and taking them from the rows would give "
            f"rows away; state what is public, such as {example}, or give schema="
        )
    return Schema(made)


def _bounded(stated: Bounds, *, name: str, **rest: Any) -> Column:
    """A column of days, integers or real numbers between bounds, whatever type the frame has for it.

    pandas takes types from the rows: a missing cell, or half a number, makes whole numbers floats.
    """
    if not isinstance(stated, Sequence) or isinstance(stated, str) or len(stated) not in (2, 3):
        raise SchemaError(f"bounds of {name!r}: {shown(stated)}: expected (lowest, highest) or (lowest, highest, bins)")
    low, high, *bins = stated
    if isinstance(low, str) or isinstance(high, str):
        raise SchemaError(
            f"bounds of {name!r}: {shown(stated)}: expected numbers, such as (0, 99), or days, such as "
            "(datetime.date(2020, 1, 1), datetime.date(2020, 12, 31))"
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


def _type_levels(source: Any, name: str) -> list[Value] | type[bool] | None:
    """The levels that the type of a column holds; bool for a column of booleans, None if the type holds none."""
    if is_a(source, "pandas", "DataFrame"):
        kind = source[name].dtype
        return bool if kind.name in ("bool", "boolean") else None
    if is_a(source, "polars", "DataFrame"):
        kind = source.schema[name]
        if str(kind) == "Boolean":
            return bool
        return kind.categories.to_list() if is_a(kind, "polars", "Enum") else None
    return bool if pa.types.is_boolean(source.schema.field(name).type) else None


def _holds_numbers(source: Any, name: str) -> bool:
    return any(word in _type_name(source, name) for word in ("int", "float", "double"))


def _type_name(source: Any, name: str) -> str:
    """The name of the type of a column, in lower case."""
    if is_a(source, "pandas", "DataFrame"):
        return str(source[name].dtype).lower()
    return str(source.schema[name] if is_a(source, "polars", "DataFrame") else source.schema.field(name).type).lower()


def check_columns(columns: Sequence[str]) -> None:
    """Refuse no columns, columns that are no names, and a column twice."""
    if not columns or not all(isinstance(name, str) for name in columns):
        raise DataError(f"columns {shown(columns)}: name at least one column, such as hush.count(df, 'sex', ...)")
    if len(set(columns)) < len(columns):
        raise DataError(f"columns {shown(columns)}: a column is named twice; name each once")
