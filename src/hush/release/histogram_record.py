"""The record of `dawa`: noisy counts of buckets and hats, and the looks that chose the buckets."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np

from hush.core.domain import Clique, Domain
from hush.core.errors import ArchiveError, QueryError, WorkloadError
from hush.files.codec import IntTable, IntVector, Stored
from hush.histograms.axis_grid import AxisGrid, query_count
from hush.histograms.block_tree import LARGEST_TREE, BlockTree
from hush.histograms.grid_bias import GridBias
from hush.histograms.hat_estimates import HatEstimates
from hush.histograms.hat_query import HatQuery
from hush.privacy.gate import MarginalQuery
from hush.privacy.measurement import Measurement
from hush.privacy.noise import DiscreteGaussian, DiscreteLaplace, Noise
from hush.privacy.sensitivity import RowNorms
from hush.release.answer_columns import ErrorKind
from hush.release.record import Record
from hush.schema import Schema

if TYPE_CHECKING:
    from hush.release.release import Release

EVEN = (
    "rows are taken as evenly spread within each bucket of levels. Standard errors and intervals cover the noise only, "
    "not the error of this assumption, which matters most for single levels and short ranges."
)
MEASURED = (
    "A private measurement puts that error at {value:,.3g} ± {error:,.2g} for {what} (root mean square over all of "
    "them); for other questions it was not measured."
)
UNMEASURED = "How large that error is was not measured."
POSITIVE = (
    "counts were moved to the nearest ones without negative counts, which lowers errors on average; the errors shown "
    "are those before that step."
)
PULLED = (
    "counts were pulled towards empty and even blocks of the map where the noisy counts allow it, which makes most "
    "counts better and can make some worse; the errors shown are those before that step."
)
UNFIT = "the file's histogram does not fit its schema; get the release again"
NOTHING = (
    "the release was interrupted before its histogram was measured and answers nothing; resume it with "
    "--resume, or plan.release(table, resume=release)"
)


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


class LookFile(Stored):
    """A noisy number of rows, or a noisy bias on a grid."""

    value: int
    law: LawFile
    cuts: list[IntVector]  # of the grids; none for the number of rows


class HatTableFile(Stored):
    """Noisy counts of buckets, of hats over them, or of the blocks at a level of the tree over them."""

    hats: list[int]
    level: int | None
    law: LawFile
    values: IntTable


class HistogramFile(Stored, tag_field="kind", tag="histogram"):
    """The looks and the tables; all tables are on the same grids, or on blocks of these.

    An interrupted release may hold the grids of a partition that was chosen, and no tables yet.
    """

    clique: tuple[str, ...]
    gridded: int
    queries: Literal["cells", "prefix", "ranges"]
    looks: list[LookFile]
    cuts: list[IntVector]
    tables: list[HatTableFile]

    @classmethod
    def of(cls, record: HistogramRecord) -> Self:
        looks = []
        for look in record.looks:
            asked = look.asked
            grids = asked.grids if isinstance(asked, GridBias) else ()
            cuts = [np.array(grid.cuts) for grid in grids]
            looks.append(LookFile(value=int(look.raw), law=LawFile.of(look.law), cuts=cuts))
        return cls(
            clique=record.clique,
            gridded=record.gridded,
            queries=record.queries,
            looks=looks,
            cuts=[np.array(grid.cuts) for grid in record.grids],
            tables=[
                HatTableFile(
                    hats=list(table.asked.hats),  # type: ignore[union-attr]
                    level=record.level(table),
                    law=LawFile.of(table.law),
                    values=table.raw,
                )
                for table in record.measured
            ],
        )

    def build(self, schema: Schema) -> dict[str, Any]:
        """The arguments of the record; refused where they do not fit together."""
        domain = schema.domain
        clique = domain.check(self.clique)
        sizes = domain.sizes(clique)
        if not 1 <= self.gridded <= min(2, len(clique)) or (self.tables and not self.cuts):
            raise ArchiveError(UNFIT)
        try:
            looks = [self._look(look, clique, sizes) for look in self.looks]
            grids = self._grids(self.cuts, sizes) if self.cuts else ()
            measured = []
            for table, query in zip(self.tables, self._asked(clique, grids), strict=True):
                most = [len(grid.cuts) for grid in grids]
                fits = all(1 <= hat <= size for hat, size in zip(table.hats, most, strict=bool(table.hats)))
                if not fits or table.values.shape != query.shape(sizes):
                    raise ArchiveError(UNFIT)
                measured.append(Measurement.of(query, table.values.astype(np.int64), table.law.build()))
        except (WorkloadError, ValueError):
            raise ArchiveError(UNFIT) from None
        return {
            "domain": domain,
            "clique": clique,
            "gridded": self.gridded,
            "queries": self.queries,
            "looks": looks,
            "measured": measured,
            "chosen": grids,
        }

    def _asked(self, clique: Clique, grids: tuple[AxisGrid, ...]) -> list[HatQuery]:
        """What every table holds: counts of buckets first, then of hats, or of ever coarser blocks."""
        if not self.tables:
            return []
        tree = BlockTree(tuple(grid.buckets for grid in grids))
        first, *others = self.tables
        levels = [table.level for table in others if table.level is not None]
        falling = all(fine > coarse >= 0 for fine, coarse in itertools.pairwise([tree.depth, *levels]))
        large = bool(levels) and math.prod(tree.buckets) > LARGEST_TREE
        if first.hats or first.level is not None or len(levels) not in (0, len(others)) or not falling or large:
            raise ArchiveError(UNFIT)
        queries = [HatQuery(clique, grids)]
        for table in others:
            blocks = grids if table.level is None else tree.grids(table.level, grids)
            if (table.level is None) != bool(table.hats):
                raise ArchiveError(UNFIT)
            queries.append(HatQuery(clique, blocks, tuple(table.hats)))
        return queries

    def _look(self, look: LookFile, clique: Clique, sizes: tuple[int, ...]) -> Measurement:
        asked: MarginalQuery | GridBias = MarginalQuery(())
        if look.cuts:
            asked = GridBias(clique, self._grids(look.cuts, sizes), self.queries)
        return Measurement.of(asked, np.array(look.value, dtype=np.int64), look.law.build())

    def _grids(self, cuts: Sequence[Any], sizes: tuple[int, ...]) -> tuple[AxisGrid, ...]:
        grids = tuple(AxisGrid(each) for each in cuts)
        if tuple(grid.size for grid in grids) != sizes[: self.gridded]:
            raise ArchiveError(UNFIT)
        return grids


class HistogramRecord(Record):
    """One histogram over a clique whose leading attributes are gridded, with what was looked at before."""

    kind: ClassVar[str] = "histogram"
    stored_type: ClassVar[Any] = HistogramFile

    def __init__(
        self,
        domain: Domain,
        clique: Clique,
        gridded: int,
        queries: str,
        looks: Sequence[Measurement] = (),
        measured: Sequence[Measurement] = (),
        chosen: tuple[AxisGrid, ...] = (),
    ) -> None:
        self.domain = domain
        self.clique = clique
        self.gridded = gridded
        self.queries: Any = queries
        self.looks = list(looks)
        self.measured = list(measured)
        self.chosen = chosen  # by a private partition, before the histogram is measured

    @property
    def grids(self) -> tuple[AxisGrid, ...]:
        """The buckets of every gridded attribute; empty before they are chosen."""
        return self.measured[0].asked.grids if self.measured else self.chosen  # type: ignore[union-attr]

    def level(self, table: Measurement) -> int | None:
        """The level of a table of blocks in the tree over the buckets; None for other tables."""
        grids: tuple[AxisGrid, ...] = table.asked.grids  # type: ignore[union-attr]
        if grids is self.grids or same_grids(grids, self.grids):
            return None
        return BlockTree(tuple(g.buckets for g in self.grids)).level_of(tuple(g.buckets for g in grids))

    @property
    def bias(self) -> tuple[float, float] | None:
        """The root mean square over queries of the error of evenly spread buckets, and its standard error.

        From the last private measurement on the very grids that were used, which did not choose them if there is a
        `bias_share`; None if there is none.
        """
        for look in reversed(self.looks):
            asked = look.asked
            if isinstance(asked, GridBias) and self.measured and same_grids(asked.grids, self.grids):
                unit = asked.step / math.sqrt(query_count(asked.grids, self.queries))
                return max(float(look.raw), 0.0) * unit, look.law.stddev * unit
        return None

    @property
    def bias_words(self) -> str:
        """How large the bias of evenly spread buckets is, and for which questions that is known."""
        if self.bias is None:
            return UNMEASURED
        value, error = self.bias
        what = {"cells": "a single level", "prefix": "a prefix sum", "ranges": "a range"}[self.queries]
        return MEASURED.format(value=value, error=error, what=what)

    @property
    def _whole(self) -> bool:
        """Whether every level was counted by itself."""
        return all(grid.whole for grid in self.grids)

    @property
    def errors(self) -> ErrorKind | None:
        """Only single levels that were asked for and counted one by one have the errors of their noise and no other."""
        return None if self._whole and self.queries == "cells" else ErrorKind.NOISE

    @property
    def notes(self) -> tuple[str, ...]:
        notes = []
        if not self._whole:
            notes.append(f"{EVEN} {self.bias_words}")
        if self.queries != "cells" and self.measured:
            notes.append(PULLED if any(map(self.level, self.measured)) else POSITIVE)
        return tuple(notes)

    @property
    def tables(self) -> int:
        return len(self.measured)

    def require_tables(self) -> None:
        if not self.measured:
            raise QueryError(NOTHING)

    def measurements(self) -> list[Measurement]:
        """The counts of all cells as one table, so that a model has them as they are."""
        if not self.measured:
            return []
        deviation = max(self.measured[0].law.stddev, 1e-6)
        return [Measurement(self.clique, self._estimates.counts(self.clique), deviation)]

    def law_counts(self) -> Counter[tuple[RowNorms, Noise]]:
        return Counter((each.asked.row_norms, each.law) for each in [*self.looks, *self.measured])  # type: ignore[union-attr,misc]

    @cached_property
    def _estimates(self) -> HatEstimates:
        return HatEstimates(self.domain, self.measured, self.queries)

    def estimates(self, release: Release) -> HatEstimates:
        self.require_tables()
        return self._estimates

    def inconsistency(self, release: Release) -> str | None:
        if release.complete and not self.measured:
            return "it holds no histogram"
        asked = {name for term in release.workload.products for name in term.clique}
        return None if asked <= set(self.clique) else "its histogram lacks attributes that were asked for"


def same_grids(first: Sequence[AxisGrid], second: Sequence[AxisGrid]) -> bool:
    """Whether two histograms have the same buckets."""
    pairs = zip(first, second, strict=True)
    return len(first) == len(second) and all(np.array_equal(one.cuts, other.cuts) for one, other in pairs)
