"""Strategies in files: what is measured and with how much noise; loading builds it anew and refuses contradictions."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta

from hush.core.domain import Domain
from hush.core.errors import ArchiveError, HushError
from hush.files.codec import CliqueTable, FloatVector, IntMatrix, Size, Stored, Whole
from hush.linops import CompoundSymmetric, Dense, Identity, LevelsAndTotal
from hush.privacy.noise import DiscreteGaussian, DiscreteLaplace
from hush.privacy.sensitivity import Neighbours
from hush.strategies.axis_strategy import AxisStrategy
from hush.strategies.closure import Closure
from hush.strategies.linear_strategy import LinearStrategy
from hush.strategies.product_strategy import ProductStrategy, Recovery
from hush.strategies.residual_basis import ResidualBasis
from hush.strategies.residual_strategy import ResidualStrategy
from hush.strategies.strategy import NoiseKind, Strategy
from hush.strategies.sum_strategy import SumStrategy
from hush.workloads import Workload
from hush.workloads.sum_term import row_terms

Scale = Annotated[int, Meta(ge=1, lt=2**62)]  # entries are below 2^31, and scales about as large


class BasisFile(Stored):
    """A residual basis that is a matrix of integers over a scale."""

    scale: Scale
    matrix: IntMatrix


class SumStrategyFile(Stored):
    """The noise of a workload's sums: sigma^2 or scale of each, in order."""

    noise: NoiseKind
    scales: list[Fraction]
    neighbours: Neighbours

    @classmethod
    def of(cls, sums: SumStrategy) -> SumStrategyFile:
        """The stored form; the terms are those of the workload."""
        scales = [law.scale if isinstance(law, DiscreteLaplace) else law.variance_parameter for law in sums.laws]  # type: ignore[attr-defined]
        return cls.from_attributes(sums, scales=scales)

    def build(self, workload: Workload) -> SumStrategy:
        """The sums; refused where they do not fit the workload or the noise is none."""
        law = DiscreteLaplace if self.noise is NoiseKind.LAPLACE else DiscreteGaussian
        terms = workload.sum_terms
        if len(self.scales) > len(terms):
            terms = (*terms, *row_terms(terms))
        try:
            return SumStrategy(terms, tuple(law(scale) for scale in self.scales), self.neighbours)
        except HushError:
            raise ArchiveError("the file's sums do not fit its workload; make it anew") from None


def sums_inconsistency(sums: SumStrategy | None, workload: Workload, neighbours: Neighbours) -> str | None:
    """Explain why the sums of a file do not belong to its workload and neighbours; None if they do."""
    if (sums is None) != (not workload.sum_terms):
        return "its sums are not those of its workload"
    if sums is not None and sums.neighbours is not neighbours:
        return "the noise of its sums is for other neighbours than it states"
    return None


StoredBasis = BasisFile | Literal["plain"] | None


class ResidualStrategyFile(Stored, tag_field="kind", tag="residual"):
    """A residual strategy; an attribute without a basis is in no measured set."""

    bases: list[StoredBasis]
    closure: CliqueTable
    sigma_squared: FloatVector
    rho: Fraction
    neighbours: Neighbours

    @classmethod
    def of(cls, strategy: ResidualStrategy) -> ResidualStrategyFile:
        bases: list[StoredBasis] = []
        for basis in strategy.bases:
            if basis is None or basis.is_plain:
                bases.append(None if basis is None else "plain")
            else:
                bases.append(BasisFile(scale=basis.scale, matrix=basis.matrix))
        return cls.from_attributes(strategy, bases=bases, closure=CliqueTable.of(strategy.domain, strategy.closure))

    def build(self, domain: Domain) -> ResidualStrategy:
        """The strategy; one that contradicts itself or its cost is refused."""
        cliques = self.closure.build(domain, "strategy")
        try:
            bases: list[ResidualBasis | None] = []
            for name, stored in zip(domain, self.bases, strict=True):
                if isinstance(stored, BasisFile):
                    bases.append(ResidualBasis.of(stored.matrix, stored.scale))
                else:
                    bases.append(None if stored is None else ResidualBasis.plain(domain[name]))
            closure = Closure.of(domain, cliques)
            if closure.cliques != tuple(cliques):
                raise ArchiveError("the file's measured sets are not a closure in order; make it anew")
            sigma_squared = np.asarray(self.sigma_squared, dtype=np.float64)
            return ResidualStrategy(domain, tuple(bases), closure, sigma_squared, self.rho, self.neighbours)
        except ArchiveError:
            raise
        except (HushError, TypeError, ValueError, ArithmeticError):
            raise ArchiveError("the file's strategy cannot be read; make it anew") from None


