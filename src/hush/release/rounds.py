"""Rounds: what an adaptive mechanism chose and measured, step by step; noisy and public values only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta

from hush.core.arrays import Floats, Integers
from hush.core.domain import Clique
from hush.core.errors import DataError
from hush.files.codec import Finite, NonNegative, Whole
from hush.privacy.measurement import Measurement
from hush.privacy.noise import DiscreteGaussian

# Fits assume noise of at least a tenth of a row: noise in whole steps vanishes fast as it gets small, and weights that
# differ by its square cannot be fitted.
LEAST_STDDEV = 0.1
MOST_TURNS = 1 << 20


class Round(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One choice of a table and its measurement.

    `misfit` is ||M_r(p) - y||_1 between the model before the round and the noisy table. The score of the table was
    weight * (error - penalty).
    """

    clique: Clique
    epsilon: NonNegative  # of the choice, in the exponential mechanism
    stddev: NonNegative  # of the noise of the table
    candidates: int
    misfit: Finite
    penalty: Finite
    weight: Finite
    annealed: bool  # whether the round changed so little that later rounds get more budget
    size_mb: Finite  # of the model with the table in it


class Draw(Round, frozen=True, kw_only=True):
    """One query drawn in a game: a cell of a table whose count is above or below the present estimate.

    `weight` is 1 for above and -1 for below, `penalty` is the estimate, and the score of a cell is
    weight * (count - penalty). No table is measured, so `stddev` and `misfit` are 0.
    """

    turn: Annotated[int, Meta(ge=2, lt=MOST_TURNS)]  # of the game
    cell: Whole  # of the table, in row-major order


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """What the last choice with a table among its candidates says about the error of the table, for all candidates.

    In round t = `rounds`[r] the score was q_r = w_r (||M_r(D) - M_r(p)||_1 - penalty_r), and with probability at least
    1 - exp(-l) all candidates of the round have
    ||M_r(D) - M_r(p)||_1 <= penalty_r + (w_t / w_r) (||M_t(D) - M_t(p)||_1 - penalty_t) + slack_r + slope_r l.
    `distance` is ||M_r(p) - M_r(final model)||_1. `rounds` is -1 for a table that never was a candidate.
    """

    cliques: tuple[Clique, ...]
    weights: Floats  # w_r
    rounds: Integers
    penalties: Floats
    slacks: Floats
    slopes: Floats
    distances: Floats


def measured_in(rounds: Sequence[Round], tables: Sequence[Measurement]) -> tuple[Measurement | None, ...]:
    """The noisy table of each round, matched by clique and noise in order; None if the round measured none.

    Matching starts from the end, since tables measured before the rounds may look the same.
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
    """The noise of a table that an adaptive mechanism measured."""
    if not isinstance(table.law, DiscreteGaussian):
        raise DataError(f"{table!r} has no discrete Gaussian noise: expected a table as the gate gave it")
    return table.law
