"""ProductStrategy: one product of integer factors with its share of the budget, and the errors of what it answers.

Optimisers find a `FloatStrategy`, a few products in floats; it is rounded to integers before it measures anything.
`ProductQuery` is what is asked of the data: the exact integer answers of a Kronecker product of axis strategies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np

from hush.core.arrays import Floats, Integers, reordered
from hush.core.domain import Clique, Domain
from hush.core.errors import DataError, SizeError, WorkloadError
from hush.linops import Identity, Kronecker, LinearOperator, Total
from hush.linops.along import along_all
from hush.privacy.gate import LARGEST_ANSWER, Counts
from hush.privacy.noise import DiscreteGaussian, DiscreteLaplace
from hush.privacy.sensitivity import ONE_CELL, Neighbours, RowNorms, sensitivity
from hush.strategies.axis_strategy import AxisStrategy
from hush.strategies.strategy import NoiseKind
from hush.workloads import Term


class Recovery(StrEnum):
    """How answers to the workload are recovered from noisy answers to the strategy."""

    LOCAL = "local"  # each term from one product, by the pseudo-inverse of that product
    MARGINALS = "marginals"  # from all products, which share a factor per attribute, by their exact pseudo-inverse
    GLOBAL = "global"  # from all products, by least squares over the data vector


@dataclass(frozen=True, slots=True, eq=False)
class FloatProduct:
    """A Kronecker product of factors, one per group of attributes; everything else is totalled out.

    Each factor has largest column norm one, in the norm of the noise. Groups partition the attributes of the product;
    one after the other they are in domain order. The cells of a group of several attributes are in row-major order.
    """

    groups: tuple[Clique, ...]
    factors: tuple[LinearOperator, ...]
    share: float
    terms: tuple[int, ...] = ()  # for LOCAL: which terms of the workload are answered from it

    @property
    def clique(self) -> Clique:
        return tuple(name for group in self.groups for name in group)


@dataclass(frozen=True, slots=True, eq=False)
class FloatStrategy:
    """Products whose shares add up to one, and the error that they promise.

    `error` is the weighted sum of variances over all queries of the workload per unit of P (see `NoiseKind`).
    `method` says which operator found it.
    """

    domain: Domain
    products: tuple[FloatProduct, ...]
    noise: NoiseKind
    recovery: Recovery
    error: float
    method: str


LARGEST_ROWS = 2**32


@dataclass(frozen=True, slots=True)
class ProductQuery:
    """The integers (kron_g M_g) v, one factor per group of attributes; with no factors the total count.

    The cells of a group of several attributes are one axis, in row-major order.

    Privacy: a row adds the column of its cell, whose norms are products over the factors, so the largest are the
    products of the largest. Two columns have the inner product prod_g (M_g^T M_g)[r_g, s_g], each factor of which is at
    most D_g = max diag(M_g^T M_g) in absolute value, and at least -opposition_g D_g; so the squared norm of their
    difference is at most 2 prod D_g (1 + max_g opposition_g), and its L1 norm at most twice the largest. The total does
    not move when a row is replaced.

    Answers are exact up to `LARGEST_ANSWER`, which those of `LARGEST_ROWS` rows never exceed; a table of so many rows
    that they might raises DataError instead of wrapping.
    Reference: [ResidualPlanner, Alg. 1] and [HDMM, sec. 3.6], in integers.
    """

    groups: tuple[Clique, ...]
    factors: tuple[AxisStrategy, ...]

    def __post_init__(self) -> None:
        if len(self.groups) != len(self.factors):
            raise WorkloadError(f"{len(self.factors)} factors for {len(self.groups)} groups; give one each")
        if self.largest_factor * LARGEST_ROWS > LARGEST_ANSWER:
            raise SizeError(too_large(self.clique, self.largest_factor))

    @property
    def clique(self) -> Clique:
        return tuple(name for group in self.groups for name in group)

    @property
    def cliques(self) -> tuple[Clique, ...]:
        return (self.clique,)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of its answers: one axis per factor."""
        return tuple(factor.rows for factor in self.factors)

    @property
    def scale(self) -> int:
        """L = prod L_g: the answers are L times those of the strategy that the integers stand for."""
        return math.prod(factor.scale for factor in self.factors)

    @property
    def operator(self) -> LinearOperator | None:
        """kron_g M_g / L_g, what the answers over the scale are of the counts; None for the counts themselves."""
        if self.scale == 1 and all(isinstance(factor.operator, Identity) for factor in self.factors):
            return None
        return Kronecker([factor.scaled for factor in self.factors])

    @property
    def largest_factor(self) -> int:
        """The largest number that one row can add to an answer, in absolute value."""
        return math.prod(factor.largest_entry for factor in self.factors)

    @property
    def row_norms(self) -> RowNorms:
        """Exact for one row; for two rows exact in L2 on plain bases, else a bound."""
        return product_norms(self.factors)

    def answer(self, counts: Counts) -> Integers:
        """M along each axis; exact, since sums modulo 2^64 are right whenever the final answer fits."""
        values = counts[self.clique]
        most = LARGEST_ANSWER // self.largest_factor
        if int(values.sum()) > most:
            raise DataError(f"the table has more than {most:,} rows, too many for exact answers")
        values = values.reshape([factor.size for factor in self.factors])
        return np.ascontiguousarray(
            along_all([factor.measure for factor in self.factors], values, self.shape, np.int64)
        ).reshape(self.shape)


