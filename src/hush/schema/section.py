"""Schema section: one table of a schema file, read key by key; messages name section, key, value and rule."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn, TypeVar

from hush.core.errors import SchemaError, close_match, shown

Kind = TypeVar("Kind")
_TYPE_NAMES: dict[type, str] = {
    bool: "a boolean",
    str: "a text",
    int: "an integer",
    float: "a number",
    list: "a list",
    dict: "a table",
    dt.date: "a date",
    dt.datetime: "a date with a time",
    dt.time: "a time",
    type(None): "nothing",
}


class SchemaSection:
    """The entries of one table; messages begin with `where`, its name in the file."""

    __slots__ = ("_start", "entries")

    def __init__(self, where: str, entries: object) -> None:
        self._start = f"{where}: " if where else ""
        if not isinstance(entries, Mapping):
            raise SchemaError(f"{self._start}found {_described(entries)}, expected a table of keys and values")
        self.entries: Mapping[str, Any] = entries

    def __contains__(self, key: str) -> bool:
        return key in self.entries

    def only(self, known: Iterable[str]) -> None:
        """Refuse unknown keys, and suggest the nearest known one."""
        known = list(known)
        for key in self.entries:
            if key not in known:
                near = close_match(str(key), known)
                hint = f"did you mean {near!r}?" if near else f"expected one of {', '.join(known)}"
                raise SchemaError(f"{self._start}unknown key {shown(key)}; {hint}")

    def require(self, key: str, advice: str) -> Any:
        """The value of a required key."""
        if key not in self.entries:
            raise SchemaError(f"{self._start}{key} is missing; {advice}")
        return self.entries[key]

    def refuse(self, key: str, rule: str) -> NoReturn:
        """Raise an error: the value of a key breaks a rule."""
        raise SchemaError(f"{self._start}{key} = {_described(self.entries[key])}: {rule}")

    def flag(self, key: str, default: bool = False) -> bool:
        """True or false."""
        return self._typed(bool, key, self.entries.get(key, default), "expected true or false, without quotes")

    def text(self, key: str, default: str) -> str:
        """A text."""
        return self._typed(str, key, self.entries.get(key, default), "expected a text in quotes")

    def integer(self, key: str, advice: str) -> int:
        """A required integer."""
        return self._typed(int, key, self.require(key, advice), "expected an integer")

    def number(self, key: str, advice: str) -> float:
        """A required integer or float."""
        given = self.require(key, advice)
        value = self._typed(int if isinstance(given, int) else float, key, given, "expected a number")
        return value if abs(value) <= sys.float_info.max else self.refuse(key, "expected a finite number")

    def day(self, key: str, advice: str) -> dt.date:
        """A required date."""
        rule = "expected a date, such as 2020-01-31 (without quotes), in Python datetime.date(2020, 1, 31)"
        value = self._typed(dt.date, key, self.require(key, advice), rule)
        return value if not isinstance(value, dt.datetime) else self.refuse(key, rule)

    def items(self, key: str, advice: str) -> list[Any]:
        """A required list."""
        return self._typed(list, key, self.require(key, advice), 'expected a list, such as ["a", "b"]')

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts, empty by default."""
        values = self.items(key, "") if key in self.entries else []
        if not all(isinstance(value, str) for value in values):
            self.refuse(key, 'expected a list of texts in quotes, such as ["?"]')
        return tuple(values)

    def _typed(self, kind: type[Kind], key: str, value: object, rule: str) -> Kind:
        """The value; refuses another type. Booleans are no numbers."""
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            self.refuse(key, rule)
        return value


def _described(value: object) -> str:
    """The value and its type; for a list, a table, a date, a time or nothing, the type alone."""
    if isinstance(value, list | dict | dt.date | dt.time | None):
        return _TYPE_NAMES.get(type(value), type(value).__name__)
    return f"{shown(value)} ({_TYPE_NAMES.get(type(value), type(value).__name__)})"
