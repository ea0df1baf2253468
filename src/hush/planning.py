"""plan: from a workload and a budget to what will be measured."""

from __future__ import annotations

from hush.errors import BudgetError, WorkloadError
from hush.mechanisms.mechanism import Mechanism
from hush.mechanisms.plan import Plan
from hush.mechanisms.registry import mechanism_of
from hush.mechanisms.residual import Residual
from hush.privacy.budget import Budget
from hush.privacy.sensitivity import Neighbours
from hush.strategies.noise_allocation import Loss
from hush.workloads import Workload


def plan(
    workload: Workload,
    budget: Budget,
    mechanism: str | Mechanism = "auto",
    loss: str | Loss = "rmse",
    *,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    max_rows_per_unit: int = 1,
) -> Plan:
    """What to measure for a workload within a budget; reads no data and spends nothing.

    `mechanism` is a name or a mechanism object; `loss` is "rmse", "maxvar" or a loss object. Unless its mechanism is
    adaptive, a plan knows the error of every answer; `print` it, `save` it, and `release` a table with it.

    >>> import hush
    >>> domain = hush.Domain({"age": 85, "sex": 2, "race": 5})
    >>> pairs = plan(hush.Workload.kway(domain, 2), hush.Budget(rho=0.5))
    >>> round(pairs.rmse, 3), round(pairs.variance(("sex", "race")), 3)
    (1.365, 10.493)
    """
    if not isinstance(workload, Workload):
        raise WorkloadError(f"workload={workload!r}: expected a Workload, such as Workload.kway(domain, 2)")
    if not isinstance(budget, Budget):
        raise BudgetError(f"budget={budget!r}: expected a Budget, such as Budget(epsilon=1.0, delta=1e-9)")
    return mechanism_of(mechanism, loss).plan(
        workload, budget, neighbours=neighbours, max_rows_per_unit=max_rows_per_unit
    )


def plan_for_error(
    workload: Workload,
    target: float,
    loss: str | Loss = "rmse",
    *,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    max_rows_per_unit: int = 1,
) -> Plan:
    """The cheapest plan whose RMSE (or largest standard error, for "maxvar") is at most `target`."""
    return Residual(loss=loss).plan_for_error(
        workload, target, neighbours=neighbours, max_rows_per_unit=max_rows_per_unit
    )
