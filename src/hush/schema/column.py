"""Column: what every kind of column shares.

Codes of a column run 0 .. size-1: the ordinary levels first, then `other` if the column has it, then missing if the
column allows it. A value outside the declared levels goes to `other`, is clamped to the nearer bound, or is refused, as
the column says; it is never dropped.
"""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from hush.core.errors import SchemaError, check_text, shown
from hush.core.validation import check_choice, check_flag
from hush.schema.number_spelling import PLAIN_NUMBERS, NumberSpelling
from hush.schema.provenance import Discovered

if TYPE_CHECKING:
    from hush.schema.stamps import Stamp

Value = str | int | float | bool | dt.date | None
LARGEST_INTEGER = 2**53  # integers up to here are exact as float64, so all sources compare them alike
LARGEST_SIZE = 2**31  # codes
OTHER_VALUE = "other"  # the decoded value of the level `other`
OTHER_LABEL = "(other)"
MISSING_LABEL = "(missing)"


class Outside(StrEnum):
    """What happens to a value outside the declared bounds of an ordered column."""

    REFUSE = "refuse"
    CLAMP = "clamp"


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a column of times, such as the hour; the part is counted as a column."""

    stamp: Stamp
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """What every kind shares: a name and whether missing has a level of its own.

    `missing_values` are texts (such as "?") that mean missing; null, NaN and empty text always do. `from_private_data`
    says that the levels were read from private rows: releases refuse such a column, and equality ignores the mark.
    `discovered` says how levels were found with noise that was paid for; equality ignores it too.
    `part` says that the column is one part of the times in another column of the table.
    """

    name: str
    missing: bool = False
    missing_values: tuple[str, ...] = ()
    from_private_data: bool = field(default=False, compare=False, repr=False)
    discovered: Discovered | None = field(default=None, compare=False, repr=False)
    part: Part | None = field(default=None, repr=False)

    kind: ClassVar[str]

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise SchemaError(f"column name {self.name!r}: expected non-empty text")
        check_text(f"column name {self.name!r}", self.name)
        for key in ("missing", "from_private_data"):
            check_flag(SchemaError, f"column {self.name!r}: {key}", getattr(self, key))
        if isinstance(self.missing_values, str):
            raise SchemaError(
                f"column {self.name!r}: missing_values = {shown(self.missing_values)}: expected a list of texts"
            )
        texts = tuple(dict.fromkeys(canonical(text) for text in self.missing_values))
        object.__setattr__(self, "missing_values", texts)
        for text in texts:
            check_text(f"column {self.name!r}: missing value {shown(text)}", text)
        if self.missing_values and not self.missing:
            raise SchemaError(
                f"column {self.name!r} lists missing_values but does not allow missing; set missing = true"
            )
        self._check()
        if self.size > LARGEST_SIZE:
            raise SchemaError(
                f"column {self.name!r} has {shown(self.size)} levels: at most {LARGEST_SIZE} are possible; "
                "use narrower bounds, or bins"
            )

    def _check(self) -> None:
        """Normalise and check the fields of a kind."""

    @property
    def levels(self) -> int:
        """How many ordinary levels there are, without `other` and missing."""
        raise NotImplementedError

    @property
    def source(self) -> str:
        """The name of the column in the table: that of all times if this is a part of them."""
        return self.name if self.part is None else self.part.stamp.name

    @property
    def source_kind(self) -> str:
        """The kind of the column in the table."""
        return self.kind if self.part is None else self.part.stamp.kind

    @property
    def number_spelling(self) -> NumberSpelling:
        """How the texts of the column spell numbers: a field of the kinds that hold numbers."""
        return getattr(self, "spelling", PLAIN_NUMBERS)

    @property
    def binned(self) -> bool:
        """Whether levels are ranges of numbers, named by their labels."""
        return False

    @property
    def other_code(self) -> int | None:
        """The code of `other`, if there is one."""
        return None

    @property
    def missing_code(self) -> int | None:
        """The code of missing, the last one, if missing is allowed."""
        return self.size - 1 if self.missing else None

    @property
    def size(self) -> int:
        """How many codes the column has."""
        return self.levels + (self.other_code is not None) + self.missing

    @property
    def dtype(self) -> np.dtype[np.unsignedinteger]:
        """The smallest unsigned type that holds the codes."""
        return np.dtype(np.uint8 if self.size <= 2**8 else np.uint16 if self.size <= 2**16 else np.uint32)

    def value(self, code: int) -> Value:
        """The real value that an ordinary level is decoded to."""
        raise NotImplementedError

    def label(self, code: int) -> str:
        """What a person reads for a code."""
        if code == self.missing_code:
            return MISSING_LABEL
        if code == self.other_code:
            return OTHER_LABEL
        return self.level_label(code)

    def level_label(self, code: int) -> str:
        """What a person reads for an ordinary level."""
        return str(self.value(code))

    def level_values(self) -> list[Value]:
        """The real value of every code; null for missing, the text "other" for `other`."""
        ordinary = [self.value(code) for code in range(self.levels)]
        return ordinary + ([OTHER_VALUE] if self.other_code is not None else []) + ([None] if self.missing else [])


def canonical(value: Value) -> str:
    """The text by which a categorical value is compared, whatever type a source stores it in.

    >>> [canonical(value) for value in (" a ", 3, 3.0, -0.0, True, 0.5)]
    ['a', '3', '3', '0', 'true', '0.5']
    """
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, float | np.floating):
        if math.isfinite(value) and value == int(value) and abs(value) <= LARGEST_INTEGER:
            return str(int(value))
        return repr(float(value))
    return str(value).strip()


def alike(levels: list[Value]) -> list[Value]:
    """Levels of one type, as an Arrow column needs: text if they differ, such as numbers and the text "other"."""
    kinds = {type(level) for level in levels if level is not None}
    if len(kinds) == 1:
        return levels
    return [None if level is None else canonical(level) for level in levels]


def check_outside(name: str, policy: str) -> Outside:
    """The policy by its name."""
    return Outside(check_choice(SchemaError, f"column {name!r}: outside", policy, map(str, Outside)))
