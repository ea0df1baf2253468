"""Closed forms of hybrid means: published tables to the digit, known slips corrected, simulated twins."""

import math
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.mean_regions import (
    LEAST_BEST_GAIN,
    MOST_BEST_GAIN,
    best_gain_share,
    laplace_critical_people,
    laplace_scale,
    privacy_weight_wins,
)
from scipy.special import gammaln, kve

from hush.core.errors import DataError
from hush.hybrid.mean_errors import MeanSetting, amplified_epsilon, client_noise, gaussian_scale

SIZES = (1e3, 1e4, 1e5)


def beta_variance(a: float) -> float:
    return 1 / (4 * (2 * a + 1))


def setting(n: float, c: float, epsilon: float, a: float) -> MeanSetting:
    return MeanSetting.laplace(people=n, share=c, epsilon=epsilon, variance=beta_variance(a))


# law, share, epsilon, gain of the best weight at the three sizes, of privacy weights, and over the worse baseline
BETA_TABLE = [
    (10, 0.005, 0.1, (1.020, 1.244, 1.410), (1.020, 1.244, 1.410), (40.81, 4.99, 3.42), 40480),
    (10, 0.005, 1, (1.020, 1.190, 1.634), (1.020, 1.178, 1.124), (41.99, 6.11, 1.78), math.inf),
    (10, 0.05, 0.1, (1.381, 1.039, 1.005), (1.381, 1.039, 1.005), (3.44, 25.26, 195.8), 400.5),
    (10, 0.05, 1, (1.499, 1.157, 1.123), (1.479, 1.070, 1.008), (2.88, 6.99, 8.61), 451),
    (1, 0.005, 0.1, (1.020, 1.240, 1.481), (1.020, 1.240, 1.471), (40.88, 5.06, 3.05), 43620),
    (1, 0.005, 1, (1.017, 1.083, 1.120), (1.017, 0.889, 0.222), (49.10, 10.93, 1.93), math.inf),
    (1, 0.05, 0.1, (1.388, 1.046, 1.012), (1.388, 1.045, 1.007), (3.40, 21.81, 84.47), 403.2),
    (1, 0.05, 1, (1.856, 1.871, 1.837), (1.451, 1.080, 1.008), (1.73, 1.30, 1.27), 1920),
    (0.1, 0.005, 0.1, (1.020, 1.233, 1.606), (1.020, 1.233, 1.550), (41.01, 5.19, 2.55), 50460),
    (0.1, 0.005, 1, (1.015, 1.044, 1.052), (1.012, 0.623, 0.092), (61.44, 15.40, 1.95), math.inf),
    (0.1, 0.05, 0.1, (1.401, 1.059, 1.025), (1.400, 1.052, 1.007), (3.34, 17.60, 42.34), 408.1),
    (0.1, 0.05, 1, (1.454, 1.546, 1.557), (0.776, 0.535, 0.508), (1.85, 1.08, 1.01), math.inf),
]


@pytest.mark.parametrize(("a", "c", "epsilon", "best", "privacy", "worse", "critical"), BETA_TABLE)
def test_the_table_of_beta_laws(
    a: float,
    c: float,
    epsilon: float,
    best: tuple[float, ...],
    privacy: tuple[float, ...],
    worse: tuple[float, ...],
    critical: float,
) -> None:
    settings = [setting(n, c, epsilon, a) for n in SIZES]
    assert [round(s.gain(s.best_weight), 3) for s in settings] == list(best)
    assert [round(s.gain(s.privacy_weight), 3) for s in settings] == list(privacy)
    assert [s.gain_over_worse(s.privacy_weight) for s in settings] == pytest.approx(worse, rel=3e-4, abs=0.0051)
    assert laplace_critical_people(c, epsilon, beta_variance(a)) == pytest.approx(critical, rel=1e-3)


