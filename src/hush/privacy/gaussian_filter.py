"""Gaussian filter: when charges of any kind, in any order, stay within one (epsilon, delta).

Charges may depend on earlier answers. A charge is admitted if the rule of Gaussian DP or plain addition admits all
charges so far, and the deltas of events fit. Each rule, once broken, stays broken, so the final loss is that of one of
two processes that stop in time, and the delta of both together is at most the sum of their shares of delta:

* Gaussian DP: sum mu_i^2 <= mu^2, where the Gaussian mechanism of mu keeps (epsilon, 0.88 delta). A choice, or pure
  noise, costs what `gaussian_domination` proves for the Gaussian DP that is left after it.
* deltas of events (discovery of categories, training): they add up to at most a tenth of delta, whenever they come.
* plain addition: sum epsilon_i <= epsilon, where Gaussian noise counts as (epsilon_i, delta / 400); for up to eight
  charges with Gaussian noise, so that these add up to at most 2 % of delta.

The very first charge is made before any answer, so it may decide which rules hold:

* plain first: if it is pure noise too large for Gaussian DP, or has a delta of its own, it and the charges of that kind
  right after it are deducted from epsilon and delta. The rules above are then for what is left.
* alone: if it is Gaussian noise that fits only with the whole delta, as that of a plan that is fixed beforehand does,
  by the tightest route of `total_epsilon`, it is admitted and nothing may follow.

A raised cap takes in all charges anew. Whether its first charges are deducted stays as it was.

The rules for ledgers of earlier versions, and for budgets in rho or mu, are in `privacy_filter`.

Reference: [Smith and Thakurta 2022] for the filter in Gaussian DP; [Rogers et al. 2016] for plain addition.
"""

from __future__ import annotations

import math
from contextlib import suppress
from fractions import Fraction

from hush.core.errors import BudgetError
from hush.core.rational import float_down, float_up
from hush.privacy.budget import RESERVED_DELTA, Budget, Cost
from hush.privacy.conversions import gaussian_epsilon, near_gaussian_delta
from hush.privacy.events import ComposedEvent, Event, GaussianEvent, price
from hush.privacy.gaussian_domination import Demand, shortened
from hush.privacy.privacy_filter import DEDUCTED_FIRST, Filter, ZcdpFilter
from hush.privacy.total_epsilon import total_epsilon

EVENTS_DELTA = RESERVED_DELTA * 5 / 6  # share of delta for events that have a delta of their own
MOST_CONVERTED = 8  # charges with Gaussian noise that plain addition converts
CONVERTED_DELTA = (RESERVED_DELTA - EVENTS_DELTA) / MOST_CONVERTED  # share of delta for each of them


