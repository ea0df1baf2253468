"""Examples: questions in SQL that a release can answer, made from its schema, with the answers."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from sqlglot.tokens import Tokenizer

from hush.errors import HushError
from hush.report.choice import Ranked
from hush.report.labels import readable
from hush.schema import Boolean, Categorical, Column, Date, Integer, Numeric
from hush.schema.column import Value

if TYPE_CHECKING:
    from hush.release.answers import Answers
    from hush.release.release import Release

MOST_ROWS = 12
LONGEST_NAME = 40
_RESERVED = {word for key in Tokenizer.KEYWORDS for word in key.split()}
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A question in words and in SQL, with its answer."""

    question: str
    sql: str
    answers: Answers


@dataclass(frozen=True, slots=True)
class _Condition:
    words: str
    sql: str


def examples(release: Release, columns: Sequence[Ranked], pairs: Sequence[Ranked]) -> list[Example]:
    """Up to three: counts by a category, a range, and two conditions at once; each asked of the release itself."""
    names = [ranked.clique[0] for ranked in columns]
    asked = (_by_category(release, names), _in_range(release, names), _two_filters(release, pairs))
    answered = (_first_answered(release, candidates) for candidates in asked)
    return [example for example in answered if example is not None]


def _first_answered(release: Release, candidates: Iterable[tuple[str, str]]) -> Example | None:
    for question, sql in candidates:
        try:
            return Example(question=question, sql=sql, answers=release.sql(sql))
        except HushError:  # a name or value that SQL cannot spell: the next candidate may do
            continue
    return None


def _by_category(release: Release, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    found = [release.schema[name] for name in names if _writable(name)]
    small = [column for column in found if column.size <= MOST_ROWS]
    for column in (*(c for c in small if isinstance(c, Categorical)), *small):
        name = identifier(column.name)
        yield f"How many rows by {column.name}?", f"SELECT {name}, COUNT(*) FROM t GROUP BY {name}"


def _in_range(release: Release, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    found = [release.schema[name] for name in names if _writable(name)]
    for kinds in ((Integer, Numeric), (Date,)):
        for column in found:
            wanted = isinstance(column, kinds) and column.levels >= 4
            condition = _condition(release, column) if wanted else None
            if condition:
                yield f"How many rows have {condition.words}?", f"SELECT COUNT(*) FROM t WHERE {condition.sql}"


def _two_filters(release: Release, pairs: Sequence[Ranked]) -> Iterator[tuple[str, str]]:
    for ranked in pairs:
        found = [_condition(release, release.schema[name]) for name in ranked.clique if _writable(name)]
        one, two = (*found, None, None)[:2]
        if one and two:
            question = f"How many rows have {one.words} and {two.words}?"
            yield question, f"SELECT COUNT(*) FROM t WHERE {one.sql} AND {two.sql}"


def _condition(release: Release, column: Column) -> _Condition | None:
    """A condition that a person might set: the most common category, or the middle half of a range."""
    name, low, high = identifier(column.name), column.levels // 4, 3 * column.levels // 4
    if isinstance(column, Boolean):
        return _Condition(f"{column.name} true", f"{name} = TRUE")
    if isinstance(column, Categorical) or column.levels < 4:
        code = int(np.argmax(release.counts((column.name,))[: column.levels]))
        label = column.label(code)
        if isinstance(column, Numeric) or readable(label, LONGEST_NAME) != label:
            return None
        return _Condition(f"{column.name} {label}", f"{name} = {literal(column.value(code))}")
    match column:
        case Integer():
            ends = [literal(column.value(code)) for code in (low, high)]
            return _Condition(f"{column.name} from {ends[0]} to {ends[1]}", f"{name} BETWEEN {ends[0]} AND {ends[1]}")
        case Numeric():
            ends = [literal(column.edges[place]) for place in (low, high)]
            return _Condition(
                f"{column.name} of at least {ends[0]} and below {ends[1]}",
                f"{name} >= {ends[0]} AND {name} < {ends[1]}",
            )
        case _:
            first = column.value(column.levels // 2)
            return _Condition(f"{column.name} on or after {first}", f"{name} >= {literal(first)}")


def identifier(name: str) -> str:
    """A column's name in SQL, in double quotes where it needs them.

    >>> identifier("age"), identifier("order"), identifier('a "b" c')
    ('age', '"order"', '"a ""b"" c"')
    """
    if _PLAIN.fullmatch(name) and name.upper() not in _RESERVED:
        return name
    return '"' + name.replace('"', '""') + '"'


def literal(value: Value) -> str:
    """A real value in SQL.

    >>> literal("it's"), literal(True), literal(5000.0), literal(0.25), literal(dt.date(2020, 1, 31))
    ("'it''s'", 'TRUE', '5000', '0.25', "DATE '2020-01-31'")
    """
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return str(value)
        case float():
            return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)
        case dt.date():
            return f"DATE '{value.isoformat()}'"
        case str():
            return "'" + value.replace("'", "''") + "'"


def _writable(name: str) -> bool:
    """Whether a name can be shown in a query as it is: short, and with nothing invisible in it."""
    return readable(name, LONGEST_NAME) == name
