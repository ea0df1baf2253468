"""Privacy filter: when charges in zCDP and in pure epsilon together stay within one budget.

The rules for (epsilon, delta) are those of ledgers from versions of hush before Gaussian DP; `gaussian_filter` has the
rules that new ledgers and releases follow. Charges may depend on earlier answers, so only these rules are sound, each
applied to all charges together:

* zCDP: sum rho_i <= rho, the zCDP of the budget.
* Renyi, under (epsilon, delta): the same at the one order alpha behind that conversion, where Laplace noise of
  epsilon_i costs no more than randomised response does:

      sum rho_i + sum min(epsilon_i^2 / 2, r(epsilon_i) / alpha) <= rho,
      r(e) = log((e^(e alpha) + e^(e (1 - alpha))) / (1 + e^e)) / (alpha - 1).

* pure: if all charges are pure, sum epsilon_i <= epsilon. Their loss never exceeds epsilon, so what this rule admits
  adds nothing to delta, and both rules may stand side by side.
* pure first: if the very first charge is Laplace noise too large for zCDP, it and the Laplace charges right after it
  are deducted from epsilon, and the Renyi rule with (epsilon - what they cost, delta) is for all that follows. Given
  what the first ones answered, what follows adds at most delta. The first charge is made before any answer, so it may
  decide which rule holds.
* delta first: the same where the very first charge has a delta of its own. The first charges, Laplace or with a delta,
  are deducted from epsilon and from delta, and what follows keeps to the rules above with (epsilon, delta) less what
  they cost. A delta that comes after any other charge is refused: what was charged before may have used it.

The order alpha depends on the budget alone, never on what was spent. To take the best order, or the best split of
epsilon, after the charges are known would be unsound: one could stop as soon as the loss is just above its bound. For
the same reason no privacy loss distributions are composed here; `total_epsilon` does that for events fixed beforehand.

Reference: [Feldman and Zrnic 2021] and [Whitehouse et al. 2023] for filters in Renyi DP and zCDP; [Rogers et al. 2016]
for pure epsilon.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Self

from hush.core.rational import float_down, float_up
from hush.privacy import conversions
from hush.privacy.budget import Budget, Cost
from hush.privacy.events import ComposedEvent, DiscoveryEvent, Event, LaplaceEvent, PromisedEvent, RareKeyEvent

DEDUCTED_FIRST = (
    LaplaceEvent,
    DiscoveryEvent,
    RareKeyEvent,
    PromisedEvent,
)  # deducted by basic composition if they come first
Epsilons = Counter[Fraction]  # how often Laplace noise of each epsilon was added


class Filter(ABC):
    """The charges to one budget so far, and whether they keep it; `limit` is the budget's limit as it was recorded."""

    def __init__(self, budget: Budget, limit: Fraction) -> None:
        self.budget = budget
        self.limit = limit
        self.charges: list[tuple[Event, Cost]] = []
        self._added = 0  # of the charges, in `_spent`
        self._spent = Cost()

    def add(self, event: Event, cost: Cost) -> None:
        """Take in the next charge."""
        self.charges.append((event, cost))

    def add_resumed(self, event: Event, cost: Cost) -> None:
        """Take in all charges of an interrupted run as one, which must not decide which rules hold."""
        self.add(event, cost)

    @property
    def plain_first(self) -> bool | None:
        """Whether the first charges were deducted from epsilon and delta; None if nothing was charged."""
        return None

    @property
    def spent(self) -> Cost:
        """The exact sum of all charges, added up when it is asked for."""
        if self._added < len(self.charges):
            self._spent = Cost.total([self._spent, *(cost for _, cost in self.charges[self._added :])])
            self._added = len(self.charges)
        return self._spent

    def after(self, event: Event, cost: Cost) -> Self:
        """The filter after one more charge; this one does not change."""
        twin = self.copy()
        twin.add(event, cost)
        return twin

    @abstractmethod
    def copy(self) -> Self:
        """A filter with the same charges."""

    @property
    @abstractmethod
    def left(self) -> Fraction:
        """What is left in the unit of the budget; below 0 where more was spent, unless pure charges alone fit."""

    @property
    @abstractmethod
    def kept(self) -> bool:
        """Whether the charges keep the promise of the budget, however they were chosen."""

    @property
    @abstractmethod
    def keeps_delta(self) -> bool:
        """Whether the charges with a delta of their own fit; True if there are none."""

    @property
    @abstractmethod
    def delta_left(self) -> Fraction:
        """The delta that further events with a delta of their own may have together."""

    @property
    @abstractmethod
    def pure_left(self) -> Fraction | None:
        """The pure epsilon that is left beside all charges so far; None if plain addition does not admit these."""


class ZcdpFilter(Filter):
    """The charges to a budget in rho, mu or pure epsilon, or to an (epsilon, delta) of an earlier version."""

    def __init__(self, budget: Budget, limit: Fraction) -> None:
        super().__init__(budget, limit)
        self.tally = Tally()

    def add(self, event: Event, cost: Cost) -> None:
        super().add(event, cost)
        self.tally.add(event, cost)

    def copy(self) -> ZcdpFilter:
        twin = ZcdpFilter(self.budget, self.limit)
        twin.__dict__.update(self.__dict__)
        twin.tally, twin.charges = self.tally.copy(), list(self.charges)
        return twin

    @property
    def left(self) -> Fraction:
        return left_of(self.budget, self.limit, self.spent, self.tally)

    @property
    def kept(self) -> bool:
        return is_within(self.budget, self.limit, self.spent, self.tally)

    @property
    def keeps_delta(self) -> bool:
        return keeps_delta(self.budget, self.limit, self.spent, self.tally)

    @property
    def delta_left(self) -> Fraction:
        if self.charges and (not self.tally.only_first or _pure_first(self.limit, self.tally) is None):
            return Fraction(0)
        return max(Fraction(self.budget.delta or 0) - self.spent.delta, Fraction(0))

    @property
    def pure_left(self) -> Fraction | None:
        return pure_left(self.budget, self.spent)

    @property
    def plain_first(self) -> bool | None:
        return _pure_first(self.limit, self.tally) is not None if self.charges and self.budget.approximate else None


