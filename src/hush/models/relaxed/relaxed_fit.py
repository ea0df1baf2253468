"""Fit relaxed rows to noisy answers, by Adam on the logits of the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from hush.core.arrays import Floats, simplex_projection
from hush.core.constraints import Constraint
from hush.core.domain import Domain
from hush.core.errors import DomainError, SizeError, WorkloadError
from hush.core.memory import require_memory
from hush.core.solution import SOLVED, TOLERANCE, Solution
from hush.core.validation import check_number, check_whole
from hush.models.fit_arguments import check_stopping, checked_total, estimate_total, tolerated_loss
from hush.models.relaxed._kernels import adam_step, normalise
from hush.models.relaxed.relaxed_loss import RelaxedLoss
from hush.models.relaxed.relaxed_rows import CoarseLevels, RelaxedRows
from hush.privacy.measurement import Measurement, placed
from hush.workloads.decision_diagram import FormulaRow
from hush.workloads.threshold_term import TargetRow

RELAXED_ROWS = 1000
RELAXED_ITERATIONS = 2000
START_SHARED = 0.3  # weight of the column shares in a starting row; the rest is one drawn level of each column
LEAST_START_SHARE = 1e-6  # of a level in a starting row, so that its logit is finite
QUICK_PASSES = 6  # over all tables, one part of them per step, before the steps that evaluate all tables
STEPS_PER_CHECK = 20  # of Adam, between comparisons of the loss
MOST_COOLINGS = 3  # how often a stalled descent shrinks its steps before it stops
ARRAYS_HELD = 8  # of the size of the rows, at a time
ALWAYS_KEPT = 3  # as few numbers as this are never shrunk towards their mean


@dataclass(frozen=True, slots=True)
class Adam:
    """The settings of Adam [Kingma and Ba 2015]: its step on the logits, and the memory of its two averages."""

    rate: float = 0.1
    mean_memory: float = 0.9
    square_memory: float = 0.99


def fit_relaxed(
    domain: Domain,
    measurements: Iterable[Measurement],
    *,
    total: float | None = None,
    constraints: Sequence[Constraint] = (),
    rows: int = RELAXED_ROWS,
    start: RelaxedRows | None = None,
    max_size_mb: float | None = None,
    tolerance: float = TOLERANCE,
    iterations: int = RELAXED_ITERATIONS,
    restraint: float = 0.0,
    start_shared: float = START_SHARED,
    seed: int = 0,
    progress: Callable[[float], None] | None = None,
) -> Solution[RelaxedRows]:
    """Relaxed rows whose answers are near noisy ones: whole tables, products, single cells, thresholds, in any mix.

    Minimises L = half the sum of squared residuals over sigma^2 by Adam on the logits of the rows. `start` is an
    earlier fit to continue from; by default rows start as in `_refined_start`, and `start_shared` is the weight of the
    column shares there. Columns that no answer relates keep the accidental association of their start: a larger weight
    leaves them nearly independent, but slows the descent if noise levels differ much. `tolerance`, `iterations` and
    `restraint` say when to stop: see `_least_loss`. Memory is that of the noisy numbers plus a few times the rows.

    Not convex: the status says whether the descent came to rest, not that no better rows exist.

    Privacy: post-processing; `seed` is public.
    Reference: [Avent 2023, Alg. 4.3]; softmax after [Liu et al. 2021]. Differs from [Avent 2023]: residuals are
    weighted by their noise, softmax keeps rows in the simplex, the start is the product of the columns rather than
    noise, and steps are far larger.

    >>> domain = Domain({"a": 2, "b": 2})
    >>> fitted = fit_relaxed(domain, [Measurement(("a", "b"), [[40.0, 10.0], [10.0, 40.0]], 1.0)], rows=50)
    >>> fitted.value.counts(("a", "b")).round().tolist()
    [[40.0, 10.0], [10.0, 40.0]]
    """
    check_stopping(tolerance, iterations)
    check_whole(WorkloadError, "rows", rows, least=1)
    check_number(WorkloadError, "restraint", restraint, least=0, below=1)
    check_number(WorkloadError, "start_shared", start_shared, least=0, below=1)
    check_model(domain, constraints, start)
    ordered = placed(domain, measurements)
    tables = [m for m in ordered if not isinstance(m.query, TargetRow | FormulaRow)]  # others determine no total
    known = estimate_total(domain, tables)[0] if total is None else checked_total(total)

    # Merge the levels that no answer over several columns distinguishes, and descend.
    coarse = CoarseLevels.of(domain, ordered)
    columns = column_shares(coarse, ordered, known)
    coarse = coarse.with_shares(columns)
    rows = rows if start is None else len(start.rows)
    check_size(rows, int(coarse.offsets[-1]), max_size_mb)
    loss = RelaxedLoss(coarse, ordered, known)
    product_start = RelaxedRows(CoarseLevels.merged_whole(domain, columns), np.ones((rows, len(domain))), 1.0)
    starts = [_refined_start(coarse, columns, start or product_start, start_shared, seed)]
    if start is not None and restraint:
        starts.append(_refined_start(coarse, columns, product_start, start_shared, seed))
    rough = start is None  # rough steps would spoil rows that were fitted before
    fitted, stats, status = _least_loss(loss, starts, rough, tolerance, iterations, restraint, progress)
    cliques = dict.fromkeys(measurement.clique for measurement in ordered if measurement.clique)
    return Solution(value=RelaxedRows(coarse, fitted, known, cliques=cliques), status=status, stats=stats)


def check_model(domain: Domain, constraints: Sequence[Constraint], start: RelaxedRows | None) -> None:
    """Refuse constraints, which relaxed rows cannot keep, and a start over another domain."""
    if constraints:
        raise WorkloadError(
            "relaxed rows cannot guarantee that a combination never occurs, and the schema forbids some; use "
            "estimator='natural', or a schema without rules"
        )
    if start is not None and start.domain != domain:
        raise DomainError("start is a model of another domain; leave it out, or give one of the same attributes")


def check_size(rows: int, width: int, max_size_mb: float | None) -> None:
    """Refuse rows that take more than a limit, or more than the free memory."""
    if max_size_mb is not None and 8e-6 * rows * width > max_size_mb:
        raise SizeError(
            f"{rows:,} rows of {width:,} probabilities take {8e-6 * rows * width:.3g} MB, more than max_size_mb = "
            f"{max_size_mb:g}; use fewer rows, or raise it"
        )
    require_memory(8 * ARRAYS_HELD * rows * width, f"{rows:,} rows of {width:,} probabilities", "use fewer rows")


def _least_loss(
    loss: RelaxedLoss,
    starts: Sequence[Floats],
    rough: bool,
    tolerance: float,
    iterations: int,
    restraint: float,
    progress: Callable[[float], None] | None,
) -> tuple[Floats, dict[str, float], str]:
    """Descend from the first of `starts`; with `restraint`, once more from the last, which is no earlier fit.

    Steps shrink when the loss gains less than m t^2 / 2 between checks, for m noisy numbers and `tolerance` t; a
    descent stops after shrinking three times. If `rough`, many noisy numbers are first fitted by cheap steps that each
    evaluate some of the tables.

    `restraint` r from 0 to 1 stops short of the least loss, so that rows follow less of the noise: the second descent
    ends when its loss first reaches L + r (m / 2 - L), where L is the least loss found and m / 2 the expected loss of
    the truth, after the discrepancy principle of [Morozov 1966].
    """
    gain = tolerated_loss(tolerance, max(loss.numbers, 1))
    tell = None if progress is None else lambda share: progress(share / (2 if restraint else 1))
    fitted, stats, status = _descend(loss, starts[0], gain, iterations, quick=rough, tell=tell)
    enough = stats["value"] + restraint * (0.5 * loss.numbers - stats["value"])
    if enough > stats["value"]:
        fitted, stopped, _ = _descend(loss, starts[-1], gain, iterations, enough, quick=True, tell=tell)
        stats = {**stopped, "least": stats["value"]}
    return fitted, stats, status


def _descend(
    loss: RelaxedLoss,
    rows: Floats,
    least_gain: float,
    iterations: int,
    enough: float = -np.inf,
    *,
    quick: bool,
    tell: Callable[[float], None] | None = None,
) -> tuple[Floats, dict[str, float], str]:
    """The rows of least loss that Adam finds, or the first whose loss is at most `enough`; statistics and status.

    `quick` allows rough first steps; they would spoil rows that were fitted before.
    """
    adam = Adam()
    offsets, parts = loss.coarse.offsets, loss.parts if quick else 1
    weights = np.full(len(rows), 1.0 / len(rows))
    logits = np.log(np.maximum(np.ascontiguousarray(rows.T), 1e-30))
    levels, best, mean, square = (np.zeros_like(logits) for _ in range(4))
    sums = np.empty(len(rows))
    memory = adam.mean_memory, adam.square_memory

    # Rough steps: each evaluates one part of the tables.
    for number in range(1, QUICK_PASSES * parts + 1 if parts > 1 else 1):
        np.exp(logits, out=levels)
        normalise(levels, offsets, sums)
        _, gradient = loss.value_and_gradient(levels, weights, number % parts, parts)
        adam_step(logits, levels, gradient, offsets, sums, mean, square, adam.rate, *memory, number)

    # Full steps: keep the best rows, and shrink the steps whenever the loss stalls.
    mean[:], square[:] = 0.0, 0.0
    least, before = np.inf, np.inf
    rate, coolings, status = adam.rate, 0, SOLVED
    for number in range(1, iterations + 1):
        np.exp(logits, out=levels)
        normalise(levels, offsets, sums)
        value, gradient = loss.value_and_gradient(levels, weights)
        if tell is not None:
            tell(number / iterations)
        if value < least:
            least = value
            best[:] = levels
        if least <= enough:
            break
        if number % STEPS_PER_CHECK == 0:
            if before - least < least_gain:
                coolings, rate = coolings + 1, rate / 3
                if coolings > MOST_COOLINGS:
                    break
            before = least
            logits = np.log(np.maximum(levels, 1e-300))  # normalised: keeps exp from overflowing
        adam_step(logits, levels, gradient, offsets, sums, mean, square, rate, *memory, number)
    else:
        status = f"the loss still falls after {iterations} iterations; raise iterations or tolerance"
    return np.ascontiguousarray(best.T), {"iterations": float(number), "value": least}, status


def relaxed_bytes(rows: int, widths: Sequence[int], levels: int, largest: int) -> int:
    """An upper bound on the bytes of a fit at its peak.

    `widths` are the numbers of coarse levels of the columns, `levels` the levels of all columns together, and `largest`
    the cells of the largest noisy table.
    """
    split = max(widths, default=1) ** 2  # from the coarse levels of a start to those of a fit
    return 8 * (2 * ARRAYS_HELD * rows * sum(widths) + split + 16 * levels + 6 * largest)


def column_shares(coarse: CoarseLevels, measurements: Sequence[Measurement], total: float) -> dict[str, Floats]:
    """The shares of all levels of every column: from its own noisy tables, else from a larger table, else equal.

    Tables are averaged by their precision. Levels of one coarse level are shrunk towards their mean (see `shrunk`), and
    the column is projected onto the simplex.
    """
    domain = coarse.domain
    sums = {name: np.zeros(domain[name]) for name in domain}
    precision = dict.fromkeys(domain, 0.0)
    for measurement in sorted(measurements, key=lambda measurement: len(measurement.clique)):
        if measurement.query is not None:
            continue
        for axis, name in enumerate(measurement.clique):
            alone = len(measurement.clique) == 1
            if precision[name] and not alone:
                continue
            others = tuple(i for i in range(measurement.values.ndim) if i != axis)
            added = domain[name] / measurement.numbers / measurement.variance
            sums[name] += added * measurement.values.sum(axis=others)
            precision[name] += added
    shares = {}
    for name, size in zip(domain, domain.shape, strict=True):
        if not precision[name]:
            shares[name] = np.full(size, 1.0 / size)
            continue
        values = sums[name] / precision[name]
        for level in np.flatnonzero(np.bincount(coarse.codes[name]) > ALWAYS_KEPT):
            inside = coarse.codes[name] == level
            values[inside] = shrunk(values[inside], 1.0 / precision[name])
        shares[name] = simplex_projection(values / total)
    return shares


def shrunk(values: Floats, variance: float) -> Floats:
    """Noisy numbers, shrunk towards their mean by as much of their spread as the noise explains.

        m + max(0, 1 - (k - 3) variance / sum (y - m)^2) (y - m)  for k > 3 numbers

    The expected squared error is never larger than that of the numbers themselves, whatever the truth.

    Reference: [James and Stein 1961], towards the mean.

    >>> shrunk(np.array([1.0, 2.0, 3.0, 4.0, 5.0]), 2.5).tolist()
    [2.0, 2.5, 3.0, 3.5, 4.0]
    """
    if len(values) <= ALWAYS_KEPT:
        return values
    mean = values.mean()
    spread = float(((values - mean) ** 2).sum())
    kept = max(0.0, 1.0 - (len(values) - 3) * variance / spread) if spread else 0.0
    return np.asarray(mean + kept * (values - mean))


def _refined_start(
    coarse: CoarseLevels, columns: dict[str, Floats], start: RelaxedRows, shared: float, seed: int
) -> Floats:
    """The rows of a start over finer coarse levels; rows become different wherever a level is split.

    Equal rows would stay equal under descent. So each row puts the weight 1 - `shared` on one part of the split level,
    drawn with the shares of the parts; on average, columns keep their shares.
    """
    generator = np.random.Generator(np.random.PCG64([seed, len(start.rows), int(coarse.offsets[-1])]))
    rows, blocks = len(start.rows), []
    for name in coarse.domain:
        before, now = start.coarse.codes[name], coarse.codes[name]
        splits = np.zeros((start.coarse.size(name), coarse.size(name)))  # P(new level | old level)
        np.add.at(splits, (before, now), np.maximum(columns[name], LEAST_START_SHARE))
        splits /= splits.sum(axis=1, keepdims=True)
        block = np.zeros((rows, coarse.size(name)))
        for level, parts in enumerate(splits):
            share = start.block(name)[:, level : level + 1]
            if np.count_nonzero(parts) == 1:
                block += share * parts
                continue
            strata = (np.arange(rows) + generator.random()) / rows
            drawn = np.minimum(np.searchsorted(np.cumsum(parts), strata, side="right"), len(parts) - 1)
            one_part = np.zeros_like(block)
            one_part[np.arange(rows), generator.permutation(drawn)] = 1.0
            block += share * (shared * parts + (1.0 - shared) * one_part)
        blocks.append(block / block.sum(axis=1, keepdims=True))
    return np.concatenate(blocks, axis=1)