class IdentityFactorFile(Stored, tag_field="kind", tag="identity"):
    size: Size


class LevelsFactorFile(Stored, tag_field="kind", tag="levels"):
    size: Size
    levels: Whole
    total: Whole


class MatrixFactorFile(Stored, tag_field="kind", tag="matrix"):
    scale: Size
    matrix: IntMatrix


class ResidualFactorFile(Stored, tag_field="kind", tag="residual"):
    """The plain residual basis of an attribute."""

    size: Annotated[int, Meta(ge=2, lt=2**31)]


FactorFile = IdentityFactorFile | LevelsFactorFile | MatrixFactorFile | ResidualFactorFile


class ProductFile(Stored):
    """A product of factors on groups of attributes, both by index."""

    groups: list[list[Whole]]
    factors: list[Whole]
    cost: Fraction


class LinearStrategyFile(Stored, tag_field="kind", tag="linear"):
    """A linear strategy; each distinct factor is stored once."""

    method: Annotated[str, Meta(max_length=100)]
    recovery: Recovery
    noise: NoiseKind
    neighbours: Neighbours
    factors: list[FactorFile]
    parts: list[ProductFile]

    @classmethod
    def of(cls, strategy: LinearStrategy) -> LinearStrategyFile:
        index = {name: number for number, name in enumerate(strategy.domain)}
        factors: dict[AxisStrategy, int] = {}
        products = [
            ProductFile(
                groups=[[index[name] for name in group] for group in product.groups],
                factors=[factors.setdefault(factor, len(factors)) for factor in product.factors],
                cost=product.cost,
            )
            for product in strategy
        ]
        return cls.from_attributes(strategy, factors=[store_factor(factor) for factor in factors], parts=products)

    def build(self, domain: Domain) -> LinearStrategy:
        """The strategy; one that contradicts itself is refused."""
        names, noise, neighbours = domain.attributes, self.noise, self.neighbours
        try:
            factors = [build_factor(stored) for stored in self.factors]
            products = []
            for product in self.parts:
                if product.cost <= 0 or product.cost.denominator & (product.cost.denominator - 1):
                    raise ArchiveError(
                        "a product of the file's strategy has no binary fraction as its cost; make it anew"
                    )
                groups = tuple(tuple(names[index] for index in group) for group in product.groups)
                sizes = tuple(domain.sizes(group) for group in groups)
                chosen = tuple(factors[index] for index in product.factors)
                products.append(ProductStrategy(groups, sizes, chosen, product.cost, noise, neighbours))
            return LinearStrategy(domain, tuple(products), self.recovery, self.method)
        except ArchiveError:
            raise
        except (HushError, IndexError, TypeError, ValueError, ArithmeticError):
            raise ArchiveError("the file's strategy cannot be read; make it anew") from None


def store_factor(factor: AxisStrategy) -> FactorFile:
    match factor.operator:
        case CompoundSymmetric() if isinstance(factor, ResidualBasis):
            return ResidualFactorFile(size=factor.size)
        case Identity():
            return IdentityFactorFile(size=factor.size)
        case LevelsAndTotal(levels=levels, total=total):
            return LevelsFactorFile(size=factor.size, levels=int(levels), total=int(total))
        case Dense():
            return MatrixFactorFile(scale=factor.scale, matrix=factor.matrix)
    raise TypeError(f"no way to store {factor!r}")


def build_factor(stored: FactorFile) -> AxisStrategy:
    match stored:
        case ResidualFactorFile():
            return ResidualBasis.plain(stored.size)
        case IdentityFactorFile():
            return AxisStrategy(Identity(stored.size))
        case LevelsFactorFile():
            return AxisStrategy(LevelsAndTotal(stored.size, levels=stored.levels, total=stored.total))
    return AxisStrategy.of(stored.matrix, stored.scale)


StrategyFile = ResidualStrategyFile | LinearStrategyFile


def store_strategy(strategy: Strategy) -> StrategyFile:
    if isinstance(strategy, ResidualStrategy):
        return ResidualStrategyFile.of(strategy)
    if isinstance(strategy, LinearStrategy):
        return LinearStrategyFile.of(strategy)
    raise TypeError(f"files hold no strategies of the kind {strategy.kind!r}")
