"""Found columns: from the noisy counts of two grids to a column with bounds, bins and points, and its provenance.

`second_grid` follows from the counts of the first grid, `found_column` from those of both. Everything here is computed
from released numbers: it is post-processing and costs nothing.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from hush.core.arrays import Integers
from hush.discovery.discovery_step import FoundColumn
from hush.discovery.found_bins import (
    Cell,
    bin_edges,
    bins_for,
    cells_for,
    heavy_points,
    joined_cells,
    significant_digits,
)
from hush.discovery.found_range import BETA, FoundRange, NoisyLevels, found_range, narrowed_range
from hush.discovery.public_grids import (
    counted_column,
    cut_evenly,
    day_granularity,
    day_grid,
    ends_of,
    exact,
    fine_edges,
    number_grid,
    round_points,
    with_margins,
)
from hush.privacy.noise import Noise
from hush.schema.column import Column, Outside
from hush.schema.column_kinds import MOST_POINTS, Date, Granularity, Integer, Numeric, short
from hush.schema.discovery_draft import BINS, BOUNDS, GRANULARITY, OpenColumn
from hush.schema.provenance import Discovered
from hush.schema.stamps import Stamp, Timestamp

MOST_WHOLE_LEVELS = 100  # of an integer column without bins; more get bins
NEARLY_ALL = 0.95  # of the rows in one level
KNOWS_NOTHING = 0.995  # a bound on the share of rows outside that rounds to all rows
FINE_NOISE_RATIO = 3.0  # a group of the first grid holds so many stddevs of a count before it is cut
NEAR_PERIOD = 0.03  # of a month, quarter or year, which a column of days then begins or ends with
LEAST_SHOWN = 1e-6  # standard deviation; schema files refuse 0, to which that of nearly no noise would be rounded
FAR_RATIO = 5  # of the ends of a range whose levels may be far wider than what they hold
LEAST_ZOOM_CELLS, MOST_ZOOM_CELLS = 16, 64
ZOOM_SIGNAL = 8.0  # stddevs of a count: all rows, spread over the cells of the zoom, then stand out from its noise
HALF = BETA / 2  # the chance of a wrong range, for each of the first and the second grid


@dataclass(frozen=True, slots=True)
class GridCounts:
    """Noisy counts of every code of a grid's counted column, missing last, and the law of their noise."""

    grid: Column | Stamp
    rows: Integers
    law: Noise

    @property
    def column(self) -> Column:
        return counted_column(self.grid)

    @property
    def levels(self) -> NoisyLevels:
        """The counts without missing."""
        return NoisyLevels(self.rows[: self.column.levels], self.law)

    def range(self, column: OpenColumn) -> FoundRange | None:
        """The levels that hold rows; given bounds hold all of them."""
        if BOUNDS not in column.open:
            return FoundRange(0, self.column.levels - 1, 0.0)
        return found_range(self.levels, failure=HALF, skip_ends=True)


def zoom_grid(column: OpenColumn, wide: GridCounts) -> Column | None:
    """A grid between the first and the second one, for numbers that are all within a few levels far from zero.

    Years, temperatures and moments in seconds take up a small part of such levels. None for other columns.
    """
    held = wide.range(column)
    if held is None or BOUNDS not in column.open or isinstance(wide.column, Date):
        return None
    ends = ends_of(wide.column)
    low, high = ends[held.first][0], ends[held.last][1]
    if low * high <= 0 or low == high or max(abs(low), abs(high)) > FAR_RATIO * min(abs(low), abs(high)):
        return None
    whole = isinstance(wide.column, Integer)
    if whole and high - low <= MOST_WHOLE_LEVELS:  # the second grid can count every integer
        return None
    cells = min(int((wide.levels.total / (ZOOM_SIGNAL * wide.law.stddev)) ** 2), MOST_ZOOM_CELLS)
    edges = cut_evenly(low, high, cells, whole=whole) if cells >= LEAST_ZOOM_CELLS else []
    return number_grid(column, with_margins(edges, whole=whole), (), Outside.CLAMP) if len(edges) > 2 else None


