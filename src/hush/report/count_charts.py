"""Charts of counts: one-way tables as bars with error bars, two-way tables as heat maps.

Bars are horizontal for names and vertical for numbers and dates.
"""

from __future__ import annotations

import math

import numpy as np

from hush.core.arrays import Floats
from hush.render.charts import (
    CHART_WIDTH,
    LABEL_SIZE,
    TICK_SIZE,
    WHITE_TEXT_SHADE,
    Axis,
    horizontal_grid,
    picture,
    swatch,
    vertical_grid,
)
from hush.render.labels import compact, readable, rounded, width
from hush.render.markup import Markup, coordinate, join, shape, tag
from hush.report.level_groups import GroupedCounts, heights_per_row

ROW_HEIGHT = 22.0  # of a horizontal bar with its space
STANDING_HEIGHT = 210.0  # of a chart of vertical bars
LONGEST_NAME = 22  # characters beside a horizontal bar
APART_GAP = 16.0  # between the ordinary levels and those that are set apart, `other` and missing
INTERVAL_ABOVE, INTERVAL_BELOW = 1.2, 0.2  # how far intervals may reach, relative to the highest bar
LONGEST_ROW_LABEL, LONGEST_COLUMN_LABEL = 20, 12  # characters beside and above a heat map
MOST_WRITTEN_CELLS = 64  # larger heat maps have no numbers in their cells
LEGEND_SHADES = 6
WIDEST_CELL = 72.0
HATCH_DISTANCE = 6.0


def bar_chart(sums: GroupedCounts, number: int) -> Markup:
    """A one-way table as bars; `number` tells the charts of a page apart."""
    return _standing(sums, number) if stands(sums) else _lying(sums, number)


def chart_height(sums: GroupedCounts) -> float:
    """The height of the chart of a one-way table, for placing similar charts side by side."""
    return STANDING_HEIGHT if stands(sums) else ROW_HEIGHT * len(sums.groupings[0]) + 28


def described(sums: GroupedCounts) -> str:
    """A one-way table in a sentence: how many bars, the largest and the smallest."""
    labels, estimate, errors = sums.groupings[0].labels, sums.estimate, sums.std_error
    ends = [int(np.argmax(estimate)), int(np.argmin(estimate))]
    most, least = (f"{readable(labels[i], 60)} with {rounded(estimate[i], errors[i])}" for i in ends)
    below = int(np.sum(estimate < 0))
    tail = f" {below} of the estimates are below zero." if below else ""
    return f"{len(labels)} bars; the largest is {most}, the smallest {least}.{tail} The table below has every number."


def tip(sums: GroupedCounts, *indices: int) -> str:
    """The tooltip of one bar or cell."""
    names = ", ".join(
        readable(grouping.labels[index], 60) for grouping, index in zip(sums.groupings, indices, strict=True)
    )
    error = float(sums.std_error[indices])
    ends = [rounded(float(end[indices]), error) for end in (sums.estimate, sums.lower, sums.upper)]
    return f"{names}: {ends[0]}" + (f" ({ends[1]} to {ends[2]})" if math.isfinite(error) else "")


def stands(sums: GroupedCounts) -> bool:
    """Whether bars are vertical: those of numbers and dates, unless they are few."""
    return sums.groupings[0].ordered and len(sums.groupings[0]) > 3


def _ends(sums: GroupedCounts, factors: Floats, chosen: slice) -> tuple[float, float]:
    """The lowest and the highest value that must be on the axis.

    Of rows per width, intervals of narrow bars are long. They are cut off, so that they leave room for the bars.
    """
    values = np.concatenate([(factors * ends)[chosen] for ends in (sums.estimate, sums.lower, sums.upper)])
    finite = values[np.isfinite(values)]
    if not finite.size:
        return 0.0, 1.0
    highest = float((factors * sums.estimate)[chosen].max())
    if highest <= 0 or (factors == 1).all():
        return float(finite.min()), float(finite.max())
    return max(float(finite.min()), -INTERVAL_BELOW * highest), min(float(finite.max()), INTERVAL_ABOVE * highest)


