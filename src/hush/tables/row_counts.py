"""Row counts: tables that are aggregated already, with a column that says how many rows each combination has.

A line of such a table stands for n rows that are all alike, and for none where n = 0. A count that was rounded would
break the promise of privacy: one row more or less could move it by two. So a count is read digit by digit, and a float
that may have been rounded is refused.
"""

from __future__ import annotations

import math

from hush.core.errors import DataError, shown
from hush.schema import Schema
from hush.tables.dialects.dialect import NUMBERS, Family, type_name
from hush.tables.sources import RowSource

COUNT = "n"  # the column of the SQL that holds the count of a line, NULL where it is refused
IS_REFUSED = f"{COUNT} IS NULL"
LARGEST_TOTAL = 2**61  # rows, the largest answer that the gate takes
BYTES_PER_COUNT = 8


def check_counts_column(counts: str, schema: Schema) -> None:
    """Refuse a column of counts where units have ids, or where the schema has the column too; reads nothing."""
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
    """SQL of the count of a line, a 64-bit integer from 0 to `LARGEST_TOTAL`; NULL where it is none, or was rounded."""
    name = str(source.counts)
    at, sql = source.position(name), source.dialect
    stored = sql.family(source.types[at])
    if stored is Family.NOTHING:
        return "CAST(NULL AS BIGINT)"
    if stored not in {Family.TEXT, *NUMBERS}:
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
    """The message for counts that add up to more rows than can be counted exactly; it does not say how many."""
    return (
        f"the counts column {name!r} adds up to more than {most:,} rows, too many for exact answers in 64-bit "
        "integers; split the table"
    )


def count_cause(text: str | None) -> str:
    """Why a text is no count, in words that the owner can act on."""
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
