"""Noise allocation: the noise of each residual set that makes a loss least within a privacy budget.

A loss is a weighted sum of variances, the largest variance, or any convex function of them; weights multiply
variance, as in `Workload`.

The sum has a closed form. The largest of many linear forms,

    minimise  max_i (R s)_i   subject to  sum_A p_A / s_A <= c,      s = sigma^2,

has the dual T(w) = (sum_A sqrt(p_A (R^T w)_A))^2 / c over weights w on the simplex; the closed form for w is
the primal point s(w), always within the budget, so that T(w) <= optimum <= max_i (R s(w))_i at any w. The step
w_i <- w_i (R s(w))_i^2 never lowers T (sqrt T is concave, and the step maximises a lower bound of it by Jensen's
inequality). Extrapolating two steps in log w (the squared extrapolation of [Varadhan and Roland 2008]) needs about a
fifth of the rounds; an extrapolation that would lower T is shortened until it does not.

Any convex loss F(s) = loss(V s) has, with g = V^T gradient(V s) and the closed form as oracle for the linear problem,
the Frank-Wolfe gap

    F(s) - min F  <=  g s - min_{s'} g s'  =  g s - (sum_A sqrt(p_A g_A))^2 / c.

The search itself runs over z = log s, scaled so that the budget is spent exactly: the loss and the constraint are
convex in z as well (sums of exponentials), and L-BFGS gets there in tens of steps where Frank-Wolfe would need
thousands.

Reference: [ResidualPlanner, sec. 4.1 and App. C].
Differs from [ResidualPlanner]: no conic solver, and the gap is proven at the point returned. The loss must not fall
when a variance rises, which is slightly stronger than regularity as defined there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import scipy

from hush.core.arrays import Floats
from hush.core.errors import WorkloadError, shown
from hush.core.solution import SOLVED, Solution
from hush.workloads import Workload


@dataclass(frozen=True, slots=True)
class SumOfVariances:
    """sum_i weight_i * (variances of the queries of term i, added up); "rmse" for short. Solved in closed form."""


@dataclass(frozen=True, slots=True)
class MaxVariance:
    """max_i weight_i * (largest variance of a query of term i); "maxvar" for short."""


@dataclass(frozen=True, slots=True)
class MaxOfSums:
    """The largest of several weighted sums of variances, one per stakeholder.

    A stakeholder is a workload within the planned one, or one weight >= 0 for each term of the planned one.
    """

    stakeholders: tuple[Workload | tuple[float, ...], ...]

    def __init__(self, stakeholders: Sequence[Workload | Sequence[float]]) -> None:
        if not stakeholders:
            raise WorkloadError("MaxOfSums: expected at least one stakeholder")
        checked: list[Workload | tuple[float, ...]] = []
        for stakeholder in stakeholders:
            if isinstance(stakeholder, Workload):
                checked.append(stakeholder)
                continue
            weights = tuple(float(weight) for weight in stakeholder)
            if not weights or min(weights) < 0 or max(weights) <= 0 or not np.isfinite(weights).all():
                raise WorkloadError(f"MaxOfSums: weights {shown(weights)}: expected numbers >= 0, one of them > 0")
            checked.append(weights)
        object.__setattr__(self, "stakeholders", tuple(checked))


@runtime_checkable
class ConvexLoss(Protocol):
    """A convex loss of the variances, one per term: the variance of each cell of a marginal, or the mean over the
    queries of another term. The loss must not fall when a variance rises, and must have a gradient everywhere.
    """

    def value(self, variances: Floats) -> float: ...
    def gradient(self, variances: Floats) -> Floats: ...


Loss: TypeAlias = SumOfVariances | MaxVariance | MaxOfSums | ConvexLoss

_NAMED: dict[str, Loss] = {"rmse": SumOfVariances(), "maxvar": MaxVariance()}


def loss_of(loss: str | Loss) -> Loss:
    """A loss by name, "rmse" or "maxvar", or the loss itself."""
    if isinstance(loss, str):
        if loss not in _NAMED:
            raise WorkloadError(f"loss={loss!r}: expected 'rmse', 'maxvar' or a loss object")
        return _NAMED[loss]
    if isinstance(loss, SumOfVariances | MaxVariance | MaxOfSums | ConvexLoss):
        return loss
    raise WorkloadError(f"loss={shown(loss)}: expected 'rmse', 'maxvar' or an object with value and gradient")


LEAST_SHARE = 1e-9  # of the budget, for all sets together that have no weight in the loss


def minimise_sum(
    loss: Floats,  # (sets,), v >= 0
    privacy: Floats,  # (sets,), p > 0
    pcost: float,
) -> Floats:
    """The sigma^2 that minimises sum_A v_A sigma^2_A subject to sum_A p_A / sigma^2_A <= c.

    sigma^2_A = sqrt(T p_A / (c v_A)) with T = (sum_A sqrt(v_A p_A))^2 / c, by the Cauchy-Schwarz inequality; T is the
    smallest sum. A set without weight in the loss gets a share of `LEAST_SHARE` / sets of the budget, so that the whole
    closure is measured and can be reconstructed.

    Complexity: O(sets).
    Reference: [ResidualPlanner, Lemma 4.5 and Thm 4.6].
    """
    return spent_in_shares(np.sqrt(loss * privacy), privacy, pcost)


def spent_in_shares(shares: Floats, privacy: Floats, pcost: float) -> Floats:
    """The sigma^2 that spends the budget in these shares, none below `LEAST_SHARE` / sets of it."""
    shares = np.maximum(shares, LEAST_SHARE * shares.sum() / len(shares))
    return np.asarray(privacy * shares.sum() / (pcost * shares))


def smallest_sum(loss: Floats, privacy: Floats, pcost: float) -> float:
    """T = (sum_A sqrt(v_A p_A))^2 / c: no noise within the budget has a smaller weighted sum of variances."""
    return float(np.sum(np.sqrt(loss * privacy)) ** 2 / pcost)


def minimise_largest(
    rows: scipy.sparse.csr_array,  # (rows, sets), non-negative
    privacy: Floats,  # (sets,)
    pcost: float,
    *,
    tolerance: float = 1e-4,
    iterations: int = 2000,
) -> Solution[Floats]:
    """The sigma^2 with the smallest max(rows @ sigma^2) within the budget, up to a relative gap.

    `stats` has `value`, `lower_bound`, `gap` and `iterations`, one iteration being one product with `rows` and one
    with its transpose.
    """
    if not (rows.shape[0] and float(rows.sum()) > 0):
        raise WorkloadError("a largest variance needs at least one query with a non-zero answer")
    search = _MaxSearch(rows, privacy, pcost, tolerance, iterations)
    search.run()
    gap = search.value / search.lower - 1
    status = SOLVED
    if gap > tolerance:
        status = (
            f"the largest variance is within {gap:.2g} of the best after {search.count} iterations, tolerance "
            f"{tolerance:g}; raise iterations or the tolerance"
        )
    stats = {"value": search.value, "lower_bound": search.lower, "gap": gap, "iterations": float(search.count)}
    return Solution(value=search.best, status=status, stats=stats)


@dataclass
class _MaxSearch:
    """The state of the search: the best point and the best bound so far."""

    rows: scipy.sparse.csr_array
    privacy: Floats
    pcost: float
    tolerance: float
    iterations: int
    value: float = np.inf
    lower: float = 0.0
    count: int = 0
    best: Floats = field(default_factory=lambda: np.zeros(0))

    def run(self) -> None:
        x = np.full(self.rows.shape[0], -np.log(self.rows.shape[0]))  # log w
        while not self._done():
            first, _ = self._step(x)
            if self._done():
                return
            second, height = self._step(first)
            if self._done():
                return
            x = self._extrapolate(x, first, second, height)

    def _extrapolate(self, x: Floats, first: Floats, second: Floats, height: float) -> Floats:
        """x + 2 t r + t^2 v, r being the first step and v its change; t = |r| / |v|, or less if that lowers T."""
        r = first - x
        v = second - first - r
        w = np.exp(first)
        length = float(np.sqrt(np.sum(w * r * r) / max(float(np.sum(w * v * v)), 1e-300)))
        while length > 1 and not self._done():
            reached, value = self._step(_normal(x + 2 * length * r + length**2 * v))
            if value >= height:
                return reached
            length = (length + 1) / 2 if length > 1.5 else 1.0
        return second

    def _step(self, x: Floats) -> tuple[Floats, float]:
        """One multiplicative step from log weights x, and T(x)."""
        w = np.exp(x)
        v = self.rows.T @ w
        height = float(np.sum(np.sqrt(self.privacy * v)) ** 2 / self.pcost)
        s = minimise_sum(v, self.privacy, self.pcost)
        variances = self.rows @ s
        value = float(variances.max())
        if value < self.value:
            self.value, self.best = value, s
        self.lower = max(self.lower, height)
        self.count += 1
        return _normal(x + 2 * np.log(np.maximum(variances, 1e-300))), height

    def _done(self) -> bool:
        return self.value <= (1 + self.tolerance) * self.lower or self.count >= self.iterations


def _normal(x: Floats) -> Floats:
    """The logs of weights that add up to one, none so low that it could not rise again."""
    x = np.maximum(x - x.max(), -600.0)
    return np.asarray(x - np.log(np.sum(np.exp(x))))


def minimise_loss(
    loss: ConvexLoss,
    variances: scipy.sparse.csr_array,  # (terms, sets), V
    privacy: Floats,  # (sets,)
    pcost: float,
    *,
    tolerance: float = 1e-4,
    iterations: int = 2000,
) -> Solution[Floats]:
    """The sigma^2 with the smallest loss(V sigma^2) within the budget, up to a gap of `tolerance` times |loss|.

    `stats` has `value`, `lower_bound`, `gap` (relative) and `iterations`, one for each value and gradient taken.
    """
    problem = _LossProblem(loss, variances, privacy, pcost, tolerance)
    z = np.log(minimise_sum(variances.T @ np.ones(variances.shape[0]), privacy, pcost))
    while not problem.done and problem.count < iterations:
        before = problem.count, problem.gap
        left = iterations - problem.count
        options = {"maxiter": left, "maxfun": left, "ftol": 0.0, "gtol": 0.0, "maxcor": 20}
        z = scipy.optimize.minimize(problem, z, jac=True, method="L-BFGS-B", callback=problem.stop, options=options).x
        problem(z)
        if problem.count <= before[0] + 3 or problem.gap >= before[1]:
            break  # the loss has a kink or is flat to the last digit; a restart would not help
    status = SOLVED
    if not problem.done:
        status = (
            f"the loss is within {problem.gap:.2g} of the best after {problem.count} iterations, tolerance "
            f"{tolerance:g}; raise iterations or the tolerance, and give maxima as MaxVariance or MaxOfSums"
        )
    stats = {
        "value": problem.value,
        "lower_bound": problem.lower,
        "gap": problem.gap,
        "iterations": float(problem.count),
    }
    return Solution(value=spent_in_shares(privacy / problem.best, privacy, pcost), status=status, stats=stats)


class _LossProblem:
    """F over z = log s, scaled to the budget; keeps the best point and the best lower bound."""

    def __init__(
        self, loss: ConvexLoss, variances: scipy.sparse.csr_array, privacy: Floats, pcost: float, tolerance: float
    ) -> None:
        self.loss, self.variances, self.privacy, self.pcost = loss, variances, privacy, pcost
        self.tolerance = tolerance
        self.value, self.lower, self.count = math.inf, -math.inf, 0
        self.best = np.zeros(0)

    @property
    def gap(self) -> float:
        """(value - lower bound) / |value|."""
        if not math.isfinite(self.value):
            return math.inf
        return (self.value - self.lower) / max(abs(self.value), 1e-300)

    @property
    def done(self) -> bool:
        return self.gap <= self.tolerance

    def stop(self, *_: Any) -> None:
        """Called by the solver after each step."""
        if self.done:
            raise StopIteration

    def __call__(self, z: Floats) -> tuple[float, Floats]:
        """F and its gradient at s = e^z (sum p e^-z) / c."""
        # Scale s to the budget; take the variances there, and the loss with its slope.
        s = np.exp(np.clip(z - z.mean(), -300, 300))
        shares = self.privacy / s
        s = s * (shares.sum() / self.pcost)
        shares = shares / shares.sum()
        y = self.variances @ s
        value, slope = float(self.loss.value(y)), np.asarray(self.loss.gradient(y), dtype=np.float64)
        if slope.shape != y.shape:
            raise WorkloadError(
                f"the loss has a gradient of shape {slope.shape}: expected {y.shape}, one entry per term"
            )
        if not (math.isfinite(value) and np.isfinite(slope).all()):
            raise WorkloadError(
                "the loss or its gradient is not a finite number; it must be finite at positive variances"
            )
        if slope.min(initial=0.0) < 0:
            raise WorkloadError(
                "the loss falls when a variance rises; a loss must not have negative partial derivatives"
            )
        # The gradient over s, the best point so far, and the Frank-Wolfe lower bound.
        g = self.variances.T @ slope
        self.count += 1
        if value < self.value:
            self.value, self.best = value, s
        pull = float(g @ s)
        lower = value - pull + float(np.sum(np.sqrt(self.privacy * g)) ** 2) / self.pcost
        self.lower = max(self.lower, lower)
        return value, g * s - pull * shares
