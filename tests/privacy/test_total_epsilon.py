"""Totals of events: against exact sums, closed forms and each other; never in the spender's favour."""

import itertools
import math
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.core.errors import BudgetError
from hush.privacy import total_epsilon as composition
from hush.privacy.conversions import gaussian_epsilon, pure_delta, zcdp_epsilon
from hush.privacy.events import (
    ComposedEvent,
    DiscoveryEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    NonPrivateEvent,
    SelectionEvent,
    compose,
)
from hush.privacy.total_epsilon import TotalEpsilon, total_epsilon


def gauss(sigma) -> GaussianEvent:
    return GaussianEvent(Fraction(sigma) ** 2, Fraction(1), True)


def laplace(scale) -> LaplaceEvent:
    return LaplaceEvent(Fraction(scale), Fraction(1))


def discrete_gaussian(sigma, reach: int) -> dict[int, mpmath.mpf]:
    weights = {x: mpmath.exp(-(mpmath.mpf(x) ** 2) / (2 * mpmath.mpf(sigma) ** 2)) for x in range(-reach, reach + 1)}
    total = mpmath.fsum(weights.values())
    return {x: weight / total for x, weight in weights.items()}


def exact_delta(laws: list[dict[int, mpmath.mpf]], epsilon: float) -> mpmath.mpf:
    """sum over outcomes of max(0, P - e^epsilon Q), for noise laws on counts that differ by one in each."""
    factor, terms = mpmath.exp(mpmath.mpf(epsilon)), []
    for outcome in itertools.product(*(range(min(law), max(law) + 2) for law in laws)):
        p = q = mpmath.mpf(1)
        for x, law in zip(outcome, laws, strict=True):
            p *= law.get(x, 0)
            q *= law.get(x - 1, 0)
        terms.append(max(mpmath.mpf(0), p - factor * q))
    return mpmath.fsum(terms)


@pytest.mark.parametrize("sigma", [0.3, 1, 2.5, 10, 40])
@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-3])
def test_one_gaussian_is_never_below_the_exact_discrete_value_and_close_to_it(sigma, delta):
    total = total_epsilon(gauss(sigma), delta)
    law = discrete_gaussian(sigma, math.ceil(15 * sigma) + 5)
    assert total.basis == "PLD"
    assert exact_delta([law], total.epsilon) <= delta
    assert exact_delta([law], total.epsilon * 0.997) > delta


@pytest.mark.parametrize("sigma", [50, 100, 1000])
def test_one_gaussian_at_a_large_scale_follows_the_analytic_curve(sigma):
    total = total_epsilon(gauss(sigma), 1e-6)
    assert total.basis == "PLD"
    assert total.epsilon == pytest.approx(gaussian_epsilon(1 / sigma, 1e-6), rel=1e-3)
    assert total.epsilon < zcdp_epsilon(1 / (2 * sigma**2), 1e-6)


@pytest.mark.parametrize(("sigma", "count"), [(30, 10), (100, 100), (200, 1000)])
def test_many_gaussians_follow_the_analytic_curve(sigma, count):
    total = total_epsilon(ComposedEvent(((gauss(sigma), count),)), 1e-6)
    curve = gaussian_epsilon(math.sqrt(count) / sigma, 1e-6)
    assert total.basis == "PLD"
    assert curve * (1 - 1e-6) <= total.epsilon <= curve * 1.01


@pytest.mark.parametrize("sigmas", [(0.8, 0.8), (1, 2), (1.5, 1.5, 1.5)])
@pytest.mark.parametrize("delta", [1e-7, 1e-4])
def test_a_few_gaussians_are_never_below_the_exact_discrete_value(sigmas, delta):
    total = total_epsilon([gauss(sigma) for sigma in sigmas], delta)
    laws = [discrete_gaussian(sigma, math.ceil(8 * sigma)) for sigma in sigmas]
    assert total.basis == "PLD"
    assert exact_delta(laws, total.epsilon) <= delta
    assert exact_delta(laws, total.epsilon * 0.99) > delta


@pytest.mark.parametrize("count", [1, 2, 5, 40])
def test_laplace_is_never_below_the_exact_composition_of_randomised_response(count):
    total = total_epsilon([laplace(10)] * count, 1e-6)
    terms = []
    with mpmath.workdps(50):
        kept = mpmath.exp(mpmath.mpf(1) / 10) / (1 + mpmath.exp(mpmath.mpf(1) / 10))
        for kinds in range(count + 1):
            p = kept ** (count - kinds) * (1 - kept) ** kinds
            q = kept**kinds * (1 - kept) ** (count - kinds)
            terms.append(math.comb(count, kinds) * max(mpmath.mpf(0), p - mpmath.exp(total.epsilon) * q))
        assert mpmath.fsum(terms) <= 1e-6
    assert total.epsilon <= float(Fraction(count, 10))


