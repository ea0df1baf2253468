"""Query blocks on one attribute."""

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.core.errors import WorkloadError
from hush.linops import AllRange, Dense, Identity, LevelsAndTotal, LinearOperator, Prefix, Total, WidthRange

CASES = [Identity(5), Total(5), Prefix(5), AllRange(5), WidthRange(5, 2), Dense([[1.0, 0, -2, 0, 0.5]]), Prefix(1)]
TWINS = {
    "Identity": lambda n: np.eye(n),
    "Total": lambda n: np.ones((1, n)),
    "Prefix": lambda n: np.tri(n),
    "AllRange": lambda n: np.array([[float(i <= x <= j) for x in range(n)] for i in range(n) for j in range(i, n)]),
}


@pytest.mark.parametrize("name", TWINS)
@given(size=st.integers(1, 9))
def test_blocks_equal_their_dense_twins(name: str, size: int) -> None:
    block = {"Identity": Identity, "Total": Total, "Prefix": Prefix, "AllRange": AllRange}[name](size)
    np.testing.assert_array_equal(block.dense(), TWINS[name](size))
    assert block.shape == TWINS[name](size).shape


@pytest.mark.parametrize("block", CASES, ids=str)
def test_contract(block: LinearOperator) -> None:
    dense = block.dense()
    x = np.arange(3.0 * block.shape[1]).reshape(block.shape[1], 3) ** 1.5
    np.testing.assert_allclose(block @ x, dense @ x)
    np.testing.assert_allclose(block @ x[:, 0], dense @ x[:, 0])
    np.testing.assert_allclose(block.T.dense(), dense.T)
    np.testing.assert_allclose(block.gram_dense(), dense.T @ dense)
    np.testing.assert_allclose(block.column_norms(1), np.abs(dense).sum(axis=0))
    np.testing.assert_allclose(block.column_norms(2), np.sqrt((dense**2).sum(axis=0)))


def test_width_ranges() -> None:
    np.testing.assert_array_equal(WidthRange(4, 3).dense(), [[1, 1, 1, 0], [0, 1, 1, 1]])


def test_explicit_matrices_compare_by_entries_and_cannot_be_changed() -> None:
    first = Dense([[1, 2]])
    assert first == Dense([[1.0, 2.0]])
    assert hash(first) == hash(Dense([[1.0, 2.0]]))
    assert first != Dense([[1, 3]])
    with pytest.raises(ValueError, match="read-only"):
        first.dense()[0, 0] = 5


@pytest.mark.parametrize(
    "build", [lambda: Identity(0), lambda: WidthRange(3, 0), lambda: Dense([1, 2]), lambda: Dense([[]])]
)
def test_impossible_blocks_are_refused(build: object) -> None:
    with pytest.raises(WorkloadError):
        build()  # type: ignore[operator]


@given(st.integers(1, 12), st.data())
def test_width_ranges_in_closed_form(size: int, data: st.DataObject) -> None:
    width = data.draw(st.integers(1, size))
    twin = np.array([[float(i <= x < i + width) for x in range(size)] for i in range(size - width + 1)])
    np.testing.assert_array_equal(WidthRange(size, width).dense(), twin)
    np.testing.assert_array_equal(WidthRange(size, width).gram_dense(), twin.T @ twin)
    np.testing.assert_array_equal(WidthRange(size, width).column_norms(1), twin.sum(axis=0))


@pytest.mark.parametrize("size", [1, 2, 7, 100])
def test_sensitivity_of_all_ranges(size: int) -> None:
    assert AllRange(size).sensitivity(1) == (size + 1) ** 2 // 4
    assert AllRange(size).sensitivity(2) == pytest.approx(np.sqrt((size + 1) ** 2 // 4))


@pytest.mark.parametrize("size", [1, 2, 9])
def test_inverse_of_all_ranges(size: int) -> None:
    np.testing.assert_allclose(AllRange(size).pinv().dense(), np.linalg.pinv(AllRange(size).dense()), atol=1e-12)


@pytest.mark.parametrize(
    "build", [Identity, Total, Prefix, lambda n: WidthRange(n, 1000)], ids=["identity", "total", "prefix", "width"]
)
def test_a_million_levels_need_no_matrix(build: Callable[[int], LinearOperator]) -> None:
    block = build(10**6)
    x = np.ones((10**6, 1))
    tracemalloc.start()
    answers = block.matmat(x)
    left, right = float(np.sum(answers**2)), float(np.sum(x * block.gram().matmat(x)))
    assert block.sensitivity(2) == np.sqrt(block.sensitivity(1))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert left == pytest.approx(right)
    assert peak < 1 << 27


def test_a_transpose_shares_the_entries() -> None:
    block = Dense([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    same = Dense([[1.0, 3.0, 5.0], [2.0, 4.0, 6.0]])
    assert same == block.T
    assert hash(same) == hash(block.T)
    assert np.shares_memory(block.T.dense(), block.dense())


numbers = st.floats(-4, 4).filter(lambda a: a == 0 or abs(a) > 0.1)


@given(st.integers(1, 8), numbers, numbers)
def test_closed_forms(size: int, levels: float, total: float) -> None:
    own = LevelsAndTotal(size, levels, total)
    twin = np.concatenate([levels * np.eye(size), np.full((1, size), total)])
    np.testing.assert_array_equal(own.dense(), twin)
    np.testing.assert_allclose(own.gram_dense(), twin.T @ twin, atol=1e-12)
    np.testing.assert_allclose(own.gram().dense(), twin.T @ twin, atol=1e-12)
    np.testing.assert_allclose(own.pinv().dense(), np.linalg.pinv(twin, rtol=1e-12), atol=1e-9)


def test_no_matrix_for_a_million_levels() -> None:
    own = LevelsAndTotal(10**6, 1.0, 2.0)
    x = np.arange(1e6)
    np.testing.assert_allclose(own.pinv() @ (own @ x), x, atol=1e-3)
    assert own.sensitivity(1) == 3


def test_impossible_weights() -> None:
    with pytest.raises(WorkloadError, match="finite weights"):
        LevelsAndTotal(3, float("nan"))
