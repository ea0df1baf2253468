"""Public grids: levels that cover every possible value, so that rows can be counted before bounds are known.

The first grid is the same for every table: edges 1, 2, 5, 10, 20, 50, ... in both directions, zero by itself, and years
for days. The second lies inside the range that noisy counts of the first one left, finer where they found more rows;
it follows from released numbers alone. All edges are round, so whatever is cut along them reads well.
"""

from __future__ import annotations

import bisect
import datetime as dt
import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from hush.core.arrays import Floats
from hush.schema.column import LARGEST_INTEGER, Column, Outside
from hush.schema.column_kinds import MOST_POINTS, Date, Granularity, Integer, Numeric
from hush.schema.discovery_draft import BOUNDS, OpenColumn
from hush.schema.stamps import DATE, Stamp, Timestamp

SMALLEST_DECADE, LARGEST_DECADE = -6, 15  # 10^-6 to 10^15: from a millionth to the largest whole numbers in floats
FIRST_DAY, LAST_DAY = dt.date(1600, 1, 1), dt.date(2399, 12, 31)
# Numbers that tables often hold by themselves: no answer, not applicable, or the end of a scale.
SPECIAL_NUMBERS = (0, *(sign * (10**digits - 1) for digits in range(1, 9) for sign in (-1, 1)), -1)
STEPS = (Fraction(1), Fraction(2), Fraction(5))
MOST_LEVELS_OF_DAYS = 4000  # of the second grid of a date column: days up to eleven years, then months
NOISE_OF_DAYS = 0.1  # of all rows, which the noise of all days together may be
CLUMP_CONTRAST = 0.02  # of the rows of a clump, which the groups beside it hold at most
CLUMP_CELLS = 8.0  # times as many cells as the share of rows of a clump gives it
MOST_FINE_CELLS = 768  # about, with those of clumps; memory for bins grows as the square of the cells
Ends = tuple[Fraction, Fraction]


def wide_grid(column: OpenColumn) -> Column | Stamp:
    """The first grid of a column, over its bounds if these are given, else over all possible values.

    Values beyond the grid are clamped to its first and last level.
    """
    given: dict[str, Any] = dict(column.given)
    if column.kind in (Date.kind, Timestamp.kind):
        start, end = given.get("start", FIRST_DAY), given.get("end", LAST_DAY)
        return day_grid(column, start, end, Granularity.YEAR)
    edges = wide_edges(whole=column.kind == Integer.kind)
    known = [exact(point) for point in given.get("points", ())]
    special = list(dict.fromkeys([*known, *map(Fraction, SPECIAL_NUMBERS)]))[:MOST_POINTS]
    if BOUNDS not in column.open:
        low, high = exact(given["low"]), exact(given["high"]) + (column.kind == Integer.kind)
        edges = [low, *(edge for edge in edges if low < edge < high), high]
    return number_grid(column, edges, sorted(special), Outside.CLAMP if BOUNDS in column.open else given["outside"])


def wide_edges(*, whole: bool) -> list[Fraction]:
    """-10^15, ..., -5, -2, -1, (...,) 0, (...,) 1, 2, 5, ..., 10^15; whole numbers have none between -1 and 1.

    >>> [float(edge) for edge in wide_edges(whole=True)[45:51]]
    [-1.0, 0.0, 1.0, 2.0, 5.0, 10.0]
    """
    decades = range(0 if whole else SMALLEST_DECADE, LARGEST_DECADE)
    above = [step * Fraction(10) ** decade for decade in decades for step in STEPS] + [Fraction(10) ** LARGEST_DECADE]
    return [*(-edge for edge in reversed(above)), Fraction(0), *above]


def number_grid(column: OpenColumn, edges: Sequence[Fraction], points: Sequence[Fraction], outside: str) -> Column:
    """Levels between increasing edges, [e_0, e_1), [e_1, e_2), ..., with those of the points that lie inside."""
    shared = column.shared | {"outside": outside, "spelling": column.given["spelling"]}
    inside = tuple(point for point in points if edges[0] <= point < edges[-1])
    if column.kind == Integer.kind:
        starts = tuple(map(int, edges[:-1]))
        ends = (*starts[1:], int(edges[-1]))
        alone = {start for start, end in zip(starts, ends, strict=True) if end - start == 1}
        whole = tuple(int(point) for point in inside if point.denominator == 1 and point not in alone)
        return Integer(low=starts[0], high=ends[-1] - 1, starts=starts, points=whole, **shared)
    return Numeric(edges=tuple(map(float, edges)), points=tuple(map(float, inside)), **shared)


def day_grid(column: OpenColumn, start: dt.date, end: dt.date, granularity: Granularity) -> Column | Stamp:
    """Levels of a date or timestamp column from one day to another; of a timestamp, its date alone is counted."""
    bounds: dict[str, Any] = {"start": start, "end": end, "granularity": granularity}
    bounds["outside"] = Outside.CLAMP if BOUNDS in column.open else column.given["outside"]
    if column.kind == Timestamp.kind:
        return Timestamp(parts=(DATE,), **bounds, **column.shared)
    return Date(**bounds, **column.shared)


def counted_column(grid: Column | Stamp) -> Column:
    """The column whose levels are counted: the grid itself, or the date of a timestamp."""
    return grid.columns[0] if isinstance(grid, Stamp) else grid


