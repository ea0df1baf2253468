"""PlanErrors: how accurate a plan is before any data is read, beside a lower bound, and whether it is useful at all.

A budget too small for the expected number of rows is refused; a delta too large for it is a warning.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from hush.core.arrays import Floats
from hush.core.errors import BudgetError, DataError, SizeError, WorkloadError
from hush.core.memory import readable
from hush.core.rational import shown_up
from hush.core.validation import check_number, check_whole
from hush.optimizers.svd_bound import lower_bound
from hush.privacy.budget import Budget, number_text
from hush.privacy.noise import law_costing
from hush.privacy.sensitivity import ONE_CELL, Neighbours, sensitivity
from hush.strategies.strategy import NoiseKind, PredictedErrors, Strategy, unit_variance
from hush.strategies.term_table import TermGrams
from hush.workloads import Workload

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hush.mechanisms.mechanism import Mechanism
    from hush.mechanisms.plan import Plan
    from hush.release.release import Release

LARGEST_EXACT = 1024  # rows of the eigenvalue problem that a plan may solve, in a fraction of a second
MEAN_ABSOLUTE = math.sqrt(2 / math.pi)  # E|z| of a standard normal z
LARGEST_USEFUL_ERROR = 1.0  # mean absolute error over the average cell
LARGE_DELTA = 1e-3  # for any number of rows
MOST_ROWS = 2**32  # that any mechanism takes


def rmse_bound(
    workload: Workload, noise: NoiseKind, cost: Fraction, neighbours: Neighbours
) -> tuple[float, str] | None:
    """An RMSE that no unbiased linear mechanism of this noise and cost can beat, and which bound it is.

    None if neighbours exchange rows, if there are too many terms, if the Gram matrix is no sum of products as with
    formulas, or if the noise has no variance: no bound is known.

    Reference: [Li 2013, Thm 4.1], per unit of the least variance that the exact noise can have.
    """
    least = unit_variance(noise, cost)
    if neighbours is not Neighbours.ADD_REMOVE or least == 0 or not workload.factorises:
        return None
    try:
        total, word = lower_bound(TermGrams.of(workload), largest=LARGEST_EXACT)
    except SizeError:
        return None
    weights = sum(term.weight * term.queries for term in workload)
    name = "estimated from below" if word in ("parts", "dominated") else "exact"
    return math.sqrt(total * least / weights), f"singular value bound, {name}"


class PlanErrors:
    """The part of a plan that predicts: its errors, how they compare with a lower bound, and how long it takes."""

    settings: Mechanism
    strategy: Strategy | None
    workload: Workload
    budget: Budget
    neighbours: Neighbours
    loss: str

    @cached_property
    def errors(self) -> PredictedErrors | None:
        """The errors of every term; None if they are not predictable."""
        return None if self.strategy is None else self.strategy.errors(self.workload)

    @property
    def rmse(self) -> float | None:
        """Root mean squared error over all queries of the workload, each counted as often as its weight."""
        return None if self.errors is None else self.errors.rmse

    @property
    def max_variance(self) -> float | None:
        """The largest variance of a query of the workload, without weights; None if queries are not listed."""
        return self.errors.largest if self.errors and all(term.listed for term in self.workload) else None

    @property
    def term_variances(self) -> Floats:
        """The mean variance over the queries of each term of the workload; NaN if it is not predictable."""
        return np.full(len(self.workload), np.nan) if self.errors is None else self.errors.means

    def variance(self, clique: Iterable[str]) -> float | None:
        """The variance of each cell of a marginal, or their mean if they differ; None if not predictable."""
        names = self.workload.domain.varying(clique)
        return None if self.strategy is None else self.strategy.variance(names)

    def query_variances(self, which: int = 0) -> Floats:
        """The variance of every query of a term of the workload, one axis per attribute of the term."""
        check_whole(WorkloadError, "term", which, least=0, most=len(self.workload) - 1)
        term = self.workload.terms[which]
        if not term.listed:
            raise WorkloadError(f"the queries of term {which} are known by their Gram matrix alone; use term_variances")
        if self.strategy is None:
            product = term.product
            shape = term.queries if product is None else [block.shape[0] for block in product.blocks]
            return np.full(shape, np.nan)
        return self.strategy.term_variances(term)

    @cached_property
    def lower_bound(self) -> tuple[float, str] | None:
        """An RMSE that no unbiased linear mechanism of this cost and noise can beat, and which bound it is."""
        if self.strategy is None:
            return None
        return rmse_bound(self.workload, self.strategy.noise, self.strategy.cost, self.neighbours)

    @property
    def optimality(self) -> str:
        """What the plan claims about its error, in words."""
        if self.strategy is None:
            return f"nothing is promised beforehand; {self.settings.states}"
        if (claim := self.settings.claim(self)) is not None:  # type: ignore[arg-type]
            return claim
        if not self.workload.factorises:
            other = next(term.kind for term in self.workload if not term.factorises)
            return f"the best noise for what it measures; another strategy may answer its {other}s better"
        return self.strategy.claim(self.loss, self.beside_bound)

    def beside_bound(self) -> str:
        """The error relative to the lower bound, in words."""
        if self.lower_bound is None or self.rmse is None:
            return "; no lower bound is known"
        bound, name = self.lower_bound
        return f": {self.rmse / bound:.3f} times the lower bound, RMSE {bound:.3g} ({name})"

    @property
    def work(self) -> str:
        """Memory and time that releasing will take, roughly, in words."""
        if self.strategy is None:
            return self.settings.work(self.workload)
        numbers, tables = self.strategy.numbers, self.strategy.tables
        return (
            f"{tables:,} noisy table{'' if tables == 1 else 's'}, {numbers:,} numbers; "
            f"about {readable(self.strategy.memory)} and {self.seconds:,.1f} s, plus counting"
        )

    @property
    def seconds(self) -> float | None:
        """Roughly how long measuring takes, beyond counting; None if that depends on the data."""
        return None if self.strategy is None else max(2e-7 * self.strategy.numbers + 1e-4 * self.strategy.tables, 0.1)

    def check_useful(self, rows: int) -> None:
        """Raise BudgetError if even the best table would be off by more than it holds.

        `rows` is the expected number of rows, a public guess. The mean absolute error of the most accurate table in the
        workload must be at most 100 % of its average cell. If errors are not known beforehand, the rule is for one-way
        tables that get all of the budget. The message says which budget is enough. A delta above one over the number of
        rows is a warning.
        """
        check_useful(self, rows)  # type: ignore[arg-type]
        if (warning := delta_warning(self.budget, rows)) is not None:
            warnings.warn(warning, stacklevel=2)

    def workload_error(self, total: float) -> float:
        """The expected workload error (1 / (k N)) sum_i c_i ||M_i(D) - y_i||_1 for a table of N = `total` rows.

        It is (1 / (k N)) sum_i c_i sqrt(2/pi) n_i sigma_i under Gaussian noise; NaN if it is not predictable.

        Reference: [AIM, Def. 2 and Thm 5].
        """
        check_number(DataError, "total", total, above=0, hint=", the number of rows")
        sizes = np.array([term.weight * term.queries for term in self.workload])
        return float(MEAN_ABSOLUTE * (sizes * np.sqrt(self.term_variances)).sum() / (len(sizes) * total))


@dataclass(frozen=True, slots=True, kw_only=True)
class OneWay:
    """The noise of one-way tables over some columns, each measured at the same cost.

    A table of n_i cells over N rows has N / n_i rows in its average cell, and the mean absolute error of a count is
    sqrt(2/pi) sigma. Over all columns, the average cell has N / mean(n_i) rows.
    """

    stddev: float
    cells: float  # mean(n_i)

    @classmethod
    def of(cls, plan: Plan, columns: Sequence[str], rho: Fraction) -> OneWay:
        """The noise of a plan's columns; never below the smallest scale."""
        bound = sensitivity(ONE_CELL, max_rows=plan.max_rows_per_unit, neighbours=plan.neighbours)
        law = law_costing(rho, plan.budget, bound)
        return cls(stddev=law.stddev, cells=float(np.mean([plan.domain[name] for name in columns])))


