"""Allowances: exact limits, both accounts asked, nothing recorded by a refusal."""

import copy
import math
import os
import threading
from contextlib import suppress
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.core.errors import BudgetError
from hush.privacy.account import Allowance
from hush.privacy.budget import Budget, Cost
from hush.privacy.events import (
    ComposedEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    NonPrivateEvent,
    SelectionEvent,
    compose,
)

SELECT = SelectionEvent(Fraction(1))  # rho 1/8, epsilon 1
GAUSS = GaussianEvent(Fraction(2), Fraction(1))  # rho 1/4


class Recorder:
    """A parent that takes anything."""

    def __init__(self) -> None:
        self.seen: list[tuple[Event, str]] = []
        self.budget = Budget(rho=1e6)
        self.remaining = Fraction(10**6)

    def charge(self, event: Event, *, note: str = "") -> None:
        self.seen.append((event, note))


def test_charges_add_up_exactly():
    allowance = Allowance(Budget(rho=0.5))
    for event in (SELECT, GAUSS, SELECT):
        allowance.charge(event)
    assert allowance.cost == Cost(Fraction(1, 2), None)
    assert allowance.remaining == 0
    assert allowance.events == (SELECT, GAUSS, SELECT)
    assert allowance.budget == Budget(rho=0.5)


def test_a_refused_charge_records_nothing_and_says_what_is_left():
    parent = Recorder()
    allowance = Allowance(Budget(rho=0.3), parent)
    allowance.charge(GAUSS, note="first")
    with pytest.raises(BudgetError, match=r"this release: a charge of rho=0.125 exceeds the 0.05 left") as refused:
        allowance.charge(SELECT, note="second")
    assert refused.value.requested == Fraction(1, 8)
    assert refused.value.remaining == Fraction(0.3) - Fraction(1, 4)
    assert allowance.events == (GAUSS,)
    assert parent.seen == [(GAUSS, "first")]


def test_what_rounding_leaves_over_is_nothing():
    allowance = Allowance(Budget(rho=0.25 + 1e-12))
    allowance.charge(GAUSS)
    assert allowance.remaining > 0
    with pytest.raises(BudgetError, match=r"a charge of rho=0.125 exceeds what is allowed: nothing is left; query"):
        allowance.charge(SELECT)
    assert allowance.events == (GAUSS,)


def test_a_refusal_by_a_hair_shows_all_digits():
    allowance = Allowance(Budget(rho=0.125))
    with pytest.raises(BudgetError, match=r"rho=0.12500000000000003 exceeds the 0.125 left"):
        allowance.charge(GaussianEvent(1 / (2 * Fraction(math.nextafter(0.125, 1))), Fraction(1)))
    assert allowance.cost == Cost()


def test_a_parent_that_refuses_leaves_nothing_recorded():
    parent = Allowance(Budget(rho=0.2))
    child = Allowance(Budget(rho=1.0), parent)
    child.charge(SELECT)
    with pytest.raises(BudgetError) as refused:
        child.charge(GAUSS)
    assert refused.value.remaining == Fraction(0.2) - Fraction(1, 8)
    assert child.events == parent.events == (SELECT,)
    assert child.remaining == Fraction(7, 8)


def test_children_share_what_the_parent_has():
    parent = Allowance(Budget(rho=0.25))
    first, second = (Allowance(Budget(rho=0.25), parent) for _ in range(2))
    first.charge(SELECT)
    second.charge(SELECT)
    with pytest.raises(BudgetError):
        first.charge(SELECT)
    assert parent.remaining == 0
    assert first.remaining == second.remaining == Fraction(1, 8)


def test_a_pure_budget_adds_epsilons():
    allowance = Allowance(Budget(epsilon=2.0))
    allowance.charge(SELECT)
    allowance.charge(LaplaceEvent(Fraction(2), Fraction(1)))
    assert allowance.remaining == Fraction(1, 2)
    with pytest.raises(BudgetError, match="epsilon=1 exceeds the 0.5 left"):
        allowance.charge(SELECT)
    with pytest.raises(BudgetError, match="never pure epsilon") as refused:
        allowance.charge(GAUSS)
    assert refused.value.requested == math.inf
    assert allowance.remaining == Fraction(1, 2)


@pytest.mark.parametrize("budget", [Budget(rho=1e300), Budget(epsilon=1e300), Budget(epsilon=1.0, delta=0.5)])
@pytest.mark.parametrize("event", [NonPrivateEvent("raw"), compose([SELECT, NonPrivateEvent()])])
def test_what_is_not_private_fits_no_budget(budget, event):
    allowance = Allowance(budget)
    with pytest.raises(BudgetError, match="is not private at all") as refused:
        allowance.charge(event)
    assert refused.value.requested == math.inf
    assert allowance.cost == Cost()


