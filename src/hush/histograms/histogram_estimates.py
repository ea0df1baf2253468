"""Counts and their noise from a measured histogram: by hats, by nested blocks, or by a tree; implements `Estimates`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from hush.core.arrays import Floats, Integers, apply_each, summed
from hush.core.domain import Clique, Domain
from hush.core.errors import SizeError, WorkloadError
from hush.histograms.axis_grid import AxisForm, AxisGrid, added, spread
from hush.histograms.block_cut import CutQuery
from hush.histograms.block_fit import BlockFit
from hush.histograms.block_posterior import settled_blocks
from hush.histograms.bucket_trees import BucketTreeQuery, TreeFit
from hush.histograms.hats import LARGEST_WORK, HatFit
from hush.inference.error_law import ErrorLaw
from hush.linops import Identity, LinearOperator
from hush.privacy.measurement import Measurement

LARGEST_BASIS = 512  # buckets of an axis up to which its form is taken apart; longer ones are taken as even
ADMM_STEPS = 60
ADMM_PENALTY = 1e-3  # of ADMM, over the largest eigenvalue: it balances the two residuals on maps of many shapes
ADMM_OVERSTEP = 1.7  # how far a step goes on: it is worth twice the steps [Boyd et al. 2011, sec. 3.4.3]


class HistogramEstimates:
    """Counts of one histogram over a clique, gridded on its leading attributes.

    Counts are non-negative: the nearest, in the norm of the queries, to the unbiased counts, or to their posterior if
    nested blocks were measured. Counts from a tree of buckets stay unbiased. Variances are those of unbiased counts.
    They cover the noise, and the scatter of rows that fall on the levels of their bucket by chance: the n rows of a
    bucket of L levels add to a sum with coefficients a the variance

        n (sum of a^2 / L - (sum of a / L)^2),

    as in n independent draws, with the estimated n. They do not cover that some levels of a bucket are more likely than
    others.
    """

    def __init__(
        self, domain: Domain, measured: Sequence[Measurement], queries: str, grids: Sequence[AxisGrid] = ()
    ) -> None:
        """`grids` are the buckets whose blocks were measured, if none of the tables has them all."""
        self.domain = domain
        self._measured = measured
        self._asked = queries
        self._clique: Clique = measured[0].clique
        self._fit: HatFit | BlockFit | TreeFit
        if isinstance(measured[0].asked, BucketTreeQuery):
            self._fit = TreeFit(measured[0], domain.sizes(self._clique))
        elif _in_blocks(measured, grids):
            self._fit = BlockFit.of(measured, grids or measured[0].asked.grids)  # type: ignore[union-attr]
        else:
            gridded = len(measured[0].asked.grids)  # type: ignore[union-attr]
            self._fit = HatFit(measured, domain.sizes(self._clique[gridded:]))
        self._gridded = len(self._fit.grids)

    @property
    def cliques(self) -> tuple[Clique, ...]:
        return (self.domain.clique(self._clique),)

    @cached_property
    def cells(self) -> Floats:
        """The counts over the whole clique, gridded attributes first."""
        buckets = self._fit.buckets
        if isinstance(self._fit, TreeFit):
            return buckets
        if isinstance(self._fit, BlockFit) and self._asked != "cells":
            buckets = self._fit.over_buckets(settled_blocks(self._fit, self._asked))
        return project_cells(buckets, self._fit.grids, self._asked)

    def covers(self, clique: Clique) -> bool:
        return set(self.domain.check(clique)) <= set(self._clique)

    def for_sums(self, clique: Clique, coefficients: Floats, groups: int) -> None:
        """None: every covered table is known cell by cell."""

    def counts(self, clique: Clique) -> Floats:
        names = self.domain.check(clique)
        if not self.covers(names):
            raise WorkloadError(f"the release has no histogram over {', '.join(names)}")
        return np.asarray(summed(self.cells, self._clique, names))

    def covariance(self, clique: Clique, first: Floats, second: Floats, groups: int) -> Floats:
        names = self.domain.check(clique)
        sizes = self.domain.sizes(names)
        both = [np.broadcast_to(np.asarray(side, dtype=np.float64), sizes) for side in (first, second)]
        gridded, others = self._clique[: self._gridded], self._clique[self._gridded :]
        added_up = math.prod(self.domain.sizes([name for name in others if name not in names]))  # independent noise
        absent = tuple(axis for axis, name in enumerate(self._clique) if name in others and name not in names)
        if set(gridded) <= set(names[:groups]):
            scattered = self._scatter.sum(axis=absent)
            kept = [name for name in self._clique if name in names]
            scattered = np.transpose(scattered, [kept.index(name) for name in names])
            local = np.transpose(self._cell_variances, [gridded.index(name) for name in names if name in gridded])
            local = local.reshape([size if name in gridded else 1 for name, size in zip(names, sizes, strict=True)])
            return np.asarray(
                (both[0] * both[1] * (local * added_up + scattered)).sum(axis=tuple(range(groups, len(names))))
            )
        number = math.prod(sizes[:groups])
        out = np.empty(number)
        kept = [name for name in others if name in names]
        rows = self._bucket_rows.sum(axis=absent)
        rows = np.transpose(
            rows, [*range(self._gridded), *(self._gridded + kept.index(name) for name in names if name in kept)]
        ).reshape(-1, 1)
        step = max(1, LARGEST_WORK // (8 * self.domain.size(self._clique)))
        for start in range(0, number, step):
            chosen = np.arange(start, min(start + step, number))
            first, second = (self._over_buckets(names, side, groups, chosen) for side in both)
            out[chosen] = self._fit.sums(first, second).reshape(-1, len(chosen)).sum(axis=0) * added_up
            if not self._whole:
                products = self._over_buckets(names, both[0] * both[1], groups, chosen) - first * second
                out[chosen] += (rows * products.reshape(-1, len(chosen))).sum(axis=0)
        return out.reshape(sizes[:groups])

    def _over_buckets(self, names: Clique, coefficients: Floats, groups: int, chosen: Integers) -> Floats:
        """The coefficients over buckets of some sums; the last axis has levels of other attributes, and the sums."""
        sizes, gridded = self.domain.sizes(names), self._clique[: self._gridded]
        alone = np.zeros((len(chosen), *sizes))
        place = np.unravel_index(chosen, sizes[:groups]) if groups else ()
        alone[(np.arange(len(chosen)), *place)] = coefficients[place] if groups else coefficients
        first = [1 + names.index(name) for name in gridded if name in names]
        rest = [1 + axis for axis, name in enumerate(names) if name not in gridded]
        moved = np.transpose(alone, [*first, *rest, 0])
        for axis, (name, grid) in enumerate(zip(gridded, self._fit.grids, strict=True)):
            if name not in names:
                moved = np.repeat(np.expand_dims(moved, axis), grid.size, axis=axis)
        flat = moved.reshape(*(grid.size for grid in self._fit.grids), -1)
        for axis, grid in enumerate(self._fit.grids):
            flat = grid.averaged(flat, axis)
        return flat

    @property
    def _whole(self) -> bool:
        """Whether every level is a bucket of its own, so that nothing is spread."""
        return all(grid.whole for grid in self._fit.grids)

    @cached_property
    def _bucket_rows(self) -> Floats:
        """The rows of every bucket, by levels of the other attributes; estimated, and never negative."""
        return np.asarray(np.maximum(added(self.cells, self._fit.grids), 0.0))

    @cached_property
    def _scatter(self) -> Floats:
        """The variance of the count of every level, given that of its bucket: n/L (1 - 1/L)."""
        even = spread(self._bucket_rows, self._fit.grids)
        shares = spread(np.ones([grid.buckets for grid in self._fit.grids]), self._fit.grids)
        return np.asarray(even * (1 - shares).reshape(shares.shape + (1,) * (even.ndim - shares.ndim)))

    @cached_property
    def _cell_variances(self) -> Floats:
        """The variance of the noise of every level, spread evenly over its bucket."""
        grids, variances = self._fit.grids, self._fit.bucket_variances()
        for axis, grid in enumerate(grids):
            shape = [-1 if other == axis else 1 for other in range(len(grids))]
            variances = np.repeat(variances / (grid.lengths**2).reshape(shape), grid.lengths, axis=axis)
        return variances

    def product(self, clique: Clique, blocks: Sequence[LinearOperator]) -> tuple[Floats, Floats]:
        names = self.domain.check(clique)
        values = apply_each(blocks, self.counts(names))
        rows: list[Floats] = []
        for axis, grid in enumerate(self._fit.grids):
            name = self._clique[axis]
            if name not in names:
                rows.append(np.ones((1, grid.buckets)))
                continue
            block = blocks[names.index(name)]
            if block.shape[0] * grid.size > LARGEST_WORK:
                raise SizeError(f"{block.shape[0]:,} queries on {name} are too many for their errors; ask for fewer")
            rows.append(grid.averaged(block.dense(), 1))
        if math.prod(len(row) for row in rows) * self._fit.rows > LARGEST_WORK:
            raise SizeError("the term asks for too many numbers at a time for their errors; ask for fewer")
        noise = self._fit.products(rows, rows)
        axes = [self._clique[axis] for axis in range(self._gridded)]
        for name in self._clique[self._gridded :]:
            if name in names:
                block = blocks[names.index(name)]
                squares = np.ones(block.shape[0]) if isinstance(block, Identity) else (block.dense() ** 2).sum(axis=1)
                noise = np.multiply.outer(noise, squares)
            else:
                noise = noise[..., None] * self.domain[name]
            axes.append(name)
        noise = noise.reshape([n for n, name in zip(noise.shape, axes, strict=True) if name in names])
        left = [name for name in axes if name in names]
        if not self._whole:
            noise = noise + self._product_scatter(names, blocks).reshape(noise.shape)
        return values, np.transpose(noise, [left.index(name) for name in names])

    def _product_scatter(self, names: Clique, blocks: Sequence[LinearOperator]) -> Floats:
        """The variance of products of queries from the scatter of rows within buckets."""
        squares, averages = self._bucket_rows, self._bucket_rows
        for axis, name in enumerate(self._clique):
            block = blocks[names.index(name)].dense() if name in names else np.ones((1, self.domain[name]))
            if axis < self._gridded:
                grid = self._fit.grids[axis]
                squared, averaged = grid.averaged(block**2, 1), grid.averaged(block, 1) ** 2
            else:
                squared = averaged = block**2
            squares = np.moveaxis(np.tensordot(squared, squares, axes=(1, axis)), 0, axis)
            averages = np.moveaxis(np.tensordot(averaged, averages, axes=(1, axis)), 0, axis)
        return np.asarray(squares - averages)

    @property
    def laplace(self) -> bool:
        return any(table.law.name == "laplace" for table in self._measured)

    def alike(self, name: str) -> bool:
        return name not in self._clique[: self._gridded]

    def error_law(
        self, clique: Clique, coefficients: Floats, blocks: Sequence[LinearOperator] | None = None
    ) -> ErrorLaw | None:
        """None: sums of noise from many numbers; the margins are for Laplace or normal noise of the same variance."""
        return None


def _in_blocks(measured: Sequence[Measurement], grids: Sequence[AxisGrid]) -> bool:
    """Whether blocks of several sizes were measured, or larger ones than the buckets."""
    queries = [table.asked for table in measured]
    if any(isinstance(query, CutQuery) for query in queries):
        return True
    buckets = tuple(grid.buckets for grid in grids or queries[0].grids)  # type: ignore[union-attr]
    larger = measured[0].raw.shape[: len(buckets)] != buckets
    return not any(query.hats for query in queries) and (larger or len(queries) > 1)  # type: ignore[union-attr]


def project_cells(buckets: Floats, grids: Sequence[AxisGrid], queries: str) -> Floats:
    """Non-negative counts of all levels along the leading axes, nearest to unbiased counts of buckets.

    Nearest in the norm of the queries. A projection onto a convex set that contains the truth, in the norm in which
    errors are summed, never makes that sum larger. In another norm it can: many small clipped counts add up in long
    prefix sums. If single cells are asked for, the counts stay unbiased, and so do their sums.

    Reference: [Li 2013, sec. 3.5.3], "hybrid".
    """
    if queries == "cells":
        return spread(buckets, grids)
    if len(grids) > 1:
        return spread(_nearest_for_rectangles(buckets, grids), grids)
    # One axis: the nearest prefix sums that never fall, by isotonic regression, exact.
    from scipy.optimize import isotonic_regression

    cells = spread(buckets, grids)
    sums = np.cumsum(cells.reshape(len(cells), -1), axis=0)
    for column in range(sums.shape[1]):
        sums[:, column] = np.maximum(isotonic_regression(sums[:, column]).x, 0.0)
    return np.diff(sums, axis=0, prepend=0.0).reshape(cells.shape)


def _nearest_for_rectangles(buckets: Floats, grids: Sequence[AxisGrid]) -> Floats:
    """min |W (x - v)|^2 over x >= 0 for all rectangles W, by alternating directions in the basis of the form."""
    axes = [_basis(grid) for grid in grids]
    (turn_first, back_first, l_first), (turn_second, back_second, l_second) = axes
    eigenvalues = np.outer(l_first, l_second)
    eigenvalues /= eigenvalues.max()

    def turned(x: Floats) -> Floats:
        return turn_second(turn_first(x).T).T

    def back(x: Floats) -> Floats:
        return back_second(back_first(x).T).T

    rest = buckets.reshape(*buckets.shape[:2], -1)
    out = np.empty_like(rest)
    for column in range(rest.shape[2]):
        v = rest[:, :, column]
        fixed, z, u = eigenvalues * turned(v), np.maximum(v, 0.0), np.zeros_like(v)
        for _ in range(ADMM_STEPS):
            x = back((fixed + ADMM_PENALTY * turned(z - u)) / (eigenvalues + ADMM_PENALTY))
            u += ADMM_OVERSTEP * x + (1 - ADMM_OVERSTEP) * z
            z = np.maximum(u, 0.0)
            u -= z
        out[:, :, column] = z
    return out.reshape(buckets.shape)


def _basis(grid: AxisGrid) -> tuple[Callable[[Floats], Floats], Callable[[Floats], Floats], Floats]:
    """To and from the eigenvectors of the form of all ranges of an axis, along the first axis; and its eigenvalues.

    On n single levels that form is (n + 1) times the inverse of second differences, which sines diagonalise.
    """
    if grid.buckets <= LARGEST_BASIS:
        eigenvalues, q = np.linalg.eigh(AxisForm(grid, "ranges").matrix())
        return (lambda x: q.T @ x), (lambda x: q @ x), np.maximum(eigenvalues, 0.0)
    from scipy.fft import dst

    n = grid.buckets

    def sines(x: Floats) -> Floats:
        return np.asarray(dst(x, type=1, axis=0, norm="ortho"))

    return sines, sines, (n + 1) / (2 - 2 * np.cos(np.pi * np.arange(1, n + 1) / (n + 1)))
