"""Unit: whose presence in the table is hidden."""

from __future__ import annotations

from dataclasses import dataclass

from hush.core.errors import SchemaError, check_text, printable, shown
from hush.core.validation import check_whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """Whose presence is hidden: a row (no column), or every row with one value of an id column.

    At most `max_rows` rows of a unit are used; the others are dropped before anything is counted.
    """

    column: str | None = None
    max_rows: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_rows", check_whole(SchemaError, "unit: max_rows", self.max_rows, least=1))
        if self.column is None and self.max_rows != 1:
            raise SchemaError(
                f"unit: max_rows = {shown(self.max_rows)} cannot be enforced without an id column; name the column"
            )
        if self.column is not None:
            if not isinstance(self.column, str) or not self.column.strip():
                raise SchemaError(f"unit: column = {shown(self.column)}: expected the name of the id column")
            check_text(f"unit: column = {shown(self.column)}", self.column)

    @property
    def cap_text(self) -> str:
        """What the cap on rows does, in plain words; empty where a unit is a row.

        >>> Unit(column="patient", max_rows=20).cap_text
        'at most 20 rows of each patient are used and the others left out; noise is 20 times that for 1 row per patient'
        """
        if self.column is None:
            return ""
        name, rows = printable(self.column), self.max_rows
        if rows == 1:
            return f"1 row of each {name} is used and the others left out"
        return (
            f"at most {rows:,} rows of each {name} are used and the others left out; noise is {rows:,} times that for "
            f"1 row per {name}"
        )


ROW = Unit()
