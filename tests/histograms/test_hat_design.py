"""Designs of hats: the predicted error is that of the dense strategy, and better than counts of cells alone."""

import math
from fractions import Fraction

import numpy as np
import pytest

from hush.histograms.axis_grid import AxisForm, AxisGrid
from hush.histograms.hat_design import design_hats
from hush.histograms.hat_query import HAT_UNIT, Hats
from hush.strategies.strategy import NoiseKind


@pytest.mark.parametrize("queries", ["prefix", "ranges", "cells"])
@pytest.mark.parametrize("noise", list(NoiseKind))
@pytest.mark.parametrize("axes", [1, 2])
def test_the_error_is_that_of_the_strategy(queries: str, noise: NoiseKind, axes: int) -> None:
    grids = [AxisGrid.with_fine_ends(40, 10), AxisGrid.with_fine_ends(20, 8)][:axes]
    design = design_hats(grids, queries, noise)
    assert sum(design.shares) == Fraction(1)
    form, rows = np.ones((1, 1)), [np.eye(math.prod(grid.buckets for grid in grids))]
    for grid in grids:
        form = np.kron(form, AxisForm(grid, queries).matrix())
    for level in design.levels:
        hats = np.ones((1, 1))
        for count, grid in zip(level, grids, strict=True):
            hats = np.kron(hats, Hats(count, grid.buckets).matrix().toarray() / HAT_UNIT)
        rows.append(hats)
    precision = np.zeros_like(form)
    for share, matrix in zip(design.shares, rows, strict=True):
        if noise is NoiseKind.LAPLACE:
            precision += float(share) ** 2 / 2 * matrix.T @ matrix
        else:
            precision += float(share) / 2 / (matrix**2).sum(axis=0).max() * matrix.T @ matrix  # rho = 1/4
    assert design.error == pytest.approx(math.sqrt(np.trace(form @ np.linalg.inv(precision))), rel=1e-3)


def test_hats_halve_the_error_of_prefix_sums_and_are_left_out_for_cells() -> None:
    grid = AxisGrid(np.arange(1025))
    plain = math.sqrt(2 * AxisForm(grid, "prefix").trace)
    assert design_hats([grid], "prefix", NoiseKind.LAPLACE).error < 0.45 * plain
    assert design_hats([grid], "cells", NoiseKind.LAPLACE).levels == ()


def test_4096_prefix_sums_are_close_to_the_best_known_strategy() -> None:
    """The best strategy that does not look at data has 1.91 in these units, the best tree 2.2."""
    design = design_hats([AxisGrid(np.arange(4097))], "prefix", NoiseKind.LAPLACE)
    assert design.error * 10 / 4096 < 2.0
