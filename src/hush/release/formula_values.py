"""Values of formulas: what a formula of counts and measured sums gives in each group, with its error and interval.

The variance of a formula f of counts is that of its linearisation, sum_x slope[x] count[x] with slope = df/dcount.
For sums of counts the slope is the coefficient itself and the variance is exact. For a ratio r = a / b the slope is
(slope_a - r slope_b) / b, which gives (Va - 2 r Cab + r^2 Vb) / b^2: the delta method. A single ratio of sums has an
interval of its own (`RatioIntervals`), within its possible range: sum_x f[x] n[x] / sum_x g[x] n[x] with counts n >= 0
lies between the least and the largest f[x] / g[x].

Measured sums of values have their own noise, independent of that of the counts, and slopes as counts have. Values on a
grid are rounded by at most half a unit each, which the margin allows for.

If no variance is known, a bound on the error of the whole table may still bound the error of a sum, and of a ratio.

A strategy may measure what was asked and nothing else. Then no single product of blocks may know every group of a
query, or the table over its columns may be too large to write out. A query of counts that the workload asked for is
then answered product by product, as the workload split it (`planned_counts`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hush.core.arrays import Booleans, Floats, Integers, reordered
from hush.core.domain import Clique
from hush.core.errors import HushError
from hush.inference.error_law import two_sided_quantile
from hush.inference.estimates import BoundedEstimates, Estimates
from hush.inference.intervals import (
    ErrorMargins,
    FixedIntervals,
    Intervals,
    NoiseIntervals,
    OtherNoise,
    RatioIntervals,
    WidenedIntervals,
    product_margins,
    sum_margins,
)
from hush.inference.measured_sums import MeasuredSums
from hush.privacy.noise import Noise
from hush.release.answers import Quantity, joined
from hush.sql.formula import Cells, Formula, Quotient, SumPart
from hush.sql.parsing import Output, ParsedQuery
from hush.sql.row_labels import RowLabels
from hush.sql.scope import Scope
from hush.workloads.sql_workload import count_products, group_factors

MOST_GROUPS = 2**22  # of a query that is answered product by product
CLEAR_STANDARD_ERRORS = 2.0  # standard errors between a denominator and zero


@dataclass(frozen=True, slots=True)
class Result:
    """One number per group, in row-major order; NaN where there is none."""

    estimate: Floats
    std_error: Floats
    intervals: Intervals


@dataclass(frozen=True, slots=True)
class _Slope:
    """The derivatives of a value by the counts of the table, and by the integers of each measured sum."""

    counts: Floats  # of the shape of the table
    sums: Mapping[int, Floats] = field(default_factory=dict)  # each of shape (groups, cells of its table in a group)

    def plus(self, factor: Floats, other: _Slope) -> _Slope:
        """self + factor x other, with one factor for every group."""
        sums = {index: np.array(values) for index, values in self.sums.items()}
        for index, values in other.sums.items():
            sums[index] = sums.get(index, 0.0) + factor.reshape(-1, 1) * values
        inner = (1,) * (self.counts.ndim - factor.ndim)
        return _Slope(self.counts + factor.reshape(factor.shape + inner) * other.counts, sums)


@dataclass(frozen=True, slots=True)
class _Jet:
    """The value of a formula in each group, its slope, and whether all denominators are clearly not zero."""

    value: Floats  # of the shape of the groups
    slope: _Slope
    clear: Booleans


def evaluate(
    formula: Formula, groups: Clique, estimates: Estimates, level: float = 0.95, *, sums: MeasuredSums | None = None
) -> Result:
    """The formula in each combination of levels of the groups; intervals from bounds hold at `level`.

    If values are known up to their bins, the interval reaches from the lower end for the smallest possible values to
    the upper end for the largest.
    """
    result = _evaluate(formula, groups, estimates, level, sums)
    if not formula.binned:
        return result
    ends = [formula.end(high=high) for high in (False, True)]
    if any(end is None for end in ends):
        unknown = np.full(result.estimate.shape, np.nan)
        return replace(result, intervals=FixedIntervals(unknown, unknown, level))
    low, high = (_evaluate(end, groups, estimates, level, sums).intervals for end in ends if end is not None)
    return replace(result, intervals=WidenedIntervals(low, high))


def _evaluate(
    formula: Formula, groups: Clique, estimates: Estimates, level: float, sums: MeasuredSums | None
) -> Result:
    table = _Table(formula.clique(groups), len(groups), estimates, sums)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        jet = table.jet(formula)
        std_error = table.std_error(jet.slope)
        clear = jet.clear & np.isfinite(jet.value)
        estimate, std_error = (np.where(clear, values, np.nan).ravel() for values in (jet.value, std_error))
        ratio = single_ratio(formula)
        bounded = isinstance(estimates, BoundedEstimates) and not estimates.has_covariance(table.clique)
        bounded = bounded and formula.counts_rows
        if ratio is not None:
            if bounded:
                return Result(estimate, std_error, table.bounded_ratio(formula, ratio, level))
            return table.ratio(formula, ratio, estimate, std_error)
        if not bounded:
            finite = replace(jet.slope, counts=np.where(np.isfinite(jet.slope.counts), jet.slope.counts, 0.0))
            margins = table.margins(finite, std_error)
            return Result(estimate, std_error, NoiseIntervals(estimate, margins))
        margin = table.bound(formula, level) if formula.linear else np.full(estimate.shape, np.nan)
        return Result(estimate, std_error, FixedIntervals(estimate - margin, estimate + margin, level))


def single_ratio(formula: Formula) -> Quotient | None:
    """The quotient of a formula that is offset + weight * sum of counts / sum of counts; None for any other."""
    if len(formula.quotients) != 1 or formula.coefficients.values.any():
        return None
    (quotient,) = formula.quotients
    plain = quotient.power == 1 and not formula.sums
    return quotient if plain and quotient.numerator.linear and quotient.denominator.linear else None


class _Table:
    """The estimated counts over a clique, whose first `groups` attributes are those of GROUP BY."""

    def __init__(self, clique: Clique, groups: int, estimates: Estimates, sums: MeasuredSums | None) -> None:
        self.clique, self.groups, self.estimates, self.sums = clique, groups, estimates, sums
        self.counts = np.asarray(estimates.counts(clique), dtype=np.float64)

    def jet(self, formula: Formula) -> _Jet:
        """The value of a formula in each group, with its slope."""
        # sum_x coefficients[x] count[x] in each group, without an array of the products.
        axes = list(range(len(self.clique)))
        shared = [axis for axis in axes if self.clique[axis] in formula.coefficients.names]
        values = formula.coefficients.spread(tuple(self.clique[axis] for axis in shared))
        value = formula.offset + np.asarray(np.einsum(values, shared, self.counts, axes, axes[: self.groups]))
        slope = _Slope(np.broadcast_to(formula.coefficients.spread(self.clique), self.counts.shape))
        # Measured sums, as arrays of shape (groups, cells in a group).
        first = self.clique[: self.groups]
        for part in formula.sums:
            assert self.sums is not None  # noqa: S101
            order = (*first, *(name for name in part.known.clique if name not in first))
            sizes = self.estimates.domain.sizes(order)
            shape = (math.prod(sizes[: self.groups]), math.prod(sizes[self.groups :]))
            integers = reordered(self.sums.integers(part.known.index), part.known.clique, order).reshape(shape)
            coefficients = np.broadcast_to(part.coefficients.spread(order), sizes).reshape(shape)
            value = value + (coefficients * integers).sum(axis=1).reshape(value.shape)
            by_sum = _Slope(np.zeros(self.counts.shape), {part.known.index: coefficients})
            slope = slope.plus(np.ones(value.shape), by_sum)
        # Quotients, by the delta method; an unknown (NaN) error of the denominator does not withhold the estimate.
        clear = np.ones(value.shape, dtype=bool)
        for quotient in formula.quotients:
            above, below = self.jet(quotient.numerator), self.jet(quotient.denominator)
            error = self.std_error(below.slope)
            one_sided = quotient.positive or quotient.denominator.never_negative
            away = below.value if one_sided else np.abs(below.value)
            fine = (away > 0) & ~(away < CLEAR_STANDARD_ERRORS * error)
            divisor = np.where(fine, below.value, 1.0)
            numerator = np.where(fine, above.value, 0.0)
            ratio = numerator**quotient.power / divisor
            steep = quotient.power * numerator ** (quotient.power - 1) / divisor
            value = value + quotient.weight * ratio
            slope = slope.plus(quotient.weight * steep, above.slope)
            slope = slope.plus(-quotient.weight * ratio / divisor, below.slope)
            clear &= fine & above.clear & below.clear
        return _Jet(value, slope, clear)

    def covariance(self, first: _Slope, second: _Slope) -> Floats:
        """The covariance of two sums in each group."""
        counted = np.zeros(self.counts.shape[: self.groups])
        if first.counts.any() and second.counts.any():
            counted = np.asarray(self.estimates.covariance(self.clique, first.counts, second.counts, self.groups))
        for index in first.sums.keys() & second.sums.keys():
            noise = self._law(index).stddev ** 2
            counted = counted + noise * (first.sums[index] * second.sums[index]).sum(axis=1).reshape(counted.shape)
        return counted

    def std_error(self, slope: _Slope) -> Floats:
        """The standard error of a value with this slope, in each group; rounding may leave a variance below 0."""
        return np.asarray(np.sqrt(np.maximum(self.covariance(slope, slope), 0.0)))

    def margins(self, slope: _Slope, std_error: Floats) -> ErrorMargins:
        """The margins of a value with this slope, in each group.

        Rounding values to their grid may move a measured sum by half a unit for every row of the group.
        """
        others = []
        for index, values in slope.sums.items():
            assert self.sums is not None  # noqa: S101
            rounding = np.zeros(len(values))
            if not self.sums.strategy.terms[index].grid.exact:
                rows = np.maximum(self.counts.sum(axis=tuple(range(self.groups, self.counts.ndim))), 0.0).ravel()
                rounding = np.asarray(rows * np.abs(values).max(axis=1, initial=0.0) / 2)
            others.append(OtherNoise(values, self._law(index), rounding))
        return sum_margins(self.estimates, self.clique, slope.counts, self.groups, std_error, others)

    def _law(self, index: int) -> Noise:
        """The law of the noise of a measured sum."""
        assert self.sums is not None  # noqa: S101
        return self.sums.strategy.laws[index]

    def ratio(self, formula: Formula, quotient: Quotient, estimate: Floats, std_error: Floats) -> Result:
        """A ratio of sums, clipped to its range; groups with too few rows have no standard error."""
        above, below = self.jet(quotient.numerator), self.jet(quotient.denominator)
        lowest, highest = self._ratio_range(quotient)
        a, b = above.value.ravel(), below.value.ravel()
        ratio = np.clip(np.where(b > 0, a / b, np.nan), lowest, highest)
        errors = [self.std_error(jet.slope) for jet in (above, below)]
        central = np.where(np.isnan(ratio), np.clip(0.0, lowest, highest), ratio).reshape(above.value.shape)
        difference = above.slope.plus(-np.where(np.isfinite(central), central, 0.0), below.slope)
        covariance = self.covariance(above.slope, below.slope)
        intervals = RatioIntervals(
            numerator=NoiseIntervals(a, self.margins(above.slope, errors[0])),
            denominator=NoiseIntervals(b, self.margins(below.slope, errors[1])),
            difference=self.margins(difference, self.std_error(difference)),
            covariance=covariance.ravel(),
            lowest=lowest,
            highest=highest,
            weight=quotient.weight,
            offset=formula.offset,
        )
        rough = formula.offset + quotient.weight * np.where(np.isfinite(lowest) & np.isfinite(highest), ratio, np.nan)
        return Result(np.where(np.isnan(rough), estimate, rough), std_error, intervals)

    def bounded_ratio(self, formula: Formula, quotient: Quotient, level: float) -> FixedIntervals:
        """The interval of a ratio of numbers from a model: all that the bounds of both allow; they hold together."""
        sides = quotient.numerator, quotient.denominator
        (a, m), (b, n) = ((self.jet(side).value.ravel(), self.bound(side, level)) for side in sides)
        lowest, highest = self._ratio_range(quotient)
        ends = [top / bottom for top in (a - m, a + m) for bottom in (b - n, b + n)]
        known = ~np.isnan(m + n) & np.isfinite(lowest) & np.isfinite(highest)
        lower = np.where(b > n, np.clip(np.minimum.reduce(ends), lowest, highest), lowest)
        upper = np.where(b > n, np.clip(np.maximum.reduce(ends), lowest, highest), highest)
        first, second = (formula.offset + quotient.weight * np.where(known, end, np.nan) for end in (lower, upper))
        return FixedIntervals(np.minimum(first, second), np.maximum(first, second), level)

    def bound(self, formula: Formula, level: float) -> Floats:
        """How far a sum over a table without covariances can be off in each group; NaN if unknown."""
        assert isinstance(self.estimates, BoundedEstimates)  # noqa: S101
        counts_margin: Floats | float = 0.0
        sums_margin: Floats | float = 0.0
        if formula.sums and formula.coefficients.values.any():  # split the failure probability, so that both hold
            level = (1 + level) / 2
        if formula.sums:
            slopes = self.jet(formula).slope.sums
            squares = (self._law(index).stddev ** 2 * (values**2).sum(axis=1) for index, values in slopes.items())
            laplace = any(self._law(index).name == "laplace" for index in slopes)
            sums_margin = two_sided_quantile(level, laplace=laplace) * np.sqrt(sum(squares))
        if formula.coefficients.values.any():
            counts_margin = self.estimates.margin(self.clique, *self.extremes(formula.coefficients), level)
        return np.broadcast_to(counts_margin, self.counts.shape[: self.groups]).ravel() + sums_margin

    def _ratio_range(self, quotient: Quotient) -> tuple[Floats, Floats]:
        """The least and the largest value that a ratio can have in each group; infinite if it has no limit."""
        shape = (math.prod(self.counts.shape[: self.groups]), -1)
        f, g = (self._per_row(side).reshape(shape) for side in (quotient.numerator, quotient.denominator))
        valued = (part for part in quotient.numerator.sums if part.known.grid.power)
        reach = sum((self._most(part) for part in valued), np.zeros(self.counts.shape)).reshape(shape)
        offsets = quotient.numerator.offset or quotient.denominator.offset
        offsets = offsets or any(part.known.grid.power for part in quotient.denominator.sums)
        free = np.any((g < 0) | ((g == 0) & ((f != 0) | (reach != 0))), axis=1) | bool(offsets)
        positive = np.where(g > 0, g, np.nan)
        lowest, highest = np.fmin.reduce((f - reach) / positive, axis=1), np.fmax.reduce((f + reach) / positive, axis=1)
        return np.where(free, -np.inf, lowest), np.where(free, np.inf, highest)

    def _per_row(self, formula: Formula) -> Floats:
        """What one row in each cell adds to the part of a formula that counts rows."""
        added = np.broadcast_to(formula.coefficients.spread(self.clique), self.counts.shape)
        rows = (part for part in formula.sums if part.known.grid.power == 0)
        return sum((self._most(part) * np.sign(part.coefficients.spread(self.clique)) for part in rows), added)

    def _most(self, part: SumPart) -> Floats:
        """The most that one row in each cell adds to a measured sum; rows whose value is missing add nothing."""
        grid = part.known.grid
        most = np.broadcast_to(grid.steps * np.abs(part.coefficients.spread(self.clique)), self.counts.shape)
        if grid.missing is None or grid.column not in self.clique:
            return most
        axis = self.clique.index(grid.column)
        present = np.arange(self.counts.shape[axis]) != grid.missing
        return np.asarray(most * present.reshape([-1 if index == axis else 1 for index in range(self.counts.ndim)]))

    def extremes(self, coefficients: Cells) -> tuple[Floats, Floats]:
        """The smallest and the largest coefficient in the sum of each group; cells of other groups have 0."""
        values = coefficients.spread(self.clique)
        inner = tuple(range(self.groups, len(self.clique)))
        shape = self.counts.shape[: self.groups]
        lowest, highest = (np.broadcast_to(edge(values, axis=inner), shape) for edge in (np.min, np.max))
        if math.prod(shape) == 1:
            return lowest, highest
        return np.minimum(lowest, 0.0), np.maximum(highest, 0.0)


Part = tuple[tuple[int, ...], Integers]  # codes of expressions' values, and the combinations of levels to show


def planned_counts(
    query: ParsedQuery, output: Output, labels: Sequence[RowLabels], scope: Scope, estimates: Estimates
) -> tuple[list[Part], list[Quantity]] | None:
    """The rows and the values of a query of counts; None if it is not such a query, or some number is unknown."""
    groups, sizes = output.groups, scope.domain.sizes(output.groups)
    if math.prod(sizes) > MOST_GROUPS:
        return None
    parts: list[Part] = []
    pieces: dict[tuple[int, tuple[int, ...]], list[tuple[Integers, Quantity]]] = {}
    try:
        # The combinations of levels of the groups that the factors allow, which depend on different columns.
        for chosen, factors in group_factors(query, output, labels, scope):
            if all(factor.cells.values.any() for factor in factors):
                allowed = (factor.cells.any_over(groups).spread(groups) for factor in factors)
                possible = functools.reduce(np.logical_and, allowed, np.ones(sizes, dtype=bool))
                parts.append((chosen, np.flatnonzero(possible)))
        # The counts of every product that the workload split the query into.
        for product in count_products(query, output, labels, scope):
            values, variances = estimates.product(product.clique, product.blocks)
            flat, errors = np.asarray(values, dtype=np.float64).ravel(), np.sqrt(np.maximum(variances, 0.0)).ravel()
            intervals = NoiseIntervals(flat, product_margins(estimates, product.clique, product.blocks, errors))
            quantity = Quantity(output.values[product.value].name, flat, errors, intervals=intervals)
            pieces.setdefault((product.value, product.labels), []).append((product.places(groups), quantity))
    except HushError:
        return None
    if not parts:
        return None
    quantities = []
    for place, item in enumerate(output.values):
        per_part = [_shown_rows(item.name, pieces.get((place, chosen), []), rows) for chosen, rows in parts]
        quantities.append(joined(per_part))
    return parts, quantities


def _shown_rows(name: str, pieces: Sequence[tuple[Integers, Quantity]], rows: Integers) -> Quantity:
    """The values of the rows to show; a group that no product asks for has no rows, and its count is 0."""
    asked = np.concatenate([places for places, _ in pieces]) if pieces else np.zeros(0, dtype=np.int64)
    empty = np.setdiff1d(rows, asked)
    zeros = Quantity(name, np.zeros(len(empty)), np.zeros(len(empty)))
    everything = joined([*(quantity for _, quantity in pieces), zeros])
    places = np.concatenate([asked, empty])
    order = np.argsort(places)
    return everything.take(order[np.searchsorted(places, rows, sorter=order)])
