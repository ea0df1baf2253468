"""Fit relaxed rows to noisy answers: descent on logits from the product of the columns, with rows that differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from hush.core.arrays import Floats, simplex_projection
from hush.core.constraints import Constraint
from hush.core.domain import Domain
from hush.core.errors import DomainError, SizeError, WorkloadError, shown
from hush.core.memory import require_memory
from hush.core.solution import SOLVED, TOLERANCE, Solution
from hush.core.validation import is_number
from hush.models.fit_arguments import check_stopping, checked_total, estimate_total, tolerated_loss
from hush.models.relaxed._kernels import adam_step, normalise
from hush.models.relaxed.relaxed_rows import CoarseLevels, RelaxedRows
from hush.models.relaxed.row_evidence import RowEvidence
from hush.privacy.measurement import Measurement, placed
from hush.workloads.decision_diagram import FormulaRow
from hush.workloads.threshold_term import TargetRow

ROWS = 1000
ITERATIONS = 2000
ALIKE = 0.3  # of a starting row: the shares of the columns; the rest is one level of each, drawn
LEAST_SHARE = 1e-6  # of a level in a starting row
RATE = 0.1  # of the logits, a step
FIRST, SECOND = 0.9, 0.99  # memory of Adam
LOOK = 20  # steps after which the gain is looked at
QUICK_PASSES = 6  # over all tables, a part of them at each step, before the steps that look at all
COOLINGS = 3  # times that steps become smaller before the fit stops
ARRAYS = 8  # of the size of the rows, held at a time
FEWEST_SHRUNK = 3  # numbers, which are never moved towards their mean


def fit_relaxed(
    domain: Domain,
    measurements: Iterable[Measurement],
    *,
    total: float | None = None,
    constraints: Sequence[Constraint] = (),
    rows: int = ROWS,
    start: RelaxedRows | None = None,
    max_size_mb: float | None = None,
    tolerance: float = TOLERANCE,
    iterations: int = ITERATIONS,
    restraint: float = 0.0,
    alike: float = ALIKE,
    seed: int = 0,
    progress: Callable[[float], None] | None = None,
) -> Solution[RelaxedRows]:
    """Relaxed rows whose answers are near noisy ones: whole tables, products, single cells, thresholds, in any mix.

    Minimises half the sum of squares over sigma^2 by Adam on the logits of the rows, from the product of the columns.
    Rows start different, each with a level of every column drawn in the column's shares: equal rows would stay equal.
    Steps shrink when `LOOK` of them gain less than m t^2 / 2 for m noisy numbers and `tolerance` t, and the fit stops
    when that happens once more than they may shrink. Where tables have many numbers and there is no `start`, first
    steps look at a part of them each, in turn: they are rough, and cost far less. `start` is an earlier fit to go on
    from. Memory is that of the noisy numbers and a few times that of the rows, whatever the cliques.

    Of a starting row `alike` are the shares of the columns. Columns that no answer ties keep the chance ties of the
    start: with more alike they are nearly independent, and the descent is slower where noise differs much.

    With `restraint` r, from 0 to 1, the rows are those that a second descent, from the product of the columns, first
    brings to L + r (m / 2 - L): L is the least loss found, and m / 2 that of the truth, so less follows the noise.

    Not convex: the status says whether the descent came to rest, not that no better rows exist.

    Privacy: post-processing; `seed` is public.
    Reference: [Avent 2023, Alg. 4.3]; softmax after [Liu et al. 2021]. Differs from [Avent 2023]: residuals are
    weighted by their noise, rows are kept in the simplex by softmax, the start is the product of the columns rather
    than noise, and steps are far larger. `restraint` is after the discrepancy principle of [Morozov 1966].

    >>> domain = Domain({"a": 2, "b": 2})
    >>> fitted = fit_relaxed(domain, [Measurement(("a", "b"), [[40.0, 10.0], [10.0, 40.0]], 1.0)], rows=50)
    >>> fitted.value.counts(("a", "b")).round().tolist()
    [[40.0, 10.0], [10.0, 40.0]]
    """
    check_stopping(tolerance, iterations)
    for name, value in (("rows", rows), ("iterations", iterations)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise WorkloadError(f"{name}={shown(value)}: expected a whole number of at least 1")
    for name, share in (("restraint", restraint), ("alike", alike)):
        if not (is_number(share) and 0 <= share < 1):
            raise WorkloadError(f"{name}={shown(share)}: expected a number of at least 0 and below 1")
    if constraints:
        raise WorkloadError(
            "relaxed rows cannot promise that combinations never occur, and there are rules that forbid some; use "
            "estimator='natural', or a schema without rules"
        )
    if start is not None and start.domain != domain:
        raise DomainError("start is a model of another domain; leave it out, or give one of the same attributes")
    ordered = placed(domain, measurements)
    if total is None:  # single answers do not know it, and their lines have as many numbers as a table has cells
        wholes = [one for one in ordered if not isinstance(one.query, TargetRow | FormulaRow)]
        known = estimate_total(domain, wholes)[0]
    else:
        known = checked_total(total)
    coarse = CoarseLevels.of(domain, ordered)
    columns = column_shares(coarse, ordered, known)
    coarse = CoarseLevels(domain, coarse.codes, {name: _split(coarse, name, columns[name]) for name in domain})
    if start is not None:
        rows = len(start.rows)
    width = int(coarse.offsets[-1])
    if max_size_mb is not None and 8e-6 * rows * width > max_size_mb:
        raise SizeError(
            f"{rows:,} rows of {width:,} probabilities take {8e-6 * rows * width:.3g} MB, more than max_size_mb = "
            f"{max_size_mb:g}; use fewer rows, or raise it"
        )
    require_memory(8 * ARRAYS * rows * width, f"{rows:,} rows of {width:,} probabilities", "use fewer rows")
    evidence = RowEvidence(coarse, ordered, known)
    first = _refined(coarse, columns, start or _product(domain, columns, rows), alike, seed)
    gain = tolerated_loss(tolerance, max(evidence.numbers, 1))
    descents = 2 if restraint else 1
    tell = None if progress is None else lambda share: progress(share / descents)
    fitted, stats, status = _descend(evidence, first, gain, iterations, quick=start is None, tell=tell)
    enough = stats["value"] + restraint * (0.5 * evidence.numbers - stats["value"])
    if enough > stats["value"]:
        fresh = first if start is None else _refined(coarse, columns, _product(domain, columns, rows), alike, seed)
        fitted, stopped, _ = _descend(evidence, fresh, gain, iterations, enough, quick=True, tell=tell)
        stats = {**stopped, "least": stats["value"]}
    cliques = dict.fromkeys(measurement.clique for measurement in ordered if measurement.clique)
    return Solution(value=RelaxedRows(coarse, fitted, known, cliques=cliques), status=status, stats=stats)


def _descend(
    evidence: RowEvidence,
    rows: Floats,
    least_gain: float,
    iterations: int,
    enough: float = -np.inf,
    *,
    quick: bool,
    tell: Callable[[float], None] | None = None,
) -> tuple[Floats, dict[str, float], str]:
    """Adam on logits, with smaller steps where it gains little; the best rows seen, or the first that are enough.

    `quick` steps would spoil rows that were fitted before.
    """
    offsets, parts = evidence.coarse.offsets, evidence.parts if quick else 1
    weights = np.full(len(rows), 1.0 / len(rows))
    logits = np.log(np.maximum(np.ascontiguousarray(rows.T), 1e-30))
    levels, best, mean, square = (np.zeros_like(logits) for _ in range(4))
    sums = np.empty(len(rows))
    for number in range(1, QUICK_PASSES * parts + 1 if parts > 1 else 1):
        np.exp(logits, out=levels)
        normalise(levels, offsets, sums)
        _, gradient = evidence.value_and_gradient(levels, weights, number % parts, parts)
        adam_step(logits, levels, gradient, offsets, sums, mean, square, RATE, FIRST, SECOND, number)
    mean[:], square[:] = 0.0, 0.0
    least, before = np.inf, np.inf
    rate, cooled, status = RATE, 0, SOLVED
    for number in range(1, iterations + 1):
        np.exp(logits, out=levels)
        normalise(levels, offsets, sums)
        value, gradient = evidence.value_and_gradient(levels, weights)
        if tell is not None:
            tell(number / iterations)
        if value < least:
            least = value
            best[:] = levels
        if least <= enough:
            break
        if number % LOOK == 0:
            if before - least < least_gain:
                cooled, rate = cooled + 1, rate / 3
                if cooled > COOLINGS:
                    break
            before = least
            logits = np.log(np.maximum(levels, 1e-300))  # of the same rows, and never too large to raise e to
        adam_step(logits, levels, gradient, offsets, sums, mean, square, rate, FIRST, SECOND, number)
    else:
        status = f"still gaining after {iterations} iterations; raise iterations or tolerance"
    return np.ascontiguousarray(best.T), {"iterations": float(number), "value": least}, status


def relaxed_bytes(rows: int, widths: Sequence[int], levels: int, largest: int) -> int:
    """The memory of a fit at its peak, at most.

    `widths` are the numbers of coarse levels of the columns, `levels` that of all levels of all columns, and `largest`
    the cells of the largest noisy table.
    """
    split = max(widths, default=1) ** 2  # from the coarse levels of a start to those of a fit
    return 8 * (2 * ARRAYS * rows * sum(widths) + split + 16 * levels + 6 * largest)


def column_shares(coarse: CoarseLevels, measurements: Sequence[Measurement], total: float) -> dict[str, Floats]:
    """The shares of all levels of every column: from its own noisy tables, else from one that holds it, else even.

    Tables are averaged by their precision. Levels of one coarse level are shrunk towards their mean, see `shrunk`, and
    the column is brought onto the simplex.
    """
    domain = coarse.domain
    sums = {name: np.zeros(domain[name]) for name in domain}
    precision = dict.fromkeys(domain, 0.0)
    for measurement in sorted(measurements, key=lambda one: len(one.clique)):
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
        for level in np.flatnonzero(np.bincount(coarse.codes[name]) > FEWEST_SHRUNK):
            inside = coarse.codes[name] == level
            values[inside] = shrunk(values[inside], 1.0 / precision[name])
        shares[name] = simplex_projection(values / total)
    return shares


def shrunk(values: Floats, variance: float) -> Floats:
    """Noisy numbers of one kind, moved towards their mean by as much as their spread is noise.

        m + max(0, 1 - (k - 3) variance / sum (y - m)^2) (y - m)  for k > 3 numbers

    Never worse in expected squares than the numbers themselves, whatever the truth.

    Reference: [James and Stein 1961], towards the mean.

    >>> shrunk(np.array([1.0, 2.0, 3.0, 4.0, 5.0]), 2.5).tolist()
    [2.0, 2.5, 3.0, 3.5, 4.0]
    """
    if len(values) <= FEWEST_SHRUNK:
        return values
    mean = values.mean()
    spread = float(((values - mean) ** 2).sum())
    kept = max(0.0, 1.0 - (len(values) - 3) * variance / spread) if spread else 0.0
    return np.asarray(mean + kept * (values - mean))


def _split(coarse: CoarseLevels, name: str, shares: Floats) -> Floats:
    """How the rows of each coarse level are spread over its levels; evenly where all of them seem empty."""
    whole = coarse.merged(name, shares)[coarse.codes[name]]
    return np.where(whole > 0, shares / np.where(whole > 0, whole, 1.0), coarse.shares[name])


def _product(domain: Domain, columns: dict[str, Floats], rows: int) -> RelaxedRows:
    """Rows that are all alike: the product of the columns."""
    codes = {name: np.zeros(domain[name], dtype=np.int64) for name in domain}
    return RelaxedRows(CoarseLevels(domain, codes, columns), np.ones((rows, len(domain))), 1.0)


def _refined(coarse: CoarseLevels, columns: dict[str, Floats], start: RelaxedRows, alike: float, seed: int) -> Floats:
    """The rows of a start over other coarse levels; where one of its levels is split, rows become different.

    Each row has one part of the split level more than the others, drawn in the shares of the parts, so that columns
    keep their shares on average.
    """
    generator = np.random.Generator(np.random.PCG64([seed, len(start.rows), int(coarse.offsets[-1])]))
    rows, blocks = len(start.rows), []
    for name in coarse.domain:
        before, now = start.coarse.codes[name], coarse.codes[name]
        moved = np.zeros((start.coarse.size(name), coarse.size(name)))
        np.add.at(moved, (before, now), np.maximum(columns[name], LEAST_SHARE))
        moved /= moved.sum(axis=1, keepdims=True)
        block = np.zeros((rows, coarse.size(name)))
        for level, parts in enumerate(moved):
            share = start.block(name)[:, level : level + 1]
            if np.count_nonzero(parts) == 1:
                block += share * parts
                continue
            strata = (np.arange(rows) + generator.random()) / rows
            drawn = np.minimum(np.searchsorted(np.cumsum(parts), strata, side="right"), len(parts) - 1)
            own = np.zeros_like(block)
            own[np.arange(rows), generator.permutation(drawn)] = 1.0
            block += share * (alike * parts + (1.0 - alike) * own)
        blocks.append(block / block.sum(axis=1, keepdims=True))
    return np.concatenate(blocks, axis=1)