@pytest.mark.parametrize(
    ("a", "c", "epsilon", "most", "at"),
    [
        (10, 0.005, 0.1, 1.995, 40.5e3),
        (1, 0.005, 0.1, 1.995, 43.7e3),
        (1, 0.05, 1, 2.030, 1919),
        (0.1, 0.005, 0.1, 1.997, 50.5e3),
    ],
)
def test_the_largest_gain_over_all_sizes(a: float, c: float, epsilon: float, most: float, at: float) -> None:
    sizes = np.geomspace(1e3, 1e5, 20_001)
    gains = [(s := setting(n, c, epsilon, a)).gain(s.best_weight) for n in sizes]
    assert max(gains) == pytest.approx(most, abs=1e-3)
    assert sizes[int(np.argmax(gains))] == pytest.approx(at, rel=3e-3)


SALARIES = {"people": 252_540, "variance": 53_254.0**2, "width": 2_349_033.0}
SALARY_BEST = """1.251 1.250 1.236 1.159 1.034 / 1.440 1.446 1.524 1.828 1.114 / 1.039 1.042 1.065 1.270 1.397
/ 1.004 1.005 1.013 1.081 1.861 / 1.000 1.001 1.003 1.023 1.257"""
SALARY_PRIVACY = """1.251 1.250 1.236 1.121 .545 / 1.440 1.446 1.514 1.479 .226 / 1.039 1.041 1.055 1.074 .418
/ 1.004 1.005 1.007 1.009 1.009 / 1.000 1.001 1.001 1.001 1.001"""


@pytest.mark.parametrize(("weight", "text"), [("best_weight", SALARY_BEST), ("privacy_weight", SALARY_PRIVACY)])
def test_the_table_of_salaries(weight: str, text: str) -> None:
    for c, row in zip((0.001, 0.003, 0.01, 0.03, 0.1), text.split("/"), strict=True):
        for epsilon, value in zip((0.1, 0.3, 1, 3, 10), map(float, row.split()), strict=True):
            s = MeanSetting.laplace(share=c, epsilon=epsilon, **SALARIES)
            assert s.gain(getattr(s, weight)) == pytest.approx(value, abs=6e-4)


def test_the_largest_gains_of_salaries() -> None:
    shares = np.geomspace(0.001, 0.1, 2001)
    for epsilon, most, at in (
        (0.1, 1.9975, 0.00199),
        (0.3, 1.9964, 0.002),
        (1, 1.9975, 0.00212),
        (3, 2.0010, 0.00345),
        (10, 2.0244, 0.0252),
    ):
        settings = [MeanSetting.laplace(share=c, epsilon=epsilon, **SALARIES) for c in shares]
        gains = [s.gain(s.best_weight) for s in settings]
        assert max(gains) == pytest.approx(most, abs=2e-3)
        assert shares[int(np.argmax(gains))] == pytest.approx(at, rel=0.01)
    plane = [
        MeanSetting.laplace(share=c, epsilon=e, **SALARIES) for c in shares[::20] for e in np.geomspace(0.1, 10, 101)
    ]
    gains = np.array([s.gain(s.privacy_weight) for s in plane])
    assert gains.max() == pytest.approx(1.998, abs=0.01)
    assert gains.min() == pytest.approx(0.225, abs=2e-3)
    assert np.mean(gains > 1) == pytest.approx(0.90, abs=0.01)
    assert max(s.gain_over_worse(s.privacy_weight) for s in plane) == pytest.approx(2387, rel=1e-3)


