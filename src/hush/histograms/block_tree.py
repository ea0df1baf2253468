"""BlockTree: the buckets of one or two axes halved again and again, the longer axis first and then in turn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from hush.core.arrays import Floats, Integers
from hush.core.errors import WorkloadError
from hush.histograms.axis_grid import AxisGrid
from hush.strategies.strategy import NoiseKind

LARGEST_TREE = 1 << 17  # buckets
POSTERIOR_BYTES = 1536  # of memory that the posterior takes for each bucket
# The levels that are measured, as the share of all halvings that they undo, with weights proportional to 1 / noise.
MEASURED_LEVELS = {Fraction(0): 0.45, Fraction(3, 7): 0.3, Fraction(5, 7): 0.25}
FEWEST_BLOCKS = 8  # in a level that is measured
SHARE_UNITS = 1 << 16  # shares are whole multiples of this fraction of the budget


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


@dataclass(frozen=True)
class BlockDesign:
    """The levels of a tree that are measured, the buckets first, with their shares of a budget."""

    levels: tuple[int, ...]
    shares: tuple[Fraction, ...]


def design_blocks(tree: BlockTree, noise: NoiseKind) -> BlockDesign:
    """The buckets, and blocks of k^(3/7) and k^(5/7) of k buckets, if there are several of these.

    The noise of a block has the scale 1 / weight: budgets are shared by the weights for Laplace noise, by their squares
    for Gaussian noise. Rectangles of all sizes are asked for, so no level gets much more than another; there are few
    levels, since each takes its share from all.
    """
    above = {round(part * tree.depth): weight for part, weight in MEASURED_LEVELS.items()}
    weights = {
        tree.depth - halvings: weight
        for halvings, weight in above.items()
        if halvings == 0 or math.prod(tree.shape(tree.depth - halvings)) >= FEWEST_BLOCKS
    }
    power = 1 if noise is NoiseKind.LAPLACE else 2
    whole = math.fsum(weight**power for weight in weights.values())
    shares = [Fraction(round(SHARE_UNITS * weight**power / whole), SHARE_UNITS) for weight in weights.values()]
    return BlockDesign(tuple(weights), (1 - sum(shares[1:], Fraction(0)), *shares[1:]))
