import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.core.errors import WorkloadError
from hush.linops import AllRange, Equivalent, Permuted, Prefix


@given(st.permutations(range(5)))
def test_queries_on_rearranged_levels(order: list[int]) -> None:
    x = np.arange(5.0)[:, None] ** 2
    own = Permuted(AllRange(5), order)
    np.testing.assert_array_equal(own.matmat(x), AllRange(5).matmat(x[order]))
    turned = np.eye(5)[order]
    np.testing.assert_array_equal(own.gram_dense(), turned.T @ AllRange(5).gram_dense() @ turned)
    assert own.sensitivity(1) == AllRange(5).sensitivity(1) == 9


def test_values() -> None:
    assert Permuted(Prefix(3), [2, 0, 1]) == Permuted(Prefix(3), np.array([2, 0, 1]))
    assert Permuted(Prefix(3), [2, 0, 1]) != Permuted(Prefix(3), [0, 1, 2])
    assert Permuted(Equivalent(np.eye(2), 9), [1, 0]).queries == 9


@pytest.mark.parametrize("order", [[0, 1], [0, 1, 1], [1, 2, 3], []])
def test_orders_that_are_none(order: list[int]) -> None:
    with pytest.raises(WorkloadError, match=r"each of the levels 0 \.\. 2 once"):
        Permuted(Prefix(3), order)