class Free(SelectionEvent):
    """A subclass that costs what it likes."""

    @property
    def cost(self) -> Cost:
        return Cost()


@pytest.mark.parametrize("event", [Free(Fraction(1)), Event(), ComposedEvent(((Free(Fraction(1)), 2),)), "x", None])
def test_unknown_events_are_refused(event):
    parent = Recorder()
    allowance = Allowance(Budget(rho=1.0), parent)
    with pytest.raises(BudgetError, match="has no price"):
        allowance.charge(event)
    assert parent.seen == []
    assert allowance.cost == Cost()


@given(st.lists(st.integers(1, 50), min_size=1, max_size=30), st.floats(0.01, 5.0))
def test_never_beyond_the_limit_and_never_short_of_it(scales, rho):
    allowance = Allowance(Budget(rho=rho))
    fitting, spent = [], Fraction(0)
    for scale in scales:
        event = GaussianEvent(Fraction(scale), Fraction(1))
        fits = spent + event.cost.rho <= Fraction(rho)
        spent += event.cost.rho * fits
        fitting += [event] * fits
        with suppress(BudgetError):
            allowance.charge(event)
        assert allowance.events == tuple(fitting)
    assert allowance.cost.rho == spent <= allowance.budget.limit


def test_threads_cannot_spend_the_same_rho():
    allowance = Allowance(Budget(rho=5.0))
    start, taken = threading.Barrier(8), []

    def spend() -> None:
        start.wait()
        for _ in range(20):
            with suppress(BudgetError):
                allowance.charge(SELECT)
                taken.append(SELECT)

    threads = [threading.Thread(target=spend) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == len(allowance.events) == 40
    assert allowance.remaining == 0


def test_another_process_cannot_spend_a_copy(monkeypatch):
    allowance = Allowance(Budget(rho=1.0))
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(BudgetError, match="belongs to the process that made it"):
        allowance.charge(SELECT)
    assert allowance.cost == Cost()


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
def test_an_allowance_cannot_be_copied(duplicate):
    with pytest.raises(TypeError, match="cannot be copied"):
        duplicate(Allowance(Budget(rho=1.0)))


def test_a_resumed_allowance_has_what_is_left():
    parent = Recorder()
    allowance = Allowance(Budget(rho=0.5), parent)
    allowance.resume(compose([SELECT, GAUSS]))
    assert allowance.remaining == Fraction(1, 8)
    assert allowance.cost == Cost(Fraction(3, 8), None)
    assert parent.seen == []  # it is on the parent's record already
    with pytest.raises(BudgetError, match="rho=0.25 exceeds the 0.125 left"):
        allowance.charge(GAUSS)
    allowance.charge(SELECT, note="more")
    assert allowance.remaining == 0
    assert parent.seen == [(SELECT, "more")]
    assert compose(allowance.events) == compose([SELECT, GAUSS, SELECT])


def test_an_allowance_is_resumed_before_its_first_charge_and_once():
    charged, resumed = Allowance(Budget(rho=1.0)), Allowance(Budget(rho=1.0))
    charged.charge(SELECT)
    resumed.resume(SELECT)
    for allowance in (charged, resumed):
        with pytest.raises(BudgetError, match="charged already cannot be resumed; open a new one"):
            allowance.resume(SELECT)
        assert allowance.remaining == Fraction(7, 8)


@pytest.mark.parametrize("event", [compose([GAUSS, SELECT]), NonPrivateEvent("raw"), Free(Fraction(1))])
def test_no_more_than_the_budget_is_resumed(event):
    allowance = Allowance(Budget(rho=0.3))
    with pytest.raises(BudgetError):
        allowance.resume(event)
    assert allowance.cost == Cost()
    assert allowance.events == ()


def test_a_resumed_pure_allowance_counts_epsilons():
    allowance = Allowance(Budget(epsilon=2.0))
    allowance.resume(SELECT)
    assert allowance.remaining == 1
    with pytest.raises(BudgetError, match="never pure"):
        Allowance(Budget(epsilon=2.0)).resume(GAUSS)


@given(st.fractions(0, 2), st.fractions(0, 2))
def test_what_is_left_is_lowered_and_never_raised(first, second):
    allowance = Allowance(Budget(rho=1.0))
    allowance.charge(SELECT)
    left = allowance.remaining
    for most in (first, second):
        left = min(left, most)
        allowance.lower(most)
        assert allowance.remaining == left
        assert allowance.cost.rho == Fraction(1, 8)
    with suppress(BudgetError):
        allowance.charge(GAUSS)
    assert (GAUSS in allowance.events) == (left >= Fraction(1, 4))
