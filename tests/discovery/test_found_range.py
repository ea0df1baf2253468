"""Found range: bounds on noise, ranges that hold rows, and their exact law on tiny tables."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from hush.discovery import found_range as module
from hush.discovery.found_range import FoundRange, NoisyLevels, found_range, narrowed_range
from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.privacy.noise import DiscreteGaussian, DiscreteLaplace, Noise
from hush.testing.laws import renyi_divergence

QUIET, NARROW, WIDE = (DiscreteGaussian(Fraction(variance)) for variance in (Fraction(1, 4), 1, 400))
LAPLACE = DiscreteLaplace(Fraction(20))


def noisy(rows: Any, law: Noise, seed: int) -> NoisyLevels:
    exact = np.array(rows, dtype=np.int64)
    return NoisyLevels(exact + law.sample(exact.shape, NotPrivateEntropy(seed=seed)), law)


@pytest.mark.parametrize("law", [WIDE, LAPLACE])
@pytest.mark.parametrize("levels", [1, 9])
def test_sums_of_noise_exceed_their_bound_as_rarely_as_stated(law: Noise, levels: int) -> None:
    draws = law.sample((40_000, levels), NotPrivateEntropy(seed=1)).sum(axis=1)
    levels_of = NoisyLevels(np.zeros(1, dtype=np.int64), law)
    for chance in (0.05, 0.002):
        exceeding = float((draws > levels_of.noise_bound(levels, chance)).mean())
        assert exceeding <= chance
        # the bound is no wild guess: a third of it would break the promise
        assert float((draws > levels_of.noise_bound(levels, chance) / 3).mean()) > chance


@pytest.mark.parametrize("law", [WIDE, LAPLACE])
def test_the_range_is_that_of_the_rows_where_noise_is_small(law: Noise) -> None:
    rows = np.zeros(120, dtype=np.int64)
    rows[40:71] = 2000
    found = found_range(noisy(rows, law, 2))
    assert found is not None
    assert (found.first, found.last) == (40, 70)
    assert found.outside < 0.1


def test_a_range_that_noise_hides_is_all_but_the_margins_and_says_what_they_counted() -> None:
    hidden = NoisyLevels(np.array([30, 200, 260, 240, 270, 0]), DiscreteGaussian(Fraction(10**6)))
    assert found_range(hidden, skip_ends=True) is None
    assert narrowed_range(hidden) == FoundRange(1, 4, outside=1.0, estimate=0.03)


def test_rows_spread_thinly_over_many_levels_are_found() -> None:
    rows = np.zeros(256, dtype=np.int64)
    rows[64:192] = 60  # three times the noise of a level, so that no level shows by itself
    found = found_range(noisy(rows, WIDE, 3))
    assert found is not None
    assert found.first < 90
    assert found.last > 166
    thin = np.zeros(256, dtype=np.int64)
    thin[64:192] = 1
    assert found_range(noisy(thin, WIDE, 4)) is None


def test_few_rows_far_out_are_trimmed_and_many_are_kept() -> None:
    rows = np.zeros(100, dtype=np.int64)
    rows[20:30] = 100_000
    rows[95] = 400  # less than one in a thousand, and far above the noise
    found = found_range(noisy(rows, WIDE, 5))
    assert found is not None
    assert (found.first, found.last) == (20, 29)
    rows[95] = 4000
    found = found_range(noisy(rows, WIDE, 6))
    assert found is not None
    assert found.last == 95


def test_rows_in_the_last_level_alone_are_found() -> None:
    found = found_range(noisy([0, 0, 0, 5000], WIDE, 10))
    assert found is not None
    assert (found.first, found.last) == (3, 3)


def test_the_end_levels_of_a_grid_are_part_of_no_range() -> None:
    rows = np.array([5000, 0, 0, 5000, 5000, 0, 0, 5000])
    found = found_range(noisy(rows, WIDE, 7), skip_ends=True)
    assert found is not None
    assert (found.first, found.last) == (3, 4)
    assert found.outside > 0.5


def test_a_second_grid_leaves_out_no_rows_that_the_noise_may_hide() -> None:
    rows = np.zeros(60, dtype=np.int64)
    rows[10:50] = 15  # of 600 rows, beside noise of 20 in every level
    wide = [narrowed_range(noisy(rows, WIDE, seed)) for seed in range(40)]
    assert np.mean([rows[found.first : found.last + 1].sum() for found in wide]) > 590
    strict = [found_range(noisy(rows, WIDE, seed), skip_ends=True) for seed in range(40)]
    assert np.mean([0 if found is None else rows[found.first : found.last + 1].sum() for found in strict]) < 300
    rows *= 100  # now the empty levels show
    found = narrowed_range(noisy(rows, WIDE, 8))
    assert (found.first, found.last) == (10, 49)


def test_a_second_grid_that_shows_no_rows_is_kept_whole() -> None:
    found = narrowed_range(noisy(np.array([0, 2, 3, 2, 0]), WIDE, 9))
    assert (found.first, found.last) == (1, 3)
    assert found.outside > 0.9


@pytest.mark.parametrize("find", [found_range, narrowed_range])
def test_the_stated_share_outside_holds_with_the_stated_chance(find: Any) -> None:
    assert broken_statements(find) <= 8  # of 1,500 statements that may be wrong one time in 100 each; about 0 are


def test_a_bound_that_ignores_noise_breaks_the_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NoisyLevels, "noise_bound", lambda self, levels, chance: 0.2 * self.law.stddev)
    assert broken_statements(found_range) > 100


def broken_statements(find: Any) -> int:
    """How many of 1,500 statements on the share of rows outside are wrong."""
    rows = np.concatenate([np.zeros(20), [30, 60, 90, 200, 900, 900, 200, 90, 60, 30], np.zeros(20)]).astype(np.int64)
    broken = 0
    for seed in range(1500):
        found = find(noisy(rows, WIDE, seed), failure=0.01)
        if found is not None:
            inside = rows[found.first : found.last + 1].sum() / rows.sum()
            broken += bool(1 - inside > found.outside + 1e-12)
    return broken


def law_of(rows: tuple[int, ...], find: Callable[[NoisyLevels, Any], Any], noise_law: Any) -> dict[Any, float]:
    """The exact law of what is found, up to noise beyond 6 standard deviations."""
    furthest = math.ceil(6 * noise_law.stddev)
    reach = np.arange(-furthest, furthest + 1)
    chance = dict(zip(reach.tolist(), noise_law.pmf(reach).tolist(), strict=True))
    law: dict[Any, float] = {}
    for noise in itertools.product(chance, repeat=len(rows)):
        found = find(NoisyLevels(np.array(rows) + np.array(noise), noise_law), rows)
        key = None if found is None else (found.first, found.last)
        law[key] = law.get(key, 0.0) + float(np.prod([chance[value] for value in noise]))
    return law


@pytest.mark.parametrize("rows", [(0, 5, 1), (6, 0, 3)])
def test_the_law_of_a_range_is_as_private_as_its_counts(rows: tuple[int, ...]) -> None:
    check_range_privacy(rows, lambda levels, _: found_range(levels, failure=0.5))


def test_the_law_of_a_narrowed_range_is_as_private_as_its_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "NARROWED", 0.4)  # so that tables of few rows are narrowed at all
    check_range_privacy((0, 1, 6, 0), lambda levels, _: narrowed_range(levels, failure=0.5), QUIET)


def test_a_range_that_sees_exact_counts_is_caught() -> None:
    def clamped_by_exact_counts(levels: NoisyLevels, rows: Any) -> FoundRange | None:
        found = found_range(levels, failure=0.5)
        held = np.flatnonzero(rows)
        return None if found is None else FoundRange(max(found.first, int(held[0])), int(held[-1]), 0.0)

    with pytest.raises(AssertionError):
        check_range_privacy((0, 5, 0), clamped_by_exact_counts)


def check_range_privacy(rows: tuple[int, ...], find: Callable[[NoisyLevels, Any], Any], noise: Any = NARROW) -> None:
    """rho-zCDP with rho = 1 / (2 v) for noise of variance v, towards every neighbour, by the exact law."""
    law, rho = law_of(rows, find, noise), 1 / (2 * float(noise.variance_parameter))
    assert len(law) > 1  # the range is not settled
    for at in range(len(rows)):
        other = law_of(tuple(count + (place == at) for place, count in enumerate(rows)), find, noise)
        for alpha in (1.5, 4.0):
            for first, second in ((law, other), (other, law)):
                assert renyi_divergence(first, second, alpha) <= alpha * rho + 1e-6


def test_nothing_is_found_in_noise_alone() -> None:
    empty = np.zeros(160, dtype=np.int64)
    found = [found_range(noisy(empty, WIDE, seed), failure=module.BETA) for seed in range(300)]
    assert sum(one is not None for one in found) <= 3
