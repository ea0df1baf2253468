"""Workloads and strategies as matrices: fewer cells for the same queries, and when two ask for as much as each other.

Queries W on n cells ask for W x, where x are the counts of the cells. Cells that all queries treat alike can be merged,
and cells that none asks for left out; the least possible error stays the same under every noise.

W contains V, so that the least error of V is at most that of W, if V = C W with |C| <= 1, which holds if and only if
W^T W - V^T V has no negative eigenvalue. Two strategies have the same profile if A^T A = c B^T B; their errors then
differ by one factor for all queries, which is one if c Delta_B^2 = Delta_A^2.

Reference: [Li 2013, chapters 2 and 3].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from hush.core.arrays import Floats, Integers
from hush.core.errors import SizeError, WorkloadError
from hush.linops import LinearOperator
from hush.strategies.strategy import NoiseKind
from hush.strategies.term_table import TermGrams
from hush.workloads import Workload

LARGEST_GRAM = 4096  # cells
ROUNDING = 1e-9  # of the largest entry: differences below it are taken for rounding


def workload_gram(workload: Workload) -> Floats:  # (n, n)
    """W^T W over the cells of the columns that a workload asks for, in the order of its domain; at most 4,096 cells.

    >>> import hush
    >>> workload_gram(hush.Workload.kway(hush.Domain({"a": 2, "b": 2}), 1))[0].tolist()
    [2.0, 1.0, 1.0, 0.0]
    """
    grams = TermGrams.of(workload)
    cells = math.prod(workload.domain.shape[axis] for axis in grams.asked)
    if cells > LARGEST_GRAM:
        raise SizeError(f"a Gram matrix over {cells:,} cells is too large (limit {LARGEST_GRAM:,}); use fewer columns")
    total: Floats = np.zeros((cells, cells))
    for weight, index in zip(grams.weights, grams.index, strict=True):
        product = np.full((1, 1), weight)
        for axis in grams.asked:
            product = np.kron(product, grams.gram(axis, int(index[axis])))
        total += product
    return total


@dataclass(frozen=True, slots=True, eq=False)
class MinimalWorkload:
    """Queries on as few cells as they need, and the merged cell of each old cell; -1 where no query asks for it."""

    queries: Floats  # (m, k)
    cell_of: Integers  # (n,)

    def merged(self, counts: Any) -> Floats:  # (n,) -> (k,)
        """Counts of the old cells, added up to those of the new cells."""
        x = np.asarray(counts, dtype=np.float64)
        if x.shape != self.cell_of.shape:
            raise WorkloadError(f"counts of shape {x.shape}: expected one for each of {len(self.cell_of)} cells")
        asked = self.cell_of >= 0
        merged = np.zeros(self.queries.shape[1])
        np.add.at(merged, self.cell_of[asked], x[asked])
        return merged


def minimised(queries: Any) -> MinimalWorkload:  # (m, n)
    """The same queries without cells that none asks for, and with cells merged that all treat alike.

    Two workloads that ask for the same numbers of any table have the same minimal form, up to the order of rows and
    cells.

    Reference: [Li 2013, chapter 2], semantic equivalence.

    >>> small = minimised([[1, 1, 0, 1], [0, 0, 0, 1]])
    >>> small.queries.tolist(), small.cell_of.tolist(), small.merged([5, 6, 7, 8]).tolist()
    ([[1.0, 1.0], [0.0, 1.0]], [0, 0, -1, 1], [11.0, 8.0])
    """
    w = np.asarray(queries, dtype=np.float64)
    if w.ndim != 2 or not w.any() or not np.isfinite(w).all():
        raise WorkloadError("the queries must be a matrix of finite numbers, not all zero")
    cell_of = np.full(w.shape[1], -1, dtype=np.int64)
    known: dict[bytes, int] = {}
    for cell in np.flatnonzero(w.any(axis=0)).tolist():
        # -0.0 and 0.0 are the same coefficient and different bytes.
        cell_of[cell] = known.setdefault((w[:, cell] + 0.0).tobytes(), len(known))
    firsts = np.unique(cell_of[cell_of >= 0], return_index=True)[1]
    return MinimalWorkload(w[:, np.flatnonzero(cell_of >= 0)[firsts]], cell_of)


def contains(gram: Floats, other: Floats) -> bool:  # W^T W and V^T V, both (n, n)
    """Whether queries W contain V: whether W^T W - V^T V has no negative eigenvalue.

    >>> from hush.linops import Identity, Prefix
    >>> contains(4 * Identity(4).gram_dense(), Prefix(4).gram_dense())
    False
    >>> contains(9 * Identity(4).gram_dense(), Prefix(4).gram_dense())
    True
    """
    _check_same_cells(gram, other)
    least = float(np.linalg.eigvalsh(gram - other)[0])
    return least >= -ROUNDING * float(max(np.abs(gram).max(), np.abs(other).max()))


def same_profile(first: LinearOperator, second: LinearOperator) -> bool:
    """Whether A^T A = c B^T B for some c: both support the same queries, with errors in one proportion.

    >>> from hush.linops import Haar, Identity, Scaled
    >>> same_profile(Identity(4), Scaled(Identity(4), 3.0)), same_profile(Identity(4), Haar(4))
    (True, False)
    """
    a, b = first.gram_dense(), second.gram_dense()
    _check_same_cells(a, b)
    a, b = a / np.trace(a), b / np.trace(b)
    return bool(np.abs(a - b).max() <= ROUNDING * np.abs(a).max())


def same_errors(first: LinearOperator, second: LinearOperator, noise: NoiseKind | str = NoiseKind.GAUSSIAN) -> bool:
    """Whether two strategies have the same error on every workload: one profile, relative to their sensitivities.

    >>> from hush.linops import Haar
    >>> from hush.optimizers.explicit_strategy import short_wavelet
    >>> same_errors(Haar(8), short_wavelet(8)), same_errors(Haar(8), short_wavelet(8), "laplace")
    (True, False)
    """
    norm = NoiseKind(noise).norm
    a, b = (np.trace(each.gram_dense()) / each.sensitivity(norm) ** 2 for each in (first, second))
    return same_profile(first, second) and math.isclose(a, b, rel_tol=ROUNDING)


def _check_same_cells(first: Floats, second: Floats) -> None:
    if first.shape != second.shape:
        raise WorkloadError(f"matrices on {first.shape[1]} and {second.shape[1]} cells: expected the same cells")
