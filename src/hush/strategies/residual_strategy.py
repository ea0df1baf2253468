r"""ResidualStrategy: which residual sets to measure, with how much noise, and the requests that measure them.

Noisy marginals carry the same information as a residual strategy (`marginal_noise`). Each product measures some
attributes, attribute i always with the same factor Q_i. A product over b with noise of variance s_b^2, brought down
to A by least squares totals, is the residual of A with noise of variance s_b^2 prod_{i in b \ A} lambda_i, where
lambda_i = 1^T (Q_i^T Q_i)^{-1} 1 is n_i for plain levels; residuals of different sets from one product are
uncorrelated. So the best linear unbiased estimate of every residual is the average over the products b that contain A,
with weights

    1 / (s_b^2 prod_{b \ A} lambda_i),    and    1 / sigma_A^2 = sum_{b >= A} 1 / (s_b^2 prod_{b \ A} lambda_i),

which is the pseudo-inverse of the whole strategy, computed without any array of size 2^d or of the domain.

Reference: [HDMM, sec. 3.5, Thms 5-8]. Differs from [HDMM]: residuals in place of the printed generalised inverse, which
is wrong for the Moore-Penrose inverse of X(u); and factors other than the identity.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property
from typing import ClassVar

import numpy as np

from hush.core.arrays import Floats, reordered
from hush.core.domain import Clique, Domain
from hush.core.errors import BudgetError, SizeError, WorkloadError
from hush.linops import Identity, LinearOperator
from hush.linops.along import along
from hush.privacy.gate import BATCH_CELLS, LARGEST_ANSWER, Request
from hush.privacy.measurement import StatedNoise
from hush.privacy.noise import DiscreteGaussian, Noise
from hush.privacy.sensitivity import Neighbours, RowNorms, sensitivity
from hush.strategies.closure import Closure
from hush.strategies.product_strategy import LARGEST_ROWS, ProductQuery, product_norms, too_large
from hush.strategies.residual_basis import ResidualBasis
from hush.strategies.strategy import NoiseKind, split_exactly
from hush.strategies.term_table import TermTable
from hush.strategies.variance_forms import (
    largest_variances,
    mean_variances,
    privacy_coefficients,
    residual_variances,
)
from hush.workloads import Term, Workload
from hush.workloads.term import LARGEST_WEIGHT


@dataclass(frozen=True, eq=False)
class ResidualStrategy:
    """Residual sets with their noise: set A is measured as M_A v_A / L_A plus noise of variance sigma^2_A.

    `bases[i]` belongs to the i-th attribute of the domain (None where no set has it); `sigma_squared[j]` to the j-th
    set of the closure. `rho` is the zCDP that measuring everything once may cost, on rows as privacy units.

    Optimal where every basis is plain: no unbiased linear mechanism with Gaussian noise has a smaller loss, for any
    loss that is convex, rises with the variances and treats the cells of a marginal alike. With other bases the noise
    is the best for those bases, which are themselves close to the best for one attribute alone; no more is claimed.

    Privacy: a strategy holds no data; `requests` turns it into measurements.
    Reference: [ResidualPlanner, Thm 4.3] for optimality.
    """

    kind: ClassVar[str] = "residual"
    noise: ClassVar[NoiseKind] = NoiseKind.GAUSSIAN

    domain: Domain
    bases: tuple[ResidualBasis | None, ...]
    closure: Closure
    sigma_squared: Floats  # (sets,)
    rho: Fraction
    neighbours: Neighbours = Neighbours.ADD_REMOVE

    def __post_init__(self) -> None:
        sigma_squared = np.array(self.sigma_squared, dtype=np.float64)
        sigma_squared.setflags(write=False)
        object.__setattr__(self, "sigma_squared", sigma_squared)
        object.__setattr__(self, "rho", Fraction(self.rho))
        if sigma_squared.shape != (len(self.closure),) or not (np.isfinite(sigma_squared) & (sigma_squared > 0)).all():
            raise WorkloadError(f"sigma_squared: expected {len(self.closure)} finite numbers > 0, one per set")
        if len(self.bases) != len(self.domain) or self.closure.domain != self.domain:
            raise WorkloadError("a strategy's bases and closure must belong to its domain")
        for name, size, basis in zip(self.domain, self.domain.shape, self.bases, strict=True):
            if basis is not None and basis.size != size:
                raise WorkloadError(f"attribute {name!r} has {size} levels, its basis {basis.size}")
        if any(self.bases[axis] is None for level in self.closure.levels for axis in set(level.ravel().tolist())):
            raise WorkloadError("every attribute of the closure needs a basis")
        if self.pcost > 2 * float(self.rho) * (1 + 1e-9):
            raise BudgetError(f"the noise costs rho={self.pcost / 2:g}, above the {float(self.rho):g} it may cost")

    @property
    def plain(self) -> bool:
        """Whether every basis is plain, so that the strategy is optimal for what it was selected for."""
        return all(basis is None or basis.is_plain for basis in self.bases)

    @property
    def privacy(self) -> Floats:
        """p_A of every set: (sets,)."""
        return privacy_coefficients(self.closure, self.bases, self.neighbours)

    @property
    def pcost(self) -> float:
        """sum_A p_A / sigma^2_A, twice the zCDP cost."""
        return float(np.sum(self.privacy / self.sigma_squared))

    @property
    def cells(self) -> Floats:
        """How many numbers are measured for each set: (sets,)."""
        return self.closure.products(np.array([0.0 if b is None else float(b.rows) for b in self.bases]))

    @property
    def cost(self) -> Fraction:
        return self.rho

    @property
    def tables(self) -> int:
        return len(self.closure)

    @property
    def numbers(self) -> int:
        return int(self.cells.sum())

    @property
    def memory(self) -> int:
        """Bytes that measuring takes at its peak, roughly: all noisy numbers, and a batch of counts six times."""
        batch = min(self.numbers, BATCH_CELLS)
        return 8 * self.numbers + int(48 * max(float(self.cells.max()), batch))

    def requests(self) -> list[Request]:
        """One request per set of the closure, in its order, whose exact costs add up to at most `rho`.

        Set A gets the share rho_A = p_A / (2 sigma^2_A), rounded down to a short binary fraction, and discrete Gaussian
        noise of variance Delta^2_A / (2 rho_A) on its integers, where Delta^2_A is the query's squared sensitivity; the
        variance in units of counts is sigma^2_A up to about 2^-47. The denominators of all shares are powers of two,
        so that sums over a hundred thousand sets stay short.

        Privacy: for units of one row under `neighbours`; for units of m rows plan with rho / m^2.
        """
        check_measurable(self)
        law = cache(self._law)
        queries = (residual_query(self, clique) for clique in self.closure)
        return [
            Request(query, law(query.row_norms, share))
            for query, share in zip(queries, exact_shares(self), strict=True)
        ]

    def _law(self, norms: RowNorms, share: Fraction) -> DiscreteGaussian:
        """The noise on integers with these norms that costs a share of rho."""
        return DiscreteGaussian(sensitivity(norms, max_rows=1, neighbours=self.neighbours).l2_squared / (2 * share))

    def law_counts(self) -> Counter[tuple[RowNorms, Noise]]:
        """How many sets share each pair of row norms and noise law; sets of equal bases and shares are counted once."""
        shares, numbers = exact_shares(self), {basis: i for i, basis in enumerate(dict.fromkeys(self.bases))}
        basis_numbers = np.array([numbers[basis] for basis in self.bases], dtype=np.int64)
        share_numbers = np.unique(self.privacy / self.sigma_squared, return_inverse=True)[1]
        counts: Counter[tuple[RowNorms, Noise]] = Counter()
        for level, start in zip(self.closure.levels, self.closure.offsets.tolist(), strict=False):
            keys = np.column_stack([np.sort(basis_numbers[level], axis=1), share_numbers[start : start + len(level)]])
            _, firsts, repeats = np.unique(keys, axis=0, return_index=True, return_counts=True)
            for index, times in zip((firsts + start).tolist(), repeats.tolist(), strict=True):
                norms = self._norms(index)
                counts[norms, self._law(norms, shares[index])] += times
        return counts

    def _norms(self, index: int) -> RowNorms:
        """What a row adds to a set's integers; on a coarser grid if they are too large to measure."""
        factors = self.clique_bases(self.closure.cliques[index])
        norms = product_norms(factors)
        if math.prod(factor.largest_entry for factor in factors) * LARGEST_ROWS <= LARGEST_ANSWER:
            return norms
        coarser = Fraction(1 << PREDICTED_BITS, math.prod(factor.scale for factor in factors))
        return RowNorms(
            norms.l1 * coarser, norms.l2_squared * coarser**2, norms.gap_l1 * coarser, norms.gap_l2_squared * coarser**2
        )

    def costing(self, cost: Fraction) -> ResidualStrategy:
        """The same sets with the noise of another rho, in the same proportions."""
        return replace(self, sigma_squared=self.sigma_squared * float(self.rho / cost), rho=cost)

    def errors(self, workload: Workload) -> ResidualErrors:
        return ResidualErrors(self, workload)

    def term_variances(self, term: Term) -> Floats:
        if (product := term.product) is not None:
            return self.query_variances(product.clique, product.blocks)
        ordered = self.domain.clique(term.clique)
        return residual_variances(self.subset_variances(ordered), self.clique_bases(term.clique), term, ordered)

    def claim(self, loss: str, comparison: Callable[[], str]) -> str:
        if self.plain:
            return f"no unbiased linear mechanism with Gaussian noise has a smaller loss ({loss})"
        return "the best noise for the bases chosen for prefix sums and ranges; not proven optimal beyond that"

    def check(self, workload: Workload) -> None:
        """Accept any workload. Errors of tables too large to measure are known as well; `requests` refuses those."""
        return

    def inconsistency(self, workload: Workload) -> str | None:
        if TermTable.of(workload).closure() != self.closure:
            return "it measures other tables than its workload asks for"
        return beyond_extremes(np.concatenate([self.sigma_squared, workload.weights]))

    @cached_property
    def _by_name(self) -> dict[str, ResidualBasis]:
        return {name: basis for name, basis in zip(self.domain, self.bases, strict=True) if basis is not None}

    def basis(self, attribute: str) -> ResidualBasis:
        """The basis of an attribute that some set has."""
        basis = self._by_name.get(attribute)
        if basis is None:
            self.domain.check((attribute,))
            raise WorkloadError(f"attribute {attribute!r} is in no set of the plan; add it to the workload")
        return basis

    def clique_bases(self, clique: Iterable[str]) -> tuple[ResidualBasis, ...]:
        """The bases of a clique's attributes, in its order."""
        return tuple(self.basis(name) for name in clique)

    def shape(self, index: int) -> tuple[int, ...]:
        """The shape of the answer of a set, by its position in the closure."""
        return tuple(basis.rows for basis in self.clique_bases(self.closure.cliques[index]))

    def query(self, index: int) -> ProductQuery:
        """The integers that are asked for a set, by its position in the closure."""
        return residual_query(self, self.closure.cliques[index])

    def noise_law(self, index: int) -> StatedNoise:
        """The noise of a set's integers, by its position in the closure: sigma_A on answers over their scale."""
        scale = self.query(index).scale
        return StatedNoise(math.sqrt(self.sigma_squared[index]) * scale)

    def sigma_squared_of(self, clique: Iterable[str]) -> float:
        """sigma^2 of one residual set."""
        return float(self.sigma_squared[self.closure.index(clique)])

    def subset_variances(self, clique: Clique) -> Floats:
        """sigma^2 of the subsets of a clique in domain order, (2,) * k: absent or present, per attribute."""
        # Bit i of a subset's number is attribute i, so the last axis of the reshaped array is the first attribute.
        return self.sigma_squared[self.closure.subsets(clique)].reshape((2,) * len(clique)).T

    def variance(self, clique: Iterable[str]) -> float:
        """The variance of every cell of a plain marginal: sum_{A' subset A} sigma^2_{A'} p_{A'} / prod_{A \\ A'} l^2.

        Reference: [ResidualPlanner, Thm 4.7].
        """
        names = self.domain.clique(clique)
        for name in names:
            if not self.basis(name).is_plain:
                raise WorkloadError(
                    f"the cells of {names!r} differ in variance, because {name!r} has a basis of its own; "
                    "use query_variances"
                )
        pairs = [np.array([[1 / size**2, (size - 1) / size]]) for size in self.domain.sizes(names)]
        return float(self._contract(names, pairs).item())

    def query_variances(self, clique: Iterable[str], blocks: Sequence[LinearOperator] | None = None) -> Floats:
        """The variance of every query of a product of blocks on a clique: one axis per block, in the clique's order.

        Without blocks: of every cell of the marginal. O(2^k prod rows) for k attributes.
        """
        names = self.domain.check(clique)
        if blocks is None:
            blocks = [Identity(size) for size in self.domain.sizes(names)]
        if len(blocks) != len(names):
            raise WorkloadError(f"{len(blocks)} query blocks for {len(names)} attributes; give one each")
        pairs = {}
        for name, block in zip(names, blocks, strict=True):
            basis = self.basis(name)
            pairs[name] = np.column_stack([basis.query_mean(block), basis.query_variances(block)])
        ordered = self.domain.clique(names)
        variances = self._contract(ordered, [pairs[name] for name in ordered])
        return reordered(variances, ordered, names)

    def rmse(self, workload: Workload, *, weighted: bool = True) -> float:
        """sqrt(sum of weight * variance / sum of weight) over all queries; with weights 1, the root mean square error.

        `weighted=False` takes every weight as 1.
        """
        table = TermTable.of(workload)
        weights = (table.weights if weighted else 1.0) * table.queries
        variances = mean_variances(table, self.closure, self.bases) @ self.sigma_squared
        return math.sqrt(float(weights @ variances) / float(weights.sum()))

    def max_variance(self, workload: Workload, *, weighted: bool = True) -> float:
        """The largest weight * variance of any query; `weighted=False` takes every weight as 1."""
        if not self.plain and any(term.symmetric and term.product is None for term in workload):
            factors = [term.weight if weighted else 1.0 for term in workload]
            return max(w * float(self.term_variances(t).max()) for w, t in zip(factors, workload, strict=True))
        table = TermTable.of(workload)
        rows, terms = largest_variances(table, self.closure, self.bases)
        variances = rows @ self.sigma_squared
        return float(np.max(variances * table.weights[terms] if weighted else variances))

    def lower_bound(self, workload: Workload) -> float | None:
        """The SVD bound: no unbiased mechanism of this cost has a smaller weighted sum of variances.

        For marginals and thresholds it is T = (sum_A sqrt(v_A p_A))^2 / c without any matrix, so the plan for "rmse"
        attains it. None for other workloads, and where rows are replaced.

        Reference: [ResidualPlanner, sec. 7, SVDB], which needs the workload as a matrix.
        """
        from hush.strategies.noise_allocation import smallest_sum  # loads scipy

        if not workload.symmetric or self.neighbours is not Neighbours.ADD_REMOVE:
            return None
        table = TermTable.of(workload)
        closure = table.closure()
        bases = [ResidualBasis.plain(size) if size > 1 else None for size in self.domain.shape]
        loss = mean_variances(table, closure, bases).T @ (table.weights * table.queries)
        return smallest_sum(loss, privacy_coefficients(closure, bases), self.pcost)

    def _contract(self, clique: Clique, pairs: list[Floats]) -> Floats:
        """sum over subsets of sigma^2 times a product of entries, one axis per attribute of a clique in domain order.

        Column 0 of a pair is for an absent attribute, column 1 for a present one.
        """
        tensor = self.subset_variances(clique)
        for axis, pair in enumerate(pairs):
            tensor = along(pair, tensor, axis)
        return np.asarray(tensor)


