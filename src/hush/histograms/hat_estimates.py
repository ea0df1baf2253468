"""Counts and their noise from the counts of buckets and hats that were measured; implements `Estimates`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from hush.core.arrays import Floats, Integers, apply_each, summed
from hush.core.domain import Clique, Domain
from hush.core.errors import SizeError, WorkloadError
from hush.histograms.block_fit import BlockFit
from hush.histograms.block_posterior import settled_buckets
from hush.histograms.hat_query import UNIT, HatQuery
from hush.histograms.nonnegative_projection import project_cells
from hush.inference.error_law import ErrorLaw
from hush.linops import Identity, LinearOperator
from hush.linops.along import along
from hush.privacy.measurement import Measurement

LARGEST_WORK = 1 << 27  # numbers held while variances of many sums are computed


class HatFit:
    """Least squares over buckets: x minimises sum_l p_l |H_l x - y_l|^2, p_l = 1 / variance, H_0 = I.

    With theta_l = sqrt(p_l / p_0) H_l and R = (I + theta theta^T)^{-1}, x = z - theta^T R theta z for
    z = y_0 + sum_l (p_l / p_0) H_l^T y_l, and the covariance of x is (I - theta^T R theta) / p_0.
    """

    def __init__(self, measured: Sequence[Measurement], levels: tuple[int, ...]) -> None:
        queries: list[HatQuery] = [table.asked for table in measured]  # type: ignore[misc]
        self.grids = queries[0].grids
        self._levels = levels  # of other attributes
        values = [table.raw / query.scale for table, query in zip(measured, queries, strict=True)]
        variances = [(table.law.stddev / query.scale) ** 2 for table, query in zip(measured, queries, strict=True)]
        self.variance = max(variances[0], 1e-12)
        self._hats = [[hat.matrix() / UNIT for hat in query.shapes] for query in queries[1:]]
        self._ratios = [self.variance / max(variance, 1e-12) for variance in variances[1:]]
        blocks = []
        for first, p in zip(self._hats, self._ratios, strict=True):
            row = []
            for second, q in zip(self._hats, self._ratios, strict=True):
                block = np.ones((1, 1))
                for left, right in zip(first, second, strict=True):
                    block = np.kron(block, (left @ right.T).toarray())
                row.append(math.sqrt(p * q) * block)
            blocks.append(row)
        self._core = np.linalg.inv(np.eye(sum(len(row[0]) for row in blocks)) + np.block(blocks)) if blocks else None
        z = np.array(values[0], dtype=np.float64)
        for hats, ratio, y in zip(self._hats, self._ratios, values[1:], strict=True):
            part: Floats = y * ratio
            for axis, hat in enumerate(hats):
                part = along(hat.T, part, axis)
            z += part
        self.buckets = z - self.back(self.theta(z)) if blocks else z

    def theta(self, x: Floats) -> Floats:
        """theta x over the leading axes, as rows by everything else."""
        d, parts = len(self.grids), []
        for hats, ratio in zip(self._hats, self._ratios, strict=True):
            part = x
            for axis, hat in enumerate(hats):
                part = along(hat, part, axis)
            parts.append(math.sqrt(ratio) * part.reshape(math.prod(part.shape[:d]), -1))
        return np.concatenate(parts)

    def back(self, rows: Floats) -> Floats:
        """theta^T R applied to rows of `theta`."""
        d = len(self.grids)
        shape = tuple(grid.buckets for grid in self.grids)
        rows = rows if self._core is None else self._core @ rows
        total = np.zeros((*shape, rows.shape[1]))
        start = 0
        for hats, ratio in zip(self._hats, self._ratios, strict=True):
            counts = [hat.shape[0] for hat in hats]
            part = rows[start : start + math.prod(counts)].reshape(*counts, -1)
            start += math.prod(counts)
            for axis in range(d):
                part = along(hats[axis].T, part, axis)
            total += math.sqrt(ratio) * part
        return total.reshape(*shape, *self._levels)

    @property
    def rows(self) -> int:
        """The rows of theta, and one."""
        return 1 if self._core is None else 1 + len(self._core)

    def products(self, first: list[Floats], second: list[Floats]) -> Floats:
        """Covariances of sums whose coefficients are products over the axes: rows f_a of coefficients on axis a.

        Every combination of rows, one for each axis.
        """
        total: Floats = np.ones(())
        for f, s in zip(first, second, strict=True):
            total = np.multiply.outer(total, np.einsum("qk,qk->q", f, s))
        if self._core is None:
            return np.asarray(total * self.variance)
        left, right = self._crossed(first), self._crossed(second)
        gained = np.einsum("qp,qp->q", left @ self._core, right)
        return np.asarray((total - gained.reshape(total.shape)) * self.variance)

    def _crossed(self, rows: list[Floats]) -> Floats:
        """theta f of every combination of rows, (combinations, rows of theta)."""
        parts = []
        for hats, ratio in zip(self._hats, self._ratios, strict=True):
            part = np.ones((1, 1))
            for axis, hat in enumerate(hats):
                own = (hat @ rows[axis].T).T
                part = np.einsum("ap,bq->abpq", part, own).reshape(len(part) * len(own), -1)
            parts.append(math.sqrt(ratio) * part)
        return np.concatenate(parts, axis=1)

    def bucket_variances(self) -> Floats:
        """The variance of the count of every bucket."""
        variances = np.empty([grid.buckets for grid in self.grids])
        others = [np.eye(grid.buckets) for grid in self.grids[1:]]
        step = max(1, LARGEST_WORK // (8 * math.prod(grid.buckets for grid in self.grids[1:]) * self.rows))
        for start in range(0, self.grids[0].buckets, step):
            count = min(step, self.grids[0].buckets - start)
            rows = [np.eye(count, self.grids[0].buckets, start), *others]
            variances[start : start + count] = self.products(rows, rows)
        return variances

    def sums(self, first: Floats, second: Floats) -> Floats:
        """Covariances of sums with coefficients over buckets: `first[..., q]` are those of sum q."""
        flat = (-1, first.shape[-1])
        total = np.einsum("kq,kq->q", first.reshape(flat), second.reshape(flat))
        if self._core is not None:
            total = total - np.einsum("pq,pr,rq->q", self.theta(first), self._core, self.theta(second), optimize=True)
        return np.asarray(total * self.variance)


class HatEstimates:
    """Counts of one histogram over a clique, gridded on its leading attributes.

    Counts are non-negative: the nearest, in the norm of the queries, to the unbiased ones, or to their posterior where
    nested blocks were measured. Variances are those of the unbiased ones: the noise alone. That the rows of a bucket
    are not evenly spread is in neither.
    """

    def __init__(self, domain: Domain, measured: Sequence[Measurement], queries: str) -> None:
        self.domain = domain
        self._measured = measured
        self._asked = queries
        self._clique: Clique = measured[0].clique
        self._gridded = len(measured[0].asked.grids)  # type: ignore[union-attr]
        nested = len(measured) > 1 and not any(table.asked.hats for table in measured)  # type: ignore[union-attr]
        others = domain.sizes(self._clique[self._gridded :])
        self._fit: HatFit | BlockFit = BlockFit(measured) if nested else HatFit(measured, others)

    @property
    def cliques(self) -> tuple[Clique, ...]:
        return (self.domain.clique(self._clique),)

    @cached_property
    def cells(self) -> Floats:
        """The counts over the whole clique, gridded attributes first."""
        buckets = self._fit.buckets
        if isinstance(self._fit, BlockFit) and self._asked != "cells":
            buckets = settled_buckets(self._measured, self._fit, self._asked)
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
        if set(gridded) <= set(names[:groups]):
            local = np.transpose(self._cell_variances, [gridded.index(name) for name in names if name in gridded])
            local = local.reshape([size if name in gridded else 1 for name, size in zip(names, sizes, strict=True)])
            return np.asarray((both[0] * both[1] * local).sum(axis=tuple(range(groups, len(names)))) * added_up)
        number = math.prod(sizes[:groups])
        out = np.empty(number)
        step = max(1, LARGEST_WORK // (8 * self.domain.size(self._clique)))
        for start in range(0, number, step):
            chosen = np.arange(start, min(start + step, number))
            sums = self._fit.sums(*(self._over_buckets(names, side, groups, chosen) for side in both))
            out[chosen] = sums.reshape(-1, len(chosen)).sum(axis=0)
        return (out * added_up).reshape(sizes[:groups])

    def _over_buckets(self, names: Clique, coefficients: Floats, groups: int, chosen: Integers) -> Floats:
        """The coefficients over buckets of some sums, the last axis; levels of other attributes and sums in one."""
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
        return values, np.transpose(noise, [left.index(name) for name in names])

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
