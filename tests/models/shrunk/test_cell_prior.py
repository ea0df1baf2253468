"""Noisy cells are shrunk as the formulas say, and shrinking brings them nearer to the counts."""

from __future__ import annotations

import numpy as np
import pytest

from hush.core.arrays import Floats
from hush.models.shrunk._kernels import component_likelihoods, posterior_means, spread_likelihoods
from hush.models.shrunk.cell_prior import (
    FACTORS,
    NARROW_TAU,
    OUTLIER_SHARE,
    SPREADS,
    STANDARD_DEVIATIONS,
    WIDTHS,
    ZERO_SHARES,
    NoisyCells,
    shrink,
)

# The standard deviation of log2 f and the share of zeros, for each of SPREADS.
LAWS_OF_SPREADS = [
    (tau, zeros) for tau in STANDARD_DEVIATIONS[1:] for zeros in (ZERO_SHARES if tau >= NARROW_TAU else ZERO_SHARES[:1])
]
TAUS, ZEROS = np.array([(0.0, 0.0), *LAWS_OF_SPREADS]).T
WIDEST = SPREADS[-len(ZERO_SHARES)]  # the law of outliers, which every spread has a little of
LAWS = {
    "near the prediction": lambda generator, cells: generator.gamma(20.0, 3.0, cells),
    "predicted near zero": lambda generator, cells: 10.0 ** generator.uniform(-9.0, 0.0, cells),
    "huge counts": lambda generator, cells: 10.0 ** generator.uniform(6.0, 11.0, cells),
}


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def random_cells(law: str, largest: float, stddev: float, seed: int, cells: int = 60) -> NoisyCells:
    """Cells with the counts of a random spread; each count is at most `largest` times what was predicted."""
    source = generator(seed)
    predicted = LAWS[law](source, cells)
    most = predicted * largest
    counts = np.minimum(predicted * source.choice(FACTORS, cells, p=SPREADS[seed % len(SPREADS)]), most)
    return NoisyCells(counts + source.normal(0.0, stddev, cells), predicted, most, stddev**2)


def component_logarithms(table: NoisyCells) -> tuple[Floats, Floats, Floats]:
    """Means and variances of every component, and the logarithms of their likelihoods: all of (cells, components)."""
    means = np.minimum(np.outer(table.predicted, FACTORS), table.largest[:, None])
    own = means + (WIDTHS * means) ** 2
    spread = own + table.variance
    return means, own, -0.5 * ((table.noisy[:, None] - means) ** 2 / spread + np.log(spread))


def plain_spread_likelihoods(table: NoisyCells) -> Floats:
    _, _, logarithms = component_logarithms(table)
    best = logarithms.max(axis=1, keepdims=True)
    return np.asarray((np.log(np.exp(logarithms - best) @ SPREADS.T + 1e-300) + best).sum(axis=0))


def plain_posterior_means(table: NoisyCells, weights: Floats) -> Floats:
    means, own, logarithms = component_logarithms(table)
    likelihoods = weights * np.exp(logarithms - logarithms.max(axis=1, keepdims=True))
    expected = means + own / (own + table.variance) * (table.noisy[:, None] - means)
    return np.maximum((likelihoods * expected).sum(axis=1) / (likelihoods.sum(axis=1) + 1e-300), 0.0)


def compiled_spread_likelihoods(table: NoisyCells) -> Floats:
    found = np.full(len(SPREADS), np.nan)
    spread_likelihoods(table.noisy, table.predicted, table.largest, table.variance, FACTORS, WIDTHS, SPREADS, found)
    return found


def compiled_posterior_means(table: NoisyCells, weights: Floats) -> Floats:
    found = np.full(len(table.noisy), np.nan)
    posterior_means(table.noisy, table.predicted, table.largest, table.variance, FACTORS, WIDTHS, weights, found)
    return found


@pytest.mark.parametrize("stddev", [0.5, 30.0, 1e4])
@pytest.mark.parametrize("largest", [0.3, 4.0, 1e9], ids=["largest below predicted", "largest near", "no largest"])
@pytest.mark.parametrize("law", LAWS)
def test_likelihoods_of_spreads_are_those_of_the_plain_formula(law: str, largest: float, stddev: float) -> None:
    for seed in range(8):
        table = random_cells(law, largest, stddev, seed)
        np.testing.assert_allclose(compiled_spread_likelihoods(table), plain_spread_likelihoods(table), rtol=1e-9)


