"""Factors: the layout of one table per clique in one flat vector."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import accumulate

import numpy as np

from hush.core.arrays import Floats
from hush.core.constraints import check_axes
from hush.core.domain import Clique, Domain
from hush.core.errors import SizeError, WorkloadError

MOST_CELLS = 1 << 60  # so that offsets fit in 64-bit integers


class Factors:
    """The place of each clique's table in a flat vector, such as potentials theta, marginals mu or gradients.

    Each clique is in domain order; cliques are in order of first appearance, without repetitions. Table i takes the
    cells `offsets[i] .. offsets[i + 1] - 1` in row-major order.

    >>> factors = Factors(Domain({"a": 2, "b": 3, "c": 4}), [("b", "a"), ("c",), ("a", "b")])
    >>> factors.cliques, factors.size
    ((('a', 'b'), ('c',)), 10)
    >>> factors.table(np.arange(10.0), 0).tolist()
    [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    """

    __slots__ = ("_index", "_shapes", "_starts", "cliques", "domain", "offsets", "size")

    def __init__(self, domain: Domain, cliques: Iterable[Iterable[str]]) -> None:
        self.domain = domain
        self.cliques: tuple[Clique, ...] = tuple(dict.fromkeys(domain.clique(clique) for clique in cliques))
        for clique in self.cliques:
            check_axes(clique)
        self._shapes = tuple(domain.sizes(clique) for clique in self.cliques)
        self._starts = (0, *accumulate(math.prod(shape) for shape in self._shapes))
        self.size: int = self._starts[-1]
        if self.size > MOST_CELLS:
            worst = max(self.cliques, key=domain.size)
            raise SizeError(f"the cliques have {self.size} cells, the largest of them {worst!r}; use smaller cliques")
        self.offsets = np.array(self._starts, dtype=np.int64)
        self._index = {clique: index for index, clique in enumerate(self.cliques)}

    def shape(self, index: int) -> tuple[int, ...]:
        return self._shapes[index]

    def span(self, index: int) -> slice:
        """The cells of a clique's table in the flat vector."""
        return slice(self._starts[index], self._starts[index + 1])

    def table(self, flat: Floats, index: int) -> Floats:  # flat: (size,), contiguous
        """A clique's table: a view with one axis per attribute."""
        return flat[self._starts[index] : self._starts[index + 1]].reshape(self._shapes[index])

    def tables(self, flat: Floats) -> list[Floats]:
        """Every table, in order, as views."""
        return [self.table(flat, index) for index in range(len(self.cliques))]

    def index(self, clique: Iterable[str]) -> int:
        """The position of a clique, given in any order."""
        names = self.domain.clique(clique)
        index = self._index.get(names)
        if index is None:
            raise WorkloadError(f"{names!r} is not among the {len(self)} cliques; add it to them")
        return index

    def __contains__(self, clique: Iterable[str]) -> bool:
        return self.domain.clique(clique) in self._index

    def __len__(self) -> int:
        return len(self.cliques)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Factors) and self.domain == other.domain and self.cliques == other.cliques

    def __hash__(self) -> int:
        return hash((self.domain, self.cliques))

    def __repr__(self) -> str:
        return f"Factors({len(self)} cliques, {self.size} cells)"