@pytest.mark.parametrize("sigma", [2, 3])
@pytest.mark.parametrize("epsilons", [(1,), (Fraction(1, 2), Fraction(1, 2)), (2, 1)])
@pytest.mark.parametrize("delta", [1e-9, 1e-5])
def test_gaussian_noise_on_many_cells_with_laplace_noise_is_near_the_exact_composition(sigma, epsilons, delta):
    many = GaussianEvent(2 * Fraction(sigma) ** 2, Fraction(2))  # as private as noise of sigma on one cell
    pure = [laplace(1 / Fraction(epsilon)) for epsilon in epsilons]
    total = total_epsilon([many, *pure], delta)
    assert total.basis == "Renyi"
    fourths = [GaussianEvent(4 * many.variance, many.sensitivity_l2_squared)] * 4  # as private, in four charges
    assert total_epsilon([*fourths, *pure], delta).epsilon == total.epsilon
    laws = [discrete_gaussian(sigma, 14 * sigma), *({0: kept(e), 1: 1 - kept(e)} for e in epsilons)]
    assert mixed_delta(laws, total.epsilon) <= delta
    assert mixed_delta(laws, total.epsilon * 0.92) > delta
    assert total.epsilon < total_epsilon([many], delta).epsilon + float(sum(epsilons))
    assert total.epsilon < zcdp_epsilon(float(compose([many, *pure]).cost.rho), delta)


def kept(epsilon) -> mpmath.mpf:
    """The probability that randomised response tells the truth."""
    return 1 / (1 + mpmath.exp(-mpmath.mpf(Fraction(epsilon).numerator) / Fraction(epsilon).denominator))


def mixed_delta(laws: list[dict[int, mpmath.mpf]], epsilon: float) -> mpmath.mpf:
    """The exact delta of the noise law of a count, followed by randomised responses."""
    gaussian, *responses = laws
    factor, terms = mpmath.exp(mpmath.mpf(epsilon)), []
    for outcome in itertools.product(range(min(gaussian), max(gaussian) + 2), *([0, 1] for _ in responses)):
        p, q = gaussian.get(outcome[0], mpmath.mpf(0)), gaussian.get(outcome[0] - 1, mpmath.mpf(0))
        for answer, response in zip(outcome[1:], responses, strict=True):
            p, q = p * response[answer], q * response[1 - answer]
        terms.append(max(mpmath.mpf(0), p - factor * q))
    return mpmath.fsum(terms)


def test_one_laplace_gains_from_delta_what_randomised_response_gains():
    total = total_epsilon(laplace(1), 0.1)
    assert total.basis == "PLD"
    assert pure_delta(1.0, total.epsilon) <= 0.1
    assert pure_delta(1.0, total.epsilon * 0.999) > 0.1


@pytest.mark.parametrize(
    ("events", "delta", "epsilon", "basis"),
    [
        ([gauss(5)], 1e-6, 0.8350, "PLD"),
        ([gauss(100)] * 100, 1e-9, 0.5375, "PLD"),
        ([laplace(10)] * 100, 1e-6, 4.794, "PLD"),
        ([SelectionEvent(Fraction(1, 10))] * 100, 1e-6, 2.4191, "zCDP"),
        ([GaussianEvent(Fraction(25), Fraction(2))], 1e-6, 1.3050, "zCDP"),
        ([laplace(2), SelectionEvent(Fraction(1))], 0.0, 1.5, "pure"),
        ([laplace(Fraction(1, 10000))], 1e-6, 10000.0, "pure"),
    ],
)
def test_fixtures(events, delta, epsilon, basis):
    total = total_epsilon(events, delta)
    assert total.epsilon == pytest.approx(epsilon, rel=2e-4)
    assert total.basis == basis
    assert total.delta == delta


def test_pure_epsilon_is_rounded_up():
    total = total_epsilon([laplace(3)] * 5, 0.0)
    assert total.basis == "pure"
    assert Fraction(5, 3) <= Fraction(total.epsilon) < Fraction(5, 3) + Fraction(1, 10**15)


def test_zcdp_is_that_of_the_exact_sum_rounded_up():
    events = [GaussianEvent(Fraction(7 + n, 3), Fraction(2)) for n in range(20)]
    rho = compose(events).cost.rho
    total = total_epsilon(events, 1e-9)
    assert zcdp_epsilon(float(rho), 1e-9) * (1 - 1e-12) <= total.epsilon
    assert total.epsilon <= zcdp_epsilon(math.nextafter(math.nextafter(float(rho), 9), 9), 1e-9)


simple = st.one_of(
    st.builds(gauss, st.integers(2, 60)),
    st.builds(laplace, st.integers(5, 60)),
    st.builds(SelectionEvent, st.fractions(Fraction(1, 100), Fraction(1, 2))),
    st.builds(GaussianEvent, st.fractions(5, 500), st.fractions(1, 5)),
)


