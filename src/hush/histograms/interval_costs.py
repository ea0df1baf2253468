"""Costs of intervals and scores of tree nodes, in whole numbers, for private partitions of cells in a row.

The deviation of an interval is the sum of its cells' distances from their median or their mean: the error of taking the
interval as flat. About the median it is D = min over m of sum |x_j - m|, a whole number. A row moves one |x_j - m| by
one for every m, so that D moves by at most one, up or down; and D of an interval is at most D of any that holds it, for
its m of the larger one is as good. About the mean a row moves it by at most 2 (1 - 1/l) in an interval of l cells.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal

import numpy as np

from hush.core.arrays import Integers
from hush.core.domain import Clique
from hush.core.errors import DomainError
from hush.histograms.space_filling import hilbert_order
from hush.privacy.gate import Counts
from hush.privacy.partition_laws import PartitionCosts, TreeScores, interval_count, node_sizes
from hush.privacy.sensitivity import RowNorms

Centre = Literal["median", "mean"]
Curve = Literal["rows", "hilbert"]
LARGEST_GRID = 64


def cell_order(shape: tuple[int, ...], curve: Curve = "rows") -> Integers:
    """The cells of a table in line, as flat indices: row by row, or along a Hilbert curve over its two axes."""
    if curve == "rows":
        return np.arange(math.prod(shape))
    if len(shape) != 2:
        raise DomainError(f"a Hilbert curve over a table of {len(shape)} axes: expected two")
    return hilbert_order(*shape)


def cells_in_line(table: Integers, curve: Curve = "rows") -> Integers:
    """The counts of a table in the order of `cell_order`."""
    return table.ravel()[cell_order(table.shape, curve)]


def powers_of_two(cells: int) -> tuple[int, ...]:
    """The lengths 1, 2, 4, ... up to the number of cells."""
    return tuple(1 << k for k in range(cells.bit_length()))


def deviations(cells: Integers, lengths: tuple[int, ...], centre: Centre = "median", grid: int = 1) -> Integers:
    """floor(grid D) of all intervals of these lengths, as [length, start]; private. O(n log n) for each length."""
    from hush.histograms._interval_kernels import sliding_deviations

    cells = np.ascontiguousarray(cells, dtype=np.int64)
    order = np.argsort(cells, kind="stable")
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(cells))
    costs = np.zeros((len(lengths), len(cells)), dtype=np.int64)
    for k, length in enumerate(lengths):
        window = costs[k, : len(cells) - length + 1]
        sliding_deviations(cells, ranks, cells[order], length, centre == "mean", grid, window)
    return costs


@dataclass(frozen=True)
class IntervalDeviations:
    """Cost of an interval: its deviation in steps of 1 / grid, rounded down, and `bucket_cost` steps.

    Candidates are all intervals of the given lengths, by default the powers of two: then O(n log^2 n).

    Privacy: a row moves grid D by at most grid about the median, and by 2 grid (1 - 1/l) about the mean; rounding down
    makes that the next whole number. An interval of one cell always costs the same.

    >>> IntervalDeviations(("x",), 4, centre="mean").own
    (0, 1, 2)
    """

    clique: Clique
    cells: int
    lengths: tuple[int, ...] = ()
    centre: Centre = "median"
    grid: int = 1
    bucket_cost: int = 0
    curve: Curve = "rows"

    def __post_init__(self) -> None:
        object.__setattr__(self, "lengths", self.lengths or powers_of_two(self.cells))
        if not 1 <= self.grid <= LARGEST_GRID:
            raise DomainError(f"grid={self.grid}: expected 1 to {LARGEST_GRID} steps to a row")
        if self.centre not in ("median", "mean"):
            raise DomainError(f"centre={self.centre!r}: expected 'median' or 'mean'")

    @property
    def cliques(self) -> tuple[Clique, ...]:
        return (self.clique,)

    @property
    def candidates(self) -> int:
        return interval_count(self.cells, self.lengths)

    @property
    def own(self) -> tuple[int, ...]:
        """How far a row moves the cost of an interval of each length."""
        if self.centre == "median":
            return tuple(self.grid if length > 1 else 0 for length in self.lengths)
        return tuple(-(-2 * self.grid * (length - 1) // length) for length in self.lengths)

    @property
    def row_norms(self) -> RowNorms:
        return RowNorms.of_number(self._row, 2 * self._row)

    @property
    def _row(self) -> int:
        return max(1, *self.own)

    def scores(self, counts: Counts, bound: Fraction) -> PartitionCosts:
        cells = cells_in_line(counts[self.clique], self.curve)
        costs = deviations(cells, self.lengths, self.centre, self.grid) + self.bucket_cost
        return PartitionCosts(self.lengths, costs, self._row, int(bound / self._row), self.own)


@dataclass(frozen=True)
class NodeScores:
    """Scores of the nodes of a tree over cells in a row: their count of rows, or the deviation about their median.

    Privacy: a row moves a count by one, and a deviation by at most one. O(n log^2 n).
    """

    clique: Clique
    cells: int
    score: Literal["count", "deviation"] = "deviation"
    fanout: int = 2
    curve: Curve = "rows"

    row_norms: ClassVar[RowNorms] = RowNorms.of_number(1, 2)

    def __post_init__(self) -> None:
        if self.score not in ("count", "deviation"):
            raise DomainError(f"score={self.score!r}: expected 'count' or 'deviation'")

    @property
    def cliques(self) -> tuple[Clique, ...]:
        return (self.clique,)

    @property
    def candidates(self) -> int:
        return sum(-(-self.cells // size) for size in node_sizes(self.cells, self.fanout))

    def scores(self, counts: Counts, bound: Fraction) -> TreeScores:
        cells = cells_in_line(counts[self.clique], self.curve)
        levels = tuple(self._level(cells, size) for size in node_sizes(self.cells, self.fanout))
        return TreeScores(levels, self.cells, self.fanout, int(bound))

    def _level(self, cells: Integers, size: int) -> Integers:
        if self.score == "count":
            return np.add.reduceat(cells, np.arange(0, len(cells), size))
        whole = len(cells) // size
        level = _block_deviations(cells[: whole * size].reshape(whole, size))
        rest = cells[whole * size :]
        return np.concatenate([level, _block_deviations(rest[None, :])]) if len(rest) else level


def _block_deviations(blocks: Integers) -> Integers:
    """The sum of distances from the median, of every row: the upper half less the lower half."""
    ordered, half = np.sort(blocks, axis=1), blocks.shape[1] // 2
    return np.asarray(ordered[:, blocks.shape[1] - half :].sum(axis=1) - ordered[:, :half].sum(axis=1))
