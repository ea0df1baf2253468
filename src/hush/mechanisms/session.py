"""Session: one run of a mechanism, which asks the table only through the gate and within one account."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np

from hush.core.arrays import Booleans, Floats
from hush.core.constraints import Constraint
from hush.core.domain import Clique, Domain
from hush.core.errors import WorkloadError
from hush.core.solution import Solution
from hush.inference.measured_sums import MeasuredSums
from hush.mechanisms.mechanism import MEASURED_BYTES, SCORED_BYTES
from hush.models.distribution import Distribution
from hush.models.graphical.graphical_fit import fit_model
from hush.models.graphical.graphical_model import GraphicalModel
from hush.models.graphical.model_size import BYTES_PER_MEASURED_CELL
from hush.models.relaxed.relaxed_fit import fit_relaxed
from hush.models.relaxed.relaxed_rows import RelaxedRows
from hush.privacy.account import Allowance
from hush.privacy.gate import (
    DeclaredStatistic,
    Gate,
    LinearQuery,
    MarginalQuery,
    Query,
    Request,
    Scorer,
    SelectionLaw,
)
from hush.privacy.measurement import Measurement
from hush.privacy.noise import SMALLEST_SCALE, DiscreteGaussian, DiscreteLaplace
from hush.privacy.selection import ExponentialMechanism, Scores
from hush.privacy.sensitivity import ONE_CELL, Sensitivity, sensitivity
from hush.release.noisy_tables_record import NoisyTablesRecord
from hush.release.record import ONE_RECORD, Record
from hush.release.rounds import LEAST_STDDEV, Round, Scored
from hush.release.strategy_record import strategy_record
from hush.strategies.rare_levels import MergedQuery, Merging, merge_rare
from hush.strategies.strategy import Strategy
from hush.strategies.sum_strategy import SumStrategy
from hush.workloads.threshold_term import TargetQuery

Watch = Callable[[Round | None, float], None]
Choice = TypeVar("Choice")
ROOM_BYTES = MEASURED_BYTES + BYTES_PER_MEASURED_CELL


class Session:
    """What a mechanism may do in one run: ask what is left, measure, choose among candidates, fit a model.

    The `record`, which the mechanism started, takes what is measured and chosen; the release holds it when the run ends
    or is interrupted. Costs are shares of zCDP; the account alone counts what was spent.

    Privacy: the account is a filter: all requests together, however they were chosen, stay within its budget.
    """

    def __init__(
        self,
        gate: Gate,
        account: Allowance,
        *,
        domain: Domain,
        max_rows: int,
        constraints: Sequence[Constraint] = (),
        record: Record | None = None,
        private: bool = True,
        watch: Watch | None = None,
        sums: SumStrategy | None = None,
        memory: float = math.inf,
    ) -> None:
        self._gate = gate
        self._account = account
        self._watch = watch
        self._max_rows = max_rows
        self._memory = memory
        self.domain = domain
        self.constraints = tuple(constraints)
        self.record = NoisyTablesRecord(domain) if record is None else record
        self._private_before = private  # whether the noise of a resumed run was private throughout
        if self.record.sums is None and sums is not None:
            self.record.sums = MeasuredSums(sums)
        self.merging: Merging | None = None  # of levels, in all tables from here on
        self._coarse: Gate | None = None
        self.scored: Scored | None = None
        self.model: Solution[Distribution] | None = None
        self.bound: Sensitivity = sensitivity(ONE_CELL, max_rows=max_rows, neighbours=gate.neighbours)

    @property
    def noisy_tables(self) -> list[Measurement]:
        """All noisy tables so far, those of a resumed run first."""
        return self.record.noisy_tables

    @property
    def rounds(self) -> list[Round]:
        """All rounds so far, those of a resumed run first."""
        return self.record.rounds

    @property
    def sums(self) -> MeasuredSums | None:
        """The sums of values that are measured beside the counts."""
        return self.record.sums

    @property
    def limit(self) -> Fraction:
        """What the run may spend on counts, in epsilon or zCDP; sums of values have a share of their own."""
        rows = self._max_rows if self._account.budget.pure else self._max_rows**2
        return self._account.budget.limit - (0 if self.sums is None else self.sums.strategy.cost * rows)

    @property
    def remaining(self) -> Fraction:
        """The zCDP that is left."""
        return self._account.remaining

    @property
    def spent(self) -> float:
        """The share of the budget that is spent."""
        return float(1 - self.remaining / self.limit)

    @property
    def private(self) -> bool:
        """Whether all noise so far is private, that of a resumed run included."""
        return self._private_before and self._gate.private

    @property
    def measurements(self) -> list[Measurement]:
        """All noisy tables so far, as evidence for a model."""
        return [table.floored(LEAST_STDDEV) for table in self.noisy_tables]

    @property
    def cliques(self) -> list[Clique]:
        """The cliques of a model of everything measured, those of constraints included."""
        return [*(table.clique for table in self.noisy_tables), *(rule.clique for rule in self.constraints)]

    @property
    def room(self) -> float:
        """How many more numbers may be measured in tables so that all fit into memory, with the fit of a model.

        Half of the memory beyond what the mechanism needs is for them; public.
        """
        return self._memory / 2 / ROOM_BYTES - sum(table.numbers for table in self.noisy_tables)

    @property
    def scorable(self) -> float:
        """How many cells a choice may score where its candidates depend on noisy numbers: a quarter; public."""
        return min(self._memory / 4 / SCORED_BYTES, self._gate.countable_cells)

    def affordable(self, cliques: Sequence[Clique]) -> Booleans:
        """Which of some tables there is memory to measure; the smallest, if there is for none."""
        cells = np.array([float(self.cells(clique)) for clique in cliques])
        return np.asarray(cells <= max(self.room, float(cells.min(initial=np.inf))))

    def law(self, rho: Fraction, query: LinearQuery | None = None) -> DiscreteGaussian:
        """The noise of a table or a query at a cost; never below the smallest scale."""
        bound = self.bound
        if query is not None:
            bound = sensitivity(query.row_norms, max_rows=self._max_rows, neighbours=self._gate.neighbours)
        return DiscreteGaussian.for_rho(min(rho, bound.l2_squared / (2 * SMALLEST_SCALE**2)), bound)

    def measure(
        self, asked: Sequence[Clique | LinearQuery], rho: Fraction | Sequence[Fraction], *, note: str
    ) -> list[Measurement]:
        """Noisy tables over cliques, or noisy answers to linear queries, each at the cost `rho` or at its own.

        All are charged together, before the first is read.
        """
        shares = [rho] * len(asked) if isinstance(rho, Fraction) else rho
        queries = [self._query(wanted) if isinstance(wanted, tuple) else wanted for wanted in asked]
        self.record.check_storable(queries)
        requests = [Request(query, self.law(share, query)) for query, share in zip(queries, shares, strict=True)]
        before = len(self.noisy_tables)
        for table in self._gate.measure(requests, note=note):  # an interruption keeps the tables so far
            self.noisy_tables.append(table)
        self.tell(None)
        return self.noisy_tables[before:]

    def ask(self, asked: Sequence[tuple[Query | DeclaredStatistic, Fraction]], *, note: str) -> Iterator[Measurement]:
        """Noisy answers to queries, one after another, each at its share of what the run may spend on counts.

        Laplace noise under a pure budget, Gaussian noise under any other; never below the smallest scale. All are
        charged together, before the first.
        """
        requests = []
        for query, share in asked:
            bound, pure = self._gate.bound(query), self._account.budget.pure
            most = bound.l1 / SMALLEST_SCALE if pure else bound.l2_squared / (2 * SMALLEST_SCALE**2)
            law = DiscreteLaplace.for_epsilon if pure else DiscreteGaussian.for_rho
            requests.append(Request(query, law(min(share * self.limit, self.remaining, most), bound)))
        return self._gate.measure(requests, note=note)

    def measure_strategy(self, strategy: Strategy, *, note: str) -> None:
        """Noisy answers to every request of a strategy; all are charged together, before the first is read."""
        if self.record.charged_at_once or self.record.tables:
            raise WorkloadError(ONE_RECORD)
        requests, record = strategy.requests(), strategy_record(strategy)
        record.sums = self.sums
        self.record = record
        summed = [] if self.sums is None else self.sums.strategy.requests()
        step = max(1, len(requests) // 100)
        for number, answer in enumerate(self._gate.measure([*summed, *requests], note=note)):
            index = number - len(summed)
            if index < 0:
                self._keep_sum(number, answer)
                continue
            record.answers[index] = answer.raw
            if index % step == 0:
                self.tell(None, index / len(requests))
        self.tell(None, 1.0)

    def measure_sums(self) -> None:
        """Noisy sums of values, unless they were measured before; charged together, before the first is read."""
        if self.sums is None or any(table is not None for table in self.sums.tables):
            return
        requests = self.sums.strategy.requests()
        for index, answer in enumerate(self._gate.measure(requests, note=f"{len(requests)} sums of values")):
            self._keep_sum(index, answer)
        self.tell(None, 0.0)

    def _keep_sum(self, index: int, answer: Measurement) -> None:
        assert self.sums is not None  # noqa: S101
        self.sums.tables[index] = answer.raw

    def recorded(self, *, complete: bool) -> Record:
        """Everything measured so far, as a release holds it; with the last model and scores if the run is complete."""
        self.record.fitted = self.model if complete else None
        self.record.scored = self.scored if complete else None
        return self.record

    def merge_rare(self, most: int | None = None) -> None:
        """Count rare levels together from here on, by the first noisy table of every column; see `merge_rare`."""
        first: dict[Clique, Measurement] = {}
        for table in self.noisy_tables:
            if len(table.clique) == 1 and not isinstance(table.asked, MergedQuery):
                first.setdefault(table.clique, table)
        columns = ((clique[0], table.values, table.stddev) for clique, table in first.items())
        self.merging = merge_rare(columns, most)

    @property
    def coarse(self) -> Gate:
        """The gate that counts merged levels as one; tables over many wide columns are never made."""
        if self._coarse is None:
            self._coarse = self._gate if self.merging is None else self._gate.coarse(self.merging.codes)
        return self._coarse

    def measure_coarse(
        self, asked: Sequence[Clique | TargetQuery], rho: Fraction | Sequence[Fraction], *, note: str
    ) -> list[Measurement]:
        """As `measure`, for tables of merged levels and for single answers, counted over merged levels.

        A target names levels of the domain that are merged with no other.
        """
        shares = [rho] * len(asked) if isinstance(rho, Fraction) else rho
        queries = [self._query(wanted) if isinstance(wanted, tuple) else wanted for wanted in asked]
        self.record.check_storable(queries)
        coarse = [
            MarginalQuery(wanted) if isinstance(wanted, tuple) else self.merged_target(wanted) for wanted in asked
        ]
        requests = [Request(query, self.law(share, query)) for query, share in zip(coarse, shares, strict=True)]
        before = len(self.noisy_tables)
        answers = self.coarse.measure(requests, note=note)
        for query, answer in zip(queries, answers, strict=True):
            self.noisy_tables.append(Measurement.of(query, answer.raw, answer.law))
        self.tell(None)
        return self.noisy_tables[before:]

    def merged_target(self, query: TargetQuery) -> TargetQuery:
        """A single answer as it is counted: over merged levels, if there are any."""
        if self.merging is None:
            return query
        codes = self.merging.codes
        target = tuple(
            int(codes[name][code]) if name in codes else code
            for name, code in zip(query.clique, query.target, strict=True)
        )
        return TargetQuery(query.clique, self.merging.sizes(query.clique, query.sizes), target, query.at_least)

    def merged(self, tables: Mapping[Clique, Floats]) -> dict[Clique, Floats]:
        """Tables of a model as they would be measured: with merged levels, if there are any."""
        if self.merging is None:
            return dict(tables)
        return {clique: self.merging.table(clique, table) for clique, table in tables.items()}

    def cells(self, clique: Clique) -> int:
        """The number of cells of a table over a clique, as it would be measured."""
        sizes = self.domain.sizes(clique)
        return math.prod(sizes if self.merging is None else self.merging.sizes(clique, sizes))

    def _query(self, clique: Clique) -> LinearQuery:
        if self.merging is None or not self.merging.touches(clique):
            return MarginalQuery(clique)
        return MergedQuery(clique, self.domain.sizes(clique), self.merging)

    def select(self, scorer: Scorer[Scores], rho: Fraction, *, note: str) -> tuple[int, ExponentialMechanism]:
        """A private choice among the candidates of a scorer, at a cost, and the law that it was drawn from."""
        law = ExponentialMechanism.for_rho(rho)
        return self.choose(scorer, law, note=note), law

    def choose(self, scorer: Scorer[Any], law: SelectionLaw[Any, Choice], *, note: str) -> Choice:
        """A private choice among the candidates of a scorer, by a law that is charged and drawn from."""
        return self._gate.select(scorer, law, note=note)

    def ended(self, played: Round) -> None:
        """Put a round on record and tell the watcher."""
        self.rounds.append(played)
        self.tell(played)

    def tell(self, played: Round | None, share: float | None = None) -> None:
        """Tell the watcher which share of the work, by default of the budget, is done; public facts only."""
        if self._watch is not None:
            self._watch(played, self.spent if share is None else share)

    def fit(self, *, start: GraphicalModel | None = None, **options: Any) -> Solution[GraphicalModel]:
        """The model of all noisy tables so far, within the constraints; post-processing."""
        fitted = fit_model(self.domain, self.measurements, constraints=self.constraints, start=start, **options)
        self.model = fitted
        return fitted

    def fit_rows(self, *, start: RelaxedRows | None = None, **options: Any) -> Solution[RelaxedRows]:
        """Relaxed rows for all noisy tables so far; post-processing."""
        fitted = fit_relaxed(self.domain, self.measurements, constraints=self.constraints, start=start, **options)
        self.model = fitted
        return fitted

    def restrained_fit(self, restraint: float, **options: Any) -> Solution[GraphicalModel]:
        """The model of all noisy tables, stopped before it follows their noise; post-processing.

        The true tables have an expected loss of m / 2 for m noisy numbers; the least loss L is smaller because it fits
        noise. The descent from independent columns ends at L + restraint (m / 2 - L).

        Reference: after the discrepancy principle of [Morozov 1966], which ends at m / 2, too early here.
        """
        best = self.fit(**options)
        least = best.stats["value"]
        enough = least + restraint * (0.5 * sum(table.numbers for table in self.measurements) - least)
        if enough <= least:
            return best
        stopped = self.fit(callback=lambda _, value, __: value <= enough, **options)
        restrained = replace(stopped, status=best.status, stats={**stopped.stats, "least": least})
        self.model = restrained
        return restrained
