"""MisfitRounds: choose a table by how badly a model answers it, measure it, and keep what error bounds need."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from hush.domain import Clique
from hush.mechanisms.candidates import Candidates
from hush.mechanisms.last_scores import LastScores, Places
from hush.mechanisms.misfit_scorer import MisfitScorer
from hush.mechanisms.session import Session
from hush.release.rounds import Round

Floats = np.ndarray[Any, np.dtype[np.float64]]


class MisfitRounds:
    """Rounds of a run, each a choice by the exponential mechanism and the noisy table that was chosen.

    Privacy: candidates, model tables and penalties are public; see `MisfitScorer` for the scores.
    Reference: [AIM, Alg. 1 and Eq. 1].
    """

    def __init__(self, session: Session, pool: Candidates, name: str) -> None:
        self.session = session
        self.pool = pool
        self.last = LastScores(pool)
        self._name = name

    def play(
        self,
        places: Places,  # of the candidates in the pool
        tables: Mapping[Clique, Floats],  # of the model as they would be measured, rounded by `on_grid`
        penalties: Floats,  # (candidates,)
        sizes_mb: Floats,  # (candidates,) of the model with each of them
        *,
        choosing: Fraction,
        measuring: Fraction | None,  # all that is left where None
    ) -> Round:
        """One round, put on record once its table is taken."""
        session, number = self.session, len(self.session.rounds) + 1
        cliques = tuple(self.pool.cliques[place] for place in places)
        weights = self.pool.weights[places]
        scorer = MisfitScorer(cliques, tables, weights, penalties, session.merging)
        pick, law = session.select(scorer, choosing, note=f"{self._name}: choice {number}")
        own = {clique: tables[clique] for clique in cliques}
        self.last.note(number - 1, places, own, penalties, weights, float(law.epsilon), float(session.bound.l1))
        cost = session.remaining if measuring is None else measuring
        (taken,) = session.measure([cliques[pick]], cost, note=f"{self._name}: round {number}")
        played = Round(
            clique=cliques[pick],
            epsilon=float(law.epsilon),
            stddev=taken.stddev,
            candidates=len(cliques),
            misfit=float(np.abs(tables[cliques[pick]] - taken.values).sum()),
            penalty=float(penalties[pick]),
            weight=float(weights[pick]),
            annealed=False,
            size_mb=float(sizes_mb[pick]),
        )
        session.ended(played)
        return played
