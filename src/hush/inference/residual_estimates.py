r"""Covariances of reconstructed counts, and the exact variance of any linear combination of them.

The residual estimate of set A' has covariance sigma^2_{A'} kron_{i in A'} G_i^+, independent of all others, so that the
cells a of marginal A and b of marginal B have, with A' over the sets within both A and B,

    Cov = sum_{A'} sigma^2_{A'} prod_{i in A'} G_i^+[a_i, b_i] prod_{j in A \ A'} 1 / l_j prod_{j in B \ A'} 1 / l_j;

on plain attributes G^+ = I - 1 1^T / l. Coefficients on the cells of several marginals are collapsed onto residual
sets and added up there, and Var = sum_{A'} sigma^2_{A'} |coefficients of A'|^2.

Reference: [ResidualPlanner, Thm 4.7].
Differs from [ResidualPlanner, Thm 4.7]: the covariance printed there holds only for two cells that differ in every
attribute; this one holds for any two, and across marginals.

ResidualEstimates: what can be asked of residual answers, with exact covariances of grouped sums.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from hush.arrays import Floats, reordered
from hush.domain import Clique, Domain
from hush.errors import SizeError, WorkloadError
from hush.inference.residual_reconstruction import Reconstruction, collapse, expand, subset_levels
from hush.linops import Identity, LinearOperator
from hush.linops.along import along
from hush.privacy.measurement import Measurements
from hush.strategies.residual_basis import ResidualBasis
from hush.strategies.residual_strategy import ResidualStrategy

Combination: TypeAlias = Sequence[tuple[Iterable[str], Any]]

LARGEST_MATRIX = 1 << 26


def variance_of(strategy: ResidualStrategy, combination: Combination) -> float:
    """The variance of a sum of cells: each part is a clique and coefficients over its marginal, in the clique's order.

    Exact for any number of overlapping marginals. O(sum of |A| cells(A)) for plain attributes.

    >>> from hush.domain import Domain
    >>> from hush.strategies.select_residual import select_residual
    >>> from hush.workloads import Workload
    >>> plan = select_residual(Workload.kway(Domain({"a": 2, "b": 3}), 2), rho=0.5).value
    >>> round(variance_of(plan, [(("a", "b"), np.ones((2, 3))), ((), -1.0)]), 12)
    0.0
    """
    own = _collapsed(strategy, combination)
    return float(sum(strategy.sigma_squared[index] * np.sum(values**2) for index, values in own.items()))


def covariance_of(strategy: ResidualStrategy, first: Combination, second: Combination) -> float:
    """The covariance of two sums of cells."""
    own, other = _collapsed(strategy, first), _collapsed(strategy, second)
    return float(
        sum(strategy.sigma_squared[index] * np.sum(own[index] * other[index]) for index in own.keys() & other.keys())
    )


def variance_of_product(strategy: ResidualStrategy, clique: Iterable[str], vectors: Sequence[Any]) -> float:
    """The variance of one product query: coefficient prod_i vectors[i][a_i] on cell a. O(2^k + sum of l_i k_i)."""
    names = strategy.domain.check(clique)
    if len(vectors) != len(names):
        raise WorkloadError(f"{len(vectors)} vectors for {len(names)} attributes; give one each")
    pairs = {}
    for name, vector in zip(names, vectors, strict=True):
        w = _coefficients(vector, (strategy.domain[name],), (name,))
        residual = strategy.basis(name).adjoint(w, 0)
        pairs[name] = (float(strategy.basis(name).mean(w, 0)[0]) ** 2, float(residual @ residual))
    values = strategy.sigma_squared[strategy.closure.subsets(names)]
    for name in strategy.domain.clique(names):  # the lowest bit is the first attribute
        values = values[0::2] * pairs[name][0] + values[1::2] * pairs[name][1]
    return float(values[0])


def covariance_matrix(strategy: ResidualStrategy, clique: Iterable[str], other: Iterable[str] | None = None) -> Floats:
    """Covariances of all cells of a marginal with all cells of another, or of itself: (cells, other cells)."""
    rows = strategy.domain.check(clique)
    columns = rows if other is None else strategy.domain.check(other)
    cells = strategy.domain.size(rows) * strategy.domain.size(columns)
    if cells > LARGEST_MATRIX:
        raise SizeError(f"a covariance matrix of {cells} entries is too large; use variance_of or MarginalCovariance")
    strategy.closure.index(rows)
    strategy.closure.index(columns)
    shared = strategy.domain.clique(set(rows) & set(columns))
    subsets = strategy.closure.subsets(shared)
    total = np.zeros((strategy.domain.size(rows), strategy.domain.size(columns)))
    for mask, index in enumerate(subsets.tolist()):
        inside = {name for bit, name in enumerate(shared) if mask >> bit & 1}
        factors = {}
        for name in strategy.domain.clique({*rows, *columns}):
            n = strategy.domain[name]
            shape = (n if name in rows else 1, n if name in columns else 1)
            tilt = strategy.basis(name).spread(np.ones(1), 0)
            mean = np.outer(tilt, tilt) if name in shared else tilt.reshape(shape)
            factors[name] = strategy.basis(name).inverse_gram if name in inside else mean
        total += strategy.sigma_squared[index] * _ordered_product(factors, rows, columns)
    return total


class MarginalCovariance(LinearOperator):
    """The covariance matrix of a marginal's cells in row-major order, never built: O(|A| cells) per column."""

    def __init__(self, strategy: ResidualStrategy, clique: Iterable[str]) -> None:
        self.clique = strategy.domain.check(clique)
        self.sizes = strategy.domain.sizes(self.clique)
        self.bases = strategy.clique_bases(self.clique)
        ordered = strategy.domain.clique(self.clique)
        sigma_squared = strategy.sigma_squared[strategy.closure.subsets(ordered)].reshape((2,) * len(ordered)).T
        self._noise = reordered(sigma_squared, ordered, self.clique)

    @property
    def shape(self) -> tuple[int, int]:
        cells = int(np.prod(self.sizes, dtype=np.int64))
        return cells, cells

    def matmat(self, x: Floats) -> Floats:
        return np.column_stack([self._apply(column) for column in np.asarray(x).T])

    def transpose(self) -> LinearOperator:
        return self

    def _apply(self, column: Floats) -> Floats:
        extended = collapse(column.reshape(self.sizes), self.bases)
        for mask, levels in subset_levels(len(self.bases)):
            extended[levels] *= self._noise[tuple(mask >> axis & 1 for axis in range(len(self.bases)))]
        return expand(extended, self.bases).ravel()


