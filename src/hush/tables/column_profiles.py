"""Column profiles: the kind, values, bounds and bins that the rows of a source suggest for each column of a draft.

Bins have round edges and equal width. If one of them would hold a good part of the rows, as in a column with a long
tail, crowded bins are cut into narrower ones, and bins with few rows are joined.

Privacy: exact facts about the rows.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from itertools import pairwise
from typing import Any

from hush.core.errors import DataError, SizeError
from hush.core.memory import readable
from hush.schema.number_spelling import PLAIN_NUMBERS, NumberSpelling
from hush.schema.stamps import ANY_DAY
from hush.tables.dialects.dialect import Dialect, Family
from hush.tables.refusal_causes import ALWAYS_MISSING, MISSING_AMONG_NUMBERS
from hush.tables.sources import RowSource

MOST_VALUES = 1000  # texts of a categorical column
LONGEST_VALUE = 200  # characters
MOST_INTEGERS = 128  # with a level each; wider ranges get bins
MOST_DECIMALS = 4  # of a step
FEW_VALUES = 30  # texts that may all differ and still be categories
DRAFT_MEMORY = 10**9  # bytes
# A number becomes a point if it is held by this share of the rows, and by so many rows.
POINT_SHARE, POINT_ROWS = 0.1, 20
_POINT_CANDIDATES = 3
# Bins follow the rows if a bin of equal width would hold the crowded share. A bin then ends where it holds the full
# share, or the smallest share at `WIDENING_FACTOR` times the width of the bin before.
MOST_BINS = 32
FEWEST_ROWS = 100  # for bins that follow the rows
CROWDED_SHARE, FULL_SHARE, SMALLEST_SHARE = 1 / 4, 1 / 24, 1 / 1000
WIDENING_FACTOR = 2
MOST_ROUNDS = 8  # of cutting crowded bins
CountBelow = Callable[[Sequence[float]], Sequence[int]]  # how many rows hold a number below each given one
_USUAL_SPELLINGS = ((".", ""), (".", ","), (",", ""), (",", "."), (",", " "), (".", "'"), (".", " "))
_USUAL_SIGNS = ("$", "€", "£", "¥", "₹", "%", "USD", "EUR", "GBP", "CHF")
UNKNOWN, UNSUPPORTED = "", "unsupported"  # kinds if the source declares no type, or one that no kind of column holds
DECLARED_KINDS = {
    Family.BOOLEAN: "boolean",
    Family.INTEGER: "integer",
    **dict.fromkeys((Family.FLOAT, Family.DOUBLE, Family.DECIMAL), "numeric"),
    Family.DATE: "date",
    **dict.fromkeys((Family.TIMESTAMP, Family.INSTANT), "timestamp"),
    Family.TEXT: "categorical",
}
_NUMBER_KINDS = ("integer", "numeric")
_COLUMNS_PER_PASS, _REMOTE_COLUMNS_PER_PASS = 40, 10
_MISSING_MARKS = (*ALWAYS_MISSING, *MISSING_AMONG_NUMBERS)
_INTEGER_PATTERN = r"[+-]?(0|[1-9][0-9]{0,14})([.]0+)?"
_NUMBER_PATTERN = r"[+-]?(0|[1-9][0-9]*|)([.][0-9]*)?([eE][+-]?[0-9]+)?"
_INFINITE_PATTERN = r"[+-]?inf(inity)?"
_PADDED_PATTERN = r"[^0-9]*0[0-9](.|\n)*"  # such as 007
_DAY_PATTERN = r"[0-9]{4}-[0-9]{2}-[0-9]{2}([ T].*)?"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnProfile:
    """What the rows show about one column; `values` is None if they are too many or too long to list."""

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
    texts: int = 0  # rows whose text is neither blank nor a mark for missing
    spelling: NumberSpelling = PLAIN_NUMBERS
    points: tuple[float, ...] = ()
    edges: tuple[float, ...] = ()  # of bins that follow the rows; empty for bins of equal width
    step: float | None = None  # all numbers are multiples of it

    @property
    def near_unique(self) -> bool:
        """Whether nearly every row has a text of its own, such as a name or a ticket."""
        different = self.distinct if self.values is None else len(self.values)
        return self.kind == "categorical" and different >= FEW_VALUES and 2 * different > self.texts


def read_profiles(source: RowSource, kinds: Sequence[str]) -> list[ColumnProfile | None]:
    """The profile of every column, in a few passes of small memory; None for types that no kind of column holds.

    Privacy: exact facts about the rows. Errors hold no cell.
    """
    if not source.dialect.drafts:
        raise DataError(
            f"{source.name}: hush does not draft from rows of Spark; write some rows to Parquet and draft from these, "
            "or draft from the declared types, without --from-data"
        )
    columns = [k for k, kind in enumerate(kinds) if kind != UNSUPPORTED]
    facts: dict[int, dict[str, Any]] = {}  # by column, then by the name of the fact
    at_once = _REMOTE_COLUMNS_PER_PASS if source.dialect.remote else _COLUMNS_PER_PASS
    try:
        for start in range(0, len(columns), at_once):
            facts |= _facts(source, kinds, columns[start : start + at_once])
        texts = [k for k in columns if _kind_of(facts[k]) == "categorical" and facts[k]["longest"] <= LONGEST_VALUE]
        # the estimate may be off by some percent; the exact list is counted again
        values = _distinct(source, kinds, [k for k in texts if facts[k]["distinct"] <= 1.2 * MOST_VALUES])
        profiles = {k: _profile(facts[k], values.get(k)) for k in columns}
        profiles |= _spelled(source, kinds, {k: profiles[k] for k in columns if profiles[k].kind == "categorical"})
        profiles |= _pointed(source, kinds, {k: profiles[k] for k in columns if profiles[k].kind in _NUMBER_KINDS})
        profiles |= {k: _binned(source, kinds, k, profiles[k]) for k in columns if profiles[k].kind in _NUMBER_KINDS}
    except SizeError:
        raise DataError(
            f"{source.name}: too large to draft from in {readable(DRAFT_MEMORY)}; draft without the data"
        ) from None
    if columns and not facts[columns[0]]["total"]:
        raise DataError(f"{source.name}: there are no rows to draft from; draft from the header alone")
    return [profiles.get(k) for k in range(len(kinds))]


def _texts_of(source: RowSource, kinds: Sequence[str], columns: Sequence[int]) -> str:
    """SELECT of columns as trimmed text, with null for blank, so that the same rules serve all types."""
    sql, texts = source.dialect, []
    for k in columns:
        x, family = f"c{k}", sql.family(source.types[k])
        if kinds[k] == "numeric":  # a float32 is compared as the double it becomes, not by its shorter text
            x, family = sql.as_number(x, family), Family.DOUBLE
        texts.append(f"nullif({sql.trimmed(sql.as_text(x, family))}, '') AS c{k}")
    aliases = ", ".join(f"c{k}" for k in range(len(kinds)))
    return f"SELECT {', '.join(texts)} FROM ({source.select}) AS source({aliases}) {sql.fence}"


def _ask(
    source: RowSource,
    kinds: Sequence[str],
    columns: Sequence[int],
    aggregates: Sequence[str],
    *prepared: Mapping[str, str],
) -> tuple[Any, ...]:
    """Aggregates over the texts of some columns; each step of `prepared` adds expressions that later ones may use."""
    rows = _texts_of(source, kinds, columns)
    for step in prepared:
        more = ", ".join(f"{expression} AS {name}" for name, expression in step.items())
        rows = f"SELECT *, {more} FROM ({rows}) AS texts {source.dialect.fence}"
    select = f"SELECT {', '.join(aggregates)} FROM ({rows}) AS prepared"
    with source.session() as session:
        return source.dialect.fetch_row(session, select, source.failure)


def _facts(source: RowSource, kinds: Sequence[str], columns: Sequence[int]) -> dict[int, dict[str, Any]]:
    """The facts about some columns, by column and by the names that `_questions` gives them."""
    sql, prepared = source.dialect, {}
    for k in columns:
        x = f"c{k}"
        prepared[f"number{k}"] = f"(CASE WHEN {sql.matches(x, _NUMBER_PATTERN)} THEN {sql.number_or_null(x)} END)"
        prepared[f"moment{k}"] = f"(CASE WHEN {sql.matches(x, _DAY_PATTERN)} THEN {sql.moment_or_null(x)} END)"
        prepared[f"clock{k}"] = sql.time_or_null(x)
    asked = [_questions(k, sql) for k in columns]
    answers = iter(_ask(source, kinds, columns, [fact for questions in asked for fact in questions.values()], prepared))
    return {k: {fact: next(answers) for fact in questions} for k, questions in zip(columns, asked, strict=True)}


def _distinct(source: RowSource, kinds: Sequence[str], columns: Sequence[int]) -> dict[int, tuple[str, ...]]:
    if not columns:
        return {}
    always = _texts(ALWAYS_MISSING, source.dialect)
    wanted = [f"array_agg(DISTINCT c{k}) FILTER (WHERE c{k} NOT IN ({always}))" for k in columns]
    answers = _ask(source, kinds, columns, wanted)
    return {k: tuple(sorted(texts)) for k, texts in zip(columns, answers, strict=True) if len(texts) <= MOST_VALUES}


def _questions(k: int, sql: Dialect) -> dict[str, str]:
    """The facts about a column of texts, as SQL aggregates."""
    x, moment, clock = f"c{k}", f"moment{k}", f"CAST(clock{k} AS DATE)"
    day, number = f"CAST({moment} AS DATE)", f"(CASE WHEN abs(number{k}) < {sql.number(math.inf)} THEN number{k} END)"
    always, among = _texts(ALWAYS_MISSING, sql), _texts(_MISSING_MARKS, sql)
    marks = " ".join(f"WHEN {_texts([mark], sql)} THEN {1 << bit}" for bit, mark in enumerate(_MISSING_MARKS))
    return {
        "total": "count(*)",
        "present": f"count({x})",
        "texts": f"count(*) FILTER (WHERE {x} NOT IN ({always}))",
        "solid": f"count(*) FILTER (WHERE {x} NOT IN ({among}))",
        "marks": f"bit_or(CASE {x} {marks} END)",  # a set as bits, since DISTINCT would hold every text
        "booleans": f"count(*) FILTER (WHERE lower({x}) IN ('true', 'false'))",
        "integers": f"count(*) FILTER (WHERE {sql.matches(x, _INTEGER_PATTERN)})",
        "numbers": f"count({number})",
        "infinite": f"count(*) FILTER (WHERE {sql.matches(f'lower({x})', _INFINITE_PATTERN)})",
        "days": f"count({day})",
        "timed": f"count(*) FILTER (WHERE {moment} <> {day})",
        "clocks": f"count(*) FILTER (WHERE {clock} = {sql.day(ANY_DAY)})",
        "low": f"min({number})",
        "high": f"max({number})",
        "first": f"min({day})",
        "last": f"max({day})",
        "distinct": sql.distinct(x),
        "longest": f"max(length({x}))",
    }


def _texts(texts: Sequence[str], sql: Dialect) -> str:
    return ", ".join(map(sql.literal, texts))


def _kind_of(facts: dict[str, Any]) -> str:
    """The narrowest kind that holds every value; "" if the column has no value."""
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
    seen = [mark for bit, mark in enumerate(_MISSING_MARKS) if (facts["marks"] or 0) >> bit & 1]
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
    """New profiles of the columns whose texts are all numbers in one of the usual spellings."""
    spellings = [NumberSpelling(decimal=mark, thousands=group, strip=_USUAL_SIGNS) for mark, group in _USUAL_SPELLINGS]
    spelled: dict[int, ColumnProfile] = {}
    sql = source.dialect
    for k, profile in profiles.items():
        solid = f"(CASE WHEN c{k} NOT IN ({_texts(_MISSING_MARKS, sql)}) THEN c{k} END)"
        numbers = {
            f"x{at}": f"({sql.spelled_number_or_null('solid', spelling)})" for at, spelling in enumerate(spellings)
        }
        wanted = ["count(solid)", f"count(*) FILTER (WHERE {sql.matches('solid', _PADDED_PATTERN)})"]
        wanted += [f"bool_or(position({_texts([sign], sql)} IN solid) > 0)" for sign in _USUAL_SIGNS]
        for x in numbers:
            wanted += [f"count({x})", f"min({x})", f"max({x})", f"count(*) FILTER (WHERE {sql.is_whole(x)})"]
        texts, padded, *answers = _ask(source, kinds, [k], wanted, {"solid": solid}, numbers)
        signs = tuple(sign for sign, seen in zip(_USUAL_SIGNS, answers, strict=False) if seen)
        for at, spelling in enumerate(spellings):
            count, low, high, whole = answers[len(_USUAL_SIGNS) + 4 * at :][:4]
            if texts and not padded and count == texts:
                spelled[k] = replace(
                    profile,
                    kind="integer" if whole == texts else "numeric",
                    missing=profile.missing or bool(profile.marks),
                    missing_values=profile.marks,
                    low=low,
                    high=high,
                    spelling=replace(spelling, strip=signs),
                )
                break
    return spelled


def _pointed(source: RowSource, kinds: Sequence[str], profiles: dict[int, ColumnProfile]) -> dict[int, ColumnProfile]:
    """The profiles of columns of numbers, each with the numbers that a good share of its rows holds."""
    if not profiles:
        return {}
    sql = source.dialect
    numbers = {f"x{k}": f"({sql.spelled_number_or_null(f'c{k}', p.spelling)})" for k, p in profiles.items()}
    candidates = {k: sorted(_frequent(source, kinds, k, numbers[f"x{k}"])) for k in profiles}
    wanted = [
        f"count(*) FILTER (WHERE x{k} = {sql.number(number)}) >= greatest({POINT_SHARE} * count(x{k}), {POINT_ROWS})"
        for k in profiles
        for number in candidates[k]
    ]
    frequent = iter(_ask(source, kinds, list(profiles), wanted, numbers) if wanted else ())
    return {
        k: replace(profile, points=tuple(number for number in candidates[k] if next(frequent)))
        for k, profile in profiles.items()
    }


def _binned(source: RowSource, kinds: Sequence[str], k: int, profile: ColumnProfile) -> ColumnProfile:
    """The profile of a column of numbers, with edges of bins if they should follow the rows, and with its step."""
    whole, low, high = profile.kind == "integer", profile.low or 0.0, profile.high or 0.0
    if whole and high - low < MOST_INTEGERS:
        return profile
    sql = source.dialect
    number = {"x": f"({sql.spelled_number_or_null(f'c{k}', profile.spelling)})"}
    no_point = "".join(f" AND x <> {sql.number(point)}" for point in profile.points)

    def below(numbers: Sequence[float]) -> tuple[int, ...]:
        counts = [f"count(*) FILTER (WHERE x < {sql.number(edge)}{no_point})" for edge in numbers]
        return _ask(source, kinds, [k], counts, number)

    step: float | None = None
    if not whole:
        # 1, 0.1, 0.01 and so on, by the decimals of the numbers; None if they have more than `MOST_DECIMALS`.
        mark, exponent = re.escape(profile.spelling.decimal), sql.matches(f"c{k}", r".*[0-9.][eE][+-]?[0-9]+")
        patterns = [rf"[^{mark}]*({mark}[0-9]{{0,{most}}}([^0-9].*)?)?" for most in range(MOST_DECIMALS + 1)]
        fitting = [sql.matches(f"c{k}", pattern) for pattern in patterns]
        tests = [f"bool_and(x IS NULL OR ({fits} AND NOT {exponent}))" for fits in fitting]
        answers = enumerate(_ask(source, kinds, [k], tests, number))
        step = next((float(f"1e-{decimals}") for decimals, fits in answers if fits), None)
    edges = crowded_edges(low, high + whole, below, least=1.0 if whole else step or 0.0)
    return replace(profile, edges=edges, step=step)


def _frequent(source: RowSource, kinds: Sequence[str], k: int, x: str) -> list[float]:
    """A few finite numbers of a column that may be held by a good share of its rows."""
    if source.dialect.frequent is not None:
        (numbers,) = _ask(source, kinds, [k], [source.dialect.frequent(x, _POINT_CANDIDATES)])
    else:
        rows = f"SELECT {x} AS x FROM ({_texts_of(source, kinds, [k])}) AS texts"
        select = f"SELECT x FROM ({rows}) AS numbers GROUP BY x ORDER BY count(*) DESC LIMIT {_POINT_CANDIDATES}"
        with source.session() as session:
            batches = source.dialect.stream(session, select, _POINT_CANDIDATES, source.failure)
            numbers = [number for batch in batches for number in batch.column(0).to_pylist()]
    return [number for number in numbers or () if number is not None and math.isfinite(number)]


def round_bins(low: float, high: float, *, least: float = 0.0) -> tuple[float, float, int]:
    """Bounds around two numbers, and a number of bins whose width is 1, 2 or 5 times a power of ten, at least `least`.

    >>> round_bins(0.13, 97.2), round_bins(0, 99999), round_bins(1234.0, 1234.0)
    ((0.0, 100.0, 20), (0.0, 100000.0, 20), (1234.0, 1235.0, 1))
    """
    grid = _grid(low, high, least)
    if grid is None:
        top = math.nextafter(low, math.inf) if abs(low) > 2**52 else low + 1
        return (low, top, 1) if low == high else (low, high, MOST_BINS)
    step, first, last = grid
    with localcontext(prec=800):
        return float(first * step), float(last * step), last - first


def crowded_edges(low: float, high: float, below: CountBelow, *, least: float = 0.0) -> tuple[float, ...]:
    """Edges of bins that follow the rows, no narrower than `least`; empty if bins of equal width serve.

    Privacy: the edges depend on exact counts, as all of a draft does.
    """
    grid = _grid(low, high, least)
    if grid is None:
        return ()
    with localcontext(prec=800):
        step, first, last = grid
        # Start from bins of equal width; they serve unless one of them is crowded.
        width = {Decimal(k) * step: step for k in range(first, last)}  # of each bin, by its lower edge
        top = Decimal(last) * step
        counts = _counted([*width, top], below)
        rows = sum(counts)
        if rows < FEWEST_ROWS or max(counts) < CROWDED_SHARE * rows:
            return ()
        # Cut full bins into narrower ones, round after round.
        for _ in range(MOST_ROUNDS):
            crowded = [edge for edge, held in zip(sorted(width), counts, strict=True) if held > FULL_SHARE * rows]
            # A quarter or a fifth of a round width is round too: 5 -> 1, 2 -> 0.5, 1 -> 0.2.
            factors = {edge: 4 if width[edge].normalize().as_tuple().digits == (2,) else 5 for edge in crowded}
            cuts = {edge: width[edge] / factor for edge, factor in factors.items()}
            cuts = {edge: narrow for edge, narrow in cuts.items() if narrow >= Decimal(repr(least))}
            if not cuts:
                break
            for edge, narrow in cuts.items():
                parts = int(width[edge] / narrow)
                width |= {edge + narrow * part: narrow for part in range(parts)}
            counts = _counted([*sorted(width), top], below)
        # Join bins until each is full, or wide enough.
        edges = [*sorted(width), top]
        kept, held = [edges[0]], 0
        for edge, count in zip(edges[1:-1], counts, strict=False):
            held += count
            wide = len(kept) > 1 and edge - kept[-1] >= WIDENING_FACTOR * (kept[-1] - kept[-2])
            if held >= FULL_SHARE * rows or (wide and held >= SMALLEST_SHARE * rows):
                kept.append(edge)
                held = 0
        return tuple(map(float, (*kept, top)))


def _grid(low: float, high: float, least: float) -> tuple[Decimal, int, int] | None:
    """A round step, and the multiples of it that bound two numbers; None if the span is zero or infinite."""
    span = high - low
    if not math.isfinite(span) or span < 1e-300:
        return None
    with localcontext(prec=800):  # enough for any float to be exact
        power = Decimal(10) ** (math.floor(math.log10(span)) - 2)
        for step in (power * factor for factor in (1, 2, 5, 10, 20, 50, 100, 200)):
            first = (Decimal(low) / step).to_integral_value(ROUND_FLOOR)
            last = (Decimal(high) / step).to_integral_value(ROUND_CEILING)
            if last - first <= MOST_BINS and step >= Decimal(repr(least)):
                break
        return step, int(first), int(last)


def _counted(edges: Sequence[Decimal], below: CountBelow) -> list[int]:
    """The rows in each bin; the last one is closed."""
    totals = below([*map(float, edges[:-1]), math.inf])
    return [after - before for before, after in pairwise(totals)]
