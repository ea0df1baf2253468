"""Intervals: both ends of the interval of each answer, at any level or at the one they were made for.

`ErrorMargins` has half the widths of the intervals of many sums; sums with the same error law share it. If the noise
treats the levels of an attribute alike, sums that differ only in the order of its levels have the same law, so that all
cells of a table often share one. If too many laws differ, or a law is unknown, the margin is z standard errors plus
half the largest coefficient, because counts come in steps of 1.

The interval of a ratio r = a / b of two sums has all values that the noise does not rule out (Fieller),

    { r :  |a - r b| <= z sd(a - r b) },    lowest <= r <= highest,

where `lowest` and `highest` limit a weighted mean to the range of its weights. The denominator need not be far from
zero: a group with too few rows gets the whole range. z is the largest of three quantiles, in standard errors: of
a - r b, of a and of b.

Reference: [Fieller 1954].
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from hush.core.arrays import Floats, Integers
from hush.core.domain import Clique
from hush.core.errors import QueryError, shown
from hush.inference.error_law import ErrorLaw, two_sided_quantile
from hush.inference.estimates import Estimates
from hush.linops import LinearOperator
from hush.privacy.noise import Noise

Rows = np.ndarray[Any, np.dtype[np.integer[Any]]]
Ends = tuple[Floats, Floats]
Signs = np.ndarray[Any, np.dtype[np.int8]]  # of answers: 1 if they cannot be negative, -1 if they cannot be positive

MOST_WORK = 1 << 23  # cells visited to find the laws of one answer
MOST_LAWS = 512  # distinct ones, in one answer
NUMBERS_HELD = 2**20  # of a block, at a time


@dataclass(frozen=True, slots=True, eq=False)
class OtherNoise:
    """Noise besides that of the counts: its coefficients in every sum, its law, and what to add to the margin."""

    coefficients: Floats  # (sums, numbers)
    law: Noise
    slack: Floats  # (sums,)


KnownLaws = tuple[tuple[ErrorLaw, ...], Integers]  # laws, and for each sum the index of its law


class ErrorMargins:
    """The margins of some sums, from their error laws if known; laws are computed when first needed."""

    def __init__(
        self,
        std_error: Floats,  # (sums,)
        half_steps: Floats,  # (sums,)
        find: Callable[[], KnownLaws | None] = lambda: None,
        *,
        laplace: bool = False,
    ) -> None:
        self.std_error = std_error
        self.half_steps = half_steps
        self.laplace = laplace
        self.slack: Floats | float = 0.0  # added to every margin
        self._find = find

    @cached_property
    def known(self) -> KnownLaws | None:
        """The laws, and the index of each sum's law; None if unknown."""
        return self._find()

    def at(self, level: float) -> Floats:
        """Half the width of the interval of each sum: it contains the truth with probability at least `level`."""
        if self.known is None:
            return two_sided_quantile(level, laplace=self.laplace) * self.std_error + self.half_steps + self.slack
        laws, places = self.known
        return np.asarray(np.array([law.margin(level) for law in laws])[places]) + self.slack

    def take(self, rows: Any) -> ErrorMargins:
        """The chosen sums, in the order given."""

        def find() -> KnownLaws | None:
            return None if self.known is None else (self.known[0], self.known[1][rows])

        taken = ErrorMargins(self.std_error[rows], self.half_steps[rows], find, laplace=self.laplace)
        taken.slack = self.slack[rows] if isinstance(self.slack, np.ndarray) else self.slack
        return taken


def sum_margins(
    estimates: Estimates,
    clique: Clique,
    coefficients: Floats,
    groups: int,
    std_error: Floats,
    others: Sequence[OtherNoise] = (),
) -> ErrorMargins:
    """The margins of sums over the cells of a clique, for every combination of levels of the first `groups` attributes.

    The sums are those of `Estimates.covariance`; `std_error` has their standard errors, and `others` the noise in them
    besides that of the counts.
    """
    # One row of coefficients per sum; what to add to the margins.
    sizes = estimates.domain.sizes(clique)
    shape = sizes[:groups]
    sums = np.broadcast_to(coefficients, sizes).reshape(math.prod(shape), -1)
    half_steps = np.abs(sums).max(axis=1, initial=0.0) / 2
    slack = sum((other.slack for other in others), np.zeros(len(sums)))
    other_kinds = [np.sort(np.abs(other.coefficients), axis=1) for other in others]

    # Sums of one kind have the same law: the same levels up to permutation, coefficients, other noise and slack.
    def kinds() -> Integers | None:
        by_counts = kinds_by_counts()
        if not other_kinds or by_counts is None:
            return by_counts
        return _kinds(np.column_stack([by_counts, *other_kinds, slack]))

    def kinds_by_counts() -> Integers | None:
        named = zip(clique[:groups], shape, strict=True)
        places = _crossed([np.zeros(n, int) if estimates.alike(name) else np.arange(n) for name, n in named])
        if (sums == sums[:1]).all():
            return places
        return _kinds(np.column_stack([places, _kinds(sums)])) if sums.size <= MOST_WORK else None

    def law(row: int) -> ErrorLaw | None:
        alone = np.zeros(sums.shape)
        alone[row] = sums[row]
        counted = estimates.error_law(clique, alone.reshape(sizes)) if alone.any() else ErrorLaw([])
        if counted is None or not others:
            return counted
        more = [(other.coefficients[row], np.ones(1), other.law) for other in others]
        return ErrorLaw([*counted.parts, *more], counted.rounding)

    laplace = estimates.laplace or any(other.law.name == "laplace" for other in others)
    margins = ErrorMargins(std_error.ravel(), half_steps, lambda: _known(kinds(), law, sums.size), laplace=laplace)
    margins.slack = slack
    return margins