def _lying(sums: GroupedCounts, number: int) -> Markup:
    grouping = sums.groupings[0]
    labels = [readable(label, LONGEST_NAME) for label in grouping.labels]
    values = [rounded(value, error) for value, error in zip(sums.estimate, sums.std_error, strict=True)]
    left = max(width(label, LABEL_SIZE) for label in labels) + 8
    right = CHART_WIDTH - max(width(value, LABEL_SIZE) for value in values) - 10
    axis = Axis.linear(*_ends(sums, np.ones(len(labels)), slice(None)), start=left, stop=right, marks=5)
    bottom = ROW_HEIGHT * len(labels) + 6
    shapes = [vertical_grid(axis, 2.0, bottom)]
    for row, (label, value) in enumerate(zip(labels, values, strict=True)):
        middle = 4 + ROW_HEIGHT * (row + 0.5)
        ends = sorted((axis(0.0), axis(float(sums.estimate[row]))))
        bar = shape("rect", x=ends[0], y=middle - 7, width=ends[1] - ends[0], height=14.0, class_=_bar_class(sums, row))
        shapes.append(
            tag(
                "g",
                tag("title", tip(sums, row)),
                bar,
                _whisker(float(sums.lower[row]), float(sums.upper[row]), axis, middle, lying=True),
                tag("text", label, x=left - 8, y=middle + 4, class_="end"),
                tag("text", value, x=CHART_WIDTH - 2, y=middle + 4, class_="end"),
            )
        )
    return picture(_bar_title(sums), described(sums), number, bottom + 22, *shapes)


def _standing(sums: GroupedCounts, number: int) -> Markup:
    grouping, groups = sums.groupings[0], len(sums.groupings[0])
    top, bottom = 16.0 if grouping.apart else 8.0, STANDING_HEIGHT - 26
    factors = np.ones(groups)
    factors[: grouping.ordinary] = heights_per_row(grouping)
    own_scale = bool(grouping.apart) or bool((factors != 1).any())  # else heights would not compare
    on_axis = slice(grouping.ordinary if own_scale else None)
    axis = Axis.linear(*_ends(sums, factors, on_axis), start=bottom, stop=top, marks=5)
    if own_scale:
        factors[grouping.ordinary :] = axis.high / max(float(sums.estimate.sum()), 1.0)
    left = axis.label_width + 8
    starts, widths = _places(sums, left, numbered=own_scale)
    shapes = [horizontal_grid(axis, left, CHART_WIDTH)]
    for index, (start, wide) in enumerate(zip(starts, widths, strict=True)):
        height = axis(min(max(factors[index] * float(sums.estimate[index]), axis.low), axis.high))
        ends = sorted((axis(0.0), height))
        inner = max(wide - max(1.0, min(0.14 * wide, 4.0)), 0.8) if index < grouping.ordinary else 0.7 * wide
        middle = start + wide / 2
        bar = shape(
            "rect",
            x=middle - inner / 2,
            y=ends[0],
            width=inner,
            height=ends[1] - ends[0],
            class_=_bar_class(sums, index),
        )
        low, high = (
            min(max(factors[index] * float(end[index]), axis.low), axis.high) for end in (sums.lower, sums.upper)
        )
        whisker = _whisker(low, high, axis, middle, lying=False, half=min(3.0, inner / 3))
        value = None
        if own_scale and index >= grouping.ordinary:
            y = (min(ends[0], axis(high)) if math.isfinite(high) else ends[0]) - 4
            value = tag("text", _count_text(sums, index), x=middle, y=y, class_="mark mid")
        shapes.append(tag("g", tag("title", tip(sums, index)), bar, whisker, value))
    return picture(
        _bar_title(sums), described(sums), number, STANDING_HEIGHT, *shapes, *_marks(sums, starts, widths, bottom)
    )


def _count_text(sums: GroupedCounts, index: int) -> str:
    return rounded(float(sums.estimate[index]), float(sums.std_error[index]))


def _places(sums: GroupedCounts, left: float, *, numbered: bool) -> tuple[list[float], list[float]]:
    """Where bars begin and how wide they are: those set apart, the ordinary ones, then `other` and missing."""
    grouping = sums.groupings[0]
    ordinary, groups = grouping.ordinary, len(grouping)
    slots = []
    for index in range(ordinary, groups):
        texts = [readable(grouping.ticks[index], 12), *([_count_text(sums, index)] if numbered else [])]
        slots.append(max(max(width(text, TICK_SIZE) for text in texts) + 6, 24.0))
    before, after = sum(slots[: grouping.apart]), sum(slots[grouping.apart :])
    beyond = 0.0 if grouping.last is None else width(readable(grouping.last, 12), TICK_SIZE) / 2
    start = left + 2 + (before + APART_GAP if before else 0.0)
    room = CHART_WIDTH - start - (after + max(APART_GAP, beyond + 4) if after else max(beyond, 10.0))
    low, high = (grouping.extents[0][0], grouping.extents[-1][1]) if grouping.extents else (0.0, float(ordinary))
    extents = grouping.extents or [(float(k), k + 1.0) for k in range(ordinary)]
    starts = [start + room * (begin - low) / (high - low) for begin, _ in extents]
    widths = [room * (end - begin) / (high - low) for begin, end in extents]
    for number, slot in enumerate(slots):
        begins = left + 2 if number < grouping.apart else CHART_WIDTH - after
        first = 0 if number < grouping.apart else grouping.apart
        starts.append(begins + sum(slots[first:number]))
        widths.append(slot)
    return starts, widths


