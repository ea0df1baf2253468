"""Measured tables in files: noisy integers, rounds, last scores and the model, all checked as untrusted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import numpy as np

from hush.core.arrays import Integers
from hush.core.domain import Domain
from hush.core.errors import ArchiveError, WorkloadError
from hush.core.solution import Solution
from hush.files.codec import CliqueTable, FloatVector, IntTable, IntVector, Stored
from hush.linops import Dense, Identity, LevelsAndTotal
from hush.privacy.gate import LinearQuery, MarginalQuery
from hush.privacy.measurement import Measurement
from hush.privacy.noise import DiscreteGaussian
from hush.release.model_files import DistributionFile, FitFile, build_distribution, store_distribution
from hush.release.rounds import Draw, Round, Scored, gaussian_law
from hush.schema import Schema
from hush.strategies.product_strategy import ProductQuery
from hush.strategies.rare_levels import MergedQuery, Merging
from hush.strategies.strategy_files import FactorFile, build_factor, store_factor
from hush.workloads.threshold_target import TargetQuery

if TYPE_CHECKING:
    from hush.release.noisy_tables_record import NoisyTablesRecord

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


def check_storable(queries: Sequence[object]) -> None:
    """Refuse queries whose answers files cannot hold; asked before anything is charged for them."""
    merged = [query.merging.codes for query in queries if isinstance(query, MergedQuery)]
    if any(_codes(codes) != _codes(merged[0]) for codes in merged if codes is not merged[0]):
        raise WorkloadError("a file holds one way to merge levels, and these tables merge them in several")
    for query in queries:
        if type(query) is ProductQuery:
            for factor in query.factors:
                if not isinstance(factor.operator, Identity | LevelsAndTotal | Dense) or factor.scale > 2**31:
                    raise WorkloadError(f"files cannot hold the factor {factor!r}; use AxisStrategy.of(matrix)")
        elif type(query) not in (MarginalQuery, MergedQuery, TargetQuery):
            raise WorkloadError(f"files cannot hold answers to {type(query).__name__}; ask a ProductQuery instead")


def _codes(codes: Mapping[str, Integers]) -> dict[str, list[int]]:
    return {column: levels.tolist() for column, levels in codes.items()}


class TargetFile(Stored):
    """A single answer: the rows that agree with a target in at least so many columns."""

    codes: tuple[int, ...]
    at_least: int


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


def _target(query: TargetQuery) -> TargetFile:
    return TargetFile(codes=query.target, at_least=query.at_least)


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
                    target=_target(table.asked) if isinstance(table.asked, TargetQuery) else None,
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
