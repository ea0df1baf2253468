"""The benchmark of discoveries measures what it says: errors are zero for exact counts and known for wrong ones."""

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hush.schema import Integer, Numeric


@pytest.fixture
def discover(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    return importlib.import_module("benchmarks.discover")


def test_exact_counts_of_single_values_have_no_error(discover: Any) -> None:
    shape = discover.Shape("age", "integer", np.repeat(np.arange(5), [10, 0, 30, 5, 55]))
    column = Integer(name="x", low=0, high=4)
    moved, ranges = discover.errors(shape, column, np.array([10.0, 0, 30, 5, 55]), seed=1)
    assert moved == pytest.approx(0, abs=1e-9)
    assert ranges == pytest.approx(0, abs=1e-9)


def test_moved_counts_have_the_distance_that_they_moved(discover: Any) -> None:
    """All rows one step further: 1 over a mean distance of 1 from the median, and half of the ranges are wrong."""
    shape = discover.Shape("age", "integer", np.repeat([0, 2], 50))
    moved, ranges = discover.errors(shape, Integer(name="x", low=0, high=3), np.array([0.0, 50, 0, 50]), seed=1)
    assert moved == pytest.approx(100)
    assert 40 < ranges < 60


def test_rows_are_spread_evenly_in_bins_and_kept_in_points(discover: Any) -> None:
    column = Numeric(name="x", edges=(0, 10, 20), points=(0,))
    numbers, rows = discover.distribution(column, np.array([4.0, 10.0, -3.0]))
    assert rows.sum() == pytest.approx(14)
    assert rows[numbers == 0].sum() == 4
    assert numbers[rows > 0].max() < 10
    assert (numbers @ rows) / 14 == pytest.approx(50 / 14)


def test_schemas_are_as_wide_as_they_say(discover: Any) -> None:
    shape = discover.Shape("income", "numeric", np.array([5.0, 30.0, 80.0] * 100))
    assert discover.wide(shape) == (0, 800)
    assert (discover.header_only(shape).low, discover.header_only(shape).high) == (0, 1000)
    best = discover.expert(shape)
    assert best.points == (5, 30, 80)
    assert discover.between(shape, [3.0, 3.0]).edges == (3, 4)


def test_private_medians_are_quantiles_where_noise_is_small(discover: Any) -> None:
    shape = discover.Shape("income", "numeric", np.arange(10_000) / 10.0)  # 0 to 1,000, of candidates up to 10,000
    quiet, loud = (
        np.array(discover.median_bins(shape, discover.hush.Budget(rho=rho), np.random.default_rng(1)).edges)
        for rho in (100.0, 1e-7)
    )
    assert np.abs(quiet[1:-1] - np.arange(1, 32) * 1000 / 32).max() < 2
    assert loud.max() == pytest.approx(9999)
    assert np.median(loud) > 1000