@settings(max_examples=25)
@given(st.lists(simple, min_size=1, max_size=5), simple, st.sampled_from([1e-9, 1e-6, 1e-3]))
def test_more_events_never_cost_less_and_no_route_is_beaten_by_another(events, more, delta):
    total, larger = total_epsilon(events, delta), total_epsilon([*events, more], delta)
    cost = compose(events).cost
    assert total.epsilon <= larger.epsilon * 1.01
    assert total.epsilon <= zcdp_epsilon(float(cost.rho), delta) * (1 + 1e-9)
    assert total.epsilon >= total_epsilon(events, delta * 10).epsilon * 0.99


@given(st.lists(simple, max_size=4))
def test_order_and_grouping_do_not_matter(events):
    grouped = compose([compose(events[:2]), *events[2:]])
    assert total_epsilon(grouped, 1e-6).epsilon == pytest.approx(total_epsilon(events[::-1], 1e-6).epsilon, rel=1e-4)


def test_nothing_costs_nothing():
    assert total_epsilon([], 1e-6).epsilon == 0.0
    assert total_epsilon([], 0.0).epsilon == 0.0


@pytest.mark.parametrize("events", [NonPrivateEvent("raw"), [gauss(5), NonPrivateEvent()]])
def test_what_is_not_private_is_infinite(events):
    assert total_epsilon(events, 1e-6) == TotalEpsilon(math.inf, 1e-6, "zCDP")


def test_gaussian_noise_has_no_epsilon_without_delta():
    assert total_epsilon(gauss(5), 0.0).epsilon == math.inf


def test_unknown_events_are_refused():
    with pytest.raises(BudgetError, match="has no price"):
        total_epsilon([Event()], 1e-6)


@pytest.mark.parametrize("delta", [1.0, -1e-9, math.nan, math.inf, True, "1e-6", None])
def test_delta_is_a_probability(delta):
    with pytest.raises(BudgetError, match="delta=.*expected a (finite )?number from 0 to 0.5"):
        total_epsilon(gauss(5), delta)


@pytest.mark.parametrize(
    ("events", "delta"),
    [
        (gauss(10**6), 1e-6),  # too many noise values
        (ComposedEvent(((gauss(1000), 10**9),)), 1e-6),  # too many times
        ([gauss(100 + n) for n in range(100)], 1e-6),  # too many kinds
        (ComposedEvent(((gauss(100), 100),)), 1e-15),  # below the error of the transforms
        (gauss(Fraction(1, 10**6)), 1e-6),  # infinite losses
        (gauss(5), 1e-300),
    ],
)
def test_zcdp_stands_where_distributions_are_too_slow_or_not_sound(events, delta):
    total = total_epsilon(events, delta)
    rho = compose([events] if isinstance(events, Event) else events).cost.rho
    assert total == TotalEpsilon(pytest.approx(zcdp_epsilon(float(rho), delta), rel=1e-9), delta, "zCDP")


class Broken:
    """A privacy loss distribution whose numbers cannot be trusted."""

    def __init__(self, epsilon: float, delta: float) -> None:
        self.epsilon, self.delta = epsilon, delta
        self._pmf_remove = type("Pmf", (), {"size": 10})

    def get_epsilon_for_delta(self, delta: float) -> float:
        return self.epsilon

    def get_delta_for_epsilon(self, epsilon: float) -> float:
        return self.delta


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(math.nan, 0.0), (-1.0, 0.0), (math.inf, 0.0), (0.1, math.nan), (0.1, -1e-9), (0.1, 1e-5)]
)
def test_numbers_that_make_no_sense_are_ignored(monkeypatch, epsilon, delta):
    monkeypatch.setattr(composition._Loss, "distribution", lambda self, step: Broken(epsilon, delta))
    assert total_epsilon(gauss(5), 1e-6).basis == "zCDP"


@pytest.mark.parametrize("error", [ValueError, OverflowError, ZeroDivisionError, AttributeError])
def test_a_failure_in_the_library_is_not_a_failure_here(monkeypatch, error):
    def fail(self: object, step: float) -> None:
        raise error("broken")

    monkeypatch.setattr(composition._Loss, "distribution", fail)
    assert total_epsilon(gauss(5), 1e-6).basis == "zCDP"


def test_text_says_how_it_is_known():
    assert str(TotalEpsilon(0.8345612, 1e-6, "PLD")) == "epsilon=0.83457 at delta=1e-06 (PLD)"


def test_a_delta_of_an_event_is_taken_from_the_total() -> None:
    found = DiscoveryEvent(Fraction(1), Fraction(1, 1000), 2)
    assert total_epsilon(found, 0.01).epsilon <= 2
    assert total_epsilon(found, 0.002).epsilon == 2
    assert total_epsilon(found, 0.0019).epsilon == math.inf
    both = total_epsilon([found, gauss(2)], 0.01)
    assert both.epsilon >= total_epsilon([LaplaceEvent(Fraction(1), Fraction(1))] * 2 + [gauss(2)], 0.008).epsilon
