"""The filter in zCDP: what it admits is (epsilon, delta)-DP by brute force; what basic rules allow fits.

Ledgers of earlier versions keep its rules for (epsilon, delta), so these tests make accounts and caps of that kind.
"""

from __future__ import annotations

import itertools
import math
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.core.errors import BudgetError
from hush.core.rational import float_down, rational_text
from hush.privacy import privacy_filter
from hush.privacy.account import Allowance
from hush.privacy.budget import Budget, Cost
from hush.privacy.conversions import pure_renyi, zcdp_order, zcdp_rho
from hush.privacy.events import (
    DiscoveryEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    LocalEvent,
    SelectionEvent,
    compose,
)
from hush.privacy.ledger import Ledger, ledger_chain
from hush.privacy.ledger.ledger_file import LedgerFile

CAP = Budget(epsilon=3.0, delta=1e-9)


class EarlierAllowance(Allowance):
    """An allowance that counts as earlier versions did."""

    def __init__(self, budget: Budget) -> None:
        super().__init__(budget)
        limit = Fraction(budget.rho) if budget.approximate else budget.limit
        self._filter = privacy_filter.ZcdpFilter(budget, limit)


def earlier_ledger(path: Path, cap: Budget) -> Ledger:
    """A ledger file as earlier versions made it: its cap states no accountant."""
    content, rho = ledger_chain.canonical(cap.to_dict()), rational_text(Fraction(cap.rho))
    fields = {"action": "cap", "content": content, "rho": rho, "epsilon": ""}
    entry = ledger_chain.Chain().next_entry(dataset="default", time="2025-01-01T00:00Z", note="new dataset", **fields)
    LedgerFile.create(path, entry)
    return Ledger.open(path)


def laplace(epsilon: Fraction | int) -> LaplaceEvent:
    return LaplaceEvent(1 / Fraction(epsilon), Fraction(1))


def gauss(epsilon: float, delta: float = 1e-9) -> GaussianEvent:
    """Noise on many cells that spends the zCDP of (epsilon, delta)."""
    return GaussianEvent(1 / Fraction(Budget(epsilon=epsilon, delta=delta).rho), Fraction(2))


def charged(budget: Budget, events: list[Event]) -> Allowance:
    allowance = EarlierAllowance(budget)
    for event in events:
        allowance.charge(event)
    return allowance


def refused(budget: Budget, events: list[Event], *, at: int) -> str:
    """The refusal of the event at this index; all before it must fit."""
    allowance = charged(budget, events[:at])
    with pytest.raises(BudgetError) as refusal:
        allowance.charge(events[at])
    assert allowance.events == tuple(events[:at])
    return str(refusal.value)


def loss_law(event: Event) -> tuple[np.ndarray, np.ndarray]:
    """P and Q over the outcomes of noise on one count that differs by one."""
    if isinstance(event, LaplaceEvent):  # the discrete Laplace has two values of the loss
        kept = 1 / (1 + math.exp(-event.sensitivity_l1 / event.scale))
        return np.array([kept, 1 - kept]), np.array([1 - kept, kept])
    assert isinstance(event, GaussianEvent)
    variance = float(event.variance / event.sensitivity_l2_squared)
    reach = math.ceil(6 * math.sqrt(variance)) + 3  # all but 1e-9
    weights = np.exp(-(np.arange(-reach, reach + 1.0) ** 2) / (2 * variance))
    weights /= weights.sum()
    return np.append(weights, 0.0), np.append(0.0, weights)


def exact_delta(events: list[Event], epsilon: float) -> float:
    """sum over all outcomes of max(0, P - e^epsilon Q)."""
    p, q = np.ones(1), np.ones(1)
    for event in events:
        own_p, own_q = loss_law(event)
        p, q = np.outer(p, own_p).ravel(), np.outer(q, own_q).ravel()
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


def test_pure_releases_fit_a_budget_with_a_delta_and_leave_the_rest_to_gaussian_noise() -> None:
    allowance = charged(CAP, [laplace(1), laplace(1)])
    assert allowance.remaining == Fraction(zcdp_rho(1.0, 1e-9))  # as basic composition says
    allowance.charge(gauss(1.0))
    assert allowance.remaining == 0
    assert charged(CAP, [laplace(1)]).remaining == Fraction(zcdp_rho(2.0, 1e-9))
    assert charged(CAP, [laplace(3)]).remaining == 0
    assert charged(CAP, [compose([laplace(1), laplace(2)])]).remaining == 0


