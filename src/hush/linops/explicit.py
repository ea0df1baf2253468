"""Matrices given by their numbers: Dense by its entries, Diagonal by its diagonal, Equivalent by its Gram matrix."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from hush.core.arrays import Floats
from hush.core.errors import SizeError, WorkloadError, shown
from hush.core.validation import check_whole
from hush.linops.operator import ComparedByValue, LinearOperator, Symmetric, check_norm

LARGEST_EQUIVALENT = 4096  # levels; the root of the Gram matrix takes O(n^3) time
_GRAM_ROUNDING = 1e-10  # relative to the largest entry


class Dense(ComparedByValue):
    """An explicit matrix."""

    __slots__ = ("_matrix", "shape")
    shape: tuple[int, int]
    compared = ("_matrix",)

    def __init__(self, matrix: Any) -> None:
        try:
            entries = np.array(matrix)
            entries = entries.astype(np.float64) if entries.dtype.kind in "biuf" else np.zeros(0)
        except (TypeError, ValueError):
            entries = np.zeros(0)
        if entries.ndim != 2 or not entries.size or not np.isfinite(entries).all():
            raise WorkloadError("a query matrix must be a non-empty two-dimensional array of finite numbers")
        entries.setflags(write=False)
        self._matrix = entries
        self.shape = entries.shape

    def matmat(self, x: Floats) -> Floats:
        return np.asarray(self._matrix @ x)

    def transpose(self) -> LinearOperator:
        transposed = object.__new__(Dense)
        transposed._matrix, transposed.shape = self._matrix.T, self.shape[::-1]
        return transposed

    def dense(self) -> Floats:
        return self._matrix

    def gram(self) -> LinearOperator:
        return Dense(self.gram_dense())

    def gram_dense(self) -> Floats:
        return np.asarray(self._matrix.T @ self._matrix)

    def _columns(self) -> Iterator[tuple[int, Floats]]:
        yield 0, self._matrix


class Diagonal(ComparedByValue, Symmetric):
    """diag(values).

    >>> Diagonal([2.0, 0.0]).pinv().dense().tolist()
    [[0.5, 0.0], [0.0, 0.0]]
    """

    __slots__ = ("shape", "values")
    shape: tuple[int, int]
    compared = ("values",)

    def __init__(self, values: Any) -> None:
        entries = np.array(values, dtype=np.float64)
        if entries.ndim != 1 or not entries.size or not np.isfinite(entries).all():
            raise WorkloadError("a diagonal must be a non-empty list of finite numbers")
        entries.setflags(write=False)
        self.values = entries
        self.shape = len(entries), len(entries)

    def matmat(self, x: Floats) -> Floats:
        return np.asarray(self.values[:, None] * x)

    def gram(self) -> LinearOperator:
        return Diagonal(self.values**2)

    def pinv(self) -> LinearOperator:
        return Diagonal(np.divide(1.0, self.values, out=np.zeros_like(self.values), where=self.values != 0))

    def column_norms(self, p: int) -> Floats:
        check_norm(p)
        return np.abs(self.values)

    def trace(self) -> float:
        return float(self.values.sum())


class Equivalent(ComparedByValue, Symmetric):
    """Queries W known only through V = W^T W; the symmetric root of V stands for them, with the same squared error.

    For workloads of too many queries to list, such as all 2^n predicates: V = 2^(n-2) (I + 1 1^T). The rows of the root
    are not the queries: `column_norms(1)` says nothing about the L1 sensitivity of W.

    Reference: [Li 2013, Sec. 3.2]; total squared error depends on a workload through W^T W alone.

    >>> predicates = Equivalent(2.0 * (np.eye(3) + 1), queries=8)
    >>> predicates.queries, predicates.shape, predicates.gram_dense()[0].tolist()
    (8, (3, 3), [4.0, 2.0, 2.0])
    """

    __slots__ = ("_gram", "_roots", "queries", "shape")
    shape: tuple[int, int]
    queries: int
    compared = ("queries", "_gram")

    def __init__(self, gram: Any, queries: int) -> None:
        v = np.array(gram, dtype=np.float64)
        if v.ndim != 2 or v.shape[0] != v.shape[1] or not v.size or not np.isfinite(v).all():
            raise WorkloadError(f"a Gram matrix of shape {v.shape}: expected a square of finite numbers")
        if len(v) > LARGEST_EQUIVALENT:
            raise SizeError(
                f"a Gram matrix of {len(v):,} levels: expected at most {LARGEST_EQUIVALENT:,}; "
                "merge levels, or use query blocks"
            )
        self.queries = check_whole(
            WorkloadError, "queries", queries, least=1, hint=", which the Gram matrix stands for"
        )
        # Symmetric, and no eigenvalue below zero by more than rounding.
        scaled = v / (float(np.abs(v).max()) or 1.0)
        if np.abs(scaled - scaled.T).max() > _GRAM_ROUNDING:
            raise WorkloadError("a Gram matrix that is not symmetric: give W^T W")
        shift = _GRAM_ROUNDING * float(np.abs(scaled).sum(axis=0).max()) or 1.0
        try:
            np.linalg.cholesky(scaled + shift * np.eye(len(v)))
        except np.linalg.LinAlgError:
            raise WorkloadError("a Gram matrix with a negative eigenvalue: no queries have it; give W^T W") from None
        v.setflags(write=False)
        self._gram = v
        self._roots: tuple[Floats, Floats] | None = None
        self.shape = len(v), len(v)

    def matmat(self, x: Floats) -> Floats:
        return np.asarray(self._both_roots()[0] @ x)

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

    def __repr__(self) -> str:
        return f"Equivalent({len(self._gram)} levels, {shown(self.queries)} queries)"

    def _both_roots(self) -> tuple[Floats, Floats]:
        """V^(1/2) and its pseudo-inverse, computed on first use; eigenvalues within rounding of zero count as zero."""
        if self._roots is None:
            scale = float(np.abs(self._gram).max()) or 1.0
            e, q = np.linalg.eigh(self._gram / scale)
            s = np.sqrt(np.where(e > len(e) * np.finfo(np.float64).eps * max(e[-1], 0), e, 0))
            inverse = np.divide(1.0, s, out=np.zeros_like(s), where=s > 0)
            root, inverse_root = (q * (s * math.sqrt(scale))) @ q.T, (q * (inverse / math.sqrt(scale))) @ q.T
            root.setflags(write=False)
            self._roots = root, inverse_root
        return self._roots
