"""Scan plan: which tables to count from the rows (scans), and which to sum from those.

A clique within another costs a sum over the larger one's cells instead of a pass over the rows. Cliques are also merged
into larger scans that nobody asked for, if one pass plus the sums is predicted to be faster than the passes they
replace.

An engine has several ways to count the scans:

    separate   a GROUP BY for each scan
    sets       one GROUP BY of all scans by GROUPING SETS
    unpivot    one GROUP BY over a line for each scan of each row
    stream     no GROUP BY: coded columns are sent to the kernels

The prediction affects speed only: every way gives the same counts. It is

    statements * start + rows * (passes * (read + coding + cap) + per_scan + sent) + cells * per_cell

nanoseconds, with the scans that `plan_scans` merges at the way's own costs; `per_scan` adds up theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from hush.core.arrays import Integers
from hush.tables import _kernels


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Predicted nanoseconds of a way to count, measured by `benchmarks.counting`; they affect speed only.

    A scan costs `per_row`, plus `per_miss` for each doubling of its cells beyond `near`; `per_cell` is paid for each
    cell of a scan and again for each table summed from it.
    """

    per_row: float
    per_miss: float
    near: float  # cells
    per_cell: float
    largest: int  # cells of a merged scan


KERNEL_COSTS = Costs(per_row=0.5, per_miss=0.08, near=4096, per_cell=0.7, largest=2**17)
GROUPING_SETS_COSTS = Costs(per_row=20.0, per_miss=4.0, near=512, per_cell=60.0, largest=2**12)
SCANS_COMPARED = 512  # the latest scans, into which a clique may be merged
SPARE_CELLS = 2**20  # all merged scans may have so many cells more than twice those of the cliques


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanPlan:
    """Scans sorted by their attributes, and for each clique the scan from which it is summed.

    Cliques and scans are rows of attribute positions in increasing order, padded with -1.
    """

    sizes: Integers  # (attributes,)
    cliques: Integers  # (wanted, longest)
    lengths: Integers  # (wanted,)
    cells: Integers  # (wanted,)
    scans: Integers  # (scans, longest)
    scan_lengths: Integers  # (scans,)
    scan_cells: Integers  # (scans,)
    shared: Integers  # (scans,) leading attributes shared with the scan before, without that scan's last one
    chosen: Integers  # (wanted,) scan of each clique

    @property
    def offsets(self) -> Integers:
        """Where the cells of each clique start when all lie one after the other."""
        return np.cumsum(self.cells) - self.cells

    @property
    def scan_offsets(self) -> Integers:
        """Where the cells of each scan start when all lie one after the other."""
        return np.cumsum(self.scan_cells) - self.scan_cells

    @property
    def clique_arrays(self) -> tuple[Integers, Integers, Integers, Integers]:
        """The cliques as the kernels take them."""
        return self.cliques, self.lengths, self.cells, self.offsets

    @property
    def scan_arrays(self) -> tuple[Integers, Integers, Integers, Integers]:
        """The scans as the kernels take them."""
        return self.scans, self.scan_lengths, self.scan_cells, self.scan_offsets


