"""Elimination orders: which tables a graphical model needs, found by greedy search with random restarts.

Eliminating attribute v joins its remaining neighbours N(v) into a clique and leaves the table over N(v) + v. The tables
that are inside no other are the maximal cliques of a chordal graph around the input, and the model holds

    cells = sum over maximal cliques C of prod_{i in C} n_i.

An attribute whose neighbours are a clique already is eliminated at once: no order has fewer cells for it. What is left,
the core, falls into components that are searched apart. A graph without a core is chordal, and its cells are the least.

Sets of attributes are integers, bit i for attribute i; cells are exact integers at any magnitude.

Reference: [HDMM, sec. 4.4, Remark 1] for the size of a junction tree; the search is ours.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Literal, TypeAlias

import numpy as np

Criterion: TypeAlias = Literal["fill", "weighted fill", "size", "degree"]
Key: TypeAlias = tuple[float, float, int]

CRITERIA: tuple[Criterion, ...] = ("fill", "weighted fill", "size", "degree")
TEMPERATURES = (0.1, 0.3, 0.6)  # how far a restart strays: a cost of c is taken with probability ~ c^(-1/temperature)
RESTARTS = 16
PATIENCE = 8  # restarts without a better order, after which the search ends


@dataclass(frozen=True, slots=True)
class Elimination:
    """Maximal cliques of a chordal graph around the input, and their cells."""

    cliques: tuple[int, ...]
    cells: int


def bits(members: int) -> Iterator[int]:
    """The positions of the ones, from the lowest.

    >>> list(bits(0b1101))
    [0, 2, 3]
    """
    while members:
        low = members & -members
        yield low.bit_length() - 1
        members ^= low


def graph(size: int, cliques: Iterable[int]) -> list[int]:
    """The neighbours of every attribute: who shares a clique with it."""
    adjacent = [0] * size
    for clique in cliques:
        for i in bits(clique):
            adjacent[i] |= clique
    return [own & ~(1 << i) for i, own in enumerate(adjacent)]


def eliminate(adjacent: Sequence[int], sizes: Sequence[int], *, restarts: int = RESTARTS, seed: int = 0) -> Elimination:
    """The cheapest elimination found; the same for the same seed.

    >>> eliminate(graph(4, [0b0011, 0b0110, 0b1100, 0b1001]), [2, 3, 2, 3]).cells
    24
    """
    adjacent = list(adjacent)
    cliques = _simplicial(adjacent)
    cells = sum(_cells(clique, sizes) for clique in cliques)
    for members in _components(adjacent):
        own = list(bits(members))
        place = {v: k for k, v in enumerate(own)}
        kept = {clique & members for clique in cliques if (clique & members).bit_count() > 1}
        core = _Core(
            [_packed(adjacent[v], place) for v in own],
            [sizes[v] for v in own],
            [_packed(k, place) for k in sorted(kept)],
        )
        found = core.search(restarts, seed)
        cliques = cliques + [sum(1 << own[k] for k in bits(clique)) for clique in found.cliques]
        cells += found.cells
    return Elimination(tuple(cliques), cells)


def _cells(members: int, sizes: Sequence[int]) -> int:
    return math.prod([sizes[i] for i in bits(members)])


def _packed(members: int, place: dict[int, int]) -> int:
    return sum(1 << place[i] for i in bits(members))


def _simplicial(adjacent: list[int]) -> list[int]:
    """Eliminates, in place, all whose neighbours are a clique, until none is left; the maximal cliques of that."""
    cliques: list[int] = []
    holders: list[list[int]] = [[] for _ in adjacent]
    waiting = sorted(range(len(adjacent)), key=lambda v: adjacent[v].bit_count(), reverse=True)
    gone = 0
    while waiting:
        v = waiting.pop()
        if gone >> v & 1:
            continue
        near = adjacent[v]
        if any(near & ~adjacent[a] & ~(1 << a) for a in bits(near)):
            continue
        clique = near | 1 << v
        if all(clique & ~kept for kept in holders[v]):
            cliques.append(clique)
            for a in bits(near):
                holders[a].append(clique)
        for a in bits(near):
            adjacent[a] &= ~(1 << v)
            waiting.append(a)
        adjacent[v] = 0
        gone |= 1 << v
    return cliques


def _components(adjacent: Sequence[int]) -> Iterator[int]:
    """Connected sets of two or more."""
    seen = 0
    for v, near in enumerate(adjacent):
        if not near or seen >> v & 1:
            continue
        members, fresh = 0, 1 << v
        while fresh:
            members |= fresh
            reached = 0
            for a in bits(fresh):
                reached |= adjacent[a]
            fresh = reached & ~members
        seen |= members
        yield members


class _Core:
    """A connected graph in which no neighbourhood is a clique; cliques inside one of `kept` cost nothing more."""

    def __init__(self, adjacent: list[int], sizes: list[int], kept: list[int]) -> None:
        self.adjacent = adjacent
        self.sizes = sizes
        self.kept: list[list[int]] = [[clique for clique in kept if clique >> v & 1] for v in range(len(adjacent))]
        self.cells = [_cells(near | 1 << v, sizes) for v, near in enumerate(adjacent)]
        self.fill = [self._fill(adjacent, near, 0, False) for near in adjacent]
        self.weighted_fill = [self._fill(adjacent, near, 0, True) for near in adjacent]

    def search(self, restarts: int, seed: int) -> Elimination:
        """The best of one order per criterion, then of random ones until they stop paying."""
        best: Elimination | None = None
        for criterion in CRITERIA:
            best = self.greedy(criterion, best) or best
        random = np.random.Generator(np.random.PCG64(seed))
        idle = 0
        for k in range(restarts):
            criterion = CRITERIA[k % 3]
            noise = random.gumbel(scale=TEMPERATURES[k // 3 % len(TEMPERATURES)], size=4 * len(self.sizes))
            found = self.greedy(criterion, best, noise.tolist())
            best, idle = (found, 0) if found else (best, idle + 1)
            if idle == PATIENCE:
                break
        return best or Elimination((), 0)

    def greedy(self, criterion: Criterion, best: Elimination | None, noise: Sequence[float] = ()) -> Elimination | None:
        """The elimination that takes the cheapest by `criterion` first, or None once it is no better than `best`."""
        adjacent, cells, sizes = self.adjacent.copy(), self.cells.copy(), self.sizes
        weighted = criterion == "weighted fill"
        fill = (self.weighted_fill if weighted else self.fill).copy()
        kept = [cliques.copy() for cliques in self.kept]
        drawn = 0

        def key(v: int) -> Key:
            nonlocal drawn
            if not fill[v]:
                return (-math.inf, 0.0, v)
            if criterion == "size":
                cost, tie = math.log(cells[v]), math.log(fill[v])
            else:
                cost = math.log(adjacent[v].bit_count() if criterion == "degree" else fill[v])
                tie = math.log(cells[v])
            if noise:
                drawn += 1
                cost -= noise[drawn % len(noise)]
            return (cost, tie, v)

        keys: list[Key | None] = [key(v) for v in range(len(sizes))]
        heap = [own for own in keys if own]
        heapify(heap)
        cliques: list[int] = []
        total = 0
        while heap:
            own = heappop(heap)
            v = own[2]
            if keys[v] is not own:
                continue
            near = adjacent[v]
            clique = near | 1 << v
            if all(clique & ~other for other in kept[v]):
                cliques.append(clique)
                total += cells[v]
                if best and total >= best.cells:
                    return None
                for a in bits(near):
                    kept[a].append(clique)
            changed = near
            if fill[v]:
                for a in bits(near):
                    for b in bits(near & ~adjacent[a] & -(2 << a)):
                        both = adjacent[a] & adjacent[b] & ~clique
                        less = sizes[a] * sizes[b] if weighted else 1
                        for w in bits(both):
                            fill[w] -= less
                        changed |= both
            gone = 1 << v
            for a in bits(near):
                cells[a] *= _cells(near & ~adjacent[a] & ~(1 << a), sizes)
                adjacent[a] = (adjacent[a] | near) & ~(1 << a | 1 << v)
                if not adjacent[a] & ~near:
                    gone |= 1 << a
            left = near & ~gone
            removed = _cells(gone, sizes)
            for a in bits(left):
                adjacent[a] &= ~gone
                cells[a] //= removed
            for a in bits(left):
                fill[a] = self._fill(adjacent, adjacent[a], left, weighted)
            for a in bits(gone):
                keys[a] = None
            for a in bits(changed & ~gone):
                keys[a] = own = key(a)
                heappush(heap, own)
        return Elimination(tuple(cliques), total)

    def _fill(self, adjacent: Sequence[int], near: int, joined: int, weighted: bool) -> int:
        """Pairs that `near` lacks to be a clique, or the sum of n_a n_b over them; `joined` is known to be a clique."""
        fill = 0
        outer = near & ~joined
        for b in bits(outer):
            missing = near & ~adjacent[b] & (joined | -(2 << b))
            if not weighted:
                fill += missing.bit_count()
            elif missing:
                fill += self.sizes[b] * sum([self.sizes[c] for c in bits(missing)])
        return fill
