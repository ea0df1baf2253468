"""residual: optimal noisy marginals by ResidualPlanner, with prefix sums and ranges as an extension."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

from hush.core.errors import SizeError, WorkloadError
from hush.mechanisms.mechanism import StrategyMechanism
from hush.mechanisms.plan import Plan, rows_per_unit
from hush.privacy.budget import Budget
from hush.privacy.sensitivity import Neighbours
from hush.strategies.noise_allocation import Loss
from hush.strategies.residual_basis import ResidualBasis
from hush.strategies.residual_strategy import ResidualStrategy, check_measurable
from hush.strategies.select_residual import select_for_target, select_residual
from hush.strategies.strategy import NoiseKind
from hush.workloads import Workload


@dataclass(frozen=True)
class Residual(StrategyMechanism):
    """ResidualPlanner: measures the residual of every subset of the workload's cliques, each with its own noise.

    `loss` is "rmse" (total variance, in closed form), "maxvar" (largest variance) or a loss object.

    Reference: [ResidualPlanner].
    """

    name: ClassVar[str] = "residual"
    description: ClassVar[str] = "residuals of every subset of the asked tables; the least error for marginals"
    noise_words: ClassVar[str] = "Gaussian"
    reference: ClassVar[str] = "ResidualPlanner"

    loss: str | Loss = "rmse"
    bases: Mapping[str, ResidualBasis] = field(default_factory=dict, metadata={"stored": False})  # in the strategy

    def select(self, workload: Workload, noise: NoiseKind, cost: Fraction, neighbours: Neighbours) -> ResidualStrategy:
        """The noise that makes the loss smallest within the budget."""
        return select_residual(workload, rho=cost, loss=self.loss, bases=self.bases, neighbours=neighbours).checked()

    def describe(self, plan: Plan) -> list[tuple[str, str]]:
        """Say why a plan cannot be released, if its tables are too large to be measured exactly."""
        if not isinstance(plan.strategy, ResidualStrategy):
            return []
        try:
            check_measurable(plan.strategy)
        except SizeError as error:
            return [("Release", f"only predicted: {error}")]
        return []

    def plan_for_error(
        self,
        workload: Workload,
        target: float,
        *,
        neighbours: Neighbours = Neighbours.ADD_REMOVE,
        max_rows_per_unit: int = 1,
    ) -> Plan:
        """The smallest budget, in zCDP, that reaches a target: the RMSE, or the largest standard error for "maxvar"."""
        if workload.sum_terms:
            raise WorkloadError(
                "a target is for the error of counts, and sums of values have errors in their own units; leave them "
                "out, or state a budget"
            )
        strategy = select_for_target(
            workload, target=target, loss=self.loss, bases=self.bases, neighbours=neighbours
        ).checked()
        rho = strategy.rho * rows_per_unit(max_rows_per_unit) ** 2
        return Plan(
            settings=self,
            strategy=strategy,
            workload=workload,
            budget=Budget(rho=math.nextafter(float(rho), math.inf)),
            neighbours=neighbours,
            max_rows_per_unit=max_rows_per_unit,
            loss=self.loss_name,
        )
