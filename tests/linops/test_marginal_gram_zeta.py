import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hush.core.errors import WorkloadError
from hush.linops.marginal_gram import subset_differences, subset_sums, superset_differences, superset_sums

tables = st.integers(0, 5).flatmap(lambda d: arrays(np.float64, 1 << d, elements=st.integers(-9, 9)))


@given(tables)
def test_sums_over_supersets_and_subsets_by_brute_force(values: np.ndarray) -> None:
    d = len(values).bit_length() - 1
    sets = range(1 << d)
    above = [sum(values[b] for b in sets if a & b == a) for a in sets]
    below = [sum(values[b] for b in sets if a & b == b) for a in sets]
    np.testing.assert_array_equal(superset_sums(values, d), above)
    np.testing.assert_array_equal(subset_sums(values, d), below)


@given(tables)
def test_differences_undo_sums_and_leave_the_input_alone(values: np.ndarray) -> None:
    d = len(values).bit_length() - 1
    before = values.copy()
    np.testing.assert_array_equal(superset_differences(superset_sums(values, d), d), before)
    np.testing.assert_array_equal(subset_differences(subset_sums(values, d), d), before)
    np.testing.assert_array_equal(values, before)


@pytest.mark.parametrize("shape", [(3,), (2, 2), ()])
def test_only_one_number_for_each_set(shape: tuple[int, ...]) -> None:
    with pytest.raises(WorkloadError, match=r"each of the 2\^2 sets"):
        superset_sums(np.zeros(shape), 2)
