"""dualquery: a game between queries and synthetic rows; queries that the rows answer badly are drawn, and fitted."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from hush.core.arrays import Floats, Integers
from hush.core.domain import Clique, Domain
from hush.core.errors import BudgetError, DataError, SizeError, WorkloadError
from hush.core.rational import float_up
from hush.core.validation import check_number, check_whole
from hush.inference.factors import Factors
from hush.mechanisms.mechanism import NOT_ITS_ROUNDS, CapacityMechanism
from hush.mechanisms.plan import Plan
from hush.mechanisms.session import Session, measure_columns
from hush.models.fit_arguments import estimate_total
from hush.models.graphical.junction_tree import JunctionTree
from hush.models.graphical.likelihood import SquaredLoss
from hush.models.graphical.marginal_loss import CustomLoss, MarginalLoss, SumLoss
from hush.privacy.account import used_up
from hush.privacy.budget import Budget
from hush.privacy.gate import Counts
from hush.privacy.measurement import Measurement
from hush.privacy.selection import Scores
from hush.privacy.sensitivity import RowNorms
from hush.release.noisy_tables_record import DrawsRecord
from hush.release.record import Draw
from hush.release.release import Release
from hush.schema import Schema
from hush.workloads import Workload

LARGEST_GAP = 2**36  # rows; the largest score that is still on the grid of private choices
MOST_CELLS = 1 << 20  # to draw queries from
DRAWN_BYTES = 128  # of a cell whose two queries may be drawn: scores, their law, and the likelihood of the draws
MOST_REFUSED_TABLES = 500  # stop after so many tables in a row that the model has no room for
FEWEST_TURNS, MOST_TURNS = 4, 32
FIT_ITERATIONS = 1000
FIT_TOLERANCE = 0.1  # of the fit; a closer one would fit the randomness of the draws


@dataclass(frozen=True, kw_only=True)
class DualQuery(CapacityMechanism):
    """Multiplicative weights over queries: each turn draws queries that the rows answer badly, and adds a row for them.

    `column_share` of the budget measures all columns, which give the total N. The queries are the cells of the
    workload's tables, each once for more rows than expected and once for fewer. Tables join the game by weight, then by
    size, as long as a model of them stays within `max_size_mb`. Turn t draws s queries with probability proportional to
    exp(eta sum_{u<t} (q(D) - q(x_u))), q(D) being a share of N, and adds the row x_t with the largest sum of those
    queries. The model is fitted to the columns and, by its likelihood, to every query drawn.

    The exponent is r_t (c_q - h_q) with c_q the count, h_q = N mean_{u<t} q(x_u) and r_t = eta (t-1) / N, so a draw in
    turn t costs (m r_t)^2 / 2 for units of m rows. The budget of draws is split by (t-1)^2, which makes
    eta = (N/m) sqrt(12 rho / (s (T-1) T (2T-1))). The first turn draws uniformly and costs nothing. The regret of
    multiplicative weights is log|Q| / (eta T); it is `accuracy` if T s = 6 rho (N accuracy / (m log|Q|))^2. By default
    T = s is the root of that, within 4 .. 32; `turns` and `draws` set T and s.

    Privacy: rho-zCDP of the budget, by the account's filter; every draw is an exponential mechanism whose scores move
    by at most m, see `CellScorer`. Rows are made from draws alone.
    Reference: [Gaboardi et al. 2014, Alg. 1]; fitted as in [HDMM, sec. 4.5].
    Differs from [Gaboardi et al. 2014]: zCDP for each draw replaces advanced composition; N is noisy and the number of
    rows private, so a complement is -q rather than 1 - q; T and s of its theorem are for the worst case and would take
    10^5 draws that promise nothing at usual budgets; a local search finds the rows.

    >>> import hush
    >>> workload = hush.Workload.kway(hush.Domain({"age": 85, "sex": 2, "race": 5}), 2)
    >>> hush.plan(workload, hush.Budget(rho=0.5), mechanism=DualQuery(turns=8, draws=4))
    Plan(dualquery, 3 tables, rho=0.5)
    """

    name: ClassVar[str] = "dualquery"
    description: ClassVar[str] = "every column, then queries that synthetic rows answer badly, drawn in a private game"
    workload_aware: ClassVar[bool] = True
    budget_aware: ClassVar[bool] = True
    noise_words: ClassVar[str] = "Gaussian, and choices"
    errors_known: ClassVar[str] = "columns"
    reference: ClassVar[str] = "Gaboardi et al. 2014"

    column_share: float = 0.1
    accuracy: float = 0.02
    turns: int | None = None
    draws: int | None = None
    seed: int = 0  # of rows and of the first turn; public

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("column_share", "accuracy"):
            check_number(BudgetError, name, getattr(self, name), above=0, below=1)
        for name, least in (("turns", 2), ("draws", 1), ("seed", 0)):
            value = getattr(self, name)
            if value is not None or name == "seed":
                object.__setattr__(self, name, check_whole(WorkloadError, name, value, least=least))

    def check(self, workload: Workload, budget: Budget) -> None:
        """Refuse a limit too small for the model of the columns, or of the columns and one table."""
        super().check(workload, budget)
        self._check(workload, ())

    def check_table(self, plan: Plan, schema: Schema) -> None:
        """Refuse a limit too small for the model of the columns, one table and the schema's rules."""
        super().check_table(plan, schema)
        self._check(plan.workload, [rule.clique for rule in schema.constraints])

    def _check(self, workload: Workload, rules: Sequence[Clique]) -> None:
        if next(self._fitting(workload, rules), None) is None:
            smallest = min(workload.cliques, key=workload.domain.size)
            raise SizeError(
                f"no table of the workload keeps the model within max_size_mb = {self.limit_mb:g} and {MOST_CELLS:,} "
                f"cells, not even that over {', '.join(smallest)}; coarsen columns or raise max_size_mb"
            )

    def check_rounds(self, release: Release) -> None:
        """Refuse draws from tables that are not in the game or of turns that it does not have, and too many draws."""
        tables = set(self.tables(release.workload, [rule.clique for rule in release.schema.constraints]))
        turns, draws = self.turns or MOST_TURNS, self.draws or MOST_TURNS
        counts = Counter(draw.turn if isinstance(draw, Draw) else 0 for draw in release.rounds)
        strange = any(draw.clique not in tables for draw in release.rounds)
        if strange or any(not 2 <= turn <= turns or count > draws for turn, count in counts.items()):
            raise DataError(NOT_ITS_ROUNDS.format(name=self.name))

    def memory(self, plan: Plan, schema: Schema) -> int:
        """The queries of the game, each twice, and the fit of the model of all its tables."""
        tables = self.tables(plan.workload, [rule.clique for rule in schema.constraints])
        cells = sum(map(plan.domain.size, tables))
        return self.model_bytes(plan.domain, tables, cells) + DRAWN_BYTES * cells

    def counted(self, plan: Plan, schema: Schema) -> Sequence[Clique]:
        """The columns and all tables of the game."""
        tables = self.tables(plan.workload, [rule.clique for rule in schema.constraints])
        return [*((name,) for name in plan.domain), *tables]

    def new_record(self, plan: Plan) -> DrawsRecord:
        return DrawsRecord(plan.domain)

    def describe(self, plan: Plan) -> list[tuple[str, str]]:
        size = "as many turns as the budget allows" if self.turns is None else f"{self.turns:,} turns"
        each = "" if self.draws is None else f" of {self.draws:,} draws"
        columns = f"{len(plan.domain):,} columns with {self.column_share:.0%} of the budget"
        return [
            ("Measures", f"{columns}, and no other table"),
            ("Draws", f"queries, the cells of asked tables, in {size}{each}, with {1 - self.column_share:.0%}"),
            ("Model", f"of at most {self.limit_mb:g} MB; tables that would make it larger are not drawn from"),
        ]

    def work(self, workload: Workload) -> str:
        turns = self.turns or MOST_TURNS
        draws = (turns - 1) * (self.draws or turns)
        return (
            f"at most {draws:,} draws, each among at most {2 * MOST_CELLS:,} queries, and one fit of their likelihood"
        )

    def tables(self, workload: Workload, rules: Iterable[Clique]) -> list[Clique]:
        """The tables of the workload whose cells are the queries."""
        return list(self._fitting(workload, rules))

    def _fitting(self, workload: Workload, rules: Iterable[Clique]) -> Iterator[Clique]:
        domain = workload.domain
        known: list[Clique] = [*((name,) for name in domain), *rules]
        listed = zip(workload.cliques, workload.weights, strict=True)
        order = sorted(listed, key=lambda entry: (-float(entry[1]), domain.size(entry[0])))
        tree = JunctionTree.build(domain, known)
        room, failures = MOST_CELLS, 0
        for clique in dict.fromkeys(domain.clique(clique) for clique, _ in order):
            if failures == MOST_REFUSED_TABLES:
                return
            failures += 1
            if not clique or (size := domain.size(clique)) > room:
                continue
            if self.sizes_mb(domain, known, [clique], tree)[0] > self.limit_mb:
                continue
            yield clique
            known.append(clique)
            room, failures = room - size, 0
            tree = JunctionTree.build(domain, known, start=tree)

    def planned(self, rho: float, total: float, cells: int, max_rows: int) -> tuple[int, int]:
        """T and s for a budget of draws.

        >>> DualQuery().planned(0.0135, 48_842, 100_000, 1)
        (22, 22)
        """
        each = total * self.accuracy / (max_rows * math.log(2 * cells))
        turns = min(max(math.isqrt(int(min(6 * rho * each**2, 1e9))), FEWEST_TURNS), MOST_TURNS)
        return self.turns or turns, self.draws or turns

    def run(self, session: Session, plan: Plan) -> None:
        DualQueryRun(self, session, plan.workload).run()


