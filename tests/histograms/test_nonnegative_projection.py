"""Projections: non-negative, and never further from the truth in the norm of the queries."""

import numpy as np
import pytest

from hush.histograms.axis_grid import AxisForm, AxisGrid
from hush.histograms.nonnegative_projection import project_cells


def test_prefix_sums_come_no_further_from_the_truth() -> None:
    random = np.random.default_rng(1)
    grid = AxisGrid(np.arange(65))
    for _ in range(20):
        truth = random.integers(0, 2, 64) * random.integers(0, 20, 64)
        noisy = truth + random.laplace(0, 10, 64)
        cells = project_cells(noisy, (grid,), "prefix")
        assert (cells >= 0).all()
        before, after = np.cumsum(noisy - truth), np.cumsum(cells - truth)
        assert np.linalg.norm(after) <= np.linalg.norm(before)


def test_clipping_instead_makes_prefix_sums_worse() -> None:
    """A control: the same noise, clipped cell by cell; and single cells stay as they are."""
    random = np.random.default_rng(1)
    grid, noisy = AxisGrid(np.arange(513)), random.laplace(0, 10, 512)
    assert np.array_equal(project_cells(noisy, (grid,), "cells"), noisy)
    assert np.linalg.norm(np.cumsum(np.maximum(noisy, 0))) > 3 * np.linalg.norm(np.cumsum(noisy))


@pytest.mark.parametrize("cuts", [[0, 1, 2, 4, 8, 12, 14, 15, 16], list(range(17))])
def test_rectangles_come_closer_to_the_truth(cuts: list[int]) -> None:
    random = np.random.default_rng(3)
    grid = AxisGrid(np.array(cuts))
    form = AxisForm(grid, "ranges").matrix()

    def error(x: np.ndarray) -> float:
        return float(np.sqrt((x * (form @ x @ form)).sum()))

    truth = np.zeros((grid.buckets, grid.buckets))
    truth[0, 0], truth[3, 4] = 500, 300
    gains = []
    for _ in range(10):
        noisy = truth + random.laplace(0, 10, truth.shape)
        cells = project_cells(noisy, (grid, grid), "ranges")
        assert (cells >= 0).all()
        gains.append(error(grid.added(grid.added(cells, 0), 1) - truth) / error(noisy - truth))
    assert np.mean(gains) < 0.95
    assert max(gains) < 1.5  # alternating directions stop after a number of steps


def test_long_axes_go_the_same_way_as_short_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    import hush.histograms.nonnegative_projection as module

    random, grid = np.random.default_rng(5), AxisGrid(np.arange(33))
    noisy = random.normal(0, 10, (32, 32))
    by_matrices = project_cells(noisy, (grid, grid), "ranges")
    monkeypatch.setattr(module, "LARGEST_BASIS", 8)
    assert np.allclose(project_cells(noisy, (grid, grid), "ranges"), by_matrices, atol=1e-6)
