"""Encoding: SQL that gives the code of each value of a column, for the type that a source stores it in.

Every source is encoded by this SQL, whether its rows are then counted in memory, in a stream or by the database, so
that all three give the same counts. An encoding is a chain of steps, each of which may use the one before it:

    prepare   the stored value x as a number, a date or the position among the declared texts
    refine    steps towards the bin, for numeric columns
    code      the code 0 .. size-1, or NULL if the value is refused

A value is missing if it is null, NaN, blank, or one of the column's `missing_values`: as text, and as the number or
date that the text spells. The kind of the column decides about all other values. The ordinary case comes first in every
CASE: DuckDB then decides a whole vector of rows with one comparison.

The bin of a number is the number of inner edges at or below it. There are three ways to find it, each used where it is
fastest: a guess and a correction for bins of equal width, O(1) per row; a tree of comparisons for few bins, O(bins) in
DuckDB; bisection for many bins, O(log bins).
"""

from __future__ import annotations

import contextlib
import datetime as dt
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from hush.core.errors import DataError
from hush.schema.column import Column, Outside, Part
from hush.schema.column_kinds import FALSE_TEXTS, TRUE_TEXTS, Boolean, Categorical, Date, Granularity, Integer, Numeric
from hush.schema.stamps import HOUR, MINUTE, MONTH, TIME_PARTS, WEEKDAY, TimeOfDay
from hush.tables.dialects.dialect import DAY_FAMILIES, NUMBER_FAMILIES, Dialect, Family, type_name

