"""Heat map: a two-way table as shaded cells, with those that noise could explain hatched."""

from __future__ import annotations

import math

import numpy as np

from hush.markup import Markup, join, shape, tag
from hush.report.charts import SMALL, WIDE, picture, tip
from hush.report.labels import compact, readable, rounded, width
from hush.report.level_groups import GroupedCounts, LevelGroups

ROW_LABEL = 16
COLUMN_LABEL = 12
WRITTEN = 64  # cells, at most, whose numbers are written into them
TURNS = 0.68  # the shade at which white and black text are equally easy to read, in both colour schemes
SHADES = 6
WIDEST = 72.0
HATCH = 6.0


def heat_map(sums: GroupedCounts, number: int) -> Markup:
    """A two-way table, rows down and columns across; `number` tells the charts of a page apart.

    The shade goes with the square root of the count, so that small cells can be told apart beside large ones.
    """
    rows, columns = sums.groupings
    row_labels = [_row_label(rows, place) for place in range(len(rows))]
    column_labels = [readable(tick, COLUMN_LABEL) for tick in columns.ticks]
    left = max(width(label, SMALL) for label in row_labels) + 8
    longest = max(width(label, SMALL) for label in column_labels)
    wide = min((WIDE - left) / len(columns), WIDEST)
    upright = longest + 2 <= wide
    if not upright:
        wide = min((WIDE - left - 0.5 * width(column_labels[-1], SMALL)) / len(columns), WIDEST)
    tall = min(max(wide, 16.0), 26.0)
    top = 18.0 if upright else 12 + 0.75 * longest
    largest = max(float(np.nanmax(sums.estimate)), 0.0)
    written = sums.estimate.size <= WRITTEN and wide >= max(_number_width(sums), 20)
    parts, texts, hatched = [], [], []
    for i in range(len(rows)):
        y = top + tall * i
        parts.append(tag("text", row_labels[i], x=left - 6, y=y + tall / 2 + 4, class_="mark end"))
        for j in range(len(columns)):
            x = left + wide * j
            shade = _shade(float(sums.estimate[i, j]), largest)
            cell = _swatch(x, y, wide - 1, tall - 1, shade)
            parts.append(tag("g", tag("title", tip(sums, i, j)), cell))
            if sums.doubtful[i, j]:
                hatched.append(_hatch(x, y, wide - 1, tall - 1))
            if written:
                kind = "mid deep" if shade > TURNS else "mid pale"
                texts.append(tag("text", _short(sums, i, j), x=x + (wide - 1) / 2, y=y + tall / 2 + 3.5, class_=kind))
    for j, label in enumerate(column_labels):
        begins = columns.edges and j < columns.ordinary
        x = left + wide * (j + (0.0 if begins else 0.5))
        parts.append(_column_label(label, x, top - 5, upright=upright))
    if hatched:
        parts.append(shape("path", d="".join(hatched), class_="hatch"))
    parts += texts
    bottom = top + tall * len(rows)
    parts.append(_legend(largest, bottom + 10, bool(hatched)))
    return picture(_title(sums), _described(sums), number, bottom + 48, *parts)


def _row_label(rows: LevelGroups, place: int) -> str:
    """The label of a row; of a long span only where it begins."""
    label = readable(rows.labels[place], ROW_LABEL)
    if label.endswith("…") and rows.edges and place < rows.ordinary:
        return readable(f"{rows.ticks[place]} …", ROW_LABEL)
    return label


def _shade(value: float, largest: float) -> float:
    return math.sqrt(value / largest) if value > 0 and largest > 0 else 0.0


def _swatch(x: float, y: float, wide: float, tall: float, shade: float) -> Markup:
    return shape("rect", x=x, y=y, width=wide, height=tall, class_="cell", fill_opacity=f"{max(shade, 0.02):.2f}")


def _short(sums: GroupedCounts, i: int, j: int) -> str:
    value = float(sums.estimate[i, j])
    return compact(round(value / 1e5) * 1e5) if abs(value) >= 1e6 else rounded(value, max(sums.std_error[i, j], 2.0))


def _number_width(sums: GroupedCounts) -> float:
    rows, columns = sums.estimate.shape
    return max(width(_short(sums, i, j), SMALL) for i in range(rows) for j in range(columns)) + 4


def _column_label(text: str, x: float, y: float, *, upright: bool) -> Markup:
    if upright:
        return tag("text", text, x=x, y=y, class_="mark mid")
    return tag("text", text, x=x, y=y, class_="mark", transform=f"rotate(-48 {x:.1f} {y:.1f})")


def _hatch(x: float, y: float, wide: float, tall: float) -> str:
    """Diagonal strokes within a cell, as commands of a path."""
    strokes = []
    offset = HATCH / 2
    while offset < wide + tall:
        x0, y0 = (x + offset, y) if offset <= wide else (x + wide, y + offset - wide)
        x1, y1 = (x, y + offset) if offset <= tall else (x + offset - tall, y + tall)
        strokes.append(f"M{x0:.0f} {y0:.0f}L{x1:.0f} {y1:.0f}")
        offset += HATCH
    return "".join(strokes)


def _legend(largest: float, y: float, hatched: bool) -> Markup:
    """Swatches from none to the largest count, and one that says what hatching means."""
    wide, parts = 26.0, []
    for place in range(SHADES):
        shade = place / (SHADES - 1)
        x = 2 + wide * place
        parts.append(_swatch(x, y, wide - 1, 11.0, shade))
    ends = 2 + wide * SHADES
    parts.append(tag("text", "0", x=2.0, y=y + 25, class_="mark"))
    parts.append(tag("text", compact(float(f"{largest / 4:.2g}")), x=2 + (ends - 2) / 2, y=y + 25, class_="mark mid"))
    parts.append(tag("text", compact(float(f"{largest:.3g}")), x=ends, y=y + 25, class_="mark end"))
    if hatched:
        x = ends + 22
        parts.append(_swatch(x, y, wide - 1, 11.0, 0.0))
        parts.append(shape("path", d=_hatch(x, y, wide - 1, 11.0), class_="hatch"))
        parts.append(tag("text", "interval reaches zero", x=x + wide + 5, y=y + 10, class_="mark"))
    return join(*parts)


def _title(sums: GroupedCounts) -> str:
    first, second = (readable(name, 60) for name in sums.names)
    return f"Estimated counts by {first} (down) and {second} (across)"


def _described(sums: GroupedCounts) -> str:
    rows, columns = sums.groupings
    i, j = (int(place) for place in np.unravel_index(int(np.nanargmax(sums.estimate)), sums.estimate.shape))
    hidden = int(sums.doubtful.sum())
    return (
        f"{len(rows)} rows and {len(columns)} columns; the largest cell is {tip(sums, i, j)}. "
        f"{hidden} of {sums.estimate.size} cells are hatched: their interval reaches zero. "
        "The table below has every number."
    )
