"""Mirror descent and accelerated dual averaging: first-order ways to fit a model to a convex loss.

    theta <- theta - eta grad L(mu(theta))

is a step of mirror descent on mu with the entropy as its distance. The step is halved until the loss falls by half of
what its gradient promises and grows again after. Where the loss is not smooth the steps shrink as 1 / sqrt(t) and the
best point is kept.

Reference: [HDMM, sec. 4.3, Algorithm 2]; the rule for the step is not in the document.

Accelerated dual averaging converges as O(1 / t^2) without a line search, from a bound on the curvature of the loss.

With K the largest eigenvalue of the loss's Hessian and N the total, for t = 1, 2, ... and c = 2 / (t + 1):

    omega = (1 - c) mu + c nu,   g <- (1 - c) g + c grad L(omega),
    theta = - t (t + 1) / (4 K N) g,   nu = mu(theta),   mu <- (1 - c) mu + c nu.

What converges at that rate is mu, an average of models' counts; the model that is returned is that of the last theta,
whose counts are nu. Losses do not fall steadily here, so nothing is read off them; instead the tangents of the loss at
all omega, averaged like g, are below it everywhere, and least at one record: that lower bound rises at the same rate,
and the method stops once the loss of nu is certain to be near enough to it.

Reference: [HDMM, sec. 4.3, Algorithm 3].
Differs from [HDMM, sec. 4.3]: the division by N, for counts that add up to N and not to one.
"""

from __future__ import annotations

import math

import numpy as np

from hush.core.arrays import Floats
from hush.core.errors import WorkloadError
from hush.core.solution import SOLVED, TOLERANCE, Solution
from hush.models.graphical._kernels import add, dot
from hush.models.graphical.fit_problem import STOPPED, FitPoint, FitProblem, Remaining, allowance

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


CHECKS = 10  # iterations between looks at the bound


def dual_averaging(
    problem: FitProblem, start: Floats, *, tolerance: float = TOLERANCE, iterations: int = ITERATIONS
) -> Solution[FitPoint]:
    """Average gradients from `start` until what remains does not matter beside the noise; see `allowance`."""
    if not problem.loss.smooth:
        raise WorkloadError("dual averaging needs a smooth loss; use estimator='mirror', or a smoothed loss")
    rate = 1.0 / (4.0 * problem.loss.lipschitz * problem.total)
    here = problem.point(start)
    counts, middle, gradient = here.counts.copy(), np.empty_like(start), np.empty_like(start)
    average, intercept, bound = np.zeros_like(start), 0.0, problem.lower_bound(here)
    problem.report(0, here)
    t, status = 0, SOLVED
    while here.value - bound > allowance(tolerance, problem.loss.numbers, here.value):
        if t == iterations:
            status = f"{iterations} iterations were not enough; allow more, or raise tolerance={tolerance:g}"
            break
        t += 1
        c = 2.0 / (t + 1.0)
        np.multiply(counts, 1.0 - c, out=middle)
        middle += c * here.counts
        value = problem.loss.value_and_gradient(middle, gradient)
        average *= 1.0 - c
        average += c * gradient
        intercept += c * (value - float(gradient @ middle) - intercept)
        np.multiply(average, -t * (t + 1.0) * rate, out=here.potentials)
        here.potentials += start
        problem.evaluate(here)
        counts *= 1.0 - c
        counts += c * here.counts
        if problem.report(t, here):
            status = STOPPED
            break
        if t % CHECKS == 0 or t == iterations:
            tangents = intercept - problem.total * problem.belief.largest(-average)
            bound = max(bound, tangents, problem.lower_bound(here))
    gap = here.value - bound
    stats = problem.stats(here, t, gap) | {"average": problem.loss.value(counts), "lower_bound": bound, "gap": gap}
    return Solution(value=here, status=status, stats=stats)
