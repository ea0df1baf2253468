"""gem: round by round, measures the asked table that a generator network answers worst, and fits the network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from hush.core.domain import Clique
from hush.core.errors import BudgetError, SizeError, WorkloadError
from hush.core.validation import check_number, check_whole
from hush.mechanisms.aim import MEAN_ABSOLUTE, MOST_CANDIDATE_CELLS
from hush.mechanisms.candidates import Candidates, MisfitRounds, on_grid
from hush.mechanisms.mechanism import MEASURED_BYTES, SCORED_BYTES, Mechanism, refuse_rules
from hush.mechanisms.plan import Plan
from hush.mechanisms.plan_errors import OneWay, noise_text
from hush.mechanisms.published.mwem import tables_of
from hush.mechanisms.session import Session, measure_columns
from hush.models.relaxed.generator import GENERATOR_ROWS, HIDDEN_UNITS, RowGenerator, generator_bytes
from hush.models.relaxed.relaxed_rows import RelaxedRows
from hush.privacy.account import used_up
from hush.privacy.budget import Budget
from hush.privacy.noise import DiscreteGaussian
from hush.schema import Schema
from hush.workloads import Workload

# More rounds than others play: fitting one table changes all columns, and later rounds find what that spoiled.
ROUNDS_PER_COLUMN, MOST_ROUNDS = 6, 64
COLUMN_SHARE = 0.3  # with less, columns of small tables are mostly noise
CHOICE_SHARE = 0.25
ROUND_ITERATIONS = 60  # of the fits between rounds; the last one may take ten times as many
MOST_FIT_PRODUCTS = 2e10  # of a fit between rounds, which has fewer iterations beyond; ten times as many at last
FEWEST_ITERATIONS = 10


@dataclass(frozen=True, kw_only=True)
class GEM(Mechanism):
    """Generative networks with the exponential mechanism: T rounds that measure the table a network answers worst.

    `column_share` of the budget measures every column. A generator network makes `rows` relaxed rows from fixed random
    inputs; see `RowGenerator`. Each of T rounds chooses a table of the workload by the exponential mechanism with the
    score ||M_r(D) - M_r(p)||_1 - sqrt(2/pi) sigma n_r, measures it, and moves the weights of the network towards all
    noisy tables; `choice_share` of a round pays for its choice. The model is the rows that the network makes in the
    end. Tables of more than 2^20 cells are left out.

    `rounds` is T: by default six for each asked column, at most 64, and at most the number of tables. `hidden` is the
    number of hidden units. A T tuned on the data is not private.

    Privacy: rho-zCDP of the budget, by the account's filter; candidates depend on noisy values alone.
    Reference: [Liu et al. 2021, sec. 3 and 5].
    Differs from [Liu et al. 2021]: neighbours add or remove a row, so the number of rows, which the paper takes as
    known, is estimated from columns that are measured first; a table is chosen by the sum of its errors less that of
    its noise, and may be chosen again, where the paper chooses by the largest error of an answer, and the authors' code
    measures the table that holds this answer, once; noisy numbers below zero stay; a choice costs epsilon^2 / 8, and
    choices have a fixed share of rho; the fit is that of `RowGenerator`.

    >>> import hush
    >>> GEM().planned_rounds(hush.Workload.kway(hush.Domain({"a": 2, "b": 3, "c": 2, "d": 2}), 2))
    6
    """

    name: ClassVar[str] = "gem"
    description: ClassVar[str] = "round by round, the asked table that a generator network gets most wrong"
    workload_aware: ClassVar[bool] = True
    data_aware: ClassVar[bool] = True
    efficiency_aware: ClassVar[bool] = True
    refits: ClassVar[bool] = True
    reference: ClassVar[str] = "Liu et al. 2021, sec. 5"
    errors_known: ClassVar[str] = "measured; others bounded"
    smaller: ClassVar[str] = (
        "use fewer rows or hidden units, drop an attribute, use wider bins or ask for smaller tables"
    )

    rounds: int | None = None
    rows: int = GENERATOR_ROWS
    hidden: int = HIDDEN_UNITS
    column_share: float = COLUMN_SHARE
    choice_share: float = CHOICE_SHARE
    seed: int = 0  # of the network's inputs and first weights; public

    def __post_init__(self) -> None:
        for name, least in (("rounds", 1), ("rows", 1), ("hidden", 1), ("seed", 0)):
            if name != "rounds" or self.rounds is not None:
                object.__setattr__(self, name, check_whole(WorkloadError, name, getattr(self, name), least=least))
        for name in ("column_share", "choice_share"):
            check_number(BudgetError, name, getattr(self, name), above=0, below=1)

    def planned_rounds(self, workload: Workload) -> int:
        """T."""
        asked = {name for clique in workload.cliques for name in clique}
        return self.rounds or min(ROUNDS_PER_COLUMN * len(asked), MOST_ROUNDS, len(choosable(workload)))

    def check(self, workload: Workload, budget: Budget) -> None:
        """Refuse a workload without a table to choose, and a budget whose noise could not be drawn."""
        if not tables_of(workload):
            raise WorkloadError("the workload asks for the total alone, and there is nothing to choose; use 'residual'")
        if not choosable(workload):
            raise SizeError(
                f"every table of the workload has more than {MOST_CANDIDATE_CELLS:,} cells; coarsen large columns or "
                "ask for smaller tables"
            )
        DiscreteGaussian(len(workload.domain) / (2 * Fraction(self.column_share) * budget.limit))

    def check_table(self, plan: Plan, schema: Schema) -> None:
        """Refuse rules, which relaxed rows cannot keep."""
        refuse_rules(schema)

    def memory(self, plan: Plan, schema: Schema) -> int:
        """The columns, the asked tables, scored at once, and the fit of the network to two of the largest tables.

        Rounds choose tables only as long as there is memory to keep them; see `MemoryRoom`.
        """
        domain, tables = plan.domain, choosable(plan.workload)
        columns, cells = sum(domain.shape), [domain.size(clique) for clique in tables]
        joined = joined_columns(tables)
        widths = [domain[name] if name in joined else 1 for name in domain]
        fit = generator_bytes(self.rows, self.hidden, widths, columns, max(cells))
        return fit + MEASURED_BYTES * (columns + 2 * max(cells)) + SCORED_BYTES * sum(cells)

    def counted(self, plan: Plan, schema: Schema) -> Sequence[Clique]:
        """The columns, and all tables that may be chosen."""
        return [*((name,) for name in plan.domain), *choosable(plan.workload)]

    def describe(self, plan: Plan) -> list[tuple[str, str]]:
        rounds, among = self.planned_rounds(plan.workload), len(choosable(plan.workload))
        first = OneWay.of(plan, list(plan.domain), Fraction(self.column_share) * plan.rho / len(plan.domain))
        columns = f"{len(plan.domain):,} one-way tables, standard error {noise_text(first.stddev)} of a count"
        return [
            ("Starts with", columns),
            ("Then", f"{rounds:,} rounds, each of which chooses one of {among:,} tables and measures it"),
            ("Model", f"{self.rows:,} relaxed rows from a network of {self.hidden:,} hidden units"),
        ]

    def work(self, workload: Workload) -> str:
        return f"{self.planned_rounds(workload):,} fits of a network, seconds to a minute in all"

    def run(self, session: Session, plan: Plan) -> None:
        """All rounds, or those that an interrupted run has left."""
        measure_columns(session, self.column_share, self.name)
        cliques = choosable(plan.workload)
        cells = np.array([float(session.domain.size(clique)) for clique in cliques])
        rounds = MisfitRounds(session, Candidates(cliques, np.ones(len(cliques))), self.name)
        generator = RowGenerator(
            session.domain,
            joined_columns(cliques),
            session.record.measurements(),
            rows=self.rows,
            hidden=self.hidden,
            seed=self.seed,
        )
        model = self._fit(session, generator)
        while not used_up(session.remaining, session.limit):
            left = max(self.planned_rounds(plan.workload) - len(session.record.rounds), 1)
            share = session.remaining / left
            choosing = Fraction(self.choice_share) * share
            indices = np.flatnonzero(session.memory.affordable(cells))
            played = rounds.play(
                indices,
                on_grid(model.many([cliques[index] for index in indices])),
                MEAN_ABSOLUTE * session.law(share - choosing).stddev * cells[indices],
                np.full(len(indices), model.size_mb),
                choosing=choosing,
                measuring=None if left == 1 else share - choosing,
            )
            session.ended(played)
            model = self._fit(session, generator)
        session.scored = rounds.last.scored(model)

    def _fit(self, session: Session, generator: RowGenerator) -> RelaxedRows:
        """The network's rows after a fit to all noisy tables, a longer one once the budget is spent."""
        final = used_up(session.remaining, session.limit)
        products = generator.products + self.rows * sum(table.numbers for table in session.noisy_tables)
        iterations = min(ROUND_ITERATIONS, max(FEWEST_ITERATIONS, int(MOST_FIT_PRODUCTS / products)))
        return session.fit_with(generator.fit, iterations=(10 if final else 1) * iterations).value


def choosable(workload: Workload) -> tuple[Clique, ...]:
    """The tables of a workload that have at most 2^20 cells."""
    return tuple(clique for clique in tables_of(workload) if workload.domain.size(clique) <= MOST_CANDIDATE_CELLS)


def joined_columns(cliques: Sequence[Clique]) -> set[str]:
    """The columns that some table holds together with others."""
    return {name for clique in cliques if len(clique) > 1 for name in clique}
