"""The bin of a number, as SQL: how many inner edges lie at or below it, exactly.

Three ways, each the fastest where it is used: a guess that is put right where bins have equal width, O(1) per row; a
tree of comparisons for few bins, which costs O(bins) in DuckDB; bisection for many, O(log bins).

The one encoder: a column of the schema and the type it is stored in -> SQL that gives the code of each value.

Every source is encoded by this SQL, whether its rows are then counted in memory, in a stream or by the database, so
that all routes agree on every cell. An encoding is a chain of steps, each of which may name the one before it:

    prepare   the stored value x as a number, a date or the position among the declared texts
    refine    steps towards the bin, for numeric columns
    code      the code 0 .. size-1, or NULL where the value is refused

Missing is null, NaN, blank text, or one of the column's `missing_values`: as text, and as the number or date that the
text spells. All other values are placed by the rules of the column's kind. The ordinary case comes first in every
CASE: DuckDB then decides a whole vector of rows with one comparison.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from hush.errors import DataError
from hush.schema.column_kinds import Boolean, Categorical, Column, Date, Granularity, Integer, Numeric, Outside
from hush.tables.sql_types import NUMBERS, Family, as_text, double, family, literal, trimmed, type_name

LARGEST_TREE = 24
Edges = tuple[float, ...]
Step = Callable[[int], str]  # the name that the query gives to a step


def locate(edges: Edges, p: str, step: Step) -> tuple[tuple[str, ...], str, str | None]:
    """Steps that may each name the one before, the bin of p within the bounds, and a test for being within them.

    The test is None where it has to be spelled out.
    """
    scale = equal_width_scale(edges)
    if scale is not None:
        return _guess(edges, scale, p, step)
    if len(edges) - 1 <= LARGEST_TREE:
        return (), _tree(edges, p, 0, len(edges) - 1), None
    return _bisection(edges, p, step)


def equal_width_scale(edges: Edges) -> float | None:
    """A factor s for which floor((x - e_0) s) is the bin of each x or the one before; None where there is none.

    s is a little below 1 / width. The guess is monotone in x (each of its operations is, also in floating point), so
    it is enough to look at the first and the last number of every bin.
    """
    bins = len(edges) - 1
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        scale = float(bins / (np.float64(edges[-1]) - np.float64(edges[0])) * (1 - 2.0**-40))
        if not (math.isfinite(scale) and scale > 0):
            return None
        first = np.array(edges[:-1])
        final = np.append(np.nextafter(edges[1:-1], -np.inf), edges[-1])
        low = np.floor((first - edges[0]) * scale)
        high = np.floor((final - edges[0]) * scale)
    position = np.arange(bins)
    return scale if bool(np.all(low >= np.maximum(position - 1, 0)) and np.all(high <= position)) else None


def _guess(edges: Edges, scale: float, p: str, step: Step) -> tuple[tuple[str, ...], str, str]:
    g = step(0)
    guess = f"CAST(floor(({p} - {double(edges[0])}) * {double(scale)}) AS INTEGER)"
    within = f"{p} BETWEEN {double(edges[0])} AND {double(edges[-1])}"
    following = ", ".join([*map(double, edges[1:-1]), double(math.inf)])  # the last bin is closed
    place = f"{g} + CAST({p} >= [{following}][{g} + 1] AS INTEGER)"
    return (f"CASE WHEN {within} THEN {guess} END",), place, f"{g} IS NOT NULL"


def _tree(edges: Edges, p: str, low: int, high: int) -> str:
    if high - low == 1:
        return str(low)
    middle = (low + high) // 2
    left, right = _tree(edges, p, low, middle), _tree(edges, p, middle, high)
    return f"CASE WHEN {p} < {double(edges[middle])} THEN {left} ELSE {right} END"


def _bisection(edges: Edges, p: str, step: Step) -> tuple[tuple[str, ...], str, None]:
    """g_0 = 0, g_{k+1} = 2 g_k + [p >= e_{(2 g_k + 1) s}] with s halved at each step, down to 1."""
    bins = len(edges) - 1
    whole = 1 << (bins - 1).bit_length()
    steps: list[str] = []
    stride = whole // 2
    while stride:
        before = step(len(steps) - 1) if steps else "0"
        places = range(stride, whole, 2 * stride)
        listed = ", ".join(double(edges[place] if place < bins else math.inf) for place in places)
        steps.append(f"2 * {before} + CAST({p} >= [{listed}][{before} + 1] AS INTEGER)")
        stride //= 2
    return tuple(steps), step(len(steps) - 1), None


FALSE_TEXTS = ("false", "f", "no", "n", "0")
TRUE_TEXTS = ("true", "t", "yes", "y", "1")
NAN = "CAST('nan' AS DOUBLE)"
UNREADABLE = "DATE '5881000-01-01'"  # stands for text that is no date; later than any date a source can mean
CODE_TYPES = {1: "UTINYINT", 2: "USMALLINT", 4: "UINTEGER"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """SQL expressions of one column; `texts` is what the enum type that `prepare` names must hold."""

    prepare: str
    code: str
    refine: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What the SQL calls the stored value, the steps in between, and the enum type of declared texts."""

    stored: str
    prepared: str
    refined: str
    enum: str

    @classmethod
    def numbered(cls, position: int, stored: str) -> Names:
        """The names for the column at a position of the query."""
        return cls(stored=stored, prepared=f"p{position}", refined=f"g{position}", enum=f"hush_texts_{position}")

    def step(self, number: int) -> str:
        """The name of a step of refinement."""
        return f"{self.refined}_{number}"


