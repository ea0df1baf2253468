"""Columns of unordered levels: declared values, and true or false."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hush.errors import SchemaError, shown
from hush.schema.column import (
    MISSING_LABEL,
    OTHER,
    OTHER_LABEL,
    Column,
    Value,
    canonical,
    check_flag,
    check_text,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Categorical(Column):
    """Declared values; anything else is refused, or goes to a level `other` when `other` is true."""

    values: tuple[Value, ...]
    other: bool = False

    kind: ClassVar[str] = "categorical"

    def _check(self) -> None:
        if isinstance(self.values, str):
            raise SchemaError(f"column {self.name!r}: values = {shown(self.values)}: expected a list of values")
        object.__setattr__(self, "values", tuple(_category(self.name, value) for value in self.values))
        check_flag(self.name, "other", self.other)
        if not self.values:
            raise SchemaError(f"column {self.name!r} declares no values; list every value that may occur")
        texts, repeats = self.texts, Counter(self.texts)
        if len(repeats) != len(texts):
            twice = repeats.most_common(1)[0][0]
            raise SchemaError(f"column {self.name!r} declares the value {shown(twice)} twice; list each value once")
        both = sorted(set(texts) & set(self.missing_values))
        if both:
            raise SchemaError(f"column {self.name!r} has {shown(both[0])} both as a value and as missing; keep one")
        if self.other and (OTHER in repeats or OTHER in self.missing_values):
            raise SchemaError(
                f"column {self.name!r} lists {OTHER!r} although other = true already gives that level; "
                f"remove {OTHER!r} or set other = false"
            )
        for label, given in ((OTHER_LABEL, self.other), (MISSING_LABEL, self.missing)):
            if given and label in repeats:
                raise SchemaError(f"column {self.name!r}: the value {label!r} is also a level's label; rename it")

    @property
    def levels(self) -> int:
        return len(self.values)

    @property
    def other_code(self) -> int | None:
        return len(self.values) if self.other else None

    @property
    def texts(self) -> list[str]:
        """The declared values as they are compared."""
        return [canonical(value) for value in self.values]

    def value(self, code: int) -> Value:
        return self.values[code]

    def label(self, code: int) -> str:
        return canonical(self.values[code]) if 0 <= code < self.levels else Column.label(self, code)


@dataclass(frozen=True, slots=True, kw_only=True)
class Boolean(Column):
    """False (code 0) and true (code 1)."""

    kind: ClassVar[str] = "boolean"

    @property
    def levels(self) -> int:
        return 2

    def value(self, code: int) -> Value:
        return bool(code)


def _category(name: str, value: Value) -> Value:
    """A declared value as a plain Python value; null, NaN and empty text are how data spells missing."""
    plain = value.item() if isinstance(value, np.generic) else value
    if plain is None or plain != plain or (isinstance(plain, str) and not plain.strip()):
        raise SchemaError(f"column {name!r} lists {shown(plain)} as a value, which means missing; set missing = true")
    match plain:
        case str():
            check_text(f"column {name!r}: value {shown(plain)}", plain)
        case bool():
            pass
        case int() if not -(2**63) <= plain < 2**63:
            raise SchemaError(f"column {name!r} lists an integer of more than 64 bits; write it as text")
        case float() if math.isinf(plain):
            raise SchemaError(f"column {name!r} lists {plain!r} as a value: expected a finite number")
        case int() | float():
            pass
        case dt.date() if not isinstance(plain, dt.datetime):
            pass
        case _:
            raise SchemaError(f"column {name!r}: value {shown(plain)}: expected text, a number, a boolean or a date")
    return plain