def ends_of(column: Column) -> list[Ends]:
    """Where each level of a column of numbers begins and ends; a point begins and ends at itself, integers end open."""
    if isinstance(column, Integer):
        points = set(column.points)
        whole = (column.ends(code) for code in range(column.levels))
        return [(Fraction(low), Fraction(low if low in points else high + 1)) for low, high in whole]
    assert isinstance(column, Numeric)  # noqa: S101
    real = (column.ends(code) for code in range(column.levels))
    return [(exact(low), exact(high)) for low, high in real]


def exact(number: float) -> Fraction:
    """The fraction that a number is written as: 0.1 is one tenth, and not the float next to it."""
    return Fraction(repr(number))


def fine_edges(wide: Column, noisy: Floats, cells: int, first: int, last: int, least_rows: float) -> list[Fraction]:
    """Edges of about `cells` cells inside the levels first .. last of the first grid, closer where more rows were.

    Levels are joined until a group holds at least `least_rows` noisy rows, and a group with the share p of the rows is
    cut into about p `cells` cells, whose width is 1, 2 or 5 times a power of ten where the ends of the group allow it.
    A group between others that hold hardly any rows is a clump, which may be far narrower: it gets up to 8 times as
    many cells. Rows that share one number need no cells.
    """
    ends, whole = ends_of(wide), isinstance(wide, Integer)
    low, high = min(ends[first : last + 1])[0], max(end for _, end in ends[first : last + 1])
    if ends[last][0] == ends[last][1]:  # a point: room for what lies just above it
        high = min((edge for edge in wide_edges(whole=whole) if edge > high), default=high + 1)
    marks = {edge for start, end in ends[first : last + 1] if start < end for edge in (start, end)}
    edges = [low, *sorted(edge for edge in marks if low < edge < high), high]
    rows = np.zeros(len(edges) - 1)
    for (start, end), count in zip(ends[first : last + 1], noisy[first : last + 1], strict=True):
        if start < end:
            rows[min(bisect.bisect_right(edges, start) - 1, len(rows) - 1)] += count
    # Join what has few rows; a level with many begins a group of its own.
    groups: list[tuple[Fraction, Fraction, float]] = []
    begin, held = edges[0], 0.0
    for (start, end), count in zip(pairwise(edges), rows, strict=True):
        if count >= least_rows and begin < start:
            groups.append((begin, start, max(held, 0.0)))
            begin, held = start, 0.0
        held += count
        if held >= least_rows or end == edges[-1]:
            groups.append((begin, end, max(held, 0.0)))
            begin, held = end, 0.0
    # Cut each group into cells of a round width.
    total = sum(count for *_, count in groups) or 1.0
    more = min(max(MOST_FINE_CELLS / cells, 1.0), CLUMP_CELLS)
    cuts = [edges[0]]
    for place, (start, end, count) in enumerate(groups):
        beside = sum(others for *_, others in groups[max(place - 1, 0) : place + 2]) - count
        share = count / total * (more if beside < CLUMP_CONTRAST * count else 1.0)
        wanted = max(1, round(cells * share)) if len(groups) > 1 else cells
        cuts += cut_evenly(start, end, wanted, whole=whole)[1:]
    return cuts


def cut_evenly(start: Fraction, end: Fraction, cells: int, *, whole: bool) -> list[Fraction]:
    """Edges of about so many cells of one round width."""
    width = round_width(start, end, cells, whole=whole)
    step = start + (-start) % width  # the first multiple of the width, unless the start is one
    inside = [step + k * width for k in range(math.ceil((end - step) / width))]
    return [start, *(edge for edge in inside if start < edge < end), end]


def with_margins(edges: Sequence[Fraction], *, whole: bool) -> list[Fraction]:
    """The edges with one cell more on each side, which counts all rows beyond, since these are clamped to it."""
    around = wide_edges(whole=whole)
    below = [edge for edge in around if edge < edges[0]] or [edges[0] - 1]
    above = [edge for edge in around if edge > edges[-1]] or [edges[-1] + 1]
    return [below[-1], *edges, above[0]]


def round_width(start: Fraction, end: Fraction, cells: int, *, whole: bool) -> Fraction:
    """The largest width of 1, 2 or 5 times a power of ten that cuts start .. end into at least `cells` cells, about.

    >>> str(round_width(Fraction(200), Fraction(500), 10, whole=True))
    '20'
    """
    ideal = (end - start) / cells
    decade = math.floor(math.log10(ideal)) if ideal > 0 else 0
    choices = [step * Fraction(10) ** power for power in (decade - 1, decade, decade + 1) for step in STEPS]
    fitting = [width for width in choices if width <= ideal] or choices[:1]
    width = max(fitting)
    return max(width, Fraction(1)) if whole else width


def round_points(edges: Sequence[Fraction], *, whole: bool) -> list[Fraction]:
    """Candidates for values that many rows share: every edge, and the special numbers inside.

    A cell of one integer is a level by itself and needs none.
    """
    inside = [Fraction(number) for number in SPECIAL_NUMBERS if edges[0] <= number < edges[-1]]
    candidates = {start for start, end in pairwise(edges) if not whole or end - start > 1}
    return sorted(candidates | {point for point in inside if abs(point) <= LARGEST_INTEGER})


def day_granularity(start: dt.date, end: dt.date, rows: float, stddev: float) -> Granularity:
    """The granularity of the second grid of a date column: days if their noise together is far below the rows.

    Days alone can be added up to weeks; months are enough for quarters and years.
    """
    days = (end - start).days + 1
    if days <= MOST_LEVELS_OF_DAYS and math.sqrt(days) * stddev <= NOISE_OF_DAYS * rows:
        return Granularity.DAY
    return Granularity.MONTH if days // 31 <= MOST_LEVELS_OF_DAYS else Granularity.YEAR
