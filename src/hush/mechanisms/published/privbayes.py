"""privbayes: a Bayesian network in which every column depends on a few parents; chosen, then measured and fitted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from msgspec.structs import replace

from hush.core.arrays import Floats, axes_outside
from hush.core.domain import Clique, Domain, maximal_cliques
from hush.core.errors import BudgetError, DataError, WorkloadError
from hush.core.rational import float_up
from hush.core.validation import check_number, check_whole
from hush.mechanisms.mechanism import CELL_MB, NOT_ITS_ROUNDS, CapacityMechanism
from hush.mechanisms.plan import Plan
from hush.mechanisms.session import Session, measure_columns
from hush.models.graphical.graphical_model import GraphicalModel
from hush.models.graphical.junction_tree import JunctionTree, sets_of
from hush.privacy.account import used_up
from hush.privacy.gate import Counts
from hush.privacy.selection import Scores
from hush.privacy.sensitivity import RowNorms
from hush.release.record import Round
from hush.release.release import Release
from hush.schema import Schema
from hush.workloads import Workload

VISITS_PER_SET = 64  # feasible sets to visit for each set that may be returned


def maximal_sets(sizes: Mapping[str, int], cells: float, degree: int, most: int) -> list[Clique] | None:
    """All sets of at most `degree` names with at most `cells` cells to which no further name can be added.

    None if there are more than `most`, or too many to visit. The empty set is listed only if nothing fits.

    Reference: [Zhang et al. 2017, Alg. 5], without merged levels.

    >>> maximal_sets({"a": 2, "b": 3, "c": 5}, 10, 2, 100)
    [('c', 'a'), ('b', 'a')]
    """
    names = sorted(sizes, key=lambda name: -sizes[name])
    maximal: list[Clique] = []
    stack: list[tuple[int, int, Clique]] = [(0, 1, ())]
    visits = 0
    while stack:
        start, product, chosen = stack.pop()
        visits += 1
        free = next((name for name in reversed(names) if name not in chosen), None)
        if free is None or len(chosen) == degree or product * sizes[free] > cells:
            maximal.append(chosen)
        if len(maximal) > most or visits > VISITS_PER_SET * most:
            return None
        if len(chosen) < degree:
            joining = (index for index in reversed(range(start, len(names))) if product * sizes[names[index]] <= cells)
            stack += [(index + 1, product * sizes[names[index]], (*chosen, names[index])) for index in joining]
    return maximal


def useful_cells(total: float, stddev: float, usefulness: float) -> float:
    """The most cells with total / cells >= usefulness sigma E|z|: the mean count against the mean absolute noise.

    Reference: [Zhang et al. 2017, Def. 4.7], theta-usefulness, for Gaussian noise.

    >>> round(useful_cells(48_842, 26.8, 4.0))
    571
    """
    return total / (usefulness * math.sqrt(2 / math.pi) * stddev)


EXACT_ROWS = 2**31  # below, n C and a b^T fit in 64 bits, and so do sums of their differences
LARGEST_SCORE = 2**36  # rows; the last division of a score is off by 2^-53 of it at most


@dataclass(frozen=True, slots=True)
class DependenceScorer:
    """q = n R(X, Pi) = 1/2 ||M_{X,Pi}(D) - M_X(D) M_Pi(D)^T / n||_1 for every candidate pair, n the number of rows.

    Computed as sum |n C - a b^T| / (2 n) in whole numbers, with C the table, a and b its margins; 0 without rows.
    Scores are cut off at 2^36.

    Privacy: a row moves q by less than 2. With p = a / n and r = b / n, one more row at (x, y) gives
    a' b'^T / (n+1) = (n^2 p r^T + n p e_y^T + n e_x r^T + e_x e_y^T) / (n+1), so C' - a' b'^T / (n+1) differs from
    C - a b^T / n by n/(n+1) (e_x - p)(e_y - r)^T, of rank one. Its L1 norm is n/(n+1) 2(1 - p_x) 2(1 - r_y) < 4, and q
    moves by half of that. Tight as n grows: all rows at (0, 0), the new one at (1, 1). A unit of m rows is m such
    steps, an exchanged one 2 m: twice the L1 sensitivity of a table. Cutting off scores never increases a move.
    Reference: [Zhang et al. 2017, sec. 4.3], function R.
    Differs from [Zhang et al. 2017, Thm 4.5]: there R has the sensitivity 3/n + 2/n^2 for exchanged rows and public n;
    n R needs no n, and its bound is 2 for added and removed rows.
    """

    children: tuple[str, ...]  # X of every candidate
    tables: tuple[Clique, ...]  # X and Pi of every candidate
    row_norms: ClassVar[RowNorms] = RowNorms.of_number(2, 4)  # an exchanged row is one removed and one added

    @property
    def cliques(self) -> tuple[Clique, ...]:
        return tuple(dict.fromkeys(self.tables))

    @property
    def candidates(self) -> int:
        return len(self.tables)

    def scores(self, counts: Counts, bound: Fraction) -> Scores:
        """The scores; their last division rounds twice."""
        dependences = np.zeros(len(self.tables))
        for index, (child, clique) in enumerate(zip(self.children, self.tables, strict=True)):
            table, axis = counts[clique], clique.index(child)
            c = np.moveaxis(table, axis, 0).reshape(table.shape[axis], -1)
            n = int(c.sum())
            if n == 0:
                continue
            if n >= EXACT_ROWS:
                c = c.astype(object)
            moved = int(np.abs(n * c - np.outer(c.sum(axis=1), c.sum(axis=0))).sum())
            dependences[index] = LARGEST_SCORE if moved > 2 * n * LARGEST_SCORE else moved / (2 * n)
        return Scores(dependences, float_up(bound), 4 * 2.0**-53 * LARGEST_SCORE)


MOST_CANDIDATES = 4000  # of one choice
MOST_TRIES = 1 << 16  # sets of several parents times columns: checking the size of their models takes most of the time
MOST_CELLS = 1 << 26  # of all candidates of one choice together, if there is enough memory
FEWEST_CELLS = 1 << 16  # of the network's tables; memory must suffice for these


@dataclass(frozen=True, kw_only=True)
class PrivBayes(CapacityMechanism):
    """A Bayesian network, chosen column by column; its tables are measured at the end, and a model is fitted to them.

    `column_share` of the budget measures all columns, which also estimate the number of rows. `choice_share` builds the
    network, from the column with the fewest levels on. Each step adds a column X with parents Pi in the network, by the
    exponential mechanism with the score n R(X, Pi) = 1/2 ||M_{X,Pi} - M_X M_Pi^T / n||_1. The candidates for Pi are the
    largest sets of at most `degree` columns whose table with X has at most rows / (usefulness sqrt(2/pi) sigma) cells,
    so that the average count is at least `usefulness` times the noise. The rest of the budget measures the tables
    (X, Pi) that are in no other, in equal shares.

    A set that would take the model beyond `max_size_mb` is left out. If a choice has too many candidates, a lower
    degree is taken; of too many pairs, the smallest are kept. A single candidate is taken at no cost.

    Privacy: rho-zCDP of the budget, by the account's filter; candidates depend on noisy values alone. The score moves
    by less than 2 with a row, see `DependenceScorer`.
    Reference: [Zhang et al. 2017, sec. 4]; fitted as in [HDMM, sec. 4.5].
    Differs from [Zhang et al. 2017]: Gaussian noise and zCDP; the number of rows is private, so the score is n R and
    usefulness is judged by a noisy number; the columns' share is taken from the tables' 0.7; levels are not merged by
    taxonomies; the first column is not random; rows come from the fitted model. [HDMM, sec. 4.5] splits in halves.

    >>> import hush
    >>> workload = hush.Workload.kway(hush.Domain({"age": 85, "sex": 2, "race": 5}), 2)
    >>> hush.plan(workload, hush.Budget(rho=0.5), mechanism=PrivBayes(usefulness=6.0))
    Plan(privbayes, 3 tables, rho=0.5)
    """

    name: ClassVar[str] = "privbayes"
    description: ClassVar[str] = "a network in which every column depends on a few others, then its tables"
    budget_aware: ClassVar[bool] = True
    errors_known: ClassVar[str] = "measured tables"
    reference: ClassVar[str] = "Zhang et al. 2017"

    choice_share: float = 0.3
    column_share: float = 0.1
    usefulness: float = 4.0
    degree: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("choice_share", "column_share"):
            check_number(BudgetError, name, getattr(self, name), above=0, below=1)
        if self.choice_share + self.column_share >= 1:
            raise BudgetError(
                f"choice_share={self.choice_share:g} and column_share={self.column_share:g} leave nothing to measure "
                "tables with; lower one of them"
            )
        check_number(WorkloadError, "usefulness", self.usefulness, above=0, hint=", such as 4")
        if self.degree is not None:
            hint = "; mechanism='independent' is a network without parents"
            object.__setattr__(self, "degree", check_whole(WorkloadError, "degree", self.degree, least=1, hint=hint))

    def check_rounds(self, release: Release) -> None:
        """Refuse rounds that do not build a network: each must add one column, with parents in the network."""
        placed = {root_of(release.domain)}
        for played in release.rounds:
            child, parents = played.clique[:1], played.clique[1:]
            if not parents or placed.issuperset(child) or not placed.issuperset(parents):
                raise DataError(NOT_ITS_ROUNDS.format(name=self.name))
            placed.update(child)

    def memory(self, plan: Plan, schema: Schema) -> int:
        """The columns, and the fit of the largest model; the run adapts its candidates to what is left."""
        return self.model_bytes(plan.domain, (), FEWEST_CELLS)

    def describe(self, plan: Plan) -> list[tuple[str, str]]:
        d, rest = len(plan.domain), 1 - self.choice_share - self.column_share
        most = "" if self.degree is None else f", with at most {self.degree} parents"
        columns, tables = f"{d:,} columns with {self.column_share:.0%}", f"at most {max(d - 1, 1):,} tables"
        return [
            ("Measures", f"{columns} and {tables} with {rest:.0%} of the budget"),
            ("Chooses", f"a network of all columns, whatever is asked, with {self.choice_share:.0%} of the budget"),
            ("Tables", f"with average counts of at least {self.usefulness:g} times the noise{most}"),
            ("Model", f"of at most {self.limit_mb:g} MB"),
        ]

    def work(self, workload: Workload) -> str:
        choices = max(len(workload.domain) - 1, 0)
        return f"{choices:,} choices among at most {MOST_CANDIDATES:,} tables, a model of at most {self.limit_mb:g} MB"

    def run(self, session: Session, plan: Plan) -> None:
        PrivBayesRun(self, session).run()


class PrivBayesRun:
    """The state of one run: the network so far, each column followed by its parents."""

    def __init__(self, settings: PrivBayes, session: Session) -> None:
        self.settings = settings
        self.session = session
        self.domain: Domain = session.domain
        self.network: list[Clique] = [(root_of(self.domain),), *(played.clique for played in session.record.rounds)]

    def run(self) -> None:
        session = self.session
        measure_columns(session, self.settings.column_share, self.settings.name)
        if len(session.noisy_tables) == len(self.domain) and not used_up(session.remaining, session.limit):
            columns = session.fit().value
            self._build(columns.total)
            self._measure(columns)
        session.fit()

    def _build(self, total: float) -> None:
        """Choose a column and its parents until all columns are in, or none has useful parents."""
        session = self.session
        while len(self.network) < len(self.domain):
            left = len(self.domain) - len(self.network)
            planned = Fraction(self.settings.choice_share) * session.limit / (len(self.domain) - 1)
            cost = min(planned, session.remaining / (2 * left))
            stddev = session.law((session.remaining - left * cost) / (len(self.domain) - 1)).stddev
            pairs, sizes = self._candidates(useful_cells(total, stddev, self.settings.usefulness))
            if not pairs:
                break
            pick, epsilon = 0, 0.0
            if len(pairs) > 1:
                tables = tuple(self.domain.clique(pair) for pair in pairs)
                scorer = DependenceScorer(tuple(pair[0] for pair in pairs), tables)
                pick, law = session.select(scorer, cost, note=f"{PrivBayes.name}: choice {len(self.network)}")
                epsilon = float(law.epsilon)
            self.network.append(pairs[pick])
            session.ended(
                Round(
                    clique=pairs[pick],
                    epsilon=epsilon,
                    stddev=stddev,
                    candidates=len(pairs),
                    misfit=0.0,
                    penalty=0.0,
                    weight=0.5,
                    annealed=False,
                    size_mb=sizes[pick],
                )
            )

    def _candidates(self, cells: float) -> tuple[list[Clique], list[float]]:
        """Each waiting column with its largest sets of parents that keep the model small; and the model's sizes.

        If all sets of a column are too large, smaller ones are tried; a column without any set waits for a later step.
        """
        placed = [pair[0] for pair in self.network]
        waiting = [name for name in self.domain if name not in placed]
        most = min(self.settings.limit_mb / CELL_MB, self.session.memory.numbers / max(len(self.domain) - 1, 1))
        cells = min(cells, max(most, FEWEST_CELLS / len(self.domain)))
        degree = min(self.settings.degree or len(placed), len(placed))
        while (largest := self._sets(placed, waiting, cells, degree)) is None:
            degree -= 1
        known = [*self.session.cliques, *(self.domain.clique(pair) for pair in self.network)]
        pairs: list[Clique] = []
        sizes: list[float] = []
        while waiting and degree:
            tried = largest if largest is not None else self._sets(placed, waiting, cells, degree) or []
            sizes_mb = self._sizes(known, tried)
            fitting = np.flatnonzero(sizes_mb <= self.settings.limit_mb)
            pairs += [tried[index] for index in fitting]
            sizes += sizes_mb[fitting].tolist()
            done = {tried[index][0] for index in fitting}
            waiting = [name for name in waiting if name not in done]
            largest, degree = None, degree - 1
        return pairs, sizes

    def _sizes(self, known: Sequence[Clique], pairs: Sequence[Clique]) -> Floats:
        """An upper bound on the size of the model of `known` tables with each pair.

        A column without links, whose parents are inside a node of the tree, adds its own table.
        """
        tree = JunctionTree.build(self.domain, known)
        linked = {name for clique in known if len(clique) > 1 for name in clique}
        sizes = np.full(len(pairs), np.nan)
        for index, (child, *parents) in enumerate(pairs):
            if child not in linked and tree.find(*sets_of(self.domain, [parents])) >= 0:
                sizes[index] = CELL_MB * (tree.cells + self.domain.size((child, *parents)) - self.domain[child])
        wide = [int(index) for index in np.flatnonzero(np.isnan(sizes))]
        if wide:
            sizes[wide] = self.settings.sizes_mb(self.domain, known, [pairs[index] for index in wide], tree)
        return sizes

    def _sets(self, placed: Sequence[str], waiting: Sequence[str], cells: float, degree: int) -> list[Clique] | None:
        """Every waiting column with each of its maximal sets of parents; None if there are too many.

        Of too many pairs of columns, the smallest are kept.
        """
        sizes = {name: self.domain[name] for name in placed}
        most = min(MOST_CANDIDATES, MOST_TRIES // len(self.domain))
        pairs: list[Clique] = []
        for child in waiting:
            parent_sets = maximal_sets(sizes, cells / self.domain[child], degree, max(most, len(placed)))
            pairs += [(child, *parents) for parents in parent_sets or () if parents]
            if parent_sets is None or (degree > 1 and len(pairs) > most):
                return None
        if degree == 1:
            pairs.sort(key=self.domain.size)
        total = np.cumsum([float(self.domain.size(pair)) for pair in pairs])
        most_cells = min(MOST_CELLS, self.session.memory.scorable_cells)
        fitting = min(int(np.searchsorted(total, most_cells, side="right")), MOST_CANDIDATES)
        return pairs[:fitting] if degree == 1 or fitting == len(pairs) else None

    def _measure(self, columns: GraphicalModel) -> None:
        """Spend the rest on the network's tables that are in no other, and add their noise to the recorded rounds."""
        session = self.session
        alone = [(name,) for name in self.domain if name not in {pair[0] for pair in self.network}]
        tables = maximal_cliques(sorted(map(self.domain.clique, (*self.network, *alone)), key=len, reverse=True))
        note = f"{PrivBayes.name}: {len(tables)} tables"
        noisy_tables = session.measure(tables, session.remaining / len(tables), note=note)
        for number, played in enumerate(session.record.rounds):
            table = next(table for table in noisy_tables if set(played.clique) <= set(table.clique))
            names = self.domain.clique(played.clique)
            noisy = table.values.sum(axis=axes_outside(table.clique, names))
            session.record.rounds[number] = replace(
                played,
                stddev=table.stddev * (table.values.size / noisy.size) ** 0.5,
                misfit=float(np.abs(columns.counts(names) - noisy).sum()),
            )


def root_of(domain: Domain) -> str:
    """The column that a network starts from: the one with the fewest levels."""
    return min(domain, key=lambda name: domain[name])
