"""Closure: every subset of the cliques of a workload, as arrays."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from hush.core.arrays import Floats, Integers
from hush.core.domain import Clique, Domain
from hush.core.errors import SizeError, WorkloadError

LARGEST_CLOSURE = 20_000_000  # sets
MOST_BY_NAME = 1_000_000  # sets; larger closures are searched by their keys

AxisIndices = np.ndarray[Any, np.dtype[np.int32]]


class Closure:
    """All subsets of some cliques, the empty one among them: by size, then in domain order.

    `levels[k]` holds the sets of k attributes as rows of attribute axes, ascending within a row and over the rows.
    Each level is found from the one above by leaving out one attribute, so the work is O(sum_A |A|) rows sorted once,
    and nothing has the size of the domain.

    Reference: [ResidualPlanner, sec. 4.2, closure(Wkload)].

    >>> closure = Closure.of(Domain({"a": 2, "b": 3, "c": 2}), [("a", "b"), ("c",)])
    >>> closure.cliques
    ((), ('a',), ('b',), ('c',), ('a', 'b'))
    >>> closure.index(("a", "b")), len(closure)
    (4, 5)
    """

    def __init__(self, domain: Domain, levels: Sequence[AxisIndices]) -> None:
        self.domain = domain
        self.levels = tuple(levels)
        self._axis = {name: axis for axis, name in enumerate(domain)}
        self.offsets = np.concatenate([[0], np.cumsum([len(level) for level in self.levels])])

    @classmethod
    def of(cls, domain: Domain, cliques: Iterable[Iterable[str]]) -> Closure:
        axis = {name: index for index, name in enumerate(domain)}
        groups: dict[int, list[list[int]]] = {}
        for clique in cliques:
            groups.setdefault(len(domain.check(clique)), []).append(sorted(axis[name] for name in clique))
        return cls.of_axes(domain, [np.array(rows, dtype=np.int32).reshape(len(rows), k) for k, rows in groups.items()])

    @classmethod
    def of_axes(cls, domain: Domain, groups: Sequence[AxisIndices]) -> Closure:
        """The closure of cliques given as arrays of ascending axes, each array of one size of clique."""
        predicted = sum(len(rows) * 2 ** rows.shape[1] for rows in groups)
        highest = max((rows.shape[1] for rows in groups), default=0)
        all_subsets = sum(math.comb(len(domain), k) for k in range(highest + 1))
        if min(predicted, all_subsets) > LARGEST_CLOSURE:
            raise SizeError(
                f"the workload's sets have up to {predicted} subsets, above the limit of {LARGEST_CLOSURE}; "
                f"lower the order of its largest sets ({highest}) or use fewer attributes"
            )
        levels: list[AxisIndices] = []
        above = np.empty((0, highest + 1), dtype=np.int32)
        for k in range(highest, -1, -1):
            given = [rows for rows in groups if rows.shape[1] == k]
            below = [np.delete(above, column, axis=1) for column in range(k + 1)] if len(above) else []
            rows = np.concatenate([*given, *below]).astype(np.int32, copy=False)
            above = rows[np.unique(_keys(rows, len(domain)), return_index=True)[1]]
            levels.append(above)
        return cls(domain, levels[::-1])

    @cached_property
    def cliques(self) -> tuple[Clique, ...]:
        """The sets by name; about 100 bytes each, built on first use."""
        names = np.array(self.domain.attributes, dtype=object)
        return tuple(itertools.chain.from_iterable(map(tuple, names[level].tolist()) for level in self.levels))

    @cached_property
    def _keys(self) -> tuple[np.ndarray[Any, Any], ...]:
        return tuple(_keys(level, len(self.domain)) for level in self.levels)

    def axes(self, clique: Iterable[str]) -> tuple[int, ...]:
        """The ascending axes of a clique's attributes in the domain."""
        return tuple(sorted(self._axis[name] for name in self.domain.check(clique)))

    @cached_property
    def _positions(self) -> dict[Clique, int]:
        """Positions by name, for closures of at most `MOST_BY_NAME` sets."""
        return {clique: at for at, clique in enumerate(self.cliques)} if len(self) <= MOST_BY_NAME else {}

    def index(self, clique: Iterable[str]) -> int:
        """The position of a clique, whatever the order of its names; WorkloadError outside the closure."""
        clique = tuple(clique)
        known = self._positions.get(clique)
        if known is not None:
            return known
        position = self.lookup(np.array([self.axes(clique)], dtype=np.int32))[0]
        if position < 0:
            raise WorkloadError(
                f"{clique!r} is not a subset of any set of the workload, so nothing about it was measured; "
                "add it to the workload"
            )
        return int(position)

    def lookup(self, rows: AxisIndices) -> Integers:  # rows: (n, k) ascending axes
        """Positions of many sets of one size; -1 where a set is outside the closure. O(n log N)."""
        k = rows.shape[1]
        if k >= len(self.levels):
            return np.full(len(rows), -1, dtype=np.int64)
        keys, level = self._keys[k], self.levels[k]
        row_keys = _keys(rows, len(self.domain))
        at = np.minimum(np.searchsorted(keys, row_keys), len(level) - 1)
        return np.where(keys[at] == row_keys, at + self.offsets[k], -1).astype(np.int64)

    def subsets(self, clique: Iterable[str]) -> Integers:
        """Positions of the subsets of a clique: entry m is the subset of the ascending axes at the bits of m."""
        self.index(clique)
        axes = np.array(self.axes(clique), dtype=np.int32)
        bits = np.arange(2 ** len(axes))[:, None] >> np.arange(len(axes)) & 1
        positions = np.empty(len(bits), dtype=np.int64)
        for size in range(len(axes) + 1):
            masks = np.flatnonzero(bits.sum(axis=1) == size)
            positions[masks] = self.lookup(axes[np.nonzero(bits[masks])[1]].reshape(len(masks), size))
        return positions

    def products(self, values: Floats) -> Floats:  # values: (attributes,)
        """The product of one value per attribute over every set: (len(self),)."""
        return np.concatenate([np.prod(values[level], axis=1) for level in self.levels])

    def largest(self, values: Floats) -> Floats:  # values: (attributes,)
        """The largest of one value per attribute over every set, 0 for the empty one: (len(self),)."""
        return np.concatenate([np.max(values[level], axis=1, initial=0.0) for level in self.levels])

    def __len__(self) -> int:
        return int(self.offsets[-1])

    def __iter__(self) -> Iterator[Clique]:
        return iter(self.cliques)

    def __contains__(self, clique: Iterable[str]) -> bool:
        return bool(self.lookup(np.array([self.axes(clique)], dtype=np.int32))[0] >= 0)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Closure)
            and self.domain == other.domain
            and len(self.levels) == len(other.levels)
            and all(np.array_equal(a, b) for a, b in zip(self.levels, other.levels, strict=True))
        )

    def __hash__(self) -> int:
        return hash((self.domain, len(self)))

    def __repr__(self) -> str:
        return f"Closure({len(self)} sets of up to {len(self.levels) - 1} of {len(self.domain)} attributes)"


def _keys(rows: AxisIndices, attributes: int) -> np.ndarray[Any, Any]:
    """One sortable key per row, in the order of the rows: a number in base `attributes`, or bytes beyond 62 bits."""
    k = rows.shape[1]
    if attributes**k < 2**62:
        key = np.zeros(len(rows), dtype=np.int64)
        for column in range(k):
            key = key * attributes + rows[:, column]
        return key
    # Big-endian, so that bytes compare as the numbers do. All keys of a level have the same length, so it does not
    # matter that numpy ignores trailing zero bytes.
    return np.ascontiguousarray(rows.astype(">u4")).view(f"S{4 * k}")[:, 0]
