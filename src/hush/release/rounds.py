"""Rounds: what an adaptive mechanism measured and chose, step by step; noisy and public facts only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta

from hush.arrays import Floats, Integers
from hush.codec import Finite, NonNegative, Whole
from hush.domain import Clique
from hush.errors import DataError
from hush.privacy.measurement import Measurement
from hush.privacy.noise import DiscreteGaussian

# Noise of a table counts as no less than a tenth of a row when a model is fitted: noise in whole steps vanishes fast
# where it is small, and weights that differ by its square cannot be fitted.
LEAST_STDDEV = 0.1
MOST_TURNS = 1 << 20


class Round(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One choice of a table and its measurement.

    `misfit` is ||M_r(p) - y||_1 between the model before the round and the noisy table; `penalty` what the score of
    the table was lowered by, `weight` what it was multiplied with.
    """

    clique: Clique
    epsilon: NonNegative  # of the choice, in the exponential mechanism
    stddev: NonNegative  # of the noise of the table
    candidates: int
    misfit: Finite
    penalty: Finite
    weight: Finite
    annealed: bool  # whether rounds taught so little that the next ones get more of the budget
    size_mb: Finite  # of the model with the table in it


class Draw(Round, frozen=True, kw_only=True):
    """One query that was drawn: a cell of a table, which has more rows than was thought, or fewer.

    `weight` is 1 for more and -1 for fewer, and `penalty` the count that was thought: the score of a cell is
    weight * (count - penalty). No table was measured, so `stddev` and `misfit` are 0.
    """

    turn: Annotated[int, Meta(ge=2, lt=MOST_TURNS)]  # of the game
    cell: Whole  # of the table, in row-major order


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


def measured_in(rounds: Sequence[Round], tables: Sequence[Measurement]) -> tuple[Measurement | None, ...]:
    """The noisy table of every round: of its clique and its noise, in the same order; None where it took none.

    Both are gone through from their ends, for what comes before the rounds may be alike.
    """
    measured: list[Measurement | None] = []
    end = len(tables)
    for played in reversed(rounds):
        alike = (
            i for i in reversed(range(end)) if tables[i].clique == played.clique and tables[i].stddev == played.stddev
        )
        index = next(alike, None)
        measured.append(None if index is None else tables[index])
        end = end if index is None else index
    return tuple(reversed(measured))


def gaussian_law(table: Measurement) -> DiscreteGaussian:
    """The exact noise of a table as an adaptive mechanism measures it."""
    if not isinstance(table.law, DiscreteGaussian):
        raise DataError(f"{table!r} has no discrete Gaussian noise: expected a table as the gate gave it")
    return table.law
