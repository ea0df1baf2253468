"""Closed forms of improvement against brute force and Monte Carlo."""

import numpy as np
import pytest

from hush.pareto.hypervolume import hypervolume
from hush.pareto.improvement import (
    added_hypervolume,
    expected_improvement,
    hvpoi,
    probability_of_improvement,
)

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
