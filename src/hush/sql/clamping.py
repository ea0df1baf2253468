"""Clamping: columns whose first and last levels also hold what lay beyond the bounds."""

from __future__ import annotations

from hush.schema import Column, Date, Integer, Numeric, Outside


def clamps(column: Column) -> bool:
    """Whether values beyond the bounds of a column were moved to them."""
    return isinstance(column, Integer | Numeric | Date) and column.outside is Outside.CLAMP


def clamp_note(column: Column) -> str:
    """That the first and the last level hold clamped values."""
    return (
        f"{column.name}: values beyond its bounds were clamped, so the levels {column.label(0)} and "
        f"{column.label(column.levels - 1)} hold them too."
    )
