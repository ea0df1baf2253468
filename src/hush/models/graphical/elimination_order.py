"""Elimination orders: which tables a graphical model needs, found by greedy search with random restarts.

Eliminating attribute v joins its remaining neighbours N(v) into a clique and creates the table over N(v) + v. The
tables inside no other are the maximal cliques of a chordal graph that contains the input, and the model holds

    cells = sum over maximal cliques C of prod_{i in C} n_i.

A simplicial attribute, whose neighbours form a clique already, is eliminated first: no order has fewer cells. The rest
of the graph, its core, falls into components that are searched separately. A graph without a core is chordal; its cells
are the fewest possible.

The greedy search takes the cheapest attribute first. Eliminating v adds the edges that N(v) lacks; the cost is one of

    fill           how many edges are added
    weighted fill  sum of n_a n_b over the added edges (a, b)
    size           cells of the new table, prod of n_i over N(v) + v
    degree         the number of neighbours

Restarts choose an attribute of cost c with probability about c^(-1/T), by Gumbel noise of scale T on log c. Attributes
of fill 0 go first, and neighbours that have no neighbour outside the new table go with them: both add no cells.

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
RESTART_CRITERIA: tuple[Criterion, ...] = ("weighted fill", "fill")  # with noise, the others find little more
RESTART_TEMPERATURES = (0.2, 0.3)
DEFAULT_RESTARTS = 64
MOST_IDLE_RESTARTS = 32  # in a row without a smaller model, before the search ends
RESTART_EDGES = 20_000  # edges visited by all restarts together, which limits them in large graphs
PLAIN_FILL = [(1, -1)]  # as `groups`: every attribute weighs 1
FEWEST_RESTARTS = 4  # even in large graphs


@dataclass(frozen=True, slots=True)
class Elimination:
    """Maximal cliques of a chordal graph that contains the input, and their cells."""

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
    """Greedy eliminations of one graph; a table inside one of `kept` adds no cells."""

    def __init__(self, adjacent: Sequence[int], sizes: Sequence[int], kept: Sequence[int] = ()) -> None:
        self.adjacent = list(adjacent)
        self.sizes = list(sizes)
        self.kept = [[clique for clique in kept if clique >> v & 1] for v in range(len(sizes))]
        self.cells = [cells_of(near | 1 << v, sizes) for v, near in enumerate(adjacent)]
        self.groups = [(n, sum(1 << v for v, size in enumerate(sizes) if size == n)) for n in sorted(set(sizes))]
        self.fill = self._all_fill(PLAIN_FILL)
        self.weighted_fill = self._all_fill(self.groups)

    def run(
        self,
        criterion: Criterion,
        best: Elimination | None = None,
        *,
        noise: Sequence[float] = (),
        ranks: Sequence[int] = (),
    ) -> Elimination | None:
        """The elimination by `criterion`, or by `ranks` if given; None once it is no smaller than `best`."""
        # The state of the shrinking graph, by attribute.
        adjacent, cells, sizes = self.adjacent.copy(), self.cells.copy(), self.sizes
        weighted = criterion == "weighted fill"
        fill = (self.weighted_fill if weighted else self.fill).copy()
        groups = self.groups if weighted else PLAIN_FILL
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

        # A heap of attributes by cost. Entries whose key has changed since are skipped when they come up.
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
            # The new table counts unless it is inside an earlier one.
            near = adjacent[v]
            clique = near | 1 << v
            if all(clique & ~other for other in kept[v]):
                cliques.append(clique)
                total += cells[v]
                if best and total >= best.cells:
                    return None
                for a in bits(near):
                    kept[a].append(clique)
            eliminated, changed = _eliminate(v, adjacent, cells, fill, sizes, groups)
            for a in bits(eliminated):
                keys[a] = None
            for a in bits(changed):
                keys[a] = entry = key(a)
                heappush(heap, entry)
        return Elimination(tuple(cliques), total)

    def _all_fill(self, groups: Sequence[tuple[int, int]]) -> list[int]:
        return [_fill(self.adjacent, self.sizes, groups, near, 0) for near in self.adjacent]


def _eliminate(
    v: int,
    adjacent: list[int],
    cells: list[int],
    fill: list[int],
    sizes: Sequence[int],
    groups: Sequence[tuple[int, int]],
) -> tuple[int, int]:
    """Eliminate an attribute, in place, with neighbours that add no table; the eliminated, and others that changed."""
    near = adjacent[v]
    clique = near | 1 << v
    weighted = groups[0][1] != -1
    # An edge (a, b) is added for every pair that N(v) lacks: common neighbours outside then lack one edge less.
    changed = near
    if fill[v]:
        for a in bits(near):
            for b in bits(near & ~adjacent[a] & -(2 << a)):
                both = adjacent[a] & adjacent[b] & ~clique
                less = sizes[a] * sizes[b] if weighted else 1
                for w in bits(both):
                    fill[w] -= less
                changed |= both
    # Neighbours become a clique. Those with no neighbour outside are simplicial, inside the table, and go too.
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
    return eliminated, changed & ~eliminated


def _fill(
    adjacent: Sequence[int], sizes: Sequence[int], groups: Sequence[tuple[int, int]], near: int, joined: int
) -> int:
    """Sum of n_a n_b over the pairs that `near` lacks to be a clique; `joined` is known to be one.

    `groups` holds, for each size, the set of attributes that have it; a single group (1, -1) counts pairs instead.
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
    """The neighbours of every attribute: the attributes that share a clique with it."""
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
    restarts: int = DEFAULT_RESTARTS,
    seed: int = 0,
    start: Sequence[int] = (),
) -> Elimination:
    """The elimination of fewest cells among one per criterion, the order `start` if given, and `restarts` random ones.

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
    """The best elimination of one component: `eliminate` without the simplicial attributes."""
    alike = len(order.groups) == 1  # attributes of one size: the two kinds of fill are the same
    noisy = RESTART_CRITERIA[1:] if alike else RESTART_CRITERIA
    best = order.run("fill", ranks=ranks) if ranks else None
    for criterion in criteria:
        if alike and criterion == "weighted fill" and "fill" in criteria:
            continue
        best = order.run(criterion, best) or best
    edges = sum(near.bit_count() for near in order.adjacent) // 2
    random = np.random.Generator(np.random.PCG64(seed))
    idle = 0
    for k in range(min(restarts, max(FEWEST_RESTARTS, RESTART_EDGES // edges))):
        temperature = RESTART_TEMPERATURES[k // len(noisy) % len(RESTART_TEMPERATURES)]
        noise = random.gumbel(scale=temperature, size=8 * len(order.sizes))
        smaller = order.run(noisy[k % len(noisy)], best, noise=noise.tolist())
        best, idle = (smaller, 0) if smaller else (best, idle + 1)
        if idle == MOST_IDLE_RESTARTS:
            break
    return best or Elimination((), 0)


def _packed(members: int, index: dict[int, int]) -> int:
    return sum(1 << index[i] for i in bits(members))


def _simplicial(adjacent: list[int]) -> list[int]:
    """Eliminate simplicial attributes, in place, until none is left; their maximal cliques."""
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
    """Connected components of two or more attributes."""
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
