"""scout: survey all tables at once, then measure what pays; the default for synthetic rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from itertools import combinations
from typing import Any, ClassVar, cast

import numpy as np

from hush.core.arrays import Floats
from hush.core.domain import Clique, Domain
from hush.core.errors import BudgetError
from hush.core.memory import readable
from hush.core.spanning_tree import spanning_tree
from hush.core.validation import check_number
from hush.mechanisms.candidates import on_grid
from hush.mechanisms.mechanism import MEASURED_BYTES, SCORED_BYTES, Mechanism
from hush.mechanisms.plan import Plan
from hush.mechanisms.plan_errors import OneWay, noise_text
from hush.mechanisms.scout_allocation import (
    MEAN_ABSOLUTE,
    Incidence,
    allocate,
    effective_cells,
    expected_errors,
    signals,
    typical_signal,
)
from hush.mechanisms.session import Session, measure_columns
from hush.mechanisms.table_distances import survey_tables
from hush.models.local.local_model import LocalModel
from hush.models.shrunk.shrunk_fit import fit_shrunk, residual_averages
from hush.privacy.account import used_up
from hush.privacy.measurement import Measurement
from hush.privacy.noise import DiscreteGaussian
from hush.privacy.sensitivity import ONE_CELL, sensitivity
from hush.release.record import Record
from hush.release.survey_record import Survey, SurveyRecord, survey_norms
from hush.render.text_table import counted
from hush.schema import Schema
from hush.strategies.rare_levels import MergedQuery, Merging, merge_neighbours
from hush.strategies.residual_strategy import is_residual, plain_residual
from hush.workloads import Workload

LARGEST_ORDER = 3  # of a table that is measured
MOST_TABLE_CELLS = 1 << 20  # of one table that is surveyed
MOST_CELLS = 1 << 23  # of all tables that are surveyed together
CLEAR_ENOUGH = 0.05  # error over signal; below it, all pairs are measured at once, without a tree
CLEARER_THAN_SURVEY = 0.5  # error over a survey's noise; below it, all tables are measured without a survey
MERGED_LEVELS = 6  # of a column in a pair with merged levels
LARGEST_MERGED = 0.5  # cells of a pair with merged levels over all its cells; above it, merging saves too little
CLEAR_OF_NOISE = 0.2  # typical signal over a survey's noise; below it, merged levels are not surveyed
LEAST_WITHIN = 0.05  # of a pair's squared signal that lies within merged cells
POOLED_EVIDENCE = 4.0  # factor on squared signals: tables that are measured together tell of each other
FIT_BYTES = 160  # for each cell of the surveyed tables
MEMORY_BASE = 3e8  # of Python and its libraries
SECONDS_PER_CELL = 8e-6  # of a release, for each surveyed cell
EXAMPLE_ROWS = (10_000, 100_000)  # for which a plan says what it expects
SECONDS_PER_TABLE = 2e-3
FIRST_SECONDS = 2.0  # relaxed rows, and starting


@dataclass(frozen=True, kw_only=True)
class Scout(Mechanism):
    """Surveys the distances of all tables from a model, measures what pays, and shrinks what was measured.

    1. Columns: every column is measured with `column_share` of the budget. If measuring all tables at once with the
       rest is expected to leave an error below half of the noise of a survey, scout does so and skips steps 2 to 5:
       the tables then have few cells, or the budget is very small.
    2. First survey: the L1 distances of all pairs from independent columns, as one noisy vector, with `survey_share`.
    3. Tree: `tree_share` measures the residuals of columns and of the pairs on the spanning tree of largest distances.
    4. Second survey: the distances of all tables from the model of the tree, with `survey_share`. Pairs of many cells
       are surveyed with merged levels, too: up to six groups of neighbouring levels with about equally many rows.
       If only pairs are asked, and their errors would be below a twentieth of their signals, scout skips steps 3 and 4.
    5. All that is left measures residuals of columns, pairs and triples, and pairs with merged levels, shared out by
       `allocate`, so that the expected error of the asked tables is least. A large budget measures every table, a small
       one a tree.

    A residual is what a table adds to its smaller tables; it costs prod(1 - 1/n_i) of the table itself. The model is
    `fit_shrunk`: the measurements themselves decide how much noise to shrink away. Tables of more than 2^20 cells,
    and of more than three columns, are answered by the model of smaller ones.

    Privacy: rho-zCDP of the budget, by the account's filter. Surveys: see `TableDistances`. Which tables are measured,
    and with how much noise, depends on noisy numbers alone.
    Reference: this mechanism is ours; [ResidualPlanner] for residuals, [PrivSyn] for scoring all pairs at once.
    """

    name: ClassVar[str] = "scout"
    description: ClassVar[str] = "surveys all tables at once, then measures what pays; best for synthetic rows"
    workload_aware: ClassVar[bool] = True
    data_aware: ClassVar[bool] = True
    budget_aware: ClassVar[bool] = True
    efficiency_aware: ClassVar[bool] = True
    errors_known: ClassVar[str] = "measured; others surveyed"

    column_share: float = 0.08
    survey_share: float = 0.04
    tree_share: float = 0.25

    def __post_init__(self) -> None:
        for name in ("column_share", "survey_share", "tree_share"):
            check_number(BudgetError, name, getattr(self, name), above=0, below=1)
        if self.column_share + 2 * self.survey_share + self.tree_share >= 1:
            raise BudgetError(
                f"column_share={self.column_share:g}, tree_share={self.tree_share:g} and twice "
                f"survey_share={self.survey_share:g} leave nothing for the last stage; lower one of them"
            )

    def new_record(self, plan: Plan) -> Record:
        return SurveyRecord(plan.domain)

    def tables(self, workload: Workload) -> list[Clique]:
        """The tables over two or three columns that may be measured: subsets of the asked ones, the smallest first.

        At most `MOST_CELLS` cells in all; public.
        """
        domain = workload.domain
        inside: dict[Clique, int] = {}
        for asked in dict.fromkeys(domain.varying(domain.clique(clique)) for clique in workload.cliques):
            for order in range(2, LARGEST_ORDER + 1):
                for names in combinations(asked, order):
                    inside.setdefault(names, domain.size(names))
        kept, cells = [], 0
        for names in sorted(inside, key=lambda names: (len(names), inside[names])):
            if inside[names] <= MOST_TABLE_CELLS and cells + inside[names] <= MOST_CELLS:
                kept.append(names)
                cells += inside[names]
        return kept

    def memory(self, plan: Plan, schema: Schema) -> int:
        """The surveyed tables, counted, compared and fitted."""
        return self._memory(plan.workload)

    def _memory(self, workload: Workload) -> int:
        domain = workload.domain
        cells = sum(map(domain.size, self.tables(workload)))
        return MEASURED_BYTES * 3 * sum(domain.shape) + (MEASURED_BYTES + SCORED_BYTES + FIT_BYTES) * cells

    def counted(self, plan: Plan, schema: Schema) -> Sequence[Clique]:
        """The columns, and all tables that are surveyed."""
        return [*((name,) for name in plan.domain), *self.tables(plan.workload)]

    def describe(self, plan: Plan) -> list[tuple[str, str]]:
        tables, columns = self.tables(plan.workload), list(plan.domain)
        first = OneWay.of(plan, columns, Fraction(self.column_share) * plan.rho / len(columns))
        rest = 1 - self.column_share - 2 * self.survey_share
        start = f"{len(columns):,} one-way tables, standard error {noise_text(first.stddev)} of a count"
        if not tables:
            return [("Starts with", start), ("Then", "the columns again: no asked table has two columns")]
        expected = ", ".join(f"{self.expected_error(plan, rows):.2g} % with {rows:,} rows" for rows in EXAMPLE_ROWS)
        return [
            ("Starts with", start),
            (
                "Surveys",
                f"{counted(len(tables), 'table')} at once, with up to {2 * self.survey_share:.0%} of the budget",
            ),
            ("Then", f"measures what pays, with {rest:.0%} or more: all tables, or first a tree of pairs"),
            ("Expects", f"rows in a wrong cell of an asked table: about {expected}; less if columns depend little"),
            ("Model", "tables that agree on what they share, each shrunk toward what smaller tables predict"),
        ]

    def expected_error(self, plan: Plan, rows: float) -> float:
        """The percentage of rows in a wrong cell of an asked table, on average, if dependences are typical.

        Half of ||table - model||_1, with typical signals and rows spread over all cells; an estimate, no bound.
        """
        domain, tables = plan.domain, self.tables(plan.workload)
        sets: list[Clique] = [*((name,) for name in domain.varying()), *tables]
        sizes = [domain.sizes(clique) for clique in sets]
        kept = np.array([math.prod(1 - 1 / size for size in shape) for shape in sizes])  # of a table, by centring
        cells = np.array([float(math.prod(shape)) for shape in sizes])
        bound = sensitivity(ONE_CELL, max_rows=plan.max_rows_per_unit, neighbours=plan.neighbours)
        unit = float(bound.l2_squared) / 2 / float(plan.budget.limit)
        noise = (MEAN_ABSOLUTE * cells * kept) ** 2 * unit / (1 - 2 * self.survey_share)
        squares = np.array([typical_signal(len(clique)) * rows for clique in sets]) ** 2
        incidence = Incidence.of(asked_tables(plan.workload), sets)
        errors = expected_errors(incidence, squares, noise, allocate(incidence, squares, noise))
        return float(min(50 * np.average(errors, weights=incidence.weights) / rows, 100.0))

    def work(self, workload: Workload) -> str:
        tables = self.tables(workload)
        cells = sum(map(workload.domain.size, tables))
        seconds = FIRST_SECONDS + SECONDS_PER_CELL * cells + SECONDS_PER_TABLE * len(tables)
        return f"about {seconds:.2g} s on one core; up to {readable(self._memory(workload) + MEMORY_BASE)} of memory"

    def run(self, session: Session, plan: Plan) -> None:
        """All stages, or those that an interrupted run has left."""
        ScoutRun(self, session, plan.workload).run()


class ScoutRun:
    """The state of one run: the sets of columns that may be measured, and how they are inside what is asked."""

    def __init__(self, settings: Scout, session: Session, workload: Workload) -> None:
        self.settings, self.session = settings, session
        self.tables = self._fitting(settings.tables(workload))
        self.sets: list[Clique] = [*((name,) for name in session.domain.varying()), *self.tables]
        self.asked = asked_tables(workload)
        self.incidence = Incidence.of(self.asked, self.sets)
        self.unit = float(session.bound.l2_squared) / 2  # the variance of a table's noise at the cost 1

    def run(self) -> None:
        settings, session, name = self.settings, self.session, Scout.name
        surveys: list[Survey] = session.record.surveys  # type: ignore[attr-defined]
        share = Fraction(settings.survey_share)
        pairs = [clique for clique in self.tables if len(clique) == 2]
        if self.tables:  # refuses noise that is too large to draw, before anything is charged
            session.law(share * session.limit, survey_norms(len(self.tables) + len(pairs)))
        measure_columns(session, settings.column_share, name)

        # Everything at once, if that tells more than a survey.
        if pairs and not surveys and self._left():
            self._measure_at_once()

        # First survey: all pairs, against independent columns. Then the tree of the largest distances.
        if pairs and not surveys and self._left():
            survey_tables(session, self._model(cliques=pairs).many(pairs), share, name)
        staged = bool(surveys) and self._left()
        if staged and len(surveys) == 1:
            model = self._model()
            squares = self._signal_squares(model, surveys[0])
            measured = any(is_residual(table.asked) for table in session.noisy_tables)
            noise = self._noise_squares(model, session.remaining)
            staged = measured or len(pairs) < len(self.tables) or self._over_signals(squares, noise) > CLEAR_ENOUGH
            if staged and not measured:
                order = np.argsort(-surveys[0].values, kind="stable")
                tree = set(spanning_tree(surveys[0].cliques[index] for index in order))
                for index, clique in enumerate(self.sets):
                    if len(clique) > 1 and clique not in tree:
                        squares[index] = 0.0
                budget = min(Fraction(settings.tree_share) * session.limit, session.remaining)
                self._measure(squares, self._noise_squares(model, budget), budget, "tree")

        # Second survey: all tables, against the model of the tree. Then everything that pays.
        if staged and self.tables and len(surveys) == 1 and self._left():
            model = self._model()
            merged = self._merged_pairs(model.total, pairs)
            survey_tables(session, model.many(self.tables), share, name, merged=merged, merging=self._merging)
        if self._left():
            model = self._model()
            squares = self._signal_squares(model, surveys[-1] if surveys else None)
            noise = self._noise_squares(model, session.remaining)
            if surveys and surveys[-1].merged:
                self._measure_merged(model, surveys[-1], squares, noise)
            else:
                self._measure(squares, noise, session.remaining, "last stage")
        self._finish(surveys)

    def _left(self) -> bool:
        return not used_up(self.session.remaining, self.session.limit)

    def _fitting(self, tables: Sequence[Clique]) -> list[Clique]:
        """The tables that can be counted, compared and kept in memory together; by public facts."""
        session = self.session
        room = min(session.memory.scorable_cells, session.memory.numbers)
        kept = []
        for clique in tables:
            room -= session.domain.size(clique)
            if room < 0:
                break
            if session.gate.can_count(clique):
                kept.append(clique)
        return kept

    def _model(
        self, first: int | None = None, cliques: Sequence[Clique] | None = None, *, last: bool = False
    ) -> LocalModel:
        """A model of `cliques`, fitted to the `first` noisy tables; by default of all tables, fitted to all.

        The last model takes relaxed rows and evidence from before the run. Earlier models take neither, so that a
        resumed run has the models that its surveys compared with.
        """
        evidence, listed = self.session.evidence if last else (), self.tables if cliques is None else cliques
        fitter = partial(self._fit, count=first, cliques=listed, evidence=evidence, relaxed=last)
        fitted: LocalModel = self.session.fit_with(fitter).value
        return fitted

    def _fit(
        self,
        domain: Domain,
        measurements: Sequence[Measurement],
        *,
        count: int | None,
        cliques: Sequence[Clique],
        evidence: Sequence[Measurement],
        **options: Any,
    ) -> Any:
        return fit_shrunk(domain, [*evidence, *measurements[:count]], cliques=cliques, **options)

    def _signal_squares(self, model: LocalModel, survey: Survey | None) -> Floats:
        """P_s of every set: for columns the error of their noise, for tables the signal that the survey found."""
        session, position = self.session, {clique: index for index, clique in enumerate(self.sets)}
        squares = np.zeros(len(self.sets))
        averages = residual_averages(session.domain, [*session.evidence, *session.record.measurements()])
        for index, clique in enumerate(self.sets):
            if len(clique) == 1:
                cells = effective_cells(model.counts(clique))
                noise = (MEAN_ABSOLUTE * cells) ** 2 * averages[clique].variance
                squares[index] = 1 / (1 / noise + 1 / model.total**2)  # a column is shrunk, so it is not wrong by more
        if survey is None:
            return squares
        # Order by order: a surveyed distance also holds the errors of smaller tables.
        # A resumed run with less memory leaves surveyed tables out.
        kept = [index for index, clique in enumerate(survey.cliques) if clique in position]
        for order in sorted({len(survey.cliques[index]) for index in kept}):
            listed = [index for index in kept if len(survey.cliques[index]) == order]
            cliques = [survey.cliques[index] for index in listed]
            smaller = [clique for clique in self.sets if len(clique) < order]
            inside = Incidence.of(dict.fromkeys(cliques, 1.0), smaller)
            others = np.sqrt(inside.other_errors(squares[[position[clique] for clique in smaller]]))
            found = signals(survey.values[listed].astype(np.float64), survey.law.stddev, others, model.total)
            squares[[position[clique] for clique in cliques]] = found**2
        return squares

    def _typical_squares(self, model: LocalModel) -> Floats:
        """P_s of every set before anything was surveyed."""
        squares = self._signal_squares(model, None)
        for index, clique in enumerate(self.sets):
            if len(clique) > 1:
                squares[index] = (typical_signal(len(clique)) * model.total) ** 2
        return squares

    def _noise_squares(self, model: LocalModel, budget: Fraction) -> Floats:
        """Q_s of every set, if all of a budget goes to it."""
        cells = np.array([effective_cells(model.counts(clique)) for clique in self.sets])
        sizes = [self.session.domain.sizes(clique) for clique in self.sets]
        kept = np.array([math.prod(1 - 1 / size for size in shape) for shape in sizes])  # of a table, by centring
        return np.asarray((MEAN_ABSOLUTE * cells * kept) ** 2 * self.unit / float(budget))

    def _errors_at_once(self, squares: Floats, noise: Floats) -> Floats:
        """The error that is left in every asked table if all sets are measured at once."""
        return expected_errors(self.incidence, squares, noise, allocate(self.incidence, squares, noise))

    def _over_signals(self, squares: Floats, noise: Floats) -> float:
        """The error that is left in all asked tables together, over their signals."""
        return float(self._errors_at_once(squares, noise).sum() / np.sqrt(self.incidence.other_errors(squares)).sum())

    def _measure_at_once(self) -> None:
        """Measure all sets with all that is left, if that leaves an error far below the noise of a survey of all."""
        model = self._model()
        squares, noise = self._typical_squares(model), self._noise_squares(model, self.session.remaining)
        error = np.average(self._errors_at_once(squares, noise), weights=self.incidence.weights)
        if error <= CLEARER_THAN_SURVEY * self._survey_noise(len(self.tables)):
            pooled = np.array([POOLED_EVIDENCE if len(clique) > 1 else 1.0 for clique in self.sets])
            self._measure(squares * pooled, noise, self.session.remaining, "all at once")

    @cached_property
    def _merging(self) -> Merging:
        """Which levels pairs may be merged to, by the first noisy columns alone; the same in a resumed run."""
        first: dict[Clique, Measurement] = {}
        for table in self.session.noisy_tables:
            if len(table.clique) == 1 and table.query is None:
                first.setdefault(table.clique, table)
        model = fit_shrunk(self.session.domain, first.values(), relaxed=False).value
        return merge_neighbours({name: model.counts((name,)) for (name,) in first}, MERGED_LEVELS)

    def _merged_pairs(self, rows: float, pairs: Sequence[Clique]) -> list[Clique]:
        """The pairs that merging makes much smaller; none if a survey of them would show noise alone."""
        domain = self.session.domain
        sizes = {pair: math.prod(self._merging.sizes(pair, domain.sizes(pair))) for pair in pairs}
        merged = [pair for pair in pairs if sizes[pair] <= LARGEST_MERGED * domain.size(pair)]
        noise = self._survey_noise(len(self.tables) + len(merged))
        return merged if typical_signal(2) * rows > CLEAR_OF_NOISE * noise else []

    def _survey_noise(self, distances: int) -> float:
        """The standard deviation of each distance in a survey of so many."""
        share = Fraction(self.settings.survey_share)
        law = cast("DiscreteGaussian", self.session.law(share * self.session.limit, survey_norms(distances)))
        return math.sqrt(law.variance_parameter)

    def _measure_merged(self, model: LocalModel, survey: Survey, squares: Floats, noise: Floats) -> None:
        """Measure the sets and the pairs with merged levels that are worth it, with all that is left.

        A pair's signal is that of its merged table and, unrelated to it, that within merged cells.
        """
        session, domain = self.session, self.session.domain
        position = {clique: index for index, clique in enumerate(self.sets)}
        kept = [index for index, pair in enumerate(survey.merged) if pair in position]
        pairs = [survey.merged[index] for index in kept]
        tables = [self._merging.table(pair, model.counts(pair)) for pair in pairs]
        # Errors of columns lie within merged levels, too: noise of n levels in k groups adds up to k/n of its square.
        others = [
            sum(squares[position[name,]] * k / domain[name] for name, k in zip(pair, table.shape, strict=True))
            for pair, table in zip(pairs, tables, strict=True)
        ]
        distances = survey.merged_values[kept].astype(np.float64)
        between = signals(distances, survey.law.stddev, np.sqrt(others), model.total) ** 2
        cells = np.array([effective_cells(table) * math.prod(1 - 1 / size for size in table.shape) for table in tables])
        own = [position[pair] for pair in pairs]
        within = squares.copy()
        within[own] = np.maximum(squares[own] - between, LEAST_WITHIN * squares[own])
        self._measure(
            np.concatenate([within, between]),
            np.concatenate([noise, (MEAN_ABSOLUTE * cells) ** 2 * self.unit / float(session.remaining)]),
            session.remaining,
            "last stage",
            [MergedQuery(pair, domain.sizes(pair), self._merging) for pair in pairs],
        )

    def _measure(
        self, squares: Floats, noise: Floats, budget: Fraction, stage: str, merged: Sequence[MergedQuery] = ()
    ) -> None:
        """Measure the residuals of the sets, and then the merged pairs, that are worth it, with all of a budget."""
        session, domain = self.session, self.session.domain
        if not len(self.incidence.sets):  # the total alone is asked for
            columns: list[Clique] = [(name,) for name in domain]
            session.measure(columns, budget / len(columns), note=f"{Scout.name}: {len(columns):,} columns")
            return
        incidence = self.incidence.joined(Incidence.of(self.asked, [query.clique for query in merged]), len(self.sets))
        shares = allocate(incidence, squares, noise)
        chosen = np.flatnonzero(shares)
        sets = len(self.sets)
        queries = [plain_residual(domain, self.sets[i]) if i < sets else merged[i - sets] for i in chosen.tolist()]
        exact = [Fraction(float(share)) for share in shares[chosen]]
        total = sum(exact)
        note = f"{Scout.name}: {stage}, {len(queries):,} tables"
        session.measure(queries, [budget * share / total for share in exact], note=note)

    def _finish(self, surveys: list[Survey]) -> None:
        """Fit the last model, and note how far it is from those that surveys compared with.

        Where memory is too short for a model that a resumed run compared with, its survey bounds nothing.
        """
        kept = {index: survey for index, survey in enumerate(surveys) if set(survey.cliques) <= set(self.tables)}
        before = {index: self._model(survey.tables_before, survey.cliques) for index, survey in kept.items()}
        model = self._model(last=True)
        for index, survey in kept.items():
            first = on_grid(before[index].many(survey.cliques))  # as it was surveyed
            last = model.many(survey.cliques)
            moved = [float(np.abs(first[clique] - last[clique]).sum()) for clique in survey.cliques]
            surveys[index] = replace(survey, moved=np.array(moved))


def asked_tables(workload: Workload) -> dict[Clique, float]:
    """The tables that a workload asks about, each with its weight, without columns of one level."""
    asked: dict[Clique, float] = {}
    for clique, weight in zip(workload.cliques, workload.weights, strict=True):
        names = workload.domain.varying(workload.domain.clique(clique))
        asked[names] = asked.get(names, 0.0) + float(weight)
    return asked