class DualQueryRun:
    """The state of one run; the session's rounds hold the queries of every turn so far."""

    def __init__(self, settings: DualQuery, session: Session, workload: Workload) -> None:
        self.settings = settings
        self.session = session
        rules = [rule.clique for rule in session.constraints]
        self.game = QueryGame(session.domain, settings.tables(workload, rules), settings.seed)
        self.unit = int(session.bound.l2_squared / session.bound.l1)  # m^2 / m, or 2 m^2 / 2 m for exchanged units

    def run(self) -> None:
        session, settings, game = self.session, self.settings, self.game
        measure_columns(session, settings.column_share, settings.name)
        estimate = estimate_total(session.domain, session.record.measurements())[0]
        total = max(round(estimate), 1)
        rho = float((1 - Fraction(settings.column_share)) * session.limit)
        turns, draws = settings.planned(rho, estimate, game.cells, self.unit)
        game.answer(game.uniform(draws))
        for turn in range(2, turns + 1):
            game.answer(self._turn(turn, turns, draws, total))
        loss = likelihood(session.domain, session.record.measurements(), game, total, self._draws(), self.unit)
        session.fit(loss=loss, tolerance=FIT_TOLERANCE, iterations=FIT_ITERATIONS)

    def _draws(self) -> list[Draw]:
        return [draw for draw in self.session.record.rounds if isinstance(draw, Draw)]

    def _turn(self, turn: int, turns: int, draws: int, total: int) -> list[int]:
        """The queries of one turn: those on record, and new draws until there are enough or the budget is spent."""
        session, game = self.session, self.game
        expected = game.expected(total, turn - 1)
        scorer = CellScorer(game.factors.cliques, expected)
        known = [game.number(draw.clique, draw.cell, draw.weight) for draw in self._draws() if draw.turn == turn]
        later = sum(draws * (other - 1) ** 2 for other in range(turn + 1, turns + 1))
        while len(known) < draws and not used_up(session.remaining, session.limit):
            weight = (turn - 1) ** 2
            cost = session.remaining * weight / ((draws - len(known)) * weight + later)
            number, law = session.select(scorer, cost, note=f"{DualQuery.name}: turn {turn}, draw {len(known) + 1}")
            clique, cell, sign = game.query(number)
            known.append(number)
            session.ended(
                Draw(
                    clique=clique,
                    epsilon=float(law.epsilon),
                    stddev=0.0,
                    candidates=scorer.candidates,
                    misfit=0.0,
                    penalty=float(expected[number % game.cells]),
                    weight=sign,
                    annealed=False,
                    size_mb=0.0,
                    turn=turn,
                    cell=cell,
                )
            )
        return known


