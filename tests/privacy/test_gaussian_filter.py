"""The filter in Gaussian DP: what it admits is (epsilon, delta)-DP by brute force, against attackers who see losses.

An attacker chooses every charge by the privacy loss of all answers so far, and stops when that is best. With few kinds
of charges and few steps, the best attack is computed exactly (`best_attack`): its delta is the true one.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from hush.core.errors import BudgetError, LedgerError
from hush.privacy import gaussian_domination, gaussian_filter
from hush.privacy.account import Allowance
from hush.privacy.budget import Budget
from hush.privacy.events import (
    DiscoveryEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    NoisyChoiceEvent,
    SelectionEvent,
    compose,
    price,
)
from hush.privacy.gaussian_domination import Demand, bounded_rho
from hush.privacy.gaussian_filter import GaussianFilter, new_filter
from hush.privacy.ledger import Ledger
from hush.privacy.privacy_filter import Filter

COARSE = Budget(epsilon=1.0, delta=0.05)
CAP = Budget(epsilon=3.0, delta=1e-6)


@dataclass(frozen=True)
class Move:
    """A charge, and the losses of a mechanism that the charge allows, each with its probability."""

    event: Event
    losses: np.ndarray
    chances: np.ndarray


def choice(epsilon: Fraction, place: float) -> Move:
    """A choice between two candidates whose loss is `place` times epsilon for one and (place - 1) epsilon for other."""
    w = float(epsilon)
    high, low = place * w, (place - 1) * w
    under_q = (1 - math.exp(low)) / (math.exp(high) - math.exp(low))
    p = under_q * math.exp(high)
    return Move(SelectionEvent(epsilon), np.array([high, low]), np.array([p, 1 - p]))


def response(event: Event, epsilon: float, delta: float = 0.0) -> Move:
    """Randomised response, which tells the truth with probability delta: the worst (epsilon, delta)-DP mechanism."""
    kept = 1 / (1 + math.exp(-epsilon))
    return Move(
        event, np.array([math.inf, epsilon, -epsilon]), np.array([delta, (1 - delta) * kept, (1 - delta) * (1 - kept)])
    )


def noise(variance: Fraction) -> Move:
    """Discrete Gaussian noise on one count that differs by one; what is cut off counts as revealed."""
    reach = math.ceil(7 * math.sqrt(variance)) + 2
    y = np.arange(-reach, reach + 1.0)
    weights = np.exp(-(y**2) / (2 * float(variance)))
    chances = weights / weights.sum()
    losses = (2 * y + 1) / (2 * float(variance))
    losses[0], losses[-1] = math.inf, math.inf
    return Move(GaussianEvent(variance, Fraction(1), True), losses, chances)


MOVES = [
    *(choice(Fraction(n, 4), place) for n in (1, 3) for place in (0.3, 0.5)),
    response(LaplaceEvent(Fraction(4), Fraction(1)), 0.25),
    response(LaplaceEvent(Fraction(2), Fraction(1)), 0.5),
    response(NoisyChoiceEvent(Fraction(1, 5)), 0.2),
    response(DiscoveryEvent(Fraction(1, 10), Fraction(1, 250), 1), 0.1, 1 / 250),
    noise(Fraction(2)),
    noise(Fraction(8)),
]


def best_attack(charged: Filter, losses: np.ndarray, steps: int, epsilon: float) -> np.ndarray:
    """E max(0, 1 - e^(epsilon - total loss)) from each loss so far, by the best charges that the filter admits."""
    with np.errstate(over="ignore"):
        best = np.maximum(-np.expm1(np.minimum(epsilon - losses, 50.0)), 0.0)  # stop here
    if not steps:
        return best
    seen: dict[Event, Filter | None] = {}
    for move in MOVES:
        if move.event not in seen:
            after = charged.after(move.event, price(move.event))
            seen[move.event] = after if after.kept else None
        if (after := seen[move.event]) is not None:
            totals = np.add.outer(losses, move.losses)
            value = best_attack(after, totals.ravel(), steps - 1, epsilon).reshape(totals.shape) @ move.chances
            best = np.maximum(best, value)
    return best


def attacked_delta(budget: Budget = COARSE, steps: int = 3) -> float:
    return float(best_attack(new_filter(budget), np.zeros(1), steps, budget.epsilon)[0])


@pytest.mark.parametrize("budget", [COARSE, Budget(epsilon=1.0, delta=0.01)], ids=str)
def test_the_best_attack_stays_within_delta(budget: Budget) -> None:
    assert budget.delta / 4 < attacked_delta(budget) <= budget.delta


def test_the_best_attack_finds_choices_that_cost_half(monkeypatch: pytest.MonkeyPatch) -> None:
    true = gaussian_domination._bounded_cost
    monkeypatch.setattr(gaussian_domination, "_bounded_cost", lambda rho, left: true(rho, left) / 3)
    monkeypatch.setattr(Demand, "least", property(lambda demand: Fraction(0)))
    assert attacked_delta() > 0.05


def test_the_best_attack_finds_a_filter_that_forgets_deltas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GaussianFilter, "keeps_delta", True)
    assert attacked_delta(Budget(epsilon=1.0, delta=0.01)) > 0.01


def test_the_best_attack_finds_rules_that_share_no_delta(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain addition and Gaussian DP side by side, each with the whole delta: an attacker takes the better one."""
    monkeypatch.setattr(gaussian_filter, "CONVERTED_DELTA", Fraction(1))
    monkeypatch.setattr(GaussianFilter, "keeps_delta", True)
    assert attacked_delta(Budget(epsilon=1.0, delta=0.01)) > 0.01


