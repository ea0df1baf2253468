"""JointPrecision: what all parts of a strategy say together about the cells of all measured attributes.

With s_j^2 the variance of the noise of part j the precision is N = sum_j Q_j^T Q_j / s_j^2; the least squares estimate
from everything that was measured has covariance N^+.

Reference: [HDMM, sec. 3.6]; the paper leaves the error of unions of products under global least squares open, since N^+
is no union of products. Here it is exact: N^+ as a matrix on small domains, one linear solve per query on others.
"""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from hush.domain import Clique, Domain
from hush.errors import ConvergenceError, SizeError, WorkloadError
from hush.linops import LinearOperator
from hush.memory import available_memory, readable
from hush.strategies.part import Part

Floats = np.ndarray[Any, np.dtype[np.float64]]

LARGEST_MATRIX = 4096  # cells up to which N^+ is made
_TOLERANCE = 1e-10
_LEAST_SHARE = 1e-7  # of the largest noise at sensitivity one; a part with less is taken to have this much
_RANK = 1e-12


class JointPrecision:
    """N of some parts over the attributes that any of them measures."""

    def __init__(self, domain: Domain, parts: Sequence[Part]) -> None:
        self.domain = domain
        self.parts = tuple(parts)
        if not self.parts:
            raise WorkloadError("nothing was measured, so nothing can be answered; the release was interrupted at once")
        units = [math.prod(float(factor.max_diagonal) for factor in part.factors) for part in parts]
        noise = [part.variance / unit for part, unit in zip(parts, units, strict=True)]
        floor = _LEAST_SHARE * max(noise)
        self.noise_variances = tuple(max(own, floor) * unit for own, unit in zip(noise, units, strict=True))
        self.clique: Clique = domain.clique({name for part in parts for name in part.clique})
        self.sizes = domain.sizes(self.clique)
        self.cells = math.prod(self.sizes)
        if not self.small and min(noise) < floor:
            raise WorkloadError(
                "the noise of the parts differs too much for least squares over all of them; use local least squares"
            )
        needed, free = 8 * 8 * self.cells, available_memory()
        if needed > free:
            raise SizeError(
                f"least squares over {', '.join(self.clique)} needs {readable(needed)}, more than the "
                f"{readable(free)} at hand; use local least squares, or a workload of fewer attributes"
            )

    @property
    def small(self) -> bool:
        """Whether N^+ is held as a matrix."""
        return self.cells <= LARGEST_MATRIX

    def measure(self, part: Part, counts: Floats) -> Floats:
        """Q_j x for counts over all attributes, in the shape of the part's answers."""
        gone = tuple(axis for axis, name in enumerate(self.clique) if name not in part.clique)
        tensor = counts.reshape(self.sizes).sum(axis=gone).reshape([factor.size for factor in part.factors])
        for axis, factor in enumerate(part.factors):
            tensor = factor.forward(tensor, axis)
        return np.asarray(tensor)

    def spread(self, part: Part, answers: Floats) -> Floats:
        """Q_j^T y over all attributes, in the shape of their sizes."""
        tensor = answers
        for axis, factor in enumerate(part.factors):
            tensor = factor.backward(tensor, axis)
        shape = [size if name in part.clique else 1 for name, size in zip(self.clique, self.sizes, strict=True)]
        return np.asarray(np.broadcast_to(tensor.reshape(shape), self.sizes))

    def apply(self, counts: Floats) -> Floats:
        """N x."""
        total = np.zeros(self.sizes)
        for part, variance in zip(self.parts, self.noise_variances, strict=True):
            total += self.spread(part, self.measure(part, counts)) / variance
        return total

    def solve(self, coefficients: Floats) -> Floats:
        """N^+ f for coefficients in the row space of what was measured."""
        if self.small:
            return np.asarray((self.covariance @ coefficients.ravel()).reshape(self.sizes))
        from scipy.sparse.linalg import LinearOperator as SparseOperator
        from scipy.sparse.linalg import cg

        operator = SparseOperator((self.cells, self.cells), matvec=lambda x: self.apply(x).ravel(), dtype=np.float64)
        found, failed = cg(operator, coefficients.ravel(), rtol=_TOLERANCE, atol=0.0, maxiter=10_000)
        if failed:
            raise ConvergenceError(
                f"the error of a query over {', '.join(self.clique)} did not converge; use local least squares"
            )
        return np.asarray(found.reshape(self.sizes))

    @cached_property
    def covariance(self) -> Floats:
        """N^+ over the cells in row-major order, on small domains."""
        e, q = self._eigen
        return np.asarray((q / e) @ q.T)

    def marginal(self, names: Clique) -> Floats:
        """The covariance of the counts over a clique, every axis twice, on small domains."""
        tensor = self.covariance.reshape(self.sizes + self.sizes)
        k = len(self.clique)
        gone = [axis for axis, name in enumerate(self.clique) if name not in names]
        tensor = tensor.sum(axis=tuple(gone + [axis + k for axis in gone]))
        order = [name for name in self.clique if name in names]
        axes = [order.index(name) for name in names]
        return np.transpose(tensor, axes + [axis + len(names) for axis in axes])

    def variances(self, names: Clique, blocks: Sequence[LinearOperator]) -> Floats:
        """The variance of every query of a product of blocks, one axis per block, on small domains."""
        k = len(blocks)
        left, right, out = string.ascii_lowercase[:k], string.ascii_uppercase[:k], string.ascii_lowercase[k : 2 * k]
        each = [f"{out[i]}{side[i]}" for side in (left, right) for i in range(k)]
        rows = [block.dense() for block in blocks]
        subscripts = f"{left}{right},{','.join(each)}->{out}" if k else "->"
        return np.asarray(np.einsum(subscripts, self.marginal(names), *rows, *rows, optimize=True))

    @cached_property
    def _eigen(self) -> tuple[Floats, Floats]:
        n = np.stack([self.apply(row).ravel() for row in np.eye(self.cells)])
        e, q = np.linalg.eigh((n + n.T) / 2)
        kept = e > _RANK * e[-1]
        return e[kept], q[:, kept]
