"""HatQuery: its answers are sums of counts, and its norms hold for every row and every two rows."""

import itertools

import numpy as np
import pytest

from hush.histograms.axis_grid import AxisGrid
from hush.histograms.hat_query import HAT_UNIT, HatQuery, Hats
from hush.privacy.sensitivity import ONE_CELL

GRIDS = (AxisGrid(np.array([0, 1, 2, 4, 6, 7])), AxisGrid(np.array([0, 2, 3, 5])))


@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize("buckets", [1, 5, 64])
def test_the_hats_over_a_bucket_add_up_to_the_unit(count: int, buckets: int) -> None:
    hats = Hats(count, buckets)
    matrix = hats.matrix().toarray()
    assert matrix.shape == (count, buckets)
    assert (matrix >= 0).all()
    assert (matrix.sum(axis=0) == HAT_UNIT).all()
    assert hats.largest_square == (matrix**2).sum(axis=0).max()


@pytest.mark.parametrize("hats", [(), (2, 2), (3, 1)])
def test_norms_hold_for_all_rows_and_pairs_of_rows(hats: tuple[int, ...]) -> None:
    query = HatQuery(("a", "b", "c"), GRIDS, hats)
    units = np.eye(7 * 5 * 2, dtype=np.int64).reshape(-1, 7, 5, 2)
    columns = [query.answer({query.clique: unit}).ravel() for unit in units]
    norms = query.row_norms
    assert max(int(np.abs(column).sum()) for column in columns) == norms.l1
    assert max(int((column**2).sum()) for column in columns) == norms.l2_squared
    gaps = [one - other for one, other in itertools.combinations(columns, 2)]
    assert max(int(np.abs(gap).sum()) for gap in gaps) <= norms.gap_l1
    assert max(int((gap**2).sum()) for gap in gaps) <= norms.gap_l2_squared
    if not hats:
        assert norms == ONE_CELL


def test_answers_are_whole_numbers_of_the_stated_shape_and_add_up() -> None:
    random = np.random.default_rng(2)
    first, second = random.integers(0, 9, (2, 7, 5, 2))
    for hats in ((), (2, 3)):
        query = HatQuery(("a", "b", "c"), GRIDS, hats)
        both = query.answer({query.clique: first + second})
        assert both.dtype == np.int64
        assert both.shape == query.shape((7, 5, 2))
        assert np.array_equal(both, query.answer({query.clique: first}) + query.answer({query.clique: second}))
        assert both.sum() == query.scale * (first + second).sum()
