"""Dense twins: estimates, graphical models and residual strategies over every cell of a small domain.

Tests compare implicit computations with these, which write everything out.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from scipy.optimize import linprog, nnls
from scipy.special import logsumexp

from hush.core.arrays import Floats, summed
from hush.core.domain import Clique, Domain
from hush.core.errors import SizeError, WorkloadError
from hush.inference.error_law import ErrorLaw
from hush.inference.factors import Factors
from hush.linops import LinearOperator
from hush.linops.combination import kron_product
from hush.privacy.measurement import Measurement, StatedNoise
from hush.strategies.residual_basis import ResidualBasis
from hush.strategies.residual_strategy import ResidualStrategy


class DenseEstimates:
    """The plain twin of real estimates: a table of counts over the whole domain and the covariance of its cells.

    `cliques` are the largest tables that it claims to hold, the whole domain by default. `asked` lists the tables that
    were read, so that a test can see that a query read no larger one than it needs.
    """

    def __init__(
        self,
        domain: Domain,
        table: Floats,  # of shape domain.shape
        cell_covariance: Floats | None = None,  # (cells, cells); zero by default
        cliques: tuple[Clique, ...] | None = None,
    ) -> None:
        self.domain = domain
        self.table = np.asarray(table, dtype=np.float64).reshape(domain.shape)
        self.cell_covariance = cell_covariance
        self.cliques = (domain.attributes,) if cliques is None else cliques
        self.asked: list[Clique] = []

    def covers(self, clique: Clique) -> bool:
        """Whether some held table has all the attributes."""
        return any(set(clique) <= set(held) for held in self.cliques)

    def for_sums(self, clique: Clique, coefficients: Floats, groups: int) -> None:
        """Nothing to prepare: dense estimates hold whole tables."""

    def counts(self, clique: Clique) -> Floats:
        """Sums over the other attributes."""
        if not self.covers(clique):
            raise WorkloadError(f"no table over {clique!r}")
        self.asked.append(clique)
        sums = np.bincount(self._cell_numbers(clique), self.table.ravel(), self.domain.size(clique))
        return np.asarray(sums.reshape(self.domain.sizes(clique)))

    def covariance(self, clique: Clique, first: Floats, second: Floats, groups: int) -> Floats:
        """f_g^T S s_g for every group g, where f_g and s_g are the coefficients of the cells in g."""
        shape = self.domain.sizes(clique)
        if first.shape != shape or second.shape != shape:
            raise WorkloadError(f"coefficients of shape {first.shape} and {second.shape}: expected {shape}")
        if self.cell_covariance is None:
            return np.zeros(shape[:groups])
        cells = self._cell_numbers(clique)
        inside = np.eye(self.domain.size(clique[:groups]))[self._cell_numbers(clique[:groups])]  # (cells, groups)
        left, right = (inside * side.ravel()[cells, None] for side in (first, second))
        return np.asarray((left * (self.cell_covariance @ right)).sum(axis=0)).reshape(shape[:groups])

    laplace = False

    def alike(self, name: str) -> bool:
        """Levels may differ."""
        return False

    def error_law(
        self, clique: Clique, coefficients: Floats, blocks: Sequence[LinearOperator] | None = None
    ) -> ErrorLaw:
        """The normal law of the sum's variance."""
        one = np.ones(1)
        variance = float(self.covariance(clique, coefficients, coefficients, 0))
        return ErrorLaw([(one, one, StatedNoise(math.sqrt(variance)))])

    def product(self, clique: Clique, blocks: Sequence[LinearOperator]) -> tuple[Floats, Floats]:
        """W x and the diagonal of W S W^T, with W written out over the cells of the domain."""
        if len(blocks) != len(clique):
            raise WorkloadError(f"{len(blocks)} query blocks for {len(clique)} attributes; give one each")
        if not self.covers(clique):
            raise WorkloadError(f"no table over {clique!r}")
        rows = kron_product([np.ones((1, 1)), *(block.dense() for block in blocks)])[:, self._cell_numbers(clique)]
        shape = tuple(block.shape[0] for block in blocks)
        covariance = self.cell_covariance
        variances = np.zeros(len(rows)) if covariance is None else np.sum(rows * (rows @ covariance), axis=1)
        return (rows @ self.table.ravel()).reshape(shape), variances.reshape(shape)

    def _cell_numbers(self, clique: Clique) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """For each cell of the domain, the number of its cell in the table of the clique."""
        codes = np.unravel_index(np.arange(self.table.size), self.domain.shape)
        cells = np.zeros(self.table.size, dtype=np.int64)
        for name in clique:
            cells = cells * self.domain[name] + codes[self.domain.attributes.index(name)]
        return cells


