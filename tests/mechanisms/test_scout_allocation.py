"""What scout takes to be worth measuring: shares against a general minimiser, signals from noisy distances."""

import math
from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import minimize

from hush.core.arrays import Floats
from hush.core.domain import Clique
from hush.mechanisms.scout_allocation import (
    NO_SIGNAL_SHARE,
    TYPICAL_SIGNAL,
    Incidence,
    allocate,
    effective_cells,
    expected_errors,
    signals,
)

NAMES = "abcd"
COLUMNS: list[Clique] = [(name,) for name in NAMES]
PAIRS: list[Clique] = list(combinations(NAMES, 2))
TRIPLES: list[Clique] = list(combinations(NAMES, 3))


def objective(asked: dict[Clique, float], sets: list[Clique], signal: Floats, noise: Floats, shares: Floats) -> float:
    """The weighted sum of the L_t, written out."""
    total = 0.0
    for table, weight in asked.items():
        squares = [
            1 / (1 / signal[index] + shares[index] / noise[index])
            for index, names in enumerate(sets)
            if set(names) <= set(table)
        ]
        total += weight * math.sqrt(sum(squares))
    return total


def least(asked: dict[Clique, float], sets: list[Clique], signal: Floats, noise: Floats) -> float:
    """The least objective of a general minimiser over the simplex, from several starts."""
    found = []
    for seed in range(3):
        start = np.random.default_rng(seed).dirichlet(np.full(len(sets), 3.0))
        result = minimize(
            lambda x: objective(asked, sets, signal, noise, np.maximum(x, 0.0)),
            start,
            method="SLSQP",
            bounds=[(0.0, 1.0)] * len(sets),
            constraints=[{"type": "eq", "fun": lambda x: x.sum() - 1}],
            options={"maxiter": 500, "ftol": 1e-12},
        )
        found.append(float(result.fun))
    return min(found)


@pytest.mark.parametrize("sets", [[*COLUMNS, *PAIRS], [*COLUMNS, *PAIRS, *TRIPLES]], ids=["pairs", "triples"])
@pytest.mark.parametrize("seed", range(4))
def test_shares_have_the_least_objective(sets: list[Clique], seed: int) -> None:
    random = np.random.default_rng(seed)
    asked = dict(zip(sets[4:], random.uniform(0.5, 2.0, len(sets) - 4).tolist(), strict=True))
    signal = random.uniform(200.0, 2000.0, len(sets)) ** 2
    noise = random.uniform(2.0, 20.0, len(sets)) ** 2  # so little that every set is worth its share
    shares = allocate(Incidence.of(asked, sets), signal, noise)
    assert (shares > 0).all()
    assert shares.sum() == pytest.approx(1.0, abs=1e-12)
    reached = objective(asked, sets, signal, noise, shares)
    assert reached <= 1.01 * least(asked, sets, signal, noise)
    assert reached < 0.99 * objective(asked, sets, signal, noise, np.full(len(sets), 1 / len(sets)))


@pytest.mark.parametrize("seed", range(20))
def test_shares_add_up_to_one_and_a_set_without_signal_or_use_gets_none(seed: int) -> None:
    random = np.random.default_rng(seed)
    sets = [*COLUMNS, *PAIRS]
    asked = {pair: 1.0 for pair in PAIRS if "d" not in pair}
    signal = 10.0 ** random.uniform(-2, 8, len(sets))
    noise = 10.0 ** random.uniform(-2, 8, len(sets))
    empty = int(random.integers(len(sets)))
    signal[empty] = 0.0
    shares = allocate(Incidence.of(asked, sets), signal, noise)
    assert shares.sum() == pytest.approx(1.0, abs=1e-12)
    assert (shares >= 0).all()
    assert shares[empty] == 0
    assert not any(shares[index] for index, names in enumerate(sets) if "d" in names)  # inside no asked table


def test_what_is_hopeless_still_gets_the_whole_budget() -> None:
    shares = allocate(Incidence.of({("a", "b"): 1.0}, [("a",), ("b",)]), np.array([4.0, 1.0]), np.array([1e9, 1e9]))
    assert shares.tolist() == [1.0, 0.0]


def test_more_weight_more_signal_and_more_noise_get_a_larger_share() -> None:
    sets = [*COLUMNS, *PAIRS]
    signal, noise = np.full(len(sets), 1e6), np.full(len(sets), 1e2)
    place = sets.index(("a", "b"))

    def share(asked: dict[Clique, float], signal: Floats, noise: Floats) -> float:
        return float(allocate(Incidence.of(asked, sets), signal, noise)[place])

    even = dict.fromkeys(PAIRS, 1.0)
    base = share(even, signal, noise)
    weighted = [share(even | {("a", "b"): weight}, signal, noise) for weight in (2.0, 5.0, 20.0)]
    assert base < weighted[0] < weighted[1] < weighted[2]
    more = np.arange(len(sets)) == place
    assert share(even, np.where(more, 1e3, signal), noise) < base
    assert share(even, signal, np.where(more, 4e2, noise)) > base


def test_equal_sets_get_equal_shares() -> None:
    shares = allocate(Incidence.of(dict.fromkeys(PAIRS, 1.0), [*COLUMNS, *PAIRS]), np.full(10, 1e6), np.full(10, 1e2))
    np.testing.assert_allclose(shares[:4], shares[0])
    np.testing.assert_allclose(shares[4:], shares[4])


