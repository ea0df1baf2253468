import numpy as np
import pytest

from hush import queries
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
