"""residual: optimal noisy marginals by ResidualPlanner, with prefix sums and ranges as an extension."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from hush.archive import ArchiveReader
from hush.arrays import Floats
from hush.codec import narrow
from hush.domain import Domain
from hush.errors import ArchiveError, SizeError, WorkloadError
from hush.inference.residual_estimates import ResidualEstimates, variance_of
from hush.inference.residual_reconstruction import Reconstruction
from hush.mechanisms.plan import Collector, FixedPlan, rmse_bound, rows_per_unit
from hush.memory import available_memory, readable
from hush.privacy.budget import Budget
from hush.privacy.gate import BATCH_CELLS, Request
from hush.privacy.measurement import Measurement, Measurements
from hush.privacy.sensitivity import Neighbours
from hush.release.answer_columns import Quantity
from hush.release.answers import Answers
from hush.release.release import Release
from hush.release.statement import Statement
from hush.schema import Schema
from hush.strategies.losses import Loss
from hush.strategies.noise_kind import NoiseKind
from hush.strategies.residual_basis import ResidualBasis
from hush.strategies.residual_strategy import ResidualStrategy, check_measurable, requests
from hush.strategies.select_residual import select_for_target, select_residual
from hush.strategies.strategy_files import pack_strategy, unpack_strategy
from hush.strategies.term_table import TermTable
from hush.strategies.variance_forms import mean_variances
from hush.workloads import Workload
from hush.workloads.term import EXTREME

NAME = "residual"


@dataclass(frozen=True, slots=True)
class Residual:
    """ResidualPlanner: measures residuals of every subset of the workload's cliques, each with its own noise.

    `loss` is "rmse" (total variance, in closed form), "maxvar" (largest variance), or a loss object.

    Reference: [ResidualPlanner].
    """

    loss: str | Loss = "rmse"
    bases: Mapping[str, ResidualBasis] = field(default_factory=dict)

    def plan(
        self,
        workload: Workload,
        budget: Budget,
        *,
        neighbours: Neighbours = Neighbours.ADD_REMOVE,
        max_rows_per_unit: int = 1,
    ) -> ResidualPlan:
        """The noise that makes the loss smallest within the budget."""
        share = Fraction(budget.rho) / rows_per_unit(max_rows_per_unit) ** 2
        found = select_residual(workload, rho=share, loss=self.loss, bases=self.bases, neighbours=neighbours)
        return ResidualPlan(
            strategy=found.checked(),
            workload=workload,
            budget=budget,
            neighbours=neighbours,
            max_rows_per_unit=max_rows_per_unit,
            loss=_loss_name(self.loss),
        )

    def plan_for_error(
        self,
        workload: Workload,
        target: float,
        *,
        neighbours: Neighbours = Neighbours.ADD_REMOVE,
        max_rows_per_unit: int = 1,
    ) -> ResidualPlan:
        """The smallest budget, in zCDP, that reaches a target: the RMSE, or the largest standard error for "maxvar"."""
        found = select_for_target(workload, target=target, loss=self.loss, bases=self.bases, neighbours=neighbours)
        strategy = found.checked()
        rho = strategy.rho * rows_per_unit(max_rows_per_unit) ** 2
        return ResidualPlan(
            strategy=strategy,
            workload=workload,
            budget=Budget(rho=math.nextafter(float(rho), math.inf)),
            neighbours=neighbours,
            max_rows_per_unit=max_rows_per_unit,
            loss=_loss_name(self.loss),
        )


class ResidualPlan(FixedPlan):
    """A residual strategy for a workload, with the error of every answer known."""

    mechanism = NAME

    strategy: ResidualStrategy

    def __init__(self, *, strategy: ResidualStrategy, **common: Any) -> None:
        super().__init__(strategy=strategy, **common)
        check_measurable(strategy)

    @cached_property
    def rmse(self) -> float:
        """Root mean squared error over all queries of the workload, each counted as often as its weight."""
        return self.strategy.rmse(self.workload)

    @cached_property
    def max_variance(self) -> float | None:
        """The largest variance of a query of the workload, weights left aside; None where queries are not listed."""
        if not all(term.listed for term in self.workload):
            return None
        return self.strategy.max_variance(self.workload, weighted=False)

    @cached_property
    def term_variances(self) -> Floats:
        """The mean variance over the queries of each term of the workload."""
        rows = mean_variances(TermTable.of(self.workload), self.strategy.closure, self.strategy.bases)
        return np.asarray(rows @ self.strategy.sigma_squared)

    def query_variances(self, which: int = 0) -> Floats:
        """The variance of every query of a term of the workload, one axis per attribute of the term."""
        term = self._listed(which)
        return self.strategy.query_variances(term.clique, term.blocks)

    def with_budget(self, budget: Budget) -> ResidualPlan:
        """The same strategy with the noise of another budget."""
        rho = Fraction(budget.rho) / self.max_rows_per_unit**2
        factor = float(self.strategy.rho / rho)
        return ResidualPlan(
            strategy=replace(self.strategy, sigma_squared=self.strategy.sigma_squared * factor, rho=rho),
            workload=self.workload,
            budget=budget,
            neighbours=self.neighbours,
            max_rows_per_unit=self.max_rows_per_unit,
            loss=self.loss,
        )

    @property
    def rho(self) -> Fraction:
        """The zCDP that releasing costs at most."""
        return self.strategy.rho * self.max_rows_per_unit**2

    @cached_property
    def lower_bound(self) -> tuple[float, str] | None:
        """An RMSE that no mechanism of this cost with Gaussian noise can beat, and which bound it is."""
        return rmse_bound(self.workload, NoiseKind.GAUSSIAN, self.strategy.rho, self.neighbours)

    @property
    def optimality(self) -> str:
        """What is claimed of the error."""
        if self.strategy.plain:
            return f"no unbiased linear mechanism with Gaussian noise has a smaller loss ({self.loss})"
        return "the best noise for the bases chosen for prefix sums and ranges; not proven optimal beyond that"

    @property
    def memory(self) -> int:
        """Bytes that releasing takes at its peak, roughly: all noisy numbers, and one table six times over."""
        largest = max(float(self.strategy.cells.max()), BATCH_CELLS)
        return self.strategy.measurement_bytes + int(48 * largest)

    @property
    def work(self) -> str:
        """Memory and time that releasing will take, roughly."""
        numbers = float(self.strategy.cells.sum())
        memory, seconds = 3 * 8 * numbers, 1.5e-7 * numbers + 1e-4 * len(self.strategy.closure)
        return (
            f"{len(self.strategy.closure):,} noisy tables, {numbers:,.0f} numbers; "
            f"about {readable(memory)} and {max(seconds, 0.1):,.1f} s beside counting"
        )

    def variance(self, clique: Iterable[str]) -> float:
        """The variance of each cell of a marginal within the workload's closure."""
        return self.strategy.variance(clique)

    def requests(self) -> list[Request]:
        """One noisy residual table per set of the closure."""
        return requests(self.strategy)

    def _pack(self) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
        return pack_strategy(self.strategy)

    @classmethod
    def _unpack(cls, domain: Domain, entry: Any, archive: ArchiveReader) -> ResidualStrategy:
        return unpack_strategy(domain, entry, archive)

    def contradiction(self) -> str | None:
        """What the plan shows that it would not do."""
        return _contradiction(self.strategy, self.workload, self.neighbours)

    def _collector(self) -> Collector:
        needed, free = self.memory, available_memory()
        if needed > 0.9 * free:
            raise SizeError(
                f"releasing needs about {readable(needed)}, more than the {readable(0.9 * free)} that can be had; "
                "drop an attribute, use wider bins or lower the order"
            )
        return _Collected(self)


