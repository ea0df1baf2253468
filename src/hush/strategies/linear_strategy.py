"""LinearStrategy: products of integer factors with exact noise, and the errors they promise for a workload.

With s_j^2 the variance of the noise of product j, all products together have the precision N = sum_j Q_j^T Q_j / s_j^2
(`JointPrecision`), and the least squares estimate from everything that was measured has covariance N^+.

Reference: [HDMM, sec. 3.6]; the paper leaves the error of unions of products under global least squares open, since N^+
is no union of products. Here it is exact: N^+ as a matrix on small domains, one linear solve per query on others.
"""

from __future__ import annotations

import itertools
import math
import string
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from hush.core.arrays import Floats, Integers, axes_outside, summed
from hush.core.domain import Clique, Domain
from hush.core.errors import ConvergenceError, WorkloadError
from hush.core.memory import require_memory
from hush.linops import Identity, LinearOperator
from hush.privacy.budget import Cost
from hush.privacy.gate import Request
from hush.privacy.noise import DiscreteGaussian, DiscreteLaplace, Noise
from hush.privacy.sensitivity import Neighbours, RowNorms
from hush.strategies.axis_strategy import AxisStrategy
from hush.strategies.product_strategy import ProductQuery, ProductStrategy, Recovery
from hush.strategies.residual_basis import ResidualBasis, basis_of
from hush.strategies.residual_strategy import ResidualStrategy, beyond_extremes, marginal_noise
from hush.strategies.strategy import NoiseKind, split_exactly
from hush.strategies.term_table import TermTable
from hush.strategies.variance_forms import mean_variances
from hush.workloads import ProductTerm, Term, Workload
from hush.workloads.term import not_answered

LARGEST_MATRIX = 4096  # cells up to which N^+ is held as a matrix
METHOD_WORDS = {
    "kron": "one product of strategies",
    "plus": "a union of products",
    "marginals": "weighted marginals",
    "bases": "marginals of designed strategies",
}
LEAST_NOISE_SHARE = 1e-7  # of the largest noise at sensitivity one; a product with less counts as having this much
RANK_TOLERANCE = 1e-12  # of the largest eigenvalue of N


