"""DenseModel: a graphical model over every cell of a small domain, the plain twin of passes over a junction tree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from scipy.optimize import linprog, nnls
from scipy.special import logsumexp

from hush.domain import Clique
from hush.errors import SizeError
from hush.graphical.factors import Factors
from hush.graphical.measurement import Measurement

Floats = np.ndarray[Any, np.dtype[np.float64]]

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
        found = np.zeros(self.domain.shape)
        for clique, table in zip(self.factors.cliques, self.factors.tables(potentials), strict=True):
            found = found + self._widened(clique, table)
        return found

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
        found = np.empty(self.factors.size)
        for index, clique in enumerate(self.factors.cliques):
            others = tuple(axis for axis, name in enumerate(self.domain) if name not in clique)
            self.factors.table(found, index)[...] = table.sum(axis=others)
        return found

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
        found = np.zeros(self.domain.size())
        found[possible] = total * u / u.sum()
        return found.reshape(self.domain.shape)

    def least_absolute(self, measurements: Sequence[Measurement], total: float) -> float:
        """The least sqrt(2) sum_j |Q_j M_j x - y_j|_1 / stddev_j over counts x >= 0 with sum N: a linear program."""
        b, y = self.answers(measurements)
        possible = np.isfinite(self.fixed).ravel()
        b = b[:, possible]
        m, n = b.shape
        found = linprog(
            np.append(np.zeros(n), np.full(m, np.sqrt(2.0))),
            A_ub=np.block([[b, -np.eye(m)], [-b, -np.eye(m)]]),
            b_ub=np.append(y, -y),
            A_eq=np.append(np.ones(n), np.zeros(m))[None, :],
            b_eq=[total],
            method="highs",
        )
        return float(found.fun)

    def answers(self, measurements: Sequence[Measurement]) -> tuple[Floats, Floats]:
        """Queries on the whole domain and their noisy answers, both in standard deviations."""
        rows, values = [], []
        for one in measurements:
            placed = one.on(self.domain)
            query = self.incidence(placed.clique)
            if placed.query is not None:
                query = placed.query.dense() @ query  # type: ignore[union-attr]
            rows.append(query / one.stddev)
            values.append(placed.values.ravel() / one.stddev)
        return np.concatenate(rows), np.concatenate(values)

    def incidence(self, clique: Clique) -> Floats:
        """The marginal over a clique in domain order as a matrix of zeros and ones."""
        product: Floats = np.ones((1, 1))
        for name, size in zip(self.domain, self.domain.shape, strict=True):
            product = np.asarray(np.kron(product, np.eye(size) if name in clique else np.ones((1, size))))
        return product

    def _widened(self, clique: Clique, table: Floats) -> Floats:
        return table.reshape([self.domain[name] if name in clique else 1 for name in self.domain])
