"""GridBias: its value against the definition, and that no row moves it further than it says."""

import itertools

import numpy as np
import pytest

from hush.histograms.axis_grid import AxisGrid
from hush.histograms.grid_bias import LARGEST_BIAS, STEPS_PER_ROW, GridBias
from hush.privacy.sensitivity import Neighbours


def dense_norm(x: np.ndarray, grids: list[AxisGrid], queries: str) -> float:
    """|W (x - x_B)| by matrices."""
    residual = x.astype(float)
    even = x.astype(float)
    for axis, grid in enumerate(grids):
        even = np.add.reduceat(even, grid.cuts[:-1], axis=axis)
        shape = [1] * x.ndim
        shape[axis] = -1
        even = np.repeat(even / grid.lengths.reshape(shape), grid.lengths, axis=axis)
    residual = residual - even
    for axis, grid in enumerate(grids if queries != "cells" else ()):
        sums = np.concatenate([np.zeros((1, grid.size)), np.tril(np.ones((grid.size, grid.size)))])
        rows = [sums[j] - sums[i] for j in range(grid.size + 1) for i in range(j)] if queries == "ranges" else sums[1:]
        residual = np.moveaxis(np.tensordot(np.array(rows), residual, axes=(1, axis)), 0, axis)
    return float(np.sqrt((residual**2).sum()))


CASES = [
    ((7,), [AxisGrid(np.array([0, 1, 3, 7]))], "prefix"),
    ((6,), [AxisGrid(np.array([0, 6]))], "cells"),
    ((4, 5), [AxisGrid(np.array([0, 2, 4])), AxisGrid(np.array([0, 1, 5]))], "prefix"),
    ((7,), [AxisGrid(np.array([0, 1, 3, 7]))], "ranges"),
    ((4, 5), [AxisGrid(np.array([0, 2, 4])), AxisGrid(np.array([0, 1, 5]))], "ranges"),
    ((5, 3), [AxisGrid(np.array([0, 2, 5]))], "prefix"),  # a histogram for each of three levels
    ((4, 4), [AxisGrid(np.array([0, 1, 4])), AxisGrid(np.array([0, 4]))], "cells"),
]


@pytest.mark.parametrize(("shape", "grids", "queries"), CASES)
def test_the_statistic_is_the_norm_in_steps(shape: tuple[int, ...], grids: list[AxisGrid], queries: str) -> None:
    x = np.random.default_rng(3).integers(0, 50, shape)
    names = tuple("abc"[: len(shape)])
    statistic = GridBias(names, tuple(grids), queries)
    value = int(statistic.answer({names: x}))
    assert value == pytest.approx(dense_norm(x, grids, queries) / statistic.step, abs=1.01)


@pytest.mark.parametrize(("shape", "grids", "queries"), CASES)
@pytest.mark.parametrize("filled", ["random", "empty", "large"])
def test_no_row_moves_the_statistic_further_than_it_says(
    shape: tuple[int, ...], grids: list[AxisGrid], queries: str, filled: str
) -> None:
    random = np.random.default_rng(5)
    x = {
        "random": random.integers(0, 9, shape),
        "empty": np.zeros(shape, int),
        "large": random.integers(0, 2**40, shape),
    }
    names = tuple("abc"[: len(shape)])
    statistic = GridBias(names, tuple(grids), queries)
    before = int(statistic.answer({names: x[filled]}))
    bound = statistic.sensitivity(max_rows=1, neighbours=Neighbours.ADD_REMOVE).l1
    moves = []
    for cell in np.ndindex(shape):
        changed = x[filled].copy()
        changed[cell] += 1
        moves.append(abs(int(statistic.answer({names: changed})) - before))
    assert max(moves) <= bound
    if filled == "empty":  # an empty table shows that the bound is no larger than it must be
        assert max(moves) >= STEPS_PER_ROW - 8


@pytest.mark.parametrize("queries", ["prefix", "ranges", "cells"])
def test_the_statistic_ends_where_floats_know_its_last_steps(queries: str) -> None:
    """Up to 2^38 steps the norm is known to a step or two; larger ones count as 2^38, at the border and far beyond."""
    statistic = GridBias(("a",), (AxisGrid(np.array([0, 8])),), queries)
    one = int(statistic.answer({("a",): np.eye(8, dtype=np.int64)[0]}))
    border = LARGEST_BIAS // one
    below, above, far = (
        int(statistic.answer({("a",): np.array([count, 0, 0, 0, 0, 0, 0, 0])}))
        for count in (border - 1, border + 2, 2**45)
    )
    assert LARGEST_BIAS - 4 * (STEPS_PER_ROW + 8) < below < LARGEST_BIAS == 2**38
    assert above == far == LARGEST_BIAS


def test_a_bound_that_is_too_small_would_be_noticed() -> None:
    """A control: with the bound of a bucket half as long, the enumeration above finds a row that breaks it."""
    names, grids = ("a",), (AxisGrid(np.array([0, 8])),)
    shorter = GridBias(names, (AxisGrid(np.array([0, 4, 8])),), "prefix").moved
    statistic = GridBias(names, grids, "prefix")
    moved = max(int(statistic.answer({names: np.eye(8, dtype=np.int64)[cell]})) * statistic.step for cell in range(8))
    assert moved > shorter * 1.2
    assert moved == pytest.approx(statistic.moved, rel=1e-5)


def test_exchanged_rows_and_units_of_several_rows_count_double_and_several_times() -> None:
    statistic = GridBias(("a",), (AxisGrid(np.array([0, 4])),), "prefix")
    one = statistic.sensitivity(max_rows=1, neighbours=Neighbours.ADD_REMOVE).l1
    assert statistic.sensitivity(max_rows=3, neighbours=Neighbours.ADD_REMOVE).l1 == 3 * one
    assert statistic.sensitivity(max_rows=1, neighbours=Neighbours.REPLACE).l1 == 2 * one


def test_the_most_that_a_row_moves_is_that_of_all_cells() -> None:
    for cuts, others in itertools.product(([0, 3, 5, 12], [0, 12], [0, 1, 12]), ([0, 6], [0, 2, 6])):
        grids = (AxisGrid(np.array(cuts)), AxisGrid(np.array(others)))
        for queries in ("prefix", "ranges", "cells"):
            statistic = GridBias(("a", "b"), grids, queries)
            norms = [dense_norm(unit.reshape(12, 6), list(grids), queries) for unit in np.eye(72, dtype=int)]
            assert statistic.moved == pytest.approx(max(norms), rel=1e-6)