class JointPrecision:
    """N of some products over the attributes that any of them measures."""

    def __init__(self, domain: Domain, products: Sequence[ProductStrategy]) -> None:
        self.domain = domain
        self.products = tuple(products)
        if not self.products:
            raise WorkloadError("nothing was measured, so nothing can be answered; the release was interrupted at once")
        units = [math.prod(float(factor.max_diagonal) for factor in product.factors) for product in products]
        noise = [product.variance / unit for product, unit in zip(products, units, strict=True)]
        floor = LEAST_NOISE_SHARE * max(noise)
        self.noise_variances = tuple(max(variance, floor) * unit for variance, unit in zip(noise, units, strict=True))
        self.clique: Clique = domain.clique({name for product in products for name in product.clique})
        self.sizes = domain.sizes(self.clique)
        self.cells = math.prod(self.sizes)
        self.small = self.cells <= LARGEST_MATRIX  # N^+ is held as a matrix
        if not self.small and min(noise) < floor:
            raise WorkloadError(
                "the noise of the products differs too much for least squares over all of them; use local least squares"
            )
        remedy = "use local least squares, or a workload of fewer attributes"
        require_memory(8 * 8 * self.cells, f"least squares over {', '.join(self.clique)}", remedy)

    def measure(self, product: ProductStrategy, counts: Floats) -> Floats:
        """Q_j x for counts over all attributes, in the shape of the product's answers."""
        tensor = counts.reshape(self.sizes).sum(axis=axes_outside(self.clique, product.clique))
        tensor = tensor.reshape([factor.size for factor in product.factors])
        for axis, factor in enumerate(product.factors):
            tensor = factor.scaled.along(tensor, axis)
        return np.asarray(tensor)

    def spread(self, product: ProductStrategy, answers: Floats) -> Floats:
        """Q_j^T y over all attributes, in the shape of their sizes."""
        tensor = answers
        for axis, factor in enumerate(product.factors):
            tensor = factor.scaled.T.along(tensor, axis)
        shape = [size if name in product.clique else 1 for name, size in zip(self.clique, self.sizes, strict=True)]
        return np.asarray(np.broadcast_to(tensor.reshape(shape), self.sizes))

    def apply(self, counts: Floats) -> Floats:
        """N x."""
        total = np.zeros(self.sizes)
        for product, variance in zip(self.products, self.noise_variances, strict=True):
            total += self.spread(product, self.measure(product, counts)) / variance
        return total

    def solve(self, coefficients: Floats) -> Floats:
        """N^+ f for coefficients in the row space of what was measured."""
        if self.small:
            return np.asarray((self.covariance @ coefficients.ravel()).reshape(self.sizes))
        from scipy.sparse.linalg import LinearOperator as SparseOperator
        from scipy.sparse.linalg import cg

        operator = SparseOperator((self.cells, self.cells), matvec=lambda x: self.apply(x).ravel(), dtype=np.float64)
        solution, failed = cg(operator, coefficients.ravel(), rtol=1e-10, atol=0.0, maxiter=10_000)
        if failed:
            raise ConvergenceError(
                f"the error of a query over {', '.join(self.clique)} did not converge; use local least squares"
            )
        return np.asarray(solution.reshape(self.sizes))

    @cached_property
    def covariance(self) -> Floats:
        """N^+ over the cells in row-major order, on small domains."""
        n = np.stack([self.apply(row).ravel() for row in np.eye(self.cells)])
        e, q = np.linalg.eigh((n + n.T) / 2)
        nonzero = e > RANK_TOLERANCE * e[-1]
        return np.asarray((q[:, nonzero] / e[nonzero]) @ q[:, nonzero].T)

    def marginal(self, names: Clique) -> Floats:
        """The covariance of the counts over a clique, every axis twice, on small domains."""
        tensor = self.covariance.reshape(self.sizes + self.sizes)
        sides = (0, 1)
        return np.asarray(
            summed(tensor, list(itertools.product(sides, self.clique)), list(itertools.product(sides, names)))
        )

    def variances(self, names: Clique, blocks: Sequence[LinearOperator]) -> Floats:
        """The variance of every query of a product of blocks, one axis per block, on small domains."""
        k = len(blocks)
        left, right, out = string.ascii_lowercase[:k], string.ascii_uppercase[:k], string.ascii_lowercase[k : 2 * k]
        block_subscripts = [f"{out[i]}{side[i]}" for side in (left, right) for i in range(k)]
        rows = [block.dense() for block in blocks]
        subscripts = f"{left}{right},{','.join(block_subscripts)}->{out}" if k else "->"
        return np.asarray(np.einsum(subscripts, self.marginal(names), *rows, *rows, optimize=True))


