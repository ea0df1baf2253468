"""TiltedBasis: what a full-rank factor says of one attribute beyond its total, where the total may be known better.

With X = Q^T Q, lambda = 1^T X^{-1} 1 and m = X^{-1} 1 / lambda, counts split into their total and the rest,

    x = m (1^T x) + (I - m 1^T) x,

and the least squares estimates of the two from y = Q x + noise, 1^T Q^+ y and (I - m 1^T) Q^+ y, are uncorrelated: the
first has variance lambda, the second covariance K K^T with K = (I - m 1^T) Q^+. For Q = I this is the plain basis, with
m = 1 / l and lambda = l; a tilted basis spreads the total unevenly, as the strategy suggests.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property

import numpy as np

from hush.errors import WorkloadError
from hush.linops import LinearOperator
from hush.strategies.basis import Basis, PlainBasis
from hush.strategies.factor import Factor, Floats, IdentityFactor, Integers


class TiltedBasis(Basis):
    """The basis of a factor; answers are those of the factor itself, over its scale. Equal if their factors are."""

    def __init__(self, factor: Factor) -> None:
        if not factor.full:
            raise WorkloadError(f"{factor!r} does not have full rank, so it is no basis; use local recovery")
        self.factor = factor

    @property
    def size(self) -> int:
        return self.factor.size

    @property
    def rows(self) -> int:
        return self.factor.rows

    @property
    def scale(self) -> int:
        return 1

    @property
    def largest_entry(self) -> int:
        return self.factor.largest_entry

    @property
    def largest_l1(self) -> int:
        return self.factor.largest_l1

    @property
    def largest_l2_squared(self) -> int:
        return self.factor.largest_l2_squared

    @property
    def opposition(self) -> Fraction:
        return self.factor.opposition

    @cached_property
    def total(self) -> Floats:
        """1^T Q^+, (k,): the total from the answers."""
        return self.factor.adjoint(np.ones(self.size), 0)

    @cached_property
    def total_variance_factor(self) -> float:
        """lambda: the variance of the total per unit of noise."""
        return float(self.total @ self.total)

    @cached_property
    def tilt(self) -> Floats:
        """m, (l,): where a count of one goes when nothing but the total is known."""
        return np.asarray(self.factor.estimate(self.total, 0) / self.total_variance_factor)

    def measure(self, counts: Integers, axis: int) -> Integers:
        return self.factor.measure(counts, axis)

    def forward(self, counts: Floats, axis: int) -> Floats:
        return self.factor.forward(counts, axis)

    def backward(self, answers: Floats, axis: int) -> Floats:
        return self.factor.backward(answers, axis)

    def estimate(self, answers: Floats, axis: int) -> Floats:
        counts = self.factor.estimate(answers, axis)
        return np.asarray(counts - self.spread(counts.sum(axis=axis, keepdims=True), axis))

    def adjoint(self, coefficients: Floats, axis: int) -> Floats:
        return self.factor.adjoint(coefficients - self.mean(coefficients, axis), axis)

    def mean(self, coefficients: Floats, axis: int) -> Floats:
        """m^T c along one axis, which is kept with one level."""
        return np.expand_dims(np.tensordot(coefficients, self.tilt, axes=(axis, 0)), axis)

    def spread(self, totals: Floats, axis: int) -> Floats:
        """m t along one axis of one level."""
        shape = [1] * totals.ndim
        shape[axis] = self.size
        return np.asarray(totals * self.tilt.reshape(shape))

    def columns(self, start: int, stop: int) -> Floats:
        answers = np.zeros((self.rows, stop - start))
        answers[np.arange(start, stop), np.arange(stop - start)] = 1.0
        return self.estimate(answers, 0)

    @cached_property
    def inverse_gram(self) -> Floats:
        return np.asarray(self.factor.inverse_gram - self.total_variance_factor * np.outer(self.tilt, self.tilt))

    def query_mean(self, block: LinearOperator) -> Floats:
        """b[w] = (w m)^2 for each row w of a query block."""
        self._require(block)
        return np.asarray(block.matmat(self.tilt[:, None])[:, 0] ** 2)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TiltedBasis) and self.factor == other.factor

    def __hash__(self) -> int:
        return hash((TiltedBasis, self.factor))

    def __repr__(self) -> str:
        return f"TiltedBasis({self.factor!r})"


def basis_of(factor: Factor) -> Basis:
    """The basis of a full-rank factor."""
    return PlainBasis(factor.size) if isinstance(factor, IdentityFactor) else TiltedBasis(factor)
