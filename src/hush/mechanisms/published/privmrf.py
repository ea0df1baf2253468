"""privmrf: a graph of the strongest dependences that a junction tree can hold, then the worst tables inside it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import ClassVar

import numpy as np
from msgspec.structs import replace

from hush.core.arrays import Floats
from hush.core.constraints import Constraint
from hush.core.domain import Clique, Domain
from hush.core.errors import BudgetError, WorkloadError
from hush.core.validation import check_number, check_whole
from hush.mechanisms.candidates import Candidates, MisfitRounds, on_grid
from hush.mechanisms.mechanism import CELL_MB, CapacityMechanism
from hush.mechanisms.plan import Plan
from hush.mechanisms.published.privbayes import useful_cells
from hush.mechanisms.session import Session, measure_columns
from hush.mechanisms.table_distances import MEAN_ABSOLUTE, PairSurvey, survey_pairs
from hush.models.graphical.graphical_model import GraphicalModel
from hush.models.graphical.junction_tree import JunctionTree
from hush.models.graphical.model_size import sizes_with
from hush.privacy.account import used_up
from hush.release.record import Record
from hush.release.survey_record import SurveyRecord
from hush.schema import Schema
from hush.workloads import Workload

CHOICE_SHARE = Fraction(1, 10)  # of a round
ROUND_TOLERANCE, ROUND_ITERATIONS = 0.2, 60  # tolerance and most iterations of the fits between rounds
LAST_TOLERANCE = 0.05  # tolerance of the last fit
MOST_ROUNDS = 32  # unless more are asked for
LEAST_SCORE = 2.0  # standard deviations of the noise of a score; a weaker dependence is no edge
MOST_REFUSED = 100  # edges in a row that do not fit, before the search ends
MOST_CANDIDATES = 1000  # tables of three or more columns; pairs are candidates whatever their number


@dataclass(frozen=True, kw_only=True)
class PrivMRF(CapacityMechanism):
    """A Markov random field on a graph of noisy dependences: first the tables that cover it, then the worst in rounds.

    `column_share` of the budget measures every column, `score_share` a noisy dependence of every pair. Pairs become
    edges, the strongest first, as long as the junction tree of the graph stays within `max_size_mb`. The candidates are
    the tables over two or more columns of one node of the tree with at most rows / (usefulness sqrt(2/pi) sigma) cells,
    so that the average count is at least `usefulness` times the noise.

    `initial_share` measures a first set of candidates. Each covers new pairs whose dependences add up to more than the
    noise sqrt(2/pi) sigma sqrt(n c) with which a table of n cells gives a pair of c cells. Each of T rounds
    then chooses a candidate by the exponential mechanism with the score
    ||M_r(D) - M_r(p)||_1 - sqrt(2/pi) sigma n_r, measures it and fits again. `rounds` is T, by default the number of
    columns and at most 32. A T tuned on the data is not private.

    Privacy: rho-zCDP of the budget, by the account's filter; one noisy vector of scores, see `TableDistances`. Graph
    and candidates are computed from noisy numbers.
    Reference: [PrivMRF].
    Differs from [PrivMRF, R-scores]: scores are distances from the product of noisy columns, which a row moves by 1;
    the number of rows is estimated from the columns; a dependence below two standard deviations of its noise is no
    edge. Differs from [PrivMRF, graph]: pairs become edges in the order of their scores, where the authors' search adds
    the edge that most raises the sum of scores less a price for cells. Differs from [PrivMRF, initial marginals]: a
    table joins the first set for what it gains beyond its noise, where the authors take for each column the best table
    of greedy Bayesian networks inside the nodes. Differs from [PrivMRF, selection]: all candidates are scored, less
    their noise, and the exponential mechanism chooses one in each round; the authors' code adds noise to the distances
    of a random part of them, and takes several of the largest. Their code has one usefulness for pairs and another for
    larger tables, and counts columns among the candidates, which are measured first here. All shares of the budget are
    ours, and the account charges each step.

    >>> import hush
    >>> PrivMRF().planned_rounds(hush.Domain({"country": 1, "age": 85, "sex": 2, "race": 5}))
    3
    """

    name: ClassVar[str] = "privmrf"
    description: ClassVar[str] = "a graph of the strongest dependences, then round by round the worst table inside it"
    budget_aware: ClassVar[bool] = True
    refits: ClassVar[bool] = True
    reference: ClassVar[str] = "PrivMRF"

    column_share: float = 0.1
    score_share: float = 0.1
    initial_share: float = 0.4
    usefulness: float = 4.0
    rounds: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        names = ("column_share", "score_share", "initial_share")
        for name in names:
            check_number(BudgetError, name, getattr(self, name), above=0, below=1)
        if sum(getattr(self, name) for name in names) >= 1:
            raise BudgetError(
                f"column_share={self.column_share:g}, score_share={self.score_share:g} and "
                f"initial_share={self.initial_share:g} leave nothing for rounds; lower one of them"
            )
        check_number(WorkloadError, "usefulness", self.usefulness, above=0, hint=", such as 4")
        if self.rounds is not None:
            object.__setattr__(self, "rounds", check_whole(BudgetError, "rounds", self.rounds, least=1))

    def planned_rounds(self, domain: Domain) -> int:
        """T: the number of rounds that share what the columns, scores and first tables leave."""
        return self.rounds or min(max(len(domain.varying()), 1), MOST_ROUNDS)

    @property
    def round_share(self) -> Fraction:
        """The share of the budget that all rounds have together."""
        return 1 - Fraction(self.column_share) - Fraction(self.score_share) - Fraction(self.initial_share)

    def new_record(self, plan: Plan) -> Record:
        return SurveyRecord(plan.domain)

    def memory(self, plan: Plan, schema: Schema) -> int:
        """All pairs, scored at once, and the fit of the largest model to two of the largest pairs.

        First tables and rounds are chosen only as long as there is memory to keep them; see `MemoryRoom`.
        """
        pairs = self.scored_pairs(plan.domain)
        return self.model_bytes(plan.domain, pairs, 2 * max(map(plan.domain.size, pairs), default=0))

    def counted(self, plan: Plan, schema: Schema) -> Sequence[Clique]:
        """The columns, and all pairs."""
        return [*((name,) for name in plan.domain), *self.scored_pairs(plan.domain)]

    def describe(self, plan: Plan) -> list[tuple[str, str]]:
        pairs, rounds = len(self.scored_pairs(plan.domain)), self.planned_rounds(plan.domain)
        return [
            ("Measures", f"{len(plan.domain):,} columns with {self.column_share:.0%} of the budget"),
            ("Scores", f"{pairs:,} pairs at once, whatever is asked, with {self.score_share:.0%}"),
            ("Then", f"tables that cover the strongest dependences, with {self.initial_share:.0%}"),
            ("Rounds", f"{rounds:,} with {float(self.round_share):.0%}, each of which chooses and measures a table"),
            ("Model", f"of at most {self.limit_mb:g} MB"),
        ]

    def work(self, workload: Workload) -> str:
        fits = self.planned_rounds(workload.domain) + 1
        return f"the counts of all pairs, {fits:,} fits of models of at most {self.limit_mb:g} MB"

    def scored_pairs(self, domain: Domain) -> list[Clique]:
        """The pairs that are scored."""
        return self.within(domain, combinations(domain.varying(), 2))

    def run(self, session: Session, plan: Plan) -> None:
        """Columns, scores, first tables and rounds; or what an interrupted run has left."""
        PrivMRFRun(self, session).run()


class PrivMRFRun:
    """One run: its settings, and the noise of the tables that rounds measure."""

    def __init__(self, settings: PrivMRF, session: Session) -> None:
        self.settings = settings
        self.session = session
        self.domain = session.domain
        self.most_rounds = settings.planned_rounds(session.domain)
        round_cost = (1 - CHOICE_SHARE) * settings.round_share * session.limit / self.most_rounds
        self.stddev = session.law(round_cost).stddev  # of a round's table

    def run(self) -> None:
        session, settings = self.session, self.settings
        pairs = settings.scored_pairs(self.domain)
        measure_columns(session, settings.column_share, settings.name)
        candidates: list[Clique] = []
        if pairs and not used_up(session.remaining, session.limit):
            survey = survey_pairs(session, pairs, Fraction(settings.score_share), settings.name)
            candidates = self._candidates(survey)
            if not session.record.rounds:
                self._first_tables(survey, candidates)
        rounds = MisfitRounds(session, Candidates(tuple(candidates), np.ones(len(candidates))), settings.name)
        start = self._rounds(rounds) if candidates else None
        if not used_up(session.remaining, session.limit):  # no table may be chosen: the columns get the rest
            columns = [(name,) for name in self.domain]
            session.measure(columns, session.remaining / len(columns), note=f"{settings.name}: columns once more")
        model = session.fit(start=start, tolerance=LAST_TOLERANCE).value
        session.scored = rounds.last.scored(model) if candidates else None

    def _candidates(self, survey: PairSurvey) -> list[Clique]:
        """The useful tables inside the nodes of the graph's junction tree, pairs first."""
        domain, session = self.domain, self.session
        most = min(useful_cells(survey.columns.total, self.stddev, self.settings.usefulness), session.memory.numbers)
        clear = [pair for pair, value in survey.dependence().items() if value > LEAST_SCORE * survey.stddev]
        useful = [pair for pair in clear if domain.size(pair) <= most]
        tree = tree_of_pairs(domain, session.constraints, useful, self.settings.limit_mb)
        nodes = [domain.varying(node.clique) for node in tree.nodes]
        candidates: list[Clique] = []
        room = session.memory.scorable_cells
        for order in range(2, 1 + max(map(len, nodes))):
            tables = dict.fromkeys(
                domain.clique(table)
                for node in nodes
                for table in combinations(node, order)
                if domain.size(table) <= most
            )
            cells = sum(map(domain.size, tables))
            if not tables or cells > room or (order > 2 and len(candidates) + len(tables) > MOST_CANDIDATES):
                break
            candidates += tables
            room -= cells
        return candidates

    def _first_tables(self, survey: PairSurvey, candidates: Sequence[Clique]) -> None:
        """Measure tables that cover dependences, each worth more than its noise; at most one for each column."""
        session, settings, domain = self.session, self.settings, self.domain
        uncovered = {pair: value for pair, value in survey.dependence().items() if value > 0}
        most = len(domain.varying())
        cost = Fraction(settings.initial_share) * session.limit / most
        noise = MEAN_ABSOLUTE * session.law(cost).stddev
        chosen: list[Clique] = []
        room = session.memory.numbers
        gains = dict.fromkeys(candidates, np.inf)
        while gains and len(chosen) < most:
            # Gains only fall as pairs are covered: a table is the best if its gain is still what it was.
            best = max(gains, key=gains.__getitem__)
            gain = sum(
                max(uncovered[pair] - noise * (domain.size(best) * domain.size(pair)) ** 0.5, 0.0)
                for pair in combinations(best, 2)
                if pair in uncovered
            )
            if gain <= 0 or domain.size(best) > room:
                del gains[best]
            elif gain < gains[best]:
                gains[best] = gain
            else:
                chosen.append(best)
                room -= domain.size(best)
                del gains[best]
                for pair in combinations(best, 2):
                    uncovered.pop(pair, None)
        known = {table.clique for table in session.noisy_tables}
        missing = [clique for clique in chosen if clique not in known]
        if missing:
            cost = min(Fraction(settings.initial_share) * session.limit, session.remaining / 2) / len(chosen)
            session.measure(missing, cost, note=f"{settings.name}: {len(missing):,} first tables")

    def _rounds(self, rounds: MisfitRounds) -> GraphicalModel:
        """Choose and measure the candidate that the model answers worst, T times; the last spends what is left.

        If one tree holds all candidates, no model is checked for its size: it has some of them.
        """
        session, domain, limit = self.session, self.domain, self.settings.limit_mb
        cliques = rounds.pool.cliques
        cells: Floats = np.array([float(domain.size(clique)) for clique in cliques])
        sizes = np.full(len(cliques), JunctionTree.build(domain, [*session.cliques, *cliques]).size_mb)
        all_fit = bool(sizes[0] <= limit)
        model = session.fit(tolerance=ROUND_TOLERANCE, iterations=ROUND_ITERATIONS).value
        while not used_up(session.remaining, session.limit):
            if not all_fit:
                sizes = self.settings.sizes_mb(domain, session.cliques, cliques, model.tree)
            indices = np.flatnonzero(sizes <= limit)
            if not len(indices):
                break
            indices = indices[session.memory.affordable(cells[indices])]
            left = max(self.most_rounds - len(session.record.rounds), 1)
            cost = session.remaining / left
            played = rounds.play(
                indices,
                on_grid(model.many([cliques[index] for index in indices])),
                MEAN_ABSOLUTE * self.stddev * cells[indices],
                sizes[indices],
                choosing=CHOICE_SHARE * cost,
                measuring=None if left == 1 else (1 - CHOICE_SHARE) * cost,
            )
            model = session.fit(start=model, tolerance=ROUND_TOLERANCE, iterations=ROUND_ITERATIONS).value
            session.ended(replace(played, size_mb=model.size_mb))
        return model


def tree_of_pairs(
    domain: Domain, rules: Sequence[Constraint], pairs: Iterable[Clique], limit_mb: float
) -> JunctionTree:
    """The junction tree of a graph whose edges are as many of the pairs as a limit allows, the first of them first.

    The rules of the schema belong to every model, and to its tree.
    """
    edges = [rule.clique for rule in rules]
    tree, refused, limit = JunctionTree.build(domain, edges), 0, limit_mb / CELL_MB
    for pair in pairs:
        if refused == MOST_REFUSED:
            break
        if sizes_with(domain, edges, [pair], tree=tree, enough=limit)[0] > limit:
            refused += 1
            continue
        refused = 0
        edges.append(pair)
        tree = JunctionTree.build(domain, edges, restarts=0, start=tree)
    return tree