def second_grid(
    column: OpenColumn, wide: GridCounts, points: Sequence[Fraction] = (), *, zoomed: bool = False
) -> Column | Stamp | None:
    """The second grid of a column; None if the first one shows no rows, or shows all that is needed.

    `points` are numbers that many rows were found to hold; those within the range get a level of their own. If the
    column was `zoomed`, `wide` has the counts of that grid.
    """
    held = wide.range(column)
    if held is None:
        return None
    noisy = wide.levels
    counted = wide.column
    if isinstance(counted, Date):
        start, end = counted.days(held.first)[0], counted.days(held.last)[1]
        granularity = day_granularity(start, end, noisy.total, wide.law.stddev)
        if BOUNDS not in column.open or granularity is Granularity.YEAR:
            return None
        # one level more on each side counts all rows beyond, since these are clamped to it
        margin = dt.timedelta(days=1)
        return day_grid(column, start - margin, end + margin, granularity)
    whole = isinstance(counted, Integer)
    cells = cells_for(noisy.total, wide.law.stddev, column.most_bins)
    least = max(noisy.total / cells, FINE_NOISE_RATIO * wide.law.stddev)
    first, last = held.first, held.last
    if zoomed:  # one narrow level more at each end costs little, and rows beyond the range are moved
        first, last = max(first - 1, 1), min(last + 1, counted.levels - 2)
    edges = fine_edges(counted, noisy.rows.astype(np.float64), cells, first, last, least)
    # Candidates for single values: known ones, found ones, then the roundest edges, as many as a column may list.
    known = [exact(point) for point in column.given.get("points", ())]
    found = [point for point in points if edges[0] <= point < edges[-1]]
    rounds = sorted(round_points(edges, whole=whole), key=significant_digits)
    candidates = list(dict.fromkeys([*known, *found, *rounds]))[:MOST_POINTS]
    edges = with_margins(edges, whole=whole) if BOUNDS in column.open else edges
    outside = Outside.CLAMP if BOUNDS in column.open else column.given["outside"]
    return number_grid(column, edges, sorted(candidates), outside)


def found_column(
    column: OpenColumn, wide: GridCounts, fine: GridCounts | None, *, cost: float, cost_unit: str
) -> FoundColumn | None:
    """The column that the counts of both grids suggest; None if they show no rows.

    `cost` is that of all counts of the column, in `cost_unit`.
    """
    held = wide.range(column)
    if held is None:
        return None
    counted = wide if fine is None else fine
    if fine is not None and BOUNDS in column.open:
        held = narrowed_range(fine.levels, failure=HALF)
    elif fine is not None:
        held = FoundRange(0, fine.column.levels - 1, 0.0)
    outside = held.outside if BOUNDS in column.open else None
    make = _found_days if isinstance(counted.column, Date) else _found_number
    found, what = make(column, counted, held)
    # What was counted on the way, level by level of the column that was found.
    declared = counted_column(found)
    rows, stddev = _level_rows(counted, declared) if not isinstance(found, Stamp) else ((), ())
    provenance = Discovered(
        what=what, cost=cost, cost_unit=cost_unit, failure=BETA, outside=outside, rows=rows, stddev=stddev
    )
    provenance = replace(provenance, note=_note(column, found, provenance, wide, held.estimate))
    return FoundColumn(column=replace(found, discovered=provenance), provenance=provenance, private=True)


