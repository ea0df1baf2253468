"""Groups of the levels of a column for drawing, and released tables summed over them with exact errors."""

from __future__ import annotations

import datetime as dt
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import groupby, pairwise
from typing import Any

import numpy as np

from hush.core.arrays import Floats, Integers
from hush.core.domain import Clique
from hush.inference.estimates import Estimates
from hush.inference.intervals import sum_margins
from hush.render.labels import compact
from hush.render.text_table import counted
from hush.schema import Column, Date, Granularity, Integer, Numeric

UNITS: tuple[tuple[str, Callable[[dt.date], str]], ...] = (
    ("month", lambda day: day.isoformat()[:7]),
    ("quarter", lambda day: f"{day.year:04}-Q{(day.month + 2) // 3}"),
    ("year", lambda day: f"{day.year:04}"),
)
FEW_LEVELS = 12  # with fewer levels, a large one does not hide the others
POINT_SHARE, POINT_STEP = 0.25, 4.0  # of a level that is drawn apart: of all rows, and over the next largest
THINNEST_BIN = 1 / 150  # a bin of a smaller share of the axis could not be seen
MOST_APART = 3
BY_WIDTH = "bars are as wide as their bins, and as high as their rows per {unit}; long intervals are cut off"
LEAST_SEPARATED = 10_000
COMPACT_DIGITS = 6  # that `compact` shows
COARSER_UNITS_FROM = {Granularity.DAY: 0, Granularity.MONTH: 1, Granularity.QUARTER: 2}  # where to start in UNITS


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelGroups:
    """Groups of codes that cover a column, in the order they are drawn.

    `ordinary` groups come first, then the levels that are drawn `apart`, then `other` and missing. `ticks` are short
    marks for an axis; with `edges` they mark where a group begins, and `last` marks where the last one ends. `extents`
    are the values at both ends of each ordinary group that is drawn by width. `note` says what was merged, if anything,
    and `bar_note` how bars are drawn.
    """

    column: Column
    members: tuple[Integers, ...]
    labels: tuple[str, ...]
    ticks: tuple[str, ...]
    ordinary: int
    apart: int = 0
    extents: tuple[tuple[float, float], ...] = ()  # of all ordinary groups, or none
    last: str | None = None
    note: str | None = None
    bar_note: str | None = None

    @property
    def edges(self) -> bool:
        """Whether ticks mark where a group begins, not its middle."""
        return self.last is not None

    @property
    def whole(self) -> bool:
        """Whether every level is a group of its own, in the order of codes."""
        return len(self.members) == self.column.size and all(
            group.size == 1 and group[0] == code for code, group in enumerate(self.members)
        )

    @property
    def ordered(self) -> bool:
        """Whether neighbours on the page are neighbours in value."""
        return isinstance(self.column, Integer | Numeric | Date)

    def indicator(self, group: int) -> Floats:
        """Ones at the codes of a group, zeros elsewhere; (size,)."""
        mask = np.zeros(self.column.size)
        mask[self.members[group]] = 1.0
        return mask

    def __len__(self) -> int:
        return len(self.members)


def group_levels(column: Column, counts: Floats, most: int) -> LevelGroups:
    """The levels in at most about `most` groups; `counts` are the released estimates, (size,).

    Neighbouring levels of ordered columns are merged in round steps. Unordered columns keep the levels with the largest
    estimates; the rest is one group.
    """
    match column:
        case Integer() if not column.binned:
            return _integers(column, counts, most)
        case Integer() | Numeric():
            return _bins(column, counts, most)
        case Date():
            return _dates(column, most)
        case _:
            return _largest(column, counts, most)


def _with_special(
    column: Column,
    groups: Sequence[Integers],
    labels: Sequence[str],
    ticks: Sequence[str],
    *,
    apart: Sequence[tuple[Integers, str]] = (),
    extents: Sequence[tuple[float, float]] = (),
    last: str | None = None,
    note: str | None = None,
    bar_notes: Sequence[str] = (),
) -> LevelGroups:
    """The groups, followed by those that are drawn apart, then `other` and missing, each by itself."""
    special = [code for code in (column.other_code, column.missing_code) if code is not None]
    names = [*(label for _, label in apart), *(column.label(code) for code in special)]
    return LevelGroups(
        column=column,
        members=(*groups, *(codes for codes, _ in apart), *(np.array([code]) for code in special)),
        labels=(*labels, *names),
        ticks=(*ticks, *names),
        ordinary=len(groups),
        apart=len(apart),
        extents=tuple(extents),
        last=last,
        note=note,
        bar_note="; ".join(bar_notes) or None,
    )


