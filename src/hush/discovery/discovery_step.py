"""Discovery step: what every part of a discovery is given, and what it returns."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from hush.core.rational import float_up
from hush.core.unit import Unit
from hush.privacy.account import Allowance
from hush.privacy.budget import Budget
from hush.privacy.events import Event, price
from hush.privacy.exact_sampling import Entropy
from hush.privacy.gaussian_domination import Demand
from hush.privacy.sensitivity import Neighbours
from hush.schema.column import Column
from hush.schema.provenance import Discovered
from hush.schema.stamps import Stamp
from hush.tables.sources import RowSource


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryStep:
    """The rows, the account and the share of one part of a discovery.

    `cost` is the most that the part may charge, in `account.budget.unit`, and `delta` the most it may charge of the
    budget's own delta (0 where the budget has none). `failure` is the chance of a wrong statement that the part may
    take. All gates of a discovery charge `account`; a part opens its own gate on its own view of `source`.
    """

    source: RowSource
    unit: Unit
    account: Allowance
    cost: Fraction
    delta: Fraction
    failure: float
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    entropy: Entropy | None = None
    memory_limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundColumn:
    """A column that was found, with its provenance, and whether its noise was private: no seeded bits, no watcher."""

    column: Column | Stamp
    provenance: Discovered
    private: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundUnit:
    """A cap on rows per unit that was found, with its provenance, and whether its noise was private."""

    max_rows: int
    provenance: Discovered
    private: bool


def charged_cost(budget: Budget, event: Event) -> float:
    """What an event of noise costs in the unit of a budget, rounded up, apart from a delta of its own."""
    demand = Demand.of(event) if budget.approximate else None
    return float_up(Fraction(budget.spent(price(event))) if demand is None else demand.least)
