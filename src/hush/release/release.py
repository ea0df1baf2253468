"""Release: noisy answers, and everything they can be asked at no further cost."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from hush.core.arrays import Floats, reordered
from hush.core.constraints import fingerprint
from hush.core.domain import Clique, Domain, listed_cliques
from hush.core.errors import ArchiveError, HushError, QueryError, SizeError, WorkloadError, shown
from hush.core.solution import TOLERANCE
from hush.core.validation import is_number
from hush.files.archive import VERSIONS, ArchiveReader, write_archive
from hush.files.atomic_write import check_new
from hush.files.codec import Stored, pack, unpack
from hush.inference.error_margins import ErrorMargins
from hush.inference.estimates import BoundedEstimates, ConstantColumnEstimates, Estimates
from hush.inference.measured_sums import MeasuredSumsFile
from hush.models.fit_arguments import SMALLEST_TOTAL
from hush.privacy.ledger_chain import NOTE_LENGTH
from hush.privacy.ledger_chain import printable as one_line
from hush.privacy.measurement import Measurement
from hush.release.accounting import contradiction
from hush.release.answer_columns import ErrorKind, Quantity
from hush.release.answers import Answers
from hush.release.intervals import NoiseIntervals
from hush.release.record import LACKING_TABLES, Record, record_class
from hush.release.rounds import Round
from hush.release.statement import STAMP, Statement
from hush.render.text_table import TextTable
from hush.schema import Schema
from hush.strategies.strategy_files import sums_inconsistency
from hush.workloads import Term, ThresholdTerm, Workload
from hush.workloads.sum_term import grid_fault
from hush.workloads.term import not_answered
from hush.workloads.workload_files import WorkloadFile

if TYPE_CHECKING:
    import pyarrow as pa

    from hush.models.graphical.synthetic_rows import Method
    from hush.release.copies import Copies
    from hush.release.error_bounds import BoundTable, ErrorBound, ErrorBounds
    from hush.release.fit import Route
    from hush.release.model import Model
    from hush.release.term_answers import NonnegativeAnswers

KIND = "release"
VERSION = VERSIONS[KIND]
KINDS = ("unbiased", "nonnegative", "whole")
LARGEST_TABLES = 2**28
SHOWN_TABLES = 12  # in a notebook


class ReleaseFile(Stored):
    """The file of a release; the kind that its record names says how that is read."""

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


class Release:
    """What a mechanism published: estimates with errors, and the privacy statement.

    `record` holds the noisy answers and says how they are estimated. `mechanism` and `settings` say how they were
    made; `dataset` is the name that the ledger charges an interrupted release to. Everything here is post-processing:
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
            reason = next((each for term in self.workload.sum_terms if (each := grid_fault(term, self.schema))), None)
            lacking = self.complete and self.record.charged_at_once and not sums.complete
            reason = reason or (LACKING_TABLES if lacking else None)
        return reason or self.record.inconsistency(self) or contradiction(self.statement, self.record)

    def _as_measured(self, cliques: Iterable[Clique]) -> list[Measurement]:
        """Estimated tables, each as if measured by itself."""
        measurements = []
        for clique in cliques:
            deviation = math.sqrt(float(np.mean(self._variances(clique))))
            measurements.append(Measurement(clique, self.estimates.counts(clique), deviation))
        return measurements

    @property
    def consistent(self) -> bool:
        """Whether its tables agree on what they share."""
        return self.record.consistent

    @property
    def bounded(self) -> bool:
        """Whether a model answers tables that were not measured, with bounds on their errors."""
        return self.record.bounded

    @property
    def domain(self) -> Domain:
        """The attributes and their sizes."""
        return self.workload.domain

    def to_dict(self) -> dict[str, Any]:
        """What was released and what it promises, without the answers, as texts, numbers and lists for JSON."""
        return {
            "mechanism": self.mechanism,
            "complete": self.complete,
            "statement": self.statement.to_dict(),
            "columns": {column.name: column.size for column in self.schema},
            "workload": {"tables": len(self.workload), "numbers": self.workload.queries},
            "tables": [list(clique) for clique in self.estimates.cliques],
        }

    def counts(self, *attributes: Any, unbiased: bool = False) -> Floats:
        """Estimated counts over a clique, of shape `domain.sizes(clique)`, in the order given.

        The closest estimate that the release has: unbiased counts, some of which may be negative, or those of the model
        that an adaptive mechanism fitted, which are biased. `unbiased=True` asks for unbiased counts, which are known
        inside measured tables. `counts("a", "b")` and `counts(("a", "b"))` mean the same.
        """
        names = self._covered(self.domain.named(attributes), unbiased=unbiased)
        return (self._closer_model(names, unbiased) or self.estimates).counts(names)

    def marginal(self, *attributes: Any, level: float = 0.95, unbiased: bool = False) -> Answers:
        """The table of counts over some attributes, each number with its interval; the estimates are those of `counts`.

        `marginal("a", "b")` and `marginal(("a", "b"))` mean the same.
        """
        from hush.release.bounded_answers import table_answers, with_model_estimates

        names = self._covered(self.domain.named(attributes), unbiased=unbiased)
        answers = table_answers(self.schema, names, self.estimates, level=level, notes=self._notes())
        if (model := self._closer_model(names, unbiased)) is not None:
            return with_model_estimates(answers, model.counts(names))
        return self._based(answers)

    def threshold(self, *attributes: Any, r: int, level: float = 0.95, unbiased: bool = False) -> Answers:
        """For every combination of levels, how many rows agree with it in at least `r` of the attributes.

        `threshold("a", "b", "c", r=2)` and `threshold(("a", "b", "c"), r=2)` mean the same. `r` of all attributes is
        the marginal. Estimates are those of `counts`. Errors are exact where the answers are linear in what was
        measured; from a model they are bounds.
        """
        names = self._covered(self.domain.named(attributes), unbiased=unbiased)
        if r == len(names) and not isinstance(r, bool):
            return self.marginal(names, level=level, unbiased=unbiased)
        term = ThresholdTerm(names, self.domain.sizes(names), r)
        term.check(self.domain)
        return self._term_answers(term, level, unbiased)

    def _closer_model(self, clique: Clique, unbiased: bool) -> Estimates | None:
        """The model of an adaptive mechanism, where its counts are probably closer than unbiased ones."""
        from hush.release.bounded_answers import MeasuredEstimates

        if unbiased or not isinstance(self.estimates, MeasuredEstimates):
            return None
        return self.estimates.closer_model(clique)

    def term(self, which: int | Term = 0, *, level: float = 0.95, unbiased: bool = False) -> Answers:
        """The answers to one term of the workload, by its index or itself, of any kind.

        Every query has an estimate with its standard error, or with a bound if a model answers it. Any other term that
        the release can estimate may be asked for too. Estimates are those of `counts`.
        """
        return self._term_answers(self._term(which), level, unbiased)

    def _term_answers(self, term: Term, level: float, unbiased: bool) -> Answers:
        from hush.release.bounded_answers import bounded_term_answers, with_model_estimates
        from hush.release.term_answers import query_signs

        product = term.product
        if product is None:
            # such a term is answered from the table over its clique
            self._covered(term.clique, unbiased=unbiased)
            if self.domain.size(term.clique) > LARGEST_TABLES:
                cells = f"{self.domain.size(term.clique):,} cells: at most {LARGEST_TABLES:,} are possible"
                raise SizeError(f"{term.text} needs a table of {cells}; ask for one over fewer columns")
        numbers = term.queries if product is None else math.prod(block.shape[0] for block in product.blocks)
        if numbers > LARGEST_TABLES:
            raise SizeError(f"the term asks for {numbers:,} numbers; ask for at most {LARGEST_TABLES:,} at a time")
        answers = bounded_term_answers(self.schema, term, self.estimates, level=level, notes=self._notes())
        if (model := self._closer_model(term.clique, unbiased)) is None:
            return self._based(answers)
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
        named = []
        for clique, coefficients in parts:
            names = self._covered(clique)
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
        return Answers(groups=(), quantities=(value,), level=level, notes=self._notes())

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
        from hush.inference.nonnegative_cells import METHODS as CELL_METHODS
        from hush.inference.nonnegative_cells import block_answers
        from hush.release.term_answers import nonnegative_answers

        if method not in (*CELL_METHODS, "clip"):
            raise WorkloadError(f"method={shown(method)}: expected one of {', '.join(CELL_METHODS)}, clip")
        term = self._term(which)
        if (product := term.product) is None:
            raise not_answered(term)
        self.record.require_tables()
        unbiased = self.term(which, level=level, unbiased=True)
        values = None if method == "clip" else block_answers(*self.record.nonnegative_cells(self, method), product)
        answers = nonnegative_answers(unbiased, product, values)
        return replace(answers, quantities=self._based(answers).quantities)

    @property
    def bounds(self) -> ErrorBounds:
        """Bounds on the error of the model, table by table."""
        from hush.release.bounded_answers import MeasuredEstimates

        if not isinstance(self.estimates, MeasuredEstimates):
            raise QueryError(
                "error bounds are for releases that answer from a model; the answers of this one say what is known"
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
        if kind not in KINDS:
            raise WorkloadError(f"kind={kind!r}: expected one of {', '.join(KINDS)}")
        names = (
            self.estimates.cliques if cliques is None else [self._covered(clique) for clique in listed_cliques(cliques)]
        )
        cells = sum(self.domain.size(clique) for clique in names)
        if cells > LARGEST_TABLES:
            raise SizeError(f"{len(names)} tables have {cells:,} cells in all; ask for fewer at a time")
        tables = {clique: self.estimates.counts(clique) for clique in names}
        if kind == "unbiased" or not self.record.tables:  # else nothing was measured, and all are 0
            return tables
        from hush.inference.nonnegative_tables import nonnegative_tables, whole_tables

        weights = {clique: 1 / float(np.mean(self._variances(clique))) for clique in names}
        total = float(self.estimates.counts(()))
        settled = nonnegative_tables(self.domain, tables, total=max(total, 0.0), weights=weights).checked()
        if kind == "whole":
            whole = whole_tables(self.domain, settled, total=round(max(total, 0.0)))
            settled = {clique: table.astype(np.float64) for clique, table in whole.items()}
        ordered = {clique: self.domain.clique(clique) for clique in names}
        return {clique: reordered(settled[axes], axes, clique) for clique, axes in ordered.items()}

    def sql(self, text: str, *, level: float = 0.95) -> Answers:
        """Answer a counting query in SQL; docs/sql.md lists what is supported."""
        from hush.release.sql_answers import answer_sql

        unknown = self.record.errors is ErrorKind.NONE
        answers = answer_sql(
            text,
            self.schema,
            self.estimates,
            level=level,
            error_kind=ErrorKind.NONE if unknown else ErrorKind.EXACT,
            sums=self.record.sums,
        )
        return self._based(replace(answers, notes=(*answers.notes, *self._notes())))

    def sum(self, column: str, by: Iterable[str] = (), *, level: float = 0.95) -> Answers:
        """The sum of a numeric column by other columns: from measured sums, or from bins where there are none."""
        return self._aggregate("SUM({})", column, by, level)

    def mean(self, column: str, by: Iterable[str] = (), *, level: float = 0.95) -> Answers:
        """The mean of a numeric column by other columns, from the same numbers as `sum`."""
        return self._aggregate("AVG({})", column, by, level)

    def variance(self, column: str, by: Iterable[str] = (), *, level: float = 0.95) -> Answers:
        """The variance of a numeric column by other columns."""
        return self._aggregate("VARIANCE({})", column, by, level)

    def stddev(self, column: str, by: Iterable[str] = (), *, level: float = 0.95) -> Answers:
        """The standard deviation of a numeric column by other columns: the root of `variance`."""
        return self._aggregate("STDDEV({})", column, by, level)

    def median(self, column: str, by: Iterable[str] = (), *, level: float = 0.95) -> Answers:
        """The middle value of a numeric column by other columns; see `quantile`."""
        return self._aggregate("MEDIAN({})", column, by, level)

    def quantile(self, column: str, share: float = 0.5, by: Iterable[str] = (), *, level: float = 0.95) -> Answers:
        """The value that a share of the rows does not exceed, by other columns; the median for 0.5.

        The interval has every value that the noise of the counts does not rule out, and reaches to the ends of bins.
        """
        if not is_number(share):
            raise QueryError(f"share={shown(share)}: expected a number between 0 and 1, such as 0.9")
        return self._aggregate(f"QUANTILE({{}}, {float(share)!r})", column, by, level)

    def _aggregate(self, aggregate: str, column: str, by: Iterable[str], level: float) -> Answers:
        """One aggregate of a column by other columns, as a query."""
        from hush.sql.quoting import quoted

        (name,) = self.domain.check((column,))
        groups = [quoted(each) for each in self.domain.check((by,) if isinstance(by, str) else by)]
        select = f"SELECT {', '.join([*groups, aggregate.format(quoted(name))])} FROM release"
        return self.sql(select + (f" GROUP BY {', '.join(groups)}" if groups else ""), level=level)

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
        by predicted time and memory: an exact model if it is fitted within seconds, else relaxed rows, and where
        these are too many numbers or the schema has rules an approximate model, whose tables only agree with each
        other. With a `tolerance` it chooses by memory alone, as "exact" does, which fits until `tolerance`, 0.01
        unless stated, and refuses a model that is too large; see `hush.fit`. The schema's constraints hold. Small
        counts are **biased**. A release that keeps the model of its mechanism returns that one, unless other options
        are given.

        Reference: [HDMM, sec. 4.5].
        """
        from hush.release.fit import ROUTES, FitChoice, Restriction, fit, fit_chosen
        from hush.release.model import Model

        if method not in ROUTES:
            raise WorkloadError(f"method={shown(method)}: expected one of {', '.join(ROUTES)}")
        self.record.require_tables()
        loose = tolerance is None or tolerance >= TOLERANCE
        plain = cliques is None and max_size_mb is None and method != "approximate" and loose
        if plain and self.record.fitted is not None:
            return self._cautioned(Model(self.schema, self.record.fitted, self.measurements()))
        noisy = self.measurements()
        inside = None if cliques is None else Restriction(self.domain, cliques, noisy)
        options: dict[str, Any] = {
            "total": self._total(),
            "max_size_mb": max_size_mb,
            "tolerance": TOLERANCE if tolerance is None else tolerance,
            "seed": seed,
        }
        evidence = noisy if inside is None else inside.measurements
        if method == "auto" and tolerance is None:
            rules = [rule.clique for rule in self.schema.constraints]
            choice = FitChoice.of(self.domain, evidence, rules, max_size_mb, options["total"])
            if choice.kind != "approximate":
                return self._cautioned(fit_chosen(self.schema, evidence, choice, total=options["total"], seed=seed))
            options["tolerance"] = choice.tolerance
        elif method != "approximate":
            try:
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
        """Synthetic rows in the schema's real values, drawn from `model()`; by default as many as there are records.

        See `Model.synthesize`. Standard errors computed from them as if they were real are too small, and so are those
        from several `copies`.
        """
        from hush.release.copies import check_drawing, copy_seeds

        check_drawing(0 if rows is None else rows, method, seed)
        if copies is not None:
            copy_seeds(copies, seed)
            return self._model.synthesize(rows, method=method, given=given, seed=seed, copies=copies)
        return self._model.synthesize(rows, method=method, given=given, seed=seed)

    def _based(self, answers: Answers) -> Answers:
        """The answers, with errors marked as those of the noise alone, or as unknown, where they are.

        Where estimates have other errors than those of the noise, no interval holds, nor bounds anything.
        """
        if (errors := self.record.errors) is None:
            return answers
        marked = [ErrorKind.EXACT, ErrorKind.APPROXIMATE]
        if errors is ErrorKind.NOISE:
            marked += [ErrorKind.BINNED, ErrorKind.BOUND]
        quantities = tuple(
            replace(each, error_kind=errors) if each.error_kind in marked else each for each in answers.quantities
        )
        return replace(answers, quantities=quantities)

    def _total(self) -> float:
        """The number of records of a model."""
        stated = self.record.total()
        return max(float(self.estimates.counts(())), SMALLEST_TOTAL) if stated is None else stated

    def _cautioned(self, model: Model) -> Model:
        """The model with the caveats of this release, and this release as its source.

        The misfit of an approximate model is left out: its tables were fitted as if their noise were independent.
        """
        from hush.release.model_estimates import NO_ROWS

        small = (NO_ROWS,) if model.total == SMALLEST_TOTAL else ()
        model.caveats = tuple(dict.fromkeys((*self._notes(), *small, *(model.caveats if model.exact else ()))))
        model.source = self
        return model

    @cached_property
    def _model(self) -> Model:
        return self.model()

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the release to a new file that `hush.load` reads; it holds nothing private.

        Another file of that name is replaced with `overwrite=True` alone. Without it a release that is in no file yet,
        and is paid for, is kept in the folder for temporary files, and the error says where.
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
        write_archive(path, kind=KIND, version=VERSION, manifest=manifest, arrays=arrays)
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

    def _notes(self) -> tuple[str, ...]:
        """Caveats for every answer of this release."""
        unit, notes = self.statement.unit, [*self.statement.warnings]
        if unit.column is not None:
            notes.append(f"{unit.cap_text}.")
        if not self.complete:
            notes.append("the release was interrupted; tables measured later are missing.")
        return (*notes, *self.record.notes)

    def _variances(self, clique: Clique) -> Floats:
        ones = np.ones(self.domain.sizes(clique))
        return self.estimates.covariance(clique, ones, ones, len(clique))

    def _term(self, which: int | Term) -> Term:
        if isinstance(which, Term):
            (term,) = Workload(self.domain, [which])
            return term
        last = len(self.workload) - 1
        if isinstance(which, bool) or not isinstance(which, int) or not 0 <= which <= last:
            raise WorkloadError(
                f"term {shown(which)}: expected a ProductTerm, or an index from 0 to {last} into the workload"
            )
        return self.workload.terms[which]

    def _covered(self, clique: Iterable[str], *, unbiased: bool = False) -> Clique:
        names = self.domain.check(clique)
        if unbiased and isinstance(self.estimates, BoundedEstimates) and not self.estimates.has_covariance(names):
            raise QueryError(
                f"no noisy table of the release holds {names!r}, so there is no unbiased estimate of it; leave "
                "unbiased=True out for the estimate of the fitted model"
            )
        if not self.estimates.covers(names):
            raise WorkloadError(
                f"the release has no table over {names!r}; a workload with that marginal would have covered it; "
                "release.model() estimates it, without an error bar"
            )
        return names

    def _repr_html_(self) -> str:
        """What notebooks show: what was measured, what it promises, and how to ask it."""
        asked = [" × ".join(term.clique) or "the total" for term in self.workload]
        more = f" and {len(asked) - SHOWN_TABLES:,} more" if len(asked) > SHOWN_TABLES else ""
        state = "" if self.complete else ", interrupted"
        facts = [
            ("Release", f"{self.mechanism}{state}, {self.workload.queries:,} numbers asked"),
            *self.statement.lines(),
            ("Asked", f"{', '.join(asked[:SHOWN_TABLES])}{more}"),
            ("Ask", 'release.sql("SELECT ..."), release.marginal(...), release.synthesize()'),
        ]
        return TextTable.facts(facts).html()

    def __repr__(self) -> str:
        state = "" if self.complete else ", interrupted"
        stamp = "" if self.statement.private else f", {STAMP}"
        return f"Release({self.mechanism}, {len(self.workload)} tables, {self.statement.budget}{state}{stamp})"
