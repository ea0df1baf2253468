"""The terms of a workload in the two forms that strategies work on: arrays by order, and products of Gram matrices.

TermGrams is W^T W = sum_j w_j kron_i V_i^(j), never multiplied out.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from hush.core.arrays import Floats, Integers
from hush.core.domain import Domain
from hush.core.errors import SizeError
from hush.linops import CompoundSymmetric, Identity, LinearOperator, Total
from hush.strategies.closure import AxisIndices, Closure
from hush.strategies.residual_basis import ResidualBasis, design_basis
from hush.workloads import ProductTerm, Term, Workload


@dataclass(frozen=True, slots=True)
class TermGroup:
    """The terms of one number of attributes: row i is term `terms[i]`, on ascending `axes[i]`.

    `blocks[i, j]` is the number, in `TermTable.blocks`, of its query block on the attribute at `axes[i, j]`.
    """

    terms: Integers  # (n,)
    axes: AxisIndices  # (n, k)
    blocks: AxisIndices  # (n, k)


@dataclass(frozen=True, slots=True)
class TermTable:
    """A workload's terms as arrays; `blocks` lists the distinct query blocks, each with the axis of its attribute.

    `others` has the terms that are no products, by their index; they stand in the arrays as marginals.
    """

    domain: Domain
    groups: tuple[TermGroup, ...]
    blocks: tuple[tuple[int, LinearOperator], ...]
    weights: Floats  # (terms,)
    others: Mapping[int, Term] = field(default_factory=dict)

    @classmethod
    def of(cls, workload: Workload) -> TermTable:
        """The table of a workload. O(total length of its cliques), mostly in array operations."""
        axis = {name: index for index, name in enumerate(workload.domain)}
        others = {index: term for index, term in enumerate(workload) if term.product is None}
        sizes = workload.domain.sizes
        terms = [
            term.product or ProductTerm(term.clique, tuple(map(Identity, sizes(term.clique))), term.weight)
            for term in workload
        ]
        lengths = np.fromiter((len(term.clique) for term in terms), dtype=np.int64, count=len(terms))
        total = int(lengths.sum())
        names = itertools.chain.from_iterable(term.clique for term in terms)
        axes = np.fromiter(map(axis.__getitem__, names), dtype=np.int32, count=total)
        every = list(itertools.chain.from_iterable(term.blocks for term in terms))
        numbers, blocks = _number(axes, every, len(workload.domain))
        starts = np.cumsum(lengths) - lengths
        groups = []
        for k in sorted(set(lengths.tolist())):
            terms_of_size = np.flatnonzero(lengths == k)
            at = starts[terms_of_size][:, None] + np.arange(k)
            order = np.argsort(axes[at], axis=1, kind="stable") if k > 1 else np.zeros(at.shape, dtype=np.int64)
            at = np.take_along_axis(at, order, axis=1)
            groups.append(TermGroup(terms_of_size, axes[at], numbers[at]))
        weights = np.fromiter((term.weight for term in terms), dtype=np.float64, count=len(terms))
        return cls(workload.domain, tuple(groups), blocks, weights, others)

    @property
    def queries(self) -> Floats:
        """How many numbers each term asks for: (terms,)."""
        rows = np.array([block.queries for _, block in self.blocks], dtype=np.float64)
        counts = np.empty(len(self.weights))
        for group in self.groups:
            counts[group.terms] = np.prod(rows[group.blocks], axis=1) if len(rows) else 1.0
        for index, term in self.others.items():
            counts[index] = float(term.queries)
        return counts

    def closure(self) -> Closure:
        """Every subset of every term's attributes."""
        return Closure.of_axes(self.domain, [group.axes for group in self.groups])

    def bases(self, given: Mapping[str, ResidualBasis] | None = None) -> tuple[ResidualBasis | None, ...]:
        """One basis per attribute for the whole workload; None for an attribute that no term has.

        Plain where every term asks for single levels. Otherwise the basis is designed for the sum of the Gram
        matrices of the blocks on the attribute, each weighted by how many weighted queries use it: weight times the
        queries on the term's other attributes. A basis in `given` is used as it is.
        """
        given = {} if given is None else given
        self.domain.check(given)
        # For each block, the sum over terms of weight times queries on the other attributes.
        rows = np.array([block.queries for _, block in self.blocks], dtype=np.float64)
        share = np.zeros(len(self.blocks))
        for group in self.groups:
            if group.axes.shape[1]:
                counts = rows[group.blocks]
                others = np.prod(counts, axis=1, keepdims=True) / counts * self.weights[group.terms][:, None]
                share += np.bincount(group.blocks.ravel(), others.ravel(), minlength=len(share))
        bases: list[ResidualBasis | None] = []
        for axis, (name, size) in enumerate(zip(self.domain, self.domain.shape, strict=True)):
            asked = [(share[n], block) for n, (at, block) in enumerate(self.blocks) if at == axis]
            if not asked:
                bases.append(None)
            elif name in given:
                bases.append(given[name])
            elif all(isinstance(block, Identity) for _, block in asked):
                bases.append(ResidualBasis.plain(size))
            else:
                total = max(weight for weight, _ in asked)
                bases.append(design_basis(sum(w / total * block.gram_dense() for w, block in asked)).value)
        return tuple(bases)


