"""The law of an error against enumeration of the noise, and the least margin that it gives."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm

from hush.inference import error_law
from hush.inference.error_law import ErrorLaw, Law, product_part, quantile, two_sided_quantile
from hush.privacy.measurement import StatedNoise
from hush.privacy.noise import DiscreteGaussian, DiscreteLaplace

LEVELS = (0.2, 0.5, 0.8, 0.95, 0.99, 0.9999)
Terms = list[tuple[float, Law]]


def gaussian(sigma: str) -> DiscreteGaussian:
    return DiscreteGaussian(Fraction(sigma) ** 2)


def laplace(scale: str) -> DiscreteLaplace:
    return DiscreteLaplace(Fraction(scale))


def law_of(terms: Terms) -> ErrorLaw:
    return ErrorLaw([(np.array([c]), np.ones(1), law) for c, law in terms])


def enumerated(terms: Terms) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    """|E| of every combination of noise, in order, and P(|E| <= it)."""
    sizes, masses = np.zeros(1), np.ones(1)
    for c, law in terms:
        reach = max(3, int((30 if law.name == "laplace" else 12) * law.stddev))
        y = np.arange(-reach, reach + 1)
        sizes = np.add.outer(sizes, c * y).ravel()
        masses = np.multiply.outer(masses, law.pmf(y)).ravel()  # type: ignore[union-attr]
    keys = np.round(np.abs(sizes), 9)
    distinct, places = np.unique(keys, return_inverse=True)
    return distinct, np.cumsum(np.bincount(places, weights=masses))


CASES: dict[str, Terms] = {
    "one": [(0.5, gaussian("0.7"))],
    "one, laplace": [(3.0, laplace("0.4"))],
    "two alike": [(1.0, gaussian("0.5")), (1.0, gaussian("0.5"))],
    "thirds": [(1.0, gaussian("0.6")), (1 / 3, gaussian("1.5")), (2 / 3, gaussian("0.3"))],
    "no common measure": [(1.0, gaussian("0.8")), (2**-0.5, gaussian("0.8")), (0.3, gaussian("1.1"))],
    "both kinds": [(1.0, gaussian("0.5")), (0.5, laplace("0.6"))],
    "mostly zero": [(1.0, gaussian("0.2")), (1.0, gaussian("0.25")), (0.5, laplace("0.1"))],
    "a tail beside a step": [(1.0, gaussian("0.4")), (0.25, laplace("1.5"))],
}


@pytest.mark.parametrize("terms", CASES.values(), ids=CASES)
def test_the_margin_covers_and_the_next_smaller_error_does_not(terms: Terms) -> None:
    law, (sizes, within) = law_of(terms), enumerated(terms)
    slack = 0.03 * law.stddev  # what the blur of a grid may cost
    for level in LEVELS:
        margin = law.margin(level)
        assert within[np.searchsorted(sizes, margin + 1e-9, side="right") - 1] >= level - 1e-9
        least = sizes[np.searchsorted(within, level - 1e-9)]
        assert margin <= least + slack + 1e-9, level


def test_the_standard_deviation_is_that_of_the_enumeration() -> None:
    for terms in CASES.values():
        sizes, within = enumerated(terms)
        assert law_of(terms).stddev == pytest.approx(float(np.sqrt(np.diff(within, prepend=0.0) @ sizes**2)), rel=1e-6)


def test_a_normal_quantile_would_cover_too_little() -> None:
    """The control: z standard deviations of one number at rho = 2 hold 79 %, not 95 %."""
    sizes, within = enumerated([(1.0, gaussian("0.5"))])
    margin = two_sided_quantile(0.95) * 0.5
    assert within[np.searchsorted(sizes, margin, side="right") - 1] < 0.8


def test_many_numbers_give_the_normal_quantile_and_half_a_step() -> None:
    many = ErrorLaw([(np.array([0.01]), np.array([10_000.0]), gaussian("5"))])
    assert many.margin(0.95) == pytest.approx(norm.ppf(0.975) * many.stddev + 0.005 * 1, rel=0.01)
    assert many.margin(0.95) >= norm.ppf(0.975) * many.stddev


@pytest.mark.parametrize(
    "law", [gaussian("0.3"), gaussian("40"), gaussian("5000"), laplace("0.2"), laplace("300")], ids=str
)
def test_quantiles_of_one_number(law: DiscreteGaussian | DiscreteLaplace) -> None:
    for level in LEVELS:
        k = quantile(law, level)
        assert k == int(k)
        reach = np.arange(-int(k), int(k) + 1)
        assert law.pmf(reach).sum() >= level - 1e-9
        if k:
            assert law.pmf(reach[1:-1]).sum() < level + 1e-6


def test_stated_noise_is_continuous() -> None:
    assert quantile(StatedNoise(2.0), 0.95) == pytest.approx(2 * norm.ppf(0.975))
    assert quantile(StatedNoise(2**0.5, "laplace"), 0.95) == pytest.approx(-np.log(0.05))
    pair = law_of([(1.0, StatedNoise(3.0)), (1.0, StatedNoise(4.0))])
    assert pair.margin(0.9) == pytest.approx(5 * norm.ppf(0.95))
    assert ErrorLaw([]).margin(0.95) == 0.0
    assert law_of([(0.0, gaussian("1")), (1.0, StatedNoise(1e-30))]).margin(0.95) < 1e-29


def test_sure_levels_are_bounded() -> None:
    law = law_of([(1.0, gaussian("1")), (1.0, gaussian("1"))])
    assert law.margin(1 - 1e-12) >= law.margin(0.9999999) > law.margin(0.99)


def test_products_count_equal_entries_once() -> None:
    law = gaussian("1")
    values, counts, _ = product_part(np.array([[1.0, -2.0]]), [np.array([1.0, 1.0, -3.0])], law)
    listed = sorted(abs(a * b) for a, b in itertools.product([1.0, -2.0], [1.0, 1.0, -3.0]))
    assert sorted(np.repeat(values, counts.astype(int)).round(9)) == pytest.approx(listed)


@pytest.mark.parametrize("sigma", ["0.2", "0.49", "0.5", "0.9", "1.49", "2.99", "3"])
def test_transforms_are_those_of_the_masses(sigma: str) -> None:
    law, angles = gaussian(sigma), np.linspace(0, 20, 101)
    y = np.arange(-60, 61)
    direct = np.cos(np.multiply.outer(angles, y)) @ law.pmf(y)
    np.testing.assert_allclose(error_law._discrete_transform(law, angles), direct, atol=1e-12)
