"""Descents: four ways to find the potentials of least loss, and the potentials to start from.

`natural_descent` is the default: a quasi-Newton method that takes the fewest evaluations. `mirror_descent` and
`dual_averaging` are the first-order methods of [HDMM, sec. 4.3]. `subgradient_descent` is for losses that are not
smooth. All stop when the loss is within `tolerated_loss` of the least one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from hush.core.arrays import Floats, spread, summed
from hush.core.domain import Clique
from hush.core.errors import WorkloadError
from hush.core.solution import SOLVED, TOLERANCE, Solution
from hush.inference.factors import Factors
from hush.models.fit_arguments import tolerated_loss
from hush.models.graphical._kernels import add, dot, step_direction
from hush.models.graphical.fit_problem import STOPPED_BY_CALLBACK, FitPoint, FitProblem, Remaining
from hush.privacy.measurement import Measurement

FIRST_ORDER_ITERATIONS = 20_000
MOST_HALVINGS = 60  # of a step that does not lower the loss, before mirror descent gives up
STEP_GROWTH = 1.3  # each accepted step lets the next one be this much longer
ITERATIONS_PER_BOUND = 10  # dual averaging updates its lower bound this rarely, because a bound costs an oracle call
NATURAL_ITERATIONS = 5000
MOST_PAIRS, FEWEST_PAIRS = 24, 4  # that natural descent keeps
PAIR_MEMORY = 1 << 24  # bytes that pairs may take, even if the model itself takes less
LARGEST_MOVE = 10.0  # of a potential in one step
SUFFICIENT_DECREASE = 1e-4  # Armijo's constant: the share of the promised decrease that a step must achieve
MOST_BACKTRACKS = 20
MOST_REVIVALS = 4  # restarts of natural descent from damped potentials
LOWEST_POTENTIAL = -8.0  # of a cell relative to the largest of its table, in damped potentials
LEAST_START_COUNT = 0.3  # standard deviations of its noise: the least count a level starts with


def mirror_descent(
    problem: FitProblem, start: Floats, *, tolerance: float = TOLERANCE, iterations: int = FIRST_ORDER_ITERATIONS
) -> Solution[FitPoint]:
    """Steps theta <- theta - eta grad L(mu(theta)) from `start`: mirror descent on mu with the entropy as its distance.

    A step is halved until the loss falls by half of what the gradient promises, and grows again after.

    Reference: [HDMM, sec. 4.3, Algorithm 2]; the line search is not in the document.
    """
    here, there = problem.point(start), problem.point(start)
    step = problem.smooth_step(here)
    remaining, left = Remaining(), math.inf
    remaining.add(here.value)
    problem.report(0, here)
    k, status = 0, SOLVED
    while left > tolerated_loss(tolerance, problem.loss.numbers, here.value):
        if k == iterations:
            status = f"{iterations} iterations were not enough; allow more, or raise tolerance={tolerance:g}"
            break
        for _ in range(MOST_HALVINGS):
            np.copyto(there.potentials, here.potentials)
            add(there.potentials, -step, here.gradient)
            problem.evaluate(there)
            promised = dot(here.gradient, here.counts) - dot(here.gradient, there.counts)
            if here.value - there.value >= 0.5 * promised and there.value < here.value:
                break
            step *= 0.5
        else:
            left = 0.0  # no step lowers the loss: its change is below the precision of floats
            break
        here, there, step = there, here, STEP_GROWTH * step
        k += 1
        left = remaining.add(here.value)
        if problem.report(k, here):
            status = STOPPED_BY_CALLBACK
            break
    return Solution(value=here, status=status, stats=problem.stats(here, k, left))


def subgradient_descent(
    problem: FitProblem, start: Floats, *, tolerance: float = TOLERANCE, iterations: int = 2000
) -> Solution[FitPoint]:
    """Mirror descent with steps that shrink as 1 / sqrt(t), for losses that are not smooth; keeps the best point.

    The loss is within O(1 / sqrt(iterations)) of the least. Losses do not fall steadily, so only the lower bound can
    show that the optimum is near: the descent stops when its gap to the bound is small, or at the last iteration.
    """
    here = problem.point(start)
    best = FitPoint(here.potentials.copy(), here.counts.copy(), here.gradient.copy(), here.value)
    problem.report(0, here)
    k, bound, status = 0, problem.lower_bound(here), SOLVED
    while best.value - bound > tolerated_loss(tolerance, problem.loss.numbers, best.value) and k < iterations:
        length = float(np.abs(here.gradient).max())
        if length == 0.0:
            break
        k += 1
        add(here.potentials, -1.0 / (length * math.sqrt(k)), here.gradient)
        problem.evaluate(here)
        bound = max(bound, problem.lower_bound(here))
        if here.value < best.value:
            np.copyto(best.potentials, here.potentials)
            np.copyto(best.counts, here.counts)
            np.copyto(best.gradient, here.gradient)
            best.value = here.value
        if problem.report(k, best):
            status = STOPPED_BY_CALLBACK
            break
    problem.evaluate(best)
    gap = best.value - bound
    if status == SOLVED and gap > tolerated_loss(tolerance, problem.loss.numbers, best.value):
        status = (
            f"after {k} subgradient steps the loss may be {gap:.3g} above the least possible; allow more iterations, "
            "or give a smooth loss, such as CustomLoss(..., lipschitz=)"
        )
    stats = problem.stats(best, k, math.nan) | {"lower_bound": bound, "gap": gap}
    return Solution(value=best, status=status, stats=stats)


def dual_averaging(
    problem: FitProblem, start: Floats, *, tolerance: float = TOLERANCE, iterations: int = FIRST_ORDER_ITERATIONS
) -> Solution[FitPoint]:
    """Accelerated dual averaging: converges as O(1 / t^2) without a line search, from a bound on the curvature.

    With K the largest eigenvalue of the loss's Hessian and N the total, for t = 1, 2, ... and c = 2 / (t + 1):

        omega = (1 - c) mu + c nu,   g <- (1 - c) g + c grad L(omega),
        theta = - t (t + 1) / (4 K N) g,   nu = mu(theta),   mu <- (1 - c) mu + c nu.

    What converges at that rate is mu, an average of the counts of several models; the returned model is that of the
    last theta, with counts nu. Its loss does not fall steadily, so the descent stops by a lower bound: the average of
    the tangents of the loss at all omega, with the weights of g, is below the loss everywhere, and least at a single
    record. The bound rises at the same rate.

    Reference: [HDMM, sec. 4.3, Algorithm 3].
    Differs from [HDMM, sec. 4.3]: the division by N, for counts that add up to N instead of one.
    """
    if not problem.loss.smooth:
        raise WorkloadError("dual averaging needs a smooth loss; use estimator='mirror', or a smooth loss")
    # `here` is theta with nu; `counts` is mu; `average` and `intercept` are the averaged tangents.
    rate = 1.0 / (4.0 * problem.loss.lipschitz * problem.total)
    here = problem.point(start)
    counts, omega, gradient = here.counts.copy(), np.empty_like(start), np.empty_like(start)
    average, intercept, bound = np.zeros_like(start), 0.0, problem.lower_bound(here)
    problem.report(0, here)
    t, status = 0, SOLVED
    while here.value - bound > tolerated_loss(tolerance, problem.loss.numbers, here.value):
        if t == iterations:
            status = f"{iterations} iterations were not enough; allow more, or raise tolerance={tolerance:g}"
            break
        # One step of the recursion above.
        t += 1
        c = 2.0 / (t + 1.0)
        np.multiply(counts, 1.0 - c, out=omega)
        omega += c * here.counts
        value = problem.loss.value_and_gradient(omega, gradient)
        average *= 1.0 - c
        average += c * gradient
        intercept += c * (value - float(gradient @ omega) - intercept)
        np.multiply(average, -t * (t + 1.0) * rate, out=here.potentials)
        here.potentials += start
        problem.evaluate(here)
        counts *= 1.0 - c
        counts += c * here.counts
        if problem.report(t, here):
            status = STOPPED_BY_CALLBACK
            break
        # The averaged tangents are least at one record, the one that the average gradient favours most.
        if t % ITERATIONS_PER_BOUND == 0 or t == iterations:
            tangents = intercept - problem.total * problem.belief.largest(-average)
            bound = max(bound, tangents, problem.lower_bound(here))
    gap = here.value - bound
    stats = problem.stats(here, t, gap) | {"average": problem.loss.value(counts), "lower_bound": bound, "gap": gap}
    return Solution(value=here, status=status, stats=stats)


def independent_start(factors: Factors, measurements: Iterable[Measurement], total: float) -> Floats:
    """Potentials of independent attributes: each with the inverse-variance mean of its margins of all noisy tables.

    A level starts with at least 0.3 standard deviations of its noise, so that every level is possible.
    """
    sums: dict[str, tuple[Floats, float]] = {}
    for measurement in measurements:
        if measurement.query is not None:
            continue
        for name in measurement.clique:
            table = summed(measurement.values, measurement.clique, (name,))
            precision = table.size / (measurement.values.size * measurement.variance)
            before, weight = sums.get(name, (np.zeros(table.size), 0.0))
            sums[name] = (before + precision * table, weight + precision)
    potentials = np.zeros(factors.size)
    for index, clique in enumerate(factors.cliques):
        for name in clique:
            if name in sums:
                weighted, weight = sums.pop(name)
                level = np.maximum(weighted / weight, LEAST_START_COUNT / np.sqrt(weight))
                factors.table(potentials, index)[...] += spread(np.log(level / total), (name,), clique)
    return potentials


def damped(factors: Factors, potentials: Floats) -> Floats:
    """The potentials, none more than 8 below the largest of its table, so that cells near zero can grow again."""
    raised = potentials.copy()
    for index in range(len(factors)):
        table = factors.table(raised, index)
        np.maximum(table, table.max() + LOWEST_POTENTIAL, out=table)
    return raised


def warm_start(factors: Factors, known: Mapping[Clique, Floats]) -> Floats:
    """The damped potentials of an earlier model, and zero for new cliques.

    A table over a clique that no longer exists is added to the first clique that contains it. Without damping, cells
    near zero in the earlier model would have nearly no gradient, even if new measurements call for them.
    """
    potentials = np.zeros(factors.size)
    for clique, table in known.items():
        ordered = factors.domain.clique(clique)
        wider = (i for i, other in enumerate(factors.cliques) if set(ordered) <= set(other))
        home = factors.index(ordered) if ordered in factors else next(wider, None)
        if home is not None:
            factors.table(potentials, home)[...] += spread(table, clique, factors.cliques[home])
    return damped(factors, potentials)


def natural_descent(
    problem: FitProblem, start: Floats, *, tolerance: float = TOLERANCE, iterations: int = NATURAL_ITERATIONS
) -> Solution[FitPoint]:
    """A quasi-Newton method in the metric of the model; the default.

    For f(theta) = L(mu(theta)) let J(theta) = d mu / d theta, the covariance of the model's counts, symmetric and
    positive semi-definite. The gradient of f is J g with g = grad L(mu). In the metric J it is g itself: mirror descent
    is gradient descent in this metric. L-BFGS builds curvature from pairs s = change of theta, y = change of J g. Here
    its first inverse Hessian is eta J^{-1}, of which only two products are needed: J^{-1} (J g) = g and, as J changes
    little between iterations, J^{-1} y = change of g. An iteration costs one evaluation and one derivative along g.

    A cell that a step took to nearly zero has nearly no gradient, and `Remaining` may miss how far the loss can fall.
    So if the gap to the certified lower bound is larger than the loss itself, or no step lowers the loss, the descent
    restarts from damped potentials until that gains nothing.

    Reference: [HDMM, sec. 4.3, Algorithm 2] for the descent that this speeds up; the metric is ours.
    """
    best = _descend(problem, start, tolerance, iterations, 0)
    for _ in range(MOST_REVIVALS):
        room = tolerated_loss(tolerance, problem.loss.numbers, best.point.value)
        gap = best.point.value - problem.lower_bound(best.point)
        if best.status != SOLVED or gap <= room or (gap <= best.point.value and not best.jammed):
            break
        revived = _descend(problem, damped(problem.loss.factors, best.point.potentials), tolerance, iterations, best.k)
        better = revived.point.value < best.point.value - room
        if revived.point.value < best.point.value:
            best = revived
        if not better:
            break
    problem.evaluate(best.point)
    return Solution(value=best.point, status=best.status, stats=problem.stats(best.point, best.k, best.left))


@dataclass(slots=True)
class _Descent:
    """The end of a descent: point, iterations, loss that may be left, status; `jammed` if no step lowered the loss."""

    point: FitPoint
    k: int
    left: float
    status: str
    jammed: bool = False


def _descend(problem: FitProblem, start: Floats, tolerance: float, iterations: int, before: int) -> _Descent:
    """One descent by natural steps; iterations are counted from `before`, those of earlier descents."""
    here = problem.point(start)
    there = problem.point(start)
    slope = problem.tangent(here.gradient, np.empty_like(start))
    pairs = _Pairs(problem, start.size)
    remaining, left = Remaining(), math.inf
    direction, ahead = np.empty_like(start), np.empty_like(start)
    k = before
    remaining.add(here.value)
    if problem.report(k, here):
        return _Descent(here, k, left, STOPPED_BY_CALLBACK)
    while not left <= tolerated_loss(tolerance, problem.loss.numbers, here.value):
        if k >= iterations:
            status = f"{iterations} iterations were not enough; allow more, or raise tolerance={tolerance:g}"
            return _Descent(here, k, left, status)
        pairs.direct(here, slope, direction)
        if not _search(problem, here, there, slope, direction):
            if pairs.clear():
                continue
            return _Descent(here, k, 0.0, SOLVED, jammed=True)  # the change is below the precision of floats
        problem.tangent(there.gradient, ahead)
        pairs.add(here, there, slope, ahead)
        here, there, slope, ahead = there, here, ahead, slope
        k += 1
        left = remaining.add(here.value)
        if problem.report(k, here):
            return _Descent(here, k, left, STOPPED_BY_CALLBACK)
    if not math.isfinite(here.value):
        return _Descent(here, k, left, "the loss is not finite; check the measurements")
    return _Descent(here, k, left, SOLVED)


def _search(problem: FitProblem, here: FitPoint, there: FitPoint, slope: Floats, direction: Floats) -> bool:
    """Backtracking: evaluate a step that lowers the loss enough into `there`; False if there is none."""
    descent = dot(slope, direction)
    if not descent < 0.0:
        return False
    step = min(1.0, LARGEST_MOVE / float(np.abs(direction).max()))
    for _ in range(MOST_BACKTRACKS):
        np.copyto(there.potentials, here.potentials)
        add(there.potentials, step, direction)
        problem.evaluate(there)
        if there.value <= here.value + SUFFICIENT_DECREASE * step * descent:
            return there.value < here.value
        # The minimum of the parabola through both values with the slope here, kept between a tenth and half the step.
        excess = there.value - here.value - step * descent
        best = -0.5 * descent * step * step / excess if math.isfinite(excess) else 0.0
        step = min(max(best, 0.1 * step), 0.5 * step)
    return False


class _Pairs:
    """The pairs of natural descent: steps, changes of g and of J g, and the direction that they give."""

    def __init__(self, problem: FitProblem, size: int) -> None:
        room = max(PAIR_MEMORY, 16 * problem.belief.cells)
        self._free = list(range(min(max(room // (24 * max(size, 1)), FEWEST_PAIRS), MOST_PAIRS)))
        self._used: list[int] = []  # oldest first
        self._scratch = np.empty(size)
        self._loss = problem.loss
        self._steps, self._naturals, self._changes = (np.empty((len(self._free), size)) for _ in range(3))

    def direct(self, here: FitPoint, slope: Floats, direction: Floats) -> None:
        """Write the descent direction; without pairs, that of mirror descent scaled by the curvature of the loss."""
        if not self._used:
            curvature = dot(slope, self._loss.curvature(here.counts, slope, out=self._scratch))
            scale = dot(here.gradient, slope) / curvature if curvature > 0.0 else 1.0
            np.multiply(here.gradient, -scale, out=direction)
            return
        last = self._used[-1]
        scale = dot(self._steps[last], self._changes[last]) / dot(self._naturals[last], self._changes[last])
        held = (np.array(self._used, dtype=np.int64), self._steps, self._naturals, self._changes)
        step_direction(*held, scale, here.gradient, slope, self._scratch, direction)

    def add(self, here: FitPoint, there: FitPoint, before: Floats, after: Floats) -> None:
        """Keep the pair of one step if the loss is convex along it, in place of the oldest if all are used."""
        row = self._free.pop() if self._free else self._used.pop(0)
        step, natural, change = self._steps[row], self._naturals[row], self._changes[row]
        np.subtract(there.potentials, here.potentials, out=step)
        np.subtract(there.gradient, here.gradient, out=natural)
        np.subtract(after, before, out=change)
        convex = dot(step, change) > 0.0 and dot(natural, change) > 0.0
        (self._used if convex else self._free).append(row)

    def clear(self) -> bool:
        """Drop all pairs; False if there were none."""
        had = bool(self._used)
        self._free += self._used
        self._used = []
        return had
