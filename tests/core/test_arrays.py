"""Tables over named attributes, against einsum."""

import itertools

import numpy as np
import pytest

from hush.core import arrays
from hush.core.arrays import (
    NamedTable,
    apply_along,
    apply_each,
    axes_outside,
    reordered,
    simplex_projection,
    spread,
    summed,
)
from hush.linops import Dense, Prefix, Total

NAMES = ("a", "b", "c")
TABLE = np.random.Generator(np.random.PCG64(1)).standard_normal((2, 3, 4))
ORDERS = [order for k in range(4) for order in itertools.permutations(NAMES, k)]


def _einsum(names, onto):
    return np.einsum(f"{''.join(names)}->{''.join(onto)}", TABLE)


@pytest.mark.parametrize("order", [order for order in ORDERS if len(order) == 3])
def test_reordering_is_a_view_with_axes_in_the_new_order(order):
    moved = reordered(TABLE, NAMES, order)
    np.testing.assert_array_equal(moved, _einsum(NAMES, order))
    assert np.shares_memory(moved, TABLE)


@pytest.mark.parametrize("onto", ORDERS)
def test_sums_leave_the_attributes_asked_for_in_their_order(onto):
    np.testing.assert_allclose(summed(TABLE, NAMES, onto), _einsum(NAMES, onto), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("over", [("a", "b", "c", "d"), ("d", "c", "e", "a", "b")])
def test_spread_tables_broadcast_over_further_attributes(over):
    wide = spread(TABLE, NAMES, over)
    assert wide.shape == tuple(dict(zip(NAMES, TABLE.shape, strict=True)).get(name, 1) for name in over)
    kept = [name for name in over if name in NAMES]
    np.testing.assert_array_equal(wide.squeeze(axis=axes_outside(over, NAMES)), _einsum(NAMES, kept))


@pytest.mark.parametrize("block", [1, 1 << 18])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_operators_along_an_axis(axis, block, monkeypatch):
    monkeypatch.setattr(arrays, "BLOCK_CELLS", block)
    matrix = np.random.Generator(np.random.PCG64(2)).standard_normal((5, TABLE.shape[axis]))
    wanted = np.moveaxis(np.tensordot(matrix, TABLE, axes=(1, axis)), 0, axis)
    np.testing.assert_allclose(apply_along(Dense(matrix), TABLE, axis), wanted)
    np.testing.assert_allclose(apply_along(Dense(matrix), np.asfortranarray(TABLE), axis), wanted)


def test_one_operator_for_each_axis():
    found = apply_each([Total(2), None, Prefix(4)], TABLE)
    np.testing.assert_allclose(found, TABLE.sum(axis=0, keepdims=True).cumsum(axis=2))
    table = NamedTable(NAMES, TABLE).apply({"c": Prefix(4), "a": Total(2)})
    assert table.names == ("b", "c")
    np.testing.assert_allclose(table.values, found[0])


def test_single_levels_have_no_axis():
    table = NamedTable.of((*NAMES, "d"), (2, 1, 4, 1), TABLE[:, :1])
    assert table.names == ("a", "c")
    assert table.sizes(("d", "c", "a")) == (1, 4, 2)
    assert table.size == 8
    ordered = table.ordered(("c", "d", "a", "b"))
    np.testing.assert_array_equal(ordered, TABLE[:, 0].T[:, None, :, None])
    assert not np.shares_memory(ordered, TABLE)
    moved, cells = table.grouped((("c",), ("d",), ("a", "b")))
    assert (moved.shape, cells) == ((4, 2), [4, 1, 2])


def test_projection_is_the_nearest_point_of_the_simplex() -> None:
    random = np.random.default_rng(1)
    for _ in range(50):
        shares = random.normal(0.2, 0.4, 6)
        nearest = simplex_projection(shares)
        assert nearest.sum() == pytest.approx(1)
        assert nearest.min() >= 0
        others = random.dirichlet(np.ones(6), 200)
        assert (np.linalg.norm(others - shares, axis=1) >= np.linalg.norm(nearest - shares) - 1e-12).all()
