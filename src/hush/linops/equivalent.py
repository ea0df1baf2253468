"""Equivalent: queries known only through their Gram matrix."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hush.core.arrays import Floats
from hush.core.errors import SizeError, WorkloadError, shown
from hush.linops.operator import Dense, LinearOperator, check_norm

LARGEST_EQUIVALENT = 4096
_ROUNDING = 1e-10


class Equivalent(LinearOperator):
    """Any queries W with W^T W = V: the symmetric root of V stands for them, with the same squared error.

    For workloads too many to list, such as all 2^n predicates: V = 2^(n-2) (I + 1 1^T). The rows are not
    the queries: `column_norms(1)` belongs to the root and says nothing about the L1 sensitivity of the queries.

    Reference: [Li 2013, Sec. 3.2]; total squared error depends on a workload through W^T W alone.

    >>> every = Equivalent(2.0 * (np.eye(3) + 1), queries=8)
    >>> every.queries, every.shape, every.gram_dense()[0].tolist()
    (8, (3, 3), [4.0, 2.0, 2.0])
    """

    __slots__ = ("_gram", "_queries", "_roots")

    def __init__(self, gram: Any, queries: int) -> None:
        v = np.array(gram, dtype=np.float64)
        if v.ndim != 2 or v.shape[0] != v.shape[1] or not v.size or not np.isfinite(v).all():
            raise WorkloadError(f"a Gram matrix of shape {v.shape}: expected a square of finite numbers")
        if len(v) > LARGEST_EQUIVALENT:
            raise SizeError(
                f"a Gram matrix of {len(v)} levels: at most {LARGEST_EQUIVALENT}; merge levels, or use query blocks"
            )
        if isinstance(queries, bool) or int(queries) != queries or queries < 1:
            raise WorkloadError(f"queries={queries!r}: expected how many queries the Gram matrix stands for")
        _check_semidefinite(v)
        v.setflags(write=False)
        self._gram = v
        self._queries = int(queries)
        self._roots: tuple[Floats, Floats] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        return len(self._gram), len(self._gram)

    @property
    def queries(self) -> int:
        return self._queries

    def matmat(self, x: Floats) -> Floats:
        return np.asarray(self._both_roots()[0] @ x)

    def transpose(self) -> LinearOperator:
        return self

    def dense(self) -> Floats:
        return self._both_roots()[0]

    def gram(self) -> LinearOperator:
        return Dense(self._gram)

    def gram_dense(self) -> Floats:
        return self._gram

    def pinv(self) -> LinearOperator:
        return Dense(self._both_roots()[1])

    def column_norms(self, p: int) -> Floats:
        check_norm(p)
        if p == 2:
            return np.sqrt(np.maximum(np.diagonal(self._gram), 0))
        return np.asarray(np.abs(self.dense()).sum(axis=0))

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, Equivalent) and self._queries == other._queries
        return same and np.array_equal(self._gram, other._gram)  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((self._queries, self._gram.tobytes()))

    def __repr__(self) -> str:
        return f"Equivalent({len(self._gram)} levels, {shown(self._queries)} queries)"

    def _both_roots(self) -> tuple[Floats, Floats]:
        """V^(1/2) and its pseudo-inverse, computed on first use; eigenvalues of rounding size count as zero."""
        if self._roots is None:
            scale = _largest(self._gram)
            e, q = np.linalg.eigh(self._gram / scale)
            s = np.sqrt(np.where(e > len(e) * np.finfo(np.float64).eps * max(e[-1], 0), e, 0))
            inverse = np.divide(1.0, s, out=np.zeros_like(s), where=s > 0)
            root, inverse_root = (q * (s * math.sqrt(scale))) @ q.T, (q * (inverse / math.sqrt(scale))) @ q.T
            root.setflags(write=False)
            self._roots = root, inverse_root
        return self._roots


def _check_semidefinite(v: Floats) -> None:
    """Refuse a matrix that is not symmetric, or has an eigenvalue below zero by more than rounding."""
    scaled = v / _largest(v)
    if np.abs(scaled - scaled.T).max() > _ROUNDING:
        raise WorkloadError("a Gram matrix that is not symmetric: give W^T W")
    shift = _ROUNDING * float(np.abs(scaled).sum(axis=0).max()) or 1.0
    try:
        np.linalg.cholesky(scaled + shift * np.eye(len(v)))
    except np.linalg.LinAlgError:
        raise WorkloadError("a Gram matrix with a negative eigenvalue: no queries have it; give W^T W") from None


def _largest(v: Floats) -> float:
    return float(np.abs(v).max()) or 1.0