@pytest.mark.parametrize(
    ("c", "epsilon", "shift", "gains"),
    [
        (0.005, 0.1, 0, (1.020, 1.244, 1.419)),
        (0.005, 0.1, 0.25, (1.020, 1.084, 0.064)),
        (0.005, 0.1, 0.5, (1.020, 0.782, 0.016)),
        (0.005, 1, 0, (1.019, 1.163, 1.408)),
        (0.005, 1, 0.25, (1.008, 0.147, 0.0039)),
        (0.005, 1, 0.5, (0.976, 0.041, 0.0010)),
        (0.05, 0.1, 0, (1.382, 1.040, 1.006)),
        (0.05, 0.1, 0.25, (1.581, 0.379, 0.036)),
        (0.05, 0.1, 0.5, (1.165, 0.096, 0.0090)),
        (0.05, 1, 0, (1.588, 1.246, 1.212)),
        (0.05, 1, 0.25, (0.090, 0.0055, 0.0005)),
        (0.05, 1, 0.5, (0.023, 0.0014, 0.0001)),
    ],
)
def test_groups_of_different_means(c: float, epsilon: float, shift: float, gains: tuple[float, ...]) -> None:
    for n, gain in zip(SIZES, gains, strict=True):
        base = MeanSetting.laplace(people=n, share=c, epsilon=epsilon, variance=1 / 12, width=2)
        s = replace(base, mean=1 - shift, client_mean=1 + shift)
        assert s.gain(s.homogeneous_weight) == pytest.approx(gain, abs=6e-4 if gain > 0.01 else 6e-5)


def test_gains_follow_the_variance_of_those_who_opted_in() -> None:
    """Both skews: the gain differs from that of equal groups by at most 0.0982, in the worst of all cases."""
    gaps = []
    for mine, theirs in ((beta_variance(10), beta_variance(0.1)), (beta_variance(0.1), beta_variance(10))):
        for c in (0.005, 0.05):
            for epsilon in (0.1, 1):
                for n in np.geomspace(1e3, 1e5, 401):
                    equal = MeanSetting.laplace(people=n, share=c, epsilon=epsilon, variance=mine)
                    skewed = replace(equal, client_variance=theirs)
                    gaps.append(abs(skewed.gain(skewed.best_weight) - equal.gain(equal.best_weight)))
    assert max(gaps) == pytest.approx(0.0982, abs=1e-4)


def random_settings(number: int, seed: int, *, skewed: bool = False) -> list[MeanSetting]:
    random = np.random.default_rng(seed)
    found = []
    for _ in range(number):
        c = 10 ** random.uniform(-3, -0.2)
        base = MeanSetting.laplace(
            people=10 ** random.uniform(4, 6),
            share=c,
            epsilon=10 ** random.uniform(-1, 1.3),
            variance=random.uniform(0.0005, 0.25),
        )
        if skewed:
            base = replace(base, client_variance=random.uniform(0.0005, 0.25), client_mean=random.uniform(-0.5, 0.5))
        found.append(base)
    return found


@pytest.mark.parametrize("skewed", [False, True])
def test_the_best_weight_has_the_least_error(skewed: bool) -> None:
    for s in random_settings(300, 1, skewed=skewed):
        least = s.error(s.best_weight).total
        assert all(s.error(s.best_weight + step).total >= least for step in (-0.01, -1e-4, 1e-4, 0.01))


def test_closed_forms_of_both_weights() -> None:
    for s in random_settings(300, 2):
        n, c, v, s_t, s_l = s.people, s.share, s.variance, s.curator_noise, s.client_noise
        best = ((1 - c) * v * s_l + c * n * s_t * (c * v + s_l)) / (n * (v + c * s_l) + (1 - c) * c * n**2 * s_t)
        assert s.error(s.best_weight).total == pytest.approx(best, rel=1e-9)
        above = (
            (1 - c) * c * n**2 * s_t**2 * (c * v + s_l)
            + c * n * s_l * s_t * (2 * (c - 1) * v + s_l)
            + (1 - c) * v * s_l**2
        )
        assert s.error(s.privacy_weight).total == pytest.approx(
            above / (c * n * (s_l + (1 - c) * n * s_t) ** 2), rel=1e-6
        )
        assert s.privacy_weight == pytest.approx(c**2 * n / (c**2 * n + 1 - c), rel=1e-9)
        assert s.best_weight == pytest.approx(c * (v + s_l) / (v + c * (n * s_t * (1 - c) + s_l)), rel=1e-9)


