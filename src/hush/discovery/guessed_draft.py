"""Guessed draft: a draft for people in a hurry, from public facts alone: names, declared types, and what they state.

hush never reads values here. It lists what it assumed in plain words, for people to check before anything is spent.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hush.core.errors import SchemaError, close_match, printable, shown
from hush.core.unit import ROW, Unit
from hush.schema.column import Column, Value
from hush.schema.column_kinds import Categorical, Date, Integer, Numeric
from hush.schema.discovery_draft import (
    BINS,
    BOUNDS,
    GRANULARITY,
    LEVELS,
    Draft,
    OpenColumn,
    read_draft_column,
)
from hush.schema.provenance import DISCOVER
from hush.schema.schema import Schema
from hush.schema.stamps import Stamp, Timestamp
from hush.tables.column_profiles import UNKNOWN, UNSUPPORTED
from hush.tables.dialects.dialect import is_a
from hush.tables.drafting import declared_kinds, kind_from_name, names_a_unit, whole_source
from hush.tables.frame_types import type_of
from hush.tables.public_levels import check_stated, day_of

OPEN_ENTRIES: dict[str, dict[str, Any]] = {  # what is left open in a column of each kind
    "categorical": {LEVELS: DISCOVER},
    "boolean": {},
    "integer": {BOUNDS: DISCOVER},
    "numeric": {BOUNDS: DISCOVER, BINS: DISCOVER},
    "date": {BOUNDS: DISCOVER, GRANULARITY: DISCOVER},
    "timestamp": {BOUNDS: DISCOVER, GRANULARITY: DISCOVER, "parts": ["date", "hour"]},
    "time": {"parts": ["hour"]},
}


@dataclass(frozen=True, slots=True)
class GuessedDraft:
    """A draft, what was assumed to make it, one sentence each, and the columns that it leaves out."""

    draft: Draft
    assumed: tuple[str, ...]
    left_out: tuple[str, ...]


def guessed_draft(
    data: Any,
    *,
    schema: Schema | Mapping[str, Any] | None = None,
    bounds: Mapping[str, tuple[Any, Any]] | None = None,
    levels: Mapping[str, Iterable[Value]] | None = None,
    unit: Unit = ROW,
    table: str | None = None,
    query: str | None = None,
) -> GuessedDraft:
    """The draft that names and declared types suggest for a frame, a file or a database.

    `schema` has columns that are known: a schema, whose unit is then protected, or a mapping of names to columns or to
    what their tables in a schema file hold, open entries included. `bounds` has the bounds of columns whose bins alone
    are to be found, such as {"age": (0, 120)}, and `levels` the values of categories. Columns whose names say that they
    are ids are left out, as are types that hush cannot count.

    Privacy: reads names and declared types, no row.

    >>> import pyarrow as pa
    >>> guess = guessed_draft(pa.table({"id": [7], "age": [31], "sex": ["f"]}), bounds={"age": (0, 120)})
    >>> [column.name for column in guess.draft], guess.left_out
    (['age', 'sex'], ('id',))
    """
    # What the caller states, about columns that exist, each stated once.
    source = whole_source(data, table=table, query=query)
    known = _known_columns(schema)
    stated = schema.unit if isinstance(schema, Schema) else ROW
    if unit == ROW:
        unit = stated
    elif stated not in (ROW, unit):
        raise SchemaError(f"unit = {shown(unit)} is not the unit of schema, {shown(stated)}; keep one")
    given, listed = bounds or {}, levels or {}
    check_stated(listed, given)
    if twice := [name for name in (*given, *listed) if name in known or (name in given and name in listed)]:
        raise SchemaError(f"column {twice[0]!r} is stated twice, in schema=, levels= or bounds=; keep one")
    for name in [*known, *given, *listed]:
        if name not in source.columns:
            near = close_match(name, source.columns)
            hint = f"did you mean {near!r}?" if near else "check its spelling"
            raise SchemaError(f"the data have no column {shown(name)}; {hint}")
    # Each column as it is known, or as its type and its name suggest.
    columns: list[Column | Stamp | OpenColumn] = []
    assumed: list[str] = []
    left_out: list[str] = []
    for name, declared in zip(source.columns, declared_kinds(source), strict=True):
        if name == unit.column:
            continue
        if name in known:
            columns.append(known[name])
            continue
        if name not in listed and (declared == UNSUPPORTED or (names_a_unit(name) and name not in given)):
            reason = "hush cannot count its type" if declared == UNSUPPORTED else "its name says that it is an id"
            left_out.append(name)
            assumed.append(f"{printable(name)}: left out, since {reason}")
            continue
        column, said = _guessed_column(data, name, declared, levels=listed.get(name), bounds=given.get(name))
        columns.append(column)
        assumed.append(f"{printable(name)}: {said}")
    # What else people should know.
    if is_a(data, "pandas", "DataFrame") and any(name is not None for name in data.index.names):
        assumed.append("The index of the frame: left out; frame.reset_index() makes it columns.")
    if unit.column is None:
        assumed.append("Protected: one row. If a person may have several rows, name the id column.")
    else:
        assumed.append(f"Protected: all rows of one {printable(unit.column)}.")
    return GuessedDraft(Draft(columns=tuple(columns), unit=unit), tuple(assumed), tuple(left_out))


def _guessed_column(
    data: Any, name: str, declared: str, *, levels: Iterable[Value] | None, bounds: tuple[Any, Any] | None
) -> tuple[Column | Stamp | OpenColumn, str]:
    """A column that nobody described, and in words why it is taken for what it is."""
    missing = not _never_missing(data, name)
    may_be_missing = "; cells may be missing" * missing
    if levels is not None:
        listed = Categorical(name=name, values=tuple(levels), missing=missing)
        return listed, f"categorical, with the {len(listed.values):,} levels given{may_be_missing}"
    # A frame may hold days as texts, which its type cannot tell; then the name or the bounds do.
    by_name = kind_from_name(name)
    named = declared == UNKNOWN or (declared == Categorical.kind and by_name in (Date.kind, Timestamp.kind))
    kind = by_name if named else declared
    said = f"{kind}, judged by its name" if named else f"{kind}, as its type says"
    if kind == Categorical.kind and _are_days(bounds):
        kind, said = Date.kind, f"{Date.kind}, as its bounds say"
    entries = {"kind": kind, **OPEN_ENTRIES[kind]}
    if bounds is not None:
        entries.pop(BOUNDS, None)
        entries |= _bounded(name, kind, bounds)
        said += f", {_end(bounds[0])} to {_end(bounds[1])} as given"
    if (declares := _declared_levels(data, name)) is not None:
        by_type = Categorical(name=name, values=declares, missing=True)
        return by_type, f"categorical, with the {len(declares):,} levels that its type declares"
    if missing:
        entries["missing"] = True
    return read_draft_column(name, entries), said + may_be_missing


def _known_columns(schema: Schema | Mapping[str, Any] | None) -> dict[str, Column | Stamp | OpenColumn]:
    """The columns that the caller states, by the name of their column in the table."""
    if schema is None:
        return {}
    if isinstance(schema, Schema):
        parts = [column if column.part is None else column.part.stamp for column in schema]
        return {column.name: column for column in parts}
    if not isinstance(schema, Mapping):
        raise SchemaError(f"schema = {shown(schema)}: expected a Schema, or a mapping of column names to columns")
    return {column.name: column for column in Draft.of(schema).columns}


def _end(value: Any) -> str:
    """A bound as people write it, days such as 2020-01-31."""
    value = day_of(value)
    return value.isoformat() if isinstance(value, dt.date) else shown(value)


def _are_days(bounds: Any) -> bool:
    """Whether bounds are two days."""
    return isinstance(bounds, tuple | list) and all(isinstance(day_of(end), dt.date) for end in bounds)


def _bounded(name: str, kind: str, bounds: Any) -> dict[str, Any]:
    """The entries of a column with given bounds; values outside are clamped."""
    if not isinstance(bounds, tuple | list) or len(bounds) != 2:
        raise SchemaError(f"bounds of {name!r} = {shown(bounds)}: expected two values, such as (0, 120)")
    if kind in (Integer.kind, Numeric.kind):
        low, high = bounds
        if isinstance(low, str) or isinstance(high, str):
            raise SchemaError(f"bounds of {name!r} = {shown(bounds)}: expected two numbers, such as (0, 120)")
        if kind == Integer.kind:
            low, high = int(low), int(high)
        return {"low": low, "high": high, BINS: DISCOVER, "outside": "clamp"}
    if kind in ("date", "timestamp"):
        start, end = map(day_of, bounds)
        if not isinstance(start, dt.date) or not isinstance(end, dt.date):
            raise SchemaError(
                f"bounds of {name!r} = {shown(bounds)}: expected days, such as ('2020-01-01', '2020-12-31')"
            )
        return {"start": start, "end": end, "outside": "clamp"}
    raise SchemaError(
        f"bounds of {name!r}: its type makes the column {kind}, and such columns have no bounds; list its values in "
        "levels=, or turn its texts into numbers or days first"
    )


def _declared_levels(data: Any, name: str) -> tuple[str, ...] | None:
    """The levels that a type declares, apart from the rows: those of a polars Enum.

    pandas and polars take the categories of their categorical types from the rows, so these are private.
    """
    if is_a(data, "polars", "DataFrame") and type(data.schema[name]).__name__ == "Enum":
        return tuple(map(str, data.schema[name].categories))
    return None


def _never_missing(data: Any, name: str) -> bool:
    """Whether the type of a column rules out missing cells: plain integers and booleans of pandas, `nullable=False`."""
    if isinstance(data, pa.Table):
        return not data.schema.field(name).nullable
    if is_a(data, "pandas", "DataFrame"):
        kind = type_of(data, name)
        return getattr(kind, "kind", "O") in "iub" and not hasattr(kind, "na_value")
    return False
