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
from hush.core.validation import check_choice, check_flag, check_number, check_whole
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
from hush.mechanisms.published.rap_as_published import (
    PUBLISHED_QUERIES,
    PUBLISHED_ROUNDS,
    TOTAL_SHARE,
    RoundFit,
    check_at_once,
    counted_at_once,
    published_sizes,
    replayed_fits,
    run_as_published,
)
from hush.mechanisms.session import MEASURED_AND_FITTED_BYTES, Session
from hush.models.fit_arguments import estimate_total
from hush.models.relaxed.projected_rows import distance_power
from hush.models.relaxed.relaxed_fit import fit_relaxed, relaxed_bytes
from hush.models.relaxed.relaxed_rows import RelaxedRows, mean_product
from hush.privacy.account import used_up
from hush.privacy.budget import Budget
from hush.privacy.noise import DiscreteGaussian
from hush.privacy.selection import ExponentialMechanism, TopK
from hush.release.record import Round
from hush.release.release import Release
from hush.render.text_table import counted
from hush.schema import Schema
from hush.workloads import Workload
from hush.workloads.threshold_term import TargetQuery

ROUNDS_PER_COLUMN, MOST_ROUNDS = 2, 32
CELL_ROUNDS = 16
CELLS_PER_PRECISION = 16  # T K = N sqrt(rho) / 16: the noisier single answers are, the fewer are of use
COLUMN_SHARE, THRESHOLD_COLUMN_SHARE = 0.3, 0.5  # errors of columns add up in thresholds
CHOICE_SHARE = 0.25
PENALTY_SHARE = 0.5  # of the error that a table's noise is expected to leave, subtracted from its score
# The largest error, over the number of rows, that a choice by worst cells may fail to resolve: worst cells are seldom
# further off. An answer of a threshold adds up the errors of several cells.
LARGEST_BLUR, LARGEST_THRESHOLD_BLUR = 0.05, 0.025
LARGEST_AT_ONCE_NOISE = 0.02  # over the number of rows: rounds would hardly do better
DEFAULT_RESTRAINT = 0.2  # how far the last rows stay from following the noise
CELL_CHOICE_SHARE = 0.5
DEFAULT_ROWS = 300
SHARED_FRACTION = 0.95  # of rows at the start, so that columns which no table ties stay nearly independent
LARGEST_ORDER = 3  # of tables measured whole
MOST_CELLS = 1 << 24  # of a table of merged levels that is chosen from
MOST_LEVELS = 1 << 11  # of a column in such tables
ANSWER_CELLS = 2  # a table, and as many single answers
MOST_TABLES, MOST_AT_ONCE = 1 << 13, 1 << 22  # tables measured at once, and by default their cells
ROUND_TOLERANCE, ROUND_ITERATIONS, FEWEST_ITERATIONS = 0.2, 60, 10  # of the fits between rounds
LAST_TOLERANCE, AT_ONCE_TOLERANCE, LAST_ITERATIONS = 0.05, 0.02, 400
MOST_FIT_PRODUCTS = 6e9  # of a fit between rounds, which has fewer iterations beyond; eight times as many at last


