"""Intervals: both ends of the interval of each answer, at any level or at the one they were made for.

A ratio r = a / b of two sums has the interval of all values that the noise does not rule out (Fieller),

    { r :  |a - r b| <= z sd(a - r b) },    lowest <= r <= highest,

where a weighted mean cannot leave the range of its weights. It needs no denominator far from zero: a group too small to
tell has the whole range. z is the largest of the quantiles, in standard errors, of the laws of the ratio's linear
form, of its denominator and of its numerator.

Reference: [Fieller 1954].
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from hush.core.arrays import Floats
from hush.core.errors import QueryError, shown
from hush.inference.error_law import two_sided_quantile
from hush.inference.error_margins import ErrorMargins

Rows = np.ndarray[Any, np.dtype[np.integer[Any]]]
Ends = tuple[Floats, Floats]
Signs = np.ndarray[Any, np.dtype[np.int8]]  # of answers: 1 if they cannot be negative, -1 if they cannot be positive


class Intervals(Protocol):
    """The lower and the upper ends of the intervals of some rows; NaN where there is none."""

    @property
    def level(self) -> float | None:
        """The only level at which they hold; None for any."""

    def __len__(self) -> int: ...
    def at(self, level: float) -> Ends: ...
    def take(self, rows: Rows) -> Intervals: ...


@dataclass(frozen=True, slots=True, eq=False)
class NormalIntervals:
    """estimate ± z standard errors."""

    estimate: Floats  # (rows,)
    std_error: Floats  # (rows,)
    level: None = None

    def __len__(self) -> int:
        return len(self.estimate)

    def at(self, level: float) -> Ends:
        margin = two_sided_quantile(level) * self.std_error
        return self.estimate - margin, self.estimate + margin

    def take(self, rows: Rows) -> NormalIntervals:
        return NormalIntervals(self.estimate[rows], self.std_error[rows])


@dataclass(frozen=True, slots=True, eq=False)
class NoiseIntervals:
    """estimate ± the margin that the law of its noise gives."""

    estimate: Floats  # (rows,)
    margins: ErrorMargins
    level: None = None

    def __len__(self) -> int:
        return len(self.estimate)

    def at(self, level: float) -> Ends:
        margin = self.margins.at(level)
        return self.estimate - margin, self.estimate + margin

    def take(self, rows: Rows) -> NoiseIntervals:
        return NoiseIntervals(self.estimate[rows], self.margins.take(rows))


@dataclass(frozen=True, slots=True, eq=False)
class FixedIntervals:
    """Intervals from a bound that holds at one level."""

    lower: Floats  # (rows,)
    upper: Floats  # (rows,)
    level: float

    def __len__(self) -> int:
        return len(self.lower)

    def at(self, level: float) -> Ends:
        if level != self.level and not np.isnan(self.lower).all():
            raise QueryError(
                f"intervals from a bound hold at level {self.level:g} and cannot be converted; ask the release again, "
                f"with level={shown(level)}"
            )
        return self.lower, self.upper

    def take(self, rows: Rows) -> FixedIntervals:
        return replace(self, lower=self.lower[rows], upper=self.upper[rows])


@dataclass(frozen=True, slots=True, eq=False)
class WidenedIntervals:
    """From the lower end of one interval to the upper end of another: of sums at both ends of their bins."""

    low: Intervals
    high: Intervals

    def __len__(self) -> int:
        return len(self.low)

    @property
    def level(self) -> float | None:
        return self.low.level if self.high.level is None else self.high.level

    def at(self, level: float) -> Ends:
        return self.low.at(level)[0], self.high.at(level)[1]

    def take(self, rows: Rows) -> WidenedIntervals:
        return WidenedIntervals(self.low.take(rows), self.high.take(rows))


@dataclass(frozen=True, slots=True, eq=False)
class ModelIntervals:
    """The intervals of unbiased estimates for estimates of a model: without impossible values, with the estimates.

    An answer with sign 1 cannot be negative and one with sign -1 cannot be positive, so cutting loses no coverage; a
    model may lie outside the interval of the noise, which then reaches to its estimate.
    """

    unbiased: Intervals
    estimate: Floats  # (rows,)
    signs: Signs  # (rows,)

    def __len__(self) -> int:
        return len(self.unbiased)

    @property
    def level(self) -> float | None:
        return self.unbiased.level

    def at(self, level: float) -> Ends:
        lower, upper = (clipped(end, self.signs) for end in self.unbiased.at(level))
        return np.minimum(lower, self.estimate), np.maximum(upper, self.estimate)

    def take(self, rows: Rows) -> ModelIntervals:
        return ModelIntervals(self.unbiased.take(rows), self.estimate[rows], self.signs[rows])


def clipped(values: Floats, signs: Signs) -> Floats:
    """Values clipped to their signs: at least 0 where the sign is 1, at most 0 where it is -1."""
    return np.where(signs > 0, np.maximum(values, 0.0), np.where(signs < 0, np.minimum(values, 0.0), values))


@dataclass(frozen=True, slots=True, eq=False)
class VarianceIntervals:
    """The intervals of variances, or with `root` of standard deviations; what is below 0 counts as 0."""

    squared: Intervals
    root: bool

    def __len__(self) -> int:
        return len(self.squared)

    @property
    def level(self) -> float | None:
        return self.squared.level

    def at(self, level: float) -> Ends:
        lower, upper = (np.maximum(end, 0.0) for end in self.squared.at(level))
        return (np.sqrt(lower), np.sqrt(upper)) if self.root else (lower, upper)

    def take(self, rows: Rows) -> VarianceIntervals:
        return replace(self, squared=self.squared.take(rows))


@dataclass(frozen=True, slots=True, eq=False)
class JoinedIntervals:
    """The intervals of several runs of rows, some of these rows in any order."""

    parts: tuple[Intervals, ...]
    lengths: tuple[int, ...]
    rows: Rows | None = None  # None for all

    def __len__(self) -> int:
        return sum(self.lengths) if self.rows is None else len(self.rows)

    @property
    def level(self) -> float | None:
        return next((part.level for part in self.parts if part.level is not None), None)

    def at(self, level: float) -> Ends:
        lower, upper = (np.concatenate(ends) for ends in zip(*(part.at(level) for part in self.parts), strict=True))
        return (lower, upper) if self.rows is None else (lower[self.rows], upper[self.rows])

    def take(self, rows: Rows) -> JoinedIntervals:
        before = np.arange(sum(self.lengths)) if self.rows is None else self.rows
        return replace(self, rows=before[rows])


@dataclass(frozen=True, slots=True, eq=False)
class LinearForm:
    """A sum of counts in each row: its value, and the margins of its error."""

    value: Floats  # (rows,)
    margins: ErrorMargins

    def quantile(self, level: float) -> Floats:
        """The margin in standard errors; 0 without noise."""
        spread = self.margins.std_error
        return np.divide(self.margins.at(level), spread, out=np.zeros(spread.shape), where=spread > 0)

    def take(self, rows: Rows) -> LinearForm:
        return LinearForm(self.value[rows], self.margins.take(rows))


@dataclass(frozen=True, slots=True, eq=False)
class RatioIntervals:
    """offset + weight * numerator / denominator, by Fieller's method within the range that the ratio can have."""

    numerator: LinearForm
    denominator: LinearForm
    difference: ErrorMargins  # of numerator - r denominator at the estimated ratio r
    covariance: Floats  # (rows,), of numerator and denominator
    lowest: Floats  # (rows,), of the ratio
    highest: Floats  # (rows,)
    weight: float = 1.0
    offset: float = 0.0
    level: None = None

    def __len__(self) -> int:
        return len(self.covariance)

    def at(self, level: float) -> Ends:
        a, b = self.numerator.value, self.denominator.value
        z = np.maximum(self.numerator.quantile(level), self.denominator.quantile(level))
        z = np.maximum(z, LinearForm(a, self.difference).quantile(level)) ** 2
        va, vb = self.numerator.margins.std_error**2, self.denominator.margins.std_error**2
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            ends = ratio_range(b * b - z * vb, a * b - z * self.covariance, a * a - z * va, self.lowest, self.highest)
        unknown = np.isnan(va + vb)
        first, second = (np.where(unknown, np.nan, self.offset + self.weight * end) for end in ends)
        return (first, second) if self.weight >= 0 else (second, first)

    def take(self, rows: Rows) -> RatioIntervals:
        return replace(
            self,
            numerator=self.numerator.take(rows),
            denominator=self.denominator.take(rows),
            difference=self.difference.take(rows),
            covariance=self.covariance[rows],
            lowest=self.lowest[rows],
            highest=self.highest[rows],
        )


