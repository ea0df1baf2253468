"""Evidence for relaxed rows: noisy tables and single answers as functions of the rows, with their gradients.

A table is a product of columns averaged over rows, a single answer a product or the tail of a sum of independent
events. Both are polynomials in the rows, so gradients are in closed form.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from hush.arrays import Floats
from hush.linops import Kronecker, LinearOperator
from hush.memory import require_memory
from hush.privacy.measurement import Measurement
from hush.relaxed._kernels import predict_tables, predict_targets, pull_tables, pull_targets
from hush.relaxed.coarse_levels import CoarseLevels, factors_of
from hush.workloads.threshold_target import TargetRow


@dataclass(slots=True)
class _Tables:
    """Tables to predict: their axes as runs of columns, and where the noisy numbers of each stand."""

    axes: list[list[tuple[int, int]]] = field(default_factory=list)  # start and size
    cells: list[int] = field(default_factory=list)

    def add(self, axes: list[tuple[int, int]]) -> slice:
        start = sum(self.cells)
        self.axes.append(axes)
        self.cells.append(math.prod(size for _, size in axes))
        return slice(start, start + self.cells[-1])


class RowEvidence:
    """Half the sum of squares (N Q p - y)^2 / sigma^2 over all noisy numbers, as a function of relaxed rows.

    Measurements are placed on the domain. Columns that a product query transforms stand behind those of the rows, so
    that tables of answers are products of columns too. Queries that are no products apply to the table over their
    clique. Laplace noise counts by its variance.

    Privacy: post-processing of public noisy values.
    Reference: [Avent 2023, Alg. 4.3]. Differs from [Avent 2023]: residuals are weighted by their noise, and gradients
    are in closed form: for a product the product of the other columns, for r of k the chance of exactly r - 1 of the
    others.
    """

    def __init__(self, coarse: CoarseLevels, measurements: Sequence[Measurement], total: float) -> None:
        self.coarse = coarse
        self.total = total
        self.width = int(coarse.offsets[-1])
        self._starts = dict(zip(coarse.domain, coarse.offsets.tolist(), strict=False))
        self._transforms: list[tuple[str, int, Floats]] = []
        self._known: dict[tuple[str, bytes], tuple[int, int]] = {}
        self._tables = _Tables()
        self._linear: list[tuple[slice, LinearOperator, Floats, float]] = []
        self._targets: list[tuple[list[int], int, float, float]] = []
        goals: list[tuple[slice, Floats, Floats]] = []
        self.numbers = 0
        for measurement in measurements:
            if measurement.clique:
                self.numbers += measurement.numbers
                self._add(measurement, goals)
        cells = sum(self._tables.cells)
        require_memory(32 * cells, f"tables of {cells:,} noisy numbers", "measure smaller tables")
        self._goal, self._precision = np.zeros(cells), np.zeros(cells)
        for span, values, precision in goals:
            self._goal[span], self._precision[span] = values, precision
        self._arrays()

    def _add(self, measurement: Measurement, goals: list[tuple[slice, Floats, Floats]]) -> None:
        domain, clique, query = self.coarse.domain, measurement.clique, measurement.query
        values, variance = measurement.values, measurement.variance
        if isinstance(query, TargetRow):
            columns = [
                self._starts[name] + int(self.coarse.codes[name][code])
                for name, code in zip(clique, query.target, strict=True)
            ]
            self._targets.append((columns, query.at_least, float(values[0]), variance))
            return
        if query is None and len(clique) == 1:
            (name,) = clique
            span = self._tables.add([(self._starts[name], self.coarse.size(name))])
            merged = np.bincount(self.coarse.codes[name]).astype(np.float64)
            goals.append((span, self.coarse.merged(name, values), np.asarray(1.0 / (variance * merged))))
            return
        factors = factors_of(measurement, domain.sizes(clique))
        axes = [self._axis(name, factor) for name, factor in zip(clique, factors, strict=True)]
        if isinstance(query, LinearOperator) and not isinstance(query, Kronecker) and len(clique) > 1:
            self._linear.append((self._tables.add(axes), query, values, 1.0 / variance))
            return
        sizes = [size for _, size in axes]
        order = sorted(range(len(axes)), key=sizes.__getitem__)  # the longest axis last
        table = values.reshape(sizes).transpose(order).reshape(-1)
        goals.append((self._tables.add([axes[i] for i in order]), table, np.full(table.size, 1.0 / variance)))

    def _axis(self, name: str, factor: LinearOperator | None) -> tuple[int, int]:
        """The columns of an attribute as a query sees them: those of the rows, or new ones."""
        start, size = self._starts[name], self.coarse.size(name)
        if factor is None:
            return start, size
        matrix = factor.dense()[:, self.coarse.firsts(name)]
        if matrix.shape == (size, size) and np.array_equal(matrix, np.eye(size)):
            return start, size
        key = name, matrix.tobytes()
        if key not in self._known:
            self._known[key] = self.width, len(matrix)
            self._transforms.append((name, self.width, matrix))
            self.width += len(matrix)
        return self._known[key]

    def _arrays(self) -> None:
        """What the kernels take."""
        tables = self._tables
        flat = [axis for axes in tables.axes for axis in axes]
        self._firsts = np.concatenate([[0], np.cumsum([len(axes) for axes in tables.axes])]).astype(np.int64)
        self._axis_starts = np.array([start for start, _ in flat], dtype=np.int64)
        self._axis_sizes = np.array([size for _, size in flat], dtype=np.int64)
        self._cell_starts = np.concatenate([[0], np.cumsum(tables.cells)]).astype(np.int64)
        most = max((cells // axes[-1][1] for cells, axes in zip(tables.cells, tables.axes, strict=True)), default=1)
        self._levels, self._folded = np.empty(2 * most + 1), np.empty(most + 1)
        longest = max((len(columns) for columns, *_ in self._targets), default=1)
        self._columns = np.zeros((len(self._targets), longest), dtype=np.int64)
        for row, (columns, *_) in enumerate(self._targets):
            self._columns[row, : len(columns)] = columns
        self._sizes = np.array([len(columns) for columns, *_ in self._targets], dtype=np.int64)
        self._at_least = np.array([least for _, least, *_ in self._targets], dtype=np.int64)
        self._target_goal = np.array([value for *_, value, _ in self._targets])
        self._target_precision = np.array([1.0 / variance for *_, variance in self._targets])
        self._events, self._tally = np.empty(longest), np.empty(longest + 2)

    def extended(self, rows: Floats) -> Floats:
        """The rows with the columns of product queries behind them."""
        if not self._transforms:
            return rows
        z = np.empty((len(rows), self.width))
        z[:, : rows.shape[1]] = rows
        for name, start, matrix in self._transforms:
            begin = self._starts[name]
            z[:, start : start + len(matrix)] = rows[:, begin : begin + matrix.shape[1]] @ matrix.T
        return z

    def value_and_gradient(self, rows: Floats, weights: Floats) -> tuple[float, Floats]:
        """The loss and its gradient by the rows."""
        z = self.extended(rows)
        gradient = np.zeros_like(z)
        value = self._of_tables(z, weights, gradient) + self._of_targets(z, weights, gradient)
        width = rows.shape[1]
        for name, start, matrix in self._transforms:
            begin = self._starts[name]
            gradient[:, begin : begin + matrix.shape[1]] += gradient[:, start : start + len(matrix)] @ matrix
        return value, gradient[:, :width] if width < self.width else gradient

    def _of_tables(self, z: Floats, weights: Floats, gradient: Floats) -> float:
        if not len(self._goal):
            return 0.0
        shapes = self._firsts, self._axis_starts, self._axis_sizes, self._cell_starts
        predicted = np.empty(len(self._goal))
        predict_tables(z, weights, *shapes, self._levels, predicted)
        predicted *= self.total
        residual = predicted - self._goal
        slope = self._precision * residual
        value = 0.5 * float(slope @ residual)
        for span, query, values, precision in self._linear:
            off = query @ predicted[span] - values
            value += 0.5 * precision * float(off @ off)
            slope[span] = precision * (query.transpose() @ off)
        slope *= self.total
        pull_tables(z, weights, *shapes, self._levels, self._folded, slope, gradient)
        return value

    def _of_targets(self, z: Floats, weights: Floats, gradient: Floats) -> float:
        if not len(self._targets):
            return 0.0
        asked = self._columns, self._sizes, self._at_least, self._events, self._tally
        predicted = np.empty(len(self._targets))
        predict_targets(z, weights, *asked, predicted)
        residual = self.total * predicted - self._target_goal
        slope = self._target_precision * residual
        pull_targets(z, weights, *asked, self.total * slope, gradient)
        return 0.5 * float(slope @ residual)
