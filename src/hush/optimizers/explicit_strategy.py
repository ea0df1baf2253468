"""Strategies that need no search, trees and wavelets, and the expected error of any explicit strategy.

With a strategy A of sensitivity Delta_A (its largest column norm, L2 under Gaussian and L1 under Laplace noise), the
answers W A^+ (A x + noise) have covariance P Delta_A^2 W (A^T A)^+ W^T. Everything here is per unit of P, the noise's
variance at sensitivity one. The plain tree and the unnormalised wavelet are `Tree` and `Haar`.

Reference: [Li 2013, Def. 3.4, Prop. 3.5], with the traces corrected: tr(W (A^T A)^+ W^T) = tr(W^T W (A^T A)^+).
"""

from __future__ import annotations

import math

import numpy as np
import scipy

from hush.core.arrays import Floats
from hush.core.errors import SizeError, WorkloadError
from hush.linops import Identity, Kronecker, LinearOperator, Product, Scaled, Stack, Total, Tree
from hush.strategies.strategy import NoiseKind


def short_wavelet(size: int) -> LinearOperator:
    """A strategy with the wavelet's A^T A and a smaller L1 sensitivity: log2(n) - 1 + sqrt(2), not log2(n) + 1.

    The tree without its root, with leaves scaled by sqrt(2). Under Laplace noise the variance of every answer falls by
    the same factor, to 0.648 of the wavelet's at 4 cells and 0.814 at 32; under Gaussian noise nothing changes.

    Reference: [Li 2013, Fig. 3.3] for H', the tree with every leaf twice; here each leaf is one row.

    >>> from hush.linops import Haar
    >>> float(round(short_wavelet(4).sensitivity(1) ** 2 / Haar(4).sensitivity(1) ** 2, 3))
    0.648
    """
    if size < 2 or size & (size - 1):
        raise WorkloadError(f"short_wavelet({size}): expected a power of two above 1; use hierarchical for other sizes")
    leaves = Scaled(Identity(size), math.sqrt(2))
    if size == 2:
        return leaves
    pairs = Kronecker((Identity(size // 2), Total(2)))
    return Stack((Product((Tree(size // 2, root=False), pairs)), leaves))


def hb(size: int) -> LinearOperator:
    """The tree without root whose branching is best for ranges; for few cells the identity.

    Reference: [Qardaji et al. 2013b], HB.

    >>> [best_branching(size) for size in (64, 256, 1024, 4096)]
    [64, 16, 32, 16]
    """
    return Tree(size, best_branching(size), root=False) if size > 1 else Identity(size)


def best_branching(size: int) -> int:
    """The b with the least (b - 1) h^3 - 2 (b + 1) h^2 / 3, h = ceil(log_b n): the mean variance of a range.

    Reference: [Qardaji et al. 2013b].
    """
    return min(
        range(2, max(2, size) + 1), key=lambda b: (3 * (b - 1) * _height(size, b) - 2 * (b + 1)) * _height(size, b) ** 2
    )


def _height(size: int, branching: int) -> int:
    height, reach = 0, 1
    while reach < size:
        height, reach = height + 1, reach * branching
    return max(height, 1)


MOST_QUERIES = 8192
OUTSIDE_ROW_SPACE = 1e-10  # of a workload's squared norm that may lie outside a strategy's row space by rounding


def supports(workload: LinearOperator, strategy: LinearOperator) -> bool:
    """Whether every query is a combination of the strategy's: W = W A^+ A, to a relative 1e-5 of each query.

    >>> from hush.linops import Identity, Prefix, Total
    >>> supports(Prefix(3), Identity(3)), supports(Identity(3), Total(3))
    (True, False)
    """
    _check_cells(workload.shape[1], strategy)
    _, basis = _profile(strategy)
    rows = workload.dense()
    missed = np.sum((rows - (rows @ basis) @ basis.T) ** 2, axis=1)
    return bool((missed <= OUTSIDE_ROW_SPACE * np.sum(rows**2, axis=1)).all())


def total_error(
    gram: Floats,  # (n, n), W^T W
    strategy: LinearOperator,
    noise: NoiseKind = NoiseKind.GAUSSIAN,
) -> float:
    """Delta_A^2 tr(W^T W (A^T A)^+), the summed variance of all answers.

    >>> from hush.linops import AllRange, Haar
    >>> round(total_error(AllRange(8).gram_dense(), Haar(8)), 6)
    93.5
    """
    if gram.ndim != 2 or gram.shape[0] != gram.shape[1]:
        raise WorkloadError(f"a Gram matrix W^T W must be square, not of shape {gram.shape}")
    _check_cells(len(gram), strategy)
    e, basis = _profile(strategy)
    inner = np.einsum("ja,ja->a", basis, gram @ basis)
    asked = float(np.trace(gram))
    if asked - float(inner.sum()) > OUTSIDE_ROW_SPACE * asked:
        raise _unsupported()
    return strategy.sensitivity(noise.norm) ** 2 * float(np.sum(inner / e))


def query_errors(
    workload: LinearOperator, strategy: LinearOperator, noise: NoiseKind = NoiseKind.GAUSSIAN
) -> Floats:  # (m,)
    """Delta_A^2 w (A^T A)^+ w^T of every query."""
    half = _half(workload, strategy)
    return np.asarray(strategy.sensitivity(noise.norm) ** 2 * np.sum(half**2, axis=1))


def largest_error(workload: LinearOperator, strategy: LinearOperator, noise: NoiseKind = NoiseKind.GAUSSIAN) -> float:
    return float(query_errors(workload, strategy, noise).max())


def covariance(
    workload: LinearOperator, strategy: LinearOperator, noise: NoiseKind = NoiseKind.GAUSSIAN
) -> Floats:  # (m, m)
    """Delta_A^2 W (A^T A)^+ W^T, the covariance of the answers."""
    if workload.shape[0] > MOST_QUERIES:
        raise SizeError(
            f"the covariance of {workload.shape[0]} answers is too large (limit {MOST_QUERIES}); "
            "ask for their variances with query_errors"
        )
    half = _half(workload, strategy)
    return np.asarray(strategy.sensitivity(noise.norm) ** 2 * (half @ half.T))


def _half(workload: LinearOperator, strategy: LinearOperator) -> Floats:
    """W (A^T A)^{+1/2}, up to a rotation; (m, rank)."""
    _check_cells(workload.shape[1], strategy)
    if not supports(workload, strategy):
        raise _unsupported()
    e, basis = _profile(strategy)
    return np.asarray(workload.matmat(basis / np.sqrt(e)))


def _profile(strategy: LinearOperator) -> tuple[Floats, Floats]:
    """The nonzero eigenvalues of A^T A with their eigenvectors, (rank,) and (n, rank)."""
    e, q = scipy.linalg.eigh(strategy.gram_dense(), driver="evd", check_finite=False)
    nonzero = e > len(e) * np.finfo(np.float64).eps * e[-1]
    return e[nonzero], q[:, nonzero]


def _check_cells(cells: int, strategy: LinearOperator) -> None:
    if strategy.shape[1] != cells:
        raise WorkloadError(
            f"a workload on {cells} cells and a strategy on {strategy.shape[1]}: expected the same cells for both"
        )


def _unsupported() -> WorkloadError:
    return WorkloadError(
        "the strategy cannot answer the workload: some query is no combination of what is measured; "
        "add the identity to the strategy, or leave the query out"
    )
