"""Junction trees: the tables that exact inference on a graphical model needs, and how they are connected."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from hush.core.domain import Clique, Domain
from hush.core.errors import DomainError
from hush.models.graphical.elimination_order import DEFAULT_RESTARTS, bits, eliminate, graph

BYTES_PER_CELL = 8


@dataclass(frozen=True, slots=True)
class Node:
    """A table of the tree: the attributes it shares with its parent, then the rest, with the longest axis last."""

    clique: Clique
    separator: Clique
    rest: Clique
    parent: int

    @property
    def axes(self) -> Clique:
        """The order of the axes of the node's table."""
        return self.separator + self.rest


class JunctionTree:
    """Maximal cliques in one tree, such that the nodes that contain an attribute are connected; parents come first.

    The node with the most cells is the root. Of all trees with this property, this one has the least sum over edges of
    the cells at both ends, the cost of one round of messages. Empty separators connect components.

    >>> tree = JunctionTree.build(Domain({"age": 85, "sex": 2, "race": 5}), [("age", "sex"), ("race", "sex")])
    >>> [(node.separator, node.rest) for node in tree.nodes], tree.cells
    ([((), ('sex', 'age')), (('sex',), ('race',))], 180)

    Reference: [HDMM, sec. 4.4] for inference on it.
    """

    __slots__ = ("_cells", "_holders", "_places", "_sets", "cells", "domain", "nodes")

    def __init__(self, domain: Domain, nodes: Sequence[Node]) -> None:
        self.domain = domain
        self.nodes = tuple(nodes)
        self._places = {name: i for i, name in enumerate(domain)}
        self._sets = [self._members(node.clique) for node in self.nodes]
        self._cells = [domain.size(node.clique) for node in self.nodes]
        self.cells = sum(self._cells)
        self._holders: list[list[int]] = [[] for _ in domain]
        for k in sorted(range(len(self.nodes)), key=self._cells.__getitem__):
            for i in bits(self._sets[k]):
                self._holders[i].append(k)

    @classmethod
    def build(
        cls,
        domain: Domain,
        cliques: Iterable[Iterable[str]],
        *,
        restarts: int = DEFAULT_RESTARTS,
        seed: int = 0,
        start: JunctionTree | None = None,
    ) -> JunctionTree:
        """The smallest tree found whose nodes contain every clique and every attribute; `seed` is public.

        The order of `start`, a tree over the same domain, is tried too. `start` itself is returned if it contains every
        clique and no smaller tree was found.
        """
        given = sets_of(domain, cliques)
        order = () if start is None else start.order
        adjacent = graph(len(domain), given)
        elimination = eliminate(adjacent, domain.shape, restarts=restarts, seed=seed, start=order)
        held = start is not None and all(start.find(members) >= 0 for members in given)
        if start is not None and held and start.cells <= elimination.cells:
            return start
        return cls(domain, _nodes(domain, elimination.cliques or (0,)))

    @property
    def order(self) -> tuple[int, ...]:
        """An elimination order, as positions in the domain, whose tables are the nodes: from the leaves to the root."""
        return tuple(self._places[name] for node in reversed(self.nodes) for name in node.rest)

    @property
    def size_mb(self) -> float:
        """Megabytes of 8-byte cells over all nodes, JT-SIZE in [AIM]; infinite beyond the range of floats."""
        return megabytes(self.cells)

    def home(self, clique: Iterable[str]) -> int:
        """The index of the smallest node that contains the clique."""
        names = self.domain.check(clique)
        index = self.find(self._members(names))
        if index < 0:
            raise DomainError(f"clique {names!r} is inside no node of the tree; build the tree with it")
        return index

    def __contains__(self, clique: Iterable[str]) -> bool:
        return self.find(self._members(self.domain.check(clique))) >= 0

    def __len__(self) -> int:
        return len(self.nodes)

    def _members(self, clique: Clique) -> int:
        return sum(1 << self._places[name] for name in clique)

    def find(self, members: int) -> int:
        """`home` of a set of positions, or -1 if no node contains it."""
        if not members:
            return min(range(len(self.nodes)), key=self._cells.__getitem__)
        candidates = min((self._holders[i] for i in bits(members)), key=len)
        return next((k for k in candidates if not members & ~self._sets[k]), -1)


def sets_of(domain: Domain, cliques: Iterable[Iterable[str]]) -> list[int]:
    """Every clique as a set of positions in the domain, once each; refuses unknown names."""
    positions = {name: 1 << i for i, name in enumerate(domain)}
    return list(dict.fromkeys(sum(positions[name] for name in domain.check(clique)) for clique in cliques))


def megabytes(cells: int) -> float:
    """Decimal megabytes of 8-byte cells; infinite beyond the range of floats."""
    try:
        return BYTES_PER_CELL * cells / 10**6
    except OverflowError:
        return math.inf


def _nodes(domain: Domain, cliques: Sequence[int]) -> list[Node]:
    """The spanning tree of largest separators, ties by fewest cells at the ends of its edges, by Prim's algorithm."""
    # Cliques from the smallest to the largest, and those that contain each attribute and are not in the tree yet.
    names, shape = domain.attributes, domain.shape
    order = sorted(
        (domain.size(names[i] for i in bits(clique)), [names[i] for i in bits(clique)], clique) for clique in cliques
    )
    cells = [size for size, _, _ in order]
    sets = [clique for _, _, clique in order]
    holders: list[set[int]] = [set() for _ in names]
    for k, clique in enumerate(sets):
        for i in bits(clique):
            holders[i].add(k)

    # Grow the tree from the largest clique, always by the best link; `link` compares separator size, then cells.
    position: dict[int, int] = {}
    nodes: list[Node] = []
    heap: list[tuple[int, int, int, int]] = []
    best: dict[int, tuple[int, int]] = {}
    smallest = root = len(sets) - 1
    waiting = iter(range(len(sets)))
    k, parent = root, -1
    while True:
        shared = 0 if parent < 0 else sets[k] & sets[parent]
        rest = sorted(bits(sets[k] & ~shared), key=lambda i: (shape[i], i))
        nodes.append(
            Node(
                tuple(names[i] for i in bits(sets[k])),
                tuple(names[i] for i in bits(shared)),
                tuple(names[i] for i in rest),
                position.get(parent, -1),
            )
        )
        position[k] = len(position)
        smallest = min(smallest, k)
        for i in bits(sets[k]):
            holders[i].discard(k)
        for other in sorted(set().union(*(holders[i] for i in bits(sets[k])))):
            link = (-(sets[k] & sets[other]).bit_count(), cells[k] + cells[other])
            if link < best.get(other, (1, 0)):
                best[other] = link
                heappush(heap, (*link, other, k))
        while heap and heap[0][2] in position:
            heappop(heap)
        if heap:
            _, _, k, parent = heappop(heap)
        else:  # a new component, linked to the smallest node so far by an empty separator
            unseen = next((k for k in waiting if k not in position), None)
            if unseen is None:
                return nodes
            k, parent = unseen, smallest
