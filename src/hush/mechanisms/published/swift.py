"""swift: scores every asked table at once, builds the clique tree of the worst, and measures inside it what pays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from hush.core.domain import Clique
from hush.mechanisms.candidates import Candidates
from hush.mechanisms.mechanism import CELL_MB
from hush.mechanisms.plan import Plan
from hush.mechanisms.published.privmrf import tree_of_pairs
from hush.mechanisms.published.privsyn import ScoredAtOnce
from hush.mechanisms.session import Session, measure_columns
from hush.mechanisms.table_distances import MEAN_ABSOLUTE, survey_tables
from hush.models.graphical.junction_tree import JunctionTree, sets_of
from hush.privacy.account import used_up
from hush.release.survey_record import Survey
from hush.schema import Schema
from hush.workloads import Workload

# Rows that each cell of a pair takes off its score; one tree is built for each, and the best is taken.
CELL_PENALTIES = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
MOST_SCORED_CELLS = 1 << 23  # of all tables that are scored together
LAST_TOLERANCE = 0.05  # tolerance of the fit


@dataclass(frozen=True, kw_only=True)
class SWIFT(ScoredAtOnce):
    """Scalable workload-informed factor tree: all candidates scored at once, one tree, one allocation, one measurement.

    1. `column_share` of the budget measures every column.
    2. `score_share` buys one noisy vector with e_r = ||M_r(D) - M_r(p)||_1 for all candidates, p being the model of
       the columns. Candidates are the subsets of the asked tables, with AIM's weights w_r.
    3. Pairs become edges of a graph, those with the largest e_r - lambda n_r first, as long as its junction tree stays
       within `max_size_mb`; n_r are cells. Of the trees for several lambda, the one whose pairs have the largest sum
       of e_r is taken.
    4. With y_r = (w_r n_r sqrt(2/pi) sigma)^(2/3), and sigma the noise of a table that gets all that is left, shares in
       proportion to y_r make the weighted noise of measured tables least, (sum y_r)^(3/2). Candidates inside a node of
       the tree are taken in the order of w_r e_r / y_r, as long as sum w_r e_r - (sum y_r)^(3/2) rises.
    5. These are measured with all that is left, and an exact graphical model is fitted once.

    Privacy: rho-zCDP of the budget, by the account's filter; one noisy vector of scores, see `TableDistances`. Which
    tables are measured is computed from noisy numbers.
    Reference: [SWIFT].
    Differs from [SWIFT]: the published mechanism takes measured columns as given and spends a tenth of the rest on
    scores; here both belong to one account. Scores are whole numbers with discrete Gaussian noise. The limit is on all
    cells of the junction tree, not on its largest node, and on all measured cells; the tree is built anew for each edge
    by elimination, where the published one is grown node by node. Columns are no candidates. The fit ends at a
    tolerance, in place of 10,000 steps of mirror descent. If no table is worth its noise, the columns get the rest.

    >>> import hush
    >>> workload = hush.Workload.kway(hush.Domain({"age": 85, "sex": 2, "race": 5}), 2)
    >>> hush.plan(workload, hush.Budget(rho=0.5), mechanism=SWIFT())
    Plan(swift, 3 tables, rho=0.5)
    """

    name: ClassVar[str] = "swift"
    description: ClassVar[str] = "scores all asked tables at once, then measures what pays inside one clique tree"
    workload_aware: ClassVar[bool] = True
    reference: ClassVar[str] = "SWIFT"

    def candidates(self, workload: Workload) -> dict[Clique, float]:
        """The tables that may be measured, each with its weight, the smallest first; at most 2^23 cells in all."""
        pool, domain = Candidates.of(workload), workload.domain
        weights = dict(zip(pool.cliques, pool.weights.tolist(), strict=True))
        several = [clique for clique in pool.cliques if len(clique) > 1]
        kept, cells = {}, 0
        for clique in sorted(self.within(domain, several), key=lambda clique: (len(clique), domain.size(clique))):
            cells += domain.size(clique)
            if cells > MOST_SCORED_CELLS:
                break
            kept[clique] = weights[clique]
        return kept

    def memory(self, plan: Plan, schema: Schema) -> int:
        """All candidates, scored at once, and the fit of tables within the limit."""
        candidates = list(self.candidates(plan.workload))
        measured = min(sum(map(plan.domain.size, candidates)), self.limit_mb / CELL_MB)
        return self.model_bytes(plan.domain, candidates, measured)

    def counted(self, plan: Plan, schema: Schema) -> Sequence[Clique]:
        """The columns, and all candidates."""
        return [*((name,) for name in plan.domain), *self.candidates(plan.workload)]

    def describe(self, plan: Plan) -> list[tuple[str, str]]:
        scored, rest = len(self.candidates(plan.workload)), 1 - self.column_share - self.score_share
        return [
            ("Measures", f"{len(plan.domain):,} columns with {self.column_share:.0%} of the budget"),
            ("Scores", f"{scored:,} tables at once, with {self.score_share:.0%}"),
            ("Then", f"the tables inside one clique tree that are worth their noise, with {rest:.0%}"),
            ("Model", f"one exact graphical model of at most {self.limit_mb:g} MB"),
        ]

    def work(self, workload: Workload) -> str:
        scored = len(self.candidates(workload))
        return f"the counts of {scored:,} tables, one fit of a model of at most {self.limit_mb:g} MB"

    def run(self, session: Session, plan: Plan) -> None:
        """Measure the columns, score the candidates, measure the chosen ones; or what an interrupted run has left."""
        weights = self._fitting(session, plan.workload)
        measure_columns(session, self.column_share, self.name)
        chosen: dict[Clique, float] = {}
        if weights and not used_up(session.remaining, session.limit):
            kept: list[Survey] = session.record.surveys  # type: ignore[attr-defined]
            if not kept:
                columns = session.fit().value
                survey_tables(session, columns.many(weights), Fraction(self.score_share), self.name)
            errors = dict(zip(kept[0].cliques, map(float, kept[0].values), strict=True))
            errors = {
                clique: error for clique, error in errors.items() if clique in weights
            }  # resumed with less memory
            chosen = self._worthwhile(session, errors, weights, self._tree(session, errors))
        self.measure_rest(session, chosen)
        session.fit(tolerance=LAST_TOLERANCE)

    def _fitting(self, session: Session, workload: Workload) -> dict[Clique, float]:
        """The candidates that can be counted and scored in memory together; by public facts."""
        room, kept = min(session.memory.scorable_cells, session.memory.numbers), {}
        for clique, weight in self.candidates(workload).items():
            room -= session.domain.size(clique)
            if room < 0:
                break
            if session.gate.can_count(clique):
                kept[clique] = weight
        return kept

    def _tree(self, session: Session, errors: Mapping[Clique, float]) -> JunctionTree:
        """The tree whose pairs have the largest noisy errors together, of one tree for each penalty on cells."""
        domain = session.domain
        pairs: dict[Clique, float] = {clique: error for clique, error in errors.items() if len(clique) == 2}
        orders = {
            tuple(sorted(pairs, key=lambda pair: penalty * domain.size(pair) - pairs[pair])): None
            for penalty in CELL_PENALTIES
        }
        trees = [tree_of_pairs(domain, session.constraints, order, self.limit_mb) for order in orders]
        return max(trees, key=lambda tree: sum(pairs[pair] for pair in inside(tree, pairs)))

    def _worthwhile(
        self, session: Session, errors: Mapping[Clique, float], weights: Mapping[Clique, float], tree: JunctionTree
    ) -> dict[Clique, float]:
        """The tables inside the tree that are worth their noise, each with its weighted noise y_r^(3/2)."""
        sigma = session.law(self.table_share * session.limit).stddev
        candidates = inside(tree, errors)
        rewards = {clique: weights[clique] * errors[clique] for clique in candidates}
        noise = {clique: weights[clique] * session.domain.size(clique) * MEAN_ABSOLUTE * sigma for clique in candidates}
        chosen: dict[Clique, float] = {}
        room, total = self.limit_mb / CELL_MB, 0.0
        for clique in sorted(candidates, key=lambda clique: -rewards[clique] / noise[clique] ** (2 / 3)):
            larger = total + noise[clique] ** (2 / 3)
            if rewards[clique] <= larger**1.5 - total**1.5:
                break  # the reward for each unit of y_r only falls, and the price of a unit only rises
            if (size := session.domain.size(clique)) <= room:
                chosen[clique] = noise[clique]
                room, total = room - size, larger
        return chosen


def inside(tree: JunctionTree, cliques: Iterable[Clique]) -> list[Clique]:
    """The cliques whose columns some node of a tree holds together.

    >>> from hush import Domain
    >>> domain = Domain({"a": 2, "b": 2, "c": 2})
    >>> inside(JunctionTree.build(domain, [("a", "b"), ("b", "c")]), [("a", "b"), ("a", "c")])
    [('a', 'b')]
    """
    return [clique for clique in cliques if tree.find(sets_of(tree.domain, [clique])[0]) >= 0]
