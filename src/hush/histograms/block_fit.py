"""BlockFit: counts of nested blocks combined by least squares, with the covariances of all sums of buckets."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from hush.core.arrays import Floats, Integers
from hush.histograms.axis_grid import AxisForm, AxisGrid
from hush.histograms.block_cut import BlockCut, CutQuery
from hush.histograms.block_tree import BlockTree
from hush.histograms.hats import HatQuery
from hush.privacy.measurement import Measurement

SMALLEST_VARIANCE = 1e-12


@dataclass(frozen=True, eq=False)
class BlockTable:
    """Noisy counts of the blocks of a cut, (blocks, levels of other attributes), and the variance of their noise."""

    cut: BlockCut
    values: Floats
    variance: float

    @classmethod
    def of(cls, table: Measurement, tree: BlockTree) -> Self:
        """The table of a measured cut, or of all blocks of a level of the tree over the buckets."""
        asked: HatQuery | CutQuery = table.asked  # type: ignore[assignment]
        variance = max(table.law.stddev**2, SMALLEST_VARIANCE)
        if isinstance(asked, CutQuery):
            return cls(asked.cut, table.raw.reshape(len(asked.cut.nodes), -1).astype(np.float64), variance)
        level = tree.level_of(tuple(grid.buckets for grid in asked.grids))
        places = tree.places(level).ravel()
        values = table.raw.reshape(len(places), -1).astype(np.float64)
        return cls(BlockCut.at_level(tree, level), values[np.argsort(places)], variance)


class BlockFit:
    """x minimises sum_t p_t |B_t x - y_t|^2, B_0 = I the smallest blocks, B_t ever larger ones, p_t = 1 / variance.

    One table at a time, from fine to coarse: with C the covariance so far, which joins no two blocks of table t, and
    u_t = C 1, adding table t changes C by -sum over blocks B of g_B (u_t on B)(u_t on B)^T, where
    g_B = p_t / (1 + p_t sum over B of u_t), and u_(t+1) = u_t / (1 + p_t sum over B of u_t). So
    C = I / p_0 - sum over t and B of g_B (u_t on B)(u_t on B)^T.

    Buckets are kept in the order of the tree, in which every block is a run. The rows of one of the smallest blocks are
    spread evenly over its cells.
    """

    def __init__(self, grids: Sequence[AxisGrid], tables: Sequence[BlockTable]) -> None:
        self.grids = tuple(grids)
        self.tables = sorted(tables, key=lambda table: -len(table.cut.nodes))
        finest = self.tables[0]
        self.tree, self.cut = finest.cut.tree, finest.cut
        self.variance = finest.variance
        # Cells of every bucket, the share of its block that they are, and the corners of every block.
        shape, order, starts = self.tree.buckets, self.tree.order, self.cut.starts
        cells = np.ones(())
        for grid in self.grids:
            cells = np.multiply.outer(cells, grid.lengths.astype(float))
        cells = cells.ravel()[order]
        self._ends = np.append(starts, len(order))
        self._share = cells / np.repeat(np.add.reduceat(cells, starts), np.diff(self._ends))
        self._low = np.array(np.unravel_index(order[starts], shape))
        self._high = np.array(np.unravel_index(order[self._ends[1:] - 1], shape)) + 1
        # Least squares, one table at a time; `_runs` has the first of the smallest blocks of every larger block.
        self._runs = [np.searchsorted(starts, table.cut.starts) for table in self.tables[1:]]
        self._gains: list[Floats] = []  # g_B of every table, over blocks
        self._units: list[Floats] = []  # u_t of every table, over the smallest blocks
        unit, z = np.full(len(starts), self.variance), finest.values / self.variance
        for table, runs in zip(self.tables[1:], self._runs, strict=True):
            p = 1 / table.variance
            whole = np.add.reduceat(unit, runs)
            self._gains.append(p / (1 + p * whole))
            self._units.append(unit)
            unit = unit / _spread(1 + p * whole, runs, len(starts))
            z = z + p * _spread(table.values, runs, len(starts))
        self.blocks = z * self.variance
        for gains, units, runs in zip(self._gains, self._units, self._runs, strict=True):
            part = np.add.reduceat(units[:, None] * z, runs)
            self.blocks = self.blocks - _spread(gains[:, None] * part, runs, len(starts)) * units[:, None]

    @classmethod
    def of(cls, measured: Sequence[Measurement], grids: Sequence[AxisGrid]) -> Self:
        """The fit of measured tables over the buckets of these grids; trailing axes are levels of other attributes."""
        tree = BlockTree(tuple(grid.buckets for grid in grids))
        fit = cls(grids, [BlockTable.of(table, tree) for table in measured])
        first = measured[0]
        fit._others = first.raw.shape[1 if isinstance(first.asked, CutQuery) else len(fit.grids) :]
        return fit

    _others: tuple[int, ...] = ()

    def over_buckets(self, blocks: Floats) -> Floats:
        """Counts of the smallest blocks, (blocks, levels of other attributes), spread over the buckets of the table."""
        spread = np.empty((len(self.tree.order), blocks.shape[1]))
        spread[self.tree.order] = np.repeat(blocks, np.diff(self._ends), axis=0) * self._share[:, None]
        return spread.reshape(*self.tree.buckets, *self._others)

    @property
    def buckets(self) -> Floats:
        """The counts of all buckets."""
        return self.over_buckets(self.blocks)

    @property
    def rows(self) -> int:
        """How many numbers the covariance of one sum takes."""
        return 1 + (len(self._runs[0]) if self._runs else 0)

    def products(self, first: list[Floats], second: list[Floats]) -> Floats:
        """Covariances of sums whose coefficients are products over the axes; every combination of rows.

        The coefficient of a block is the product over the axes of the means of a row over its sides.
        """
        shape = tuple(len(row) for row in first)
        total = np.zeros((shape[0], math.prod(shape[1:])))
        # One block of the largest table at a time, with all smaller blocks in it.
        outer = self._runs[-1] if self._runs else np.array([0])
        for start, end in itertools.pairwise(np.append(outer, len(self.cut.nodes))):
            f, s = (self._means(rows, start, end) for rows in (first, second))
            total += self.variance * ((f[0] * s[0]) @ (f[1] * s[1]).T)
            for gains, units, runs in zip(self._gains, self._units, self._runs, strict=True):
                for block, low, high in _within(runs, start, end, len(self.cut.nodes)):
                    own = slice(low - start, high - start)
                    left = (f[0][:, own] * units[low:high]) @ f[1][:, own].T
                    right = left if first is second else (s[0][:, own] * units[low:high]) @ s[1][:, own].T
                    total -= gains[block] * left * right
        return total.reshape(shape)

    def _means(self, rows: list[Floats], start: int, end: int) -> tuple[Floats, Floats]:
        """The means of the rows of the first axis, and of the others, over the sides of some of the smallest blocks."""
        means = []
        for axis, (row, grid) in enumerate(zip(rows, self.grids, strict=True)):
            low, high = self._low[axis, start:end], self._high[axis, start:end]
            sums = np.concatenate([np.zeros((len(row), 1)), np.cumsum(row * grid.lengths, axis=1)], axis=1)
            means.append((sums[:, high] - sums[:, low]) / (grid.cuts[high] - grid.cuts[low]))
        return means[0], means[1] if len(means) > 1 else np.ones((1, end - start))

    def sums(self, first: Floats, second: Floats) -> Floats:
        """Covariances of sums with coefficients over buckets: `first[..., q]` are those of sum q."""
        sides = []
        for side in (first, second):
            flat = side.reshape(len(self.tree.order), -1)[self.tree.order]
            sides.append(np.add.reduceat(flat * self._share[:, None], self.cut.starts))
        total = (sides[0] * sides[1]) * self.variance
        out = total.sum(axis=0)
        for gains, units, runs in zip(self._gains, self._units, self._runs, strict=True):
            f, s = (np.add.reduceat(units[:, None] * side, runs) for side in sides)
            out = out - (gains[:, None] * f * s).sum(axis=0)
        return np.asarray(out.reshape(-1, first.shape[-1]).sum(axis=0))

    def block_variances(self) -> Floats:
        """The variance of the count of every one of the smallest blocks."""
        out = np.full(len(self.cut.nodes), self.variance)
        for gains, units, runs in zip(self._gains, self._units, self._runs, strict=True):
            out -= _spread(gains, runs, len(out)) * units**2
        return out

    def bucket_variances(self) -> Floats:
        """The variance of the count of every bucket."""
        out = np.empty(len(self.tree.order))
        out[self.tree.order] = np.repeat(self.block_variances(), np.diff(self._ends)) * self._share**2
        return out.reshape(self.tree.buckets)

    def noise(self, forms: Sequence[AxisForm]) -> float:
        """The expected form |W (x - truth)|^2 of the noise: tr of the form times C."""
        # |W on evenly spread blocks|^2: products over the axes of a number for each interval of buckets.
        squares = np.ones(len(self.cut.nodes))
        for low, high, form, grid in zip(self._low, self._high, forms, self.grids, strict=True):
            sides, place = np.unique(np.stack([low, high]), axis=1, return_inverse=True)
            known = []
            for a, b in sides.T:
                share = grid.lengths[a:b] / grid.lengths[a:b].sum()
                known.append(float(share @ form.part(a, b) @ share))
            squares *= np.array(known)[place.ravel()]
        total = self.variance * float(squares.sum())
        # The same of u_t on every larger block.
        order, shape = self.tree.order, self.tree.buckets
        for gains, units, runs in zip(self._gains, self._units, self._runs, strict=True):
            spread = np.empty(len(order))
            spread[order] = np.repeat(units, np.diff(self._ends)) * self._share
            table = spread.reshape(shape)
            ends = np.append(runs[1:], len(self.cut.nodes)) - 1
            for gain, first, last in zip(gains, runs, ends, strict=True):
                box = list(zip(self._low[:, first], self._high[:, last], strict=True))
                part = table[tuple(slice(a, b) for a, b in box)]
                weighted = part
                for axis, ((a, b), form) in enumerate(zip(box, forms, strict=True)):
                    weighted = np.moveaxis(np.tensordot(form.part(a, b), weighted, axes=(1, axis)), 0, axis)
                total -= gain * float((part * weighted).sum())
        return total


def _spread(table: Floats, runs: Integers, size: int) -> Floats:
    """Each of the smallest blocks takes the number of its larger block."""
    return np.repeat(table, np.diff(np.append(runs, size)), axis=0)


def _within(runs: Integers, start: int, end: int, size: int) -> Iterator[tuple[int, int, int]]:
    """The blocks of a table that lie among some of the smallest blocks, each with the smallest blocks that it has."""
    ends = np.append(runs[1:], size)
    for block in range(int(np.searchsorted(runs, start)), int(np.searchsorted(runs, end))):
        yield block, int(runs[block]), int(ends[block])