LARGEST_DOMAIN = 1 << 21


class DenseModel:
    """p(x) = exp(sum_r theta_r(x_r)) / Z cell by cell, and exact optima over all tables of a total.

    `fixed` are tables of logarithms that are added to the potentials: 0, or -inf where a combination is impossible.
    """

    def __init__(self, factors: Factors, fixed: Iterable[tuple[Clique, Floats]] = ()) -> None:
        if factors.domain.size() > LARGEST_DOMAIN:
            raise SizeError(f"a dense twin of {factors.domain.size()} cells; use a domain of {LARGEST_DOMAIN} or fewer")
        self.factors = factors
        self.domain = factors.domain
        self.fixed = np.zeros(self.domain.shape)
        for clique, table in fixed:
            self.fixed = self.fixed + self._widened(clique, table)

    def sums(self, potentials: Floats) -> Floats:
        """sum_r theta_r(x_r) of every record, without the fixed tables."""
        total = np.zeros(self.domain.shape)
        for clique, table in zip(self.factors.cliques, self.factors.tables(potentials), strict=True):
            total = total + self._widened(clique, table)
        return total

    def log_partition(self, potentials: Floats) -> float:
        """log Z."""
        return float(logsumexp(self.sums(potentials) + self.fixed))

    def probabilities(self, potentials: Floats) -> Floats:
        """p(x) of every record."""
        logs = self.sums(potentials) + self.fixed
        weights = np.exp(logs - logs.max())
        return np.asarray(weights / weights.sum())

    def marginals(self, table: Floats) -> Floats:
        """The sums of a table over the domain onto every factor, flat."""
        flat = np.empty(self.factors.size)
        for index, clique in enumerate(self.factors.cliques):
            self.factors.table(flat, index)[...] = summed(table, self.domain.attributes, clique)
        return flat

    def tangent(self, potentials: Floats, direction: Floats, total: float) -> Floats:
        """The derivative of the counts: N p (G - E[G]), G the sum of the direction's tables."""
        p, g = self.probabilities(potentials), self.sums(direction)
        return self.marginals(total * p * (g - float(np.sum(p * g))))

    def largest(self, potentials: Floats) -> float:
        """The largest sum of potentials over possible records."""
        return float((self.sums(potentials) + self.fixed).max())

    def least_squares(self, measurements: Sequence[Measurement], total: float) -> Floats:
        """Counts x >= 0 over the domain with sum N and the least sum_j |Q_j M_j x - y_j|^2 / stddev_j^2.

        With x = N u and 1^T u = 1 the residual is C u, C = B N - y 1^T. Non-negative u with the least
        |C u|^2 + k (1^T u - 1)^2 is, up to its sum, the u with the least |C u| for any k > 0.
        """
        b, y = self.answers(measurements)
        c = b * total - y[:, None]
        possible = np.isfinite(self.fixed).ravel()
        k = float(np.median(np.linalg.norm(c[:, possible], axis=0))) / 10
        stacked = np.vstack([c[:, possible], np.full((1, int(possible.sum())), k)])
        u, _ = nnls(stacked, np.append(np.zeros(len(y)), k), maxiter=50 * stacked.shape[1])
        counts = np.zeros(self.domain.size())
        counts[possible] = total * u / u.sum()
        return counts.reshape(self.domain.shape)

    def least_absolute(self, measurements: Sequence[Measurement], total: float) -> float:
        """The least sqrt(2) sum_j |Q_j M_j x - y_j|_1 / stddev_j over counts x >= 0 with sum N: a linear program."""
        b, y = self.answers(measurements)
        possible = np.isfinite(self.fixed).ravel()
        b = b[:, possible]
        m, n = b.shape
        optimum = linprog(
            np.append(np.zeros(n), np.full(m, np.sqrt(2.0))),
            A_ub=np.block([[b, -np.eye(m)], [-b, -np.eye(m)]]),
            b_ub=np.append(y, -y),
            A_eq=np.append(np.ones(n), np.zeros(m))[None, :],
            b_eq=[total],
            method="highs",
        )
        return float(optimum.fun)

    def answers(self, measurements: Sequence[Measurement]) -> tuple[Floats, Floats]:
        """Queries on the whole domain and their noisy answers, both in standard deviations."""
        rows, values = [], []
        for measurement in measurements:
            placed = measurement.on(self.domain)
            query = self.incidence(placed.clique)
            if placed.query is not None:
                query = placed.query.dense() @ query  # type: ignore[union-attr]
            rows.append(query / measurement.stddev)
            values.append(placed.values.ravel() / measurement.stddev)
        return np.concatenate(rows), np.concatenate(values)

    def incidence(self, clique: Clique) -> Floats:
        """The marginal over a clique in domain order as a matrix of zeros and ones."""
        sizes = zip(self.domain, self.domain.shape, strict=True)
        return kron_product(np.eye(size) if name in clique else np.ones((1, size)) for name, size in sizes)

    def _widened(self, clique: Clique, table: Floats) -> Floats:
        return table.reshape([self.domain[name] if name in clique else 1 for name in self.domain])


