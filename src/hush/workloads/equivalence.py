"""Equivalence: whether two workloads have the same Gram matrix, and so the same error under every strategy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from hush.core.arrays import Floats, Integers
from hush.core.domain import Clique
from hush.core.errors import SizeError, WorkloadError
from hush.linops import Identity, LinearOperator, Total
from hush.workloads.workload import Workload

Weights = dict[tuple[Clique, tuple[LinearOperator, ...]], float]

RESOLUTION = 1e-7
LARGEST_WORK = 1 << 34  # pairs of terms times attributes: about a minute
_PIECE = 1 << 20


def equivalent(first: Workload, second: Workload, tolerance: float = RESOLUTION) -> bool:
    """Whether |G1 - G2|_F <= tolerance max(|G1|_F, |G2|_F), where G = sum_j w_j kron_i V_i^(j) is W^T W.

    Workloads with the same Gram matrix have the same total error under every strategy: their rows differ by an
    orthogonal mixture. Inner products factorise, <kron V_i, kron U_i> = prod_i tr(V_i U_i), so nothing larger than the
    Gram matrix of one attribute is made. O(terms^2 attributes).

    Equal terms cancel exactly. The rest is a difference of squares, so relative differences below about 1e-8 times the
    root of the number of attributes in a term cannot be told from rounding. A tolerance below 1e-8 is refused.

    Reference: [HDMM, Problem 1]: the error of a strategy Q is tr((Q^T Q)^+ W^T W); W enters by W^T W alone.

    >>> from hush import Domain, Workload, queries
    >>> domain = Domain({"sex": 2})
    >>> sum_and_difference = Workload.product(domain, {"sex": queries.matrix([[1, 1], [1, -1]])})
    >>> equivalent(sum_and_difference, 2.0 * Workload.kway(domain, 1))
    True
    """
    if not 1e-8 <= tolerance < 1:
        raise WorkloadError(f"tolerance={tolerance!r}: expected a number from 1e-8, which can be resolved, to 1")
    if first.domain != second.domain:
        raise WorkloadError("workloads over different domains cannot be compared; build both over one domain")
    left, right = _weights(first), _weights(second)
    keys = list(left | right)
    difference = np.array([left.get(key, 0.0) - right.get(key, 0.0) for key in keys])
    if not difference.any():
        return True
    products = _Products(first, keys)
    size = max(products.square(np.array([weights.get(key, 0.0) for key in keys])) for weights in (left, right))
    return products.square(difference) <= tolerance**2 * size


def _weights(workload: Workload) -> Weights:
    """The weight of each distinct term, totals left out of its blocks."""
    weights: Weights = {}
    for term in workload.gram_products:
        kept = [(n, b) for n, b in zip(term.clique, term.blocks, strict=True) if not isinstance(b, Total)]
        ordered = sorted(kept, key=lambda pair: workload.domain.attributes.index(pair[0]))
        key = tuple(n for n, _ in ordered), tuple(b for _, b in ordered)
        weights[key] = weights.get(key, 0.0) + term.weight
    return weights


class _Products:
    """Inner products of the Gram matrices of terms, all divided by one power of two so that none overflows."""

    def __init__(self, workload: Workload, keys: Sequence[tuple[Clique, tuple[LinearOperator, ...]]]) -> None:
        domain = workload.domain
        if len(keys) ** 2 * len(domain) > LARGEST_WORK:
            raise SizeError(f"{len(keys)} distinct terms are too many to compare all pairs; compare fewer at a time")
        position = {name: i for i, name in enumerate(domain)}
        known: list[dict[LinearOperator, int]] = [{Total(size): 0} for size in domain.shape]
        self._index = np.zeros((len(domain), len(keys)), dtype=np.int64)
        for j, (clique, blocks) in enumerate(keys):
            for name, block in zip(clique, blocks, strict=True):
                numbers = known[position[name]]
                self._index[position[name], j] = numbers.setdefault(block, len(numbers))
        # an attribute that every term totals out multiplies all inner products alike
        self._asked = [i for i in range(len(domain)) if self._index[i].any()]
        self._tables = {i: _traces(list(known[i])) for i in self._asked}
        every = np.arange(len(keys))
        self._largest = int(self._scaled(every, every)[1].max())  # no inner product is above the largest square

    def square(self, weights: Floats) -> float:
        """sum_ab weights[a] weights[b] <G_a, G_b>, up to the common factor."""
        used = np.flatnonzero(weights)
        step = max(1, _PIECE // max(len(used), 1))
        pieces = [used[i : i + step] for i in range(0, len(used), step)]
        return math.fsum(float(weights[rows] @ self._inner(rows, used) @ weights[used]) for rows in pieces)

    def _inner(self, rows: Integers, columns: Integers) -> Floats:
        mantissa, exponent = self._scaled(rows[:, None], columns)
        return np.ldexp(mantissa, exponent - self._largest)

    def _scaled(self, rows: Integers, columns: Integers) -> tuple[Floats, Integers]:
        """<G_a, G_b> as mantissas and powers of two."""
        mantissa, exponent = np.ones(np.broadcast(rows, columns).shape), np.int64(0)
        for i in self._asked:
            mantissa, more = np.frexp(mantissa * self._tables[i][self._index[i][rows], self._index[i][columns]])
            exponent = exponent + more
        return mantissa, np.asarray(exponent)


def _traces(blocks: Sequence[LinearOperator]) -> Floats:
    """tr(V_a V_b) of every two of an attribute's blocks, where blocks[0] is the total; O(blocks^2 n^2)."""
    n = blocks[0].shape[1]
    table = np.empty((len(blocks), len(blocks)))
    grams = {block: block.gram_dense() for block in blocks if not isinstance(block, Identity | Total)}
    for a, left in enumerate(blocks):
        for b, right in enumerate(blocks[: a + 1]):
            if left in grams and right in grams:
                trace = float(np.vdot(grams[left], grams[right]))
            else:
                simple, other = (right, left) if left in grams else (left, right)
                trace = _simple_trace(isinstance(simple, Total), other, grams, n)
            table[a, b] = table[b, a] = trace
    return table


def _simple_trace(total: bool, other: LinearOperator, grams: Mapping[LinearOperator, Floats], n: int) -> float:
    """tr(1 1^T U) = sum of U, or tr(I U)."""
    if other in grams:
        return float(grams[other].sum() if total else np.trace(grams[other]))
    return float(n) ** (2 if total and isinstance(other, Total) else 1)