def _found_number(column: OpenColumn, counted: GridCounts, held: FoundRange) -> tuple[Column, tuple[str, ...]]:
    """Bounds, bins and points of a column of numbers."""
    given, noisy, whole = column.given, counted.levels, column.kind == Integer.kind
    ends = ends_of(counted.column)
    low, high = ends[held.first][0], ends[held.last][1]
    if ends[held.last][0] == high:  # a point: an integer after it, or the cell after it if nothing else is left
        high = high + 1 if whole else high if low < high else ends[min(held.last + 1, len(ends) - 1)][1]
    bounds = ("bounds",) if BOUNDS in column.open else ()
    shared = column.shared | {"outside": given["outside"], "spelling": given["spelling"]}
    known = tuple(given.get("points", ()))
    if not whole and "step" in given:
        shared["step"] = given["step"]
    # Bins of equal width, or every integer by itself.
    if BINS in given and BINS not in column.open:
        bins = min(given[BINS], int(high - low)) if whole else given[BINS]
        inside = tuple(point for point in known if low <= point <= high - whole)
        if whole:
            return Integer.equal_width(low=int(low), high=int(high) - 1, bins=bins, points=inside, **shared), bounds
        return Numeric.equal_width(low=float(low), high=float(high), bins=bins, points=inside, **shared), bounds
    if whole and BINS not in column.open and high - low <= MOST_WHOLE_LEVELS:
        return Integer(low=int(low), high=int(high) - 1, **shared), bounds
    # Bins that follow the rows.
    bins = column.most_bins or bins_for(noisy.total, noisy.law.stddev)
    counts = zip(ends, noisy.rows.tolist(), strict=True)
    cells = [Cell(start, end, rows) for (start, end), rows in counts][held.first : held.last + 1]
    heavy = [point for point in heavy_points(cells, noisy, bins, whole=whole) if point not in known]
    heavy = heavy[: MOST_POINTS - len(known)]
    points = sorted({*heavy, *(exact(point) for point in known if low <= point <= high - whole)})
    intervals, added = joined_cells(cells, points)
    edges = bin_edges(intervals, added * noisy.law.stddev**2, bins) if intervals else [low, high]
    edges = [low, *(edge for edge in edges if low < edge < high), high]
    what = (*bounds, "bins", *(("points",) if heavy else ()))
    if whole:
        starts = tuple(map(int, edges[:-1]))
        return Integer(
            low=starts[0], high=int(edges[-1]) - 1, starts=starts, points=tuple(map(int, points)), **shared
        ), what
    return Numeric(edges=tuple(map(float, edges)), points=tuple(map(float, points)), **shared), what


def _found_days(column: OpenColumn, counted: GridCounts, held: FoundRange) -> tuple[Column | Stamp, tuple[str, ...]]:
    """Bounds and granularity of a column of days: the one whose levels are nearest in number to twice the bins."""
    days = counted.column
    assert isinstance(days, Date)  # noqa: S101
    start, end = days.days(held.first)[0], days.days(held.last)[1]
    what: tuple[str, ...] = ("bounds",) if BOUNDS in column.open else ()
    granularity = Granularity(column.given.get(GRANULARITY, Granularity.DAY))
    if GRANULARITY in column.open or (BOUNDS in column.open and GRANULARITY not in column.given):
        wanted = 2 * bins_for(counted.levels.total, counted.law.stddev)
        choices = [Date(name="days", start=start, end=end, granularity=width) for width in Granularity]
        granularity = min(choices, key=lambda days: abs(math.log(days.levels / wanted))).granularity
        what = (*what, "granularity")
    if BOUNDS in column.open:
        start, end = _rounded_days(start, end, granularity)
    bounds: dict[str, Any] = {"start": start, "end": end, "granularity": granularity}
    bounds["outside"] = column.given["outside"]
    if column.kind == Timestamp.kind:
        parts = {key: column.given[key] for key in ("parts", "minutes") if key in column.given}
        if "date" not in parts["parts"]:
            bounds["granularity"] = Granularity.DAY
        return Timestamp(**bounds, **parts, **column.shared), what
    return Date(**bounds, **column.shared), what