@dataclass(frozen=True, eq=False)
class ResidualErrors:
    """The errors that a residual strategy predicts for a workload, before any data is read."""

    strategy: ResidualStrategy
    workload: Workload

    @cached_property
    def rmse(self) -> float:
        return self.strategy.rmse(self.workload)

    @cached_property
    def means(self) -> Floats:
        rows = mean_variances(TermTable.of(self.workload), self.strategy.closure, self.strategy.bases)
        return np.asarray(rows @ self.strategy.sigma_squared)

    @cached_property
    def largest(self) -> float:
        return self.strategy.max_variance(self.workload, weighted=False)


PREDICTED_BITS = 20  # of the grid on which the cost of tables too large to measure is computed


def beyond_extremes(numbers: Floats) -> str | None:
    """Explain that the noise or the weights in a file are too extreme to be added up; None if they are not."""
    moderate = ((numbers > 1 / LARGEST_WEIGHT) & (numbers < LARGEST_WEIGHT)).all()
    return None if moderate else f"its noise or its weights are beyond {LARGEST_WEIGHT:g}"


def residual_query(strategy: ResidualStrategy, clique: Clique) -> ProductQuery:
    """The integers (kron_{i in A} M_i) v_A of one set; for the empty set the total count.

    Reference: [ResidualPlanner, Alg. 1], in integers and with noise on M v in place of correlated noise.
    """
    return ProductQuery(tuple((name,) for name in clique), strategy.clique_bases(clique))