def _collapsed(strategy: ResidualStrategy, combination: Combination) -> dict[int, Floats]:
    """Coefficients on the residual answers of each set, added up over the parts of a combination."""
    total: dict[int, Floats] = {}
    for clique, coefficients in combination:
        names = strategy.domain.check(clique)
        ordered = strategy.domain.clique(names)
        own = _coefficients(coefficients, strategy.domain.sizes(names), names)
        own = reordered(own, names, ordered)
        extended = collapse(own, strategy.clique_bases(ordered))
        subsets = strategy.closure.subsets(ordered)
        for mask, levels in subset_levels(len(ordered)):
            index = int(subsets[mask])
            total[index] = total[index] + extended[levels] if index in total else np.asarray(extended[levels])
    return total


def _coefficients(values: Any, shape: tuple[int, ...], names: tuple[str, ...]) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.shape != shape or not np.isfinite(array).all():
        raise WorkloadError(f"coefficients on {names!r}: expected finite numbers of shape {shape}, got {array.shape}")
    return array


def _ordered_product(factors: dict[str, Floats], rows: tuple[str, ...], columns: tuple[str, ...]) -> Floats:
    """The Kronecker product of factors with row axes in the order of `rows` and column axes in that of `columns`."""
    tensor = np.ones(())
    for factor in factors.values():
        tensor = np.multiply.outer(tensor, factor)
    names = list(factors)
    own = [2 * names.index(name) for name in rows] + [2 * names.index(name) + 1 for name in columns]
    rest = [axis for axis in range(tensor.ndim) if axis not in own]  # of length 1
    height = int(np.prod([factors[name].shape[0] for name in rows], dtype=np.int64))
    return np.asarray(np.transpose(tensor, [*own, *rest]).reshape(height, -1))