def noise_text(stddev: float) -> str:
    """A standard error in three digits, or as a whole number from a thousand on.

    >>> noise_text(5.0), noise_text(64.464), noise_text(5916.1)
    ('5', '64.5', '5,916')
    """
    return f"{stddev:,.0f}" if stddev >= 1000 else f"{stddev:.3g}"


def check_rows(rows: object) -> int:
    """The expected number of rows, checked."""
    return check_whole(BudgetError, "rows", rows, least=1, hint=", the number of rows you expect")


def predicted_error(plan: Plan, rows: int) -> tuple[float, str] | None:
    """The smallest mean absolute error of a table relative to its average cell, and which tables have it.

    A plan with known errors: the most accurate marginal of the workload, or None without marginals. Any other plan:
    one-way tables that get the whole budget, or None if these say nothing about the mechanism.
    """
    if plan.adaptive and not plan.settings.told_by_columns:
        return None
    if plan.adaptive:
        columns = plan.settings.columns(plan.workload)
        best = OneWay.of(plan, columns, plan.rho / len(columns))
        return MEAN_ABSOLUTE * best.stddev * best.cells / rows, "one-way tables, had they all of the budget,"
    errors = [
        math.sqrt(variance) * term.queries
        for term, variance in zip(plan.workload, plan.term_variances, strict=True)
        if term.plain and term.clique and variance == variance
    ]
    return (MEAN_ABSOLUTE * min(errors) / rows, "the most accurate table asked for") if errors else None


