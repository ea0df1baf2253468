"""mst: every column, then the pairs of columns of a maximum spanning tree, whatever the workload asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import ClassVar

import numpy as np

from hush.arrays import Floats
from hush.domain import Clique, Domain
from hush.graphical.fitting import fit_model
from hush.graphical.junction_tree import JunctionTree
from hush.mechanisms.candidates import Candidates, MisfitRounds, on_grid
from hush.mechanisms.mechanism import CELL_MB, CapacityMechanism, check_flag
from hush.mechanisms.plan import Plan
from hush.mechanisms.session import Session
from hush.privacy.account import used_up
from hush.workloads import Workload

NAME = "mst"
THIRD = Fraction(1, 3)


@dataclass(frozen=True, kw_only=True)
class MST(CapacityMechanism):
    """A maximum spanning tree of pairs: what the columns are, and which two belong together, for any later question.

    A third of the budget measures all columns. A third chooses d - 1 pairs as Kruskal's algorithm does: each time, of
    the pairs that join two parts of the forest so far, one by the exponential mechanism with the score
    ||M_ij(D) - M_ij(p)||_1, p being the model of the columns alone. A third measures those pairs. Pairs that would
    take the model beyond `max_size_mb` are left out; what that saves is spent on the others.

    With `merge_rare`, the levels of a column whose noisy count is below three standard deviations, if there are two or
    more of them, are counted as one in all pairs: fewer noisy numbers, at the price of what depends on rare levels
    alone. The model keeps all levels; rare ones share what is known of them in proportion to their own column.

    Privacy: rho-zCDP of the budget, by the account's filter; one exponential mechanism for every pair chosen.
    Reference: [MST, sec. 4]. Differs from [MST]: each pair is measured as soon as it is chosen, which changes no
    probability, since all are scored against the model of the columns.
    """

    name: ClassVar[str] = NAME
    description: ClassVar[str] = "every column, then the pairs of columns of a maximum spanning tree"
    reference: ClassVar[str] = "McKenna et al. 2021"

    merge_rare: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_flag(merge_rare=self.merge_rare)

    def describe(self, plan: Plan) -> list[tuple[str, str]]:
        """How the budget is shared out."""
        d = len(plan.domain)
        return [
            (
                "Measures",
                f"{d:,} columns and {d - 1:,} pairs of them, whatever is asked, by a third of the budget each",
            ),
            ("Chooses", f"the pairs, by a third of the budget; the model takes at most {self.limit_mb:g} MB"),
            *([("Merges", "levels that seem rarer than their noise, in all pairs")] if self.merge_rare else []),
        ]

    def work(self, workload: Workload) -> str:
        """Memory and time that releasing will take."""
        d = len(workload.domain)
        return f"the counts of {d * (d - 1) // 2:,} pairs, one fit of a model of at most {self.limit_mb:g} MB"

    def run(self, session: Session, plan: Plan) -> None:
        """Columns, then pairs one by one, or what is left of a run that was stopped."""
        columns = [(name,) for name in session.domain]
        pairs: tuple[Clique, ...] = tuple(combinations(session.domain.attributes, 2))
        if not session.noisy_tables:
            cost = min(THIRD * session.limit, session.remaining / 2) if pairs else session.remaining
            cost /= len(columns)
            session.measure(columns, cost, note=f"{NAME}: {len(columns)} columns")
        if self.merge_rare:
            session.merge_rare()
        rounds = MisfitRounds(session, Candidates(pairs, np.ones(len(pairs))), NAME)
        if not used_up(session.remaining, session.limit):
            self._tree(rounds)
        session.scored = rounds.last.scored(session.fit().value, session.merging) if pairs else None

    def _tree(self, rounds: MisfitRounds) -> None:
        """Pairs until none is left that joins two parts, the last of d - 1 with all that remains of the budget."""
        session, pool = rounds.session, rounds.pool
        singles = [table for table in session.measurements if len(table.clique) == 1]
        model = fit_model(session.domain, singles, constraints=session.constraints).value
        tables = on_grid(session.merged(model.many(pool.cliques)))
        edges: list[Clique] = list(dict.fromkeys(one.clique for one in session.noisy_tables if len(one.clique) == 2))
        most = len(session.domain) - 1
        share = min(THIRD * session.limit / most, session.remaining / (2 * max(most - len(edges), 1)))
        while len(edges) < most:
            sizes = self._sizes(session, edges, pool.cliques)
            places = np.flatnonzero(sizes <= self.limit_mb)
            if not len(places):
                break
            last = len(edges) == most - 1
            none = np.zeros(len(places))
            played = rounds.play(
                places, tables, none, sizes[places], choosing=share, measuring=None if last else share
            )  # fmt: skip
            session.ended(played)
            edges.append(played.clique)
        if not used_up(session.remaining, session.limit):
            again: list[Clique] = edges or [(name,) for name in session.domain]
            session.measure(again, session.remaining / len(again), note=f"{NAME}: {len(again)} tables once more")

    def _sizes(self, session: Session, edges: Sequence[Clique], pairs: Sequence[Clique]) -> Floats:
        """The size of the model with each pair, infinite for pairs that join nothing.

        A pair of two parts which nothing links, no rule either, adds its own table in place of the columns that stood
        alone.
        """
        domain = session.domain
        parts = _parts(domain, edges)
        linked = _parts(domain, session.cliques)
        members = Counter(linked.values())
        tree = JunctionTree.build(domain, session.cliques)
        sizes = np.full(len(pairs), np.inf)
        for place, (one, other) in enumerate(pairs):
            if parts[one] == parts[other]:
                continue
            if linked[one] == linked[other]:
                sizes[place] = self.sizes_mb(domain, session.cliques, [(one, other)], tree)[0]
            else:
                alone = sum(domain[name] for name in (one, other) if members[linked[name]] == 1)
                sizes[place] = CELL_MB * (tree.cells + domain.size((one, other)) - alone)
        return sizes


def _parts(domain: Domain, cliques: Iterable[Clique]) -> dict[str, str]:
    """For every attribute the name of the part of the graph that it is in."""
    part = {name: name for name in domain}
    for clique in cliques:
        joined = {part[name] for name in clique}
        part = {name: min(joined) if own in joined else own for name, own in part.items()}
    return part
