"""Rational text and directed rounding."""

import math
import sys
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hush.core.errors import BudgetError
from hush.core.rational import float_down, float_up, parse_rational, rational_text, root_down

fractions = st.fractions(min_value=0)


@given(fractions, st.integers(0, 9000), st.integers(0, 9000))
@example(Fraction(0), 0, 0)
@example(Fraction(1), 5000, 0)
@example(Fraction(1), 0, 512)
@example(Fraction(1), 511, 1)
def test_text_round_trip_of_any_length(value, tens, sevens):
    long = (value * 10**tens + 1) / 7**sevens
    assert parse_rational(rational_text(long), "rho") == long
    assert parse_rational(rational_text(value), "rho") == value


@given(st.integers(0, 10**4000), st.integers(1, 10**4000))
def test_text_is_the_usual_one(above, below):
    value = Fraction(above, below)
    assert rational_text(value) == f"{value.numerator}/{value.denominator}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "0.5",
        "1e9",
        "1/0",
        "-1/2",
        "+1/2",
        "2/6",
        "01/2",
        "1/02",
        " 1/2",
        "1/2 ",
        "1/2\n",
        "1_0/3",
        "٣/٤",
        "1//2",
    ],
    ids=repr,
)
def test_any_other_text_is_refused(text):
    with pytest.raises(BudgetError, match="rho: expected a rational >= 0 in lowest terms"):
        parse_rational(text, "rho")


@pytest.mark.parametrize(
    "text", ["nan", "1/-2", "1" * 2_000_000 + "/1", None, 0.5, Fraction(1, 2), b"1/2"], ids=lambda text: str(text)[:9]
)
def test_what_is_no_such_text_is_refused(text):
    with pytest.raises(BudgetError, match="rho: expected a rational >= 0 in lowest terms"):
        parse_rational(text, "rho")


@given(st.fractions())
@example(Fraction(10**400))
@example(Fraction(-(10**400)))
@example(Fraction(1, 10**400))
@example(Fraction(sys.float_info.max) + Fraction(1, 3))
def test_floats_enclose_the_exact_value(value):
    low, high = float_down(value), float_up(value)
    assert low <= value <= high
    assert high <= math.nextafter(low, math.inf)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_is_its_own_rounding(value):
    assert float_down(Fraction(value)) == float_up(Fraction(value)) == value


@given(st.fractions(min_value=Fraction(1, 10**30), max_value=10**30))
@example(Fraction(10**600))
@example(Fraction(1, 10**640))
@example(Fraction(2) * Fraction(sys.float_info.max))
def test_root_is_the_largest_float_below(value):
    root = root_down(value)
    assert Fraction(root) ** 2 <= value < Fraction(math.nextafter(root, math.inf)) ** 2
