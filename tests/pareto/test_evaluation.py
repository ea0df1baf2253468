"""Evaluations: means and spreads, failed runs, infinite epsilon, oracles that return nonsense."""

import math

import numpy as np
import pytest

from hush.core.errors import DataError, SearchError
from hush.pareto.evaluation import NO_EPSILON, Evaluation, evaluate, merged

SEEDS = [(1, 0, run) for run in range(4)]


def noisy(settings, generator) -> float:
    return settings["a"] + generator.normal()


def test_an_evaluation_is_the_mean_of_independent_runs_that_seeds_repeat() -> None:
    first, second = (evaluate(lambda s: 2.0, noisy, {"a": 5.0}, SEEDS) for _ in range(2))
    assert first == second
    assert len(set(first.errors)) == 4
    assert first.error == pytest.approx(np.mean(first.errors))
    assert first.deviation == pytest.approx(np.std(first.errors, ddof=1))
    assert first.standard_error == pytest.approx(first.deviation / 2)
    assert first.quantile(0.0) == min(first.errors)


def test_an_infinite_epsilon_is_recorded_and_nothing_is_run() -> None:
    def never(settings, generator):
        raise AssertionError("ran")

    found = evaluate(lambda s: math.inf, never, {"a": 1}, SEEDS)
    assert (found.epsilon, found.errors, found.problem, found.usable) == (math.inf, (), NO_EPSILON, False)


@pytest.mark.parametrize(
    ("oracle", "says"),
    [
        (lambda s, g: math.nan, "4 of 4 runs failed: an error of nan"),
        (lambda s, g: math.inf, "an error of inf"),
        (lambda s, g: 1 / 0, "4 of 4 runs failed: ZeroDivisionError"),
        (lambda s, g: [][1], "IndexError"),
    ],
)
def test_failed_runs_are_recorded_by_kind(oracle, says: str) -> None:
    found = evaluate(lambda s: 1.0, oracle, {"a": 1}, SEEDS)
    assert says in found.problem
    assert not found.usable
    assert math.isnan(found.error)


def test_some_failed_runs_spoil_the_mean_of_the_others() -> None:
    found = evaluate(lambda s: 1.0, lambda s, g: 0.5 if g.random() < 0.5 else math.nan, {"a": 1}, SEEDS)
    assert 0 < len(found.errors) < 4
    assert math.isnan(found.error)
    assert not found.usable


def test_messages_of_strangers_are_not_recorded_and_those_of_hush_are() -> None:
    def leaks(settings, generator):
        raise ValueError("Ann earns 93,000")

    def refuses(settings, generator):
        raise DataError("the table has no rows")

    assert "Ann" not in evaluate(lambda s: 1.0, leaks, {}, SEEDS).problem
    assert "the table has no rows" in evaluate(lambda s: 1.0, refuses, {}, SEEDS).problem


@pytest.mark.parametrize("value", [None, "0.5", True, [0.5]])
def test_an_oracle_that_returns_no_number_is_refused(value) -> None:
    with pytest.raises(SearchError, match="the error oracle returned"):
        evaluate(lambda s: 1.0, lambda s, g: value, {}, SEEDS)
    with pytest.raises(SearchError, match="the privacy oracle returned"):
        evaluate(lambda s: value, lambda s, g: 0.5, {}, SEEDS)


@pytest.mark.parametrize("value", [-1.0, math.nan])
def test_an_epsilon_that_would_be_taken_for_privacy_is_refused(value: float) -> None:
    with pytest.raises(SearchError, match="at least 0"):
        evaluate(lambda s: value, lambda s, g: 0.5, {}, SEEDS)


def test_numbers_of_numpy_are_numbers() -> None:
    found = evaluate(lambda s: np.float64(2), lambda s, g: np.float32(0.5), {}, SEEDS[:1])
    assert (found.epsilon, found.errors) == (2.0, (0.5,))


def test_evaluations_of_the_same_settings_count_together() -> None:
    one, two = (Evaluation(settings={"a": 1}, epsilon=1.0, errors=errors) for errors in ((0.1,), (0.3, 0.5)))
    other = Evaluation(settings={"a": 2}, epsilon=1.0, errors=(0.2,))
    both, alone = merged([one, other, two])
    assert both.errors == (0.1, 0.3, 0.5)
    assert alone is other
