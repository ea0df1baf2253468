"""mwem: starts from nothing and measures, round by round, the asked table that the model answers worst."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from hush.core.domain import Clique
from hush.core.errors import BudgetError, SizeError, WorkloadError
from hush.core.validation import check_whole
from hush.mechanisms.candidates import Candidates, MisfitRounds, on_grid
from hush.mechanisms.mechanism import CapacityMechanism, check_possible
from hush.mechanisms.plan import Plan
from hush.mechanisms.session import Session
from hush.privacy.account import used_up
from hush.privacy.budget import Budget
from hush.schema import Schema
from hush.workloads import Workload

COUNT_SHARE = Fraction(1, 100)  # of the budget, for the number of rows
ROUND_TOLERANCE = 0.1  # tolerance of the fits between rounds, in standard deviations


@dataclass(frozen=True, kw_only=True)
class MWEM(CapacityMechanism):
    """Multiplicative weights with the exponential mechanism, its model fitted to all tables so far (MWEM+PGM).

    Starts from the uniform distribution. Each of T rounds chooses a table of the workload by the exponential mechanism
    with the score ||M_r(D) - M_r(p)||_1 - n_r, measures it, and fits again; rho / T a round, half for choosing and
    half for measuring: epsilon = 2 sqrt(rho / T), sigma = sqrt(T / rho). Tables that would take the model beyond
    `max_size_mb` are left out.

    `rounds` is T. By default it is the number of columns in the workload, or of its tables if they are fewer: known
    beforehand, and enough to measure every column. A T tuned on the data is not private.

    Privacy: rho-zCDP of the budget, by the account's filter; candidates depend on noisy values alone.
    Reference: [MWEM, Fig. 1]; [AIM, Alg. 1]. Differs from [AIM]: the number of rows, which the printed algorithm takes
    as known, is measured first with a hundredth of the budget; the size of the model is limited.

    >>> import hush
    >>> MWEM().planned_rounds(hush.Workload.kway(hush.Domain({"a": 2, "b": 3, "c": 2, "d": 2}), 2))
    4
    """

    name: ClassVar[str] = "mwem"
    description: ClassVar[str] = "round by round, the asked table that the model gets most wrong; rounds are given"
    workload_aware: ClassVar[bool] = True
    efficiency_aware: ClassVar[bool] = False
    refits: ClassVar[bool] = True
    reference: ClassVar[str] = "AIM, Alg. 1"

    rounds: int | None = None

    def planned_rounds(self, workload: Workload) -> int:
        """T: the number of rounds that share the budget."""
        asked = {name for clique in workload.cliques for name in clique}
        return self.rounds or min(len(asked), len(tables_of(workload)))

    def check(self, workload: Workload, budget: Budget) -> None:
        """Refuse a T that is no whole number, and a limit too small for every table of the workload."""
        if self.rounds is not None:
            check_whole(BudgetError, "rounds", self.rounds, least=1)
        self._check_capacity(workload, [])

    def check_table(self, plan: Plan, schema: Schema) -> None:
        """Refuse a limit too small for every table of the workload together with the schema's rules."""
        self._check_capacity(plan.workload, [rule.clique for rule in schema.constraints])
        check_possible(schema)

    def _check_capacity(self, workload: Workload, rules: list[Clique]) -> None:
        tables = tables_of(workload)
        if not tables:
            raise WorkloadError("the workload asks for the total alone, and there is nothing to choose; use 'residual'")
        if self.sizes_mb(workload.domain, rules, tables).min() > self.limit_mb:
            least = min(tables, key=workload.domain.size)
            raise SizeError(
                f"no table of the workload keeps the model within max_size_mb = {self.limit_mb:g}, not even that over "
                f"{', '.join(least)}; raise max_size_mb, coarsen large columns or ask for smaller tables"
            )

    def memory(self, plan: Plan, schema: Schema) -> int:
        """The asked tables, scored at once, and the fit of the largest model to two of the largest tables.

        Rounds choose tables only as long as there is memory to keep them; see `MemoryRoom`.
        """
        scored = self.within(plan.domain, tables_of(plan.workload))
        return self.model_bytes(plan.domain, scored, 2 * max(map(plan.domain.size, scored)))

    def counted(self, plan: Plan, schema: Schema) -> Sequence[Clique]:
        """All tables that may be chosen."""
        return self.within(plan.domain, tables_of(plan.workload))

    def describe(self, plan: Plan) -> list[tuple[str, str]]:
        rounds, tables = self.planned_rounds(plan.workload), len(tables_of(plan.workload))
        each = float((1 - COUNT_SHARE) * plan.rho / rounds)
        return [
            ("Measures", f"{rounds:,} of {tables:,} tables, one a round, at rho = {each:.3g} a round"),
            ("Model", f"of at most {self.limit_mb:g} MB; columns in no chosen table stay uniform"),
        ]

    def work(self, workload: Workload) -> str:
        return f"{self.planned_rounds(workload):,} fits of models of at most {self.limit_mb:g} MB"

    def run(self, session: Session, plan: Plan) -> None:
        """All rounds, or those that an interrupted run has left."""
        if not session.noisy_tables:
            session.measure([()], COUNT_SHARE * session.limit, note=f"{self.name}: number of rows")
        cliques = tables_of(plan.workload)
        cells = np.array([float(session.domain.size(clique)) for clique in cliques])
        rounds = MisfitRounds(session, Candidates(cliques, np.ones(len(cliques))), self.name)
        share = (1 - COUNT_SHARE) * session.limit / self.planned_rounds(plan.workload)
        while not used_up(session.remaining, session.limit):
            model = session.fit(tolerance=ROUND_TOLERANCE).value
            sizes = self.sizes_mb(session.domain, session.cliques, cliques, model.tree)
            indices = np.flatnonzero(sizes <= self.limit_mb)
            indices = indices[session.memory.affordable(cells[indices])]
            final = session.remaining < 2 * share  # a round that leaves less than another one's share spends everything
            played = rounds.play(
                indices,
                on_grid(model.many([cliques[index] for index in indices])),
                cells[indices],
                sizes[indices],
                choosing=(session.remaining if final else share) / 2,
                measuring=None if final else share / 2,
            )
            session.ended(played)
        session.scored = rounds.last.scored(session.fit().value)


def tables_of(workload: Workload) -> tuple[Clique, ...]:
    """The cliques of a workload, each once and without the empty one."""
    return tuple(dict.fromkeys(workload.domain.clique(clique) for clique in workload.cliques if clique))
