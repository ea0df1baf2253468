"""Fit without a joint model: the locally consistent tables with the least loss, where a junction tree cannot fit."""

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
from hush.models.graphical.likelihood import WIDTHS, Loss, MarginalLoss, largest_eigenvalue, loss_of, rounded_off
from hush.models.local.local_model import LocalModel
from hush.privacy.measurement import Measurement, placed

ITERATIONS = 2000
MOST_DENSE = 1 << 10  # columns of a query that is inverted for a start
NEARNESS = 1e-4  # of the gap: accuracy of the first projections, sharpened where the gap stays
SHARPEST = 1e-8  # of the loss that may remain: the sharpest accuracy of projections
STAYS = 0.9  # a gap above this share of the one before
PATIENCE = 20  # projections in a row that end outside the polytope, before the descent stops
LIGHTEST = 0.01  # weight of a table that nothing was measured of, beside the least weight of the others
MOST_ATTRIBUTES = 14  # of several levels in a clique, whose table has 2^k margins
VECTORS = 10  # of the size of all tables, at most, at a time


def fit_locally(
    domain: Domain,
    measurements: Iterable[Measurement],
    *,
    total: float | None = None,
    loss: Loss = "auto",
    constraints: Sequence[Constraint] = (),
    tolerance: float = TOLERANCE,
    iterations: int = ITERATIONS,
    seed: int = 0,
) -> Solution[LocalModel]:
    """The tables with the least loss among all that are non-negative, agree on what they share and add up to N.

        min L(mu)  over the local polytope of the measured cliques and of the constraints

    For tables measured cell by cell with Gaussian noise that is one projection; otherwise accelerated projected descent
    in a norm that bounds the curvature of L, clique by clique. Absolute losses are rounded off less and less. Stops
    when the loss is certain to be within m t^2 / 2 of the least one for m numbers and `tolerance` t, so that tables
    measured cell by cell are within t standard deviations of the optimum in the root mean square; `stats` has that
    `gap`. Memory is a few times that of the tables, whatever the cliques. `seed` is public: it serves the model's rows.

    Approximate: the optimum is taken over more than the marginals of distributions, so that its loss is at most that
    of `fit_model`; where the cliques form no loops both are the same.

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
    ordered = placed(domain, listed)
    forbidden = checked(domain, constraints)
    known = checked_total(total) if total is not None else estimate_total(domain, ordered)[0]
    measured = loss.factors if isinstance(loss, MarginalLoss) else Factors(domain, [m.clique for m in ordered])
    extra = [c.clique for c in forbidden if not any(set(c.clique) <= set(held) for held in measured.cliques)]
    factors = Factors(domain, [*measured.cliques, *extra])
    for index, clique in enumerate(factors.cliques):  # a table has 2^k margins; attributes of one level add none
        several = sum(n > 1 for n in factors.shape(index))
        if several > MOST_ATTRIBUTES:
            raise SizeError(
                f"the clique {shown(clique)} has {several} attributes of several levels: tables of an approximate fit "
                f"have {MOST_ATTRIBUTES} at most; measure smaller cliques, or use method='exact'"
            )
    what = f"{len(factors)} tables of {factors.size} cells, the largest over {max(factors.cliques, key=domain.size)!r}"
    require_memory(8 * VECTORS * factors.size, what, "leave out large cliques")
    sharp = loss_of(domain, listed, loss, factors=None if isinstance(loss, MarginalLoss) else measured)
    allowed = _allowed(factors, forbidden)
    counts = _start(factors, ordered, known)
    stats: dict[str, float] = {}
    status = SOLVED
    for width in (0.0,) if sharp.smooth else WIDTHS:
        smooth = rounded_off(sharp, width)
        if smooth is None:
            raise WorkloadError(
                f"the loss {type(sharp).__name__} is not smooth, or not known to be; give it as "
                "CustomLoss(..., lipschitz=...)"
            )
        bends = _bends(measured, ordered, loss, width, smooth)
        plain = len(factors) == len(measured) and loss in ("auto", "gaussian", "paper") and smooth.quadratic
        plain = plain and all(measurement.query is None for measurement in ordered)
        weights = np.full(len(factors), LIGHTEST * bends[bends > 0].min())
        weights[: bends.size] = np.maximum(bends, weights[: bends.size])
        polytope = LocalPolytope(factors, weights, known, allowed)
        task = _LocalFit(polytope, smooth, tolerated_loss(tolerance, max(sharp.numbers, 1)), iterations)
        counts, stats, status = task.project(counts) if plain else task.descend(counts)
    stats["value"] = sharp.value(counts[: measured.size])
    model = LocalModel.of_tables(factors, counts, known, forbidden, seed=seed)
    return Solution(value=model, status=status, stats=stats)


@dataclass(slots=True)
class _LocalFit:
    """A smooth loss over the first tables of a polytope, to be brought within `room` of its least value."""

    polytope: LocalPolytope
    loss: MarginalLoss
    room: float
    iterations: int

    def project(self, start: Floats) -> tuple[Floats, dict[str, float], str]:
        """The exact way where the loss is the squared distance from a target, in the norm of the polytope."""
        gradient = np.empty(start.size)
        self.loss.value_and_gradient(start, gradient)
        target = np.subtract(start, self._scaled(gradient), out=gradient)
        nearest = self.polytope.nearest(target, gap=self.room, iterations=self.iterations)
        stats = {"iterations": float(nearest.iterations), "gap": nearest.gap, "uniform_share": nearest.share}
        return nearest.counts, stats, self._status(nearest, nearest.gap)

    def descend(self, start: Floats) -> tuple[Floats, dict[str, float], str]:
        """x <- nearest(w - gradient / weights), with momentum: w = x + beta (x - x_before), and restarts.

        With forbidden cells a projection can end outside the polytope, where a small gap says nothing: its point is
        brought inside in the norm of equal weights. Multipliers are kept, so that the next projection ends nearer.
        """
        polytope, size = self.polytope, self.loss.factors.size
        here = polytope.nearest(start, gap=self.room, iterations=self.iterations).counts
        ahead, gradient = here.copy(), np.zeros(start.size)
        multipliers = np.zeros(start.size)
        lower, gap, pace, projections, near = -math.inf, math.inf, 1.0, 0, self.room
        nearness, outside = NEARNESS, 0
        evenly: LocalPolytope | None = None
        for iteration in range(1, self.iterations + 1):
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
            if done or outside == PATIENCE or iteration == self.iterations:
                break
            if gap > STAYS * before:
                nearness *= 0.5
            near = max(nearness * gap, SHARPEST * self.room)
            step = nearest.counts - here
            if float(np.dot(self._weighted(ahead - nearest.counts), step)) > 0.0:
                pace = 1.0
            faster = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * pace * pace))
            here = nearest.counts
            np.multiply(step, (pace - 1.0) / faster, out=ahead)
            ahead += here
            pace = faster
        stats = {"iterations": float(iteration), "projections": float(projections), "gap": gap}
        return nearest.counts, stats | {"uniform_share": nearest.share}, self._status(nearest, gap)

    def _lower_bound(
        self, value: float, gradient: Floats, ahead: Floats, agreeing: Floats, multipliers: Floats
    ) -> float:
        """A loss that no point of the polytope is below.

        L(nu) >= L(w) + <g, nu - w>. With h = W (lambda - x + w), where x is nearest to w - g / W + lambda among the
        tables that agree, h - g is orthogonal to all differences of such tables: <g, nu> = <h, nu> - <h - g, x>, and
        <h, nu> is at least N times the least allowed h of every table.
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
        """Whether tables agree; without forbidden cells all that are found do."""
        return not self.polytope.blocked.size or nearest.share <= MASS_MOVED

    def _status(self, nearest: Nearest, gap: float) -> str:
        if not self._inside(nearest):
            return (
                f"tables with forbidden cells disagree by up to {nearest.share:.3g} of the total after projections of "
                f"{self.iterations} iterations; raise iterations, or look for constraints that exclude nearly all"
            )
        if gap <= self.room:
            return SOLVED
        return (
            f"after {self.iterations} iterations the loss may be {gap:.3g} above the least one, where {self.room:.3g} "
            "was asked for; raise iterations or tolerance"
        )


