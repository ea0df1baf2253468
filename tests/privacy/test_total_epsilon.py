"""Totals of events: against exact sums, closed forms and each other; never in the spender's favour."""

import itertools
import math
from fractions import Fraction

import mpmath
import pytest
from dp_accounting.pld import common, privacy_loss_distribution
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.core.errors import BudgetError
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
    assert total.basis == ("PLD" if sigma < 3 else "GDP")
    assert exact_delta([law], total.epsilon) <= delta
    assert exact_delta([law], total.epsilon * 0.997) > delta


@pytest.mark.parametrize("sigma", [50, 100, 1000])
def test_one_gaussian_at_a_large_scale_follows_the_analytic_curve(sigma):
    total = total_epsilon(gauss(sigma), 1e-6)
    assert total.basis == "GDP"
    assert total.epsilon == pytest.approx(gaussian_epsilon(1 / sigma, 1e-6), rel=1e-3)
    assert total.epsilon < zcdp_epsilon(1 / (2 * sigma**2), 1e-6)


@pytest.mark.parametrize(("sigma", "count"), [(1, 1000), (2, 10_000), (30, 10), (100, 100), (200, 1000)])
def test_many_gaussians_follow_the_analytic_curve(sigma, count):
    total = total_epsilon(ComposedEvent(((gauss(sigma), count),)), 1e-6)
    curve = gaussian_epsilon(math.sqrt(count) / sigma, 1e-6)
    assert total.basis == ("PLD" if sigma < 3 else "GDP")
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
    many = GaussianEvent(Fraction(sigma) ** 2, Fraction(2))  # on two cells
    pure = [laplace(1 / Fraction(epsilon)) for epsilon in epsilons]
    total = total_epsilon([many, *pure], delta)
    assert total.basis == "PLD"
    laws = [doubled(sigma), *({0: kept(e), 1: 1 - kept(e)} for e in epsilons)]
    assert mixed_delta(laws, total.epsilon) <= delta
    assert mixed_delta(laws, total.epsilon * 0.975) > delta
    assert total.epsilon < total_epsilon([many], delta).epsilon + float(sum(epsilons))
    assert total.epsilon < zcdp_epsilon(float(compose([many, *pure]).cost.rho), delta)


def kept(epsilon) -> mpmath.mpf:
    """The probability that randomised response tells the truth."""
    return 1 / (1 + mpmath.exp(-mpmath.mpf(Fraction(epsilon).numerator) / Fraction(epsilon).denominator))


def doubled(sigma: int) -> dict[int, tuple[mpmath.mpf, mpmath.mpf]]:
    """The probabilities of the sum of two noisy counts, which decides their loss, and if both were larger by 1.

    The loss of two draws of discrete Gaussian noise depends on their sum alone.
    """
    law = discrete_gaussian(sigma, 14 * sigma)
    sums: dict[int, mpmath.mpf] = {}
    for (x, p), (y, q) in itertools.product(law.items(), repeat=2):
        sums[x + y] = sums.get(x + y, mpmath.mpf(0)) + p * q
    factor = 1 / mpmath.mpf(sigma) ** 2
    return {total: (p, p * mpmath.exp((total - 1) * factor)) for total, p in sums.items()}


def mixed_delta(laws: list[dict[int, mpmath.mpf]], epsilon: float) -> mpmath.mpf:
    """The exact delta of noisy counts, given as pairs of probabilities, followed by randomised responses."""
    gaussian, *responses = laws
    factor, terms = mpmath.exp(mpmath.mpf(epsilon)), []
    for outcome in itertools.product(gaussian, *([0, 1] for _ in responses)):
        p, q = gaussian[outcome[0]]
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
        ([gauss(5)], 1e-6, 0.8358, "GDP"),
        ([gauss(100)] * 100, 1e-9, 0.53516, "GDP"),
        ([laplace(10)] * 100, 1e-6, 4.7746, "PLD"),
        ([SelectionEvent(Fraction(1, 10))] * 100, 1e-6, 2.4191, "zCDP"),
        ([GaussianEvent(Fraction(25), Fraction(2))], 1e-6, 1.2144, "GDP"),
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


