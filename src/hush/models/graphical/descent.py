"""Natural descent: a quasi-Newton method in the metric of the model, and the potentials that estimators start from.

For f(theta) = L(mu(theta)) let J(theta) = d mu / d theta, the covariance of a model's counts, symmetric and positive
semi-definite. The gradient of f is J g with g = grad L(mu), and in the metric J it is g itself: mirror descent is
gradient descent in this metric. L-BFGS builds curvature from pairs s = change of theta, y = change of J g; here its
first inverse Hessian is eta J^{-1}, of which only two products are needed, J^{-1} (J g) = g and, as J changes little
between iterations, J^{-1} y = change of g. An iteration costs one evaluation and one derivative along g.

Reference: [HDMM, sec. 4.3, Algorithm 2] for the descent it speeds up; the metric in place of the identity is ours.
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
from hush.models.graphical.fit_problem import STOPPED, FitPoint, FitProblem, Remaining
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
    """Descend from `start` until what remains does not matter beside the noise; see `Remaining`."""
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
            status = STOPPED
            break
    return Solution(value=here, status=status, stats=problem.stats(here, k, left))


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
    while best.value - bound > tolerated_loss(tolerance, problem.loss.numbers, best.value) and k < iterations:
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
    if status == SOLVED and gap > tolerated_loss(tolerance, problem.loss.numbers, best.value):
        status = (
            f"{k} steps along subgradients are certain to be within {gap:.3g} of the least loss only; "
            "allow more iterations, or give a smooth loss, such as CustomLoss(..., lipschitz=)"
        )
    stats = problem.stats(best, k, math.nan) | {"lower_bound": bound, "gap": gap}
    return Solution(value=best, status=status, stats=stats)


def dual_averaging(
    problem: FitProblem, start: Floats, *, tolerance: float = TOLERANCE, iterations: int = FIRST_ORDER_ITERATIONS
) -> Solution[FitPoint]:
    """Average gradients from `start` until what remains does not matter beside the noise; see `tolerated_loss`."""
    if not problem.loss.smooth:
        raise WorkloadError("dual averaging needs a smooth loss; use estimator='mirror', or a smoothed loss")
    rate = 1.0 / (4.0 * problem.loss.lipschitz * problem.total)
    here = problem.point(start)
    counts, middle, gradient = here.counts.copy(), np.empty_like(start), np.empty_like(start)
    average, intercept, bound = np.zeros_like(start), 0.0, problem.lower_bound(here)
    problem.report(0, here)
    t, status = 0, SOLVED
    while here.value - bound > tolerated_loss(tolerance, problem.loss.numbers, here.value):
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
        if t % ITERATIONS_PER_BOUND == 0 or t == iterations:
            tangents = intercept - problem.total * problem.belief.largest(-average)
            bound = max(bound, tangents, problem.lower_bound(here))
    gap = here.value - bound
    stats = problem.stats(here, t, gap) | {"average": problem.loss.value(counts), "lower_bound": bound, "gap": gap}
    return Solution(value=here, status=status, stats=stats)


def independent_start(factors: Factors, measurements: Iterable[Measurement], total: float) -> Floats:
    """Potentials of the product of one-way tables, each the inverse-variance mean of all tables that hold it.

    A level with less than 0.3 standard deviations of its own noise starts there, so that every level is possible.
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
    """The potentials, none more than 8 below the largest of its table: cells near zero can come back."""
    raised = potentials.copy()
    for index in range(len(factors)):
        table = factors.table(raised, index)
        np.maximum(table, table.max() + LOWEST_POTENTIAL, out=table)
    return raised


def warm_start(factors: Factors, known: Mapping[Clique, Floats]) -> Floats:
    """Potentials known for some cliques, damped, and zero for all others.

    A table over a clique that is no longer there goes to the first one that holds it. Undamped, cells that were zero
    for the model before would be so small that the descent does not see that a new measurement wants them.
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
    """Descend from `start` until what remains does not matter beside the noise; see `Remaining`.

    A cell that a step took to nearly nothing has nearly no gradient left, and may be missed by the rule for stopping.
    So where the certain lower bound is further below than the loss itself, or no step lowers the loss any more, the
    descent restarts from damped potentials until that gains nothing.
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
    """Where a descent ended, after how many iterations, and how; `jammed` where no step lowered the loss."""

    point: FitPoint
    k: int
    left: float
    status: str
    jammed: bool = False


