"""GeneralizedScorer: scores whose sensitivities differ, brought to one scale without the largest drowning the rest."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hush.domain import Clique
from hush.mechanisms.misfit_scorer import MisfitScorer
from hush.privacy.neighbours import Neighbours
from hush.privacy.query import Counts
from hush.privacy.selection import GeneralizedExponentialMechanism, Scores
from hush.privacy.sensitivity import ONE_CELL, sensitivity

BETA = 0.05
LARGEST = 2.0**40  # least sensitivities


@dataclass(frozen=True, slots=True, eq=False)
class GeneralizedScorer:
    """The normalised scores of the generalised exponential mechanism, each q_r with its sensitivity w_r.

    Scores beyond 2^40 times the least sensitivity are cut off there, where they can still be computed.

    Privacy: normalised scores have sensitivity 1, see `GeneralizedExponentialMechanism`; cutting scores off moves none
    of them further between neighbours.
    Reference: [Raskhodnikova and Smith 2016]; [AIM, sec. 3.2] names it as an alternative.
    """

    scorer: MisfitScorer
    epsilon: Fraction  # of the choice that the scores are for

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The tables that are read."""
        return self.scorer.cliques

    @property
    def candidates(self) -> int:
        """How many there are."""
        return self.scorer.candidates

    def scores(self, counts: Counts, *, max_rows: int, neighbours: Neighbours) -> Scores:
        """Normalised scores of sensitivity 1."""
        plain = self.scorer.scores(counts, max_rows=max_rows, neighbours=neighbours)
        unit = float(sensitivity(ONE_CELL, max_rows=max_rows, neighbours=neighbours).l1)
        law, deltas = GeneralizedExponentialMechanism(self.epsilon, BETA), unit * self.scorer.weights
        most = LARGEST * float(deltas.min())
        return law.scores(np.clip(plain.values, -most, most), deltas.tolist(), plain.error)
