"""The record of adaptive mechanisms: noisy tables, the rounds that chose them, and the model of them all.

The best linear unbiased estimate answers tables inside a measured one, with exact intervals. The model answers any
other, with a bound on the error of the table if one is known. Files are checked as untrusted; in particular, their
scores must promise no more than their choices can.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast

import numpy as np

from hush.core.domain import Domain
from hush.core.errors import ArchiveError, QueryError, SizeError, WorkloadError
from hush.core.solution import Solution
from hush.files.codec import CliqueTable, FloatVector, IntTable, IntVector, Stored
from hush.inference.best_unbiased import UnbiasedEstimates
from hush.linops import Dense, Identity, LevelsAndTotal
from hush.models.fit_arguments import estimate_total
from hush.privacy.gate import LinearQuery, MarginalQuery
from hush.privacy.measurement import Measurement
from hush.privacy.noise import DiscreteGaussian, Noise
from hush.privacy.selection import FAILURE_PROBABILITY
from hush.privacy.sensitivity import ONE_CELL, RowNorms, sensitivity
from hush.release.error_bounds import ErrorBounds
from hush.release.model_estimates import MeasuredEstimates
from hush.release.model_files import DistributionFile, FitFile, build_distribution, store_distribution
from hush.release.record import LEAST_STDDEV, NOTHING_YET, Draw, Record, Round, Scored, gaussian_law
from hush.release.statement import Statement
from hush.schema import Schema
from hush.strategies.product_strategy import ProductQuery
from hush.strategies.rare_levels import MergedQuery, Merging
from hush.strategies.residual_strategy import is_residual
from hush.strategies.strategy_files import FactorFile, build_factor, store_factor
from hush.workloads.threshold_term import TargetQuery

if TYPE_CHECKING:
    from hush.models.distribution import Distribution
    from hush.release.release import Release

Played = TypeVar("Played", bound=Round)


class ProductQueryFile(Stored):
    """A product of integer factors on groups of columns."""

    groups: list[tuple[str, ...]]
    factors: list[FactorFile]

    @classmethod
    def of(cls, query: ProductQuery) -> ProductQueryFile:
        return cls(groups=list(query.groups), factors=[store_factor(factor) for factor in query.factors])

    def build(self, domain: Domain) -> ProductQuery:
        """The query; refused if it does not fit the domain."""
        query = ProductQuery(tuple(self.groups), tuple(build_factor(factor) for factor in self.factors))
        domain.check(query.clique)
        if any(domain.size(group) != factor.size for group, factor in zip(query.groups, query.factors, strict=True)):
            raise ArchiveError("the file's queries do not fit its schema; get the release again")
        return query


class TargetFile(Stored):
    """A single answer: the rows that agree with a target in at least so many columns."""

    codes: tuple[int, ...]
    at_least: int

    @classmethod
    def of(cls, query: TargetQuery) -> TargetFile:
        return cls(codes=query.target, at_least=query.at_least)


class NoisyTableFile(Stored):
    """A noisy table; `merged` if rare levels were counted together; `product` and `target` for other queries."""

    clique: tuple[str, ...]
    variance: Fraction
    values: IntTable
    merged: bool
    product: ProductQueryFile | None = None
    target: TargetFile | None = None

    def build(self, domain: Domain, merging: Merging) -> Measurement:
        """The table as the gate gave it; refused if its shape or its noise is wrong."""
        shape = whole = domain.sizes(self.clique)
        query: LinearQuery = MarginalQuery(self.clique)
        if self.merged + (self.product is not None) + (self.target is not None) > 1:
            raise ArchiveError("a noisy table of the file is of two queries; get the release again")
        if self.merged:
            shape, query = merging.sizes(self.clique, whole), MergedQuery(self.clique, whole, merging)
        elif self.product is not None:
            query = self.product.build(domain)
            shape = query.shape
            if query.clique != self.clique:
                raise ArchiveError("the file's noisy tables do not fit its schema; get the release again")
        elif self.target is not None:
            shape, query = (1,), TargetQuery(self.clique, whole, self.target.codes, self.target.at_least)
        if self.values.shape != shape:
            raise ArchiveError("the file's noisy tables do not fit its schema; get the release again")
        return Measurement.of(query, self.values.astype(np.int64), DiscreteGaussian(self.variance))


class MergedColumnFile(Stored):
    """The level that each code of a column is counted under."""

    column: str
    codes: IntVector

    def build(self, domain: Domain) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The levels; refused unless they are 0 .. k-1, all in use."""
        codes = self.codes
        plain = codes.shape == (domain[self.column],) and codes.max() < len(codes)
        if not plain or not np.array_equal(np.unique(codes), np.arange(codes.max() + 1)):
            raise ArchiveError("the file's merged levels do not fit its schema; get the release again")
        return codes.astype(np.int64)


