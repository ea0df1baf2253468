"""Parent sets: which columns a column may depend on, such that their table is small enough to be of use."""

from __future__ import annotations

import math
from collections.abc import Mapping

from hush.domain import Clique

VISITS = 64  # feasible sets looked at for each one that is wanted


def maximal_sets(sizes: Mapping[str, int], cells: float, degree: int, most: int) -> list[Clique] | None:
    """All sets of at most `degree` names with at most `cells` cells that no further name could join.

    None where there are more than `most`, or nearly so many to look at. The empty set only where nothing fits.

    Reference: [Zhang et al. 2017, Alg. 5], without levels that are merged.

    >>> maximal_sets({"a": 2, "b": 3, "c": 5}, 10, 2, 100)
    [('c', 'a'), ('b', 'a')]
    """
    names = sorted(sizes, key=lambda name: -sizes[name])
    found: list[Clique] = []
    stack: list[tuple[int, int, Clique]] = [(0, 1, ())]
    visits = 0
    while stack:
        start, product, chosen = stack.pop()
        visits += 1
        free = next((name for name in reversed(names) if name not in chosen), None)
        if free is None or len(chosen) == degree or product * sizes[free] > cells:
            found.append(chosen)
        if len(found) > most or visits > VISITS * most:
            return None
        if len(chosen) < degree:
            joining = (place for place in reversed(range(start, len(names))) if product * sizes[names[place]] <= cells)
            stack += [(place + 1, product * sizes[names[place]], (*chosen, names[place])) for place in joining]
    return found


def useful_cells(total: float, stddev: float, usefulness: float) -> float:
    """The most cells with total / cells >= usefulness E|z|: the mean count beside the mean size of the noise.

    Reference: [Zhang et al. 2017, Def. 4.7], theta-usefulness, for Gaussian noise.

    >>> round(useful_cells(48_842, 26.8, 4.0))
    571
    """
    return total / (usefulness * math.sqrt(2 / math.pi) * stddev)