@pytest.mark.parametrize("stddev", [0.5, 30.0, 1e4])
@pytest.mark.parametrize("largest", [0.3, 4.0, 1e9], ids=["largest below predicted", "largest near", "no largest"])
@pytest.mark.parametrize("law", LAWS)
def test_posterior_means_are_those_of_the_plain_formula(law: str, largest: float, stddev: float) -> None:
    for seed in range(8):
        table = random_cells(law, largest, stddev, seed)
        weights = generator(seed).dirichlet(np.ones(len(SPREADS))) @ SPREADS
        found, expected = compiled_posterior_means(table, weights), plain_posterior_means(table, weights)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_component_likelihoods_are_over_the_largest_of_them() -> None:
    table = random_cells("near the prediction", 4.0, 10.0, 3, cells=1)
    likelihoods = np.empty(len(FACTORS))
    arguments = (float(table.noisy[0]), float(table.predicted[0]), float(table.largest[0]), table.variance)
    best = component_likelihoods(*arguments, FACTORS, WIDTHS, likelihoods)
    expected = component_logarithms(table)[2][0]
    assert best == pytest.approx(expected.max(), rel=1e-12)
    assert likelihoods.max() == 1.0
    np.testing.assert_allclose(likelihoods, np.exp(expected - expected.max()), rtol=1e-12)


