from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.core.errors import WorkloadError
from hush.linops import Tree


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
    with pytest.raises(WorkloadError, match="at least one level and two children"):
        Tree(size, branching)
