"""ResidualBasis: what is measured of one attribute beyond its total, and how to design it for the queries asked.

A basis of an attribute of size l is an integer matrix M (k x l) with M 1 = 0 and rank l - 1, and an integer scale L. It
stands for M / L = S P, where S is the attribute's base strategy and P = I - 1 1^T / l subtracts the mean. The plain
basis, for counts of single levels, is M = l I - 1 1^T with L = l, so that M / L = P. With G = M^T M / L^2, a query w on
the attribute splits into its residual, answered with variance a[w] = w G^+ w^T per unit of noise, and its mean,
b[w] = (w 1 / l)^2 per unit of variance of the total.

A full-rank strategy Q gives a tilted basis. With X = Q^T Q, lambda = 1^T X^{-1} 1 and m = X^{-1} 1 / lambda, counts
split into their total and the rest, x = m (1^T x) + (I - m 1^T) x, and the least squares estimates of the two from
y = Q x + noise are uncorrelated: the total has variance lambda, the rest covariance X^{-1} - lambda m m^T. For Q = I
this is the plain basis, with m = 1 / l and lambda = l; other strategies spread the total unevenly.

To design a basis is to find the base strategy X = S^T S on the space orthogonal to 1 that solves, for queries with Gram
matrix V,

    minimise  max diag(X) * tr(X^+ V),

the product of privacy cost and summed variance. Its dual, over weights d >= 0 of sum 1 on the levels, is

    maximise  (tr (V^{1/2} diag(d) V^{1/2})^{1/2})^2,

and X = V^{1/2} (V^{1/2} diag(d) V^{1/2})^{-1/2} V^{1/2} is the primal point of d: the problem of
`hush.strategies.optimum` on one subspace, without column completion, which would leave it. The result is rounded, as a
matrix, to integers whose rows add up to zero exactly.

Reference: [ResidualPlanner, sec. 4.2, Sub_m], in the integer form M = l I - 1 1^T, which has the same row space;
[Li 2013, chapter 3] for the design. Differs from [ResidualPlanner]: the base strategy S may be any, one per attribute;
there it is the identity.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from hush.core.arrays import Floats
from hush.core.errors import SizeError, WorkloadError
from hush.core.solution import Solution
from hush.linops import CompoundSymmetric, Identity, LinearOperator
from hush.linops.along import along
from hush.strategies.axis_strategy import AxisStrategy


class ResidualBasis(AxisStrategy):
    """The residual basis of one attribute: whole numbers whose rows add up to zero, or a tilted full-rank strategy.

    >>> ResidualBasis.plain(3).measure(np.array([5, 1, 0]), 0).tolist(), ResidualBasis.plain(3).max_diagonal
    ([9, -3, -6], Fraction(2, 3))
    >>> ResidualBasis.of([[1, -1, 0], [1, 1, -2]], scale=2).max_diagonal
    Fraction(1, 1)
    """

    def __init__(self, operator: LinearOperator, scale: int = 1) -> None:
        super().__init__(operator, scale)
        if self.size < 2:
            raise WorkloadError(f"an attribute of {self.size} levels has no residual; leave it out of the workload")
        # The rows of a plain basis add up to zero by construction; checking would take a vector of all levels.
        plain = isinstance(operator, CompoundSymmetric) and operator.eigenvalue_of_ones == 0
        if not plain and self.operator.matmat(np.ones((self.size, 1))).any():
            raise WorkloadError("each row of a residual basis must add up to zero")
        if self._facts is None and self._singular[1].size < self.size - 1:
            raise WorkloadError(
                f"a basis matrix of rank {self._singular[1].size} on an attribute of {self.size} levels cannot answer "
                f"every query; it needs rank {self.size - 1}"
            )

    @classmethod
    def plain(cls, size: int) -> ResidualBasis:
        """M = l I - 1 1^T, never built: M v = l v - sum(v)."""
        return cls(CompoundSymmetric(size, size, -1), size)

    @property
    def is_plain(self) -> bool:
        return isinstance(self.operator, CompoundSymmetric)

    _cholesky = None  # G is singular

    @property
    def full(self) -> bool:
        """A basis never answers totals."""
        return False

    def supports(self, block: LinearOperator) -> bool:
        """Whether every query of a block adds up to zero."""
        self._check_block(block)
        return bool(np.abs(block.matmat(np.ones((self.size, 1)))).max() <= 1e-9)

    @property
    def total_variance_factor(self) -> float:
        """lambda: the variance of the total from the answers, per unit of noise."""
        return float(self.size)

    def total_of(self, answers: Floats, axis: int) -> Floats:
        """The total along one axis by least squares, from answers of levels; the axis is kept with one level."""
        return np.asarray(answers.sum(axis=axis, keepdims=True))

    @property
    def total_weights(self) -> Floats:
        """(k,): the weights of the answers in the total."""
        return np.ones(self.rows)

    def mean(self, coefficients: Floats, axis: int) -> Floats:
        """The share of coefficients that the total answers, m^T c along one axis, which is kept with one level."""
        return np.asarray(coefficients.sum(axis=axis, keepdims=True) / self.size)

    def spread(self, totals: Floats, axis: int) -> Floats:
        """Totals, along one axis of one level, spread over the levels: m t."""
        return np.asarray(np.repeat(totals / self.size, self.size, axis=axis))

    def query_mean(self, block: LinearOperator) -> Floats:
        """b[w] = (w m)^2 for each row w of a query block."""
        self._check_block(block)
        return np.asarray(block.matmat(self.spread(np.ones((1, 1)), 0))[:, 0] ** 2)


class TiltedBasis(ResidualBasis):
    """The basis of a full-rank strategy; its answers are those of the strategy itself."""

    _alike = None  # `operator` is the whole strategy; its inverse Gram matrix includes the total

    def __init__(self, strategy: AxisStrategy) -> None:
        if not strategy.full:
            raise WorkloadError(f"{strategy!r} does not have full rank, so it is no basis; use local recovery")
        AxisStrategy.__init__(self, strategy.operator, strategy.scale)
        self._strategy = strategy

    @cached_property
    def total_weights(self) -> Floats:
        """1^T Q^+, (k,): the total from the answers."""
        return self._strategy.adjoint(np.ones(self.size), 0)

    @cached_property
    def total_variance_factor(self) -> float:
        return float(self.total_weights @ self.total_weights)

    @cached_property
    def tilt(self) -> Floats:
        """m, (l,): how a total of one is spread over the levels."""
        return np.asarray(self._strategy.estimate(self.total_weights, 0) / self.total_variance_factor)

    def total_of(self, answers: Floats, axis: int) -> Floats:
        return along(self.total_weights[None], answers, axis)

    def mean(self, coefficients: Floats, axis: int) -> Floats:
        return along(self.tilt[None], coefficients, axis)

    def spread(self, totals: Floats, axis: int) -> Floats:
        return along(self.tilt[:, None], totals, axis)

    def estimate(self, answers: Floats, axis: int) -> Floats:
        counts = self._strategy.estimate(answers, axis)
        return np.asarray(counts - self.spread(counts.sum(axis=axis, keepdims=True), axis))

    def adjoint(self, coefficients: Floats, axis: int) -> Floats:
        return self._strategy.adjoint(coefficients - self.mean(coefficients, axis), axis)

    @cached_property
    def inverse_gram(self) -> Floats:
        return np.asarray(self._strategy.inverse_gram - self.total_variance_factor * np.outer(self.tilt, self.tilt))

    def query_variances(self, block: LinearOperator) -> Floats:
        means = self.total_variance_factor * self.query_mean(block)
        return np.maximum(self._strategy.query_variances(block) - means, 0)


def basis_of(strategy: AxisStrategy) -> ResidualBasis:
    return ResidualBasis.plain(strategy.size) if isinstance(strategy.operator, Identity) else TiltedBasis(strategy)


LARGEST_SIZE = 4096  # levels of an attribute that a basis is designed for
LEAST_BITS, MOST_BITS = 7, 16  # of the entries of a designed basis
UNASKED_SHARE = 1e-6  # of the Gram matrix, added along directions that no query asks for, so that X has full rank


def design_basis(
    gram: Floats,  # (l, l)
    *,
    tolerance: float = 1e-3,
    rounding_loss: float = 1e-3,
) -> Solution[ResidualBasis]:
    """The basis for queries of this Gram matrix W^T W, within `tolerance` of the best and rounded to short integers.

    The bits of the entries are the fewest for which rounding costs at most `rounding_loss` of the variance. `stats`
    has `efficiency` (a lower bound on max diag(X) tr(X^+ V) over the value reached, after rounding),
    `svd_bound_ratio` (value over the SVD bound), `bits` and `iterations`. Gram matrices proportional to P, or with
    nothing but totals, get the plain basis.

    Complexity: O(l^3) an iteration, about five iterations.
    """
    from hush.strategies import optimum  # loads scipy, which a basis from a file does not need

    n = len(gram)
    if n > LARGEST_SIZE:
        raise SizeError(
            f"an attribute of {n} levels is too large to design a base strategy for (limit {LARGEST_SIZE}); "
            "coarsen its bins, or ask for its levels by themselves"
        )
    if gram.shape != (n, n) or not np.isfinite(gram).all():
        raise WorkloadError("the Gram matrix of the queries must be square and finite")
    v = _centre(gram)
    mean = np.trace(v) / (n - 1)
    if mean <= 1e-12 * np.trace(gram) or np.abs(v - _centre(mean * np.eye(n))).max() <= 1e-9 * mean:
        return Solution(value=ResidualBasis.plain(n))
    solution = optimal_gram(v + _centre(UNASKED_SHARE * mean * np.eye(n)), tolerance=tolerance)
    x, d = solution.value
    basis, bits = _round(x, v, rounding_loss)
    value = float(basis.max_diagonal) * float(np.sum(basis.inverse_gram * v))
    stats = {
        "iterations": solution.stats["iterations"],
        "efficiency": optimum.dual_value(v, d) / value,
        "svd_bound_ratio": value / optimum.dual_value(v, np.full(n, 1 / n)),
        "bits": float(bits),
    }
    return Solution(value=basis, status=solution.status, stats=stats)


def optimal_gram(
    centred: Floats,  # (l, l), of rank l - 1, rows and columns adding up to zero
    *,
    tolerance: float = 1e-3,
    iterations: int = 40,
) -> Solution[tuple[Floats, Floats]]:
    """X = S^T S of the best centred base strategy, with max diag(X) = 1, and its dual weights; see the module."""
    from hush.strategies import optimum

    u = _orthonormal(len(centred))
    e, q = np.linalg.eigh(u.T @ centred @ u)
    solution = optimum.optimal_gram(
        u @ (q * np.sqrt(np.maximum(e, 0))), tolerance=tolerance, iterations=iterations, completed=False
    )
    return Solution(value=(solution.value.gram, solution.value.weights), status=solution.status, stats=solution.stats)


def _round(x: Floats, centred: Floats, rounding_loss: float) -> tuple[ResidualBasis, int]:
    """The shortest integers that lose at most `rounding_loss` against the unrounded strategy."""
    u = _orthonormal(len(x))
    v = u.T @ centred @ u
    e, q = np.linalg.eigh(x)
    s = np.sqrt(np.maximum(e[1:], 0))[:, None] * q[:, 1:].T  # the first eigenvalue is that of 1, zero
    aim = _value(s, u, v) * (1 + rounding_loss)
    for bits in range(LEAST_BITS, MOST_BITS + 1):
        matrix = _round_rows(s * 2.0**bits)
        if _value(matrix / 2.0**bits, u, v) <= aim:
            return ResidualBasis.of(matrix, 2**bits), bits
    raise WorkloadError(
        "the queries on one attribute differ too much in scale for one base strategy; bring their entries to one scale"
    )


def _value(s: Floats, u: Floats, v: Floats) -> float:
    """max diag(X) tr(X^+ V) for X = S^T S; infinite where X is short of full rank."""
    try:
        root = np.linalg.cholesky((s @ u).T @ (s @ u))
    except np.linalg.LinAlgError:
        return np.inf
    half = np.linalg.solve(root, np.linalg.solve(root, v).T)
    return float(np.sum(s**2, axis=0).max() * np.trace(half))


def _round_rows(values: Floats) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Integers within one of the values, each row adding up to zero like the row it rounds.

    Rounding to nearest leaves a sum of at most l / 2. The entries that rounding moved furthest in that direction are
    moved back by one.
    """
    rounded = np.floor(values + 0.5)
    excess = rounded.sum(axis=1).astype(np.int64)
    moved = rounded - values
    for row in np.flatnonzero(excess):
        sign = 1 if excess[row] > 0 else -1
        order = np.argsort(-sign * moved[row], kind="stable")[: abs(excess[row])]
        rounded[row, order] -= sign
    return rounded.astype(np.int64)


def _centre(gram: Floats) -> Floats:
    """P V P."""
    half = gram - gram.mean(axis=0, keepdims=True)
    return np.asarray(half - half.mean(axis=1, keepdims=True))


def _orthonormal(n: int) -> Floats:
    """An orthonormal basis of the space orthogonal to 1: the cosines of the discrete cosine transform, (n, n - 1)."""
    angles = np.pi * np.outer(2 * np.arange(n) + 1, np.arange(1, n)) / (2 * n)
    return np.asarray(np.cos(angles) * np.sqrt(2 / n))
