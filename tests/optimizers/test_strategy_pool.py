import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hush.linops import LevelsAndTotal
from hush.optimizers.strategy_pool import MergedLevels, best_levels_and_total, levels_and_total_error
from hush.strategies.optimum import gram_factor, optimal_gram
from hush.strategies.strategy import NoiseKind


@given(st.integers(2, 12), st.floats(0.01, 100), st.floats(0.0, 100), st.sampled_from(NoiseKind))
def test_its_error_is_the_dense_one_and_its_sensitivity_one(
    n: int, alpha: float, beta: float, noise: NoiseKind
) -> None:
    best = best_levels_and_total(n, alpha, beta, noise)
    error = levels_and_total_error(best, alpha, beta)
    assert best.column_norms(noise.norm) == pytest.approx(np.ones(n))
    gram = alpha * np.eye(n) + beta
    assert error == pytest.approx(np.trace(np.linalg.inv(best.gram_dense()) @ gram), rel=1e-6)
    for total in (0.01, 0.1, 0.3, 0.6):
        level = math.sqrt(1 - total**2) if noise is NoiseKind.GAUSSIAN else 1 - total
        other = LevelsAndTotal(n, level, total)
        assert error <= levels_and_total_error(other, alpha, beta) * (1 + 1e-9)


@pytest.mark.parametrize(("n", "beta"), [(5, 1.0), (30, 0.2), (30, 40.0)])
def test_gaussian_closed_form_is_the_certified_optimum(n: int, beta: float) -> None:
    lower = optimal_gram(gram_factor(np.eye(n) + beta)).value.lower_bound
    best = best_levels_and_total(n, 1.0, beta, NoiseKind.GAUSSIAN)
    assert levels_and_total_error(best, 1.0, beta) == pytest.approx(lower, rel=1e-3)


def test_totals_alone_are_measured_as_a_total_and_support_nothing_else() -> None:
    best = best_levels_and_total(7, 0.0, 3.0, NoiseKind.LAPLACE)
    assert levels_and_total_error(best, 0.0, 3.0) == 3.0
    assert levels_and_total_error(best, 1.0, 0.0) == math.inf
    assert best.shape == (1, 7)


@example(73083)  # rows of two classes with keys that differ in the last digits only
@given(st.integers(0, 2**32 - 1))
def test_merged_levels_reproduce_the_queries(seed: int) -> None:
    random = np.random.default_rng(seed)
    classes = random.integers(0, 3, 9)
    w = random.integers(0, 2, (4, 3))[:, classes].astype(float)
    gram = w.T @ w
    merged = MergedLevels.of(gram)
    assert merged.supports(gram)
    assert len(merged.members) <= 3
    wide = merged.expand(np.eye(len(merged.members)))
    assert wide.T @ merged.reduce(gram) @ wide == pytest.approx(gram)
    assert merged.supports(np.eye(9)) == (len(merged.members) == 9)
