"""MisfitScorer: how badly a public model answers each candidate table, weighted and less a penalty.

GeneralizedScorer: scores whose sensitivities differ, brought to one scale without the largest drowning the rest.

MisfitRounds: choose a table by how badly a model answers it, measure it, and keep what error bounds need.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hush.arrays import Floats, Integers
from hush.domain import Clique
from hush.errors import BudgetError, ConvergenceError
from hush.mechanisms.candidates import Candidates, LastScores, exponential_slack, generalized_slack
from hush.mechanisms.session import Session
from hush.privacy.gate import Counts
from hush.privacy.selection import BETA, ExponentialMechanism, GeneralizedExponentialMechanism, Scores
from hush.privacy.sensitivity import ONE_CELL, Neighbours, sensitivity
from hush.release.rounds import Round
from hush.strategies.rare_levels import Merging

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
        places: Integers,  # of the candidates in the pool
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
