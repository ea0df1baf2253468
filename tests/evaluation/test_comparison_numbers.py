"""Numeric columns as numbers: distances by their definitions, means, exact zeros; and what bins do not show."""

import json
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import wasserstein_distance

import hush
from hush.core.errors import DataError
from hush.evaluation import STAMP, compare, compare_numbers
from hush.evaluation.comparison import distances
from hush.schema import Categorical, Integer, Numeric, Outside, Schema

SCHEMA = Schema(
    [
        Numeric(name="fare", edges=(0, 50, 100, 600), outside=Outside.CLAMP, missing=True, missing_values=("-1",)),
        Integer(name="age", low=0, high=99),
        Categorical(name="sex", values=("f", "m")),
    ]
)
REAL = pa.table({"fare": [0.0, 0.0, 0.0, 32.0, None, -1.0], "age": [1, 2, 3, 4, 5, 6], "sex": ["f"] * 6})
MIDDLES = pa.table({"fare": [25.0, 25.0, 25.0, 25.0, None, None], "age": [1, 2, 3, 4, 5, 6], "sex": ["f"] * 6})
NUMBERS = st.lists(st.integers(-9, 9), min_size=1, max_size=20)


@given(NUMBERS, NUMBERS)
def test_distances_are_those_of_scipy_and_of_the_definition(first: list[int], second: list[int]) -> None:
    counted = [np.unique(numbers, return_counts=True) for numbers in (first, second)]
    wasserstein, kolmogorov = distances(*counted[0], *counted[1])
    assert wasserstein == pytest.approx(wasserstein_distance(first, second), abs=1e-9)
    shares = [[np.mean(np.array(numbers) <= x) for x in range(-9, 10)] for numbers in (first, second)]
    assert kolmogorov == pytest.approx(np.abs(np.subtract(*shares)).max(), abs=1e-9)


def test_zeros_and_means_that_bins_do_not_show_are_seen() -> None:
    tables = [hush.read(rows, SCHEMA) for rows in (REAL, MIDDLES)]
    numbers = compare_numbers(REAL, MIDDLES, SCHEMA)
    found = compare(*tables, numbers=numbers)
    assert found.columns["fare"] == 0  # all of it is in the first bin, in both
    fare, age = found.numbers
    assert (fare.column, age.column) == ("fare", "age")
    assert (fare.real_mean, fare.synthetic_mean) == (8.0, 25.0)
    assert (fare.real_zeros, fare.synthetic_zeros) == (0.75, 0.0)
    assert fare.kolmogorov == 0.75
    assert fare.wasserstein == pytest.approx((3 * 25 + 7) / 4)
    assert (age.wasserstein, age.kolmogorov) == (0, 0)


def test_numbers_are_printed_and_written_under_the_stamp() -> None:
    tables = [hush.read(rows, SCHEMA) for rows in (REAL, MIDDLES)]
    found = compare(*tables, numbers=compare_numbers(REAL, MIDDLES, SCHEMA))
    text = str(found)
    assert text.splitlines()[0] == STAMP
    (line,) = [line.split() for line in text.splitlines() if line.startswith("fare ") and "75.0 %" in line]
    assert line == ["fare", "8", "25", "20.5", "0.7500", "75.0", "%", "0.0", "%"]
    made = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert made["numbers"][0]["zeros"] == {"real": 0.75, "synthetic": 0.0}
    assert "Numbers" not in str(compare(*tables))


def test_numbers_are_read_as_the_schema_reads_them() -> None:
    texts = pa.table({"fare": [" 0 ", "0.0", "-1", ""], "age": ["1", "2.0", "3", "4"], "sex": ["f"] * 4})
    fare, age = compare_numbers(texts, texts, SCHEMA)
    assert (fare.real_mean, fare.real_zeros) == (0.0, 1.0)  # -1 and blank text are missing
    assert age.real_mean == 2.5


def test_numbers_beyond_the_bounds_count_as_they_are_and_infinite_ones_at_the_bound() -> None:
    real = pa.table({"fare": [1000.0, math.inf], "age": [1, 2], "sex": ["f", "f"]})
    fare = next(entry for entry in compare_numbers(real, real, SCHEMA) if entry.column == "fare")
    assert fare.real_mean == 800.0


def test_a_column_without_numbers_has_no_figures_and_comes_first() -> None:
    empty = pa.table({"fare": pa.nulls(6), "age": [1, 2, 3, 4, 5, 6], "sex": ["f"] * 6})
    fare, age = compare_numbers(REAL, empty, SCHEMA)
    assert (fare.column, age.column) == ("fare", "age")  # nothing is worse than no number
    assert math.isnan(fare.wasserstein)
    assert fare.to_dict()["mean"] == {"real": 8.0, "synthetic": None}


def test_columns_that_hold_no_numbers_are_refused() -> None:
    dates = pa.table({"fare": pa.array([0] * 6, pa.date32()), "age": [1, 2, 3, 4, 5, 6], "sex": ["f"] * 6})
    with pytest.raises(DataError, match=r"'fare' is stored as DATE, which the kind 'numeric' cannot read"):
        compare_numbers(REAL, dates, SCHEMA)
