"""Release: noisy tables, and everything that can be asked of them at no further cost."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, overload

import numpy as np
import pyarrow as pa

from hush.archive import write_archive
from hush.arrays import Floats, reordered
from hush.domain import Clique, Domain, listed_cliques
from hush.errors import DataError, SizeError, WorkloadError, printable, shown
from hush.graphical.fit_problem import TOLERANCE
from hush.graphical.synthesis import Method
from hush.graphical.total import SMALLEST_TOTAL, estimate_total
from hush.inference.estimates import Estimates
from hush.inference.nonnegative_tables import nonnegative_tables, whole_tables
from hush.privacy.measurement import Measurement
from hush.release.answers import Answers
from hush.release.fit import ROUTES, Restriction, Route, fit
from hush.release.model import Model
from hush.release.model_estimates import NO_ROWS
from hush.release.statement import SEEDED, STAMP, Statement
from hush.release.synthetic_rows import Copies, check_wishes, copy_seeds
from hush.release.term_answers import term_answers
from hush.schema import Schema
from hush.workloads import ProductTerm, Workload
from hush.workloads.workload_files import pack_domain, pack_workload

KIND = "release"
VERSION = 1
KINDS = ("unbiased", "nonnegative", "whole")
LARGEST_TABLES = 2**28


class Release(ABC):
    """What a mechanism gave out: estimates with errors, and the promise they were made under.

    Everything here is post-processing: it reads no private data and can be done for ever.

    >>> import hush
    >>> table = hush.read(hush.datasets.people(1000, seed=1), hush.datasets.people_schema())
    >>> release = hush.plan(hush.Workload.kway(table.domain, 1), hush.Budget(rho=0.5)).release(table)
    >>> release.counts(("sex",)).shape, release.marginal("sex").to_arrow().num_rows
    ((2,), 2)
    """

    mechanism: str

    def __init__(self, *, schema: Schema, workload: Workload, statement: Statement, complete: bool = True) -> None:
        self.schema = schema
        self.workload = workload
        self.statement = statement
        self.complete = complete

    @property
    @abstractmethod
    def estimates(self) -> Estimates:
        """Counts and covariances."""

    @abstractmethod
    def contradiction(self) -> str | None:
        """What a release from a file shows that it does not hold, in words; None where all is well."""

    @abstractmethod
    def _pack(self) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
        """What the mechanism stores beside the workload: a manifest entry and arrays."""

    def measurements(self) -> list[Measurement]:
        """What was measured, as evidence that a model can be fitted to; mechanisms that know more say more.

        Here: the largest tables that can be estimated, each as if measured by itself.
        """
        return self._as_measured(self.estimates.cliques)

    def _as_measured(self, cliques: Iterable[Clique]) -> list[Measurement]:
        """Tables that can be estimated, each as if measured by itself."""
        made = []
        for clique in cliques:
            deviation = math.sqrt(float(np.mean(self._variances(clique))))
            made.append(Measurement(clique, self.estimates.counts(clique), deviation))
        return made

    @property
    def laplace(self) -> bool:
        """Whether its noise has Laplace tails, which make intervals a little wider."""
        return False

    @property
    def consistent(self) -> bool:
        """Whether its tables agree on what they share."""
        return True

    @property
    def grain(self) -> float:
        """Half the step of its coarsest noise over that noise's standard deviation; intervals are wider by it."""
        return 0.0

    @property
    def domain(self) -> Domain:
        """The attributes and their sizes."""
        return self.workload.domain

    def to_dict(self) -> dict[str, Any]:
        """What was released and what it promises as texts, numbers and lists, for JSON; the answers are asked for."""
        return {
            "mechanism": self.mechanism,
            "complete": self.complete,
            "statement": self.statement.to_dict(),
            "columns": {column.name: column.size for column in self.schema},
            "workload": {"tables": len(self.workload), "numbers": self.workload.queries},
            "tables": [list(clique) for clique in self.estimates.cliques],
        }

    def counts(self, *attributes: Any) -> Floats:
        """Estimated counts over a clique, of shape `domain.sizes(clique)`, in the order given.

        Unbiased: some may be negative, none need be whole. `counts("a", "b")` and `counts(("a", "b"))` mean the same.
        """
        names = self._covered(self.domain.named(attributes))
        return self.estimates.counts(names)

    def marginal(self, *attributes: Any, level: float = 0.95) -> Answers:
        """The table of counts over some attributes, each number with its interval.

        `marginal("a", "b")` and `marginal(("a", "b"))` mean the same.
        """
        names = self._covered(self.domain.named(attributes))
        counts, variances = self.estimates.counts(names), self._variances(names)
        made = Answers.of_marginal(self.schema, names, counts, variances, level, notes=self._notes())
        return replace(made, laplace=self.laplace, grain=self.grain)

    def term(self, which: int | ProductTerm = 0, *, level: float = 0.95) -> Answers:
        """The answers to one term of the workload, by its place or itself: prefix sums, ranges, any product of blocks.

        Every combination of queries, one on each attribute, has an estimate and its exact standard error. Any other
        term can be asked for too, as long as the release can estimate it.
        """
        term = self._term(which)
        numbers = math.prod(block.shape[0] for block in term.blocks)
        if numbers > LARGEST_TABLES:
            raise SizeError(f"the term asks for {numbers:,} numbers; ask for at most {LARGEST_TABLES:,} at a time")
        made = term_answers(self.schema, term, self.estimates, level=level, notes=self._notes())
        return replace(made, laplace=self.laplace, grain=self.grain)

    def tables(self, cliques: Iterable[Iterable[str]] | None = None, *, kind: str = "unbiased") -> dict[Clique, Floats]:
        """Several tables at once; by default the largest ones that the release has.

        `kind="unbiased"` gives the estimates. `"nonnegative"` gives the nearest tables that are non-negative and agree
        on all they share; `"whole"` gives non-negative integers that agree on the total and on leading attributes.
        The last two are **biased** upwards where counts are small, and the estimates' standard errors do not hold for
        them: they are for display and for tools that cannot take negative counts.
        """
        if kind not in KINDS:
            raise WorkloadError(f"kind={kind!r}: expected one of {', '.join(KINDS)}")
        names = (
            self.estimates.cliques if cliques is None else [self._covered(clique) for clique in listed_cliques(cliques)]
        )
        cells = sum(self.domain.size(clique) for clique in names)
        if cells > LARGEST_TABLES:
            raise SizeError(f"{len(names)} tables have {cells:,} cells in all; ask for fewer at a time")
        made = {clique: self.estimates.counts(clique) for clique in names}
        if kind == "unbiased":
            return made
        weights = {clique: 1 / float(np.mean(self._variances(clique))) for clique in names}
        total = float(self.estimates.counts(()))
        settled = nonnegative_tables(self.domain, made, total=max(total, 0.0), weights=weights).checked()
        if kind == "whole":
            whole = whole_tables(self.domain, settled, total=round(max(total, 0.0)))
            settled = {clique: table.astype(np.float64) for clique, table in whole.items()}
        ordered = {clique: self.domain.clique(clique) for clique in names}
        return {clique: reordered(settled[own], own, clique) for clique, own in ordered.items()}

    def sql(self, text: str, *, level: float = 0.95) -> Answers:
        """Answer a counting query in SQL; see docs/sql.md for what can be asked."""
        from hush.release.sql_answers import answer_sql

        answers = answer_sql(text, self.schema, self.estimates, level=level)
        return replace(answers, notes=(*answers.notes, *self._notes()), laplace=self.laplace, grain=self.grain)

    def model(
        self,
        cliques: Iterable[Iterable[str]] | None = None,
        *,
        method: Route = "auto",
        max_size_mb: float | None = None,
        tolerance: float = TOLERANCE,
        seed: int = 0,
    ) -> Model:
        """One consistent distribution behind the release: non-negative tables, SQL over any columns, synthetic rows.

        `cliques` restricts it to what was measured inside them, which keeps the model small. Where an exact model
        would be too large, `method="auto"` gives an approximate one, whose tables only agree with each other;
        "exact" refuses. The schema's constraints are kept. Counts are **biased** where they are small.

        Reference: [HDMM, sec. 4.5].
        """
        if method not in ROUTES:
            raise WorkloadError(f"method={shown(method)}: expected one of {', '.join(ROUTES)}")
        known = self.measurements()
        inside = None if cliques is None else Restriction(self.domain, cliques, known)
        options: dict[str, Any] = {
            "total": self._total(),
            "max_size_mb": max_size_mb,
            "tolerance": tolerance,
            "seed": seed,
        }
        if method != "approximate":
            try:
                evidence = known if inside is None else inside.measurements
                return self._cautioned(fit(self.schema, evidence, method="exact", **options))
            except SizeError as error:
                if method == "exact":
                    raise SizeError(f"{error}; release.model(cliques=[...]) leaves cliques out") from None
        largest = self.estimates.cliques
        tables = self._as_measured(largest if inside is None else inside.tables(largest))
        return self._cautioned(fit(self.schema, tables, method="approximate", **options))

    @overload
    def synthesize(
        self,
        rows: int | None = None,
        *,
        method: Method = "rounding",
        given: Mapping[str, Any] | None = None,
        seed: int | None = None,
        copies: None = None,
    ) -> pa.Table: ...
    @overload
    def synthesize(
        self,
        rows: int | None = None,
        *,
        method: Method = "rounding",
        given: Mapping[str, Any] | None = None,
        seed: int | None = None,
        copies: int,
    ) -> Copies: ...
    def synthesize(
        self,
        rows: int | None = None,
        *,
        method: Method = "rounding",
        given: Mapping[str, Any] | None = None,
        seed: int | None = None,
        copies: int | None = None,
    ) -> pa.Table | Copies:
        """Made-up rows in the schema's real values, drawn from `model()`; as many as there are records by default.

        See `Model.synthesize`. Standard errors computed from them as if they were real rows are too small, and so are
        those from several `copies`.
        """
        check_wishes(0 if rows is None else rows, method, seed)
        if copies is not None:
            copy_seeds(copies, seed)
            return self._model.synthesize(rows, method=method, given=given, seed=seed, copies=copies)
        return self._model.synthesize(rows, method=method, given=given, seed=seed)

    def _total(self) -> float:
        """The number of records of a model; tables that disagree on it are averaged by their precision."""
        if not self.consistent:
            with suppress(DataError):  # their queries may know it only together
                return estimate_total(self.domain, self.measurements())[0]
        return max(float(self.estimates.counts(())), SMALLEST_TOTAL)

    def _cautioned(self, model: Model) -> Model:
        """The model with what the answers of this release must be read with, and with its estimates.

        Tables of an approximate model were fitted as if their noise were independent, so their misfit says little.
        """
        small = (NO_ROWS,) if model.total == SMALLEST_TOTAL else ()
        model.caveats = (*self._notes(), *small, *(model.caveats if model.exact else ()))
        model.source = self
        return model

    @cached_property
    def _model(self) -> Model:
        return self.model()

    def save(self, path: str | Path) -> None:
        """Write the release to a file that `hush.load` reads; it holds nothing private."""
        entry, arrays = self._pack()
        workload, workload_arrays = pack_workload(self.workload)
        manifest = {
            "mechanism": self.mechanism,
            "complete": self.complete,
            "privacy": self.statement.to_dict(),
            "domain": pack_domain(self.domain),
            "schema": self.schema.to_toml(),
            "workload": workload,
            "measured": entry,
        }
        write_archive(path, kind=KIND, version=VERSION, manifest=manifest, arrays=arrays | workload_arrays)

    def _notes(self) -> tuple[str, ...]:
        """What every answer of this release must be read with."""
        unit, notes = self.statement.unit, [] if self.statement.private else [SEEDED]
        if unit.column is not None:
            rows = "1 row" if unit.max_rows == 1 else f"{unit.max_rows} rows"
            notes.append(f"at most {rows} of each {printable(unit.column)} counted; further rows were left out.")
        if not self.complete:
            notes.append("the release was interrupted; tables measured later are missing.")
        return tuple(notes)

    def _variances(self, clique: Clique) -> Floats:
        ones = np.ones(self.domain.sizes(clique))
        return self.estimates.covariance(clique, ones, ones, len(clique))

    def _term(self, which: int | ProductTerm) -> ProductTerm:
        if isinstance(which, ProductTerm):
            return Workload(self.domain, [which]).products[0]
        last = len(self.workload) - 1
        if isinstance(which, bool) or not isinstance(which, int) or not 0 <= which <= last:
            raise WorkloadError(
                f"term {shown(which)}: expected a ProductTerm, or a place from 0 to {last} in the workload"
            )
        return self.workload.products[which]

    def _covered(self, clique: Iterable[str]) -> Clique:
        names = self.domain.check(clique)
        if not self.estimates.covers(names):
            raise WorkloadError(
                f"the release has no table over {names!r}; a workload with that marginal would have covered it, and "
                "release.model() estimates it, without an error bar"
            )
        return names

    def __repr__(self) -> str:
        state = "" if self.complete else ", interrupted"
        stamp = "" if self.statement.private else f", {STAMP}"
        return f"Release({self.mechanism}, {len(self.workload)} tables, {self.statement.budget}{state}{stamp})"