@pytest.mark.parametrize("width", [0.01, 0.3, 1.0, 3.0])
def test_a_bounded_loss_before_gaussian_noise_is_dominated_at_every_epsilon(width: float) -> None:
    """Two-valued losses, the worst of a given range, at many places of the range; the cost a alone is too little."""

    def curve(mu_squared: float, x: np.ndarray) -> np.ndarray:
        mu = math.sqrt(mu_squared)
        return norm.cdf(mu / 2 - x / mu) - np.exp(x + norm.logcdf(-mu / 2 - x / mu))

    a, refuted = width**2 / 4, False
    for ratio, place in itertools.product((1.01, 1.5, 3.0, 10.0), np.linspace(0.02, 0.98, 25)):
        left = a * ratio
        high, low = place * width, (place - 1) * width
        p = math.exp(high) * (1 - math.exp(low)) / (math.exp(high) - math.exp(low))
        x = np.linspace(-7, 7, 301) * math.sqrt(2 * left)
        delta = p * curve(left, x - high) + (1 - p) * curve(left, x - low)
        assert (delta <= curve(left + a / (1 - a / left), x) + 1e-14).all()
        refuted |= bool((delta > curve(left + a, x) + 1e-9).any())
    assert refuted


@given(
    st.lists(st.fractions(Fraction(1, 1000), Fraction(1, 2)), min_size=1, max_size=4),
    st.fractions(Fraction(1, 100), 3),
    st.fractions(0, Fraction(1, 2)),
)
@settings(max_examples=80, deadline=None)
def test_what_is_left_pays_for_the_demand(rhos: list[Fraction], budget: Fraction, gaussian: Fraction) -> None:
    demand = Demand(gaussian, gaussian_domination.Counter(rhos))
    left = demand.left_after(budget)
    if left is None:
        assert budget < demand.cost(Fraction(0))
    else:
        assert 0 <= left <= budget - demand.cost(left)
        assert left <= budget - demand.least


@given(st.fractions(Fraction(1, 1000), 1), st.fractions(0, 5))
def test_a_choice_costs_what_it_was_made_for(cost: Fraction, left: Fraction) -> None:
    assert Demand(bounded=gaussian_domination.Counter([bounded_rho(cost, left)])).cost(left) <= cost


def laplace(epsilon: Fraction | int) -> LaplaceEvent:
    return LaplaceEvent(1 / Fraction(epsilon), Fraction(1))


def discovery(epsilon: Fraction, delta: Fraction) -> DiscoveryEvent:
    return DiscoveryEvent(epsilon, delta, 1)


WIDE = GaussianEvent(Fraction(400), Fraction(1), True)


@pytest.mark.parametrize(
    "events",
    [
        [WIDE, discovery(Fraction(1, 10), Fraction(1, 10**8)), WIDE],
        [WIDE, discovery(Fraction(1, 10), Fraction(9, 10**8)), SelectionEvent(Fraction(1, 10))],
        [SelectionEvent(Fraction(1, 10)), discovery(Fraction(1, 10), Fraction(1, 10**8))],
        [laplace(1), WIDE, laplace(1)],
        [WIDE, laplace(1), WIDE, laplace(1)],
        [laplace(Fraction(5, 2)), WIDE, laplace(Fraction(1, 20))],
        [discovery(Fraction(1), Fraction(5, 10**8)), WIDE, discovery(Fraction(1, 2), Fraction(1, 10**8)), laplace(1)],
    ],
)
def test_deltas_and_pure_noise_come_in_any_order(events: list[Event]) -> None:
    for order in itertools.permutations(events):
        allowance = Allowance(CAP)
        for event in order:
            allowance.charge(event)
        assert allowance.events == order


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([discovery(Fraction(1), Fraction(2, 10**6))], "exceeds the 1e-06 left for events with a delta of their own"),
        ([WIDE, discovery(Fraction(1, 10), Fraction(2, 10**7))], "exceeds the 1e-07 left"),
        ([laplace(3), SelectionEvent(Fraction(1, 100))], "nothing is left"),
        ([WIDE, laplace(3)], "of pure epsilon it needs 3, and 2."),
        ([GaussianEvent(Fraction(2), Fraction(1))], "exceeds the 0.20"),
    ],
)
def test_too_much_is_refused_with_what_is_left(events: list[Event], message: str) -> None:
    allowance = Allowance(CAP)
    for event in events[:-1]:
        allowance.charge(event)
    with pytest.raises(BudgetError) as refusal:
        allowance.charge(events[-1])
    assert message in str(refusal.value)
    assert allowance.events == tuple(events[:-1])


