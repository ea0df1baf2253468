"""MisfitScorer: how badly a public model answers each candidate table, weighted and less a penalty."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hush.domain import Clique
from hush.errors import ConvergenceError
from hush.merging import Merging
from hush.privacy.neighbours import Neighbours
from hush.privacy.query import Counts
from hush.privacy.selection import Scores
from hush.privacy.sensitivity import ONE_CELL, sensitivity

Floats = np.ndarray[Any, np.dtype[np.float64]]
GRID = 2.0**-10  # of the model's counts, so that sums of differences are exact
LARGEST_MISFIT = 2.0**36  # counts; the last product of a score is off by 2^-53 of it at most


@dataclass(frozen=True, slots=True, eq=False)
class MisfitScorer:
    """q_r = w_r (||M_r(D) - M_r(p)||_1 - penalty_r) for every candidate r.

    Norms above 2^36 are taken for 2^36.

    Privacy: a row moves one cell of M_r by one, so q_r moves by at most w_r times the L1 sensitivity of a table, and
    cutting norms off moves it no further; what is not M_r(D) is public.
    Reference: [AIM, Eq. 1].
    """

    cliques: tuple[Clique, ...]
    tables: Mapping[Clique, Floats]  # M_r(p), as `on_grid` rounds them
    weights: Floats
    penalties: Floats
    merging: Merging | None = None  # of levels, in all tables

    @property
    def candidates(self) -> int:
        """How many there are."""
        return len(self.cliques)

    def misfits(self, counts: Counts) -> Floats:
        """||M_r(D) - M_r(p)||_1 of every candidate; private."""
        return np.array([float(np.abs(self._gap(own, counts)).ravel(order="K").sum()) for own in self.cliques])

    def _gap(self, clique: Clique, counts: Counts) -> Floats:
        exact = counts[clique] if self.merging is None else self.merging.table(clique, counts[clique])
        return np.asarray(exact - self.tables[clique])

    def scores(self, counts: Counts, *, max_rows: int, neighbours: Neighbours) -> Scores:
        """The scores with the largest of their sensitivities.

        Differences of counts and multiples of 2^-10 add up exactly below 2^43, in any order; the two operations that
        are left round once each.
        """
        if np.abs(self.penalties).max() > LARGEST_MISFIT:
            raise ConvergenceError("a penalty is too large for a table to be scored without rounding")
        found = np.minimum(self.misfits(counts), LARGEST_MISFIT)
        unit = float(sensitivity(ONE_CELL, max_rows=max_rows, neighbours=neighbours).l1)
        largest = float(self.weights.max())
        return Scores(self.weights * (found - self.penalties), largest * unit, 8 * largest * 2.0**-53 * LARGEST_MISFIT)


def on_grid(tables: Mapping[Clique, Floats]) -> dict[Clique, Floats]:
    """Tables of a model rounded to multiples of 2^-10, the form that they are scored in."""
    return {clique: np.rint(table / GRID) * GRID for clique, table in tables.items()}