def encode(column: Column, declared: str, names: Names) -> Encoding:
    """The encoding of `column` stored as the DuckDB type `declared`; DataError where the type cannot hold it."""
    stored = family(declared)
    if stored is Family.NOTHING:
        encoding = Encoding(prepare="NULL", code=_refuse_or(column.missing_code))
    elif isinstance(column, Categorical) and stored is not Family.UNSUPPORTED:
        encoding = _categorical(column, stored, names)
    elif isinstance(column, Boolean) and stored in {Family.BOOLEAN, Family.TEXT, *NUMBERS}:
        encoding = _boolean(column, stored, names)
    elif isinstance(column, Integer) and stored in {Family.BOOLEAN, Family.INTEGER}:
        encoding = _native_integer(column, stored, names)
    elif isinstance(column, Integer) and stored in {Family.TEXT, *NUMBERS}:
        encoding = _integer(column, stored, names)
    elif isinstance(column, Numeric) and stored in {Family.BOOLEAN, Family.TEXT, *NUMBERS}:
        encoding = _numeric(column, stored, names)
    elif isinstance(column, Date) and stored in {Family.TEXT, Family.DATE, Family.TIMESTAMP, Family.INSTANT}:
        encoding = _date(column, stored, names)
    else:
        raise DataError(
            f"column {column.name!r} is stored as {type_name(declared)}, which the kind {column.kind!r} cannot read; "
            "declare another kind or convert the source"
        )
    code = f"CAST({encoding.code} AS {CODE_TYPES[column.dtype.itemsize]})"
    return Encoding(prepare=encoding.prepare, refine=encoding.refine, code=code, texts=encoding.texts)


def refusal(column: Column) -> str:
    """What to say when a value of the column was refused, without saying which, where, or how many."""
    remedies = []
    if isinstance(column, Categorical) and not column.other:
        remedies.append("add other = true")
    if isinstance(column, Integer | Numeric | Date) and column.outside is Outside.REFUSE:
        remedies.append('set outside = "clamp"')
    if not column.missing:
        remedies.append("set missing = true")
    remedy = ", ".join([*remedies, "or clean the source" if remedies else "clean the source"])
    return f"column {column.name!r} holds values outside its declared levels (how many is private); {remedy}"