def _number(
    axes: AxisIndices, every: list[LinearOperator], attributes: int
) -> tuple[AxisIndices, tuple[tuple[int, LinearOperator], ...]]:
    """A number for each (axis, block), equal blocks sharing one; objects are compared by identity first."""
    if not every:
        return np.zeros(0, dtype=np.int32), ()
    which = np.unique(np.fromiter(map(id, every), dtype=np.int64, count=len(every)), return_inverse=True)[1]
    pairs, first, inverse = np.unique(which * attributes + axes, return_index=True, return_inverse=True)
    known: dict[tuple[int, LinearOperator], int] = {}
    numbers = np.empty(len(pairs), dtype=np.int32)
    for number, position in enumerate(first.tolist()):
        key = (int(axes[position]), every[position])
        numbers[number] = known.setdefault(key, len(known))
    return numbers[inverse], tuple(known)


LARGEST_INDEX = 1 << 28


class TermGrams:
    """The distinct blocks of every attribute, and which of them each term has.

    `blocks[i][0]` is always the total of attribute i. `index[j, i]` says which of `blocks[i]` term j has. Weights
    multiply variance, so they are the squares of the weights of queries in the references.

    >>> from hush.core.domain import Domain
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
        terms = workload.gram_products
        if len(terms) * len(domain) > LARGEST_INDEX:
            raise SizeError(
                f"{len(terms)} terms over {len(domain)} attributes are too many for this strategy; "
                "use mechanism='residual'"
            )
        axis = {name: i for i, name in enumerate(domain)}
        known: list[dict[LinearOperator, int]] = [{Total(size): 0} for size in domain.shape]
        index = np.zeros((len(terms), len(domain)), dtype=np.int32)
        for j, term in enumerate(terms):
            for name, block in zip(term.clique, term.blocks, strict=True):
                numbers = known[axis[name]]
                index[j, axis[name]] = numbers.setdefault(block, len(numbers))
        queries = np.array([float(term.queries) for term in terms])
        weights = np.array([term.weight for term in terms])
        return cls(domain, [tuple(numbers) for numbers in known], index, weights, queries)

    def __len__(self) -> int:
        return len(self.index)

    @cached_property
    def asked(self) -> tuple[int, ...]:
        """The axes of attributes that some term asks more of than their total."""
        return tuple(np.flatnonzero(self.index.any(axis=0)).tolist())

    def plain(self, axis: int) -> bool:
        """Whether an attribute is asked for single levels and totals alone."""
        return all(isinstance(block, Identity | Total) for block in self.blocks[axis])

    def alike(self, axis: int) -> bool:
        """Whether an attribute is asked for nothing that tells its levels apart."""
        return all(isinstance(block, Identity | Total | CompoundSymmetric) for block in self.blocks[axis])

    def gram(self, axis: int, block: int) -> Floats:
        """V of one of an attribute's blocks, (n, n)."""
        key = (axis, block)
        if key not in self._grams:
            self._grams[key] = self.blocks[axis][block].gram_dense()
        return self._grams[key]

    def traces(self, axis: int) -> Floats:
        """tr(V) of each of an attribute's blocks."""
        traces, size = [], self.domain.shape[axis]
        for number, block in enumerate(self.blocks[axis]):
            if isinstance(block, CompoundSymmetric):
                traces.append(block.gram().trace())
            elif isinstance(block, Identity | Total):
                traces.append(float(size))
            else:
                traces.append(float(np.trace(self.gram(axis, number))))
        return np.array(traces)

    def sums(self, axis: int) -> Floats:
        """1^T V 1 of each of an attribute's blocks."""
        sums, size = [], self.domain.shape[axis]
        for number, block in enumerate(self.blocks[axis]):
            if isinstance(block, Identity | Total):
                sums.append(float(size if isinstance(block, Identity) else size**2))
            elif isinstance(block, CompoundSymmetric):
                sums.append(size * block.gram().eigenvalue_of_ones)
            else:
                sums.append(float(self.gram(axis, number).sum()))
        return np.array(sums)

    def surrogate(self, axis: int, weights: Floats) -> Floats:
        """sum_b weights[b] V_b over an attribute's blocks, (n, n)."""
        total = np.zeros((self.domain.shape[axis],) * 2)
        for block, weight in enumerate(weights.tolist()):
            if weight != 0:
                total += weight * self.gram(axis, block)
        return total
