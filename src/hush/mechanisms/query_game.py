"""The game behind DualQuery: cells scored against a growing set of synthetic rows, and the likelihood of the draws."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hush.core.arrays import Floats, Integers
from hush.core.domain import Clique, Domain
from hush.core.rational import float_up
from hush.inference.factors import Factors
from hush.models.graphical.likelihood import SquaredLoss
from hush.models.graphical.marginal_loss import CustomLoss, MarginalLoss, SumLoss
from hush.privacy.gate import Counts
from hush.privacy.measurement import Measurement
from hush.privacy.selection import Scores
from hush.privacy.sensitivity import RowNorms
from hush.release.rounds import Draw

LARGEST_GAP = 2**36  # rows; the largest score that is still on the grid of private choices


@dataclass(frozen=True, slots=True, eq=False)
class CellScorer:
    """q = c - h for every cell with count c and public h, then h - c for every cell: a query and its complement.

    Scores are whole numbers, so they are exact; they are cut off at 2^36.

    Privacy: a unit of at most m rows, added, removed or exchanged, moves the count of a cell and so each score by at
    most m, and cutting scores off moves none further; h is public.
    """

    cliques: tuple[Clique, ...]
    expected: Integers  # h of the cells of all tables, one after another in row-major order

    @property
    def candidates(self) -> int:
        return 2 * len(self.expected)

    @property
    def row_norms(self) -> RowNorms:
        """Exchanging a row moves one cell no further than adding it does."""
        return RowNorms.of_number(1, 1)

    def scores(self, counts: Counts, bound: Fraction) -> Scores:
        gaps = np.concatenate([counts[clique].ravel() for clique in self.cliques]) - self.expected
        gaps = np.clip(gaps, -LARGEST_GAP, LARGEST_GAP)
        return Scores(np.concatenate([gaps, -gaps]).astype(np.float64), float_up(bound))


RESTARTS = 8
SWEEPS = 20


class QueryGame:
    """The cells of some tables as queries, and the synthetic rows so far.

    Queries are numbered like their scores: cell i is i for more rows than expected, i + cells for fewer.

    Privacy: of the data it knows only the queries drawn. `seed` is public; it seeds no noise.
    """

    def __init__(self, domain: Domain, tables: Sequence[Clique], seed: int = 0) -> None:
        self.domain = domain
        self.factors = Factors(domain, tables)
        self.rows: list[Integers] = []
        self._row_cells: list[Integers] = []  # for every row, its cell in each table
        self._seed = seed
        names = domain.attributes
        self._strides = np.zeros((len(self.factors), len(names)), dtype=np.int64)
        for index, clique in enumerate(self.factors.cliques):
            sizes = self.factors.shape(index)
            for axis, name in enumerate(clique):
                self._strides[index, names.index(name)] = int(np.prod(sizes[axis + 1 :], dtype=np.int64))

    @property
    def cells(self) -> int:
        """The number of cells of all tables together."""
        return self.factors.size

    def expected(self, total: int, rows: int) -> Integers:
        """The count of every cell in a data set of `total` rows like the first `rows` here, in whole numbers."""
        held = np.bincount(np.concatenate(self._row_cells[:rows]), minlength=self.cells)
        return np.rint(total * (held / rows)).astype(np.int64)

    def uniform(self, count: int) -> list[int]:
        """The queries of the first turn, all equally likely."""
        return [int(number) for number in self._generator(0).integers(2 * self.cells, size=count)]

    def number(self, clique: Clique, cell: int, sign: float) -> int:
        """The number of a query."""
        return int(self.factors.offsets[self.factors.index(clique)]) + cell + (0 if sign > 0 else self.cells)

    def query(self, number: int) -> tuple[Clique, int, float]:
        """The table of a query, its cell there, and 1 for more rows or -1 for fewer."""
        cell = number % self.cells
        table = int(np.searchsorted(self.factors.offsets, cell, side="right")) - 1
        sign = 1.0 if number < self.cells else -1.0
        return self.factors.cliques[table], cell - int(self.factors.offsets[table]), sign

    def answer(self, numbers: Sequence[int]) -> None:
        """Add the row that a search from several starts finds to answer some queries best."""
        generator = self._generator(len(self.rows) + 1)
        codes = np.full((len(numbers), len(self.domain)), -1, dtype=np.int64)
        signs = np.zeros(len(numbers))
        for index, number in enumerate(numbers):
            clique, cell, signs[index] = self.query(number)
            axes = [self.domain.attributes.index(name) for name in clique]
            codes[index, axes] = np.unravel_index(cell, self.domain.sizes(clique))
        row = best_row(self.domain.shape, codes, signs, generator)
        self.rows.append(row)
        self._row_cells.append(self.factors.offsets[:-1] + self._strides @ row)

    def _generator(self, turn: int) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64([self._seed, turn]))


def best_row(sizes: Sequence[int], codes: Integers, signs: Floats, generator: np.random.Generator) -> Integers:
    """A row with a large sum of the signs of the queries that count it; `codes` is -1 for columns not in a query.

    Coordinate ascent from random rows, each made to meet one query of positive sign; ties are broken at random. Finding
    the best row of all is hard in general.

    Reference: [Gaboardi et al. 2014, sec. 4.3], where an integer program is solved.
    """
    columns = np.flatnonzero((codes >= 0).any(axis=0))
    wanted = np.flatnonzero(signs > 0)
    best, largest = np.zeros(len(sizes), dtype=np.int64), -np.inf
    for _ in range(RESTARTS):
        row = generator.integers(np.asarray(sizes, dtype=np.int64))
        if len(wanted):
            query = codes[wanted[generator.integers(len(wanted))]]
            row = np.where(query >= 0, query, row)
        value = -np.inf
        for _ in range(SWEEPS):
            before = value
            for column in generator.permutation(columns):
                meets = (codes < 0) | (codes == row)
                meets[:, column] = True
                met = meets.all(axis=1)
                asking = met & (codes[:, column] >= 0)
                gains = np.bincount(codes[asking, column], weights=signs[asking], minlength=sizes[column])
                value = float(gains.max()) + float(signs[met & ~asking].sum())
                if gains[row[column]] < gains.max():
                    row[column] = generator.choice(np.flatnonzero(gains == gains.max()))
            if value <= before:
                break
        if value > largest:
            best, largest = row.copy(), value
    return best


class DrawLikelihood:
    """L(mu) = sum over draws of log sum_q 2 cosh(r_t (mu_q - h_tq)) - r_t sign (mu_q - h_tq), with q the drawn cell.

    In turn t a cell and a sign were drawn with probability proportional to exp(sign r_t (c_q - h_tq)), with
    r_t = epsilon_t / (2 m) and h_t the counts expected from the rows before turn t. Each term is log sum exp of linear
    functions less a linear one, so L is convex; the Hessian of a term is at most r_t^2.

    Reference: [HDMM, sec. 4.5], which leaves the formula to the reader.
    """

    def __init__(self, game: QueryGame, total: int, draws: Sequence[Draw], max_rows: int) -> None:
        self._game = game
        self._total = total
        groups: dict[tuple[int, float], list[tuple[int, float]]] = defaultdict(list)
        for draw in draws:
            rate = float(f"{draw.epsilon:.9e}") / (2 * max_rows)
            groups[draw.turn, rate].append((game.number(draw.clique, draw.cell, 1.0), draw.weight))
        self._groups = sorted(groups.items())

    @property
    def bend(self) -> float:
        """An upper bound on the largest eigenvalue of the Hessian."""
        return sum(len(drawn) * rate**2 for (_, rate), drawn in self._groups)

    def __call__(self, tables: list[Floats]) -> tuple[float, list[Floats]]:
        """The loss and its gradients, one for each of the game's tables."""
        mu = np.concatenate([table.ravel() for table in tables])
        slope, value = np.zeros(len(mu)), 0.0
        for (turn, rate), drawn in self._groups:
            x = rate * (mu - self._game.expected(self._total, turn - 1))
            top = float(np.abs(x).max())
            more, fewer = np.exp(x - top), np.exp(-x - top)
            z = float(more.sum() + fewer.sum())
            value += len(drawn) * (top + float(np.log(z)))
            slope += (len(drawn) * rate / z) * (more - fewer)
            for cell, sign in drawn:
                value -= sign * float(x[cell])
                slope[cell] -= sign * rate
        return value, [table.copy() for table in self._game.factors.tables(slope)]


def likelihood(
    domain: Domain, measurements: Sequence[Measurement], game: QueryGame, total: int, draws: Sequence[Draw], rows: int
) -> MarginalLoss:
    """The loss of noisy tables and drawn queries together; a unit has at most `rows` rows."""
    factors = Factors(domain, [*(measurement.clique for measurement in measurements), *game.factors.cliques])
    squares = SquaredLoss(domain, measurements, factors=factors)
    if not draws:
        return squares
    loss, cliques = DrawLikelihood(game, total, draws, rows), game.factors.cliques
    drawn = CustomLoss(domain, cliques, loss, lipschitz=loss.bend, numbers=len(draws), factors=factors)
    return SumLoss([squares, drawn])