def _marks(sums: GroupedCounts, starts: list[float], widths: list[float], bottom: float) -> list[Markup]:
    """Marks below vertical bars: those set apart, the end of the last bar, and as many others as fit."""
    grouping = sums.groupings[0]
    ordinary = grouping.ordinary
    texts = [readable(text, 12) for text in grouping.ticks]
    marks = [
        tag("text", texts[index], x=starts[index] + widths[index] / 2, y=bottom + 16, class_="mark mid")
        for index in range(ordinary, len(texts))
    ]
    places = [starts[index] + (0 if grouping.edges else widths[index] / 2) for index in range(ordinary)]
    labels = texts[:ordinary]
    if grouping.last is not None:
        places.append(starts[ordinary - 1] + widths[ordinary - 1])
        labels.append(readable(grouping.last, 12))
    half = [width(label, TICK_SIZE) / 2 for label in labels]
    final = len(labels) - 1
    chosen = [final] if grouping.edges else []
    step = max(half) * 2 + 8
    regular = max(widths[:ordinary]) <= 1.01 * min(widths[:ordinary])
    every = next((n for n in (1, 2, 5, 10, 20, 50) if n * widths[0] >= step), 100) if regular else 1
    right, limit = -math.inf, places[final] - half[final] - 6 if chosen else math.inf
    for index in range(0, len(labels) - len(chosen), every):
        if places[index] - half[index] > right and places[index] + half[index] < limit:
            chosen.append(index)
            right = places[index] + half[index] + 6
    for index in chosen:
        x = places[index]
        marks.append(shape("line", x1=x, x2=x, y1=bottom, y2=bottom + 4, class_="tick"))
        marks.append(tag("text", labels[index], x=min(x, CHART_WIDTH - half[index]), y=bottom + 16, class_="mark mid"))
    return marks


