"""aim: in each round, choose the table that the model answers worst, measure it and fit again."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from msgspec.structs import replace

from hush.core.arrays import Floats, Integers
from hush.core.domain import Clique
from hush.core.errors import BudgetError, WorkloadError, shown
from hush.core.memory import readable
from hush.core.solution import TOLERANCE, Solution
from hush.core.validation import check_choice, check_flag, check_number, check_whole, is_whole
from hush.mechanisms.candidates import Candidates, MisfitRounds, check_epsilon, on_grid
from hush.mechanisms.mechanism import CELL_MB, MEASURED_BYTES, SCORED_BYTES, CapacityMechanism, refuse_rules
from hush.mechanisms.merged_levels import RunLevels
from hush.mechanisms.plan import Plan
from hush.mechanisms.plan_errors import OneWay, noise_text
from hush.mechanisms.session import Session
from hush.models.distribution import Distribution
from hush.models.fit_arguments import estimate_total
from hush.models.graphical.graphical_model import GraphicalModel
from hush.models.relaxed.relaxed_fit import fit_relaxed, relaxed_bytes
from hush.models.relaxed.relaxed_rows import RelaxedRows
from hush.privacy.account import used_up
from hush.privacy.budget import Budget
from hush.privacy.noise import DiscreteGaussian
from hush.privacy.selection import ExponentialMechanism
from hush.render.progress_bar import duration
from hush.schema import Schema
from hush.workloads import Workload

# For the predicted time and memory: the least and the most that was seen.
SECONDS_PER_CELL = 20e-9  # of one iteration of a fit
FIT_ITERATIONS = (10, 60)  # of a fit between rounds
SECONDS_PER_CANDIDATE = (0.5e-3, 1.4e-3)  # in each round: sizes, counting, scoring, and a fit of a small model
ROUNDS_PLAYED = (2.5, 6.0)  # per column
MEAN_SIZE = (0.0, 0.2)  # of the models of a run, over the largest allowed
MEMORY_BASE = 3e8  # of Python and its libraries

ROUNDS_PER_COLUMN = 16  # T = 16 d
MEAN_ABSOLUTE = math.sqrt(2 / math.pi)  # E|z| of a standard normal z
DEFAULT_MEASURING_SHARE = 0.9
LARGEST_COLUMN_NOISE, LARGEST_COLUMN_SHARE = 0.1, 0.5  # of the counts; of the budget that may be spent to reach it
LEAST_COLUMN_GAIN = 0.2  # of what the columns have cost; with less, columns are not measured again
DEFAULT_RESTRAINT = 0.15
ROUND_TOLERANCE, ROUND_ITERATIONS = 0.2, 60  # tolerance and most iterations of the fits between rounds
LAST_TOLERANCE = 0.05  # tolerance of the last fit if it is restrained
DEFAULT_RELAXED_ROWS = 300
LAST_RELAXED_ITERATIONS = 400  # of the last fit of relaxed rows
MOST_CANDIDATE_CELLS = 1 << 20  # of a candidate, where the model does not limit its size


@dataclass(frozen=True, kw_only=True)
class AIM(CapacityMechanism):
    """An adaptive and iterative mechanism: every round chooses, measures and fits, within a limit on the model's size.

    It starts from noisy one-way tables. The candidates of a round are all subsets of the workload's cliques that keep
    the model within a share of `max_size_mb`, the share of the budget that is spent. The exponential mechanism chooses
    one with the score w_r (||M_r(D) - M_r(p)||_1 - sqrt(2/pi) s_r n_r), w_r = sum_s c_s |r and s|, where s_r is the
    noise that the table would have. After two dull rounds in a row, which changed the model by less than their noise,
    later rounds get twice the budget. The last round spends what is left.

    `estimator="relaxed"` fits `rows` relaxed rows in place of a graphical model. Their size is fixed, so only tables of
    more than 2^20 cells are left out; they cannot keep rules.

    `share` of every round goes to measuring, the rest to choosing; `rounds` is T, the number of rounds that the budget
    of the first ones is made for. `restraint`, from 0 to 1, is how far the last model stays from following the noise;
    see `restrained_fit`. `merge_rare` counts levels that seem rarer than their noise together. `paper=True` is the
    algorithm as published.

    Privacy: rho-zCDP of the budget, by the account's filter; candidates depend on noisy values alone.
    Reference: [AIM, Alg. 1-3]. Differs from [AIM]: the check for a last round comes before the first round too, because
    with T = d and few columns the printed loop overspends. Unless `paper`: the fit is by likelihood, with weights
    1/sigma^2; s_r counts what is already known of a table, s_r^-2 = sigma^-2 + sum over tables that contain it; all
    columns are measured first, even those that the workload does not ask for; budgets double after two dull rounds
    rather than quadruple after one, which a single unlucky choice sets off; columns whose noise is above a tenth of
    their counts are measured once more; the last fit is restrained.
    """

    name: ClassVar[str] = "aim"
    description: ClassVar[str] = "round by round, the table that the model gets most wrong for its size and the budget"
    workload_aware: ClassVar[bool] = True
    budget_aware: ClassVar[bool] = True
    refits: ClassVar[bool] = True
    reference: ClassVar[str] = "AIM"

    share: float = DEFAULT_MEASURING_SHARE
    rounds: int | None = None
    selection: str = "exponential"
    restraint: float = DEFAULT_RESTRAINT
    merge_rare: bool = False
    paper: bool = False
    estimator: str = "graphical"
    rows: int = DEFAULT_RELAXED_ROWS

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(BudgetError, "share", self.share, above=0, below=1, hint=", the part for measuring")
        check_choice(WorkloadError, "selection", self.selection, ("exponential", "generalized"))
        check_number(WorkloadError, "restraint", self.restraint, least=0, below=1)
        check_flag(WorkloadError, "merge_rare", self.merge_rare)
        check_flag(WorkloadError, "paper", self.paper)
        check_choice(WorkloadError, "estimator", self.estimator, ("graphical", "relaxed"))
        object.__setattr__(self, "rows", check_whole(WorkloadError, "rows", self.rows, least=1))
        if self.paper and self.relaxed:
            raise WorkloadError("paper=True is AIM with a graphical model; leave estimator out")

    @property
    def relaxed(self) -> bool:
        """Whether the model is relaxed rows."""
        return self.estimator == "relaxed"

    @property
    def fit_loss(self) -> str:
        """The loss of the fit: the likelihood, or the paper's weights 1/sigma."""
        return "paper" if self.paper else "auto"

    @property
    def growth(self) -> int:
        """The factor by which the budget of a round grows after dull rounds."""
        return 4 if self.paper else 2

    @property
    def patience(self) -> int:
        """The number of dull rounds in a row after which it grows."""
        return 1 if self.paper else 2

    def columns(self, workload: Workload) -> list[str]:
        """The columns to measure first: all, so that no synthetic column is made up; with `paper`, the asked ones."""
        asked = {name for clique in workload.cliques for name in clique}
        return [name for name in workload.domain if not self.paper or name in asked]

    def planned_rounds(self, workload: Workload) -> int:
        """T: the number of rounds that the budget of the first ones is made for."""
        return self.rounds or ROUNDS_PER_COLUMN * len(self.columns(workload))

    def check(self, workload: Workload, budget: Budget) -> None:
        """Refuse a T that cannot pay for the columns and one round, and a limit that is too small for the columns."""
        columns, rounds = self.columns(workload), self.rounds
        if not any(workload.cliques):
            raise WorkloadError("the workload asks for the total alone, and there is nothing to choose; use 'residual'")
        least = math.ceil(Fraction(self.share) * len(columns) + 1)
        if rounds is not None and not (is_whole(rounds) and rounds >= least):
            raise BudgetError(
                f"rounds={shown(rounds)}: expected a whole number of at least share * columns + 1 = {least}, so that "
                f"{len(columns)} columns and one round can be paid for; leave it out for {ROUNDS_PER_COLUMN} a column"
            )
        first = Fraction(self.share) * budget.limit / self.planned_rounds(workload)
        DiscreteGaussian(1 / (2 * first))  # refuses noise that is too small or too large to be drawn
        if self.selection == "generalized":
            choice = ExponentialMechanism.for_rho(
                (1 - Fraction(self.share)) * budget.limit / self.planned_rounds(workload)
            )
            check_epsilon(choice.epsilon, len(Candidates.of(workload).cliques))
        if not self.relaxed:
            super().check(workload, budget)

    def check_table(self, plan: Plan, schema: Schema) -> None:
        """Refuse a limit too small for the columns and the rules, and for relaxed rows any rule."""
        if self.relaxed:
            refuse_rules(schema)
        else:
            super().check_table(plan, schema)

    def scorable(self, workload: Workload, cliques: Sequence[Clique]) -> list[Clique]:
        """The candidates that a round may choose from, by their own sizes."""
        if not self.relaxed:
            return self.within(workload.domain, cliques)
        cells = [workload.domain.size(clique) for clique in cliques]
        most = max(MOST_CANDIDATE_CELLS, min(cells))
        return [clique for clique, size in zip(cliques, cells, strict=True) if size <= most]

    def memory(self, plan: Plan, schema: Schema) -> int:
        """The candidates of a round, and the fit of the largest model to the columns and two of the largest tables.

        Rounds choose tables only as long as there is memory to keep them; see `MemoryRoom`.
        """
        return self._memory(plan.workload)

    def _memory(self, workload: Workload) -> int:
        domain = workload.domain
        scored = self.scorable(workload, Candidates.of(workload).cliques)
        largest = max(map(domain.size, scored))
        if not self.relaxed:
            return self.model_bytes(domain, scored, 2 * largest)
        joined = {name for clique in scored if len(clique) > 1 for name in clique}
        widths = [domain[name] if name in joined else 1 for name in domain]
        columns = sum(domain.shape)
        fit = relaxed_bytes(self.rows, widths, columns, largest)
        return fit + MEASURED_BYTES * (2 * columns + 2 * largest) + SCORED_BYTES * sum(map(domain.size, scored))

    def counted(self, plan: Plan, schema: Schema) -> Sequence[Clique]:
        """All candidates of a round."""
        columns = [(name,) for name in self.columns(plan.workload)]
        return [*columns, *self.scorable(plan.workload, Candidates.of(plan.workload).cliques)]

    def describe(self, plan: Plan) -> list[tuple[str, str]]:
        """How a run starts, how many candidates and rounds it has at most, and how large its model may be."""
        workload = plan.workload
        columns, rounds = self.columns(workload), self.planned_rounds(workload)
        alpha = Fraction(self.share)
        first = OneWay.of(plan, columns, alpha * plan.rho / rounds)
        most = max(int(rounds - alpha * len(columns)), 1)
        among = len(Candidates.of(workload).cliques)
        origin = f"preset {self.preset}" if self.max_size_mb is None else "max_size_mb"
        graphical = f"{readable(1e6 * self.limit_mb)} at most ({origin})"
        merges = [("Merges", "levels that seem rarer than their noise, in all tables but the first")]
        return [
            ("Starts with", f"{len(columns):,} one-way tables, standard error {noise_text(first.stddev)} of a count"),
            ("Then", f"at most {most:,} rounds, each of which chooses one of {among:,} candidates and measures it"),
            ("Model", f"{self.rows:,} relaxed rows" if self.relaxed else graphical),
            *(merges if self.merge_rare else []),
        ]

    def work(self, workload: Workload) -> str:
        """Memory and time, from runs on tables of 8 to 15 columns with epsilons of 0.1 to 1.

        The number of rounds and the size of their models depend on the data and the budget. With an epsilon of 10 there
        are more rounds, and their models may be nearly as large as allowed, five times the mean assumed here.
        """
        domain, columns = workload.domain, self.columns(workload)
        cliques = Candidates.of(workload).cliques
        largest = min(self.limit_mb / CELL_MB, float(domain.size(domain.attributes)))
        low, high = (
            rounds * len(columns) * (scoring * len(cliques) + iterations * SECONDS_PER_CELL * size * largest)
            for rounds, scoring, iterations, size in zip(
                ROUNDS_PLAYED, SECONDS_PER_CANDIDATE, FIT_ITERATIONS, MEAN_SIZE, strict=True
            )
        )
        memory = readable(self._memory(workload) + MEMORY_BASE)
        time = f"about {duration(low)} to {duration(high)} on one core, depending on the data, with epsilon up to 1"
        return f"{time}, and up to ten times that with 10; up to {memory} of memory"

    def run(self, session: Session, plan: Plan) -> None:
        """All rounds, or those that an interrupted run has left."""
        AIMRun(self, session, plan.workload).run()


