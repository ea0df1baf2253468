"""QueryGame: the public half of the game behind DualQuery, a growing set of made-up rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hush.domain import Clique, Domain
from hush.graphical.factors import Factors

Integers = np.ndarray[Any, np.dtype[np.int64]]
Floats = np.ndarray[Any, np.dtype[np.float64]]
RESTARTS = 8
SWEEPS = 20


class QueryGame:
    """Cells of some tables as queries, and rows that were made up so far.

    Queries are numbered as scores are: cell i is i for more rows than thought, i + cells for fewer.

    Privacy: knows queries that were drawn, and nothing else of the data. `seed` is public, and no noise.
    """

    def __init__(self, domain: Domain, tables: Sequence[Clique], seed: int = 0) -> None:
        self.domain = domain
        self.factors = Factors(domain, tables)
        self.rows: list[Integers] = []
        self._places: list[Integers] = []  # of every row, its cell in each table
        self._seed = seed
        names = domain.attributes
        self._strides = np.zeros((len(self.factors), len(names)), dtype=np.int64)
        for index, clique in enumerate(self.factors.cliques):
            sizes = self.factors.shape(index)
            for axis, name in enumerate(clique):
                self._strides[index, names.index(name)] = int(np.prod(sizes[axis + 1 :], dtype=np.int64))

    @property
    def cells(self) -> int:
        """Cells of all tables together."""
        return self.factors.size

    def expected(self, total: int, rows: int) -> Integers:
        """What a data set of `total` rows like the first ones here would have in every cell, to whole numbers."""
        held = np.bincount(np.concatenate(self._places[:rows]), minlength=self.cells)
        return np.rint(total * (held / rows)).astype(np.int64)

    def uniform(self, count: int) -> list[int]:
        """Queries of the first turn, before anything is known: all are equally likely."""
        return [int(one) for one in self._generator(0).integers(2 * self.cells, size=count)]

    def number(self, clique: Clique, cell: int, sign: float) -> int:
        """The number of a query."""
        return int(self.factors.offsets[self.factors.index(clique)]) + cell + (0 if sign > 0 else self.cells)

    def query(self, number: int) -> tuple[Clique, int, float]:
        """The table of a query, its cell there, and 1 for more rows or -1 for fewer."""
        place = number % self.cells
        table = int(np.searchsorted(self.factors.offsets, place, side="right")) - 1
        sign = 1.0 if number < self.cells else -1.0
        return self.factors.cliques[table], place - int(self.factors.offsets[table]), sign

    def answer(self, numbers: Sequence[int]) -> None:
        """Add the row that fits best to some queries, as far as a search from several starts finds it."""
        generator = self._generator(len(self.rows) + 1)
        codes = np.full((len(numbers), len(self.domain)), -1, dtype=np.int64)
        signs = np.zeros(len(numbers))
        for place, number in enumerate(numbers):
            clique, cell, signs[place] = self.query(number)
            axes = [self.domain.attributes.index(name) for name in clique]
            codes[place, axes] = np.unravel_index(cell, self.domain.sizes(clique))
        row = best_row(self.domain.shape, codes, signs, generator)
        self.rows.append(row)
        self._places.append(self.factors.offsets[:-1] + self._strides @ row)

    def _generator(self, turn: int) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64([self._seed, turn]))


def best_row(sizes: Sequence[int], codes: Integers, signs: Floats, generator: np.random.Generator) -> Integers:
    """A row with a large sum of the signs of those queries that it is in; `codes` has -1 where a query does not look.

    Coordinate ascent from random rows, with one query that counts put in each; ties are broken at random. Finding the
    best row of all is hard in general.

    Reference: [Gaboardi et al. 2014, sec. 4.3], where an integer program is solved.
    """
    columns = np.flatnonzero((codes >= 0).any(axis=0))
    wanted = np.flatnonzero(signs > 0)
    best, largest = np.zeros(len(sizes), dtype=np.int64), -np.inf
    for _ in range(RESTARTS):
        row = generator.integers(np.asarray(sizes, dtype=np.int64))
        if len(wanted):
            own = codes[wanted[generator.integers(len(wanted))]]
            row = np.where(own >= 0, own, row)
        value = -np.inf
        for _ in range(SWEEPS):
            before = value
            for column in generator.permutation(columns):
                meets = (codes < 0) | (codes == row)
                meets[:, column] = True
                met = meets.all(axis=1)
                here = met & (codes[:, column] >= 0)
                gains = np.bincount(codes[here, column], weights=signs[here], minlength=sizes[column])
                value = float(gains.max()) + float(signs[met & ~here].sum())
                if gains[row[column]] < gains.max():
                    row[column] = generator.choice(np.flatnonzero(gains == gains.max()))
            if value <= before:
                break
        if value > largest:
            best, largest = row.copy(), value
    return best
