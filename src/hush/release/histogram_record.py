"""The records of `dawa`: noisy counts of buckets, of hats, blocks or a tree over them, and the probes before them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np

from hush.core.arrays import Integers
from hush.core.domain import Clique, Domain
from hush.core.errors import ArchiveError, QueryError, WorkloadError
from hush.files.codec import IntTable, IntVector, Stored
from hush.histograms.axis_grid import AxisGrid, query_count
from hush.histograms.block_cut import BlockCut, CutQuery
from hush.histograms.block_tree import LARGEST_TREE, BlockTree
from hush.histograms.bucket_trees import BucketTree, BucketTreeQuery
from hush.histograms.grid_bias import GridBias
from hush.histograms.hats import HatQuery
from hush.histograms.histogram_estimates import HistogramEstimates
from hush.histograms.interval_costs import Curve
from hush.privacy.gate import MarginalQuery
from hush.privacy.measurement import Measurement
from hush.privacy.noise import DiscreteGaussian, DiscreteLaplace, Noise
from hush.privacy.sensitivity import RowNorms
from hush.release.answers import ErrorKind
from hush.release.record import NOTHING_YET, Record
from hush.schema import Schema

if TYPE_CHECKING:
    from hush.release.release import Release

EVEN_NOTE = (
    "rows are assumed to be evenly spread within each bucket of levels. Standard errors and intervals cover the noise, "
    "and rows that fall on the levels of a bucket by chance. They leave out bias: some levels of a bucket may be more "
    "common than others. Bias matters most for single levels and short ranges."
)
MEASURED_BIAS = (
    "A private measurement puts the bias at {value:,.3g} ± {error:,.2g} for {what} (root mean square over all of "
    "them); for other questions it was not measured."
)
UNMEASURED_BIAS = "The bias was not measured."
NONNEGATIVE_NOTE = (
    "counts were moved to the nearest counts that are not negative, which lowers errors on average; the errors shown "
    "leave this step out."
)
SHRUNK_NOTE = (
    "counts were pulled towards empty and even blocks of the map where the noisy counts allow it, which makes most "
    "counts better and can make some worse; the errors shown leave this step out."
)
LARGEST_CELLS = 1 << 26  # of a histogram
LARGEST_UNITS = 1 << 20  # of budget along a path of a tree: squares of answers stay exact
UNFIT_HISTOGRAM = "the file's histogram does not fit its schema; get the release again"


class LawFile(Stored):
    """The noise of one table."""

    noise: Literal["laplace", "gaussian"]
    size: Fraction  # the scale, or the variance

    @classmethod
    def of(cls, law: Any) -> LawFile:
        laplace = isinstance(law, DiscreteLaplace)
        return cls(noise=law.name, size=law.scale if laplace else law.variance_parameter)

    def build(self) -> Noise:
        return DiscreteLaplace(self.size) if self.noise == "laplace" else DiscreteGaussian(self.size)


class ProbeFile(Stored):
    """A noisy number of rows, or a noisy bias on a grid."""

    value: int
    law: LawFile
    cuts: list[IntVector]  # of the grids; none for the number of rows


class HatTableFile(Stored):
    """Noisy counts of buckets, of hats over them, or of blocks of the tree over them.

    Blocks are all those of a level, or a cut, whose `nodes` are their numbers.
    """

    hats: list[int]
    level: int | None
    law: LawFile
    values: IntTable
    nodes: IntVector | None = None


class HistogramFile(Stored, tag_field="kind", tag="histogram"):
    """The probes, which files call looks, and the tables; all tables are on the same grids, or on blocks of these.

    An interrupted release may hold the grids of a partition that was chosen, and no tables yet.
    """

    clique: tuple[str, ...]
    gridded: int
    queries: Literal["cells", "prefix", "ranges"]
    looks: list[ProbeFile]
    cuts: list[IntVector]
    tables: list[HatTableFile]

    @classmethod
    def of(cls, record: HistogramRecord) -> Self:
        probes = []
        for probe in record.probes:
            grids = probe.asked.grids if isinstance(probe.asked, GridBias) else ()
            cuts = [np.array(grid.cuts) for grid in grids]
            probes.append(ProbeFile(value=int(probe.raw), law=LawFile.of(probe.law), cuts=cuts))
        tables = []
        for table in record.measured:
            asked, law = table.asked, LawFile.of(table.law)
            cut = isinstance(asked, CutQuery)
            hats: list[int] = [] if cut else list(asked.hats)  # type: ignore[union-attr]
            nodes = np.array(asked.cut.nodes) if cut else None  # type: ignore[union-attr]
            tables.append(HatTableFile(hats=hats, level=record.level(table), nodes=nodes, law=law, values=table.raw))
        cuts = [np.array(grid.cuts) for grid in record.grids]
        return cls.from_attributes(record, looks=probes, cuts=cuts, tables=tables)

    def build(self, schema: Schema) -> dict[str, Any]:
        """The arguments of the record; refused where they do not fit together."""
        domain = schema.domain
        clique = domain.check(self.clique)
        sizes = domain.sizes(clique)
        if not 1 <= self.gridded <= min(2, len(clique)) or (self.tables and not self.cuts):
            raise ArchiveError(UNFIT_HISTOGRAM)
        try:
            probes, measured = [], []
            for probe in self.looks:
                asked: MarginalQuery | GridBias = MarginalQuery(())
                if probe.cuts:
                    asked = GridBias(clique, self._grids(probe.cuts, sizes), self.queries)
                value = np.array(probe.value, dtype=np.int64)
                probes.append(Measurement.of(asked, value, probe.law.build()))
            grids = self._grids(self.cuts, sizes) if self.cuts else ()
            for table, query in zip(self.tables, self._asked(clique, grids), strict=True):
                most = [len(grid.cuts) for grid in grids]
                fits = all(1 <= hat <= size for hat, size in zip(table.hats, most, strict=bool(table.hats)))
                if not fits or table.values.shape != query.shape(sizes):
                    raise ArchiveError(UNFIT_HISTOGRAM)
                measured.append(Measurement.of(query, table.values.astype(np.int64), table.law.build()))
        except (WorkloadError, ValueError):
            raise ArchiveError(UNFIT_HISTOGRAM) from None
        return {
            "domain": domain,
            "clique": clique,
            "gridded": self.gridded,
            "queries": self.queries,
            "probes": probes,
            "measured": measured,
            "chosen": grids,
        }

    def _asked(self, clique: Clique, grids: tuple[AxisGrid, ...]) -> list[HatQuery | CutQuery]:
        """What every table holds: counts of buckets, then of hats or of larger and larger blocks; or of blocks alone.

        Cuts, which no counts of buckets precede, come last, and lie within the smallest blocks before them.
        """
        tree = BlockTree(tuple(grid.buckets for grid in grids))
        queries: list[HatQuery | CutQuery] = []
        smallest: BlockCut | None = None  # blocks so far
        hats = any(table.hats for table in self.tables)
        in_rounds = bool(self.tables) and (self.tables[0].level is not None or self.tables[0].nodes is not None)
        for number, table in enumerate(self.tables):
            level = table.level
            levels = [each.level for each in self.tables[:number] if each.level is not None]
            if table.nodes is not None:
                cut = BlockCut(tree, table.nodes)
                fits = in_rounds and level is None and not hats and (smallest is None or cut.refines(smallest))
                smallest = cut
                queries.append(CutQuery(clique, grids, cut))
            elif level is not None:
                fits = (
                    not hats
                    and 0 <= level < min(levels, default=tree.depth)
                    and not any(isinstance(query, CutQuery) for query in queries)
                )
                level = min(max(level, 0), tree.depth)
                smallest = smallest or BlockCut.at_level(tree, level)
                queries.append(HatQuery(clique, tree.grids(level, grids)))
            else:
                fits = bool(table.hats) == (number > 0) and not in_rounds
                queries.append(HatQuery(clique, grids, tuple(table.hats)))
            blocks = table.nodes is not None or table.level is not None
            if not fits or (blocks and math.prod(tree.buckets) > LARGEST_TREE):
                raise ArchiveError(UNFIT_HISTOGRAM)
        return queries

    def _grids(self, cuts: Sequence[Any], sizes: tuple[int, ...]) -> tuple[AxisGrid, ...]:
        """The grids with these cuts; refused unless they cover the gridded attributes."""
        grids = tuple(AxisGrid(places) for places in cuts)
        if tuple(grid.size for grid in grids) != sizes[: self.gridded]:
            raise ArchiveError(UNFIT_HISTOGRAM)
        return grids


class OneHistogram(Record):
    """Noisy tables of one histogram over a clique, from which every cell can be estimated."""

    def __init__(self, domain: Domain, clique: Clique, queries: str, measured: Sequence[Measurement]) -> None:
        self.domain = domain
        self.clique = clique
        self.queries: Any = queries
        self.probes: list[Measurement] = []
        self.measured = list(measured)

    @property
    def grids(self) -> tuple[AxisGrid, ...]:
        """The buckets of every gridded attribute; none if a tree was measured."""
        return ()

    @property
    def tables(self) -> int:
        return len(self.measured)

    @property
    def progress(self) -> str:
        return str(len(self.probes) + len(self.measured))

    def resumed(self) -> Self:
        record = super().resumed()
        record.probes, record.measured = list(self.probes), list(self.measured)
        record.__dict__.pop("_estimates", None)
        return record

    def require_tables(self) -> None:
        if not self.measured:
            raise QueryError(NOTHING_YET.format(first="its histogram was measured"))

    def measurements(self) -> list[Measurement]:
        """The estimated counts of all cells as one table, which a model then fits."""
        if not self.measured:
            return []
        deviation = max(self.measured[0].law.stddev, 1e-6)
        return [Measurement(self.clique, self._estimates.counts(self.clique), deviation)]

    def law_counts(self) -> Counter[tuple[RowNorms, Noise]]:
        return Counter((table.asked.row_norms, table.law) for table in [*self.probes, *self.measured])  # type: ignore[union-attr,misc]

    @cached_property
    def _estimates(self) -> HistogramEstimates:
        return HistogramEstimates(self.domain, self.measured, self.queries, self.grids)

    def estimates(self, release: Release) -> HistogramEstimates:
        self.require_tables()
        return self._estimates

    def inconsistency(self, release: Release) -> str | None:
        if release.complete and not self.measured:
            return "it holds no histogram"
        asked = {name for term in release.workload.products for name in term.clique}
        return None if asked <= set(self.clique) else "its histogram lacks attributes that were asked for"


class HistogramRecord(OneHistogram):
    """A histogram whose leading attributes are gridded, with the probes that chose the grids."""

    kind: ClassVar[str] = "histogram"
    stored_type: ClassVar[Any] = HistogramFile

    def __init__(
        self,
        domain: Domain,
        clique: Clique,
        gridded: int,
        queries: str,
        probes: Sequence[Measurement] = (),
        measured: Sequence[Measurement] = (),
        chosen: tuple[AxisGrid, ...] = (),
    ) -> None:
        super().__init__(domain, clique, queries, measured)
        self.gridded = gridded
        self.probes = list(probes)
        self.chosen = chosen  # before the histogram is measured: by a private partition, or for a map

    @property
    def grids(self) -> tuple[AxisGrid, ...]:
        """The buckets of every gridded attribute; empty before they are chosen."""
        return self.chosen or (self.measured[0].asked.grids if self.measured else ())  # type: ignore[union-attr]

    @property
    def cuts(self) -> list[BlockCut]:
        """The blocks of several sizes that were measured, each cut within the blocks of that before."""
        return [table.asked.cut for table in self.measured if isinstance(table.asked, CutQuery)]

    @property
    def in_blocks(self) -> bool:
        """Whether rounds of blocks are measured, and not all buckets at first."""
        return bool(self.measured) and (bool(self.cuts) or self.level(self.measured[0]) is not None)

    @property
    def buckets(self) -> Mapping[str, AxisGrid]:
        """The buckets of every gridded attribute: the smallest blocks of a line, those of the first round of a map."""
        if not self.measured:
            return {}
        grids = self.grids
        if self.in_blocks and not self._whole:
            grids = self.measured[0].asked.grids  # type: ignore[union-attr]
            if self.cuts and self.gridded == 1:
                fine = self.grids[0].cuts
                grids = (AxisGrid(np.append(fine[self.cuts[-1].starts], fine[-1])),)
        return dict(zip(self.clique, grids, strict=False))

    def level(self, table: Measurement) -> int | None:
        """The level of a table of blocks in the tree over the buckets; None for other tables."""
        if isinstance(table.asked, CutQuery):
            return None
        grids: tuple[AxisGrid, ...] = table.asked.grids  # type: ignore[union-attr]
        if grids is self.grids or same_grids(grids, self.grids):
            return None
        return BlockTree(tuple(g.buckets for g in self.grids)).level_of(tuple(g.buckets for g in grids))

    @property
    def bias(self) -> tuple[float, float] | None:
        """The root mean square over queries of the error of evenly spread buckets, and its standard error.

        From the last private measurement on the grids that were used; with a `bias_share` this measurement did not
        choose the grids. None if there is no measurement.
        """
        for probe in reversed(self.probes):
            asked = probe.asked
            if isinstance(asked, GridBias) and self.measured and same_grids(asked.grids, self.grids):
                unit = asked.step / math.sqrt(query_count(asked.grids, self.queries))
                return max(float(probe.raw), 0.0) * unit, probe.law.stddev * unit
        return None

    @property
    def bias_words(self) -> str:
        """How large the bias of evenly spread buckets is, and for which queries that is known."""
        if self.bias is None:
            return UNMEASURED_BIAS
        value, error = self.bias
        what = {"cells": "a single level", "prefix": "a prefix sum", "ranges": "a range"}[self.queries]
        return MEASURED_BIAS.format(value=value, error=error, what=what)

    @property
    def _whole(self) -> bool:
        """Whether every level was counted by itself."""
        blocks = bool(self.cuts) and self.cuts[-1].whole if self.in_blocks else True
        return all(grid.whole for grid in self.grids) and blocks

    @property
    def errors(self) -> ErrorKind | None:
        """Noise is the only error if single levels were asked for and each was counted by itself."""
        return None if self._whole and self.queries == "cells" else ErrorKind.NOISE

    @property
    def notes(self) -> tuple[str, ...]:
        notes = []
        if not self._whole:
            notes.append(f"{EVEN_NOTE} {self.bias_words}")
        if self.queries != "cells" and self.measured:
            notes.append(SHRUNK_NOTE if self.in_blocks or any(map(self.level, self.measured)) else NONNEGATIVE_NOTE)
        return tuple(notes)


class TreeTableFile(Stored):
    """The noisy sums of a tree of buckets, and the units of budget of its nodes, leaves first."""

    weights: list[IntVector]
    law: LawFile
    values: IntVector


class BucketTreeFile(Stored, tag_field="kind", tag="bucket-tree"):
    """A partition of cells in line, and the measured tree over its buckets; interrupted releases may lack either."""

    clique: tuple[str, ...]
    queries: Literal["cells", "prefix", "ranges"]
    cuts: IntVector
    tables: list[TreeTableFile]

    @classmethod
    def of(cls, record: BucketTreeRecord) -> Self:
        tables = []
        for table in record.measured:
            weights = [np.array(level) for level in table.asked.tree.weights]  # type: ignore[union-attr]
            tables.append(TreeTableFile(weights=weights, law=LawFile.of(table.law), values=table.raw))
        return cls.from_attributes(record, cuts=np.array(record.cuts, dtype=np.int64), tables=tables)

    def build(self, schema: Schema) -> dict[str, Any]:
        """The arguments of the record; refused where they do not fit together."""
        domain = schema.domain
        clique = domain.check(self.clique)
        cells = domain.size(clique)
        cuts = self.cuts.astype(np.int64)
        if (
            not 1 <= len(clique) <= 2
            or len(self.tables) > 1
            or cells > LARGEST_CELLS
            or (self.tables and not cuts.size)
        ):
            raise ArchiveError(UNFIT_HISTOGRAM)
        try:
            if cuts.size and AxisGrid(cuts).size != cells:
                raise ArchiveError(UNFIT_HISTOGRAM)
            measured = []
            for table in self.tables:
                weights = tuple(level.astype(np.int64) for level in table.weights)
                if sum(int(level.max(initial=0)) for level in weights) > LARGEST_UNITS:
                    raise ArchiveError(UNFIT_HISTOGRAM)
                tree = BucketTree(cuts, weights)
                if table.values.shape != (sum(int(np.count_nonzero(level)) for level in weights),):
                    raise ArchiveError(UNFIT_HISTOGRAM)
                query = BucketTreeQuery(clique, tree, curve_over(clique))
                measured.append(Measurement.of(query, table.values.astype(np.int64), table.law.build()))
        except (WorkloadError, ValueError):
            raise ArchiveError(UNFIT_HISTOGRAM) from None
        return {"domain": domain, "clique": clique, "queries": self.queries, "cuts": cuts, "measured": measured}


class BucketTreeRecord(OneHistogram):
    """A histogram in buckets of cells in line, measured by a tree over the buckets: DAWA as published."""

    kind: ClassVar[str] = "bucket-tree"
    stored_type: ClassVar[Any] = BucketTreeFile

    def __init__(
        self,
        domain: Domain,
        clique: Clique,
        queries: str,
        cuts: Sequence[int] | Integers = (),
        measured: Sequence[Measurement] = (),
    ) -> None:
        super().__init__(domain, clique, queries, measured)
        self.cuts: Integers = np.array(cuts, dtype=np.int64)  # empty before the buckets are chosen

    @property
    def curve(self) -> Curve:
        return curve_over(self.clique)

    @property
    def _whole(self) -> bool:
        """Whether every cell was counted by itself."""
        return len(self.cuts) == self.domain.size(self.clique) + 1

    @property
    def errors(self) -> ErrorKind | None:
        return None if self._whole else ErrorKind.NOISE

    @property
    def notes(self) -> tuple[str, ...]:
        return () if self._whole else (f"{EVEN_NOTE} {UNMEASURED_BIAS}",)


def curve_over(clique: Clique) -> Curve:
    """The order of a table's cells in line: two columns follow a Hilbert curve."""
    return "hilbert" if len(clique) == 2 else "rows"


def same_grids(first: Sequence[AxisGrid], second: Sequence[AxisGrid]) -> bool:
    """Whether two histograms have the same buckets."""
    pairs = zip(first, second, strict=True)
    return len(first) == len(second) and all(np.array_equal(one.cuts, other.cuts) for one, other in pairs)
