"""Groups of the levels of a column for drawing, and released tables summed over them with exact errors."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import groupby, pairwise
from typing import Any

import numpy as np

from hush.arrays import Floats, Integers
from hush.domain import Clique
from hush.inference.error_margins import sum_margins
from hush.inference.estimates import Estimates
from hush.report.labels import compact
from hush.schema import Column, Date, Granularity, Integer, Numeric
from hush.text_table import counted

UNITS: tuple[tuple[str, Callable[[dt.date], str]], ...] = (
    ("month", lambda day: day.isoformat()[:7]),
    ("quarter", lambda day: f"{day.year:04}-Q{(day.month + 2) // 3}"),
    ("year", lambda day: f"{day.year:04}"),
)
COARSER = {Granularity.DAY: 0, Granularity.MONTH: 1, Granularity.QUARTER: 2}  # where to start in UNITS


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelGroups:
    """Groups of codes that cover a column, in the order they are drawn.

    `ordinary` groups come first, then `other` and missing. `ticks` are short marks for an axis; with `edges` they mark
    where a group begins. `note` says which levels were merged, if any.
    """

    column: Column
    members: tuple[Integers, ...]
    labels: tuple[str, ...]
    ticks: tuple[str, ...]
    ordinary: int
    edges: bool = False
    note: str | None = None

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
        case Integer() | Numeric() if column.points or (column.binned and isinstance(column, Integer)):
            return _runs(column, most)
        case Integer():
            return _integers(column, most)
        case Numeric():
            return _bins(column, most)
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
    edges: bool = False,
    note: str | None = None,
) -> LevelGroups:
    """The groups, followed by `other` and missing, each by itself."""
    special = [code for code in (column.other_code, column.missing_code) if code is not None]
    names = [column.label(code) for code in special]
    return LevelGroups(
        column=column,
        members=(*groups, *(np.array([code]) for code in special)),
        labels=(*labels, *names),
        ticks=(*ticks, *(name.strip("()") for name in names)),
        ordinary=len(groups),
        edges=edges,
        note=note,
    )


def _integers(column: Integer, most: int) -> LevelGroups:
    step = _round_step(column.low, column.high, most)
    if step == 1:
        labels = [str(column.low + code) for code in range(column.levels)]
        return _with_special(column, _single(column), labels, [compact_integer(int(label)) for label in labels])
    starts = [max(start, column.low) for start in range(column.low // step * step, column.high + 1, step)]
    ends = [*(start - 1 for start in starts[1:]), column.high]
    groups = [np.arange(low - column.low, high - column.low + 1) for low, high in zip(starts, ends, strict=True)]
    labels = [integer_span(low, high) for low, high in zip(starts, ends, strict=True)]
    note = f"{counted(column.levels, 'level')} drawn in steps of {step:,}"
    return _with_special(column, groups, labels, [compact_integer(start) for start in starts], edges=True, note=note)


def _bins(column: Numeric, most: int) -> LevelGroups:
    step = _even_step(column.levels, most)
    starts = range(0, column.levels, step)
    groups = [np.arange(start, min(start + step, column.levels)) for start in starts]
    labels = [bin_span(column, int(group[0]), int(group[-1])) for group in groups]
    ticks = [compact(column.edges[start]) for start in starts]
    if len(set(ticks)) < len(ticks):
        ticks = [f"{column.edges[start]:.{column.digits}g}" for start in starts]
    notes = [f"{counted(column.levels, 'bin')} drawn {step} at a time"] if step > 1 else []
    if not equal_steps([*(column.edges[start] for start in starts), column.edges[-1]]):
        notes.append("bins differ in width, so a tall bar may be a wide bin")
    return _with_special(column, groups, labels, ticks, edges=True, note="; ".join(notes) or None)


def _dates(column: Date, most: int) -> LevelGroups:
    if column.levels <= most:
        labels = [column.label(code) for code in range(column.levels)]
        return _with_special(column, _single(column), labels, labels)
    days = [column.value(code) for code in range(column.levels)]
    for unit, spelled in UNITS[COARSER.get(column.granularity, len(UNITS)) :]:
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
    return _with_special(column, groups, labels, ticks, edges=True, note=note)


def _largest(column: Column, counts: Floats, most: int) -> LevelGroups:
    if column.levels <= most:
        labels = [column.label(code) for code in range(column.levels)]
        return _with_special(column, _single(column), labels, labels)
    order = np.argsort(-counts[: column.levels], kind="stable")
    largest, rest = order[: most - 1], np.sort(order[most - 1 :])
    names = [column.label(int(code)) for code in largest]
    names.append(f"{rest.size:,} more levels")
    note = f"the {largest.size} levels with the largest estimates are shown and the other {rest.size:,} added up"
    return _with_special(column, [*(np.array([code]) for code in largest), rest], names, names, note=note)


def _runs(column: Integer | Numeric, most: int) -> LevelGroups:
    """Bins beside points: neighbouring bins are merged, and each point stays by itself if there is room."""
    alone = [column.is_point(code) for code in range(column.levels)]
    if sum(alone) > most // 3:
        alone = [False] * column.levels
    fewest = _even_step(column.levels, most)
    groups = next(made for step in range(fewest, column.levels + 1) if len(made := _merged(alone, step)) <= most)
    labels = [column.run_label(group[0], group[-1]) for group in groups]
    return _with_special(column, [np.array(group) for group in groups], labels, labels)


def _merged(alone: Sequence[bool], step: int) -> list[list[int]]:
    """Codes in groups of at most `step` neighbours, some of them alone."""
    groups: list[list[int]] = []
    for code, lone in enumerate(alone):
        if lone or not groups or len(groups[-1]) == step or alone[groups[-1][0]]:
            groups.append([code])
        else:
            groups[-1].append(code)
    return groups


def _single(column: Column) -> list[Integers]:
    return [np.array([code]) for code in range(column.levels)]


def _round_step(low: int, high: int, most: int) -> int:
    """The smallest of 1, 2, 5, 10, 20, 50, ... whose multiples cut low .. high into at most `most` groups."""
    power = 1
    while True:
        for step in (power, 2 * power, 5 * power):
            if high // step - low // step + 1 <= most:
                return step
        power *= 10


def _even_step(levels: int, most: int) -> int:
    """How many bins to merge: the fewest that suffice, or up to twice as many if that divides the levels evenly."""
    fewest = -(-levels // most)
    return next((step for step in range(fewest, 2 * fewest) if levels % step == 0), fewest)


def integer_span(low: int, high: int) -> str:
    """A run of integers in words.

    >>> integer_span(30, 34), integer_span(-5, -1), integer_span(7, 7)
    ('30–34', '-5 to -1', '7')
    """
    return str(low) if low == high else f"{low} to {high}" if low < 0 else f"{low}–{high}"


def compact_integer(number: int) -> str:
    """An integer for an axis: without separators if it may be a year or a code."""
    return str(number) if abs(number) < 10_000 else compact(number)


def bin_span(column: Numeric, first: int, last: int) -> str:
    """The bins from one to another as one interval."""
    closing = "]" if last == column.levels - 1 else ")"
    low, high = (f"{column.edges[i]:.{column.digits}g}" for i in (first, last + 1))
    return f"[{low}, {high}{closing}"


def span(first: str, last: str) -> str:
    """A run of levels by its ends."""
    return first if first == last else f"{first} to {last}"


def equal_steps(edges: Sequence[float]) -> bool:
    """Whether edges are equally far apart, up to rounding."""
    widths = [high - low for low, high in pairwise(edges)]
    return max(widths) <= 1.001 * min(widths)


LEVEL = 0.95


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
    names = tuple(grouping.column.name for grouping in groupings)
    counts = estimates.counts(names)
    for axis, grouping in enumerate(groupings):
        if not grouping.whole:
            sums = [counts.take(codes, axis=axis).sum(axis=axis) for codes in grouping.members]
            counts = np.stack(sums, axis=axis)
    std_error, margin = _errors(estimates, groupings)
    return GroupedCounts(groupings=groupings, estimate=counts, std_error=std_error, margin=margin)


def _errors(estimates: Estimates, groupings: tuple[LevelGroups, ...]) -> tuple[Floats, Floats]:
    """Standard errors and margins."""
    order = sorted(range(len(groupings)), key=lambda axis: not groupings[axis].whole)  # single levels first
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
        margin[at] = margins.at(LEVEL).reshape(std_error[at].shape)
    back = np.argsort(order)
    return np.transpose(std_error, back), np.transpose(margin, back)


def _root(variances: Floats) -> Floats:
    return np.asarray(np.sqrt(np.maximum(variances, 0.0)))
