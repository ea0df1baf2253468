"""Columns: what each column of a release holds, in words."""

from __future__ import annotations

from hush.report.labels import compact, count, named, readable
from hush.report.markup import Markup, join
from hush.report.tables import table
from hush.schema import Boolean, Column, Date, Integer, Numeric, Outside, Schema
from hush.schema.column import MISSING_LABEL, OTHER_LABEL

MOST_VALUES = 8
MOST_COLUMNS = 200


def column_table(schema: Schema) -> Markup:
    """One row per column: name, kind, levels, and what became of values that have no level of their own."""
    rows = [
        (named(column.name), column.kind, levels_of(column), f"{column.size:,}", beyond(column), missing(column))
        for column in schema.columns[:MOST_COLUMNS]
    ]
    heads = ("column", "kind", "levels", "size", "any other value", "missing")
    left_out = len(schema) - len(rows)
    caption = f"The first {MOST_COLUMNS} of {len(schema):,} columns." if left_out else None
    return table(heads, rows, numbers=(3,), caption=caption)


def levels_of(column: Column) -> Markup:
    """The ordinary levels in a few words."""
    match column:
        case Integer():
            return join(f"every integer from {column.low} to {column.high}")
        case Numeric():
            low, high = (compact(column.edges[end]) for end in (0, -1))
            first = readable(column.label(0))
            return join(f"{low} to {high} in {count(column.levels, 'bin')}, the first {first}")
        case Date():
            return join(f"{column.start} to {column.end} by {column.granularity}")
        case Boolean():
            return join("false, true")
        case _:
            shown = [named(column.label(code), 30) for code in range(min(column.levels, MOST_VALUES))]
            more = column.levels - len(shown)
            return join(Markup(", ".join(shown)), f" and {more:,} more" if more else None)


def beyond(column: Column) -> str:
    """What became of values that are none of the levels."""
    if isinstance(column, Integer | Numeric | Date) and column.outside is Outside.CLAMP:
        return "counted at the nearer end"
    return "refused" if column.other_code is None else f"counted as {OTHER_LABEL}"


def missing(column: Column) -> str:
    """What became of missing values."""
    return f"counted as {MISSING_LABEL}" if column.missing else "refused"