class AIMRun:
    """The state of one run: the shares of the next round, the dull rounds so far, and the last scores."""

    def __init__(self, settings: AIM, session: Session, workload: Workload) -> None:
        self.settings = settings
        self.session = session
        self.pool = Candidates.of(workload)
        self.first = settings.columns(workload)
        self.alpha = Fraction(settings.share)
        share = session.limit / settings.planned_rounds(workload)
        share *= settings.growth ** sum(played.annealed for played in session.record.rounds)
        self.measuring, self.choosing = self.alpha * share, (1 - self.alpha) * share
        self.dull = 0  # rounds in a row that changed the model by less than their noise
        self.rounds = MisfitRounds(session, self.pool, AIM.name, generalized=settings.selection == "generalized")

    def run(self) -> None:
        session = self.session
        self._columns()
        if self.settings.merge_rare:
            self.rounds.levels = RunLevels.rare(session)
        final = used_up(session.remaining, session.limit)
        model = self._fit(final)
        while not final:
            final = session.remaining <= 2 * (self.measuring + self.choosing)
            if final:
                self.measuring, self.choosing = self.alpha * session.remaining, (1 - self.alpha) * session.remaining
            model = self._round(model, final)
        session.scored = self.rounds.last.scored(model, self.rounds.levels.merging)

    def _columns(self) -> None:
        """Measure the columns, or those that an interrupted run has not paid for yet."""
        session, known = self.session, {table.clique for table in self.session.noisy_tables}
        missing = [(name,) for name in self.first if (name,) not in known]
        if missing:
            share = min(self.measuring, session.remaining / (len(missing) + 1))
            session.measure(missing, share, note=f"{AIM.name}: {len(missing)} columns")
        if not (self.settings.paper or session.record.rounds):
            self._columns_again()

    def _columns_again(self) -> None:
        """Measure the columns once more if their noise is above a tenth of their counts, for half the budget at most.

        The choice of tables needs accurate columns. The target: sqrt(2/pi) sigma n_i / N = 0.1 on average over columns.
        """
        session, count = self.session, len(self.first)
        total = estimate_total(session.domain, session.record.measurements())[0]
        cells = sum(session.domain[name] for name in self.first) / count
        stddev = LARGEST_COLUMN_NOISE * total / (MEAN_ABSOLUTE * cells)
        most = LARGEST_COLUMN_SHARE * float(session.limit)
        cost = min(count * float(session.bound.l2_squared) / (2 * stddev**2), most)
        spent = float(session.limit - session.remaining)
        if cost > (1 + LEAST_COLUMN_GAIN) * spent:
            more = Fraction(cost - spent) / count
            session.measure([(name,) for name in self.first], more, note=f"{AIM.name}: {count} columns again")

    def _fit(self, final: bool) -> Distribution:
        session, settings = self.session, self.settings
        if settings.relaxed:
            before = None if session.model is None else session.model.value
            start = before if isinstance(before, RelaxedRows) else None
            return session.fit_with(
                fit_relaxed,
                start=start,
                rows=settings.rows,
                tolerance=LAST_TOLERANCE if final else ROUND_TOLERANCE,
                iterations=LAST_RELAXED_ITERATIONS if final else ROUND_ITERATIONS,
            ).value
        if not final:
            return session.fit(loss=settings.fit_loss, tolerance=ROUND_TOLERANCE, iterations=ROUND_ITERATIONS).value
        if settings.paper or not settings.restraint:
            return session.fit(loss=settings.fit_loss, tolerance=TOLERANCE).value
        return restrained_fit(session, settings.restraint, loss=settings.fit_loss, tolerance=LAST_TOLERANCE).value

    def _round(self, model: Distribution, final: bool) -> Distribution:
        """Choose, measure and fit; after `patience` dull rounds, later ones get a larger share of the budget."""
        session = self.session
        indices, sizes = self._candidates(model)
        cliques = [self.pool.cliques[index] for index in indices]
        tables = on_grid(self.rounds.levels.tables(model.many(cliques)))
        penalties = self._penalties(cliques, session.law(self.measuring).stddev)
        played = self.rounds.play(
            indices, tables, penalties, sizes, choosing=self.choosing, measuring=None if final else self.measuring
        )
        fitted = self._fit(final)
        after = self.rounds.levels.tables({played.clique: fitted.counts(played.clique)})[played.clique]
        moved = float(np.abs(after - tables[played.clique]).sum())
        self.dull = self.dull + 1 if moved <= MEAN_ABSOLUTE * played.stddev * after.size else 0
        annealed = not final and self.dull == self.settings.patience
        if annealed:
            self.dull, growth = 0, self.settings.growth
            self.measuring, self.choosing = growth * self.measuring, growth * self.choosing
        session.ended(replace(played, annealed=annealed, size_mb=fitted.size_mb))
        return fitted

    def _candidates(self, model: Distribution) -> tuple[Integers, Floats]:
        """The indices of the tables that keep the model within the limit of this round, and its size with each.

        There are always some, since tables inside a node of the model add nothing to its size. No model is larger than
        the table over all columns.
        """
        session, cliques = self.session, self.pool.cliques
        if not isinstance(model, GraphicalModel):
            cells = np.array([float(session.domain.size(clique)) for clique in cliques])
            sizes = np.where(cells <= max(MOST_CANDIDATE_CELLS, cells.min()), model.size_mb, np.inf)
            limit = model.size_mb
        else:
            spent = 1 - (session.remaining - self.measuring - self.choosing) / session.limit
            limit = max(float(spent) * self.settings.limit_mb, model.size_mb)
            whole = CELL_MB * session.domain.size()
            sizes = np.full(len(cliques), whole)
            if whole > limit:
                sizes = self.settings.sizes_mb(session.domain, session.cliques, cliques, model.tree, limit_mb=limit)
        indices = np.flatnonzero(sizes <= limit)
        indices = indices[session.memory.affordable(self.rounds.levels.cells(cliques[index]) for index in indices)]
        return indices, sizes[indices]

    def _penalties(self, cliques: Sequence[Clique], stddev: float) -> Floats:
        """sqrt(2/pi) s_r n_r: the L1 error that a table has once it is measured.

        A table of n_i cells and noise sigma_i that contains r gives r with the variance sigma_i^2 n_i / n_r.
        """
        cells = np.array([float(self.rounds.levels.cells(clique)) for clique in cliques])
        precision = np.full(len(cliques), stddev**-2)
        if not self.settings.paper:
            for table in self.session.noisy_tables:
                inside = np.array([set(clique) <= set(table.clique) for clique in cliques])
                precision += inside * cells / (table.values.size * table.stddev**2)
        return np.asarray(MEAN_ABSOLUTE * cells / np.sqrt(precision))


def restrained_fit(session: Session, restraint: float, **options: Any) -> Solution[GraphicalModel]:
    """The model of all noisy tables, stopped before it follows their noise; post-processing.

    The true tables have an expected loss of m / 2 for m noisy numbers; the least loss L is smaller, since it also fits
    noise. The descent from independent columns ends at L + restraint (m / 2 - L).

    Reference: after the discrepancy principle of [Morozov 1966], which ends at m / 2, too early here.
    """
    best = session.fit(**options)
    least = best.stats["value"]
    enough = least + restraint * (0.5 * sum(table.numbers for table in session.record.measurements()) - least)
    if enough <= least:
        return best
    stopped = session.fit(callback=lambda _, value, __: value <= enough, **options)
    restrained = dataclasses.replace(stopped, status=best.status, stats={**stopped.stats, "least": least})
    session.model = restrained
    return restrained
