"""Grouping: which tables of a node to add up beforehand, so that its cells meet few tables in long runs.

A node of many cells meets every one of its tables at every cell. Two tables over A and B can be added up first, over
A | B, at the cost of the cells of A | B, and the node then meets one table instead of two. Tables that hold only part
of the node's last axes are widened to all of them, so that runs are long. What comes down is summed the same way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hush.domain import Clique, Domain

LEAST_RUN = 48
FEWEST_CELLS = 512
SHARE = 4  # a sum has at most a quarter of the cells of what it is for
OVERHEAD = 12.0  # cells along a run that take as long as starting one


@dataclass(frozen=True, slots=True)
class Group:
    """A sum over a clique of tables, by their places; groups before it may be among them, after all tables."""

    clique: Clique
    members: tuple[int, ...]


def group_tables(domain: Domain, axes: Clique, tables: Sequence[Clique]) -> tuple[list[Group], list[int]]:
    """Groups, each of tables and earlier groups, and the places of tables and groups that the node itself meets.

    Places count the tables first, then the groups in their order.
    """
    cells = domain.size(axes)
    if cells < FEWEST_CELLS or len(tables) < 2:
        return [], list(range(len(tables)))
    cliques = [frozenset(table) for table in tables]
    groups: list[Group] = []
    live = list(range(len(tables)))
    order = {name: i for i, name in enumerate(axes)}

    def made(members: Sequence[int], over: frozenset[str]) -> None:
        groups.append(Group(tuple(sorted(over, key=order.__getitem__)), tuple(members)))
        cliques.append(over)
        for member in members:
            live.remove(member)
        live.append(len(cliques) - 1)

    suffix = _suffix(domain, axes, cells)
    for place in list(live):
        if cliques[place] & suffix and not suffix <= cliques[place]:
            over = cliques[place] | suffix
            if domain.size(over) * SHARE <= cells:
                same = [p for p in live if cliques[p] <= over and cliques[p] & suffix]
                if place in same:
                    made(same, over)
    run = domain.size(suffix)
    while len(live) > 1:
        best, pair = 0.0, None
        for i, first in enumerate(live):
            for second in live[i + 1 :]:
                over = cliques[first] | cliques[second]
                size = domain.size(over)
                if size * SHARE > cells:
                    continue
                gain = _meeting(cells, cliques, (first, second), suffix, run)
                gain -= _meeting(cells, [over], (0,), suffix, run) + 2.0 * size
                if gain > best:
                    best, pair = gain, (first, second)
        if pair is None:
            break
        made(pair, cliques[pair[0]] | cliques[pair[1]])
    return groups, live


def _meeting(
    cells: int, cliques: Sequence[frozenset[str]], members: Sequence[int], suffix: frozenset[str], run: int
) -> float:
    """What it costs that a node's cells meet some tables: by cells along a run, and at the start of every run."""
    whole = sum(1 for member in members if cliques[member] & suffix)
    return cells * whole + cells / run * OVERHEAD * len(members)


def _suffix(domain: Domain, axes: Clique, cells: int) -> frozenset[str]:
    """The last axes that make a run of at least `LEAST_RUN` cells together."""
    names: list[str] = []
    for name in reversed(axes):
        if math.prod(domain[other] for other in names) >= LEAST_RUN:
            break
        names.append(name)
    return frozenset(names)
