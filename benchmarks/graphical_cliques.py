"""Choose triples of attributes for the scale test: either the ones that make the model grow least, or random ones.

The greedy choice keeps a chordal graph around the triples. In a chordal graph, two vertices u and v that are not
neighbours can be joined without further edges exactly if their common neighbours S separate them. The model then gains
the clique S + {u, v}. Joining them costs 10^(|S|+2) cells, less what the new clique absorbs, and gives a triple
{u, v, w} for each w in S. So a greedy step joins the cheapest pair, and the triples it brings cost nothing more.

Reference: [HDMM, sec. 4.6, fig. 4.2c], d = 100 attributes of 10 levels and up to 1,000 triples.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from heapq import heappop, heappush

import numpy as np

Triple = tuple[int, int, int]


def random_triples(attributes: int, count: int, seed: int) -> list[Triple]:
    """Different triples, uniformly at random."""
    generator = np.random.Generator(np.random.PCG64(seed))
    chosen: dict[Triple, None] = {}
    while len(chosen) < count:
        a, b, c = sorted(int(i) for i in generator.choice(attributes, 3, replace=False))
        chosen[a, b, c] = None
    return list(chosen)


def _separated(adjacent: list[set[int]], u: int, v: int, separator: set[int]) -> bool:
    """No path from u to v avoids the separator."""
    seen, stack = {u}, [u]
    while stack:
        for w in adjacent[stack.pop()] - separator - seen:
            if w == v:
                return False
            seen.add(w)
            stack.append(w)
    return True


def greedy_triples(attributes: int, count: int) -> Iterator[Triple]:
    """Triples in the order that makes the model grow least, with ties broken by the order of attributes."""
    yielded: set[Triple] = set()
    adjacent: list[set[int]] = [set() for _ in range(attributes)]
    for i in range(2, attributes):
        triple = (i - 2, i - 1, i)
        for a, b in itertools.combinations(triple, 2):
            adjacent[a].add(b)
            adjacent[b].add(a)
        yielded.add(triple)
        yield triple
    heap = [(len(adjacent[u] & adjacent[v]), u, v) for u, v in itertools.combinations(range(attributes), 2)]
    heap = sorted(entry for entry in heap if entry[2] not in adjacent[entry[1]])
    waiting: set[tuple[int, int]] = set()
    while len(yielded) < count and heap:
        shared, u, v = heappop(heap)
        separator = adjacent[u] & adjacent[v]
        if len(separator) != shared:
            heappush(heap, (len(separator), u, v))
            continue
        if not separator or not _separated(adjacent, u, v, separator):
            waiting.add((u, v))
            continue
        adjacent[u].add(v)
        adjacent[v].add(u)
        for w in sorted(separator):
            a, b, c = sorted((u, v, w))
            if (a, b, c) not in yielded and len(yielded) < count:
                yielded.add((a, b, c))
                yield a, b, c
        for a, b in [pair for pair in waiting if u in pair or v in pair]:  # other pairs keep their common neighbours
            heappush(heap, (len(adjacent[a] & adjacent[b]), a, b))
            waiting.discard((a, b))
