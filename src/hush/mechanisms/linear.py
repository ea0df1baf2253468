"""Which noise goes with which budget.

Plans and releases of linear strategies, whichever operator selected them: matrix, hdmm and direct share all this.

LinearMechanism: what matrix, hdmm and direct share: choose the noise, select a strategy, make the plan.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np

from hush.archive import ArchiveReader
from hush.arrays import Floats
from hush.codec import narrow
from hush.domain import Clique, Domain
from hush.errors import ArchiveError, BudgetError, SizeError, WorkloadError, shown
from hush.inference.best_unbiased import combine_marginals
from hush.inference.estimates import Estimates
from hush.inference.linear_estimates import GlobalEstimates, LinearMeasurements, LocalEstimates
from hush.inference.nonnegative_cells import METHODS as CELL_METHODS
from hush.inference.nonnegative_cells import block_answers, measured_clique, nonnegative_cells
from hush.inference.residual_estimates import ResidualEstimates
from hush.mechanisms.plan import Collector, FixedPlan, rmse_bound, rows_per_unit
from hush.memory import available_memory, readable
from hush.privacy.budget import Budget
from hush.privacy.gate import Request
from hush.privacy.measurement import Measurement, Measurements
from hush.privacy.sensitivity import Neighbours
from hush.release.nonnegative_answers import NonnegativeAnswers, nonnegative_answers
from hush.release.release import Release
from hush.release.statement import Statement
from hush.schema import Schema
from hush.strategies.linear_strategy import LinearErrors, LinearStrategy
from hush.strategies.noise_kind import NoiseKind
from hush.strategies.product_strategy import FloatStrategy, Recovery
from hush.strategies.strategy_files import pack_linear, unpack_linear
from hush.workloads import ProductTerm, Workload
from hush.workloads.term import EXTREME

NOISES = ("auto", *NoiseKind)


def choose_noise(noise: str, budget: Budget) -> tuple[NoiseKind, Budget]:
    """The kind of noise, and the budget as that noise is accounted: zCDP for Gaussian, pure epsilon for Laplace.

    "auto" takes Laplace noise for pure epsilon and Gaussian noise otherwise. Laplace noise asked for under
    (epsilon, delta) is planned as pure epsilon, which is the stronger promise.
    """
    if noise not in NOISES:
        raise BudgetError(f"noise={noise!r}: expected one of {', '.join(NOISES)}")
    kind = NoiseKind(noise) if noise != "auto" else (NoiseKind.LAPLACE if budget.pure else NoiseKind.GAUSSIAN)
    if kind is NoiseKind.LAPLACE:
        if budget.epsilon is None:
            raise BudgetError(
                f"Laplace noise is accounted in pure epsilon, and the budget states {budget}; "
                "state Budget(epsilon=...), or use Gaussian noise"
            )
        return kind, Budget(epsilon=budget.epsilon)
    budget.rho  # noqa: B018 - refuses pure epsilon, with the remedy
    return kind, budget


def per_row(kind: NoiseKind, budget: Budget, max_rows_per_unit: int) -> Fraction:
    """What may be spent as if a unit were one row: rho / m^2, or epsilon / m, for units of m rows."""
    m = rows_per_unit(max_rows_per_unit)
    if kind is NoiseKind.LAPLACE:
        return Fraction(budget.epsilon or 0.0) / m
    return Fraction(budget.rho) / m**2


METHODS = {
    "kron": "one product of strategies",
    "plus": "a union of products",
    "marginals": "weighted marginals",
    "bases": "marginals of designed strategies",
}


def recovered(strategy: FloatStrategy, least_squares: str) -> FloatStrategy:
    """The strategy with least squares over each product by itself ("local"), or over all together ("global")."""
    if least_squares not in ("local", "global"):
        raise WorkloadError(f"least_squares={least_squares!r}: expected local or global")
    several = strategy.recovery is Recovery.LOCAL and len(strategy.products) > 1
    return replace(strategy, recovery=Recovery.GLOBAL) if several and least_squares == "global" else strategy


class LinearPlan(FixedPlan):
    """A linear strategy for a workload, with the error of every answer known."""

    strategy: LinearStrategy
    release_class: ClassVar[type[LinearRelease]]

    def __init__(self, **common: Any) -> None:
        super().__init__(**common)
        for place, term in enumerate(self.workload.products):
            if not self.strategy.supports(term):
                raise WorkloadError(
                    f"the strategy does not support term {place} of the workload: rounded to integers it measures "
                    "other queries; use mechanism='hdmm', or queries of whole numbers"
                )

    @cached_property
    def errors(self) -> LinearErrors:
        """The errors of every term."""
        return self.strategy.errors(self.workload)

    @property
    def rmse(self) -> float:
        """Root mean squared error over all queries of the workload, each counted as often as its weight."""
        return self.errors.rmse

    @property
    def max_variance(self) -> float | None:
        """The largest variance of a query of the workload, weights left aside; None for queries without rows."""
        return self.errors.largest if all(term.listed for term in self.workload) else None

    @property
    def term_variances(self) -> Floats:
        """The mean variance over the queries of each term of the workload."""
        return self.errors.means

    def variance(self, clique: Iterable[str]) -> float:
        """The mean variance over the cells of a marginal."""
        return self.strategy.variance(self.domain.clique(clique))

    def query_variances(self, which: int = 0) -> Floats:
        """The variance of every query of a term of the workload, one axis per attribute of the term."""
        return self.strategy.term_variances(self._listed(which))

    def with_budget(self, budget: Budget) -> Self:
        """The same strategy with the noise of another budget."""
        kind, spent = choose_noise(self.strategy.noise.value, budget)
        return type(self)(
            strategy=self.strategy.costing(per_row(kind, spent, self.max_rows_per_unit)),
            workload=self.workload,
            budget=spent,
            neighbours=self.neighbours,
            max_rows_per_unit=self.max_rows_per_unit,
            loss=self.loss,
        )

    @property
    def epsilon(self) -> Fraction | None:
        """The pure epsilon that releasing costs at most, under Laplace noise."""
        return self.strategy.cost * self.max_rows_per_unit if self.strategy.noise is NoiseKind.LAPLACE else None

    @property
    def rho(self) -> Fraction:
        """The zCDP that releasing costs at most: epsilon^2 / 2 under Laplace noise."""
        if self.epsilon is not None:
            return self.epsilon**2 / 2
        return self.strategy.cost * self.max_rows_per_unit**2

    @cached_property
    def lower_bound(self) -> tuple[float, str] | None:
        """An RMSE that no strategy can beat with this noise and budget, and which bound it is."""
        return rmse_bound(self.workload, self.strategy.noise, self.strategy.cost, self.neighbours)

    @property
    def optimality(self) -> str:
        """What is claimed of the error."""
        method = METHODS.get(self.strategy.method, self.strategy.method)
        found = f"{self.strategy.noise.value.capitalize()} noise, {method}"
        if not self.strategy.exact:
            found += ", its errors at most these under least squares over all of them"
        if self.lower_bound is None:
            return f"{found}; no lower bound is known"
        bound, name = self.lower_bound
        return f"{found}: {self.rmse / bound:.3f} times the lower bound, RMSE {bound:.3g} ({name})"

    @property
    def memory(self) -> int:
        """Bytes that releasing takes at its peak, roughly: all answers, and the largest product three times over."""
        largest = max(
            max(math.prod(product.query.shape), self.domain.size(product.clique)) for product in self.strategy.products
        )
        return 8 * self.strategy.numbers + 24 * largest

    @property
    def work(self) -> str:
        """Memory and time that releasing will take, roughly."""
        numbers, products = self.strategy.numbers, len(self.strategy.products)
        seconds = 2e-7 * numbers + 1e-4 * products
        tables = "noisy table" if products == 1 else "noisy tables"
        return (
            f"{products:,} {tables}, {numbers:,} numbers; "
            f"about {readable(self.memory)} and {max(seconds, 0.1):,.1f} s beside counting"
        )

    def requests(self) -> list[Request]:
        """One noisy answer per product."""
        return self.strategy.requests()

    def contradiction(self) -> str | None:
        """What the plan shows that it would not do."""
        return _contradiction(self.strategy, self.workload, self.neighbours.name)

    def _pack(self) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
        return pack_linear(self.strategy)

    @classmethod
    def _unpack(cls, domain: Domain, entry: Any, archive: ArchiveReader) -> LinearStrategy:
        return unpack_linear(domain, entry, archive)

    def _collector(self) -> Collector:
        needed, free = self.memory, available_memory()
        if needed > 0.9 * free:
            raise SizeError(
                f"releasing needs about {readable(needed)}, more than the {readable(0.9 * free)} that can be had; "
                "drop an attribute, use wider bins or ask for fewer attributes at once"
            )
        return _Collected(self)


class _Collected:
    """Answers of products as they are taken, in the order of the strategy."""

    def __init__(self, plan: LinearPlan) -> None:
        self._plan = plan
        self._answers = Measurements(plan.strategy)
        self._next = 0

    def add(self, answer: Measurement) -> None:
        """Keep the next answer."""
        self._answers[self._next] = answer.raw
        self._next += 1

    def release(self, schema: Schema, statement: Statement, *, complete: bool) -> LinearRelease:
        """The release of what was taken."""
        return self._plan.release_class(
            answers=self._answers,
            schema=schema,
            workload=self._plan.workload,
            statement=statement,
            complete=complete,
        )


class LinearRelease(Release):
    """Noisy answers to a strategy; unbiased estimates of everything it supports."""

    def __init__(self, *, answers: LinearMeasurements, **common: Any) -> None:
        super().__init__(**common)
        self.answers = answers

    @cached_property
    def estimates(self) -> Estimates:
        """Counts and covariances by the recovery of the strategy."""
        if self.answers.strategy.recovery is Recovery.MARGINALS:
            return ResidualEstimates(combine_marginals(self.answers))
        if self.answers.strategy.recovery is Recovery.GLOBAL:
            return GlobalEstimates(self.answers)
        return LocalEstimates(self.answers)

    @property
    def laplace(self) -> bool:
        """Whether its noise has Laplace tails."""
        return self.answers.strategy.noise is NoiseKind.LAPLACE

    @cached_property
    def grain(self) -> float:
        """Half a step of the coarsest noise, which is one, over its standard deviation."""
        least = min(product.law.stddev for product in self.answers.strategy.products)
        return 0.5 / least if least > 0 else 0.0

    def measurements(self) -> list[Measurement]:
        """Every product that was measured, with its own noise."""
        return list(self.answers)

    @property
    def measured(self) -> Clique:
        """The attributes that were measured, in domain order: the axes of `nonnegative_cells`."""
        return measured_clique(self.answers)

    def nonnegative_cells(self, method: str = "hybrid") -> Floats:
        """Non-negative counts over all `measured` attributes that fit the release best. **Biased.**

        "hybrid" fits the least squares answers to the workload, and the weighted squared error of its answers is never
        above theirs; "nnls" fits the noisy answers themselves. Of counts that the answers do not determine one of many
        choices is given.

        Reference: [Li 2013, sec. 3.5.3].
        """
        if method not in self._nonnegative:
            found = nonnegative_cells(self.answers, self.estimates, self.workload, method=method).checked()
            found.setflags(write=False)
            self._nonnegative[method] = found
        return self._nonnegative[method]

    def nonnegative_term(
        self, which: int | ProductTerm = 0, *, method: str = "hybrid", level: float = 0.95
    ) -> NonnegativeAnswers:
        """The answers to a term without negative counts. **Biased**; `term` gives the unbiased ones.

        "hybrid" and "nnls" answer from `nonnegative_cells`, so that answers agree; "clip" raises each negative answer
        to zero by itself. Intervals are those of the unbiased answers, cut at zero; see `NonnegativeAnswers`.
        """
        if method not in (*CELL_METHODS, "clip"):
            raise WorkloadError(f"method={shown(method)}: expected one of {', '.join(CELL_METHODS)}, clip")
        unbiased, term = self.term(which, level=level), self._term(which)
        values = None if method == "clip" else block_answers(self.measured, self.nonnegative_cells(method), term)
        return nonnegative_answers(unbiased, term, values)

    @cached_property
    def _nonnegative(self) -> dict[str, Floats]:
        """Cells by method, as they are asked for."""
        return {}

    def contradiction(self) -> str | None:
        """What the release shows that it does not hold."""
        if self.complete and not self.answers.filled.all():
            return "it says it is complete, and lacks tables"
        return _contradiction(self.answers.strategy, self.workload, self.statement.neighbours.name)

    @property
    def consistent(self) -> bool:
        """Whether its tables agree: not where different products answer different tables."""
        return self.answers.strategy.recovery is not Recovery.LOCAL or len(self.answers.strategy.products) == 1

    def _notes(self) -> tuple[str, ...]:
        if self.consistent:
            return super()._notes()
        return (*super()._notes(), "tables measured apart may disagree, within their errors.")

    def _pack(self) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
        entry, arrays = pack_linear(self.answers.strategy)
        for index in np.flatnonzero(self.answers.filled).tolist():
            arrays[f"noisy_{index}"] = narrow(self.answers[index])
        return {"strategy": entry, "filled": self.answers.filled.tolist()}, arrays

    @classmethod
    def unpack(cls, archive: ArchiveReader, **common: Any) -> LinearRelease:
        """The release that `save` wrote."""
        entry: dict[str, Any] = archive.field("measured", dict)
        strategy = unpack_linear(common["workload"].domain, entry["strategy"], archive)
        answers = Measurements(strategy)
        filled = entry["filled"]
        if len(filled) != len(strategy.products) or not all(isinstance(own, bool) for own in filled):
            raise ArchiveError("the file's noisy tables do not fit its strategy; get the release again")
        for index in np.flatnonzero(filled).tolist():
            values = archive.array(f"noisy_{index}")
            if values.dtype.kind != "i" or values.shape != strategy.products[index].query.shape:
                raise ArchiveError("the file's noisy tables do not fit its strategy; get the release again")
            answers[index] = values
        return cls(answers=answers, **common)


def _contradiction(strategy: LinearStrategy, workload: Workload, neighbours: str) -> str | None:
    """Where a strategy does not support the workload shown, or is for other neighbours."""
    if strategy.neighbours.name != neighbours:
        return "its noise is for other neighbours than it states"
    for term in workload.products:
        if not strategy.supports(term):
            return "it measures other tables than its workload asks for"
    numbers = np.array([*workload.weights, *(product.variance for product in strategy.products)])
    if not ((numbers > 1 / EXTREME) & (numbers < EXTREME)).all():
        return f"its noise or its weights are beyond {EXTREME:g}"
    return None


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
