"""Any convex loss: the noise that minimises a loss given by its value and gradient, with a certified gap.

    minimise  F(s) = loss(V s)   subject to  sum_A p_A / s_A <= c,      s = sigma^2.

F is convex, so with g = V^T gradient(V s) and the closed form as oracle for the linear problem,

    F(s) - min F  <=  g s - min_{s'} g s'  =  g s - (sum_A sqrt(p_A g_A))^2 / c,

the Frank-Wolfe gap. The search itself runs over z = log s, scaled so that the budget is spent exactly: the loss and the
constraint are convex in z as well (sums of exponentials), and L-BFGS gets there in tens of steps where Frank-Wolfe
would need thousands.

Reference: [ResidualPlanner, sec. 4.1, Def. of regular loss].
Differs from [ResidualPlanner]: the loss must not fall where a variance rises, which regularity as defined there does
not quite imply.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy

from hush.errors import WorkloadError
from hush.solution import SOLVED, Solution
from hush.strategies.closed_form import LEAST_SHARE, minimise_sum
from hush.strategies.losses import ConvexLoss

Floats = np.ndarray[Any, np.dtype[np.float64]]


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
    problem = _Problem(loss, variances, privacy, pcost, tolerance)
    start = minimise_sum(variances.T @ np.ones(variances.shape[0]), privacy, pcost)
    z = np.log(start)
    while not problem.done and problem.count < iterations:
        before = problem.count, problem.gap
        z = scipy.optimize.minimize(
            problem, z, jac=True, method="L-BFGS-B", callback=problem.stop, options=_options(iterations - problem.count)
        ).x
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
    return Solution(value=_floored(problem.best, privacy, pcost), status=status, stats=stats)


class _Problem:
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
        s = np.exp(np.clip(z - z.mean(), -300, 300))
        shares = self.privacy / s
        s = s * (shares.sum() / self.pcost)
        shares = shares / shares.sum()
        y = self.variances @ s
        value, slope = float(self.loss.value(y)), np.asarray(self.loss.gradient(y), dtype=np.float64)
        _require_slope(value, slope, y)
        g = self.variances.T @ slope
        self.count += 1
        if value < self.value:
            self.value, self.best = value, s
        pull = float(g @ s)
        lower = value - pull + float(np.sum(np.sqrt(self.privacy * g)) ** 2) / self.pcost
        self.lower = max(self.lower, lower)
        return value, g * s - pull * shares


def _floored(s: Floats, privacy: Floats, pcost: float) -> Floats:
    """The same noise with at least `LEAST_SHARE` / sets of the budget for every set."""
    shares = privacy / s
    shares = np.maximum(shares, LEAST_SHARE * shares.sum() / len(shares))
    return np.asarray(privacy * shares.sum() / (pcost * shares))


def _require_slope(value: float, slope: Floats, variances: Floats) -> None:
    if slope.shape != variances.shape:
        raise WorkloadError(
            f"the loss has a gradient of shape {slope.shape}: expected {variances.shape}, one entry per term"
        )
    if not (math.isfinite(value) and np.isfinite(slope).all()):
        raise WorkloadError("the loss or its gradient is not a finite number; it must be finite at positive variances")
    if slope.min(initial=0.0) < 0:
        raise WorkloadError("the loss falls where a variance rises; a loss must not have negative partial derivatives")


def _options(left: int) -> dict[str, float]:
    return {"maxiter": left, "maxfun": left, "ftol": 0.0, "gtol": 0.0, "maxcor": 20}
