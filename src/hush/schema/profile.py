"""Profile: what the rows of a file show about its columns, for drafting a schema from data.

Nothing here is private in the sense of differential privacy: these are exact minima, maxima and values. They go
into a draft that says so, and nowhere else.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from hush.errors import DataError
from hush.schema.header import UNSUPPORTED, Header

MOST_VALUES = 1000
LONGEST_VALUE = 200
SETTINGS = {
    "memory_limit": "1GB",
    "temp_directory": "",  # private rows are not spilled to disk
    "autoinstall_known_extensions": "false",
}
_OUR_FAULT = (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException)  # these hold no cell
_BATCH = 40  # columns per pass over the file
_ALWAYS_MISSING = ("?", "NaN", "nan", "NULL", "null", "N/A", "n/a", "#N/A", "<NA>")
_MISSING_AMONG_NUMBERS = ("NA", "na", "None", "none", "-", ".")
_MARKS = (*_ALWAYS_MISSING, *_MISSING_AMONG_NUMBERS)
_WHITESPACE = "".join(chr(point) for point in range(0x3001) if chr(point).isspace())  # what str.strip() removes
_INTEGER = r"[+-]?(0|[1-9][0-9]{0,14})([.]0+)?"
_NUMBER = r"[+-]?(0|[1-9][0-9]*|)([.][0-9]*)?([eE][+-]?[0-9]+)?"
_INFINITE = r"[+-]?inf(inity)?"
_DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}([ T].*)?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What the rows show about one column; `values` is None where they are too many or too long to list."""

    kind: str
    missing: bool
    missing_values: tuple[str, ...]
    low: float | None
    high: float | None
    infinite: bool
    first: dt.date | None
    last: dt.date | None
    distinct: int
    values: tuple[str, ...] | None


def read_profiles(path: Path, header: Header) -> list[Profile | None]:
    """The profile of every column, in two passes of small memory; None for types that hush cannot hold.

    Privacy: exact facts about the rows. Errors hold no cell: those of DuckDB, which quote them, are replaced.
    """
    columns = [k for k, kind in enumerate(header.kinds) if kind != UNSUPPORTED]
    facts: dict[int, dict[str, Any]] = {}
    try:
        with duckdb.connect(config=SETTINGS) as connection:
            for start in range(0, len(columns), _BATCH):
                facts |= _facts(connection, header, columns[start : start + _BATCH])
            listed = [k for k in columns if _kind_of(facts[k]) == "categorical" and _listable(facts[k])]
            values = _distinct(connection, header, listed)
    except duckdb.OutOfMemoryException:
        raise DataError(
            f"{path}: too large to look at in {SETTINGS['memory_limit']} of memory; draft without the data"
        ) from None
    except _OUR_FAULT:
        raise
    except duckdb.Error:
        raise DataError(
            f"{path}: the rows cannot be read: they do not fit the header, or are not UTF-8 or not well-formed"
        ) from None
    if columns and not facts[columns[0]]["total"]:
        raise DataError(f"{path}: there are no rows to look at; draft from the header alone")
    return [_profile(facts[k], values.get(k)) if k in facts else None for k in range(len(header.names))]


def _facts(connection: duckdb.DuckDBPyConnection, header: Header, columns: Sequence[int]) -> dict[int, dict[str, Any]]:
    asked = [_questions(f"c{k}") for k in columns]
    wanted = ", ".join(sql for questions in asked for sql in questions.values())
    row = iter(connection.execute(f"SELECT {wanted} FROM ({_as_text(header, columns)})").fetchone() or ())
    return {k: {fact: next(row) for fact in questions} for k, questions in zip(columns, asked, strict=True)}


