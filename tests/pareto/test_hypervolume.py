"""Fronts and hypervolumes against brute force."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.core.errors import SearchError
from hush.pareto.hypervolume import attained_by, contributions, dominates, front_indices, hypervolume, step_values

POINT = st.tuples(st.integers(0, 6), st.integers(0, 6))
DEEP = st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 4))


def counted_cells(points, reference) -> int:
    """The unit cells below a reference of whole numbers that some point dominates."""
    cells = itertools.product(*(range(end) for end in reference))
    return sum(any(dominates(point, cell) for point in points) for cell in cells)


@given(st.lists(POINT, max_size=8))
def test_the_area_is_that_of_the_dominated_cells(points: list[tuple[int, int]]) -> None:
    assert hypervolume(points, (5, 6)) == counted_cells(points, (5, 6))


@given(st.lists(DEEP, min_size=1, max_size=8))
def test_the_volume_is_that_of_the_dominated_cells(points: list[tuple[int, int, int]]) -> None:
    assert hypervolume(points, (4, 5, 3)) == counted_cells(points, (4, 5, 3))


@given(st.lists(st.one_of(POINT), min_size=1, max_size=9))
def test_the_front_is_what_nothing_else_dominates(points: list[tuple[int, int]]) -> None:
    front = [points[index] for index in front_indices(points)]
    assert sorted(set(front)) == front
    expected = {p for p in points if not any(dominates(q, p) and q != p for q in points)}
    assert set(front) == expected


@given(st.lists(DEEP, min_size=1, max_size=9))
def test_a_front_of_three_objectives_is_what_nothing_else_dominates(points: list[tuple[int, int, int]]) -> None:
    expected = {p for p in points if not any(dominates(q, p) and q != p for q in points)}
    assert {points[index] for index in front_indices(points)} == expected


def test_random_points_agree_with_monte_carlo() -> None:
    """10^5 draws: the standard error is 0.0016, so a true difference of 0.01 is seen and a false alarm is < 1e-8."""
    random = np.random.default_rng(1)
    points, draws = random.random((6, 3)), random.random((100_000, 3))
    hit = (draws[:, None, :] >= points[None]).all(axis=2).any(axis=1).mean()
    assert hypervolume(points, (1, 1, 1)) == pytest.approx(hit, abs=0.01)
    assert hypervolume(points[:, :2], (1, 1)) != pytest.approx(hit, abs=0.01)


def test_points_that_count_for_nothing() -> None:
    assert hypervolume([(1, 2), (9, 0), (math.inf, 0), (math.nan, 0)], (9, 2)) == 0
    assert hypervolume([], (1, 1)) == 0
    assert front_indices([(math.nan, 1.0), (1.0, math.nan)]).tolist() == []


def test_what_a_point_contributes_is_lost_without_it() -> None:
    assert contributions([(1, 3), (2, 2), (2, 3)], (4, 4)).tolist() == [1.0, 2.0, 0.0]


def test_steps_are_conservative() -> None:
    assert step_values([(2.0, 0.5), (1.0, 0.6), (3.0, 0.7)], [0.9, 1.0, 1.99, 2.0, 50.0]).tolist() == [
        math.inf,
        0.6,
        0.6,
        0.5,
        0.5,
    ]


def test_what_every_front_attains_is_the_worst_of_them() -> None:
    fronts = [[(1, 0.5), (2, 0.1)], [(1, 0.3)]]
    assert attained_by(fronts, 1.0, [1, 2]).tolist() == [0.5, 0.3]
    assert attained_by(fronts, 0.5, [1, 2]).tolist() == [0.3, 0.1]


@pytest.mark.parametrize(
    ("points", "reference", "says"),
    [
        ([(1, 1)], (1,), "expected 2 finite numbers"),
        ([(1, 1)], (1, math.inf), "expected 2 finite numbers"),
        ([(1,)], (1,), "two or three objectives"),
    ],
)
def test_what_cannot_be_measured_is_refused(points, reference, says) -> None:
    with pytest.raises(SearchError, match=says):
        hypervolume(points, reference)
    with pytest.raises(SearchError, match="share"):
        attained_by([[(1, 1)]], 0.0, [1])
