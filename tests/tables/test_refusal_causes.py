"""The cause that is told for a refused value."""

from __future__ import annotations

import datetime as dt

import pytest

from hush.schema import Boolean, Categorical, Column, Date, Integer, Numeric
from hush.tables.refusal_causes import RefusalCauses

AGE = Integer(name="age", low=0, high=99)
FARE = Numeric(name="fare", edges=(0.5, 10.0, 100.0))
SEX = Categorical(name="sex", values=("female", "male", 1, "New York"))
MOVED = Date(name="moved", start=dt.date(2015, 1, 1), end=dt.date(2024, 12, 31))


@pytest.mark.parametrize(
    ("column", "text", "words"),
    [
        (AGE, None, "empty cells: set missing = true"),
        (AGE, "  ", "empty cells: set missing = true"),
        (AGE, "?", 'marks for missing: set missing = true and missing_values = ["?"]'),
        (AGE, "17.5", 'fractional values in an integer column: use kind = "numeric" with bins'),
        (AGE, "-1", "values below low = 0: lower it"),
        (AGE, "100", 'values above high = 99: raise it, or set outside = "clamp"'),
        (AGE, "inf", "values above high = 99"),
        (AGE, "old", "texts that are no numbers"),
        (AGE, "2020-01-31", 'dates among numbers: use kind = "date"'),
        (FARE, "0.25", "values below low = 0.5"),
        (FARE, "100.5", "values above high = 100"),
        (FARE, "7,25", 'numbers with a decimal comma: set decimal = ","'),
        (FARE, "1.234,5", "numbers with a decimal comma"),
        (FARE, "1,234,567.5", 'numbers with a thousands separator: set thousands = ","'),
        (FARE, "$7.25", 'numbers with `$`: add strip = ["$"]'),
        (FARE, "7 EUR", 'numbers with `EUR`: add strip = ["EUR"]'),
        (FARE, "12 %", 'numbers with `%`: add strip = ["%"]'),
        (SEX, "Female", "differ from the declared `female` in case only"),
        (SEX, "newyork", "differ from the declared `New York` in blanks and case only"),
        (SEX, "1.0", "differ from the declared `1` in how a number is written"),
        (SEX, "diverse", "not among the declared values: add what is missing to values, or set other = true"),
        (SEX, "N/A", "marks for missing"),
        (Boolean(name="b"), "maybe", "neither true nor false"),
        (MOVED, "2014-12-31", "days before start = 2015-01-01"),
        (MOVED, "2025-01-01 07:00", "days after end = 2024-12-31"),
        (MOVED, "31/12/2016", "dates in another order or spelling: write them as 2020-01-31"),
        (MOVED, "soon", "texts that are no dates"),
    ],
)
def test_the_cause_says_what_to_do(column: Column, text: str | None, words: str) -> None:
    assert RefusalCauses(column).of(text).startswith(words)
