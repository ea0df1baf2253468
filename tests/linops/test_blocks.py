import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.errors import WorkloadError
from hush.linops import AllRange, Dense, Identity, LinearOperator, Prefix, Total, WidthRange

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