def product_margins(
    estimates: Estimates, clique: Clique, blocks: Sequence[LinearOperator], std_error: Floats
) -> ErrorMargins:
    """The margins of every query of a product of blocks on a clique, in row-major order."""
    half_steps = np.full(1, 0.5)
    for block in blocks:
        half_steps = np.multiply.outer(half_steps, largest_coefficients(block)).ravel()
    rows = functools.cache(lambda: [block.dense() for block in blocks])

    def kinds() -> Integers | None:
        if sum(block.shape[0] * block.shape[1] for block in blocks) > MOST_WORK:
            return None
        pairs = zip(clique, rows(), strict=True)
        return _crossed([_kinds(np.sort(r, axis=1) if estimates.alike(name) else r) for name, r in pairs])

    def law(row: int) -> ErrorLaw | None:
        query: Floats = np.ones(())
        for axis, position in enumerate(np.unravel_index(row, [len(r) for r in rows()])):
            query = np.multiply.outer(query, rows()[axis][position])
        return estimates.error_law(clique, query, blocks)

    cells = estimates.domain.size(clique)
    return ErrorMargins(std_error.ravel(), half_steps, lambda: _known(kinds(), law, cells), laplace=estimates.laplace)


def largest_coefficients(block: LinearOperator) -> Floats:
    """The largest absolute coefficient of every query of a block, (rows,)."""
    rows, columns = block.shape
    step = max(1, NUMBERS_HELD // rows)
    largest = np.zeros(rows)
    for start in range(0, columns, step):
        width = min(step, columns - start)
        picked = np.zeros((columns, width))
        picked[np.arange(start, start + width), np.arange(width)] = 1.0
        np.maximum(largest, np.abs(block.matmat(picked)).max(axis=1), out=largest)
    return largest


def _known(kinds: Integers | None, law: Callable[[int], ErrorLaw | None], cells: int) -> KnownLaws | None:
    """One law for each kind of sum; None if one is unknown, or there are too many."""
    if kinds is None:
        return None
    _, firsts, places = np.unique(kinds, return_index=True, return_inverse=True)
    if len(firsts) > MOST_LAWS or len(firsts) * cells > MOST_WORK:
        return None
    laws = [error_law for row in firsts if (error_law := law(int(row))) is not None]
    return (tuple(laws), places.ravel()) if len(laws) == len(firsts) else None


def _kinds(rows: Floats) -> Integers:
    """The index of each row among the distinct rows."""
    return np.asarray(np.unique(rows, axis=0, return_inverse=True)[1].ravel())


def _crossed(kinds: Sequence[Integers]) -> Integers:
    """One number for every combination of kinds, in row-major order."""
    total = np.zeros(1, dtype=np.int64)
    for numbers in kinds:
        total = np.add.outer(total * (int(numbers.max(initial=0)) + 1), numbers).ravel()
    return total


@dataclass(frozen=True, slots=True, eq=False)
class Intervals(ABC):
    """The lower and the upper ends of the intervals of some rows; NaN where there is none.

    Fields that are arrays, margins or other intervals have one entry per row; the first field is one of these.
    """

    @abstractmethod
    def at(self, level: float) -> Ends:
        """Both ends of every interval at a level of confidence."""

    @property
    def level(self) -> float | None:
        """The only level at which the intervals hold, by those they are made of; None for any level."""
        parts = (getattr(self, field.name) for field in fields(self))
        return next((part.level for part in parts if isinstance(part, Intervals) and part.level is not None), None)

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))

    def take(self, rows: Rows) -> Self:
        """The chosen rows, in the order given."""
        chosen: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                chosen[field.name] = value[rows]
            elif isinstance(value, ErrorMargins | Intervals):
                chosen[field.name] = value.take(rows)
        return replace(self, **chosen)


@dataclass(frozen=True, slots=True, eq=False)
class NoiseIntervals(Intervals):
    """estimate ± the margin that the law of its noise gives."""

    estimate: Floats  # (rows,)
    margins: ErrorMargins

    def at(self, level: float) -> Ends:
        margin = self.margins.at(level)
        return self.estimate - margin, self.estimate + margin

    @classmethod
    def normal(cls, estimate: Floats, std_error: Floats) -> NoiseIntervals:
        """estimate ± z standard errors."""
        return cls(estimate, ErrorMargins(std_error, np.zeros(std_error.shape)))


