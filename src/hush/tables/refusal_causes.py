"""Refusal causes: why a column refuses a value, in words that the owner of the data can act on.

Privacy: a cause quotes declared values only; the refused value itself is private.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable

from hush.schema.column import Column, canonical
from hush.schema.column_kinds import Boolean, Categorical, Date, Integer, Numeric
from hush.schema.stamps import Stamp, Timestamp

ALWAYS_MISSING = ("?", "NaN", "nan", "NULL", "null", "N/A", "n/a", "#N/A", "<NA>")
MISSING_AMONG_NUMBERS = ("NA", "na", "None", "none", "-", ".")
UNKNOWN_CAUSE = "values that the column cannot read"
_MISSING_MARKS = frozenset((*ALWAYS_MISSING, *MISSING_AMONG_NUMBERS))
_CURRENCY_SIGN = re.compile(r"[$€£¥₹%]|\b(?:USD|EUR|GBP|CHF|JPY)\b")
_DECIMAL_COMMA = re.compile(r"[+-]?(?:\d+|\d{1,3}(?:[. '\u00a0\u202f]\d{3})+),(?:\d{1,2}|\d{4,})")
_GROUPED_DIGITS = re.compile(r"[+-]?\d{1,3}([,. '_])\d{3}(?:\1\d{3})*(?:[.,]\d+)?")
_LIKE_A_DATE = re.compile(r"\d{1,4}[./-]\d{1,2}[./-]\d{1,4}.*")
_AM_OR_PM = re.compile(r"\d\s*[AaPp]\.?[Mm]\b")
_LEAP_SECOND = re.compile(r"\d{2}:\d{2}:60\b")


class RefusalCauses:
    """Why a column refuses values, and what to do about it.

    >>> RefusalCauses(Categorical(name="sex", values=("female", "male"))).of("Female")
    'differ from the declared `female` in case only: spell the value as the data do'
    """

    def __init__(self, column: Column) -> None:
        self.column = column
        texts = column.texts if isinstance(column, Categorical) else []
        self._alike = [
            (key, difference, {key(text): text for text in reversed(texts)}) for key, difference in _DIFFERENCES
        ]

    def of(self, text: str | None) -> str:
        """The cause for a refused value, given as text or None for null."""
        column, value = self.column, "" if text is None else text.strip()
        missing = column.missing_texts if isinstance(column, Categorical) else column.missing_values
        if not value or (column.compared(value) if isinstance(column, Categorical) else value) in missing:
            return "empty cells: set missing = true"
        if column.part is not None:
            return _time(column.part.stamp, value)
        match column:
            case Categorical():
                for key, difference, declared in self._alike:
                    near = declared.get(key(value)) if key(value) else None
                    if near is not None:
                        return f"differ from the declared `{near}` in {difference}: spell the value as the data do"
                unlisted = "not among the declared values: add what is missing to values, or set other = true"
                return _mark(value) or unlisted
            case Boolean():
                return _mark(value) or 'neither true nor false: declare kind = "categorical" with these values'
            case Integer() | Numeric():
                return _number(column, value)
            case Date():
                return _day(column, value)
        return UNKNOWN_CAUSE


def _mark(value: str) -> str:
    """The cause for a text by which people write missing; empty for another text."""
    marks = f'marks for missing: set missing = true and missing_values = ["{value}"]'
    return marks if value in _MISSING_MARKS else ""


def _as_number(text: str) -> str | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return canonical(number) if math.isfinite(number) else None


# By what a text may differ from a declared one, and a key that ignores this difference.
_DIFFERENCES: tuple[tuple[Callable[[str], str | None], str], ...] = (
    (str.casefold, "case only"),
    (lambda text: "".join(text.casefold().split()), "blanks and case only"),
    (_as_number, "how a number is written"),
)


def _number(column: Integer | Numeric, value: str) -> str:
    number = column.spelling.read(value)
    if number is None:
        return _mark(value) or _spelling(column, value)
    low, high = column.low, column.high
    if math.isnan(number):
        return "not a number (NaN): set missing = true"
    if isinstance(column, Integer) and math.isfinite(number) and number != math.trunc(number):
        return 'fractional values in an integer column: use kind = "numeric" with bins'
    if number < low:
        return f'values below low = {low:.15g}: lower it, or set outside = "clamp"'
    if number > high:
        return f'values above high = {high:.15g}: raise it, or set outside = "clamp"'
    return UNKNOWN_CAUSE


def _spelling(column: Integer | Numeric, value: str) -> str:
    """The cause for a text that is no number in the spelling of the column."""
    sign = _CURRENCY_SIGN.search(value)
    if sign and sign.group() not in column.spelling.strip:
        rest = _CURRENCY_SIGN.sub("", value).strip()
        if _as_number(rest) is not None or _DECIMAL_COMMA.fullmatch(rest) or _GROUPED_DIGITS.fullmatch(rest):
            return f'numbers with `{sign.group()}`: add strip = ["{sign.group()}"]'
    if column.spelling.decimal == "." and _DECIMAL_COMMA.fullmatch(value):
        return 'numbers with a decimal comma: set decimal = ","'
    separated = _GROUPED_DIGITS.fullmatch(value)
    if separated and separated.group(1) != column.spelling.thousands:
        return f'numbers with a thousands separator: set thousands = "{separated.group(1)}"'
    if not column.spelling.plain and _as_number(value) is not None:
        return "numbers with a decimal point, or with digits grouped otherwise than decimal and thousands say"
    if _LIKE_A_DATE.fullmatch(value):
        return 'dates among numbers: use kind = "date"'
    return 'texts that are no numbers: use kind = "categorical", or clean them'


def _time(stamp: Stamp, value: str) -> str:
    """The cause for a text in a column of times."""
    if _LEAP_SECOND.search(value):
        return "seconds of 60: write the leap second as 59"
    if isinstance(stamp, Timestamp):
        return _day(stamp, value, "a date and a time such as 2020-01-31 08:30:00")
    if _AM_OR_PM.search(value):
        return "hours with AM or PM: write hours from 0 to 23, such as 20:30"
    if _LIKE_A_DATE.match(value):
        return 'dates among times of day: use kind = "timestamp"'
    return _mark(value) or "texts that are no times of day: write them as 08:30 or 08:30:00, from 00:00 to 23:59:59"


def _day(column: Date | Timestamp, value: str, form: str = "2020-01-31") -> str:
    if form != "2020-01-31" and _AM_OR_PM.search(value):
        return "hours with AM or PM: write hours from 0 to 23, such as 20:30"
    try:
        day = dt.date.fromisoformat(value[:10])
    except ValueError:
        if _LIKE_A_DATE.fullmatch(value):
            return f"dates in another order or spelling: write them as {form}"
        return _mark(value) or f"texts that are no dates: write dates as {form}"
    if day < column.start:
        return f'days before start = {column.start}: move it back, or set outside = "clamp"'
    if day > column.end:
        return f'days after end = {column.end}: move it on, or set outside = "clamp"'
    return f"texts that are no dates: write dates as {form}"
