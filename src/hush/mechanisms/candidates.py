"""Candidates: every subset of a workload's tables, with how much the workload has to do with it.

LastScores: for every candidate, the last choice that it stood in; what error bounds are made from.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hush.arrays import Floats, Integers
from hush.domain import Clique
from hush.graphical.graphical_model import GraphicalModel
from hush.release.rounds import Scored
from hush.strategies.closure import Closure
from hush.strategies.rare_levels import Merging
from hush.workloads import Workload


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """The downward closure of a workload without the empty set, and w_r = sum_s c_s |r and s|.

    Reference: [AIM, sec. 3.2 and Alg. 1, line 8].

    >>> import hush
    >>> Candidates.of(hush.Workload.kway(hush.Domain({"a": 2, "b": 3, "c": 5}), 2)).weights.tolist()
    [2.0, 2.0, 2.0, 4.0, 4.0, 4.0]
    """

    cliques: tuple[Clique, ...]
    weights: Floats

    @classmethod
    def of(cls, workload: Workload) -> Candidates:
        """The candidates of a workload, each clique in domain order, small ones first."""
        domain = workload.domain
        closure = Closure.of(domain, workload.cliques)
        cliques = sorted((own for own in closure if own), key=len)
        asked = _members(domain.attributes, workload.cliques)
        importance = np.asarray(workload.weights) @ asked  # of each attribute: sum of c_s over the s that have it
        return cls(tuple(cliques), _members(domain.attributes, cliques) @ importance)


def _members(attributes: Clique, cliques: Sequence[Clique]) -> Floats:
    """One row per clique, one where it has the attribute."""
    place = {name: index for index, name in enumerate(attributes)}
    found = np.zeros((len(cliques), len(attributes)))
    for row, clique in enumerate(cliques):
        found[row, [place[name] for name in clique]] = 1.0
    return found


Slack = tuple[Floats, Floats]  # slack_r and slope_r of `Scored`


def exponential_slack(weights: Floats, unit: float, epsilon: float) -> Slack:
    """How far every score may be above the chosen one, over its weight, for the exponential mechanism.

    Delta = max w_r unit: q_r <= q_t + (2 Delta / epsilon)(log k + l), except with probability exp(-l).
    """
    slope = 2 * float(weights.max()) * unit / (epsilon * weights)
    return slope * math.log(len(weights)), slope


def generalized_slack(weights: Floats, unit: float, epsilon: float, beta: float, pick: int) -> Slack:
    """The same for the generalised exponential mechanism, whose scores have sensitivities w_r unit of their own.

    The largest normalised score is 0, so that the chosen one is at least -c with c = (2 / epsilon)(log k + l), except
    with probability exp(-l): q_r <= q_t - s Delta_t + s Delta_r + c (Delta_t + Delta_r), with
    s = (2 / epsilon) log(k / beta).
    """
    count = len(weights)
    shift, least = 2 / epsilon * math.log(max(count, 2) / beta), 2 / epsilon * math.log(count)
    relative = weights[pick] / weights
    return unit * ((least - shift) * relative + least + shift), unit * 2 / epsilon * (relative + 1)


class LastScores:
    """What a run keeps of its choices: for every candidate its last round, penalty and table of the model before it.

    Reference: [AIM, Thm 4].
    """

    def __init__(self, pool: Candidates) -> None:
        count = len(pool.cliques)
        self._pool = pool
        self._rounds = np.full(count, -1, dtype=np.int64)
        self._penalties, self._slacks, self._slopes = np.zeros(count), np.zeros(count), np.zeros(count)
        self._tables: dict[Clique, Floats] = {}

    def note(
        self, number: int, places: Integers, tables: Mapping[Clique, Floats], penalties: Floats, slack: Slack
    ) -> None:
        """Put a choice on record."""
        self._rounds[places] = number
        self._penalties[places] = penalties
        self._slacks[places], self._slopes[places] = slack
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
