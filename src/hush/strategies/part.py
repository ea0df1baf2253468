"""Part: one product of integer factors with its own share of the budget, and the errors of what it answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from hush.domain import Clique
from hush.errors import WorkloadError
from hush.linops import Kronecker, LinearOperator, Total
from hush.privacy.neighbours import Neighbours
from hush.privacy.noise import DiscreteGaussian, DiscreteLaplace
from hush.privacy.sensitivity import sensitivity
from hush.strategies.factor import Factor
from hush.strategies.noise_kind import NoiseKind
from hush.strategies.product_query import ProductQuery

Floats = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, eq=False)
class Part:
    """A product query whose noise costs at most `cost`: zCDP under Gaussian noise, epsilon under Laplace noise.

    `sizes` are those of the attributes, group by group. The cost is for privacy units of one row; for m rows it is
    m^2, or m, times that.

    Privacy: the noise is calibrated to the exact sensitivity of the integers that are measured.
    """

    groups: tuple[Clique, ...]
    sizes: tuple[tuple[int, ...], ...]
    factors: tuple[Factor, ...]
    cost: Fraction
    noise: NoiseKind
    neighbours: Neighbours = Neighbours.ADD_REMOVE

    def __post_init__(self) -> None:
        for group, sizes, factor in zip(self.groups, self.sizes, self.factors, strict=True):
            if len(group) != len(sizes) or math.prod(sizes) != factor.size:
                raise WorkloadError(f"the attributes {group!r} have {math.prod(sizes)} cells, their factor {factor!r}")
        self.query.row_norms  # noqa: B018 - refuses products too large for 64-bit integers

    @cached_property
    def clique(self) -> Clique:
        """The attributes it measures, in domain order."""
        return self.query.clique

    @cached_property
    def query(self) -> ProductQuery:
        """The exact integers it asks for."""
        return ProductQuery(self.groups, self.factors)

    @cached_property
    def law(self) -> DiscreteGaussian | DiscreteLaplace:
        """The least noise within the cost."""
        bound = sensitivity(self.query.row_norms, max_rows=1, neighbours=self.neighbours)
        if self.noise is NoiseKind.GAUSSIAN:
            return DiscreteGaussian.for_rho(self.cost, bound)
        return DiscreteLaplace.for_epsilon(self.cost, bound)

    @cached_property
    def variance(self) -> float:
        """The variance of the noise on answers divided by the scale of the product."""
        return (self.law.stddev / self.query.scale) ** 2

    @property
    def full(self) -> bool:
        """Whether every count over its attributes can be estimated."""
        return all(factor.full for factor in self.factors)

    def blocks_of(self, clique: Clique, blocks: Sequence[LinearOperator]) -> list[LinearOperator]:
        """One operator per group for a product of blocks on some of the attributes; the others are totalled out."""
        own = dict(zip(clique, blocks, strict=True))
        made: list[LinearOperator] = []
        for group, sizes in zip(self.groups, self.sizes, strict=True):
            each = [own.get(name, Total(size)) for name, size in zip(group, sizes, strict=True)]
            made.append(each[0] if len(each) == 1 else Kronecker(each))
        return made

    def supports(self, clique: Clique, blocks: Sequence[LinearOperator]) -> bool:
        """Whether a product of blocks can be answered from this part alone, without bias."""
        if not set(clique) <= set(self.clique):
            return False
        if self.full:
            return True
        own = self.blocks_of(clique, blocks)
        return all(factor.supports(block) for factor, block in zip(self.factors, own, strict=True))

    def supports_sums(self, clique: Clique, coefficients: Floats, groups: int) -> bool:
        """Whether sums over cells are known, for every level of the first `groups` attributes: f M^+ M = f.

        `coefficients` has the shape of the clique's table. Parts with groups of several attributes know whole tables
        or products of blocks, and are not asked.
        """
        if not set(clique) <= set(self.clique) or any(len(group) > 1 for group in self.groups):
            return False
        tensor = np.asarray(coefficients, dtype=np.float64)
        for (name,), factor in zip(self.groups, self.factors, strict=True):
            if factor.full:
                continue
            axis = clique.index(name) if name in clique else 0
            asked = tensor if name in clique else np.ones(factor.size)
            if name in clique and axis < groups:  # each level that counts must be known by itself
                used = np.moveaxis(tensor, axis, 0).reshape(factor.size, -1).any(axis=1)
                asked, axis = np.diag(used.astype(np.float64)), 0
            known = factor.backward(factor.adjoint(asked, axis), axis)
            if np.abs(known - asked).max(initial=0.0) > 1e-7 * np.abs(asked).max(initial=0.0):
                return False
        return True

    def total(self, clique: Clique, blocks: Sequence[LinearOperator]) -> float:
        """The summed variance of all queries of a product of blocks."""
        own = self.blocks_of(clique, blocks)
        return self.variance * math.prod(
            factor.total_variance(block) for factor, block in zip(self.factors, own, strict=True)
        )

    def largest(self, clique: Clique, blocks: Sequence[LinearOperator]) -> float:
        """The largest variance of a query of a product of blocks."""
        own = self.blocks_of(clique, blocks)
        return self.variance * math.prod(
            float(factor.query_variances(block).max()) for factor, block in zip(self.factors, own, strict=True)
        )

    def variances(self, clique: Clique, blocks: Sequence[LinearOperator]) -> Floats:
        """The variance of every query of a product of blocks, one axis per attribute of the clique in its order."""
        tensor = np.array(self.variance)
        axes: list[str] = []
        rows = {name: block.shape[0] for name, block in zip(clique, blocks, strict=True)}
        for group, factor, block in zip(self.groups, self.factors, self.blocks_of(clique, blocks), strict=True):
            inside = [name for name in group if name in rows]
            own = factor.query_variances(block).reshape([rows[name] for name in inside])
            tensor = np.multiply.outer(tensor, own)
            axes.extend(inside)
        return np.transpose(tensor, [axes.index(name) for name in clique])
