r"""Variances of thresholds, and of formulas, from the noise of products and of residual sets.

With s = z - 1, the query of a target y is the sum of the coefficients z^r, z^(r+1), .. of prod_i (1 + s e_{y_i}). Where
the covariance of the cells is a product kron_i C_i, the variance of y is that of two such polynomials, in s and in t,

    Var(y) = sum_{a, b} tau_a tau_b [s^a t^b] prod_i ( l_i + (s + t) g_i(y_i) + s t h_i(y_i) ),
    l = 1^T C 1,   g = C 1,   h = diag C,   tau_a = (-1)^(a - r) binom(a - 1, a - r),

where tau_a adds up the coefficients of (z - 1)^a. A sum of products has the sum of their variances. Residual set R is
the product of G_i^+ (l = g = 0) for i in R and m_i m_i^T (l = 1, g = m, h = m^2) outside. The mean over all targets has
the means of g and h in their place, so no table of targets is made for it.

Reference: [ResidualPlanner, Thm 4.7] for the covariances; [Avent 2023, sec. 4.4] for the queries.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from hush.core.arrays import Floats, reordered
from hush.core.errors import SizeError
from hush.core.memory import require_memory
from hush.linops import Identity, Total
from hush.linops.marginal_operators import subset_differences
from hush.workloads import FormulaTerm, ThresholdTerm

if TYPE_CHECKING:
    from hush.strategies.axis_strategy import AxisStrategy
    from hush.strategies.residual_basis import ResidualBasis

Axis: TypeAlias = tuple[float, Floats, Floats]  # l, and g and h of every level, or of one where all are alike
LARGEST_FORMULA = 1 << 24  # cells of a formula that is measured


@functools.cache
def signed_counts(columns: int, at_least: int) -> tuple[float, ...]:
    """tau_0 .. tau_k: how often each subset of so many agreeing columns counts, by inclusion and exclusion.

    Reference: [Avent 2023, sec. 4.4.2].

    >>> signed_counts(4, 2)
    (0.0, 0.0, 1.0, -2.0, 3.0)
    """
    return tuple(
        0.0 if a < at_least else float((-1) ** (a - at_least) * math.comb(a - 1, a - at_least))
        for a in range(columns + 1)
    )


def product_variances(axes: Sequence[Axis], at_least: int) -> Floats:
    """Var(y) of every target under a product of covariances; an axis has length 1 where its levels are alike."""
    k = len(axes)
    shape = tuple(len(h) for _, _, h in axes)
    require_memory(
        8 * (k + 1) ** 2 * math.prod(shape), "the errors of a threshold", "ask for a threshold over fewer columns"
    )
    powers = np.zeros((k + 1, k + 1, *(1,) * k))  # [s^a t^b]
    powers[0, 0] = 1.0
    for index, (level, mixed, square) in enumerate(axes):
        along = [1] * k
        along[index] = -1
        g, h = (np.reshape(values, along) for values in (mixed, square))
        grown = level * powers + np.zeros_like(h)
        grown[1:] += g * powers[:-1]
        grown[:, 1:] += g * powers[:, :-1]
        grown[1:, 1:] += h * powers[:-1, :-1]
        powers = grown
    tau = np.array(signed_counts(k, at_least))
    return np.asarray(np.tensordot(np.outer(tau, tau), powers, axes=2))


def residual_axes(basis: ResidualBasis) -> tuple[Axis, Axis]:
    """The axis of a basis outside and inside a residual set; of one level where all are alike."""
    n = basis.size
    if basis.is_plain:
        return (1.0, np.array([1 / n]), np.array([1 / n**2])), (0.0, np.zeros(1), np.array([(n - 1) / n]))
    tilt = np.asarray(basis.spread(np.ones((1, 1)), 0)[:, 0])
    return (1.0, tilt, tilt**2), (0.0, np.zeros(n), basis.query_variances(Identity(n)))


def set_weights(term: ThresholdTerm | FormulaTerm, bases: Sequence[ResidualBasis]) -> Floats:
    """The share of the noise of each subset's residual in the mean variance of a term's queries: (2^k,).

    Bit i of a subset's number is attribute i of the clique.
    """
    if isinstance(term, FormulaTerm):
        return _formula_weights(term, bases)
    return _threshold_weights(tuple(_means(basis) for basis in bases), term.at_least)


@functools.lru_cache(maxsize=4096)
def _threshold_weights(means: tuple[tuple[float, float, float], ...], at_least: int) -> Floats:
    even = all(square == mean**2 for mean, square, _ in means)
    weights = _even_weights(means, at_least) if even else _uneven_weights(means, at_least)
    weights = np.where(weights > 1e-12 * weights.max(), weights, 0.0)  # zero up to rounding is zero
    weights.setflags(write=False)
    return weights


def _even_weights(means: tuple[tuple[float, float, float], ...], at_least: int) -> Floats:
    """lambda_R^2 prod_{i in R} a_i, lambda_R from (z - 1)^|R| prod_{i not in R} (1 + (z - 1) m_i): all levels alike."""
    polynomials, residuals = np.ones((1, 1)), np.ones(1)
    for mean, _, residual in means:
        raised, kept = np.pad(polynomials, ((0, 0), (1, 0))), np.pad(polynomials, ((0, 0), (0, 1)))
        polynomials = np.concatenate([mean * raised + (1 - mean) * kept, raised - kept])
        residuals = np.concatenate([residuals, residual * residuals])
    return np.asarray(polynomials[:, at_least:].sum(axis=1) ** 2 * residuals)


def _uneven_weights(means: tuple[tuple[float, float, float], ...], at_least: int) -> Floats:
    weights = np.empty(1 << len(means))
    for number in range(len(weights)):
        axes: list[Axis] = [
            (0.0, np.zeros(1), np.array([residual])) if number >> i & 1 else (1.0, np.array([mean]), np.array([square]))
            for i, (mean, square, residual) in enumerate(means)
        ]
        weights[number] = product_variances(axes, at_least).item()
    return weights


def _means(basis: ResidualBasis) -> tuple[float, float, float]:
    """The means over levels of m, of m^2 and of the residual's variance."""
    outside, inside = residual_axes(basis)
    mean = float(outside[1].mean())
    return mean, mean**2 if basis.is_plain else float(outside[2].mean()), float(inside[2].mean())


