"""Cramér's V: against its definition, and what leaves it unchanged."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy.stats.contingency import association

from hush.evaluation.comparison import cramers_v

TABLES = arrays.arrays(np.int64, st.tuples(st.integers(2, 5), st.integers(2, 5)), elements=st.integers(1, 40))


@given(TABLES)
def test_it_is_that_of_scipy(table: np.ndarray) -> None:
    assert cramers_v(table) == pytest.approx(association(table, method="cramer"), abs=1e-7)


@given(TABLES)
def test_rows_that_are_empty_scale_and_order_do_not_matter(table: np.ndarray) -> None:
    padded = np.zeros((table.shape[0] + 1, table.shape[1] + 2))
    padded[1:, 2:] = 3 * table
    assert cramers_v(padded) == pytest.approx(cramers_v(table), abs=1e-7)
    assert cramers_v(table.T[::-1]) == pytest.approx(cramers_v(table), abs=1e-7)


def test_a_column_that_is_a_function_of_the_other_has_1_and_one_with_a_single_level_0() -> None:
    assert cramers_v([[3, 0], [0, 4], [2, 0]]) == 1
    assert cramers_v([[3, 4, 0]]) == 0
    assert cramers_v(np.zeros((3, 3))) == 0
