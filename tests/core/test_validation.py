"""Validation: what each check accepts, what it returns, and what its message says."""

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.core.errors import BudgetError, HushError, WorkloadError, shown
from hush.core.validation import check_choice, check_flag, check_number, check_whole, is_number, is_whole

HUGE = 10**300_000  # Python refuses to write this out; comparing it is quick
NEITHER = [True, False, np.True_, None, "3", b"3", [3], (3,), {}, 3j, Decimal(3), np.array([3]), np.array([1.0, 2.0])]


@pytest.mark.parametrize("value", [0, -3, 10**30, HUGE, np.int8(3), np.uint64(2**64 - 1)], ids=shown)
def test_integers_of_python_and_numpy_are_whole(value: Any) -> None:
    assert is_whole(value)
    assert check_whole(HushError, "x", value) == int(value)
    assert type(check_whole(HushError, "x", value)) is int


@pytest.mark.parametrize("value", [*NEITHER, 3.0, np.float64(3), Fraction(3), math.nan, math.inf])
def test_other_values_are_not_whole(value: Any) -> None:
    assert not is_whole(value)
    with pytest.raises(HushError, match="expected a whole number$"):
        check_whole(HushError, "x", value)


@pytest.mark.parametrize(
    "value", [0, -3, 10**30, 0.5, 5e-324, 1.7e308, np.float32(0.5), np.float64(0.5), np.uint8(255), Fraction(1, 3)]
)
def test_finite_reals_are_numbers(value: Any) -> None:
    assert is_number(value)
    assert check_number(HushError, "x", value) == float(value)
    assert type(check_number(HushError, "x", value)) is float


@pytest.mark.parametrize("value", NEITHER)
def test_other_values_are_not_numbers(value: Any) -> None:
    assert not is_number(value)
    with pytest.raises(HushError, match="expected a number$"):
        check_number(HushError, "x", value)


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -math.inf, np.float32("nan"), HUGE, -HUGE, Fraction(HUGE, 3)], ids=shown
)
def test_numbers_that_are_not_finite_floats_are_refused_as_such(value: Any) -> None:
    assert not is_number(value)
    with pytest.raises(HushError, match="expected a finite number of at least 0$"):
        check_number(HushError, "x", value, least=0)


@given(st.integers(), st.none() | st.integers(), st.none() | st.integers())
def test_whole_numbers_are_accepted_from_least_to_most(value: int, least: int | None, most: int | None) -> None:
    inside = (least is None or least <= value) and (most is None or value <= most)
    if inside:
        assert check_whole(HushError, "x", value, least=least, most=most) == value
    else:
        with pytest.raises(HushError):
            check_whole(HushError, "x", value, least=least, most=most)


BOUNDS: list[tuple[dict[str, Any], list[Any], list[Any]]] = [
    ({"least": 0, "most": 1}, [0, 1, 0.5], [-1e-300, Fraction(10**30 + 1, 10**30), 2]),
    ({"above": 0, "below": 1}, [5e-324, math.nextafter(1, 0)], [0, -0.0, 1, 1.0, np.float32(1)]),
    ({"above": 0, "most": 1}, [1, 1e-9], [0, 1.5]),
    ({"least": 1e-9, "below": 1}, [1e-9, 0.5], [9.9e-10, 1]),
    ({"least": Fraction(1, 3)}, [Fraction(1, 3), 1], [Fraction(333, 1000)]),
    ({"most": 10**20}, [10**20], [10**20 + 1]),
    # The value is in the range, and the float that the caller would get is not.
    ({"above": 0}, [Fraction(1, 10**300)], [Fraction(1, 10**400)]),
    ({"below": 1}, [Fraction(1, 2)], [Fraction(10**30 - 1, 10**30)]),
]