def _formula_weights(term: FormulaTerm, bases: Sequence[ResidualBasis]) -> Floats:
    """|w_R|^2 of the coefficients w of a formula, brought to the residual of every subset R.

    On plain bases |w_R|^2 = E_R / prod_{i not in R} n_i, where E_R is the part of |w|^2 that depends on exactly R, and
    sum_{R within B} E_R is the sum of squares of w totalled down to B, over the cells that each total has.
    """
    cells = math.prod(term.diagram.sizes)
    if cells > LARGEST_FORMULA:
        raise SizeError(
            f"{term.text!r} is over {cells:,} cells: at most {LARGEST_FORMULA:,} can be planned for; leave it out"
        )
    if not all(basis.is_plain for basis in bases):
        return _tilted_weights(term, bases)
    inside, k = term.diagram.inside().astype(np.float64), len(bases)
    squares, outside = np.empty(1 << k), np.empty(1 << k)
    for number in range(1 << k):
        summed = tuple(axis for axis in range(k) if not number >> axis & 1)
        outside[number] = math.prod(bases[axis].size for axis in summed)
        squares[number] = np.sum(inside.sum(axis=summed) ** 2) / outside[number]
    weights = np.maximum(subset_differences(squares, k), 0.0) / outside
    return np.where(weights > 1e-12 * weights.max(), weights, 0.0)


def _tilted_weights(term: FormulaTerm, bases: Sequence[ResidualBasis]) -> Floats:
    tensor = term.diagram.inside().astype(np.float64)
    for axis, basis in enumerate(bases):
        tensor = np.concatenate([basis.mean(tensor, axis), basis.adjoint(tensor, axis)], axis=axis)
    squares = tensor**2
    for axis in range(len(bases)):
        kept = squares.take([0], axis)
        squares = np.concatenate([kept, squares.sum(axis=axis, keepdims=True) - kept], axis=axis)
    return np.asarray(squares.T.ravel())  # bit i is attribute i, so the first axis varies fastest


def threshold_variances(parts: Iterable[tuple[float, Sequence[Axis]]], term: ThresholdTerm) -> Floats:
    """Var(y) of every target under a sum of products, each with its scale; length 1 where levels are alike."""
    total: Floats = np.zeros((1,) * len(term.clique))
    for scale, axes in parts:
        total = total + scale * product_variances(axes, term.at_least)
    return np.maximum(total, 0.0)


def residual_variances(
    subset_variances: Floats, bases: Sequence[ResidualBasis], term: ThresholdTerm, order: Sequence[str]
) -> Floats:
    """Var(y) from the noise of every residual set, `subset_variances` of shape (2,) * k over the attributes `order`."""
    noise = reordered(subset_variances, tuple(order), term.clique)
    pairs = [residual_axes(basis) for basis in bases]
    parts = (
        (float(noise[present]), [pair[inside] for pair, inside in zip(pairs, present, strict=True)])
        for present in np.ndindex(noise.shape)
    )
    return threshold_variances(parts, term)


def factor_axis(factor: AxisStrategy) -> Axis:
    """The axis of a product's factor on one attribute; of one level where all are alike."""
    n = factor.size
    if factor.levels_alike:
        total = factor.total_variance(Total(n))
        return total, np.array([total / n]), factor.query_variances(Identity(n))[:1]
    mixed = factor.estimate(factor.adjoint(np.ones(n), 0), 0)
    return float(mixed.sum()), np.asarray(mixed), factor.query_variances(Identity(n))
