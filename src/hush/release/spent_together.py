"""What a release costs together with the discovery of its schema.

A release shows its schema. If the schema was found in the same rows, a person is in both, and both costs add up:

- pure and pure: epsilon + epsilon'.
- zCDP and zCDP: rho + rho', converted at the delta of the release.
- (epsilon, delta) both times: mu^2/2 + mu'^2/2 of Gaussian DP, converted at delta less what the discovery may have
  spent on values of unknown lists. A discovery under such a budget adds Gaussian noise alone.
- anything else: epsilon + epsilon', delta + delta'.
- no sum, if the neighbours or the units differ. A discovery for people of whom at most m rows count promises less for
  single rows: one row more in the data may take the place of another among the m, which moves two counts.

The last discovery counts with its whole budget, which also paid for columns in which nothing was found; columns of
earlier ones count with what they cost.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

from hush.core.rational import float_down, float_up
from hush.privacy.budget import RESERVED_DELTA, Budget
from hush.privacy.conversions import gaussian_epsilon, zcdp_epsilon
from hush.privacy.events import price
from hush.privacy.gaussian_domination import Demand
from hush.privacy.gaussian_filter import EVENTS_DELTA
from hush.privacy.sensitivity import Neighbours
from hush.release.statement import ROUNDING_SLACK, Statement
from hush.schema import Schema

USUAL_DELTA = 1e-9  # where the release has no delta, the cost of a discovery is converted at this one


def spent_together(statement: Statement, schema: Schema) -> tuple[float, float] | None:
    """The epsilon and delta of a release and of the discovery of its schema; None if nothing bounds them."""
    costs, rare = discovery_costs(schema)
    if statement.spent is None or not costs:
        return statement.spent
    if not same_promise(schema, statement.neighbours, statement.unit.column):
        return None
    (epsilon, delta), budget, units = statement.spent, statement.budget, set(costs)
    if units == {"epsilon"} and not delta:
        return float_up(Fraction(epsilon) + costs["epsilon"]), 0.0
    if units == {"rho"} and delta and not budget.approximate:
        return zcdp_epsilon(float_up((price(statement.event).rho or 0) + costs["rho"]), delta), delta
    left, demand = float_down(Fraction(delta) - rare), Demand.of(statement.event)
    gaussian = demand is not None and budget.approximate and demand.least <= budget.fixed_limit * (1 + ROUNDING_SLACK)
    if units == {"mu^2/2"} and gaussian and left > 0:
        return gaussian_epsilon(_mu(budget.fixed_limit + costs["mu^2/2"]), left), delta
    return plain_sum(epsilon, delta, schema)


def same_promise(schema: Schema, neighbours: Neighbours, unit: str | None) -> bool:
    """Whether the last discovery of a schema protects the same units under the same neighbours."""
    run = schema.discovery
    return run is None or (run.neighbours == neighbours.value and run.unit == (unit or ""))


def plain_sum(epsilon: float, delta: float, schema: Schema) -> tuple[float, float] | None:
    """An epsilon and delta with those of the discovery of a schema added; None if nothing bounds them."""
    costs, rare = discovery_costs(schema)
    if not costs:
        return epsilon, delta
    stated = {} if schema.discovery is None else dict(schema.discovery.budget)
    at = stated.get("delta", 0.0) * float(1 - RESERVED_DELTA) or delta or USUAL_DELTA
    together = math.fsum([epsilon, *(_epsilon(unit, cost, at) for unit, cost in costs.items())]) * (1 + 1e-15)
    deltas = Fraction(delta) + rare + Fraction(at) * len(costs.keys() - {"epsilon"})
    return None if math.isinf(together) else (together, float_up(deltas))


def discovery_costs(schema: Schema) -> tuple[dict[str, Fraction], Fraction]:
    """What finding the schema cost, by unit, and the delta that it spent on values of unknown lists."""
    run = schema.discovery
    columns = {column.source: column if column.part is None else column.part.stamp for column in schema}
    costs: Counter[str] = Counter()
    rare = Fraction(0)
    for name, column in columns.items():
        one = column.discovered
        if one is not None and (run is None or name not in run.found):
            costs[one.cost_unit] += Fraction(one.cost)  # type: ignore[assignment]
            rare += Fraction(one.delta)
    if run is not None:
        budget = Budget.from_dict(dict(run.budget))
        costs[budget.unit] += budget.limit  # type: ignore[assignment]
        rare += EVENTS_DELTA * Fraction(budget.delta or 0)
    return {unit: Fraction(cost) for unit, cost in costs.items()}, rare


def _epsilon(unit: str, cost: Fraction, delta: float) -> float:
    """The epsilon of a cost in one of the units of budgets."""
    if unit == "epsilon":
        return float_up(cost)
    return zcdp_epsilon(float_up(cost), delta) if unit == "rho" else gaussian_epsilon(_mu(cost), delta)


def _mu(half_squared: Fraction) -> float:
    return math.sqrt(2 * float_up(half_squared)) * (1 + 1e-15)