def _descend(problem: FitProblem, start: Floats, tolerance: float, iterations: int, before: int) -> _Descent:
    """One descent, after `before` iterations of earlier ones."""
    here = problem.point(start)
    there = problem.point(start)
    slope = problem.tangent(here.gradient, np.empty_like(start))
    pairs = _Pairs(problem, start.size)
    remaining, left = Remaining(), math.inf
    direction, ahead = np.empty_like(start), np.empty_like(start)
    k = before
    remaining.add(here.value)
    if problem.report(k, here):
        return _Descent(here, k, left, STOPPED)
    while not left <= tolerated_loss(tolerance, problem.loss.numbers, here.value):
        if k >= iterations:
            status = f"{iterations} iterations were not enough; allow more, or raise tolerance={tolerance:g}"
            return _Descent(here, k, left, status)
        pairs.direct(here, slope, direction)
        if not _search(problem, here, there, slope, direction):
            if pairs.clear():
                continue
            return _Descent(here, k, 0.0, SOLVED, jammed=True)  # floats can tell no further
        problem.tangent(there.gradient, ahead)
        pairs.add(here, there, slope, ahead)
        here, there, slope, ahead = there, here, ahead, slope
        k += 1
        left = remaining.add(here.value)
        if problem.report(k, here):
            return _Descent(here, k, left, STOPPED)
    if not math.isfinite(here.value):
        return _Descent(here, k, left, "the loss is not finite; check the measurements")
    return _Descent(here, k, left, SOLVED)


def _search(problem: FitProblem, here: FitPoint, there: FitPoint, slope: Floats, direction: Floats) -> bool:
    """A step along the direction that lowers the loss enough, evaluated into `there`; False if there is none."""
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
        bend = there.value - here.value - step * descent
        best = -0.5 * descent * step * step / bend if math.isfinite(bend) else 0.0
        step = min(max(best, 0.1 * step), 0.5 * step)
    return False


class _Pairs:
    """The last steps, the changes of the gradient in both forms, and the direction they suggest."""

    def __init__(self, problem: FitProblem, size: int) -> None:
        room = max(PAIR_MEMORY, 16 * problem.belief.cells)
        self._free = list(range(min(max(room // (24 * max(size, 1)), FEWEST_PAIRS), MOST_PAIRS)))
        self._used: list[int] = []  # oldest first
        self._scratch = np.empty(size)
        self._loss = problem.loss
        self._steps, self._naturals, self._changes = (np.empty((len(self._free), size)) for _ in range(3))

    def direct(self, here: FitPoint, slope: Floats, direction: Floats) -> None:
        """Write the direction to go; without pairs it is that of mirror descent, as far as the loss's bend allows."""
        if not self._used:
            bend = dot(slope, self._loss.curvature(here.counts, slope, out=self._scratch))
            scale = dot(here.gradient, slope) / bend if bend > 0.0 else 1.0
            np.multiply(here.gradient, -scale, out=direction)
            return
        last = self._used[-1]
        scale = dot(self._steps[last], self._changes[last]) / dot(self._naturals[last], self._changes[last])
        held = (np.array(self._used, dtype=np.int64), self._steps, self._naturals, self._changes)
        step_direction(*held, scale, here.gradient, slope, self._scratch, direction)

    def add(self, here: FitPoint, there: FitPoint, before: Floats, after: Floats) -> None:
        """Keep the pair of one step, in place of the oldest, if the loss is convex along it."""
        row = self._free.pop() if self._free else self._used.pop(0)
        step, natural, change = self._steps[row], self._naturals[row], self._changes[row]
        np.subtract(there.potentials, here.potentials, out=step)
        np.subtract(there.gradient, here.gradient, out=natural)
        np.subtract(after, before, out=change)
        convex = dot(step, change) > 0.0 and dot(natural, change) > 0.0
        (self._used if convex else self._free).append(row)

    def clear(self) -> bool:
        """Forget all pairs; False if there were none."""
        had = bool(self._used)
        self._free += self._used
        self._used = []
        return had