def _start(factors: Factors, measurements: Sequence[Measurement], total: float) -> Floats:
    """What each table's measurements say of it by least squares, averaged by their noise; uniform where none does."""
    flat = np.repeat(total / np.diff(factors.offsets), np.diff(factors.offsets))
    precision = np.zeros(len(factors))
    for measurement in measurements:
        query = measurement.query
        values = measurement.values.ravel()
        if isinstance(query, LinearOperator):
            if not isinstance(query, Kronecker) and query.shape[1] > MOST_DENSE:
                continue
            values = query.pinv() @ values
        index = factors.index(measurement.clique)
        precision[index] += 1 / measurement.variance
        table = flat[factors.span(index)]
        table += (values - table) / (measurement.variance * precision[index])
    return flat


def _bends(
    factors: Factors, measurements: Sequence[Measurement], loss: Loss, width: float, smooth: MarginalLoss
) -> Floats:
    """For every clique an upper bound of the curvature of the loss."""
    if loss not in ("auto", "gaussian", "laplace", "paper"):
        return np.full(len(factors), smooth.lipschitz)
    bends = np.zeros(len(factors))
    for measurement in measurements:
        noise = measurement.noise if loss == "auto" else loss
        bend = {"gaussian": 1 / measurement.variance, "paper": 2 / measurement.stddev}.get(str(noise), 0.0)
        if noise == "laplace":
            bend = math.sqrt(2) / (width * measurement.variance)
        steepest = 1.0 if measurement.query is None else largest_eigenvalue(measurement.query)  # type: ignore[arg-type]
        bends[factors.index(measurement.clique)] += bend * steepest
    return bends


