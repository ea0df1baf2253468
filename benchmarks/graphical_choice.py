"""Choose the marginals of a benchmark model, on exact counts: a spanning tree, or a greedy selection like AIM's."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hush.core.arrays import Floats
from hush.core.domain import Clique, Domain
from hush.models.graphical.junction_tree import JunctionTree

Codes = dict[str, np.ndarray[Any, np.dtype[np.int64]]]


def counts(domain: Domain, codes: Codes, clique: Clique) -> Floats:
    """The exact marginal."""
    shape = domain.sizes(clique)
    flat = np.ravel_multi_index([codes[name] for name in clique], shape)
    return np.bincount(flat, minlength=math.prod(shape)).reshape(shape).astype(np.float64)


def ones(domain: Domain) -> list[Clique]:
    return [(name,) for name in domain.attributes]


def spanning_tree(domain: Domain, codes: Codes) -> list[Clique]:
    """The tree of pairs with the most mutual information (Chow and Liu), by Kruskal's rule."""

    def information(pair: Clique) -> float:
        p = counts(domain, codes, pair)
        p /= p.sum()
        expected = np.outer(p.sum(axis=1), p.sum(axis=0))
        return float(np.sum(p[p > 0] * np.log(p[p > 0] / expected[p > 0])))

    group = {name: name for name in domain.attributes}
    tree: list[Clique] = []
    for pair in sorted(itertools.combinations(domain.attributes, 2), key=information, reverse=True):
        a, b = (group[name] for name in pair)
        if a != b:
            tree.append(pair)
            group = {name: a if own == b else own for name, own in group.items()}
    return tree


class Gaps:
    """How far each clique is from what the chosen cliques explain, on exact counts.

    A pair inside a chosen clique is known. Any other pair is treated as independent, or as independent given a third
    attribute if both pairs with it are known. A triple is treated as a chain of two of its pairs. The best of several
    explanations counts.
    """

    def __init__(self, domain: Domain, codes: Codes) -> None:
        rows = len(codes[domain.attributes[0]])
        self._pool = [c for k in (2, 3) for c in itertools.combinations(domain.attributes, k)]
        self._exact = {c: counts(domain, codes, c) / rows for c in [*ones(domain), *self._pool]}
        self._rows, self._domain = rows, domain

    def _pair(self, a: str, b: str, tables: Mapping[Clique, Floats]) -> Floats:
        return tables[a, b] if (a, b) in tables else tables[b, a].T

    def _explained(self, chosen: Sequence[Clique]) -> dict[Clique, Floats]:
        known: dict[Clique, Floats] = {pair: self._exact[pair] for c in chosen for pair in itertools.combinations(c, 2)}
        explained = dict(known)
        for a, b in itertools.combinations(self._domain.attributes, 2):
            if (a, b) not in known:
                guesses = [np.outer(self._exact[a,], self._exact[b,])]
                for c in self._domain.attributes:
                    if {(a, c), (c, a)} & set(known) and {(b, c), (c, b)} & set(known):
                        left, right = self._pair(a, c, known), self._pair(c, b, known)
                        guesses.append(left @ (right / np.maximum(self._exact[c,], 1e-12)[:, None]))
                explained[a, b] = min(guesses, key=lambda guess: np.abs(guess - self._exact[a, b]).sum())
        return explained

    def _gap(self, clique: Clique, pairs: Mapping[Clique, Floats]) -> float:
        if len(clique) == 2:
            return float(np.abs(self._exact[clique] - pairs[clique]).sum())
        a, b, c = clique
        ab, ac, bc = pairs[a, b], pairs[a, c], pairs[b, c]
        p, q, r = (np.maximum(self._exact[name,], 1e-12) for name in clique)
        chains = (
            ab[:, :, None] * (bc / q[:, None]),
            ac[:, None, :] * (bc / r),
            ab[:, :, None] * (ac / p[:, None])[:, None],
        )
        return min(float(np.abs(self._exact[clique] - chain).sum()) for chain in chains)

    def ranked(self, chosen: Sequence[Clique], stddev: float) -> list[Clique]:
        """Cliques by AIM's score, rows ||gap||_1 - sqrt(2/pi) stddev cells, except those inside a chosen one."""
        pairs = self._explained(chosen)
        noise = math.sqrt(2 / math.pi) * stddev
        pool = [c for c in self._pool if not any(set(c) <= set(other) for other in chosen)]
        scores = {c: self._rows * self._gap(c, pairs) - noise * self._domain.size(c) for c in pool}
        return sorted(pool, key=scores.__getitem__, reverse=True)


def greedy(domain: Domain, codes: Codes, limit_mb: float, stddev: Sequence[float], paced: bool) -> list[Clique]:
    """Repeatedly take the best-scoring clique that fits. If paced, the limit grows with each, as in AIM."""
    gaps = Gaps(domain, codes)
    chosen: list[Clique] = []
    for step, s in enumerate(stddev, start=1):
        limit = limit_mb * step / len(stddev) if paced else limit_mb
        for clique in gaps.ranked(chosen, s):
            if JunctionTree.build(domain, [*ones(domain), *chosen, clique]).size_mb <= limit:
                chosen.append(clique)
                break
        else:
            break
    return chosen
