"""Noisy tables that were chosen as they were measured, the rounds of those choices, and the model of them all.

Tables inside a measured one are answered by the best linear unbiased estimate, with exact intervals; any other from the
model, with a bound on the error of the table where one is known. A file must account for its tables and choices, keep
to its budget, and promise no more in its scores than the choices can.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from hush.errors import BudgetError, QueryError, SizeError
from hush.graphical.total import estimate_total
from hush.inference.best_unbiased import UnbiasedEstimates
from hush.privacy.events import ComposedEvent, Event, SelectionEvent, price
from hush.privacy.measurement import Measurement
from hush.privacy.selection import BETA
from hush.privacy.sensitivity import ONE_CELL, RowNorms, Sensitivity, sensitivity
from hush.release.bounded_answers import MeasuredEstimates
from hush.release.content import Content
from hush.release.error_bounds import ErrorBounds
from hush.release.record_files import DrawRecordFile, RecordFile
from hush.release.rounds import LEAST_STDDEV, Round, Scored, gaussian_law
from hush.release.statement import Statement
from hush.solution import Solution

if TYPE_CHECKING:
    from hush.domain import Domain
    from hush.graphical.graphical_model import GraphicalModel
    from hush.release.release import Release

ROUNDING = Fraction(1, 10**9)  # another version may turn the same epsilon into a rho that differs in the last digits
LARGEST_EPSILON = 2**64


def unaccounted(statement: Statement, tables: Iterable[Measurement], rounds: Iterable[Round]) -> str | None:
    """What of the tables and choices the statement does not pay for; a stopped run may have paid for more."""
    parts = Counter(dict(event_parts(statement.event)))
    for table in tables:
        event = gaussian_law(table).event(unit_bound(statement, table.asked.row_norms))  # type: ignore[union-attr]
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


def unit_bound(statement: Statement, norms: RowNorms = ONE_CELL) -> Sensitivity:
    """How far a unit of the statement moves a table, or the answers to a query of these norms."""
    return sensitivity(norms, max_rows=statement.unit.max_rows, neighbours=statement.neighbours)


class TableContent(Content):
    """Whole tables with Gaussian noise, how they were chosen, and one model of them all.

    A release that was interrupted before its first table answers nothing; it can be resumed.
    """

    kind: ClassVar[str] = "tables"
    stored_type: ClassVar[Any] = RecordFile[Round]
    bounded: ClassVar[bool] = True

    def __init__(
        self,
        domain: Domain,
        noisy_tables: Iterable[Measurement],
        *,
        rounds: Iterable[Round] = (),
        scored: Scored | None = None,
        fitted: Solution[GraphicalModel] | None = None,
    ) -> None:
        self.domain = domain
        self.noisy_tables = tuple(noisy_tables)
        self.rounds = tuple(rounds)
        self.scored = scored
        self.fitted = fitted

    @property
    def tables(self) -> int:
        """How many noisy tables were measured."""
        return len(self.noisy_tables)

    @property
    def grain(self) -> float:
        """Half a step of the noise over the least of its standard deviations."""
        self.require_tables()
        return 0.5 / min(table.stddev for table in self.noisy_tables)

    def require_tables(self) -> None:
        """Refuse to answer from nothing."""
        if not self.noisy_tables:
            raise QueryError(
                "the release was interrupted before its first noisy table and answers nothing; go on with it by "
                "--resume, or plan.release(table, resume=release)"
            )

    def measurements(self) -> list[Measurement]:
        """Every noisy table, with its own noise."""
        return [table.floored(LEAST_STDDEV) for table in self.noisy_tables]

    def total(self) -> float:
        """The number of records by all tables."""
        return estimate_total(self.domain, self.measurements())[0]

    def unbiased(self) -> UnbiasedEstimates | None:
        """What the noisy tables say together without a model; None where they are too wide for it."""
        try:
            return UnbiasedEstimates(self.domain, [table for table in self.measurements() if table.query is None])
        except SizeError:
            return None

    def estimates(self, release: Release) -> MeasuredEstimates:
        """Unbiased estimates with exact errors where there are some, the model elsewhere."""
        self.require_tables()
        model, unbiased = release.model(), self.unbiased()
        bounds = ErrorBounds(
            self.domain,
            model.distribution,
            unbiased,
            self.rounds,
            self.scored,
            total=model.total,
            noisy_tables=self.noisy_tables,
        )
        return MeasuredEstimates(model.distribution, unbiased, bounds)

    def inconsistency(self, release: Release) -> str | None:
        """Explain why a release from a file cannot be what it says."""
        if release.complete and not self.noisy_tables:
            return "it holds no table"
        statement = release.statement
        problem = unaccounted(statement, self.noisy_tables, self.rounds) or beyond_budget(statement)
        if problem is None and self.scored is not None:
            generalized = release.settings.get("selection") == "generalized"
            problem = too_sure(statement, self.rounds, self.scored, generalized=generalized)
        return problem


class DrawContent(TableContent):
    """Noisy columns, queries that were drawn in a private game as `rounds`, and the model of both.

    A model with other options than those of `release.model()`, or of a release that was interrupted, is one of the
    columns alone.
    """

    kind: ClassVar[str] = "draws"
    stored_type: ClassVar[Any] = DrawRecordFile
