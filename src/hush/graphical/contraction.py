"""Contraction: tables with named axes, multiplied and summed as matrices."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hush.domain import Clique
from hush.graphical._sums import small_products
from hush.graphical.belief import Floats
from hush.graphical.buffers import Buffers
from hush.graphical.routes import Join
from hush.linops import Identity, Kronecker, LinearOperator

FEW = 2048  # multiplications below which calling a matrix product costs more than the product


@dataclass(frozen=True, slots=True)
class NamedTable:
    """A table and the names of its axes; attributes with a single level left have none, as numpy has 64 at most."""

    axes: Clique
    values: Floats

    @classmethod
    def of(cls, axes: Clique, sizes: Sequence[int], values: Floats) -> NamedTable:
        """A table of some sizes, whatever its shape."""
        long = [(name, size) for name, size in zip(axes, sizes, strict=True) if size > 1]
        return cls(tuple(name for name, _ in long), values.reshape([size for _, size in long]))

    @property
    def size(self) -> int:
        """Cells."""
        return self.values.size

    def ordered(self, names: Clique) -> Floats:
        """A copy of the table with all its axes in another order, and one for each of the other names too."""
        moved = self.values.transpose([self.axes.index(name) for name in names if name in self.axes])
        return np.array(moved, order="C").reshape(self.sizes(names))

    def matrices(self, groups: Sequence[Clique], buffers: Buffers) -> Floats:
        """The table with every group of attributes as one axis."""
        moved = self.values.transpose(
            [self.axes.index(name) for group in groups for name in group if name in self.axes]
        )
        sizes = [math.prod(self.sizes(group)) for group in groups]
        try:
            return moved.reshape(sizes, copy=False)
        except ValueError:  # the axes of a group are apart
            copied = buffers.empty(moved.shape)
            copied[:] = moved
            return copied.reshape(sizes)

    def sizes(self, names: Clique) -> tuple[int, ...]:
        """The lengths of some axes."""
        shape = dict(zip(self.axes, self.values.shape, strict=True))
        return tuple(shape.get(name, 1) for name in names)


def joined(live: NamedTable, message: NamedTable, join: Join, buffers: Buffers) -> NamedTable:
    """sum_summed live(batch, others, summed) message(batch, summed, far), by one matrix product for each batch."""
    left = live.matrices((join.batch, join.others, join.summed), buffers)
    right = message.matrices((join.batch, join.summed, join.far), buffers)
    b, o, s = left.shape
    z = right.shape[2]
    made = buffers.empty((b, o, z))
    if s == 1:
        np.multiply(left, right, out=made)
    elif b > 1 and o * s * z < FEW:
        small_products(np.ascontiguousarray(left), np.ascontiguousarray(right), made)
    else:
        np.matmul(left, right, out=made)
    sizes = live.sizes(join.batch) + live.sizes(join.others) + message.sizes(join.far)
    return NamedTable.of(join.batch + join.others + join.far, sizes, made)


def apply_blocks(table: NamedTable, blocks: Mapping[str, LinearOperator]) -> NamedTable:
    """Blocks along the axes of some attributes."""
    factors = [blocks.get(name) or Identity(size) for name, size in zip(table.axes, table.values.shape, strict=True)]
    made = Kronecker(factors).matmat(np.ascontiguousarray(table.values).reshape(-1, 1))
    return NamedTable.of(table.axes, [factor.shape[0] for factor in factors], made)
