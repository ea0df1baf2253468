"""Models in files: the distribution, the tables that it was fitted to, and how the fit went.

A tree is stored node by node, parents first, so that it is not searched for again and every sum runs in the same
order: a model from a file gives the same numbers, bit for bit, and the same rows for the same seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from msgspec import Meta

from hush.archive import ArchiveReader, write_archive
from hush.arrays import Floats, summed
from hush.codec import (
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
from hush.constraints import Constraint, check_cells, merge
from hush.domain import Clique, Domain
from hush.errors import ArchiveError, SizeError
from hush.graphical.graphical_model import GraphicalModel
from hush.graphical.junction_tree import JunctionTree, Node
from hush.inference.factors import Factors
from hush.local.local_model import LocalModel
from hush.memory import available_memory, readable
from hush.privacy.measurement import EXTREME, Measurement
from hush.release.model_estimates import Distribution
from hush.schema import Schema
from hush.solution import Solution

if TYPE_CHECKING:
    from hush.release.model import Model

KIND = "model"
VERSION = 2
AGREEMENT = 1e-5  # of the total: how far apart tables of an approximate model may be on one attribute

Total = Annotated[float, Meta(gt=0, le=EXTREME)]


class FitFile(Stored):
    """How a fit stopped, in words and in numbers; infinite and undefined ones, which JSON has not, are in an array."""

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
        """The stored form of how a fit went."""
        return cls(status=status, names=list(stats), values=np.array(list(stats.values()), dtype=np.float64))

    @property
    def stats(self) -> dict[str, float]:
        """The statistics of the fit by name."""
        return dict(zip(self.names, self.values.tolist(), strict=True))


class ZerosFile(Stored):
    """Which combinations the constraints of a model leave possible."""

    cliques: CliqueTable
    allowed: BoolVector

    @classmethod
    def of(cls, domain: Domain, constraints: Sequence[Constraint]) -> ZerosFile:
        """The stored form of constraints."""
        cliques = CliqueTable.of(domain, [constraint.clique for constraint in constraints])
        return cls(cliques=cliques, allowed=joined([constraint.allowed for constraint in constraints], np.bool_))

    def build(self, domain: Domain) -> list[Constraint]:
        """The constraints."""
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
        """The stored form of a model."""
        nodes, domain = model.tree.nodes, model.domain
        return cls.from_attributes(
            model,
            zeros=ZerosFile.of(domain, model.constraints),
            nodes=CliqueTable.of(domain, [node.axes for node in nodes]),
            parents=np.array([node.parent for node in nodes], dtype=np.int32),
            factors=CliqueTable.of(domain, model.factors.cliques),
        )

    def build(self, domain: Domain, constraints: Sequence[Constraint]) -> GraphicalModel:
        """The model; one that is no tree, has no distribution or does not fit into memory is refused."""
        tree = _tree(domain, self.nodes.build(domain, "tree"), self.parents)
        factors = Factors(tree.domain, self.factors.build(domain, "model"))
        potentials = finite(self.potentials, factors.size, "potentials")
        model = GraphicalModel(domain, tree, factors, potentials, self.total, constraints)
        if not math.isfinite(model.belief.log_partition):
            raise ArchiveError("the file's model has no distribution; make it anew")
        return model


class LocalModelFile(Stored, tag_field="kind", tag="local"):
    """An approximate model: tables that agree on every attribute that they share."""

    total: Total
    zeros: ZerosFile
    cliques: CliqueTable
    tables: FloatVector
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)]

    @classmethod
    def of(cls, model: LocalModel) -> LocalModelFile:
        """The stored form of a model; one whose tables contradict each other is refused."""
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
        """The model; its tables must not be negative, be zero where constraints say so, and agree."""
        factors = Factors(domain, self.cliques.build(domain, "tables"))
        tables = finite(self.tables, factors.size, "tables")
        if not len(factors) or (tables < 0).any():
            raise ArchiveError("the file's tables have negative counts, or there are none; make it anew")
        at_fault = _contradicting(factors, lambda index: factors.table(tables, index), self.total, constraints)
        if at_fault is not None:
            raise ArchiveError(f"the file's table over {at_fault!r} contradicts the others; make it anew")
        return LocalModel(factors, tables, self.total, constraints, seed=self.seed)


DistributionFile = TreeModelFile | LocalModelFile


def store_distribution(distribution: Distribution) -> DistributionFile:
    """The stored form of an exact or approximate model."""
    if isinstance(distribution, LocalModel):
        return LocalModelFile.of(distribution)
    if isinstance(distribution, GraphicalModel):
        return TreeModelFile.of(distribution)
    raise ArchiveError(f"a model of kind {type(distribution).__name__} cannot be saved; save what hush.fit gave")


def build_distribution(schema: Schema, stored: DistributionFile) -> Distribution:
    """The model in its stored form, under the constraints of its schema too."""
    domain = schema.domain
    return stored.build(domain, merge(domain, (*schema.constraints, *stored.zeros.build(domain))))


class MeasuredTablesFile(Stored):
    """The tables that were measured cell by cell, which unbiased estimates are made from."""

    cliques: CliqueTable
    values: FloatVector
    stddev: FloatVector
    laplace: BoolVector

    @classmethod
    def of(cls, domain: Domain, measurements: Iterable[Measurement]) -> MeasuredTablesFile:
        """The stored form of those measurements that are whole tables."""
        tables = [measurement for measurement in measurements if measurement.query is None]
        return cls(
            cliques=CliqueTable.of(domain, [table.clique for table in tables]),
            values=joined([table.values for table in tables], np.float64),
            stddev=np.array([table.stddev for table in tables], dtype=np.float64),
            laplace=np.array([table.noise == "laplace" for table in tables], dtype=np.bool_),
        )

    def build(self, domain: Domain) -> list[Measurement]:
        """The measurements."""
        cliques = self.cliques.build(domain, "measured tables")
        values = finite(self.values, sum(domain.size(clique) for clique in cliques), "measured tables")
        require_shape(self.laplace, (len(cliques),), "kinds of noise")
        stddevs = finite(self.stddev, len(cliques), "standard deviations").tolist()
        columns = zip(cliques, tables_of(domain, cliques, values), stddevs, self.laplace.tolist(), strict=True)
        return [
            Measurement(clique, table, stddev, noise="laplace" if laplace else "gaussian")
            for clique, table, stddev, laplace in columns
        ]


class ModelFile(Stored):
    """The file of a model; the measurements of a model of a release stay in the file of the release."""

    domain: Domain
    schema: str
    fit: FitFile
    caveats: list[str]
    model: DistributionFile
    measured: MeasuredTablesFile

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
        model=store_distribution(model.distribution),
        measured=MeasuredTablesFile.of(model.domain, model.measurements if model.source is None else ()),
    )
    manifest, arrays = pack(content)
    write_archive(path, kind=KIND, version=VERSION, manifest=manifest, arrays=arrays)


def unpack_model(archive: ArchiveReader, schema: Schema) -> tuple[Solution[Distribution], list[Measurement], list[str]]:
    """The distribution with how its fit went, the measurements and the caveats that `save_model` wrote."""
    content: ModelFile = unpack(ModelFile, archive.content, archive, "model")
    value = build_distribution(schema, content.model)
    solution = Solution(value=value, status=content.fit.status, stats=content.fit.stats)
    return solution, content.measured.build(schema.domain), content.caveats


def _tree(domain: Domain, axes: Sequence[Clique], parents: np.ndarray[Any, Any]) -> JunctionTree:
    """The tree of nodes with these axes, separator first, in tree order; its size is compared with memory."""
    count = len(axes)
    if parents.dtype.kind != "i" or parents.shape != (count,) or not count or parents[0] != -1:
        raise ArchiveError("the file's tree does not say how its nodes hang together; make it anew")
    if count > 1 and not ((parents[1:] >= 0) & (parents[1:] < np.arange(1, count))).all():
        raise ArchiveError("the file's tree has a node before its parent; make it anew")
    _check_memory(8 * sum(math.prod(domain[name] for name in own) for own in axes) + count * len(domain) // 8)
    separators = [(), *(_shared(own, axes[k]) for own, k in zip(axes[1:], parents[1:].tolist(), strict=True))]
    rests = [own[len(separator) :] for own, separator in zip(axes, separators, strict=True)]
    order = [name for rest in rests for name in rest]
    if len(order) != len(domain) or set(order) != set(domain) or not all(rests[1:]):
        raise ArchiveError("the file's nodes do not hold every attribute once, so they are no tree; make it anew")
    ordered = domain.project(order)
    parts = zip(axes, separators, rests, parents.tolist(), strict=True)
    return JunctionTree(ordered, [Node(ordered.clique(own), *rest) for own, *rest in parts])


def _shared(own: Clique, parent: Clique) -> Clique:
    """The leading attributes of a node that are its parent's too, in that order."""
    held = set(parent)
    return own[: next((place for place, name in enumerate(own) if name not in held), len(own))]


def _contradicting(
    factors: Factors, table: Callable[[int], Floats], total: float, constraints: Sequence[Constraint]
) -> Clique | None:
    """A clique whose table has another total, or other counts of an attribute, or some where a constraint has none."""
    known: dict[str, Floats] = {}
    for index, clique in enumerate(factors.cliques):
        counts = table(index)
        agree = abs(float(counts.sum()) - total) <= AGREEMENT * total
        for name in clique:
            margin = summed(counts, clique, (name,))
            before = known.setdefault(name, margin)
            agree = agree and bool(np.abs(margin - before).max() <= AGREEMENT * total)
        for constraint in constraints:
            if set(constraint.clique) <= set(clique):
                agree = agree and not summed(counts, clique, constraint.clique)[~constraint.allowed].any()
        if not agree:
            return clique
    return None


def _check_memory(needed: int) -> None:
    free = available_memory()
    if needed > 0.5 * free:
        size = readable(needed) if needed < 2**80 else "more than any memory"
        raise SizeError(f"the file's model takes {size}, {readable(free)} are free; make room, or distrust the file")
