"""GlobalEstimates: every question answered by least squares from everything that was measured.

The estimate minimises sum_j |Q_j x - y_j|^2 / s_j^2, by LSMR with nothing but products with the factors; answers of all
tables agree. A sum with coefficients f has variance f^T N^+ f, exact: see `strategies.joint`.

Reference: [Fong and Saunders 2011] for LSMR; [HDMM, sec. 3.6] names global least squares as the better recovery.
"""

from __future__ import annotations

import itertools
import string
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from hush.domain import Clique, Domain
from hush.errors import ConvergenceError, WorkloadError
from hush.inference.linear_answers import LinearAnswers
from hush.linops import Identity, LinearOperator
from hush.strategies.joint import JointPrecision

Floats = np.ndarray[Any, np.dtype[np.float64]]
_CONVERGED = (0, 1, 2, 4, 5)  # LSMR's reasons to stop that mean a solution


class GlobalEstimates:
    """Unbiased counts from all parts together, mutually consistent; implements `Estimates`."""

    def __init__(self, answers: LinearAnswers, *, sums: bool = False) -> None:
        self._answers = answers
        self._sums = sums  # whether it is asked for sums that are known to be supported
        whole = len(answers.filled) == len(answers.strategy.parts)
        self._joint = answers.strategy.joint if whole else JointPrecision(answers.strategy.domain, answers.filled)

    @property
    def domain(self) -> Domain:
        """The attributes and their sizes."""
        return self._answers.strategy.domain

    @cached_property
    def cliques(self) -> tuple[Clique, ...]:
        """The largest cliques whose every cell one part supports."""
        full = list(dict.fromkeys(part.clique for part in self._joint.parts if part.full))
        return tuple(c for c in full if not any(set(c) < set(other) for other in full))

    def covers(self, clique: Clique) -> bool:
        """Whether some part supports every cell of a clique."""
        return self._supported(clique, [Identity(size) for size in self.domain.sizes(clique)])

    def for_sums(self, clique: Clique, coefficients: Floats, groups: int) -> GlobalEstimates | None:
        """The same estimates, where some part knows these sums; their counts have least norm."""
        known = any(part.supports_sums(clique, coefficients, groups) for part in self._joint.parts)
        return GlobalEstimates(self._answers, sums=True) if known else None

    @cached_property
    def cells(self) -> Floats:
        """The estimated counts over all measured attributes; those that no part supports have least norm."""
        joint, parts = self._joint, self._joint.parts
        if joint.small:
            weighted = zip(parts, joint.noise_variances, strict=True)
            return joint.solve(np.sum([joint.spread(p, self._answers.of(p)) / v for p, v in weighted], axis=0))
        from scipy.sparse.linalg import LinearOperator as SparseOperator
        from scipy.sparse.linalg import lsmr

        scales = [variance**-0.5 for variance in joint.noise_variances]
        ends = np.cumsum([int(np.prod(part.query.shape)) for part in parts])

        def forward(x: Floats) -> Floats:
            return np.concatenate([joint.measure(p, x).ravel() * s for p, s in zip(parts, scales, strict=True)])

        def backward(y: Floats) -> Floats:
            pieces = zip(parts, scales, np.split(y, ends[:-1]), strict=True)
            total = np.zeros(joint.sizes)
            for part, scale, own in pieces:
                total += joint.spread(part, own.reshape(part.query.shape) * scale)
            return total.ravel()

        shape = (int(ends[-1]), joint.cells)
        operator = SparseOperator(shape, matvec=forward, rmatvec=backward, dtype=np.float64)
        noisy = np.concatenate([self._answers.of(p).ravel() * s for p, s in zip(parts, scales, strict=True)])
        found, stop, *_ = lsmr(operator, noisy, atol=1e-11, btol=1e-11, conlim=0.0, maxiter=20_000)
        if stop not in _CONVERGED:
            raise ConvergenceError("least squares over all tables did not converge; use local least squares")
        return np.asarray(found.reshape(joint.sizes))

    def counts(self, clique: Clique) -> Floats:
        """Estimated counts over a clique, in the order of its names."""
        names = self.domain.check(clique)
        self._require(names, [Identity(size) for size in self.domain.sizes(names)])
        return self._marginal(names)

    def product(self, clique: Clique, blocks: Sequence[LinearOperator]) -> tuple[Floats, Floats]:
        """Answers to a product of query blocks and their variances, one axis per block."""
        names = self.domain.check(clique)
        self._require(names, blocks)
        values = self._marginal(names)
        for axis, block in enumerate(blocks):
            moved = np.moveaxis(values, axis, 0)
            answered = block.matmat(moved.reshape(moved.shape[0], -1))
            values = np.moveaxis(answered.reshape((-1, *moved.shape[1:])), 0, axis)
        if self._joint.small:
            return values, self._joint.variances(names, blocks)
        rows = [block.dense() for block in blocks]
        variances = np.empty(values.shape)
        for place in itertools.product(*(range(len(own)) for own in rows)):
            coefficients = np.ones(())
            for own, row in zip(rows, place, strict=True):
                coefficients = np.multiply.outer(coefficients, own[row])
            variances[place] = self._inner(names, coefficients, coefficients)
        return values, variances

    def covariance(self, clique: Clique, first: Floats, second: Floats, groups: int) -> Floats:
        """The covariance of two sums over cells for every combination of levels of the first `groups` attributes."""
        names = self.domain.check(clique)
        self._require(names, [Identity(size) for size in self.domain.sizes(names)])
        if self._joint.small:
            return _grouped(self._joint.marginal(names), first, second, groups)
        shape = self.domain.sizes(names)[:groups]
        found = np.empty(shape)
        for place in itertools.product(*(range(size) for size in shape)):
            left, right = (np.zeros(side.shape) for side in (first, second))
            left[place], right[place] = first[place], second[place]
            found[place] = self._inner(names, left, right)
        return found

    def _inner(self, names: Clique, first: Floats, second: Floats) -> float:
        """f^T N^+ s for coefficients on the cells of a clique."""
        left, right = (self._spread(names, side) for side in (first, second))
        return float(np.sum(left * self._joint.solve(right)))

    def _spread(self, names: Clique, coefficients: Floats) -> Floats:
        """Coefficients on a clique's cells as coefficients on all cells."""
        order = [name for name in self._joint.clique if name in names]
        own = np.transpose(coefficients, [names.index(name) for name in order])
        shape = [self.domain[name] if name in names else 1 for name in self._joint.clique]
        return np.broadcast_to(own.reshape(shape), self._joint.sizes)

    def _marginal(self, names: Clique) -> Floats:
        clique = self._joint.clique
        order = [name for name in clique if name in names]
        summed = self.cells.sum(axis=tuple(axis for axis, name in enumerate(clique) if name not in names))
        return np.asarray(np.transpose(summed, [order.index(name) for name in names]), order="C")

    def _supported(self, names: Clique, blocks: Sequence[LinearOperator]) -> bool:
        return any(part.supports(names, blocks) for part in self._joint.parts)

    def _require(self, names: Clique, blocks: Sequence[LinearOperator]) -> None:
        if not (self._sums or self._supported(names, blocks)):
            raise WorkloadError(
                f"the queries on {', '.join(names) or 'the total'} are no combination of what was measured; "
                "a workload with them would have supported them"
            )


def _grouped(covariance: Floats, first: Floats, second: Floats, groups: int) -> Floats:
    """The covariance of two sums for every level of the leading axes; `covariance` has every axis twice."""
    k = first.ndim
    left, right = string.ascii_lowercase[:k], string.ascii_lowercase[:groups] + string.ascii_uppercase[groups:k]
    return np.asarray(
        np.einsum(f"{left},{left}{right},{right}->{left[:groups]}", first, covariance, second, optimize=True)
    )
