"""Hierarchical strategies: Haar and Tree."""

import math
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.core.errors import WorkloadError
from hush.linops import Haar, Tree


def test_four_levels() -> None:
    np.testing.assert_array_equal(Haar(4).dense(), [[1, 1, 1, 1], [1, 1, -1, -1], [1, -1, 0, 0], [0, 0, 1, -1]])


@pytest.mark.parametrize("size", [1, 2, 4, 16, 64])
def test_sensitivities_are_those_of_the_binary_tree(size: int) -> None:
    assert Haar(size).sensitivity(1) == Tree(size).sensitivity(1) == math.log2(size) + 1
    assert Haar(size).sensitivity(2) == Tree(size).sensitivity(2) == math.sqrt(math.log2(size) + 1)


def test_goldens_of_four_levels() -> None:
    assert Haar(4).sensitivity(1) == Tree(4).sensitivity(1) == 3
    assert Haar(4).sensitivity(2) == Tree(4).sensitivity(2) == math.sqrt(3)


@pytest.mark.parametrize("size", [2, 4, 32])
def test_gram_of_tree_and_wavelet(size: int) -> None:
    """H^T H = Y^T Y + 1 1^T - I."""
    expected = Haar(size).gram_dense() + np.ones((size, size)) - np.eye(size)
    np.testing.assert_allclose(Tree(size).gram_dense(), expected, atol=1e-12)


@pytest.mark.parametrize("size", [2, 4, 32])
def test_tree_without_root_and_levels_twice_is_the_wavelet(size: int) -> None:
    rest = Tree(size, root=False).gram_dense() + np.eye(size)
    np.testing.assert_allclose(rest, Haar(size).gram_dense(), atol=1e-12)


def test_rows_are_orthogonal_and_inverse_is_exact() -> None:
    rows = Haar(16).dense()
    np.testing.assert_array_equal(rows @ rows.T, np.diag((rows**2).sum(axis=1)))
    np.testing.assert_array_equal(Haar(16).pinv().dense() @ rows, np.eye(16))


def test_large_transforms_invert() -> None:
    x = np.arange(float(1 << 18))[:, None]
    np.testing.assert_allclose(Haar(1 << 18).pinv().matmat(Haar(1 << 18).matmat(x)), x, atol=1e-6)


@pytest.mark.parametrize("size", [0, 3, 12, -4])
def test_powers_of_two_only(size: int) -> None:
    with pytest.raises(WorkloadError, match="power of two"):
        Haar(size)


def nodes(size: int, branching: int, root: bool) -> np.ndarray:
    """Node by node, from the levels up."""
    depths = [[[i] for i in range(size)]]
    while len(depths[-1]) > 1:
        below = depths[-1]
        depths.append([list(chain(*below[i : i + branching])) for i in range(0, len(below), branching)])
    if not root and len(depths) > 1:
        depths.pop()
    rows = [node for depth in reversed(depths) for node in depth]
    return np.array([[float(i in node) for i in range(size)] for node in rows])


@given(st.integers(1, 30), st.integers(2, 6), st.booleans())
def test_node_by_node(size: int, branching: int, root: bool) -> None:
    tree, twin = Tree(size, branching, root), nodes(size, branching, root)
    np.testing.assert_array_equal(tree.dense(), twin)
    np.testing.assert_array_equal(tree.T.dense(), twin.T)
    np.testing.assert_array_equal(tree.gram_dense(), twin.T @ twin)
    np.testing.assert_allclose(tree.pinv().dense(), np.linalg.pinv(twin), atol=1e-12)
    for p in (1, 2):
        np.testing.assert_allclose(tree.column_norms(p), np.linalg.norm(twin, ord=p, axis=0))


def test_large_trees_solve_least_squares_without_a_matrix() -> None:
    tree = Tree(100_000, 16)
    x = np.sin(np.arange(100_000.0))[:, None]
    np.testing.assert_allclose(tree.pinv().matmat(tree.matmat(x)), x, atol=1e-9)


@pytest.mark.parametrize(("size", "branching"), [(0, 2), (4, 1)])
def test_impossible_trees_are_refused(size: int, branching: int) -> None:
    with pytest.raises(WorkloadError, match="whole number of at least"):
        Tree(size, branching)