def _categorical(column: Categorical, stored: Family, names: Names) -> Encoding:
    """Position among declared texts, then missing texts: a hash lookup whatever their number."""
    known = tuple(dict.fromkeys([*column.texts, *column.missing_values, ""]))
    x, p, levels = names.stored, names.prepared, column.levels

    def place(text: str) -> str:
        return f"enum_code(TRY_CAST({text} AS {names.enum}))"

    places = [place(as_text(x, stored))]
    if stored is Family.TEXT:  # most values are found untrimmed
        places.append(place(trimmed(as_text(x, stored))))
    missing = f"{x} IS NULL" + (f" OR isnan({x})" if stored in {Family.FLOAT, Family.DOUBLE} else "")
    places.append(f"CASE WHEN {missing} THEN {levels} ELSE -1 END")
    return Encoding(
        prepare=f"coalesce({', '.join(places)})",
        code=f"CASE WHEN {p} BETWEEN 0 AND {levels - 1} THEN {p} "
        f"WHEN {p} < 0 THEN {_refuse_or(column.other_code)} ELSE {_refuse_or(column.missing_code)} END",
        texts=known,
    )


def _boolean(column: Boolean, stored: Family, names: Names) -> Encoding:
    p, missing = names.prepared, _refuse_or(column.missing_code)
    if stored is Family.BOOLEAN:
        code = f"CASE WHEN {p} IS NULL THEN {missing} ELSE CAST({p} AS INTEGER) END"
        return Encoding(prepare=names.stored, code=code)
    if stored is Family.TEXT:
        blank = _among_texts(p, ("", *column.missing_values))
        code = (
            f"CASE WHEN {p} IS NULL OR {blank} THEN {missing} "
            f"WHEN {_among_texts(f'lower({p})', FALSE_TEXTS)} THEN 0 "
            f"WHEN {_among_texts(f'lower({p})', TRUE_TEXTS)} THEN 1 ELSE NULL END"
        )
        return Encoding(prepare=trimmed(as_text(names.stored, stored)), code=code)
    none = " OR ".join(_missing_numbers(column, p))
    code = f"CASE WHEN {none} THEN {missing} WHEN {p} = 0 THEN 0 WHEN {p} = 1 THEN 1 ELSE NULL END"
    return Encoding(prepare=_as_double(column, stored, names.stored), code=code)


def _native_integer(column: Integer, stored: Family, names: Names) -> Encoding:
    """Integers are compared as integers, which is exact for the widest of them."""
    p = names.prepared
    numbers = [str(int(n)) for n in _numbers(column) if n.is_integer() and abs(n) < 2.0**126]  # those of a HUGEINT
    place = p if column.low == 0 else f"CAST({p} AS BIGINT) - ({column.low})"
    prepare = f"CAST({names.stored} AS INTEGER)" if stored is Family.BOOLEAN else names.stored
    missing = [f"{p} IS NULL", *([_among(p, numbers)] if numbers else [])]
    return Encoding(prepare=prepare, code=_bounded(column, p, column.low, column.high, place, missing))


def _integer(column: Integer, stored: Family, names: Names) -> Encoding:
    p = names.prepared
    place = f"CASE WHEN {p} = trunc({p}) THEN CAST({p} AS BIGINT) - ({column.low}) END"
    code = _bounded(column, p, double(column.low), double(column.high), place, _missing_numbers(column, p))
    broken = f"CASE WHEN {p} <> trunc({p}) THEN NULL ELSE {code} END"  # beyond the bounds it is not clamped either
    return Encoding(prepare=_as_double(column, stored, names.stored), code=broken)


def _numeric(column: Numeric, stored: Family, names: Names) -> Encoding:
    """The number of inner edges at or below p, exactly."""
    p, edges = names.prepared, column.edges
    steps, place, within = locate(edges, p, names.step)
    missing = _missing_numbers(column, p)
    code = _bounded(column, p, double(edges[0]), double(edges[-1]), place, missing, within)
    return Encoding(prepare=_as_double(column, stored, names.stored), refine=steps, code=code)


