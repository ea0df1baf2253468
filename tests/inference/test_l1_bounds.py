"""Every bound fails at most as often as it says, and versions with a part left out fail far more often.

Rates are compared with the nominal one at odds of 1e-6; a bound that fails twice as often is found with odds of 1e-3.
"""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtri
from scipy.stats import binom

from hush.core.arrays import Floats
from hush.inference import l1_bounds

TRIALS = 4000
FAILURE = 0.05
MOST = int(binom.isf(1e-6, TRIALS, FAILURE))  # failures that are still by chance


def random(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def correlated(kind: str, n: int) -> Floats:
    """The root of a covariance whose cells all have variance 4."""
    if kind == "white":
        return 2.0 * np.eye(n)
    if kind == "common":  # all cells share most of their noise
        return 2.0 * np.linalg.cholesky(np.full((n, n), 0.95) + 0.05 * np.eye(n))
    contrasts = np.eye(n) - 1 / n  # a known total
    return 2.0 * contrasts / math.sqrt(contrasts[0, 0])


def eigenvalue(root: Floats) -> float:
    return float(np.linalg.eigvalsh(root @ root.T).max())


def test_the_test_has_power() -> None:
    assert binom.sf(MOST, TRIALS, 2 * FAILURE) > 0.999


@pytest.mark.parametrize("kind", ["white", "common", "contrasts"])
@pytest.mark.parametrize("n", [1, 2, 10, 100])
def test_noise_l1_holds(kind: str, n: int) -> None:
    if kind == "contrasts" and n == 1:
        n = 3
    root = correlated(kind, n)
    norms = np.abs(random().normal(size=(TRIALS, n)) @ root.T).sum(axis=1)
    bound = l1_bounds.noise_l1(n, 4.0, eigenvalue(root), FAILURE)
    assert (norms > bound).sum() <= MOST
    assert (norms > math.sqrt(2 / math.pi) * n * 2.0).mean() > 0.3  # the mean alone is no bound


def test_cells_that_share_their_noise_need_the_eigenvalue() -> None:
    root = correlated("common", 100)
    norms = np.abs(random().normal(size=(TRIALS, 100)) @ root.T).sum(axis=1)
    assert (norms > l1_bounds.noise_l1(100, 4.0, 4.0, FAILURE)).sum() > 3 * MOST


@pytest.mark.parametrize(("n", "less"), [(2, 0.75), (1000, 0.7)])
def test_noise_l1_is_tighter_than_in_the_paper(n: int, less: float) -> None:
    printed = math.sqrt(2 * math.log(2)) * n + math.sqrt(math.log(1 / FAILURE)) * math.sqrt(2 * n)
    with_mean = math.sqrt(2 / math.pi) * n + math.sqrt(math.log(1 / FAILURE)) * math.sqrt(2 * n)
    found = l1_bounds.noise_l1(n, 1.0, 1.0, FAILURE)
    assert found < with_mean < printed
    assert found < less * printed


@pytest.mark.parametrize("kind", ["white", "common", "contrasts"])
@pytest.mark.parametrize("k", [1, 8, 50, 100])
def test_top_noise_holds_for_all_sets_at_once(kind: str, k: int) -> None:
    root = correlated(kind, 100)
    noise = np.maximum(random().normal(size=(TRIALS, 100)) @ root.T, 0.0)
    top = np.sort(noise, axis=1)[:, -k:].sum(axis=1)
    assert (top > l1_bounds.top_noise(100, k, 4.0, eigenvalue(root), FAILURE)).sum() <= MOST


def test_top_noise_is_near_what_the_largest_are() -> None:
    top = np.sort(random().normal(size=(TRIALS, 1000)), axis=1)[:, -32:].sum(axis=1)
    assert l1_bounds.top_noise(1000, 32, 1.0, 1.0, FAILURE) < 1.2 * top.mean()
    one_set = 32 / math.sqrt(2 * math.pi) + 1.645 * math.sqrt(32)  # as if the cells had been named beforehand
    assert (top > one_set).mean() > 0.99


def sparse(n: int, filled: int, records: int) -> Floats:
    true = np.zeros(n)
    true[:filled] = random(1).multinomial(records, np.full(filled, 1 / filled))
    return true


FITS = {
    "clipped": lambda y, true: np.maximum(y, 0.0),
    "soft": lambda y, true: np.maximum(y - 4.0, 0.0),
    "largest": lambda y, true: np.where(y >= np.sort(y)[-12], np.maximum(y, 0.0), 0.0),
    "away": lambda y, true: np.maximum(2 * true - y, 0.0),  # off by the same noise to the other side
    "apart": lambda y, true: np.full(len(y), true.sum() / len(y)),
}


@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize(("n", "filled"), [(16, 16), (100, 100), (1000, 10)])
def test_supported_holds_for_models_fitted_to_the_noise(fit: str, n: int, filled: int) -> None:
    true, trials = sparse(n, filled, 4000), TRIALS // 4
    failed = 0
    for noise in random(2).normal(scale=3.0, size=(trials, n)):
        model = FITS[fit](true + noise, true)
        bound = l1_bounds.supported(model, true + noise, 9.0, 9.0, FAILURE, records=true.sum())
        failed += bool(np.abs(true - model).sum() > bound)
    assert failed <= binom.isf(1e-6, trials, FAILURE)


def test_sparse_tables_have_far_smaller_bounds() -> None:
    true = sparse(10_000, 100, 50_000)
    noisy = true + random(3).normal(scale=30.0, size=len(true))
    model = np.where(np.arange(len(true)) < 100, np.maximum(noisy, 0.0), 0.0)
    plain = l1_bounds.supported(model, noisy, 900.0, 900.0, FAILURE)
    found = l1_bounds.supported(model, noisy, 900.0, 900.0, FAILURE, records=50_000)
    assert np.abs(true - model).sum() <= found < 0.1 * plain


def test_the_overlap_needs_the_noise_taken_off() -> None:
    true = sparse(1000, 10, 4000)
    failed = 0
    for noise in random(4).normal(scale=3.0, size=(200, 1000)):
        model = np.maximum(true + noise, 0.0)
        overlap = np.minimum(model, true + noise).clip(min=0).sum()
        failed += bool(np.abs(true - model).sum() > true.sum() + model.sum() - 2 * overlap)
    assert failed > 190


def test_no_table_is_further_off_than_all_records() -> None:
    bound = l1_bounds.supported(np.full(4, 5.0), np.full(4, 1e6), 1.0, 1.0, FAILURE, records=30.0)
    assert bound == 50.0


@pytest.mark.parametrize("n", [4, 63, 64, 1000])
@pytest.mark.parametrize("off", [0.0, 0.7, 3.0, 50.0])
@pytest.mark.parametrize("spread", ["even", "one cell"])
def test_chosen_holds(n: int, off: float, spread: str) -> None:
    gap = np.full(n, off) if spread == "even" else np.eye(1, n)[0] * off * n
    misfits = np.abs(gap + random(5).normal(size=(TRIALS, n))).sum(axis=1)
    lowest = next(m for m in np.sort(misfits) if l1_bounds.chosen(m, 1.0, n, FAILURE) >= off * n - 1e-9)
    assert (misfits < lowest).sum() <= MOST


def test_chosen_is_nearly_sharp_where_the_model_is_far_off() -> None:
    misfits = np.abs(50.0 + random(6).normal(size=(TRIALS, 10))).sum(axis=1)
    failed = sum(l1_bounds.chosen(m, 1.0, 10, FAILURE) < 500.0 for m in misfits)
    assert binom.ppf(1e-6, TRIALS, FAILURE) <= failed <= MOST
    assert np.mean(misfits < 500.0) > 0.4  # the misfit alone is no bound


@pytest.mark.parametrize(("weight", "rate"), [(3.0, 0.18), (10.0, 0.40)])
def test_the_weight_belongs_to_the_noise_too(weight: float, rate: float) -> None:
    """[AIM, Thm 4] as printed, for the chosen table itself and a choice without noise: violated at these rates."""
    n, true = 25, 50.0 * 25
    misfits = np.abs(50.0 + random(7).normal(size=(TRIALS, n))).sum(axis=1)
    spread = math.sqrt(2 * math.log(2 / FAILURE)) * math.sqrt(n)
    printed = (weight * misfits + spread) / weight
    assert (true > printed).mean() == pytest.approx(rate, abs=0.03)
    noise, choice = l1_bounds.split(FAILURE)
    found = [
        l1_bounds.unsupported(l1_bounds.chosen(m, 1.0, n, noise), 20.0, 1.0, 20.0, 0.0, 0.0, choice) for m in misfits
    ]
    assert (true > np.array(found)).sum() <= binom.isf(1e-6, TRIALS, noise)
    assert np.mean(found) < np.mean(misfits + spread)  # and smaller than the printed bound with its factor


def test_split_adds_up() -> None:
    assert sum(l1_bounds.split(0.04)) == pytest.approx(0.04)


def test_half_each_is_nearly_the_best_fixed_split() -> None:
    """The noise and choice terms of nine parts of the budget for measuring to one for choosing, in the same unit."""
    shares = np.linspace(0.02, 0.98, 97)
    cells, weights = np.array([2, 10, 100, 1000, 10_000])[:, None, None], np.array([1.0, 3.0])[:, None]
    terms = np.sqrt(cells / 1.8) * -ndtri(FAILURE * (1 - shares)) - weights * np.log(FAILURE * shares) / math.sqrt(0.2)
    regret = (terms / terms.min(axis=2, keepdims=True)).max(axis=(0, 1))
    half = regret[np.abs(shares - l1_bounds.CHOICE_SHARE).argmin()]
    assert half < 1.16
    assert half < regret.min() + 0.02


@given(st.lists(st.floats(-9, 9), min_size=2, max_size=6), st.integers(0, 9999))
def test_a_margin_holds_for_every_sum(gaps: list[float], seed: int) -> None:
    d = np.array(gaps)
    a = random(seed).normal(size=len(d))
    margin = l1_bounds.linear_margin(a.min(), a.max(), float(np.abs(d).sum()), abs(float(d.sum())))
    assert abs(a @ d) <= margin + 1e-9


def test_a_margin_is_reached() -> None:
    d, a = np.array([7.0, -4.0, 0.0]), np.array([3.0, -1.0, 0.5])
    assert l1_bounds.linear_margin(a.min(), a.max(), 11.0, 3.0) == pytest.approx(a @ d)
    assert l1_bounds.linear_margin(a.min(), a.max(), 11.0, math.inf) == 33.0


def test_the_total_is_bounded_on_both_sides() -> None:
    draws = 100.0 + random(8).normal(scale=2.0, size=TRIALS)
    failed = sum(l1_bounds.total_error(one, 4.0, 140.0, FAILURE) < 40.0 for one in draws)
    assert 0 < failed <= MOST


SIGMAS = [*np.arange(0.05, 1.2, 0.03), *np.arange(1.2, 5.0, 0.4)]  # variance parameters are their squares
FAILURES = (0.5, 0.2, 0.1, 0.05, 0.0475, 0.025, 0.01, 1e-3)


def discrete(sigma: float) -> tuple[Floats, Floats]:
    """Whole numbers and their chances under discrete Gaussian noise."""
    values = np.arange(-64, 65)
    chances = np.exp(-(values**2) / (2 * sigma**2))
    return values, chances / chances.sum()


def beyond(chances: Floats, bound: float) -> float:
    """The chance that a number, 0 or more with these chances, is above a bound."""
    return float(chances[math.floor(bound + 1e-9) + 1 :].sum())


def worst(step: float, *, sums: bool, least: float = 0.0) -> float:
    """The largest exact failure rate over its nominal one, of sums of noise or of their absolute values."""
    found = 0.0
    for sigma in (one for one in SIGMAS if one >= least):
        values, own = discrete(sigma)
        single = own if sums else np.bincount(np.abs(values), own)
        chances = np.ones(1)
        for n in range(1, 41):
            chances = np.convolve(chances, single)
            upper = chances[len(chances) // 2 :] if sums else chances
            for failure in FAILURES:
                if sums:
                    bound = l1_bounds.chosen(0.0, sigma, n, failure, step)
                else:
                    bound = l1_bounds.noise_l1(n, sigma**2, sigma**2, failure, step)
                found = max(found, beyond(upper, bound) / failure)
    return found


@pytest.mark.parametrize("sums", [False, True])
def test_noise_in_whole_numbers_fails_as_rarely_as_said_by_its_exact_law(sums: bool) -> None:
    assert worst(1.0, sums=sums) <= 1 + 1e-9


def test_noise_in_whole_numbers_needs_the_half_step() -> None:
    assert worst(0.0, sums=False) > 1.5
    assert worst(0.0, sums=True, least=0.8) > 2


@pytest.mark.parametrize("sigma", SIGMAS)
def test_means_of_noise_in_whole_numbers(sigma: float) -> None:
    values, chances = discrete(sigma)
    for share in 2.0 ** -np.arange(1, 20, 0.5):
        threshold = -float(ndtri(share)) * sigma
        exact = share * threshold + chances @ np.maximum(values - threshold, 0.0)
        cells = 2**20
        made = l1_bounds.top_noise(cells, 1, sigma**2, 0.0, 0.5, 1.0) if share * cells == 1 else None
        mean = sigma * math.exp(-((threshold / sigma) ** 2) / 2) / math.sqrt(2 * math.pi)
        assert exact <= mean * (1 + l1_bounds.STEP_SURPLUS / sigma**2) * (1 + 1e-9)
        assert made is None or made >= cells * exact
    deficit = math.sqrt(2 / math.pi) * min(sigma, l1_bounds.STEP_DEFICIT / sigma)
    for gap in np.arange(0, 4, 0.1):
        gaussian = sigma * math.sqrt(2 / math.pi) * math.exp(-((gap / sigma) ** 2) / 2) + gap * math.erf(
            gap / sigma / math.sqrt(2)
        )
        assert chances @ np.abs(values + gap) >= gaussian - deficit - 1e-12
