"""Arrays: the numpy types that signatures name, and tables of numbers over named attributes.

`NamedTable` has a name for each axis. The functions before it do the same work on plain arrays whose names are known
anyway: reorder axes, sum to fewer attributes, line axes up for broadcasting, apply operators along them.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float64]]
Integers = np.ndarray[Any, np.dtype[np.int64]]
Booleans = np.ndarray[Any, np.dtype[np.bool_]]
Numbers = np.ndarray[Any, Any]
Names = tuple[str, ...]

BLOCK_CELLS = 1 << 18  # of a table that an operator is applied to at a time

Scalar = TypeVar("Scalar", bound=np.generic)
Values: TypeAlias = np.ndarray[Any, np.dtype[Scalar]]


class Columnwise(Protocol):
    """A map of columns to columns: a linear operator, or the exact product with an integer matrix."""

    @property
    def shape(self) -> tuple[int, int]:
        """(m, n)."""

    def matmat(self, x: Any, /) -> Any:
        """(n, k) -> (m, k)."""


class Operator(Columnwise, Protocol):
    """A linear operator that knows how to apply itself along an axis."""

    def along(self, values: Any, axis: int, /) -> Any:
        """The table with the operator applied along one axis."""


def reordered(values: Values[Scalar], names: Sequence[Hashable], order: Sequence[Hashable]) -> Values[Scalar]:
    """A view with the axes of `names` in another order.

    >>> reordered(np.arange(6).reshape(2, 3), ("a", "b"), ("b", "a")).tolist()
    [[0, 3], [1, 4], [2, 5]]
    """
    return values.transpose([names.index(name) for name in order])


def axes_outside(names: Sequence[Hashable], kept: Sequence[Hashable]) -> tuple[int, ...]:
    """The axes of `names` that are not in `kept`."""
    return tuple(axis for axis, name in enumerate(names) if name not in kept)


def summed(values: Values[Scalar], names: Sequence[Hashable], onto: Sequence[Hashable]) -> Values[Scalar]:
    """The sum over every attribute that is not in `onto`, with axes in the order of `onto`.

    >>> summed(np.arange(6).reshape(2, 3), ("a", "b"), ("b",)).tolist()
    [3, 5, 7]
    """
    margin = np.asarray(values.sum(axis=axes_outside(names, onto)))
    return reordered(margin, [name for name in names if name in onto], onto)


def spread(values: Values[Scalar], names: Sequence[Hashable], over: Sequence[Hashable]) -> Values[Scalar]:
    """The numbers with one axis for each of `over`, in that order, of length one where it is not in `names`.

    >>> spread(np.arange(6).reshape(2, 3), ("a", "b"), ("b", "c", "a")).shape
    (3, 1, 2)
    """
    moved = reordered(values, names, [name for name in over if name in names])
    sizes = iter(moved.shape)
    return moved.reshape([next(sizes) if name in names else 1 for name in over])


def merged_along(values: Values[Scalar], codes: Integers, axis: int) -> Values[Scalar]:
    """Add up what counts as the same level along an axis; `codes` are 0 .. k-1, all of them in use.

    >>> merged_along(np.array([[1, 2, 3], [4, 5, 6]]), np.array([1, 0, 1]), 1).tolist()
    [[2, 4], [5, 10]]
    """
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], np.arange(codes.max() + 1))
    return np.add.reduceat(values.take(order, axis=axis), starts, axis=axis)


def apply_along(operator: Columnwise, values: Numbers, axis: int) -> Numbers:
    """The table with an operator applied along one axis, block by block to save memory."""
    shape, (m, n) = values.shape, operator.shape
    new_shape = (*shape[:axis], m, *shape[axis + 1 :])
    left, right = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    tables = np.ascontiguousarray(values).reshape(left, n, right)
    if left == 1 and max(m, n) * right <= BLOCK_CELLS:
        return np.asarray(operator.matmat(tables[0]).reshape(new_shape))
    applied: Numbers | None = None
    width = min(right, max(1, BLOCK_CELLS // max(m, n)))
    count = max(1, BLOCK_CELLS // (max(m, n) * width)) if width == right else 1
    for i in range(0, left, count):
        for j in range(0, right, width):
            block = tables[i : i + count, :, j : j + width]
            columns = block[0] if len(block) == 1 else block.transpose(1, 0, 2).reshape(n, -1)
            answers = operator.matmat(columns).reshape(m, len(block), -1)
            if applied is None:
                applied = np.empty((left, m, right), dtype=answers.dtype)
            applied[i : i + count, :, j : j + width] = answers.transpose(1, 0, 2)
    return np.zeros(new_shape) if applied is None else applied.reshape(new_shape)


def apply_each(operators: Sequence[Operator | None], values: Floats) -> Floats:
    """The table with an operator, or None, applied along each axis; those that shrink it most come first.

    >>> from hush.linops import Prefix
    >>> apply_each([None, Prefix(3)], np.ones((2, 3))).tolist()
    [[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]]
    """
    present = [
        (operator.shape[0] / operator.shape[1], axis, operator) for axis, operator in enumerate(operators) if operator
    ]
    for _, axis, operator in sorted(present, key=lambda entry: entry[:2]):
        values = operator.along(values, axis)
    return values


def simplex_projection(shares: Floats) -> Floats:
    """The nearest point whose entries are non-negative and add up to one.

    It is max(shares + c, 0) with one c for all entries, such that the largest k entries add up to one; k is the
    largest number that leaves all of these entries positive.

    Reference: [Wang and Carreira-Perpinan 2013].

    >>> simplex_projection(np.array([0.9, 0.4, -0.2]))
    array([0.75, 0.25, 0.  ])
    """
    ordered = np.sort(shares)[::-1]
    lifts = (1 - np.cumsum(ordered)) / np.arange(1, len(shares) + 1)
    last = np.flatnonzero(ordered + lifts > 0)[-1]
    return np.asarray(np.maximum(shares + lifts[last], 0.0))


@dataclass(frozen=True, slots=True, eq=False)
class NamedTable:
    """A table of numbers with a named attribute for each axis.

    Attributes of a single level may be left out: numpy has 64 axes at most, and models have more attributes.
    """

    names: Names
    values: Numbers

    @classmethod
    def of(cls, names: Names, sizes: Sequence[int], values: Numbers) -> NamedTable:
        """A table of some sizes, whatever its shape, without the axes of a single level.

        >>> NamedTable.of(("a", "b"), (1, 2), np.array([3.0, 4.0])).names
        ('b',)
        """
        long = [(name, size) for name, size in zip(names, sizes, strict=True) if size > 1]
        return cls(tuple(name for name, _ in long), values.reshape([size for _, size in long]))

    @property
    def size(self) -> int:
        """The number of cells."""
        return self.values.size

    def sizes(self, names: Sequence[str]) -> tuple[int, ...]:
        """The lengths of some axes; one for names without an axis."""
        shape = dict(zip(self.names, self.values.shape, strict=True))
        return tuple(shape.get(name, 1) for name in names)

    def spread(self, names: Sequence[str]) -> Numbers:
        """The numbers with one axis for each of `names`, in that order; of length one for names without an axis."""
        return spread(self.values, self.names, names)

    def ordered(self, names: Sequence[str]) -> Numbers:
        """A copy of what `spread` gives, in row-major order."""
        return np.array(self.spread(names), order="C")

    def grouped(self, groups: Sequence[Names]) -> tuple[Numbers, list[int]]:
        """A view with axes in the order of the groups, and how many cells each group has."""
        moved = reordered(self.values, self.names, [name for group in groups for name in group if name in self.names])
        return moved, [math.prod(self.sizes(group)) for group in groups]

    def apply(self, operators: Mapping[str, Operator]) -> NamedTable:
        """The table with operators applied along the axes of some attributes."""
        values = apply_each([operators.get(name) for name in self.names], self.values)
        return NamedTable.of(self.names, values.shape, values)
