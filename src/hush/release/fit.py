"""hush.fit: one consistent model from noisy tables, wherever they come from; and its restriction to some cliques."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from hush.core.constraints import Constraint
from hush.core.domain import Clique, Domain, listed_cliques
from hush.core.errors import DataError, SizeError, WorkloadError, shown
from hush.core.memory import available_memory
from hush.core.solution import SOLVED, TOLERANCE, Solution
from hush.core.validation import check_choice, check_number, check_whole
from hush.models.fit_arguments import SMALLEST_TOTAL, estimate_total
from hush.models.graphical.descent import NATURAL_ITERATIONS
from hush.models.graphical.fit_problem import Callback
from hush.models.graphical.graphical_fit import ESTIMATORS, MEMORY_SHARE, Estimator, fit_model
from hush.models.graphical.graphical_model import GraphicalModel
from hush.models.graphical.junction_tree import JunctionTree
from hush.models.graphical.likelihood import Loss
from hush.models.local.local_fit import LOCAL_ITERATIONS, fit_locally
from hush.models.noise_split import split_noise
from hush.models.relaxed.relaxed_fit import RELAXED_ITERATIONS, RELAXED_ROWS, fit_relaxed, relaxed_bytes
from hush.models.relaxed.relaxed_rows import RelaxedRows
from hush.privacy.measurement import Measurement, placed
from hush.release.model import Model
from hush.release.model_estimates import NO_ROWS, Misfit, mean_variance
from hush.render.progress_bar import SECONDS_BEFORE_BAR, progress_bar
from hush.schema import Schema, domain_and_constraints

if TYPE_CHECKING:
    from hush.release.release import Release


class Restriction:
    """The measurements inside some cliques; each clique must contain one besides the total.

    >>> domain = Domain({"a": 2, "b": 2, "c": 2})
    >>> noisy = [Measurement(("a",), [1.0, 2.0], 1.0), Measurement(("b",), [2.0, 1.0], 1.0)]
    >>> inside = Restriction(domain, [("a", "c")], noisy)
    >>> [measurement.clique for measurement in inside.measurements], inside.tables([("a", "b"), ("b", "c")])
    ([('a',)], [('a',)])
    """

    def __init__(self, domain: Domain, cliques: Iterable[Iterable[str]], noisy: Iterable[Measurement]) -> None:
        self._domain = domain
        named = [domain.check(clique) for clique in listed_cliques(cliques)]
        if not named:
            raise WorkloadError("cliques is empty: nothing was measured inside; give cliques of the workload")
        self._cliques = [frozenset(clique) for clique in named]
        self.measurements = [
            table for table in noisy if any(clique.issuperset(table.clique) for clique in self._cliques)
        ]
        self._measured = {frozenset(measurement.clique) for measurement in self.measurements} - {frozenset()}
        for clique in named:
            if not any(measured.issubset(clique) for measured in self._measured):
                raise WorkloadError(f"nothing was measured inside {clique!r}; give cliques of the workload")

    def tables(self, largest: Iterable[Clique]) -> list[Clique]:
        """The largest subsets of some tables that lie inside the cliques and contain something measured there."""
        shared = {inside.intersection(clique) for clique in largest for inside in self._cliques}
        covered = {names for names in shared if any(measured <= names for measured in self._measured)}
        return sorted(self._domain.clique(names) for names in covered if not any(names < other for other in covered))


Route: TypeAlias = Literal["auto", "exact", "approximate"]
ROUTES = ("auto", "exact", "approximate")

FIT_SECONDS = 1.5  # about what a fit takes if its estimator is chosen by predicted cost
SECONDS_PER_CELL = 15e-9  # of an exact model, for one iteration
SECONDS_PER_PRODUCT = 0.4e-9  # of a relaxed row with a noisy number, for one iteration
USUAL_ITERATIONS = 200  # of an exact fit
FEWEST_ITERATIONS = 30  # after which fits are nearly as good as at the end
MOST_ITERATIONS = 400  # of relaxed rows
FEW_ROWS = 300  # relaxed rows, if there are many noisy numbers
LONGEST_FIT_FACTOR = 5  # times `FIT_SECONDS`: the most that relaxed rows may take before a fit is only approximate
NOISE_TOLERANCE = 0.1  # standard deviations of the noise: closer fits are no nearer to the truth
LITTLE_NOISE = 0.01  # of the rows: how far noise moves a table, in the mean, where a fit may take longer
MEAN_ABSOLUTE = math.sqrt(2 / math.pi)  # of a standard normal number
RELAXED_RESTRAINT = 0.2  # how far relaxed rows stay from following the noise
TRIAL_ITERATIONS = 20  # of tables that only agree, when they are compared with relaxed rows
RELAXED_NOTE = "the model is a mixture of {rows:,} products: an exact one would take too long, or too much memory"
SHORTENED_STATUS = "stopped after {iterations:,} iterations; method='exact' goes on until tolerance={tolerance:g}"


@dataclass(frozen=True, slots=True)
class FitChoice:
    """The estimator of least predicted cost whose own error is small compared with the noise, and its options.

    `megabytes` is the size of the model. Predicted times are for one core. Everything here is public.
    """

    kind: Literal["exact", "relaxed", "approximate"]
    megabytes: float
    tolerance: float = TOLERANCE
    iterations: int | None = None
    rows: int | None = None

    @classmethod
    def of(
        cls,
        domain: Domain,
        noisy: Sequence[Measurement],
        rules: Sequence[Clique],
        max_size_mb: float | None,
        total: float | None = None,
    ) -> FitChoice:
        """An exact model if it takes seconds, else relaxed rows, else, or if there are rules, tables that agree.

        If noise moves a table by less than a hundredth of its rows, in the mean, a fit may take longer: then the
        length of the fit decides the error, not the noise.
        """
        # How long a fit may take, by how far noise moves the tables.
        rows_in_all = estimate_total(domain, placed(domain, noisy))[0] if total is None else total
        moved = [measurement.numbers * measurement.stddev * MEAN_ABSOLUTE / (2 * rows_in_all) for measurement in noisy]
        allowed = FIT_SECONDS * (1 if np.mean(moved) > LITTLE_NOISE else LONGEST_FIT_FACTOR)
        # An exact model costs its cells in every iteration.
        cliques = [measurement.clique for measurement in noisy]
        tree = JunctionTree.build(domain, [*cliques, *rules])
        limit = 1e-6 * MEMORY_SHARE * available_memory() if max_size_mb is None else max_size_mb
        seconds = SECONDS_PER_CELL * tree.cells
        if tree.size_mb <= limit and seconds * FEWEST_ITERATIONS <= FIT_SECONDS:
            if seconds * USUAL_ITERATIONS <= FIT_SECONDS:
                most = int(min(LONGEST_FIT_FACTOR * FIT_SECONDS / seconds, NATURAL_ITERATIONS))
                return cls("exact", tree.size_mb, iterations=most)
            return cls("exact", tree.size_mb, NOISE_TOLERANCE, int(allowed / seconds))
        # Relaxed rows cost a product for every row and noisy number.
        per_row = sum(measurement.numbers for measurement in noisy) * SECONDS_PER_PRODUCT
        rows = RELAXED_ROWS if RELAXED_ROWS * per_row * FEWEST_ITERATIONS <= FIT_SECONDS else FEW_ROWS
        seconds = rows * per_row
        widths = sum(domain.shape)
        memory = relaxed_bytes(rows, domain.shape, widths, max((m.numbers for m in noisy), default=0))
        fast = seconds * FEWEST_ITERATIONS <= LONGEST_FIT_FACTOR * FIT_SECONDS
        able = not rules and fast and memory <= available_memory() / 2
        if able and (max_size_mb is None or 8e-6 * rows * widths <= max_size_mb):
            iterations = min(max(int(allowed / seconds), FEWEST_ITERATIONS), MOST_ITERATIONS)
            return cls("relaxed", 8e-6 * rows * widths, NOISE_TOLERANCE, iterations, rows)
        return cls("approximate", 8e-6 * sum(map(domain.size, dict.fromkeys(cliques))), NOISE_TOLERANCE)


def fit(
    domain: Domain | Schema,
    measurements: Iterable[Measurement],
    *,
    total: float | None = None,
    loss: Loss = "auto",
    constraints: Sequence[Constraint] = (),
    method: Route = "exact",
    start: Model | None = None,
    max_size_mb: float | None = None,
    estimator: Estimator | Literal["relaxed"] = "natural",
    rows: int | None = None,
    tolerance: float = TOLERANCE,
    iterations: int | None = None,
    seed: int = 0,
    callback: Callback | None = None,
) -> Model:
    """The distribution of largest entropy among those that fit noisy marginals best.

    The loss is the likelihood of the noise, or any convex function of the marginals. The total is estimated unless it
    is given. A schema's constraints hold exactly. The fit stops when its answers are within `tolerance` standard
    deviations of the noise, in the root mean square, of the best ones.

    `method="exact"` refuses a model whose tables would exceed `max_size_mb` and names the cliques at fault;
    "approximate" only makes tables agree with each other; "auto" does that if the exact model is too large. `start` is
    an earlier model to continue from when measurements are added. Each iteration calls `callback(iteration, loss,
    tables)`, which may return True to stop. "approximate" refuses `start`, `callback` and `estimator`; "auto" uses them
    if the exact model fits.

    `estimator="relaxed"` fits `rows` rows of probabilities instead, by default 1000: a mixture of products, of a fixed
    size. It takes single cells and thresholds too, and continues from a `start` of its own kind. It minimises squares
    over the variance of the noise, keeps no rules, and refuses `loss`, `callback` and any other `method`.

    Privacy: post-processing of noisy values; their guarantee is unchanged.
    Reference: [HDMM, chapter 4].

    >>> import hush
    >>> domain = hush.Domain({"age": 3, "sex": 2, "smokes": 2})
    >>> noisy = [
    ...     hush.Measurement(("age", "sex"), [[10, 12], [30, 28], [9, 11]], stddev=3.0),
    ...     hush.Measurement(("sex", "smokes"), [[40, 9], [44, 7]], stddev=3.0),
    ... ]
    >>> model = hush.fit(domain, noisy)
    >>> model, model.counts(("age", "smokes")).shape
    (Model(2 cliques over 3 attributes, exact, 8e-05 MB, total 100), (3, 2))
    """
    # Check every argument before any work.
    schema = domain if isinstance(domain, Schema) else Schema.from_domain(domain_and_constraints(domain)[0])
    _check_options(method, start, max_size_mb, estimator, seed, callback, rows, loss)
    if not isinstance(constraints, Iterable | Constraint):
        raise WorkloadError(f"constraints={shown(constraints)}: expected a list of hush.Constraint, which may be empty")
    if not isinstance(measurements, Iterable | Measurement):
        raise DataError(f"measurements={shown(measurements)}: expected a list of hush.Measurement")
    noisy = [measurements] if isinstance(measurements, Measurement) else list(measurements)
    rules = (*schema.constraints, *([constraints] if isinstance(constraints, Constraint) else constraints))
    # Relaxed rows if asked for, else an exact model unless it is too large, else tables that only agree.
    options: dict[str, Any] = {"total": total, "constraints": rules, "tolerance": tolerance, "seed": int(seed)}
    if estimator == "relaxed":
        solution = _fit_rows(schema.domain, noisy, start, rows, iterations, max_size_mb=max_size_mb, **options)
        return _with_caveats(Model(schema, solution, noisy), loss, total)
    if method != "approximate":
        before = start.distribution if start is not None and isinstance(start.distribution, GraphicalModel) else None
        limits: dict[str, Any] = {"max_size_mb": max_size_mb, "iterations": iterations, "callback": callback}
        try:
            exact = fit_model(schema.domain, noisy, loss=loss, start=before, estimator=estimator, **limits, **options)
            return _with_caveats(Model(schema, exact, noisy), loss, total)
        except SizeError:
            if method == "exact":
                raise
    most = LOCAL_ITERATIONS if iterations is None else iterations
    local = fit_locally(schema.domain, noisy, loss=loss, iterations=most, **options)
    return _with_caveats(Model(schema, local, noisy), loss, total)


def _check_options(
    method: str,
    start: object,
    max_size_mb: object,
    estimator: str,
    seed: object,
    callback: object,
    rows: object,
    loss: object,
) -> None:
    """Refuse values that no fit takes, and options that the fit would ignore."""
    check_choice(WorkloadError, "method", method, ROUTES)
    if max_size_mb is not None and max_size_mb != math.inf:
        check_number(SizeError, "max_size_mb", max_size_mb, above=0, hint=", in megabytes, or None")
    check_whole(WorkloadError, "seed", seed, least=0, most=2**63 - 1)
    if callback is not None and not callable(callback):
        raise WorkloadError(f"callback={shown(callback)}: expected a function of iteration, loss and tables, or None")
    if start is not None and not isinstance(start, Model):
        raise WorkloadError(f"start={shown(start)}: expected a model from hush.fit, or None")
    check_choice(WorkloadError, "estimator", estimator, (*ESTIMATORS, "relaxed"))

    # Options that differ from their defaults, by the fit that would ignore them.
    ignored: list[tuple[str, str, object]] = []
    if estimator == "relaxed":
        squares = isinstance(loss, str) and loss in ("auto", "gaussian")
        ignored.append(("relaxed rows", "loss", None if squares else loss))
        ignored.append(("relaxed rows", "callback", callback))
        ignored.append(("relaxed rows", "method", None if method == "exact" else method))
    else:
        ignored.append(("an estimator other than 'relaxed'", "rows", rows))
    if method == "approximate":
        ignored.append(("an approximate fit", "estimator", None if estimator == "natural" else estimator))
        ignored += [("an approximate fit", "start", start), ("an approximate fit", "callback", callback)]
    for who, name, value in ignored:
        if value is not None:
            raise WorkloadError(f"{name}={shown(value)}: {who} cannot use it; leave it out")


def _fit_rows(
    domain: Domain,
    noisy: Sequence[Measurement],
    start: Model | None,
    rows: int | None,
    iterations: int | None,
    **options: Any,
) -> Solution[RelaxedRows]:
    """Relaxed rows, from scratch or from those of an earlier fit."""
    before = None if start is None else start.distribution
    if before is not None and not isinstance(before, RelaxedRows):
        raise WorkloadError("start is no fit of relaxed rows; leave it out, or give one with estimator='relaxed'")
    if before is not None and rows not in (None, len(before.rows)):
        raise WorkloadError(f"rows={shown(rows)}: start has {len(before.rows)} rows; give as many, or leave rows out")
    return fit_relaxed(
        domain,
        noisy,
        rows=RELAXED_ROWS if rows is None else rows,
        start=before,
        iterations=RELAXED_ITERATIONS if iterations is None else iterations,
        **options,
    )


def fit_chosen(
    schema: Schema, noisy: Sequence[Measurement], choice: FitChoice, *, total: float | None, seed: int
) -> Model:
    """The exact model or the relaxed rows that were chosen by predicted cost, with a progress bar if that takes long.

    Privacy: post-processing of noisy values.
    """
    with progress_bar("fitting a model", after=SECONDS_BEFORE_BAR) as progress:
        # Relaxed rows, stopped before they follow the noise.
        if choice.kind == "relaxed":
            relaxed = fit_relaxed(
                schema.domain,
                noisy,
                total=total,
                rows=choice.rows or RELAXED_ROWS,
                tolerance=choice.tolerance,
                iterations=choice.iterations or MOST_ITERATIONS,
                restraint=RELAXED_RESTRAINT,
                seed=seed,
                progress=progress,
            )
            if not relaxed.solved:
                text = SHORTENED_STATUS.format(iterations=choice.iterations, tolerance=TOLERANCE)
                relaxed = replace(relaxed, status=text)
            model = Model(schema, relaxed, noisy)
            model.caveats = (*model.caveats, RELAXED_NOTE.format(rows=choice.rows))
            return model
        # The exact model, for as many iterations as the time allows.
        most = choice.iterations or NATURAL_ITERATIONS
        exact = fit_model(
            schema.domain,
            noisy,
            total=total,
            loss="auto" if choice.tolerance == TOLERANCE else "gaussian",
            constraints=schema.constraints,
            max_size_mb=math.inf,
            tolerance=choice.tolerance,
            iterations=most,
            seed=seed,
            callback=lambda iteration, _, __: progress(iteration / most),
        )
    if not exact.solved and exact.stats["iterations"] >= most:
        exact = replace(exact, status=SHORTENED_STATUS.format(iterations=most, tolerance=TOLERANCE))
    return _with_caveats(Model(schema, exact, noisy), "auto", total)


def _rows_are_closer(
    schema: Schema,
    noisy: Sequence[Measurement],
    choice: FitChoice,
    max_size_mb: float | None,
    total: float | None,
    seed: int,
) -> bool:
    """Whether relaxed rows have a smaller estimated error than tables that only agree, or these are too large.

    See `split_noise` for the estimate.
    """
    fitted, compared = split_noise(schema.domain, noisy, seed)
    try:
        agreeing = fit_locally(
            schema.domain, fitted, total=total, tolerance=choice.tolerance, iterations=TRIAL_ITERATIONS, seed=seed
        )
    except SizeError:
        return True
    if max_size_mb is not None and agreeing.value.size_mb > max_size_mb:
        return True
    relaxed = fit_chosen(schema, fitted, choice, total=total, seed=seed)
    return Misfit(relaxed.distribution, compared).overall <= Misfit(agreeing.value, compared).overall


def _with_caveats(model: Model, loss: Loss, total: float | None) -> Model:
    """The model, with a caveat if its total is too small or noise does not explain its misfit."""
    if total is None and model.total == SMALLEST_TOTAL:
        model.caveats = (*model.caveats, NO_ROWS)
    if isinstance(loss, str):
        misfit = Misfit(model.distribution, model.measurements)
        model.stats["misfit"] = misfit.overall
        caveat = misfit.caveat() if model.status == SOLVED else None
        if caveat is not None:
            model.caveats = (*model.caveats, caveat)
    return model


def fit_release(
    release: Release,
    cliques: Iterable[Iterable[str]] | None,
    *,
    method: Route,
    max_size_mb: float | None,
    tolerance: float | None,
    seed: int,
) -> Model:
    """The model of a release; see `Release.model`. A release that keeps a model returns it if no option differs."""
    check_choice(WorkloadError, "method", method, ROUTES)
    record, schema, noisy = release.record, release.schema, release.measurements()
    record.require_tables()
    loose = tolerance is None or tolerance >= TOLERANCE
    if record.fitted is not None and cliques is None and max_size_mb is None and method != "approximate" and loose:
        return _of_release(Model(schema, record.fitted, noisy), release)

    # Fit to everything measured, or to what lies inside the cliques.
    inside = None if cliques is None else Restriction(release.domain, cliques, noisy)
    evidence = noisy if inside is None else inside.measurements
    total = model_total(release)
    options: dict[str, Any] = {"total": total, "max_size_mb": max_size_mb, "seed": seed}
    options["tolerance"] = TOLERANCE if tolerance is None else tolerance

    # An exact model if it is predicted to be fast enough, else relaxed rows unless tables that only agree are closer.
    if method == "auto" and tolerance is None:
        rules = [rule.clique for rule in schema.constraints]
        choice = FitChoice.of(release.domain, evidence, rules, max_size_mb, total)
        if choice.kind == "relaxed" and not _rows_are_closer(schema, evidence, choice, max_size_mb, total, seed):
            choice = replace(choice, kind="approximate")
        if choice.kind != "approximate":
            return _of_release(fit_chosen(schema, evidence, choice, total=total, seed=seed), release)
        options["tolerance"] = choice.tolerance
    elif method != "approximate":
        try:
            return _of_release(fit(schema, evidence, method="exact", **options), release)
        except SizeError as error:
            if method == "exact":
                raise SizeError(f"{error}; release.model(cliques=[...]) leaves cliques out") from None

    # Tables that only agree with each other, fitted to the estimated tables as if each had been measured by itself.
    estimates = release.estimates
    tables = [
        Measurement(clique, estimates.counts(clique), math.sqrt(mean_variance(estimates, clique)))
        for clique in (estimates.cliques if inside is None else inside.tables(estimates.cliques))
    ]
    return _of_release(fit(schema, tables, method="approximate", **options), release)


def model_total(release: Release) -> float:
    """The number of rows that a model of a release has."""
    stated = release.record.total()
    return max(float(release.estimates.counts(())), SMALLEST_TOTAL) if stated is None else stated


def _of_release(model: Model, release: Release) -> Model:
    """The model with the caveats of its release, and the release as its source.

    The misfit of an approximate model is left out: its tables were fitted as if their noise were independent.
    """
    small = (NO_ROWS,) if model.total == SMALLEST_TOTAL else ()
    caveats = (*release.facts.notes, *small, *(model.caveats if model.exact else ()))
    model.caveats, model.source = tuple(dict.fromkeys(caveats)), release
    return model
