"""Nested blocks of buckets: the buckets of one or two axes halved again and again, the longer axis first, then in turn.

`BlockTree` numbers the blocks, and `block_rounds` says which levels are measured before blocks are cut by what was
found.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np

from hush.core.arrays import Floats, Integers
from hush.core.errors import WorkloadError
from hush.histograms.axis_grid import AxisGrid

LARGEST_TREE = 1 << 17  # buckets
POSTERIOR_BYTES = 1536  # of memory that the posterior takes for each bucket
# What is measured, and with which shares of the budget. Of the levels, shares and numbers of parts that were tried on
# generated maps and lines, these erred least.
MAP_LEVEL_SHARE = Fraction(4, 7)  # of the tree's depth: the level of a map whose blocks are cut afterwards
SIGNAL_PER_BLOCK = 2.0  # the least for each block of a map to be cut
LARGE_BLOCKS_LEVEL = 3
MAP_BLOCKS_SHARE, LARGE_BLOCKS_SHARE = Fraction(3, 10), Fraction(2, 10)
MAP_PARTS = 0.7  # of a block that is cut, for every unit of noise in its count
FEWEST_BLOCKS = 8  # of a map; with fewer, blocks get no round of their own
LINE_LEVEL, LINE_SHARE = 2, Fraction(1, 2)
LINE_CUTS = (Fraction(1, 4), 0.2), (Fraction(1, 4), 0.35)  # shares, and parts for every unit of noise


@dataclass(frozen=True)
class BlockTree:
    """A binary tree over k_1 x ... x k_d buckets; every axis is taken up to a power of two, with nothing there.

    At level t the axes have been halved s_1(t), ..., s_d(t) times, together t, and a block is a run of 2^(b_a - s_a)
    buckets on every axis a of at most 2^(b_a) buckets.

    >>> tree = BlockTree((8, 3))
    >>> tree.depth, [tree.runs(level) for level in range(tree.depth + 1)]
    (5, [(8, 4), (4, 4), (2, 4), (2, 2), (1, 2), (1, 1)])
    """

    buckets: tuple[int, ...]

    @cached_property
    def bits(self) -> tuple[int, ...]:
        return tuple((count - 1).bit_length() for count in self.buckets)

    @property
    def depth(self) -> int:
        return sum(self.bits)

    @cached_property
    def _halved(self) -> tuple[int, ...]:
        """The axis that is halved from each level to the next."""
        left, order = list(self.bits), []
        for _ in range(self.depth):
            axis = max(range(len(left)), key=lambda each: (left[each], -each))
            left[axis] -= 1
            order.append(axis)
        return tuple(order)

    def runs(self, level: int) -> tuple[int, ...]:
        """How many buckets a block has on every axis."""
        halvings = [self._halved[:level].count(axis) for axis in range(len(self.bits))]
        return tuple(1 << (bits - done) for bits, done in zip(self.bits, halvings, strict=True))

    def shape(self, level: int) -> tuple[int, ...]:
        """How many blocks with buckets in them there are along every axis."""
        return tuple(-(-count // run) for count, run in zip(self.buckets, self.runs(level), strict=True))

    def grids(self, level: int, grids: Sequence[AxisGrid]) -> tuple[AxisGrid, ...]:
        """The blocks of a level as grids over the levels of the columns."""
        return tuple(grid.in_runs(run) for grid, run in zip(grids, self.runs(level), strict=True))

    def level_of(self, shape: tuple[int, ...]) -> int:
        """The level with so many blocks along every axis."""
        for level in range(self.depth + 1):
            if self.shape(level) == shape:
                return level
        raise WorkloadError(f"no level of the tree over {self.buckets} buckets has {shape} blocks")

    def places(self, level: int) -> Integers:
        """The number of every block of a level in the tree, of shape `shape(level)`: v has the halves 2 v, 2 v + 1."""
        steps = [np.arange(count, dtype=np.int64) for count in self.shape(level)]
        done = [self._halved[:level].count(axis) for axis in range(len(steps))]
        number = np.ones((1,) * len(steps), dtype=np.int64)
        for axis in self._halved[:level]:
            done[axis] -= 1
            bit = (steps[axis] >> done[axis]) & 1
            number = 2 * number + bit.reshape([-1 if other == axis else 1 for other in range(len(steps))])
        return np.broadcast_to(number, self.shape(level))

    @cached_property
    def leaves(self) -> Integers:
        """The numbers of all buckets, rising."""
        return np.sort(self.places(self.depth), axis=None)

    @cached_property
    def order(self) -> Integers:
        """The positions in the table of all buckets, by their numbers: blocks are runs of buckets in this order."""
        return np.argsort(self.places(self.depth), axis=None)

    def areas(self, grids: Sequence[AxisGrid]) -> Floats:
        """How many cells of the table every block has, by its number in the tree."""
        cells = np.ones(())
        for grid in grids:
            cells = np.multiply.outer(cells, grid.lengths.astype(float))
        out = np.zeros(2 << self.depth)
        out[self.places(self.depth)] = cells
        for level in range(self.depth - 1, -1, -1):
            first, end = 1 << level, 2 << level
            out[first:end] = out[2 * first : 2 * end].reshape(-1, 2).sum(axis=1)
        return out


class BlockRounds(NamedTuple):
    """Levels of a tree that are measured at first, with their shares of the budget; then cuts of the blocks before.

    Every cut has its share, and the parts of a block for every unit of noise of its count.
    """

    levels: dict[int, Fraction]
    cuts: tuple[tuple[Fraction, float], ...]


def block_rounds(tree: BlockTree, signal: float = math.inf) -> BlockRounds:
    """What is measured of a line, in three rounds, or of a map, in two.

    With s the signal, the number of rows over the noise of a count, a map has at most s / 2 blocks to be cut. Small
    maps have fewer levels, down to none: then the buckets are measured with all of the budget.
    """
    if len(tree.buckets) == 1:
        return BlockRounds({min(LINE_LEVEL, tree.depth): LINE_SHARE}, LINE_CUTS)
    level = round(MAP_LEVEL_SHARE * tree.depth)
    if signal < SIGNAL_PER_BLOCK * 2**level:
        level = max(math.floor(math.log2(max(signal / SIGNAL_PER_BLOCK, 1.0))), min(level, LARGE_BLOCKS_LEVEL))
    levels = {level: MAP_BLOCKS_SHARE, LARGE_BLOCKS_LEVEL: LARGE_BLOCKS_SHARE}
    levels = {each: share for each, share in levels.items() if each <= level and 2**each >= FEWEST_BLOCKS}
    return BlockRounds(levels, ((1 - sum(levels.values(), Fraction(0)), MAP_PARTS),))
