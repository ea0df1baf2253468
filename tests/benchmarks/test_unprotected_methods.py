"""Yardsticks on bare counts: right where there is no noise to speak of, and as noisy as their formulas say."""

import math

import numpy as np
import pytest
from benchmarks.unprotected_methods import LINES, MAPS, hybrid_tree, kept_coefficients

from benchmarks import unprotected_methods

STEPS = np.repeat(np.random.default_rng(1).integers(0, 60, 8), 20)  # 160 cells, four buckets of StructureFirst at most


@pytest.mark.parametrize("name", ["EFPA", "P-HP", "DPCube"])
def test_much_budget_gives_the_counts_of_a_line_back(name: str) -> None:
    found = LINES[name](STEPS, 1e6, np.random.default_rng(2))
    assert found == pytest.approx(STEPS, abs=0.5)


def test_a_fixed_number_of_buckets_finds_four_even_runs() -> None:
    runs = np.repeat([5, 40, 0, 90], 40)
    assert LINES["StructureFirst"](runs, 1e6, np.random.default_rng(3)) == pytest.approx(runs, abs=0.5)
    assert np.unique(LINES["StructureFirst"](STEPS, 1e6, np.random.default_rng(3)).round(6)).size == 4


@pytest.mark.parametrize("name", MAPS)
def test_much_budget_gives_the_counts_of_a_map_back(name: str) -> None:
    counts = np.random.default_rng(4).integers(0, 9, (12, 9))
    assert MAPS[name](counts, 1e6, np.random.default_rng(5)) == pytest.approx(counts, abs=0.5)


def test_kept_coefficients_have_the_noise_of_their_sensitivity(monkeypatch: pytest.MonkeyPatch) -> None:
    """If one coefficient is kept, the total has the standard deviation sqrt(2 n) (1 / sqrt(n)) / (epsilon / 2).

    The sample standard deviation of 400 draws of Laplace noise is within a quarter of it, but for chances below 1e-3.
    """
    monkeypatch.setattr(unprotected_methods, "chosen", lambda *_: 0)
    zeros = np.zeros(64)
    totals = [kept_coefficients(zeros, 1.0, np.random.default_rng(seed)).sum() for seed in range(400)]
    assert np.std(totals) == pytest.approx(math.sqrt(2) * 2, rel=0.25)


def test_the_noise_of_the_hybrid_tree_averages_out_over_the_whole_map() -> None:
    """Least squares know the total better than the root alone, whose share of the budget is the smallest."""
    zeros = np.zeros((8, 8), dtype=np.int64)
    totals = [float(hybrid_tree(zeros, 1.0, np.random.default_rng(seed)).sum()) for seed in range(200)]
    shares = 2.0 ** (np.arange(8) / 3)
    alone = math.sqrt(2) / (0.7 * shares[0] / shares.sum())
    assert abs(np.mean(totals)) < 5 * np.std(totals) / math.sqrt(200)
    assert np.std(totals) < 0.9 * alone