@dataclass(frozen=True, kw_only=True)
class RAP(Mechanism):
    """Relaxed adaptive projection: T rounds that measure the K worst answers of relaxed rows, or all tables at once.

    `column_share` of the budget measures every column: by default 0.3, or 0.5 if the workload asks for thresholds,
    whose answers add up the errors of columns. From then on, levels with noisy counts below three standard deviations
    are counted together, and so are all but the 2,047 most frequent levels of a column. Each round compares relaxed
    rows with the data, chooses K candidates by the exponential mechanism without replacement, measures them, and fits
    the rows to all noisy numbers.

    `measure="all"`: no choice; every asked marginal once, and for thresholds of r columns all tables over two to r + 1
    of them, at most three; the non-adaptive form.
    `measure="tables"`: the candidates are tables over up to three columns of one asked clique. The score of a table is
    its largest error |M_r(D) - M_r(p)| over cells without merged levels, minus half of sigma sqrt(2 log n_r), about the
    error that its own noise would leave. A choice among m tables resolves errors of about (2 / epsilon) log m rows. If
    that is more than a twentieth of the rows (a fortieth for thresholds), a choice by worst cells would be random, and
    the score is the sum of all errors minus half of sigma n_r sqrt(2 / pi), as in AIM. The table is measured whole, at
    the price of one of its cells. By default K is 1, and T is two for each asked column, at most 32. The last fit stops
    before the rows follow the noise, by `restraint`; see `fit_relaxed`.
    `measure="cells"`: the candidates are single answers, cells of asked marginals and targets of asked thresholds, as
    published; columns, rare levels and fits are as above. By default T is 16, and T K is N sqrt(rho) / 16.
    `measure="auto"` is "all" if the largest noise of n cells, about sigma sqrt(2 log n), is at most a fiftieth of the
    rows; for thresholds with pairs only, if triples are too noisy. Otherwise it is "tables", as it is if `rounds` or
    `queries` are given.

    `paper=True` is RAP as published: no columns first, single answers, an even split of every round, rows that start at
    random and are projected onto the simplex after each step of Adam. By default T is 16 and K is 4; the document tunes
    both, and has 1,000 rows. `selection` is "one-shot" or "iterative", which is the same law. `distance` is "l2",
    "linf", or another norm such as "l5". `measure="all"` is the non-adaptive form. See `rap_as_published`.

    `rounds`, `queries` and `rows` set T, K and the number of relaxed rows; `choice_share` is the share of a round that
    pays for its choice. A T or K tuned on the data is not private.

    Privacy: rho-zCDP of the budget, by the account's filter. Each row of a unit, added, removed or exchanged, moves a
    score by at most one; an exchanged row moves a sum of errors by at most two. K choices cost K times epsilon^2 / 8.
    Reference: [Avent 2023, Alg. 4.1, 4.2, 4.4]; [Aydore et al. 2021]; [Durfee and Rogers 2019] for K at once.
    Differs from [Avent 2023]: K choices at once have the noise of K choices at rho_t / (2 K) each, a Gumbel scale of
    sqrt(K / rho_t), where the printed scale spends 1.5 rho_t; answers chosen before are left out by name, never by
    position; neighbours add or remove a row, so the number of rows is estimated from the noisy columns; rare levels are
    counted together; rows start nearly alike and are fitted to noisy numbers weighted by their noise, where the
    document starts at random, clips answers to [0, 1] and weights all equally (`paper=True` does).

    >>> import hush
    >>> workload = hush.Workload.kway(hush.Domain({"age": 85, "sex": 2, "race": 5}), 3)
    >>> hush.plan(workload, hush.Budget(rho=0.5), mechanism=RAP())
    Plan(rap, 1 tables, rho=0.5)
    """

    name: ClassVar[str] = "rap"
    description: ClassVar[str] = "round by round, what relaxed rows get most wrong; fixed model size"
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
    paper: bool = False
    selection: str = "one-shot"  # of the published form
    distance: str = "l2"  # of the published form

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
        self._check_paper()
        if self.measure == "all" and (self.rounds is not None or self.queries is not None):
            raise WorkloadError("measure='all' has no rounds; leave rounds and queries out")

    def _check_paper(self) -> None:
        """Refuse settings that the published form has not, or that it alone has."""
        check_flag(WorkloadError, "paper", self.paper)
        check_choice(WorkloadError, "selection", self.selection, ("one-shot", "iterative"))
        distance_power(self.distance)
        ours = self.column_share, self.choice_share
        if self.paper and (self.measure not in ("auto", "all") or ours != (None, None)):
            raise WorkloadError("paper=True is RAP as published; leave measure, column_share and choice_share out")
        if self.paper and self.restraint != DEFAULT_RESTRAINT:
            raise WorkloadError("paper=True is RAP as published, which has no restraint; leave restraint out")
        if not self.paper and (self.selection, self.distance) != ("one-shot", "l2"):
            raise WorkloadError("selection and distance are settings of the published form; add paper=True")

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
        if self.paper:
            return self.rounds or PUBLISHED_ROUNDS
        asked = {name for clique in workload.cliques for name in clique}
        usual = CELL_ROUNDS if self.measure == "cells" else min(ROUNDS_PER_COLUMN * max(len(asked), 1), MOST_ROUNDS)
        return self.rounds or usual

    def check(self, workload: Workload, budget: Budget) -> None:
        """Refuse a budget whose noise could not be drawn, and more tables at once than can be kept."""
        if self.paper:
            DiscreteGaussian(1 / (2 * TOTAL_SHARE * budget.limit))
            if self.measure == "all":
                check_at_once(workload.domain, asked_of(workload))
            return
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
        if self.paper:
            answers, largest = published_sizes(domain, asked)
            scored = SCORED_BYTES * ANSWER_CELLS * answers
            return relaxed_bytes(self.rows, domain.shape, sum(domain.shape), largest) + scored
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

    def counted(self, plan: Plan, schema: Schema) -> Sequence[Clique]:
        """The tables that one step counts: the columns, or as published all asked tables."""
        return counted_at_once(asked_of(plan.workload)) if self.paper else super().counted(plan, schema)

    def describe(self, plan: Plan) -> list[tuple[str, str]]:
        if self.paper:
            each = counted(self.queries or PUBLISHED_QUERIES, "single answer")
            chosen = f"{self.planned_rounds(plan.workload):,} rounds, each of which chooses and measures {each}"
            next_step = "every asked answer by itself" if self.measure == "all" else chosen
            rows = [("Starts with", "the number of rows"), ("Then", next_step)]
            return [*rows, ("Model", f"{self.rows:,} projected rows")]
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
        if self.paper:
            run_as_published(self, session, asked_of(plan.workload))
            return
        RAPRun(self, session, plan.workload).run()

    @classmethod
    def fits(cls, release: Release) -> Iterator[RoundFit]:
        """The training of a release as published: the start of its rows, then the rows and distances of each round.

        The fits are made again from the noisy answers of the release, step by step as when it was made.

        Privacy: post-processing.
        """
        made_by = getattr(release, "mechanism", type(release).__name__)
        settings = cls.from_settings(release.settings) if made_by == cls.name else None
        if settings is None or not settings.paper:
            raise WorkloadError(
                f"{made_by}: expected a release of RAP(paper=True); other releases list their rounds in `rounds`"
            )
        return replayed_fits(settings, release, asked_of(release.workload))


