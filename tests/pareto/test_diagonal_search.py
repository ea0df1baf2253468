"""The search for T and K along the diagonal, against the whole grid."""

import math

import pytest

from hush.core.errors import SearchError
from hush.pareto import search_diagonal

SIZES = tuple(2**i for i in range(9))


@pytest.mark.parametrize("best", SIZES)
@pytest.mark.parametrize("tilt", [-0.03, 0.0, 0.02])
def test_the_best_of_the_grid_is_found_in_few_tries(best: int, tilt: float) -> None:
    def error(rounds: int, queries: int) -> float:
        return math.log(rounds * queries / best**2) ** 2 + tilt * math.log(rounds / queries)

    found = search_diagonal(error, SIZES)
    assert found.error == pytest.approx(min(error(t, k) for t in SIZES for k in SIZES if t * k == best**2))
    assert found.error == error(found.rounds, found.queries)
    assert len(found.errors) <= 3 * len(SIZES)  # of 81


def test_each_pair_is_tried_once() -> None:
    tried: list[tuple[int, int]] = []

    def error(rounds: int, queries: int) -> float:
        tried.append((rounds, queries))
        return abs(math.log(rounds * queries / 256))

    found = search_diagonal(error, (1, 4, 16, 64))
    assert len(tried) == len(set(tried)) == len(found.errors)


@pytest.mark.parametrize("sizes", [(), (4,), (1, 2, 5), (4, 2, 1), (0, 1), (2, 2)])
def test_grids_without_one_factor_are_refused(sizes: tuple[int, ...]) -> None:
    with pytest.raises(SearchError, match="sizes"):
        search_diagonal(lambda t, k: 0.0, sizes)


def test_errors_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(SearchError, match="the error of a try=nan"):
        search_diagonal(lambda t, k: math.nan, (1, 2))