LARGEST_TREE = 24  # bins
Parsed = TypeVar("Parsed")
Edges = tuple[float, ...]
Step = Callable[[int], str]  # the name that the query gives to a step


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """SQL expressions of one column; the session must declare `texts` under the name `Names.texts`."""

    prepare: str
    code: str
    refine: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What the SQL calls the stored value, the steps in between, and the declared texts."""

    stored: str
    prepared: str
    refined: str
    texts: str

    @classmethod
    def numbered(cls, position: int, stored: str) -> Names:
        """The names for the column at a position of the query."""
        return cls(stored=stored, prepared=f"p{position}", refined=f"g{position}", texts=f"hush_texts_{position}")

    def step(self, number: int) -> str:
        """The name of a step of refinement."""
        return f"{self.refined}_{number}"


def encode(column: Column, declared: str, names: Names, dialect: Dialect) -> Encoding:
    """The encoding of `column` stored as the type `declared`; DataError if the kind cannot read that type."""
    stored = dialect.family(declared)
    encoder = _Encoder(dialect, column, stored, names)
    if stored is Family.NOTHING:
        encoding = Encoding(prepare="NULL", code=encoder.missing_code)
    elif column.part is not None:
        if stored not in {Family.TEXT, *(() if isinstance(column.part.stamp, TimeOfDay) else DAY_FAMILIES)}:
            raise DataError(_unreadable(column, declared))
        encoding = encoder.stamp(column.part)
    elif isinstance(column, Categorical) and stored is not Family.UNSUPPORTED:
        encoding = encoder.categorical(column)
    elif isinstance(column, Boolean) and stored in {Family.BOOLEAN, Family.TEXT, *NUMBER_FAMILIES}:
        encoding = encoder.boolean()
    elif isinstance(column, Integer) and stored in {Family.BOOLEAN, Family.INTEGER}:
        encoding = encoder.native_integer(column)
    elif isinstance(column, Integer) and stored in {Family.TEXT, *NUMBER_FAMILIES}:
        encoding = encoder.integer(column)
    elif isinstance(column, Numeric) and stored in {Family.BOOLEAN, Family.TEXT, *NUMBER_FAMILIES}:
        encoding = encoder.numeric(column)
    elif isinstance(column, Date) and stored in {Family.TEXT, *DAY_FAMILIES}:
        encoding = encoder.date(column)
    else:
        raise DataError(_unreadable(column, declared))
    return replace(encoding, code=dialect.code(encoding.code, column.dtype.itemsize))


def encode_number(column: Column, declared: str, names: Names, dialect: Dialect) -> Encoding:
    """As `encode`, but the code is the number itself, also outside the bounds; NULL if it is missing or no number."""
    stored = dialect.family(declared)
    if stored not in {Family.NOTHING, Family.BOOLEAN, Family.TEXT, *NUMBER_FAMILIES}:
        raise DataError(_unreadable(column, declared))
    return _Encoder(dialect, column, stored, names).number()


def _unreadable(column: Column, declared: str) -> str:
    return (
        f"column {column.source!r} is stored as {type_name(declared)}, which the kind {column.source_kind!r} cannot "
        "read; declare another kind or convert the source"
    )


def refusal(column: Column) -> str:
    """The message for refused values of a column; it does not say which, where, or how many."""
    remedies, part = [], column.part
    if part is None and isinstance(column, Categorical) and not column.other:
        remedies += ["list every value", "add other = true"]
    if part is None and isinstance(column, Integer | Numeric | Date) and column.outside is Outside.REFUSE:
        remedies.append('set outside = "clamp"')
    if part is not None and not part.stamp.clamps and not isinstance(part.stamp, TimeOfDay):
        remedies.append('set outside = "clamp"')
    if not column.missing:
        remedies.append("set missing = true")
    remedy = ", ".join([*remedies, "or clean the source" if remedies else "clean the source"])
    return f"column {column.source!r} holds values outside its declared levels (how many is private); {remedy}"


@dataclass(frozen=True, slots=True)
class _Encoder:
    """Writes the SQL of one column: `x` is the stored value, `p` the prepared one."""

    dialect: Dialect
    column: Column
    stored: Family
    names: Names

    @property
    def missing_code(self) -> str:
        return "NULL" if self.column.missing_code is None else str(self.column.missing_code)

    def categorical(self, column: Categorical) -> Encoding:
        """Position among declared texts, missing texts, then cells: one hash lookup, however many there are."""
        sql, x, p, levels = self.dialect, self.names.stored, self.names.prepared, column.levels
        raw = compared = sql.as_text(x, self.stored)
        if self.stored is Family.TEXT and column.ignore:
            compared = sql.folded(raw, column.ignore)
        texts = dict.fromkeys([*column.texts, *column.missing_texts, ""])
        cells = {}  # levels as hush's CSV files spell them, unless that text is a level or missing itself
        if self.stored is Family.TEXT:
            cells = {cell: code for cell, code in column.csv_cells.items() if cell not in texts}
        size = len(texts) + len(cells)
        positions = [sql.position(compared, self.names.texts, size)]
        if self.stored is Family.TEXT and not column.ignore:  # most texts need no trimming
            positions.append(sql.position(sql.trimmed(raw), self.names.texts, size))
        codes = [str(code) for code in cells.values()]
        as_cells = f"WHEN {p} >= {len(texts)} THEN {sql.element(codes, f'{p} - {len(texts)}')} " if cells else ""
        other = "NULL" if column.other_code is None else str(column.other_code)
        missing = f"{raw if self.stored in NUMBER_FAMILIES else x} IS NULL"  # NaN has no text
        positions.append(f"CASE WHEN {missing} THEN {levels} ELSE -1 END")
        return Encoding(
            prepare=f"coalesce({', '.join(positions)})",
            code=f"CASE WHEN {p} BETWEEN 0 AND {levels - 1} THEN {p} "
            f"WHEN {p} < 0 THEN {other} {as_cells}ELSE {self.missing_code} END",
            texts=(*texts, *cells),
        )

    def boolean(self) -> Encoding:
        sql, p, missing = self.dialect, self.names.prepared, self.missing_code
        if self.stored is Family.BOOLEAN:
            code = f"CASE WHEN {p} IS NULL THEN {missing} ELSE CAST({p} AS INTEGER) END"
            return Encoding(prepare=self.names.stored, code=code)
        if self.stored is Family.TEXT:
            code = (
                f"CASE WHEN {p} IS NULL OR {self._is_blank(p)} THEN {missing} "
                f"WHEN {self._among_texts(f'lower({p})', FALSE_TEXTS)} THEN 0 "
                f"WHEN {self._among_texts(f'lower({p})', TRUE_TEXTS)} THEN 1 ELSE NULL END"
            )
            return Encoding(prepare=sql.trimmed(sql.as_text(self.names.stored, self.stored)), code=code)
        none = " OR ".join(self._is_missing_number())
        code = f"CASE WHEN {none} THEN {missing} WHEN {p} = 0 THEN 0 WHEN {p} = 1 THEN 1 ELSE NULL END"
        return Encoding(prepare=self._as_number(), code=code)

    def native_integer(self, column: Integer) -> Encoding:
        """Integers are compared as integers, since the widest are not exact as floats."""
        p = self.names.prepared
        low, high = column.low, column.high
        numbers = [
            str(int(n)) for n in _missing_numbers(column) if n.is_integer() and abs(n) < 2.0**126
        ]  # in a HUGEINT
        steps: tuple[str, ...] = ()
        level = p if low == 0 else f"CAST({p} AS BIGINT) - ({low})"
        if column.binned:
            steps, level, _ = self._in_bins((*column.level_starts, high + 1))
        stored = self.names.stored
        prepare = f"CAST({stored} AS INTEGER)" if self.stored is Family.BOOLEAN else stored
        missing = [f"{p} IS NULL", *([_among(p, numbers)] if numbers else [])]
        return Encoding(prepare=prepare, refine=steps, code=self._bounded(column, low, high, level, missing))

    def integer(self, column: Integer) -> Encoding:
        sql, p = self.dialect, self.names.prepared
        steps: tuple[str, ...] = ()
        level = f"CASE WHEN {sql.is_whole(p)} THEN CAST({p} AS BIGINT) - ({column.low}) END"
        if column.binned:
            steps, level, _ = self._in_bins((*column.level_starts, column.high + 1))
        low, high = sql.number(column.low), sql.number(column.high)
        code = self._bounded(column, low, high, level, self._is_missing_number())
        # a fraction is refused beyond the bounds too, not clamped
        code = f"CASE WHEN NOT ({sql.is_whole(p)}) THEN NULL ELSE {code} END"
        return Encoding(prepare=self._as_number(), refine=steps, code=code)

    def numeric(self, column: Numeric) -> Encoding:
        sql = self.dialect
        steps, level, within = self._in_bins((*column.level_starts, column.high))
        low, high = sql.number(column.low), sql.number(column.high)
        code = self._bounded(column, low, high, level, self._is_missing_number(), within)
        return Encoding(prepare=self._as_number(), refine=steps, code=code)

    def _in_bins(self, edges: Edges) -> tuple[tuple[str, ...], str, str | None]:
        return locate(edges, self.names.prepared, self.names.step, self.dialect)

    def number(self) -> Encoding:
        missing = " OR ".join(self._is_missing_number())
        return Encoding(prepare=self._as_number(), code=f"CASE WHEN {missing} THEN NULL ELSE {self.names.prepared} END")

    def date(self, column: Date) -> Encoding:
        """Days; a time with a zone counts on its day in UTC, in a typed column as in text."""
        sql, x, p = self.dialect, self.names.stored, self.names.prepared
        if self.stored is Family.TEXT:
            raw = sql.as_text(x, self.stored)
            text = sql.trimmed(raw)
            prepare = (
                f"CASE WHEN {x} IS NULL OR {self._is_blank(text)} THEN NULL "
                f"ELSE coalesce({sql.day_or_null(raw, text)}, {sql.latest_day}) END"
            )
        else:
            prepare = f"CAST({sql.as_moment(x) if self.stored is Family.TIMESTAMP else x} AS DATE)"
        days = [sql.day(day) for day in _parsed(column, dt.date.fromisoformat)]
        missing = [f"{p} IS NULL", *([_among(p, days)] if days else [])]
        code = self._bounded(column, sql.day(column.start), sql.day(column.end), self._period(column, p), missing)
        if self.stored is Family.TEXT:
            code = f"CASE WHEN {p} = {sql.latest_day} THEN NULL ELSE {code} END"
        return Encoding(prepare=prepare, code=code)

    def _period(self, column: Date, day: str) -> str:
        """The level of a day within the bounds."""
        sql, first = self.dialect, column.start
        year, month, since = sql.part("year", day), sql.part("month", day), sql.days_since(day, first)
        return {
            Granularity.DAY: since,
            Granularity.WEEK: sql.whole_ratio(since, 7),
            Granularity.MONTH: f"({year} - {first.year}) * 12 + {month} - {first.month}",
            Granularity.QUARTER: f"({year} - {first.year}) * 4 + {sql.whole_ratio(f'{month} - 1', 3)}"
            f" - {(first.month - 1) // 3}",
            Granularity.YEAR: f"{year} - {first.year}",
        }[column.granularity]

    def stamp(self, part: Part) -> Encoding:
        """A part of a time in UTC; all parts of a column refuse the same values."""
        sql, x, p, stamp = self.dialect, self.names.stored, self.names.prepared, part.stamp
        if self.stored is Family.TEXT:
            text = sql.trimmed(sql.as_text(x, self.stored))
            moment = sql.time_or_null(text) if isinstance(stamp, TimeOfDay) else sql.moment_or_null(text)
            none = f"{x} IS NULL OR {self._is_blank(text)}"
        else:
            moment, none = sql.as_moment(x), f"{x} IS NULL"
        start, end = stamp.days
        day = f"CAST({p} AS DATE)"
        low, high = sql.day(start), sql.day(end)
        missing = [f"{p} IS NULL"]
        if marks := [sql.moment(mark) for mark in _parsed(self.column, stamp.moment)]:
            missing.append(_among(p, marks))
        level = {
            HOUR: sql.part("hour", p),
            MINUTE: sql.whole_ratio(sql.part("minute", p), stamp.minutes),
            MONTH: f"{sql.part('month', p)} - 1",
            WEEKDAY: f"{sql.weekday(p)} - 1",
        }.get(part.name)
        if level is None and isinstance(self.column, Date):
            level = self._period(self.column, day)
        below, above = (
            "NULL" if not stamp.clamps else level if part.name in TIME_PARTS else str(stamp.day_code(part.name, bound))
            for bound in (start, end)
        )
        return Encoding(
            prepare=f"CASE WHEN {none} THEN NULL WHEN {sql.is_finite(moment)} THEN {moment} ELSE {sql.no_moment} END",
            code=f"CASE WHEN {' OR '.join(missing)} THEN {self.missing_code} "
            f"WHEN {day} BETWEEN {low} AND {high} THEN {level} WHEN {p} = {sql.no_moment} THEN NULL "
            f"WHEN {day} < {low} THEN {below} ELSE {above} END",
        )

    def _as_number(self) -> str:
        """x as a 64-bit float: NaN if x is missing, NULL if it is a text that is no number."""
        sql, x = self.dialect, self.names.stored
        nan = sql.number(math.nan)
        if self.stored is not Family.TEXT:
            return f"coalesce({sql.as_number(x, self.stored)}, {nan})"
        raw = sql.as_text(x, self.stored)
        text = sql.trimmed(raw)
        spelling = self.column.number_spelling
        if not spelling.plain:
            number = sql.spelled_number_or_null(text, spelling)
            return f"CASE WHEN {x} IS NULL OR {self._is_blank(text)} THEN {nan} ELSE {number} END"
        return (
            f"coalesce({sql.number_or_null(raw)}, "
            f"CASE WHEN {x} IS NULL OR {self._is_blank(text)} THEN {nan} ELSE {sql.number_or_null(text)} END)"
        )

    def _bounded(
        self,
        column: Integer | Numeric | Date,
        low: object,
        high: object,
        level: str,
        missing: list[str],
        within: str | None = None,
    ) -> str:
        """The code of p: its level if within the bounds, missing, or clamped; NULL if refused."""
        p = self.names.prepared
        clamp = column.outside is Outside.CLAMP
        below, above = ("0", str(column.levels - 1)) if clamp else ("NULL", "NULL")
        ordinary = within or f"{p} BETWEEN {low} AND {high}"
        if len(missing) > 1:  # a missing value may lie within the bounds
            ordinary += f" AND NOT ({missing[-1]})"
        return (
            f"CASE WHEN {ordinary} THEN {level} WHEN {' OR '.join(missing)} THEN {self.missing_code} "
            f"WHEN {p} < {low} THEN {below} WHEN {p} > {high} THEN {above} ELSE NULL END"
        )

    def _is_missing_number(self) -> list[str]:
        """Conditions under which p, a 64-bit float, is missing."""
        p = self.names.prepared
        numbers = [self.dialect.number(number) for number in _missing_numbers(self.column)]
        return [self.dialect.is_nan(p), *([_among(p, numbers)] if numbers else [])]

    def _is_blank(self, x: str) -> str:
        return self._among_texts(x, ("", *self.column.missing_values))

    def _among_texts(self, x: str, texts: Iterable[str]) -> str:
        """Whether x is one of some texts, compared as bytes: under a collation different texts may be equal."""
        sql = self.dialect
        return _among(sql.as_bytes(x), map(sql.text_bytes, texts))


def _missing_numbers(column: Column) -> list[float]:
    """The numbers that missing values spell: -9 is missing however a source stores it."""
    return [number for number in _parsed(column, float) if not math.isnan(number)]


def _parsed(column: Column, parse: Callable[[str], Parsed]) -> list[Parsed]:
    """What missing values mean as another type; values that cannot be parsed are left out."""
    values = []
    for text in column.missing_values:
        with contextlib.suppress(ValueError):
            values.append(parse(text))
    return values


def _among(x: str, values: Iterable[str]) -> str:
    return f"{x} IN ({', '.join(values)})"


def locate(edges: Edges, p: str, step: Step, dialect: Dialect) -> tuple[tuple[str, ...], str, str | None]:
    """Steps that may each use the one before, the bin of p, and a test that p is within the bounds.

    The test is None if the caller has to compare p with the bounds itself.
    """
    scale, bins = equal_width_scale(edges), len(edges) - 1
    if scale is not None:
        # Equal widths: guess the bin, then add one if p reaches the next edge. The last bin is closed.
        guess = f"CAST(floor({dialect.scaled(f'({p} - {dialect.number(edges[0])})', scale)}) AS INTEGER)"
        within = f"{p} BETWEEN {dialect.number(edges[0])} AND {dialect.number(edges[-1])}"
        g = step(0)
        following = dialect.element([*map(dialect.number, edges[1:-1]), dialect.number(math.inf)], g)
        bin_of = f"{g} + CAST({p} >= {following} AS INTEGER)"
        return (f"CASE WHEN {within} THEN {guess} END",), bin_of, f"{g} IS NOT NULL"
    if bins <= LARGEST_TREE:
        return (), _tree(edges, p, 0, bins, dialect), None
    # Bisection: g_0 = 0, g_{k+1} = 2 g_k + [p >= e_{(2 g_k + 1) s}], with the stride s halved at each step, down to 1.
    whole = 1 << (bins - 1).bit_length()
    steps: list[str] = []
    stride = whole // 2
    while stride:
        before = step(len(steps) - 1) if steps else "0"
        listed = [dialect.number(edges[at] if at < bins else math.inf) for at in range(stride, whole, 2 * stride)]
        steps.append(f"2 * {before} + CAST({p} >= {dialect.element(listed, before)} AS INTEGER)")
        stride //= 2
    return tuple(steps), step(len(steps) - 1), None


def equal_width_scale(edges: Edges) -> float | None:
    """A factor s such that floor((x - e_0) s) is the bin of x or the one before it, for all x; None if there is none.

    s is a little below 1 / width. Each operation of the guess is monotone in x, in floating point too, so it suffices
    to check the first and the last number of every bin.
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


def _tree(edges: Edges, p: str, low: int, high: int, sql: Dialect) -> str:
    """Nested comparisons that find the bin of p among bins low .. high-1."""
    if high - low == 1:
        return str(low)
    middle = (low + high) // 2
    left, right = _tree(edges, p, low, middle, sql), _tree(edges, p, middle, high, sql)
    return f"CASE WHEN {p} < {sql.number(edges[middle])} THEN {left} ELSE {right} END"
