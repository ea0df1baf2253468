"""How texts spell numbers: what is read, what is refused, and that a spelling cannot be read in two ways."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

from hush.core.errors import SchemaError
from hush.schema import Integer, Numeric
from hush.schema.number_spelling import PLAIN_NUMBERS, NumberSpelling, spelled_numbers

GERMAN = NumberSpelling(decimal=",", thousands=".", strip=("€", "%"))
ENGLISH = NumberSpelling(thousands=",", strip=("$", "USD"))
SWISS = NumberSpelling(thousands="'")
FRENCH = NumberSpelling(decimal=",", thousands=" ")


@pytest.mark.parametrize(
    ("spelling", "text", "number"),
    [
        (PLAIN_NUMBERS, " 1.5 ", 1.5),
        (PLAIN_NUMBERS, "1,5", None),
        (GERMAN, "1,5", 1.5),
        (GERMAN, "1.234.567,89", 1234567.89),
        (GERMAN, "1234567,89", 1234567.89),
        (GERMAN, "1.5", None),
        (GERMAN, "1.2345", None),
        (GERMAN, "1.234", 1234.0),
        (GERMAN, ",5", 0.5),
        (GERMAN, "-3 %", -3.0),
        (GERMAN, "€ 3", 3.0),
        (GERMAN, "-€3", -3.0),
        (GERMAN, "€-3", -3.0),
        (GERMAN, "1€2", None),
        (GERMAN, "1 2", None),
        (GERMAN, "€", None),
        (GERMAN, "1,5e3", 1500.0),
        (GERMAN, "1,2,3", None),
        (ENGLISH, "$1,234.50", 1234.5),
        (ENGLISH, "1,00,000 USD", 100000.0),
        (ENGLISH, "12,34", None),
        (ENGLISH, "inf", math.inf),
        (SWISS, "1'234", 1234.0),
        (SWISS, "1\u2019234", 1234.0),
        (FRENCH, "1\u202f234,5", 1234.5),
        (FRENCH, "1 234,5", 1234.5),
    ],
)
def test_texts_are_read_as_the_spelling_says(spelling: NumberSpelling, text: str, number: float | None) -> None:
    assert spelling.read(text) == number


@pytest.mark.parametrize(
    ("spelling", "words"),
    [
        (NumberSpelling(decimal=";"), 'decimal = \';\': expected "." or ","'),
        (NumberSpelling(thousands="x"), "thousands = 'x': expected one of"),
        (NumberSpelling(thousands="."), "is both the decimal mark and the thousands separator; set decimal too"),
        (NumberSpelling(strip=("1",)), "strip = '1': expected a sign or a word"),
        (NumberSpelling(strip=("-",)), "strip = '-': expected a sign or a word"),
        (NumberSpelling(strip=("E",)), "strip = 'E': expected a sign or a word"),
        (NumberSpelling(strip=("",)), "strip = '': expected a sign or a word"),
        (NumberSpelling(strip="€"), "expected a list of texts"),  # type: ignore[arg-type]
    ],
)
def test_spellings_that_cannot_be_are_refused(spelling: NumberSpelling, words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        Integer(name="x", low=0, high=1, spelling=spelling)
    with pytest.raises(SchemaError, match=words):
        Numeric(name="x", edges=(0, 1), spelling=spelling)


def test_numbers_are_written_so_that_they_are_read_back() -> None:
    numbers = [1.125, -0.5, 1e20, 3.0, None]
    table = spelled_numbers(pa.table({"x": numbers, "y": numbers}), {"x": GERMAN})
    assert [None if text is None else GERMAN.read(text) for text in table["x"].to_pylist()] == numbers
    assert table["y"].to_pylist() == numbers
