"""Mirror descent: the plain way to fit a model to any convex loss.

    theta <- theta - eta grad L(mu(theta))

is a step of mirror descent on mu with the entropy as its distance. The step is halved until the loss falls by half of
what its gradient promises and grows again after. Where the loss is not smooth the steps shrink as 1 / sqrt(t) and the
best point is kept.

Reference: [HDMM, sec. 4.3, Algorithm 2]; the rule for the step is not in the document.
"""

from __future__ import annotations

import math

import numpy as np

from hush.arrays import Floats
from hush.graphical._kernels import add, dot
from hush.graphical.fit_problem import STOPPED, TOLERANCE, FitPoint, FitProblem, Remaining, allowance
from hush.solution import SOLVED, Solution

ITERATIONS = 20_000
HALVINGS = 60
GROWTH = 1.3


def mirror_descent(
    problem: FitProblem, start: Floats, *, tolerance: float = TOLERANCE, iterations: int = ITERATIONS
) -> Solution[FitPoint]:
    """Descend from `start` until what remains does not matter beside the noise; see `Remaining`."""
    here, there = problem.point(start), problem.point(start)
    move = problem.smooth_step(here)
    remaining, left = Remaining(), math.inf
    remaining.add(here.value)
    problem.report(0, here)
    k, status = 0, SOLVED
    while left > allowance(tolerance, problem.loss.numbers, here.value):
        if k == iterations:
            status = f"{iterations} iterations were not enough; allow more, or raise tolerance={tolerance:g}"
            break
        step = _descend(problem, here, there, move)
        if step is None:
            left = 0.0  # no step lowers the loss: floats can tell no further
            break
        here, there, move = there, here, GROWTH * step
        k += 1
        left = remaining.add(here.value)
        if problem.report(k, here):
            status = STOPPED
            break
    return Solution(value=here, status=status, stats=problem.stats(here, k, left))


def _descend(problem: FitProblem, here: FitPoint, there: FitPoint, move: float) -> float | None:
    """One step along the gradient in mu, evaluated into `there`, and its length; None if no step lowers the loss."""
    for _ in range(HALVINGS):
        np.copyto(there.potentials, here.potentials)
        add(there.potentials, -move, here.gradient)
        problem.evaluate(there)
        promised = dot(here.gradient, here.counts) - dot(here.gradient, there.counts)
        if here.value - there.value >= 0.5 * promised and there.value < here.value:
            return move
        move *= 0.5
    return None


def subgradient_descent(
    problem: FitProblem, start: Floats, *, tolerance: float = TOLERANCE, iterations: int = 2000
) -> Solution[FitPoint]:
    """Mirror descent with steps that shrink as 1 / sqrt(t), for losses that are not smooth; keeps the best point.

    Its value is within O(1 / sqrt(iterations)) of the least. Only a lower bound can tell that it is near, so it counts
    as solved where that is close enough, and runs to the end otherwise.
    """
    here = problem.point(start)
    best = FitPoint(here.potentials.copy(), here.counts.copy(), here.gradient.copy(), here.value)
    problem.report(0, here)
    k, bound, status = 0, problem.lower_bound(here), SOLVED
    while best.value - bound > allowance(tolerance, problem.loss.numbers, best.value) and k < iterations:
        length = float(np.abs(here.gradient).max())
        if length == 0.0:
            break
        k += 1
        add(here.potentials, -1.0 / (length * math.sqrt(k)), here.gradient)
        problem.evaluate(here)
        bound = max(bound, problem.lower_bound(here))
        if here.value < best.value:
            for kept, new in zip(
                (best.potentials, best.counts, best.gradient),
                (here.potentials, here.counts, here.gradient),
                strict=True,
            ):
                np.copyto(kept, new)
            best.value = here.value
        if problem.report(k, best):
            status = STOPPED
            break
    problem.evaluate(best)
    gap = best.value - bound
    if status == SOLVED and gap > allowance(tolerance, problem.loss.numbers, best.value):
        status = (
            f"{k} steps along subgradients are certain to be within {gap:.3g} of the least loss only; "
            "allow more iterations, or give a smooth loss, such as CustomLoss(..., lipschitz=)"
        )
    stats = problem.stats(best, k, math.nan) | {"lower_bound": bound, "gap": gap}
    return Solution(value=best, status=status, stats=stats)