class ResidualEstimates:
    """Unbiased counts of every measured clique, mutually consistent; implements `Estimates`."""

    def __init__(self, answers: Measurements[ResidualStrategy]) -> None:
        self._answers = answers
        self._reconstruction = Reconstruction(answers)

    @property
    def _whole(self) -> bool:
        return bool(self._answers.filled.all())

    @property
    def strategy(self) -> ResidualStrategy:
        """What was measured, and with how much noise."""
        return self._answers.strategy

    @property
    def domain(self) -> Domain:
        """The attributes and their sizes."""
        return self.strategy.domain

    @cached_property
    def cliques(self) -> tuple[Clique, ...]:
        """The largest cliques that can be estimated."""
        found: list[Clique] = []
        inner: set[Clique] = set()
        for clique in reversed(self.strategy.closure.cliques):
            if not (self._whole or self.covers(clique)):
                continue
            if clique not in inner:
                found.append(clique)
            inner.update(clique[:i] + clique[i + 1 :] for i in range(len(clique)))
        return tuple(reversed(found))

    def covers(self, clique: Iterable[str]) -> bool:
        """Whether the clique and all its subsets were measured."""
        names = self.domain.clique(clique)
        if names not in self.strategy.closure:
            return False
        return self._whole or bool(self._answers.filled[self.strategy.closure.subsets(names)].all())

    def for_sums(self, clique: Clique, coefficients: Floats, groups: int) -> None:
        """Every set is known level by level, or not at all."""

    def counts(self, clique: Clique) -> Floats:
        """Estimated counts over a clique, in the order of its names."""
        return np.asarray(self._reconstruction.marginal(clique), order="C")

    def all(self) -> Iterator[tuple[Clique, Floats]]:
        """Every measured clique with its estimated counts, in a stream; copy the arrays that are to be kept."""
        return self._reconstruction.marginals([clique for clique in self.strategy.closure if self.covers(clique)])

    def covariance(self, clique: Clique, first: Floats, second: Floats, groups: int) -> Floats:
        """The covariance of two sums over cells for every combination of levels of the first `groups` attributes.

        The noise of residual set A' enters a sum with coefficients c through c taken off its mean along A' and averaged
        along the rest, so cov = sum_{A'} sigma^2_{A'} <first_{A'}, second_{A'}>. Along a grouped axis the coefficients
        are those of one level, whose residual and mean parts are known per level. O(k cells + 2^k prod groups).

        Reference: [ResidualPlanner, Thm 4.7]; differs from its covariance of two cells, which holds only for cells that
        differ in every attribute.
        """
        names = self.domain.check(clique)
        bases = self.strategy.clique_bases(names)
        weights = self._sigma_squared(names)  # (2,) * k: present or not, per attribute in the order given
        for axis, (basis, size) in enumerate(zip(bases[:groups], self.domain.sizes(names), strict=False)):
            level = Identity(size)
            pair = np.column_stack([basis.query_mean(level), basis.query_variances(level)])
            weights = along(pair, weights, axis)
        products = _split(first, bases, groups)
        products = products * (products if second is first else _split(second, bases, groups))
        for axis in range(groups, len(names)):
            kept = np.take(products, [0], axis=axis)
            rest = np.take(products, range(1, products.shape[axis]), axis=axis).sum(axis=axis, keepdims=True)
            products = np.concatenate([kept, rest], axis=axis)
        return np.asarray((weights * products).sum(axis=tuple(range(groups, len(names)))))

    def product(self, clique: Clique, blocks: Sequence[LinearOperator]) -> tuple[Floats, Floats]:
        """The estimated answers to a product of query blocks and their exact variances, one axis per block."""
        return self._reconstruction.query(clique, blocks), self.strategy.query_variances(clique, blocks)

    def _sigma_squared(self, names: Clique) -> Floats:
        ordered = self.domain.clique(names)
        k = len(names)
        # bit i of a subset's number is attribute i of the ordered clique, so the axes come out in reverse
        tensor = self.strategy.sigma_squared[self.strategy.closure.subsets(ordered)].reshape((2,) * k).T
        return reordered(tensor, ordered, names)


def _split(coefficients: Floats, bases: tuple[ResidualBasis, ...], groups: int) -> Floats:
    """Coefficients along each axis after the groups as their mean part, then their residual part."""
    found = np.asarray(coefficients, dtype=np.float64)
    for axis in range(groups, len(bases)):
        found = np.concatenate([bases[axis].mean(found, axis), bases[axis].adjoint(found, axis)], axis=axis)
    return found
