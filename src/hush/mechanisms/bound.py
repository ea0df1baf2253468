"""The least RMSE that any strategy could have, shown beside every plan."""

from __future__ import annotations

import math
from fractions import Fraction

from hush.errors import SizeError
from hush.privacy.neighbours import Neighbours
from hush.strategies.bounds import lower_bound
from hush.strategies.noise_kind import NoiseKind, unit_variance
from hush.strategies.term_grams import TermGrams
from hush.workloads import Workload

LARGEST_EXACT = 1024  # rows of the eigenvalue problem that a plan may take, a fraction of a second
_BELOW = ("parts", "dominated")


def rmse_bound(
    workload: Workload, noise: NoiseKind, cost: Fraction, neighbours: Neighbours
) -> tuple[float, str] | None:
    """An RMSE that no unbiased linear mechanism of this noise and cost can beat, and which bound it is.

    None where neighbours exchange rows, for which no bound is known, for too many terms, and for noise never seen.

    Reference: [Li 2013, Thm 4.1], per unit of the least variance that the exact noise can have.
    """
    least = unit_variance(noise, cost)
    if neighbours is not Neighbours.ADD_REMOVE or least == 0:
        return None
    try:
        total, word = lower_bound(TermGrams.of(workload), largest=LARGEST_EXACT)
    except SizeError:
        return None
    weights = sum(term.weight * term.queries for term in workload)
    name = "estimated from below" if word in _BELOW else "exact"
    return math.sqrt(total * least / weights), f"singular value bound, {name}"
