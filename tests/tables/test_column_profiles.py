"""Bins of drafts: round edges that hold all numbers, and follow the rows where they crowd."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.tables.column_profiles import CROWDED_SHARE, FULL_SHARE, MOST_BINS, crowded_edges, round_bins


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(allow_nan=False, allow_infinity=False))
def test_round_bins_hold_the_bounds(one: float, two: float) -> None:
    low, high, bins = round_bins(min(one, two), max(one, two))
    assert low <= min(one, two) <= max(one, two) <= high
    assert low < high
    assert 1 <= bins <= MOST_BINS


def edges_of(numbers: np.ndarray, least: float = 0.0) -> tuple[float, ...]:
    def below(edges: list[float]) -> list[int]:
        return [int((numbers < edge).sum()) for edge in edges]

    return crowded_edges(float(numbers.min()), float(numbers.max()), below, least=least)


def tails(seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {
        "delays": np.clip(random.exponential(40, 5000) * random.choice([1, 5], 5000) - 30, -50, 1349),
        "incomes": random.lognormal(10, 1.2, 5000),
        "outlier": np.append(1000 + random.normal(0, 3, 5000), 1e6),
        "pareto": random.pareto(0.8, 5000),
    }


@pytest.mark.parametrize("name", tails(0))
def test_heavy_tails_get_bins_that_follow_the_rows(name: str) -> None:
    for seed in range(3):
        numbers = tails(seed)[name]
        edges = edges_of(numbers)
        counts = np.histogram(numbers, edges)[0]
        assert 8 <= len(counts) <= MOST_BINS
        assert counts.sum() == len(numbers)
        assert counts.max() < 3 * FULL_SHARE * len(numbers)
        assert all(float(f"{edge:.6g}") == edge for edge in edges)  # short to write


@pytest.mark.parametrize("name", ["uniform", "normal"])
def test_bins_of_equal_width_stay_where_they_serve(name: str) -> None:
    random = np.random.default_rng(1)
    numbers = random.random(3000) if name == "uniform" else random.normal(0, 1, 3000)
    low, high, bins = round_bins(numbers.min(), numbers.max())
    assert np.histogram(numbers, bins, (low, high))[0].max() < CROWDED_SHARE * len(numbers)
    assert edges_of(numbers) == ()
    assert edges_of(random.pareto(0.8, 99)) == ()  # too few rows to follow


def test_bins_are_no_narrower_than_the_step_of_the_numbers() -> None:
    numbers = np.round(np.random.default_rng(2).exponential(1.5, 5000) ** 2)
    edges = edges_of(numbers, least=1.0)
    assert min(b - a for a, b in pairwise(edges)) == 1
    assert all(edge.is_integer() for edge in edges)
    assert round_bins(1.5, 2.0, least=0.1) == (1.5, 2.0, 5)
