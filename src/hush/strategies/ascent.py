"""Newton's method for weights that add up to one, under a dual of homogeneous degree below one.

Duals of strategy selection are powers of a concave f(d), d >= 0, of degree k < 1 in the weights: f(td) = t^k f(d). With
x = gradient / k, the weighted mean of x is f, and at the best weights x = f wherever d > 0 and x <= f elsewhere. In
z = log d, scaled so that f = sum d = 1, the step solves

    (M + diag(d max(1 - x, 0)) + mu diag(d)) dz = d (x - 1),        M = -D (Hessian / k) D,

which is positive definite, keeps every weight positive and lets those of slack constraints die. The first step is the
fixed point's, d <- d x^2; a step that loses ground is taken back and replaced by d <- d x. Weights may come in groups,
each adding up to one.

Reference: [Boyd & Vandenberghe 2004, sec. 9.5] for Newton's method.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import scipy

from hush.solution import SOLVED, Solution

Floats = np.ndarray[Any, np.dtype[np.float64]]
Primal = TypeVar("Primal")

_DAMPING = 1e-3
_ROUNDING = 1e-10  # of the dual value, where queries differ much in scale
_LEAST = 1e-100  # a weight; slack constraints go on losing theirs
_LONGEST = 2.0  # the most that the log of a weight moves in a step


@dataclass(frozen=True, slots=True, kw_only=True)
class Point(Generic[Primal]):
    """What is known at some weights: bounds on the optimum, x / f, and M / f when it is asked for.

    Steps of log d are `stretch` times those of the variable that M is the curvature in.
    """

    lower: float
    upper: float
    primal: Primal
    slope: Floats  # (n,)
    curvature: Callable[[], Floats]  # -> (n, n)
    stretch: Floats | float = 1.0  # (n,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ascent(Generic[Primal]):
    """The best primal point met, its value, and the best weights with theirs."""

    primal: Primal
    upper: float
    weights: Floats  # (n,)
    lower: float


def ascend(
    evaluate: Callable[[Floats], Point[Primal]],
    start: Floats,  # (n,)
    *,
    tolerance: float,
    iterations: int,
    first: int | None = None,
) -> Solution[Ascent[Primal]]:
    """Weights whose primal point is within a factor 1 + `tolerance` of the best, or a status that says how far it is.

    The `first` weights add up to one and the others do, or all of them together. `stats` has `iterations`
    (evaluations), `value`, `lower_bound` and `gap`, which is certified: value / bound - 1.
    """
    weights = _normalised(start, first)
    upper, lower, damping, retreated = np.inf, 0.0, _DAMPING, False
    for iteration in range(1, iterations + 1):
        point = evaluate(weights)
        if point.upper < upper or iteration == 1:
            upper, primal = point.upper, point.primal
        gained = point.lower >= lower * (1 - _ROUNDING)
        if gained:
            lower, best, slope = max(lower, point.lower), weights, point.slope
        if upper <= (1 + tolerance) * lower or iteration == iterations or (retreated and not gained):
            break
        if not gained:
            damping, weights, retreated = 10 * damping, best * slope, True
        elif iteration == 1:
            weights, retreated = weights * slope**2, False
        else:
            step = point.stretch * _newton(weights, slope, point.curvature(), damping)
            weights, retreated = weights * np.exp(np.clip(step, -_LONGEST, _LONGEST)), False
        weights = _normalised(weights, first)
        del point  # and the arrays behind it, before the next are made
    gap = upper / lower - 1 if lower > 0 else 0.0
    status = SOLVED
    if gap > tolerance:
        status = f"within {gap:.2g} of the best, not the {tolerance:g} asked for; raise iterations or the tolerance"
    return Solution(
        value=Ascent(primal=primal, upper=upper, weights=best, lower=lower),
        status=status,
        stats={"iterations": float(iteration), "value": upper, "lower_bound": lower, "gap": gap},
    )


def _newton(weights: Floats, slope: Floats, curvature: Floats, damping: float) -> Floats:
    short = slope - 1
    diagonal = weights * (np.maximum(-short, 0) + damping * np.abs(short).max() + 1e-12)
    curvature[np.diag_indices_from(curvature)] += diagonal
    scale = 1 / np.sqrt(curvature.diagonal())
    curvature *= scale[:, None]
    curvature *= scale
    try:
        root = scipy.linalg.cho_factor(curvature.T, overwrite_a=True, check_finite=False)
        return np.asarray(scale * scipy.linalg.cho_solve(root, scale * weights * short, check_finite=False))
    except scipy.linalg.LinAlgError:
        return np.asarray(short)


def _normalised(weights: Floats, first: int | None) -> Floats:
    weights = np.maximum(weights, _LEAST)
    if first is None:
        return np.asarray(weights / weights.sum())
    return np.concatenate([weights[:first] / weights[:first].sum(), weights[first:] / weights[first:].sum()])