def plan_scans(
    sizes: Sequence[int], cliques: Sequence[Sequence[int]], *, rows: float, costs: Costs = KERNEL_COSTS
) -> ScanPlan:
    """Plan the scans of distinct cliques, given as increasing positions, for a table of about `rows` rows."""
    # The cliques as rows of positions, largest first, merged into scans by predicted time.
    extents = np.array(sizes, dtype=np.int64)
    lengths = np.array([len(clique) for clique in cliques], dtype=np.int64)
    longest = max(1, int(lengths.max(initial=0)))
    padded = np.full((len(cliques), longest), -1, dtype=np.int64)
    for length in np.unique(lengths):
        same = [clique for clique in cliques if len(clique) == length]
        padded[lengths == length, :length] = np.array(same, dtype=np.int64).reshape(len(same), length)
    cells = np.where(padded >= 0, extents[padded], 1).prod(axis=1)
    order = np.lexsort((-lengths, -cells))
    member, scan_of = _kernels.merge(
        padded[order],
        lengths[order],
        cells[order].astype(np.float64),
        extents,
        float(rows),
        SCANS_COMPARED,
        float(costs.largest),
        float(SPARE_CELLS + cells.sum()),
        (costs.per_row, costs.per_miss, costs.near, costs.per_cell),
    )
    # Sort the scans so that those with the same leading attributes follow each other.
    scan_lengths = member.sum(axis=1)
    scan, attribute = np.nonzero(member)
    position = np.arange(len(scan)) - np.repeat(np.cumsum(scan_lengths) - scan_lengths, scan_lengths)
    scans = np.full((len(member), max(1, int(scan_lengths.max(initial=0)))), -1, dtype=np.int64)
    scans[scan, position] = attribute
    sorted_scans = np.lexsort(scans.T[::-1])
    rank = np.empty(len(scans), dtype=np.int64)
    rank[sorted_scans] = np.arange(len(scans))
    scans, scan_lengths = scans[sorted_scans], scan_lengths[sorted_scans]
    chosen = np.empty(len(cliques), dtype=np.int64)
    chosen[order] = rank[scan_of]
    # How many attributes a scan shares with the one before; the kernel keeps no prefix with a scan's last attribute.
    equal = (scans[1:] == scans[:-1]) & (scans[1:] >= 0)
    shared = np.zeros(len(scans), dtype=np.int64)
    shared[1:] = np.minimum(np.logical_and.accumulate(equal, axis=1).sum(axis=1), np.maximum(scan_lengths[:-1] - 1, 0))
    return ScanPlan(
        sizes=extents,
        cliques=padded,
        lengths=lengths,
        cells=cells,
        scans=scans,
        scan_lengths=scan_lengths,
        scan_cells=np.where(scans >= 0, extents[scans], 1).prod(axis=1),
        shared=shared,
        chosen=chosen,
    )


class Way(StrEnum):
    """How an engine's rows are counted."""

    SEPARATE = "separate"
    SETS = "sets"
    UNPIVOT = "unpivot"
    STREAM = "stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineCosts:
    """Predicted nanoseconds of one engine, measured by `benchmarks.engine_costs`; they affect speed only."""

    start: float  # a statement, until its first row
    read: float  # reading a row
    text: float  # coding a text
    value: float  # coding another value
    cap: float  # sorting a row, if units have ids
    ship: float  # sending a coded value
    send: float = 0.0  # sending a row
    scans: Mapping[Way, Costs]  # the ways that the engine has

    def predicted(
        self, way: Way, plan: ScanPlan, *, rows: float, coding: Sequence[float], capped: bool, passes: int = 1
    ) -> float:
        """Nanoseconds of a way; `coding` gives the cost of coding a value of each column."""
        costs, scans = self.scans[way], len(plan.scans)
        fixed = self.read + (self.cap + sum(coding) if capped else 0.0)
        if way is Way.SEPARATE:
            used = plan.scans[plan.scans >= 0].tolist()
            passed = scans * fixed + (0.0 if capped else sum(coding[column] for column in used))
            statements = scans
        else:
            passed = passes * (fixed + (0.0 if capped else sum(coding)))
            statements = passes
        sent = self.send + len(coding) * self.ship if way is Way.STREAM else 0.0
        missed = costs.per_miss * float(np.log2(np.maximum(plan.scan_cells / costs.near, 1.0)).sum())
        cells = float(plan.scan_cells.clip(max=int(max(rows, 1))).sum()) * costs.per_cell
        return statements * self.start + rows * (passed + scans * costs.per_row + missed + sent) + cells


EMBEDDED_COSTS = EngineCosts(
    start=2e7,
    read=1.0,
    text=25.0,
    value=12.0,
    cap=150.0,
    ship=1.0,
    scans={
        Way.SEPARATE: replace(GROUPING_SETS_COSTS, per_row=30.0),
        Way.SETS: GROUPING_SETS_COSTS,
        Way.UNPIVOT: replace(GROUPING_SETS_COSTS, per_row=35.0),
        Way.STREAM: KERNEL_COSTS,
    },
)
