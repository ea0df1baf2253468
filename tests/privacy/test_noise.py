import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.core.errors import BudgetError
from hush.privacy.exact_sampling import NotPrivateEntropy, SystemEntropy
from hush.privacy.noise import DiscreteGaussian, DiscreteLaplace
from hush.privacy.sensitivity import ONE_CELL, Neighbours, Sensitivity, sensitivity
from hush.testing import check_law
from hush.testing.laws import LawError

SCALES = [0.3, 0.5, 1, 2.5, 7.99, 8, 33.3, 91, 1000.5, 1e5, 1e6]
ONE = sensitivity(ONE_CELL, max_rows=1, neighbours=Neighbours.ADD_REMOVE)


@pytest.mark.slow
@pytest.mark.parametrize("law", [DiscreteGaussian, DiscreteLaplace])
@pytest.mark.parametrize("scale", SCALES)
def test_samples_have_the_law_and_not_that_of_a_near_scale(law: type, scale: float) -> None:
    """400,000 samples; the false-alarm rate is 1e-9, a scale off by 0.8 or 1.25 is missed far more rarely still."""
    samples = law.of_scale(scale).sample(400_000, NotPrivateEntropy(int(scale * 10)))
    check_law(samples, law.of_scale(scale))
    for factor in (0.8, 1.25):
        with pytest.raises(LawError):
            check_law(samples, law.of_scale(factor * scale))


@pytest.mark.parametrize("law", [DiscreteGaussian.of_scale(91), DiscreteLaplace.of_scale(5)])
def test_repeated_noise_is_rejected(law: DiscreteGaussian) -> None:
    """The negative control of a reused draw: the right law, twice."""
    once = law.sample(100_000, NotPrivateEntropy(1))
    check_law(once, law)
    with pytest.raises(LawError):
        check_law(np.repeat(once, 2), law)


@pytest.mark.parametrize("law", [DiscreteGaussian.of_scale(40), DiscreteLaplace.of_scale(40)])
def test_biased_noise_is_rejected(law: DiscreteGaussian) -> None:
    samples = law.sample(200_000, NotPrivateEntropy(2))
    with pytest.raises(LawError):
        check_law(samples + 1, law)
    with pytest.raises(LawError):
        check_law(samples // 2 * 2, DiscreteGaussian.of_scale(40))


def test_system_bits_give_the_law() -> None:
    law = DiscreteGaussian.of_scale(12)
    check_law(law.sample(200_000, SystemEntropy()), law)


@pytest.mark.parametrize("scale", [0.2, 0.5, 1, 3, 4, 100])
@pytest.mark.parametrize("law", [DiscreteGaussian, DiscreteLaplace])
def test_stddev_is_that_of_the_pmf(law: type, scale: float) -> None:
    noise = law.of_scale(scale)
    y = np.arange(-6000, 6001)
    pmf = noise.pmf(y)
    assert pmf.sum() == pytest.approx(1, abs=1e-12)
    assert noise.stddev == pytest.approx(math.sqrt(np.sum(pmf * y**2)), rel=1e-9)


@pytest.mark.parametrize(("scale", "stddev"), [(0.061, math.sqrt(2 * math.exp(-0.5 / 0.061**2))), (1 / 64, 1e-30)])
def test_noise_that_is_never_seen_keeps_a_stddev_to_weigh_answers_by(scale: float, stddev: float) -> None:
    assert DiscreteGaussian.of_scale(scale).stddev == pytest.approx(stddev, rel=1e-9)


@given(
    st.floats(1e-5, 600),
    st.fractions(min_value=1, max_value=10**4, max_denominator=1000),
)
def test_noise_for_a_budget_never_costs_more(rho: float, l2_squared: Fraction) -> None:
    bound = Sensitivity(l2_squared, l2_squared)
    gaussian = DiscreteGaussian.for_rho(rho, bound)
    cost = gaussian.event(bound).cost.rho
    assert cost is not None
    assert Fraction(rho) * (1 - Fraction(1, 2**39)) <= cost <= Fraction(rho)
    laplace = DiscreteLaplace.for_epsilon(rho / 10, bound)
    assert laplace.event(bound).cost.epsilon <= Fraction(rho / 10)  # type: ignore[operator]


@pytest.mark.parametrize("amount", [3, 7, 30])
def test_noise_that_no_short_fraction_holds_is_rounded_up(amount: int) -> None:
    """Scales such as 1/3 and 1/14: a little more noise, never less."""
    for law, spent in (
        (DiscreteGaussian.for_rho(Fraction(amount), ONE), lambda law: law.event(ONE).cost.rho),
        (DiscreteLaplace.for_epsilon(Fraction(amount), ONE), lambda law: law.event(ONE).cost.epsilon),
    ):
        assert amount * (1 - Fraction(1, 2**39)) <= spent(law) < amount


def test_scales_are_taken_exactly() -> None:
    assert DiscreteGaussian.of_scale(0.1).variance_parameter == Fraction(0.1) ** 2
    assert DiscreteGaussian.of_scale(Fraction(1, 3)).variance_parameter == Fraction(1, 9)
    assert DiscreteLaplace.of_scale(Decimal("0.1")).scale == Fraction(1, 10)


@pytest.mark.parametrize("scale", [0, -1.0, float("nan"), float("inf"), True, "3", 1e-9, 1e40])
@pytest.mark.parametrize("law", [DiscreteGaussian, DiscreteLaplace])
def test_impossible_scales_are_refused(law: type, scale: object) -> None:
    with pytest.raises(BudgetError, match="sigma|scale|variance|epsilon"):
        law.of_scale(scale)


def test_cost_of_unit_noise() -> None:
    assert DiscreteGaussian.of_scale(2).event(ONE).cost.rho == Fraction(1, 8)
    assert DiscreteLaplace.of_scale(2).event(ONE).cost.epsilon == Fraction(1, 2)


def test_shapes() -> None:
    law = DiscreteGaussian.of_scale(5)
    assert law.sample((3, 4), NotPrivateEntropy(1)).shape == (3, 4)
    assert law.sample((), NotPrivateEntropy(1)).shape == ()
    assert law.sample(0, NotPrivateEntropy(1)).shape == (0,)
    assert law.sample(7, NotPrivateEntropy(1)).dtype == np.int64
