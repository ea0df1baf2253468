"""LinearStrategy: products of integer factors with exact noise, and the errors they promise for a workload."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from hush.domain import Clique, Domain
from hush.errors import WorkloadError
from hush.linops import Identity
from hush.privacy.cost import Cost
from hush.privacy.gate import Request
from hush.privacy.neighbours import Neighbours
from hush.strategies.basis import Basis
from hush.strategies.coefficients import mean_variances
from hush.strategies.draft import Recovery
from hush.strategies.factor import Factor
from hush.strategies.joint import JointPrecision
from hush.strategies.marginal_noise import marginal_noise
from hush.strategies.noise_kind import NoiseKind
from hush.strategies.part import Part
from hush.strategies.residual import ResidualStrategy
from hush.strategies.shares import split_exactly
from hush.strategies.terms import TermTable
from hush.strategies.tilted_basis import basis_of
from hush.workloads import Term, Workload

Floats = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, eq=False)
class LinearStrategy:
    """What is measured, part by part, and how answers are recovered from it.

    Every error is computed from the integers that are measured and the variance of the exact noise, so it is the error
    of the release and not of an ideal strategy. `method` says which operator found it.

    Privacy: a strategy holds no data; `requests` turns it into measurements whose exact costs add up to `cost`, for
    privacy units of one row under `neighbours`.
    """

    domain: Domain
    parts: tuple[Part, ...]
    recovery: Recovery
    method: str

    def __post_init__(self) -> None:
        if not self.parts:
            raise WorkloadError("a strategy of no parts measures nothing; give at least one")
        if len({(part.noise, part.neighbours) for part in self.parts}) > 1:
            raise WorkloadError("the parts of a strategy must share their kind of noise and their neighbours")
        for part in self.parts:
            ordered = self.domain.clique(part.clique)
            if ordered != part.clique or self.domain.sizes(ordered) != sum(part.sizes, ()):
                raise WorkloadError(f"the part over {part.clique!r} does not fit the domain; its attributes in order")
        if self.recovery is Recovery.MARGINALS:
            _bases(self.parts)

    @property
    def noise(self) -> NoiseKind:
        """Gaussian or Laplace."""
        return self.parts[0].noise

    @property
    def neighbours(self) -> Neighbours:
        """Which tables are neighbours."""
        return self.parts[0].neighbours

    @property
    def cost(self) -> Fraction:
        """zCDP, or epsilon, that measuring everything once costs at most."""
        return Cost.total(Cost(rho=part.cost) for part in self.parts).rho or Fraction(0)

    @property
    def numbers(self) -> int:
        """How many numbers are measured."""
        return sum(math.prod(part.query.shape) for part in self.parts)

    def costing(self, budget: Fraction) -> LinearStrategy:
        """The same parts, in the same proportions, with noise that costs at most another budget."""
        shares = np.array([float(part.cost / self.cost) for part in self.parts])
        costs = split_exactly(shares * float(budget), budget)
        parts = tuple(replace(part, cost=cost) for part, cost in zip(self.parts, costs, strict=True))
        return replace(self, parts=parts)

    def requests(self) -> list[Request]:
        """One request per part, in order."""
        return [Request(part.query, part.law) for part in self.parts]

    @cached_property
    def residual(self) -> ResidualStrategy:
        """For marginal recovery: the residual strategy with the same information."""
        return marginal_strategy(self.domain, self.parts)

    @cached_property
    def joint(self) -> JointPrecision:
        """For global recovery: what all parts say together."""
        return JointPrecision(self.domain, self.parts)

    @property
    def exact(self) -> bool:
        """Whether the errors are those of the release; if not, the release's are at most these.

        Global least squares over a large domain is predicted by the part that answers best by itself.
        """
        return self.recovery is not Recovery.GLOBAL or self.joint.small

    def part_for(self, term: Term) -> Part:
        """The part that answers a product of blocks with the least error; WorkloadError where none can."""
        able = [part for part in self.parts if part.supports(term.clique, term.blocks)]
        if not able:
            raise WorkloadError(
                f"the strategy does not support the queries on {', '.join(term.clique) or 'the total'}: they are no "
                "combination of what it measures; add them to the workload and plan again"
            )
        return able[0] if len(able) == 1 else min(able, key=lambda part: part.total(term.clique, term.blocks))

    def supports(self, term: Term) -> bool:
        """Whether a product of blocks can be answered without bias."""
        if self.recovery is Recovery.MARGINALS:
            return term.clique in self.residual.closure
        return any(part.supports(term.clique, term.blocks) for part in self.parts)

    def query_variances(self, term: Term) -> Floats:
        """The variance of every query of a product of blocks, one axis per block; see `exact`."""
        if self.recovery is Recovery.MARGINALS:
            return self.residual.query_variances(term.clique, term.blocks)
        if self.recovery is Recovery.GLOBAL and self.joint.small:
            self.part_for(term)
            return self.joint.variances(term.clique, term.blocks)
        return self.part_for(term).variances(term.clique, term.blocks)

    def total_variance(self, term: Term) -> float:
        """The summed variance of the queries of a product of blocks; see `exact`."""
        if self.recovery is Recovery.MARGINALS or (self.recovery is Recovery.GLOBAL and self.joint.small):
            return float(self.query_variances(term).sum())
        return self.part_for(term).total(term.clique, term.blocks)

    def variance(self, clique: Clique) -> float:
        """The mean variance over the cells of a marginal."""
        term = Term(clique, tuple(Identity(size) for size in self.domain.sizes(clique)))
        return self.total_variance(term) / term.queries

    def errors(self, workload: Workload) -> LinearErrors:
        """The errors of every term of a workload; refuses one that the strategy does not support."""
        return LinearErrors(self, workload)

    def __iter__(self) -> Iterator[Part]:
        return iter(self.parts)

    def __repr__(self) -> str:
        return f"LinearStrategy({self.method}, {len(self.parts)} parts, {self.noise} noise, {self.numbers} numbers)"


@dataclass(frozen=True, eq=False)
class LinearErrors:
    """Errors that a strategy promises for a workload, before any data is read."""

    strategy: LinearStrategy
    workload: Workload

    @cached_property
    def totals(self) -> Floats:
        """The summed variance over the queries of each term: (terms,)."""
        if self.strategy.recovery is not Recovery.MARGINALS:
            return np.array([self.strategy.total_variance(term) for term in self.workload])
        own, table = self.strategy.residual, TermTable.of(self.workload)
        return np.asarray(mean_variances(table, own.closure, own.bases) @ own.sigma_squared * table.queries)

    @property
    def means(self) -> Floats:
        """The mean variance over the queries of each term: (terms,)."""
        return np.asarray(self.totals / np.array([float(term.queries) for term in self.workload]))

    @property
    def rmse(self) -> float:
        """sqrt(sum of weight * variance / sum of weight) over all queries."""
        weights = np.array(self.workload.weights)
        queries = np.array([float(term.queries) for term in self.workload])
        return math.sqrt(float(weights @ self.totals) / float(weights @ queries))

    @cached_property
    def largest(self) -> float:
        """The largest variance of a query, weights left aside."""
        if self.strategy.recovery is Recovery.MARGINALS:
            return self.strategy.residual.max_variance(self.workload, weighted=False)
        if self.strategy.recovery is Recovery.GLOBAL and self.strategy.joint.small:
            return max(float(self.strategy.query_variances(term).max()) for term in self.workload)
        return max(self.strategy.part_for(term).largest(term.clique, term.blocks) for term in self.workload)


def marginal_strategy(domain: Domain, parts: Sequence[Part]) -> ResidualStrategy:
    """The residual strategy with the same information as parts that share one factor for each attribute."""
    return marginal_noise(domain, [(part.clique, part.variance) for part in parts], _bases(parts))


def _bases(parts: Sequence[Part]) -> dict[str, Basis]:
    """The basis of every attribute; refuses parts that measure an attribute in two ways, or several as one."""
    factors: dict[str, Factor] = {}
    for part in parts:
        for group, factor in zip(part.groups, part.factors, strict=True):
            if len(group) != 1 or not factor.full or factors.setdefault(group[0], factor) != factor:
                raise WorkloadError(
                    f"marginal recovery needs one full-rank factor for each attribute, and {group!r} has another; "
                    "use local recovery"
                )
    return {name: basis_of(factor) for name, factor in factors.items()}
