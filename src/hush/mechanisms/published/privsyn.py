"""privsyn: every column, then the pairs whose dependence is worth more than their noise; rows are moved to fit them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import ClassVar

import numpy as np

from hush.core.domain import Clique, Domain
from hush.core.errors import BudgetError
from hush.core.validation import check_number
from hush.mechanisms.mechanism import CELL_MB, CapacityMechanism
from hush.mechanisms.plan import Plan
from hush.mechanisms.session import Session, measure_columns
from hush.mechanisms.table_distances import MEAN_ABSOLUTE, PairSurvey, survey_pairs
from hush.models.local.local_fit import fit_locally
from hush.privacy.account import used_up
from hush.release.record import Record
from hush.release.survey_record import SurveyRecord
from hush.schema import Schema
from hush.workloads import Workload


@dataclass(frozen=True, kw_only=True)
class ScoredAtOnce(CapacityMechanism):
    """A mechanism that measures every column, scores many tables at once, and measures those that pay, all at once."""

    budget_aware: ClassVar[bool] = True
    errors_known: ClassVar[str] = "measured tables"

    column_share: float = 0.1
    score_share: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("column_share", "score_share"):
            check_number(BudgetError, name, getattr(self, name), above=0, below=1)
        if self.column_share + self.score_share >= 1:
            raise BudgetError(
                f"column_share={self.column_share:g} and score_share={self.score_share:g} leave nothing to measure "
                "tables with; lower one of them"
            )

    def new_record(self, plan: Plan) -> Record:
        return SurveyRecord(plan.domain)

    @property
    def table_share(self) -> Fraction:
        """The share of the budget that columns and scores leave."""
        return 1 - Fraction(self.column_share) - Fraction(self.score_share)

    def measure_rest(self, session: Session, weights: Mapping[Clique, float]) -> None:
        """Measure tables with all that is left, in proportion to w^(2/3), which makes sum w_r sigma_r least.

        Tables that an interrupted run has measured are left out; if none remains, the columns get the rest.
        """
        if used_up(session.remaining, session.limit):
            return
        known = {table.clique for table in session.noisy_tables}
        weights = {clique: weight for clique, weight in weights.items() if clique not in known}
        if not weights:
            weights = {(name,): float(session.domain[name]) for name in session.domain}
        shares = [Fraction(weight ** (2 / 3)) for weight in weights.values()]
        costs = [session.remaining * share / sum(shares) for share in shares]
        session.measure(list(weights), costs, note=f"{self.name}: {len(weights):,} tables")


@dataclass(frozen=True, kw_only=True)
class PrivSyn(ScoredAtOnce):
    """All pairs scored at once, then as many measured as lower the sum of noise and dependence; rows fit them all.

    `column_share` of the budget measures every column, `score_share` a noisy dependence phi of every pair. A pair of c
    cells that is measured with rho_r has the noise error c / sqrt(pi rho_r); one that is not has the error phi. Pairs
    are chosen one by one, each time the pair that most lowers the sum of all errors, until none lowers it. Shares in
    proportion to c^(2/3) make the noise errors least, A (sum c^(2/3))^(3/2), with A = 1 / sqrt(pi rho). Pairs that are
    all among three or more columns are then measured as one table where that lowers the noise errors.

    The rest of the budget measures the tables. Non-negative tables are fitted that agree on what they share, and rows
    are moved to them by coordinate descent. Tables in which no measured one joins two columns take them as independent.
    Pairs that would take the tables beyond `max_size_mb` are left out.

    Privacy: rho-zCDP of the budget, by the account's filter; one noisy vector of scores, see `TableDistances`. Which
    tables are measured is computed from noisy numbers.
    Reference: [PrivSyn], its DenseMarg for the choice and its GUM for rows.
    Differs from [PrivSyn, InDif]: the distance is from the product of noisy columns, which a row moves by 1 where that
    of exact columns moves by up to 4; the noise is taken out of its square. Differs from [PrivSyn, combining of
    marginals]: larger tables are made where they lower the noise, in place of a limit of cells. Differs from [PrivSyn,
    GUM]: tables agree by least squares (`fit_locally`), and rows begin as those of a graphical model and end by
    coordinate descent (`repaired`), in place of averaging in turns and the gradual update of random rows.

    >>> import hush
    >>> workload = hush.Workload.kway(hush.Domain({"age": 85, "sex": 2, "race": 5}), 2)
    >>> hush.plan(workload, hush.Budget(rho=0.5), mechanism=PrivSyn())
    Plan(privsyn, 3 tables, rho=0.5)
    """

    name: ClassVar[str] = "privsyn"
    description: ClassVar[str] = "every column, then the pairs whose dependence is worth more than their noise"
    reference: ClassVar[str] = "PrivSyn"

    def memory(self, plan: Plan, schema: Schema) -> int:
        """All pairs, scored at once, and the fit of tables that have no more cells than the pairs."""
        pairs = self.scored_pairs(plan.domain)
        cells = sum(map(plan.domain.size, pairs))
        return self.model_bytes(plan.domain, pairs, min(cells, self.limit_mb / CELL_MB))

    def counted(self, plan: Plan, schema: Schema) -> Sequence[Clique]:
        """The columns, and all pairs."""
        return [*((name,) for name in plan.domain), *self.scored_pairs(plan.domain)]

    def describe(self, plan: Plan) -> list[tuple[str, str]]:
        pairs, rest = len(self.scored_pairs(plan.domain)), 1 - self.column_share - self.score_share
        return [
            ("Measures", f"{len(plan.domain):,} columns with {self.column_share:.0%} of the budget"),
            ("Scores", f"{pairs:,} pairs at once, whatever is asked, with {self.score_share:.0%}"),
            ("Then", f"the pairs whose dependence is worth more than their noise, with {rest:.0%}"),
            ("Model", f"tables of at most {self.limit_mb:g} MB that agree on what they share"),
        ]

    def work(self, workload: Workload) -> str:
        pairs = len(self.scored_pairs(workload.domain))
        return f"the counts of {pairs:,} pairs, one fit of tables of at most {self.limit_mb:g} MB, rows in some passes"

    def scored_pairs(self, domain: Domain) -> list[Clique]:
        """The pairs that may be measured."""
        return self.within(domain, combinations(domain.varying(), 2))

    def run(self, session: Session, plan: Plan) -> None:
        """Measure the columns, score the pairs, measure the chosen tables; or what an interrupted run has left."""
        domain, pairs = session.domain, self.scored_pairs(session.domain)
        measure_columns(session, self.column_share, self.name)
        weights: dict[Clique, float] = {}
        if pairs and not used_up(session.remaining, session.limit):
            survey = survey_pairs(session, pairs, Fraction(self.score_share), self.name)
            weights = combined(domain, self._worthwhile(session, survey))
        self.measure_rest(session, weights)
        session.fit_with(fit_locally)

    def _worthwhile(self, session: Session, survey: PairSurvey) -> list[Clique]:
        """The pairs that lower the sum of errors A (sum c^(2/3))^(3/2) + sum of phi over the others, best first."""
        noise = MEAN_ABSOLUTE * session.law(self.table_share * session.limit).stddev  # A
        cells = np.array([float(session.domain.size(pair)) for pair in survey.pairs])
        powers, waiting = cells ** (2 / 3), survey.dependences > 0
        chosen: list[Clique] = []
        total, room = 0.0, self.limit_mb / CELL_MB
        while (waiting := waiting & (cells <= room)).any():
            changes = np.where(waiting, noise * ((total + powers) ** 1.5 - total**1.5) - survey.dependences, np.inf)
            best = int(np.argmin(changes))
            if changes[best] >= 0:
                break
            chosen.append(survey.pairs[best])
            waiting[best], total, room = False, total + powers[best], room - cells[best]
        return chosen


def combined(domain: Domain, pairs: Sequence[Clique]) -> dict[Clique, float]:
    """Tables that hold all pairs, each with its weight w; larger tables are made where they lower the noise errors.

    A table of n cells gives a pair of c cells with sqrt(n / c) times the noise of a cell, and so the error
    sqrt(n c) sigma. With w = sum sqrt(n c) over the pairs that a table holds, shares in proportion to w^(2/3) make the
    sum of errors least, and that sum grows with sum w^(2/3). A table takes in a column, and the pairs with it that
    no other table has, if all pairs among its columns were chosen and sum w^(2/3) falls. By Hoelder's inequality a
    table then has no more cells than its pairs together.

    >>> list(combined(Domain({"a": 2, "b": 2, "c": 2, "d": 9}), [("a", "b"), ("b", "c"), ("a", "c"), ("c", "d")]))
    [('a', 'b', 'c'), ('c', 'd')]
    """
    adjacent: dict[str, set[str]] = {name: set() for name in domain}
    for a, b in pairs:
        adjacent[a].add(b)
        adjacent[b].add(a)

    def weight(table: Clique, held: Iterable[Clique]) -> float:
        return float(sum((domain.size(table) * domain.size(pair)) ** 0.5 for pair in held))

    weights: dict[Clique, float] = {}
    single = dict.fromkeys(pairs)  # in no table yet
    while single:
        table = next(iter(single))
        held = [table]
        del single[table]
        while True:
            # The column that lowers sum w^(2/3) most.
            best, most = None, 0.0
            for name in sorted(set.intersection(*(adjacent[member] for member in table))):
                joining = [pair for pair in (domain.clique((member, name)) for member in table) if pair in single]
                larger = domain.clique((*table, name))
                before = weight(table, held) ** (2 / 3) + sum(domain.size(pair) ** (2 / 3) for pair in joining)
                saved = before - weight(larger, [*held, *joining]) ** (2 / 3)
                if saved > most:
                    best, most = (larger, joining), saved
            if best is None:
                break
            table, joining = best
            held += joining
            for pair in joining:
                del single[pair]
        weights[table] = weight(table, held)
    return weights
