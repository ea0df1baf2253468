"""AxisGrid: buckets, their counts, and the forms of queries over them against matrices."""

import numpy as np
import pytest

from hush.core.errors import WorkloadError
from hush.histograms.axis_grid import AxisForm, AxisGrid, levels_below


@pytest.mark.parametrize("cuts", [[], [0], [1, 4], [0, 2, 2, 4], [0, 3, 1]])
def test_cuts_must_rise_from_zero(cuts: list[int]) -> None:
    with pytest.raises(WorkloadError, match="must rise from 0"):
        AxisGrid(np.array(cuts, dtype=np.int64))


@pytest.mark.parametrize(("size", "pieces"), [(1, 4), (2, 1), (100, 7), (4096, 64), (4096, 4096), (10, 100)])
def test_fine_ends_reach_single_levels(size: int, pieces: int) -> None:
    grid = AxisGrid.with_fine_ends(size, pieces)
    assert grid.size == size
    assert grid.lengths[0] == grid.lengths[-1] == 1 or size == 1
    assert grid.lengths.max() <= -(-size // min(pieces, size)) + 1
    assert grid.whole == (grid.buckets == size)


def test_spreading_and_adding_are_inverse_and_averaging_is_the_transpose_of_spreading() -> None:
    grid, random = AxisGrid(np.array([0, 1, 4, 9])), np.random.default_rng(1)
    counts, q = random.normal(size=(2, 3)), random.normal(size=(2, 9))
    assert np.allclose(grid.added(grid.spread(counts, 1), 1), counts)
    assert np.allclose((q * grid.spread(counts, 1)).sum(axis=1), (grid.averaged(q, 1) * counts).sum(axis=1))


@pytest.mark.parametrize("queries", ["prefix", "ranges", "cells"])
@pytest.mark.parametrize("cuts", [[0, 1, 3, 8], [0, 8], list(range(9))])
def test_the_form_is_that_of_the_queries_carried_over_to_buckets(queries: str, cuts: list[int]) -> None:
    grid, n = AxisGrid(np.array(cuts)), 8
    prefix = np.tril(np.ones((n, n)))
    sums = np.concatenate([np.zeros((1, n)), prefix])
    rows = {
        "prefix": prefix,
        "cells": np.eye(n),
        "ranges": np.array([sums[j] - sums[i] for j in range(n + 1) for i in range(j)]),
    }[queries]
    carried = grid.averaged(rows, 1)
    form = AxisForm(grid, queries)
    assert np.allclose(form.matrix(), carried.T @ carried)
    assert form.trace == pytest.approx(np.trace(carried.T @ carried))


def test_coarser_levels() -> None:
    assert levels_below(4096, 8) == [512, 64, 8]
    assert levels_below(128, 2) == [64, 32, 16, 8, 4, 2]
    assert levels_below(1, 8) == []