class ScoredFile(Stored):
    """The last scores of every table that could be chosen."""

    cliques: CliqueTable
    weights: FloatVector
    rounds: IntVector
    penalties: FloatVector
    slacks: FloatVector
    slopes: FloatVector
    distances: FloatVector

    @classmethod
    def of(cls, domain: Domain, scored: Scored) -> ScoredFile:
        return cls.from_attributes(scored, cliques=CliqueTable.of(domain, scored.cliques))

    def build(self, domain: Domain, rounds: Sequence[Round]) -> Scored:
        """The scores; refused if no choice in these rounds can have given them."""
        cliques = tuple(domain.check(clique) for clique in self.cliques.build(domain, "scores"))
        columns = {name: getattr(self, name) for name in self.__struct_fields__ if name != "cliques"}
        if any(values.shape != (len(cliques),) for values in columns.values()):
            raise ArchiveError("the file's scores do not fit together; get the release again")
        used = self.rounds >= 0
        sound = all(np.isfinite(values[used]).all() for values in columns.values()) and (self.weights > 0).all()
        if not sound or any((values[used] < 0).any() for values in (self.penalties, self.slopes, self.distances)):
            raise ArchiveError("the file's scores are not possible as scores; get the release again")
        if len(cliques) and not -1 <= self.rounds.min() <= self.rounds.max() < len(rounds):
            raise ArchiveError("the file's scores are of rounds that it does not have; get the release again")
        chosen = [rounds[number] for number in set(self.rounds[used].tolist())]
        if any(min(played.weight, played.stddev) <= 0 or min(played.misfit, played.penalty) < 0 for played in chosen):
            raise ArchiveError("the file's scores are of rounds that cannot have scored; get the release again")
        return Scored(cliques=cliques, **columns)


class NoisyTablesFile(Stored, Generic[Played], tag_field="kind", tag="tables"):
    """What an adaptive mechanism measured and chose, and its model."""

    tables: list[NoisyTableFile]
    merging: list[MergedColumnFile]
    rounds: list[Played]
    scored: ScoredFile | None
    fit: FitFile | None
    model: DistributionFile | None

    @classmethod
    def of(cls, record: NoisyTablesRecord) -> NoisyTablesFile[Played]:
        merged = [table.asked.merging for table in record.noisy_tables if isinstance(table.asked, MergedQuery)]
        codes = merged[0].codes if merged else {}
        scored, fitted = record.scored, record.fitted
        return cls(
            tables=[
                NoisyTableFile(
                    clique=table.clique,
                    variance=gaussian_law(table).variance_parameter,
                    values=table.raw,
                    merged=isinstance(table.asked, MergedQuery),
                    product=ProductQueryFile.of(table.asked) if isinstance(table.asked, ProductQuery) else None,
                    target=TargetFile.of(table.asked) if isinstance(table.asked, TargetQuery) else None,
                )
                for table in record.noisy_tables
            ],
            merging=[MergedColumnFile(column=column, codes=levels) for column, levels in codes.items()],
            rounds=cast("list[Played]", list(record.rounds)),
            scored=None if scored is None else ScoredFile.of(record.domain, scored),
            fit=None if fitted is None else FitFile.of(fitted.status, fitted.stats),
            model=None if fitted is None else store_distribution(fitted.value),
        )

    def build(self, schema: Schema) -> dict[str, Any]:
        domain, fitted = schema.domain, None
        merging = Merging({column.column: column.build(domain) for column in self.merging})
        if len(merging.codes) != len(self.merging) or (self.model is None) != (self.fit is None):
            raise ArchiveError("the parts of the file's record do not fit together; get the release again")
        for played in self.rounds:
            domain.check(played.clique)
        if self.model is not None and self.fit is not None:
            model = build_distribution(schema, self.model)
            fitted = Solution(value=model, status=self.fit.status, stats=self.fit.stats)
        return {
            "domain": domain,
            "noisy_tables": [table.build(domain, merging) for table in self.tables],
            "rounds": self.rounds,
            "scored": None if self.scored is None else self.scored.build(domain, self.rounds),
            "fitted": fitted,
        }


