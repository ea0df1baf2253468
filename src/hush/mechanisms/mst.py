"""mst: every column, then the pairs of columns of a maximum spanning tree, whatever the workload asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import ClassVar

import numpy as np

from hush.core.arrays import Floats
from hush.core.domain import Clique, Domain
from hush.core.errors import WorkloadError
from hush.core.validation import check_flag
from hush.mechanisms.candidates import Candidates, MisfitRounds, on_grid
from hush.mechanisms.mechanism import CELL_MB, CapacityMechanism
from hush.mechanisms.merged_levels import RunLevels
from hush.mechanisms.plan import Plan
from hush.mechanisms.session import Session
from hush.models.graphical.graphical_fit import fit_model
from hush.models.graphical.junction_tree import JunctionTree
from hush.privacy.account import used_up
from hush.schema import Schema
from hush.workloads import Workload

STAGE_SHARE = Fraction(1, 3)


@dataclass(frozen=True, kw_only=True)
class MST(CapacityMechanism):
    """A maximum spanning tree of pairs: the columns and their strongest dependences, for any later question.

    A third of the budget measures all columns. A third chooses d - 1 pairs as Kruskal's algorithm does: each time, the
    exponential mechanism chooses among the pairs that join two components of the forest, with the score
    ||M_ij(D) - M_ij(p)||_1, p being the model of the columns alone. A third measures those pairs. Pairs that would
    take the model beyond `max_size_mb` are left out; what that saves is spent on the others.

    With `merge_rare`, two or more levels of a column whose noisy counts are below three standard deviations count as
    one in all pairs: fewer noisy numbers, at the price of dependences between rare levels. The model keeps all levels;
    rare ones share their common count in proportion to their own column.

    Privacy: rho-zCDP of the budget, by the account's filter; one exponential mechanism for every pair chosen.
    Reference: [MST, sec. 4]. Differs from [MST]: each pair is measured as soon as it is chosen, which changes no
    probability, since all are scored against the model of the columns.
    """

    name: ClassVar[str] = "mst"
    description: ClassVar[str] = "every column, then the pairs of columns of a maximum spanning tree"
    reference: ClassVar[str] = "McKenna et al. 2021"

    merge_rare: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_flag(WorkloadError, "merge_rare", self.merge_rare)

    def describe(self, plan: Plan) -> list[tuple[str, str]]:
        d = len(plan.domain)
        pairs = f"{d:,} columns and {d - 1:,} pairs of them, whatever is asked, with a third of the budget each"
        return [
            ("Measures", pairs),
            ("Chooses", f"the pairs, with a third of the budget; the model takes at most {self.limit_mb:g} MB"),
            *([("Merges", "levels that seem rarer than their noise, in all pairs")] if self.merge_rare else []),
        ]

    def memory(self, plan: Plan, schema: Schema) -> int:
        """The pairs, scored at once, and the fit of their tree, in which each may be measured twice."""
        pairs = self.within(plan.domain, combinations(plan.domain.attributes, 2))
        largest = sorted(map(plan.domain.size, pairs))[-max(len(plan.domain) - 1, 0) :] if pairs else []
        return self.model_bytes(plan.domain, pairs, 2 * min(sum(largest), self.limit_mb / CELL_MB))

    def counted(self, plan: Plan, schema: Schema) -> Sequence[Clique]:
        """The columns, and all pairs that may be chosen."""
        pairs = self.within(plan.domain, combinations(plan.domain.attributes, 2))
        return [*((name,) for name in plan.domain), *pairs]

    def work(self, workload: Workload) -> str:
        d = len(workload.domain)
        return f"the counts of {d * (d - 1) // 2:,} pairs, one fit of a model of at most {self.limit_mb:g} MB"

    def run(self, session: Session, plan: Plan) -> None:
        """Measure the columns, then pairs one by one; or what an interrupted run has left."""
        columns = [(name,) for name in session.domain]
        pairs: tuple[Clique, ...] = tuple(self.within(session.domain, combinations(session.domain.attributes, 2)))
        if not session.noisy_tables:
            cost = min(STAGE_SHARE * session.limit, session.remaining / 2) if pairs else session.remaining
            cost /= len(columns)
            session.measure(columns, cost, note=f"{self.name}: {len(columns)} columns")
        rounds = MisfitRounds(session, Candidates(pairs, np.ones(len(pairs))), self.name)
        if self.merge_rare:
            rounds.levels = RunLevels.rare(session)
        if not used_up(session.remaining, session.limit):
            self._tree(rounds)
        session.scored = rounds.last.scored(session.fit().value, rounds.levels.merging) if pairs else None

    def _tree(self, rounds: MisfitRounds) -> None:
        """Choose pairs until none joins two components; the last of d - 1 gets the rest of the budget."""
        session, pool = rounds.session, rounds.pool
        singles = [table for table in session.record.measurements() if len(table.clique) == 1]
        model = fit_model(session.domain, singles, constraints=session.constraints).value
        tables = on_grid(rounds.levels.tables(model.many(pool.cliques)))
        cliques = (table.clique for table in session.noisy_tables)
        edges: list[Clique] = list(dict.fromkeys(clique for clique in cliques if len(clique) == 2))
        most = len(session.domain) - 1
        share = min(STAGE_SHARE * session.limit / most, session.remaining / (2 * max(most - len(edges), 1)))
        while len(edges) < most:
            sizes = self._sizes(session, edges, pool.cliques)
            indices = np.flatnonzero(sizes <= self.limit_mb)
            if not len(indices):
                break
            measuring = None if len(edges) == most - 1 else share
            no_penalties = np.zeros(len(indices))
            played = rounds.play(indices, tables, no_penalties, sizes[indices], choosing=share, measuring=measuring)
            session.ended(played)
            edges.append(played.clique)
        if not used_up(session.remaining, session.limit):
            again: list[Clique] = edges or [(name,) for name in session.domain]
            queries = [rounds.levels.query(clique) for clique in again]
            note = f"{self.name}: {len(queries)} tables once more"
            session.measure(queries, session.remaining / len(queries), note=note)

    def _sizes(self, session: Session, edges: Sequence[Clique], pairs: Sequence[Clique]) -> Floats:
        """The size of the model with each pair; infinite for pairs within one component.

        A pair of components that no table and no rule links adds its own table and replaces columns that stood alone.
        """
        domain = session.domain
        component = _components(domain, edges)
        linked = _components(domain, session.cliques)
        members = Counter(linked.values())
        tree = JunctionTree.build(domain, session.cliques)
        sizes = np.full(len(pairs), np.inf)
        for index, pair in enumerate(pairs):
            first, second = pair
            if component[first] == component[second]:
                continue
            if linked[first] == linked[second]:
                sizes[index] = self.sizes_mb(domain, session.cliques, [pair], tree)[0]
            else:
                alone = sum(domain[name] for name in pair if members[linked[name]] == 1)
                sizes[index] = CELL_MB * (tree.cells + domain.size(pair) - alone)
        return sizes


def _components(domain: Domain, cliques: Iterable[Clique]) -> dict[str, str]:
    """The connected component of every attribute, named by one of its attributes."""
    component = {name: name for name in domain}
    for clique in cliques:
        joined = {component[name] for name in clique}
        component = {name: min(joined) if label in joined else label for name, label in component.items()}
    return component
