"""Session: one run of a mechanism, which asks the table only through the gate and within one account."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np

from hush.core.arrays import Booleans
from hush.core.constraints import Constraint
from hush.core.domain import Clique, Domain
from hush.core.solution import Solution
from hush.inference.measured_sums import MeasuredSums
from hush.mechanisms.mechanism import MEASURED_BYTES, SCORED_BYTES
from hush.models.distribution import Distribution
from hush.models.graphical.graphical_fit import fit_model
from hush.models.graphical.graphical_model import GraphicalModel
from hush.models.graphical.model_size import BYTES_PER_MEASURED_CELL
from hush.privacy.account import Allowance
from hush.privacy.gate import DeclaredStatistic, Gate, LinearQuery, MarginalQuery, Query, Request, Scorer
from hush.privacy.measurement import Measurement
from hush.privacy.noise import Noise, law_costing
from hush.privacy.selection import ExponentialMechanism, Scores
from hush.privacy.sensitivity import ONE_CELL, RowNorms, Sensitivity, sensitivity
from hush.release.noisy_tables_record import NoisyTablesRecord
from hush.release.record import Record, Round, Scored
from hush.strategies.sum_strategy import SumStrategy

Watch = Callable[[Round | None, float], None]
Model = TypeVar("Model", bound=Distribution)
MEASURED_AND_FITTED_BYTES = MEASURED_BYTES + BYTES_PER_MEASURED_CELL  # of one noisy number


@dataclass(frozen=True)
class MemoryRoom:
    """How much more a run may measure and score within its memory; public numbers.

    `free` are the bytes beyond what the mechanism itself needs.
    """

    free: float
    gate: Gate
    record: Record

    @property
    def numbers(self) -> float:
        """How many more numbers may be measured in tables and fitted by a model: half of the memory."""
        return self.free / 2 / MEASURED_AND_FITTED_BYTES - sum(table.numbers for table in self.record.noisy_tables)

    @property
    def scorable_cells(self) -> float:
        """How many cells a choice may score if its candidates depend on noisy numbers: a quarter of the memory."""
        return min(self.free / 4 / SCORED_BYTES, self.gate.countable_cells)

    def affordable(self, cells: Iterable[float]) -> Booleans:
        """Which tables, given by their numbers of cells, fit into memory; the smallest if none does."""
        sizes = np.array(list(map(float, cells)))
        return np.asarray(sizes <= max(self.numbers, float(sizes.min(initial=np.inf))))


class Session:
    """What a mechanism may do in one run: ask what is left, measure, choose among candidates, fit a model.

    The `record`, which the mechanism started, takes what is measured and chosen; the release holds it when the run ends
    or is interrupted. The record of a resumed run begins with what its first part measured. Costs are in the unit of
    the budget (`Budget.unit`): rho of zCDP, or mu^2/2 of Gaussian DP, which is the same for wide Gaussian noise. The
    account alone counts what was spent. `evidence` are noisy tables of the same rows that were paid for before the run,
    which a mechanism may fit beside its own; they are not part of the release.

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
        watch: Watch | None = None,
        sums: SumStrategy | None = None,
        memory: float = math.inf,
        evidence: Sequence[Measurement] = (),
    ) -> None:
        self.gate = gate
        self._account = account
        self._watch = watch
        self._max_rows = max_rows
        self.domain = domain
        self.constraints = tuple(constraints)
        self.evidence = tuple(evidence)
        self.record = NoisyTablesRecord(domain) if record is None else record
        if self.record.sums is None and sums is not None:
            self.record.sums = MeasuredSums(sums)
        self.scored: Scored | None = None
        self.model: Solution[Distribution] | None = None  # the last one that was fitted
        self.memory = MemoryRoom(memory, gate, self.record)
        self.bound: Sensitivity = sensitivity(ONE_CELL, max_rows=max_rows, neighbours=gate.neighbours)

    @property
    def noisy_tables(self) -> list[Measurement]:
        """All noisy tables so far, those of a resumed run first."""
        return self.record.noisy_tables

    @property
    def limit(self) -> Fraction:
        """What the run may spend on counts, in the unit of the budget; sums of values have a share of their own."""
        rows, sums = self._max_rows if self._account.budget.pure else self._max_rows**2, self.record.sums
        return self._account.budget.limit - (0 if sums is None else sums.strategy.cost * rows)

    @property
    def remaining(self) -> Fraction:
        """What is left, in the unit of the budget."""
        return self._account.remaining

    @property
    def cliques(self) -> list[Clique]:
        """The cliques of a model of everything measured, those of constraints included."""
        return [*(table.clique for table in self.noisy_tables), *(rule.clique for rule in self.constraints)]

    def law(self, rho: Fraction, asked: LinearQuery | RowNorms | None = None) -> Noise:
        """The noise of a table, a query or what a row adds to one, at a cost; never below the smallest scale."""
        bound = self.bound
        if asked is not None:
            norms = asked if isinstance(asked, RowNorms) else asked.row_norms
            bound = sensitivity(norms, max_rows=self._max_rows, neighbours=self.gate.neighbours)
        return law_costing(rho, self._account.budget, bound)

    def measure(
        self,
        asked: Sequence[Clique | LinearQuery],
        rho: Fraction | Sequence[Fraction],
        *,
        note: str,
        counted: tuple[Gate, Sequence[LinearQuery]] | None = None,
    ) -> list[Measurement]:
        """Noisy tables over cliques, or noisy answers to linear queries, each at the cost `rho` or at its own.

        All are charged together, before the first is read. `counted` is another gate of this run, with the queries as
        that gate counts them; the answers are recorded as answers to `asked`. See `RunLevels`.
        """
        shares = [rho] * len(asked) if isinstance(rho, Fraction) else rho
        queries = [MarginalQuery(query) if isinstance(query, tuple) else query for query in asked]
        gate, gate_queries = counted or (self.gate, queries)
        self.record.check_storable(queries)
        requests = [Request(query, self.law(share, query)) for query, share in zip(gate_queries, shares, strict=True)]
        before = len(self.noisy_tables)
        for query, answer in zip(queries, gate.measure(requests, note=note), strict=True):
            # one by one, so that an interruption keeps the tables so far
            self.noisy_tables.append(answer if counted is None else Measurement.of(query, answer.raw, answer.law))
        self.tell(None)
        return self.noisy_tables[before:]

    def ask(self, asked: Sequence[tuple[Query | DeclaredStatistic, Fraction]], *, note: str) -> Iterator[Measurement]:
        """Noisy answers to queries, one after another, each at its share of what the run may spend on counts.

        Laplace noise under a pure budget, Gaussian noise under any other; never below the smallest scale. All are
        charged together, before the first.
        """
        requests = []
        for query, share in asked:
            cost = min(share * self.limit, self.remaining)
            requests.append(Request(query, law_costing(cost, self._account.budget, self.gate.bound(query))))
        return self.gate.measure(requests, note=note)

    def choice_rho(self, cost: Fraction, count: int = 1) -> Fraction:
        """The rho of zCDP of each of `count` choices that together cost at most `cost`; see `Allowance.choice_rho`."""
        return self._account.choice_rho(cost, count)

    def select(self, scorer: Scorer[Scores], rho: Fraction, *, note: str) -> tuple[int, ExponentialMechanism]:
        """A private choice among the candidates of a scorer, at a cost, and the law that it was drawn from."""
        law = ExponentialMechanism.for_rho(self.choice_rho(rho))
        return self.gate.select(scorer, law, note=note), law

    def ended(self, played: Round) -> None:
        """Put a round on record and tell the watcher."""
        self.record.rounds.append(played)
        self.tell(played)

    def tell(self, played: Round | None, share: float | None = None) -> None:
        """Tell the watcher which share of the work, by default of the budget, is done; public facts only."""
        if self._watch is not None:
            self._watch(played, float(1 - self.remaining / self.limit) if share is None else share)

    def fit(self, *, start: GraphicalModel | None = None, **options: Any) -> Solution[GraphicalModel]:
        """The graphical model of all noisy tables so far, within the constraints; post-processing."""
        return self.fit_with(fit_model, start=start, **options)

    def fit_with(self, fitter: Callable[..., Solution[Model]], **options: Any) -> Solution[Model]:
        """The model that `fitter` makes of all noisy tables so far, within the constraints; post-processing."""
        fitted = fitter(self.domain, self.record.measurements(), constraints=self.constraints, **options)
        self.model = fitted
        return fitted


def measure_columns(session: Session, share: float, name: str) -> None:
    """Measure the columns that an interrupted run has not paid for, at most with a `share` of the budget for all."""
    known = {table.clique for table in session.noisy_tables}
    missing = [(column,) for column in session.domain if (column,) not in known]
    if missing:
        cost = min(Fraction(share) * session.limit, session.remaining / 2) / len(session.domain)
        session.measure(missing, cost, note=f"{name}: {len(missing)} columns")
