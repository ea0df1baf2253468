"""Projected rows: relaxed rows fitted as RAP was published, by Adam on the probabilities and a projection after it.

Each step moves the probabilities against the gradient of a distance between the rows' answers and the noisy ones, all
as shares of the rows and cut to [0, 1]; then every column of every row is projected onto the simplex ("sparsemax").
Distances are the mean square ("l2"), the p-norm ("l3", "l5" ...) and the largest difference ("linf"). `fit_relaxed` has
far better ways; this one is for comparison.

Reference: [Avent 2023, Alg. 4.3]; [Aydore et al. 2021].
Differs from [Avent 2023]: one learning rate for any number of answers, about fifty times as large, which needs a
fiftieth of the steps for the same error; the best rows are kept, not the last.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from hush.core.arrays import Floats, Integers
from hush.core.constraints import Constraint
from hush.core.domain import Domain
from hush.core.errors import WorkloadError, shown
from hush.core.solution import Solution
from hush.core.validation import check_whole
from hush.models.fit_arguments import checked_total, estimate_total
from hush.models.relaxed._kernels import predict_targets, project_blocks, pull_targets
from hush.models.relaxed.relaxed_fit import check_model, check_size
from hush.models.relaxed.relaxed_rows import CoarseLevels, RelaxedRows
from hush.privacy.measurement import Measurement, placed
from hush.workloads.threshold_term import TargetRow

RATE, MEAN_MEMORY, SQUARE_MEMORY = 0.02, 0.9, 0.999  # of Adam; the memories are the document's
MOST_STEPS = 5000
PATIENCE = 50  # steps without a gain before the descent stops
LEAST_GAIN = 1e-9  # of the mean squared difference of shares

Trace = Callable[[int, float], object]


def distance_power(distance: str) -> float:
    """p of a distance "l2", "l3", ..., or infinity of "linf".

    >>> distance_power("l2"), distance_power("linf")
    (2.0, inf)
    """
    if distance == "linf":
        return math.inf
    found = re.fullmatch(r"l([1-9][0-9]?)", distance) if isinstance(distance, str) else None
    if found is None:
        raise WorkloadError(f"distance={shown(distance)}: expected 'l2', 'linf' or another norm such as 'l5'")
    return float(found[1])


def fit_projected(
    domain: Domain,
    measurements: Iterable[Measurement],
    *,
    total: float | None = None,
    constraints: Sequence[Constraint] = (),
    rows: int = 1000,
    start: RelaxedRows | None = None,
    distance: str = "l2",
    steps: int = MOST_STEPS,
    seed: int = 0,
    trace: Trace | None = None,
) -> Solution[RelaxedRows]:
    """Relaxed rows near noisy single answers, as published; whole tables but the total are left out.

    Rows start as uniform numbers, projected, or from an earlier fit. `trace` is called with the number of each step and
    its distance.

    Privacy: post-processing; `seed` is public.

    >>> from hush.workloads.threshold_term import TargetQuery
    >>> domain = Domain({"a": 2, "b": 2})
    >>> asked = TargetQuery(("a", "b"), (2, 2), (0, 1), 2)
    >>> noisy = [Measurement(("a", "b"), [30.0], 1.0, query=asked.operator)]
    >>> fitted = fit_projected(domain, noisy, total=100.0, rows=50).value
    >>> float(fitted.counts(("a", "b"))[0, 1].round())
    30.0
    """
    power = distance_power(distance)
    check_whole(WorkloadError, "rows", rows, least=1)
    check_model(domain, constraints, start)
    ordered = placed(domain, measurements)
    tables = [measurement for measurement in ordered if not isinstance(measurement.query, TargetRow)]
    known = estimate_total(domain, tables)[0] if total is None else checked_total(total)
    levels = CoarseLevels.even(domain, {name: np.arange(domain[name]) for name in domain})
    rows = rows if start is None else len(start.rows)
    check_size(rows, int(levels.offsets[-1]), None)
    if start is None:
        z = np.random.Generator(np.random.PCG64(seed)).random((int(levels.offsets[-1]), rows))
        project_blocks(z, levels.offsets)
    else:
        z = start.rows.T.copy()
    answers = _Answers(levels, ordered, known)
    best, stats = _descend(answers, z, levels.offsets, power, steps, trace) if answers.goals.size else (z, {})
    cliques = dict.fromkeys(measurement.clique for measurement in ordered if measurement.clique)
    fitted = RelaxedRows(levels, np.ascontiguousarray(best.T), known, cliques=cliques)
    return Solution(value=fitted, stats=stats)


class _Answers:
    """Noisy single answers as shares of the rows, cut to [0, 1], and what the rows answer."""

    def __init__(self, levels: CoarseLevels, measurements: Sequence[Measurement], total: float) -> None:
        starts = dict(zip(levels.domain, levels.offsets.tolist(), strict=False))
        asked = [(m, m.query) for m in measurements if isinstance(m.query, TargetRow)]
        longest = max((len(m.clique) for m, _ in asked), default=1)
        self.columns: Integers = np.zeros((len(asked), longest), dtype=np.int64)
        for row, (measurement, query) in enumerate(asked):
            places = [starts[name] + code for name, code in zip(measurement.clique, query.target, strict=True)]
            self.columns[row, : len(places)] = places
        self.sizes = np.array([len(measurement.clique) for measurement, _ in asked], dtype=np.int64)
        self.at_least = np.array([query.at_least for _, query in asked], dtype=np.int64)
        self.goals = np.array([min(max(float(m.values[0]) / total, 0.0), 1.0) for m, _ in asked])
        self._buffers = np.empty(longest), np.empty(longest + 2)

    def differences(self, z: Floats, weights: Floats) -> Floats:
        predicted = np.empty(len(self.goals))
        predict_targets(z, weights, self.columns, self.sizes, self.at_least, *self._buffers, predicted)
        return np.asarray(predicted - self.goals)

    def gradient(self, z: Floats, weights: Floats, slope: Floats) -> Floats:
        gradient = np.zeros_like(z)
        pull_targets(z, weights, self.columns, self.sizes, self.at_least, *self._buffers, slope, gradient)
        return gradient


def distance_and_slope(differences: Floats, power: float) -> tuple[float, Floats]:
    """The distance and its slope by each difference: the mean square for p = 2, else the p-norm.

    >>> distance_and_slope(np.array([3.0, -4.0]), 2.0)
    (12.5, array([ 3., -4.]))
    >>> distance_and_slope(np.array([3.0, -4.0]), np.inf)
    (4.0, array([ 0., -1.]))
    """
    sizes = np.abs(differences)
    largest = float(sizes.max())
    if power == 2:
        return float(np.mean(differences**2)), 2 * differences / len(differences)
    if math.isinf(power) or largest == 0:
        slope = np.zeros(len(differences))
        slope[int(np.argmax(sizes))] = np.sign(differences[int(np.argmax(sizes))])
        return largest, slope
    scaled = sizes / largest  # so that powers do not underflow
    norm = float(np.sum(scaled**power) ** (1 / power))
    return largest * norm, np.sign(differences) * (scaled / norm) ** (power - 1)


def _descend(
    answers: _Answers, z: Floats, offsets: Integers, power: float, steps: int, trace: Trace | None
) -> tuple[Floats, dict[str, float]]:
    """Adam with a projection after every step; the best rows seen, and their distance."""
    weights = np.full(z.shape[1], 1.0 / z.shape[1])
    mean, square = np.zeros_like(z), np.zeros_like(z)
    best, least, since, number = z.copy(), math.inf, 0, 0
    for number in range(1, steps + 1):
        value, slope = distance_and_slope(answers.differences(z, weights), power)
        if trace is not None:
            trace(number, value)
        since = 0 if value < least - LEAST_GAIN else since + 1
        if value < least:
            best, least = z.copy(), value
        if since >= PATIENCE or value <= LEAST_GAIN:
            break
        gradient = answers.gradient(z, weights, slope)
        mean += (1 - MEAN_MEMORY) * (gradient - mean)
        square += (1 - SQUARE_MEMORY) * (gradient**2 - square)
        step = np.sqrt(square / (1 - SQUARE_MEMORY**number)) + 1e-12
        z = z - RATE / (1 - MEAN_MEMORY**number) * mean / step
        project_blocks(z, offsets)
    return best, {"value": least, "iterations": float(number)}
