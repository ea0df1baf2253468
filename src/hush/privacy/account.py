"""Accounts: who must be asked, and charged, before private data is read."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from fractions import Fraction
from typing import NoReturn, Protocol

from hush.errors import BudgetError
from hush.privacy.budget import Budget, Cost
from hush.privacy.events import Event, price
from hush.rational import float_down, float_up

MOST_RAISED = 1e6  # a cap that would allow more promises nothing, and nobody is told to set it


class Account(Protocol):
    """Something that is charged for an event before the event happens."""

    @property
    def budget(self) -> Budget:
        """What may be spent in all."""

    @property
    def remaining(self) -> Fraction:
        """What is left, in the unit of `budget.limit`: epsilon for a pure budget, rho for any other."""

    def require(self, event: Event) -> None:
        """Raise BudgetError where `charge` would; records nothing."""

    def charge(self, event: Event, *, note: str = "") -> None:
        """Record an event, or raise BudgetError with `remaining` and `requested` and record nothing."""


class Allowance:
    """What one release may spend, within the process that makes it; every charge is also made to a parent.

    Charges may be chosen in the light of earlier answers: sum rho_t <= rho, or sum epsilon_t <= epsilon for a pure
    budget, in exact fractions.

    Privacy: a filter; whatever is charged, and however it was chosen, stays within the budget.

    Reference: [Feldman and Zrnic 2021] and [Whitehouse et al. 2023] for filters in zCDP; [Rogers et al. 2016] for
    pure epsilon.

    >>> from hush.privacy.events import SelectionEvent
    >>> allowance = Allowance(Budget(rho=0.5))
    >>> allowance.charge(SelectionEvent(Fraction(1)))
    >>> allowance.remaining
    Fraction(3, 8)
    """

    def __init__(self, budget: Budget, parent: Account | None = None) -> None:
        self._budget = budget
        self._limit = budget.limit
        self._parent = parent
        self._cost = Cost()
        self._events: list[Event] = []
        self._lock = threading.Lock()
        self._process = os.getpid()

    @property
    def budget(self) -> Budget:
        return self._budget

    @property
    def cost(self) -> Cost:
        """The exact sum of what was charged."""
        return self._cost

    @property
    def events(self) -> tuple[Event, ...]:
        """What was charged, in order."""
        return tuple(self._events)

    @property
    def remaining(self) -> Fraction:
        return remaining_of(self._budget, self._limit, self._cost)

    def require(self, event: Event) -> None:
        """Raise BudgetError where `charge` would, here or at the parent; records nothing."""
        check_affordable(self._budget, self._limit, self._cost, price(event), what="this release")
        if self._parent is not None:
            self._parent.require(event)

    def charge(self, event: Event, *, note: str = "") -> None:
        """Charge the event here and to the parent; if either refuses, nothing is recorded here."""
        if os.getpid() != self._process:
            raise BudgetError("an allowance belongs to the process that made it; make one in each process")
        cost = price(event)
        with self._lock:
            check_affordable(self._budget, self._limit, self._cost, cost, what="this release")
            if self._parent is not None:
                self._parent.charge(event, note=note)
            self._cost = self._cost + cost
            self._events.append(event)

    def resume(self, event: Event) -> None:
        """Count what an earlier part of the same release spent; it is on the parent's record already.

        Privacy: lowers what is left, and can only be done before the first charge.
        """
        cost = price(event)
        with self._lock:
            if self._events:
                raise BudgetError("an allowance that was charged already cannot be resumed; make another")
            check_affordable(self._budget, self._limit, self._cost, cost, what="this release")
            self._cost = self._cost + cost
            self._events.append(event)

    def lower(self, remaining: Fraction) -> None:
        """Leave no more than this, in the unit of `budget.limit`; what is left is never raised."""
        with self._lock:
            self._limit -= max(self.remaining - remaining, Fraction(0))

    def __reduce__(self) -> NoReturn:
        raise TypeError("an allowance cannot be copied: each copy would spend the whole of it")


def remaining_of(budget: Budget, limit: Fraction, spent: Cost) -> Fraction:
    """What is left of a limit after a cost, in the unit of the budget; nothing if the cost has no bound in it."""
    amount = budget.spent(spent)
    return limit - amount if isinstance(amount, Fraction) else Fraction(0)


def used_up(remaining: Fraction, limit: Fraction) -> bool:
    """Whether nothing is left but what rounding against the spender leaves over."""
    return remaining * 10**9 < limit


def check_affordable(
    budget: Budget,
    limit: Fraction,
    spent: Cost,
    cost: Cost,
    *,
    what: str,
    raising: Callable[[Fraction], str] | None = None,
) -> None:
    """Raise BudgetError unless a cost fits in what is left; a cost without a bound never fits.

    `raising` says how to raise the limit to an amount that is enough, if that can be done.
    """
    remaining = remaining_of(budget, limit, spent)
    requested = budget.spent(cost)
    if isinstance(requested, Fraction) and 0 <= requested <= remaining:
        return
    unit = "epsilon" if budget.pure else "rho"
    if requested == math.inf:
        rule = (
            "is not private at all"
            if cost.rho is None
            else "is Gaussian, which is never pure epsilon, and this budget states no delta; use Laplace noise here, "
            "or a budget with a delta"
        )
        message = f"{what}: the event {rule}"
    else:
        asked, left = float_up(Fraction(requested)), float_down(remaining)
        form = ".6g" if f"{asked:.6g}" != f"{left:.6g}" else ".17g"
        message = f"{what}: a charge of {unit}={asked:{form}} exceeds the {left:{form}} left; add noise or ask for less"
        if used_up(remaining, limit):
            message = (
                f"{what}: a charge of {unit}={asked:.6g} exceeds what is allowed: nothing is left; ask what was "
                "released before, at no cost"
            )
        if unit == "rho" and cost.epsilon is not None:
            message += (
                f" (it is counted in zCDP, where pure epsilon={float_up(cost.epsilon):.6g} costs epsilon^2 / 2; plan "
                "with a delta)"
            )
        if raising is not None and asked <= MOST_RAISED:
            message += f"; or {raising(limit - remaining + Fraction(requested))}"
    raise BudgetError(message, remaining=remaining, requested=requested)