def test_noise_that_is_fixed_beforehand_may_use_the_whole_delta_if_it_is_alone() -> None:
    small = Budget(epsilon=0.5, delta=1e-6)
    variance = 1 / (2 * small.fixed_limit) * (1 + Fraction(1, 400))
    allowance = Allowance(small)
    allowance.charge(GaussianEvent(variance, Fraction(1), True))
    assert allowance.remaining == 0
    for more in (WIDE, laplace(Fraction(1, 100)), discovery(Fraction(1, 100), Fraction(1, 10**12))):
        with pytest.raises(BudgetError):
            allowance.charge(more)
    with pytest.raises(BudgetError):
        Allowance(small).charge(GaussianEvent(variance * Fraction(99, 100), Fraction(1), True))
    second = Allowance(small)
    second.charge(GaussianEvent(Fraction(10**9), Fraction(1), True))
    with pytest.raises(BudgetError):
        second.charge(GaussianEvent(variance, Fraction(1), True))


def test_a_ledger_counts_in_the_order_of_its_entries_and_reopens(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    ledger = Ledger(path, cap=CAP)
    events = [
        WIDE,
        SelectionEvent(Fraction(1, 10)),
        discovery(Fraction(1, 10), Fraction(1, 10**8)),
        laplace(Fraction(1, 9)),
    ]
    twin = new_filter(CAP)
    for event in events:
        ledger.charge(event)
        twin.add(event, price(event))
    again = Ledger.open(path)
    again.verify()
    assert again.remaining == ledger.remaining == twin.left > 0
    with pytest.raises(BudgetError):
        again.charge(compose([GaussianEvent(1 / (2 * again.remaining), Fraction(1)), SelectionEvent(Fraction(1, 2))]))
    again.raise_cap(Budget(epsilon=6.0, delta=1e-6), reason="agreed")
    again.charge(laplace(2))
    Ledger.open(path).verify()


def test_a_delta_that_is_left_below_the_smallest_float_leaves_nothing() -> None:
    allowance = Allowance(Budget(epsilon=1.0, delta=1e-6))
    allowance.charge(DiscoveryEvent(Fraction(1, 1000), Fraction(1e-6) - Fraction(1, 10**400), 1))
    assert allowance.remaining == 0
    with pytest.raises(BudgetError):
        allowance.charge(WIDE)


def test_only_gaussian_noise_may_be_alone() -> None:
    """A choice may come after the noise, where its range may depend on the loss so far."""
    budget = Budget(epsilon=1.0, delta=1e-6)
    nearly = GaussianEvent(1 / (2 * budget.limit * (1 + Fraction(3, 1000))), Fraction(1))
    Allowance(budget).charge(nearly)
    for event in (compose([nearly, SelectionEvent(Fraction(1, 1000))]), NoisyChoiceEvent(1 + Fraction(9, 10**11))):
        with pytest.raises(BudgetError):
            Allowance(budget).charge(event)


def test_what_an_interrupted_run_spent_does_not_decide_which_rules_hold() -> None:
    """Else a run could be resumed under plain addition, once its answers showed that this allows more."""
    first = compose([laplace(Fraction(1, 50))] * 32 + [discovery(Fraction(1, 10**6), Fraction(1, 10**10))])
    budget = Budget(epsilon=1.0, delta=1e-6)
    allowance = Allowance(budget)
    allowance.resume(first)
    with pytest.raises(BudgetError):
        allowance.charge(discovery(Fraction(1, 10), Fraction(9, 10**7)))
    many = Allowance(budget)
    many.resume(compose([WIDE] * 3))
    with pytest.raises(BudgetError):
        many.charge(laplace(Fraction(1, 2)))
    once = Allowance(budget)
    for _ in range(3):
        once.charge(WIDE)
    once.charge(laplace(Fraction(1, 10)))


def test_a_raised_cap_deducts_what_was_deducted_before(tmp_path: Path) -> None:
    """Under a larger epsilon the first charge would fit Gaussian DP, and the deltas after it would not fit."""
    ledger = Ledger(tmp_path / "budget.db", cap=CAP)
    ledger.charge(laplace(Fraction(5, 2)))
    ledger.charge(discovery(Fraction(1, 10), Fraction(5, 10**7)))
    with pytest.raises(BudgetError, match="raise the cap"):
        ledger.charge(GaussianEvent(Fraction(1, 100), Fraction(1), True))
    ledger.raise_cap(Budget(epsilon=20.0, delta=1e-6), reason="agreed")
    assert 0 < Ledger.open(tmp_path / "budget.db").remaining < Budget(epsilon=17.4, delta=5.1e-7).limit
    for smaller in (Budget(epsilon=15.0, delta=1e-2), Budget(epsilon=20.0, delta=1e-6)):
        with pytest.raises(LedgerError, match="larger one of the same kind"):
            ledger.raise_cap(smaller, reason="no")
