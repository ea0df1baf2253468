"""Bounded numbers: exact promises on the grid, unbiased estimates, and the variances that are stated."""

import math
from collections import Counter
from fractions import Fraction
from typing import Any

import pytest

from hush.hybrid.client.choice_laws import SYSTEM_BYTES, UNIT, scaled_exp, uniform_below
from hush.hybrid.client.number_laws import (
    NUMBER_LAWS,
    DuchiResponse,
    GaussianResponse,
    LaplaceResponse,
    PiecewiseResponse,
    continuous_spread,
    step_of,
)
from hush.privacy.conversions import gaussian_mu
from local_laws import hockey_stick, matrix_of, within, worst_loss, worst_ratio

EPSILONS = [Fraction(1, 2), Fraction(1), Fraction(5)]


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("kind", NUMBER_LAWS.values())
def test_the_matrix_keeps_the_promise_and_spends_it(kind: Any, epsilon: Fraction) -> None:
    law = kind(2, epsilon)
    rows = matrix_of(law, range(3))
    assert {sum(row) for row in rows} == {1}
    assert within(worst_ratio(rows), epsilon)
    assert worst_loss(rows) == pytest.approx(float(epsilon), rel=1e-12)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("kind", NUMBER_LAWS.values())
def test_estimates_are_unbiased_and_have_the_stated_variance(kind: Any, epsilon: Fraction) -> None:
    law, reports = kind(2, epsilon), list(kind(2, epsilon).outputs())
    for step in range(3):
        estimates = [(report - law.intercept) / law.slope for report in reports]
        chances = [law.probability(step, report) for report in reports]
        mean = math.fsum(float(p * e) for p, e in zip(chances, estimates, strict=True))
        second = math.fsum(float(p * (e - step) ** 2) for p, e in zip(chances, estimates, strict=True))
        assert mean == pytest.approx(step, abs=1e-12)
        assert second == pytest.approx(float(law.variance(step)), rel=1e-9)


def test_two_points_and_pieces_are_unbiased_exactly() -> None:
    for law in (DuchiResponse(6, Fraction(2)), PiecewiseResponse(6, Fraction(2))):
        for step in range(7):
            mean = sum((law.probability(step, r) * r for r in law.outputs()), Fraction(0))
            assert mean == law.intercept + law.slope * step