def test_spreads_are_laws_of_factors() -> None:
    assert SPREADS.shape == (1 + len(LAWS_OF_SPREADS), len(FACTORS))
    assert SPREADS.min() >= 0.0
    np.testing.assert_allclose(SPREADS.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(SPREADS[:, 0], (1 - OUTLIER_SHARE) * ZEROS)
    assert FACTORS[:2].tolist() == [0.0, 1.0]
    assert WIDTHS[:2].tolist() == [0.0, 0.0]
    assert np.all(np.diff(FACTORS[2:]) > 0.0)
    assert SPREADS[0, 1] == pytest.approx(1 - OUTLIER_SHARE)
    assert (SPREADS[:, 2:] > 0.0).all()  # so that no count is ruled out


def test_factors_are_one_on_average_in_every_spread() -> None:
    means = SPREADS @ FACTORS
    np.testing.assert_allclose(means, 1.0, atol=0.08)
    np.testing.assert_allclose(means[TAUS < 2.0], 1.0, atol=0.005)


def test_wide_spreads_have_their_standard_deviation() -> None:
    exponents = np.log2(FACTORS[2:])
    for tau, zeros, weights in zip(TAUS, ZEROS, SPREADS, strict=True):
        if 0.5 <= tau <= 1.8:
            own = weights - OUTLIER_SHARE * WIDEST
            law = own[2:] / own[2:].sum()
            mean = law @ exponents
            assert np.sqrt(law @ (exponents - mean) ** 2) == pytest.approx(tau, rel=0.03)
            assert own[1:].sum() == pytest.approx((1 - OUTLIER_SHARE) * (1 - zeros))


@pytest.mark.parametrize("stddev", [0.5, 30.0, 1e4])
@pytest.mark.parametrize("law", LAWS)
def test_shrunk_counts_are_between_zero_and_what_was_seen_or_predicted(law: str, stddev: float) -> None:
    tables = [random_cells(law, 100.0, stddev, seed) for seed in range(8)]
    for table, found in zip(tables, shrink(tables), strict=True):
        assert found.min() >= 0.0
        # Every component is between its mean, which is at most `largest`, and the noisy count.
        assert np.all(found <= np.maximum(table.largest, table.noisy) * (1 + 1e-9))
        assert np.all(found >= np.minimum(table.noisy, 0.0))


def test_counts_with_little_noise_come_back() -> None:
    counts = generator(1).gamma(2.0, 500.0, 40) + 1.0
    predicted = counts * generator(2).uniform(0.3, 3.0, 40)
    (found,) = shrink([NoisyCells(counts, predicted, np.full(40, 1e6), 1e-4)])
    np.testing.assert_allclose(found, counts, rtol=1e-3)


def test_counts_under_enormous_noise_become_the_prediction() -> None:
    predicted = generator(1).gamma(5.0, 100.0, 40)
    tables = []
    for seed in range(20):
        noisy = predicted + generator(seed).normal(0.0, 1e7, 40)
        tables.append(NoisyCells(noisy, predicted, np.full(40, 1e5), 1e14))
    for found in shrink(tables):
        np.testing.assert_allclose(found, predicted, rtol=0.15)
        assert found.sum() == pytest.approx(predicted.sum(), rel=0.1)


def test_no_tables_are_none() -> None:
    assert shrink([]) == []


def test_predictions_of_zero_are_taken() -> None:
    (found,) = shrink([NoisyCells(np.array([3.0, -2.0, 50.0]), np.array([0.0, 0.0, 50.0]), np.full(3, 60.0), 9.0)])
    assert np.isfinite(found).all()
    assert found[:2].max() < 0.1
    assert found[2] == pytest.approx(50.0, rel=0.05)


def test_a_table_that_stands_out_follows_its_counts_and_the_others_their_predictions() -> None:
    predicted, most = np.full(50, 20.0), np.full(50, 1000.0)
    tables = [
        NoisyCells(predicted + generator(seed).normal(0.0, 10.0, 50), predicted, most, 100.0) for seed in range(9)
    ]
    occupied = np.where(np.arange(50) % 10 == 0, 200.0, 0.0)
    tables.append(NoisyCells(occupied + generator(9).normal(0.0, 10.0, 50), predicted, most, 100.0))
    *alike, apart = shrink(tables)
    assert max(float(np.abs(table - predicted).mean()) for table in alike) < 2.5
    assert np.abs(apart - occupied).mean() < 4.0
    np.testing.assert_allclose(apart[::10], 200.0, atol=30.0)


def generated(kind: str, seed: int) -> tuple[Floats, Floats]:
    """The counts of two columns with 8 and 9 levels, and the product of their margins."""
    source = generator(seed)
    joint = np.outer(source.dirichlet(np.ones(8)), source.dirichlet(np.ones(9)))
    if kind == "dependent":
        joint = joint * np.exp(source.normal(0.0, 1.5, joint.shape))
    elif kind == "sparse":
        joint = joint * (source.random(joint.shape) < 0.15) + 1e-6
    counts = source.multinomial(5000, (joint / joint.sum()).ravel()).reshape(joint.shape).astype(float)
    return counts, np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()


def errors(kind: str, stddev: float, variance: float) -> tuple[float, float, float]:
    """The mean absolute error of shrunk tables, that of noisy ones cut at zero, and the distance between the two.

    Only cells that are predicted to have a row at least: others are known to be empty or nearly so.
    """
    counts, tables = [], []
    for seed in range(30):
        exact, predicted = generated(kind, seed)
        noisy = exact + generator(1000 + seed).normal(0.0, stddev, exact.shape)
        most = np.minimum.outer(exact.sum(axis=1), exact.sum(axis=0))
        counts.append(exact.ravel())
        tables.append(NoisyCells(noisy.ravel(), predicted.ravel(), most.ravel(), variance))
    seen = np.array([table.predicted for table in tables]) >= 1.0
    shrunk, exact = np.array(shrink(tables))[seen], np.array(counts)[seen]
    cut = np.maximum([table.noisy for table in tables], 0.0)[seen]
    return float(np.abs(shrunk - exact).mean()), float(np.abs(cut - exact).mean()), float(np.abs(shrunk - cut).mean())


@pytest.mark.parametrize(
    ("kind", "stddev", "ratio"),
    [
        ("independent", 5.0, 0.8),
        ("independent", 20.0, 0.4),
        ("independent", 80.0, 0.2),
        ("dependent", 20.0, 0.9),
        ("dependent", 80.0, 0.7),
        ("sparse", 20.0, 0.7),
        ("sparse", 80.0, 0.7),
    ],
)
def test_shrinking_lowers_the_error(kind: str, stddev: float, ratio: float) -> None:
    shrunk, cut, _ = errors(kind, stddev, stddev**2)
    assert shrunk < ratio * cut


@pytest.mark.parametrize("kind", ["independent", "dependent", "sparse"])
def test_noise_that_is_stated_too_small_is_kept(kind: str) -> None:
    """A negative control: the error falls because the noise is known, not by itself."""
    stated, cut, kept = errors(kind, 20.0, 20.0**2 / 100)
    shrunk, _, moved = errors(kind, 20.0, 20.0**2)
    assert kept < 0.1 * moved
    assert stated > 1.1 * shrunk
    assert stated == pytest.approx(cut, rel=0.05)


def test_one_cell_that_stands_out_of_many_is_kept() -> None:
    noisy = generator(0).poisson(1000.0, 1000) + generator(1).normal(0.0, 10.0, 1000)
    noisy[7] = 1e6
    (found,) = shrink([NoisyCells(noisy, np.full(1000, 1000.0), np.full(1000, 1e7), 100.0)])
    assert found[7] == pytest.approx(1e6, rel=0.1)