def _date(column: Date, stored: Family, names: Names) -> Encoding:
    """Days; a stamp with a time zone counts on its day in UTC, in a typed column and in text alike."""
    x, p = names.stored, names.prepared
    if stored is Family.TEXT:
        text = trimmed(as_text(x, stored))
        blank = _among_texts(text, ("", *column.missing_values))
        prepare = (
            f"CASE WHEN {x} IS NULL OR {blank} THEN NULL ELSE coalesce("
            f"CASE WHEN strlen({as_text(x, stored)}) = 10 THEN TRY_CAST({as_text(x, stored)} AS DATE) END, "
            f"CAST(TRY_CAST({text} AS TIMESTAMP WITH TIME ZONE) AS DATE), {UNREADABLE}) END"
        )
    else:
        prepare = f"CAST({x} AS DATE)"
    days = [f"DATE '{day}'" for day in _dates(column)]
    missing = [f"{p} IS NULL", *([_among(p, days)] if days else [])]
    start, end = f"DATE '{column.start}'", f"DATE '{column.end}'"
    first = column.start
    quarter = (first.month - 1) // 3
    ordinal = {
        Granularity.DAY: f"{p} - {start}",
        Granularity.WEEK: f"({p} - {start}) // 7",
        Granularity.MONTH: f"(year({p}) - {first.year}) * 12 + month({p}) - {first.month}",
        Granularity.QUARTER: f"(year({p}) - {first.year}) * 4 + (month({p}) - 1) // 3 - {quarter}",
        Granularity.YEAR: f"year({p}) - {first.year}",
    }[column.granularity]
    code = _bounded(column, p, start, end, ordinal, missing)
    if stored is Family.TEXT:
        code = f"CASE WHEN {p} = {UNREADABLE} THEN NULL ELSE {code} END"
    return Encoding(prepare=prepare, code=code)


def _as_double(column: Column, stored: Family, x: str) -> str:
    """x as DOUBLE: NaN where it is missing, NULL where it is text that is no number."""
    if stored is not Family.TEXT:
        return f"coalesce(CAST({x} AS DOUBLE), {NAN})"
    raw = as_text(x, stored)
    blank = _among_texts(trimmed(raw), ("", *column.missing_values))
    return (
        f"coalesce(TRY_CAST({raw} AS DOUBLE), "
        f"CASE WHEN {x} IS NULL OR {blank} THEN {NAN} ELSE TRY_CAST({trimmed(raw)} AS DOUBLE) END)"
    )


def _bounded(
    column: Integer | Numeric | Date,
    p: str,
    low: object,
    high: object,
    place: str,
    missing: list[str],
    within: str | None = None,
) -> str:
    """The code of p: its place within the bounds, missing, or beyond them; NULL where p is NULL and not missing."""
    clamp = column.outside is Outside.CLAMP
    below, above = ("0", str(column.levels - 1)) if clamp else ("NULL", "NULL")
    ordinary = within or f"{p} BETWEEN {low} AND {high}"
    if len(missing) > 1:  # a missing value may lie within the bounds
        ordinary += f" AND NOT ({missing[-1]})"
    return (
        f"CASE WHEN {ordinary} THEN {place} WHEN {' OR '.join(missing)} THEN {_refuse_or(column.missing_code)} "
        f"WHEN {p} < {low} THEN {below} WHEN {p} > {high} THEN {above} ELSE NULL END"
    )


def _missing_numbers(column: Column, p: str) -> list[str]:
    """Conditions under which a DOUBLE is missing."""
    numbers = [double(number) for number in _numbers(column)]
    return [f"isnan({p})", *([_among(p, numbers)] if numbers else [])]


def _numbers(column: Column) -> list[float]:
    """The missing values that spell a number: -9 is missing however a source stores it."""
    numbers = []
    for text in column.missing_values:
        try:
            number = float(text)
        except ValueError:
            continue
        if not math.isnan(number):
            numbers.append(number)
    return numbers


def _dates(column: Column) -> list[dt.date]:
    days = []
    for text in column.missing_values:
        try:
            days.append(dt.date.fromisoformat(text))
        except ValueError:
            continue
    return days


def _among(x: str, values: Iterable[str]) -> str:
    return f"{x} IN ({', '.join(values)})"


def _among_texts(x: str, texts: Iterable[str]) -> str:
    """Compared as bytes: a collation of the column or the connection would find texts alike that are not."""
    return _among(f"encode({x})", (f"encode({literal(text)})" for text in texts))


def _refuse_or(code: int | None) -> str:
    return "NULL" if code is None else str(code)