def _rounded_days(start: dt.date, end: dt.date, granularity: Granularity) -> tuple[dt.date, dt.date]:
    """The days, or the first day of a month, quarter or year and the last day of one where these are near."""
    if granularity in (Granularity.DAY, Granularity.WEEK):
        return start, end
    around = Date(name="days", start=dt.date(start.year, 1, 1), end=dt.date(end.year, 12, 31), granularity=granularity)
    (first, first_end), (last_start, last) = (around.days(around.ordinal(day)) for day in (start, end))
    return (
        first if start - first <= NEAR_PERIOD * (first_end - first) else start,
        last if last - end <= NEAR_PERIOD * (last - last_start) else end,
    )


def _level_rows(counted: GridCounts, found: Column) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """The noisy counts of a grid, added up to the levels of the column that was found, and their standard deviations.

    What lies outside the bounds is in the first or last level, as clamped rows are.
    """
    grid = counted.column
    rows, added = np.zeros(found.size, dtype=np.int64), np.zeros(found.size, dtype=np.int64)
    for code in range(grid.levels):
        if isinstance(grid, Date) and isinstance(found, Date):
            day = min(max(grid.value(code), found.start), found.end)
            level = found.ordinal(day)
        else:
            first = grid.level_starts[code] if grid.binned else grid.ends(code)[0]  # type: ignore[attr-defined]
            level = found.code_of(min(max(first, found.low), found.high))  # type: ignore[attr-defined]
        rows[level] += counted.rows[code]
        added[level] += 1
    if found.missing:
        rows[-1], added[-1] = counted.rows[-1], 1
    if not added.all():  # levels finer than the grid, such as days counted by months
        return (), ()
    deviation = counted.law.stddev
    return tuple(rows.tolist()), tuple(max(round(deviation * float(count) ** 0.5, 6), LEAST_SHOWN) for count in added)


def _note(column: OpenColumn, found: Column | Stamp, provenance: Discovered, wide: GridCounts, estimate: float) -> str:
    """What was found, in plain words."""
    match found:
        case Integer() if not found.binned:
            text = f"{found.low} to {found.high}, every integer a level"
        case Integer() | Numeric():
            bins = len(found.starts) if isinstance(found, Integer) else len(found.edges) - 1
            text = f"{_shown(found.low)} to {_shown(found.high)} in {bins} bin{'s' if bins > 1 else ''}"
            if found.points:
                alone = "by itself" if len(found.points) == 1 else "each by itself"
                text += f", with {', '.join(_shown(point) for point in found.points)} {alone}"
        case Date() | Timestamp():
            text = f"{found.start} to {found.end}"
            text += f" by {found.granularity}" if GRANULARITY not in column.given else ""
        case _:
            text = found.kind
    if provenance.outside is not None:
        text += f"; {_outside(estimate, provenance.outside)}"
    # Rows beyond the grid, and columns with hardly anything to tell.
    levels = wide.levels
    bound = levels.noise_bound(1, HALF)
    if BOUNDS in column.open and max(levels.rows[0], levels.rows[-1]) > bound:
        text += "; some rows are infinite or beyond the widest bounds that hush tries"
    total, noise = sum(provenance.rows), sum(deviation**2 for deviation in provenance.stddev) ** 0.5
    if total - max(provenance.rows, default=0) < (1 - NEARLY_ALL) * total + 2 * noise < total / 2:
        text += "; nearly all rows share one level, so the column tells little"
    return text


def _outside(estimate: float, most: float) -> str:
    """How many rows lie outside the bounds: what noisy counts show, and the share that they surely do not exceed."""
    if most >= KNOWS_NOTHING:
        return "noise hides how many rows lie outside and are moved to the nearer bound"
    about = f"about {100 * estimate:.1f} %" if estimate >= 0.001 else "hardly any"
    return f"{about} of the rows (surely less than {100 * most:.2g} %) lie outside and are moved to the nearer bound"


def _shown(number: float) -> str:
    """A number as people write it."""
    return f"{short(float(number)):,}"
