"""Candidates: every subset of a workload's tables, with how much the workload has to do with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hush.domain import Clique
from hush.strategies.closure import Closure
from hush.workloads import Workload

Floats = np.ndarray[Any, np.dtype[np.float64]]


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
