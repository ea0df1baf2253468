"""MisfitRounds: choose a table by how badly a model answers it, measure it, and keep what error bounds need."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from hush.domain import Clique
from hush.mechanisms.candidates import Candidates
from hush.mechanisms.generalized_scorer import GeneralizedScorer
from hush.mechanisms.last_scores import LastScores, Places, exponential_slack, generalized_slack
from hush.mechanisms.misfit_scorer import LARGEST_MISFIT, MisfitScorer
from hush.mechanisms.session import Session
from hush.privacy.selection import BETA, ExponentialMechanism
from hush.release.rounds import Round

Floats = np.ndarray[Any, np.dtype[np.float64]]


class MisfitRounds:
    """Rounds of a run, each a choice by the exponential mechanism and the noisy table that was chosen.

    `generalized` chooses by the generalised exponential mechanism, where scores have sensitivities of their own.

    Privacy: candidates, model tables and penalties are public; see `MisfitScorer` for the scores.
    Reference: [AIM, Alg. 1 and Eq. 1].
    """

    def __init__(self, session: Session, pool: Candidates, name: str, *, generalized: bool = False) -> None:
        self.session = session
        self.pool = pool
        self.last = LastScores(pool)
        self._name = name
        self._generalized = generalized

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
        """One round, whose table is taken; the caller puts it on record by `session.ended`."""
        session, number = self.session, len(self.session.rounds) + 1
        cliques = tuple(self.pool.cliques[place] for place in places)
        penalties = np.minimum(penalties, LARGEST_MISFIT)
        weights, unit = self.pool.weights[places], float(session.bound.l1)
        scorer = MisfitScorer(cliques, tables, weights, penalties, session.merging)
        law = ExponentialMechanism.for_rho(choosing)
        epsilon, note = float(law.epsilon), f"{self._name}: choice {number}"
        if self._generalized:
            pick = session.select(GeneralizedScorer(scorer, law.epsilon), choosing, note=note)[0]
            slack = generalized_slack(weights, unit, epsilon, BETA, pick)
        else:
            pick = session.select(scorer, choosing, note=note)[0]
            slack = exponential_slack(weights, unit, epsilon)
        own = {clique: tables[clique] for clique in cliques}
        self.last.note(number - 1, places, own, penalties, slack)
        cost = session.remaining if measuring is None else measuring
        (taken,) = session.measure([cliques[pick]], cost, note=f"{self._name}: round {number}")
        return Round(
            clique=cliques[pick],
            epsilon=epsilon,
            stddev=taken.stddev,
            candidates=len(cliques),
            misfit=float(np.abs(tables[cliques[pick]] - taken.values).sum()),
            penalty=float(penalties[pick]),
            weight=float(weights[pick]),
            annealed=False,
            size_mb=float(sizes_mb[pick]),
        )
