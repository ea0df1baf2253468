"""The id of a privacy unit as text, without rounding: as SQL, and of a Python number.

Categories are compared as float64, so that 0.1 is one level in every type; two ids that round to one float64 are still
two people. Whatever a source tells apart is told apart here, while 7, 7.0 and 7.00 are one id whatever type holds them.
A float at which neighbouring integers are rounded may stand for several ids, and is refused.
"""

from __future__ import annotations

import decimal
from typing import Any

import numpy as np

from hush.errors import DataError
from hush.schema.columns import LARGEST_INTEGER
from hush.tables.physical import Family, double, trimmed

MOST_DIGITS = 400  # numbers with more are written with an exponent; Python refuses to write very long integers

Number = int | float | np.integer[Any] | np.floating[Any] | decimal.Decimal


def as_id(x: str, kind: Family) -> str:
    """The text of an id, as SQL: NULL where it is missing or blank, empty where it may have been rounded."""
    text = f"CAST({x} AS VARCHAR)"
    match kind:
        case Family.FLOAT | Family.DOUBLE:
            bound = 2**24 if kind is Family.FLOAT else LARGEST_INTEGER
            return (
                f"CASE WHEN isnan({x}) THEN NULL WHEN abs({x}) >= {double(bound)} THEN '' "
                f"WHEN {x} = trunc({x}) THEN CAST(CAST({x} AS BIGINT) AS VARCHAR) ELSE {text} END"
            )
        case Family.DECIMAL:
            cut = f"rtrim(rtrim({text}, '0'), '.')"
            led = (
                f"regexp_replace({cut}, '^(-?)[.]', '\\10.')"  # DuckDB writes .5 where the type has no digit before it
            )
            return f"CASE WHEN {x} = 0 THEN '0' WHEN contains({text}, '.') THEN {led} ELSE {text} END"
        case Family.TIMESTAMP | Family.INSTANT:
            stamp = text if kind is Family.TIMESTAMP else f"CAST(CAST({x} AS TIMESTAMP) AS VARCHAR)"
            return f"regexp_replace({stamp}, ' 00:00:00$', '')"  # of the text, which has all digits of the second
        case Family.TEXT:
            return f"CASE WHEN strlen({trimmed(text)}) > 0 THEN {trimmed(text)} END"
        case _:
            return text


def number_id(value: Number, name: str) -> str | None:
    """The text of an id that is a Python or numpy number; None where it is NaN.

    >>> number_id(7.0, "who"), number_id(decimal.Decimal("7.00"), "who"), number_id(2**60 + 1, "who")
    ('7', '7', '1152921504606846977')
    """
    if isinstance(value, int | np.integer):
        number = int(value)
        return str(number) if number.bit_length() <= 1024 else _exact(decimal.Decimal(number))
    if isinstance(value, decimal.Decimal):
        if value.is_nan():
            return None
        if value.is_infinite():
            raise DataError(rounded_ids(name))
        return _exact(value)
    if value != value:
        return None
    bits = np.finfo(type(value) if isinstance(value, np.floating) else np.float64).nmant + 1
    if not abs(value) < 2**bits:
        raise DataError(rounded_ids(name))
    if value == int(value):
        return str(int(value))
    if isinstance(value, float):
        return float.__repr__(value)
    # not `str`, which rounds under numpy's print options of old
    return _exact(decimal.Decimal(np.format_float_scientific(value)))


def rounded_ids(name: str) -> str:
    """What to say of a unit column with ids that may have been rounded, without saying which or how many."""
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
