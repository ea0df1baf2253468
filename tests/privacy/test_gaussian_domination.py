"""Gaussian domination: the stated mu against the exact tests of small mechanisms, and against their exact deltas."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from hush.privacy.conversions import gaussian_delta
from hush.privacy.events import (
    DiscoveryEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    NoisyChoiceEvent,
    NonPrivateEvent,
    SelectionEvent,
)
from hush.privacy.gaussian_domination import dominating_mu_squared

VARIANCES = [Fraction(1, 30), Fraction(1, 4), Fraction(1, 2), 1, Fraction(5, 4), 2, 4, 25, 144]


def dominating_mu(event: Event) -> mpmath.mpf:
    squared = dominating_mu_squared(event)
    assert squared is not None
    return mpmath.sqrt(mpmath.mpf(squared.numerator) / squared.denominator)


def probabilities(variance: Fraction | int) -> dict[int, mpmath.mpf]:
    """The law of discrete Gaussian noise; less than 1e-200 is left out."""
    rate = mpmath.mpf(Fraction(variance).denominator) / (2 * Fraction(variance).numerator)
    reach = math.ceil(31 * math.sqrt(variance)) + 3
    weights = {y: mpmath.exp(-rate * y * y) for y in range(-reach, reach + 1)}
    total = mpmath.fsum(weights.values())
    return {y: weight / total for y, weight in weights.items()}


def normal_quantile(above: mpmath.mpf) -> mpmath.mpf:
    """z with P(N > z) = above, for above <= 1/2."""
    start = mpmath.sqrt(mpmath.mpf(2) * mpmath.log(1 / above)) if above < 0.1 else mpmath.mpf("0.5")
    return mpmath.findroot(lambda z: mpmath.log(mpmath.erfc(z / mpmath.sqrt(2)) / 2) - mpmath.log(above), start)


def middle_gap(variance: Fraction | int) -> mpmath.mpf:
    return 2 * normal_quantile(mpmath.fsum(p for y, p in probabilities(variance).items() if y >= 1))


@pytest.mark.parametrize("variance", VARIANCES)
def test_gaps_fall_from_the_middle_outwards_and_none_is_above_the_stated_mu(variance: Fraction) -> None:
    with mpmath.workprec(300):
        law = probabilities(variance)
        tails = list(itertools.accumulate(law[y] for y in sorted(law, reverse=True)))[::-1]  # P(Y >= k) by place of k
        middle = max(law)
        farthest = min(math.ceil(12 * math.sqrt(variance)) + 3, 40)
        places = [normal_quantile(tails[middle + k]) for k in range(1, farthest)]
        gaps = [2 * places[0], *(b - a for a, b in itertools.pairwise(places))]
        assert all(after < before for before, after in itertools.pairwise(gaps))
        stated = dominating_mu(GaussianEvent(Fraction(variance), Fraction(1), True))
        assert gaps[0] < stated < gaps[0] * (1.002 if variance >= 1 else 1.2)


def test_the_stated_mu_is_above_the_middle_gap_at_every_scale() -> None:
    """On a fine grid up to sigma = 12; beyond, by the series of `test_the_bound_holds_for_all_larger_scales`."""
    with mpmath.workprec(120):
        for exponent in range(-60, 36):
            variance = Fraction(2) ** (exponent // 5) * (5 + exponent % 5) / 5
            assert middle_gap(variance) < dominating_mu(GaussianEvent(variance, Fraction(1), True)), variance


def test_the_bound_holds_for_all_larger_scales() -> None:
    """With a = 1/sigma and x = mu/2, x - x^3/6 < (Phi(x) - 1/2) sqrt(2 pi), which must reach a/2 > P(Y = 0) sqrt(pi/2).

    At x = (a/2) (1 + c a^2) that is 24 c >= (1 + c a^2)^3, and it holds for every smaller a if it does for one.
    """
    c = Fraction(11, 240)
    assert 24 * c >= (1 + c * Fraction(7, 10)) ** 3  # sigma^2 >= 10/7; the grid above has the rest


def exact_delta(pairs: list[tuple[mpmath.mpf, mpmath.mpf]], epsilon: float) -> mpmath.mpf:
    factor = mpmath.exp(mpmath.mpf(epsilon))
    return mpmath.fsum(max(mpmath.mpf(0), p - factor * q) for p, q in pairs)


EPSILONS = np.linspace(0.0, 12.0, 49)


@pytest.mark.parametrize("variance", VARIANCES)
@pytest.mark.parametrize("shift", [(1,), (2,), (1, 1), (1, 2)])
def test_the_exact_delta_is_never_above_that_of_the_gaussian(variance: Fraction, shift: tuple[int, ...]) -> None:
    """All tests of y by its loss, which depends on sum_i shift_i y_i alone."""
    law = {y: p for y, p in probabilities(variance).items() if p > mpmath.mpf("1e-40")}
    sums: dict[int, mpmath.mpf] = {0: mpmath.mpf(1)}
    for step in shift:
        convolved: dict[int, mpmath.mpf] = {}
        for (x, p), (y, q) in itertools.product(sums.items(), law.items()):
            convolved[x + step * y] = convolved.get(x + step * y, mpmath.mpf(0)) + p * q
        sums = convolved
    squared = sum(step**2 for step in shift)
    rate = mpmath.mpf(Fraction(variance).denominator) / (2 * Fraction(variance).numerator)
    pairs = [(p, p * mpmath.exp(-rate * (squared + 2 * total))) for total, p in sums.items()]
    mu = float(dominating_mu(GaussianEvent(Fraction(variance), Fraction(squared))))
    for epsilon in EPSILONS:
        assert exact_delta(pairs, epsilon) <= gaussian_delta(mu, epsilon) + 1e-35, epsilon


def test_the_continuous_mu_would_be_too_small() -> None:
    """The control: without the excess over 1 / sigma the exact delta is above the curve."""
    law = probabilities(1)
    pairs = [(p, law.get(y - 1, mpmath.mpf(0))) for y, p in law.items()]
    assert any(exact_delta(pairs, epsilon) > gaussian_delta(1.0, epsilon) for epsilon in EPSILONS)


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(4)])
def test_pure_noise_is_dominated(epsilon: Fraction) -> None:
    true = 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon.numerator) / epsilon.denominator))
    for event in (LaplaceEvent(1 / epsilon, Fraction(1)), NoisyChoiceEvent(epsilon)):
        mu = float(dominating_mu(event))
        for at in EPSILONS:
            assert exact_delta([(true, 1 - true), (1 - true, true)], at) <= gaussian_delta(mu, at)
    assert exact_delta([(true, 1 - true), (1 - true, true)], 0.0) > gaussian_delta(0.7 * mu, 0.0)  # a control


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(4)])
def test_choices_by_the_exponential_mechanism_are_dominated(epsilon: Fraction) -> None:
    """Scores of three candidates, each moved by at most 1: every pair of neighbours on a grid of half steps."""
    mu = float(dominating_mu(SelectionEvent(epsilon)))
    at = EPSILONS[:20, None]
    curve = np.array([gaussian_delta(mu, epsilon) for epsilon in at[:, 0]])
    worst = 0.0
    for scores in itertools.product([0.0, 1.0, 3.0], repeat=3):
        before = np.exp(float(epsilon) / 2 * np.array(scores))
        for moved in itertools.product([-1.0, 0.0, 1.0], repeat=3):
            after = np.exp(float(epsilon) / 2 * (np.array(scores) + moved))
            exact = np.maximum(before / before.sum() - np.exp(at) * after / after.sum(), 0).sum(axis=1)
            assert (exact <= curve + 1e-12).all()
            worst = max(worst, exact[0] / curve[0])
    assert worst > 0.8  # no such choice could do with a much smaller mu


def test_events_without_a_bound_have_none() -> None:
    assert dominating_mu_squared(NonPrivateEvent("raw")) is None
    discovered = DiscoveryEvent(Fraction(1, 2), Fraction(1, 10**6), 2)
    assert dominating_mu_squared(discovered) == dominating_mu_squared(LaplaceEvent(Fraction(1), Fraction(1)))