def plain_residual(domain: Domain, clique: Clique) -> ProductQuery:
    """The residual of one table by itself, level by level: what the table adds to its smaller tables.

    >>> query = plain_residual(Domain({"a": 2, "b": 2}), ("a", "b"))
    >>> query.answer({("a", "b"): np.array([[3, 1], [0, 0]])}).tolist(), query.scale
    ([[2, -2], [-2, 2]], 4)
    """
    return ProductQuery(tuple((name,) for name in clique), tuple(_plain_basis(domain[name]) for name in clique))


_plain_basis = cache(ResidualBasis.plain)


def is_residual(asked: object) -> bool:
    """Whether a query asks for the residual of a table, level by level; see `plain_residual`."""
    if not isinstance(asked, ProductQuery) or any(len(group) != 1 for group in asked.groups):
        return False
    return bool(asked.factors) and all(isinstance(f, ResidualBasis) and f.is_plain for f in asked.factors)


def check_measurable(strategy: ResidualStrategy) -> None:
    """Refuse, before anything is charged, a strategy with a set whose exact answers could overflow 64-bit integers."""
    entries = np.array([1.0 if basis is None else float(basis.largest_entry) for basis in strategy.bases])
    factors = strategy.closure.products(entries)
    worst = int(np.argmax(factors))
    if factors[worst] * LARGEST_ROWS > LARGEST_ANSWER:
        raise SizeError(too_large(strategy.closure.cliques[worst], factors[worst]))


