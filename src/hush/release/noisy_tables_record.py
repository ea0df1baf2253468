"""The record of adaptive mechanisms: noisy tables, the rounds that chose them, and the model of them all.

The best linear unbiased estimate answers tables inside a measured one, with exact intervals. The model answers any
other, with a bound on the error of the table if one is known. The scores in a file must promise no more than its
choices can.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from hush.core.errors import QueryError, SizeError
from hush.core.solution import Solution
from hush.inference.best_unbiased import UnbiasedEstimates
from hush.models.fit_arguments import estimate_total
from hush.privacy.measurement import Measurement
from hush.privacy.noise import Noise
from hush.privacy.selection import BETA
from hush.privacy.sensitivity import ONE_CELL, RowNorms, sensitivity
from hush.release.bounded_answers import MeasuredEstimates
from hush.release.error_bounds import ErrorBounds
from hush.release.record import Record
from hush.release.record_files import DrawsFile, NoisyTablesFile
from hush.release.rounds import LEAST_STDDEV, Round, Scored, gaussian_law
from hush.release.statement import Statement

if TYPE_CHECKING:
    from hush.core.domain import Domain
    from hush.release.model_estimates import Distribution
    from hush.release.release import Release


def too_sure(statement: Statement, rounds: Sequence[Round], scored: Scored, *, generalized: bool) -> str | None:
    """Whether scores promise more than a choice with the epsilon of their round can.

    With d = 2 unit / epsilon, v = w_t / w_r for the chosen t, and k candidates, the exponential mechanism has
    slope = d max w / w_r >= d max(1, v) and slack = slope log k; the generalised played slope = d (1 + v) and
    slack = d ((1 + v) log k + (1 - v) log(k / beta)).
    """
    used = np.flatnonzero(scored.rounds >= 0)
    chosen = [rounds[number] for number in scored.rounds[used].tolist()]
    if any(played.epsilon <= 0 or played.candidates < 1 for played in chosen):
        return "it holds scores of a round without a choice"
    unit = sensitivity(ONE_CELL, max_rows=statement.unit.max_rows, neighbours=statement.neighbours)
    d = 2 * float(unit.l1) / np.array([played.epsilon for played in chosen])
    k = np.array([float(played.candidates) for played in chosen])
    v = np.array([played.weight for played in chosen]) / scored.weights[used]
    slope = d * (1 + v) if generalized else d * np.maximum(1, v)
    slack = d * ((1 + v) * np.log(k) + (1 - v) * np.log(np.maximum(k, 2) / BETA)) if generalized else slope * np.log(k)
    room = 1e-9 * d * (1 + v) * (1 + np.log(k / BETA))
    sound = (scored.slopes[used] >= slope - room).all() and (scored.slacks[used] >= slack - room).all()
    return None if sound else "its scores promise more than its choices can"


class NoisyTablesRecord(Record):
    """Whole tables with Gaussian noise, how they were chosen, and one model of them all.

    A release interrupted before its first table answers nothing; it can be resumed.
    """

    kind: ClassVar[str] = "tables"
    stored_type: ClassVar[Any] = NoisyTablesFile[Round]
    bounded: ClassVar[bool] = True

    def __init__(
        self,
        domain: Domain,
        noisy_tables: Iterable[Measurement],
        *,
        rounds: Iterable[Round] = (),
        scored: Scored | None = None,
        fitted: Solution[Distribution] | None = None,
    ) -> None:
        self.domain = domain
        self.noisy_tables = tuple(noisy_tables)
        self.rounds = tuple(rounds)
        self.scored = scored
        self.fitted = fitted

    @property
    def tables(self) -> int:
        return len(self.noisy_tables)

    def require_tables(self) -> None:
        if not self.noisy_tables:
            raise QueryError(
                "the release was interrupted before its first noisy table and answers nothing; resume it with "
                "--resume, or plan.release(table, resume=release)"
            )

    def measurements(self) -> list[Measurement]:
        return [table.floored(LEAST_STDDEV) for table in self.noisy_tables]

    def law_counts(self) -> Counter[tuple[RowNorms, Noise]]:
        return Counter((table.asked.row_norms, gaussian_law(table)) for table in self.noisy_tables)  # type: ignore[union-attr]

    def total(self) -> float:
        """The number of records, estimated from all tables."""
        return estimate_total(self.domain, self.measurements())[0]

    def unbiased(self) -> UnbiasedEstimates | None:
        """The best unbiased estimates from the noisy tables; None if these are too wide."""
        try:
            tables = [table for table in self.noisy_tables if table.query is None]
            floored = [table.floored(LEAST_STDDEV) for table in tables]
            return UnbiasedEstimates(self.domain, floored, [table.law for table in tables])
        except SizeError:
            return None

    def estimates(self, release: Release) -> MeasuredEstimates:
        """Unbiased estimates with exact errors inside measured tables, the model elsewhere."""
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
        return MeasuredEstimates(model.distribution, unbiased, bounds, model.measurements)

    def inconsistency(self, release: Release) -> str | None:
        if release.complete and not self.noisy_tables:
            return "it holds no table"
        if self.scored is None:
            return None
        generalized = release.settings.get("selection") == "generalized"
        return too_sure(release.statement, self.rounds, self.scored, generalized=generalized)


class DrawsRecord(NoisyTablesRecord):
    """Noisy columns, queries drawn in a private game as `rounds`, and the model of both.

    A model with other options than the defaults of `release.model()`, or of an interrupted release, uses the columns
    alone.
    """

    kind: ClassVar[str] = "draws"
    stored_type: ClassVar[Any] = DrawsFile
