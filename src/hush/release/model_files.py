"""Models in files: the distribution, the tables it was fitted to, and how the fit went.

A tree is stored node by node, parents first. A loaded model needs no new search and sums in the same order, so it gives
the same numbers, bit for bit, and the same rows for the same seed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from hush.core.arrays import Floats, summed
from hush.core.constraints import Constraint, check_cells, merge
from hush.core.domain import Clique, Domain
from hush.core.errors import ArchiveError
from hush.core.memory import require_memory
from hush.core.solution import Solution
from hush.files.archive import VERSIONS, ArchiveReader, write_archive
from hush.files.codec import (
    BoolVector,
    CliqueTable,
    FloatVector,
    IntVector,
    Stored,
    finite,
    joined,
    pack,
    require_shape,
    tables_of,
    unpack,
)
from hush.inference.factors import Factors
from hush.models.distribution import Distribution
from hush.models.graphical.graphical_model import GraphicalModel
from hush.models.graphical.junction_tree import JunctionTree, Node
from hush.models.local.local_model import LocalModel
from hush.models.relaxed.relaxed_rows import CoarseLevels, RelaxedRows
from hush.privacy.measurement import LARGEST_MAGNITUDE, Measurement
from hush.schema import Integer, Numeric, Schema

if TYPE_CHECKING:
    from hush.release.model import Model

LARGEST_DISAGREEMENT = 1e-5  # of the total: how far apart tables of an approximate model may be on one attribute
LARGEST_LOG = 200.0  # of a weight of rows; keeps exp from overflowing

Total = Annotated[float, Meta(gt=0, le=LARGEST_MAGNITUDE)]


class FitFile(Stored):
    """How a fit stopped; statistics are an array, because JSON has no infinite or undefined numbers."""

    status: str
    names: list[str]
    values: FloatVector

    def __post_init__(self) -> None:
        if not self.status.isprintable() or not all(name.isidentifier() for name in self.names):
            raise ValueError("Expected a printable status and plain names of statistics")
        if self.values.shape != (len(self.names),):
            raise ValueError("Expected a number for each statistic")

    @classmethod
    def of(cls, status: str, stats: Mapping[str, float]) -> FitFile:
        return cls(status=status, names=list(stats), values=np.array(list(stats.values()), dtype=np.float64))

    @property
    def stats(self) -> dict[str, float]:
        return dict(zip(self.names, self.values.tolist(), strict=True))


class ZerosFile(Stored):
    """The combinations that the constraints of a model allow."""

    cliques: CliqueTable
    allowed: BoolVector

    @classmethod
    def of(cls, domain: Domain, constraints: Sequence[Constraint]) -> ZerosFile:
        cliques = CliqueTable.of(domain, [constraint.clique for constraint in constraints])
        return cls(cliques=cliques, allowed=joined([constraint.allowed for constraint in constraints], np.bool_))

    def build(self, domain: Domain) -> list[Constraint]:
        cliques = self.cliques.build(domain, "constraints")
        check_cells(domain, cliques)
        require_shape(self.allowed, (sum(domain.size(clique) for clique in cliques),), "constraints")
        tables = tables_of(domain, cliques, self.allowed)
        return [Constraint.of_table(domain, clique, table) for clique, table in zip(cliques, tables, strict=True)]


class TreeModelFile(Stored, tag_field="kind", tag="graphical"):
    """A graphical model: the nodes of its junction tree, and its potentials."""

    total: Total
    zeros: ZerosFile
    nodes: CliqueTable
    parents: IntVector
    factors: CliqueTable
    potentials: FloatVector

    @classmethod
    def of(cls, model: GraphicalModel) -> TreeModelFile:
        nodes, domain = model.tree.nodes, model.domain
        return cls.from_attributes(
            model,
            zeros=ZerosFile.of(domain, model.constraints),
            nodes=CliqueTable.of(domain, [node.axes for node in nodes]),
            parents=np.array([node.parent for node in nodes], dtype=np.int32),
            factors=CliqueTable.of(domain, model.factors.cliques),
        )

    def build(self, domain: Domain, constraints: Sequence[Constraint]) -> GraphicalModel:
        """The model; refused if it is not a tree, has no distribution or does not fit into memory."""
        tree = _tree(domain, self.nodes.build(domain, "tree"), self.parents)
        factors = Factors(tree.domain, self.factors.build(domain, "model"))
        potentials = finite(self.potentials, factors.size, "potentials")
        model = GraphicalModel(domain, tree, factors, potentials, self.total, constraints)
        if not math.isfinite(model.belief.log_partition):
            raise ArchiveError("the file's model has no distribution; fit it again")
        return model


class LocalModelFile(Stored, tag_field="kind", tag="local"):
    """An approximate model: tables that agree on the attributes they share."""

    total: Total
    zeros: ZerosFile
    cliques: CliqueTable
    tables: FloatVector
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)]

    @classmethod
    def of(cls, model: LocalModel) -> LocalModelFile:
        """The stored form of a model; refused if its tables contradict each other."""
        at_fault = _contradicting(model.factors, model.table, model.total, model.constraints)
        if at_fault is not None:
            raise ArchiveError(
                f"the model's table over {at_fault!r} contradicts the others, as its status says: it cannot be saved; "
                "fit with more iterations"
            )
        return cls(
            total=model.total,
            zeros=ZerosFile.of(model.domain, model.constraints),
            cliques=CliqueTable.of(model.domain, model.cliques),
            tables=joined([model.table(index) for index in range(len(model.cliques))], np.float64),
            seed=int(model.seed),
        )

    def build(self, domain: Domain, constraints: Sequence[Constraint]) -> LocalModel:
        """The model; refused if tables are negative, contradict each other or break constraints."""
        factors = Factors(domain, self.cliques.build(domain, "tables"))
        tables = finite(self.tables, factors.size, "tables")
        if not len(factors) or (tables < 0).any():
            raise ArchiveError("the file's tables have negative counts, or there are none; fit the model again")
        at_fault = _contradicting(factors, lambda index: factors.table(tables, index), self.total, constraints)
        if at_fault is not None:
            raise ArchiveError(f"the file's table over {at_fault!r} contradicts the others; fit the model again")
        return LocalModel(factors, tables, self.total, constraints, seed=self.seed)


class RelaxedRowsFile(Stored, tag_field="kind", tag="relaxed"):
    """Relaxed rows: the coarse level of every code and its share there, then the rows and their weights."""

    total: Total
    zeros: ZerosFile
    codes: IntVector
    shares: FloatVector
    weights: FloatVector
    rows: FloatVector
    cliques: CliqueTable

    @classmethod
    def of(cls, model: RelaxedRows) -> RelaxedRowsFile:
        coarse, domain = model.coarse, model.domain
        return cls(
            total=model.total,
            zeros=ZerosFile.of(domain, ()),
            codes=joined([coarse.codes[name] for name in domain], np.int64),
            shares=joined([coarse.shares[name] for name in domain], np.float64),
            weights=model.weights,
            rows=model.rows.reshape(-1),
            cliques=CliqueTable.of(domain, model.cliques),
        )

    def build(self, domain: Domain, constraints: Sequence[Constraint]) -> RelaxedRows:
        """The rows; refused if they are not probabilities, or if there are rules, which rows cannot keep."""
        if constraints:
            raise ArchiveError("the file's schema has rules that relaxed rows cannot keep; fit the model again")
        levels = sum(domain.shape)
        require_shape(self.codes, (levels,), "coarse levels")
        cuts = np.cumsum(domain.shape)[:-1]
        codes = dict(zip(domain, np.split(self.codes.astype(np.int64), cuts), strict=True))
        for column in codes.values():
            if not np.array_equal(np.unique(column), np.arange(column.max() + 1)):
                raise ArchiveError("the file's coarse levels are not 0 .. k-1; fit the model again")
        shares = dict(zip(domain, np.split(finite(self.shares, levels, "shares of levels"), cuts), strict=True))
        coarse = CoarseLevels(domain, codes, shares)
        weights = finite(self.weights, len(self.weights), "weights of rows")
        rows = finite(self.rows, len(weights) * int(coarse.offsets[-1]), "rows").reshape(len(weights), -1)
        sums = [coarse.merged(name, coarse.shares[name]) for name in domain]
        sums += [weights.sum(keepdims=True), *np.add.reduceat(rows, coarse.offsets[:-1], axis=1)]
        negative = any((part < 0).any() for part in (weights, rows, *shares.values()))
        if not len(weights) or negative or any((np.abs(part - 1.0) > LARGEST_DISAGREEMENT).any() for part in sums):
            raise ArchiveError("the file's relaxed rows are no probabilities; fit the model again")
        return RelaxedRows(coarse, rows, self.total, weights=weights, cliques=self.cliques.build(domain, "model"))


DistributionFile = TreeModelFile | LocalModelFile | RelaxedRowsFile


def store_distribution(distribution: Distribution) -> DistributionFile:
    """The stored form of a model of any kind."""
    match distribution:
        case LocalModel():
            return LocalModelFile.of(distribution)
        case RelaxedRows():
            return RelaxedRowsFile.of(distribution)
        case GraphicalModel():
            return TreeModelFile.of(distribution)
    raise ArchiveError(f"a model of kind {type(distribution).__name__} cannot be saved; save a model from hush.fit")


def build_distribution(schema: Schema, stored: DistributionFile) -> Distribution:
    """The model from its stored form, under its own constraints and those of its schema."""
    domain = schema.domain
    return stored.build(domain, merge(domain, (*schema.constraints, *stored.zeros.build(domain))))


class MeasuredTablesFile(Stored):
    """The tables measured cell by cell, the basis of unbiased estimates."""

    cliques: CliqueTable
    values: FloatVector
    stddev: FloatVector
    laplace: BoolVector

    @classmethod
    def of(cls, domain: Domain, measurements: Iterable[Measurement]) -> MeasuredTablesFile:
        """The stored form of the measurements that are whole tables."""
        tables = [measurement for measurement in measurements if measurement.query is None]
        return cls(
            cliques=CliqueTable.of(domain, [table.clique for table in tables]),
            values=joined([table.values for table in tables], np.float64),
            stddev=np.array([table.stddev for table in tables], dtype=np.float64),
            laplace=np.array([table.noise == "laplace" for table in tables], dtype=np.bool_),
        )

    def build(self, domain: Domain) -> list[Measurement]:
        cliques = self.cliques.build(domain, "measured tables")
        values = finite(self.values, sum(domain.size(clique) for clique in cliques), "measured tables")
        require_shape(self.laplace, (len(cliques),), "kinds of noise")
        stddevs = finite(self.stddev, len(cliques), "standard deviations").tolist()
        columns = zip(cliques, tables_of(domain, cliques, values), stddevs, self.laplace.tolist(), strict=True)
        return [
            Measurement(clique, table, stddev, noise="laplace" if laplace else "gaussian")
            for clique, table, stddev, laplace in columns
        ]


class BinMeansFile(Stored):
    """The mean value in each level of a numeric column."""

    column: str
    means: FloatVector

    def build(self, schema: Schema) -> Floats:
        """The means; refused if one lies outside its level."""
        column = schema[self.column] if self.column in schema.domain else None
        if not isinstance(column, Integer | Numeric):
            raise ArchiveError("the file has means of bins of a column without numbers; make it anew")
        means = finite(self.means, column.levels, "means of bins")
        low, high = np.array([column.ends(code) for code in range(column.levels)], dtype=float).T
        if not ((low <= means) & (means <= high)).all():
            raise ArchiveError("the file has means of bins that lie outside them; make it anew")
        return means


class ReweightFile(Stored):
    """How much more or less often rows are drawn, by the cells of a table: logarithms of factors."""

    clique: list[str]
    logs: FloatVector

    def build(self, domain: Domain) -> tuple[Clique, Floats]:
        """The table; refused if it does not fit the domain."""
        clique = tuple(self.clique)
        if not clique or len(set(clique)) < len(clique) or not set(clique) <= set(domain):
            raise ArchiveError("the file reweights rows by columns it does not have; make it anew")
        logs = finite(self.logs, domain.size(clique), "weights of rows")
        if np.abs(logs).max() > LARGEST_LOG:
            raise ArchiveError("the file's weights of rows are beyond floats; make it anew")
        return clique, logs.reshape(domain.sizes(clique))


class ModelFile(Stored):
    """The file of a model; a model of a release leaves its measurements in the file of the release."""

    domain: Domain
    schema: str
    fit: FitFile
    caveats: list[str]
    model: DistributionFile
    measured: MeasuredTablesFile
    bin_means: list[BinMeansFile] = msgspec.field(default_factory=list)
    reweights: list[ReweightFile] = msgspec.field(default_factory=list)

    def __post_init__(self) -> None:
        if not all(caveat.isprintable() for caveat in self.caveats):
            raise ValueError("Expected printable caveats")


def save_model(model: Model, path: str | Path) -> None:
    """Write a model."""
    content = ModelFile(
        domain=model.domain,
        schema=model.schema.to_toml(),
        fit=FitFile.of(model.status, model.stats),
        caveats=list(model.caveats),
        bin_means=[BinMeansFile(column=name, means=np.asarray(each)) for name, each in model.placing.bin_means.items()],
        reweights=[ReweightFile(clique=list(names), logs=logs.ravel()) for names, logs in model.placing.reweights],
        model=store_distribution(model.distribution),
        measured=MeasuredTablesFile.of(model.domain, model.measurements if model.source is None else ()),
    )
    manifest, arrays = pack(content)
    write_archive(path, kind="model", version=VERSIONS["model"], manifest=manifest, arrays=arrays)


def unpack_model(archive: ArchiveReader, schema: Schema) -> dict[str, Any]:
    """The arguments of the model besides its schema."""
    content: ModelFile = unpack(ModelFile, archive.content, archive, "model")
    value = build_distribution(schema, content.model)
    solution = Solution(value=value, status=content.fit.status, stats=content.fit.stats)
    return {
        "solution": solution,
        "measurements": content.measured.build(schema.domain),
        "caveats": content.caveats,
        "placing": (
            {stored.column: stored.build(schema) for stored in content.bin_means},
            [stored.build(schema.domain) for stored in content.reweights],
        ),
    }


def _tree(domain: Domain, axes: Sequence[Clique], parents: np.ndarray[Any, Any]) -> JunctionTree:
    """The tree of nodes with these axes, separator first, in tree order; refused if too large for memory."""
    count = len(axes)
    if parents.dtype.kind != "i" or parents.shape != (count,) or not count or parents[0] != -1:
        raise ArchiveError("the file's tree does not say how its nodes are connected; fit the model again")
    if count > 1 and not ((parents[1:] >= 0) & (parents[1:] < np.arange(1, count))).all():
        raise ArchiveError("the file's tree has a node before its parent; fit the model again")
    needed = 8 * sum(math.prod(domain[name] for name in clique) for clique in axes) + count * len(domain) // 8
    require_memory(needed, "the file's model", "free some memory, or distrust the file", share=0.5)
    # The separator of a node has its leading attributes, those that its parent has too.
    pairs = zip(axes[1:], parents[1:].tolist(), strict=True)
    separators = [(), *(tuple(itertools.takewhile(set(axes[k]).__contains__, clique)) for clique, k in pairs)]
    rests = [clique[len(separator) :] for clique, separator in zip(axes, separators, strict=True)]
    order = [name for rest in rests for name in rest]
    if len(order) != len(domain) or set(order) != set(domain) or not all(rests[1:]):
        raise ArchiveError(
            "the file's nodes do not hold every attribute once, so they are no tree; fit the model again"
        )
    ordered = domain.project(order)
    nodes = zip(axes, separators, rests, parents.tolist(), strict=True)
    return JunctionTree(ordered, [Node(ordered.clique(clique), *rest) for clique, *rest in nodes])


def _contradicting(
    factors: Factors, table: Callable[[int], Floats], total: float, constraints: Sequence[Constraint]
) -> Clique | None:
    """A clique whose table differs in its total or an attribute's counts, or breaks a constraint; None if none does."""
    margins: dict[str, Floats] = {}
    for index, clique in enumerate(factors.cliques):
        counts = table(index)
        agree = abs(float(counts.sum()) - total) <= LARGEST_DISAGREEMENT * total
        for name in clique:
            margin = summed(counts, clique, (name,))
            before = margins.setdefault(name, margin)
            agree = agree and bool(np.abs(margin - before).max() <= LARGEST_DISAGREEMENT * total)
        for constraint in constraints:
            if set(constraint.clique) <= set(clique):
                agree = agree and not summed(counts, clique, constraint.clique)[~constraint.allowed].any()
        if not agree:
            return clique
    return None
