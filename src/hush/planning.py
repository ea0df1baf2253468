"""`hush.plan`: what to measure for a workload within a budget."""

from __future__ import annotations

from dataclasses import replace

from hush.core.domain import Domain, domain_of
from hush.core.errors import BudgetError, WorkloadError, shown
from hush.mechanisms.auto import Auto
from hush.mechanisms.mechanism import Mechanism
from hush.mechanisms.plan import Plan, Progress
from hush.mechanisms.registry import mechanism_of
from hush.mechanisms.residual import Residual
from hush.privacy.budget import Budget
from hush.privacy.sensitivity import Neighbours
from hush.schema import Schema
from hush.strategies.noise_allocation import Loss
from hush.workloads import Workload
from hush.workloads.workload_text import parse_workload


def plan(
    workload: Workload | str,
    budget: Budget,
    mechanism: str | Mechanism = "auto",
    loss: str | Loss = "rmse",
    *,
    schema: Schema | Domain | None = None,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    max_rows_per_unit: int | None = None,
    thorough: bool = False,
    goal: str = "answers",
    label: str | None = None,
    progress: Progress | None = None,
) -> Plan:
    """Plan what to measure for a workload within a budget; reads no data and spends nothing.

    `workload` may be a text, as on the command line, such as "<=2-way" or "age,sex; race"; `schema` then says what the
    columns are. `max_rows_per_unit` is how many rows of one person are used, by default what the schema says, or 1.
    `mechanism` is a name or a mechanism object; `loss` is "rmse", "maxvar" or a loss object. Unless its mechanism is
    adaptive, a plan knows the error of every answer; `print` it, `save` it, and `release` a table with it.

    `mechanism="auto"` compares several, and skips searches that take long or can gain little, unless `thorough`;
    `progress` gets the share that is done. Under (epsilon, delta) it takes Laplace noise if that is more accurate; pure
    epsilon is also the stronger promise. `plan.alternative` is then the best plan with Gaussian noise. `goal="rows"` is
    for synthetic rows: "auto" then takes `scout`, which measures what rows would otherwise get wrong.
    `label` names a column that classifiers trained on these rows will predict, and adds `Workload.predict` to the
    workload.

    >>> import hush
    >>> domain = hush.Domain({"age": 85, "sex": 2, "race": 5})
    >>> pairs = plan(hush.Workload.kway(domain, 2), hush.Budget(rho=0.5))
    >>> round(pairs.rmse, 3), round(pairs.variance(("sex", "race")), 3)
    (1.365, 10.493)
    >>> plan("<=2-way", hush.Budget(rho=0.5), schema=hush.datasets.people_schema())
    Plan(residual, 29 tables, rho=0.5)
    """
    # Read the question before the budget is checked, so that errors come in the order of the arguments.
    asked = workload_of(workload, schema)
    if not isinstance(budget, Budget):
        raise BudgetError(f"budget={budget!r}: expected a Budget, such as Budget(epsilon=1.0, delta=1e-9)")
    rows = unit_rows(schema, max_rows_per_unit)

    # Choose the mechanism; only `auto` compares several, and reports its progress.
    chosen = mechanism_of(mechanism, loss)
    if isinstance(chosen, Auto):
        stated_goal = chosen.goal if goal == "answers" else goal
        chosen = replace(chosen, thorough=thorough or chosen.thorough, goal=stated_goal, progress=progress)
    elif thorough:
        raise WorkloadError(f"thorough=True goes with mechanism='auto', which compares several, not {chosen.name!r}")
    elif goal != "answers":
        raise WorkloadError(f"goal={goal!r} goes with mechanism='auto', which chooses by it, not {chosen.name!r}")
    if label is not None:
        if isinstance(chosen, Auto) and chosen.goal == "answers":
            raise WorkloadError(
                f"label={label!r} is for synthetic rows; add --goal rows (goal='rows'), or name a mechanism"
            )
        asked = asked + Workload.predict(asked.domain, label)
    return chosen.plan(asked, budget, neighbours=neighbours, max_rows_per_unit=rows)


def plan_for_error(
    workload: Workload | str,
    target: float,
    loss: str | Loss = "rmse",
    *,
    schema: Schema | Domain | None = None,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    max_rows_per_unit: int | None = None,
) -> Plan:
    """The cheapest plan whose RMSE (or largest standard error, for "maxvar") is at most `target`.

    `workload` and `schema` are those of `plan`.
    """
    return Residual(loss=loss).plan_for_error(
        workload_of(workload, schema),
        target,
        neighbours=neighbours,
        max_rows_per_unit=unit_rows(schema, max_rows_per_unit),
    )


def workload_of(workload: Workload | str, schema: Schema | Domain | None) -> Workload:
    """The workload, read from a text if it is one."""
    domain = None if schema is None else domain_of(schema, WorkloadError)
    if isinstance(workload, str):
        if schema is None:
            raise WorkloadError(
                f"workload={shown(workload)}: a text needs the schema whose columns it names; add schema=schema"
            )
        return parse_workload(schema, workload)
    if not isinstance(workload, Workload):
        raise WorkloadError(
            f"workload={shown(workload)}: expected a Workload, such as Workload.kway(domain, 2), or a text, such as "
            '"<=2-way", with schema=schema'
        )
    if domain is not None and domain != workload.domain:
        raise WorkloadError("the workload is over other columns than the schema; make it with the same schema")
    return workload


def unit_rows(schema: Schema | Domain | None, stated: int | None) -> int:
    """How many rows of one person are used: the stated number, or that of the schema, or 1."""
    if stated is not None:
        return stated
    return schema.unit.max_rows if isinstance(schema, Schema) else 1
