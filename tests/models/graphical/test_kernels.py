import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from hush.core.arrays import Floats
from hush.models.graphical._kernels import CHUNK_CELLS, _join, _largest, _soften, _total, dot, exp_cells

LOGS = arrays.arrays(np.float64, st.integers(1, 40), elements=st.floats(-2000, 0) | st.just(-np.inf))


def exponentials(x: Floats, block: int = CHUNK_CELLS) -> Floats:
    made = x.copy()
    exp_cells(made, np.empty(block))
    return made


def test_exponentials_are_within_two_units_in_the_last_place() -> None:
    random = np.random.default_rng(0)
    x = np.concatenate([-random.exponential(1, 200_000), -700 * random.random(200_000), -(10.0 ** -np.arange(0, 320))])
    exact = np.exp(x.astype(np.longdouble))
    off = np.abs(exponentials(x) - exact) / exact
    assert off.max() < 4.5e-16


def test_exponentials_where_the_reduction_turns() -> None:
    """Multiples of log 2 and halves between them, where the nearest integer changes."""
    x = -np.arange(0, 2018) * (math.log(2.0) / 2)
    x = np.concatenate([np.nextafter(x, -np.inf), x, np.nextafter(x, np.inf)])
    x = x[(x <= 0) & (x >= -700)]
    np.testing.assert_allclose(exponentials(x), np.exp(x), rtol=4.5e-16)


def test_exponentials_at_the_ends() -> None:
    below = np.nextafter(-700.0, -np.inf)
    made = exponentials(np.array([0.0, -0.0, -700.0, below, -745.0, -1e308, -np.inf, -5e-324]))
    assert made[0] == made[1] == made[7] == 1.0
    assert made[2] == pytest.approx(math.exp(-700), rel=4.5e-16)
    assert (made[3:7] == 0).all()
    assert not np.signbit(made).any()


@given(LOGS, st.sampled_from([1, 2, 7, CHUNK_CELLS]))
def test_exponentials_in_blocks(x: Floats, block: int) -> None:
    np.testing.assert_array_equal(exponentials(x, block), exponentials(x))
    np.testing.assert_allclose(exponentials(x), np.where(x < -700, 0.0, np.exp(x)), rtol=4.5e-16)


@given(LOGS)
def test_sums_and_largest(x: Floats) -> None:
    assert _largest(x) == x.max()
    finite = np.where(np.isfinite(x), x, 0.0)
    assert _total(finite) == pytest.approx(math.fsum(finite), rel=1e-14)
    assert dot(finite, finite) == pytest.approx(math.fsum(finite**2), rel=1e-13)


@given(st.integers(1, 6), st.integers(1, 9), st.integers(0, 999), st.sampled_from([0.0, 1.0, 1e5]))
def test_rows_become_conditionals(rows: int, columns: int, seed: int, shift: float) -> None:
    random = np.random.default_rng(seed)
    logs = shift + 5 * random.normal(size=(rows, columns))
    logs[random.random((rows, columns)) < 0.3] = -np.inf
    cells, weights, messages = logs.ravel().copy(), np.empty(rows), np.empty(rows)
    _soften(cells, columns, weights, messages, np.empty(CHUNK_CELLS))
    with np.errstate(divide="ignore"):
        expected = np.log(np.sum(np.exp(logs - shift), axis=1)) + shift
    np.testing.assert_allclose(messages, expected, rtol=1e-13, atol=1e-13)
    made = cells.reshape(rows, columns) * weights[:, None]
    dead = np.isneginf(logs).all(axis=1)
    np.testing.assert_allclose(made.sum(axis=1), np.where(dead, 0.0, 1.0), rtol=1e-14)
    assert (made[np.isneginf(logs)] == 0).all()


@pytest.mark.parametrize("largest", [[0.0, -3.0], [-1e6, -1e6 - 2], [-np.inf, 4.0], [0.0, -2000.0], [-np.inf, -np.inf]])
def test_tiles_of_a_row_join(largest: list[float]) -> None:
    weights, sums = np.array(largest), np.array([1.5, 2.5])
    sums[np.isneginf(weights)] = 0.0
    found = _join(weights, sums)
    if max(largest) == -np.inf:
        assert found == -np.inf
        assert (weights == 0).all()
        return
    top = max(largest)
    scaled = np.exp(np.array(largest) - top)
    assert found == pytest.approx(top + math.log(scaled @ sums), rel=1e-14)
    np.testing.assert_allclose(weights, scaled / (scaled @ sums), rtol=1e-14)
