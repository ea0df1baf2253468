"""Sums of values as the gate takes them: what one row can do to them, and what passes."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from hush.core.domain import Domain
from hush.core.errors import BudgetError
from hush.core.unit import Unit
from hush.privacy.account import Allowance
from hush.privacy.budget import Budget
from hush.privacy.gate import Gate, Request
from hush.privacy.noise import DiscreteGaussian
from hush.privacy.sensitivity import Neighbours, sensitivity
from hush.privacy.sum_query import MOST_STEPS, SumQuery, ValueGrid
from hush.testing.tiny import TinyTable, neighbours_of

DOMAIN = Domain({"group": 2, "value": 5})
GRID = ValueGrid("value", 2, (2.0,), (1.0,), exact=True)
LEVELS = ValueGrid("value", 4, (0.0, 1.0, 2.0, 3.0, 4.0), (0.0, 0.25, 0.25, 0.25, 0.25))
ROWS = ValueGrid("value", 1, (0.0,), (1.0,), power=0, missing=4, exact=True)
SQUARES = ValueGrid("value", 8, (2.0,), (0.25,), power=2, origin=2.0)


def test_a_value_becomes_the_nearest_step_and_never_more_than_the_last() -> None:
    grid = ValueGrid("fare", 10, (50.0,), (5.0,), missing=3)
    values = [50.0, 54.9, 100.0, 1e300, -np.inf, np.nan, 47.5]
    codes = [0, 1, 2, 2, 0, 3, 0]
    assert grid.integers(values, codes).tolist() == [0, 1, 10, 10, -10, 0, -1]


def test_levels_have_centres_of_their_own_and_points_add_nothing() -> None:
    grid = ValueGrid("fare", 4, (0.0, 15.0, 60.0), (0.0, 1.25, 10.0), missing=3)
    assert grid.integers([0.0, 20.0, 30.0, np.nan], [0, 1, 2, 3]).tolist() == [0, 4, -3, 0]


def test_values_are_counted_as_one_each() -> None:
    assert ROWS.integers([0.0, 1e9, np.nan], [0, 3, 4]).tolist() == [1, 1, 0]


def test_squares_are_measured_from_the_origin() -> None:
    grid = ValueGrid("age", 8, (2.0,), (0.5,), power=2, origin=10.0)
    assert grid.integers([10.0, 12.0, 8.0, 11.0], [0, 0, 0, 0]).tolist() == [-4, 4, 4, -2]


@pytest.mark.parametrize("grid", [GRID, LEVELS, SQUARES, ROWS], ids=["sum", "levels", "squares", "rows"])
@pytest.mark.parametrize("clique", [(), ("group",), ("group", "value")])
@pytest.mark.parametrize("relation", list(Neighbours))
def test_neighbours_differ_by_no_more_than_is_stated(
    grid: ValueGrid, clique: tuple[str, ...], relation: Neighbours
) -> None:
    query = SumQuery(clique, grid)
    bound = sensitivity(query.row_norms, max_rows=1, neighbours=relation)
    worst, worst_squared = 0, 0
    for rows in itertools.product(itertools.product(range(2), range(5)), repeat=2):
        table = TinyTable(DOMAIN, rows)
        (exact,) = table.sums([query]).values()
        for other in neighbours_of(table, relation):
            difference = exact - other.sums([query])[query]
            worst = max(worst, int(np.abs(difference).sum()))
            worst_squared = max(worst_squared, int((difference**2).sum()))
    assert worst <= bound.l1
    assert worst_squared <= bound.l2_squared
    if grid is GRID:  # both ends of the grid are values
        assert worst == bound.l1


def test_a_statement_of_less_would_be_wrong() -> None:
    """The control: two rows at the ends of the grid in one cell differ by more than the root of the sum of squares."""
    query = SumQuery((), GRID)
    low, high = (TinyTable(DOMAIN, [(0, value)]).sums([query])[query] for value in (0, 4))
    assert int((high - low) ** 2) > 2 * GRID.steps**2
    assert int((high - low) ** 2) == query.row_norms.gap_l2_squared


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"steps": 0}, "whole number from 1 to 16,777,216"),
        ({"steps": MOST_STEPS + 1}, "whole number from 1 to 16,777,216"),
        ({"units": (np.nan,)}, "finite"),
        ({"units": (-1.0,)}, "at least 0"),
        ({"centres": (1.0, 2.0)}, "as many units"),
        ({"power": 3}, "power 0 to 2"),
        ({"power": 0}, "each as 1"),
    ],
)
def test_a_grid_that_is_none_is_refused(fields: dict, rule: str) -> None:
    plain = {"column": "x", "steps": 4, "centres": (0.0,), "units": (1.0,)}
    with pytest.raises(BudgetError, match=rule):
        ValueGrid(**(plain | fields))


def test_the_gate_charges_for_the_whole_grid_before_it_reads() -> None:
    table = TinyTable(DOMAIN, [(0, 4), (1, 0)])
    law = DiscreteGaussian(Fraction(100))
    small = Allowance(Budget(rho=0.001))
    with pytest.raises(BudgetError):
        list(Gate(table, small).measure([Request(SumQuery(("group",), GRID), law)]))
    assert table.reads == 0
    account = Allowance(Budget(rho=0.1))
    (answer,) = Gate(table, account).measure([Request(SumQuery(("group",), GRID), law)])
    assert account.budget.limit - account.remaining == Fraction(2**2, 2 * 100)
    assert answer.raw.shape == (2,)
    assert answer.raw.dtype == np.int64


@pytest.mark.parametrize("rows", [1, 3])
def test_units_of_several_rows_cost_as_many_rows_squared(rows: int) -> None:
    """A unit that repeats the last step moves a cell by `rows` times the steps, and that is what is charged."""
    unit, query = Unit(column="id", max_rows=rows), SumQuery(("group",), GRID)
    whole = TinyTable(DOMAIN, [(0, 4)] * 4, unit=unit, units=[0, 0, 0, 0])
    moved = int(np.abs(whole.sums([query])[query]).sum())
    assert moved == rows * GRID.steps
    account = Allowance(Budget(rho=1.0))
    list(Gate(whole, account).measure([Request(query, DiscreteGaussian(Fraction(100)))]))
    assert account.budget.limit - account.remaining == Fraction(moved**2, 2 * 100)


def test_a_value_is_clamped_before_anything_is_computed_from_it() -> None:
    """The ends of a grid are those of its widest level; numbers beyond them warn of no overflow."""
    assert GRID.ends == (0.0, 4.0)
    assert LEVELS.ends == (0.0, 5.0)
    assert SQUARES.ends == (0.0, 4.0)
    huge = [1.7e308, -1.7e308, np.inf, -np.inf, 5e-324]
    with np.errstate(all="raise"):
        assert GRID.integers(huge, [4, 0, 4, 0, 0]).tolist() == [2, -2, 2, -2, -2]
        assert SQUARES.integers(huge, [4, 0, 4, 0, 0]).tolist() == [8, 8, 8, 8, 8]
