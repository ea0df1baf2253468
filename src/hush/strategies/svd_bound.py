"""The SVD bound: a total squared error that no supporting strategy goes below, under Gaussian or Laplace noise.

    SVDB(W) = (sum_i lambda_i)^2 / n = (tr G^{1/2})^2 / n,        G = W^T W on n cells, lambda_i singular values of W,

per unit of P, the noise's variance at sensitivity one. It is tight under Gaussian noise if and only if the diagonal of
G^{1/2} is constant: for marginals with any weights, circular convolutions and all predicates, among others. For a
Kronecker product it is the product of the factors' bounds.

Reference: [Li 2013, chapter 4].
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy

from hush.errors import WorkloadError
from hush.strategies.optimum import dual_value, root_sum

Floats = np.ndarray[Any, np.dtype[np.float64]]


def svd_bound(gram: Floats) -> float:  # (n, n), W^T W
    """SVDB of a workload known by its Gram matrix. O(n^3).

    >>> from hush.linops import AllRange
    >>> round(svd_bound(AllRange(4).gram_dense()), 5)
    16.31224
    """
    _check(gram)
    return dual_value(gram, np.full(len(gram), 1 / len(gram)))


def svd_bound_of_rows(workload: Floats) -> float:  # (m, n), W
    """SVDB of explicit queries, through W W^T where they are fewer than the cells. O(m n min(m, n))."""
    m, n = workload.shape
    inner = workload @ workload.T if m < n else workload.T @ workload
    return float(root_sum(scipy.linalg.eigvalsh(inner)) ** 2 / n)


def variable_agnostic_bound(size: int, diagonal: float, other: float) -> float:
    """SVDB of a Gram matrix with one number on its diagonal and one off it; tight.

        (sqrt(a + (n - 1) b) + (n - 1) sqrt(a - b))^2 / n

    Reference: [Li 2013, chapter 4]. Differs from [Li 2013]: holds for every n, not powers of two alone.

    >>> round(variable_agnostic_bound(4, 2.0, 1.0) * 2**2, 6) == round((3 + 5**0.5) ** 2 * 2**2 / 4, 6)
    True
    """
    if not 0 <= other <= diagonal:
        raise WorkloadError(f"diagonal={diagonal}, other={other}: expected 0 <= other <= diagonal")
    return float((np.sqrt(diagonal + (size - 1) * other) + (size - 1) * np.sqrt(diagonal - other)) ** 2 / size)


def projected_svd_bound(gram: Floats, *, cuts: int = 16) -> float:
    """The largest SVDB of the workload on any run of cells between two of `cuts` + 1 evenly spaced places.

    Every strategy for the workload is one for its projection, so the largest is a bound as well. O(cuts^2 n^3).
    """
    _check(gram)
    places = np.unique(np.linspace(0, len(gram), cuts + 1).round().astype(int))
    return max(svd_bound(gram[start:stop, start:stop]) for at, start in enumerate(places) for stop in places[at + 1 :])


def simplified_svd_bound(gram: Floats) -> float:
    """SVDB after leaving out cells that nothing asks for and merging those that all queries treat alike.

    Often larger than SVDB and not always; both are bounds.

    Reference: [Li 2013, chapter 4], cell-simplified SVD bound.

    >>> w = np.array([[1.0, 1, 1], [0, 1, 1]])
    >>> round(svd_bound(w.T @ w), 2), round(simplified_svd_bound(w.T @ w), 2)
    (2.61, 2.5)
    """
    kept = distinct_cells(gram)
    return svd_bound(gram[np.ix_(kept, kept)])


def distinct_cells(gram: Floats) -> np.ndarray[Any, np.dtype[np.intp]]:
    """The first cell of every set of cells with the same column of W, zero columns left out: |w_j - w_k|^2 = 0."""
    _check(gram)
    norms = gram.diagonal()
    slack = 1e-12 * float(norms.max())
    kept: list[int] = []
    for j in np.flatnonzero(norms > slack).tolist():
        if not (np.abs(norms[j] + norms[kept] - 2 * gram[j, kept]) <= slack).any():
            kept.append(j)
    return np.array(kept, dtype=np.intp)


def looseness(gram: Floats) -> float:
    """How far the best strategy under Gaussian noise can be above SVDB: n max diag(G^{1/2}) / tr(G^{1/2}); 1 if tight.

    Reference: [Li 2013, chapter 4].
    """
    _check(gram)
    e, q = scipy.linalg.eigh(gram)
    roots = np.sqrt(np.maximum(e, 0))
    return float(len(gram) * (q**2 @ roots).max() / roots.sum())


def _check(gram: Floats) -> None:
    if gram.ndim != 2 or gram.shape[0] != gram.shape[1] or not gram.size or not np.isfinite(gram).all():
        raise WorkloadError(
            "the Gram matrix of the queries must be square and finite; bring huge ones to a smaller scale"
        )
