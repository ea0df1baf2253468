"""Least squares from noisy counts of buckets and sums weighted by hat functions, with the covariances of all sums."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hush.core.arrays import Floats
from hush.histograms.hat_query import HAT_UNIT, HatQuery
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
        self._hats = [[hat.matrix() / HAT_UNIT for hat in query.shapes] for query in queries[1:]]
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