class _Collected:
    """Residual answers as they are taken, in the order of the closure."""

    def __init__(self, plan: ResidualPlan) -> None:
        self._plan = plan
        self._answers = Measurements(plan.strategy)
        self._next = 0

    def add(self, answer: Measurement) -> None:
        """Keep the next answer."""
        self._answers[self._next] = answer.raw
        self._next += 1

    def release(self, schema: Schema, statement: Statement, *, complete: bool) -> ResidualRelease:
        """The release of what was taken."""
        return ResidualRelease(
            answers=self._answers,
            schema=schema,
            workload=self._plan.workload,
            statement=statement,
            complete=complete,
        )


class ResidualRelease(Release):
    """Noisy residual tables; unbiased estimates of every marginal of the closure, mutually consistent."""

    mechanism = NAME

    def __init__(self, *, answers: Measurements[ResidualStrategy], **common: Any) -> None:
        super().__init__(**common)
        self.answers = answers

    @cached_property
    def estimates(self) -> ResidualEstimates:
        """Counts and covariances by reconstruction."""
        return ResidualEstimates(self.answers)

    def measurements(self) -> list[Measurement]:
        """Every residual that was measured, with its own noise."""
        return list(self.answers)

    def combination(self, parts: Sequence[tuple[Iterable[str], Any]], *, level: float = 0.95) -> Answers:
        """A linear combination of cells of several tables, with its exact standard error.

        Each part is a clique and coefficients of the shape of its table; the value is the sum over all of them of
        coefficient times count, whose noise is correlated across tables in a way that is known exactly.
        """
        named = [(self._covered(clique), coefficients) for clique, coefficients in parts]
        if not named:
            raise WorkloadError("a combination of no tables; give at least one clique with its coefficients")
        variance = variance_of(self.answers.strategy, named)
        estimate = Reconstruction(self.answers).estimate_of(named)
        value = Quantity("value", np.array([estimate]), np.array([math.sqrt(variance)]))
        return Answers(groups=(), quantities=(value,), level=level, notes=self._notes())

    def contradiction(self) -> str | None:
        """What the release shows that it does not hold."""
        if self.complete and not self.answers.filled.all():
            return "it says it is complete, and lacks tables"
        return _contradiction(self.answers.strategy, self.workload, self.statement.neighbours)

    def _pack(self) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
        entry, arrays = pack_strategy(self.answers.strategy)
        return entry, arrays | {"noisy": narrow(self.answers.flat), "filled": self.answers.filled}

    @classmethod
    def unpack(cls, archive: ArchiveReader, **common: Any) -> ResidualRelease:
        """The release that `save` wrote."""
        entry = archive.manifest.get("measured")
        strategy = unpack_strategy(common["workload"].domain, entry, archive)
        answers = Measurements(strategy)
        for name, own in (("noisy", answers.flat), ("filled", answers.filled)):
            stored = archive.array(name)
            if stored.dtype.kind != own.dtype.kind or stored.shape != own.shape:
                raise ArchiveError("the file's noisy tables do not fit its strategy; get the release again")
            own[:] = stored
        return cls(answers=answers, **common)


def _contradiction(strategy: ResidualStrategy, workload: Workload, neighbours: Neighbours) -> str | None:
    """Where a strategy measures other sets, or for other neighbours, than are shown."""
    if TermTable.of(workload).closure() != strategy.closure:
        return "it measures other tables than its workload asks for"
    if strategy.neighbours is not neighbours:
        return "its noise is for other neighbours than it states"
    numbers = np.concatenate([strategy.sigma_squared, workload.weights])
    if not ((numbers > 1 / EXTREME) & (numbers < EXTREME)).all():
        return f"its noise or its weights are beyond {EXTREME:g}"
    return None


def _loss_name(loss: str | Loss) -> str:
    return loss if isinstance(loss, str) else type(loss).__name__
