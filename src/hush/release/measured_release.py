"""What a measured release from a file must account for: its tables, its choices, its cost, and what scores say.

Measured answers: a table or a term of queries from noisy tables and a fitted model, with exact errors or bounds.

MeasuredRelease: noisy tables that were chosen as they were taken, and the model of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from hush.archive import ArchiveReader
from hush.arrays import Floats
from hush.domain import Clique
from hush.errors import BudgetError, QueryError, SizeError
from hush.graphical.fit_problem import TOLERANCE
from hush.graphical.total import estimate_total
from hush.inference.best_unbiased import UnbiasedEstimates
from hush.linops import LinearOperator
from hush.privacy.events import ComposedEvent, Event, SelectionEvent, price
from hush.privacy.measurement import Measurement
from hush.privacy.selection import BETA
from hush.privacy.sensitivity import ONE_CELL, Sensitivity, sensitivity
from hush.release.answer_columns import ErrorKind
from hush.release.answers import Answers, check_level
from hush.release.error_bounds import BoundTable, ErrorBound, ErrorBounds, bound_note
from hush.release.fit import Route
from hush.release.measured_estimates import MeasuredEstimates
from hush.release.model import Model
from hush.release.nonnegative_answers import query_signs
from hush.release.record_files import pack_record, unpack_record
from hush.release.release import Release
from hush.release.rounds import LEAST_STDDEV, Round, Scored, gaussian_law
from hush.release.statement import Statement
from hush.release.term_answers import term_answers
from hush.schema import Schema
from hush.solution import Solution
from hush.workloads import ProductTerm

if TYPE_CHECKING:
    from hush.graphical.graphical_model import GraphicalModel

ROUNDING = Fraction(1, 10**9)  # another version may turn the same epsilon into a rho that differs in the last digits
LARGEST_EPSILON = 2**64


def unaccounted(statement: Statement, tables: Iterable[Measurement], rounds: Iterable[Round]) -> str | None:
    """What of the tables and choices the statement does not pay for; a stopped run may have paid for more."""
    parts = Counter(dict(event_parts(statement.event)))
    bound = unit_bound(statement)
    for table in tables:
        event = gaussian_law(table).event(bound)
        if parts[event] < 1:
            return "it holds a table whose noise it does not account for"
        parts[event] -= 1
    choices: Counter[float] = Counter()
    for part, count in parts.items():
        if isinstance(part, SelectionEvent) and part.epsilon < LARGEST_EPSILON:
            choices[float(part.epsilon)] += count
    for played in rounds:
        if played.epsilon > 0 and choices[played.epsilon] < 1:
            return "it holds a choice that it does not account for"
        choices[played.epsilon] -= 1
    return None


def beyond_budget(statement: Statement) -> str | None:
    """Whether what was spent exceeds the budget that is stated."""
    try:
        spent = statement.budget.spent(price(statement.event))
    except BudgetError as error:
        return str(error)
    return "it spent more than its budget" if spent > statement.budget.limit * (1 + ROUNDING) else None


def too_sure(statement: Statement, rounds: Sequence[Round], scored: Scored, *, generalized: bool) -> str | None:
    """Whether scores promise more than a choice by the epsilon of their round can.

    With d = 2 unit / epsilon, v = w_t / w_r for the chosen t, and k candidates, the exponential mechanism has
    slope = d max w / w_r >= d max(1, v) and slack = slope log k; the generalised one slope = d (1 + v) and
    slack = d ((1 + v) log k + (1 - v) log(k / beta)).
    """
    used = np.flatnonzero(scored.rounds >= 0)
    chosen = [rounds[number] for number in scored.rounds[used].tolist()]
    if any(one.epsilon <= 0 or one.candidates < 1 for one in chosen):
        return "it holds scores of a round without a choice"
    d = 2 * float(unit_bound(statement).l1) / np.array([one.epsilon for one in chosen])
    k = np.array([float(one.candidates) for one in chosen])
    v = np.array([one.weight for one in chosen]) / scored.weights[used]
    slope = d * (1 + v) if generalized else d * np.maximum(1, v)
    slack = d * ((1 + v) * np.log(k) + (1 - v) * np.log(np.maximum(k, 2) / BETA)) if generalized else slope * np.log(k)
    room = 1e-9 * d * (1 + v) * (1 + np.log(k / BETA))
    sound = (scored.slopes[used] >= slope - room).all() and (scored.slacks[used] >= slack - room).all()
    return None if sound else "its scores promise more than its choices can"


def event_parts(event: Event) -> tuple[tuple[Event, int], ...]:
    """What an event is made of, each with how often."""
    return tuple(event.parts) if isinstance(event, ComposedEvent) else ((event, 1),)


def unit_bound(statement: Statement) -> Sensitivity:
    """How far a unit of the statement moves a table."""
    return sensitivity(ONE_CELL, max_rows=statement.unit.max_rows, neighbours=statement.neighbours)


BATCH = 2**20  # numbers of a block that are looked at together


def marginal_answers(
    schema: Schema,
    clique: Clique,
    estimates: MeasuredEstimates,
    level: float = 0.95,
    notes: Iterable[str] = (),
    grain: float = 0.0,
) -> Answers:
    """Every cell of a table: unbiased with exact standard errors inside measured tables, else the model's.

    The model's counts have an interval from the bound on the error of the whole table: with B of the table and D of
    the number of records, no cell is off by more than (B + D) / 2. Without a bound they have none. `grain` is that of
    `Answers`, for exact errors; that of the tables with the clique in them is taken where it is less.
    """
    check_level(level)
    names = schema.domain.check(clique)
    counts = estimates.counts(names)
    if estimates.has_covariance(names):
        ones = np.ones(counts.shape)
        variances = estimates.covariance(names, ones, ones, len(names))
        made = Answers.of_marginal(schema, names, counts, variances, level, notes=notes)
        return replace(made, grain=min(grain, estimates.grain(names)))
    margin = float(estimates.margin(names, np.zeros(()), np.ones(()), level))
    bound = estimates.l1_bound(names, level)
    error_kind = ErrorKind.NONE if np.isnan(margin) else ErrorKind.BOUND
    said = (bound_note(names, bound, level), *notes)
    return Answers.of_marginal(schema, names, counts, None, level, error_kind=error_kind, notes=said, margin=margin)


def measured_term_answers(
    schema: Schema,
    term: ProductTerm,
    estimates: MeasuredEstimates,
    level: float = 0.95,
    notes: Iterable[str] = (),
    grain: float = 0.0,
) -> Answers:
    """The answers to a term, with exact standard errors or with the bound on its table as in `marginal_answers`."""
    if estimates.has_covariance(term.clique):
        made = term_answers(schema, term, estimates, level=level, notes=notes)
        return replace(made, grain=min(grain, estimates.grain(term.clique)))
    said = bound_note(term.clique, estimates.l1_bound(term.clique, check_level(level)), level)
    made = term_answers(schema, term, estimates, level=level, notes=(said, *notes))
    largest: Floats = np.ones(())
    for block in term.blocks:
        largest = np.multiply.outer(largest, _largest(block))
    largest, signs = largest.ravel(), query_signs(term)
    lowest, highest = np.where(signs > 0, 0.0, -largest), np.where(signs < 0, 0.0, largest)
    margin = estimates.margin(term.clique, lowest, highest, level)
    error_kind = ErrorKind.NONE if np.isnan(margin).all() else ErrorKind.BOUND
    (value,) = made.quantities
    return replace(made, quantities=(replace(value, error_kind=error_kind, margin=margin),))


def _largest(block: LinearOperator) -> Floats:
    """The largest absolute coefficient of every query of a block, (rows,)."""
    rows, columns = block.shape
    step = max(1, BATCH // rows)
    found = np.zeros(rows)
    for start in range(0, columns, step):
        width = min(step, columns - start)
        picked = np.zeros((columns, width))
        picked[np.arange(start, start + width), np.arange(width)] = 1.0
        np.maximum(found, np.abs(block.matmat(picked)).max(axis=1), out=found)
    return found


class MeasuredRelease(Release):
    """Whole tables with Gaussian noise, how they were chosen, and one model of them all.

    Tables inside a measured one are answered by the best linear unbiased estimate, with exact intervals; any other
    from the model, with a bound on the error of the table where one is known. `model()` answers everything from the
    model, and `error_bounds()` says how far it may be off, table by table. One that was interrupted before its first
    table answers nothing; it can be gone on with. `dataset` is the ledger's name of what an interrupted one is
    charged to.
    """

    def __init__(
        self,
        *,
        noisy_tables: Iterable[Measurement],
        rounds: Iterable[Round] = (),
        scored: Scored | None = None,
        settings: Mapping[str, Any] | None = None,
        fitted: Solution[GraphicalModel] | None = None,
        dataset: str | None = None,
        **common: Any,
    ) -> None:
        super().__init__(**common)
        self.noisy_tables = tuple(noisy_tables)
        self.rounds = tuple(rounds)
        self.scored = scored
        self.settings = dict(settings or {})
        self.fitted = fitted
        self.dataset = dataset

    def measurements(self) -> list[Measurement]:
        """Every noisy table, with its own noise."""
        return [table.floored(LEAST_STDDEV) for table in self.noisy_tables]

    @cached_property
    def unbiased(self) -> UnbiasedEstimates | None:
        """What the noisy tables say together without a model; None where they are too wide for it."""
        self._require_tables()
        try:
            return UnbiasedEstimates(self.domain, [table for table in self.measurements() if table.query is None])
        except SizeError:
            return None

    @cached_property
    def bounds(self) -> ErrorBounds:
        """How far the model may be off, table by table."""
        model = self._model
        return ErrorBounds(
            self.domain,
            model.distribution,
            self.unbiased,
            self.rounds,
            self.scored,
            total=model.total,
            noisy_tables=self.noisy_tables,
        )

    def error_bound(self, *attributes: Any, level: float = 0.95) -> ErrorBound:
        """A bound on ||M_r(D) - M_r(model)||_1 that holds with the chance `level`, at no further cost."""
        return self.bounds.of(self.domain.named(attributes), level=level)

    def error_bounds(self, *, level: float = 0.95, simultaneous: bool = False) -> BoundTable:
        """The bounds of every table of the workload and its subsets; all at once hold with `simultaneous=True`."""
        return self.bounds.all(level=level, simultaneous=simultaneous)

    @cached_property
    def estimates(self) -> MeasuredEstimates:
        """Unbiased estimates with exact errors where there are some, the model elsewhere."""
        return MeasuredEstimates(self._model.distribution, self.unbiased, self.bounds)

    @cached_property
    def grain(self) -> float:
        """Half a step of the noise over the least of its standard deviations."""
        self._require_tables()
        return 0.5 / min(table.stddev for table in self.noisy_tables)

    def marginal(self, *attributes: Any, level: float = 0.95) -> Answers:
        """The table of counts over some attributes: each number with its interval, or the model's with a bound."""
        names = self.domain.named(attributes)
        return marginal_answers(self.schema, names, self.estimates, level=level, notes=self._notes(), grain=self.grain)

    def term(self, which: int | ProductTerm = 0, *, level: float = 0.95) -> Answers:
        """The answers to one term of the workload, or to any other product of queries, with intervals or a bound."""
        return measured_term_answers(
            self.schema, self._term(which), self.estimates, level=level, notes=self._notes(), grain=self.grain
        )

    def counts(self, *attributes: Any) -> Floats:
        """Estimated counts: unbiased for tables inside a measured one, from the model for others."""
        return self.estimates.counts(self.domain.named(attributes))

    def model(
        self,
        cliques: Iterable[Iterable[str]] | None = None,
        *,
        method: Route = "auto",
        max_size_mb: float | None = None,
        tolerance: float = TOLERANCE,
        seed: int = 0,
    ) -> Model:
        """The model that the mechanism fitted; one with other wishes is fitted to the same tables anew."""
        self._require_tables()
        plain = cliques is None and max_size_mb is None and method in ("auto", "exact") and tolerance >= TOLERANCE
        if self.fitted is None or not plain:
            return super().model(cliques, method=method, max_size_mb=max_size_mb, tolerance=tolerance, seed=seed)
        return self._cautioned(Model(self.schema, self.fitted, self.measurements()))

    def _total(self) -> float:
        return estimate_total(self.domain, self.measurements())[0]

    def contradiction(self) -> str | None:
        """What a release from a file shows that it does not hold."""
        if self.complete and not self.noisy_tables:
            return "it holds no table"
        found = unaccounted(self.statement, self.noisy_tables, self.rounds) or beyond_budget(self.statement)
        if found is None and self.scored is not None:
            generalized = self.settings.get("selection") == "generalized"
            found = too_sure(self.statement, self.rounds, self.scored, generalized=generalized)
        return found

    def _require_tables(self) -> None:
        if not self.noisy_tables:
            raise QueryError(
                "the release was interrupted before its first noisy table and answers nothing; go on with it by "
                "--resume, or plan.release(table, resume=release)"
            )

    def _pack(self) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
        return pack_record(self)

    @classmethod
    def unpack(cls, archive: ArchiveReader, **common: Any) -> MeasuredRelease:
        """The release that `save` wrote."""
        entry = archive.field("measured", dict)
        return cls(**unpack_record(common["schema"], entry, archive), **common)
