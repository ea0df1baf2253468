"""Nested blocks of buckets: the buckets of one or two axes halved again and again, the longer axis first, then in turn.

`BlockTree` numbers the blocks, `design_blocks` chooses the levels to measure, and `BlockFit` combines their counts by
least squares, with the covariances of all sums, in time linear in the buckets.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from hush.core.arrays import Floats, Integers
from hush.core.errors import WorkloadError
from hush.histograms.axis_grid import AxisGrid
from hush.histograms.hats import SHARE_UNITS, HatQuery
from hush.privacy.measurement import Measurement
from hush.strategies.strategy import NoiseKind

LARGEST_TREE = 1 << 17  # buckets
POSTERIOR_BYTES = 1536  # of memory that the posterior takes for each bucket
# The levels that are measured, as the share of all halvings that they undo, with weights proportional to 1 / noise.
MEASURED_LEVELS = {Fraction(0): 0.45, Fraction(3, 7): 0.3, Fraction(5, 7): 0.25}
FEWEST_BLOCKS = 8  # in a level that is measured


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


class BlockFit:
    """x minimises sum_t p_t |B_t x - y_t|^2, with B_0 = I the buckets and B_t ever coarser blocks, p_t = 1 / variance.

    One level at a time, from fine to coarse: with C the covariance so far, which joins no two blocks of level t, and
    u_t = C 1, adding level t changes C by -sum over blocks B of g_B (u_t on B)(u_t on B)^T, where
    g_B = p_t / (1 + p_t sum over B of u_t), and u_(t+1) = u_t / (1 + p_t sum over B of u_t). So
    C = I / p_0 - sum over t and B of g_B (u_t on B)(u_t on B)^T.
    """

    def __init__(self, measured: Sequence[Measurement]) -> None:
        """Tables of counts on nested grids, the finest first; trailing axes are levels of other attributes."""
        queries: list[HatQuery] = [table.asked for table in measured]  # type: ignore[misc]
        self.grids = queries[0].grids
        self.variance = max(measured[0].law.stddev ** 2, 1e-12)
        # the first bucket of every block along the axes, for each level
        self._runs = [
            tuple(np.searchsorted(g.cuts, other.cuts[:-1]) for g, other in zip(self.grids, query.grids, strict=True))
            for query in queries[1:]
        ]
        self._gains: list[Floats] = []  # g_B of every level, over blocks
        self._units: list[Floats] = []  # u_t of every level, over the buckets
        unit = np.full([grid.buckets for grid in self.grids], self.variance)
        z = measured[0].raw / self.variance
        for table, runs in zip(measured[1:], self._runs, strict=True):
            p = 1 / max(table.law.stddev**2, 1e-12)
            whole = _added(unit, runs)
            self._gains.append(p / (1 + p * whole))
            self._units.append(unit)
            unit = unit / _spread(1 + p * whole, runs, unit.shape)
            z = z + p * _spread(np.asarray(table.raw, dtype=np.float64), runs, unit.shape)
        self.buckets: Floats = z * self.variance
        for gains, units, runs in zip(self._gains, self._units, self._runs, strict=True):
            own = _trailing(units, z)
            part = _added(own * z, runs)
            self.buckets = self.buckets - _spread(_trailing(gains, part) * part, runs, unit.shape) * own

    @property
    def rows(self) -> int:
        """How many numbers the covariance of one sum takes."""
        return 1 + (math.prod(len(starts) for starts in self._runs[0]) if self._runs else 0)

    def products(self, first: list[Floats], second: list[Floats]) -> Floats:
        """Covariances of sums whose coefficients are products over the axes; every combination of rows."""
        total: Floats = np.ones(())
        for f, s in zip(first, second, strict=True):
            total = np.multiply.outer(total, np.einsum("qk,qk->q", f, s))
        total = total * self.variance
        same = all(f is s for f, s in zip(first, second, strict=True))
        left = self._on_blocks(first)
        right = left if same else self._on_blocks(second)
        for gains, f, s in zip(self._gains, left, right, strict=True):
            total = total - np.einsum("qb,qb,b->q", f, s, gains.ravel(), optimize=True).reshape(total.shape)
        return np.asarray(total)

    def _on_blocks(self, rows: list[Floats]) -> list[Floats]:
        """The sums of u_t times the coefficients on every block of every level, (combinations, blocks).

        u_t is one number on every block of the level below.
        """
        out: list[Floats] = []
        below = self._runs[0] if self._runs else ()  # u_1 is one number: blocks of the first level do
        for units, runs in zip(self._units, self._runs, strict=True):
            d, joined = len(runs), np.ones(())
            for row, starts in zip(rows, below, strict=True):
                joined = np.multiply.outer(joined, np.add.reduceat(row, starts, axis=1))
            joined = joined.transpose([*range(0, 2 * d, 2), *range(1, 2 * d, 2)]) * units[np.ix_(*below)]
            for axis, (own, starts) in enumerate(zip(below, runs, strict=True)):
                joined = np.add.reduceat(joined, np.searchsorted(own, starts), axis=d + axis)
            out.append(joined.reshape(math.prod(joined.shape[:d]), -1))
            below = runs
        return out

    def sums(self, first: Floats, second: Floats) -> Floats:
        """Covariances of sums with coefficients over buckets: `first[..., q]` are those of sum q."""
        flat = (-1, first.shape[-1])
        total = np.einsum("kq,kq->q", first.reshape(flat), second.reshape(flat)) * self.variance
        for gains, units, runs in zip(self._gains, self._units, self._runs, strict=True):
            f, s = (_added(_trailing(units, side) * side, runs) for side in (first, second))
            total = total - np.einsum("kq,kq->q", (_trailing(gains, f) * f).reshape(flat), s.reshape(flat))
        return np.asarray(total)

    def bucket_variances(self) -> Floats:
        """The variance of the count of every bucket."""
        out = np.full([grid.buckets for grid in self.grids], self.variance)
        for gains, units, runs in zip(self._gains, self._units, self._runs, strict=True):
            out -= _spread(gains, runs, out.shape) * units**2
        return out


def _added(table: Any, runs: tuple[Integers, ...]) -> Floats:
    """Sums over the buckets of every block."""
    for axis, starts in enumerate(runs):
        table = np.add.reduceat(table, starts, axis=axis)
    return np.asarray(table, dtype=np.float64)


def _spread(table: Floats, runs: tuple[Integers, ...], shape: tuple[int, ...]) -> Floats:
    """Every bucket takes the number of its block."""
    for axis, starts in enumerate(runs):
        table = np.repeat(table, np.diff(np.append(starts, shape[axis])), axis=axis)
    return table


def _trailing(table: Floats, like: Floats) -> Floats:
    return table.reshape(*table.shape, *[1] * (like.ndim - table.ndim))
