"""Amplification: the recomputed table, the larger sensitivity, exact calibration, and none for Laplace noise."""

import math

import numpy as np
import pytest
from scipy.special import gammaln, kve

from hush.core.errors import DataError
from hush.hybrid.amplification import amplified_epsilon
from hush.hybrid.mean_errors import MeanSetting

SALARIES = {"people": 252_540, "variance": 53_254.0**2, "width": 2_349_033.0}


def laplace_sum_log_density(x: np.ndarray, terms: int, scale: float = 1.0) -> np.ndarray:
    """The logarithm of the density of a sum of n Laplace numbers.

    2^(1/2 - n)/(sqrt(pi) b^(n + 1/2) Gamma(n)) |x|^(n - 1/2) K_(n - 1/2)(|x|/b)
    """
    y = np.abs(np.asarray(x, dtype=np.float64)) / scale
    order = terms - 0.5
    log_bessel = np.log(kve(order, y)) - y
    constant = (0.5 - terms) * math.log(2) - 0.5 * math.log(math.pi) - math.log(scale) - gammaln(terms)
    return np.asarray(constant + order * np.log(y) + log_bessel)


def laplace_sum_loss(terms: int, epsilon: float, reach: float) -> float:
    """The privacy loss, `reach` scales away, of a number that moves by 1 under n Laplace noises of scale 1/epsilon.

    It tends to epsilon as the distance grows, however many people add noise: Laplace noise gives no amplification.
    """
    scale = 1 / epsilon
    x = np.array([reach * scale, reach * scale + 1.0])
    near, far = laplace_sum_log_density(x, terms, scale)
    return float(near - far)


@pytest.mark.parametrize(
    ("share", "weight", "opt_in", "clients"),
    [
        (0.001, 0.2011, (0.448, 0.578, 0.981), (0.0018, 0.0023, 0.0039)),
        (0.003, 0.6926, (0.831, 0.904, 0.998), (0.0011, 0.0012, 0.0013)),
        (0.01, 0.9608, (0.980, 0.990, 0.9998), (0.0004, 0.0004, 0.0004)),
        (0.1, 0.9995, (0.9997, 0.9998, 1.000), (0.0001, 0.0001, 0.0001)),
    ],
)
def test_the_table_of_salaries(
    share: float, weight: float, opt_in: tuple[float, ...], clients: tuple[float, ...]
) -> None:
    setting = MeanSetting.gaussian(share=share, epsilon=1.0, delta=1e-7, exact=False, **SALARIES)
    assert setting.best_weight == pytest.approx(weight, abs=6e-5)
    for coalition, mine, theirs in zip((0, 0.5, 0.99), opt_in, clients, strict=True):
        found = amplified_epsilon(
            people=252_540,
            share=share,
            weight=setting.best_weight,
            epsilon=1.0,
            delta=1e-7,
            coalition=coalition,
            exact=False,
        )
        assert found.opt_in == pytest.approx(mine, abs=6e-4)
        assert found.clients == pytest.approx(theirs, abs=6e-5)
        assert found.joint == found.opt_in  # the larger: what the printed theorem leaves out


def test_opt_in_people_gain_as_the_short_formula_says() -> None:
    n, c = 252_540, 0.001
    setting = MeanSetting.gaussian(people=n, share=c, epsilon=1.0, delta=1e-7, exact=False, variance=0.0)
    found = amplified_epsilon(people=n, share=c, weight=setting.privacy_weight, epsilon=1.0, delta=1e-7, exact=False)
    assert found.opt_in == pytest.approx(1 / math.sqrt(1 + (1 - c) / (c**2 * n)), rel=1e-3)


def test_exact_calibration_never_promises_less_than_before_and_falls_with_smaller_coalitions() -> None:
    found = [
        amplified_epsilon(people=1e5, share=0.001, weight=0.3, epsilon=2.0, delta=1e-6, coalition=coalition)
        for coalition in (0.0, 0.5, 0.9, 1.0)
    ]
    assert [one.joint for one in found] == sorted(one.joint for one in found)
    assert found[0].joint < 2.0
    assert found[-1].opt_in == pytest.approx(2.0, rel=1e-9)


def test_exact_epsilon_is_that_of_the_joint_noise_by_integration() -> None:
    """The hockey-stick divergence of two Gaussians at the amplified epsilon is delta, by numerical integration."""
    people, share, weight, delta = 1e4, 0.01, 0.5, 1e-4
    found = amplified_epsilon(people=people, share=share, weight=weight, epsilon=1.0, delta=delta)
    from hush.hybrid.mean_errors import gaussian_scale

    scale = gaussian_scale(1.0, delta)
    move = weight / (share * people)
    spread = math.sqrt(
        (move * scale) ** 2 + ((1 - weight) / ((1 - share) * people)) ** 2 * (1 - share) * people * scale**2
    )
    x = np.linspace(-12 * spread, 12 * spread, 400_001)
    p = np.exp(-((x - move) ** 2) / (2 * spread**2))
    q = np.exp(-(x**2) / (2 * spread**2))
    excess = np.maximum(p - math.exp(found.opt_in) * q, 0).sum() / q.sum()
    assert excess == pytest.approx(delta, rel=1e-3)


def test_the_density_of_a_sum_is_one_in_all_and_that_of_convolution() -> None:
    x = np.linspace(-60, 60, 240_001) + 1e-7
    step = x[1] - x[0]
    for terms in (1, 2, 5):
        density = np.exp(laplace_sum_log_density(x, terms))
        assert density.sum() * step == pytest.approx(1, abs=1e-3)
        assert (density * x**2).sum() * step == pytest.approx(2 * terms, rel=1e-3)
    assert np.exp(laplace_sum_log_density(np.array([3.0]), 1))[0] == pytest.approx(math.exp(-3) / 2)


@pytest.mark.parametrize("terms", [1, 2, 10, 50])
def test_laplace_noise_of_many_people_gives_no_amplification(terms: int) -> None:
    far = laplace_sum_loss(terms, 1.0, 1e6)
    assert far == pytest.approx(1.0, abs=1e-3)
    assert terms == 1 or laplace_sum_loss(terms, 1.0, 1.0) < 0.99


def test_bad_input_is_refused() -> None:
    with pytest.raises(DataError, match="share=1"):
        amplified_epsilon(people=10, share=1, weight=0.5, epsilon=1.0, delta=1e-5)
    with pytest.raises(DataError, match="coalition=2"):
        amplified_epsilon(people=10, share=0.5, weight=0.5, epsilon=1.0, delta=1e-5, coalition=2)
