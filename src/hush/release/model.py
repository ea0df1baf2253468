"""Model: one consistent distribution fitted to noisy tables, queried in the real values of a schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hush.core.arrays import Floats
from hush.core.domain import Clique, listed_cliques
from hush.core.errors import DomainError, WorkloadError, shown
from hush.core.solution import SOLVED, Solution
from hush.files.archive import ArchiveReader
from hush.files.atomic_write import check_new
from hush.inference.best_unbiased import UnbiasedEstimates
from hush.models.distribution import Distribution
from hush.models.graphical.graphical_model import GraphicalModel, Impossible, excluded
from hush.models.graphical.synthetic_rows import Method, mean_tilts
from hush.privacy.measurement import Measurement
from hush.release.answers import Answers, ErrorKind
from hush.release.copies import CHUNK_ROWS, check_drawing, draw_batches
from hush.release.model_estimates import Misfit, ModelEstimates
from hush.release.model_files import save_model, unpack_model
from hush.release.queryable import AnswerFacts, Queryable
from hush.release.statement import STAMP, drafted_warning
from hush.release.term_answers import bounded_term_answers, model_answers, table_answers
from hush.schema import Schema
from hush.schema.conditions import Conditions
from hush.workloads import Term, Workload

if TYPE_CHECKING:
    from hush.release.release import Release


def given_codes(schema: Schema, given: Mapping[str, Any]) -> dict[str, Any]:
    """The codes that conditions in real values allow, column by column.

    >>> import hush
    >>> given_codes(hush.datasets.people_schema(), {"sex": "female"})["sex"].tolist()
    [0]
    """
    if not isinstance(given, Mapping):
        raise DomainError(f'given={shown(given)}: expected columns and their values, such as {{"sex": "female"}}')
    return {name: Conditions(schema[name]).codes(given[name]) for name in schema.domain.check(given)}


@dataclass(frozen=True, slots=True)
class Placing:
    """What measured sums say about synthetic rows, beyond what counts say.

    `bin_means` has the mean value in each level of a column; numbers are placed so that they have this mean.
    `reweights` are tables of logarithms by which rows are drawn more or less often, so that their means are the
    measured ones.
    """

    bin_means: Mapping[str, Floats] = field(default_factory=dict)
    reweights: Sequence[tuple[Clique, Floats]] = ()


def placing_of(model: Model, release: Release) -> Placing:
    """The placing of a model's rows by the sums of its release.

    A fitted model has no negative counts, so its rarest levels hold too many rows, and levels far from the others shift
    the mean. The least change of the model that has the measured mean corrects for that.
    """
    sums = release.record.sums
    if sums is None or not isinstance(model.distribution, GraphicalModel):
        return Placing()
    bin_means: dict[str, Floats] = {}
    reweights: list[tuple[Clique, Floats]] = []
    for column in dict.fromkeys(term.column for _, term, _ in sums.measured):
        tables = sums.tables_of(column)
        (mean,), (error,) = _measured_mean(release, column, ()) if tables else (np.full(1, np.nan),) * 2
        values = sums.bin_means(column, model.counts(column), float(mean), float(error))
        if values is None:
            continue
        bin_means[column] = values
        for clique in tables:
            names = (*clique, column)
            if any(set(names) <= set(known) for known in model.distribution.factors.cliques):
                table = model.counts(names)
                present = table[..., : len(values)].reshape(-1, len(values))
                logs = np.zeros(table.shape)
                tilts = mean_tilts(present, values, *_measured_mean(release, column, clique))
                logs[..., : len(values)] = tilts.reshape(*table.shape[:-1], -1)
                reweights.append((names, logs))
                break
    return Placing(bin_means, reweights)


def _measured_mean(release: Release, column: str, by: Clique) -> tuple[Floats, Floats]:
    """The mean of a column in each group and its standard error; NaN if it was not measured or has too few rows."""
    quantity = release.mean(column, by).quantities[0]
    if quantity.error_kind is ErrorKind.BINNED:
        unknown = np.full(len(quantity.estimate), np.nan)
        return unknown, unknown
    return quantity.estimate, quantity.std_error


FITTED_NOTE = "from the fitted model."
UNBIASED_NOTE = "from the fitted model; its `unbiased` gives this table with exact errors."
APPROXIMATE_NOTE = "the model is approximate: its tables agree with each other, but no joint table need exist."


class Model(Queryable):
    """A distribution fitted to noisy tables: any table, non-negative and consistent; SQL; synthetic rows.

    `status` is "solved" if the fit reached its tolerance, and `stats` has its figures. `exact` is False if the exact
    model was too large, and its tables only agree with each other. `caveats` are warnings about its answers, such as
    that a release was interrupted or is not private. `source` is the release it comes from, if any; files do not keep
    it.

    Privacy: post-processing of noisy values; nothing here reads private data.

    >>> import hush
    >>> noisy = [hush.Measurement(("sex", "smokes"), [[40.2, 11.7], [35.9, 9.1]], stddev=2.0)]
    >>> model = hush.fit(hush.Domain({"sex": 2, "smokes": 2}), noisy)
    >>> model.counts(("smokes",)).round(1).tolist()
    [76.1, 20.8]
    >>> model.synthesize(rows=10, seed=1).num_rows
    10
    """

    def __init__(
        self,
        schema: Schema,
        solution: Solution[Distribution],
        measurements: Iterable[Measurement] = (),
        caveats: Iterable[str] = (),
        source: Release | None = None,
        placing: Placing | None = None,
    ) -> None:
        self.schema = schema
        self.domain = schema.domain
        self.distribution = solution.value
        self.status = solution.status
        self.stats = dict(solution.stats)
        self.measurements = tuple(measurements)
        learned = [" × ".join(rule.clique) for rule in solution.value.constraints if rule.from_private_data]
        drafted = tuple(dict.fromkeys((*schema.from_private_data, *learned)))
        self.caveats = tuple(dict.fromkeys((*drafted_warning(drafted), *caveats)))
        self.source = source
        self._given_placing = placing

    @property
    def total(self) -> float:
        """The number of records: the sum of each table."""
        return self.distribution.total

    @property
    def exact(self) -> bool:
        """Whether all tables belong to one distribution over all attributes."""
        return self.distribution.exact

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The cliques it was fitted on."""
        return self.distribution.cliques

    @property
    def size_mb(self) -> float:
        """Megabytes of its tables."""
        return self.distribution.size_mb

    @cached_property
    def misfit(self) -> Mapping[Clique, float]:
        """The distance of each measured table from the model in standard deviations, worst first; about 1 or less.

        The root mean square over the numbers of the table; `stats["misfit"]` is that over all numbers. A loaded model
        knows only the tables in its file.
        """
        return Misfit(self.distribution, self.measurements).tables

    @cached_property
    def estimates(self) -> ModelEstimates:
        """The counts of the distribution, whose errors are not known."""
        return ModelEstimates(self.distribution)

    @property
    def facts(self) -> AnswerFacts:
        """What holds for all answers: their caveats, and that no error is known."""
        return AnswerFacts(self._notes(), ErrorKind.NONE)

    def counts(self, *attributes: Any) -> Floats:
        """Counts over a clique, of shape `domain.sizes(clique)` in the order given: non-negative, consistent.

        `counts("a", "b")` and `counts(("a", "b"))` mean the same.
        """
        return self.distribution.counts(self.domain.named(attributes))

    def marginal(self, *attributes: Any, level: float = 0.95, unbiased: bool = False) -> Answers:
        """The table over some attributes in real values, without errors; with `unbiased` the table of that method."""
        names = self.domain.named(attributes)
        if unbiased:
            return self.unbiased(names, level=level)
        counts = self.counts(names)
        notes = self._notes(UNBIASED_NOTE if self._covered(names) else FITTED_NOTE)
        return Answers.of_marginal(self.schema, names, counts, None, level, error_kind=ErrorKind.NONE, notes=notes)

    def term(self, which: Term, *, level: float = 0.95, unbiased: bool = False) -> Answers:
        """The answers to a term, without errors; with `unbiased` they have exact errors, inside measured tables.

        A product of query blocks is folded into the model column by column, so the table over its columns is never
        written out: a few queries on many columns need little memory.

        >>> import hush
        >>> domain = hush.Domain({f"x{i}": 12 for i in range(12)})
        >>> pairs = [(f"x{i}", f"x{i + 1}") for i in range(11)]
        >>> model = hush.fit(domain, [hush.Measurement(pair, np.full((12, 12), 50.0), stddev=1.0) for pair in pairs])
        >>> halves = {name: hush.queries.predicates([range(6)]) for name in domain}  # 7200 rows in 10^13 cells
        >>> model.term(hush.Workload.product(domain, halves).terms[0]).estimate.round(2).tolist()
        [1.76]
        """
        (term,) = Workload(self.domain, [which])
        if not unbiased:
            if (product := term.product) is not None and term.listed:
                values = self.distribution.product(product.clique, product.blocks)
            else:
                values = term.exact_answers(self.counts(term.clique))
            return model_answers(self.schema, term, values, level, self._notes())
        self._require_covered(term.clique)
        if self.source is not None:
            return self.source.term(term, level=level, unbiased=True)
        return bounded_term_answers(self.schema, term, self._unbiased, level=level)

    def model(self) -> Model:
        """The model itself, so that releases and models can be used alike."""
        return self

    def tables(self, cliques: Iterable[Iterable[str]]) -> dict[Clique, Floats]:
        """The counts over many cliques at once, computed together."""
        return self.distribution.many(self.domain.check(clique) for clique in listed_cliques(cliques))

    def conditional(self, clique: Iterable[str], given: Mapping[str, Any]) -> Answers:
        """The probabilities of a clique's combinations among rows whose other columns are as `given`, in real values.

        >>> import hush
        >>> noisy = [hush.Measurement(("sex", "smokes"), [[30.0, 10.0], [35.0, 25.0]], stddev=0.1)]
        >>> model = hush.fit(hush.Domain({"sex": 2, "smokes": 2}), noisy)
        >>> model.conditional(("smokes",), {"sex": 0}).estimate.round(2).tolist()
        [0.75, 0.25]
        """
        names, codes_given = self.domain.check(clique), given_codes(self.schema, given)
        if isinstance(self.distribution, GraphicalModel):
            try:
                shares = self.distribution.conditional(names, codes_given)
            except Impossible as error:
                raise Impossible(given, excluded=error.excluded) from None
        else:
            table = self.distribution.counts((*names, *codes_given))
            for axis, codes in enumerate(codes_given.values(), start=len(names)):
                table = table.take(codes, axis=axis)
            shares = table.reshape(*self.domain.sizes(names), -1).sum(axis=-1)
            if not shares.sum() > 0:
                raise Impossible(given, excluded=excluded(self.distribution.constraints, codes_given))
        return Answers.of_marginal(
            self.schema,
            names,
            shares / shares.sum(),
            None,
            error_kind=ErrorKind.NONE,
            notes=self._notes(),
            name="probability",
        )

    def entropy(self) -> float:
        """-sum_x p(x) log p(x) in nats; for graphical models only."""
        return self._graphical("entropy").entropy()

    def log_likelihood(self, codes: Mapping[str, Any]) -> float:
        """The sum of log p(x) over rows of codes, an array for each column, in nats; for graphical models only.

        Privacy: where the rows are private, so is the result; it is not a release.
        """
        return self._graphical("log_likelihood").log_likelihood(codes)

    def unbiased(self, *attributes: Any, level: float = 0.95) -> Answers:
        """The best linear unbiased estimate of a table from all measured tables that contain it, with exact errors.

        Counts may be negative. A model of a release gives the release's estimates. Any other model uses measurements
        without a query, and knows tables inside a measured one.
        """
        names = self.domain.named(attributes)
        self._require_covered(names)
        if self.source is not None:
            return self.source.marginal(*names, level=level, unbiased=True)
        return table_answers(self.schema, names, self._unbiased, level=level)

    def batches(
        self,
        rows: int,
        *,
        method: Method = "rounding",
        given: Mapping[str, Any] | None = None,
        seed: int | None = None,
        chunk_rows: int = CHUNK_ROWS,
    ) -> Iterator[pa.Table]:
        """Synthetic rows in chunks, for more rows than fit into memory; each chunk is rounded by itself."""
        check_drawing(rows, method, seed, chunk_rows)
        source = self._drawn_from
        if given:
            try:
                source = source.conditioned(given_codes(self.schema, given))
            except Impossible as error:
                raise Impossible(given, excluded=error.excluded) from None
        options: dict[str, Any] = {"method": method, "seed": seed, "chunk_rows": int(chunk_rows)}
        return draw_batches(self.schema, source, int(rows), means=self.placing.bin_means, **options)

    @cached_property
    def placing(self) -> Placing:
        """What measured sums say about synthetic rows."""
        if self._given_placing is not None:
            return self._given_placing
        return Placing() if self.source is None else placing_of(self, self.source)

    @cached_property
    def _drawn_from(self) -> Distribution:
        """The distribution of synthetic rows: that of the model, reweighted to the measured means."""
        source = self.distribution
        for clique, logs in self.placing.reweights:
            if isinstance(source, GraphicalModel):
                source = source.reweighted(clique, logs) or source
        return source

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the model to a new file that `hush.load` reads, with its measurements without a query.

        Those of a release stay in the file of the release, with their errors. `overwrite` replaces another file.
        """
        check_new(path, overwrite=overwrite)
        save_model(self, path)

    @classmethod
    def unpack(cls, archive: ArchiveReader, *, schema: Schema) -> Model:
        """The model that `save` wrote."""
        arguments = unpack_model(archive, schema)
        return cls(schema, placing=Placing(*arguments.pop("placing")), **arguments)

    @cached_property
    def _tables(self) -> list[Measurement]:
        """The tables measured cell by cell."""
        return [measurement for measurement in self.measurements if measurement.query is None]

    @cached_property
    def _unbiased(self) -> UnbiasedEstimates:
        return UnbiasedEstimates(self.domain, self._tables)

    def _covered(self, names: Clique) -> bool:
        """Whether `unbiased` knows the table; attributes of a single level are inside every measured table."""
        if self.source is not None:
            return self.source.estimates.covers(names)
        several = {name for name in names if self.domain[name] > 1}
        return any(several <= set(table.clique) for table in self._tables)

    def _require_covered(self, names: Clique) -> None:
        if not self._covered(names):
            raise WorkloadError(
                f"no table that holds {names!r} was measured cell by cell; use `marginal`, which needs none, or "
                "release.marginal(...) if the model comes from a release"
            )

    def _graphical(self, what: str) -> GraphicalModel:
        if not isinstance(self.distribution, GraphicalModel):
            reason = "relaxed rows have none in closed form" if self.exact else "the model is approximate, without one"
            raise WorkloadError(
                f"{what}: needs the potentials of a joint distribution, and {reason}; fit with method='exact' and "
                "estimator='natural'"
            )
        return self.distribution

    def _notes(self, first: str = FITTED_NOTE) -> tuple[str, ...]:
        return (*self.caveats, first) if self.exact else (*self.caveats, first, APPROXIMATE_NOTE)

    def __repr__(self) -> str:
        kind = "exact" if self.exact else "approximate"
        state = "" if self.status == SOLVED else f", {self.status}"
        stamp = f", {STAMP}" if any(text.startswith(STAMP) for text in self.caveats) else ""
        return (
            f"Model({len(self.cliques)} cliques over {len(self.domain)} attributes, {kind}, "
            f"{self.size_mb:.3g} MB, total {self.total:,.0f}{state}{stamp})"
        )