class GaussianFilter(Filter):
    """The charges to one (epsilon, delta), and what they leave in Gaussian DP, in units of mu^2 / 2."""

    def __init__(self, budget: Budget, limit: Fraction, *, plain_first: bool | None = None) -> None:
        super().__init__(budget, limit)
        self._decided = plain_first  # by the first charge under an earlier cap; None if no charge decided yet
        self._left = limit  # of the rule of Gaussian DP; below 0 once that rule is broken
        self._first: Cost | None = None  # what was deducted by "plain first"
        self._only_first = False
        self._alone = False
        self._empty = True
        self._deltas = Fraction(0)  # of events after the first ones
        self._converted: list[Demand] = []  # Gaussian noise and choices that plain addition must convert
        self._pure = Fraction(0)  # sum of the epsilons of pure charges
        self._broken = False

    def copy(self) -> GaussianFilter:
        twin = GaussianFilter(self.budget, self.limit, plain_first=self._decided)
        twin.__dict__.update(self.__dict__)
        twin._converted, twin.charges = list(self._converted), list(self.charges)
        return twin

    def add(self, event: Event, cost: Cost) -> None:
        super().add(event, cost)
        self._pure += cost.epsilon or 0
        empty, self._empty = self._empty, False
        if cost.rho is None or self._alone:
            self._broken = True
            return
        if (empty or self._only_first) and self._deducts(event, cost, first=empty):
            return
        self._only_first = False
        demand = Demand.of(event) or Demand()
        self._deltas += cost.delta
        if cost.epsilon is None:
            self._converted.append(demand)
        left = demand.left_after(self._left) if self._left >= 0 else None
        self._left = Fraction(-1) if left is None else shortened(left, self.limit)
        # Only noise that is fixed beforehand and Gaussian throughout, as that of plans, may be alone.
        if empty and left is None and all(isinstance(part, GaussianEvent) for part, _ in _parts(event)):
            self._alone = total_epsilon(event, self.budget.delta or 0.0).epsilon <= (self.budget.epsilon or 0.0)

    def add_resumed(self, event: Event, cost: Cost) -> None:
        self._empty = False
        self.add(event, cost)
        if cost.epsilon is None:  # it may have been many charges, each of which plain addition would convert
            self._converted.extend([Demand()] * MOST_CONVERTED)

    def _deducts(self, event: Event, cost: Cost, *, first: bool) -> bool:
        """Deduct one of the first charges from epsilon and delta, if the rule "plain first" holds for it."""
        parts = _parts(event)
        if not parts or not all(isinstance(part, DEDUCTED_FIRST) for part, _ in parts):
            return False
        if first and self._decided is not None and not self._decided:
            return False
        if first and self._decided is None and not cost.delta:
            demand = Demand.of(event)
            if demand is None or demand.left_after(self.limit) is not None:
                return False
        self._only_first = True
        self._first = cost if self._first is None else self._first + cost
        self._broken = min(self._stated) < 0
        epsilon, delta = map(float_down, self._stated)
        self._left = Fraction(0)
        if epsilon > 0 and delta > 0:  # as floats: the smallest float is far below any use
            with suppress(BudgetError):  # too small to spend
                self._left = Budget(epsilon=epsilon, delta=delta).limit
        return True

    @property
    def _stated(self) -> tuple[Fraction, Fraction]:
        """The epsilon and delta that the first charges leave to all others."""
        first = self._first or Cost()
        epsilon = Fraction(self.budget.epsilon or 0.0) - (first.epsilon or 0)
        return epsilon, Fraction(self.budget.delta or 0.0) - first.delta

    @property
    def plain_first(self) -> bool | None:
        return None if self._empty else self._first is not None

    @property
    def left(self) -> Fraction:
        return Fraction(0) if self._alone or self._broken else self._left

    @property
    def kept(self) -> bool:
        if self._broken:
            return False
        return self._alone or self._empty or (self.keeps_delta and (self._left >= 0 or self._adds_up()))

    @property
    def keeps_delta(self) -> bool:
        delta = self._stated[1]
        return delta >= 0 and self._deltas <= EVENTS_DELTA * delta

    @property
    def delta_left(self) -> Fraction:
        """The delta that further events with a delta of their own may have together."""
        delta = self._stated[1]
        return delta if self._empty or self._only_first else max(EVENTS_DELTA * delta - self._deltas, Fraction(0))

    @property
    def pure_left(self) -> Fraction | None:
        if self._alone or len(self._converted) > MOST_CONVERTED:
            return None
        delta = float_down(CONVERTED_DELTA * self._stated[1])
        if self._converted and not delta:
            return None
        total = Fraction(0)
        for demand in self._converted:
            epsilon = gaussian_epsilon(math.sqrt(2 * float_up(demand.cost(Fraction(0)))) * (1 + 1e-15), delta)
            if math.isinf(epsilon):
                return None
            total += Fraction(epsilon)
        return Fraction(self.budget.epsilon or 0.0) - self._pure - total

    def _adds_up(self) -> bool:
        pure = self.pure_left
        return pure is not None and pure >= 0


def new_filter(budget: Budget, limit: Fraction | None = None, *, plain_first: bool | None = None) -> Filter:
    """The filter of a budget that nothing was charged to; `limit` is the budget's limit as it was recorded.

    `plain_first` is what the first charge decided under an earlier cap; a raised cap does not decide again.
    """
    limit = budget.limit if limit is None else limit
    if budget.approximate:
        return GaussianFilter(budget, limit, plain_first=plain_first)
    return ZcdpFilter(budget, limit)


def _parts(event: Event) -> tuple[tuple[Event, int], ...]:
    return event.parts if isinstance(event, ComposedEvent) else ((event, 1),)


def keeps(budget: Budget, event: Event, *, slack: Fraction) -> bool:
    """Whether the events of a release, whose order is not known, may have kept its budget up to a relative slack.

    A check of files that some run wrote, under the rules of this version or an earlier one; it admits no charge.
    """
    cost = price(event)
    before = ZcdpFilter(budget, (Fraction(budget.rho) if budget.approximate else budget.limit) * (1 + slack))
    before.add(event, cost)
    if before.kept or not budget.approximate:
        return before.kept
    demand, delta = Demand.of(event), budget.delta or 0.0
    if demand is None:
        return False
    # The least that choices can cost; floats, since a file is no charge and mpmath takes long to load.
    mu = math.sqrt(2 * float_up(demand.least * (1 - slack)))
    if not cost.delta and near_gaussian_delta(mu, budget.epsilon or 0.0) <= delta * (1 + 1e-6):
        return True
    return total_epsilon(event, delta).epsilon <= (budget.epsilon or 0.0) * (1 + 1e-9)