def _questions(x: str) -> dict[str, str]:
    """What is asked of a column of texts, as SQL aggregates."""
    always, among = _texts(_ALWAYS_MISSING), _texts(_MARKS)
    marks = " ".join(f"WHEN {_texts([mark])} THEN {1 << bit}" for bit, mark in enumerate(_MARKS))
    cast = f"TRY_CAST({x} AS DOUBLE)"
    number = f"(CASE WHEN regexp_full_match({x}, '{_NUMBER}') AND isfinite({cast}) THEN {cast} END)"
    day = f"(CASE WHEN regexp_full_match({x}, '{_DAY}') THEN CAST(TRY_CAST({x} AS TIMESTAMP) AS DATE) END)"
    return {
        "total": "count(*)",
        "present": f"count({x})",
        "texts": f"count(*) FILTER ({x} NOT IN ({always}))",
        "solid": f"count(*) FILTER ({x} NOT IN ({among}))",
        "marks": f"bit_or(CASE {x} {marks} END)",  # a set as bits, since DISTINCT would hold every text
        "booleans": f"count(*) FILTER (lower({x}) IN ('true', 'false'))",
        "integers": f"count(*) FILTER (regexp_full_match({x}, '{_INTEGER}'))",
        "numbers": f"count({number})",
        "infinite": f"count(*) FILTER (regexp_full_match(lower({x}), '{_INFINITE}'))",
        "days": f"count({day})",
        "low": f"min({number})",
        "high": f"max({number})",
        "first": f"min({day})",
        "last": f"max({day})",
        "distinct": f"approx_count_distinct({x})",
        "longest": f"max(length({x}))",
    }


def _distinct(
    connection: duckdb.DuckDBPyConnection, header: Header, columns: Sequence[int]
) -> dict[int, tuple[str, ...]]:
    if not columns:
        return {}
    always = _texts(_ALWAYS_MISSING)
    wanted = ", ".join(f"list(DISTINCT c{k}) FILTER (c{k} NOT IN ({always}))" for k in columns)
    row = connection.execute(f"SELECT {wanted} FROM ({_as_text(header, columns)})").fetchone() or ()
    return {k: tuple(sorted(texts)) for k, texts in zip(columns, row, strict=True) if len(texts) <= MOST_VALUES}


def _as_text(header: Header, columns: Sequence[int]) -> str:
    """Every column as trimmed text, blank as null, so that one set of rules serves all types."""
    texts = []
    for k in columns:
        # a float32 is compared as the double it becomes, not by its shorter text
        stored = f"CAST(c{k} AS DOUBLE)" if header.kinds[k] == "numeric" else f"c{k}"
        texts.append(f"nullif(trim(CAST({stored} AS VARCHAR), '{_WHITESPACE}'), '') AS c{k}")
    return f"SELECT {', '.join(texts)} FROM {header.source}"


def _texts(texts: Sequence[str]) -> str:
    return ", ".join("'" + text.replace("'", "''") + "'" for text in texts)


def _kind_of(facts: dict[str, Any]) -> str:
    """The narrowest kind that holds every value; "" if there is none to judge by."""
    solid = facts["solid"]
    if solid and facts["booleans"] == solid:
        return "boolean"
    if solid and facts["integers"] == solid:
        return "integer"
    if facts["numbers"] and facts["numbers"] + facts["infinite"] == solid:
        return "numeric"
    if solid and facts["days"] == solid:
        return "date"
    return "categorical" if facts["texts"] else ""


def _listable(facts: dict[str, Any]) -> bool:
    # the estimate may be off by some percent; the exact list is counted again
    return bool(facts["distinct"] <= 1.2 * MOST_VALUES and facts["longest"] <= LONGEST_VALUE)


def _profile(facts: dict[str, Any], values: tuple[str, ...] | None) -> Profile:
    kind = _kind_of(facts)
    found = [mark for bit, mark in enumerate(_MARKS) if (facts["marks"] or 0) >> bit & 1]
    marks = [mark for mark in found if kind != "categorical" or mark in _ALWAYS_MISSING]
    return Profile(
        kind=kind,
        missing=facts["present"] < facts["total"] or bool(marks),
        missing_values=tuple(sorted(marks)),
        low=facts["low"],
        high=facts["high"],
        infinite=facts["infinite"] > 0,
        first=facts["first"],
        last=facts["last"],
        distinct=facts["distinct"],
        values=values,
    )
