"""The loss of relaxed rows: squared distance of their answers from noisy tables and single answers, and its gradient.

A table is a product of columns averaged over rows. A single answer is a product, the tail of a sum of independent
events (a threshold), or a formula evaluated by its decision diagram. All are polynomials in the rows, so that gradients
have closed forms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hush.core.arrays import Floats, Integers
from hush.core.memory import require_memory
from hush.linops import Kronecker, LevelSums, LinearOperator
from hush.models.relaxed._kernels import predict_table, predict_targets, pull_table, pull_targets
from hush.models.relaxed.relaxed_rows import CoarseLevels, factors_of
from hush.privacy.measurement import Measurement
from hush.workloads.decision_diagram import DecisionDiagram, FormulaRow
from hush.workloads.threshold_term import TargetRow

PRODUCTS_PER_BLOCK = 48  # of columns, which one matrix product adds up
QUICK_STEP_NUMBERS = 1 << 17  # noisy numbers that one rough step evaluates, about


@dataclass(frozen=True, slots=True, eq=False)
class _NoisyTable:
    """A noisy table, or noisy answers to a query on a table: the first line in `z` and the length of every axis."""

    starts: Integers
    sizes: Integers
    values: Floats
    precision: float
    query: LinearOperator | None = None  # on the whole table, unless it is a product of columns

    @classmethod
    def over(cls, axes: Sequence[tuple[int, int]], *rest: Any) -> _NoisyTable:
        starts, sizes = np.array(axes, dtype=np.int64).T.copy()
        return cls(starts, sizes, *rest)

    @property
    def cells(self) -> int:
        return math.prod(self.sizes.tolist())


class RelaxedLoss:
    """Half the sum of squares (N Q p - y)^2 / sigma^2 over all noisy numbers, as a function of relaxed rows.

    Measurements are placed on the domain. A product query transforms columns; the transformed columns follow those of
    the rows in `z`, so that its answers form a table of products of columns too. Other queries apply to the whole table
    over their clique. Laplace noise is treated as Gaussian noise of the same variance.

    Privacy: post-processing of public noisy values.
    Reference: [Avent 2023, Alg. 4.3]. Differs from [Avent 2023]: residuals are weighted by their noise, and gradients
    have closed forms: for a product, the product of the other columns; for "at least r of k", the probability that
    exactly r - 1 of the others hold.
    """

    def __init__(self, coarse: CoarseLevels, measurements: Sequence[Measurement], total: float) -> None:
        self.coarse = coarse
        self.total = total
        self.width = int(coarse.offsets[-1])
        self._starts = dict(zip(coarse.domain, coarse.offsets.tolist(), strict=False))
        self._level_counts = dict(zip(coarse.domain, coarse.sizes, strict=True))
        self._firsts = {name: coarse.firsts(name) for name in coarse.domain}
        self._transforms: list[tuple[str, int, Floats]] = []
        self._known: dict[tuple[str, bytes], tuple[int, int]] = {}
        self._tables: list[_NoisyTable] = []
        self._targets: list[tuple[list[int], int, float, float]] = []
        self._formulas: list[tuple[DecisionDiagram, float, float]] = []  # over coarse levels
        self._column_precision, self._column_values, self._constant = np.zeros(self.width), np.zeros(self.width), 0.0
        self.numbers = 0
        for measurement in measurements:
            if measurement.clique:
                self.numbers += measurement.numbers
                self._add(measurement)
        cells = max((table.cells for table in self._tables), default=0)
        require_memory(32 * cells, f"a table of {cells:,} noisy numbers", "measure smaller tables")

        # The single answers as arrays for the kernels, padded to the longest.
        longest = max((len(columns) for columns, *_ in self._targets), default=1)
        self._columns = np.zeros((len(self._targets), longest), dtype=np.int64)
        for row, (columns, *_) in enumerate(self._targets):
            self._columns[row, : len(columns)] = columns
        self._sizes = np.array([len(columns) for columns, *_ in self._targets], dtype=np.int64)
        self._at_least = np.array([least for _, least, *_ in self._targets], dtype=np.int64)
        self._target_values = np.array([value for *_, value, _ in self._targets])
        self._target_precision = np.array([1.0 / variance for *_, variance in self._targets])
        self._events, self._tally = np.empty(longest), np.empty(longest + 2)

    def _add(self, measurement: Measurement) -> None:
        """Sort a measurement by its kind: single answer, formula, one-way table, whole-table query, product."""
        domain, clique, query = self.coarse.domain, measurement.clique, measurement.query
        values, variance = measurement.values, measurement.variance
        if isinstance(query, TargetRow):
            columns = [
                self._starts[name] + int(self.coarse.codes[name][code])
                for name, code in zip(clique, query.target, strict=True)
            ]
            self._targets.append((columns, query.at_least, float(values[0]), variance))
            return
        if isinstance(query, FormulaRow):
            firsts = tuple(classes[self._firsts[n]] for n, classes in zip(clique, query.diagram.classes, strict=True))
            diagram = DecisionDiagram(clique, firsts, query.diagram.decides, query.diagram.children, query.diagram.root)
            self._formulas.append((diagram, float(values[0]), 1.0 / variance))
            return
        if query is None and len(clique) == 1:
            # All noisy tables of a column are kept as one: their average by precision, and a constant loss.
            name = clique[0]
            span = slice(self._starts[name], self._starts[name] + self.coarse.size(name))
            merged = self.coarse.merged(name, values)
            precision = 1.0 / (variance * np.bincount(self.coarse.codes[name]))
            before, average = self._column_precision[span].copy(), self._column_values[span]
            after = before + precision
            self._constant += 0.5 * float((before * precision / after) @ (merged - average) ** 2)
            self._column_values[span] = (before * average + precision * merged) / after
            self._column_precision[span] = after
            return
        factors = factors_of(measurement, domain.sizes(clique))
        placed = [self._axis(name, factor) for name, factor in zip(clique, factors, strict=True)]
        axes = [axis for axis, _ in placed]
        if isinstance(query, LinearOperator) and not isinstance(query, Kronecker) and len(clique) > 1:
            self._tables.append(_NoisyTable.over(axes, values, 1.0 / variance, query))
            return
        sizes = [size for _, size in axes]
        table = values.reshape(sizes)
        for index, (_, order) in enumerate(placed):
            table = table if order is None else table.take(order, axis=index)
        by_size = sorted(range(len(axes)), key=sizes.__getitem__)  # the longest axis last
        table = table.transpose(by_size).reshape(-1)
        self._tables.append(_NoisyTable.over([axes[i] for i in by_size], table, 1.0 / variance))

    def _axis(self, name: str, factor: LinearOperator | None) -> tuple[tuple[int, int], Integers | None]:
        """The lines in `z` of an attribute transformed by a query's factor, and the order of levels if permuted.

        The factors of the identity and of a permutation use the lines of the rows; others get lines of their own.
        """
        start, size, firsts = self._starts[name], self._level_counts[name], self._firsts[name]
        if factor is None:
            return (start, size), None
        if isinstance(factor, LevelSums):
            order = factor.codes[firsts]
            if factor.levels == size:
                return (start, size), None if np.array_equal(order, np.arange(size)) else order
            matrix = np.equal.outer(np.arange(factor.levels), order).astype(np.float64)
        else:
            matrix = factor.dense()[:, firsts]
        if matrix.shape == (size, size) and np.array_equal(matrix @ matrix.T, np.eye(size)) and matrix.min() >= 0:
            order = matrix.argmax(axis=0)  # of a permutation: the position of each level in the query
            return (start, size), None if np.array_equal(order, np.arange(size)) else order
        key = name, matrix.tobytes()
        if key not in self._known:
            self._known[key] = self.width, len(matrix)
            self._transforms.append((name, self.width, matrix))
            self.width += len(matrix)
        return self._known[key], None

    def extended(self, levels: Floats) -> Floats:
        """`z`: the levels, followed by the columns that product queries transform."""
        if not self._transforms:
            return levels
        z = np.empty((self.width, levels.shape[1]))
        z[: len(levels)] = levels
        for name, start, matrix in self._transforms:
            begin = self._starts[name]
            np.matmul(matrix, levels[begin : begin + matrix.shape[1]], out=z[start : start + len(matrix)])
        return z

    @property
    def parts(self) -> int:
        """Into how many parts the tables are divided for rough steps."""
        return max(1, min(len(self._tables), sum(table.cells for table in self._tables) // QUICK_STEP_NUMBERS))

    def value_and_gradient(
        self, levels: Floats, weights: Floats, part: int = 0, parts: int = 1
    ) -> tuple[float, Floats]:
        """The loss and its gradient with respect to the levels, both of shape (levels, rows).

        With `parts`, only every `parts`-th table counts, from number `part` on, and its loss is scaled up accordingly.
        """
        z, width = self.extended(np.ascontiguousarray(levels)), len(levels)
        residual = self.total * (levels @ weights) - self._column_values
        slope = self._column_precision * residual
        value = self._constant + 0.5 * float(slope @ residual)
        gradient = np.zeros_like(z)
        np.multiply.outer(self.total * slope, weights, out=gradient[:width])
        value += sum(self._of_table(table, parts, z, weights, gradient) for table in self._tables[part::parts])
        value += self._of_targets(z, weights, gradient)
        value += sum(self._of_formula(*formula, z, weights, gradient) for formula in self._formulas)
        for name, start, matrix in self._transforms:
            begin = self._starts[name]
            gradient[begin : begin + matrix.shape[1]] += matrix.T @ gradient[start : start + len(matrix)]
        return value, gradient[:width]

    def _of_table(self, table: _NoisyTable, times: int, z: Floats, weights: Floats, gradient: Floats) -> float:
        rows, precision = self.total * weights, times * table.precision
        products, folded = np.empty((2, len(table.starts), len(weights)))
        predicted = np.empty(table.cells)
        held = np.empty((min(PRODUCTS_PER_BLOCK, table.cells // int(table.sizes[-1])), len(weights)))
        predict_table(z, rows, table.starts, table.sizes, products, held, predicted)
        if table.query is None:
            residual = predicted - table.values
            slope = precision * residual
        else:
            residual = table.query @ predicted - table.values
            slope = precision * (table.query.transpose() @ residual)
        pull_table(z, rows, table.starts, table.sizes, products, folded, held, slope, gradient)
        return 0.5 * precision * float(residual @ residual)

    def _of_formula(
        self, diagram: DecisionDiagram, goal: float, precision: float, z: Floats, weights: Floats, gradient: Floats
    ) -> float:
        spans = [slice(self._starts[name], self._starts[name] + self.coarse.size(name)) for name in diagram.clique]
        satisfied, slopes = diagram.value_and_gradient([z[span].T for span in spans])
        residual = self.total * float(weights @ satisfied) - goal
        for span, slope in zip(spans, slopes, strict=True):
            gradient[span] += (self.total * precision * residual) * weights * slope.T
        return 0.5 * precision * residual**2

    def _of_targets(self, z: Floats, weights: Floats, gradient: Floats) -> float:
        if not len(self._targets):
            return 0.0
        asked = self._columns, self._sizes, self._at_least, self._events, self._tally
        predicted = np.empty(len(self._targets))
        predict_targets(z, weights, *asked, predicted)
        residual = self.total * predicted - self._target_values
        slope = self._target_precision * residual
        pull_targets(z, weights, *asked, self.total * slope, gradient)
        return 0.5 * float(slope @ residual)
