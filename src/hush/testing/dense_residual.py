"""DenseResidual: a residual strategy as matrices over a whole small domain, the plain twin of the implicit one."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np

from hush.domain import Clique
from hush.errors import SizeError
from hush.linops import LinearOperator
from hush.strategies.basis import Basis, MatrixBasis
from hush.strategies.residual import ResidualStrategy

Floats = np.ndarray[Any, np.dtype[np.float64]]

LARGEST_DOMAIN = 4096


class DenseResidual:
    """The mechanism B x + N(0, Sigma) of a strategy, with B and Sigma written out, and its generalised least squares.

    `signal` is B (measurements, cells of the domain), `noise` the diagonal of Sigma, `gamma` = B^T Sigma^-1 B.
    """

    def __init__(self, strategy: ResidualStrategy) -> None:
        if strategy.domain.size() > LARGEST_DOMAIN:
            raise SizeError(
                f"a dense twin of {strategy.domain.size()} cells; use a domain of {LARGEST_DOMAIN} or fewer"
            )
        self.strategy = strategy
        blocks = [self.residual(clique) for clique in strategy.closure]
        self.signal = np.concatenate(blocks)
        self.noise = np.repeat(strategy.sigma_squared, [len(block) for block in blocks])
        self.gamma = self.signal.T @ (self.signal / self.noise[:, None])
        self._inverse = np.linalg.pinv(self.gamma, rcond=1e-11, hermitian=True)

    def residual(self, clique: Iterable[str]) -> Floats:
        """kron over all attributes of M_i / L_i within the clique and 1^T outside it."""
        chosen = set(clique)
        product: Floats = np.ones((1, 1))
        for name, size in zip(self.strategy.domain, self.strategy.domain.shape, strict=True):
            inside = basis_matrix(self.strategy.basis(name)) if name in chosen else np.ones((1, size))
            product = np.asarray(np.kron(product, inside), dtype=np.float64)
        return product

    def marginal(self, clique: Clique, blocks: Iterable[LinearOperator] | None = None) -> Floats:
        """The marginal on a clique in domain order, or the product of query blocks on it, as a matrix."""
        own = dict(zip(clique, (block.dense() for block in blocks), strict=True)) if blocks is not None else {}
        product: Floats = np.ones((1, 1))
        for name, size in zip(self.strategy.domain, self.strategy.domain.shape, strict=True):
            identity = np.eye(size) if name in clique else np.ones((1, size))
            product = np.asarray(np.kron(product, own.get(name, identity)), dtype=np.float64)
        return product

    def estimate(self, queries: Floats, answers: Floats) -> Floats:
        """The best linear unbiased estimate W Gamma^+ B^T Sigma^-1 omega."""
        return np.asarray(queries @ self._inverse @ (self.signal.T @ (answers / self.noise)))

    def covariance(self, queries: Floats, others: Floats) -> Floats:
        """W Gamma^+ U^T."""
        return np.asarray(queries @ self._inverse @ others.T)


def basis_matrix(basis: Basis) -> Floats:
    """M / L written out."""
    if isinstance(basis, MatrixBasis):
        return np.asarray(basis.matrix / basis.scale)
    return np.eye(basis.size) - 1 / basis.size


def powerset(names: Iterable[str]) -> list[Clique]:
    """Every subset, by size."""
    every = tuple(names)
    return [subset for k in range(len(every) + 1) for subset in itertools.combinations(every, k)]
