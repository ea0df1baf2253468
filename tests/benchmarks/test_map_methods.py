"""Published methods for maps: each spends exactly its budget through the gate, and errs as published ones do."""

import math
from fractions import Fraction

import numpy as np
import pytest
from benchmarks.column_methods import Method
from benchmarks.held_counts import HeldCounts
from benchmarks.map_methods import TWO_DIMENSIONS

from hush.core.domain import Domain
from hush.core.errors import WorkloadError
from hush.privacy.account import Allowance
from hush.privacy.budget import Budget
from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.privacy.gate import Gate
from hush.testing import TinyTable, check_replay, neighbours_of

EPSILON = Fraction(1, 10)
BUDGET = Budget(epsilon=0.1)


def rectangle_error(name: str, cells: np.ndarray, runs: int) -> float:
    """|errors of 2,000 random rectangles| / their number, root mean square over runs; sizes first, then places."""
    draw = np.random.default_rng(0)
    sizes = draw.integers(1, np.array(cells.shape) + 1, (2000, 2))
    low = draw.integers(0, np.array(cells.shape) + 1 - sizes)
    high = low + sizes
    squares = []
    for seed in range(runs):
        gate = Gate(HeldCounts(cells), Allowance(BUDGET), entropy=NotPrivateEntropy(seed))
        sums = np.zeros((cells.shape[0] + 1, cells.shape[1] + 1))
        sums[1:, 1:] = (TWO_DIMENSIONS[name](gate, ("a", "b"), cells.shape, EPSILON) - cells).cumsum(0).cumsum(1)
        errors = sums[high[:, 0], high[:, 1]] - sums[low[:, 0], high[:, 1]]
        errors += sums[low[:, 0], low[:, 1]] - sums[high[:, 0], low[:, 1]]
        squares.append((errors**2).sum() / 2000**2)
    return math.sqrt(np.mean(squares))


@pytest.mark.parametrize("method", TWO_DIMENSIONS.values(), ids=TWO_DIMENSIONS.keys())
@pytest.mark.parametrize("shape", [(1, 1), (16, 16), (5, 12), (40, 33)])
def test_every_method_spends_its_budget_and_returns_all_cells(method: Method, shape: tuple[int, int]) -> None:
    account = Allowance(BUDGET)
    counts = np.random.default_rng(1).integers(0, 400, shape)
    released = method(Gate(HeldCounts(counts), account), ("a", "b"), shape, EPSILON)
    assert released.shape == shape
    assert np.isfinite(released).all()
    assert sum(event.cost.epsilon for event in account.events) == EPSILON


@pytest.mark.parametrize("method", TWO_DIMENSIONS.values(), ids=TWO_DIMENSIONS.keys())
def test_every_method_replays_on_every_neighbour(method: Method) -> None:
    table = TinyTable(Domain({"x": 3, "y": 2}), [(0, 0), (2, 1), (2, 1)])

    def run(one: TinyTable) -> list[float]:
        cells = method(Gate(one, Allowance(BUDGET)), ("x", "y"), (3, 2), EPSILON)
        return [float(cell) for cell in cells.ravel()]

    assert check_replay(run, table, neighbours_of(table)) == 9


def test_the_quad_tree_errs_as_published() -> None:
    """14.58 on 128 x 128 cells at epsilon 0.1, an average of nine runs; four runs are within a third of it."""
    assert rectangle_error("quad tree", np.zeros((128, 128), dtype=np.int64), 4) == pytest.approx(14.58, rel=0.33)


def test_grids_that_look_and_squares_beat_single_cells_where_most_are_empty() -> None:
    """As published at ten thousand rows, mostly in one place: a grid that does not look is worse than single cells."""
    cells = np.zeros((128, 128), dtype=np.int64)
    cells[20:24, 90:94] = 600
    plain = rectangle_error("identity", cells, 3)
    assert rectangle_error("uniform grid", cells, 3) > plain
    assert rectangle_error("adaptive grid", cells, 3) < plain / 2
    assert rectangle_error("splitting squares", cells, 3) < plain / 2


def test_a_uniform_grid_beats_single_cells_on_flat_maps() -> None:
    flat = np.full((128, 128), 1)
    assert rectangle_error("uniform grid", flat, 3) < rectangle_error("identity", flat, 3) / 2


def test_many_rows_make_every_cell_a_block() -> None:
    cells = np.full((20, 20), 10**8)
    for name in ("uniform grid", "adaptive grid"):
        assert rectangle_error(name, cells, 4) < 1.6 * rectangle_error("identity", cells, 4)


@pytest.mark.parametrize("name", ["uniform grid", "adaptive grid", "quad tree", "splitting squares"])
def test_single_columns_are_refused_before_a_charge(name: str) -> None:
    account = Allowance(BUDGET)
    with pytest.raises(WorkloadError, match="expected two ordered columns"):
        TWO_DIMENSIONS[name](Gate(HeldCounts(np.zeros(4, dtype=np.int64)), account), ("a",), (4,), EPSILON)
    assert account.events == ()
