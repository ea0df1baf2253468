"""Found bins: the dynamic program against brute force, points, and how bins follow rows."""

from __future__ import annotations

import itertools
import warnings
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from hush.discovery import found_bins
from hush.discovery.found_bins import (
    DIGIT_COST,
    PRIOR_DEVIATION,
    Cell,
    bin_edges,
    bins_for,
    cells_for,
    heavy_points,
    joined_cells,
    significant_digits,
)
from hush.discovery.found_range import NoisyLevels
from hush.privacy.noise import DiscreteGaussian

LAW = DiscreteGaussian(Fraction(100))


def cells_of(rows: list[float], start: int = 0, width: int = 1) -> list[Cell]:
    return [
        Cell(Fraction(start + at * width), Fraction(start + (at + 1) * width), count) for at, count in enumerate(rows)
    ]


def run_cost(cells: list[Cell], variances: np.ndarray, i: int, j: int) -> float:  # type: ignore[type-arg]
    """The cost of the cells i .. j-1 as one bin, term by term as the module states it."""
    rows = np.array([cell.rows for cell in cells])
    widths = np.array([float(cell.end - cell.start) for cell in cells])
    weight = np.maximum(rows, 0) / np.maximum(rows, 0).sum() / 2 + widths / widths.sum() / 2
    count, width, noise = rows[i:j].sum(), widths[i:j].sum(), variances[i:j].sum()
    square = chance = 0.0
    for t in range(i, j):
        f = widths[i : t + 1].sum() / width
        square += weight[t] * (rows[i : t + 1].sum() - count * f) ** 2
        before = variances[i : t + 1].sum()
        chance += weight[t] * ((1 - f) ** 2 * before + f**2 * (noise - before))
    return float(max(square - chance, 0.0) + weight[i:j].sum() * (PRIOR_DEVIATION * count) ** 2)


@pytest.mark.parametrize("seed", range(6))
def test_edges_are_of_least_cost(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cells = cells_of(rng.integers(-20, 300, 8).astype(float).tolist(), start=7, width=3)
    variances = rng.uniform(2000, 20_000, 8)
    most = 4
    total = sum(cell.rows for cell in cells)
    average = PRIOR_DEVIATION**2 * total**2 / most**3

    def cost(cuts: tuple[int, ...]) -> float:
        bins = sum(run_cost(cells, variances, i, j) + 2 * average for i, j in itertools.pairwise(cuts))
        return bins + sum(DIGIT_COST * average * (significant_digits(cells[cut].start) - 1) for cut in cuts[1:-1])

    choices = [(0, *inner, 8) for count in range(most) for inner in itertools.combinations(range(1, 8), count)]
    best = min(choices, key=cost)
    edges = [cell.start for cell in cells] + [cells[-1].end]
    assert bin_edges(cells, variances, most) == [edges[cut] for cut in best]


def test_a_spiky_column_gets_few_bins_and_a_smooth_one_many() -> None:
    quiet = np.full(128, 100.0)
    smooth = bin_edges(cells_of([1000.0] * 128), quiet, 12)
    assert 10 <= len(smooth) - 1 <= 12
    assert np.diff(list(map(float, smooth))).max() <= 20
    spikes = [0.0] * 128
    for at in (10, 60, 100):
        spikes[at] = 40_000.0
    edges = bin_edges(cells_of(spikes), quiet, 12)
    assert len(edges) - 1 < 10
    assert {10, 11, 60, 61, 100, 101} <= set(map(int, edges))


def test_round_edges_are_preferred_where_they_cost_little() -> None:
    edges = bin_edges(cells_of([1000.0] * 200, start=0, width=5), np.full(200, 100.0), 10)
    digits = [significant_digits(edge) for edge in edges[1:-1]]
    assert np.mean(digits) < 1.9  # of edges of up to three digits


def test_points_are_values_with_many_rows_of_their_own() -> None:
    cells = [
        Cell(Fraction(0), Fraction(0), 5000),
        Cell(Fraction(0), Fraction(10), 4000),
        Cell(Fraction(10), Fraction(10), 60),
        Cell(Fraction(10), Fraction(20), 4000),
    ]
    levels = NoisyLevels(np.array([int(cell.rows) for cell in cells]), LAW)
    assert heavy_points(cells, levels, 8, whole=False) == [0]
    # an integer with no more rows than its neighbours needs no level of its own
    assert heavy_points(cells, levels, 8, whole=True) == [0]
    cells[0] = Cell(Fraction(0), Fraction(0), 900)
    levels = NoisyLevels(np.array([int(cell.rows) for cell in cells]), LAW)
    assert heavy_points(cells, levels, 8, whole=True) == []
    assert heavy_points(cells, levels, 8, whole=False) == [0]


def test_no_count_is_lost_when_cells_are_joined() -> None:
    cells = [
        Cell(Fraction(0), Fraction(0), 50),
        Cell(Fraction(0), Fraction(10), 7),
        Cell(Fraction(10), Fraction(10), 5),
        Cell(Fraction(10), Fraction(20), 9),
        Cell(Fraction(20), Fraction(20), 3),
    ]
    intervals, added = joined_cells(cells, [Fraction(0)])
    assert [(cell.start, cell.end, cell.rows) for cell in intervals] == [(0, 10, 7), (10, 20, 17)]
    assert added.tolist() == [1.0, 3.0]


def test_more_rows_and_less_noise_give_more_bins() -> None:
    numbers = [bins_for(rows, 50.0) for rows in (-5, 100, 10_000, 10**6, 10**9)]
    assert numbers == sorted(numbers)
    assert numbers[0] == found_bins.LEAST_BINS
    assert numbers[-1] == found_bins.MOST_AUTO_BINS
    assert cells_for(10_000, 50.0, None) == 8 * bins_for(10_000, 50.0)
    assert cells_for(10_000, 50.0, 20) == 160


def test_widths_that_are_far_apart_warn_of_nothing() -> None:
    """Where warnings are errors, one would come after the discovery is paid for."""
    ends = [Fraction(0), Fraction(1, 10**9), Fraction(2, 10**9), Fraction(1), Fraction(10) ** 300]
    cells = [Cell(start, end, rows) for (start, end), rows in zip(pairwise(ends), (900, 40, 30, 2), strict=True)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        edges = bin_edges(cells, np.full(4, 25.0), 3)
    assert set(edges) <= set(ends)
