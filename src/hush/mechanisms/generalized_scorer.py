"""GeneralizedScorer: scores whose sensitivities differ, brought to one scale without the largest drowning the rest."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hush.domain import Clique
from hush.errors import BudgetError
from hush.mechanisms.misfit_scorer import MisfitScorer
from hush.privacy.neighbours import Neighbours
from hush.privacy.query import Counts
from hush.privacy.selection import BETA, GeneralizedExponentialMechanism, Scores
from hush.privacy.sensitivity import ONE_CELL, sensitivity

LARGEST = 2.0**40  # least sensitivities


@dataclass(frozen=True, slots=True, eq=False)
class GeneralizedScorer:
    """The normalised scores of the generalised exponential mechanism, each q_r with its sensitivity w_r.

    Scores beyond 2^40 times the least sensitivity are cut off there, where they can still be computed; an epsilon whose
    shift t = (2/epsilon) log(k/beta) is beyond 2^40 is refused, before there is a charge.

    Privacy: normalised scores have sensitivity 1, see `GeneralizedExponentialMechanism`; cutting scores off moves none
    of them further between neighbours.
    Reference: [Raskhodnikova and Smith 2016]; [AIM, sec. 3.2] names it as an alternative.
    """

    scorer: MisfitScorer
    epsilon: Fraction  # of the choice that the scores are for

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon, self.scorer.candidates)

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


def check_epsilon(epsilon: Fraction, candidates: int) -> None:
    """Refuse a choice whose normalised scores, of at most 2^40 + (2/epsilon) log(k/beta), are too large to draw from.

    >>> check_epsilon(Fraction(1, 1000), 50)
    """
    if Fraction(2 * math.log(max(candidates, 2) / BETA)) > epsilon * Fraction(LARGEST):
        raise BudgetError(
            f"a choice by epsilon={float(epsilon):.3g} among {candidates:,} tables is too small for the generalised "
            "exponential mechanism; raise the budget or use selection='exponential'"
        )