@dataclass(frozen=True, eq=False)
class LinearStrategy:
    """What is measured, product by product, and how answers are recovered from it.

    Every error is computed from the integers that are measured and the variance of the exact noise, so it is the error
    of the release and not of an ideal strategy. `method` says which operator found it.

    Privacy: a strategy holds no data; `requests` turns it into measurements whose exact costs add up to `cost`, for
    privacy units of one row under `neighbours`.
    """

    kind: ClassVar[str] = "linear"

    domain: Domain
    products: tuple[ProductStrategy, ...]
    recovery: Recovery
    method: str

    def __post_init__(self) -> None:
        if not self.products:
            raise WorkloadError("a strategy of no products measures nothing; give at least one")
        if len({(product.noise, product.neighbours) for product in self.products}) > 1:
            raise WorkloadError("the products of a strategy must share their kind of noise and their neighbours")
        for product in self.products:
            ordered = self.domain.clique(product.clique)
            if ordered != product.clique or self.domain.sizes(ordered) != sum(product.sizes, ()):
                raise WorkloadError(
                    f"the product over {product.clique!r} does not fit the domain; give its attributes in domain order"
                )
        if self.recovery is Recovery.MARGINALS:
            _bases(self.products)

    @property
    def noise(self) -> NoiseKind:
        return self.products[0].noise

    @property
    def neighbours(self) -> Neighbours:
        return self.products[0].neighbours

    @property
    def cost(self) -> Fraction:
        return Cost.total(Cost(rho=product.cost) for product in self.products).rho or Fraction(0)

    @cached_property
    def cells(self) -> Integers:
        """How many numbers are measured by each product: (products,)."""
        return np.array([math.prod(product.query.shape) for product in self.products], dtype=np.int64)

    @property
    def numbers(self) -> int:
        return int(self.cells.sum())

    @property
    def tables(self) -> int:
        return len(self.products)

    @property
    def memory(self) -> int:
        """Bytes that measuring takes at its peak, roughly: all answers, and the largest product three times over."""
        tables = (self.domain.size(product.clique) for product in self.products)
        return 8 * self.numbers + 24 * max(int(self.cells.max()), *tables)

    def shape(self, index: int) -> tuple[int, ...]:
        """The shape of the answer of a product, by its position."""
        return self.products[index].query.shape

    def query(self, index: int) -> ProductQuery:
        """The integers that are asked of a product, by its position."""
        return self.products[index].query

    def noise_law(self, index: int) -> DiscreteGaussian | DiscreteLaplace:
        """The noise of a product's integers, by its position."""
        return self.products[index].law

    def costing(self, budget: Fraction) -> LinearStrategy:
        """The same products, in the same proportions, with noise that costs at most another budget."""
        shares = np.array([float(product.cost / self.cost) for product in self.products])
        costs = split_exactly(shares * float(budget), budget)
        products = tuple(replace(product, cost=cost) for product, cost in zip(self.products, costs, strict=True))
        return replace(self, products=products)

    def requests(self) -> list[Request]:
        return [Request(product.query, product.law) for product in self.products]

    def law_counts(self) -> Counter[tuple[RowNorms, Noise]]:
        return Counter((product.query.row_norms, product.law) for product in self.products)

    @cached_property
    def residual(self) -> ResidualStrategy:
        """For marginal recovery: the residual strategy with the same information."""
        return marginal_strategy(self.domain, self.products)

    @cached_property
    def joint(self) -> JointPrecision:
        """For global recovery: what all products say together."""
        return JointPrecision(self.domain, self.products)

    @property
    def exact(self) -> bool:
        """Whether predicted errors are exact; if not, they are upper bounds.

        Over a large domain, and for thresholds, global least squares is predicted by its best single product.
        """
        return self.recovery is not Recovery.GLOBAL or self.joint.small

    def product_for(self, term: Term) -> ProductStrategy:
        """The product that answers a term with the least error; WorkloadError where none can."""
        supporting = [product for product in self.products if product.supports(term.clique, self._blocks(term))]
        if not supporting:
            raise WorkloadError(
                f"the strategy does not support the queries on {', '.join(term.clique) or 'the total'}: they are no "
                "combination of what it measures; add them to the workload and plan again"
            )
        if len(supporting) == 1:
            return supporting[0]
        return min(supporting, key=lambda product: _total(product, term))

    def supports(self, term: Term) -> bool:
        """Whether a product of blocks, or every cell that a threshold is over, can be answered without bias."""
        blocks = self._blocks(term)
        if self.recovery is Recovery.MARGINALS:
            return term.clique in self.residual.closure
        return any(product.supports(term.clique, blocks) for product in self.products)

    def _blocks(self, term: Term) -> tuple[LinearOperator, ...]:
        """The blocks that must be known to answer a term: its own, or every cell if it is no product."""
        if not term.factorises:
            raise not_answered(term)
        if (asked := term.product) is not None:
            return asked.blocks
        return tuple(Identity(size) for size in self.domain.sizes(term.clique))

    def term_variances(self, term: Term) -> Floats:
        """The variance of every query of a term, one axis per block; see `exact`."""
        if self.recovery is Recovery.MARGINALS:
            return self.residual.term_variances(term)
        best, asked = self.product_for(term), term.product
        if asked is None:
            if (variances := best.term_variances(term)) is None:
                raise not_answered(term)
            return np.broadcast_to(variances, self.domain.sizes(term.clique))
        if self.recovery is Recovery.GLOBAL and self.joint.small:
            return self.joint.variances(asked.clique, asked.blocks)
        return best.variances(asked.clique, asked.blocks)

    def total_variance(self, term: Term) -> float:
        """The summed variance of the queries of a term; see `exact`."""
        if self.recovery is Recovery.MARGINALS or (self.recovery is Recovery.GLOBAL and self.joint.small):
            return float(self.term_variances(term).sum())
        return _total(self.product_for(term), term)

    def variance(self, clique: Iterable[str]) -> float:
        clique = self.domain.clique(clique)
        term = ProductTerm(clique, tuple(Identity(size) for size in self.domain.sizes(clique)))
        return self.total_variance(term) / term.queries

    def errors(self, workload: Workload) -> LinearErrors:
        return LinearErrors(self, workload)

    def claim(self, loss: str, comparison: Callable[[], str]) -> str:
        method = f"{self.noise.value.capitalize()} noise, {METHOD_WORDS.get(self.method, self.method)}"
        if not self.exact:
            method += "; least squares over all products can only lower these errors"
        return method + comparison()

    def check(self, workload: Workload) -> None:
        for index, term in enumerate(workload):
            if not self.supports(term):
                raise WorkloadError(
                    f"the strategy does not support term {index} of the workload: rounded to integers it measures "
                    "other queries; use mechanism='hdmm', or queries of whole numbers"
                )

    def inconsistency(self, workload: Workload) -> str | None:
        if not all(self.supports(term) for term in workload):
            return "it measures other tables than its workload asks for"
        return beyond_extremes(np.array([*workload.weights, *(product.variance for product in self.products)]))

    def __iter__(self) -> Iterator[ProductStrategy]:
        return iter(self.products)

    def __repr__(self) -> str:
        return (
            f"LinearStrategy({self.method}, {len(self.products)} products, {self.noise} noise, {self.numbers} numbers)"
        )


