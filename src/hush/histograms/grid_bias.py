"""GridBias: how far answers are off, before any noise, if the rows of each bucket are taken as evenly spread."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from hush.core.arrays import Floats, Integers
from hush.core.domain import Clique
from hush.histograms.axis_grid import AxisGrid, added
from hush.privacy.gate import Counts, DeclaredStatistic
from hush.privacy.sensitivity import Neighbours, RowNorms, Sensitivity, sensitivity

STEPS_PER_ROW = 1 << 20  # a row moves the statistic by at most this many steps, and a few of rounding
ROUNDING_STEPS = 8
LARGEST_BIAS = 1 << 38  # steps; larger statistics are cut off


@dataclass(frozen=True, eq=False)
class GridBias(DeclaredStatistic):
    """|W (x - x_B)|_2, in steps, with x_B the counts x of each bucket spread evenly over it.

    W are all prefix sums (of two axes: rectangles that start at the first levels), all ranges (of two axes:
    rectangles), or single cells. Every level of other attributes has its own histogram; the squares of all add up.

    Privacy: x - x_B is linear in x. A row adds one cell j, so by the triangle inequality the norm moves by at most
    |W (e_j - e_j,B)|; `moved` is the largest of these over all cells. With s the prefix sums of a level and r those of
    its bucket spread evenly, the square is prod <s, s> - 2 prod <s, r> + prod <r, r> over the axes; for ranges
    <p, q> = (n + 1) p.q - sum p sum q, the sum over all ranges, and p.q for prefix sums. The statistic is in steps of
    moved / 2^20 and cut off at 2^38, which never increases a move. Residuals are computed in whole numbers up to their
    last division. Prefix sums are zero before the first level, so centring them for ranges leaves at least a quarter of
    the largest square, and the relative error of the norm stays below 2^-37; with rounding down, a row moves the whole
    number by at most 2^20 + 8. A unit of m rows is m such steps.
    """

    clique: Clique
    grids: tuple[AxisGrid, ...]
    queries: str = "prefix"
    # an exchanged row is one removed and one added
    row_norms: ClassVar[RowNorms] = RowNorms.of_number(
        STEPS_PER_ROW + ROUNDING_STEPS, 2 * (STEPS_PER_ROW + ROUNDING_STEPS)
    )

    @property
    def cliques(self) -> tuple[Clique, ...]:
        return (self.clique,)

    @property
    def largest_factor(self) -> int:
        """Residuals are whole numbers up to this many times the rows; and counts must be exact as floats."""
        return int(max(2 ** (1 + len(self.grids)) * math.prod(int(grid.lengths.max()) for grid in self.grids), 1 << 9))

    def sensitivity(self, *, max_rows: int, neighbours: Neighbours) -> Sensitivity:
        return sensitivity(self.row_norms, max_rows=max_rows, neighbours=neighbours)

    @cached_property
    def moved(self) -> float:
        """The most that one row moves the norm."""
        if self.queries == "cells":
            shares = [1 / grid.lengths.max() for grid in self.grids]
            return max(math.sqrt(max(1 - math.prod(shares), 0.0)), 1e-9)
        steps, crossed, ramps = zip(*(_norms(grid, self.queries) for grid in self.grids), strict=True)
        squares = _outer(steps) - 2 * _outer(crossed) + _outer(ramps)
        return max(math.sqrt(max(float(squares.max()), 0.0)) * (1 + 1e-9), 1e-9)

    @property
    def step(self) -> float:
        """What a step is in units of the norm."""
        return self.moved / STEPS_PER_ROW

    def answer(self, counts: Counts) -> Integers:
        table = counts[self.clique]
        # The lengths of the buckets of every cell, by which residuals are divided last.
        lengths = np.ones((), dtype=np.int64)
        for axis, grid in enumerate(self.grids):
            own = np.repeat(grid.lengths, grid.lengths)
            lengths = lengths * own.reshape([-1 if other == axis else 1 for other in range(table.ndim)])
        # W (x - x_B): of single cells, or of prefix sums.
        sums = table
        if self.queries == "cells":
            evenly: Integers = added(table, self.grids)
            for axis, grid in enumerate(self.grids):
                evenly = np.repeat(evenly, grid.lengths, axis=axis)
        else:
            for axis in range(len(self.grids)):
                sums = np.cumsum(sums, axis=axis)
            evenly = sums
            for axis, grid in enumerate(self.grids):
                evenly = _between_cuts(evenly, grid, axis)
        residuals: Floats = (lengths * sums - evenly) / lengths
        # Ranges are differences of prefix sums.
        if self.queries == "ranges":
            for axis, grid in enumerate(self.grids):
                mean = residuals.sum(axis=axis, keepdims=True) / (grid.size + 1)
                before = np.zeros_like(mean)
                residuals = np.concatenate([before, residuals], axis=axis) - mean
                residuals *= math.sqrt(grid.size + 1)
        norm = math.sqrt(float(np.square(residuals).sum()))
        return np.array(min(math.floor(norm / self.step), LARGEST_BIAS), dtype=np.int64)


def _between_cuts(sums: Integers, grid: AxisGrid, axis: int) -> Integers:
    """Prefix sums between the ends of buckets, in a straight line, times the length of the bucket."""
    moved = np.moveaxis(sums, axis, 0)
    ends = moved[grid.cuts[1:] - 1]
    starts = np.concatenate([np.zeros_like(ends[:1]), ends[:-1]])
    bucket = np.repeat(np.arange(grid.buckets), grid.lengths)
    inside = (np.arange(grid.size) + 1 - grid.cuts[bucket]).reshape(-1, *[1] * (moved.ndim - 1))
    left = grid.lengths[bucket].reshape(inside.shape) - inside
    return np.moveaxis(left * starts[bucket] + inside * ends[bucket], 0, axis)


def _norms(grid: AxisGrid, queries: str) -> tuple[Floats, Floats, Floats]:
    """For a row at each level: <s, s>, <s, r> and <r, r> over the queries of the axis."""
    n, m = grid.size, np.repeat(grid.lengths, grid.lengths).astype(float)
    start = np.repeat(grid.cuts[:-1], grid.lengths).astype(float)
    t = np.arange(n) - start  # levels of the bucket before this one
    after = n - start - m
    step = n - np.arange(n, dtype=float)
    cross = after + (m * (m + 1) - t * (t + 1)) / (2 * m)
    ramp = after + (m + 1) * (2 * m + 1) / (6 * m)
    if queries == "ranges":
        total = after + (m + 1) / 2
        return (n + 1) * step - step**2, (n + 1) * cross - step * total, (n + 1) * ramp - total**2
    return step, cross, ramp


def _outer(vectors: tuple[Floats, ...]) -> Floats:
    product = np.ones(())
    for vector in vectors:
        product = np.multiply.outer(product, vector)
    return product
