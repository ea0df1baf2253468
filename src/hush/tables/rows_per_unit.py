"""Rows per unit: the encoded rows of a source, with at most `max_rows` rows of each privacy unit.

Values of categories are compared as float64, so that 0.1 is one level in every type. Ids are not: two ids that round to
one float64 are still two people. Ids that differ in the source stay different, while 7, 7.0 and 7.00 are one id in any
type. A float so large that neighbouring integers round to it may stand for several ids, and is refused.
"""

from __future__ import annotations

import decimal
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from hush.core.errors import DataError
from hush.schema import Column, Schema
from hush.tables.counting import as_numpy, exact_sum
from hush.tables.dialects.dialect import Family, attempt, type_name
from hush.tables.encoding import Encoding, Names, encode, encode_number, refusal
from hush.tables.sources import (
    COUNT_IS_REFUSED,
    COUNT_NAME,
    LARGEST_TOTAL,
    RowSource,
    gathered,
    raise_together,
    refused_counts,
    row_count,
    too_many_rows,
)

MOST_DIGITS = 400  # of a number in full; a longer one gets an exponent, since Python refuses to write it
Number = int | float | np.integer[Any] | np.floating[Any] | decimal.Decimal
SEE_ALL_CAUSES = "`hush schema check SCHEMA DATA{option}` shows the owner every cause"
ORPHAN_FLAG = "orphan"  # the SQL column that says whether a row has no id
ROUNDED_FLAG = "rounded"  # the SQL column that says whether the id of a row may have been rounded
_IS_ORPHAN = "unit IS NULL"
_WAS_ROUNDED = "octet_length(unit) = 0"


