"""ResidualStrategy: which residual sets to measure, and with how much noise."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from hush.domain import Clique, Domain
from hush.errors import BudgetError, WorkloadError
from hush.linops import Identity, LinearOperator
from hush.privacy.neighbours import Neighbours
from hush.strategies.basis import Basis, PlainBasis
from hush.strategies.closed_form import smallest_sum
from hush.strategies.closure import Closure
from hush.strategies.coefficients import largest_variances, mean_variances, privacy_coefficients
from hush.strategies.terms import TermTable
from hush.workloads import Workload

Floats = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, eq=False)
class ResidualStrategy:
    """Residual sets with their noise: set A is measured as M_A v_A / L_A plus noise of variance sigma^2_A.

    `bases[i]` belongs to the i-th attribute of the domain (None where no set has it); `sigma_squared[j]` to the j-th
    set of the closure. `rho` is the zCDP that measuring everything once may cost, on rows as privacy units.

    Optimal where every basis is plain: no unbiased linear mechanism with Gaussian noise has a smaller loss, for any
    loss that is convex, rises with the variances and treats the cells of a marginal alike. With other bases the noise
    is the best for those bases, which are themselves close to the best for one attribute alone; no more is claimed.

    Privacy: a strategy holds no data; `requests` in `residual_query` turns it into measurements.
    Reference: [ResidualPlanner, Thm 4.3] for optimality.
    """

    domain: Domain
    bases: tuple[Basis | None, ...]
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
        if any(self.bases[place] is None for level in self.closure.levels for place in np.unique(level).tolist()):
            raise WorkloadError("every attribute of the closure needs a basis")
        if self.pcost > 2 * float(self.rho) * (1 + 1e-9):
            raise BudgetError(f"the noise costs rho={self.pcost / 2:g}, above the {float(self.rho):g} it may cost")

    @property
    def plain(self) -> bool:
        """Whether every basis is plain, so that the strategy is optimal for what it was selected for."""
        return all(basis is None or isinstance(basis, PlainBasis) for basis in self.bases)

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
    def measurement_bytes(self) -> int:
        """Memory for all noisy answers as int64."""
        return 8 * int(self.cells.sum())

    @cached_property
    def _by_name(self) -> dict[str, Basis]:
        return {name: basis for name, basis in zip(self.domain, self.bases, strict=True) if basis is not None}

    def basis(self, attribute: str) -> Basis:
        """The basis of an attribute that some set has."""
        found = self._by_name.get(attribute)
        if found is None:
            self.domain.check((attribute,))
            raise WorkloadError(f"attribute {attribute!r} is in no set of the plan; add it to the workload")
        return found

    def clique_bases(self, clique: Iterable[str]) -> tuple[Basis, ...]:
        """The bases of a clique's attributes, in its order."""
        return tuple(self.basis(name) for name in clique)

    def sigma_squared_of(self, clique: Iterable[str]) -> float:
        """sigma^2 of one residual set."""
        return float(self.sigma_squared[self.closure.index(clique)])

    def variance(self, clique: Iterable[str]) -> float:
        """The variance of every cell of a plain marginal: sum_{A' subset A} sigma^2_{A'} p_{A'} / prod_{A \\ A'} l^2.

        Reference: [ResidualPlanner, Thm 4.7].
        """
        names = self.domain.clique(clique)
        for name in names:
            if not isinstance(self.basis(name), PlainBasis):
                raise WorkloadError(
                    f"the cells of {names!r} differ in variance, for {name!r} has a basis of its own; "
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
        found = self._contract(ordered, [pairs[name] for name in ordered])
        return np.transpose(found, [ordered.index(name) for name in names])

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
        table = TermTable.of(workload)
        rows, terms = largest_variances(table, self.closure, self.bases)
        variances = rows @ self.sigma_squared
        return float(np.max(variances * table.weights[terms] if weighted else variances))

    def lower_bound(self, workload: Workload) -> float | None:
        """The SVD bound: no unbiased mechanism of this cost has a smaller weighted sum of variances.

        For plain workloads it is T = (sum_A sqrt(v_A p_A))^2 / c without any matrix, so the plan for "rmse" attains
        it. None for other workloads, and where rows are replaced.

        Reference: [ResidualPlanner, sec. 7, SVDB], which needs the workload as a matrix.
        """
        if not workload.plain or self.neighbours is not Neighbours.ADD_REMOVE:
            return None
        table = TermTable.of(workload)
        closure = table.closure()
        bases = [PlainBasis(size) if size > 1 else None for size in self.domain.shape]
        loss = mean_variances(table, closure, bases).T @ (table.weights * table.queries)
        return smallest_sum(loss, privacy_coefficients(closure, bases), self.pcost)

    def _contract(self, clique: Clique, pairs: list[Floats]) -> Floats:
        """sum over subsets of sigma^2 times a product of entries, one axis per attribute of a clique in domain order.

        Column 0 of a pair is for an absent attribute, column 1 for a present one.
        """
        k = len(pairs)
        # bit i of a subset's number is attribute i, so the last axis of the reshaped array is the first attribute
        found = self.sigma_squared[self.closure.subsets(clique)].reshape((2,) * k).T
        for axis, pair in enumerate(pairs):
            found = np.moveaxis(np.tensordot(pair, found, axes=(1, axis)), 0, axis)
        return np.asarray(found)