@lru_cache(maxsize=4096)
def product_norms(factors: tuple[AxisStrategy, ...]) -> RowNorms:
    """What one row, or two, can add to the answers of a product of factors; see `ProductQuery`."""
    if not factors:
        return RowNorms(Fraction(1), Fraction(1), Fraction(0), Fraction(0), one_cell=True)
    if all(isinstance(factor.operator, Identity) for factor in factors):
        return ONE_CELL
    l1 = Fraction(math.prod(factor.largest_l1 for factor in factors))
    l2 = Fraction(math.prod(factor.largest_l2_squared for factor in factors))
    return RowNorms(l1, l2, 2 * l1, 2 * l2 * (1 + max(factor.opposition for factor in factors)))


def too_large(clique: Clique, factor: float) -> str:
    """Why a product cannot be measured in 64-bit integers."""
    return (
        f"measuring {', '.join(clique)} exactly needs numbers up to {factor:.3g} times the rows, more than 64-bit "
        f"integers hold for {LARGEST_ROWS} rows; use fewer attributes in one set, or fewer levels"
    )


@dataclass(frozen=True, eq=False)
class ProductStrategy:
    """A product query whose noise costs at most `cost`: zCDP under Gaussian noise, epsilon under Laplace noise.

    `sizes` are those of the attributes, group by group. The cost is for privacy units of one row; for m rows it is
    m^2, or m, times that.

    Privacy: the noise is calibrated to the exact sensitivity of the integers that are measured.
    """

    groups: tuple[Clique, ...]
    sizes: tuple[tuple[int, ...], ...]
    factors: tuple[AxisStrategy, ...]
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
        return self.query.clique

    @cached_property
    def query(self) -> ProductQuery:
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
        block_of = dict(zip(clique, blocks, strict=True))
        operators: list[LinearOperator] = []
        for group, sizes in zip(self.groups, self.sizes, strict=True):
            group_blocks = [block_of.get(name, Total(size)) for name, size in zip(group, sizes, strict=True)]
            operators.append(group_blocks[0] if len(group_blocks) == 1 else Kronecker(group_blocks))
        return operators

    def supports(self, clique: Clique, blocks: Sequence[LinearOperator]) -> bool:
        """Whether a product of blocks can be answered from this product alone, without bias."""
        if not set(clique) <= set(self.clique):
            return False
        if self.full:
            return True
        operators = self.blocks_of(clique, blocks)
        return all(factor.supports(block) for factor, block in zip(self.factors, operators, strict=True))

    def supports_sums(self, clique: Clique, coefficients: Floats, groups: int) -> bool:
        """Whether sums over cells are known, for every level of the first `groups` attributes: f M^+ M = f.

        `coefficients` has the shape of the clique's table. A product with groups of several attributes knows whole
        tables or products of blocks alone; the answer is then False.
        """
        if not set(clique) <= set(self.clique) or any(len(group) > 1 for group in self.groups):
            return False
        tensor = np.asarray(coefficients, dtype=np.float64)
        for (name,), factor in zip(self.groups, self.factors, strict=True):
            if factor.full:
                continue
            axis = clique.index(name) if name in clique else 0
            asked = tensor if name in clique else np.ones(factor.size)
            if name in clique and axis < groups:  # every level with a coefficient must be known
                used = np.moveaxis(tensor, axis, 0).reshape(factor.size, -1).any(axis=1)
                asked, axis = np.diag(used.astype(np.float64)), 0
            known = factor.scaled.T.along(factor.adjoint(asked, axis), axis)
            if np.abs(known - asked).max(initial=0.0) > 1e-7 * np.abs(asked).max(initial=0.0):
                return False
        return True

    def term_variances(self, term: Term) -> Floats | None:
        """The variance of every query of a term that has a closed form for it; None for other terms.

        Of length 1 along attributes whose levels are alike.
        """
        scale, axes = self.variance, {}
        for group, factor, block in zip(self.groups, self.factors, self.blocks_of((), ()), strict=True):
            if len(group) > 1 and set(group) & set(term.clique):
                raise WorkloadError(
                    f"the errors of {term.text!r} are not known: {', '.join(group)} are measured together; use "
                    "mechanism='residual' or 'hdmm'"
                )
            if set(group) & set(term.clique):
                axes[group[0]] = factor.level_noise
            else:
                scale *= factor.total_variance(block)
        variances = term.variances([axes[name] for name in term.clique])
        return None if variances is None else np.maximum(scale * variances, 0.0)

    def total(self, clique: Clique, blocks: Sequence[LinearOperator]) -> float:
        """The summed variance of all queries of a product of blocks."""
        operators = self.blocks_of(clique, blocks)
        return self.variance * math.prod(
            factor.total_variance(block) for factor, block in zip(self.factors, operators, strict=True)
        )

    def largest(self, clique: Clique, blocks: Sequence[LinearOperator]) -> float:
        """The largest variance of a query of a product of blocks."""
        operators = self.blocks_of(clique, blocks)
        return self.variance * math.prod(
            float(factor.query_variances(block).max()) for factor, block in zip(self.factors, operators, strict=True)
        )

    def variances(self, clique: Clique, blocks: Sequence[LinearOperator]) -> Floats:
        """The variance of every query of a product of blocks, one axis per attribute of the clique in its order."""
        tensor = np.array(self.variance)
        axes: list[str] = []
        rows = {name: block.shape[0] for name, block in zip(clique, blocks, strict=True)}
        for group, factor, block in zip(self.groups, self.factors, self.blocks_of(clique, blocks), strict=True):
            inside = [name for name in group if name in rows]
            variances = factor.query_variances(block).reshape([rows[name] for name in inside])
            tensor = np.multiply.outer(tensor, variances)
            axes.extend(inside)
        return reordered(tensor, axes, clique)


def recovered(strategy: FloatStrategy, least_squares: str) -> FloatStrategy:
    """The strategy with least squares over each product separately ("local"), or over all together ("global")."""
    if least_squares not in ("local", "global"):
        raise WorkloadError(f"least_squares={least_squares!r}: expected local or global")
    several = strategy.recovery is Recovery.LOCAL and len(strategy.products) > 1
    return replace(strategy, recovery=Recovery.GLOBAL) if several and least_squares == "global" else strategy