@pytest.mark.parametrize(
    ("events", "at", "message"),
    [
        ([laplace(Fraction(3000001, 1000000))], 0, "of pure epsilon it needs 3, and 3 is left; plan with Gaussian"),
        ([laplace(1), laplace(1), laplace(Fraction(1001, 1000))], 2, "of pure epsilon it needs 1.001, and 1 is left"),
        ([laplace(1), laplace(1), gauss(1.001)], 2, "exceeds the 0.0149731 left; add noise"),
        ([laplace(3), SelectionEvent(Fraction(1, 1000))], 1, "nothing is left"),
        ([gauss(1.0), laplace(2)], 1, "pure epsilon=2 cannot be added alone, since other noise was charged"),
    ],
)
def test_too_much_is_refused_with_what_is_left(events: list[Event], at: int, message: str) -> None:
    assert message in refused(CAP, events, at=at)


def test_small_pure_charges_cost_no_more_than_in_zcdp() -> None:
    events: list[Event] = [laplace(Fraction(1, 10))] * 20
    rho = sum((event.cost.rho or Fraction(0) for event in events), Fraction(0))
    assert charged(CAP, events).remaining >= Fraction(CAP.rho) - rho
    order = zcdp_order(3.0, 1e-9)
    price = Fraction(pure_renyi(0.1, order)) / (1 + Fraction(order))
    assert charged(CAP, events).remaining == Fraction(CAP.rho) - 20 * min(price, Fraction(1, 200))


def test_other_budgets_count_as_before() -> None:
    assert charged(Budget(rho=1.0), [laplace(1)]).remaining == Fraction(1, 2)
    assert charged(Budget(mu=1.0), [laplace(Fraction(1, 2))]).remaining == Fraction(3, 8)
    assert charged(Budget(epsilon=3.0), [laplace(1)]).remaining == 2
    assert charged(CAP, [SelectionEvent(Fraction(1, 10))]).remaining == Fraction(CAP.rho) - Fraction(1, 800)
    assert "epsilon^2 / 2" in refused(Budget(rho=0.4), [laplace(1)], at=0)


def test_a_withheld_part_is_not_spent_as_pure_epsilon() -> None:
    allowance = EarlierAllowance(CAP)
    allowance.lower(Fraction(CAP.rho) / 2)
    with pytest.raises(BudgetError):
        allowance.charge(laplace(3))
    assert allowance.remaining == Fraction(CAP.rho) / 2


COARSE = Budget(epsilon=2.0, delta=0.02)
KINDS: list[Event] = [
    *(laplace(Fraction(n, 4)) for n in (1, 2, 4, 6)),
    *(GaussianEvent(Fraction(n) ** 2, Fraction(1)) for n in (1, 2, 4)),
]


def worst_delta() -> float:
    """The largest delta at epsilon 2 of what an allowance takes, over all orders of three charges."""
    worst = 0.0
    for events in itertools.product(KINDS, repeat=3):
        allowance = EarlierAllowance(COARSE)
        for event in events:
            with suppress(BudgetError):
                allowance.charge(event)
        worst = max(worst, exact_delta(list(allowance.events), 2.0))
    return worst


def test_whatever_is_admitted_is_private_by_brute_force() -> None:
    assert 0.02 / 10 < worst_delta() <= 0.02


def test_brute_force_finds_a_filter_that_counts_pure_noise_at_half(monkeypatch: pytest.MonkeyPatch) -> None:
    true = privacy_filter._price
    monkeypatch.setattr(privacy_filter, "_price", lambda epsilon, order: true(epsilon, order) / 2)
    assert worst_delta() > 0.02


def test_brute_force_finds_a_filter_that_forgets_what_came_first(monkeypatch: pytest.MonkeyPatch) -> None:
    true = privacy_filter._pure_first

    def forgotten(limit: Fraction, tally: privacy_filter.Tally) -> Cost | None:
        first = true(limit, tally)
        return None if first is None else Cost(first.rho, Fraction(0))

    monkeypatch.setattr(privacy_filter, "_pure_first", forgotten)
    assert worst_delta() > 0.02