def test_facts_about_both_weights() -> None:
    for s in random_settings(2000, 3):
        assert s.gain(s.best_weight) > 1
        assert s.gain_over_worse(s.privacy_weight) > 1
        assert s.error(s.privacy_weight).total < s.curator_error.total
        epsilon = math.sqrt(2 / s.client_noise)
        assert (s.gain(s.privacy_weight) > 1) == privacy_weight_wins(s.share, s.people, epsilon, s.variance)
        assert s.client_error.total > s.everybody_error.total


@pytest.mark.parametrize("skewed", [False, True])
def test_critical_values_say_who_wins(skewed: bool) -> None:
    for s in random_settings(2000, 4, skewed=skewed):
        assert s.curator_wins == (s.people <= s.critical_people)
        if not skewed:
            assert s.critical_share < s.share or not s.curator_wins
            epsilon = math.sqrt(2 / s.client_noise)
            assert s.curator_wins == (s.people >= laplace_critical_people(s.share, epsilon, s.variance))


def test_the_critical_share_of_unequal_variances_is_where_noise_and_numbers_balance() -> None:
    s = replace(random_settings(1, 5)[0], client_variance=0.01)
    c = s.critical_share
    balance = c * s.client_noise - (1 - c) * ((1 - c) * s.variance + c * s.v_l)
    assert balance == pytest.approx(0, abs=1e-9 * s.client_noise)
    near = replace(s, client_variance=s.variance * (1 + 1e-7)).critical_share
    assert near == pytest.approx(replace(s, client_variance=None).critical_share, rel=1e-4)


def test_the_largest_improvement_tends_to_17_eighths() -> None:
    for n, gain in ((1e3, 2.11434), (1e4, 2.12387), (1e6, 2.124989), (1e8, 2.12499989)):
        s = MeanSetting.laplace(people=n, share=best_gain_share(n), epsilon=1.0, variance=0.25)
        assert s.gain(s.best_weight) == pytest.approx(gain, abs=6e-6)
        assert s.gain(s.best_weight) < LEAST_BEST_GAIN < MOST_BEST_GAIN


def test_no_gain_exceeds_16_sevenths_up_to_epsilon_1() -> None:
    for s in random_settings(3000, 6):
        if s.client_noise >= 2:
            y = 2 / s.client_noise * s.variance
            assert (
                s.gain(s.best_weight)
                <= 2 * (2 - s.share) / (2 - (1 - s.share) * y) * (1 + 1e-9)
                <= MOST_BEST_GAIN * (1 + 1e-9)
            )


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("shift", [0.0, 0.2])
def test_formulas_agree_with_simulation(noise: str, shift: float) -> None:
    """20,000 surveys of 200 people: a formula that is off by 6 % is told apart (relative error of a variance 1 %)."""
    n, c, runs = 200, 0.2, 20_000
    random = np.random.default_rng(8)
    base = MeanSetting.laplace(people=n, share=c, epsilon=1.0, variance=1 / 12, width=1)
    if noise == "gaussian":
        base = MeanSetting.gaussian(people=n, share=c, epsilon=1.0, delta=1e-3, variance=1 / 12)
    s = replace(base, mean=0.5, client_mean=0.5 + shift)
    opted = int(c * n)
    x = random.random((runs, n))
    x[:, opted:] += shift
    draw = (lambda scale, shape: random.laplace(0, scale / math.sqrt(2), shape)) if noise == "laplace" else (
        lambda scale, shape: random.normal(0, scale, shape)
    )  # fmt: skip
    curator = x[:, :opted].mean(1) + draw(math.sqrt(s.curator_noise), runs)
    clients = (x[:, opted:] + draw(math.sqrt(s.client_noise), (runs, n - opted))).mean(1)
    everybody = x.mean(1) + draw(math.sqrt(s.client_noise), (runs, n)).mean(1)
    truth = x.mean(1)
    cases = [(curator, s.curator_error), (clients, s.client_error), (everybody, s.everybody_error)]
    weights = (s.best_weight, s.privacy_weight, s.size_weight, 0.3)
    cases += [(weight * curator + (1 - weight) * clients, s.error(weight)) for weight in weights]
    for estimates, error in cases:
        assert np.mean((estimates - truth) ** 2) == pytest.approx(error.total, rel=0.05)
    assert np.mean((curator - truth) ** 2) != pytest.approx(s.error(0.5).total, rel=0.05)