class CappedRows:
    """SQL of encoded rows: columns `k0, k1, ...` are the codes of `columns`, NULL if a value is refused.

    `v0, v1, ...` are the numbers of the columns `numbers`, as floats; they also order rows with equal codes. If the
    source has a counts column, `n` says how many rows each line stands for (NULL if refused), lines with n = 0 are left
    out, and units are rows.

    Which rows of a unit are kept depends only on its id and on the multiset of its own encoded rows. Sorted by their
    codes they are numbered r = 1 .. n, and r is kept if (r m + h) mod n < m, with m = `max_rows` and h a hash of the
    id. That keeps exactly min(n, m) rows, each with the same probability over h. A row with a refused value is always
    kept, so that it is reported.

    Privacy: hence adding or removing a unit changes the selected rows by at most m, and no row of another unit.
    """

    def __init__(
        self,
        source: RowSource,
        schema: Schema,
        columns: Sequence[Column],
        *,
        numbers: Sequence[Column] = (),
        keep: bool = False,
    ) -> None:
        # the choice among the rows of a unit uses all of their codes, whichever columns are asked for
        self.columns = tuple(columns) if schema.unit.column is None else schema.columns
        self.source = source
        self._keep = keep  # whether the engine should keep the coded rows until the snapshot ends
        self._dialect = source.dialect
        self._unit = schema.unit
        # Write the SQL of all columns, and report all problems at once.
        calls: list[Callable[[], Any]] = [
            partial(encoding_in, source, k, column) for k, column in enumerate(self.columns)
        ]
        if schema.unit.column is not None:
            calls.append(partial(unit_id, source, schema.unit.column))
        if source.counts is not None:
            calls.append(partial(row_count, source))
        expressions = gathered(calls)
        self._encodings: list[tuple[Names, Encoding]] = expressions[: len(self.columns)]
        # Join them to one SELECT.
        names = [*(["unit"] if self._unit.column is not None else []), *([COUNT_NAME] if source.counts else [])]
        carried = dict(zip(names, expressions[len(self.columns) :], strict=True))
        self._numbers = [f"v{index}" for index in range(len(numbers))]
        for name, column in zip(self._numbers, numbers, strict=True):
            at = source.position(column.name)
            encoding = encode_number(column, source.types[at], Names.numbered(0, f"c{at}"), source.dialect)
            carried[name] = encoding.prepare  # of any size; NaN if it is missing, NULL if it is no number
        self._encoded_sql = encoded_rows(source, self._encodings, carried)
        if source.counts is not None:
            self._encoded_sql = f"SELECT * FROM ({self._encoded_sql}) AS lines WHERE {COUNT_NAME} IS DISTINCT FROM 0"
        self.sql = self._kept(self._encoded_sql, self._numbers)

    @contextmanager
    def session(self) -> Iterator[Any]:
        """A session in which the SQL can run."""
        with self.source.session() as session:
            declare_texts(session, self.source, self._encodings)
            yield session

    def selected(self, session: Any, number: str | None = None) -> str:
        """The SQL of the selected rows, from the rows that the engine keeps if it does; `number` orders equal codes.

        Each sum selects rows of a unit by its own number, so if there are numbers, the engine keeps all encoded rows.
        """
        if not self._keep:
            return self.sql
        if not self._numbers:
            return self._dialect.kept(session, self.sql) or self.sql
        encoded = self._dialect.kept(session, self._encoded_sql) or self._encoded_sql
        return self._kept(encoded, [] if number is None else [number])

    def batches(self, session: Any, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The selected rows; at the end, one DataError names all columns that hold refused values."""
        counted = self.source.counts is not None
        coded, width = len(self.columns), len(self.columns) + counted
        refused = np.zeros(width + 2 * (self._unit.column is not None), dtype=bool)
        total, rows = 0, self.selected(session)
        if self._numbers:
            names = [*(f"k{index}" for index in range(coded)), *([COUNT_NAME] if counted else [])]
            units = [] if self._unit.column is None else [ORPHAN_FLAG, ROUNDED_FLAG]
            rows = f"SELECT {', '.join([*names, *units])} FROM ({rows}) AS chosen"
        for batch in self._dialect.stream(session, rows, batch_rows, self.source.failure):
            nulls = [column.null_count > 0 for column in batch.columns[:width]]
            refused |= [*nulls, *(column.true_count > 0 for column in batch.columns[width:])]
            if not refused.any():
                total += exact_sum(as_numpy(batch.column(coded))) if counted else 0
                yield batch
        self._check(refused.tolist(), total)

    def check_all(self) -> int | None:
        """Raise if any row of the source holds a refused value; reads every row once. Returns the sum of the counts."""
        counted = self.source.counts is not None
        questions = [*self._refusals, *([COUNT_IS_REFUSED] if counted else [])]
        with self.session() as session:
            rows, unit_tests = self.selected(session), [ORPHAN_FLAG, ROUNDED_FLAG]
            if rows == self.sql:  # all encoded rows are checked, without selecting some first
                rows, unit_tests = self._encoded_sql, [_IS_ORPHAN, _WAS_ROUNDED]
            tests = [*questions, *(unit_tests if self._unit.column is not None else [])]
            flags = ", ".join(f"coalesce(bool_or({test}), false)" for test in tests)
            select = f"SELECT {f'coalesce(sum({COUNT_NAME}), 0)' if counted else 0}, {flags} FROM ({rows}) AS coded"
            added, *refused = self._dialect.fetch_row(session, select, self.source.failure)
        self._check(refused, int(added))
        return int(added) if counted else None

    def _check(self, refused: Sequence[bool], total: int) -> None:
        """Raise one error for the columns, the counts and the unit whose flags say that they hold refused values.

        The flags are those of the columns, then of the counts, then of rows without an id and of rounded ids.
        """
        width, counts = len(self.columns), self.source.counts
        messages, flags = self.misfits(refused[:width]), list(refused[width:])
        if counts is not None and flags.pop(0):
            messages.append(refused_counts(counts))
        messages += unit_misfits(str(self._unit.column), *flags)
        option = "" if counts is None else f" --counts {shlex.quote(counts)}"
        raise_together(messages, SEE_ALL_CAUSES.format(option=option))
        if counts is not None and total > LARGEST_TOTAL:
            raise DataError(too_many_rows(counts, LARGEST_TOTAL))

    @property
    def _refusals(self) -> list[str]:
        """For each column, the condition that its value is refused."""
        return [f"k{index} IS NULL" for index in range(len(self.columns))]

    def refused_by(self, columns: Sequence[int] = ()) -> str:
        """The condition that one of some columns, all if none is named, refuses a row.

        If units have ids, it tests all columns: a refused row is kept in addition to the unit's share.
        """
        counts = [] if self.source.counts is None else [COUNT_IS_REFUSED]
        if self._unit.column is not None:
            return " OR ".join([ORPHAN_FLAG, ROUNDED_FLAG, *counts, *self._refusals])
        return " OR ".join([*counts, *(self._refusals[index] for index in columns or range(len(self.columns)))])

    def misfits(self, refused: Sequence[bool]) -> list[str]:
        """A message for each column that holds a refused value."""
        return [refusal(column) for column, bad in zip(self.columns, refused, strict=True) if bad]

    def _kept(self, encoded: str, numbers: Sequence[str]) -> str:
        """SQL of the rows that are kept of each unit, ordered by their codes and then by these numbers."""
        if self._unit.column is None:
            return encoded
        codes = ", ".join([*(f"k{index}" for index in range(len(self.columns))), *numbers])
        most, wide = self._unit.max_rows, self._dialect.wide_type
        nth = f"row_number() OVER (PARTITION BY unit ORDER BY {codes})"
        unit_rows = "count(*) OVER (PARTITION BY unit)"
        number, of = (self._dialect.cast(name, wide) for name in ("nth", "unit_rows"))
        return (
            f"SELECT {codes}, {_IS_ORPHAN} AS {ORPHAN_FLAG}, {_WAS_ROUNDED} AS {ROUNDED_FLAG} FROM ("
            f"SELECT *, {nth} AS nth, {unit_rows} AS unit_rows FROM ({encoded}) AS coded) AS numbered "
            f"WHERE {' OR '.join([_IS_ORPHAN, _WAS_ROUNDED, *self._refusals])} OR unit_rows <= {most} "
            f"OR ({number} * {most} + {self._dialect.unit_hash('unit')}) % {of} < {most}"
        )


def encoding_in(source: RowSource, index: int, column: Column) -> tuple[Names, Encoding]:
    """The encoding of a column of a source, and the names that it has at a position of a query."""
    at = source.position(column.source)
    names = Names.numbered(index, f"c{at}")
    return names, encode(column, source.types[at], names, source.dialect)


def unit_id(source: RowSource, name: str) -> str:
    """SQL of the id as the bytes of its text, the same however a source stores it; NULL and empty as `as_id` says.

    Bytes have no collation, which would make ids equal in one engine and different in another.
    """
    at, dialect = source.position(name), source.dialect
    stored = dialect.family(source.types[at])
    if stored is Family.UNSUPPORTED:
        raise DataError(
            f"the unit column {name!r} is stored as {type_name(source.types[at])}, which cannot be an id; convert it "
            "to text or an integer"
        )
    if stored is Family.NOTHING:
        return dialect.cast("NULL", dialect.bytes_type)
    return dialect.as_bytes(dialect.as_id(f"c{at}", stored))


def encoded_rows(source: RowSource, encodings: Sequence[tuple[Names, Encoding]], carried: Mapping[str, str]) -> str:
    """SELECT of the codes k0, k1, ..., and of further expressions of the stored columns, by name."""
    aliases = ", ".join(f"c{index}" for index in range(len(source.columns)))
    prepared = [f"{encoding.prepare} AS {names.prepared}" for names, encoding in encodings]
    prepared += [f"{expression} AS {name}" for name, expression in carried.items()]
    codes = [*(f"{encoding.code} AS k{index}" for index, (_, encoding) in enumerate(encodings)), *carried]
    fence = source.dialect.fence
    sql = f"SELECT {', '.join(prepared)} FROM ({source.select}) AS source({aliases}) {fence}"
    for step in range(max((len(encoding.refine) for _, encoding in encodings), default=0)):
        refined = [
            f"{encoding.refine[step]} AS {names.step(step)}"
            for names, encoding in encodings
            if step < len(encoding.refine)
        ]
        sql = f"SELECT *, {', '.join(refined)} FROM ({sql}) AS step {fence}"
    return f"SELECT {', '.join(codes)} FROM ({sql}) AS prepared {fence}"


def declare_texts(session: Any, source: RowSource, encodings: Sequence[tuple[Names, Encoding]]) -> None:
    """Declare in a session the texts that the encodings look up."""
    for names, encoding in encodings:
        if encoding.texts:
            declare_words(session, source, names.texts, encoding.texts)


def declare_words(session: Any, source: RowSource, name: str, words: Sequence[str]) -> None:
    """Declare in a session some texts under a name; a failure becomes a message that does not quote the engine."""
    attempt(partial(source.dialect.declare_texts, session, name, words), source.failure)


def exact_digits(value: Number) -> str | None:
    """The text of a Python or numpy number without rounding; None for NaN, empty if it may have been rounded.

    >>> exact_digits(7.0), exact_digits(decimal.Decimal("7.00")), exact_digits(2**60 + 1), exact_digits(2.0**60)
    ('7', '7', '1152921504606846977', '')
    """
    if isinstance(value, int | np.integer):
        number = int(value)
        return str(number) if number.bit_length() <= 1024 else _exact(decimal.Decimal(number))
    if isinstance(value, decimal.Decimal):
        if value.is_nan():
            return None
        return "" if value.is_infinite() else _exact(value)
    if value != value:
        return None
    bits = np.finfo(type(value) if isinstance(value, np.floating) else np.float64).nmant + 1
    if not abs(value) < 2**bits:
        return ""
    if value == int(value):
        return str(int(value))
    if isinstance(value, float):
        return float.__repr__(value)
    # not `str`, which rounds under numpy's legacy print options
    return _exact(decimal.Decimal(np.format_float_scientific(value)))


def unit_misfits(name: str, orphans: bool = False, rounded: bool = False) -> list[str]:
    """A message if some rows have no id in the unit column, and one if some ids may have been rounded."""
    missing = (
        f"the unit column {name!r} is missing in some rows (how many is private); fill it in or leave these rows out "
        "of the source"
    )
    return [missing] * orphans + [rounded_ids(name)] * rounded


def rounded_ids(name: str) -> str:
    """The message for a unit column whose ids may have been rounded; it does not say which or how many."""
    return (
        f"the unit column {name!r} holds floats too large to tell neighbouring ids apart (how many is private); "
        "store ids as text or integers"
    )


def _exact(number: decimal.Decimal) -> str:
    """The digits of a finite number, however many, without zeros at the end of its fraction."""
    sign, digits, exponent = number.as_tuple()
    written = "".join(map(str, digits)).lstrip("0")
    kept = written.rstrip("0")
    if not kept:
        return "0"
    power = int(exponent) + len(written) - len(kept)
    minus = "-" if sign else ""
    if power >= 0:
        fits = len(kept) + power <= MOST_DIGITS
        return f"{minus}{kept}{'0' * power}" if fits else f"{minus}{kept}e{power}"
    shortest = repr(float(number))
    if decimal.Decimal(shortest) == number:
        return shortest  # as a float of the same column is written
    if len(kept) - power > MOST_DIGITS:
        return f"{minus}{kept}e{power}"
    padded = kept.rjust(1 - power, "0")
    return f"{minus}{padded[:power]}.{padded[power:]}"
