"""Fit locally consistent tables: the tables of least loss that agree on what they share, without a joint model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from hush.core.arrays import Booleans, Floats, axes_outside
from hush.core.constraints import Constraint, checked
from hush.core.domain import Clique, Domain
from hush.core.errors import DomainError, SizeError, WorkloadError, shown
from hush.core.memory import require_memory
from hush.core.solution import SOLVED, TOLERANCE, Solution
from hush.inference.factors import Factors
from hush.inference.nonnegative_tables import MASS_MOVED, LocalPolytope, Nearest
from hush.linops import Kronecker, LinearOperator
from hush.models.fit_arguments import check_stopping, checked_total, estimate_total, tolerated_loss
from hush.models.graphical.likelihood import (
    SMOOTHING_WIDTHS,
    Loss,
    MarginalLoss,
    largest_eigenvalue,
    loss_of,
    smoothed_loss,
)
from hush.models.local.local_model import LocalModel
from hush.privacy.measurement import Measurement, placed

LOCAL_ITERATIONS = 2000
MOST_INVERTED = 1 << 10  # columns of a query whose pseudo-inverse gives a start
UNMEASURED_WEIGHT = 0.01  # of a table without measurements in the norm, relative to the least of the others
MOST_ATTRIBUTES = 14  # of several levels in a clique: its table has 2^k margins
VECTORS_HELD = 10  # of the size of all tables, at a time

# How accurately `_LocalFit.descend` projects.
FIRST_ACCURACY = 1e-4  # of the gap; halved whenever the gap stalls
BEST_ACCURACY = 1e-8  # of the loss that may remain
STALLED_GAP_RATIO = 0.9  # the gap stalls if it stays above this share of the gap before
MOST_OUTSIDE = 20  # projections in a row that end outside the polytope, before the descent stops


def fit_locally(
    domain: Domain,
    measurements: Iterable[Measurement],
    *,
    total: float | None = None,
    loss: Loss = "auto",
    constraints: Sequence[Constraint] = (),
    tolerance: float = TOLERANCE,
    iterations: int = LOCAL_ITERATIONS,
    seed: int = 0,
) -> Solution[LocalModel]:
    """The tables of least loss among all that are non-negative, agree on what they share and add up to N.

        min L(mu)  over the local polytope of the measured cliques and of the constraints

    Tables measured cell by cell with Gaussian noise need one projection. Other measurements need accelerated projected
    descent, in a norm that bounds the curvature of L for every clique. Stops when the loss is certain to be within
    `tolerated_loss` of the least one; `stats` has that `gap`. `seed` is public; the model's rows use it.

    Approximate: the local polytope contains more than the marginals of distributions, so the least loss is at most that
    of `fit_model`. If the cliques form no loops, the two are equal.

    Privacy: post-processing of public noisy values.
    Reference: [HDMM, sec. 4.2] for the loss; the relaxation from distributions to local consistency is ours.

    >>> domain = Domain({"a": 2, "b": 2, "c": 2})
    >>> pairs = [("a", "b"), ("b", "c"), ("a", "c")]
    >>> fitted = fit_locally(domain, [Measurement(pair, [[9.0, 1.0], [-2.0, 8.0]], 1.0) for pair in pairs])
    >>> fitted.value, fitted.solved
    (LocalModel(approximate: 3 locally consistent tables over 3 attributes, 12 cells, total 16), True)
    """
    check_stopping(tolerance, iterations)
    listed = list(measurements) if not isinstance(measurements, Measurement) else measurements
    ordered, forbidden = placed(domain, listed), checked(domain, constraints)
    known = checked_total(total) if total is not None else estimate_total(domain, ordered)[0]

    # The tables to fit: those of the measured cliques, then those of constraints inside none of them.
    measured = loss.factors if isinstance(loss, MarginalLoss) else Factors(domain, [m.clique for m in ordered])
    extra = [c.clique for c in forbidden if not any(set(c.clique) <= set(held) for held in measured.cliques)]
    factors = Factors(domain, [*measured.cliques, *extra])
    _check_size(factors)
    sharp = loss_of(domain, listed, loss, factors=None if isinstance(loss, MarginalLoss) else measured)
    allowed, counts = allowed_cells(factors, forbidden), _start(factors, ordered, known)

    # Minimise; a loss that is not smooth is replaced by smooth ones that come closer and closer.
    for width in (0.0,) if sharp.smooth else SMOOTHING_WIDTHS:
        smooth = smoothed_loss(sharp, width)
        if smooth is None:
            name = type(sharp).__name__
            raise WorkloadError(f"the loss {name} is not known to be smooth; give CustomLoss(..., lipschitz=...)")
        plain = len(factors) == len(measured) and loss in ("auto", "gaussian", "paper") and smooth.quadratic
        plain = plain and all(measurement.query is None for measurement in ordered)
        polytope = LocalPolytope(
            factors, _weights(len(factors), measured, ordered, loss, width, smooth), known, allowed
        )
        task = _LocalFit(polytope, smooth, tolerated_loss(tolerance, max(sharp.numbers, 1)), iterations)
        counts, stats, status = task.project(counts) if plain else task.descend(counts)
    stats["value"] = sharp.value(counts[: measured.size])
    fitted = LocalModel.of_tables(factors, counts, known, forbidden, seed=seed)
    return Solution(value=fitted, status=status, stats=stats)


def _check_size(factors: Factors) -> None:
    """Refuse cliques of too many attributes, and tables that do not fit in memory."""
    for index, clique in enumerate(factors.cliques):
        several = sum(n > 1 for n in factors.shape(index))
        if several > MOST_ATTRIBUTES:
            raise SizeError(
                f"the clique {shown(clique)} has {several} attributes with more than one level: an approximate fit "
                f"allows at most {MOST_ATTRIBUTES}; measure smaller cliques, or use method='exact'"
            )
    largest = max(factors.cliques, key=factors.domain.size)
    what = f"{len(factors)} tables of {factors.size} cells, the largest over {largest!r}"
    require_memory(8 * VECTORS_HELD * factors.size, what, "leave out large cliques")


@dataclass(slots=True)
class _LocalFit:
    """A smooth loss of the first tables of a polytope, to be minimised to within `room` of its least value."""

    polytope: LocalPolytope
    loss: MarginalLoss
    room: float
    iterations: int

    def project(self, start: Floats) -> tuple[Floats, dict[str, float], str]:
        """One projection, for a loss that is the squared distance from a target in the norm of the polytope."""
        gradient = np.empty(start.size)
        self.loss.value_and_gradient(start, gradient)
        target = np.subtract(start, self._scaled(gradient), out=gradient)
        nearest = self.polytope.nearest(target, gap=self.room, iterations=self.iterations)
        stats = {"iterations": float(nearest.iterations), "gap": nearest.gap, "uniform_share": nearest.share}
        return nearest.counts, stats, self._status(nearest, nearest.gap)

    def descend(self, start: Floats) -> tuple[Floats, dict[str, float], str]:
        """x <- nearest(w - gradient / weights), with momentum: w = x + beta (x - x_before), and restarts.

        With forbidden cells a projection can end outside the polytope, where a small gap proves nothing. Its point is
        then projected again in the norm of equal weights, which brings it inside. Multipliers are kept for the next
        projection, which then ends nearer.

        Reference: [Beck and Teboulle 2009] for the momentum, [O'Donoghue and Candes 2015] for the restarts.
        """
        polytope, size = self.polytope, self.loss.factors.size
        here = polytope.nearest(start, gap=self.room, iterations=self.iterations).counts
        ahead, gradient = here.copy(), np.zeros(start.size)
        multipliers = np.zeros(start.size)
        lower, gap, pace, projections, near = -math.inf, math.inf, 1.0, 0, self.room
        accuracy, outside = FIRST_ACCURACY, 0
        evenly: LocalPolytope | None = None
        for iteration in range(1, self.iterations + 1):
            # Step along the gradient at the extrapolated point, project, and raise the certified lower bound.
            value = self.loss.value_and_gradient(ahead[:size], gradient[:size])
            target = ahead - self._scaled(gradient)
            nearest = polytope.nearest(target, gap=near, multipliers=multipliers, iterations=self.iterations)
            projections += nearest.iterations
            lower = max(lower, self._lower_bound(value, gradient, ahead, nearest.agreeing, multipliers))
            outside = 0 if self._inside(nearest) else outside + 1
            if outside:
                evenly = polytope.evenly() if evenly is None else evenly
                nearest = evenly.nearest(nearest.counts, gap=math.inf, iterations=self.iterations)
                projections += nearest.iterations
            before, gap = gap, self.loss.value(nearest.counts[:size]) - lower
            done = gap <= self.room and self._inside(nearest)
            if done or outside == MOST_OUTSIDE or iteration == self.iterations:
                break

            # Sharpen the projections if the gap stalls; restart the momentum if it points uphill.
            if gap > STALLED_GAP_RATIO * before:
                accuracy *= 0.5
            near = max(accuracy * gap, BEST_ACCURACY * self.room)
            step = nearest.counts - here
            if float(np.dot(self._weighted(ahead - nearest.counts), step)) > 0.0:
                pace = 1.0
            next_pace = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * pace * pace))
            here = nearest.counts
            np.multiply(step, (pace - 1.0) / next_pace, out=ahead)
            ahead += here
            pace = next_pace
        stats = {"iterations": float(iteration), "projections": float(projections), "gap": gap}
        return nearest.counts, stats | {"uniform_share": nearest.share}, self._status(nearest, gap)

    def _lower_bound(
        self, value: float, gradient: Floats, ahead: Floats, agreeing: Floats, multipliers: Floats
    ) -> float:
        """A lower bound on the loss over the polytope.

        L is convex: L(nu) >= L(w) + <g, nu - w> for every nu. Let x be the nearest point to w - g / W + lambda among
        the tables that agree, and h = W (lambda - x + w). Then h - g is orthogonal to all differences of tables that
        agree, so that <g, nu> = <h, nu> - <h - g, x>. Every table of nu is non-negative and adds up to N, so <h, nu> is
        at least N times the sum over tables of the least h of an allowed cell.
        """
        h = self._weighted(multipliers - agreeing + ahead)
        constant = float(gradient @ (agreeing - ahead)) - float(h @ agreeing)
        if self.polytope.blocked.size:
            h[self.polytope.blocked] = math.inf
        least = np.minimum.reduceat(h, self.polytope.factors.offsets[:-1])
        return value + constant + self.polytope.total * float(least.sum())

    def _weighted(self, flat: Floats) -> Floats:
        return np.multiply(flat, np.repeat(self.polytope.weights, np.diff(self.polytope.factors.offsets)))

    def _scaled(self, flat: Floats) -> Floats:
        return np.divide(flat, np.repeat(self.polytope.weights, np.diff(self.polytope.factors.offsets)))

    def _inside(self, nearest: Nearest) -> bool:
        """Whether the tables agree; without forbidden cells, projections always do."""
        return not self.polytope.blocked.size or nearest.share <= MASS_MOVED

    def _status(self, nearest: Nearest, gap: float) -> str:
        if not self._inside(nearest):
            return (
                f"tables with forbidden cells disagree by up to {nearest.share:.3g} of the total after "
                f"{self.iterations} iterations; raise iterations, or check for constraints that forbid nearly all"
            )
        if gap <= self.room:
            return SOLVED
        return (
            f"after {self.iterations} iterations the loss may be {gap:.3g} above the least possible, more than the "
            f"tolerated {self.room:.3g}; raise iterations or tolerance"
        )


def _start(factors: Factors, measurements: Sequence[Measurement], total: float) -> Floats:
    """Every table estimated by least squares from its own measurements, averaged by precision; else uniform."""
    flat = np.repeat(total / np.diff(factors.offsets), np.diff(factors.offsets))
    precision = np.zeros(len(factors))
    for measurement in measurements:
        query = measurement.query
        values = measurement.values.ravel()
        if isinstance(query, LinearOperator):
            if not isinstance(query, Kronecker) and query.shape[1] > MOST_INVERTED:
                continue
            values = query.pinv() @ values
        index = factors.index(measurement.clique)
        precision[index] += 1 / measurement.variance
        table = flat[factors.span(index)]
        table += (values - table) / (measurement.variance * precision[index])
    return flat


def _weights(
    count: int, measured: Factors, measurements: Sequence[Measurement], loss: Loss, width: float, smooth: MarginalLoss
) -> Floats:
    """Weights of all tables, the measured ones first: upper bounds on the curvature of the loss, all above zero."""
    named = loss in ("auto", "gaussian", "laplace", "paper")
    curvatures = np.full(len(measured), 0.0 if named else smooth.lipschitz)
    for measurement in measurements if named else ():
        noise = measurement.noise if loss == "auto" else loss
        curvature = {"gaussian": 1 / measurement.variance, "paper": 2 / measurement.stddev}.get(str(noise), 0.0)
        if noise == "laplace":
            curvature = math.sqrt(2) / (width * measurement.variance)
        steepest = 1.0 if measurement.query is None else largest_eigenvalue(measurement.query)  # type: ignore[arg-type]
        curvatures[measured.index(measurement.clique)] += curvature * steepest
    weights = np.full(count, UNMEASURED_WEIGHT * curvatures[curvatures > 0].min())
    weights[: curvatures.size] = np.maximum(curvatures, weights[: curvatures.size])
    return weights


def allowed_cells(factors: Factors, constraints: Sequence[Constraint]) -> dict[Clique, Booleans]:
    """The cells of every table that the constraints leave possible; tables without forbidden cells are left out.

    Masks are propagated between constraints and the tables that share attributes with them until nothing changes: a
    level that one constraint excludes is excluded in every table.
    """
    domain = factors.domain
    masks = {constraint.clique: constraint.allowed for constraint in constraints}
    sharing = [
        (constraint, clique) for constraint in masks for clique in factors.cliques if set(constraint) & set(clique)
    ]
    tables = {clique: np.ones(domain.sizes(clique), dtype=np.bool_) for _, clique in sharing}
    left = -1
    while left != (left := sum(int(np.count_nonzero(mask)) for mask in (*masks.values(), *tables.values()))):
        for constraint, clique in sharing:
            tables[clique] = tables[clique] & _projected(domain, clique, constraint, masks[constraint])
            masks[constraint] = masks[constraint] & _projected(domain, constraint, clique, tables[clique])
    for clique, table in tables.items():
        if not table.any():
            raise DomainError(f"the constraints leave no combination of {clique!r} possible; relax one of them")
    return {clique: table for clique, table in tables.items() if not table.all()}


def _projected(domain: Domain, clique: Clique, other: Clique, mask: Booleans) -> Booleans:
    """The cells of `clique` that a mask over another clique leaves possible; axes that they do not share have length 1.

    >>> _projected(Domain({"a": 2, "b": 3}), ("b",), ("a", "b"), np.array([[True, False, False], [True, True, False]]))
    array([ True,  True, False])
    """
    possible = mask.any(axis=axes_outside(other, clique))
    return np.asarray(possible).reshape([domain[name] if name in other else 1 for name in clique])