@pytest.mark.parametrize(("bounds", "inside", "outside"), BOUNDS, ids=str)
def test_bounds_of_numbers_are_exact(bounds: dict[str, Any], inside: list[Any], outside: list[Any]) -> None:
    for value in inside:
        assert check_number(HushError, "x", value, **bounds) == float(value)
    for value in outside:
        with pytest.raises(HushError):
            check_number(HushError, "x", value, **bounds)


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ({}, ""),
        ({"least": 1}, " of at least 1"),
        ({"above": 0}, " above 0"),
        ({"most": 1_000_000}, " of at most 1,000,000"),
        ({"below": 1}, " below 1"),
        ({"least": 1, "most": 10}, " from 1 to 10"),
        ({"above": 0, "below": 1}, " between 0 and 1"),
        ({"least": 0, "below": 1}, " of at least 0 and below 1"),
        ({"above": 0, "most": 1}, " above 0 and at most 1"),
        ({"least": 1e-9}, " of at least 1e-9"),
        ({"above": 1e-300, "below": 0.25}, " between 1e-300 and 0.25"),
        ({"most": 1e6}, " of at most 1,000,000"),
        ({"most": 1e300}, " of at most 1e300"),
        ({"most": np.float64(2.5)}, " of at most 2.5"),
        ({"above": Fraction(1, 3)}, " above 1/3"),
    ],
)
def test_messages_say_the_range_as_people_write_it(bounds: dict[str, Any], words: str) -> None:
    with pytest.raises(HushError) as refusal:
        check_number(HushError, "x", "y", **bounds)
    assert str(refusal.value) == f"x='y': expected a number{words}"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.int64(-3), "-3"),
        (np.float64(-0.5), "-0.5"),
        (Fraction(-1, 3), "Fraction(-1, 3)"),
        (-(10**5000), "an integer of 16610 bits"),
        (Fraction(-(10**5000), 3), "Fraction(an integer of 16610 bits, 3)"),
        (-math.inf, "-inf"),
    ],
    ids=shown,
)
def test_messages_show_values_plainly_and_in_short(value: Any, text: str) -> None:
    with pytest.raises(HushError) as refusal:
        check_number(HushError, "x", value, least=0)
    assert str(refusal.value).startswith(f"x={text}: expected a ")


@pytest.mark.parametrize("value", [-HUGE, "z" * 10**6, [0] * 10**6, np.zeros(10**6), Fraction(1, HUGE)], ids=shown)
def test_messages_are_short_however_large_the_value(value: Any) -> None:
    for refuse in (
        lambda: check_whole(HushError, "x", value, least=0, most=9),
        lambda: check_number(HushError, "x", value, above=0),
        lambda: check_flag(HushError, "x", value),
        lambda: check_choice(HushError, "x", value, ["rmse", "maxvar"]),
    ):
        with pytest.raises(HushError) as refusal:
            refuse()
        assert len(str(refusal.value)) < 200
        assert "\n" not in str(refusal.value)


def test_the_error_and_the_hint_are_the_callers() -> None:
    with pytest.raises(WorkloadError, match="^rounds=0: expected a whole number of at least 1; omit it$"):
        check_whole(WorkloadError, "rounds", 0, least=1, hint="; omit it")
    with pytest.raises(BudgetError, match="^share=2: expected a number below 1, such as 0.9$"):
        check_number(BudgetError, "share", 2, below=1, hint=", such as 0.9")
    with pytest.raises(WorkloadError, match="^paper=1: expected True or False; omit it$"):
        check_flag(WorkloadError, "paper", 1, hint="; omit it")
    with pytest.raises(WorkloadError, match="^loss='x': expected one of 'rmse', 'maxvar'; omit it$"):
        check_choice(WorkloadError, "loss", "x", iter(("rmse", "maxvar")), hint="; omit it")


@pytest.mark.parametrize("value", [0, 1, None, "yes", np.True_, np.array([True, False])])
def test_flags_are_true_or_false(value: Any) -> None:
    assert check_flag(HushError, "x", True) is True
    assert check_flag(HushError, "x", False) is False
    with pytest.raises(HushError, match="expected True or False$"):
        check_flag(HushError, "x", value)


def test_choices_are_words_and_a_misspelt_one_gets_a_suggestion() -> None:
    assert check_choice(HushError, "loss", np.str_("rmse"), {"rmse": 1, "maxvar": 2}) == "rmse"
    with pytest.raises(HushError, match="did you mean 'rmse'[?]$"):
        check_choice(HushError, "loss", "RMSE", ("rmse", "maxvar"))
    for value in (None, 3, ["rmse"], np.array(["rmse", "maxvar"])):
        with pytest.raises(HushError, match="expected one of 'rmse', 'maxvar'$"):
            check_choice(HushError, "loss", value, ("rmse", "maxvar"))
