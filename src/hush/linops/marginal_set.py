"""MarginalSet: weighted marginals, one below the other."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise

import numpy as np

from hush.core.arrays import Floats
from hush.core.errors import WorkloadError, shown
from hush.linops.marginal_gram import MarginalGram, check_sizes
from hush.linops.operator import EqualColumns, LinearOperator, check_norm


class MarginalSet(EqualColumns):
    """M(u): for every weighted set of attributes, given by their axes, its marginal times its weight.

    Rows are in the order of the mapping, cells of each marginal in row-major order. Sums are shared: each marginal is
    computed from the smallest one that holds it.

    Reference: [HDMM, Sec. 3.6]; |M(u)|_1 = |u|_1, |M(u)|_2 = |u|_2, M(u)^T M(u) = G(u^2).

    >>> pairs = MarginalSet((2, 3), {(0,): 1.0, (): -2.0})
    >>> pairs.dense().tolist()
    [[1.0, 1.0, 1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0, 1.0, 1.0], [-2.0, -2.0, -2.0, -2.0, -2.0, -2.0]]
    """

    __slots__ = ("_parents", "sizes", "weights")

    def __init__(self, sizes: Sequence[int], weights: Mapping[tuple[int, ...], float]) -> None:
        self.sizes = tuple(int(n) for n in sizes)
        if not self.sizes or min(self.sizes) < 1:
            raise WorkloadError(f"sizes={self.sizes}: expected at least one attribute, each with at least one level")
        self.weights = {_checked_axes(axes, len(self.sizes)): float(weight) for axes, weight in weights.items()}
        if not self.weights:
            raise WorkloadError("a set of no marginals: expected at least one")
        for axes, weight in self.weights.items():
            if not math.isfinite(weight) or weight == 0:
                raise WorkloadError(f"weight {weight} of {axes}: expected a finite number, or leave the marginal out")
        self._parents = self._shared()

    @property
    def shape(self) -> tuple[int, int]:
        return sum(self._cells(axes) for axes in self.weights), math.prod(self.sizes)

    def matmat(self, x: Floats) -> Floats:
        k = x.shape[1]
        whole = x.reshape((*self.sizes, k))
        answers = np.empty((self.shape[0], k))
        rows = dict(zip(self.weights, self._rows(), strict=True))
        tables: dict[tuple[int, ...], Floats] = {}
        for axes, parent in self._parents.items():
            table = whole if parent is None else tables[parent]
            away = tuple(i for i in range(len(self.sizes)) if i not in axes and table.shape[i] > 1)
            tables[axes] = table.sum(axis=away, keepdims=True) if away else table
            np.multiply(tables[axes].reshape(-1, k), self.weights[axes], out=answers[rows[axes]])
        return answers

    def adjoint(self, y: Floats) -> Floats:
        k = y.shape[1]
        whole = np.zeros((*self.sizes, k))
        tables = {
            axes: weight * y[rows].reshape((*(n if i in axes else 1 for i, n in enumerate(self.sizes)), k))
            for (axes, weight), rows in zip(self.weights.items(), self._rows(), strict=True)
        }
        for axes, parent in reversed(self._parents.items()):
            target = whole if parent is None else tables[parent]
            target += tables.pop(axes)
        return whole.reshape(-1, k)

    def gram(self) -> MarginalGram:
        """G(u^2); 2^d coefficients."""
        coefficients = np.zeros(1 << len(check_sizes(self.sizes)))
        for axes, weight in self.weights.items():
            coefficients[_mask(axes)] = weight**2
        return MarginalGram(self.sizes, coefficients)

    def gram_dense(self) -> Floats:
        return self.gram().dense()

    def pinv(self) -> LinearOperator:
        """G(u^2)^+ M(u)^T."""
        return self.gram().pinv() @ self.transpose()

    def sensitivity(self, p: int) -> float:
        """|u|_p: every cell is in one cell of each marginal."""
        check_norm(p)
        weights = [abs(weight) for weight in self.weights.values()]
        return math.fsum(weights) if p == 1 else math.hypot(*weights)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MarginalSet) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"MarginalSet({len(self.weights)} marginals over {self.sizes})"

    def _key(self) -> tuple[object, ...]:
        return self.sizes, tuple(self.weights.items())

    def _cells(self, axes: tuple[int, ...]) -> int:
        return math.prod(self.sizes[i] for i in axes)

    def _rows(self) -> Iterator[slice]:
        ends = accumulate((self._cells(axes) for axes in self.weights), initial=0)
        return (slice(start, stop) for start, stop in pairwise(ends))

    def _shared(self) -> dict[tuple[int, ...], tuple[int, ...] | None]:
        """For every marginal, largest first, the smallest one before it that holds it; None for the cells."""
        parents: dict[tuple[int, ...], tuple[int, ...] | None] = {}
        known: list[tuple[int, tuple[int, ...]]] = []
        for axes in sorted(self.weights, key=lambda axes: (-self._cells(axes), -len(axes))):
            mask = _mask(axes)
            parents[axes] = next((other for above, other in reversed(known) if mask & above == mask), None)
            known.append((mask, axes))
        return parents


def _checked_axes(axes: tuple[int, ...], attributes: int) -> tuple[int, ...]:
    checked = tuple(int(i) for i in axes)
    if any(a >= b for a, b in pairwise(checked)) or (checked and not 0 <= checked[0] <= checked[-1] < attributes):
        raise WorkloadError(f"marginal {shown(axes)}: expected ascending axes within 0 .. {attributes - 1}")
    return checked


def _mask(axes: tuple[int, ...]) -> int:
    return sum(1 << i for i in axes)
