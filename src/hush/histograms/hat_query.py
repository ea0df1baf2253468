"""HatQuery: the counts of buckets, or sums of them weighted by hat functions, the piecewise-linear basis."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from hush.core.arrays import Integers
from hush.core.domain import Clique
from hush.histograms.axis_grid import AxisGrid, added
from hush.linops.along import along
from hush.privacy.gate import Counts
from hush.privacy.sensitivity import ONE_CELL, RowNorms

if TYPE_CHECKING:
    from scipy.sparse import csr_array

HAT_UNIT = 64  # the weights of a bucket in all hats of an axis add up to this


@dataclass(frozen=True)
class Hats:
    """`count` triangles over k buckets, each as wide as two of them are apart; whole weights that add up to `HAT_UNIT`.

    >>> Hats(2, 4).matrix().toarray().tolist()
    [[64, 48, 16, 0], [0, 16, 48, 64]]
    """

    count: int
    buckets: int

    @cached_property
    def _columns(self) -> tuple[Integers, Integers]:
        """The hat to the left of each bucket, and the weight of the one to its right."""
        place = np.clip((np.arange(self.buckets) + 0.5) * self.count / self.buckets - 0.5, 0, self.count - 1)
        left = np.minimum(place.astype(np.int64), max(self.count - 2, 0))
        return left, np.rint(HAT_UNIT * (place - left)).astype(np.int64)

    def matrix(self) -> csr_array:
        """(count, buckets), int64."""
        from scipy.sparse import csr_array

        left, right = self._columns
        columns = np.arange(self.buckets)
        rows = np.concatenate([left, np.minimum(left + 1, self.count - 1)])
        weights = np.concatenate([HAT_UNIT - right, right])
        kept = weights > 0
        both = (weights[kept], (rows[kept], np.tile(columns, 2)[kept]))
        return csr_array(both, shape=(self.count, self.buckets), dtype=np.int64)

    @property
    def largest_square(self) -> int:
        """The largest sum of squared weights of a bucket."""
        _, right = self._columns
        return int((right**2 + (HAT_UNIT - right) ** 2).max())


@dataclass(frozen=True, eq=False)
class HatQuery:
    """Counts of buckets on the leading axes of a clique, by the levels of its other attributes.

    With `hats`, sums of these counts weighted by hats on every gridded axis.

    Privacy: a row is in one bucket. It adds one to one count, or `HAT_UNIT`^d in all to the sums of d axes of hats.
    Weights are never negative, so two rows differ by at most twice that, and twice the largest sum of squares.
    """

    clique: Clique
    grids: tuple[AxisGrid, ...]
    hats: tuple[int, ...] = ()

    @property
    def cliques(self) -> tuple[Clique, ...]:
        return (self.clique,)

    @cached_property
    def shapes(self) -> tuple[Hats, ...]:
        """The hats of every gridded axis; none for counts of buckets."""
        return tuple(Hats(count, grid.buckets) for count, grid in zip(self.hats, self.grids, strict=bool(self.hats)))

    @property
    def scale(self) -> int:
        """What the answers are to be divided by."""
        return int(HAT_UNIT ** len(self.hats))

    @property
    def largest_factor(self) -> int:
        """The most that one row adds to an answer."""
        return self.scale

    @property
    def row_norms(self) -> RowNorms:
        if not self.hats:
            return ONE_CELL
        l1, l2_squared = Fraction(self.scale), Fraction(math.prod(hat.largest_square for hat in self.shapes))
        return RowNorms(l1, l2_squared, 2 * l1, 2 * l2_squared)

    def answer(self, counts: Counts) -> Integers:
        table = added(counts[self.clique], self.grids)
        for axis, hat in enumerate(self.shapes):
            table = along(hat.matrix(), table, axis)
        return np.ascontiguousarray(table, dtype=np.int64)

    def shape(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the answers, from that of the table."""
        leading = self.hats or tuple(grid.buckets for grid in self.grids)
        return (*leading, *sizes[len(self.grids) :])