@dataclass(frozen=True, eq=False)
class LinearErrors:
    """The errors that a strategy predicts for a workload, before any data is read."""

    strategy: LinearStrategy
    workload: Workload

    @cached_property
    def totals(self) -> Floats:
        """The summed variance over the queries of each term: (terms,)."""
        if self.strategy.recovery is not Recovery.MARGINALS:
            return np.array([self.strategy.total_variance(term) for term in self.workload])
        residual, table = self.strategy.residual, TermTable.of(self.workload)
        return np.asarray(
            mean_variances(table, residual.closure, residual.bases) @ residual.sigma_squared * table.queries
        )

    @property
    def means(self) -> Floats:
        return np.asarray(self.totals / np.array([float(term.queries) for term in self.workload]))

    @property
    def rmse(self) -> float:
        weights = np.array(self.workload.weights)
        queries = np.array([float(term.queries) for term in self.workload])
        return math.sqrt(float(weights @ self.totals) / float(weights @ queries))

    @cached_property
    def largest(self) -> float:
        if self.strategy.recovery is Recovery.MARGINALS:
            return self.strategy.residual.max_variance(self.workload, weighted=False)
        joint = self.strategy.recovery is Recovery.GLOBAL and self.strategy.joint.small
        if joint or any(term.product is None for term in self.workload):
            return max(float(self.strategy.term_variances(term).max()) for term in self.workload)
        return max(self.strategy.product_for(term).largest(term.clique, term.blocks) for term in self.workload.products)


def _total(product: ProductStrategy, term: Term) -> float:
    """The summed variance of a term from one product, through products of blocks with the term's Gram matrix."""
    if (asked := term.product) is not None:
        return product.total(asked.clique, asked.blocks)
    equal = term.reweighted(1.0).gram_products()
    return math.fsum(each.weight * product.total(each.clique, each.blocks) for each in equal)


def marginal_strategy(domain: Domain, products: Sequence[ProductStrategy]) -> ResidualStrategy:
    """The residual strategy with the same information as products that share one factor for each attribute."""
    return marginal_noise(domain, [(product.clique, product.variance) for product in products], _bases(products))


def _bases(products: Sequence[ProductStrategy]) -> dict[str, ResidualBasis]:
    """The basis of every attribute; refuses products that measure an attribute in two ways, or several as one."""
    factors: dict[str, AxisStrategy] = {}
    for product in products:
        for group, factor in zip(product.groups, product.factors, strict=True):
            if len(group) != 1 or not factor.full or factors.setdefault(group[0], factor) != factor:
                raise WorkloadError(
                    f"marginal recovery needs one full-rank factor for each attribute, and {group!r} has another; "
                    "use local recovery"
                )
    return {name: basis_of(factor) for name, factor in factors.items()}
