"""The accountant of training: against dp-accounting, a simple bound, closed forms, and what it must not depend on."""

import math
import sys
from collections.abc import Callable

import pytest
from dp_accounting import (
    GaussianDpEvent,
    NeighboringRelation,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    UnsupportedEventError,
)
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from scipy import integrate, stats

from hush.core.errors import SearchError
from hush.privacy.conversions import gaussian_epsilon
from hush.training.training_privacy import (
    TrainingEpsilon,
    _epsilon,
    _epsilon_of_losses,
    output_epsilon,
    steps_of,
    training_epsilon,
)

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


def exact_delta(share: float, noise: float, epsilon: float) -> float:
    """The larger hockey-stick divergence of one Poisson step, by quadrature: P = (1 - q) N(0, z^2) + q N(1, z^2)."""

    def integral(first, second) -> float:
        gap = lambda x: max(first(x) - math.exp(epsilon) * second(x), 0.0)  # noqa: E731
        return integrate.quad(gap, -12 * noise, 1 + 12 * noise, limit=2000, points=[0.0, 0.5, 1.0])[0]

    without, added = stats.norm(0, noise).pdf, stats.norm(1, noise).pdf
    mixed = lambda x: (1 - share) * without(x) + share * added(x)  # noqa: E731
    return max(integral(mixed, without), integral(without, mixed))


@pytest.mark.parametrize(("lot", "noise", "delta"), [(100, 1.0, 1e-3), (500, 0.7, 1e-4), (50, 0.5, 1e-5)])
def test_poisson_lots_are_priced_by_their_privacy_loss(lot: int, noise: float, delta: float) -> None:
    found = training_epsilon(rows=1000, lot=lot, epochs=1, noise=noise, delta=delta, sampling="poisson")
    steps = steps_of(1000, lot, 1)
    single = _epsilon(1000, lot, 1, noise, delta, "poisson")
    assert exact_delta(lot / 1000, noise, single) <= delta * (1 + 1e-6)
    assert exact_delta(lot / 1000, noise, 0.98 * single) > delta
    renyi = renyi_epsilon(1000, lot, steps, noise, delta)
    assert found < renyi


@pytest.mark.parametrize("case", CASES)
def test_poisson_epsilons_are_well_below_those_of_renyi_accounting(case) -> None:
    rows, lot, epochs, noise = case
    found = training_epsilon(rows=rows, lot=lot, epochs=epochs, noise=noise, sampling="poisson")
    assert 0.7 < found / renyi_epsilon(rows, lot, steps_of(rows, lot, epochs), noise, 1e-5) < 0.94


def renyi_epsilon(rows: int, lot: int, steps: int, noise: float, delta: float) -> float:
    accountant = RdpAccountant(list(range(2, 200)), NeighboringRelation.ADD_OR_REMOVE_ONE)
    accountant.compose(PoissonSampledDpEvent(lot / rows, GaussianDpEvent(noise)), steps)
    return float(accountant.get_epsilon(delta))


def refuse(*_: object, **__: object) -> None:
    raise UnsupportedEventError("not this one")


@pytest.mark.parametrize(
    ("method", "replacement"), [("compose", refuse), ("get_epsilon", lambda *_: math.nan)], ids=["refused", "nan"]
)
def test_where_loss_distributions_fail_renyi_accounting_holds(
    monkeypatch: pytest.MonkeyPatch, method: str, replacement: Callable[..., object]
) -> None:
    monkeypatch.setattr(PLDAccountant, method, replacement)
    _epsilon.cache_clear()
    found = training_epsilon(rows=2003, lot=100, epochs=2, noise=1.1, sampling="poisson")
    assert found == pytest.approx(renyi_epsilon(2003, 100, 40, 1.1, 1e-5), rel=1e-3)
    _epsilon.cache_clear()


def test_tiny_deltas_and_large_epsilons_are_left_to_renyi_accounting() -> None:
    tiny = training_epsilon(rows=2000, lot=100, epochs=2, noise=1.1, delta=1e-12, sampling="poisson")
    assert tiny == pytest.approx(renyi_epsilon(2000, 100, 40, 1.1, 1e-12), rel=1e-3)
    assert _epsilon_of_losses(0.05, 40, 0.1, 1e-5, 1e4) == math.inf


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


@pytest.mark.parametrize("settings", [{"rows": 0}, {"rows": 10, "delta": 0.0}, {"rows": 10, "sampling": "all"}])
def test_an_epsilon_of_training_that_cannot_be_is_refused_when_it_is_made(settings: dict[str, object]) -> None:
    with pytest.raises(SearchError, match=next(reversed(settings))):
        TrainingEpsilon(**settings)  # type: ignore[arg-type]