def test_fine_grids_have_the_variances_of_the_continuous_laws() -> None:
    """On [-1, 1] at epsilon 1: Laplace 8, Duchi ((e + 1)/(e - 1))^2 - x^2, piecewise as [Wang et al. 2019, Lemma 1]."""
    steps, half = 1024, Fraction(1024, 2)
    scaled = {name: float(law(steps, Fraction(1)).variance(steps // 2) / half**2) for name, law in NUMBER_LAWS.items()}
    assert scaled["laplace"] == pytest.approx(8, rel=1e-5)
    assert scaled["duchi"] == pytest.approx(4.682696, rel=1e-5)
    assert scaled["piecewise"] == pytest.approx(3.681, rel=1e-2)


@pytest.mark.parametrize("kind", NUMBER_LAWS.values())
def test_draws_follow_the_matrix(kind: Any) -> None:
    """20,000 draws at step 1 of 4; false alarms below 1e-6, and draws at step 4 are told apart."""
    from scipy import stats

    law = kind(4, Fraction(2))
    seen = Counter(law.draw(1) for _ in range(20_000))
    cells = [r for r in law.outputs() if law.probability(1, r) * 20_000 > 5]
    for step, agrees in ((1, True), (4, False)):
        observed = [seen[r] for r in cells]
        expected = [20_000 * float(law.probability(step, r)) for r in cells]
        observed.append(20_000 - sum(observed))
        expected.append(20_000 - sum(expected))
        if expected[-1] < 1e-6:
            observed, expected = observed[:-1], expected[:-1]
        misfit = sum((o - e) ** 2 / e for o, e in zip(observed, expected, strict=True))
        pvalue = stats.chi2.sf(misfit, len(expected) - 1)
        assert bool(pvalue > 1e-6) is agrees


@pytest.mark.parametrize("epsilon", [Fraction(1, 4), Fraction(1)])
def test_pieces_are_drawn_exactly_by_their_weights(epsilon: Fraction) -> None:
    """At every step, the integers from which a report is drawn are as many as its weight: counted by their ends."""
    law = PiecewiseResponse(8, epsilon)
    assert law.width > 1
    ends = [i * law.keep for i in range(law.width)]
    ends += [law.width * law.keep + i * UNIT for i in range(law.steps + 1)]
    length = (law.total.bit_length() + 7) // 8
    for step in range(law.steps + 1):
        weights: Counter[int] = Counter()
        for first, last in zip(ends[:-1], [end - 1 for end in ends[1:]], strict=True):
            drawn = {law.draw(step, lambda _, d=d: d.to_bytes(length, "little")) for d in (first, last)}  # type: ignore[misc]
            assert len(drawn) == 1
            weights[drawn.pop()] += last - first + 1
        assert {report: Fraction(weight, law.total) for report, weight in weights.items()} == {
            report: law.probability(step, report) for report in law.outputs()
        }


def test_laplace_reports_are_clamped_far_out() -> None:
    law = LaplaceResponse(4, Fraction(1))
    outer = law.probability(0, law.steps + law.reach)
    assert 0 < outer < Fraction(1, 2**60)
    assert next(iter(law.outputs())) == -law.reach


def test_a_number_between_two_steps_becomes_either_and_is_right_on_average() -> None:
    """10,000 draws at 2.25: the mean is off by more than 0.03 with a chance below 1e-9."""
    drawn = [step_of(Fraction(9, 16), Fraction(0), Fraction(1), 4, SYSTEM_BYTES) for _ in range(10_000)]
    assert set(drawn) == {2, 3}
    assert sum(drawn) / len(drawn) == pytest.approx(2.25, abs=0.03)
    assert step_of(Fraction(1, 2), Fraction(0), Fraction(1), 4, SYSTEM_BYTES) == 2


def test_powers_of_e_are_never_rounded_up() -> None:
    import mpmath

    with mpmath.workdps(80):
        for x in (Fraction(1, 10**6), Fraction(1), Fraction(17, 5), Fraction(32)):
            exact = mpmath.exp(mpmath.mpf(x.numerator) / x.denominator) * 2**64
            assert exact - 1.001 < scaled_exp(x) <= exact


def test_uniform_integers_draw_again_beyond_the_bound() -> None:
    given = iter([b"\x07", b"\x05", b"\x02"])
    assert uniform_below(5, lambda count: next(given)) == 2
    assert uniform_below(1, lambda count: b"") == 0


# Gaussian noise


@pytest.mark.parametrize(("epsilon", "delta"), [(Fraction(1), Fraction(1, 100)), (Fraction(3), Fraction(1, 10**6))])
def test_gaussian_noise_keeps_delta_for_every_pair_of_steps_and_no_less_noise_does(
    epsilon: Fraction, delta: Fraction
) -> None:
    law = GaussianResponse.for_promise(4, epsilon, delta)
    rows = matrix_of(law, range(5))
    assert {sum(row) for row in rows} == {1}
    assert hockey_stick(rows, epsilon) <= delta
    assert hockey_stick(rows, epsilon) == hockey_stick([rows[0], rows[4]], epsilon) > hockey_stick(rows[:4], epsilon)
    assert float(law.delta(epsilon)) == pytest.approx(hockey_stick(rows, epsilon), rel=1e-9)
    assert GaussianResponse(4, law.spread * Fraction(49, 50)).delta(epsilon) > delta


def test_gaussian_noise_is_as_wide_as_the_exact_formula_says() -> None:
    for epsilon, delta in ((0.5, 1e-5), (1.0, 1e-6), (8.0, 1e-9)):
        least = 1 / gaussian_mu(epsilon, delta)
        assert continuous_spread(Fraction(epsilon), Fraction(delta)) == pytest.approx(least, rel=2e-4)
        law = GaussianResponse.for_promise(16, Fraction(epsilon), Fraction(delta))
        assert float(law.spread) == pytest.approx(16 * least, rel=0.01)
        assert float(law.variance(0)) == pytest.approx(float(law.spread) ** 2, rel=1e-3)


def test_gaussian_draws_follow_the_weights() -> None:
    """20,000 draws at step 1 of 4; false alarms below 1e-6, and draws at step 4 are told apart."""
    from scipy import stats

    law = GaussianResponse.for_promise(4, Fraction(2), Fraction(1, 1000))
    seen = Counter(law.draw(1) for _ in range(20_000))
    cells = [r for r in law.outputs() if law.probability(1, r) * 20_000 > 5]
    for step, agrees in ((1, True), (4, False)):
        observed = [seen[r] for r in cells]
        expected = [20_000 * float(law.probability(step, r)) for r in cells]
        misfit = sum((o - e) ** 2 / e for o, e in zip(observed, expected, strict=True))
        assert bool(stats.chi2.sf(misfit, len(expected)) > 1e-6) is agrees
