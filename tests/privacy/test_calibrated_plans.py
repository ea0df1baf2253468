"""Plans that are calibrated to (epsilon, delta): a second implementation checks the privacy loss of what they draw.

The second implementation lists the losses of the discrete noise on every kind of row, adds them up by convolution, and
shares nothing with `total_epsilon` and `gaussian_domination` but the events.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from scipy.signal import fftconvolve

import hush
from hush.privacy.budget import Budget
from hush.privacy.events import GaussianEvent
from hush.privacy.gate import Request
from hush.privacy.sensitivity import Neighbours

DOMAIN = hush.Domain({"a": 3, "b": 2, "c": 4})
WORKLOAD = hush.Workload.upto(DOMAIN, 2)
MECHANISMS = ("residual", "direct", "gaussian", "hdmm")
GRID = 2.0**-10  # of losses, which are rounded up


def convolved(laws: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """The law of a sum of independent losses, each rounded up to the grid."""
    start, total = 0, np.ones(1)
    for losses, chances in laws:
        places = np.ceil(losses / GRID).astype(np.int64)
        law = np.bincount(places - places.min(), weights=chances)
        start, total = start + int(places.min()), fftconvolve(total, law)
    return (start + np.arange(len(total))) * GRID, total


def shifted(variance: float, shift: int) -> tuple[np.ndarray, np.ndarray]:
    """The losses of discrete Gaussian noise on a number that moves by `shift`."""
    reach = math.ceil(7 * math.sqrt(variance)) + 2
    y = np.arange(-reach, reach + 1.0)
    weights = np.exp(-(y**2) / (2 * variance))
    return (2 * shift * y + shift**2) / (2 * variance), weights / weights.sum()


def delta_of_row(requests: list[Request], row: tuple[int, ...], epsilon: float) -> float:
    """delta(epsilon) between a table and the same table with one more row, by the law of every number measured."""
    counts = {}
    laws = []
    for request in requests:
        for clique in request.query.cliques:
            table = np.zeros(DOMAIN.sizes(clique), dtype=np.int64)
            table[tuple(row[DOMAIN.attributes.index(name)] for name in clique)] = 1
            counts[clique] = table
        moved = np.asarray(request.query.answer(counts))
        variance = float(request.noise.variance_parameter)
        laws.extend(shifted(variance, int(step)) for step in moved.ravel() if step)
    losses, chances = convolved(laws)
    return float(chances @ np.maximum(-np.expm1(np.minimum(epsilon - losses, 0.0)), 0.0))


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("budget", [Budget(epsilon=1.0, delta=1e-5), Budget(epsilon=8.0, delta=1e-6)], ids=str)
def test_the_noise_of_every_row_keeps_the_budget_and_wastes_little(mechanism: str, budget: Budget) -> None:
    """The grid rounds up by at most 1/1024 a number; the control has 6 % less noise and is found."""
    plan = hush.plan(WORKLOAD, budget, mechanism=mechanism)
    rows = [(0, 0, 0), (2, 1, 3), (1, 0, 2)]
    deltas = [delta_of_row(plan.requests(), row, budget.epsilon + 0.03) for row in rows]
    assert max(deltas) <= budget.delta
    assert max(delta_of_row(plan.requests(), row, budget.epsilon * 0.97) for row in rows) > budget.delta / 2
    less = plan._scaled(Fraction(100, 88))
    assert max(delta_of_row(less.requests(), row, budget.epsilon + 0.03) for row in rows) > budget.delta


@pytest.mark.parametrize("budget", [Budget(epsilon=0.5, delta=1e-6), Budget(epsilon=6.0, delta=1e-9)], ids=str)
def test_dp_accounting_agrees_on_plans_that_measure_tables(budget: Budget) -> None:
    """Its privacy loss distribution of the discrete Gaussian holds where a row moves one cell of a table by one."""
    plan = hush.plan(hush.Workload.kway(DOMAIN, 1), budget, mechanism="gaussian")
    total = None
    for event, count in plan.event.parts:
        assert isinstance(event, GaussianEvent)
        assert event.single_cell
        own = privacy_loss_distribution.from_discrete_gaussian_mechanism(
            math.sqrt(event.variance), value_discretization_interval=1e-4
        ).self_compose(count)
        total = own if total is None else total.compose(own)
    assert total is not None
    assert budget.epsilon * 0.995 <= total.get_epsilon_for_delta(budget.delta) <= budget.epsilon * 1.002


@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("rows", [1, 3])
def test_the_first_charge_takes_what_was_planned_and_a_budget_below_does_not(relation: Neighbours, rows: int) -> None:
    budget = Budget(epsilon=1.0, delta=1e-9)
    plan = hush.plan(WORKLOAD, budget, mechanism="residual", neighbours=relation, max_rows_per_unit=rows)
    assert plan.within(budget)
    assert not plan.within(Budget(epsilon=0.999, delta=1e-9))
    assert not plan.within(Budget(epsilon=1.0, delta=0.98e-9))
    assert f"{budget} (noise 4.9 % below the zCDP conversion)" in " ".join(plan.details().split())


def test_narrow_noise_is_calibrated_by_its_losses() -> None:
    """Noise of variance near one: Gaussian domination alone would add 4 % to it."""
    budget = Budget(epsilon=6.0, delta=1e-6)
    plan = hush.plan(hush.Workload.marginals(DOMAIN, [("a",)]), budget, mechanism="gaussian")
    ((event, _),) = plan.event.parts
    assert isinstance(event, GaussianEvent)
    assert event.variance < 2
    losses, chances = shifted(float(event.variance), 1)
    delta = float(chances @ np.maximum(-np.expm1(np.minimum(6.0 - losses, 0.0)), 0.0))
    assert 0.5e-6 < delta <= 1e-6


def test_budgets_in_other_notions_are_not_calibrated() -> None:
    for budget in (Budget(rho=0.1), Budget(mu=0.5)):
        plan = hush.plan(WORKLOAD, budget, mechanism="residual")
        assert plan.calibrated() is plan
        assert plan.rho == Fraction(budget.rho)
        assert "below the zCDP conversion" not in plan.details()
