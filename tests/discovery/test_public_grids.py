"""Public grids: they cover every value, are round, and follow from released numbers alone."""

from __future__ import annotations

import datetime as dt
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.discovery.found_bins import significant_digits
from hush.discovery.public_grids import (
    counted_column,
    day_granularity,
    ends_of,
    fine_edges,
    round_points,
    round_width,
    wide_edges,
    wide_grid,
    with_margins,
)
from hush.schema import Date, Granularity, Integer, Numeric
from hush.schema.column import Outside
from hush.schema.discovery_draft import OpenColumn, read_draft_column

WHOLE = read_draft_column("x", {"kind": "integer", "bounds": "discover"})
REAL = read_draft_column("x", {"kind": "numeric", "bounds": "discover", "bins": "discover"})


@pytest.mark.parametrize("whole", [True, False])
def test_wide_edges_are_round_symmetric_and_grow(whole: bool) -> None:
    edges = wide_edges(whole=whole)
    assert edges == [-edge for edge in reversed(edges)]
    assert all(low < high for low, high in pairwise(edges))
    assert {significant_digits(edge) for edge in edges} == {1}
    above = [edge for edge in edges if edge > 0]
    assert max(high / low for low, high in pairwise(above)) == Fraction(5, 2)


@pytest.mark.parametrize("column", [WHOLE, REAL])
def test_a_wide_grid_has_a_level_for_every_number(column: OpenColumn) -> None:
    grid = counted_column(wide_grid(column))
    assert isinstance(grid, Integer | Numeric)
    assert grid.outside is Outside.CLAMP
    assert set(grid.ends(grid.code_of(0))) == {0}
    assert set(grid.ends(grid.code_of(9999))) == {9999}
    ends = ends_of(grid)
    starts = [grid.level_starts[code] for code in range(grid.levels)]
    assert starts == sorted(set(starts))
    assert all(low[1] <= high[0] + (column is WHOLE) for low, high in pairwise(ends))
    assert len(ends) < 250


def test_given_bounds_limit_the_grid() -> None:
    column = read_draft_column("x", {"kind": "numeric", "low": 0.1, "high": 7.5, "bins": "discover"})
    assert isinstance(column, OpenColumn)
    grid = wide_grid(column)
    assert isinstance(grid, Numeric)
    assert (grid.low, grid.high, grid.outside) == (0.1, 7.5, Outside.REFUSE)
    assert grid.edges == (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 7.5)


def test_days_are_counted_by_years() -> None:
    column = read_draft_column("x", {"kind": "date", "bounds": "discover"})
    assert isinstance(column, OpenColumn)
    grid = wide_grid(column)
    assert isinstance(grid, Date)
    assert (grid.granularity, grid.levels) == (Granularity.YEAR, 800)


@pytest.mark.parametrize(
    ("first", "rows", "granularity"),
    [
        (2020, 10_000, Granularity.DAY),
        (2020, 1000, Granularity.MONTH),  # 33 stddevs of noise over 1,096 days are a third of the rows
        (1950, 10_000_000, Granularity.MONTH),
        (1600, 10_000_000, Granularity.YEAR),
    ],
)
def test_days_are_counted_only_where_their_noise_does_not_hide_the_rows(
    first: int, rows: float, granularity: Granularity
) -> None:
    assert day_granularity(dt.date(first, 1, 1), dt.date(2022, 12, 31), rows, 10.0) is granularity


@given(
    st.lists(st.integers(-50, 5000), min_size=2, max_size=60),
    st.integers(0, 90),
    st.integers(4, 300),
    st.sampled_from([WHOLE, REAL]),
)
def test_fine_edges_increase_cover_the_range_and_are_integers_for_integers(
    rows: list[int], first: int, cells: int, column: OpenColumn
) -> None:
    grid = counted_column(wide_grid(column))
    noisy = np.zeros(grid.levels)
    first = min(first, grid.levels - 3)
    last = min(first + len(rows), grid.levels - 1) - 1
    noisy[first : last + 1] = rows[: last + 1 - first]
    edges = fine_edges(grid, noisy, cells, first, last, max(noisy.sum() / cells, 100.0))
    assert all(low < high for low, high in pairwise(edges))
    ends = ends_of(grid)
    assert edges[0] == ends[first][0]
    assert edges[-1] >= ends[last][1]
    assert len(edges) <= 6 * max(cells, min(8 * cells, 768)) + 160
    whole = column is WHOLE
    if whole:
        assert {edge.denominator for edge in edges} == {1}
    points = round_points(edges, whole=whole)
    assert points == sorted(set(points))
    around = with_margins(edges, whole=whole)
    assert around[1:-1] == edges
    assert around[0] < edges[0]
    assert around[-1] > edges[-1]


def test_rows_of_a_level_without_neighbours_get_more_cells() -> None:
    grid = counted_column(wide_grid(REAL))
    at, beside = (grid.code_of(number) for number in (4000, 1500))  # type: ignore[attr-defined]

    def cells_between_2000_and_5000(rows: dict[int, int]) -> int:
        noisy = np.zeros(grid.levels)
        noisy[list(rows)] = list(rows.values())
        edges = fine_edges(grid, noisy, 60, grid.code_of(0), grid.code_of(9000), 100.0)  # type: ignore[attr-defined]
        return sum(2000 < edge <= 5000 for edge in edges)

    few = cells_between_2000_and_5000({at: 5000, beside: 5000})
    assert 30 <= few <= 75
    assert cells_between_2000_and_5000({at: 5000, grid.code_of(15): 5000}) >= 6 * few  # type: ignore[attr-defined]


@given(st.integers(0, 10**6), st.integers(1, 10**6), st.integers(1, 500), st.booleans())
def test_round_widths_are_one_two_or_five_times_a_power_of_ten(low: int, span: int, cells: int, whole: bool) -> None:
    width = round_width(Fraction(low), Fraction(low + span), cells, whole=whole)
    assert float(width).hex() != "0x0.0p+0"
    assert str(f"{float(width):e}")[0] in "125"
    assert span / width >= cells or (whole and width == 1)
