"""Accelerated dual averaging: O(1 / t^2) without a line search, from a bound on the curvature of the loss.

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

import numpy as np

from hush.arrays import Floats
from hush.errors import WorkloadError
from hush.graphical.fit_problem import STOPPED, TOLERANCE, FitPoint, FitProblem, allowance
from hush.solution import SOLVED, Solution

ITERATIONS = 20_000
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