def exact_shares(strategy: ResidualStrategy) -> list[Fraction]:
    """The zCDP cost of each set, as binary fractions that add up to at most `strategy.rho`."""
    return split_exactly(strategy.privacy / (2 * strategy.sigma_squared), strategy.rho)


def marginal_noise(
    domain: Domain,
    marginals: Iterable[tuple[Clique, float]],
    bases: Mapping[str, ResidualBasis] | None = None,
    *,
    residuals: Iterable[tuple[Clique, float]] = (),
) -> ResidualStrategy:
    """The residual strategy equivalent to noisy marginals, each with the variance of its noise.

    `bases` are those of attributes that are not measured level by level. `residuals` were measured by themselves.

    >>> together = marginal_noise(Domain({"a": 2, "b": 3}), [(("a", "b"), 1.0), (("a",), 2.0)])
    >>> round(together.sigma_squared_of(("a",)), 3)  # 1 / (1/3 + 1/2)
    1.2
    """
    listed, alone = list(marginals), list(residuals)
    inside = {name for clique, _ in (*listed, *alone) for name in clique}
    basis_of = {name: ResidualBasis.plain(domain[name]) for name in inside} | dict(bases or {})
    closure = Closure.of(domain, [clique for clique, _ in (*listed, *alone)])
    precision = np.zeros(len(closure))
    for clique, variance in listed:
        cells = np.array([1 / variance])
        for name in domain.clique(clique):  # bit i of a subset's number is attribute i
            cells = np.concatenate([cells / basis_of[name].total_variance_factor, cells])
        precision[closure.subsets(clique)] += cells
    for clique, variance in alone:
        precision[closure.index(clique)] += 1 / variance
    used = tuple(basis_of[name] if name in inside else None for name in domain)
    cost = float(np.sum(privacy_coefficients(closure, used) * precision))
    return ResidualStrategy(domain, used, closure, 1 / precision, Fraction(cost) * Fraction(1, 2))