def test_goldens_of_noise() -> None:
    for delta, classic, exact in ((1e-5, 4.84481, 3.73063), (1e-6, 5.29880, 4.22468), (1e-7, 5.71686, 4.67866)):
        assert gaussian_scale(1.0, delta, exact=False) == pytest.approx(classic, abs=5e-6)
        assert gaussian_scale(1.0, delta) == pytest.approx(exact, abs=5e-6)
    assert laplace_scale(1.0, 1e-5) == pytest.approx(0.99998, abs=5e-9)
    assert laplace_scale(4.0, 1e-5, 2.0) == pytest.approx(0.4999975, abs=5e-8)
    assert laplace_scale(3.0, 1e-5, 2.0) == pytest.approx(0.66666222, abs=5e-9)


def test_client_noise_is_that_of_the_laws_on_the_grid() -> None:
    """The mean variance over numbers spread evenly over [0, 1], against the exact laws on a fine grid."""
    from fractions import Fraction

    from hush.hybrid.client.number_laws import NUMBER_LAWS

    for mechanism in ("laplace", "duchi", "piecewise"):
        law = NUMBER_LAWS[mechanism](512, Fraction(2))
        steps = range(513)
        mean = float(sum((law.variance(j) for j in steps), Fraction(0)) / 513 / 512**2)
        spread = np.var(np.linspace(0, 1, 513))
        predicted = client_noise(2.0, mechanism=mechanism, variance=float(spread))  # type: ignore[arg-type]
        assert mean == pytest.approx(predicted, rel=0.01)


@pytest.mark.parametrize(
    ("epsilon", "mechanism", "less"), [(0.5, "duchi", 1.91), (1.0, "piecewise", 1.88), (3.0, "piecewise", 2.94)]
)
def test_better_client_laws_have_much_less_error_at_small_shares(epsilon: float, mechanism: str, less: float) -> None:
    base = MeanSetting.laplace(people=1e5, share=0.001, epsilon=epsilon, variance=1 / 12)
    noise = client_noise(epsilon, mechanism=mechanism, variance=1 / 12)  # type: ignore[arg-type]
    better = replace(base, client_noise=noise)
    ratio = base.error(base.best_weight).total / better.error(better.best_weight).total
    assert ratio == pytest.approx(less, abs=0.01)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"share": 0.0}, "share=0.0: expected a number between 0 and 1"),
        ({"share": 1.0}, "since both groups are needed"),
        ({"people": 5.0}, "a share of 0.1 of them is less than one person"),
        ({"client_noise": math.nan}, "expected finite numbers of at least 0"),
    ],
)
def test_settings_that_cannot_be_are_refused(change: dict[str, float], message: str) -> None:
    base = MeanSetting.laplace(people=100, share=0.1, epsilon=1.0, variance=0.1)
    with pytest.raises(DataError, match=message):
        replace(base, **change)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="epsilon=-1"):
        MeanSetting.laplace(people=100, share=0.1, epsilon=-1, variance=0.1)
    with pytest.raises(DataError, match="use exact=True"):
        gaussian_scale(2.0, 1e-5, exact=False)


# Amplification


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
def test_the_amplified_table_of_salaries(
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
