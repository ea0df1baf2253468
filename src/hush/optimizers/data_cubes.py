"""Data cubes: which tables to measure, all with the same noise, so that the worst asked table is as exact as can be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from hush.core.domain import Clique, Domain, maximal_cliques
from hush.core.errors import WorkloadError
from hush.strategies.strategy import NoiseKind
from hush.workloads import Workload

MOST_CANDIDATES = 1 << 12  # tables among which cubes are chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class DataCubes:
    """The tables to measure, and the largest variance of an asked count, per unit of P."""

    cliques: tuple[Clique, ...]
    largest_error: float


def data_cubes(workload: Workload, noise: str | NoiseKind = NoiseKind.GAUSSIAN) -> DataCubes:
    """Tables with equal shares of the budget that minimise the largest error of the asked tables, nearly.

    A count of table t, added up from a measured table s that contains t, has the variance

        m^p prod of n_i over the columns i of s that are not in t,    p = 1 (Gaussian) or 2 (Laplace),

    with m the number of measured tables. For every bound r on the product a greedy cover finds few tables that leave
    no asked table above r; the r of least m^p r wins. Candidates are all tables
    within the largest asked ones.

    Reference: [Ding et al. 2011], BMAX; the comparison of [Li 2013, sec. 5.4] and [HDMM, Table 3.4].

    >>> import hush
    >>> from hush.research import data_cubes
    >>> data_cubes(hush.Workload.upto(hush.Domain({"a": 2, "b": 2, "c": 2}), 2), "laplace")
    DataCubes(cliques=(('a', 'b'), ('a', 'c'), ('b', 'c'), ('c',)), largest_error=32.0)
    """
    domain, kind = workload.domain, NoiseKind(noise)
    for term in workload:
        if not term.plain:
            raise WorkloadError(f"data cubes answer tables cell by cell; leave {term.text} out")
    asked = [domain.clique(clique) for clique in dict.fromkeys(workload.cliques)]
    power = 1 if kind is NoiseKind.GAUSSIAN else 2
    measured = _candidates(domain, asked)
    # how many cells of a candidate add up to a count of an asked table, where the candidate contains it
    sums = {
        candidate: {t: domain.size(candidate) // domain.size(t) for t in asked if set(t) <= set(candidate)}
        for candidate in measured
    }
    found: list[DataCubes] = []
    for bound in sorted({size for covered in sums.values() for size in covered.values()}):
        chosen, left = [], set(asked)
        while left:
            gains = {s: sum(t in left and size <= bound for t, size in sums[s].items()) for s in measured}
            pick = max(measured, key=lambda s: gains[s])
            chosen.append(pick)
            left -= {t for t, size in sums[pick].items() if size <= bound}
        worst = max(min(sums[s][t] for s in chosen if t in sums[s]) for t in asked)
        error = float(len(chosen) ** power * worst)
        found.append(DataCubes(cliques=tuple(sorted(chosen)), largest_error=error))
    return min(found, key=lambda cubes: cubes.largest_error)


def _candidates(domain: Domain, asked: Sequence[Clique]) -> list[Clique]:
    """All tables within the largest asked ones."""
    found = dict.fromkeys(asked)
    for largest in maximal_cliques(asked):
        names = domain.clique(largest)
        if len(found) + 2 ** len(names) > MOST_CANDIDATES:
            raise WorkloadError(
                f"the table over {', '.join(names)} has too many tables within it; ask for tables of fewer columns"
            )
        found |= dict.fromkeys(part for size in range(len(names) + 1) for part in combinations(names, size))
    return list(found)
