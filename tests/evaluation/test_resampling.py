"""Resampling: expected errors against binomial sums in rationals and against sampling; the fraction against a scan."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.core.errors import WorkloadError
from hush.evaluation.resampling import (
    LARGEST_FRACTION,
    Resampling,
    equivalent_fraction,
    expected_deviation,
    expected_error,
)


def by_sum(share: Fraction, records: int) -> Fraction:
    """E|p - X/K| by its definition."""
    chances = (
        math.comb(records, x) * share**x * (1 - share) ** (records - x) * abs(share - Fraction(x, records))
        for x in range(records + 1)
    )
    return sum(chances, Fraction(0))


@given(st.integers(1, 40), st.integers(0, 24), st.integers(1, 24))
def test_the_closed_form_is_the_binomial_sum(records: int, count: int, rest: int) -> None:
    share = Fraction(count, count + rest)
    found = expected_deviation([float(share)], records)[0]
    assert found == pytest.approx(float(by_sum(share, records)), rel=1e-13, abs=1e-300)


@pytest.mark.parametrize("records", [15, 16, 17, 1000, 10**6, 10**8, 10**10])
@pytest.mark.parametrize("share", [1e-12, 1e-7, 1e-3, 1 / 3, 0.5, 0.9, 1 - 1e-7])
def test_thirteen_digits_at_any_number_of_records(records: int, share: float) -> None:
    with mpmath.workdps(60):
        p = mpmath.mpf(share)
        s = int(mpmath.ceil(records * p))
        exact = 2 * s * mpmath.binomial(records, s) * p**s * (1 - p) ** (records - s + 1) / records
    assert expected_deviation([share], records)[0] == pytest.approx(float(exact), rel=1e-13)


def test_a_sample_errs_as_much_as_is_expected() -> None:
    counts = np.array([[40, 7, 0], [1, 2, 50]])
    random = np.random.Generator(np.random.PCG64(3))
    drawn = random.multinomial(30, counts.ravel() / 100, size=20_000) / 30
    errors = np.abs(drawn - counts.ravel() / 100).sum(axis=1)
    assert expected_error(counts, 30) == pytest.approx(errors.mean(), abs=5 * errors.std() / math.sqrt(20_000))


@given(st.lists(st.integers(0, 30), min_size=2, max_size=6).filter(any))
def test_more_records_never_err_more(counts: list[int]) -> None:
    errors = [expected_error(counts, records) for records in range(1, 30)]
    assert all(later <= earlier * (1 + 1e-12) for earlier, later in itertools.pairwise(errors))


def test_the_error_of_one_record_is_that_of_its_table() -> None:
    p = np.array([0.2, 0.3, 0.5])
    assert expected_error(1000 * p, 1) == pytest.approx(2 * float(p @ (1 - p)))


@pytest.mark.parametrize("weights", [None, [1.0, 0.25]])
def test_the_fraction_is_where_the_average_error_is_the_given_one(weights: list[float] | None) -> None:
    tables, total = [np.array([40, 60]), np.array([[10, 20], [30, 40]])], 100
    c = np.ones(2) if weights is None else np.array(weights)

    def average(records: int) -> float:
        return float(c @ [expected_error(table, records) for table in tables]) / 2

    for records in (1, 2, 17, 101, 351):  # at 99 and 100 the errors are the same
        error = average(records)
        found = equivalent_fraction(tables, error * (1 - 1e-9), total, weights)
        assert found == pytest.approx(records / total, rel=1e-5)
    between = equivalent_fraction(tables, (average(20) + average(22)) / 2, total, weights)
    assert 0.2 < between < 0.22


def test_tables_come_one_by_one_and_zeros_do_not_matter() -> None:
    table = np.array([3, 0, 5, 3, 0, 1])
    alone = equivalent_fraction([table], 0.4, 12)
    padded = (np.concatenate([table, np.zeros(7, dtype=int)]) for _ in range(3))
    assert equivalent_fraction(padded, 0.4, 12) == pytest.approx(alone)


def test_predicates_need_not_add_up_to_the_total() -> None:
    sampled = Resampling(100)
    sampled.add([30])
    assert sampled.error(50) == pytest.approx(float(by_sum(Fraction(3, 10), 50)))


def test_large_errors_are_worth_nothing_and_none_is_worth_the_most() -> None:
    tables = [[40, 60]]
    one = expected_error([40, 60], 1)
    assert equivalent_fraction(tables, one, 100) == 0
    assert equivalent_fraction(tables, 5.0, 100) == 0
    assert 0.01 <= equivalent_fraction(tables, one * 0.99, 100) < 0.02
    assert equivalent_fraction(tables, 0.0, 100) == LARGEST_FRACTION
    assert equivalent_fraction([[100, 0]], 0.0, 100) == 0  # every sample has the table


def test_many_distinct_counts_are_merged_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.Generator(np.random.PCG64(1))
    tables = [random.multinomial(1000, np.full(50, 0.02)) for _ in range(20)]
    whole = equivalent_fraction(tables, 0.3, 1000)
    monkeypatch.setattr("hush.evaluation.resampling.MOST_PENDING", 10)
    assert equivalent_fraction(tables, 0.3, 1000) == pytest.approx(whole, rel=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tables": []}, "expected at least one table"),
        ({"tables": [[1, -2]]}, "expected counts from 0 to the number of records"),
        ({"tables": [[1, 99]]}, "expected counts from 0"),
        ({"tables": [[math.nan]]}, "expected counts from 0"),
        ({"error": -0.1}, "error=-0.1: expected a finite number of at least 0"),
        ({"error": math.nan}, "expected a finite number"),
        ({"total": 0}, "total=0.0: expected the number of records"),
        ({"weights": [1.0, 2.0]}, "2 weights for 1 tables"),
        ({"weights": []}, "0 weights for more tables"),
        ({"weights": [-1.0]}, "expected finite numbers >= 0"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict, message: str) -> None:
    usual = {"tables": [[4, 6]], "error": 0.1, "total": 10}
    with pytest.raises(WorkloadError, match=message):
        equivalent_fraction(**(usual | options))


@pytest.mark.parametrize("records", [0, -1, 1.5, True])
def test_samples_have_records(records: object) -> None:
    with pytest.raises(WorkloadError, match="expected a whole number of at least 1"):
        expected_error([4, 6], records)  # type: ignore[arg-type]


@pytest.mark.parametrize("share", [-0.1, 1.1, math.nan])
def test_shares_are_between_0_and_1(share: float) -> None:
    with pytest.raises(WorkloadError, match="expected numbers between 0 and 1"):
        expected_deviation([share], 3)
