"""Least squares from the counts of nested blocks, with the covariances of all sums, in time linear in the buckets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hush.core.arrays import Floats, Integers
from hush.histograms.hat_query import HatQuery
from hush.privacy.measurement import Measurement


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
