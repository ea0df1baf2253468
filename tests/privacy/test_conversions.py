"""Conversions: published values, high precision on the safe side, inverses, order, extremes, a third route."""

import math

import mpmath
import pytest
from dp_accounting import gaussian_mechanism
from dp_accounting.rdp import rdp_privacy_accountant
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.privacy.conversions import (
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    pure_delta,
    zcdp_delta,
    zcdp_epsilon,
    zcdp_rho,
)

EPSILONS = [1e-6, 1e-3, 0.1, 1.0, 10.0, 100.0, 1000.0]
DELTAS = [1e-300, 1e-100, 1e-12, 1e-9, 1e-6, 1e-3, 0.5]
epsilons = st.floats(1e-6, 1000.0)
deltas = st.floats(1e-300, 0.5)
rhos = st.floats(1e-12, 500.0)


def exact_zcdp_log_delta(t, rho, epsilon):
    """log of Prop. 4's bound at alpha = 1 + t."""
    return t * ((1 + t) * rho - epsilon) + t * mpmath.log(t) - (1 + t) * mpmath.log1p(t)


def exact_zcdp_delta(rho, epsilon):
    """The minimum of that bound over alpha, by bisecting its derivative, which increases with t."""
    rho, epsilon = mpmath.mpf(rho), mpmath.mpf(epsilon)
    low, high = mpmath.mpf(-2000), mpmath.mpf(300)  # of log t
    for _ in range(150):
        middle = (low + high) / 2
        t = mpmath.exp(middle)
        slope = rho * (1 + 2 * t) - epsilon - mpmath.log1p(1 / t)
        low, high = (middle, high) if slope < 0 else (low, middle)
    return mpmath.exp(exact_zcdp_log_delta(mpmath.exp(low), rho, epsilon))


def exact_gaussian_delta(mu, epsilon):
    """The normal curve by a different formula for its distribution function than the one under test."""
    mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
    return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)


@pytest.mark.parametrize(
    ("epsilon", "rho"),
    [
        (0.01, 2.09543e-6),
        (0.0316228, 1.92190e-5),
        (0.1, 1.77138e-4),
        (0.316228, 1.63470e-3),
        (1.0, 1.49731e-2),
        (3.16228, 0.133095),
        (10.0, 1.09079),
        (31.6228, 7.59778),
        (100.0, 42.3802),
    ],
)
def test_rho_for_epsilon_at_delta_1e_9(epsilon, rho):
    assert zcdp_rho(epsilon, 1e-9) == pytest.approx(rho, rel=5e-6)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.5, 0.238421708), (1.0, 0.126936738), (2.0, 0.020923636), (3.0, 0.001537185)]
)
def test_gaussian_curve_at_unit_cost(epsilon, delta):
    assert gaussian_delta(1.0, epsilon) == pytest.approx(delta, abs=5e-10)


@pytest.mark.parametrize(("delta", "sigma"), [(1e-5, 3.73063), (1e-6, 4.22468), (1e-7, 4.67866)])
def test_exact_gaussian_scale_at_epsilon_1(delta, sigma):
    assert 1 / gaussian_mu(1.0, delta) == pytest.approx(sigma, abs=5e-6)


def test_two_routes_to_a_scale_at_epsilon_1_delta_1e_6():
    assert 1 / gaussian_mu(1.0, 1e-6) == pytest.approx(4.224678889, abs=1e-9)
    assert math.sqrt(1 / (2 * zcdp_rho(1.0, 1e-6))) == pytest.approx(4.5309, abs=1e-4)


@settings(max_examples=60)
@given(rhos, epsilons)
def test_zcdp_delta_is_never_below_the_exact_minimum_and_close_to_it(rho, epsilon):
    with mpmath.workprec(600):
        exact = exact_zcdp_delta(rho, epsilon)
        found = zcdp_delta(rho, epsilon)
        assert exact <= found
        assert found <= exact * (1 + mpmath.mpf(10) ** -9) + mpmath.mpf(1e-323)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_zcdp_rho_is_sound_and_tight(epsilon, delta):
    rho = zcdp_rho(epsilon, delta)
    assert rho > 0
    with mpmath.workprec(600):
        assert exact_zcdp_delta(rho, epsilon) <= delta
        assert exact_zcdp_delta(rho * (1 + 1e-9), epsilon) > delta


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_gaussian_mu_is_sound_and_tight(epsilon, delta):
    mu = gaussian_mu(epsilon, delta)
    with mpmath.workprec(1000):
        assert exact_gaussian_delta(mu, epsilon) <= delta
        assert exact_gaussian_delta(mu * (1 + 1e-12), epsilon) > delta


@settings(max_examples=60)
@given(st.floats(1e-4, 40.0), st.floats(0.0, 100.0))
def test_gaussian_delta_is_never_below_the_exact_curve(mu, epsilon):
    with mpmath.workprec(1000):
        exact = exact_gaussian_delta(mu, epsilon)
        found = gaussian_delta(mu, epsilon)
        assert exact <= found
        assert found <= exact * (1 + mpmath.mpf(10) ** -15) + mpmath.mpf(1e-323)


