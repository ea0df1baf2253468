"""GeneralizedScorer: scores whose sensitivities differ, brought to one scale without the largest drowning the rest."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from hush.domain import Clique
from hush.mechanisms.misfit_scorer import MisfitScorer
from hush.privacy.neighbours import Neighbours
from hush.privacy.query import Counts
from hush.privacy.selection import GeneralizedExponentialMechanism, Scores
from hush.privacy.sensitivity import ONE_CELL, sensitivity

BETA = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class GeneralizedScorer:
    """The normalised scores of the generalised exponential mechanism, each q_r with its sensitivity w_r.

    Privacy: normalised scores have sensitivity 1; see `GeneralizedExponentialMechanism`.
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
        law = GeneralizedExponentialMechanism(self.epsilon, BETA)
        return law.scores(plain.values, (unit * self.scorer.weights).tolist(), plain.error)
