"""The sparse vector technique: stated figures, exact probabilities on neighbours, its error; the error of training."""

import itertools
import math

import numpy as np
import pytest
from scipy.integrate import quad

from hush.core.errors import SearchError
from hush.pareto import (
    PrivateLogisticRegression,
    SparseVector,
    TrainingError,
    sparse_vector_epsilon,
    sparse_vector_error,
    sparse_vector_space,
)


@pytest.mark.parametrize(("cap", "noise", "epsilon"), [(5, 0.1, 177.9602), (10, 0.1, 310.8248)])
def test_epsilon_is_the_stated_figure_and_the_sum_of_its_parts(cap: int, noise: float, epsilon: float) -> None:
    mechanism = SparseVector(noise=noise, cap=cap)
    first, second = mechanism.scales
    assert mechanism.epsilon == pytest.approx(epsilon, abs=5e-5)
    assert mechanism.epsilon == pytest.approx(1 / first + 2 * cap / second)
    assert first + second == pytest.approx(noise)


@pytest.mark.parametrize("cap", [1, 5, 10, 20])
def test_without_noise_the_first_positives_are_found(cap: int) -> None:
    expected = 1 - 2 * min(cap, 10) / (min(cap, 10) + 10)
    random = np.random.default_rng(cap)
    errors = {round(sparse_vector_error({"noise": 1e-9, "cap": cap}, random), 12) for _ in range(20)}
    assert errors == {round(expected, 12)}


def outcome_probability(outcome: tuple[int, ...], answers: tuple[float, ...], cap: int, scales: tuple[float, float]):
    """The probability of an outcome, by integration over the noise of the threshold."""
    first, second = scales

    def above(gap: float) -> float:
        """P(Lap(second) >= gap)."""
        return 0.5 * math.exp(-gap / second) if gap >= 0 else 1 - 0.5 * math.exp(gap / second)

    def density(rho: float) -> float:
        chance, positives = math.exp(-abs(rho) / first) / (2 * first), 0
        for called, answer in zip(outcome, answers, strict=True):
            if positives == cap:
                return chance  # the run is over; outcomes here have no further positives
            p = above(0.5 + rho - answer)
            chance *= p if called else 1 - p
            positives += called
        return chance

    ends = [-60 * max(scales), -1, -0.5, 0, 0.5, 1, 60 * max(scales)]
    return sum(quad(density, a, b, limit=200)[0] for a, b in itertools.pairwise(ends))


def worst_ratio(cap: int, scales: tuple[float, float]) -> float:
    """The largest log ratio of an outcome's probabilities over neighbours, whose answers move by up to 1 each way."""
    outcomes = [o for o in itertools.product((0, 1), repeat=3) if sum(o) <= cap]
    worst = 0.0
    for answers, others in [((0, 0, 1), (1, 1, 0)), ((0, 0, 0), (1, 1, 1)), ((1, 0, 1), (0, 1, 0))]:
        for outcome in outcomes:
            p, q = (outcome_probability(outcome, tuple(map(float, a)), cap, scales) for a in (answers, others))
            worst = max(worst, abs(math.log(p / q)))
    return worst


@pytest.mark.parametrize(("cap", "noise"), [(1, 1.0), (2, 3.0)])
def test_no_outcome_tells_neighbours_apart_by_more_than_epsilon(cap: int, noise: float) -> None:
    mechanism = SparseVector(noise=noise, cap=cap)
    loss = worst_ratio(cap, mechanism.scales)
    assert 0.3 * mechanism.epsilon < loss <= mechanism.epsilon * (1 + 1e-6)
    quarter = (mechanism.scales[0] / 4, mechanism.scales[1] / 4)
    assert worst_ratio(cap, quarter) > mechanism.epsilon  # noise that is too small is seen


def test_the_cap_is_kept_and_the_noise_is_that_of_its_scales() -> None:
    """4,000 runs: the share of false positives of one question is known to within 0.008 (1 standard error)."""
    random = np.random.default_rng(5)
    mechanism = SparseVector(noise=1.0, cap=1)
    called = np.array([mechanism.positives(np.zeros(1), random).sum() for _ in range(4000)])
    share = outcome_probability((1,), (0.0,), 1, mechanism.scales)
    assert called.mean() == pytest.approx(share, abs=0.04)
    swapped = outcome_probability((1,), (0.0,), 1, (mechanism.scales[0] / 4, mechanism.scales[1] / 4))
    assert called.mean() != pytest.approx(swapped, abs=0.04)
    many = [SparseVector(noise=5.0, cap=3).positives(np.zeros(100), random).sum() for _ in range(50)]
    assert max(many) == 3


@pytest.mark.parametrize(("noise", "cap", "says"), [(0, 1, "noise=0"), (1.0, 0, "cap=0"), (1.0, 1.5, "cap=1.5")])
def test_settings_out_of_range_are_refused(noise: float, cap: int, says: str) -> None:
    with pytest.raises(SearchError, match=says):
        SparseVector(noise=noise, cap=cap)


def test_the_oracles_take_settings_of_the_space() -> None:
    settings = sparse_vector_space().settings_at(np.array([[0.5, 0.5]]))[0]
    assert sparse_vector_epsilon(settings) == SparseVector(**settings).epsilon
    assert 0 <= sparse_vector_error(settings, np.random.default_rng(1)) <= 1


def test_the_error_oracle_is_the_share_of_wrong_predictions() -> None:
    random = np.random.default_rng(1)
    features = random.normal(size=(400, 4))
    labels = np.where(features[:, 0] - features[:, 1] + 0.3 * random.normal(size=400) > 0, "yes", "no")
    oracle = TrainingError(
        PrivateLogisticRegression(delta=1e-6), features[:300], labels[:300], features[300:], labels[300:]
    )
    settings = {"epochs": 5, "lot": 30, "noise": 1.0, "learning_rate": 0.5, "clip": 1.0}
    seed = int(np.random.default_rng(2).integers(2**62))
    model = PrivateLogisticRegression(**settings, seed=seed).fit(features[:300], labels[:300])
    assert oracle(settings, np.random.default_rng(2)) == 1 - model.score(features[300:], labels[300:])
    with np.errstate(all="ignore"):
        assert math.isnan(oracle(settings | {"learning_rate": 1e308}, np.random.default_rng(2)))
