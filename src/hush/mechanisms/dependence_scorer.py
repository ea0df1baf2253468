"""DependenceScorer: how much a column depends on some others, in rows, for every candidate pair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hush.domain import Clique
from hush.privacy.neighbours import Neighbours
from hush.privacy.query import Counts
from hush.privacy.selection import Scores
from hush.privacy.sensitivity import ONE_CELL, sensitivity

Integers = np.ndarray[Any, np.dtype[np.int64]]
EXACT_ROWS = 2**31  # below, n C and a b^T fit in 64 bits, and so do sums of their differences
LARGEST_SCORE = 2**36  # rows; the last division of a score is off by 2^-53 of it at most


@dataclass(frozen=True, slots=True)
class DependenceScorer:
    """q = n R(X, Pi) = 1/2 ||M_{X,Pi}(D) - M_X(D) M_Pi(D)^T / n||_1 for every candidate pair, n the number of rows.

    Computed as sum |n C - a b^T| / (2 n) in whole numbers, with C the table, a and b its margins; 0 without rows.
    Scores above 2^36 are taken for 2^36.

    Privacy: a row moves q by less than 2. With p = a / n and r = b / n, one more row at (x, y) gives
    a' b'^T / (n+1) = (n^2 p r^T + n p e_y^T + n e_x r^T + e_x e_y^T) / (n+1), so that C' - a' b'^T / (n+1) differs from
    C - a b^T / n by n/(n+1) (e_x - p)(e_y - r)^T, of rank one. Its L1 norm is n/(n+1) 2(1 - p_x) 2(1 - r_y) < 4, and q
    has half of it. Tight as n grows: all rows at (0, 0), the new one at (1, 1). Units of m rows are m such steps,
    exchanged ones 2 m; that is twice the L1 sensitivity of a table. Cutting scores off moves none further.
    Reference: [Zhang et al. 2017, sec. 4.3], function R.
    Differs from [Zhang et al. 2017, Thm 4.5]: R has there the sensitivity 3/n + 2/n^2 for exchanged rows and n public;
    n R needs no n, and 2 is its bound for added and removed ones.
    """

    children: tuple[str, ...]  # X of every candidate
    tables: tuple[Clique, ...]  # X and Pi of every candidate

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The tables, each once."""
        return tuple(dict.fromkeys(self.tables))

    @property
    def candidates(self) -> int:
        """How many there are."""
        return len(self.tables)

    def scores(self, counts: Counts, *, max_rows: int, neighbours: Neighbours) -> Scores:
        """The scores with twice the sensitivity of a table; the last division rounds twice."""
        pairs = zip(self.children, self.tables, strict=True)
        found = [_dependence(counts[table], table.index(child)) for child, table in pairs]
        unit = float(sensitivity(ONE_CELL, max_rows=max_rows, neighbours=neighbours).l1)
        return Scores(np.array(found), 2 * unit, 4 * 2.0**-53 * LARGEST_SCORE)


def _dependence(table: Integers, axis: int) -> float:
    """sum |n C - a b^T| / (2 n) of one axis against all others; private."""
    c = np.moveaxis(table, axis, 0).reshape(table.shape[axis], -1)
    n = int(c.sum())
    if n == 0:
        return 0.0
    if n >= EXACT_ROWS:
        c = c.astype(object)
    moved = int(np.abs(n * c - np.outer(c.sum(axis=1), c.sum(axis=0))).sum())
    return float(LARGEST_SCORE) if moved > 2 * n * LARGEST_SCORE else moved / (2 * n)
