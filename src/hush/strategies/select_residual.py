"""Select: the noise for a workload, within a privacy budget or for a target error."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import scipy

from hush.core.arrays import Floats
from hush.core.errors import BudgetError, WorkloadError
from hush.core.solution import Solution
from hush.core.validation import check_number
from hush.privacy.sensitivity import Neighbours
from hush.strategies.closure import Closure
from hush.strategies.noise_allocation import (
    Loss,
    MaxOfSums,
    MaxVariance,
    SumOfVariances,
    loss_of,
    minimise_largest,
    minimise_loss,
    minimise_sum,
    smallest_sum,
    spent_in_shares,
)
from hush.strategies.residual_basis import ResidualBasis
from hush.strategies.residual_strategy import ResidualStrategy
from hush.strategies.term_table import TermTable
from hush.strategies.variance_forms import largest_variances, mean_variances, privacy_coefficients
from hush.workloads import Workload


def select_residual(
    workload: Workload,
    *,
    rho: Fraction | float,
    loss: str | Loss = "rmse",
    bases: Mapping[str, ResidualBasis] | None = None,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    tolerance: float = 1e-4,
    iterations: int = 2000,
) -> Solution[ResidualStrategy]:
    """The residual strategy with the smallest loss on a workload among those that cost at most rho-zCDP.

    `loss` is "rmse" (closed form), "maxvar", `MaxOfSums` or any `ConvexLoss`, the last three up to a proven relative
    gap of `tolerance`. `bases` replaces the bases that are otherwise chosen for each attribute. `stats` has `value`
    (the loss: total weighted variance, largest weighted variance, ...), `lower_bound`, `gap` and `iterations`.

    Nothing has the size of the domain; time and memory grow with the number of subsets of the workload's cliques.

    >>> from hush.core.domain import Domain
    >>> workload = Workload.upto(Domain({f"a{i}": 10 for i in range(6)}), 3)
    >>> plan = select_residual(workload, rho=0.5).checked()
    >>> round(plan.rmse(workload), 6), len(plan.closure)
    (4.275167, 42)

    Reference: [ResidualPlanner, sec. 4.1-4.3].
    """
    check_number(BudgetError, "rho", rho, above=0)
    problem = NoiseProblem.of(workload, loss_of(loss), bases, neighbours)
    noise = problem.solve(float(2 * rho), tolerance, iterations)
    return problem.strategy(noise, Fraction(rho))


def direct_residual(
    workload: Workload, *, rho: Fraction, neighbours: Neighbours = Neighbours.ADD_REMOVE
) -> ResidualStrategy:
    """Noise on every answer of a workload of marginals and thresholds, made consistent by least squares.

    Term t over the clique C multiplies the residual of A by lambda_A (1 for a marginal). If each of its answers has
    noise of variance s_t^2, it gives that residual with variance s_t^2 prod_{C \\ A} n_i / lambda_A^2. Noise on the
    answers of one term is uncorrelated between sets, so the best unbiased estimate from all answers is that of
    residuals with

        1 / sigma_A^2 = sum_t lambda_{t,A}^2 / (s_t^2 prod_{C_t \\ A} n_i),

    which costs the same. The budget of term t is proportional to sqrt(w_t g_t m_t), where one row changes g_t of its
    m_t answers. A set that no answer depends on gets next to nothing.

    Reference: [Li 2013, Prop. 2.5]; [HDMM, sec. 3.5] for marginals; `threshold_term` for lambda.
    """
    table = TermTable.of(workload)
    closure, bases = table.closure(), table.bases()
    moved = np.array([term.sensitivity(1) for term in workload])  # answers that one row changes, by one each
    precision = np.sqrt(table.weights * table.queries / moved)  # 1 / s_t^2, up to a factor
    # In the mean variance of a term, sigma_A^2 has the factor lambda_A^2 prod_A (1 - 1 / n_i) / prod_{C \ A} n_i^2.
    shares = mean_variances(table, closure, bases).T @ (precision * table.queries)
    shares = shares / closure.products(np.array(workload.domain.shape, dtype=np.float64))
    noise = spent_in_shares(shares, privacy_coefficients(closure, bases), float(2 * rho))
    noise *= float(np.sum(privacy_coefficients(closure, bases, neighbours) / noise)) / float(2 * rho)
    return ResidualStrategy(workload.domain, bases, closure, noise, rho, neighbours)


def select_for_target(
    workload: Workload,
    *,
    target: float,
    loss: str | Loss = "rmse",
    bases: Mapping[str, ResidualBasis] | None = None,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    tolerance: float = 1e-4,
    iterations: int = 2000,
) -> Solution[ResidualStrategy]:
    """The cheapest residual strategy that reaches a target; its `rho` is the budget to ask for.

    `target` is the RMSE for "rmse" (as `ResidualStrategy.rmse`), the largest standard deviation for "maxvar" (the root
    of `max_variance`), and the value of the loss for `MaxOfSums` and any other. `stats["rho_lower_bound"]` is a budget
    below which no strategy of this form reaches the target.

    Reference: [ResidualPlanner, eq. (2), utility-constrained].
    """
    check_number(WorkloadError, "target", target, above=0)
    chosen = loss_of(loss)
    problem = NoiseProblem.of(workload, chosen, bases, neighbours)
    if isinstance(chosen, SumOfVariances | MaxVariance | MaxOfSums):
        # Variances are proportional to 1 / budget, so the plan for budget 1 is scaled.
        noise = problem.solve(1.0, tolerance, iterations)
        aim = problem.aim(target)
        pcost, least = noise.stats["value"] / aim, noise.stats["lower_bound"] / aim
    else:
        pcost, least = _bisect(problem, target, tolerance, iterations)
    # A slightly larger budget, so that rounding does not miss the target.
    rho = Fraction(math.nextafter(pcost * (1 + 1e-12) / 2, math.inf))
    noise = problem.solve(float(2 * rho), tolerance, iterations)
    selected = problem.strategy(noise, rho)
    return Solution(
        value=selected.value, status=selected.status, stats={**selected.stats, "rho_lower_bound": least / 2}
    )


@dataclass(frozen=True, slots=True)
class NoiseProblem:
    """A workload and a loss as coefficients, for any budget."""

    table: TermTable
    closure: Closure
    bases: tuple[ResidualBasis | None, ...]
    neighbours: Neighbours
    privacy: Floats  # (sets,)
    loss: Loss
    rows: scipy.sparse.csr_array  # (rows, sets): what the loss is a function of

    @classmethod
    def of(
        cls, workload: Workload, loss: Loss, bases: Mapping[str, ResidualBasis] | None, neighbours: Neighbours
    ) -> NoiseProblem:
        table = TermTable.of(workload)
        closure = table.closure()
        chosen = table.bases(dict(bases or {}))
        privacy = privacy_coefficients(closure, chosen, neighbours)
        if isinstance(loss, MaxVariance):
            rows, terms = largest_variances(table, closure, chosen)
            rows = _scaled(rows, table.weights[terms])
        else:
            rows = mean_variances(table, closure, chosen)
            if isinstance(loss, MaxOfSums):
                sums = [_stakeholder_sum(each, table, rows, closure, chosen) for each in loss.stakeholders]
                rows = scipy.sparse.csr_array(np.array(sums))
            elif isinstance(loss, SumOfVariances):
                rows = _scaled(rows, table.weights * table.queries)
        return cls(table, closure, chosen, neighbours, privacy, loss, rows)

    def solve(self, pcost: float, tolerance: float, iterations: int) -> Solution[Floats]:
        if isinstance(self.loss, SumOfVariances):
            v = np.asarray(self.rows.sum(axis=0)).ravel()
            s = minimise_sum(v, self.privacy, pcost)
            total = float(v @ s)
            lower = smallest_sum(v, self.privacy, pcost)
            stats = {"value": total, "lower_bound": lower, "gap": total / lower - 1, "iterations": 0.0}
            return Solution(value=s, stats=stats)
        if isinstance(self.loss, MaxVariance | MaxOfSums):
            return minimise_largest(self.rows, self.privacy, pcost, tolerance=tolerance, iterations=iterations)
        return minimise_loss(self.loss, self.rows, self.privacy, pcost, tolerance=tolerance, iterations=iterations)

    def strategy(self, noise: Solution[Floats], rho: Fraction) -> Solution[ResidualStrategy]:
        strategy = ResidualStrategy(self.table.domain, self.bases, self.closure, noise.value, rho, self.neighbours)
        return Solution(value=strategy, status=noise.status, stats=noise.stats)

    def aim(self, target: float) -> float:
        """The value of the loss at which a stated target is met."""
        if isinstance(self.loss, SumOfVariances):
            return target**2 * float(np.sum(self.table.weights * self.table.queries))
        return target**2 if isinstance(self.loss, MaxVariance) else target


def _stakeholder_sum(
    stakeholder: Workload | tuple[float, ...],
    table: TermTable,
    means: scipy.sparse.csr_array,
    closure: Closure,
    bases: tuple[ResidualBasis | None, ...],
) -> Floats:
    """The coefficients of one stakeholder's weighted sum of variances: (sets,)."""
    if isinstance(stakeholder, Workload):
        if stakeholder.domain != table.domain:
            raise WorkloadError("a stakeholder's workload is over another domain; build all over one domain")
        theirs = TermTable.of(stakeholder)
        return np.asarray(mean_variances(theirs, closure, bases).T @ (theirs.weights * theirs.queries))
    if len(stakeholder) != len(table.weights):
        raise WorkloadError(
            f"a stakeholder gives {len(stakeholder)} weights for {len(table.weights)} terms; give one each"
        )
    return np.asarray(means.T @ (np.array(stakeholder) * table.queries))