@dataclass(frozen=True, slots=True, eq=False)
class FixedIntervals(Intervals):
    """Intervals from a bound that holds at one level."""

    lower: Floats  # (rows,)
    upper: Floats  # (rows,)
    bound_level: float

    @property
    def level(self) -> float:
        return self.bound_level

    def at(self, level: float) -> Ends:
        if level != self.bound_level and not np.isnan(self.lower).all():
            raise QueryError(
                f"intervals from a bound hold at level {self.bound_level:g} and cannot be converted; ask the release "
                f"again, with level={shown(level)}"
            )
        return self.lower, self.upper


@dataclass(frozen=True, slots=True, eq=False)
class WidenedIntervals(Intervals):
    """From the lower end of one interval to the upper end of another: of sums at both ends of their bins."""

    low: Intervals
    high: Intervals

    def at(self, level: float) -> Ends:
        return self.low.at(level)[0], self.high.at(level)[1]


@dataclass(frozen=True, slots=True, eq=False)
class ModelIntervals(Intervals):
    """The intervals of noisy tables, cut at zero by `signs` and stretched to the estimates of a model.

    Answers of sign 1 cannot be negative and answers of sign -1 cannot be positive, so cutting loses no coverage.
    """

    unbiased: Intervals
    estimate: Floats  # (rows,)
    signs: Signs  # (rows,)

    def at(self, level: float) -> Ends:
        lower, upper = (clipped(end, self.signs) for end in self.unbiased.at(level))
        return np.minimum(lower, self.estimate), np.maximum(upper, self.estimate)


def clipped(values: Floats, signs: Signs) -> Floats:
    """Values clipped to their signs: at least 0 where the sign is 1, at most 0 where it is -1."""
    return np.where(signs > 0, np.maximum(values, 0.0), np.where(signs < 0, np.minimum(values, 0.0), values))


@dataclass(frozen=True, slots=True, eq=False)
class VarianceIntervals(Intervals):
    """The intervals of variances, or with `root` of standard deviations; negative ends become 0."""

    squared: Intervals
    root: bool

    def at(self, level: float) -> Ends:
        lower, upper = (np.maximum(end, 0.0) for end in self.squared.at(level))
        return (np.sqrt(lower), np.sqrt(upper)) if self.root else (lower, upper)


@dataclass(frozen=True, slots=True, eq=False)
class JoinedIntervals(Intervals):
    """The intervals of several runs of rows, one run after the other, and which of these rows to show."""

    rows: Rows
    runs: tuple[Intervals, ...]

    @property
    def level(self) -> float | None:
        return next((run.level for run in self.runs if run.level is not None), None)

    def at(self, level: float) -> Ends:
        lower, upper = (np.concatenate(ends) for ends in zip(*(run.at(level) for run in self.runs), strict=True))
        return lower[self.rows], upper[self.rows]


@dataclass(frozen=True, slots=True, eq=False)
class RatioIntervals(Intervals):
    """offset + weight * numerator / denominator, by Fieller's method within the range that the ratio can have."""

    numerator: NoiseIntervals
    denominator: NoiseIntervals
    difference: ErrorMargins  # of numerator - r denominator at the estimated ratio r
    covariance: Floats  # (rows,), of numerator and denominator
    lowest: Floats  # (rows,), of the ratio
    highest: Floats  # (rows,)
    weight: float = 1.0
    offset: float = 0.0

    def at(self, level: float) -> Ends:
        # The largest quantile of the three laws, in standard errors; 0 without noise.
        a, b, laws = (
            self.numerator,
            self.denominator,
            (self.numerator.margins, self.denominator.margins, self.difference),
        )
        z = np.zeros(len(self))
        for law in laws:
            spread = law.std_error
            z = np.maximum(z, np.divide(law.at(level), spread, out=np.zeros(spread.shape), where=spread > 0))
        # The quadratic in r of Fieller's condition, (a - r b)^2 <= z^2 var(a - r b).
        va, vb = a.margins.std_error**2, b.margins.std_error**2
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            square = b.estimate**2 - z**2 * vb
            middle = a.estimate * b.estimate - z**2 * self.covariance
            ends = ratio_range(square, middle, a.estimate**2 - z**2 * va, self.lowest, self.highest)
        unknown = np.isnan(va + vb)
        first, second = (np.where(unknown, np.nan, self.offset + self.weight * end) for end in ends)
        return (first, second) if self.weight >= 0 else (second, first)


def ratio_range(square: Floats, middle: Floats, constant: Floats, lowest: Floats, highest: Floats) -> Ends:
    """The ends of { r : square r^2 - 2 middle r + constant <= 0 } within [lowest, highest], elementwise.

    With square > 0 the set lies between the roots; otherwise it is everything, or everything outside the roots. If the
    set does not meet the range, the nearest end of the range is returned. If one end is infinite, both become NaN.

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