def ratio_range(square: Floats, middle: Floats, constant: Floats, lowest: Floats, highest: Floats) -> Ends:
    """The ends of { r : square r^2 - 2 middle r + constant <= 0 } within [lowest, highest], elementwise.

    With square > 0 the set lies between the roots; else it is everything, or everything outside the roots. Where
    nothing of the range is left, the end nearest to it stays; an end at infinity becomes NaN, and so does the other.

    >>> one = np.ones(1)
    >>> [float(end[0]) for end in ratio_range(one, 2 * one, 3 * one, 0 * one, 9 * one)]
    [1.0, 3.0]
    >>> [float(end[0]) for end in ratio_range(-one, 2 * one, 5 * one, 0 * one, 9 * one)]
    [1.0, 9.0]
    """
    root = np.sqrt(np.maximum(middle**2 - square * constant, 0.0))
    larger = middle + np.copysign(root, middle)  # nothing cancels, however small the square is
    ends = larger / square, np.divide(constant, larger, out=larger / square, where=larger != 0)
    first, second = np.minimum(*ends), np.maximum(*ends)
    between = square > 0
    outside = (square < 0) & (middle**2 > square * constant)
    lower, upper = np.where(between, first, lowest), np.where(between, second, highest)
    lower = np.where(outside & (first < lowest), second, lower)  # what lies below the range is no part of it
    upper = np.where(outside & (second > highest), first, upper)
    lower, upper = np.clip(lower, lowest, highest), np.clip(upper, lowest, highest)
    known = np.isfinite(lower) & np.isfinite(upper)
    return np.where(known, np.minimum(lower, upper), np.nan), np.where(known, np.maximum(lower, upper), np.nan)
