"""dualquery: a game between queries and synthetic rows; queries that the rows answer badly are drawn, and fitted."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from hush.core.domain import Clique
from hush.core.errors import BudgetError, DataError, SizeError, WorkloadError, shown
from hush.core.validation import is_number
from hush.mechanisms.mechanism import NOT_ITS_ROUNDS, CapacityMechanism
from hush.mechanisms.plan import Plan
from hush.mechanisms.query_game import CellScorer, QueryGame, likelihood
from hush.mechanisms.session import Session
from hush.models.fit_arguments import estimate_total
from hush.models.graphical.junction_tree import JunctionTree
from hush.privacy.account import used_up
from hush.privacy.budget import Budget
from hush.release.noisy_tables_record import DrawsRecord
from hush.release.release import Release
from hush.release.rounds import Draw
from hush.schema import Schema
from hush.workloads import Workload

NAME = "dualquery"
MOST_CELLS = 1 << 20  # to draw queries from
DRAWN_BYTES = 128  # of a cell whose two queries may be drawn: scores, their law, and the likelihood of the draws
PATIENCE = 500  # stop after so many tables in a row that the model has no room for
FEWEST_TURNS, MOST_TURNS = 4, 32
ITERATIONS = 1000
TOLERANCE = 0.1  # of the fit; a closer one would fit the randomness of the draws


@dataclass(frozen=True, kw_only=True)
class DualQuery(CapacityMechanism):
    """Multiplicative weights over queries: those that a growing set of rows answers badly are drawn, and rows added.

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

    name: ClassVar[str] = NAME
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
            if not (is_number(getattr(self, name)) and 0 < getattr(self, name) < 1):
                raise BudgetError(f"{name}={shown(getattr(self, name))}: expected a number between 0 and 1")
        for name, least in (("turns", 2), ("draws", 1), ("seed", 0)):
            value = getattr(self, name)
            if value is None and name != "seed":
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise WorkloadError(f"{name}={shown(value)}: expected a whole number of at least {least}")

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
            raise DataError(NOT_ITS_ROUNDS.format(name=NAME))

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
        return [
            ("Measures", f"{len(plan.domain):,} columns by {self.column_share:.0%} of the budget, and no other table"),
            ("Draws", f"queries, that is cells of the tables asked, in {size}{each}, by {1 - self.column_share:.0%}"),
            ("Model", f"of at most {self.limit_mb:g} MB; tables that it has no room for are not drawn from"),
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
            if failures == PATIENCE:
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
        known = {table.clique for table in session.noisy_tables}
        missing = [(name,) for name in session.domain if (name,) not in known]
        if missing:
            share = min(Fraction(settings.column_share) * session.limit, session.remaining / 2)
            session.measure(missing, share / len(session.domain), note=f"{NAME}: {len(missing)} columns")
        exact = estimate_total(session.domain, session.measurements)[0]
        total = max(round(exact), 1)
        rho = float((1 - Fraction(settings.column_share)) * session.limit)
        turns, draws = settings.planned(rho, exact, game.cells, self.unit)
        game.answer(game.uniform(draws))
        for turn in range(2, turns + 1):
            game.answer(self._turn(turn, turns, draws, total))
        loss = likelihood(session.domain, session.measurements, game, total, self._draws(), self.unit)
        session.fit(loss=loss, tolerance=TOLERANCE, iterations=ITERATIONS)

    def _draws(self) -> list[Draw]:
        return [draw for draw in self.session.rounds if isinstance(draw, Draw)]

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
            number, law = session.select(scorer, cost, note=f"{NAME}: turn {turn}, draw {len(known) + 1}")
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
