"""independent: every column by itself, as if none depended on another; a yardstick."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hush.mechanisms.mechanism import Mechanism
from hush.mechanisms.plan import Plan
from hush.mechanisms.session import Session
from hush.workloads import Workload

NAME = "independent"


@dataclass(frozen=True, kw_only=True)
class Independent(Mechanism):
    """Measures all one-way tables with the same noise, sigma = sqrt(d / (2 rho)); the model is their product.

    It ignores the workload. If the schema has rules, the model keeps them and is no longer a product.

    Privacy: rho-zCDP of the budget, d tables at rho / d each.
    Reference: [AIM, sec. 4.1], with equal shares.

    >>> import hush
    >>> hush.plan(hush.Workload.kway(hush.Domain({"a": 2, "b": 3}), 2), hush.Budget(rho=0.5), mechanism=Independent())
    Plan(independent, 1 tables, rho=0.5)
    """

    name: ClassVar[str] = NAME
    description: ClassVar[str] = "every column by itself, as if none depended on another; a yardstick"
    efficiency_aware: ClassVar[bool] = True
    reference: ClassVar[str] = "AIM, Table 1"

    def describe(self, plan: Plan) -> list[tuple[str, str]]:
        columns = len(plan.domain)
        return [
            ("Measures", f"the counts of each of {columns} columns, at rho = {float(plan.rho / columns):.3g} each"),
            ("Model", "columns as if none depended on another; what is asked changes nothing"),
        ]

    def work(self, workload: Workload) -> str:
        return f"{len(workload.domain):,} noisy tables; about 1 s beside counting"

    def run(self, session: Session, plan: Plan) -> None:
        """Measure all columns at once, unless an interrupted run did."""
        columns = [(name,) for name in session.domain]
        if not session.noisy_tables:
            session.measure(columns, session.limit / len(columns), note=f"{NAME}: {len(columns)} columns")
        session.fit()