def _scaled(rows: scipy.sparse.csr_array, factors: Floats) -> scipy.sparse.csr_array:
    """Row i times factor i, in place."""
    rows.data *= np.repeat(factors, np.diff(rows.indptr))
    return rows


def _bisect(problem: NoiseProblem, target: float, tolerance: float, iterations: int) -> tuple[float, float]:
    """The least budget, up to the tolerance, whose best loss reaches the target, and one that is provably too small.

    The best loss falls as the budget grows: bracket the budget by factors of 4, then bisect its logarithm.
    """
    too_small = 0.0

    def reaches(pcost: float) -> bool:
        nonlocal too_small
        stats = problem.solve(pcost, tolerance, iterations).stats
        if stats["lower_bound"] > target:
            too_small = max(too_small, pcost)
        return stats["value"] <= target

    high = 1.0
    while not reaches(high):
        high *= 4
        if high > 1e18:
            raise WorkloadError(f"target={target!r}: no budget reaches this value of the loss; raise the target")
    low = high / 4
    while reaches(low):
        high, low = low, low / 4
        if low < 1e-18:
            raise WorkloadError(f"target={target!r}: every budget reaches this value of the loss; lower the target")
    while high > low * (1 + tolerance):
        middle = math.sqrt(low * high)
        if reaches(middle):
            high = middle
        else:
            low = middle
    return high, too_small
