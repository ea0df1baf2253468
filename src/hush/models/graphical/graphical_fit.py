"""Fit a graphical model: noisy marginals in, the distribution of least loss and largest entropy out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, TypeAlias

from hush.core.arrays import Floats
from hush.core.constraints import Constraint, check_axes, checked
from hush.core.domain import Clique, Domain
from hush.core.errors import DomainError, WorkloadError
from hush.core.memory import available_memory
from hush.core.solution import TOLERANCE, Solution
from hush.core.validation import check_choice
from hush.models.fit_arguments import check_stopping, checked_total, estimate_total
from hush.models.graphical.belief_propagation import Belief, in_tree_order, with_domain
from hush.models.graphical.descent import (
    dual_averaging,
    independent_start,
    mirror_descent,
    natural_descent,
    subgradient_descent,
    warm_start,
)
from hush.models.graphical.elimination_order import DEFAULT_RESTARTS
from hush.models.graphical.fit_problem import Callback, FitPoint, FitProblem
from hush.models.graphical.graphical_model import GraphicalModel, condition_possible, fixed_tables
from hush.models.graphical.junction_tree import JunctionTree
from hush.models.graphical.likelihood import SMOOTHING_WIDTHS, Loss, MarginalLoss, loss_of, smoothed_loss
from hush.models.graphical.marginal_loss import ReorderedLoss
from hush.models.graphical.model_size import check_fits
from hush.privacy.measurement import Measurement, listed_measurements

Estimator: TypeAlias = Literal["natural", "mirror", "dual averaging"]
Solver: TypeAlias = Callable[..., Solution[FitPoint]]

ESTIMATORS: dict[str, Solver] = {"natural": natural_descent, "mirror": mirror_descent, "dual averaging": dual_averaging}
TOLERANCE_PER_WIDTH = 0.2  # a fit with a smoothed loss need not come nearer than this share of the smoothing width
MEMORY_SHARE = 0.2  # of the free memory, for the tables of a model without a given limit


def fit_model(
    domain: Domain,
    measurements: Iterable[Measurement],
    *,
    total: float | None = None,
    loss: Loss = "auto",
    constraints: Sequence[Constraint] = (),
    start: GraphicalModel | None = None,
    max_size_mb: float | None = None,
    estimator: Estimator = "natural",
    tolerance: float = TOLERANCE,
    iterations: int | None = None,
    restarts: int = DEFAULT_RESTARTS,
    seed: int = 0,
    callback: Callback | None = None,
) -> Solution[GraphicalModel]:
    """The model of least loss L(mu) over the measured cliques; of all such distributions, the one of largest entropy.

    All arguments are checked, and the size of the model predicted, before the first iteration. `start` is an earlier
    model, whose potentials and tree the fit starts from. `seed` is public; the search for a tree uses it.

    Privacy: post-processing. Reference: [HDMM, sec. 4.2 and 4.3].
    """
    check_choice(WorkloadError, "estimator", estimator, ESTIMATORS)
    check_stopping(tolerance, iterations)
    given = listed_measurements(measurements)
    if start is not None and start.domain != domain:
        raise DomainError("start is a model of another domain; leave it out, or give one of the same attributes")
    placed = [measurement.on(domain) for measurement in given]
    forbidden = checked(domain, constraints)
    known = checked_total(total) if total is not None else estimate_total(domain, placed)[0]

    # The junction tree of all tables.
    cliques = [*(measurement.clique for measurement in placed), *(constraint.clique for constraint in forbidden)]
    if isinstance(loss, MarginalLoss):
        cliques += loss.factors.cliques
    tree = _tree_within(domain, cliques, start, max_size_mb, restarts, seed)

    # The loss over tables in tree order, and the potentials to start from.
    ordered = in_tree_order(tree)
    if isinstance(loss, MarginalLoss):  # a caller's loss has the order of the domain
        fitted: MarginalLoss = ReorderedLoss(loss_of(domain, given, loss), ordered.domain)
    else:
        fitted = loss_of(ordered.domain, given, loss)
    belief = Belief(ordered, fitted.factors, fixed_tables(ordered.domain, forbidden))
    problem = FitProblem(belief, fitted, known, callback)
    if start is None:
        first = independent_start(fitted.factors, [measurement.on(ordered.domain) for measurement in given], known)
    else:
        first = warm_start(fitted.factors, start.tables)
    condition_possible(belief, first)

    # Descend from there.
    solution = _solve(problem, first, estimator, tolerance, {} if iterations is None else {"iterations": iterations})
    potentials = solution.value.potentials.copy()
    model = GraphicalModel(domain, ordered, fitted.factors, potentials, known, forbidden, belief)
    return Solution(value=model, status=solution.status, stats=solution.stats)


def _tree_within(
    domain: Domain,
    cliques: Sequence[Clique],
    start: GraphicalModel | None,
    max_size_mb: float | None,
    restarts: int,
    seed: int,
) -> JunctionTree:
    """The junction tree of the cliques; refused if its tables would be too large."""
    before = None if start is None else with_domain(start.tree, domain)
    tree = JunctionTree.build(domain, cliques, restarts=restarts, seed=seed, start=before)
    limit = 1e-6 * MEMORY_SHARE * available_memory() if max_size_mb is None else max_size_mb
    check_fits(domain, cliques, limit, tree=tree)
    for node in tree.nodes:
        check_axes(node.axes)
    return tree


def _solve(
    problem: FitProblem, first: Floats, estimator: str, tolerance: float, options: dict[str, Any]
) -> Solution[FitPoint]:
    """Run the estimator, with smoother losses first if the loss is not smooth.

    A loss without smooth versions goes to mirror descent, as far as its line search gets, then to subgradient descent.
    """
    if problem.loss.smooth:
        return ESTIMATORS[estimator](problem, first, tolerance=tolerance, **options)
    if smoothed_loss(problem.loss, 1.0) is None:
        near = mirror_descent(problem, first, tolerance=tolerance, **options)
        return subgradient_descent(problem, near.value.potentials, tolerance=tolerance, **options)
    sharp, potentials, solution, iterations = problem.loss, first, None, 0.0
    for width in SMOOTHING_WIDTHS:
        smooth = smoothed_loss(sharp, width)
        assert smooth is not None  # noqa: S101  (checked above for another width)
        problem.loss = smooth
        loose = max(tolerance, TOLERANCE_PER_WIDTH * width)
        solution = ESTIMATORS[estimator](problem, potentials, tolerance=loose, **options)
        potentials = solution.value.potentials
        iterations += solution.stats["iterations"]
    problem.loss = sharp
    if solution is None:
        raise WorkloadError("no widths to smooth the loss by")
    last = problem.evaluate(solution.value)
    bound = solution.stats["lower_bound"]  # of the smoothed loss, which is nowhere above the loss itself
    stats = {**solution.stats, "iterations": iterations, "value": last.value, "gap": last.value - bound}
    return Solution(value=last, status=solution.status, stats=stats)
