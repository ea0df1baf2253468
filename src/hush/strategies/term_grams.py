"""TermGrams: a workload as products of small Gram matrices, W^T W = sum_j w_j kron_i V_i^(j), never multiplied out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from hush.arrays import Floats
from hush.domain import Domain
from hush.errors import SizeError
from hush.linops import Identity, LinearOperator, Total
from hush.workloads import Workload

LARGEST_INDEX = 1 << 28


class TermGrams:
    """The distinct blocks of every attribute, and which of them each term has.

    `blocks[i][0]` is always the total of attribute i. `index[j, i]` says which of `blocks[i]` term j has. Weights
    multiply variance, so they are the squares of the weights of queries in the references.

    >>> from hush.domain import Domain
    >>> grams = TermGrams.of(Workload.kway(Domain({"a": 2, "b": 3, "c": 4}), 2))
    >>> grams.index.tolist(), grams.traces(1)
    ([[1, 1, 0], [1, 0, 1], [0, 1, 1]], array([3., 3.]))
    """

    def __init__(
        self, domain: Domain, blocks: Sequence[Sequence[LinearOperator]], index: Any, weights: Floats, queries: Floats
    ) -> None:
        self.domain = domain
        self.blocks = tuple(tuple(listed) for listed in blocks)
        self.index = np.asarray(index, dtype=np.int32)
        self.weights = np.asarray(weights, dtype=np.float64)
        self.queries = np.asarray(queries, dtype=np.float64)
        self._grams: dict[tuple[int, int], Floats] = {}

    @classmethod
    def of(cls, workload: Workload) -> TermGrams:
        """From a workload; O(terms * attributes) memory."""
        domain = workload.domain
        if len(workload) * len(domain) > LARGEST_INDEX:
            raise SizeError(
                f"{len(workload)} terms over {len(domain)} attributes are too many for this strategy; "
                "use mechanism='residual'"
            )
        axis = {name: i for i, name in enumerate(domain)}
        known: list[dict[LinearOperator, int]] = [{Total(size): 0} for size in domain.shape]
        index = np.zeros((len(workload), len(domain)), dtype=np.int32)
        for j, term in enumerate(workload.products):
            for name, block in zip(term.clique, term.blocks, strict=True):
                numbers = known[axis[name]]
                index[j, axis[name]] = numbers.setdefault(block, len(numbers))
        queries = np.array([float(term.queries) for term in workload])
        return cls(domain, [tuple(numbers) for numbers in known], index, np.array(workload.weights), queries)

    def __len__(self) -> int:
        return len(self.index)

    @cached_property
    def asked(self) -> tuple[int, ...]:
        """The axes of attributes that some term asks more of than their total."""
        return tuple(np.flatnonzero(self.index.any(axis=0)).tolist())

    def plain(self, axis: int) -> bool:
        """Whether an attribute is asked for single levels and totals alone."""
        return all(isinstance(block, Identity | Total) for block in self.blocks[axis])

    def gram(self, axis: int, block: int) -> Floats:
        """V of one of an attribute's blocks, (n, n)."""
        key = (axis, block)
        if key not in self._grams:
            self._grams[key] = self.blocks[axis][block].gram_dense()
        return self._grams[key]

    def traces(self, axis: int) -> Floats:
        """tr(V) of each of an attribute's blocks."""
        return np.array([self._trace(axis, b) for b in range(len(self.blocks[axis]))])

    def sums(self, axis: int) -> Floats:
        """1^T V 1 of each of an attribute's blocks."""
        return np.array([self._sum(axis, b) for b in range(len(self.blocks[axis]))])

    def surrogate(self, axis: int, weights: Floats) -> Floats:
        """sum_b weights[b] V_b over an attribute's blocks, (n, n)."""
        total = np.zeros((self.domain.shape[axis],) * 2)
        for block, weight in enumerate(weights.tolist()):
            if weight != 0:
                total += weight * self.gram(axis, block)
        return total

    def _trace(self, axis: int, block: int) -> float:
        operator, size = self.blocks[axis][block], self.domain.shape[axis]
        return float(size) if isinstance(operator, Identity | Total) else float(np.trace(self.gram(axis, block)))

    def _sum(self, axis: int, block: int) -> float:
        operator, size = self.blocks[axis][block], self.domain.shape[axis]
        if isinstance(operator, Identity | Total):
            return float(size if isinstance(operator, Identity) else size**2)
        return float(self.gram(axis, block).sum())
