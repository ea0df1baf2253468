import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.core.errors import WorkloadError
from hush.linops import LevelsAndTotal

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
