"""Fronts, hypervolumes and closed forms of improvement, against brute force and Monte Carlo."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.core.errors import SearchError
from hush.pareto.hypervolume import (
    added_hypervolume,
    attained_by,
    dominates,
    expected_improvement,
    front_indices,
    hvpoi,
    hypervolume,
    probability_of_improvement,
    step_values,
)

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


FRONT = np.array([(0.5, 0.9), (1.0, 0.6), (2.0, 0.55), (4.0, 0.2), (3.0, 0.9), (9.0, 0.1)])
REFERENCE = (8.0, 1.0)


def test_what_a_point_adds_is_the_difference_of_hypervolumes() -> None:
    points = np.random.default_rng(1).uniform((0, -0.1), (9, 1.2), (200, 2))
    before = hypervolume(FRONT, REFERENCE)
    after = [hypervolume(np.vstack([FRONT, point]), REFERENCE) - before for point in points]
    assert added_hypervolume(FRONT, REFERENCE, points) == pytest.approx(after, abs=1e-12)
    assert max(after) > 0.1


def test_the_expected_improvement_is_the_mean_over_the_error() -> None:
    """20,000 antithetic draws; the tolerance is about five standard errors."""
    random = np.random.default_rng(2)
    epsilon, mean, deviation = np.array([0.2, 1.5, 3.9, 7.5]), np.array([0.8, 0.5, 0.3, 0.4]), np.full(4, 0.15)
    half = random.standard_normal(10_000)
    draws = np.concatenate([half, -half])
    exact = expected_improvement(FRONT, REFERENCE, epsilon, mean, deviation)
    for i in range(4):
        points = np.column_stack([np.full(len(draws), epsilon[i]), mean[i] + deviation[i] * draws])
        gains = added_hypervolume(FRONT, REFERENCE, points)
        assert exact[i] == pytest.approx(gains.mean(), abs=5 * gains.std() / np.sqrt(len(draws)))
    wrong = expected_improvement(FRONT, REFERENCE, epsilon, mean + 0.05, deviation)
    assert wrong[1] != pytest.approx(exact[1], rel=0.05)


def test_a_certain_error_adds_what_it_adds_and_epsilon_beyond_the_reference_nothing() -> None:
    points = np.array([(0.7, 0.5), (8.0, 0.0), (20.0, 0.0)])
    gains = expected_improvement(FRONT, REFERENCE, points[:, 0], points[:, 1], np.full(3, 1e-9))
    assert gains == pytest.approx(added_hypervolume(FRONT, REFERENCE, points))
    assert gains[1:].tolist() == [0.0, 0.0]


def test_without_a_front_the_whole_box_can_be_won() -> None:
    none = np.zeros((0, 2))
    gain = expected_improvement(none, REFERENCE, np.array([2.0]), np.array([0.25]), np.array([1e-9]))
    assert gain[0] == pytest.approx(6 * 0.75)


def test_the_probability_is_that_no_point_dominates() -> None:
    """50,000 draws: standard error at most 0.0023."""
    random = np.random.default_rng(3)
    means, deviations = np.array([(1.5, 0.5), (5.0, 0.7), (0.1, 0.95)]), np.array([(0.5, 0.1), (1.0, 0.3), (0.3, 0.1)])
    exact = probability_of_improvement(FRONT, (means[:, 0], means[:, 1]), (deviations[:, 0], deviations[:, 1]))
    for mean, deviation, chance in zip(means, deviations, exact, strict=True):
        draws = mean + deviation * random.standard_normal((50_000, 2))
        free = ~(FRONT[None] <= draws[:, None]).all(axis=2).any(axis=1)
        assert chance == pytest.approx(free.mean(), abs=0.012)
    assert 0.02 < exact[1] < 0.5


def test_the_documents_rule_is_the_product_of_both() -> None:
    mean, deviation = (np.array([1.5, 5.0]), np.array([0.3, 0.1])), (np.full(2, 0.4), np.full(2, 0.1))
    product = added_hypervolume(FRONT, REFERENCE, np.column_stack(mean)) * probability_of_improvement(
        FRONT, mean, deviation
    )
    assert hvpoi(FRONT, REFERENCE, mean, deviation) == pytest.approx(product)
    assert product.min() > 0