def test_charges_chosen_by_earlier_answers_stay_within_delta() -> None:
    """An attacker takes Gaussian noise, looks at its loss, and then spends whatever fits best on top, or stops."""
    steps = [GaussianEvent(Fraction(36), Fraction(1))] * 2
    start = charged(COARSE, list(steps))
    following = [event for event in KINDS if _fits(start, event)]
    assert any(isinstance(event, LaplaceEvent) for event in following)
    p, q = np.ones(1), np.ones(1)
    for event in steps:
        own_p, own_q = loss_law(event)
        p, q = np.outer(p, own_p).ravel(), np.outer(q, own_q).ravel()
    best = np.maximum(p - math.exp(2.0) * q, 0.0)  # stop here
    for event in following:
        own_p, own_q = loss_law(event)
        best = np.maximum(best, np.maximum(np.outer(p, own_p) - math.exp(2.0) * np.outer(q, own_q), 0.0).sum(axis=1))
    assert 0 < best.sum() <= 0.02


def _fits(allowance: Allowance, event: Event) -> bool:
    try:
        allowance.require(event)
    except BudgetError:
        return False
    return True


@given(st.fractions(min_value=Fraction(1, 100), max_value=2), st.fractions(min_value=Fraction(1, 100), max_value=1))
@settings(max_examples=30, deadline=None)
def test_more_noise_leaves_more(large: Fraction, share: Fraction) -> None:
    small = large * share
    after_large, after_small = charged(CAP, [laplace(large)]), charged(CAP, [laplace(small)])
    # Up to the change from one rule to the other, whose remainders differ a little.
    assert after_small.remaining >= after_large.remaining * Fraction(9, 10)
    assert pure_renyi(float(small), 10.0) <= pure_renyi(float(large), 10.0) <= float(large) * (1 + 1e-12)