def test_expected_errors_are_written_out_and_fall_with_the_budget() -> None:
    asked, sets = {("a", "b"): 1.0, ("b", "c", "d"): 2.0, (): 1.0}, [*COLUMNS, *PAIRS]
    random = np.random.default_rng(1)
    incidence, shares = Incidence.of(asked, sets), random.dirichlet(np.ones(len(sets)))
    signal, noise = random.uniform(1.0, 1e4, (2, len(sets)))
    found = expected_errors(incidence, signal, noise, shares)
    dense = [objective({table: 1.0}, sets, signal, noise, shares) for table in list(asked)[:2]]
    np.testing.assert_allclose(found[:2], dense)
    assert 0 < found[2] < 0.01  # the total has no set inside
    assert (expected_errors(incidence, signal, noise / 10, shares)[:2] < found[:2]).all()


@pytest.mark.parametrize("seed", range(10))
def test_incidence_is_a_double_loop(seed: int) -> None:
    random = np.random.default_rng(seed)
    every: list[Clique] = [clique for k in range(5) for clique in combinations("abcde", k)]
    asked = {every[index]: float(index + 1) for index in random.choice(len(every), 8, replace=False)}
    sets = [every[index] for index in random.permutation(len(every)) if every[index]]
    found = Incidence.of(asked, sets)
    pairs = set(zip(found.tables.tolist(), found.sets.tolist(), strict=True))
    dense = {
        (table, inner)
        for table, clique in enumerate(asked)
        for inner, names in enumerate(sets)
        if set(names) <= set(clique)
    }
    assert pairs == dense
    assert len(found.tables) == len(dense)  # none twice
    assert found.weights.tolist() == list(asked.values())
    squares = random.random(len(sets))
    sums = [sum(squares[inner] for table, inner in dense if table == index) for index in range(len(asked))]
    np.testing.assert_allclose(found.other_errors(squares), sums)


def test_little_noise_recovers_signals_up_to_the_grid() -> None:
    truth = np.array([0.0, 0.0, 40.0, 55.0, 120.0, 300.0, 444.0, 700.0])
    others = np.array([0.0, 20.0, 0.0, 10.0, 50.0, 0.0, 100.0, 30.0])
    found = signals(np.hypot(truth, others), 0.01, others, 1000.0)
    np.testing.assert_allclose(found[2:], truth[2:], rtol=0.12)
    assert found[0] < 2
    assert found[1] < 20  # the error of smaller tables is known up to a tenth


@pytest.mark.parametrize("seed", range(5))
def test_distances_of_noise_alone_are_shrunk(seed: int) -> None:
    noise = np.random.default_rng(seed).normal(scale=50.0, size=200)
    found = signals(noise, 50.0, np.zeros(200), 1000.0)
    naive = np.sqrt(np.mean(np.maximum(noise, 0.0) ** 2))
    assert np.sqrt(np.mean(found**2)) < 0.5 * naive
    assert found.max() < 0.7 * noise.max()


def test_one_large_distance_counts_less_among_many_small_ones() -> None:
    few = signals(np.array([150.0, 160.0, 140.0, 155.0]), 50.0, np.zeros(4), 1000.0)[0]
    noise = np.random.default_rng(3).normal(scale=50.0, size=500)
    many = signals(np.concatenate([[150.0], noise]), 50.0, np.zeros(501), 1000.0)[0]
    assert many < 0.75 * few


@pytest.mark.parametrize("stddev", [1.0, 30.0, 300.0])
def test_signals_rise_with_the_distance(stddev: float) -> None:
    distances = np.linspace(20.0, 900.0, 101)
    found = signals(distances, stddev, np.full(101, 40.0), 1000.0)
    assert (np.diff(found) >= -1e-3).all()
    assert found[-1] > found[0]
    assert (found >= 0).all()


def test_a_larger_error_of_smaller_tables_leaves_less_signal() -> None:
    found = signals(np.full(4, 200.0), 5.0, np.array([0.0, 100.0, 150.0, 190.0]), 1000.0)
    assert (np.diff(found) < 0).all()


@pytest.mark.parametrize("stddev", [3e3, 1e4, 1e6, 1e9])
def test_hopeless_noise_gives_about_the_mean_of_the_prior(stddev: float) -> None:
    distances = np.random.default_rng(4).normal(scale=stddev, size=3)
    found = signals(distances, stddev, np.zeros(3), 1000.0)
    np.testing.assert_allclose(found, (1 - NO_SIGNAL_SHARE) * TYPICAL_SIGNAL * 1000, rtol=0.25)


def test_effective_cells() -> None:
    assert effective_cells(np.array([0.0, 7.0, 0.0])) == pytest.approx(1.0)
    assert effective_cells(np.full((3, 4), 2.5)) == pytest.approx(12.0)
    assert effective_cells(np.zeros((2, 3))) == 6.0
    assert effective_cells(np.array([5.0, -1.0, 0.0])) >= 1.0
    for seed in range(20):
        counts = np.random.default_rng(seed).exponential(size=(5, 4)) ** 3
        assert 1 <= effective_cells(counts) <= 20
        assert effective_cells(counts) == pytest.approx(effective_cells(17 * counts))
