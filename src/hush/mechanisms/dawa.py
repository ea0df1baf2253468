"""dawa: one histogram over one or two ordered columns, in buckets chosen privately."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np

from hush.core.arrays import Floats
from hush.core.domain import Clique
from hush.core.errors import BudgetError, SizeError, WorkloadError
from hush.core.memory import require_memory
from hush.core.validation import check_choice, check_flag, check_number
from hush.histograms.axis_grid import AxisForm, AxisGrid, levels_below, query_count
from hush.histograms.block_cut import BlockCut, CutQuery, refined_cut
from hush.histograms.block_fit import BlockFit, BlockTable
from hush.histograms.block_posterior import posterior_counts
from hush.histograms.block_tree import LARGEST_TREE, POSTERIOR_BYTES, BlockTree, block_rounds
from hush.histograms.bucket_trees import (
    AllRanges,
    BucketTreeQuery,
    CellWorkload,
    LinearQueries,
    PrefixSums,
    SingleCells,
    greedy_tree,
)
from hush.histograms.grid_bias import GridBias
from hush.histograms.hats import HatDesign, HatQuery, design_hats
from hush.histograms.interval_costs import IntervalDeviations, NodeScores, cell_order
from hush.linops import AllRange, Identity, LinearOperator, Prefix, Total
from hush.mechanisms.mechanism import Mechanism
from hush.mechanisms.plan import Plan
from hush.mechanisms.session import Session
from hush.privacy.budget import Budget
from hush.privacy.gate import MarginalQuery
from hush.privacy.measurement import Measurement
from hush.privacy.partition_laws import NoisyPartition, PartitionMechanism, SplittingTree
from hush.privacy.sensitivity import ONE_CELL, Sensitivity, sensitivity
from hush.release.histogram_record import LARGEST_CELLS, BucketTreeRecord, HistogramRecord, curve_over, same_grids
from hush.schema import Boolean, Categorical, Schema
from hush.strategies.strategy import NoiseKind
from hush.workloads import Workload

# Probing. The signal is the number of rows over the noise that one count would have with all of the budget. The values
# are the best of a few tried on generated histograms of many shapes; none depends on a table.
ROWS_PROBE_SHARES = Fraction(1, 100), Fraction(4, 100)  # of the first probe of the number of rows, and of a second one
FEW_ROWS = 6.0  # standard errors: a smaller noisy number of rows is probed again
INITIAL_BUCKETS_PER_SIGNAL = 2.5  # of the first grid of one column
BLOCK_BUCKETS_PER_SIGNAL = 16.0  # the smallest blocks of a map, or of a line of few rows
SIGNAL_FOR_SINGLE_LEVELS = 5.0  # per cell: from here on every level is counted by itself
PROBE_NOISE_RATIO = 0.7  # the noise of a probe of the bias, over what coarser buckets could gain
LARGEST_PROBE_SHARE = Fraction(15, 100)
LEAST_ROUND = Fraction(1, 100)  # of the budget: if interruptions left less, there are no more rounds
LARGEST_LINE_SIGNAL, SHORTEST_LINE = 512.0, 64  # lines with more rows, or fewer levels, are measured with hats
COARSENING_FACTORS = {1: 8, 2: 2}  # by dimension: how many times fewer buckets an axis has from one probe to the next

# Partitions chosen privately, for comparison.
INTERVAL_BYTES = {"noisy-costs": 32, "exponential": 240}  # of a candidate for a bucket
# The extra cost of a bucket, in scales of its noise. Without it, the search would collect buckets with negative noise.
NOISY_COST_OFFSET = Fraction(2)
PRIOR_RATES = (Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4))  # of buckets; the private choice takes one
LARGEST_BUCKET_COST = 1 << 30  # keeps sums of costs within 64 bits
PAPER_COST_STEPS = 4  # per row: deviations from a mean are rounded to quarters of a row
LARGEST_QUERY_MATRIX = 1 << 24  # numbers up to which the greedy tree takes the workload's own queries


class Axes(NamedTuple):
    """What a workload asks of which columns: gridded ones first, then those with a histogram for each level."""

    clique: Clique
    gridded: int
    queries: str


class Grids(NamedTuple):
    """Grids of a given fineness, and what is measured on them, with its predicted error in units of noise."""

    pieces: int
    grids: tuple[AxisGrid, ...]
    design: HatDesign


Asked = tuple[tuple[AxisGrid, ...], list[tuple[HatQuery, Fraction]]]  # buckets, and queries with their shares


@lru_cache(maxsize=256)
def _gridded(sizes: tuple[int, ...], pieces: int, queries: str, noise: NoiseKind) -> Grids:
    grids = tuple(AxisGrid.with_fine_ends(size, pieces) for size in sizes)
    return Grids(pieces, grids, design_hats(grids, queries, noise))


def axes_of(workload: Workload) -> Axes:
    """The columns of a workload in the order of its histogram; refused if more than two of them need an order."""
    asked: dict[str, list[LinearOperator]] = {}
    for term in workload.products:
        for name, block in zip(term.clique, term.blocks, strict=True):
            asked.setdefault(name, []).append(block)
    if not asked:
        raise WorkloadError(f"{DAWA.name} makes a histogram of a column, and the workload asks for the total alone")
    domain = workload.domain
    ordered = [name for name in domain if any(not isinstance(b, Identity | Total) for b in asked.get(name, ()))]
    queries = "cells"
    if ordered:
        blocks = [block for name in ordered for block in asked[name]]
        queries = "prefix" if all(isinstance(b, Identity | Total | Prefix) for b in blocks) else "ranges"
    else:
        ordered = [max(asked, key=lambda name: domain[name])]
    if len(ordered) > 2:
        raise WorkloadError(
            f"{DAWA.name} takes ranges over one or two columns, and the workload has them over {', '.join(ordered)}; "
            "use mechanism='hdmm', or ask for the levels of some of them"
        )
    others = [name for name in domain if name in asked and name not in ordered]
    return Axes((*ordered, *others), len(ordered), queries)


def cell_queries(workload: Workload, axes: Axes) -> CellWorkload:
    """The queries of a workload on cells in line, for the greedy tree.

    Where the matrix of the queries is too large, ranges along the line take their place.
    """
    asked = {type(block) for term in workload.products for block in term.blocks}
    known: dict[type[LinearOperator], CellWorkload] = {
        Identity: SingleCells(),
        Prefix: PrefixSums(),
        AllRange: AllRanges(),
    }
    if len(axes.clique) == 1 and len(asked) == 1 and asked <= known.keys():
        return known[asked.pop()]
    cells = workload.domain.size(axes.clique)
    listed = all(term.listed for term in workload.products)
    if not listed or cells * sum(term.queries for term in workload.products) > LARGEST_QUERY_MATRIX:
        return AllRanges()
    matrices = []
    for term in workload.products:
        blocks = dict(zip(term.clique, term.blocks, strict=True))
        matrix: Floats = np.full((1, 1), math.sqrt(term.weight))  # squared errors count by weight
        for name in axes.clique:
            block = blocks[name].dense() if name in blocks else np.ones((1, workload.domain[name]))
            matrix = np.asarray(np.kron(matrix, block), dtype=np.float64)
        matrices.append(matrix)
    order = cell_order(workload.domain.sizes(axes.clique), curve_over(axes.clique))
    return LinearQueries(np.concatenate(matrices)[:, order])


@dataclass(frozen=True, kw_only=True)
class DAWA(Mechanism):
    """Probes the number of rows, then the bias of ever coarser grids, and measures the coarsest that pays off.

    The probes cost a few percent of the budget: the number of rows; then, for a grid B, the norm |W (x - x_B)| of the
    error that evenly spread buckets would have, a statistic that one row hardly moves. Probing ends when a coarser grid
    would add more bias than it saves noise. With many rows there is no probing: every level is counted by itself. On
    the chosen grid, counts of buckets and sums weighted by overlapping hats are measured, combined by least squares,
    and projected onto non-negative counts in the norm of the queries.

    Maps, of two columns, are mostly empty, and so are lines of few rows. The number of rows is probed, then blocks of
    equal size are measured, and with the rest of the budget parts of the blocks in which rows were found. The posterior
    of all counts tells which blocks are empty or even.

    `bias_share` reserves a share of the budget to measure the bias of the chosen grid. `partition` finds the buckets of
    one column in another way, under pure epsilon, with `partition_share` of the budget; these are for comparison:
    "noisy-costs" takes the published least-cost partition; "exponential" draws among all partitions; "tree" splits
    while a noisy deviation is large.

    `paper=True` is the published method, for pure epsilon and one or two columns: the partition of least noisy cost,
    with `partition_share` of the budget, then noisy sums of a tree over its buckets. A greedy search fits the budget of
    every node of the tree to the workload. Two columns are laid out as one, along a Hilbert curve.

    Privacy: the budget, by the account's filter: every probe and every table is charged by its own noise. What is
    probed next depends on noisy numbers alone.
    Reference: [Li 2013, chapter 6] for the two stages and the cost of a bucket; p-Identity [HDMM, sec. 3.2.2].
    Differs from [Li 2013, Program 6.3.1]: the printed search favours buckets whose noise happens to be negative, and
    the code published with it gains by clamping noisy costs, which is not private. Grids here are public, and a probe
    of each is an ordinary noisy number. With `paper`, costs are noisy as printed and not clamped; differs from
    [Li 2013, Sec. 6.6]: for maps with too many queries to list, the tree is fitted to ranges along the curve.

    >>> import hush
    >>> workload = hush.Workload.product(hush.Domain({"income": 4096}), {"income": hush.queries.prefix})
    >>> hush.plan(workload, hush.Budget(epsilon=0.1), mechanism="dawa")
    Plan(dawa, 1 tables, epsilon=0.1)
    """

    name: ClassVar[str] = "dawa"
    description: ClassVar[str] = "a histogram of one or two ordered columns, in buckets chosen privately"
    workload_aware: ClassVar[bool] = True
    data_aware: ClassVar[bool] = True
    budget_aware: ClassVar[bool] = True
    noise_words: ClassVar[str] = "Laplace for pure epsilon, else Gaussian"
    errors_known: ClassVar[str] = "the noise of every answer; an estimate of the bias"
    reference: ClassVar[str] = "Li 2013, chapter 6"
    states: ClassVar[str] = "every answer of the release states the noise that it has"
    told_by_columns: ClassVar[bool] = False

    bias_share: float = 0.0
    partition: str = "grids"
    partition_share: float = 0.25
    paper: bool = False

    def __post_init__(self) -> None:
        check_choice(WorkloadError, "partition", self.partition, ("grids", "noisy-costs", "exponential", "tree"))
        check_number(BudgetError, "partition_share", self.partition_share, above=0, below=0.9)
        check_number(BudgetError, "bias_share", self.bias_share, least=0, below=0.5)
        check_flag(WorkloadError, "paper", self.paper)
        if self.paper and (self.partition != "grids" or self.bias_share):
            raise WorkloadError("paper=True is DAWA as published; leave partition and bias_share out")

    def new_record(self, plan: Plan) -> BucketTreeRecord | HistogramRecord:
        axes = axes_of(plan.workload)
        if self.paper:
            return BucketTreeRecord(plan.domain, axes.clique, axes.queries)
        return HistogramRecord(plan.domain, *axes)

    def accounted(self, budget: Budget) -> Budget:
        return budget

    def check(self, workload: Workload, budget: Budget) -> None:
        """Refuse more than two ordered columns, histograms that are too large, and partitions of what is no line."""
        axes = axes_of(workload)
        if self.paper and not (budget.pure and len(axes.clique) <= 2):
            raise WorkloadError(
                f"paper=True is for one or two columns and pure epsilon; leave it out for {' x '.join(axes.clique)} "
                f"and {budget}"
            )
        if self.partition != "grids" and not (budget.pure and len(axes.clique) == 1):
            raise WorkloadError(
                f"partition={self.partition!r} is for one column and pure epsilon; use partition='grids' for "
                f"{' x '.join(axes.clique)} and {budget}"
            )
        if self.bias_share and axes.gridded == 2 and axes.queries != "cells":
            raise WorkloadError(
                f"bias_share={self.bias_share} is for one ordered column, and the workload has ranges over "
                f"{' and '.join(axes.clique[:2])}; leave bias_share out"
            )
        cells = workload.domain.size(axes.clique)
        if cells > LARGEST_CELLS:
            raise SizeError(
                f"a histogram over {', '.join(axes.clique)} has {cells:,} cells, more than {LARGEST_CELLS:,}; "
                "use wider bins, or ask for fewer columns"
            )
        what = f"a histogram of {cells:,} cells"
        require_memory(self._bytes(axes, cells), what, "use wider bins, or ask for fewer columns")

    def check_table(self, plan: Plan, schema: Schema) -> None:
        """Refuse ranges over columns without an order."""
        super().check_table(plan, schema)
        axes = axes_of(plan.workload)
        for name in axes.clique[: axes.gridded]:
            if isinstance(schema[name], Categorical | Boolean) and axes.queries != "cells":
                raise WorkloadError(
                    f"the workload asks for ranges of {name!r}, whose levels have no order; ask for its levels, or "
                    "make it an integer, a number or a date in the schema"
                )

    def columns(self, workload: Workload) -> list[str]:
        return list(axes_of(workload).clique)

    def memory(self, plan: Plan, schema: Schema) -> int:
        """A histogram of all cells, with its grids, sums and estimates."""
        axes = axes_of(plan.workload)
        return self._bytes(axes, plan.domain.size(axes.clique))

    def _bytes(self, axes: Axes, cells: int) -> int:
        most = LARGEST_TREE if axes.gridded == 2 else 2 * round(BLOCK_BUCKETS_PER_SIGNAL * LARGEST_LINE_SIGNAL)
        posterior = 0 if axes.queries == "cells" else POSTERIOR_BYTES * min(cells, most)
        intervals = cells * cells.bit_length()  # of all lengths that are powers of two
        interval_bytes = INTERVAL_BYTES.get("noisy-costs" if self.paper else self.partition, 0)
        return 8 * 12 * cells + posterior + interval_bytes * intervals

    def counted(self, plan: Plan, schema: Schema) -> Sequence[Clique]:
        return [axes_of(plan.workload).clique]

    def describe(self, plan: Plan) -> list[tuple[str, str]]:
        axes, noise = axes_of(plan.workload), noise_of(plan.budget)
        sizes = plan.domain.sizes(axes.clique[: axes.gridded])
        bound = sensitivity(ONE_CELL, max_rows=plan.max_rows_per_unit, neighbours=plan.neighbours)
        unit = unit_noise(plan.budget.limit, noise, bound)
        words = {"cells": "levels", "prefix": "prefix sums", "ranges": "ranges"}[axes.queries]
        names = " x ".join(axes.clique[: axes.gridded])
        error, cells = finest_error(axes, sizes, noise) * unit, math.prod(sizes)
        figure = f"RMSE {error:,.3g} over all {words} if every level is counted by itself with all of the budget"
        if self.partition != "grids" or self.paper:
            way = "noisy costs, as published" if self.paper else self.partition
            chosen = f"chosen by {way}, with {self.partition_share:.0%} of the budget"
            return [("Noise", figure), ("Buckets", chosen), ("Measures", f"buckets of {names}, and sums of them")]
        if axes.gridded == 2 and axes.queries != "cells":
            probes = "the number of rows, with 1 % to 5 % of the budget"
            measures = f"blocks of {names}, then parts of the blocks that have rows"
            buckets = f"down to single levels from about {cells * unit / BLOCK_BUCKETS_PER_SIGNAL:,.0f} rows on"
        else:
            probes = "the number of rows, then the bias of coarser and coarser buckets while these could pay off"
            measures = f"buckets of {names}, and overlapping sums of them"
            enough = SIGNAL_FOR_SINGLE_LEVELS * cells * unit
            buckets = f"coarser ones pay off below about {enough:,.0f} rows, most for smooth or empty data"
            if self.cuts_lines(axes, sizes):
                buckets += f"; below about {LARGEST_LINE_SIGNAL * unit:,.0f}, only blocks with rows are cut"
        return [("Noise", figure), ("Probes", probes), ("Measures", measures), ("Buckets", buckets)]

    def cuts_lines(self, axes: Axes, sizes: tuple[int, ...]) -> bool:
        """Whether a line of few rows is measured in blocks that are cut where rows are found."""
        return axes.gridded == 1 and axes.queries != "cells" and sizes[0] >= SHORTEST_LINE and not self.bias_share

    def work(self, workload: Workload) -> str:
        cells = workload.domain.size(axes_of(workload).clique)
        return f"a histogram of {cells:,} cells; about {max(0.2, 2e-5 * cells):,.1f} s, plus counting"

    def run(self, session: Session, plan: Plan) -> None:
        run_as_published(self, session, plan) if self.paper else DawaRun(self, session, plan).run()


def noise_of(budget: Budget) -> NoiseKind:
    """Laplace noise for pure epsilon, Gaussian noise for any other budget."""
    return NoiseKind.LAPLACE if budget.pure else NoiseKind.GAUSSIAN


def unit_noise(limit: Fraction, noise: NoiseKind, bound: Sensitivity) -> float:
    """The noise of a count at all of a budget, as the scale of Laplace noise of the same variance."""
    if noise is NoiseKind.LAPLACE:
        return float(bound.l1 / limit)
    return math.sqrt(float(bound.l2_squared / (4 * limit)))


def finest_error(axes: Axes, sizes: tuple[int, ...], noise: NoiseKind) -> float:
    """The RMSE of all queries where every level is counted by itself, at all of a budget whose unit noise is one."""
    whole = _gridded(sizes, max(sizes), axes.queries, noise)
    total = whole.design.error**2
    tree = BlockTree(sizes)
    if axes.gridded == 2 and axes.queries != "cells" and math.prod(sizes) <= LARGEST_TREE:
        levels, ((rest, _),) = block_rounds(tree)
        shares = {**levels, tree.depth: rest}
        power, tables = 2 if noise is NoiseKind.LAPLACE else 1, []
        for level, share in shares.items():
            cut = BlockCut.at_level(tree, level)
            tables.append(BlockTable(cut, np.zeros((len(cut.nodes), 1)), 2 / float(share) ** power))
        total = BlockFit(whole.grids, tables).noise([AxisForm(grid, axes.queries) for grid in whole.grids])
    return math.sqrt(total / query_count(whole.grids, axes.queries))


def run_as_published(settings: DAWA, session: Session, plan: Plan) -> None:
    """A partition of least noisy cost, then a greedy tree over its buckets; goes on where an interrupted run ended."""
    axes = axes_of(plan.workload)
    record = session.record
    assert isinstance(record, BucketTreeRecord)  # noqa: S101 - as `new_record` made it
    if record.measured:
        return
    # Stage one: a bucket costs its deviation from its mean, plus the noise 1 / epsilon_2 of its count.
    if not record.cuts.size:
        share = Fraction(settings.partition_share).limit_denominator(10**6)
        epsilon = min(share * session.limit, session.remaining / 2)
        deviations = IntervalDeviations(
            axes.clique,
            plan.domain.size(axes.clique),
            centre="mean",
            grid=PAPER_COST_STEPS,
            bucket_cost=min(math.floor(PAPER_COST_STEPS / (session.remaining - epsilon)), LARGEST_BUCKET_COST),
            curve=record.curve,
        )
        cuts = session.gate.select(deviations, NoisyPartition(epsilon), note=f"{DAWA.name}: a partition by noisy costs")
        record.cuts = np.array(cuts)
        session.tell(None)
    # Stage two: the rest of the budget for the nodes of a tree over the buckets.
    tree = greedy_tree(record.cuts, cell_queries(plan.workload, axes))
    asked = [(BucketTreeQuery(axes.clique, tree, record.curve), session.remaining / session.limit)]
    record.measured.extend(session.ask(asked, note=f"{DAWA.name}: a tree over {tree.buckets:,} buckets"))
    session.tell(None)


class DawaRun:
    """One run: what was probed, and how much of the budget is left."""

    def __init__(self, settings: DAWA, session: Session, plan: Plan) -> None:
        self.settings, self.session = settings, session
        self.axes = axes_of(plan.workload)
        self.sizes = plan.domain.sizes(self.axes.clique[: self.axes.gridded])
        self.noise = noise_of(plan.budget)
        self.aside = Fraction(settings.bias_share).limit_denominator(10**6)
        self.left = 1 - self.aside  # share of the budget that is not asked for so far, recorded answers included
        self.unit = unit_noise(session.limit, self.noise, session.bound)
        record = session.record
        assert isinstance(record, HistogramRecord)  # noqa: S101 - as `new_record` made it
        self.record = record
        self.paid_probes = list(record.probes)  # of an interrupted run: they are not asked again

    @property
    def unspent(self) -> Fraction:
        """The share of the budget that is left by the account."""
        return self.session.remaining / self.session.limit

    def run(self) -> None:
        if self.record.measured and not self.record.in_blocks:
            return
        # Choose what to measure: buckets and hats over them, or the nested blocks of a map.
        if self.settings.partition != "grids":
            grids, asked = self._with_hats(self._partitioned())
        else:
            signal = self._signal()
            if self._in_blocks(signal):
                return
            grids, asked = self._with_hats(self._chosen(signal))
        # Measure the bias that the buckets will have, if a share of the budget is reserved for it.
        if self.aside and not all(grid.whole for grid in grids):
            self.left += self.aside
            self._probe(GridBias(self.axes.clique, grids, self.axes.queries), self.aside)
        # Spend the rest on the tables; an interruption keeps those measured so far.
        buckets = " x ".join(str(grid.buckets) for grid in grids)
        self._measure([(query, self.unspent * share) for query, share in asked], f"{buckets} buckets")

    def _measure(self, asked: Sequence[tuple[HatQuery | CutQuery, Fraction]], what: str) -> None:
        """Put noisy tables on record, each at its share of the budget; an interruption keeps those measured so far."""
        for table in self.session.ask(asked, note=f"{DAWA.name}: {what}"):
            self.record.measured.append(table)
        self.session.tell(None)

    def _with_hats(self, chosen: Grids) -> Asked:
        """Counts of buckets and of hats over them."""
        queries = [HatQuery(self.axes.clique, chosen.grids, hats) for hats in ((), *chosen.design.levels)]
        return chosen.grids, list(zip(queries, chosen.design.shares, strict=True))

    def _in_blocks(self, signal: float) -> bool:
        """Measure a map, or a line of few rows, in blocks, then in parts of the blocks that have rows.

        False if hats are better. An interruption loses tables that were charged but not measured.
        """
        line = self.settings.cuts_lines(self.axes, self.sizes) and signal <= LARGEST_LINE_SIGNAL
        if not line and (self.axes.gridded == 1 or self.axes.queries == "cells"):
            return False
        pieces = 1 << math.ceil(math.log2(max(BLOCK_BUCKETS_PER_SIGNAL * signal, 16.0)) / self.axes.gridded)
        grids = tuple(AxisGrid.with_fine_ends(size, min(pieces, size)) for size in self.sizes)
        tree = BlockTree(tuple(grid.buckets for grid in grids))
        if math.prod(tree.buckets) > LARGEST_TREE:
            return False
        # First round: blocks of the same size.
        self.record.chosen, (levels, cuts) = grids, block_rounds(tree, signal)
        if not self.record.measured and levels:
            asked = [(HatQuery(self.axes.clique, tree.grids(level, grids)), part) for level, part in levels.items()]
            whole, total = self.unspent, sum(levels.values(), Fraction(0)) + sum(part for part, _ in cuts)
            blocks = " and ".join(f"{math.prod(tree.shape(level)):,}" for level in levels)
            self._measure([(query, whole * part / total) for query, part in asked], f"{blocks} blocks")
        # Later rounds: blocks with rows are cut as finely as the budget of the round can tell their parts apart.
        for number in range(len(self.record.cuts), len(cuts)):
            part, parts_per_noise = cuts[number]
            share = self.unspent * part / sum(later for later, _ in cuts[number:])
            cut = BlockCut.at_level(tree, tree.depth)
            if self.record.measured:
                if share < LEAST_ROUND:
                    break
                fit = BlockFit.of(self.record.measured, grids)
                scale = self.unit / float(share) ** (1 if self.noise is NoiseKind.LAPLACE else 0.5)
                cut = refined_cut(fit.cut, posterior_counts(fit).max(axis=1), scale, parts_per_noise)
            self._measure([(CutQuery(self.axes.clique, grids, cut), share)], f"{len(cut.nodes):,} blocks")
        return True

    def _partitioned(self) -> Grids:
        """Buckets from a private choice among partitions of the column, and what to measure on them."""
        if not self.record.chosen:
            partition, limit, gate = self.settings.partition, self.session.limit, self.session.gate
            planned = Fraction(self.settings.partition_share).limit_denominator(10**6)
            share = min(planned, self.left / 2, self.unspent / 2)
            epsilon, (cells,) = share * limit, self.sizes
            note = f"{DAWA.name}: a partition by {partition}"
            if partition == "tree":
                cuts = gate.select(NodeScores(self.axes.clique, cells), SplittingTree(epsilon), note=note)
            else:
                cost = min(math.ceil(1 / ((self.left - share) * limit)), LARGEST_BUCKET_COST)
                deviations = IntervalDeviations(self.axes.clique, cells, bucket_cost=cost)
                prior = tuple((Fraction(1, len(PRIOR_RATES)), rate) for rate in PRIOR_RATES)
                noisy = NoisyPartition(epsilon, NOISY_COST_OFFSET)
                law = PartitionMechanism(epsilon, prior) if partition == "exponential" else noisy
                cuts = gate.select(deviations, law, note=note)
            self.record.chosen = (AxisGrid(np.array(cuts)),)
            self.session.tell(None)
        grids = self.record.chosen
        return Grids(grids[0].buckets, grids, design_hats(grids, self.axes.queries, self.noise))

    def _signal(self) -> float:
        """The signal: a noisy number of rows over the noise of a count; probed twice if it is small."""
        first = self._probe(MarginalQuery(()), ROWS_PROBE_SHARES[0])
        total, weight = float(first.raw), first.law.stddev**-2
        if total < FEW_ROWS * first.law.stddev:
            second = self._probe(MarginalQuery(()), ROWS_PROBE_SHARES[1])
            other = second.law.stddev**-2
            total = (total * weight + float(second.raw) * other) / (weight + other)
        return max(total, 0.0) / self.unit

    def _probe(self, asked: MarginalQuery | GridBias, share: Fraction) -> Measurement:
        """A noisy number, from the record of an interrupted run if that has it; only a new one costs.

        `left` counts the share of every probe, recorded or new. So a resumed run decides by the same numbers, in the
        same order, as one that was not interrupted. The account may hold less than `left`, if an interruption lost what
        was charged: then a new number takes at most half of what the account holds.
        """
        self.left -= share
        while self.paid_probes:
            probe = self.paid_probes.pop(0)
            if same_grids(getattr(probe.asked, "grids", ()), getattr(asked, "grids", ())):
                return probe
        share = min(share, self.unspent / 2)
        what = "the number of rows"
        if isinstance(asked, GridBias):
            what = f"{' x '.join(str(grid.buckets) for grid in asked.grids)} buckets"
        (probe,) = self.session.ask([(asked, share)], note=f"{DAWA.name}: a probe of {what}")
        self.record.probes.append(probe)
        self.session.tell(None)
        return probe

    def _chosen(self, signal: float) -> Grids:
        """The coarsest grids whose probed bias is below the noise that they save."""
        d, cells = self.axes.gridded, math.prod(self.sizes)
        first_pieces = max(INITIAL_BUCKETS_PER_SIGNAL * signal, 16.0) ** (1 / d)
        finest = min(1 << math.ceil(math.log2(first_pieces)), max(self.sizes))
        best = _gridded(self.sizes, finest, self.axes.queries, self.noise)
        if signal > SIGNAL_FOR_SINGLE_LEVELS * cells:
            return best
        for pieces in levels_below(best.pieces, COARSENING_FACTORS[d]):
            coarser = _gridded(self.sizes, pieces, self.axes.queries, self.noise)
            gain = best.design.error - coarser.design.error
            if gain <= 0:
                break
            # Probe the bias, if noise well below the possible gain does not cost too much.
            statistic = GridBias(self.axes.clique, coarser.grids, self.axes.queries)
            ratio = statistic.moved / (PROBE_NOISE_RATIO * gain)
            needed = ratio if self.noise is NoiseKind.LAPLACE else ratio**2
            if needed > LARGEST_PROBE_SHARE:
                break
            share = max(Fraction(needed).limit_denominator(10**6), Fraction(1, 10**4))
            if share >= self.left:
                break
            probe = self._probe(statistic, share)
            # Take the coarser grid if its bias and noise together are below the noise of the finer one.
            bias = max(float(probe.raw), 0.0) * statistic.step
            noise = self.unit / float(self.left) ** (1 if self.noise is NoiseKind.LAPLACE else 0.5)
            if math.hypot(bias, coarser.design.error * noise) > best.design.error * noise:
                break
            best = coarser
        return best
