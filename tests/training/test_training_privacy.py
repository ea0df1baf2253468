"""The accountant of training: against dp-accounting, a simple bound, closed forms, and what it must not depend on."""

import math
import sys

import pytest
from dp_accounting import GaussianDpEvent, NeighboringRelation, SampledWithoutReplacementDpEvent
from dp_accounting.rdp import RdpAccountant

from hush.core.errors import SearchError
from hush.privacy.conversions import gaussian_epsilon
from hush.training.training_privacy import TrainingEpsilon, output_epsilon, steps_of, training_epsilon

CASES = [(40_000, 128, 10, 1.0), (40_000, 128, 10, 2.0), (60_000, 600, 100, 4.0), (60_000, 800, 10, 1.0)]


def simple_bound(rows: int, lot: int, epochs: int, noise: float, delta: float) -> float:
    """The first form of Wang, Balle and Kasiviswanathan's bound with the classical conversion; looser by design."""
    g, steps, best = lot / rows, epochs * round(rows / lot), math.inf
    for order in range(2, 65):
        e2 = 2 / (2 * noise**2)
        terms = [g**2 * math.comb(order, 2) * min(4 * math.expm1(e2), 2 * math.exp(e2))]
        for j in range(3, order + 1):
            log_term = math.log(2) + j * math.log(g) + math.log(math.comb(order, j)) + (j - 1) * j / (2 * noise**2)
            terms.append(math.exp(min(log_term, 700)))
        renyi = min(math.log1p(sum(terms)) / (order - 1), order / (2 * noise**2))
        best = min(best, steps * renyi + math.log(1 / delta) / (order - 1))
    return best


@pytest.mark.parametrize(("case", "stated"), list(zip(CASES, [2.2138, 0.9748, 2.8572, 4.8212], strict=True)))
def test_epsilon_is_below_the_simple_bound_and_not_far(case, stated: float) -> None:
    rows, lot, epochs, noise = case
    bound = simple_bound(rows, lot, epochs, noise, 1e-5)
    assert bound == pytest.approx(stated, abs=1e-4)
    assert 0.7 * bound < training_epsilon(rows=rows, lot=lot, epochs=epochs, noise=noise) < bound


def test_few_orders_cost_next_to_nothing() -> None:
    """All integer orders from 2 to 63 by dp-accounting; ours are never below, and at most 0.1 % above."""
    accountant = RdpAccountant(list(range(2, 64)), NeighboringRelation.REPLACE_ONE)
    accountant.compose(SampledWithoutReplacementDpEvent(60_000, 600, GaussianDpEvent(4.0)), 10_000)
    full = accountant.get_epsilon(1e-5)
    found = training_epsilon(rows=60_000, lot=600, epochs=100, noise=4.0)
    assert full * (1 - 1e-12) <= found <= full * 1.001


def test_epsilon_moves_the_right_way() -> None:
    base = {"rows": 10_000, "lot": 100, "epochs": 5, "noise": 1.5}
    start = training_epsilon(**base)
    assert training_epsilon(**base | {"noise": 2.0}) < start
    assert training_epsilon(**base | {"epochs": 8}) > start
    assert training_epsilon(**base | {"rows": 20_000, "lot": 100, "epochs": 2}) < start
    assert training_epsilon(**base | {"delta": 1e-7}) > start
    assert training_epsilon(**base, sampling="poisson") < start  # add-remove, half the sensitivity for equal noise
    unsampled = gaussian_epsilon(math.sqrt(steps_of(10_000, 100, 5)) / 1.5, 1e-5)
    assert start < unsampled


def test_a_lot_of_all_rows_is_the_gaussian_mechanism() -> None:
    """Renyi accounting is above the exact curve, by less than a fifth here."""
    exact = gaussian_epsilon(math.sqrt(4) / 4.0, 1e-5)
    for sampling in ("fixed", "poisson"):
        found = training_epsilon(rows=50, lot=50, epochs=4, noise=4.0, sampling=sampling)
        assert exact <= found < 1.2 * exact


def test_without_noise_nothing_is_private() -> None:
    assert training_epsilon(rows=10, lot=5, epochs=1, noise=0) == math.inf


def test_the_oracle_ignores_what_does_not_matter() -> None:
    oracle = TrainingEpsilon(rows=1000)
    settings = {"lot": 50, "epochs": 3, "noise": 1.0}
    assert oracle(settings | {"learning_rate": 9.0, "clip": 0.1}) == oracle(settings | {"optimizer": "adam"})


@pytest.mark.parametrize(
    ("gamma", "noise", "epsilon"),
    [
        (1e-4, 0.1, 144.1),
        (1e-4, 1.0, 6.559),
        (1e-4, 10.0, 0.5221),
        (1e-3, 10.0, 0.04438),
        (1e-2, 10.0, 0.003612),
        (0.1, 10.0, 2.63e-4),
        (1.0, 10.0, 1.34e-5),
    ],
)
def test_output_perturbation_has_the_stated_epsilons(gamma: float, noise: float, epsilon: float) -> None:
    found = output_epsilon(rows=30_956, regularization=gamma, noise=noise)
    assert found == pytest.approx(epsilon, rel=2e-3)
    assert output_epsilon(rows=15_478, regularization=2 * gamma, noise=noise) == pytest.approx(found)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"rows": 0}, "rows=0"),
        ({"lot": 11}, "from 1 to 10, the number of rows"),
        ({"epochs": 1.5}, "epochs=1.5"),
        ({"noise": -1}, "noise=-1"),
        ({"noise": math.nan}, "noise=nan"),
        ({"delta": 0}, "delta=0"),
        ({"sampling": "shuffled"}, "one of 'fixed', 'poisson'"),
    ],
)
def test_bad_input_is_refused(change, says: str) -> None:
    with pytest.raises(SearchError, match=says):
        training_epsilon(**({"rows": 10, "lot": 5, "epochs": 1, "noise": 1.0} | change))
    with pytest.raises(SearchError, match="regularization=0"):
        output_epsilon(rows=10, regularization=0, noise=1)


def test_without_the_accountant_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(SearchError, match=r"pip install 'hush\[training\]'"):
        training_epsilon(rows=1001, lot=10, epochs=1, noise=1.0)
