"""Taken: one noisy table as it left the gate.

Rounds: what an adaptive mechanism did, step by step; noisy and public facts only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from hush.arrays import Floats, Integers
from hush.domain import Clique
from hush.graphical.measurement import Measurement
from hush.privacy.noise import DiscreteGaussian
from hush.rare_levels import Merging

LEAST_STDDEV = 0.1


@dataclass(frozen=True, slots=True, eq=False)
class Taken:
    """A table of whole numbers with discrete Gaussian noise of this variance parameter; public.

    With `merging`, rare levels were counted together, and the table is as much smaller.
    """

    clique: Clique
    variance: Fraction
    values: Integers
    merging: Merging | None = None

    @property
    def stddev(self) -> float:
        """The standard deviation of the noise of every number."""
        return DiscreteGaussian(self.variance).stddev

    def measurement(self) -> Measurement:
        """The table as evidence for a model; its noise counts as no less than a tenth of a row.

        Noise in whole steps vanishes fast where it is small, and weights that differ by its square cannot be fitted.
        """
        stddev = max(self.stddev, LEAST_STDDEV)
        if self.merging is None:
            return Measurement(self.clique, self.values, stddev)
        blocks = self.merging.blocks(self.clique, self.values.shape)
        return Measurement(self.clique, self.values.ravel(), stddev, query=blocks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One choice of a table and its measurement.

    `misfit` is ||M_r(p) - y||_1 between the model before the round and the noisy table; `penalty` what the score of
    the table was lowered by, `weight` what it was multiplied with.
    """

    clique: Clique
    epsilon: float  # of the choice, in the exponential mechanism
    stddev: float  # of the noise of the table
    candidates: int
    misfit: float
    penalty: float
    weight: float
    annealed: bool  # whether rounds taught so little that the next ones get more of the budget
    size_mb: float  # of the model with the table in it


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """What the last choice among which a table stood says about its error, for every table that could be chosen.

    In round t = `rounds`[r] the score was q_r = w_r (||M_r(D) - M_r(p)||_1 - penalty_r), and with probability at least
    1 - exp(-l) all candidates of the round have
    ||M_r(D) - M_r(p)||_1 <= penalty_r + (w_t / w_r) (||M_t(D) - M_t(p)||_1 - penalty_t) + slack_r + slope_r l.
    `distance` is ||M_r(p) - M_r(final model)||_1. `rounds` is -1 for a table that never stood among the candidates.
    """

    cliques: tuple[Clique, ...]
    weights: Floats  # w_r
    rounds: Integers
    penalties: Floats
    slacks: Floats
    slopes: Floats
    distances: Floats


def measured_in(rounds: Sequence[Round], taken: Sequence[Taken]) -> tuple[Taken | None, ...]:
    """The noisy table of every round: of its clique and its noise, in the same order; None where it took none.

    Both are gone through from their ends, for what comes before the rounds may be alike.
    """
    found: list[Taken | None] = []
    end = len(taken)
    for one in reversed(rounds):
        alike = (i for i in reversed(range(end)) if taken[i].clique == one.clique and taken[i].stddev == one.stddev)
        place = next(alike, None)
        found.append(None if place is None else taken[place])
        end = end if place is None else place
    return tuple(reversed(found))