def _allowed(factors: Factors, constraints: Sequence[Constraint]) -> dict[Clique, Booleans]:
    """Which cells of every table the constraints leave possible, through the tables that they meet in too.

    A level that one constraint excludes is excluded wherever its attribute is.
    """
    domain = factors.domain
    masks = {constraint.clique: constraint.allowed for constraint in constraints}
    meet = [(constraint, clique) for constraint in masks for clique in factors.cliques if set(constraint) & set(clique)]
    tables = {clique: np.ones(domain.sizes(clique), dtype=np.bool_) for _, clique in meet}
    left = -1
    while left != (left := sum(int(np.count_nonzero(mask)) for mask in (*masks.values(), *tables.values()))):
        for constraint, clique in meet:
            tables[clique] = tables[clique] & _seen_from(domain, clique, constraint, masks[constraint])
            masks[constraint] = masks[constraint] & _seen_from(domain, constraint, clique, tables[clique])
    for clique, table in tables.items():
        if not table.any():
            raise DomainError(f"the constraints leave no combination of {clique!r} possible; relax one of them")
    return {clique: table for clique, table in tables.items() if not table.all()}


def _seen_from(domain: Domain, clique: Clique, other: Clique, mask: Booleans) -> Booleans:
    """What a mask over another clique leaves possible of this one, with axes of length one for what they do not share.

    >>> _seen_from(Domain({"a": 2, "b": 3}), ("b",), ("a", "b"), np.array([[True, False, False], [True, True, False]]))
    array([ True,  True, False])
    """
    seen = mask.any(axis=axes_outside(other, clique))
    return np.asarray(seen).reshape([domain[name] if name in other else 1 for name in clique])