def test_gaussian_noise_on_many_cells_is_never_below_its_continuous_curve_and_close_to_it():
    events = [GaussianEvent(Fraction(70 + n, 3), Fraction(2)) for n in range(20)]
    curve = gaussian_epsilon(math.sqrt(2 * compose(events).cost.rho), 1e-9)
    assert curve < total_epsilon(events, 1e-9).epsilon < 1.003 * curve


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


@settings(max_examples=25)
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
        (gauss(1000), 1e-6),
        (ComposedEvent(((gauss(1000), 10**9),)), 1e-6),
        ([gauss(100 + n) for n in range(100)], 1e-6),
        (ComposedEvent(((gauss(100), 100),)), 1e-15),
        (gauss(5), 1e-300),
    ],
)
def test_any_number_and_scale_of_gaussians_follows_the_curve(events, delta):
    total = total_epsilon(events, delta)
    rho = compose([events] if isinstance(events, Event) else events).cost.rho
    assert total.basis == "GDP"
    assert gaussian_epsilon(math.sqrt(2 * rho), delta) <= total.epsilon
    assert total.epsilon <= zcdp_epsilon(float(rho), delta)


@pytest.mark.parametrize(
    ("events", "delta"),
    [
        (gauss(Fraction(1, 10**6)), 1e-6),  # losses beyond any use
        ([gauss(1), laplace(1)], 1e-15),  # below the rounding errors of listed losses
    ],
)
def test_another_route_stands_where_losses_cannot_be_listed(events, delta):
    assert total_epsilon(events, delta).basis in ("zCDP", "pure")


@pytest.mark.parametrize(
    "events",
    [
        [gauss(2)] * 3 + [laplace(4)] * 5,
        [gauss(40)] * 10 + [laplace(30)] * 20,
        [laplace(3), laplace(7), laplace(11)],
        [gauss(1), gauss(2), gauss(30)],
    ],
    ids=["narrow noise", "wide noise", "pure noise", "both"],
)
@pytest.mark.parametrize("delta", [1e-9, 1e-5])
def test_a_second_implementation_agrees(events, delta):
    """The privacy loss distributions of dp-accounting, on a fine grid and rounded up."""
    composed = None
    for event in events:
        if isinstance(event, GaussianEvent):
            loss = privacy_loss_distribution.from_discrete_gaussian_mechanism(
                math.sqrt(event.variance), sensitivity=1, value_discretization_interval=1e-4
            )
        else:
            parameters = common.DifferentialPrivacyParameters(float(event.cost.epsilon), 0.0)
            loss = privacy_loss_distribution.from_privacy_parameters(parameters, value_discretization_interval=1e-4)
        composed = loss if composed is None else composed.compose(loss)
    assert total_epsilon(events, delta).epsilon == pytest.approx(composed.get_epsilon_for_delta(delta), rel=0.01)


@pytest.mark.parametrize("scale", [Fraction(1, 10**150), Fraction(1, 10**400)])
def test_events_beyond_floats_have_no_useful_epsilon_and_no_raw_error(scale):
    """As a ledger that somebody wrote by hand may hold them."""
    for event in (gauss(scale), laplace(scale), GaussianEvent(scale, Fraction(2))):
        assert total_epsilon(event, 1e-6).epsilon > 1e100
        assert total_epsilon([event, gauss(5), laplace(3)], 1e-6).epsilon > 1e100


def test_a_thousand_entries_are_listed_once_per_kind():
    events = [gauss(10 + n) for n in range(1000)] + [laplace(50 + n % 7) for n in range(1000)]
    total = total_epsilon(events, 1e-6)
    assert total.basis == "PLD"
    assert total.epsilon < zcdp_epsilon(float(compose(events).cost.rho), 1e-6)


def test_text_says_how_it_is_known():
    assert str(TotalEpsilon(0.8345612, 1e-6, "PLD")) == "epsilon=0.83457 at delta=1e-06 (PLD)"


def test_a_delta_of_an_event_is_taken_from_the_total() -> None:
    found = DiscoveryEvent(Fraction(1), Fraction(1, 1000), 2)
    assert total_epsilon(found, 0.01).epsilon <= 2
    assert total_epsilon(found, 0.002).epsilon == 2
    assert total_epsilon(found, 0.0019).epsilon == math.inf
    both = total_epsilon([found, gauss(2)], 0.01)
    assert both.epsilon >= total_epsilon([LaplaceEvent(Fraction(1), Fraction(1))] * 2 + [gauss(2)], 0.008).epsilon
