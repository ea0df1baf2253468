"""Lower bounds: exact rates give what is known in closed form, and bounds hold as often as they say."""

import math

import numpy as np
import pytest
from scipy import stats

from hush.audit.lower_bounds import Rates, best_threshold, provable, rates_of


@pytest.mark.parametrize(("hits", "runs"), [(0, 10), (3, 10), (10, 10), (250, 500)])
def test_rates_are_those_of_clopper_and_pearson(hits: int, runs: int) -> None:
    found, each = Rates.of(hits, hits, runs, 0.98), 0.98
    exact = stats.binomtest(hits, runs).proportion_ci(confidence_level=each, method="exact")
    assert found.present == pytest.approx(exact.low)
    assert found.absent == pytest.approx(exact.high)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_randomised_response_proves_its_epsilon(epsilon: float) -> None:
    rates = Rates(1 / (1 + math.exp(-epsilon)), 1 / (1 + math.exp(epsilon)))
    assert rates.epsilon == pytest.approx(epsilon)
    assert rates.epsilon_at(0.01) < epsilon
    assert rates.rho <= epsilon**2 / 2  # what randomised response satisfies


@pytest.mark.parametrize("mu", [0.2, 1.0, 2.0, 5.0])
@pytest.mark.parametrize("shift", [-1.0, 0.0, 1.5])
def test_a_test_on_gaussian_noise_never_proves_more_than_was_lost(mu: float, shift: float) -> None:
    rates = Rates(stats.norm.cdf(mu / 2 + shift), stats.norm.cdf(shift - mu / 2))
    assert rates.mu == pytest.approx(mu)
    assert 0.3 * mu**2 / 2 < rates.rho <= mu**2 / 2 or abs(shift) >= 1
    assert rates.rho <= mu**2 / 2


def test_a_test_that_tells_nothing_proves_nothing() -> None:
    for rates in (Rates(0.5, 0.5), Rates(0.2, 0.4), Rates(0.0, 1.0)):
        assert rates.rho == rates.epsilon == rates.mu == 0.0


def test_divergences_are_those_of_coins() -> None:
    """rho against the largest of the divergences, integrated by hand."""
    p, q = 0.9, 0.2
    orders = np.linspace(1.001, 60, 5000)
    both = [
        np.log(a**orders * b ** (1 - orders) + (1 - a) ** orders * (1 - b) ** (1 - orders)) / (orders - 1) / orders
        for a, b in ((p, q), (q, p))
    ]
    assert Rates(p, q).rho == pytest.approx(max(float(each.max()) for each in both), rel=2e-3)


def test_bounds_hold_as_often_as_they_say() -> None:
    """2,000 audits of Gaussian noise at confidence 0.8: at most 20 % exceed the truth, up to 6 standard errors."""
    random = np.random.default_rng(1)
    hits = random.binomial(100, [[stats.norm.cdf(0.5)], [stats.norm.cdf(-0.5)]], size=(2, 2000))
    wrong = sum(Rates.of(a, b, 100, 0.8).mu > 1.0 for a, b in hits.T.tolist())
    assert 0 < wrong <= 2000 * 0.2 + 6 * math.sqrt(2000 * 0.2 * 0.8)


def test_the_threshold_is_between_two_groups_of_scores() -> None:
    present, absent = np.arange(10.0, 20.0), np.arange(0.0, 10.0)
    threshold = best_threshold(present, absent, lambda rates: rates.rho, 0.9, times=3)
    assert threshold == 9.5
    rates = rates_of(present, absent, threshold, 0.9)
    assert rates == Rates.of(10, 0, 10, 0.9)


def test_more_runs_prove_smaller_faults() -> None:
    factors = [provable(0.5, pure=False, runs=runs, confidence=0.999) for runs in (100, 1000, 10_000)]
    assert factors == sorted(factors, reverse=True)
    assert 1.5 < factors[-1] < 2.5
    assert math.isinf(provable(50.0, pure=True, runs=100, confidence=0.999))
