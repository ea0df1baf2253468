"""TermTable: the terms of a workload as arrays, grouped by the number of their attributes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hush.arrays import Floats, Integers
from hush.domain import Domain
from hush.linops import Identity, LinearOperator
from hush.strategies.closure import AxisIndices, Closure
from hush.strategies.residual_basis import ResidualBasis, design_basis
from hush.workloads import Workload


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
    """A workload's terms as arrays; `blocks` lists the distinct query blocks, each with the axis of its attribute."""

    domain: Domain
    groups: tuple[TermGroup, ...]
    blocks: tuple[tuple[int, LinearOperator], ...]
    weights: Floats  # (terms,)

    @classmethod
    def of(cls, workload: Workload) -> TermTable:
        """The table of a workload. O(total length of its cliques), mostly in array operations."""
        axis = {name: index for index, name in enumerate(workload.domain)}
        terms = workload.products
        lengths = np.fromiter((len(term.clique) for term in terms), dtype=np.int64, count=len(terms))
        total = int(lengths.sum())
        names = itertools.chain.from_iterable(term.clique for term in terms)
        axes = np.fromiter(map(axis.__getitem__, names), dtype=np.int32, count=total)
        every = list(itertools.chain.from_iterable(term.blocks for term in terms))
        numbers, blocks = _number(axes, every, len(workload.domain))
        starts = np.cumsum(lengths) - lengths
        groups = []
        for k in np.unique(lengths).tolist():
            terms_of_size = np.flatnonzero(lengths == k)
            at = starts[terms_of_size][:, None] + np.arange(k)
            order = np.argsort(axes[at], axis=1, kind="stable") if k > 1 else np.zeros(at.shape, dtype=np.int64)
            at = np.take_along_axis(at, order, axis=1)
            groups.append(TermGroup(terms_of_size, axes[at], numbers[at]))
        weights = np.fromiter((term.weight for term in terms), dtype=np.float64, count=len(terms))
        return cls(workload.domain, tuple(groups), blocks, weights)

    @property
    def queries(self) -> Floats:
        """How many numbers each term asks for: (terms,)."""
        rows = np.array([block.queries for _, block in self.blocks], dtype=np.float64)
        counts = np.empty(len(self.weights))
        for group in self.groups:
            counts[group.terms] = np.prod(rows[group.blocks], axis=1) if len(rows) else 1.0
        return counts

    def closure(self) -> Closure:
        """Every subset of every term's attributes."""
        return Closure.of_axes(self.domain, [group.axes for group in self.groups])

    def bases(self, given: Mapping[str, ResidualBasis] | None = None) -> tuple[ResidualBasis | None, ...]:
        """One basis per attribute for the whole workload; None for an attribute that no term has.

        Plain where every term asks for single levels. Otherwise the basis is designed for the sum of the Gram
        matrices of the blocks on the attribute, each weighted by how many weighted queries use it: weight times the
        queries on the term's other attributes. A basis that is `given` for an attribute is taken as it is.
        """
        given = {} if given is None else given
        self.domain.check(given)
        share = self._shares()
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

    def _shares(self) -> Floats:
        """For each block, the sum over terms of weight times queries on the other attributes."""
        rows = np.array([block.queries for _, block in self.blocks], dtype=np.float64)
        shares = np.zeros(len(self.blocks))
        for group in self.groups:
            if group.axes.shape[1]:
                counts = rows[group.blocks]
                others = np.prod(counts, axis=1, keepdims=True) / counts * self.weights[group.terms][:, None]
                shares += np.bincount(group.blocks.ravel(), others.ravel(), minlength=len(shares))
        return shares


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