def test_a_ledger_takes_and_shows_both_kinds(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    earlier_ledger(path, CAP).charge(laplace(1))
    ledger = Ledger.open(path)  # replayed from the file
    assert ledger.remaining == Fraction(zcdp_rho(2.0, 1e-9))
    assert ledger.pure_remaining == 2
    ledger.charge(gauss(1.0))
    assert ledger.pure_remaining is None
    again = Ledger.open(path)
    again.verify()
    assert again.remaining == ledger.remaining < Fraction(zcdp_rho(2.0, 1e-9))
    body = again.to_dict()
    assert Fraction(body["spent"]) + Fraction(body["left"]) == Fraction(body["limit"]) == Fraction(CAP.rho)
    with pytest.raises(BudgetError, match="cannot be added alone"):
        again.charge(laplace(2))
    again.raise_cap(Budget(epsilon=6.0, delta=1e-9), reason="agreed")
    again.charge(laplace(1))  # the raised cap is in Gaussian DP, where plain addition admits it
    assert (Ledger.open(path).pure_remaining or 0) > 0


def test_the_refusal_names_a_cap_that_is_enough_and_not_far_above(tmp_path: Path) -> None:
    ledger = earlier_ledger(tmp_path / "budget.db", CAP)
    ledger.charge(gauss(1.0))
    with pytest.raises(BudgetError, match="raise the cap") as refusal:
        ledger.charge(laplace(2))
    epsilon = float(str(refusal.value).split("--epsilon ")[1].split()[0])
    assert 3 < epsilon < 4.5
    ledger.raise_cap(Budget(epsilon=epsilon, delta=1e-9), reason="agreed")
    ledger.charge(laplace(2))
    assert ledger.total.epsilon is None


def discovery(epsilon: int | Fraction, delta: Fraction) -> DiscoveryEvent:
    return DiscoveryEvent(Fraction(epsilon), delta, 1)


def leaky(epsilon: float, delta: float) -> tuple[np.ndarray, np.ndarray]:
    """The worst pair of laws of an (epsilon, delta) mechanism: with delta it tells all, else it is a coin."""
    heads = math.exp(epsilon) / (1 + math.exp(epsilon))
    p = np.array([delta, (1 - delta) * heads, (1 - delta) * (1 - heads), 0.0])
    return p, p[::-1].copy()


def test_a_delta_that_comes_first_is_taken_from_the_budget() -> None:
    tenth = Fraction(1e-9) / 10
    allowance = charged(CAP, [discovery(1, tenth)])
    assert allowance.remaining == Fraction(zcdp_rho(2.0, float_down(Fraction(1e-9) - tenth)))
    assert charged(CAP, [discovery(1, tenth), laplace(2)]).remaining == 0
    assert charged(CAP, [laplace(2), discovery(1, tenth)]).cost.delta == tenth  # the first is too large for zCDP
    assert charged(CAP, [LocalEvent(Fraction(1), Fraction(0)), LocalEvent(Fraction(2), Fraction(0))]).remaining == 0


@pytest.mark.parametrize(
    ("cap", "events", "at", "message"),
    [
        (CAP, [discovery(1, Fraction(2, 10**9))], 0, "a charge of delta=2e-09 exceeds the 1e-09 left"),
        (CAP, [gauss(0.1), discovery(1, Fraction(1, 10**10))], 1, "exceeds the 0 left for events with a delta"),
        (
            CAP,
            [laplace(Fraction(1, 100)), discovery(1, Fraction(1, 10**10))],
            1,
            "exceeds the 0 left for events with a delta",
        ),
        (CAP, [discovery(1, Fraction(1, 10**10)), discovery(3, Fraction(1, 10**10))], 1, "and 2 is left"),
        (Budget(epsilon=3.0), [discovery(1, Fraction(1, 10**10))], 0, "states none; state a delta"),
        (Budget(rho=3.0), [discovery(1, Fraction(1, 10**10))], 0, "states none; state a delta"),
    ],
)
def test_deltas_that_do_not_fit_are_refused(cap: Budget, events: list[Event], at: int, message: str) -> None:
    assert message in refused(cap, events, at=at)


def test_a_charge_counts_as_first_only_if_all_its_parts_do() -> None:
    """Laplace and Gaussian noise together have no pure epsilon that could be deducted from the budget."""
    tenth = Fraction(1e-9) / 10
    assert "exceeds" in refused(CAP, [compose([laplace(1), gauss(2.9)])], at=0)
    assert "together with other noise does not fit" in refused(CAP, [compose([discovery(1, tenth), gauss(0.1)])], at=0)


@pytest.mark.parametrize("between", [gauss(0.1), SelectionEvent(Fraction(1, 100))], ids=["noise", "choice"])
def test_a_delta_is_refused_after_other_noise_although_another_delta_came_first(between: Event) -> None:
    """What came in between may have used all of the delta that was left."""
    tenth = Fraction(1e-9) / 10
    events = [discovery(1, tenth), discovery(Fraction(1, 4), tenth), between, discovery(Fraction(1, 4), tenth)]
    assert "exceeds the 0 left for events with a delta" in refused(CAP, events, at=3)


def worst_delta_with_leaks() -> float:
    """As `worst_delta`, over three charges of which some have a delta of their own."""
    kinds = [discovery(Fraction(1, 2), Fraction(1, 100)), discovery(1, Fraction(1, 200)), *KINDS[1:6:2]]
    worst = 0.0
    for events in itertools.product(kinds, repeat=3):
        allowance = EarlierAllowance(COARSE)
        for event in events:
            with suppress(BudgetError):
                allowance.charge(event)
        p, q = np.ones(1), np.ones(1)
        for event in allowance.events:
            laws = (
                leaky(float(event.epsilon), float(event.delta))
                if isinstance(event, DiscoveryEvent)
                else loss_law(event)
            )
            p, q = np.outer(p, laws[0]).ravel(), np.outer(q, laws[1]).ravel()
        worst = max(worst, float(np.maximum(p - math.exp(2.0) * q, 0.0).sum()))
    return worst


def test_charges_with_a_delta_are_private_by_brute_force() -> None:
    assert 0.01 < worst_delta_with_leaks() <= 0.02


def test_brute_force_finds_a_filter_that_forgets_deltas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(privacy_filter, "keeps_delta", lambda *given: True)
    assert worst_delta_with_leaks() > 0.02