def _integers(column: Integer, counts: Floats, most: int) -> LevelGroups:
    point = point_mass(counts[: column.levels])
    # The smallest of 1, 2, 5, 10, 20, 50, ... whose multiples cut low .. high into at most `most` groups.
    rising = (digit * 10**power for power in itertools.count() for digit in (1, 2, 5))
    step = next(step for step in rising if column.high // step - column.low // step + 1 <= most)
    if step == 1 and point is None:
        return _single(column)
    starts = [max(start, column.low) for start in range(column.low // step * step, column.high + 1, step)]
    ranges = [np.arange(low, high) for low, high in pairwise([*starts, column.high + 1])]
    lone = None if point is None else column.low + point
    kept = [values[values != lone] for values in ranges]
    shown = [(whole, values) for whole, values in zip(ranges, kept, strict=True) if values.size]
    apart = [] if lone is None else [(np.array([point]), f"exactly {number_text(column, lone)}")]
    extents = [(float(whole[0]), float(whole[-1] + 1)) for whole, _ in shown]
    notes = [f"{label} is drawn apart, as high as its share of all rows" for _, label in apart]
    if not _equally_wide(extents):
        notes.append(BY_WIDTH.format(unit=f"{_unit(extents):,.0f}"))
    labels = []
    for _, values in shown:
        first, final = int(values[0]), int(values[-1])
        without = f" without {lone}" if final - first >= values.size else ""
        labels.append(span(number_text(column, first), number_text(column, final)) + without)
    return _with_special(
        column,
        [values - column.low for _, values in shown],
        labels,
        [number_text(column, int(whole[0])) for whole, _ in shown],
        apart=apart,
        extents=extents,
        last=number_text(column, column.high),
        note=f"{counted(column.levels, 'level')} drawn in steps of {step:,}" if step > 1 else None,
        bar_notes=notes,
    )


def point_mass(counts: Floats) -> int | None:
    """The level with so many rows that the others would be invisible next to it; None if there is none.

    >>> point_mass(np.array([900.0, *[5.0] * 20])), point_mass(np.array([30.0, *[5.0] * 20]))
    (0, None)
    """
    if counts.size < FEW_LEVELS:
        return None
    second, first = np.sort(counts)[-2:]
    alone = first > POINT_SHARE * counts.sum() and first > POINT_STEP * second
    return int(np.argmax(counts)) if alone else None


def _bins(column: Integer | Numeric, counts: Floats, most: int) -> LevelGroups:
    points = [code for code in range(column.levels) if column.is_point(code)]
    bins = [code for code in range(column.levels) if not column.is_point(code)]
    if not bins or len(points) > most // 3:  # no room to draw each by itself
        bins, points = list(range(column.levels)), []
    # Merge the fewest bins that suffice, or up to twice as many if that divides them evenly.
    fewest = -(-len(bins) // most)
    step = next((step for step in range(fewest, 2 * fewest) if len(bins) % step == 0), fewest)
    runs = [bins[start : start + step] for start in range(0, len(bins), step)]
    # Where every run begins and ends; an integer takes up one unit.
    unit = isinstance(column, Integer)
    extents = {run[0]: (float(column.ends(run[0])[0]), float(column.ends(run[-1])[1]) + unit) for run in runs}
    widths = np.array([high - low for low, high in extents.values()])
    whole = float(column.high) - float(column.low)  # infinite if the bounds are as far apart as floats can be
    unseen = widths < THINNEST_BIN * whole
    thin = int(unseen.sum())
    to_scale = math.isfinite(whole) and thin <= (MOST_APART if step == 1 else 0) and len(runs) - thin > 1
    alone = unseen & to_scale
    if step == 1 and not points and (point := point_mass(counts[bins])) is not None:
        alone[point] = True
    kept = [run for run, lone in zip(runs, alone, strict=True) if not lone]
    apart = [[code] for code in points] + [run for run, lone in zip(runs, alone, strict=True) if lone]
    shown = [extents[run[0]] for run in kept] if to_scale else []
    notes = [f"{_run_label(column, run)} is drawn apart, as high as its share of all rows" for run in apart]
    if len(kept) > 1 and not to_scale:
        notes.append("bins differ too much in width to be drawn to scale, so a tall bar may be a wide bin")
    elif shown and not _equally_wide(shown):
        notes.append(BY_WIDTH.format(unit=compact(float(f"{_unit(shown):.3g}"))))
    return _with_special(
        column,
        [np.array(run) for run in kept],
        [_run_label(column, run) for run in kept],
        [number_text(column, column.ends(run[0])[0]) for run in kept],
        apart=[(np.array(run), _run_label(column, run)) for run in apart],
        extents=shown,
        last=number_text(column, column.ends(kept[-1][-1])[1]),
        note=f"{counted(len(bins), 'bin')} drawn {step} at a time" if step > 1 else None,
        bar_notes=notes,
    )


def _run_label(column: Integer | Numeric, run: Sequence[int]) -> str:
    if len(run) == 1 and column.is_point(run[0]):
        return f"exactly {number_text(column, column.ends(run[0])[0])}"
    low, high = (number_text(column, end) for end in (column.ends(run[0])[0], column.ends(run[-1])[1]))
    return span(low, high)


def heights_per_row(grouping: LevelGroups) -> Floats:
    """By what the count of each ordinary group is multiplied to get the height of its bar, (ordinary,).

    One if all are equally wide. Else a height is rows per width, so that areas compare.
    """
    if not grouping.extents or _equally_wide(grouping.extents):
        return np.ones(grouping.ordinary)
    return _unit(grouping.extents) / np.diff(grouping.extents)[:, 0]


def _equally_wide(extents: Sequence[tuple[float, float]]) -> bool:
    """Whether all are equally wide, up to rounding."""
    widths = np.diff(extents)
    return float(widths.max()) <= 1.001 * float(widths.min())


def _unit(extents: Sequence[tuple[float, float]]) -> float:
    return float(np.median(np.diff(extents)))


def number_text(column: Integer | Numeric, number: float) -> str:
    """A number of a column as axes and labels show it: short, but different for different ends of bins.

    Integers have no separators in a column whose numbers may be years or codes.

    >>> number_text(Integer(name="year", low=1900, high=2100), 2024)
    '2024'
    >>> number_text(Integer(name="gain", low=0, high=99_999), 2024)
    '2,024'
    """
    if isinstance(column, Integer):
        plain = max(abs(column.low), abs(column.high)) < LEAST_SEPARATED
        return str(int(number)) if plain else compact(number)
    return compact(number) if column.digits <= COMPACT_DIGITS else f"{number:.{column.digits}g}"


def level_label(column: Column, code: int) -> str:
    """What a level is called on the page: as in its chart."""
    if isinstance(column, Integer | Numeric) and code < column.levels:
        return _run_label(column, [code])
    return column.label(code)


def _dates(column: Date, most: int) -> LevelGroups:
    if column.levels <= most:
        return _single(column)
    days = [column.value(code) for code in range(column.levels)]
    for unit, spelled in UNITS[COARSER_UNITS_FROM.get(column.granularity, len(UNITS)) :]:
        keys = [spelled(day) for day in days if isinstance(day, dt.date)]
        runs = [(key, np.array(list(codes))) for key, codes in groupby(range(len(keys)), keys.__getitem__)]
        if len(runs) <= most:
            labels = [key for key, _ in runs]
            note = f"{counted(column.levels, column.granularity)} drawn by {unit}"
            return _with_special(column, [codes for _, codes in runs], labels, labels, note=note)
    step = -(-column.levels // most)
    groups = [np.arange(start, min(start + step, column.levels)) for start in range(0, column.levels, step)]
    ticks = [column.label(int(group[0])) for group in groups]
    labels = [span(column.label(int(group[0])), column.label(int(group[-1]))) for group in groups]
    note = f"{counted(column.levels, column.granularity)} drawn {step} at a time"
    return _with_special(column, groups, labels, ticks, last=column.label(column.levels - 1), note=note)


def _largest(column: Column, counts: Floats, most: int) -> LevelGroups:
    if column.levels <= most:
        return _single(column)
    order = np.argsort(-counts[: column.levels], kind="stable")
    largest, rest = order[: most - 1], np.sort(order[most - 1 :])
    names = [column.label(int(code)) for code in largest]
    names.append(f"{rest.size:,} more levels")
    note = f"the {largest.size} levels with the largest estimates are shown and the other {rest.size:,} added up"
    return _with_special(column, [*(np.array([code]) for code in largest), rest], names, names, note=note)


def _single(column: Column) -> LevelGroups:
    """Every level by itself."""
    labels = [
        number_text(column, column.low + code) if isinstance(column, Integer) else column.label(code)
        for code in range(column.levels)
    ]
    return _with_special(column, [np.array([code]) for code in range(column.levels)], labels, labels)


def span(first: str, last: str) -> str:
    """A run of levels by its ends."""
    return first if first == last else f"{first} to {last}"


CONFIDENCE_LEVEL = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedCounts:
    """Estimates of groups of cells with their standard errors, one axis per grouping."""

    groupings: tuple[LevelGroups, ...]
    estimate: Floats
    std_error: Floats
    margin: Floats  # half the widths of the 95 % intervals

    @property
    def names(self) -> Clique:
        """The columns, in the order of the axes."""
        return tuple(grouping.column.name for grouping in self.groupings)

    @property
    def lower(self) -> Floats:
        """The lower ends of the 95 % intervals."""
        return np.asarray(self.estimate - self.margin)

    @property
    def upper(self) -> Floats:
        """The upper ends of the 95 % intervals."""
        return np.asarray(self.estimate + self.margin)

    @property
    def doubtful(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Where the interval reaches zero, or the estimate does if no error is known."""
        return np.asarray(np.where(np.isfinite(self.lower), self.lower, self.estimate) <= 0)


def cell_errors(estimates: Estimates, clique: Clique) -> Floats:
    """The standard error of each cell of a table."""
    ones = np.ones(estimates.domain.sizes(clique))
    return _root(estimates.covariance(clique, ones, ones, len(clique)))


def grouped(estimates: Estimates, groupings: tuple[LevelGroups, ...]) -> GroupedCounts:
    """The table over the groupings' columns, summed over their groups.

    Cells share noise, so the error of a sum needs its own covariance: one, O(cells), for each combination of merged
    groups; axes of single levels are free.
    """
    counts = estimates.counts(tuple(grouping.column.name for grouping in groupings))
    for axis, grouping in enumerate(groupings):
        if not grouping.whole:
            sums = [counts.take(codes, axis=axis).sum(axis=axis) for codes in grouping.members]
            counts = np.stack(sums, axis=axis)
    # Standard errors and margins, with axes of single levels first.
    order = sorted(range(len(groupings)), key=lambda axis: not groupings[axis].whole)
    free = [groupings[axis] for axis in order if groupings[axis].whole]
    added = [groupings[axis] for axis in order if not groupings[axis].whole]
    clique = tuple(groupings[axis].column.name for axis in order)
    std_error, margin = (np.empty(tuple(len(groupings[axis]) for axis in order)) for _ in range(2))
    ones = [np.ones(len(grouping)) for grouping in free]
    for groups in itertools.product(*(range(len(grouping)) for grouping in added)):
        factors = [*ones, *(grouping.indicator(group) for grouping, group in zip(added, groups, strict=True))]
        coefficients = reduce(np.multiply.outer, factors, np.ones(()))
        at: tuple[Any, ...] = (..., *groups)
        std_error[at] = _root(estimates.covariance(clique, coefficients, coefficients, len(free)))
        margins = sum_margins(estimates, clique, coefficients, len(free), std_error[at])
        margin[at] = margins.at(CONFIDENCE_LEVEL).reshape(std_error[at].shape)
    std_error, margin = (np.transpose(values, np.argsort(order)) for values in (std_error, margin))
    return GroupedCounts(groupings=groupings, estimate=counts, std_error=std_error, margin=margin)


def _root(variances: Floats) -> Floats:
    return np.asarray(np.sqrt(np.maximum(variances, 0.0)))
