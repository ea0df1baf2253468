"""Errors: one family, with values shown in short."""

import inspect
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.core import errors
from hush.core.errors import BudgetError, HushError, close_match, shown

TYPES = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, Exception)]


@pytest.mark.parametrize("kind", TYPES)
def test_every_error_is_a_hush_error_with_its_message(kind: type[HushError]) -> None:
    assert issubclass(kind, HushError)
    assert str(kind("epsilon = 0: expected a number above 0")) == "epsilon = 0: expected a number above 0"


def test_budget_errors_carry_what_is_public() -> None:
    error = BudgetError("too much", remaining=Fraction(1, 3), requested=0.5)
    assert (error.remaining, error.requested) == (Fraction(1, 3), 0.5)
    assert BudgetError("negative").remaining is None


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(json_like)
def test_shown_values_are_one_short_line(value: object) -> None:
    text = shown(value)
    assert "\n" not in text
    assert len(text) < 2000


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a\nb", r"'a\nb'"),
        ([1] * 99, "[1, 1, 1, 1, ...]"),
        (None, "None"),
        (0.1, "0.1"),
    ],
)
def test_shown_examples(value: object, text: str) -> None:
    assert shown(value) == text


def test_shown_values_of_any_size_are_short() -> None:
    assert len(shown("x" * 10**6)) < 80
    assert shown(-(10**5000)) == "an integer of 16610 bits"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([10**5000], "[an integer of 16610 bits]"),
        ((1, -(10**5000)), "(1, an integer of 16610 bits)"),
        ({"size": 10**5000}, "{'size': an integer of 16610 bits}"),
        ({10**5000: [10**5000]}, "{an integer of 16610 bits: [an integer of 16610 bits]}"),
        ({2**128 - 1}, "{340282366920938463463374607431768211455}"),
    ],
)
def test_integers_that_python_will_not_write_out_are_shown_by_their_bits_wherever_they_are(
    value: object, text: str
) -> None:
    assert shown(value) == text


@pytest.mark.parametrize(
    ("text", "near"),
    [("SEX", "Sex"), ("sex", "Sex"), ("sexx", "Sex"), ("HOURS", "hours"), ("zzz", None), ("x" * 61, None)],
)
def test_a_name_in_another_case_is_the_nearest(text: str, near: str | None) -> None:
    assert close_match(text, ["Sex", "sect", "hours"]) == near