def _whisker(low: float, high: float, axis: Axis, middle: float, *, lying: bool, half: float = 3.5) -> Markup:
    """An error bar over the 95 % interval, as one path; empty if no error is known."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return Markup("")
    a, b, edge, cap = (coordinate(x) for x in (axis(low), axis(high), middle - half, 2 * half))
    stem = coordinate(middle)
    path = (
        f"M{a} {edge}v{cap}M{a} {stem}H{b}M{b} {edge}v{cap}"
        if lying
        else f"M{edge} {a}h{cap}M{stem} {a}V{b}M{edge} {b}h{cap}"
    )
    return shape("path", d=path, class_="whisker")


def _bar_class(sums: GroupedCounts, index: int) -> str:
    return "bar below" if sums.estimate[index] < 0 else "bar"


def _bar_title(sums: GroupedCounts) -> str:
    return f"Estimated counts by {readable(sums.names[0], 60)}"


def heat_map(sums: GroupedCounts, number: int) -> Markup:
    """A two-way table, rows down and columns across; `number` tells the charts of a page apart.

    The shade follows the square root of the count, so that small cells stay distinct beside large ones.
    """
    # Lay out the map: labels of rows on the left, labels of columns above, slanted if they do not fit.
    rows, columns = sums.groupings
    row_labels = [readable(label, LONGEST_ROW_LABEL) for label in rows.labels]
    for i in range(rows.ordinary if rows.edges else 0):
        if row_labels[i].endswith("…"):  # too long: show where the bin begins
            row_labels[i] = readable(f"{rows.ticks[i]} …", LONGEST_ROW_LABEL)
    column_labels = [readable(tick, LONGEST_COLUMN_LABEL) for tick in columns.ticks]
    left = max(width(label, TICK_SIZE) for label in row_labels) + 8
    longest = max(
        width(label, TICK_SIZE) for label in (*column_labels, readable(columns.last or "", LONGEST_COLUMN_LABEL))
    )
    wide = min((CHART_WIDTH - left) / len(columns), WIDEST_CELL)
    upright = longest + 2 <= wide
    if not upright:
        wide = min((CHART_WIDTH - left - 0.5 * width(column_labels[-1], TICK_SIZE)) / len(columns), WIDEST_CELL)
    tall = min(max(wide, 16.0), 26.0)
    top = 18.0 if upright else 12 + 0.75 * longest
    largest = max(float(np.nanmax(sums.estimate)), 0.0)
    texts_of = [[_short(sums, i, j) for j in range(len(columns))] for i in range(len(rows))]
    widest = max(width(text, TICK_SIZE) for row in texts_of for text in row) + 4
    written = sums.estimate.size <= MOST_WRITTEN_CELLS and wide >= max(widest, 20)

    # Draw the cells. Hatching and numbers come last, so that no cell covers them.
    shapes, texts, hatched = [], [], []
    for i in range(len(rows)):
        y = top + tall * i
        shapes.append(tag("text", row_labels[i], x=left - 6, y=y + tall / 2 + 4, class_="mark end"))
        for j in range(len(columns)):
            x = left + wide * j
            shade = math.sqrt(max(float(sums.estimate[i, j]), 0.0) / largest) if largest > 0 else 0.0
            cell = swatch(x, y, wide - 1, tall - 1, shade)
            shapes.append(tag("g", tag("title", tip(sums, i, j)), cell))
            if sums.doubtful[i, j]:
                hatched.append(_hatch(x, y, wide - 1, tall - 1))
            if written:
                kind = "mid deep" if shade > WHITE_TEXT_SHADE else "mid pale"
                texts.append(tag("text", texts_of[i][j], x=x + (wide - 1) / 2, y=y + tall / 2 + 3.5, class_=kind))
    shapes += _column_labels(sums, left, wide, top - 5, upright=upright)
    if hatched:
        shapes.append(shape("path", d="".join(hatched), class_="hatch"))
    shapes += texts
    bottom = top + tall * len(rows)
    shapes.append(_legend(largest, bottom + 10, bool(hatched)))
    first, second = (readable(name, 60) for name in sums.names)
    i, j = (int(index) for index in np.unravel_index(int(np.nanargmax(sums.estimate)), sums.estimate.shape))
    described = (
        f"{len(rows)} rows and {len(columns)} columns; the largest cell is {tip(sums, i, j)}. "
        f"{int(sums.doubtful.sum())} of {sums.estimate.size} cells are hatched: their interval reaches zero. "
        "The table below has every number."
    )
    title = f"Estimated counts by {first} (down) and {second} (across)"
    return picture(title, described, number, bottom + 48, *shapes)


def _short(sums: GroupedCounts, i: int, j: int) -> str:
    value = float(sums.estimate[i, j])
    return compact(round(value / 1e5) * 1e5) if abs(value) >= 1e6 else rounded(value, max(sums.std_error[i, j], 2.0))


def _column_labels(sums: GroupedCounts, left: float, wide: float, y: float, *, upright: bool) -> list[Markup]:
    """Labels above the columns: bins at their lower end, other levels in the middle; slanted unless `upright`."""
    columns = sums.groupings[1]
    places = []
    for j, tick in enumerate(columns.ticks):
        x = left + wide * (j + (0.0 if columns.edges and j < columns.ordinary else 0.5))
        if columns.last is not None and j == columns.ordinary:
            x = max(x, left + wide * j + 2 * TICK_SIZE)  # beside the end of the last ordinary group
        places.append((tick, x))
    if columns.last is not None:
        places.append((columns.last, left + wide * columns.ordinary))
    labels = []
    for text, x in places:
        turned = {} if upright else {"transform": f"rotate(-48 {x:.1f} {y:.1f})"}
        kind = "mark mid" if upright else "mark"
        labels.append(tag("text", readable(text, LONGEST_COLUMN_LABEL), x=x, y=y, class_=kind, **turned))
    return labels


def _hatch(x: float, y: float, wide: float, tall: float) -> str:
    """Diagonal strokes within a cell, as commands of a path."""
    strokes = []
    offset = HATCH_DISTANCE / 2
    while offset < wide + tall:
        x0, y0 = (x + offset, y) if offset <= wide else (x + wide, y + offset - wide)
        x1, y1 = (x, y + offset) if offset <= tall else (x + offset - tall, y + tall)
        strokes.append(f"M{x0:.0f} {y0:.0f}L{x1:.0f} {y1:.0f}")
        offset += HATCH_DISTANCE
    return "".join(strokes)


def _legend(largest: float, y: float, hatched: bool) -> Markup:
    """Swatches from zero to the largest count, and one that explains hatching."""
    wide = 26.0
    shapes = [swatch(2 + wide * k, y, wide - 1, 11.0, k / (LEGEND_SHADES - 1)) for k in range(LEGEND_SHADES)]
    ends = 2 + wide * LEGEND_SHADES
    shapes.append(tag("text", "0", x=2.0, y=y + 25, class_="mark"))
    shapes.append(tag("text", compact(float(f"{largest / 4:.2g}")), x=2 + (ends - 2) / 2, y=y + 25, class_="mark mid"))
    shapes.append(tag("text", compact(float(f"{largest:.3g}")), x=ends, y=y + 25, class_="mark end"))
    if hatched:
        x = ends + 22
        shapes.append(swatch(x, y, wide - 1, 11.0, 0.0))
        shapes.append(shape("path", d=_hatch(x, y, wide - 1, 11.0), class_="hatch"))
        shapes.append(tag("text", "interval reaches zero", x=x + wide + 5, y=y + 10, class_="mark"))
    return join(*shapes)
