"""Candidates of adaptive rounds: score how badly a model answers each, choose one privately, and record the scores.

The candidates are all subsets of the cliques of a workload. `MisfitScorer` scores them, `MisfitRounds` selects and
measures one, and `LastScores` keeps what error bounds are made from. `WorstCellScorer` scores tables by their worst
cells, `TargetScorer` scores single answers of marginals and thresholds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from hush.core.arrays import Floats, Integers, Numbers
from hush.core.domain import Clique
from hush.core.errors import BudgetError, ConvergenceError, SizeError
from hush.core.rational import float_up
from hush.mechanisms.merged_levels import RunLevels
from hush.mechanisms.session import Session
from hush.models.distribution import Distribution
from hush.privacy.gate import Counts
from hush.privacy.selection import (
    FAILURE_PROBABILITY,
    LARGEST_SHIFT,
    ExponentialMechanism,
    GeneralizedExponentialMechanism,
    Scores,
)
from hush.privacy.sensitivity import ONE_CELL, RowNorms
from hush.release.record import Round, Scored
from hush.strategies.closure import Closure
from hush.strategies.rare_levels import Merging
from hush.workloads import ThresholdTerm, Workload


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """The downward closure of a workload without the empty set, and w_r = sum_s c_s |r and s|.

    Reference: [AIM, sec. 3.2 and Alg. 1, line 8].

    >>> import hush
    >>> Candidates.of(hush.Workload.kway(hush.Domain({"a": 2, "b": 3, "c": 5}), 2)).weights.tolist()
    [2.0, 2.0, 2.0, 4.0, 4.0, 4.0]
    """

    cliques: tuple[Clique, ...]
    weights: Floats

    @classmethod
    def of(cls, workload: Workload) -> Candidates:
        """The candidates of a workload, each clique in domain order, small ones first."""
        closure = Closure.of(workload.domain, workload.cliques)
        cliques = sorted((clique for clique in closure if clique), key=len)
        importance = dict.fromkeys(workload.domain, 0.0)  # of each attribute: the sum of c_s over the s that have it
        for clique, weight in zip(workload.cliques, workload.weights, strict=True):
            for name in clique:
                importance[name] += float(weight)
        return cls(tuple(cliques), np.array([sum(importance[name] for name in clique) for clique in cliques]))


Slack = tuple[Floats, Floats]  # slack_r and slope_r of `Scored`


def exponential_slack(weights: Floats, unit: float, epsilon: float) -> Slack:
    """The most that every score may be above the chosen one, over its weight, for the exponential mechanism.

    Delta = max w_r unit: q_r <= q_t + (2 Delta / epsilon)(log k + l), except with probability exp(-l).
    """
    slope = 2 * float(weights.max()) * unit / (epsilon * weights)
    return slope * math.log(len(weights)), slope


def generalized_slack(weights: Floats, unit: float, epsilon: float, beta: float, pick: int) -> Slack:
    """The same for the generalised exponential mechanism, whose scores have sensitivities w_r unit of their own.

    The largest normalised score is 0, so that the chosen one is at least -c with c = (2 / epsilon)(log k + l), except
    with probability exp(-l): q_r <= q_t - s Delta_t + s Delta_r + c (Delta_t + Delta_r), with
    s = (2 / epsilon) log(k / beta).
    """
    count = len(weights)
    shift, least = 2 / epsilon * math.log(max(count, 2) / beta), 2 / epsilon * math.log(count)
    relative = weights[pick] / weights
    return unit * ((least - shift) * relative + least + shift), unit * 2 / epsilon * (relative + 1)


class LastScores:
    """The record that error bounds are made from: for every candidate its last round, penalty and model table.

    Reference: [AIM, Thm 4].
    """

    def __init__(self, pool: Candidates) -> None:
        count = len(pool.cliques)
        self._pool = pool
        self._rounds = np.full(count, -1, dtype=np.int64)
        self._penalties, self._slacks, self._slopes = np.zeros(count), np.zeros(count), np.zeros(count)
        self._tables: dict[Clique, Floats] = {}

    def note(
        self, number: int, indices: Integers, tables: Mapping[Clique, Floats], penalties: Floats, slack: Slack
    ) -> None:
        """Record a choice."""
        self._rounds[indices] = number
        self._penalties[indices] = penalties
        self._slacks[indices], self._slopes[indices] = slack
        self._tables.update(tables)

    def scored(self, model: Distribution, merging: Merging | None = None) -> Scored:
        """The record, with the distance of the final model from the one that each table was scored against.

        A table scored with merged levels says nothing about those levels, and counts as never scored.
        """
        cliques = self._pool.cliques
        if merging is not None:
            merged = np.array([merging.touches(clique) for clique in cliques])
            self._rounds[merged] = -1
            self._tables = {clique: table for clique, table in self._tables.items() if not merging.touches(clique)}
        try:
            final = model.many([clique for clique in cliques if clique in self._tables])
        except SizeError:  # the last model has no memory for tables that an earlier one had
            self._rounds[:], final = -1, {}
            self._tables = {}
        distances = np.full(len(cliques), np.nan)
        for index, clique in enumerate(cliques):
            if clique in self._tables:
                distances[index] = float(np.abs(final[clique] - self._tables[clique]).sum())
        return Scored(
            cliques=cliques,
            weights=self._pool.weights,
            rounds=self._rounds,
            penalties=self._penalties,
            slacks=self._slacks,
            slopes=self._slopes,
            distances=distances,
        )


MODEL_COUNT_STEP = 2.0**-10  # of the model's counts, so that sums of differences are exact
LARGEST_MISFIT = 2.0**36  # counts; the last product of a score is off by 2^-53 of it at most


@dataclass(frozen=True, slots=True, eq=False)
class MisfitScorer:
    """q_r = w_r (||M_r(D) - M_r(p)||_1 - penalty_r) for every candidate r, with norms cut off at 2^36.

    Privacy: a row moves one cell of M_r by one, so q_r moves by at most w_r times the L1 sensitivity of a table, and
    cutting norms off moves it no further; everything but M_r(D) is public.
    Reference: [AIM, Eq. 1].
    """

    cliques: tuple[Clique, ...]
    tables: Mapping[Clique, Floats]  # M_r(p), as `on_grid` rounds them
    weights: Floats
    penalties: Floats
    merging: Merging | None = None  # of levels, in all tables

    @property
    def candidates(self) -> int:
        return len(self.cliques)

    def misfits(self, counts: Counts) -> Floats:
        """||M_r(D) - M_r(p)||_1 of every candidate; private."""
        misfits = np.zeros(len(self.cliques))
        for index, clique in enumerate(self.cliques):
            exact = counts[clique] if self.merging is None else self.merging.table(clique, counts[clique])
            misfits[index] = np.abs(np.asarray(exact - self.tables[clique])).ravel(order="K").sum()
        return misfits

    @property
    def row_norms(self) -> RowNorms:
        """The L1 distance by which a row moves a table, times the largest weight."""
        largest = Fraction(float(self.weights.max()))
        return RowNorms.of_number(largest * ONE_CELL.l1, largest * ONE_CELL.gap_l1)

    def scores(self, counts: Counts, bound: Fraction) -> Scores:
        """The scores; each has the sensitivity bound times its weight over the largest weight.

        Differences between counts and multiples of 2^-10 add up exactly below 2^43, in any order; the two remaining
        operations round once each.
        """
        if np.abs(self.penalties).max() > LARGEST_MISFIT:
            raise ConvergenceError("a penalty is too large for a table to be scored without rounding")
        misfits = np.minimum(self.misfits(counts), LARGEST_MISFIT)
        largest = float(self.weights.max())
        unit, most = float_up(bound / Fraction(largest)), float_up(bound)
        sensitivities = np.minimum(np.nextafter(unit * self.weights, np.inf), most)
        error = 8 * largest * 2.0**-53 * LARGEST_MISFIT
        return Scores(self.weights * (misfits - self.penalties), most, error, sensitivities)


def on_grid(tables: Mapping[Clique, Floats]) -> dict[Clique, Floats]:
    """Tables of a model rounded to multiples of 2^-10, as they are scored."""
    return {clique: np.rint(table / MODEL_COUNT_STEP) * MODEL_COUNT_STEP for clique, table in tables.items()}


def check_epsilon(epsilon: Fraction, candidates: int) -> None:
    """Refuse a choice whose normalised scores, at most 2^40 + (2/epsilon) log(k/beta), are too large to draw from."""
    if Fraction(2 * math.log(max(candidates, 2) / FAILURE_PROBABILITY)) > epsilon * Fraction(LARGEST_SHIFT):
        raise BudgetError(
            f"a choice with epsilon={float(epsilon):.3g} among {candidates:,} tables is too small for the generalised "
            "exponential mechanism; raise the budget or use selection='exponential'"
        )


class MisfitRounds:
    """Rounds of a run: each chooses a table by the exponential mechanism and measures it.

    `generalized` chooses by the generalised exponential mechanism, in which every score has its own sensitivity.

    Privacy: candidates, model tables and penalties are public; see `MisfitScorer` for the scores.
    Reference: [AIM, Alg. 1 and Eq. 1].
    """

    def __init__(self, session: Session, pool: Candidates, name: str, *, generalized: bool = False) -> None:
        self.session = session
        self.levels = RunLevels(session)
        self.pool = pool
        self.last = LastScores(pool)
        self._name = name
        self._generalized = generalized

    def play(
        self,
        indices: Integers,  # of the candidates in the pool
        tables: Mapping[Clique, Floats],  # of the model, with levels merged as measured, rounded by `on_grid`
        penalties: Floats,  # (candidates,)
        sizes_mb: Floats,  # (candidates,) of the model with each of them
        *,
        choosing: Fraction,
        measuring: Fraction | None,  # None spends all that is left
    ) -> Round:
        """Choose a candidate and measure it; the caller records the round with `session.ended`."""
        session, number = self.session, len(self.session.record.rounds) + 1
        cliques = tuple(self.pool.cliques[index] for index in indices)
        penalties = np.minimum(penalties, LARGEST_MISFIT)
        weights, unit = self.pool.weights[indices], float(session.bound.l1)
        scorer = MisfitScorer(cliques, tables, weights, penalties, self.levels.merging)
        # Choose one candidate privately, and note how far the others may be off.
        law = (GeneralizedExponentialMechanism if self._generalized else ExponentialMechanism).for_rho(
            session.choice_rho(choosing)
        )
        if self._generalized:
            check_epsilon(law.epsilon, len(cliques))
        pick = session.gate.select(scorer, law, note=f"{self._name}: choice {number}")
        epsilon = float(law.epsilon)
        if self._generalized:
            slack = generalized_slack(weights, unit, epsilon, FAILURE_PROBABILITY, pick)
        else:
            slack = exponential_slack(weights, unit, epsilon)
        self.last.note(number - 1, indices, {clique: tables[clique] for clique in cliques}, penalties, slack)
        # Measure the chosen table.
        cost = session.remaining if measuring is None else measuring
        (noisy_table,) = session.measure([self.levels.query(cliques[pick])], cost, note=f"{self._name}: round {number}")
        return Round(
            clique=cliques[pick],
            epsilon=epsilon,
            stddev=noisy_table.stddev,
            candidates=len(cliques),
            misfit=float(np.abs(tables[cliques[pick]] - noisy_table.values).sum()),
            penalty=float(penalties[pick]),
            weight=float(weights[pick]),
            annealed=False,
            size_mb=float(sizes_mb[pick]),
        )


@dataclass(frozen=True, slots=True, eq=False)
class WorstCellScorer:
    """max |M_r(D) - M_r(p)| over the first `kept` levels of every column, minus a penalty, for every candidate r.

    Scores are exact: counts are whole, tables and penalties are multiples of 2^-10, and nothing is added up. Scores are
    cut off at 2^36.

    Privacy: a row added, removed or exchanged moves a count by at most one, and so the largest difference.
    """

    cliques: tuple[Clique, ...]
    tables: Mapping[Clique, Floats]  # of the model, as `on_grid` rounds them
    kept: Mapping[str, int]
    penalties: Floats
    row_norms: ClassVar[RowNorms] = RowNorms.of_number(1, 1)

    @property
    def candidates(self) -> int:
        return len(self.cliques)

    def scores(self, counts: Counts, bound: Fraction) -> Scores:
        worst = np.zeros(len(self.cliques))
        for index, clique in enumerate(self.cliques):
            inside = tuple(slice(self.kept[name]) for name in clique)
            gaps = np.abs(counts[clique][inside] - self.tables[clique][inside])
            worst[index] = gaps.max() if gaps.size else 0.0
        return Scores(np.minimum(worst, LARGEST_MISFIT) - self.penalties, float_up(bound))


@dataclass(frozen=True, slots=True, eq=False)
class TargetScorer:
    """|q(D) - q(p)| for single answers q: the targets of marginals and thresholds, over levels that are not merged.

    `left_out` are positions of answers that were measured before and are no longer candidates.

    Privacy: a row added, removed or exchanged moves an answer by at most one. Everything but the counts is public.
    """

    asked: tuple[tuple[Clique, int], ...]  # clique and at least how many of its columns
    answers: tuple[Floats, ...]  # of the model, on the grid
    kept: Mapping[str, int]
    left_out: tuple[int, ...]
    row_norms: ClassVar[RowNorms] = RowNorms.of_number(1, 1)

    @property
    def cliques(self) -> tuple[Clique, ...]:
        return tuple(dict.fromkeys(clique for clique, _ in self.asked))

    @property
    def every(self) -> int:
        """The number of answers, with those that are left out."""
        return sum(math.prod(self.kept[name] for name in clique) for clique, _ in self.asked)

    @property
    def candidates(self) -> int:
        return self.every - len(self.left_out)

    def positions(self) -> Integers:
        """The positions of the candidates among all answers."""
        return np.delete(np.arange(self.every), self.left_out)

    def scores(self, counts: Counts, bound: Fraction) -> Scores:
        gaps = []
        for (clique, at_least), answers in zip(self.asked, self.answers, strict=True):
            exact = threshold_answers(counts[clique], at_least)
            inside = tuple(slice(self.kept[name]) for name in clique)
            gaps.append(np.abs(exact[inside] - answers[inside]).reshape(-1))
        flat = np.minimum(np.concatenate(gaps), LARGEST_MISFIT)
        return Scores(np.delete(flat, self.left_out), float_up(bound))

    def target(self, position: int) -> tuple[Clique, int, tuple[int, ...]]:
        """The clique of the answer at a position, how many columns are to agree, and its levels."""
        for clique, at_least in self.asked:
            shape = [self.kept[name] for name in clique]
            if position < math.prod(shape):
                return clique, at_least, tuple(int(code) for code in np.unravel_index(position, shape))
            position -= math.prod(shape)
        raise IndexError(position)


def threshold_answers(table: Numbers, at_least: int) -> Floats:
    """For every target the sum of the cells that agree with it often enough; the table itself if all must agree."""
    if at_least == table.ndim:
        return np.asarray(table, dtype=np.float64)
    names = tuple(str(axis) for axis in range(table.ndim))
    return ThresholdTerm(names, table.shape, at_least).exact_answers(table)
