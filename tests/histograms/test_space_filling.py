"""The Hilbert curve visits every cell once, step by step, and square by square."""

import numpy as np
import pytest

from hush.core.errors import DomainError
from hush.histograms.space_filling import hilbert_order


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (2, 2), (16, 16), (5, 3), (1, 7), (128, 128)])
def test_every_cell_is_visited_once(rows: int, columns: int) -> None:
    assert sorted(hilbert_order(rows, columns).tolist()) == list(range(rows * columns))


def test_steps_are_to_neighbours_and_runs_of_four_to_a_power_are_squares() -> None:
    order = hilbert_order(16, 16)
    x, y = order // 16, order % 16
    assert (np.abs(np.diff(x)) + np.abs(np.diff(y)) == 1).all()
    for size in (4, 16, 64):
        for run in range(0, 256, size):
            inside = slice(run, run + size)
            assert np.ptp(x[inside]) + 1 == np.ptp(y[inside]) + 1 == round(size**0.5)


def test_a_grid_without_cells_is_refused() -> None:
    with pytest.raises(DomainError, match="0 x 4"):
        hilbert_order(0, 4)
