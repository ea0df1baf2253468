import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from hush.workloads.sql_workload import Box, boxes


def filled(box: Box) -> np.ndarray:
    return np.logical_and.reduce(np.meshgrid(*box, indexing="ij")) if box else np.array(True)


def is_product(inside: np.ndarray) -> bool:
    axes = range(inside.ndim)
    sides = tuple(inside.any(axis=tuple(other for other in axes if other != axis)) for axis in axes)
    return not inside.any() or bool((filled(sides) == inside).all())


@given(st.data(), arrays(bool, array_shapes(max_dims=4, max_side=4)))
def test_boxes_hold_every_cell_once_and_cut_no_query(data: st.DataObject, inside: np.ndarray) -> None:
    groups = data.draw(st.integers(0, inside.ndim))
    found = boxes(inside, groups)
    assert (found is not None) == all(is_product(inside[at]) for at in np.ndindex(inside.shape[:groups]))
    if found is not None:
        cover = sum((filled(box).astype(int) for box in found), np.zeros(inside.shape, dtype=int))
        np.testing.assert_array_equal(cover, inside)
        queries = sum((filled(box[:groups]).astype(int) for box in found), np.zeros(inside.shape[:groups], dtype=int))
        assert queries.max(initial=0) <= 1


@given(arrays(bool, array_shapes(min_dims=2, max_dims=3, max_side=4)))
def test_all_but_one_grouped_can_always_be_cut(inside: np.ndarray) -> None:
    assert boxes(inside, inside.ndim - 1) is not None
    assert boxes(inside, inside.ndim) is not None


@given(st.lists(arrays(bool, st.integers(1, 4)), min_size=1, max_size=4))
def test_a_product_is_one_box_whatever_is_grouped(masks: list[np.ndarray]) -> None:
    inside = filled(tuple(masks))
    for groups in range(len(masks) + 1):
        found = boxes(inside, groups)
        assert found is not None
        assert len(found) == int(inside.any())


def test_a_sum_of_products_has_no_boxes() -> None:
    assert boxes(np.array([[True, False], [False, True]]), 0) is None
    assert boxes(np.array([[[True, False], [False, True]]]), 1) is None
