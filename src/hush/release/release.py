"""Release: noisy answers, and everything they can be asked at no further cost."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hush.core.arrays import Floats, reordered
from hush.core.constraints import fingerprint
from hush.core.domain import Clique, Domain, listed_cliques
from hush.core.errors import ArchiveError, HushError, QueryError, SizeError, WorkloadError, shown
from hush.core.rational import shown_up
from hush.core.validation import check_choice, is_whole
from hush.files.archive import VERSIONS, ArchiveReader, write_archive
from hush.files.atomic_write import check_new
from hush.files.codec import Stored, pack, unpack
from hush.inference.estimates import BoundedEstimates, ConstantColumnEstimates, Estimates
from hush.inference.intervals import ErrorMargins, NoiseIntervals
from hush.inference.measured_sums import MeasuredSumsFile
from hush.privacy.budget import Budget, number_text
from hush.privacy.ledger.ledger_chain import NOTE_LENGTH
from hush.privacy.ledger.ledger_chain import printable as one_line
from hush.privacy.measurement import Measurement
from hush.release.answers import Answers, Quantity
from hush.release.queryable import AnswerFacts, Queryable
from hush.release.record import LACKING_TABLES, Record, Round, record_class
from hush.release.spent_together import spent_together
from hush.release.statement import STAMP, Statement, contradiction
from hush.render.text_table import TextTable
from hush.schema import Schema
from hush.strategies.strategy_files import sums_inconsistency
from hush.workloads import Term, Workload
from hush.workloads.sum_term import grid_fault
from hush.workloads.term import not_answered
from hush.workloads.workload_files import WorkloadFile

if TYPE_CHECKING:
    from hush.release.error_bounds import BoundTable, ErrorBound, ErrorBounds
    from hush.release.fit import Route
    from hush.release.model import Model
    from hush.release.term_answers import NonnegativeAnswers

VERSION = VERSIONS["release"]
LARGEST_TABLES = 2**28
SHOWN_TABLES = 12  # in a notebook


class ReleaseFile(Stored):
    """The file of a release; the kind of its record says how `content` is read."""

    mechanism: str
    complete: bool
    privacy: dict[str, Any]
    domain: Domain
    schema: str
    workload: WorkloadFile
    settings: dict[str, Any]
    dataset: str | None
    content: Any
    sums: MeasuredSumsFile | None = None

    def __post_init__(self) -> None:
        for name in (self.mechanism, "dataset" if self.dataset is None else self.dataset):
            if not name or one_line(name, NOTE_LENGTH) != name:
                raise ValueError("Expected short printable names of the mechanism and the dataset")


class Release(Queryable):
    """What a mechanism published: estimates with errors, and the privacy statement.

    `record` holds the noisy answers and says how counts are estimated from them. `mechanism` and `settings` say how
    they were made; `dataset` is the name in the ledger of an interrupted release. Everything here is post-processing:
    it reads no private data and costs no privacy.

    >>> import hush
    >>> table = hush.read(hush.datasets.people(1000, seed=1), hush.datasets.people_schema())
    >>> release = hush.plan(hush.Workload.kway(table.domain, 1), hush.Budget(rho=0.5)).release(table)
    >>> release.counts(("sex",)).shape, release.marginal("sex").to_arrow().num_rows
    ((2,), 2)
    """

    def __init__(
        self,
        *,
        mechanism: str,
        schema: Schema,
        workload: Workload,
        statement: Statement,
        record: Record,
        settings: Mapping[str, Any] | None = None,
        complete: bool = True,
        dataset: str | None = None,
    ) -> None:
        self.mechanism = mechanism
        self.schema = schema
        self.domain = workload.domain
        self.workload = workload
        self.statement = statement
        self.record = record
        self.settings = dict(settings or {})
        self.complete = complete
        self.dataset = dataset
        self._in_a_file = False

    @cached_property
    def estimates(self) -> Estimates:
        """Counts and covariances."""
        estimates = self.record.estimates(self)
        if 1 not in self.domain.shape or isinstance(estimates, BoundedEstimates):
            return estimates
        return ConstantColumnEstimates(estimates, self.domain)

    @property
    def noisy_tables(self) -> tuple[Measurement, ...]:
        """The tables an adaptive mechanism measured, in order."""
        return tuple(self.record.noisy_tables)

    @property
    def rounds(self) -> tuple[Round, ...]:
        """The choices an adaptive mechanism made, in order."""
        return tuple(self.record.rounds)

    def measurements(self) -> list[Measurement]:
        """What was measured, as evidence that a model can be fitted to."""
        return self.record.measurements()

    def inconsistency(self) -> str | None:
        """Explain why a loaded release cannot be what it says; None if all is well."""
        if not set(self.schema.from_private_data) <= set(self.statement.drafted):
            return "its schema was drafted from private data, and its privacy statement does not say so"
        if self.statement.constraints != fingerprint(self.schema.constraints):
            return "the rules of its schema are not those that its privacy statement has the fingerprint of"
        if self.statement.unit != self.schema.unit:
            return "it states another privacy unit than its schema"
        sums = self.record.sums
        reason = sums_inconsistency(None if sums is None else sums.strategy, self.workload, self.statement.neighbours)
        if reason is None and sums is not None:
            reason = next((fault for term in self.workload.sum_terms if (fault := grid_fault(term, self.schema))), None)
            lacking = self.complete and self.record.charged_at_once and not sums.complete
            reason = reason or (LACKING_TABLES if lacking else None)
        return reason or self.record.inconsistency(self) or contradiction(self.statement, self.record)

    @property
    def bounded(self) -> bool:
        """Whether a model answers tables that were not measured, with bounds on their errors."""
        return self.record.bounded

    @property
    def spent(self) -> tuple[float, float] | None:
        """The epsilon and delta of the release, with the discovery of its schema; None if nothing bounds them."""
        return spent_together(self.statement, self.schema)

    def statement_lines(self) -> list[tuple[str, str]]:
        """Names and values of the privacy statement as text, with the discovery of the schema."""
        lines, run = self.statement.lines(), self.schema.discovery
        if run is None and all(column.discovered is None for column in self.schema):
            return lines
        cost = "at a cost" if run is None else f"for {Budget.from_dict(dict(run.budget))}"
        text = f"bounds or levels were found in private rows, {cost} in addition"
        if self.spent is not None:
            epsilon, delta = self.spent
            text += f"; together epsilon={shown_up(epsilon)}" + (f" at delta={number_text(delta)}" if delta else "")
        place = [name for name, _ in lines].index("Spent") + 1
        return [*lines[:place], ("Discovery", text), *lines[place:]]

    def to_dict(self) -> dict[str, Any]:
        """What was released and the privacy it promises, without the answers, as texts, numbers and lists for JSON."""
        return {
            "mechanism": self.mechanism,
            "complete": self.complete,
            "statement": self.statement.to_dict(),
            "discovery": None if self.schema.discovery is None else dict(self.schema.discovery.budget),
            "columns": {column.name: column.size for column in self.schema},
            "workload": {"tables": len(self.workload), "numbers": self.workload.queries},
            "tables": [list(clique) for clique in self.estimates.cliques],
        }

    def counts(self, *attributes: Any, unbiased: bool = False) -> Floats:
        """Estimated counts over a clique, of shape `domain.sizes(clique)`, in the order given.

        The best estimates of the release: unbiased counts, some of which may be negative, or those of the model that an
        adaptive mechanism fitted, which are biased. `unbiased=True` asks for unbiased counts, which are known inside
        measured tables. `counts("a", "b")` and `counts(("a", "b"))` mean the same.
        """
        from hush.release.model_estimates import closer_model, covered

        names = covered(self.estimates, self.domain.named(attributes), unbiased=unbiased)
        return (closer_model(self.estimates, names, unbiased=unbiased) or self.estimates).counts(names)

    def marginal(self, *attributes: Any, level: float = 0.95, unbiased: bool = False) -> Answers:
        """The table of counts over some attributes, each number with its interval; the estimates are those of `counts`.

        `marginal("a", "b")` and `marginal(("a", "b"))` mean the same.
        """
        from hush.release.model_estimates import closer_model, covered
        from hush.release.term_answers import table_answers, with_model_estimates

        names, facts = covered(self.estimates, self.domain.named(attributes), unbiased=unbiased), self.facts
        answers = table_answers(self.schema, names, self.estimates, level=level, notes=facts.notes)
        if (model := closer_model(self.estimates, names, unbiased=unbiased)) is not None:
            return with_model_estimates(answers, model.counts(names))
        return facts.marked(answers)

    def plot(self, *attributes: Any, level: float = 0.95, kind: str = "auto", axes: Any = None) -> Any:
        """A matplotlib plot of the counts over one or two attributes with their intervals; see `Answers.plot`."""
        return self.marginal(*attributes, level=level).plot(kind=kind, axes=axes)

    def term(self, which: int | Term = 0, *, level: float = 0.95, unbiased: bool = False) -> Answers:
        """The answers to one term of the workload, by its index or itself, of any kind.

        Every query has an estimate with its standard error, or with a bound if a model answers it. Any other term that
        the release can estimate may be asked for too. Estimates are those of `counts`.
        """
        from hush.release.model_estimates import closer_model, covered
        from hush.release.term_answers import bounded_term_answers, query_signs, with_model_estimates

        term = _term_of(self.workload, which)
        product, estimates, facts = term.product, self.estimates, self.facts
        # The answers must be known and fit into memory. Terms that are no products need the table over their clique.
        if product is None:
            covered(estimates, term.clique, unbiased=unbiased)
            if self.domain.size(term.clique) > LARGEST_TABLES:
                cells = f"{self.domain.size(term.clique):,} cells: at most {LARGEST_TABLES:,} are possible"
                raise SizeError(f"{term.text} needs a table of {cells}; ask for one over fewer columns")
        numbers = term.queries if product is None else math.prod(block.shape[0] for block in product.blocks)
        if numbers > LARGEST_TABLES:
            raise SizeError(f"the term asks for {numbers:,} numbers; ask for at most {LARGEST_TABLES:,} at a time")
        # Errors are always those of the noisy tables; estimates may be those of the model.
        answers = bounded_term_answers(self.schema, term, estimates, level=level, notes=facts.notes)
        if (model := closer_model(estimates, term.clique, unbiased=unbiased)) is None:
            return facts.marked(answers)
        if product is None:
            values = term.exact_answers(model.counts(term.clique))
        else:
            values, _ = model.product(product.clique, product.blocks)
        return with_model_estimates(answers, values, query_signs(term, self.domain.sizes(term.clique)))

    def combination(self, parts: Sequence[tuple[Iterable[str], Any]], *, level: float = 0.95) -> Answers:
        """A linear combination of cells of several tables, with its exact standard error.

        Each part is a clique and coefficients of the shape of its table; the value is the sum over all of them of
        coefficient times count. Only for releases of "residual" plans, where the correlations across tables are known.
        """
        from hush.release.model_estimates import covered

        named = []
        for clique, coefficients in parts:
            names = covered(self.estimates, clique)
            varying = self.domain.varying(names)
            if np.shape(coefficients) == self.domain.sizes(names):  # else refused below
                coefficients = np.reshape(coefficients, self.domain.sizes(varying))
            named.append((varying, coefficients))
        if not named:
            raise WorkloadError("a combination of no tables; give at least one clique with its coefficients")
        estimate, law = self.record.combination(named)
        values, errors = np.array([estimate]), np.array([law.stddev])
        margins = ErrorMargins(errors, np.zeros(1), lambda: ((law,), np.zeros(1, dtype=np.int64)))
        value = Quantity("value", values, errors, intervals=NoiseIntervals(values, margins))
        return Answers(groups=(), quantities=(value,), level=level, notes=self.facts.notes)

    @property
    def measured(self) -> Clique:
        """The attributes that were measured, in domain order: the axes of `nonnegative_cells`."""
        return self.domain.clique({name for measurement in self.measurements() for name in measurement.clique})

    def nonnegative_cells(self, method: str = "hybrid") -> Floats:
        """Non-negative counts over all `measured` attributes that fit the release best. **Biased.**

        "hybrid" fits the least squares answers to the workload, and the weighted squared error of its answers is never
        above theirs; "nnls" fits the noisy answers themselves. Where the answers do not determine the counts, these are
        one of many choices. Only for releases of linear strategies ("hdmm", "matrix", "direct", "gaussian").

        Reference: [Li 2013, sec. 3.5.3].
        """
        return self.record.nonnegative_cells(self, method)[1]

    def nonnegative_term(
        self, which: int | Term = 0, *, method: str = "hybrid", level: float = 0.95
    ) -> NonnegativeAnswers:
        """The answers to a term without negative counts. **Biased**; `term` gives the unbiased ones.

        "hybrid" and "nnls" answer from `nonnegative_cells`, so that answers agree; "clip" raises each negative
        answer to zero by itself. Intervals are those of the unbiased answers, cut at zero; see `NonnegativeAnswers`.
        """
        from hush.inference.nonnegative_cells import CELL_METHODS, block_answers
        from hush.release.term_answers import nonnegative_answers

        check_choice(WorkloadError, "method", method, (*CELL_METHODS, "clip"))
        term = _term_of(self.workload, which)
        if (product := term.product) is None:
            raise not_answered(term)
        self.record.require_tables()
        unbiased = self.term(which, level=level, unbiased=True)
        values = None if method == "clip" else block_answers(*self.record.nonnegative_cells(self, method), product)
        answers = nonnegative_answers(unbiased, product, values)
        return replace(answers, quantities=self.facts.marked(answers).quantities)

    @property
    def bounds(self) -> ErrorBounds:
        """Bounds on the error of the model, table by table."""
        from hush.release.model_estimates import MeasuredEstimates

        if not isinstance(self.estimates, MeasuredEstimates):
            raise QueryError(
                "error bounds are for releases that answer from a model; this release states errors with its answers"
            )
        return self.estimates.bounds

    def error_bound(self, *attributes: Any, level: float = 0.95) -> ErrorBound:
        """A bound on ||M_r(D) - M_r(model)||_1 that holds with probability `level`, at no further cost."""
        return self.bounds.of(self.domain.named(attributes), level=level)

    def error_bounds(self, *, level: float = 0.95, simultaneous: bool = False) -> BoundTable:
        """The bounds of every table of the workload and its subsets; `simultaneous=True` makes them hold together."""
        return self.bounds.all(level=level, simultaneous=simultaneous)

    def tables(self, cliques: Iterable[Iterable[str]] | None = None, *, kind: str = "unbiased") -> dict[Clique, Floats]:
        """Several tables at once; by default the largest of the release.

        `kind="unbiased"` gives the estimates. `"nonnegative"` gives the nearest tables that are non-negative and agree
        on all they share; `"whole"` gives non-negative integers that agree on the total and on leading attributes.
        The last two are **biased** upwards where counts are small, and the standard errors do not hold for them: they
        are for display and for tools that cannot take negative counts.
        """
        check_choice(WorkloadError, "kind", kind, ("unbiased", "nonnegative", "whole"))
        from hush.release.model_estimates import covered, mean_variance

        if cliques is None:
            names = list(self.estimates.cliques)
        else:
            names = [covered(self.estimates, clique) for clique in listed_cliques(cliques)]
        cells = sum(self.domain.size(clique) for clique in names)
        if cells > LARGEST_TABLES:
            raise SizeError(f"{len(names)} tables have {cells:,} cells in all; ask for fewer at a time")
        tables = {clique: self.estimates.counts(clique) for clique in names}
        if kind == "unbiased" or not self.record.tables:  # else nothing was measured, and all are 0
            return tables
        from hush.inference.nonnegative_tables import nonnegative_tables, whole_tables

        weights = {clique: 1 / mean_variance(self.estimates, clique) for clique in names}
        total = float(self.estimates.counts(()))
        settled = nonnegative_tables(self.domain, tables, total=max(total, 0.0), weights=weights).checked()
        if kind == "whole":
            whole = whole_tables(self.domain, settled, total=round(max(total, 0.0)))
            settled = {clique: table.astype(np.float64) for clique, table in whole.items()}
        ordered = {clique: self.domain.clique(clique) for clique in names}
        return {clique: reordered(settled[axes], axes, clique) for clique, axes in ordered.items()}

    def model(
        self,
        cliques: Iterable[Iterable[str]] | None = None,
        *,
        method: Route = "auto",
        max_size_mb: float | None = None,
        tolerance: float | None = None,
        seed: int = 0,
    ) -> Model:
        """One consistent distribution fitted to the release: non-negative tables, SQL over any columns, synthetic rows.

        `cliques` restricts it to what was measured inside them, which keeps the model small. `method="auto"` chooses
        by predicted time and memory: an exact model if it is fitted within seconds, else relaxed rows, or else, and if
        the schema has rules, an approximate model, whose tables only agree with each other. Where it could fit relaxed
        rows or tables that agree, it estimates the error of both and takes the smaller. With a `tolerance` it chooses
        by memory alone. "exact" fits until `tolerance`, by default 0.01, and refuses a model that is too large;
        see `hush.fit`. The schema's constraints hold. Small counts are **biased**. A release that keeps the model of
        its mechanism returns that one, unless other options are given.

        Reference: [HDMM, sec. 4.5].
        """
        from hush.release.fit import fit_release

        return fit_release(self, cliques, method=method, max_size_mb=max_size_mb, tolerance=tolerance, seed=seed)

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the release to a new file that `hush.load` reads; it holds nothing private.

        An existing file is replaced only with `overwrite=True`. Otherwise a release that is in no file yet, but paid
        for, is saved in the folder for temporary files, and the error says where.
        """
        try:
            check_new(path, overwrite=overwrite)
        except HushError as error:
            if self._in_a_file:
                raise
            rescue = Path(tempfile.mkdtemp(prefix="hush-"), Path(path).name)
            self.save(rescue)
            raise ArchiveError(f"{error}; the budget is spent, so the release is kept in {rescue}") from None
        stored = ReleaseFile(
            mechanism=self.mechanism,
            complete=self.complete,
            privacy=self.statement.to_dict(),
            domain=self.domain,
            schema=self.schema.to_toml(),
            workload=WorkloadFile.of(self.workload),
            settings=self.settings,
            dataset=self.dataset,
            content=self.record.stored(),
            sums=None if self.record.sums is None else MeasuredSumsFile.of(self.record.sums),
        )
        manifest, arrays = pack(stored)
        write_archive(path, kind="release", version=VERSION, manifest=manifest, arrays=arrays)
        self._in_a_file = True

    @classmethod
    def unpack(cls, archive: ArchiveReader, schema: Schema) -> Release:
        """The release that `save` wrote."""
        stored: ReleaseFile = unpack(ReleaseFile, archive.content, archive, "release")
        kind = stored.content.get("kind") if isinstance(stored.content, dict) else None
        record_type = record_class(kind)
        record = record_type.build(unpack(record_type.stored_type, stored.content, archive, "content"), schema)
        workload = stored.workload.build(schema.domain)
        record.sums = None if stored.sums is None else stored.sums.build(workload)
        release = cls(
            mechanism=stored.mechanism,
            schema=schema,
            workload=workload,
            statement=Statement.from_dict(stored.privacy),
            record=record,
            settings=stored.settings,
            complete=stored.complete,
            dataset=stored.dataset,
        )
        release._in_a_file = True
        return release

    @property
    def facts(self) -> AnswerFacts:
        """What holds for all answers: caveats, measured sums, and which errors are known."""
        unit, notes = self.statement.unit, [*self.statement.warnings]
        if unit.column is not None:
            notes.append(f"{unit.cap_text}.")
        if not self.complete:
            notes.append("the release was interrupted; tables measured later are missing.")
        return AnswerFacts((*notes, *self.record.notes), self.record.errors, self.record.sums)

    def _repr_html_(self) -> str:
        """What notebooks show: what was measured, what it promises, and how to ask it."""
        asked = [" × ".join(term.clique) or "the total" for term in self.workload]
        more = f" and {len(asked) - SHOWN_TABLES:,} more" if len(asked) > SHOWN_TABLES else ""
        state = "" if self.complete else ", interrupted"
        facts = [
            ("Release", f"{self.mechanism}{state}, {self.workload.queries:,} numbers asked"),
            *self.statement_lines(),
            ("Asked", f"{', '.join(asked[:SHOWN_TABLES])}{more}"),
            ("Ask", 'release.sql("SELECT ..."), release.marginal(...), release.synthesize()'),
        ]
        return TextTable.facts(facts).html()

    def __repr__(self) -> str:
        state = "" if self.complete else ", interrupted"
        stamp = "" if self.statement.private else f", {STAMP}"
        return f"Release({self.mechanism}, {len(self.workload)} tables, {self.statement.budget}{state}{stamp})"


def _term_of(workload: Workload, which: int | Term) -> Term:
    """A term by its index in a workload, or any other term over the same columns."""
    if isinstance(which, Term):
        return Workload(workload.domain, [which]).terms[0]
    last = len(workload) - 1
    if not (is_whole(which) and 0 <= which <= last):
        raise WorkloadError(f"term {shown(which)}: expected a Term, or an index from 0 to {last} into the workload")
    return workload.terms[which]
