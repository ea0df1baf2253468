"""MeasuredRelease: noisy tables that were chosen as they were taken, and the model of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from hush.archive import ArchiveReader
from hush.errors import QueryError, SizeError
from hush.graphical.measurement import Measurement
from hush.graphical.stopping import TOLERANCE
from hush.graphical.total import estimate_total
from hush.graphical.unbiased import UnbiasedEstimates
from hush.inference.estimates import Array
from hush.release.answers import Answers
from hush.release.bound_table import BoundTable
from hush.release.error_bounds import ErrorBound, ErrorBounds
from hush.release.fitting import Route
from hush.release.measured_answers import marginal_answers, measured_term_answers
from hush.release.measured_checks import beyond_budget, too_sure, unaccounted
from hush.release.measured_estimates import MeasuredEstimates
from hush.release.measured_storage import pack_record, unpack_record
from hush.release.model import Model
from hush.release.release import Release
from hush.release.rounds import Round, Scored
from hush.release.taken import Taken
from hush.solution import Solution
from hush.workloads import Term

if TYPE_CHECKING:
    from hush.graphical.model import GraphicalModel


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
        taken: Iterable[Taken],
        rounds: Iterable[Round] = (),
        scored: Scored | None = None,
        settings: Mapping[str, Any] | None = None,
        fitted: Solution[GraphicalModel] | None = None,
        dataset: str | None = None,
        **common: Any,
    ) -> None:
        super().__init__(**common)
        self.taken = tuple(taken)
        self.rounds = tuple(rounds)
        self.scored = scored
        self.settings = dict(settings or {})
        self.fitted = fitted
        self.dataset = dataset

    def measurements(self) -> list[Measurement]:
        """Every noisy table, with its own noise."""
        return [one.measurement() for one in self.taken]

    @cached_property
    def unbiased(self) -> UnbiasedEstimates | None:
        """What the noisy tables say together without a model; None where they are too wide for it."""
        self._require_tables()
        try:
            return UnbiasedEstimates(self.domain, [one.measurement() for one in self.taken if one.merging is None])
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
            taken=self.taken,
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
        return 0.5 / min(one.stddev for one in self.taken)

    def marginal(self, *attributes: Any, level: float = 0.95) -> Answers:
        """The table of counts over some attributes: each number with its interval, or the model's with a bound."""
        names = self.domain.named(attributes)
        return marginal_answers(self.schema, names, self.estimates, level=level, notes=self._notes(), grain=self.grain)

    def term(self, which: int | Term = 0, *, level: float = 0.95) -> Answers:
        """The answers to one term of the workload, or to any other product of queries, with intervals or a bound."""
        return measured_term_answers(
            self.schema, self._term(which), self.estimates, level=level, notes=self._notes(), grain=self.grain
        )

    def counts(self, *attributes: Any) -> Array:
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
        if self.complete and not self.taken:
            return "it holds no table"
        found = unaccounted(self.statement, self.taken, self.rounds) or beyond_budget(self.statement)
        if found is None and self.scored is not None:
            generalized = self.settings.get("selection") == "generalized"
            found = too_sure(self.statement, self.rounds, self.scored, generalized=generalized)
        return found

    def _require_tables(self) -> None:
        if not self.taken:
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
