"""Usefulness: refuse a budget too small for the expected number of rows, and warn of a delta too large for it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from hush.core.errors import BudgetError
from hush.core.rational import float_up, shown_up
from hush.core.validation import check_whole
from hush.privacy.budget import Budget, number_text
from hush.privacy.noise import SMALLEST_SCALE, DiscreteGaussian
from hush.privacy.sensitivity import ONE_CELL, sensitivity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hush.mechanisms.plan import Plan
    from hush.release.release import Release

MEAN_ABSOLUTE = math.sqrt(2 / math.pi)  # E|z| of a standard normal z
LARGEST_USEFUL_ERROR = 1.0  # mean absolute error over the average cell
LARGE_DELTA = 1e-3  # for any number of rows
MOST_ROWS = 2**32  # that any mechanism takes


@dataclass(frozen=True, slots=True, kw_only=True)
class OneWay:
    """The noise of one-way tables over some columns, each measured at the same cost.

    A table of n_i cells over N rows has N / n_i rows in its average cell, and the mean absolute error of a count is
    sqrt(2/pi) sigma. Over all columns the average cell has N / mean(n_i) rows.
    """

    stddev: float
    cells: float  # mean(n_i)

    @classmethod
    def of(cls, plan: Plan, columns: Sequence[str], rho: Fraction) -> OneWay:
        """The noise of a plan's columns; never below the smallest scale."""
        bound = sensitivity(ONE_CELL, max_rows=plan.max_rows_per_unit, neighbours=plan.neighbours)
        law = DiscreteGaussian.for_rho(min(rho, bound.l2_squared / (2 * SMALLEST_SCALE**2)), bound)
        return cls(stddev=law.stddev, cells=float(np.mean([plan.domain[name] for name in columns])))

    def error(self, rows: int) -> float:
        """The mean absolute error of a count as a share of the average cell."""
        return MEAN_ABSOLUTE * self.stddev * self.cells / rows

    def rows(self, error: float) -> float:
        """The number of rows at which the mean absolute error is this share of the average cell."""
        return MEAN_ABSOLUTE * self.stddev * self.cells / error


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

    If the plan knows its errors, that of the most accurate marginal of the workload, or None without marginals. If not,
    that of one-way tables that get the whole budget, or None if these say nothing about the mechanism.
    """
    if plan.adaptive and not plan.settings.told_by_columns:
        return None
    if plan.adaptive:
        columns = plan.settings.columns(plan.workload)
        best = OneWay.of(plan, columns, plan.rho / len(columns))
        return best.error(rows), "one-way tables, had they all of the budget,"
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
    enough = _enough(plan, error / LARGEST_USEFUL_ERROR)
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
    with the noisy number that the release holds and anyone may see, once it is paid for. Before that, only a number
    that the owner states serves, as in `delta_warning`.
    """
    delta = release.statement.budget.delta or 0.0
    if delta * MOST_ROWS <= 1 or not release.estimates.covers(()):
        return None
    rows = float(release.counts(()))
    if rows * delta <= 1:
        return None
    return f"{delta_warning(release.statement.budget, round(rows))}; this release estimates that many rows"


def _enough(plan: Plan, ratio: float) -> str:
    """A budget whose noise is smaller by a ratio."""
    if plan.epsilon is not None:
        return f"at least epsilon={shown_up(plan.epsilon * Fraction(ratio))}"
    rho = plan.rho * Fraction(ratio) ** 2
    if plan.budget.epsilon is None:
        return f"at least rho={shown_up(rho)}"
    delta = plan.budget.delta or 1e-9
    worth = Budget(rho=float_up(rho)).epsilon_at(delta)
    return f"at least epsilon={shown_up(worth)} at delta={number_text(delta)}"