@dataclass(frozen=True, slots=True, eq=False)
class CellScorer:
    """q = c - h for every cell with count c and public h, then h - c for every cell: a query and its complement.

    Scores are whole numbers, so they are exact; they are cut off at 2^36.

    Privacy: a unit of at most m rows, added, removed or exchanged, moves the count of a cell and so each score by at
    most m, and cutting scores off moves none further; h is public.
    """

    cliques: tuple[Clique, ...]
    expected: Integers  # h of the cells of all tables, one after another in row-major order
    row_norms: ClassVar[RowNorms] = RowNorms.of_number(1, 1)  # exchanging a row moves a cell no further than adding it

    @property
    def candidates(self) -> int:
        return 2 * len(self.expected)

    def scores(self, counts: Counts, bound: Fraction) -> Scores:
        gaps = np.concatenate([counts[clique].ravel() for clique in self.cliques]) - self.expected
        gaps = np.clip(gaps, -LARGEST_GAP, LARGEST_GAP)
        return Scores(np.concatenate([gaps, -gaps]).astype(np.float64), float_up(bound))


ROW_SEARCH_STARTS = 8
ROW_SEARCH_SWEEPS = 20


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

    Coordinate ascent from random rows, each made to meet one query of positive sign; ties are broken at random. To find
    the best row of all is hard in general.

    Reference: [Gaboardi et al. 2014, sec. 4.3], where an integer program is solved.
    """
    columns = np.flatnonzero((codes >= 0).any(axis=0))
    positive = np.flatnonzero(signs > 0)
    best, largest = np.zeros(len(sizes), dtype=np.int64), -np.inf
    for _ in range(ROW_SEARCH_STARTS):
        row = generator.integers(np.asarray(sizes, dtype=np.int64))
        if len(positive):
            query = codes[positive[generator.integers(len(positive))]]
            row = np.where(query >= 0, query, row)
        value = -np.inf
        for _ in range(ROW_SEARCH_SWEEPS):
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