class Tally:
    """What the rules need to know of charges besides their cost: Laplace noise, deltas, and which came first."""

    def __init__(self) -> None:
        self.first: list[Cost] = []  # the charges, Laplace or with a delta, before any other
        self.only_first = True
        self.among_first: Epsilons = Counter()
        self.later: Epsilons = Counter()

    def add(self, event: Event, cost: Cost) -> None:
        """Take in the next charge."""
        parts = event.parts if isinstance(event, ComposedEvent) else ((event, 1),)
        laplace: Epsilons = Counter()
        for part, count in parts:
            if isinstance(part, LaplaceEvent):
                laplace[part.sensitivity_l1 / part.scale] += count
        if self.only_first and parts and all(isinstance(part, DEDUCTED_FIRST) for part, _ in parts):
            self.first.append(cost)
            self.among_first.update(laplace)
        else:
            self.only_first = False
            self.later.update(laplace)

    @property
    def laplace(self) -> Epsilons:
        """All Laplace noise."""
        return self.among_first + self.later

    def copy(self) -> Tally:
        """A tally of the same charges."""
        twin = Tally()
        twin.first, twin.only_first = list(self.first), self.only_first
        twin.among_first, twin.later = Counter(self.among_first), Counter(self.later)
        return twin


def left_of(budget: Budget, limit: Fraction, spent: Cost, tally: Tally) -> Fraction:
    """What is left of a limit, in the unit of the budget; below 0 where more was spent, unless the pure rule holds.

    `limit` is the budget's limit as it was recorded. If nothing bounds the cost, nothing is left.
    """
    if budget.pure:
        return Fraction(0) if spent.epsilon is None else limit - spent.epsilon
    if spent.rho is None:
        return Fraction(0)
    if not (budget.epsilon and budget.delta):
        return limit - spent.rho
    if (first := _pure_first(limit, tally)) is None:
        if not tally.laplace:
            return limit - spent.rho
        order, _ = _order(budget.epsilon, budget.delta)
        return limit - _renyi(spent.rho, tally.laplace, order)
    epsilon, rho = Fraction(budget.epsilon) - (first.epsilon or 0), spent.rho - (first.rho or 0)
    delta = Fraction(budget.delta) - first.delta
    if float_down(epsilon) <= 0 or float_down(delta) <= 0:
        return min(epsilon, Fraction(0)) - rho
    order, most = _order(float_down(epsilon), float_down(delta))
    return most - _renyi(rho, tally.later, order)


def pure_left(budget: Budget, spent: Cost) -> Fraction | None:
    """The pure epsilon that is left if all charges were pure and the budget states epsilon; otherwise None."""
    if budget.epsilon is None or spent.epsilon is None:
        return None
    return Fraction(budget.epsilon) - spent.epsilon


def is_within(budget: Budget, limit: Fraction, spent: Cost, tally: Tally) -> bool:
    """Whether charges keep the promise of a budget, however they were chosen.

    Privacy: under (epsilon, delta) the charges together are (epsilon, delta)-DP; see the rules of this module.
    """
    amount = budget.spent(spent)
    if not spent.delta and isinstance(amount, Fraction) and amount <= limit:
        return True
    if budget.pure or spent.rho is None or not keeps_delta(budget, limit, spent, tally):
        return False
    pure = pure_left(budget, spent)
    return (pure is not None and pure >= 0) or left_of(budget, limit, spent, tally) >= 0


def keeps_delta(budget: Budget, limit: Fraction, spent: Cost, tally: Tally) -> bool:
    """Whether charges with a delta came before all others and their sum fits; True if there are none."""
    if not spent.delta:
        return True
    first = _pure_first(limit, tally)
    return first is not None and spent.delta == first.delta and spent.delta <= Fraction(budget.delta or 0)


def _pure_first(limit: Fraction, tally: Tally) -> Cost | None:
    """The cost of the first charges if the first of all is too large for zCDP or has a delta, else None."""
    if not tally.first or ((tally.first[0].rho or 0) <= limit and not tally.first[0].delta):
        return None
    return Cost.total(tally.first)


@lru_cache(maxsize=64)
def _order(epsilon: float, delta: float) -> tuple[float, Fraction]:
    """The order alpha of a budget, less one, and the zCDP that may be spent at it."""
    return conversions.zcdp_order(epsilon, delta), Fraction(conversions.zcdp_rho(epsilon, delta))


def _renyi(rho: Fraction, laplace: Mapping[Fraction, int], order: float) -> Fraction:
    """A sum of rho in which Laplace noise costs what it does at one order."""
    saved = ((epsilon**2 / 2 - _price(epsilon, order)) * count for epsilon, count in laplace.items())
    return rho - sum(saved, Fraction(0))


@lru_cache(maxsize=4096)
def _price(epsilon: Fraction, order: float) -> Fraction:
    """The cost of pure epsilon at an order alpha, less one, in units of rho; never above epsilon^2 / 2."""
    by_order = conversions.pure_renyi(float_up(epsilon), order)
    if math.isinf(by_order):
        return epsilon**2 / 2
    return min(epsilon**2 / 2, Fraction(by_order) / (1 + Fraction(order)))