LARGEST_DENSE_STRATEGY = 4096


class DenseResidual:
    """The mechanism B x + N(0, Sigma) of a strategy, with B and Sigma written out, and its generalised least squares.

    `signal` is B (measurements, cells of the domain), `noise` the diagonal of Sigma, `gamma` = B^T Sigma^-1 B.
    """

    def __init__(self, strategy: ResidualStrategy) -> None:
        if strategy.domain.size() > LARGEST_DENSE_STRATEGY:
            raise SizeError(
                f"a dense twin of {strategy.domain.size()} cells; use a domain of {LARGEST_DENSE_STRATEGY} or fewer"
            )
        self.strategy = strategy
        blocks = [self.residual(clique) for clique in strategy.closure]
        self.signal = np.concatenate(blocks)
        self.noise = np.repeat(strategy.sigma_squared, [len(block) for block in blocks])
        self.gamma = self.signal.T @ (self.signal / self.noise[:, None])
        self._inverse = np.linalg.pinv(self.gamma, rcond=1e-11, hermitian=True)

    def residual(self, clique: Iterable[str]) -> Floats:
        """kron over all attributes of M_i / L_i within the clique and 1^T outside it."""
        chosen, domain = set(clique), self.strategy.domain
        return kron_product(
            basis_matrix(self.strategy.basis(name)) if name in chosen else np.ones((1, size))
            for name, size in zip(domain, domain.shape, strict=True)
        )

    def marginal(self, clique: Clique, blocks: Iterable[LinearOperator] | None = None) -> Floats:
        """The marginal on a clique in domain order, or the product of query blocks on it, as a matrix."""
        domain = self.strategy.domain
        matrices = {name: np.eye(domain[name]) for name in clique}
        if blocks is not None:
            matrices = dict(zip(clique, (block.dense() for block in blocks), strict=True))
        return kron_product(
            matrices.get(name, np.ones((1, size))) for name, size in zip(domain, domain.shape, strict=True)
        )

    def estimate(self, queries: Floats, answers: Floats) -> Floats:
        """The best linear unbiased estimate W Gamma^+ B^T Sigma^-1 omega."""
        return np.asarray(queries @ self._inverse @ (self.signal.T @ (answers / self.noise)))

    def covariance(self, queries: Floats, others: Floats) -> Floats:
        """W Gamma^+ U^T."""
        return np.asarray(queries @ self._inverse @ others.T)


def basis_matrix(basis: ResidualBasis) -> Floats:
    """M / L written out."""
    if not basis.is_plain:
        return np.asarray(basis.matrix / basis.scale)
    return np.eye(basis.size) - 1 / basis.size


def powerset(names: Iterable[str]) -> list[Clique]:
    """Every subset, by size."""
    every = tuple(names)
    return [subset for k in range(len(every) + 1) for subset in itertools.combinations(every, k)]


def disagreement(domain: Domain, tables: Mapping[Clique, Floats]) -> float:
    """The largest difference between two tables on a margin that they share; zero for tables that agree."""
    margins: dict[Clique, list[Floats]] = {}
    for clique, table in tables.items():
        names = domain.check(clique)
        for count in range(len(names) + 1):
            for kept in itertools.combinations(domain.clique(names), count):
                margins.setdefault(kept, []).append(summed(table, names, kept))
    return max(float(np.max(np.ptp(np.stack(same), axis=0))) for same in margins.values())
