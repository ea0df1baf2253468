r"""Unbiased estimates from residual answers, with exact covariances of any sums of cells.

The residual estimate of set A' has covariance sigma^2_{A'} kron_{i in A'} G_i^+, independent of all others. So the
cells a of marginal A and b of marginal B have, with A' over the subsets of both A and B,

    Cov = sum_{A'} sigma^2_{A'} prod_{i in A'} G_i^+[a_i, b_i] prod_{j in A \ A'} 1 / l_j prod_{j in B \ A'} 1 / l_j;

where G^+ = I - 1 1^T / l on plain attributes. Coefficients on the cells of several marginals are collapsed onto
residual sets and added up there: Var = sum_{A'} sigma^2_{A'} |coefficients of A'|^2.

Reference: [ResidualPlanner, Thm 4.7].
Differs from [ResidualPlanner, Thm 4.7]: the covariance printed there holds only for two cells that differ in every
attribute; this one holds for any two, and across marginals.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from hush.core.arrays import Floats, reordered
from hush.core.domain import Clique, Domain
from hush.core.errors import WorkloadError
from hush.inference.error_law import ErrorLaw, Law, Part, largest_of, product_part, rounding_error
from hush.inference.residual_reconstruction import Reconstruction, collapse, subset_levels
from hush.linops import Identity, LinearOperator
from hush.linops.along import along
from hush.privacy.measurement import Measurements
from hush.privacy.noise import DiscreteGaussian
from hush.strategies.residual_strategy import ResidualStrategy

Combination: TypeAlias = Sequence[tuple[Iterable[str], Any]]


def variance_of(strategy: ResidualStrategy, combination: Combination) -> float:
    """The variance of a sum of cells, given as cliques and coefficients on their marginals in the clique's order.

    Exact for any number of overlapping marginals. O(sum of |A| cells(A)) for plain attributes.

    >>> from hush.core.domain import Domain
    >>> from hush.strategies.select_residual import select_residual
    >>> from hush.workloads import Workload
    >>> plan = select_residual(Workload.kway(Domain({"a": 2, "b": 3}), 2), rho=0.5).value
    >>> round(variance_of(plan, [(("a", "b"), np.ones((2, 3))), ((), -1.0)]), 12)
    0.0
    """
    return covariance_of(strategy, combination, combination)


def covariance_of(strategy: ResidualStrategy, first: Combination, second: Combination) -> float:
    """The covariance of two sums of cells."""
    left = _collapsed(strategy, first)
    right = left if second is first else _collapsed(strategy, second)
    shared = left.keys() & right.keys()
    return float(sum(strategy.sigma_squared[index] * np.sum(left[index] * right[index]) for index in shared))


def combination_law(answers: Measurements[ResidualStrategy], combination: Combination) -> ErrorLaw:
    """The law of the error of a sum of cells."""
    return set_law(answers, _collapsed(answers.strategy, combination))


def set_law(answers: Measurements[ResidualStrategy], coefficients: Mapping[int, Floats]) -> ErrorLaw:
    """The law of the error of a sum with coefficients on residual answers, by position of the set."""
    strategy, rounding = answers.strategy, 0.0
    parts: list[Part] = []
    for index, values in coefficients.items():
        scale = strategy.query(index).scale
        law = DiscreteGaussian(Fraction(strategy.sigma_squared[index]) * scale**2)
        parts.append((values / scale, np.ones(1), law))
        rounding += rounding_error(values / scale, np.ones(1), largest_of(answers[index]))
    return ErrorLaw(parts, rounding)


def _collapsed(strategy: ResidualStrategy, combination: Combination) -> dict[int, Floats]:
    """Coefficients on the residual answers of each set, added up over the marginals of a combination."""
    total: dict[int, Floats] = {}
    for clique, coefficients in combination:
        names = strategy.domain.check(clique)
        ordered = strategy.domain.clique(names)
        shape, given = strategy.domain.sizes(names), np.asarray(coefficients, dtype=np.float64)
        if given.shape != shape or not np.isfinite(given).all():
            raise WorkloadError(
                f"coefficients on {names!r}: expected finite numbers of shape {shape}, got {given.shape}"
            )
        extended = collapse(reordered(given, names, ordered), strategy.clique_bases(ordered))
        subsets = strategy.closure.subsets(ordered)
        for mask, levels in subset_levels(len(ordered)):
            index = int(subsets[mask])
            total[index] = total[index] + extended[levels] if index in total else np.asarray(extended[levels])
    return total


@dataclass(frozen=True, slots=True)
class NoisySource:
    """A noisy table that residual answers combine: the variance of its numbers, and the law of its integers."""

    clique: Clique
    variance: float
    law: Law
    scale: int = 1


class ResidualEstimates:
    """Unbiased counts of every measured clique, mutually consistent; implements `Estimates`."""

    def __init__(self, answers: Measurements[ResidualStrategy], sources: Sequence[NoisySource] | None = None) -> None:
        self._answers = answers
        self._sources = sources  # the tables that the answers combine; None if the answers were measured themselves
        self._reconstruction = Reconstruction(answers)

    @cached_property
    def _largest(self) -> float:
        """The largest answer."""
        return largest_of(self._answers.flat)

    @property
    def _whole(self) -> bool:
        return bool(self._answers.filled.all())

    @property
    def strategy(self) -> ResidualStrategy:
        """The measured sets, and their noise."""
        return self._answers.strategy

    @property
    def domain(self) -> Domain:
        return self.strategy.domain

    @cached_property
    def cliques(self) -> tuple[Clique, ...]:
        largest: list[Clique] = []
        inner: set[Clique] = set()
        for clique in reversed(self.strategy.closure.cliques):
            if not (self._whole or self.covers(clique)):
                continue
            if clique not in inner:
                largest.append(clique)
            inner.update(clique[:i] + clique[i + 1 :] for i in range(len(clique)))
        return tuple(reversed(largest))

    def covers(self, clique: Iterable[str]) -> bool:
        """Whether the clique and all its subsets were measured."""
        names = self.domain.clique(clique)
        if names not in self.strategy.closure:
            return False
        return self._whole or bool(self._answers.filled[self.strategy.closure.subsets(names)].all())

    def for_sums(self, clique: Clique, coefficients: Floats, groups: int) -> None:
        """None, because a set is measured cell by cell or not at all."""

    def counts(self, clique: Clique) -> Floats:
        return np.asarray(self._reconstruction.marginal(clique), order="C")

    def all(self) -> Iterator[tuple[Clique, Floats]]:
        """A stream of every measured clique with its estimated counts; copy arrays to keep them."""
        return self._reconstruction.marginals([clique for clique in self.strategy.closure if self.covers(clique)])

    def covariance(self, clique: Clique, first: Floats, second: Floats, groups: int) -> Floats:
        """The covariance of two sums over cells for every combination of levels of the first `groups` attributes.

        The noise of residual set A' enters a sum through its coefficients c, centred along A' and averaged along the
        other axes: cov = sum_{A'} sigma^2_{A'} <first_{A'}, second_{A'}>. Along a grouped axis the coefficients are
        those of one level, and its centred and mean parts are known for every level. O(k cells + 2^k prod groups).
        """
        # The variance of every residual set, for every combination of levels of the grouped attributes.
        names = self.domain.check(clique)
        bases = self.strategy.clique_bases(names)
        ordered = self.domain.clique(names)
        weights = reordered(self.strategy.subset_variances(ordered), ordered, names)
        for axis, (basis, size) in enumerate(zip(bases[:groups], self.domain.sizes(names), strict=False)):
            level = Identity(size)
            pair = np.column_stack([basis.query_mean(level), basis.query_variances(level)])
            weights = along(pair, weights, axis)

        # The inner products of both sums' coefficients on every residual set.
        products = collapse(np.asarray(first, dtype=np.float64), bases, start=groups)
        products = products * (
            products if second is first else collapse(np.asarray(second, dtype=np.float64), bases, start=groups)
        )
        for axis in range(groups, len(names)):
            kept = np.take(products, [0], axis=axis)
            rest = np.take(products, range(1, products.shape[axis]), axis=axis).sum(axis=axis, keepdims=True)
            products = np.concatenate([kept, rest], axis=axis)
        return np.asarray((weights * products).sum(axis=tuple(range(groups, len(names)))))

    def product(self, clique: Clique, blocks: Sequence[LinearOperator]) -> tuple[Floats, Floats]:
        return self._reconstruction.query(clique, blocks), self.strategy.query_variances(clique, blocks)

    @property
    def laplace(self) -> bool:
        return any(source.law.name == "laplace" for source in self._sources or ())

    def alike(self, name: str) -> bool:
        return self.strategy.basis(name).is_plain

    def error_law(
        self, clique: Clique, coefficients: Floats, blocks: Sequence[LinearOperator] | None = None
    ) -> ErrorLaw:
        """The law of the error of a sum, from the noise of the residual answers or of the tables they combine.

        A combined answer of set A averages those of the tables t with the weights w_tA of `marginal_noise`, so that
        cell x of t has the coefficient sum_{A in t} w_tA c_A[x_A].
        """
        names = self.domain.check(clique)
        ordered = self.domain.clique(names)
        bases = self.strategy.clique_bases(ordered)
        extended = collapse(reordered(np.asarray(coefficients, dtype=np.float64), names, ordered), bases)
        sets = list(zip(self.strategy.closure.subsets(ordered).tolist(), subset_levels(len(ordered)), strict=True))
        if self._sources is None:
            return set_law(self._answers, {index: np.asarray(extended[levels]) for index, (_, levels) in sets})
        parts = [
            self._part(source, ordered, [(index, mask, np.asarray(extended[levels])) for index, (mask, levels) in sets])
            for source in self._sources
        ]
        return ErrorLaw(parts, rounding_error(extended, np.ones(1), self._largest))

    def _part(self, source: NoisySource, clique: Clique, sets: list[tuple[int, int, Floats]]) -> Part:
        """The coefficients of a source's noise in a sum, given by its coefficients on residual sets."""
        shared = [name for name in clique if name in source.clique]
        total = {name: self._total(name) for name in shared}
        table = np.zeros([len(total[name]) for name in shared])
        for index, mask, coefficients in sets:
            inside = [name for axis, name in enumerate(clique) if mask >> axis & 1]
            if not set(inside) <= set(shared):
                continue
            outside = math.prod(self.strategy.basis(n).total_variance_factor for n in source.clique if n not in inside)
            weight = self.strategy.sigma_squared[index] / (source.variance * outside)
            for name in shared:
                if name not in inside:
                    coefficients = np.multiply.outer(coefficients, total[name])
                    inside = [*inside, name]
            table += weight * reordered(coefficients, inside, shared)
        others = [self._total(name) for name in source.clique if name not in shared]
        return product_part(table / source.scale, others, source.law)

    def _total(self, name: str) -> Floats:
        """The coefficients of an attribute's answers in the total over the attribute."""
        basis = self.strategy.basis(name)
        return np.asarray(basis.total_of(np.eye(basis.rows), 0)[0])
