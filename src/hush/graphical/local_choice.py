"""Which of many tables an exact model of limited size should have: a spanning tree first, then what adds most."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush
from itertools import combinations

import numpy as np

from hush.domain import Clique, Domain
from hush.graphical.factors import Array
from hush.graphical.junction_tree import BYTES_PER_CELL, JunctionTree
from hush.graphical.local_tables import maximal, proportional_fit
from hush.graphical.model_size import sizes_with

Counts = Callable[[Clique], Array]

SWEEPS = 10
PATIENCE = 100  # cliques in a row that do not fit before the search ends
LEAST_GAIN = 1e-9


class Chooser:
    """Cliques for an exact model whose tables take at most `max_size_mb`; `counts` gives tables of one total.

    First the spanning tree of attributes with the largest mutual information [Chow and Liu 1968], which costs little
    and connects everything. Then cliques by what they add beyond those chosen already,

        gain(r) = KL(mu_r | table of the largest entropy with the chosen margins inside r) / sqrt(cells of r),

    as long as the junction tree fits; of a clique that does not fit its subsets are candidates.

    >>> domain = Domain({"a": 2, "b": 2, "c": 2})
    >>> tables = {("a", "b"): np.array([[4.0, 0.0], [0.0, 4.0]]), ("b", "c"): np.array([[3.0, 1.0], [1.0, 3.0]])}
    >>> Chooser(domain, tables.__getitem__, tables, max_size_mb=1.0).choose()
    [('a', 'b'), ('b', 'c')]
    """

    def __init__(
        self, domain: Domain, counts: Counts, cliques: Iterable[Clique], *, max_size_mb: float, seed: int = 0
    ) -> None:
        self._domain = domain
        self._counts = counts
        self._cliques = [clique for clique in cliques if len(clique) > 1]
        self._most_cells = 1e6 * max_size_mb / BYTES_PER_CELL
        self._seed = seed
        self._chosen: list[Clique] = []
        self._held: dict[Clique, list[Clique]] = {}  # by pair of attributes
        self._candidates: dict[Clique, set[Clique]] = {}  # by pair of attributes
        self._stale: set[Clique] = set()

    def choose(self, needed: Sequence[Clique] = ()) -> list[Clique]:
        """The cliques, beginning with those that are needed in any case."""
        for clique in needed:
            self._take(clique)
        tree = JunctionTree.build(self._domain, self._chosen, seed=self._seed)
        cells = tree.cells  # a pair that joins two parts adds its own table at most
        for pair in self._spanning_tree():
            if cells + self._domain.size(pair) <= self._most_cells:
                self._take(pair)
                cells += self._domain.size(pair)
        tree = JunctionTree.build(self._domain, self._chosen, seed=self._seed)
        heap = [(-self._score(clique), clique) for clique in self._cliques]
        heapify(heap)
        for clique in self._cliques:
            self._list(clique)
        seen, refused = set(self._cliques), 0
        while heap and refused < PATIENCE:
            score, clique = heappop(heap)
            if clique in self._stale:
                self._stale.discard(clique)
                heappush(heap, (-self._score(clique), clique))
            elif -score <= LEAST_GAIN:
                break
            elif sizes_with(self._domain, self._chosen, [clique], tree=tree)[0] <= self._most_cells:
                refused = 0
                self._take(clique)
                tree = JunctionTree.build(self._domain, self._chosen, restarts=0, start=tree)
            else:
                refused += 1
                for smaller in combinations(clique, len(clique) - 1):
                    if len(smaller) > 1 and smaller not in seen:
                        seen.add(smaller)
                        self._list(smaller)
                        heappush(heap, (-self._score(smaller), smaller))
        return maximal(self._chosen)

    def _take(self, clique: Clique) -> None:
        self._chosen.append(clique)
        for pair in combinations(clique, 2):
            self._held.setdefault(pair, []).append(clique)
            self._stale |= self._candidates.get(pair, set())

    def _list(self, clique: Clique) -> None:
        for pair in combinations(clique, 2):
            self._candidates.setdefault(pair, set()).add(clique)

    def _spanning_tree(self) -> list[Clique]:
        """Pairs by decreasing gain that close no loop."""
        pairs = sorted({pair for clique in self._cliques for pair in combinations(clique, 2)})
        ranked = sorted((-self._gain(pair), pair) for pair in pairs)
        group = {name: {name} for name in self._domain}
        for clique in self._chosen:
            joined = set(clique).union(*(group[name] for name in clique))
            group.update(dict.fromkeys(joined, joined))
        found: list[Clique] = []
        for gain, (a, b) in ranked:
            if group[a] is not group[b] and -gain > LEAST_GAIN:
                found.append((a, b))
                joined = group[a] | group[b]
                group.update(dict.fromkeys(joined, joined))
        return found

    def _score(self, clique: Clique) -> float:
        return self._gain(clique) / math.sqrt(self._domain.size(clique))

    def _gain(self, clique: Clique) -> float:
        """What a clique's table says beyond the chosen cliques, in nats per row."""
        near = {own for pair in combinations(clique, 2) for own in self._held.get(pair, ())}
        members = set(clique)
        inside = maximal(sorted({tuple(name for name in own if name in members) for own in near}))
        if clique in inside:
            return 0.0
        inside += [(name,) for name in clique if not any(name in own for own in inside)]
        table = self._counts(clique)
        total = float(table.sum())
        if total <= 0:
            return 0.0
        margins = []
        for own in inside:
            outside = tuple(axis for axis, name in enumerate(clique) if name not in own)
            margins.append((own, np.asarray(table.sum(axis=outside))))
        implied = proportional_fit(clique, margins, table.shape, total, sweeps=SWEEPS)
        p, q = table[table > 0], implied[table > 0]
        return float(p @ np.log(p / np.maximum(q, 1e-300 * total))) / total
