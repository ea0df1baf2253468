"""Hybrid means from data: each weighting, intervals that hold, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hush.core.errors import DataError
from hush.hybrid.client import Question
from hush.hybrid.mean_errors import MeanSetting, gaussian_scale
from hush.hybrid.mean_estimates import hybrid_mean
from hush.hybrid.opt_in import OptInNumbers
from hush.hybrid.promises import Promise
from hush.hybrid.simulated_reports import generator_of, simulate_reports
from hush.privacy.events import GaussianEvent
from hush.privacy.ledger import Ledger

PROMISE = Promise.of(1)


def survey(generator: Any, mechanism: str, n: int = 3000, c: float = 0.05) -> tuple[Any, Any, float]:
    question = Question.number("x", 0, 1, epsilon=1, mechanism=mechanism)
    x = generator.beta(2, 2, n)
    opted = int(c * n)
    people = OptInNumbers(x[:opted], 0, 1)
    return people, simulate_reports(question, x[opted:], generator), 0.5


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["laplace", "piecewise", "duchi"])
def test_intervals_of_both_groups_together_hold(mechanism: str) -> None:
    """400 surveys: 95 % intervals cover at least 93 %, more where reports say little of the variance of the numbers."""
    generator = generator_of(3)
    covered, errors, alone = [], [], []
    for _ in range(400):
        people, reports, truth = survey(generator, mechanism)
        found = hybrid_mean(people, reports, PROMISE)
        lower, upper = found.interval()
        covered.append(lower <= truth <= upper)
        errors.append((found.estimate - truth) ** 2)
        alone.append([(found.curator.estimate - truth) ** 2, (found.clients.estimate - truth) ** 2])
    assert np.mean(covered) >= 0.93
    assert np.mean(errors) < np.mean(alone, axis=0).min()


@pytest.mark.parametrize("mechanism", ["laplace", "piecewise"])
def test_the_variance_of_numbers_is_read_off_the_reports(mechanism: str) -> None:
    people, reports, _ = survey(generator_of(4), mechanism, n=400_000)
    found = hybrid_mean(people, reports, PROMISE)
    assert found.numbers_variance == pytest.approx(1 / 20, rel=0.3)


def test_weights_are_those_of_the_closed_forms() -> None:
    people, reports, _ = survey(generator_of(5), "laplace", n=200_000)
    n, c = 200_000, 0.05
    setting = MeanSetting.laplace(people=n, share=c, epsilon=1.0, variance=1 / 20)
    by = {name: hybrid_mean(people, reports, PROMISE, weight=name).weight for name in ("variance", "privacy", "size")}  # type: ignore[arg-type]
    assert by["variance"] == pytest.approx(setting.best_weight, rel=0.05)
    assert by["privacy"] == pytest.approx(setting.privacy_weight, rel=0.01)
    assert by["size"] == pytest.approx(c)
    assert hybrid_mean(people, reports, PROMISE, weight=0.25).weight == 0.25


def test_a_mean_has_a_plain_form() -> None:
    _, reports, _ = survey(generator_of(6), "laplace")
    found = hybrid_mean(OptInNumbers([0.5, 2.0] * 50, 0, 1), reports, PROMISE)
    assert "From 100 opt-in people" in repr(found)
    assert set(found.to_dict()) >= {"mean", "stddev", "lower", "upper", "curator weight", "curator", "clients"}


def test_bad_input_is_refused() -> None:
    people, reports, _ = survey(generator_of(6), "laplace")
    with pytest.raises(DataError, match="use the same"):
        hybrid_mean(OptInNumbers([1.0], 0, 2), reports, PROMISE)
    with pytest.raises(DataError, match="weight=1.5: expected a number from 0 to 1"):
        hybrid_mean(people, reports, PROMISE, weight=1.5)
    with pytest.raises(DataError, match="weight='best'"):
        hybrid_mean(people, reports, PROMISE, weight="best")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="only people who opted in"):
        hybrid_mean(reports, reports, PROMISE)  # type: ignore[arg-type]
    other = simulate_reports(Question.yes_no("q", epsilon=1), [0, 1, 1], generator_of(1))
    with pytest.raises(DataError, match="is not about a number"):
        hybrid_mean(people, other, PROMISE)


def test_a_weight_that_is_none_is_refused_before_the_charge(tmp_path: Path) -> None:
    people, reports, _ = survey(generator_of(6), "laplace")
    ledger = tmp_path / "budget.db"
    with pytest.raises(DataError, match="weight='best': expected a number from 0 to 1, or one of variance, privacy"):
        hybrid_mean(people, reports, Promise.of(1, ledger=str(ledger)), weight="best")  # type: ignore[arg-type]
    assert not ledger.exists()


GAUSSIAN = Promise.of(1, 1e-6)


def gaussian_survey(seed: int, n: int = 50_000, c: float = 0.01) -> tuple[OptInNumbers, Any]:
    question = Question.number("x", 0, 1, epsilon=1, delta="1e-6", mechanism="gaussian", steps=16)
    generator = generator_of(seed)
    x = generator.beta(2, 2, n)
    opted = int(c * n)
    return OptInNumbers(x[:opted], 0, 1), simulate_reports(question, x[opted:], generator)


def test_with_gaussian_noise_of_clients_the_curator_adds_it_too_at_the_promised_cost(tmp_path: Path) -> None:
    people, reports = gaussian_survey(7)
    path = tmp_path / "budget.db"
    found = hybrid_mean(people, reports, Promise.of(1, 1e-6, ledger=str(path)), weight="privacy")
    setting = MeanSetting.gaussian(people=50_000, share=0.01, epsilon=1.0, delta=1e-6, variance=1 / 20)
    assert found.weight == pytest.approx(setting.privacy_weight, rel=0.01)
    events = [event for book in Ledger.open_all(path) for event in book.events()]
    assert [type(event) for event in events] == [GaussianEvent]
    assert abs(found.estimate - 0.5) < 6 * found.stddev


def test_no_report_moves_the_privacy_weight_of_gaussian_noise() -> None:
    """Otherwise the epsilon against those who see the mean alone would not hold."""
    (people, one), (_, other) = gaussian_survey(8), gaussian_survey(9)
    assert one.counts.tolist() != other.counts.tolist()
    weights = [hybrid_mean(people, reports, GAUSSIAN, weight="privacy").weight for reports in (one, other)]
    assert weights[0] == weights[1]
    assert len({hybrid_mean(people, reports, GAUSSIAN).weight for reports in (one, other)}) == 2


def test_the_mean_has_the_noise_that_the_smaller_epsilon_is_computed_from() -> None:
    """80 means of the same people: the variance lies within a factor of 1.6, which 80 normal draws leave with 1e-3."""
    question = Question.number("x", 0, 1, epsilon=1, delta="1e-6", mechanism="gaussian", steps=16)
    people, generator = OptInNumbers([0.5] * 20, 0, 1), generator_of(10)
    found = [
        hybrid_mean(people, simulate_reports(question, [0.5] * 980, generator), GAUSSIAN, weight=0.3).estimate
        for _ in range(80)
    ]
    scale = gaussian_scale(1.0, 1e-6)
    expected = (0.3 * scale / 20) ** 2 + (0.7 * scale) ** 2 / 980
    assert np.var(found) == pytest.approx(expected, rel=0.6)


def test_gaussian_noise_without_a_delta_is_refused_before_the_charge(tmp_path: Path) -> None:
    people, reports = gaussian_survey(11, n=1000)
    with pytest.raises(DataError, match="give a promise with the question's delta"):
        hybrid_mean(people, reports, Promise.of(1, ledger=str(tmp_path / "budget.db")))
    assert not (tmp_path / "budget.db").exists()
