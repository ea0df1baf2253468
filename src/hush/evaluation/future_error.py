"""Future error: how well a release made for past questions answers future ones.

A future question is a threshold, r of k columns with all of their targets, whose columns are drawn from chances related
to those of past questions. Its error is the largest over the targets, as a share of the rows. The future error is the
mean over questions and releases: err_F = E ||Q(D) - Q(answers)||_inf for one random threshold Q.

Privacy: errors are computed from exact counts without noise, and releases are made with seeds. Use only public or
invented tables; a stamp on the figures says so.

Reference: [Avent 2023, sec. 4.2.3 and 4.5].
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hush.core.arrays import Floats
from hush.core.domain import Clique, Domain, domain_of
from hush.core.errors import SizeError, WorkloadError, shown
from hush.core.validation import check_number, check_whole, is_number
from hush.evaluation.column_chances import ColumnChances, checked_seed
from hush.evaluation.workload_error import Tables, check_compared, largest_errors
from hush.mechanisms.mechanism import Mechanism
from hush.mechanisms.registry import mechanism_of
from hush.privacy.budget import Budget
from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.render.text_table import TextTable, counted, number_columns
from hush.tables.table import Table
from hush.workloads import Term, Workload
from hush.workloads.term import merged
from hush.workloads.threshold_term import threshold_term
from hush.workloads.workload_text import parse_workload

STAND_IN_STAMP = "Made from a public or invented table: holds for the private table only if the two are similar"
DEFAULT_DRIFTS = (0.0, 0.05, 0.1, 0.2, 0.5, 1.0)
Kind = tuple[int, int]  # how many columns, and how many of them are to agree


def drawn_thresholds(
    domain: Domain,
    chances: ColumnChances,
    columns: int,
    at_least: int,
    draws: int,
    *,
    seed: int = 0,
    different: bool = True,
) -> Workload:
    """Thresholds over random sets of columns, weighted by how often each set was drawn.

    >>> domain = Domain({"a": 2, "b": 3, "c": 4})
    >>> drawn_thresholds(domain, ColumnChances.uniform(domain), 2, 1, 3, seed=1).queries
    26
    """
    likely = _over(domain_of(domain, WorkloadError), chances)
    sets = likely.sets(columns, draws, seed=seed, different=different)
    times = Counter(domain.clique(columns) for columns in sets)
    return Workload(domain, [threshold_term(domain, clique, at_least, float(n)) for clique, n in times.items()])


def padded(history: Workload, to: int, *, seed: int = 0, weight: float = 1.0) -> Workload:
    """A short history with random thresholds added until it has `to` terms; all columns are equally likely.

    The added thresholds take turns in having the numbers of columns of the history. A short history gives little
    information, and any further table adds some.

    Reference: [Avent 2023, sec. 4.5.3].
    """
    kinds = list(_kinds(history))
    terms: dict[Any, Term] = {term.question: term for term in history}
    random = np.random.Generator(np.random.PCG64(checked_seed(seed)))
    everywhere = ColumnChances.uniform(name for name in history.domain if history.domain[name] > 1)
    most = sum(math.comb(len(everywhere.columns), k) for k, _ in kinds) + sum(not term.clique for term in history)
    hint = ": there are no more questions with the numbers of columns of the history"
    check_whole(WorkloadError, "pad", to, least=1, most=most, hint=hint)
    turn = 0
    while len(terms) < to:
        k, r = kinds[turn % len(kinds)]
        turn += 1
        (columns,) = everywhere.sets(k, 1, seed=int(random.integers(2**62)))
        added = threshold_term(history.domain, columns, r, weight)
        terms.setdefault(added.question, added)
    return Workload(history.domain, terms.values(), history.sum_terms)


@dataclass(frozen=True, slots=True)
class FutureError:
    """The mean error of random questions with an interval, from the mean of each of several runs.

    With one run the interval is that of its questions, and says nothing about how runs differ.
    """

    means: tuple[float, ...]  # of each run
    questions: tuple[tuple[float, ...], ...]  # of each run
    level: float = 0.95

    @property
    def mean(self) -> float:
        """The mean over runs and questions."""
        return math.fsum(self.means) / len(self.means)

    @property
    def interval(self) -> tuple[float, float]:
        """mean -+ t s / sqrt(n) over n runs, or over n questions of the only run; NaN for a single question."""
        values = self.means if len(self.means) > 1 else self.questions[0]
        n = len(values)
        if n < 2:
            return math.nan, math.nan
        from scipy.special import stdtrit

        spread = float(np.std(values, ddof=1)) / math.sqrt(n)
        half = float(stdtrit(n - 1, (1 + self.level) / 2)) * spread
        return self.mean - half, self.mean + half


def future_error(exact: Tables, estimated: Tables, future: Workload, *, level: float = 0.95) -> FutureError:
    """The future error of one release over drawn questions, weighted by how often each was drawn.

    Privacy: reads exact tables without any noise; the result is private.
    """
    questions = _repeated(future, _errors_of([future], exact, estimated))
    return FutureError((float(questions.mean()),), (tuple(questions.tolist()),), level)


@dataclass(frozen=True, slots=True)
class DriftRow:
    """One drift: how far the chances moved, the error of the drifted questions, and the error of answering 0 to all."""

    drift: float
    distance: float
    error: FutureError
    zeros: float


@dataclass(frozen=True, slots=True)
class FutureStudy:
    """What drift costs a release that was made for a history of questions."""

    mechanism: str
    budget: str
    rows: tuple[DriftRow, ...]
    present: float
    runs: int
    draws: int
    table_rows: int
    stamp: str = STAND_IN_STAMP

    def to_dict(self) -> dict[str, Any]:
        """Every figure as texts, numbers and lists, for JSON."""
        rows = []
        for row in self.rows:
            low, high = (None if math.isnan(end) else max(end, 0.0) for end in row.error.interval)
            error = {"error": row.error.mean, "lower": low, "upper": high, "all_zero": row.zeros}
            rows.append({"drift": row.drift, "distance": row.distance, **error})
        return {
            "stamp": self.stamp,
            "mechanism": self.mechanism,
            "budget": self.budget,
            "runs": self.runs,
            "table_rows": self.table_rows,
            "draws": self.draws,
            "present_error": self.present,
            "drifts": rows,
        }

    def table(self) -> TextTable:
        """The figures as text."""
        cells = []
        for row in self.rows:
            low, high = row.error.interval
            interval = "unknown" if math.isnan(low) else f"{max(low, 0.0):.4f} to {high:.4f}"
            cells.append(
                (f"{row.drift:g}", f"{row.distance:.2f}", f"{row.error.mean:.4f}", interval, f"{row.zeros:.4f}")
            )
        percent = f"{100 * self.rows[0].error.level:g} % interval"
        columns = number_columns("drift", "total variation", "future error", percent, "all zeros")
        runs, draws = counted(self.runs, "release"), counted(self.draws, "future question")
        notes = [
            f"{self.mechanism} with {self.budget} on {self.table_rows:,} rows: {runs}, {draws} for each. The error of "
            f"a question is its largest, as a share of the rows. On past questions it is {self.present:.4f}.",
            self.stamp,
        ]
        return TextTable(columns=columns, rows=cells, notes=notes)

    def __repr__(self) -> str:
        return self.table().text()


def future_study(
    table: Table,
    history: Workload | str,
    budget: Budget,
    *,
    mechanism: str | Mechanism = "aim",
    chances: ColumnChances | None = None,
    drifts: Sequence[float] = DEFAULT_DRIFTS,
    draws: int = 64,
    runs: int = 5,
    pad: int | None = None,
    seed: int = 0,
    level: float = 0.95,
    progress: Callable[[float], None] | None = None,
) -> FutureStudy:
    """Release a public or invented table for a history of questions, and ask it drifted future questions.

    `chances` says how likely each column is to be asked for, by default as in the history. Future questions have the
    numbers of columns of the history, equally often. `pad` adds random questions to the history until it has this many.
    Every run makes a new release, with its own noise, drift and questions. All questions are drawn before anything is
    released, so that impossible ones are refused at once.

    Privacy: only for public or invented tables; nothing is charged and the noise is seeded. See the module.
    """
    asked, drifts = _checked_study(table, history, budget, drifts, draws, runs, level)

    # Draw the future questions of all runs and drifts first, each from its own seed.
    state = np.random.SeedSequence(checked_seed(seed)).generate_state(runs * (2 * len(drifts) + 1), dtype=np.uint64)
    seeds = [[int(word) >> 2 for word in state[run::runs]] for run in range(runs)]
    several = (name for name in asked.domain if asked.domain[name] > 1)
    past = zip(asked.cliques, asked.weights, strict=True)
    likely = ColumnChances.of_history(several, past) if chances is None else _over(table.domain, chances)
    moved, future = _drawn_future(asked, likely, drifts, draws, seeds)

    # Release once per run, and compute the error of every question that is asked in it.
    measured = asked if pad is None else padded(asked, pad, seed=seed)
    plan = mechanism_of(mechanism).plan(measured, budget, max_rows_per_unit=table.schema.unit.max_rows)

    def all_zero(cliques: Sequence[Clique]) -> dict[Clique, Floats]:
        return {clique: np.zeros(table.domain.sizes(clique)) for clique in cliques}

    zeros = _errors_of(itertools.chain([asked], *future), table.counts, all_zero)
    errors: list[dict[Hashable, float]] = []
    for run in range(runs):
        release = plan.release(table, entropy=NotPrivateEntropy(seeds[run][0]), schema_is_public=True)
        answers = release.model().tables if release.record.tables else release.tables
        errors.append(_errors_of([asked, *future[run]], table.counts, answers))
        if progress is not None:
            progress((run + 1) / runs)

    # Average over questions and runs.
    rows = []
    for index, drift in enumerate(drifts):
        distance = math.fsum(likely.distance(drifted[index]) for drifted in moved) / runs
        rows.append(_drift_row(drift, distance, [questions[index] for questions in future], errors, zeros, level))
    present = math.fsum(
        float(np.average([run_errors[term.question] for term in asked], weights=asked.weights)) for run_errors in errors
    )
    total = int(table.counts([()])[()])
    return FutureStudy(plan.mechanism, str(budget), tuple(rows), present / runs, runs, draws, total)


def _drift_row(
    drift: float,
    distance: float,
    drawn: Sequence[Workload],
    errors: Sequence[dict[Hashable, float]],
    zeros: dict[Hashable, float],
    level: float,
) -> DriftRow:
    """The errors of the questions of one drift, one workload and one table of errors for each run."""
    by_run = [_repeated(questions, run_errors) for questions, run_errors in zip(drawn, errors, strict=True)]
    means = tuple(float(run_errors.mean()) for run_errors in by_run)
    error = FutureError(means, tuple(tuple(run_errors.tolist()) for run_errors in by_run), level)
    zero = math.fsum(float(_repeated(questions, zeros).mean()) for questions in drawn) / len(drawn)
    return DriftRow(float(drift), distance, error, zero)


def _drawn_future(
    history: Workload, likely: ColumnChances, drifts: Sequence[float], draws: int, seeds: list[list[int]]
) -> tuple[list[list[ColumnChances]], list[list[Workload]]]:
    """The drifted chances and the questions, for each run and drift; refused if their errors need too much memory.

    Kinds of questions are as frequent as in the history, and columns follow the drifted chances.
    """
    kinds = _kinds(history)
    weights = np.array(list(kinds.values()))
    moved = [[likely.drifted(drift, seed=run[1 + 2 * i]) for i, drift in enumerate(drifts)] for run in seeds]
    future = []
    for run_seeds, run in zip(seeds, moved, strict=True):
        questions = []
        for chances, seed in zip(run, run_seeds[2::2], strict=True):
            random = np.random.Generator(np.random.PCG64(seed))
            terms: list[Term] = []
            for (k, r), times in zip(kinds, random.multinomial(draws, weights / weights.sum()).tolist(), strict=True):
                if times:
                    word = int(random.integers(2**62))
                    terms += drawn_thresholds(history.domain, chances, k, r, times, seed=word, different=False)
            questions.append(Workload(history.domain, terms))
        future.append(questions)
    try:
        check_compared(_together(itertools.chain.from_iterable(future)))
    except SizeError as error:
        raise SizeError(
            f"a future question is too large: {error}, or give chances without the columns of most levels"
        ) from None
    return moved, future


def _checked_study(
    table: Table,
    history: Workload | str,
    budget: Budget,
    drifts: Sequence[float],
    draws: object,
    runs: object,
    level: object,
) -> tuple[Workload, tuple[float, ...]]:
    """The history over the columns of a table, and the drifts; refuses wrong arguments before any work."""
    if not isinstance(table, Table):
        raise WorkloadError(f"table of type {type(table).__name__}: expected a public table, as hush.read returns it")
    if not isinstance(budget, Budget):
        raise WorkloadError(f"budget={shown(budget)}: expected a Budget, such as Budget(epsilon=1, delta=1e-9)")
    if not isinstance(history, Workload | str):
        raise WorkloadError(
            f"history of type {type(history).__name__}: expected a Workload, or a text such as 'age,sex; 2-of sex,race'"
        )
    asked = parse_workload(table.schema, history) if isinstance(history, str) else history
    if asked.domain != table.domain:
        raise WorkloadError("the history is over other columns than the table; make it with the same schema")
    if is_number(drifts) or isinstance(drifts, str) or not (drifts := tuple(drifts)):
        raise WorkloadError(f"drifts={shown(drifts)}: expected a list of some drifts, numbers from 0 to 1")
    check_whole(WorkloadError, "draws", draws, least=1)
    check_whole(WorkloadError, "runs", runs, least=1)
    check_number(WorkloadError, "level", level, above=0, below=1, hint=", such as 0.95")
    return asked, drifts


def _over(domain: Domain, chances: ColumnChances) -> ColumnChances:
    """Chances of columns that a domain has."""
    if not isinstance(chances, ColumnChances):
        raise WorkloadError(
            f"chances={shown(chances)}: expected ColumnChances, such as ColumnChances.given({{'age': 2}})"
        )
    return ColumnChances(domain.check(chances.columns), chances.masses)


def _together(workloads: Iterable[Workload]) -> Workload:
    """Every question of some workloads over one domain, once."""
    listed = list(workloads)
    return Workload(listed[0].domain, merged(term for workload in listed for term in workload))


def _errors_of(workloads: Iterable[Workload], exact: Tables, estimated: Tables) -> dict[Hashable, float]:
    """The largest error of each question of some workloads, each of which is asked once."""
    together = _together(workloads)
    errors = largest_errors(together, exact, estimated)
    return {term.question: error for term, error in zip(together, errors.tolist(), strict=True)}


def _repeated(drawn: Workload, errors: dict[Hashable, float]) -> Floats:
    """The error of every draw."""
    return np.repeat([errors[term.question] for term in drawn], [max(round(weight), 1) for weight in drawn.weights])


def _kinds(history: Workload) -> dict[Kind, float]:
    """The numbers of columns of the history's terms, and how often each was asked; the total is left out."""
    kinds: Counter[Kind] = Counter()
    for term in history:
        if term.plain and not term.clique:
            continue
        if not term.symmetric:
            raise WorkloadError(
                f"the {term.kind} {term.text} in the history is neither a table over some columns nor a threshold; "
                "leave it out"
            )
        kinds[len(term.clique), term.columns_to_agree] += term.weight  # type: ignore[assignment]
    if not kinds:
        raise WorkloadError("the history asks for the total alone; give tables over some columns, such as 'age,sex'")
    return dict(kinds)