class RAPRun:
    """The state of one run: what is asked, and which levels are merged."""

    def __init__(self, settings: RAP, session: Session, workload: Workload) -> None:
        self.settings = settings
        self.session = session
        self.asked = asked_of(workload)
        self.rounds = settings.planned_rounds(workload)
        self.column_share = settings.for_columns(workload)
        self.largest_blur = LARGEST_THRESHOLD_BLUR if asks_thresholds(workload) else LARGEST_BLUR
        self.tables = 1  # to choose from
        self.levels = RunLevels(session)
        self.kept: dict[str, int] = {}  # how many levels of each column are not merged; they come first

    def run(self) -> None:
        session, domain = self.session, self.session.domain
        pool = list(candidate_tables(domain, self.asked))

        # Measure the columns that an interrupted run has not paid for yet, and merge their rare levels.
        known = {table.clique for table in session.noisy_tables}
        missing = [(name,) for name in domain if (name,) not in known]
        if missing:
            share = self.column_share if pool else Fraction(1)
            cost = min(share * session.limit / len(domain), session.remaining / len(missing))
            session.measure(missing, cost, note=f"{RAP.name}: {len(missing)} columns")
        self.levels = RunLevels.rare(session, MOST_LEVELS)
        self.kept = {name: self.levels.cells((name,)) - (name in self.levels.codes) for name in domain}
        pool = self._scorable(pool)
        self.tables = max(len(pool), 1)
        model = self._fit(None, final=used_up(session.remaining, session.limit))

        # Measure all tables at once, with equal shares, if that is asked for or leaves little noise.
        if at_once := self._at_once():
            known = {table.clique for table in session.noisy_tables}
            cliques = [clique for clique in at_once if clique not in known]
            if cliques and not used_up(session.remaining, session.limit):
                cost = session.remaining / len(cliques)
                self.levels.measure(cliques, cost, note=f"{RAP.name}: {len(cliques)} tables")
            model = self._fit(None, final=True)

        # Else spend the budget in rounds, or on the columns if no table can be scored.
        while not used_up(session.remaining, session.limit):
            left = max(self.rounds - self._played(), 1)
            play = self._cells if self.settings.measure == "cells" else self._tables
            if pool:
                play(model, pool, session.remaining / left, left == 1)
            else:
                self._columns_again()
            model = self._fit(model, final=used_up(session.remaining, session.limit))

    def _played(self) -> int:
        """How many rounds are on record."""
        each = self._queries() if self.settings.measure == "cells" else min(self.settings.queries or 1, self.tables)
        return -(-len(self.session.record.rounds) // each)

    def _at_once(self) -> list[Clique]:
        """The tables to measure without a choice: triples or pairs whose noise rounds would hardly beat; else none.

        Depends on noisy columns and public numbers only, so a resumed run decides the same.
        """
        session, cells_of = self.session, self.levels.cells
        ways = [whole_tables(session.domain, self.asked, order) for order in (LARGEST_ORDER, 2)]
        if self.settings.measure == "all":
            return [clique for clique in ways[0] if cells_of(clique) <= MOST_CELLS]
        for cliques in ways if self.settings.decides else ():
            cells = sum(map(cells_of, cliques))
            if cliques and cells <= MOST_AT_ONCE:
                stddev = session.law((1 - self.column_share) * session.limit / len(cliques)).stddev
                if stddev * math.sqrt(2 * math.log(cells)) <= LARGEST_AT_ONCE_NOISE * self._total():
                    return cliques
        return []

    def _total(self) -> float:
        """The number of rows, estimated from the columns alone."""
        session = self.session
        columns = [table for table in session.record.measurements() if len(table.clique) == 1][: len(session.domain)]
        return estimate_total(session.domain, columns)[0]

    def _scorable(self, cliques: Sequence[Clique], times: int = 1) -> list[Clique]:
        """The smallest tables that memory can count and score together, with `times` numbers for each cell.

        Depends on noisy columns and public numbers only.
        """
        most, left = min(MOST_CELLS, self.session.memory.numbers), self.session.memory.scorable_cells / times
        scorable: set[Clique] = set()
        for clique in sorted(cliques, key=self.levels.cells):
            cells = self.levels.cells(clique)
            left -= cells
            if scorable and (left < 0 or cells > most):
                break
            if self.levels.gate.can_count(clique):
                scorable.add(clique)
        return [clique for clique in cliques if clique in scorable]

    def _columns_again(self) -> None:
        """Spend all that is left on the columns."""
        session = self.session
        columns = [self.levels.query((name,)) for name in session.domain]
        session.measure(columns, session.remaining / len(columns), note=RAP.name)

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

    def _predicted(self, model: RelaxedRows, cliques: Sequence[Clique]) -> dict[Clique, Floats]:
        """The tables of the relaxed rows, with rare levels merged as they are measured."""
        blocks = {}  # (levels, rows) of every column
        for name in self.session.domain:
            merged = model.coarse.regrouped(name, model.block(name), self.levels.codes.get(name))
            blocks[name] = np.ascontiguousarray(merged.T)
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
        law = TopK(count, ExponentialMechanism.for_rho(session.choice_rho(choosing, count)).epsilon)
        # Score by worst cells, or by sums of errors if the choice could not resolve worst cells.
        blurred = 2 / float(law.epsilon) * math.log(len(cliques)) > self.largest_blur * model.total
        noise_left = cells * math.sqrt(2 / math.pi) if blurred else np.sqrt(2 * np.log(np.maximum(cells, 2)))
        steps = np.rint(PENALTY_SHARE * stddev * noise_left / MODEL_COUNT_STEP)
        penalties = np.minimum(steps * MODEL_COUNT_STEP, LARGEST_MISFIT)
        scorer: MisfitScorer | WorstCellScorer
        if blurred:
            scorer = MisfitScorer(cliques, tables, np.ones(len(cliques)), penalties)
        else:
            scorer = WorstCellScorer(cliques, tables, self.kept, penalties)
        # Choose privately, measure, record.
        number = self._played() + 1
        picks = self.levels.gate.select(scorer, law, note=f"{RAP.name}: choice {number}")
        measuring = session.remaining if last else share - choosing
        noisy = self.levels.measure([cliques[pick] for pick in picks], measuring / count, note=f"{RAP.name}: {number}")
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
        session, codes = self.session, self.levels.codes
        # The candidates: answers of tables that fit into memory, but for those that were measured before.
        with_cells = [clique for clique, _ in self.asked if all(self.kept[name] for name in clique)]
        scorable = set(self._scorable(list(dict.fromkeys(with_cells)), ANSWER_CELLS))
        fitting = [(clique, at_least) for clique, at_least in self.asked if clique in scorable]
        if not fitting:
            self._columns_again()
            return
        tables = self._predicted(model, [clique for clique, _ in fitting])
        steps = [np.rint(threshold_answers(tables[clique], r) / MODEL_COUNT_STEP) for clique, r in fitting]
        answers = tuple(step * MODEL_COUNT_STEP for step in steps)
        scorer = TargetScorer(tuple(fitting), answers, self.kept, self._measured_answers(fitting))
        # Choose privately, and name the chosen answers by levels of the domain.
        count = min(self._queries(), scorer.candidates)
        choosing = self.settings.choosing * share
        law = TopK(count, ExponentialMechanism.for_rho(session.choice_rho(choosing, count)).epsilon)
        number = self._played() + 1
        picks = self.levels.gate.select(scorer, law, note=f"{RAP.name}: choice {number}")
        positions = scorer.positions()
        queries, expected = [], []  # what is asked, and what the rows answer before this round
        for pick in picks:
            clique, at_least, levels = scorer.target(int(positions[pick]))
            expected.append(float(answers[fitting.index((clique, at_least))][levels]))
            target = tuple(
                int(np.flatnonzero(codes[name] == level)[0]) if name in codes else level
                for name, level in zip(clique, levels, strict=True)
            )
            queries.append(TargetQuery(clique, session.domain.sizes(clique), target, at_least))
        measuring = session.remaining if last else share - choosing
        noisy = self.levels.measure(queries, measuring / count, note=f"{RAP.name}: {number}")
        for answer, before in zip(noisy, expected, strict=True):
            misfit = abs(float(answer.values[0]) - before)
            self._record(answer.clique, law, answer.stddev, scorer.candidates, misfit, 0.0, model.size_mb)

    def _measured_answers(self, asked: Sequence[tuple[Clique, int]]) -> tuple[int, ...]:
        """The positions of the answers that were measured before; none if all were, so that rounds choose anew."""
        starts, start = {}, 0
        for clique, at_least in asked:
            starts[clique, at_least] = start
            start += math.prod(self.kept[name] for name in clique)
        measured = set()
        for table in self.session.noisy_tables:
            query = table.asked
            if isinstance(query, TargetQuery) and (query.clique, query.at_least) in starts:
                levels = self.levels.target(query).target
                shape = [self.kept[name] for name in query.clique]
                measured.add(starts[query.clique, query.at_least] + int(np.ravel_multi_index(levels, shape)))
        return tuple(sorted(measured)) if len(measured) < start else ()

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
    """Whether some answers count rows that agree in fewer than all columns of a clique."""
    return any(term.columns_to_agree < len(term.clique) for term in workload)


def asked_of(workload: Workload) -> tuple[tuple[Clique, int], ...]:
    """The cliques of a workload, each with how many of its columns are to agree."""
    return tuple(dict.fromkeys((term.clique, term.columns_to_agree) for term in workload if term.clique))


def whole_tables(domain: Domain, asked: Sequence[tuple[Clique, int]], largest: int = LARGEST_ORDER) -> list[Clique]:
    """The asked marginals, and for r of k columns the tables over two to r + 1 of them, at most `largest`.

    No table at all if there would be too many.

    >>> whole_tables(Domain(dict.fromkeys("abc", 2)), [(("a", "b", "c"), 1), (("a", "c"), 2)])
    [('a', 'b'), ('a', 'c'), ('b', 'c')]
    """
    if count_whole(asked, largest) > MOST_TABLES:
        return []
    inside = [(domain.clique(clique), order) for clique, r in asked for order in _orders(clique, r, largest)]
    return sorted({names for clique, order in inside for names in combinations(clique, order)})


def count_whole(asked: Sequence[tuple[Clique, int]], largest: int = LARGEST_ORDER) -> int:
    """The number of tables that `whole_tables` lists, with those that several cliques share counted for each."""
    return sum(math.comb(len(clique), order) for clique, r in asked for order in _orders(clique, r, largest))


def _orders(clique: Clique, at_least: int, largest: int) -> range:
    k = len(clique)
    return range(k, k + 1) if at_least == k else range(2, min(k, at_least + 1, largest) + 1)


def candidate_tables(domain: Domain, asked: Sequence[tuple[Clique, int]]) -> Iterator[Clique]:
    """The pairs and triples inside the asked cliques, each once, in domain order; for thresholds the columns too."""
    for order in range(1, LARGEST_ORDER + 1):
        inside = [clique for clique, at_least in asked if order > 1 or at_least < len(clique)]
        yield from sorted({names for clique in inside for names in combinations(domain.clique(clique), order)})