@settings(max_examples=40)
@given(epsilons, deltas)
def test_a_rho_converted_and_back_keeps_the_promise(epsilon, delta):
    rho = zcdp_rho(epsilon, delta)
    assert zcdp_delta(rho, epsilon) <= delta * (1 + 1e-9)
    assert zcdp_epsilon(rho, delta) == pytest.approx(epsilon, rel=1e-9, abs=1e-12)


@settings(max_examples=40)
@given(rhos, deltas)
def test_zcdp_epsilon_is_sound(rho, delta):
    epsilon = zcdp_epsilon(rho, delta)
    with mpmath.workprec(600):
        assert exact_zcdp_delta(rho, epsilon) <= delta


@settings(max_examples=15)
@given(st.floats(1e-3, 30.0), st.floats(1e-200, 0.3))
def test_gaussian_epsilon_is_sound_and_least(mu, delta):
    epsilon = gaussian_epsilon(mu, delta)
    with mpmath.workprec(1000):
        assert exact_gaussian_delta(mu, epsilon) <= delta
        assert epsilon == 0 or exact_gaussian_delta(mu, epsilon * (1 - 1e-12)) > delta


@settings(max_examples=30)
@given(epsilons, deltas, st.floats(1.001, 10.0))
def test_more_epsilon_or_delta_buys_more_rho_and_mu(epsilon, delta, factor):
    larger = min(0.9, delta * factor)
    assert zcdp_rho(epsilon, delta) < zcdp_rho(epsilon * factor, delta)
    assert zcdp_rho(epsilon, delta) < zcdp_rho(epsilon, larger)
    assert gaussian_mu(epsilon, delta) < gaussian_mu(epsilon, larger)


@settings(max_examples=30)
@given(rhos, epsilons, st.floats(1.001, 10.0))
def test_more_rho_means_more_delta(rho, epsilon, factor):
    assert zcdp_delta(rho, epsilon) <= zcdp_delta(rho * factor, epsilon)
    assert zcdp_delta(rho, epsilon) >= zcdp_delta(rho, epsilon * factor)


@settings(max_examples=60)
@given(st.floats(1e-9, 2000.0), st.floats(0.0, 2000.0))
def test_pure_delta_is_never_below_randomised_response(pure, epsilon):
    found = pure_delta(pure, epsilon)
    with mpmath.workprec(8000):
        kept = mpmath.exp(pure) / (1 + mpmath.exp(pure))
        exact = max(mpmath.mpf(0), kept - mpmath.exp(epsilon) * (1 - kept))
        assert exact - mpmath.mpf(10) ** -900 <= found <= exact * (1 + mpmath.mpf(10) ** -15) + mpmath.mpf(1e-323)


@pytest.mark.parametrize(
    ("convert", "arguments", "lowest", "highest"),
    [
        (zcdp_delta, (50.0, 1.0), 0.999, 1.0),
        (zcdp_delta, (1e-300, 1.0), 0.0, 5e-324),
        (zcdp_delta, (1.0, math.inf), 0.0, 0.0),
        (zcdp_delta, (0.0, 1.0), 0.0, 0.0),
        (zcdp_epsilon, (0.0, 0.0), 0.0, 0.0),
        (zcdp_epsilon, (1e300, 1e-6), 1e300, 1.001e300),
        (zcdp_epsilon, (1.0, 0.0), math.inf, math.inf),
        (zcdp_epsilon, (1e-300, 1e-6), 0.0, 0.0),
        (zcdp_rho, (1.0, 0.0), 0.0, 0.0),
        (gaussian_delta, (1e-200, 0.0), 3.98e-201, 3.99e-201),
        (gaussian_delta, (1e-100, 1.0), 5e-324, 5e-324),
        (gaussian_delta, (1e-300, 1e300), 5e-324, 5e-324),
        (gaussian_delta, (1e300, 1.0), 1.0, 1.0),
        (gaussian_delta, (0.0, 1.0), 0.0, 0.0),
        (gaussian_delta, (1.0, math.inf), 0.0, 0.0),
        (gaussian_epsilon, (1e200, 1e-6), math.inf, math.inf),
        (gaussian_epsilon, (1.0, 0.0), math.inf, math.inf),
        (gaussian_epsilon, (1e-9, 0.1), 0.0, 0.0),
        (gaussian_mu, (1.0, 0.0), 0.0, 0.0),
    ],
)
def test_extremes(convert, arguments, lowest, highest):
    assert lowest <= convert(*arguments) <= highest


@pytest.mark.parametrize("sigma", [0.5, 1.0, 4.0, 50.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-2])
def test_agrees_with_dp_accounting(sigma, delta):
    epsilon = gaussian_epsilon(1 / sigma, delta)
    assert epsilon == pytest.approx(gaussian_mechanism.get_epsilon_gaussian(sigma, delta), rel=1e-6, abs=1e-9)
    orders = [1 + x / 100 for x in range(1, 2000)] + list(range(21, 4000))
    renyi = [order / (2 * sigma**2) for order in orders]
    by_renyi, _ = rdp_privacy_accountant.compute_epsilon(orders, renyi, delta)
    assert zcdp_epsilon(1 / (2 * sigma**2), delta) == pytest.approx(by_renyi, rel=2e-3)
