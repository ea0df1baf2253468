"""Elimination orders: which tables a graphical model needs, found by greedy search with random restarts.

Eliminating attribute v joins its remaining neighbours N(v) into a clique and leaves the table over N(v) + v. The tables
that are inside no other are the maximal cliques of a chordal graph around the input, and the model holds

    cells = sum over maximal cliques C of prod_{i in C} n_i.

An attribute whose neighbours are a clique already is eliminated at once: no order has fewer cells for it. What is left,
the core, falls into components that are searched apart. A graph without a core is chordal, and its cells are the least.

Reference: [HDMM, sec. 4.4, Remark 1] for the size of a junction tree; the search is ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from hush.graphical.greedy_order import Criterion, Elimination, GreedyOrder, bits, cells_of

CRITERIA: tuple[Criterion, ...] = ("weighted fill", "fill", "size", "degree")
NOISY: tuple[Criterion, ...] = ("weighted fill", "fill")  # with noise, the other two find little that these do not
TEMPERATURES = (0.2, 0.3)
RESTARTS = 64
PATIENCE = 32  # restarts without a smaller model, after which the search ends
WORK = 20_000  # edges that restarts look at, all together
FEWEST = 4  # restarts of a graph with more edges than that


def graph(size: int, cliques: Iterable[int]) -> list[int]:
    """The neighbours of every attribute: who shares a clique with it."""
    adjacent = [0] * size
    for clique in cliques:
        for i in bits(clique):
            adjacent[i] |= clique
    return [own & ~(1 << i) for i, own in enumerate(adjacent)]


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
        own = list(bits(members))
        place = {v: k for k, v in enumerate(own)}
        kept = sorted({clique & members for clique in outer if (clique & members).bit_count() > 1})
        order = GreedyOrder(
            [_packed(adjacent[v], place) for v in own],
            [sizes[v] for v in own],
            [_packed(clique, place) for clique in kept],
        )
        found = _search(order, criteria, restarts, seed, [rank[v] for v in own] if rank else [])
        cliques += [sum(1 << own[k] for k in bits(clique)) for clique in found.cliques]
        cells += found.cells
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
        found = order.run(noisy[k % len(noisy)], best, noise=noise.tolist())
        best, idle = (found, 0) if found else (best, idle + 1)
        if idle == PATIENCE:
            break
    return best or Elimination((), 0)


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
