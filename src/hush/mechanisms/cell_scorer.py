"""CellScorer: how far the count of every cell of some tables is above, or below, what is thought."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hush.domain import Clique
from hush.privacy.neighbours import Neighbours
from hush.privacy.query import Counts
from hush.privacy.selection import Scores

Integers = np.ndarray[Any, np.dtype[np.int64]]
LARGEST_GAP = 2**36  # rows; a score of it still has a place on the grid that choices are drawn on


@dataclass(frozen=True, slots=True, eq=False)
class CellScorer:
    """q = c - h for every cell with count c and public h, then h - c for every cell: a query and its complement.

    Whole numbers, so that scores are exact; those beyond 2^36 are taken for 2^36.

    Privacy: a unit of at most m rows, added, removed or exchanged for another, moves the count of a cell by at most m,
    and so each score, and cutting scores off moves none further; h is public.
    """

    cliques: tuple[Clique, ...]
    expected: Integers  # h of the cells of all tables, one after another in row-major order

    @property
    def candidates(self) -> int:
        """Two for every cell."""
        return 2 * len(self.expected)

    def scores(self, counts: Counts, *, max_rows: int, neighbours: Neighbours) -> Scores:
        """The scores; exchanging units moves one cell no further than adding them does."""
        gaps = np.concatenate([counts[own].ravel() for own in self.cliques]) - self.expected
        gaps = np.clip(gaps, -LARGEST_GAP, LARGEST_GAP)
        return Scores(np.concatenate([gaps, -gaps]).astype(np.float64), float(max_rows))
