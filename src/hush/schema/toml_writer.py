"""Schema -> TOML: the small part of the language that a schema file needs."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable
from typing import Any

from hush.schema.column_kinds import Boolean, Categorical, Column, Date, Integer, Numeric, Outside, short
from hush.schema.rules import written_rules
from hush.schema.schema import Schema
from hush.unit import ROW

VERSION = 1
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_UNSAFE = re.compile(r'["\\\x00-\x1f\x7f]')
_LINE = 100


def write_toml(schema: Schema) -> str:
    """The schema as the text of a TOML file; reading it back gives an equal schema.

    >>> from hush.schema import Integer
    >>> print(write_toml(Schema([Integer(name="age", low=17, high=90, missing=True)])))
    hush_schema = 1
    <BLANKLINE>
    [columns.age]
    kind = "integer"
    low = 17
    high = 90
    missing = true
    <BLANKLINE>
    """
    parts = [f"{entry('hush_schema', VERSION)}\n"]
    if schema.unit != ROW:
        parts.append(table(("unit",), {"column": schema.unit.column, "max_rows": schema.unit.max_rows}))
    parts.extend(table(("columns", column.name), entries_of(column)) for column in schema)
    parts.extend(_rule(kind, list(columns), rows) for kind, columns, rows in written_rules(schema))
    return "\n".join(parts)


def entries_of(column: Column) -> dict[str, Any]:
    """The keys and values of a column's table; defaults are left out."""
    entries: dict[str, Any] = {"kind": column.kind}
    match column:
        case Categorical():
            entries["values"] = list(column.values)
            entries |= {"other": True} if column.other else {}
        case Integer():
            entries |= {"low": column.low, "high": column.high}
        case Numeric():
            entries |= _bins(column)
        case Date():
            entries |= {"start": column.start, "end": column.end, "granularity": str(column.granularity)}
        case Boolean():
            pass
        case _:
            raise TypeError(f"no file format for columns of type {type(column).__name__}")
    if isinstance(column, Integer | Numeric | Date) and column.outside is not Outside.REFUSE:
        entries["outside"] = str(column.outside)
    if column.missing:
        entries["missing"] = True
    if column.missing_values:
        entries["missing_values"] = list(column.missing_values)
    return entries


def _bins(column: Numeric) -> dict[str, Any]:
    """Bounds and a number of bins where these give the very same edges, else the edges."""
    low, high = column.edges[0], column.edges[-1]
    even = Numeric.edges_of_equal_width(low, high, column.levels)
    if even == column.edges:
        return {"low": short(low), "high": short(high), "bins": column.levels}
    return {"edges": [short(edge) for edge in column.edges]}


def _rule(kind: str, columns: list[str], rows: list[list[Any]]) -> str:
    """A constraint, with one line for each of its rows."""
    lines = "".join(f"    {value_text(row)},\n" for row in rows)
    return f"[[{kind}]]\n{entry('columns', columns)}\nrows = [\n{lines}]\n"


def table(path: Iterable[str], entries: dict[str, Any]) -> str:
    """A table: its header and one line for each key."""
    lines = [header(path), *(entry(key, value) for key, value in entries.items())]
    return "\n".join(lines) + "\n"


def header(path: Iterable[str]) -> str:
    """The header of a table, with the names quoted where needed."""
    return f"[{'.'.join(name_text(name) for name in path)}]"


def entry(key: str, value: Any) -> str:
    """A line `key = value`; a long list goes over several lines."""
    line = f"{name_text(key)} = {value_text(value)}"
    if len(line) <= _LINE or not isinstance(value, list):
        return line
    rows, row = [], ""
    for item in value:
        text = value_text(item)
        if row and len(row) + len(text) + 2 > _LINE - 4:
            rows.append(row)
            row = ""
        row = f"{row} {text}," if row else f"{text},"
    body = "\n".join(f"    {text}" for text in [*rows, row])
    return f"{name_text(key)} = [\n{body}\n]"


def name_text(name: str) -> str:
    """A key: bare where TOML allows it, quoted otherwise."""
    return name if _BARE.fullmatch(name) else value_text(name)


def value_text(value: Any) -> str:
    """A text, boolean, number, date, or a list or inline table of these, in TOML's spelling."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return '"' + _UNSAFE.sub(_escaped, value) + '"'
        case int():
            return str(value)
        case float():
            return repr(value)  # the shortest text that is read back as the same float
        case dt.date():
            return value.isoformat()
        case list():
            return "[" + ", ".join(value_text(item) for item in value) + "]"
        case dict():
            return "{" + ", ".join(f"{name_text(key)} = {value_text(item)}" for key, item in value.items()) + "}"
        case _:
            raise TypeError(f"no TOML for {type(value).__name__}")


def _escaped(match: re.Match[str]) -> str:
    character = match.group()
    return f"\\{character}" if character in '"\\' else f"\\u{ord(character):04X}"
