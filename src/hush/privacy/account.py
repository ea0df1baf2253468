"""Accounts: every account is asked, and charged, before private data is read.

An allowance is the account of one release: the part of a budget that the release may spend. Its charges also go to a
parent account, such as the ledger of the dataset.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from fractions import Fraction
from typing import NoReturn, Protocol

from hush.core.errors import BudgetError
from hush.core.rational import float_down, float_up
from hush.privacy.budget import Budget, Cost
from hush.privacy.events import Event, price
from hush.privacy.gaussian_domination import Demand, bounded_rho
from hush.privacy.gaussian_filter import new_filter
from hush.privacy.privacy_filter import Filter

LARGEST_SUGGESTED_CAP = 1e6  # a higher cap promises nothing, so messages never suggest one
MOST_REPLAYED = 50  # charges that are replayed for several larger caps
WITH_GAUSSIAN = (
    "plan with Gaussian noise, such as mechanism='residual' or --mechanism residual; with hush.count, add delta=1e-9"
)


class Account(Protocol):
    """Something that is charged for an event before the event happens."""

    @property
    def budget(self) -> Budget:
        """The whole budget."""

    @property
    def remaining(self) -> Fraction:
        """What is left, in `budget.unit`."""

    def require(self, event: Event) -> None:
        """Raise BudgetError where `charge` would; records nothing."""

    def charge(self, event: Event, *, note: str = "") -> None:
        """Record an event, or raise BudgetError with `remaining` and `requested` and record nothing."""


class Allowance:
    """The budget of one release, within one process; every charge also goes to the parent account.

    Charges may depend on earlier answers: sum rho_t <= rho, or sum epsilon_t <= epsilon for a pure budget, in exact
    fractions. Under (epsilon, delta) they add up in Gaussian DP, by the rules of `gaussian_filter`.

    Privacy: a filter; all charges together stay within the budget, however they were chosen.

    >>> from hush.privacy.events import SelectionEvent
    >>> allowance = Allowance(Budget(rho=0.5))
    >>> allowance.charge(SelectionEvent(Fraction(1)))
    >>> allowance.remaining
    Fraction(3, 8)
    """

    def __init__(self, budget: Budget, parent: Account | None = None) -> None:
        self._budget = budget
        self._filter = new_filter(budget)
        self._parent = parent
        self._withheld = Fraction(0)
        self._events: list[Event] = []
        self._lock = threading.Lock()
        self._process = os.getpid()

    @property
    def budget(self) -> Budget:
        return self._budget

    @property
    def cost(self) -> Cost:
        """The exact sum of all charges."""
        return self._filter.spent

    @property
    def events(self) -> tuple[Event, ...]:
        """All charged events, in order."""
        return tuple(self._events)

    @property
    def remaining(self) -> Fraction:
        return max(self._filter.left, Fraction(0)) - self._withheld

    def choice_rho(self, share: Fraction, count: int = 1) -> Fraction:
        """The rho of zCDP that each of `count` choices may have, so that all together cost at most `share`.

        Under (epsilon, delta) a choice costs more than its rho, the less is left after it; see `gaussian_domination`.
        """
        if not self._budget.approximate:
            return share / count
        return bounded_rho(share / count, max(self.remaining - share, Fraction(0)))

    def require(self, event: Event) -> None:
        """Raise BudgetError where `charge` would, here or at the parent; records nothing."""
        self._check(event, price(event))
        if self._parent is not None:
            self._parent.require(event)

    def charge(self, event: Event, *, note: str = "") -> None:
        """Charge the event here and to the parent; if either refuses, this allowance records nothing."""
        if os.getpid() != self._process:
            raise BudgetError("an allowance belongs to the process that made it; make one in each process")
        cost = price(event)
        with self._lock:
            self._check(event, cost)
            if self._parent is not None:
                self._parent.charge(event, note=note)
            self._record(event, cost)

    def resume(self, event: Event) -> None:
        """Count what an earlier run of the same release spent, which the parent has recorded already.

        Privacy: lowers what is left; refused after the first charge.
        """
        cost = price(event)
        with self._lock:
            if self._events:
                raise BudgetError("an allowance that was charged already cannot be resumed; open a new one")
            try:
                self._check(event, cost)
            except BudgetError:
                # The order of the charges is not known, and choices may have cost less before noise than after it.
                demand = Demand.of(event)
                if not self._budget.approximate or demand is None or demand.least > self._budget.fixed_limit:
                    raise
            self._filter.add_resumed(event, cost)
            self._events.append(event)

    def lower(self, remaining: Fraction) -> None:
        """Withhold all but `remaining`, in the unit of `budget.limit`; never raises what is left."""
        with self._lock:
            self._withheld += max(self.remaining - remaining, Fraction(0))

    def _check(self, event: Event, cost: Cost) -> None:
        check_affordable(
            self._filter,
            event,
            cost,
            what="this release",
            withheld=self._withheld,
        )

    def _record(self, event: Event, cost: Cost) -> None:
        self._filter.add(event, cost)
        self._events.append(event)

    def __reduce__(self) -> NoReturn:
        raise TypeError("an allowance cannot be copied: each copy could spend all of it")


def used_up(remaining: Fraction, limit: Fraction) -> bool:
    """Whether all is spent, up to the remainder that rounding leaves."""
    return remaining * 10**9 < limit


def check_affordable(
    charged: Filter,
    event: Event,
    cost: Cost,
    *,
    what: str,
    withheld: Fraction = Fraction(0),
    raising: Callable[[Fraction], str] | None = None,
) -> None:
    """Raise BudgetError unless a charge fits in what is left; a cost without a bound never fits.

    `withheld` is the part of the limit that may not be spent. `raising(amount)` says how to raise the limit to an
    amount, if the account has a way to do so.
    """
    # A cost without a bound in the unit of the budget never fits.
    budget, limit = charged.budget, charged.limit
    remaining = max(charged.left, Fraction(0)) - withheld
    requested = budget.spent(cost)
    if not isinstance(requested, Fraction):
        rule = (
            "is not private at all"
            if cost.rho is None
            else "is Gaussian, which is never pure epsilon, and this budget states no delta; use Laplace noise here, "
            "or a budget with a delta"
        )
        raise BudgetError(f"{what}: the event {rule}", remaining=remaining, requested=requested)

    if budget.approximate and (demand := Demand.of(event)) is not None:
        requested = demand.least

    # The charge fits if all charges together keep the budget, and what is withheld stays unspent.
    after = charged.after(event, cost)
    if requested >= 0 and after.kept and (not withheld or after.left >= withheld):
        return

    # It does not fit: say why, and what to do.
    if cost.delta and not after.keeps_delta:
        raise BudgetError(f"{what}: {_delta_refusal(charged, cost)}", remaining=remaining, requested=requested)
    message = f"{what}: {_refusal(charged, cost, remaining, requested)}"
    if raising is not None and requested <= LARGEST_SUGGESTED_CAP:
        enough = limit - remaining + requested
        if budget.approximate:  # costs do not simply add up
            enough = _covering(charged, event, cost)
        if enough:
            message += f"; or {raising(enough)}"
    raise BudgetError(message, remaining=remaining, requested=requested)


def _covering(charged: Filter, event: Event, cost: Cost) -> Fraction:
    """The limit of a budget of the same delta that admits one more charge; 0 if none was found.

    The sum of costs is tried first. If pure noise may need less, and the charges are few enough to replay them often,
    so are smaller epsilons, up to two percent apart.
    """
    budget, charges = charged.budget, (*charged.charges, (event, cost))

    def admits(epsilon: float) -> bool:
        larger = new_filter(Budget(epsilon=epsilon, delta=budget.delta), plain_first=charged.plain_first)
        for earlier, paid in charges:
            larger.add(earlier, paid)
        return larger.kept

    demands = (Demand.of(earlier) for earlier, _ in charges)
    by_sum = budget.covering(sum((demand.least for demand in demands if demand), Fraction(0)))
    enough = by_sum.limit if by_sum.epsilon and admits(by_sum.epsilon) else Fraction(0)
    if len(charges) > MOST_REPLAYED or (enough and cost.epsilon is None):
        return enough
    low = high = budget.epsilon or 1.0
    while high < LARGEST_SUGGESTED_CAP and not admits(high):
        low, high = high, 2 * high
    if high >= LARGEST_SUGGESTED_CAP:
        return enough
    while high > 1.02 * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if admits(middle) else (middle, high)
    found = Budget(epsilon=high, delta=budget.delta).limit
    return min(enough, found) if enough else found


def _refusal(charged: Filter, cost: Cost, remaining: Fraction, requested: Fraction) -> str:
    """Why a charge does not fit, and what to do apart from raising the limit."""
    budget, limit, unit = charged.budget, charged.limit, charged.budget.unit
    asked, left = float_up(requested), float_down(remaining)
    form = ".6g" if f"{asked:.6g}" != f"{left:.6g}" else ".17g"
    message = f"a charge of {unit}={asked:{form}} exceeds the {left:{form}} left; add noise or ask for less"
    if used_up(remaining, limit):
        message = (
            f"a charge of {unit}={asked:.6g} exceeds what is allowed: nothing is left; query an existing release, "
            "which is free"
        )
    if budget.pure or cost.epsilon is None:
        return message
    epsilon, pure = float_up(cost.epsilon), charged.pure_left
    if budget.epsilon is None:
        why = f"this budget is in zCDP, where pure epsilon={epsilon:.6g} costs epsilon^2 / 2; plan with a delta"
    elif pure is None:
        why = f"pure epsilon={epsilon:.6g} cannot be added alone, since other noise was charged; {WITH_GAUSSIAN}"
    else:
        rest = max(float_down(pure), 0.0)
        why = f"of pure epsilon it needs {epsilon:.6g}, and {rest:.6g} is left; {WITH_GAUSSIAN}"
    return f"{message} ({why})"


def _delta_refusal(charged: Filter, cost: Cost) -> str:
    """Why an event that has its own delta does not fit."""
    budget, left = charged.budget, charged.delta_left
    needed = f"delta={float_up(cost.delta):.6g}"
    if not budget.delta:
        return f"the event needs {needed}, and the budget {budget} states none; state a delta"
    if cost.delta <= left:
        return f"a charge of {needed} together with other noise does not fit; charge the two one after another"
    return (
        f"a charge of {needed} exceeds the {float(left):.6g} left for events with a delta of their own; a budget keeps "
        "a part of its delta for them, and all of it if they are charged before all others; state the values instead "
        "of finding them, give this release a smaller delta, or the cap a larger one"
    )