def check_useful(plan: Plan, rows: int) -> None:
    """Refuse a budget with which even the best table would be off by more than it holds; see `Plan.check_useful`."""
    predicted = predicted_error(plan, check_rows(rows))
    if predicted is None or predicted[0] <= LARGEST_USEFUL_ERROR:
        return
    error, what = predicted
    # The budget whose noise is small enough, in the terms in which the budget was stated.
    ratio = Fraction(error / LARGEST_USEFUL_ERROR)
    rho = plan.rho * ratio**2
    if plan.epsilon is not None:
        enough = f"at least epsilon={shown_up(plan.epsilon * ratio)}"
    elif plan.budget.epsilon is None:
        enough = f"at least rho={shown_up(rho)}"
    else:
        delta = plan.budget.delta or 1e-9
        epsilon = plan.budget.covering(rho).epsilon or 0.0
        enough = f"at least epsilon={shown_up(epsilon)} at delta={number_text(delta)}"
    raise BudgetError(
        f"{plan.budget} is too small for {rows:,} rows: the mean absolute error of {what} would be {error:,.0%} of the "
        f"average cell, and above {LARGEST_USEFUL_ERROR:.0%} a table says nothing; give {enough}, ask for "
        "fewer columns or coarser levels, or release more rows"
    )


def delta_warning(budget: Budget, rows: int | None = None) -> str | None:
    """Why the delta of a budget is too large: above one over the expected number of rows; None if it is not.

    A release that shows one row in full, chosen at random, is (0, 1/rows)-private.

    >>> delta_warning(Budget(epsilon=1.0, delta=1e-5), rows=200_000)
    'delta=1e-05 is above 1/200,000: showing a person at random would be as private; use far less, such as 1e-9'
    """
    delta = budget.delta or 0.0
    if rows is not None and delta > 1 / rows:
        return (
            f"delta={number_text(delta)} is above 1/{rows:,}: showing a person at random would be as private; use far "
            "less, such as 1e-9"
        )
    if delta > LARGE_DELTA:
        return f"delta={number_text(delta)} is the chance of an arbitrary leak; use far less, such as 1e-9"
    return None


def released_delta_warning(release: Release) -> str | None:
    """Why the delta of a release is too large for the rows that it estimates itself; None if it is not, or has none.

    Privacy: the number of rows is private, and a warning that depends on it would give it away. So this compares delta
    with the noisy number that the release holds, which is paid for and public. Before the release, only a number that
    the owner states can be used, as in `delta_warning`.
    """
    delta = release.statement.budget.delta or 0.0
    if delta * MOST_ROWS <= 1 or not release.estimates.covers(()):
        return None
    rows = float(release.counts(()))
    if rows * delta <= 1:
        return None
    return f"{delta_warning(release.statement.budget, round(rows))}; this release estimates that many rows"
