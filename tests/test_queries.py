import numpy as np
import pytest

import hush
from hush import Domain, Workload, queries
from hush.core.errors import WorkloadError
from hush.linops import AllRange, LevelsAndTotal, Permuted


def test_permuted() -> None:
    assert queries.permuted(queries.ranges, [1, 2, 0])(3) == Permuted(AllRange(3), [1, 2, 0])
    with pytest.raises(WorkloadError, match="once"):
        queries.permuted(queries.ranges, [1, 2, 0])(4)


def test_levels_and_total() -> None:
    assert queries.levels_and_total(3) == LevelsAndTotal(3, 1.0, 1.0)


def test_predicates_by_level_and_by_mask() -> None:
    block = queries.predicates([[0, 3], (1,), np.array([False, True, True, False])])
    np.testing.assert_array_equal(block(4).dense(), [[1, 0, 0, 1], [0, 1, 0, 0], [0, 1, 1, 0]])


@pytest.mark.parametrize("rows", [[], [[]], [[0.5]], [["a"]], [[[0]]]])
def test_rows_that_are_no_predicates(rows: list[object]) -> None:
    with pytest.raises(WorkloadError, match="expected rows of levels"):
        queries.predicates(rows)


@pytest.mark.parametrize(
    ("row", "message"),
    [([4], r"within 0 \.\. 3"), ([-1], r"within 0 \.\. 3"), ([True] * 3, "3 entries"), ([False] * 4, "leave it out")],
)
def test_predicates_that_do_not_fit(row: list[int], message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        queries.predicates([row])(4)


def test_rotations_of_a_pattern() -> None:
    block = queries.circular([2.0, 1.0, 0.0, 0.0])(4).dense()
    np.testing.assert_array_equal(block.sum(axis=0), np.full(4, 3.0))
    np.testing.assert_array_equal(block[3], [1.0, 0.0, 0.0, 2.0])
    with pytest.raises(WorkloadError, match="4 columns on an attribute of 5"):
        queries.circular([2.0, 1.0, 0.0, 0.0])(5)


@pytest.mark.parametrize("pattern", [[], [0, 0], [[1, 2]], ["a"]])
def test_patterns_that_are_none(pattern: list[object]) -> None:
    with pytest.raises(WorkloadError, match="pattern"):
        queries.circular(pattern)


def test_all_predicates_have_the_squared_error_of_their_list() -> None:
    rows = np.array([[mask >> level & 1 for level in range(4)] for mask in range(16)], dtype=float)
    block = queries.all_predicates(4)
    np.testing.assert_allclose(block.gram_dense(), rows.T @ rows)
    domain = Domain({"x": 4})
    plan = hush.plan(Workload.product(domain, {"x": queries.all_predicates}), hush.Budget(rho=0.5), mechanism="matrix")
    # The SVD bound is tight: 2^(n-2) (n - 1 + sqrt(n + 1))^2 / n over 2^n queries.
    assert plan.rmse**2 * 16 == pytest.approx(4 * (3 + 5**0.5) ** 2 / 4, rel=1e-3)
    with pytest.raises(WorkloadError, match="at most 300"):
        queries.all_predicates(301)
