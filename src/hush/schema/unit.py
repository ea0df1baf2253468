"""Unit: whose presence in the table is hidden."""

from __future__ import annotations

from dataclasses import dataclass

from hush.errors import SchemaError


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """Whose presence is hidden: a row (no column), or every row with one value of an id column.

    `max_rows` rows of a unit are used at most; the rest are left out before anything is counted.
    """

    column: str | None = None
    max_rows: int = 1

    def __post_init__(self) -> None:
        if isinstance(self.max_rows, bool) or not isinstance(self.max_rows, int) or self.max_rows < 1:
            raise SchemaError(f"max_rows_per_unit = {self.max_rows!r}: expected an integer >= 1")
        if self.column is None and self.max_rows != 1:
            raise SchemaError(
                f"max_rows_per_unit = {self.max_rows} without an id column cannot be enforced; name the unit's column"
            )
        if self.column is not None and not self.column:
            raise SchemaError("unit column '': expected the name of the id column")


ROW = Unit()
