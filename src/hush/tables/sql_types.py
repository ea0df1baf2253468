"""Physical types of a source, as the few families that the encoders tell apart, and the text of a value in each."""

from __future__ import annotations

import re
from enum import Enum, auto

from hush.schema.column_kinds import LARGEST_INTEGER

WHITESPACE = "".join(chr(point) for point in range(0x3001) if chr(point).isspace())  # what str.strip() removes


class Family(Enum):
    """How values are stored, as far as encoding is concerned."""

    NOTHING = auto()  # a column of nulls only
    BOOLEAN = auto()
    INTEGER = auto()
    FLOAT = auto()
    DOUBLE = auto()
    DECIMAL = auto()
    TEXT = auto()
    DATE = auto()
    TIMESTAMP = auto()
    INSTANT = auto()  # a timestamp with a time zone
    UNSUPPORTED = auto()


NUMBERS = frozenset({Family.INTEGER, Family.FLOAT, Family.DOUBLE, Family.DECIMAL})

_FAMILIES = {
    '"NULL"': Family.NOTHING,
    "NULL": Family.NOTHING,
    "BOOLEAN": Family.BOOLEAN,
    "TINYINT": Family.INTEGER,
    "SMALLINT": Family.INTEGER,
    "INTEGER": Family.INTEGER,
    "BIGINT": Family.INTEGER,
    "HUGEINT": Family.INTEGER,
    "UTINYINT": Family.INTEGER,
    "USMALLINT": Family.INTEGER,
    "UINTEGER": Family.INTEGER,
    "UBIGINT": Family.INTEGER,
    "UHUGEINT": Family.INTEGER,
    "FLOAT": Family.FLOAT,
    "DOUBLE": Family.DOUBLE,
    "DECIMAL": Family.DECIMAL,
    "VARCHAR": Family.TEXT,
    "ENUM": Family.TEXT,
    "BIGNUM": Family.TEXT,
    "UUID": Family.TEXT,
    "TIME": Family.TEXT,
    "DATE": Family.DATE,
    "TIMESTAMP": Family.TIMESTAMP,
    "TIMESTAMP_S": Family.TIMESTAMP,
    "TIMESTAMP_MS": Family.TIMESTAMP,
    "TIMESTAMP_NS": Family.TIMESTAMP,
    "TIMESTAMP WITH TIME ZONE": Family.INSTANT,
}


def type_name(declared: str) -> str:
    """The type without its arguments: those of an ENUM are values of the table, which no message may show.

    >>> type_name("ENUM('anna', 'bob')"), type_name("DECIMAL(10,2)"), type_name("INTEGER[]")
    ('ENUM', 'DECIMAL', 'INTEGER[]')
    """
    if declared.endswith("]"):
        return type_name(declared[: declared.rindex("[")]) + "[]"
    return re.split(r"\(", declared, maxsplit=1)[0].strip()


def family(declared: str) -> Family:
    """The family of a type as DuckDB's DESCRIBE spells it."""
    return _FAMILIES.get(type_name(declared), Family.UNSUPPORTED)


def quoted(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def double(number: float) -> str:
    """A number as an SQL literal of type DOUBLE; a literal without exponent would be a DECIMAL."""
    if number in (float("inf"), float("-inf")):
        return f"CAST('{number}' AS DOUBLE)"
    digits = repr(float(number))
    return f"({digits if 'e' in digits else digits + 'e0'})"


def trimmed(x: str) -> str:
    """Text without whitespace at its ends; the check before trimming is there because `trim` is slow."""
    spaces = literal(WHITESPACE)
    return (
        f"(CASE WHEN contains({spaces}, left({x}, 1)) OR contains({spaces}, right({x}, 1)) "
        f"THEN trim({x}, {spaces}) ELSE {x} END)"
    )


def as_text(x: str, kind: Family) -> str:
    """The SQL twin of `hush.schema.column_kinds.canonical`, but for trimming: the text by which a value is compared.

    A float32 is compared by its own shortest digits, so that 0.1 stored in four bytes equals a declared 0.1. A
    timestamp at midnight is compared as its date, one with a time zone by its time in UTC.
    """
    match kind:
        case Family.FLOAT | Family.DECIMAL | Family.DOUBLE:
            number = {
                Family.FLOAT: f"CAST(CAST({x} AS VARCHAR) AS DOUBLE)",
                Family.DECIMAL: f"CAST({x} AS DOUBLE)",
                Family.DOUBLE: x,
            }[kind]
            return (
                f"CASE WHEN isnan({number}) THEN NULL "
                f"WHEN abs({number}) <= {double(LARGEST_INTEGER)} AND {number} = trunc({number}) "
                f"THEN CAST(CAST({number} AS BIGINT) AS VARCHAR) ELSE CAST({number} AS VARCHAR) END"
            )
        case Family.TIMESTAMP | Family.INSTANT:
            stamp = x if kind is Family.TIMESTAMP else f"CAST({x} AS TIMESTAMP)"
            return (
                f"CASE WHEN {stamp} = date_trunc('day', {stamp}) THEN CAST(CAST({stamp} AS DATE) AS VARCHAR) "
                f"ELSE CAST({stamp} AS VARCHAR) END"
            )
        case _:
            return f"CAST({x} AS VARCHAR)"
