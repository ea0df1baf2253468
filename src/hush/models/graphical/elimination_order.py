"""Elimination orders: which tables a graphical model needs, found by greedy search with random restarts.

Eliminating attribute v joins its remaining neighbours N(v) into a clique and leaves the table over N(v) + v. The tables
that are inside no other are the maximal cliques of a chordal graph around the input, and the model holds

    cells = sum over maximal cliques C of prod_{i in C} n_i.

An attribute whose neighbours are a clique already is eliminated at once: no order has fewer cells for it. What is left,
the core, falls into components that are searched apart. A graph without a core is chordal, and its cells are the least.

The greedy search takes the cheapest attribute first. Eliminating v adds the edges that N(v) lacks; its cost is one of

    fill           how many edges are added
    weighted fill  sum of n_a n_b over the added edges (a, b)
    size           cells of the new table, prod of n_i over N(v) + v
    degree         how many neighbours there are

Restarts take cost c with probability about c^(-1/T), by Gumbel noise of scale T on log c. Attributes of fill 0 go
first, and neighbours left with nothing outside the new table go with them: both are free.

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

CRITERIA: tuple[Criterion, ...] = ("weighted fill", "fill", "size", "degree")
NOISY: tuple[Criterion, ...] = ("weighted fill", "fill")  # with noise, the other two find little that these do not
TEMPERATURES = (0.2, 0.3)
RESTARTS = 64
PATIENCE = 32  # restarts without a smaller model, after which the search ends
WORK = 20_000  # edges that restarts look at, all together
FEWEST = 4  # restarts of a graph with more edges than that


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


def cells_of(members: int, sizes: Sequence[int]) -> int:
    """prod n_i over the members."""
    return math.prod([sizes[i] for i in bits(members)])


class GreedyOrder:
    """Eliminations of one graph; a table inside one of `kept` costs nothing more."""

    def __init__(self, adjacent: Sequence[int], sizes: Sequence[int], kept: Sequence[int] = ()) -> None:
        self.adjacent = list(adjacent)
        self.sizes = list(sizes)
        self.kept = [[clique for clique in kept if clique >> v & 1] for v in range(len(sizes))]
        self.cells = [cells_of(near | 1 << v, sizes) for v, near in enumerate(adjacent)]
        self.groups = [(n, sum(1 << v for v, size in enumerate(sizes) if size == n)) for n in sorted(set(sizes))]
        self.fill = self._all_fill([(1, -1)])
        self.weighted_fill = self._all_fill(self.groups)

    def run(
        self,
        criterion: Criterion,
        best: Elimination | None = None,
        *,
        noise: Sequence[float] = (),
        ranks: Sequence[int] = (),
    ) -> Elimination | None:
        """The elimination by `criterion`, or by `ranks` if given; None as soon as it is no smaller than `best`."""
        adjacent, cells, sizes = self.adjacent.copy(), self.cells.copy(), self.sizes
        weighted = criterion == "weighted fill"
        fill = (self.weighted_fill if weighted else self.fill).copy()
        groups = self.groups if weighted else [(1, -1)]
        kept = [cliques.copy() for cliques in self.kept]
        draws = iter(noise)

        def key(v: int) -> Key:
            if ranks:
                return (ranks[v], 0.0, v)
            if not fill[v]:
                return (-math.inf, 0.0, v)
            cost = math.log(cells[v])
            tie = 0.0
            if criterion != "size":
                cost, tie = math.log(adjacent[v].bit_count() if criterion == "degree" else fill[v]), cost
            return (cost - next(draws, 0.0), tie, v)

        keys: list[Key | None] = [key(v) for v in range(len(sizes))]
        heap = [entry for entry in keys if entry]
        heapify(heap)
        cliques: list[int] = []
        total = 0
        while heap:
            cheapest = heappop(heap)
            v = cheapest[2]
            if keys[v] is not cheapest:
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
            eliminated = 1 << v
            for a in bits(near):
                fresh = near & ~adjacent[a] & ~(1 << a)
                if fresh:
                    cells[a] *= cells_of(fresh, sizes)
                adjacent[a] = (adjacent[a] | near) & ~(1 << a | 1 << v)
                if not adjacent[a] & ~near:
                    eliminated |= 1 << a
            left = near & ~eliminated
            removed = cells_of(eliminated, sizes)
            for a in bits(left):
                adjacent[a] &= ~eliminated
                cells[a] //= removed
            for a in bits(left):
                fill[a] = _fill(adjacent, sizes, groups, adjacent[a], left)
            for a in bits(eliminated):
                keys[a] = None
            for a in bits(changed & ~eliminated):
                keys[a] = entry = key(a)
                heappush(heap, entry)
        return Elimination(tuple(cliques), total)

    def _all_fill(self, groups: Sequence[tuple[int, int]]) -> list[int]:
        return [_fill(self.adjacent, self.sizes, groups, near, 0) for near in self.adjacent]


def _fill(
    adjacent: Sequence[int], sizes: Sequence[int], groups: Sequence[tuple[int, int]], near: int, joined: int
) -> int:
    """Sum of w_a w_b over the pairs that `near` lacks to be a clique; `joined` is known to be one.

    `groups` holds a weight and the set of those who have it, for each weight; a lone group means that all weigh 1.
    """
    fill = 0
    for b in bits(near & ~joined):
        missing = near & ~adjacent[b] & (joined | -(2 << b))
        if groups[0][1] == -1:
            fill += missing.bit_count()
        elif missing.bit_count() < len(groups):
            fill += sizes[b] * sum([sizes[c] for c in bits(missing)])
        else:
            fill += sizes[b] * sum([n * (missing & members).bit_count() for n, members in groups])
    return fill


def graph(size: int, cliques: Iterable[int]) -> list[int]:
    """The neighbours of every attribute: who shares a clique with it."""
    adjacent = [0] * size
    for clique in cliques:
        for i in bits(clique):
            adjacent[i] |= clique
    return [near & ~(1 << i) for i, near in enumerate(adjacent)]


def eliminate(
    adjacent: Sequence[int],
    sizes: Sequence[int],
    *,
    criteria: Sequence[Criterion] = CRITERIA,
    restarts: int = RESTARTS,
    seed: int = 0,
    start: Sequence[int] = (),
) -> Elimination:
    """The elimination with the fewest cells among one per criterion, `start` if given, and at most `restarts` more.

    More restarts with the same seed never give a larger model.

    >>> eliminate(graph(4, [0b0011, 0b0110, 0b1100, 0b1001]), [2, 3, 2, 3]).cells
    24
    """
    adjacent = list(adjacent)
    cliques = _simplicial(adjacent)
    cells = sum(cells_of(clique, sizes) for clique in cliques)
    outer = tuple(cliques)
    rank = {v: k for k, v in enumerate(start)}
    for members in _components(adjacent):
        vertices = list(bits(members))
        index = {v: k for k, v in enumerate(vertices)}
        kept = sorted({clique & members for clique in outer if (clique & members).bit_count() > 1})
        order = GreedyOrder(
            [_packed(adjacent[v], index) for v in vertices],
            [sizes[v] for v in vertices],
            [_packed(clique, index) for clique in kept],
        )
        core = _search(order, criteria, restarts, seed, [rank[v] for v in vertices] if rank else [])
        cliques += [sum(1 << vertices[k] for k in bits(clique)) for clique in core.cliques]
        cells += core.cells
    return Elimination(tuple(cliques), cells)


def _search(
    order: GreedyOrder, criteria: Sequence[Criterion], restarts: int, seed: int, ranks: Sequence[int]
) -> Elimination:
    alike = len(order.groups) == 1  # attributes of one size: the two kinds of fill are the same
    noisy = NOISY[1:] if alike else NOISY
    best = order.run("fill", ranks=ranks) if ranks else None
    for criterion in criteria:
        if alike and criterion == "weighted fill" and "fill" in criteria:
            continue
        best = order.run(criterion, best) or best
    edges = sum(near.bit_count() for near in order.adjacent) // 2
    random = np.random.Generator(np.random.PCG64(seed))
    idle = 0
    for k in range(min(restarts, max(FEWEST, WORK // edges))):
        noise = random.gumbel(scale=TEMPERATURES[k // len(noisy) % len(TEMPERATURES)], size=8 * len(order.sizes))
        smaller = order.run(noisy[k % len(noisy)], best, noise=noise.tolist())
        best, idle = (smaller, 0) if smaller else (best, idle + 1)
        if idle == PATIENCE:
            break
    return best or Elimination((), 0)


def _packed(members: int, index: dict[int, int]) -> int:
    return sum(1 << index[i] for i in bits(members))


def _simplicial(adjacent: list[int]) -> list[int]:
    """Eliminate, in place, every attribute whose neighbours are a clique until none is left; the maximal cliques."""
    cliques: list[int] = []
    holders: list[list[int]] = [[] for _ in adjacent]
    waiting = sorted(range(len(adjacent)), key=lambda v: adjacent[v].bit_count(), reverse=True)
    eliminated = 0
    while waiting:
        v = waiting.pop()
        if eliminated >> v & 1:
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
        eliminated |= 1 << v
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