class DrawsFile(NoisyTablesFile[Draw], tag="draws"):
    """The same, where the rounds are queries drawn in a game."""

    def build(self, schema: Schema) -> dict[str, Any]:
        """The arguments of the record; refused if a draw is out of turn or of a cell that does not exist."""
        arguments, turn = super().build(schema), 2
        for draw in self.rounds:
            if draw.turn < turn or draw.cell >= schema.domain.size(draw.clique):
                raise ArchiveError("the file's draws are of cells that it does not have; get the release again")
            if draw.weight not in (1.0, -1.0) or not draw.epsilon > 0:
                raise ArchiveError("a draw of the file cannot be read; get the release again")
            turn = draw.turn
        return arguments


def too_sure(statement: Statement, rounds: Sequence[Round], scored: Scored, *, generalized: bool) -> str | None:
    """Explain that scores promise more than a choice with the epsilon of their round can; None if they do not.

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
    slope = d * np.maximum(1, v)
    slack = slope * np.log(k)
    if generalized:
        slope = d * (1 + v)
        slack = d * ((1 + v) * np.log(k) + (1 - v) * np.log(np.maximum(k, 2) / FAILURE_PROBABILITY))
    room = 1e-9 * d * (1 + v) * (1 + np.log(k / FAILURE_PROBABILITY))
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
        noisy_tables: Iterable[Measurement] = (),
        *,
        rounds: Iterable[Round] = (),
        scored: Scored | None = None,
        fitted: Solution[Distribution] | None = None,
    ) -> None:
        self.domain = domain
        self.noisy_tables = list(noisy_tables)
        self.rounds = list(rounds)
        self.scored = scored
        self.fitted = fitted

    @property
    def tables(self) -> int:
        return len(self.noisy_tables)

    def check_storable(self, queries: Sequence[object]) -> None:
        asked = [*(table.asked for table in self.noisy_tables), *queries]
        merged = {id(query.merging): query.merging for query in asked if isinstance(query, MergedQuery)}
        levels = [{column: codes.tolist() for column, codes in merging.codes.items()} for merging in merged.values()]
        if any(codes != levels[0] for codes in levels):
            raise WorkloadError("a file holds one way to merge levels, and these tables merge them in several")
        for query in asked:
            if type(query) is ProductQuery:
                for factor in () if is_residual(query) else query.factors:
                    if not isinstance(factor.operator, Identity | LevelsAndTotal | Dense) or factor.scale > 2**31:
                        raise WorkloadError(f"files cannot hold the factor {factor!r}; use AxisStrategy.of(matrix)")
            elif type(query) not in (MarginalQuery, MergedQuery, TargetQuery):
                raise WorkloadError(f"files cannot hold answers to {type(query).__name__}; ask a ProductQuery instead")

    def require_tables(self) -> None:
        if not self.noisy_tables:
            raise QueryError(NOTHING_YET.format(first="its first noisy table"))

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
            tables = [table for table in self.noisy_tables if table.query is None or is_residual(table.asked)]
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
