"""rap: round by round, what relaxed rows answer worst is measured, and the rows are fitted again."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import ClassVar

import numpy as np

from hush.core.arrays import Floats
from hush.core.domain import Clique, Domain
from hush.core.errors import BudgetError, WorkloadError
from hush.core.validation import check_choice, check_number, check_whole
from hush.mechanisms.candidates import (
    LARGEST_MISFIT,
    MODEL_COUNT_STEP,
    MisfitScorer,
    TargetScorer,
    WorstCellScorer,
    on_grid,
    threshold_answers,
)
from hush.mechanisms.mechanism import MEASURED_BYTES, SCORED_BYTES, Mechanism, refuse_rules
from hush.mechanisms.merged_levels import RunLevels
from hush.mechanisms.plan import Plan
from hush.mechanisms.plan_errors import OneWay, noise_text
from hush.mechanisms.session import MEASURED_AND_FITTED_BYTES, Session
from hush.models.fit_arguments import estimate_total
from hush.models.relaxed.relaxed_fit import fit_relaxed, relaxed_bytes
from hush.models.relaxed.relaxed_rows import RelaxedRows, mean_product
from hush.privacy.account import used_up
from hush.privacy.budget import Budget
from hush.privacy.noise import DiscreteGaussian
from hush.privacy.selection import ExponentialMechanism, TopK
from hush.release.record import Round
from hush.render.text_table import counted
from hush.schema import Schema
from hush.workloads import Workload
from hush.workloads.threshold_term import TargetQuery

NAME = "rap"
ROUNDS_PER_COLUMN, MOST_ROUNDS = 2, 32
CELL_ROUNDS = 16
CELLS_PER_PRECISION = 16  # T K = N sqrt(rho) / 16: single answers get the more noise, the fewer are of use
COLUMN_SHARE, THRESHOLD_COLUMN_SHARE = 0.3, 0.5  # errors of columns add up in thresholds
CHOICE_SHARE = 0.25
PENALTY_SHARE = 0.5  # of what a table's noise is expected to leave, taken off its score
# of the rows: worst cells of tables are seldom further off, so selection must resolve errors this large
LARGEST_BLUR = 0.05
LARGEST_THRESHOLD_BLUR = 0.025  # an answer of a threshold adds up the errors of several cells
LARGEST_AT_ONCE_NOISE = 0.02  # of the rows: what rounds would hardly do better than
DEFAULT_RESTRAINT = 0.2  # how far the last rows stay from following the noise
CELL_CHOICE_SHARE = 0.5
DEFAULT_ROWS = 300
SHARED_FRACTION = 0.95  # of rows at the start, so that columns which no table ties stay nearly independent
LARGEST_ORDER = 3  # of tables measured whole
MOST_CELLS = 1 << 24  # of a table of merged levels that is chosen from
MOST_LEVELS = 1 << 11  # of a column in such tables
ANSWER_CELLS = 2  # single answers are as many cells again
MOST_TABLES, MOST_AT_ONCE = 1 << 13, 1 << 22  # tables measured at once, and by default their cells
ROUND_TOLERANCE, ROUND_ITERATIONS, FEWEST_ITERATIONS = 0.2, 60, 10  # of the fits between rounds
LAST_TOLERANCE, AT_ONCE_TOLERANCE, LAST_ITERATIONS = 0.05, 0.02, 400
MOST_FIT_PRODUCTS = 6e9  # of a fit between rounds, which has fewer iterations beyond; eight times as many at last


@dataclass(frozen=True, kw_only=True)
class RAP(Mechanism):
    """Relaxed adaptive projection: measures the worst answers of relaxed rows in T rounds of K, or all tables at once.

    `column_share` of the budget measures every column, by default 0.3, or 0.5 where thresholds are asked: they add up
    the errors of columns. Levels below three standard deviations of that noise are counted together from then on, and
    so are all but the 2,047 most frequent levels of a column. Each round compares relaxed rows with the data and
    chooses K candidates, once for all, by the exponential mechanism without replacement; it measures them and fits the
    rows to all noisy numbers.

    `measure="auto"` is "all" where sigma sqrt(2 log n), about the largest of its n noises, is at most a fiftieth of the
    rows; for thresholds the same of pairs alone, if triples have more. It is "tables" otherwise, or if `rounds` or
    `queries` are given.
    `measure="tables"`: candidates are tables over up to three columns of one asked clique. A table's score is its
    largest error, |M_r(D) - M_r(p)| over cells of levels of their own, less half of sigma sqrt(2 log n_r), about what
    its noise would leave. A choice among m tables sees errors of about (2 / epsilon) log m rows; where that is more
    than a twentieth of the rows, for thresholds a fortieth, worst cells would be chosen at random, and the score is the
    sum of all errors less half of sigma n_r sqrt(2 / pi), as AIM has it. The table is measured whole, which costs what
    one of its cells does. K is 1, and T two for each column asked for, 32 at most. The last rows stop before they
    follow the noise, by `restraint`; see `fit_relaxed`.
    `measure="cells"`: candidates are single answers, cells of asked marginals and targets of asked thresholds, as in
    the document; columns, rare levels and fits are as above. T is 16, and T K is N sqrt(rho) / 16.
    `measure="all"`: no choice; every asked marginal once, and for r of k columns all tables over two to r + 1 of them,
    three at most; the non-adaptive form.

    `rounds`, `queries` and `rows` set T, K and the number of relaxed rows; `choice_share` is the share of a round that
    pays for its choice. A T or K tuned on the data is not private.

    Privacy: rho-zCDP of the budget, by the account's filter. A score moves by at most one for each row of a unit,
    added, removed or exchanged; a sum of errors by two for one exchanged. K choices cost K times epsilon^2 / 8.
    Reference: [Avent 2023, Alg. 4.1, 4.2, 4.4]; [Aydore et al. 2021]; [Durfee and Rogers 2019] for K at once.
    Differs from [Avent 2023]: K choices at once have the noise of K choices at rho_t / (2 K) each, a Gumbel scale of
    sqrt(K / rho_t), where the printed scale spends 1.5 rho_t; answers chosen before are left out by name, never by
    position; neighbours add or remove a row, so the number of rows is noisy and known from the columns; rare levels
    are counted together; rows start nearly alike and are fitted to noisy numbers weighted by their noise, where the
    document starts at random, clips answers to [0, 1] and weights all alike.

    >>> import hush
    >>> workload = hush.Workload.kway(hush.Domain({"age": 85, "sex": 2, "race": 5}), 3)
    >>> hush.plan(workload, hush.Budget(rho=0.5), mechanism=RAP())
    Plan(rap, 1 tables, rho=0.5)
    """

    name: ClassVar[str] = NAME
    description: ClassVar[str] = "round by round, what relaxed rows get most wrong; of one size whatever is asked"
    workload_aware: ClassVar[bool] = True
    data_aware: ClassVar[bool] = True
    efficiency_aware: ClassVar[bool] = True
    refits: ClassVar[bool] = True
    reference: ClassVar[str] = "Avent 2023, Alg. 4.1"
    errors_known: ClassVar[str] = "columns"

    measure: str = "auto"
    rounds: int | None = None
    queries: int | None = None
    rows: int = DEFAULT_ROWS
    column_share: float | None = None
    choice_share: float | None = None
    restraint: float = DEFAULT_RESTRAINT
    seed: int = 0  # of the rows' start; public

    def __post_init__(self) -> None:
        check_choice(WorkloadError, "measure", self.measure, ("auto", "tables", "cells", "all"))
        for name, least in (("rounds", 1), ("queries", 1), ("rows", 1), ("seed", 0)):
            value = getattr(self, name)
            if value is not None or name in ("rows", "seed"):
                object.__setattr__(self, name, check_whole(WorkloadError, name, value, least=least))
        for name in ("column_share", "choice_share"):
            if getattr(self, name) is not None:
                check_number(BudgetError, name, getattr(self, name), above=0, below=1)
        check_number(WorkloadError, "restraint", self.restraint, least=0, below=1)
        if self.measure == "all" and (self.rounds is not None or self.queries is not None):
            raise WorkloadError("measure='all' has no rounds; leave rounds and queries out")

    @property
    def decides(self) -> bool:
        """Whether the noise of all tables decides on rounds."""
        return self.measure == "auto" and self.rounds is None and self.queries is None

    @property
    def choosing(self) -> Fraction:
        """The share of a round that pays for its choice."""
        usual = CELL_CHOICE_SHARE if self.measure == "cells" else CHOICE_SHARE
        return Fraction(usual if self.choice_share is None else self.choice_share)

    def for_columns(self, workload: Workload) -> Fraction:
        """The share of the budget that measures the columns."""
        usual = THRESHOLD_COLUMN_SHARE if asks_thresholds(workload) else COLUMN_SHARE
        return Fraction(usual if self.column_share is None else self.column_share)

    def planned_rounds(self, workload: Workload) -> int:
        """T."""
        asked = {name for clique in workload.cliques for name in clique}
        usual = CELL_ROUNDS if self.measure == "cells" else min(ROUNDS_PER_COLUMN * max(len(asked), 1), MOST_ROUNDS)
        return self.rounds or usual

    def check(self, workload: Workload, budget: Budget) -> None:
        """Refuse a budget whose noise could not be drawn, and more tables at once than can be kept."""
        first = self.for_columns(workload) * budget.limit / len(workload.domain)
        DiscreteGaussian(1 / (2 * first))
        if self.measure == "all" and (count := count_whole(asked_of(workload))) > MOST_TABLES:
            raise WorkloadError(
                f"measure='all' would measure {count:,} tables, more than {MOST_TABLES:,}; use measure='tables', or "
                "ask for thresholds of fewer columns"
            )

    def check_table(self, plan: Plan, schema: Schema) -> None:
        """Refuse rules, which relaxed rows cannot keep."""
        refuse_rules(schema)

    def memory(self, plan: Plan, schema: Schema) -> int:
        """The columns, relaxed rows over merged levels, and all tables at once or the smallest to choose from.

        Rounds choose among no more tables than what is left of the memory is enough for.
        """
        domain, asked = plan.domain, asked_of(plan.workload)
        widths = {name: min(domain[name], MOST_LEVELS) for name in domain}
        sizes = [math.prod(widths[name] for name in clique) for clique in candidate_tables(domain, asked)]
        wholes = [math.prod(widths[name] for name in clique) for clique in whole_tables(domain, asked)]
        wholes = [size for size in wholes if size <= MOST_CELLS]
        smallest = min(sizes, default=0)
        at_once = sum(wholes) if self.measure == "all" else MOST_AT_ONCE if self.decides else 0
        measured = max(smallest, min(at_once, sum(wholes)))
        largest = max((size for size in wholes if size <= measured), default=0)
        numbers = sum(domain.shape)
        fit = relaxed_bytes(self.rows, list(widths.values()), numbers, max(largest, smallest))
        return (
            fit
            + MEASURED_AND_FITTED_BYTES * measured
            + MEASURED_BYTES * numbers
            + SCORED_BYTES * ANSWER_CELLS * smallest
        )

    def describe(self, plan: Plan) -> list[tuple[str, str]]:
        rounds = self.planned_rounds(plan.workload)
        first = OneWay.of(plan, list(plan.domain), self.for_columns(plan.workload) * plan.rho / len(plan.domain))
        each = "the worst single answers" if self.measure == "cells" else counted(self.queries or 1, "table")
        chosen = f"{rounds:,} rounds, each of which chooses and measures {each}"
        at_once = "every asked table at once, rare levels counted together"
        then = [("Then", at_once if self.measure == "all" else chosen)]
        if self.decides:
            then = [("Then", f"{at_once}, if that leaves little noise"), ("Else", chosen)]
        return [
            (
                "Starts with",
                f"{len(plan.domain):,} one-way tables, standard error {noise_text(first.stddev)} of a count",
            ),
            *then,
            ("Model", f"{self.rows:,} relaxed rows"),
        ]

    def work(self, workload: Workload) -> str:
        fits = 1 if self.measure == "all" else self.planned_rounds(workload)
        return (
            f"{counted(fits, 'fit')} of {self.rows:,} relaxed rows, seconds to half a minute in all; memory for the "
            "rows and the tables"
        )

    def run(self, session: Session, plan: Plan) -> None:
        """All rounds, or those that an interrupted run has left."""
        RAPRun(self, session, plan.workload).run()


class RAPRun:
    """The state of one run: what is asked, and which levels have counts of their own."""

    def __init__(self, settings: RAP, session: Session, workload: Workload) -> None:
        self.settings = settings
        self.session = session
        self.asked = asked_of(workload)
        self.rounds = settings.planned_rounds(workload)
        self.column_share = settings.for_columns(workload)
        self.told_apart = LARGEST_THRESHOLD_BLUR if asks_thresholds(workload) else LARGEST_BLUR
        self.tables = 1  # to choose from
        self.levels = RunLevels(session)
        self.kept: dict[str, int] = {}
        self.sizes: dict[str, int] = {}

    def run(self) -> None:
        session, settings = self.session, self.settings
        pool = list(candidate_tables(session.domain, self.asked))
        self._columns(self.column_share if pool else Fraction(1))
        self.levels = RunLevels.rare(session, MOST_LEVELS)
        self._levels()
        pool = self._scorable(pool)
        self.tables = max(len(pool), 1)
        model = self._fit(None, final=used_up(session.remaining, session.limit))
        at_once = self._at_once()
        if at_once:
            model = self._measure_all(at_once)
        while not used_up(session.remaining, session.limit):
            left = max(self.rounds - self._played(), 1)
            share = session.remaining / left
            play = self._cells if settings.measure == "cells" else self._tables
            if pool:
                play(model, pool, share, left == 1)
            else:
                self._columns_again()
            model = self._fit(model, final=used_up(session.remaining, session.limit))

    def _played(self) -> int:
        """How many rounds are on record."""
        each = self._queries() if self.settings.measure == "cells" else min(self.settings.queries or 1, self.tables)
        return -(-len(self.session.record.rounds) // each)

    def _at_once(self) -> list[Clique]:
        """The tables to measure without a choice; none if rounds are to choose."""
        ways = [whole_tables(self.session.domain, self.asked, order) for order in (LARGEST_ORDER, 2)]
        if self.settings.measure == "all":
            return [clique for clique in ways[0] if self._cells_of(clique) <= MOST_CELLS]
        return next(filter(self._little_noise, ways), []) if self.settings.decides else []

    def _little_noise(self, cliques: Sequence[Clique]) -> bool:
        """Whether tables that share the budget beyond the columns have noise that rounds would hardly do better than.

        Of noisy columns and public numbers alone, so that a resumed run decides the same.
        """
        session = self.session
        cells = sum(map(self._cells_of, cliques))
        if not cliques or cells > MOST_AT_ONCE:
            return False
        stddev = session.law((1 - self.column_share) * session.limit / len(cliques)).stddev
        return stddev * math.sqrt(2 * math.log(cells)) <= LARGEST_AT_ONCE_NOISE * self._total()

    def _total(self) -> float:
        """The number of rows, of the columns alone."""
        session = self.session
        columns = [table for table in session.measurements if len(table.clique) == 1][: len(session.domain)]
        return estimate_total(session.domain, columns)[0]

    def _columns(self, share: Fraction) -> None:
        """Measure the columns, or those that an interrupted run has not paid for yet."""
        session, known = self.session, {table.clique for table in self.session.noisy_tables}
        missing = [(name,) for name in session.domain if (name,) not in known]
        if missing:
            cost = min(share * session.limit / len(session.domain), session.remaining / len(missing))
            session.measure(missing, cost, note=f"{NAME}: {len(missing)} columns")

    def _levels(self) -> None:
        session = self.session
        codes = {} if self.levels.merging is None else self.levels.merging.codes
        for name in session.domain:
            merged = name in codes
            self.sizes[name] = int(codes[name].max()) + 1 if merged else session.domain[name]
            self.kept[name] = self.sizes[name] - 1 if merged else self.sizes[name]

    def _cells_of(self, clique: Clique) -> int:
        """The cells of a table after merging rare levels."""
        return math.prod(self.sizes[name] for name in clique)

    def _scorable(self, cliques: Sequence[Clique], times: int = 1) -> list[Clique]:
        """The tables that can be counted and scored together, `times` over: the smallest, as far as memory goes.

        Of noisy columns and public numbers alone.
        """
        most, left = min(MOST_CELLS, self.session.memory.numbers), self.session.memory.scorable_cells / times
        kept: set[Clique] = set()
        for clique in sorted(cliques, key=self._cells_of):
            left -= self._cells_of(clique)
            if kept and (left < 0 or self._cells_of(clique) > most):
                break
            if self.levels.gate.can_count(clique):
                kept.add(clique)
        return [clique for clique in cliques if clique in kept]

    def _columns_again(self) -> None:
        """Spend all that is left on the columns."""
        session = self.session
        columns = [self.levels.query((name,)) for name in session.domain]
        session.measure(columns, session.remaining / len(columns), note=NAME)

    def _fit(self, start: RelaxedRows | None, *, final: bool) -> RelaxedRows:
        settings = self.settings
        products = settings.rows * sum(table.numbers for table in self.session.noisy_tables)
        most, work = (LAST_ITERATIONS, 8 * MOST_FIT_PRODUCTS) if final else (ROUND_ITERATIONS, MOST_FIT_PRODUCTS)
        chosen = bool(self.session.record.rounds)
        return self.session.fit_with(
            fit_relaxed,
            start=start,
            rows=settings.rows,
            start_shared=SHARED_FRACTION,
            seed=settings.seed,
            tolerance=(LAST_TOLERANCE if chosen else AT_ONCE_TOLERANCE) if final else ROUND_TOLERANCE,
            restraint=settings.restraint if final and chosen and settings.measure != "cells" else 0.0,
            iterations=min(most, max(FEWEST_ITERATIONS * (4 if final else 1), int(work / products))),
        ).value

    def _blocks(self, model: RelaxedRows) -> dict[str, Floats]:
        """The rows over the levels that are measured, level by level: (levels, rows)."""
        codes = {} if self.levels.merging is None else self.levels.merging.codes
        blocks = {}
        for name in self.session.domain:
            merged = model.coarse.regrouped(name, model.block(name), codes.get(name))
            blocks[name] = np.ascontiguousarray(merged.T)
        return blocks

    def _predicted(self, model: RelaxedRows, cliques: Sequence[Clique]) -> dict[Clique, Floats]:
        blocks = self._blocks(model)
        return {
            clique: model.total * mean_product([blocks[name] for name in clique], model.weights) for clique in cliques
        }

    def _tables(self, model: RelaxedRows, pool: Sequence[Clique], share: Fraction, last: bool) -> None:
        """Choose the tables with the worst cells, and measure them whole."""
        session = self.session
        cliques = tuple(pool)
        count = min(self.settings.queries or 1, len(cliques))
        choosing = self.settings.choosing * share
        stddev = session.law((share - choosing) / count).stddev
        tables = on_grid(self._predicted(model, cliques))
        cells = np.array([tables[clique].size for clique in cliques])
        law = TopK(count, ExponentialMechanism.for_rho(choosing / count).epsilon)
        blurred = 2 / float(law.epsilon) * math.log(len(cliques)) > self.told_apart * model.total
        left = cells * math.sqrt(2 / math.pi) if blurred else np.sqrt(2 * np.log(np.maximum(cells, 2)))
        steps = np.rint(PENALTY_SHARE * stddev * left / MODEL_COUNT_STEP)
        penalties = np.minimum(steps * MODEL_COUNT_STEP, LARGEST_MISFIT)
        scorer: MisfitScorer | WorstCellScorer
        if blurred:
            scorer = MisfitScorer(cliques, tables, np.ones(len(cliques)), penalties)
        else:
            scorer = WorstCellScorer(cliques, tables, self.kept, penalties)
        number = self._played() + 1
        picks = self.levels.gate.select(scorer, law, note=f"{NAME}: choice {number}")
        measuring = session.remaining if last else share - choosing
        noisy = self.levels.measure([cliques[pick] for pick in picks], measuring / count, note=f"{NAME}: {number}")
        for pick, table in zip(picks, noisy, strict=True):
            misfit = float(np.abs(tables[cliques[pick]] - table.values).sum())
            self._record(table.clique, law, table.stddev, len(cliques), misfit, float(penalties[pick]), model.size_mb)

    def _queries(self) -> int:
        """K of single answers: T K = N sqrt(rho) / 16."""
        if self.settings.queries is not None:
            return self.settings.queries
        precision = math.sqrt(float(self.session.limit) / float(self.session.bound.l2_squared))
        return max(1, round(self._total() * precision / (CELLS_PER_PRECISION * self.rounds)))

    def _cells(self, model: RelaxedRows, pool: Sequence[Clique], share: Fraction, last: bool) -> None:
        """Choose the worst single answers, and measure them."""
        session = self.session
        known = [clique for clique, _ in self.asked if all(self.kept[name] for name in clique)]
        able = set(self._scorable(list(dict.fromkeys(known)), ANSWER_CELLS))
        fitting = [(clique, at_least) for clique, at_least in self.asked if clique in able]
        if not fitting:
            self._columns_again()
            return
        tables = self._predicted(model, [clique for clique, _ in fitting])
        steps = [np.rint(threshold_answers(tables[clique], r) / MODEL_COUNT_STEP) for clique, r in fitting]
        answers = tuple(step * MODEL_COUNT_STEP for step in steps)
        scorer = TargetScorer(tuple(fitting), answers, self.kept, self._known(fitting))
        count = min(self._queries(), scorer.candidates)
        choosing = self.settings.choosing * share
        law = TopK(count, ExponentialMechanism.for_rho(choosing / count).epsilon)
        number = self._played() + 1
        picks = self.levels.gate.select(scorer, law, note=f"{NAME}: choice {number}")
        positions = scorer.positions()
        queries = [self._query(*scorer.target(int(positions[pick]))) for pick in picks]
        measuring = session.remaining if last else share - choosing
        noisy = self.levels.measure(queries, measuring / count, note=f"{NAME}: {number}")
        for answer in noisy:
            self._record(answer.clique, law, answer.stddev, scorer.candidates, 0.0, 0.0, model.size_mb)

    def _query(self, clique: Clique, at_least: int, levels: tuple[int, ...]) -> TargetQuery:
        """The answer in levels of the domain."""
        codes = {} if self.levels.merging is None else self.levels.merging.codes
        target = tuple(
            int(np.flatnonzero(codes[name] == level)[0]) if name in codes else level
            for name, level in zip(clique, levels, strict=True)
        )
        return TargetQuery(clique, self.session.domain.sizes(clique), target, at_least)

    def _known(self, asked: Sequence[tuple[Clique, int]]) -> tuple[int, ...]:
        """The positions of the answers that were measured before; none if all were, so that they are chosen anew."""
        starts, start = {}, 0
        for clique, at_least in asked:
            starts[clique, at_least] = start
            start += math.prod(self.kept[name] for name in clique)
        known = []
        for table in self.session.noisy_tables:
            query = table.asked
            if isinstance(query, TargetQuery) and (query.clique, query.at_least) in starts:
                levels = self.levels.target(query).target
                shape = [self.kept[name] for name in query.clique]
                known.append(starts[query.clique, query.at_least] + int(np.ravel_multi_index(levels, shape)))
        distinct = tuple(sorted(set(known)))
        return distinct if len(distinct) < start else ()

    def _measure_all(self, at_once: Sequence[Clique]) -> RelaxedRows:
        """Every table once, with equal shares of what is left."""
        session = self.session
        known = {table.clique for table in session.noisy_tables}
        cliques = [clique for clique in at_once if clique not in known]
        if cliques and not used_up(session.remaining, session.limit):
            self.levels.measure(cliques, session.remaining / len(cliques), note=f"{NAME}: {len(cliques)} tables")
        return self._fit(None, final=True)

    def _record(
        self, clique: Clique, law: TopK, stddev: float, among: int, misfit: float, penalty: float, size_mb: float
    ) -> None:
        self.session.ended(
            Round(
                clique=clique,
                epsilon=float(law.epsilon),
                stddev=stddev,
                candidates=among,
                misfit=misfit,
                penalty=penalty,
                weight=1.0,
                annealed=False,
                size_mb=size_mb,
            )
        )


def asks_thresholds(workload: Workload) -> bool:
    """Whether some answers need fewer than all columns of their clique to agree."""
    return any(term.columns_to_agree < len(term.clique) for term in workload)


def asked_of(workload: Workload) -> tuple[tuple[Clique, int], ...]:
    """The cliques of a workload, each with how many of its columns are to agree."""
    return tuple(dict.fromkeys((term.clique, term.columns_to_agree) for term in workload if term.clique))


def whole_tables(domain: Domain, asked: Sequence[tuple[Clique, int]], largest: int = LARGEST_ORDER) -> list[Clique]:
    """The asked marginals, and for r of k columns the tables over two to r + 1 of them, `largest` at most.

    None if they are too many.

    >>> whole_tables(Domain(dict.fromkeys("abc", 2)), [(("a", "b", "c"), 1), (("a", "c"), 2)])
    [('a', 'b'), ('a', 'c'), ('b', 'c')]
    """
    if count_whole(asked, largest) > MOST_TABLES:
        return []
    inside = [(domain.clique(clique), order) for clique, r in asked for order in _orders(clique, r, largest)]
    return sorted({names for clique, order in inside for names in combinations(clique, order)})


def count_whole(asked: Sequence[tuple[Clique, int]], largest: int = LARGEST_ORDER) -> int:
    """How many whole tables those are, counted for each clique by itself."""
    return sum(math.comb(len(clique), order) for clique, r in asked for order in _orders(clique, r, largest))


def _orders(clique: Clique, at_least: int, largest: int) -> range:
    k = len(clique)
    return range(k, k + 1) if at_least == k else range(2, min(k, at_least + 1, largest) + 1)


def candidate_tables(domain: Domain, asked: Sequence[tuple[Clique, int]]) -> Iterator[Clique]:
    """The pairs and triples inside the asked cliques, each once, in domain order; for thresholds the columns too."""
    for order in range(1, LARGEST_ORDER + 1):
        inside = [clique for clique, at_least in asked if order > 1 or at_least < len(clique)]
        yield from sorted({names for clique in inside for names in combinations(domain.clique(clique), order)})
