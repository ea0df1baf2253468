r"""Variances of terms that are no products of query blocks, from the noise of products and of residual sets.

A term with a closed form gives it as `Term.variances`, for cells whose covariance is a product kron_i C_i. A sum of
products has the sum of their variances. Residual set R is the product of G_i^+ for i in R and of m_i m_i^T outside,
times its noise. For other terms the coefficients of each query are brought to the residual of every set.

Reference: [ResidualPlanner, Thm 4.7] for the covariances.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from hush.core.arrays import Floats, reordered
from hush.core.errors import SizeError
from hush.linops import Identity, Total
from hush.linops.marginal_operators import subset_differences
from hush.workloads import Term
from hush.workloads.term import AxisNoise

if TYPE_CHECKING:
    from hush.strategies.axis_strategy import AxisStrategy
    from hush.strategies.residual_basis import ResidualBasis

LARGEST_CELLS = 1 << 24  # of the clique of a term without a closed form


def residual_axes(basis: ResidualBasis) -> tuple[AxisNoise, AxisNoise]:
    """The noise along a column outside and inside a residual set; of one level where all are alike."""
    n = basis.size
    if basis.is_plain:
        return (1.0, np.array([1 / n]), np.array([1 / n**2])), (0.0, np.zeros(1), np.array([(n - 1) / n]))
    tilt = np.asarray(basis.spread(np.ones((1, 1)), 0)[:, 0])
    return (1.0, tilt, tilt**2), (0.0, np.zeros(n), basis.query_variances(Identity(n)))


def factor_axis(factor: AxisStrategy) -> AxisNoise:
    """The noise along the column of a product's factor; of one level where all are alike."""
    n = factor.size
    if factor.levels_alike:
        total = factor.total_variance(Total(n))
        return total, np.array([total / n]), factor.query_variances(Identity(n))[:1]
    mixed = factor.estimate(factor.adjoint(np.ones(n), 0), 0)
    return float(mixed.sum()), np.asarray(mixed), factor.query_variances(Identity(n))


def mean_shares(term: Term, bases: Sequence[ResidualBasis]) -> Floats:
    """The share of the noise of each subset's residual in the mean variance of a term's queries: (2^k,).

    Bit i of a subset's number is attribute i of the clique.
    """
    means = []
    for basis in bases:
        outside, inside = residual_axes(basis)
        mean = float(outside[1].mean())
        means.append((mean, mean**2 if basis.is_plain else float(outside[2].mean()), float(inside[2].mean())))
    shares = term.residual_shares(tuple(means))
    return query_shares(term, bases).mean(axis=0) if shares is None else shares


def query_shares(term: Term, bases: Sequence[ResidualBasis]) -> Floats:
    """The share of the noise of each subset's residual in the variance of every query: (queries, 2^k)."""
    sizes = tuple(basis.size for basis in bases)
    if math.prod(sizes) > LARGEST_CELLS:
        raise SizeError(
            f"{term.text!r} is over {math.prod(sizes):,} cells: at most {LARGEST_CELLS:,} can be planned for; leave it "
            "out"
        )
    shares_of = _plain_shares if all(basis.is_plain for basis in bases) else _tilted_shares
    return np.stack([shares_of(term.coefficients(query, sizes), bases) for query in range(term.queries)])


def _plain_shares(coefficients: Floats, bases: Sequence[ResidualBasis]) -> Floats:
    """|w_R|^2 of the coefficients w of one query, brought to the residual of every subset R.

    On plain bases |w_R|^2 = E_R / prod_{i not in R} n_i, where E_R is the part of |w|^2 that depends on exactly R, and
    sum_{R within B} E_R is the sum of squares of w totalled down to B, over the cells that each total has.
    """
    k = len(bases)
    squares, outside = np.empty(1 << k), np.empty(1 << k)
    for number in range(1 << k):
        summed = tuple(axis for axis in range(k) if not number >> axis & 1)
        outside[number] = math.prod(bases[axis].size for axis in summed)
        squares[number] = np.sum(coefficients.sum(axis=summed) ** 2) / outside[number]
    shares = np.maximum(subset_differences(squares, k), 0.0) / outside
    return np.where(shares > 1e-12 * shares.max(), shares, 0.0)


def _tilted_shares(coefficients: Floats, bases: Sequence[ResidualBasis]) -> Floats:
    """|w_R|^2 on any bases: along each axis the mean part, then the squares of the residual part, added up."""
    tensor = coefficients
    for axis, basis in enumerate(bases):
        tensor = np.concatenate([basis.mean(tensor, axis), basis.adjoint(tensor, axis)], axis=axis)
    squares = tensor**2
    for axis in range(len(bases)):
        kept = squares.take([0], axis)
        squares = np.concatenate([kept, squares.sum(axis=axis, keepdims=True) - kept], axis=axis)
    return np.asarray(squares.T.ravel())  # bit i is attribute i, so the first axis varies fastest


def residual_variances(
    subset_variances: Floats, bases: Sequence[ResidualBasis], term: Term, order: Sequence[str]
) -> Floats:
    """The variance of every query of a term from the noise of every residual set.

    `subset_variances` has the shape (2,) * k over the attributes `order`, `bases` the order of the clique.
    """
    noise = reordered(subset_variances, tuple(order), term.clique)
    pairs = [residual_axes(basis) for basis in bases]
    total: Floats = np.zeros((1,) * len(bases))
    for present in np.ndindex(noise.shape):
        part = term.variances([pair[inside] for pair, inside in zip(pairs, present, strict=True)])
        if part is None:
            return np.asarray(query_shares(term, bases) @ noise.T.ravel())
        total = total + float(noise[present]) * part
    return np.broadcast_to(np.maximum(total, 0.0), [basis.size for basis in bases])
