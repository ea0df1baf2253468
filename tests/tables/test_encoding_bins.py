"""The SQL for a bin is exact at every edge and at the numbers next to it."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.schema import Integer, Numeric, Outside
from hush.tables.dialects.duckdb import DUCKDB
from hush.tables.encoding import LARGEST_TREE, equal_width_scale, locate

CLAMP = Outside.CLAMP


@pytest.mark.parametrize("bins", [1, 2, 3, 24, 25, 100, 500])
@pytest.mark.parametrize("shape", ["equal", "uneven", "tiny", "huge"])
def test_bins_are_exact_at_every_edge(bins, shape, reference, sql_codes) -> None:
    edges = {
        "equal": Numeric.edges_of_equal_width(-0.3, 7.1, bins),
        "uneven": tuple(1.37**k - 3 if k < 100 else 1e15 + k for k in range(bins + 1)),
        "tiny": tuple(1 + k * 2.0**-52 for k in range(bins + 1)),
        "huge": tuple((k / bins - 0.5) * 1.7e308 * 2 for k in range(bins + 1)),
    }[shape]
    column = Numeric(name="x", edges=edges, outside=CLAMP)
    near = [math.nextafter(edge, side) for edge in column.edges for side in (-math.inf, math.inf)]
    values = [*column.edges, *near, math.inf, -math.inf, 0.0]
    assert sql_codes(column, pa.array(values)) == [reference(column, value) for value in values]


@given(low=st.floats(-1e9, 1e9), width=st.floats(1e-6, 1e9), bins=st.integers(1, 200), values=st.data())
def test_the_guess_of_a_bin_is_right_or_one_too_low(low, width, bins, values) -> None:
    column = Numeric(name="x", edges=tuple(sorted(set(Numeric.edges_of_equal_width(low, low + width, bins)))))
    scale = equal_width_scale(column.edges)
    if scale is None:
        return
    x = values.draw(st.floats(column.edges[0], column.edges[-1]))
    guess = math.floor((x - column.edges[0]) * scale)
    true = sum(edge <= x for edge in column.edges[1:-1])
    assert guess in (true, max(true - 1, 0))


def test_equal_width_is_recognised() -> None:
    assert equal_width_scale(Numeric.edges_of_equal_width(0.0, 100.0, 32)) is not None
    assert equal_width_scale((0.0, 1.0, 10.0, 100.0)) is None
    assert equal_width_scale((-1.7e308, 0.0, 1.7e308)) is None


def test_each_way_is_used_where_it_is_the_fastest() -> None:
    def step(number: int) -> str:
        return f"g{number}"

    even = Numeric.edges_of_equal_width(0.0, 1.0, 1000)
    uneven = tuple(1.5**k for k in range(200))
    assert len(locate(even, "p", step, DUCKDB)[0]) == 1
    assert len(locate(uneven[: LARGEST_TREE + 1], "p", step, DUCKDB)[0]) == 0
    assert len(locate(uneven, "p", step, DUCKDB)[0]) == 8


@pytest.mark.parametrize("bins", [1, 3, 24, 100])
@pytest.mark.parametrize("stored", [pa.float64(), pa.string(), pa.decimal128(38, 20)])
def test_points_hold_one_number_in_every_type(bins, stored, reference, sql_codes) -> None:
    edges = Numeric.edges_of_equal_width(0.0, 100.0, bins)
    column = Numeric(name="x", edges=edges, points=(0, 0.5, 50, 100), outside=CLAMP, missing=True)
    near = [math.nextafter(p, side) for p in column.points for side in (-math.inf, math.inf)]
    values = [*column.points, *column.edges, -1.0, 101.0]
    values = [round(value, 15) for value in values] if pa.types.is_decimal(stored) else values + near
    array = pa.array([repr(value) for value in values]).cast(stored)
    assert sql_codes(column, array) == [reference(column, value) for value in values]


@pytest.mark.parametrize("outside", Outside)
@pytest.mark.parametrize("stored", [pa.int64(), pa.float64(), pa.string(), pa.int8(), pa.decimal128(20, 0)])
@pytest.mark.parametrize("bins", [1, 7, 13, 40])
def test_integers_land_in_their_bins_in_every_type(bins, stored, outside, reference, sql_codes) -> None:
    starts = Integer.starts_of_equal_width(-20, 99, bins)
    column = Integer(name="x", low=-20, high=99, starts=starts, points=(0, 99), outside=outside)
    values = list(range(-25, 105))
    assert sql_codes(column, pa.array([str(v) for v in values]).cast(stored)) == [reference(column, v) for v in values]


def test_integers_beyond_floats_are_not_rounded_into_a_bin(sql_codes) -> None:
    column = Integer.equal_width(name="x", low=0, high=2**53, bins=4)
    values = [2**53, 2**53 + 1, 2**62, -1, 0]
    assert sql_codes(column, pa.array(values, pa.int64())) == [3, None, None, None, 0]


def test_fractions_are_refused_in_bins_of_integers_too(sql_codes) -> None:
    column = Integer(name="x", low=0, high=9, starts=(0, 5), outside=CLAMP)
    assert sql_codes(column, pa.array([4.0, 4.5, 12.5, 12.0])) == [0, None, None, 1]
