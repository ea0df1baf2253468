"""Column profiles: what the rows of a file show about its columns, for a draft of a schema.

Privacy: exact facts about the rows.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from hush.errors import DataError, SizeError
from hush.memory import readable
from hush.schema.number_spelling import PLAIN, NumberSpelling
from hush.schema.stamps import ANY_DAY
from hush.tables.dialects.dialect import WHITESPACE, Family
from hush.tables.dialects.duckdb import DUCKDB
from hush.tables.refusal_causes import ALWAYS_MISSING, MISSING_AMONG_NUMBERS
from hush.tables.sources import RowSource

MOST_VALUES = 1000
FEW_VALUES = 30  # so many may all differ and still be categories
POINT_SHARE, POINT_ROWS = 0.1, 20  # of the rows, and how many, from which a number is suggested as a point
_CANDIDATES = 3
_SPELLINGS = ((".", ""), (".", ","), (",", ""), (",", "."), (",", " "), (".", "'"), (".", " "))
_SIGNS = ("$", "€", "£", "¥", "₹", "%", "USD", "EUR", "GBP", "CHF")
LONGEST_VALUE = 200
MEMORY = 10**9
UNKNOWN, UNSUPPORTED = "", "unsupported"  # kinds where the file declares no type, or one that no kind of column holds
DECLARED_KINDS = {
    Family.BOOLEAN: "boolean",
    Family.INTEGER: "integer",
    **dict.fromkeys((Family.FLOAT, Family.DOUBLE, Family.DECIMAL), "numeric"),
    Family.DATE: "date",
    **dict.fromkeys((Family.TIMESTAMP, Family.INSTANT), "timestamp"),
    Family.TEXT: "categorical",
}
_NUMBER_KINDS = ("integer", "numeric")
_BATCH = 40  # columns per pass over the file
_MARKS = (*ALWAYS_MISSING, *MISSING_AMONG_NUMBERS)
_INTEGER = r"[+-]?(0|[1-9][0-9]{0,14})([.]0+)?"
_NUMBER = r"[+-]?(0|[1-9][0-9]*|)([.][0-9]*)?([eE][+-]?[0-9]+)?"
_INFINITE = r"[+-]?inf(inity)?"
_DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}([ T].*)?"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnProfile:
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
    marks: tuple[str, ...] = ()  # texts that mean missing among numbers
    texts: int = 0  # rows that hold neither blank nor a mark for missing
    spelling: NumberSpelling = PLAIN
    points: tuple[float, ...] = ()

    @property
    def near_unique(self) -> bool:
        """Whether it holds texts of which nearly every row has its own, such as names or tickets."""
        different = self.distinct if self.values is None else len(self.values)
        return self.kind == "categorical" and different >= FEW_VALUES and 2 * different > self.texts


def read_profiles(source: RowSource, kinds: Sequence[str]) -> list[ColumnProfile | None]:
    """The profile of every column, in a few passes of small memory; None for types that hush cannot hold.

    Privacy: exact facts about the rows. Errors hold no cell.
    """
    if source.dialect.remote:
        raise DataError(
            f"{source.name}: rows of a server are not looked at for a draft; leave --from-data (from_data=) out, and "
            "the declared types decide the kinds"
        )
    columns = [k for k, kind in enumerate(kinds) if kind != UNSUPPORTED]
    facts: dict[int, dict[str, Any]] = {}
    try:
        for start in range(0, len(columns), _BATCH):
            facts |= _facts(source, kinds, columns[start : start + _BATCH])
        texts = [k for k in columns if _kind_of(facts[k]) == "categorical" and facts[k]["longest"] <= LONGEST_VALUE]
        # the estimate may be off by some percent; the exact list is counted again
        values = _distinct(source, kinds, [k for k in texts if facts[k]["distinct"] <= 1.2 * MOST_VALUES])
        profiles = {k: _profile(facts[k], values.get(k)) for k in columns}
        profiles |= _spelled(source, kinds, {k: profiles[k] for k in columns if profiles[k].kind == "categorical"})
        profiles |= _pointed(source, kinds, {k: profiles[k] for k in columns if profiles[k].kind in _NUMBER_KINDS})
    except SizeError:
        raise DataError(f"{source.name}: too large to look at in {readable(MEMORY)}; draft without the data") from None
    if columns and not facts[columns[0]]["total"]:
        raise DataError(f"{source.name}: there are no rows to look at; draft from the header alone")
    return [profiles.get(k) for k in range(len(kinds))]


def _ask(source: RowSource, kinds: Sequence[str], columns: Sequence[int], wanted: Sequence[str]) -> tuple[Any, ...]:
    """Aggregates over every column as trimmed text, blank as null, so that one set of rules serves all types."""
    texts = []
    for k in columns:
        # a float32 is compared as the double it becomes, not by its shorter text
        stored = f"CAST(c{k} AS DOUBLE)" if kinds[k] == "numeric" else f"c{k}"
        texts.append(f"nullif(trim(CAST({stored} AS VARCHAR), {DUCKDB.literal(WHITESPACE)}), '') AS c{k}")
    aliases = ", ".join(f"c{k}" for k in range(len(kinds)))
    rows = f"SELECT {', '.join(texts)} FROM ({source.select}) AS source({aliases})"
    with source.session() as session:
        return DUCKDB.fetch_row(session, f"SELECT {', '.join(wanted)} FROM ({rows})", source.failure)


def _facts(source: RowSource, kinds: Sequence[str], columns: Sequence[int]) -> dict[int, dict[str, Any]]:
    asked = [_questions(f"c{k}") for k in columns]
    answers = iter(_ask(source, kinds, columns, [sql for questions in asked for sql in questions.values()]))
    return {k: {fact: next(answers) for fact in questions} for k, questions in zip(columns, asked, strict=True)}


def _distinct(source: RowSource, kinds: Sequence[str], columns: Sequence[int]) -> dict[int, tuple[str, ...]]:
    if not columns:
        return {}
    always = _texts(ALWAYS_MISSING)
    wanted = [f"list(DISTINCT c{k}) FILTER (c{k} NOT IN ({always}))" for k in columns]
    answers = _ask(source, kinds, columns, wanted)
    return {k: tuple(sorted(texts)) for k, texts in zip(columns, answers, strict=True) if len(texts) <= MOST_VALUES}


def _questions(x: str) -> dict[str, str]:
    """What is asked of a column of texts, as SQL aggregates."""
    always, among = _texts(ALWAYS_MISSING), _texts(_MARKS)
    marks = " ".join(f"WHEN {_texts([mark])} THEN {1 << bit}" for bit, mark in enumerate(_MARKS))
    cast = f"TRY_CAST({x} AS DOUBLE)"
    number = f"(CASE WHEN regexp_full_match({x}, '{_NUMBER}') AND isfinite({cast}) THEN {cast} END)"
    moment = f"(CASE WHEN regexp_full_match({x}, '{_DAY}') THEN {DUCKDB.moment_or_null(x)} END)"
    day, clock = f"CAST({moment} AS DATE)", f"CAST({DUCKDB.time_or_null(x)} AS DATE)"
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
        "timed": f"count(*) FILTER ({moment} <> {day})",
        "clocks": f"count(*) FILTER ({clock} = {DUCKDB.day(ANY_DAY)})",
        "low": f"min({number})",
        "high": f"max({number})",
        "first": f"min({day})",
        "last": f"max({day})",
        "distinct": f"approx_count_distinct({x})",
        "longest": f"max(length({x}))",
    }


def _texts(texts: Sequence[str]) -> str:
    return ", ".join(map(DUCKDB.literal, texts))


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
        return "timestamp" if facts["timed"] else "date"
    if solid and facts["clocks"] == solid:
        return "time"
    return "categorical" if facts["texts"] else ""


def _profile(facts: dict[str, Any], values: tuple[str, ...] | None) -> ColumnProfile:
    kind = _kind_of(facts)
    seen = [mark for bit, mark in enumerate(_MARKS) if (facts["marks"] or 0) >> bit & 1]
    marks = [mark for mark in seen if kind != "categorical" or mark in ALWAYS_MISSING]
    return ColumnProfile(
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
        marks=tuple(sorted(seen)),
        texts=facts["texts"],
    )


def _spelled(source: RowSource, kinds: Sequence[str], profiles: dict[int, ColumnProfile]) -> dict[int, ColumnProfile]:
    """The columns of texts that are all numbers in one of the usual spellings, as columns of numbers."""
    spellings = [NumberSpelling(decimal=mark, thousands=group, strip=_SIGNS) for mark, group in _SPELLINGS]
    found: dict[int, ColumnProfile] = {}
    for k, profile in profiles.items():
        solid = f"(CASE WHEN c{k} NOT IN ({_texts(_MARKS)}) THEN c{k} END)"
        numbers = [f"({DUCKDB.spelled_number_or_null(solid, spelling)})" for spelling in spellings]
        wanted = [f"count({solid})", f"count(*) FILTER (regexp_matches({solid}, '^[^0-9]*0[0-9]'))"]  # such as 007
        wanted += [f"bool_or(contains({solid}, {_texts([sign])}))" for sign in _SIGNS]
        for x in numbers:
            wanted += [f"count({x})", f"min({x})", f"max({x})", f"count(*) FILTER ({x} = trunc({x}))"]
        texts, padded, *answers = _ask(source, kinds, [k], wanted)
        signs = tuple(sign for sign, seen in zip(_SIGNS, answers, strict=False) if seen)
        for at, spelling in enumerate(spellings):
            count, low, high, whole = answers[len(_SIGNS) + 4 * at :][:4]
            if texts and not padded and count == texts:
                found[k] = replace(
                    profile,
                    kind="integer" if whole == texts else "numeric",
                    missing=profile.missing or bool(profile.marks),
                    missing_values=profile.marks,
                    low=low,
                    high=high,
                    spelling=replace(spelling, strip=signs),
                )
                break
    return found


def _pointed(source: RowSource, kinds: Sequence[str], profiles: dict[int, ColumnProfile]) -> dict[int, ColumnProfile]:
    """The columns of numbers with those numbers that hold a good share of the rows."""
    if not profiles:
        return {}
    numbers = {k: f"({DUCKDB.spelled_number_or_null(f'c{k}', p.spelling)})" for k, p in profiles.items()}
    likely = _ask(source, kinds, list(numbers), [f"approx_top_k({x}, {_CANDIDATES})" for x in numbers.values()])
    candidates = {k: sorted(filter(math.isfinite, tops or ())) for k, tops in zip(numbers, likely, strict=True)}
    wanted = [
        f"count(*) FILTER ({x} = {DUCKDB.number(number)}) >= greatest({POINT_SHARE} * count({x}), {POINT_ROWS})"
        for k, x in numbers.items()
        for number in candidates[k]
    ]
    frequent = iter(_ask(source, kinds, list(numbers), wanted) if wanted else ())
    return {
        k: replace(profile, points=tuple(number for number in candidates[k] if next(frequent)))
        for k, profile in profiles.items()
    }
