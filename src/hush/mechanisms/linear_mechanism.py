"""LinearMechanism: what matrix, hdmm and direct share: choose the noise, select a strategy, make the plan."""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from typing import ClassVar, Generic, TypeVar

from hush.mechanisms.linear import LinearPlan
from hush.mechanisms.noise_choice import choose_noise, per_row
from hush.privacy.budget import Budget
from hush.privacy.neighbours import Neighbours
from hush.strategies.linear import LinearStrategy
from hush.strategies.noise_kind import NoiseKind
from hush.workloads import Workload

Made = TypeVar("Made", bound=LinearPlan)


class LinearMechanism(ABC, Generic[Made]):
    """Selects a linear strategy; subclasses say how, and which plan holds it."""

    noise: str
    plan_class: ClassVar[type[LinearPlan]]

    @abstractmethod
    def _select(self, workload: Workload, noise: NoiseKind, budget: Fraction, neighbours: Neighbours) -> LinearStrategy:
        """The strategy for a workload; the budget, rho or epsilon, is for privacy units of one row."""

    @property
    def _loss_name(self) -> str:
        return "rmse"

    def plan(
        self,
        workload: Workload,
        budget: Budget,
        *,
        neighbours: Neighbours = Neighbours.ADD_REMOVE,
        max_rows_per_unit: int = 1,
    ) -> Made:
        """The strategy of least predicted error within the budget."""
        kind, spent = choose_noise(self.noise, budget)
        share = per_row(kind, spent, max_rows_per_unit)
        made: Made = self.plan_class(  # type: ignore[assignment]
            strategy=self._select(workload, kind, share, neighbours),
            workload=workload,
            budget=spent,
            neighbours=neighbours,
            max_rows_per_unit=max_rows_per_unit,
            loss=self._loss_name,
        )
        return made
