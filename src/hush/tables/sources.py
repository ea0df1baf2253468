"""Row sources: rows that an engine can read, and the column of an aggregated table that counts them.

A line of an aggregated table stands for n identical rows. A rounded count would break the promise of privacy: one row
more or less could change it by two. So hush reads counts digit by digit, and refuses floats that may have been rounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hush.core.errors import DataError, close_match, shown
from hush.schema import Schema
from hush.tables.dialects.dialect import NUMBER_FAMILIES, Dialect, Explain, Family, Frame, attempt, attempted, type_name

Result = TypeVar("Result")
COUNT_NAME = "n"  # the SQL column with the count of a line, NULL if the count is refused
COUNT_IS_REFUSED = f"{COUNT_NAME} IS NULL"
LARGEST_TOTAL = 2**61  # rows, the largest answer that the gate takes
BYTES_PER_COUNT = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSource:
    """A SELECT over a connection, and what messages call it.

    `rows` is about how many lines there are, if the engine knows without reading them; private.
    """

    dialect: Dialect
    name: str
    connection: Any
    select: str
    columns: tuple[str, ...]  # names as the source has them, possibly repeated
    types: tuple[str, ...]  # as the dialect spells them
    advice: str = ""  # if a column is missing; a similar name is then not quoted, since it may be a private cell
    frames: Mapping[str, Frame] = field(default_factory=dict)
    explain: Explain | None = None
    rows: float | None = None
    once: bool = False  # whether it can be read a single time only
    typed: bool = True  # whether types say what the columns hold; in a CSV file all columns are text
    counts: str | None = None  # the column that says how many rows each line stands for

    @contextmanager
    def session(self) -> Iterator[Any]:
        """A session on the connection in which the source can be read."""
        session = attempt(lambda: self.dialect.open_session(self.connection, self.frames), self.failure)
        try:
            yield session
        finally:
            session.close()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """A context in which all sessions see one state of the rows."""
        with attempted(self.dialect.snapshot(self.connection), self.failure):
            yield

    def failure(self, trouble: str) -> str:
        """The message for a source that cannot be read; it does not quote the engine."""
        return self.explain(trouble) if self.explain else f"{self.name} cannot be read; check it and its types"

    def position(self, name: str) -> int:
        """Where the column of this name is; refuses a name that is not there or there twice."""
        return find_column(name, self.columns, self.name, self.advice)


def find_column(name: str, columns: Sequence[str], where: str, advice: str = "", *, similar: bool = True) -> int:
    """The position of a column in the source that messages call `where`; DataError with the likeliest cause otherwise.

    Privacy: quotes a column of the source only if it equals the name up to case and spaces, or if `similar` allows it.
    """
    positions = [position for position, column in enumerate(columns) if column == name]
    if len(positions) == 1:
        return positions[0]
    if positions:
        raise DataError(f"{where} has several columns named {name!r}; rename all but one")
    folded = [column for column in columns if column.strip().lower() == name.strip().lower()]
    near = folded[0] if folded else close_match(name, columns) if similar else None
    hint = f"did you mean {near!r}?" if near else "none of its columns is spelled alike"
    raise DataError(f"{where} has no column {name!r}; {advice or hint}")


def gathered(calls: Iterable[Callable[[], Result]]) -> list[Result]:
    """The result of every call; one DataError reports all failures at once."""
    results, messages = [], []
    for call in calls:
        try:
            results.append(call())
        except DataError as error:
            messages.append(str(error))
    raise_together(messages)
    return results


def raise_together(messages: Iterable[str], advice: str = "") -> None:
    """Raise one DataError for all messages, if there are any."""
    distinct = list(dict.fromkeys(messages))
    if distinct:
        listed = " ".join(f"({number}) {message}." for number, message in enumerate(distinct, start=1))
        several = f"the data do not fit the schema in {len(distinct)} ways: {listed}"
        text = distinct[0] if len(distinct) == 1 else several
        raise DataError(f"{text.removesuffix('.')}. {advice}" if advice else text)


def check_counts_column(counts: str, schema: Schema) -> None:
    """Refuse a counts column if units have ids, or if the schema declares the column too; reads nothing."""
    if not isinstance(counts, str) or not counts.strip():
        raise DataError(f"counts = {shown(counts)}: expected the name of the column that holds the counts")
    if schema.unit.column is not None:
        raise DataError(
            f"counts = {counts!r} goes with rows as units only, and the unit here is {schema.unit.column!r}: a count "
            "does not say whose rows it counts, so nothing bounds the rows of one unit; read the rows themselves, or "
            "leave the unit out if every row is another person"
        )
    if counts in {column.source for column in schema}:
        raise DataError(
            f"counts = {counts!r} is a column of the schema too; a count says how many rows there are and is no value "
            "of theirs, so leave it out of the schema"
        )


def row_count(source: RowSource) -> str:
    """SQL of the count of a line, a 64-bit integer from 0 to `LARGEST_TOTAL`; NULL if invalid or perhaps rounded."""
    name = str(source.counts)
    at, sql = source.position(name), source.dialect
    stored = sql.family(source.types[at])
    if stored is Family.NOTHING:
        return "CAST(NULL AS BIGINT)"
    if stored not in {Family.TEXT, *NUMBER_FAMILIES}:
        raise DataError(
            f"the counts column {name!r} is stored as {type_name(source.types[at])}, which cannot be a count; convert "
            "it to integers"
        )
    x = f"c{at}" if stored is Family.INTEGER else sql.whole_or_null(sql.as_id(f"c{at}", stored))
    return f"CASE WHEN {x} BETWEEN 0 AND {LARGEST_TOTAL} THEN CAST({x} AS BIGINT) END"


def refused_counts(name: str) -> str:
    """The message for lines without a valid count; it does not say which or how many."""
    return (
        f"the counts column {name!r} holds counts that are negative, fractional, missing, too large, or no numbers "
        "(which and how many is private); every line needs a whole number of at least 0, as an integer or in digits"
    )


def too_many_rows(name: str, most: int) -> str:
    """The message for counts whose sum exceeds 64-bit answers; it does not say how many rows there are."""
    return (
        f"the counts column {name!r} adds up to more than {most:,} rows, too many for exact answers in 64-bit "
        "integers; split the table"
    )


def count_cause(text: str | None) -> str:
    """Why a text is not a valid count, in words that the owner can act on."""
    value = "" if text is None else text.strip()
    if not value or value.lower() in {"nan", "na", "null", "none"}:
        return "missing counts: write 0 where there are no rows, or leave the line out"
    try:
        number = float(value)
    except ValueError:
        return "texts that are no counts: write whole numbers with digits only"
    if number < 0:
        return "negative counts: a count is at least 0"
    if math.isfinite(number) and number != math.trunc(number):
        return "fractional counts: a count is a whole number"
    return "counts that may have been rounded or are too large: store them as integers"
