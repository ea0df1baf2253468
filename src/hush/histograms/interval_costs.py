"""Costs of intervals and scores of tree nodes, in whole numbers, for private partitions of cells in a row.

The deviation of an interval is the sum of its cells' distances from their median or their mean: the error of taking the
interval as flat. About the median it is D = min over m of sum |x_j - m|, a whole number. A row moves one |x_j - m| by
one for every m, so D moves by at most one, up or down. D of an interval is at most D of any interval that contains it,
since the m of the larger one is allowed in the smaller one too. About the mean, a row moves D by at most 2 (1 - 1/l) in
an interval of l cells. A table of two axes becomes a row of cells along a Hilbert curve.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np

from hush.core.arrays import Integers
from hush.core.domain import Clique
from hush.core.errors import DomainError
from hush.privacy.gate import Counts
from hush.privacy.partition_laws import PartitionCosts, TreeScores, interval_count, node_sizes
from hush.privacy.sensitivity import RowNorms

Centre = Literal["median", "mean"]
Curve = Literal["rows", "hilbert"]
LARGEST_GRID = 64


@lru_cache(maxsize=8)
def hilbert_order(rows: int, columns: int) -> Integers:
    """Flat indices of the cells of a grid along a Hilbert curve over the least square of side 2^k that holds it.

    In such a square every run of 4^j cells that starts at a multiple of 4^j is a square too. Consecutive cells of the
    square share a side; a smaller grid leaves out what is outside of it. O(cells of the square).

    Reference: [Li 2013, Sec. 6.6]; the bitwise construction of [Warren 2013, Sec. 16].

    >>> hilbert_order(2, 2).tolist()
    [0, 1, 3, 2]
    """
    if rows < 1 or columns < 1:
        raise DomainError(f"a grid of {rows} x {columns} cells: expected at least one each way")
    bits = (max(rows, columns) - 1).bit_length()
    steps = np.arange(4**bits, dtype=np.int64)
    x, y = np.zeros_like(steps), np.zeros_like(steps)
    for k in range(bits):
        right = (steps >> 1) & 1
        up = (steps & 1) ^ right
        size = 1 << k
        flipped = (up == 0) & (right == 1)
        x, y = np.where(flipped, size - 1 - x, x), np.where(flipped, size - 1 - y, y)
        x, y = np.where(up == 0, y, x), np.where(up == 0, x, y)
        x, y = x + size * right, y + size * up
        steps >>= 2
    inside = (x < rows) & (y < columns)
    order = x[inside] * columns + y[inside]
    order.setflags(write=False)
    return order


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
        most = max(1, *self.own)
        return RowNorms.of_number(most, 2 * most)

    def scores(self, counts: Counts, bound: Fraction) -> PartitionCosts:
        cells = cells_in_line(counts[self.clique], self.curve)
        costs = deviations(cells, self.lengths, self.centre, self.grid) + self.bucket_cost
        most = max(1, *self.own)
        return PartitionCosts(self.lengths, costs, most, int(bound / most), self.own)


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
        levels = []
        for size in node_sizes(self.cells, self.fanout):
            if self.score == "count":
                levels.append(np.add.reduceat(cells, np.arange(0, len(cells), size)))
                continue
            # The sum of distances from the median is that of the upper half minus that of the lower half; the last
            # node may have fewer cells.
            whole, parts = len(cells) // size, []
            for blocks in (cells[: whole * size].reshape(whole, size), cells[None, whole * size :]):
                ordered, half = np.sort(blocks, axis=1), blocks.shape[1] // 2
                parts.append(ordered[:, blocks.shape[1] - half :].sum(axis=1) - ordered[:, :half].sum(axis=1))
            levels.append(np.concatenate(parts if len(cells) % size else parts[:1]))
        return TreeScores(tuple(levels), self.cells, self.fanout, int(bound))
