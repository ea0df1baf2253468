"""Accounts: who must be asked, and charged, before private data is read."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from fractions import Fraction
from typing import NoReturn, Protocol

from hush.core.errors import BudgetError
from hush.core.rational import float_down, float_up
from hush.privacy.budget import Budget, Cost
from hush.privacy.events import Event, price
from hush.privacy.privacy_filter import Tally, is_within, keeps_delta, left_of, pure_left

MOST_RAISED = 1e6  # a cap that would allow more promises nothing, and nobody is told to set it
WITH_GAUSSIAN = "plan with Gaussian noise, such as mechanism='residual' or --mechanism residual"


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
    budget, in exact fractions. Under (epsilon, delta), charges of both kinds add up as in `privacy_filter`.

    Privacy: a filter; whatever is charged, and however it was chosen, stays within the budget.

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
        self._tally = Tally()
        self._lowered = Fraction(0)
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
        return max(left_of(self._budget, self._limit, self._cost, self._tally), Fraction(0)) - self._lowered

    def require(self, event: Event) -> None:
        """Raise BudgetError where `charge` would, here or at the parent; records nothing."""
        self._check(event, price(event))
        if self._parent is not None:
            self._parent.require(event)

    def charge(self, event: Event, *, note: str = "") -> None:
        """Charge the event here and to the parent; if either refuses, nothing is recorded here."""
        if os.getpid() != self._process:
            raise BudgetError("an allowance belongs to the process that made it; make one in each process")
        cost = price(event)
        with self._lock:
            self._check(event, cost)
            if self._parent is not None:
                self._parent.charge(event, note=note)
            self._record(event, cost)

    def resume(self, event: Event) -> None:
        """Count what an earlier part of the same release spent; it is on the parent's record already.

        Privacy: lowers what is left, and can only be done before the first charge.
        """
        cost = price(event)
        with self._lock:
            if self._events:
                raise BudgetError("an allowance that was charged already cannot be resumed; make another")
            self._check(event, cost)
            self._record(event, cost)

    def lower(self, remaining: Fraction) -> None:
        """Leave no more than this, in the unit of `budget.limit`; what is left is never raised."""
        with self._lock:
            self._lowered += max(self.remaining - remaining, Fraction(0))

    def _check(self, event: Event, cost: Cost) -> None:
        check_affordable(
            self._budget, self._limit, self._cost, self._tally, event, cost, what="this release", withheld=self._lowered
        )

    def _record(self, event: Event, cost: Cost) -> None:
        self._cost = self._cost + cost
        self._tally.add(event, cost)
        self._events.append(event)

    def __reduce__(self) -> NoReturn:
        raise TypeError("an allowance cannot be copied: each copy would spend the whole of it")


def used_up(remaining: Fraction, limit: Fraction) -> bool:
    """Whether nothing is left but what rounding against the spender leaves over."""
    return remaining * 10**9 < limit


def check_affordable(
    budget: Budget,
    limit: Fraction,
    spent: Cost,
    tally: Tally,
    event: Event,
    cost: Cost,
    *,
    what: str,
    withheld: Fraction = Fraction(0),
    raising: Callable[[Fraction], str] | None = None,
) -> None:
    """Raise BudgetError unless a charge fits in what is left; a cost without a bound never fits.

    `withheld` is a part of the limit that may not be spent. `raising` says how to raise the limit to an amount that is
    enough, if that can be done.
    """
    remaining = max(left_of(budget, limit, spent, tally), Fraction(0)) - withheld
    requested = budget.spent(cost)
    if not isinstance(requested, Fraction):
        rule = (
            "is not private at all"
            if cost.rho is None
            else "is Gaussian, which is never pure epsilon, and this budget states no delta; use Laplace noise here, "
            "or a budget with a delta"
        )
        raise BudgetError(f"{what}: the event {rule}", remaining=remaining, requested=requested)
    total, after = spent + cost, tally.with_charge(event, cost)
    within = requested >= 0 and is_within(budget, limit, total, after)
    if within and (not withheld or left_of(budget, limit, total, after) >= withheld):
        return
    if cost.delta and not keeps_delta(budget, limit, total, after):
        raise BudgetError(f"{what}: {_delta_refusal(budget, spent, cost)}", remaining=remaining, requested=requested)
    message = f"{what}: {_refusal(budget, limit, spent, cost, remaining)}"
    if raising is not None and requested <= MOST_RAISED:
        enough = limit - remaining + requested
        if after.laplace and budget.epsilon and not budget.pure:
            enough = _enough(budget, total, after)
        message += f"; or {raising(enough)}"
    raise BudgetError(message, remaining=remaining, requested=requested)


def _refusal(budget: Budget, limit: Fraction, spent: Cost, cost: Cost, remaining: Fraction) -> str:
    """Why a charge does not fit, and what to do beside raising the limit."""
    unit = "epsilon" if budget.pure else "rho"
    asked, left = float_up(Fraction(budget.spent(cost))), float_down(remaining)
    form = ".6g" if f"{asked:.6g}" != f"{left:.6g}" else ".17g"
    message = f"a charge of {unit}={asked:{form}} exceeds the {left:{form}} left; add noise or ask for less"
    if used_up(remaining, limit):
        message = (
            f"a charge of {unit}={asked:.6g} exceeds what is allowed: nothing is left; ask what was "
            "released before, at no cost"
        )
    if budget.pure or cost.epsilon is None:
        return message
    epsilon, pure = float_up(cost.epsilon), pure_left(budget, spent)
    if budget.epsilon is None:
        why = f"it is counted in zCDP, where pure epsilon={epsilon:.6g} costs epsilon^2 / 2; plan with a delta"
    elif pure is None:
        why = f"pure epsilon={epsilon:.6g} no longer adds up by itself, since other noise was charged; {WITH_GAUSSIAN}"
    else:
        rest = max(float_down(pure), 0.0)
        why = f"it is pure epsilon={epsilon:.6g}, and {rest:.6g} is left of that; {WITH_GAUSSIAN}"
    return f"{message} ({why})"


def _delta_refusal(budget: Budget, spent: Cost, cost: Cost) -> str:
    """Why a charge with a delta of its own does not fit."""
    if not budget.delta:
        return f"the event needs delta={float_up(cost.delta):.6g}, and the budget {budget} states none; state a delta"
    left = Fraction(budget.delta) - spent.delta
    if cost.delta > left:
        return f"a charge of delta={float_up(cost.delta):.6g} exceeds the {max(float_down(left), 0.0):.6g} left"
    return (
        "an event with a delta of its own must be charged before any other, since others may use the whole delta; "
        "charge it to another dataset of the ledger, whose promise stands beside that of this one"
    )


def _enough(budget: Budget, total: Cost, tally: Tally) -> Fraction:
    """The limit of a budget of larger epsilon that covers charges of both kinds, within a few percent of the least."""
    grown = budget
    while not is_within(grown, grown.limit, total, tally):
        grown = Budget(epsilon=(grown.epsilon or 1.0) * 1.02, delta=budget.delta)
    return grown.limit
