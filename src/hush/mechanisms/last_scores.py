"""LastScores: for every candidate, the last choice that it stood in; what error bounds are made from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from hush.domain import Clique
from hush.graphical.model import GraphicalModel
from hush.mechanisms.candidates import Candidates
from hush.merging import Merging
from hush.release.rounds import Scored

Floats = np.ndarray[Any, np.dtype[np.float64]]
Places = np.ndarray[Any, np.dtype[np.int64]]


class LastScores:
    """What a run keeps of its choices: for every candidate its last round, penalty and table of the model before it.

    With the exponential mechanism the chosen score is above all others less (2 Delta / epsilon)(log k + l), except
    with probability exp(-l).

    Reference: [AIM, Thm 4].
    """

    def __init__(self, pool: Candidates) -> None:
        count = len(pool.cliques)
        self._pool = pool
        self._rounds = np.full(count, -1, dtype=np.int64)
        self._penalties, self._slacks, self._slopes = np.zeros(count), np.zeros(count), np.zeros(count)
        self._tables: dict[Clique, Floats] = {}

    def note(
        self,
        number: int,
        places: Places,
        tables: Mapping[Clique, Floats],
        penalties: Floats,
        weights: Floats,
        epsilon: float,
        unit: float,
    ) -> None:
        """Put a choice on record."""
        self._rounds[places] = number
        self._penalties[places] = penalties
        slope = 2 * float(weights.max()) * unit / epsilon / weights
        self._slopes[places] = slope
        self._slacks[places] = slope * math.log(len(places))
        self._tables.update(tables)

    def scored(self, model: GraphicalModel, merging: Merging | None = None) -> Scored:
        """The record, with how far the final model is from the one that each table was scored against.

        A table that was scored with merged levels says nothing of those levels, and counts as never scored.
        """
        cliques = self._pool.cliques
        if merging is not None:
            merged = np.array([merging.touches(own) for own in cliques])
            self._rounds[merged] = -1
            self._tables = {own: table for own, table in self._tables.items() if not merging.touches(own)}
        known = [own for own in cliques if own in self._tables]
        final = model.many(known)
        distances = np.full(len(cliques), np.nan)
        for place, own in enumerate(cliques):
            if own in self._tables:
                distances[place] = float(np.abs(final[own] - self._tables[own]).sum())
        return Scored(
            cliques=cliques,
            weights=self._pool.weights,
            rounds=self._rounds,
            penalties=self._penalties,
            slacks=self._slacks,
            slopes=self._slopes,
            distances=distances,
        )
