"""The section on a histogram: its buckets as they were chosen, and what is known of their error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hush.render.charts import Axis, horizontal_grid, picture
from hush.render.html_page import page_table
from hush.render.labels import named, readable
from hush.render.markup import Markup, lines, shape, tag
from hush.render.text_table import counted
from hush.report.bar_charts import STANDING_HEIGHT
from hush.report.level_groups import level_label

if TYPE_CHECKING:
    from hush.core.arrays import Floats
    from hush.histograms.axis_grid import AxisGrid
    from hush.release.release import Release
    from hush.schema import Column

BUCKETS_WIDTH = 900.0
MOST_LISTED = 200
INTRO = (
    "Levels were counted in buckets, which were chosen from a few noisy measurements of the table. A bar is as wide as "
    "its bucket; its height is the number of rows per level. The release spreads the rows of a bucket evenly over its "
    "levels."
)


def buckets_section(release: Release, number: int) -> Markup | None:
    """The buckets of each gridded column as a histogram; None for other releases. `number` is that of the picture."""
    buckets = release.record.buckets
    if not buckets:
        return None
    figures = [_figure(release, name, grid, number + axis) for axis, (name, grid) in enumerate(buckets.items())]
    return lines(tag("h2", "The histogram and its buckets", id="buckets"), tag("p", INTRO), *figures)


def _figure(release: Release, name: str, grid: AxisGrid, number: int) -> Markup:
    counts = grid.added(release.counts(name), 0)
    title = f"{name}: {counted(grid.buckets, 'bucket')} of {grid.size:,} levels"
    shortest, longest = (f"{int(end):,}" for end in (grid.lengths.min(), grid.lengths.max()))
    sizes = f"The shortest bucket has {shortest}, the longest {longest} levels."
    sizes = "Every level was measured by itself." if grid.whole else sizes
    description = f"{title}. {sizes} The table below has the same numbers."
    drawn = picture(
        title, description, number, STANDING_HEIGHT, *_bars(release.schema[name], grid, counts), wide=BUCKETS_WIDTH
    )
    numbers = tag("details", tag("summary", "The numbers"), _listed(release.schema[name], grid, counts))
    bias = " Every level was measured by itself, so nothing is taken as evenly spread."
    if not all(buckets.whole for buckets in release.record.buckets.values()):
        words = release.record.bias_words
        bias = f" Standard errors and intervals do not cover the error of spreading rows evenly. {words}"
    caption = tag("figcaption", sizes, bias)
    return tag("figure", tag("h3", named(name, 60)), tag("div", drawn, class_="scroll"), caption, numbers)


def _bars(column: Column, grid: AxisGrid, counts: Floats) -> list[Markup]:
    """The axis, a bar for each bucket, and the names of some levels."""
    heights = counts / grid.lengths
    scale = Axis.linear(
        min(float(heights.min()), 0.0), float(heights.max()), start=STANDING_HEIGHT - 26, stop=8.0, marks=5
    )
    left = scale.label_width + 8
    step = (BUCKETS_WIDTH - left) / grid.size
    drawn = [horizontal_grid(scale, left, BUCKETS_WIDTH)]
    for start, length, height in zip(grid.cuts[:-1].tolist(), grid.lengths.tolist(), heights.tolist(), strict=True):
        top, bottom = sorted((scale(0.0), scale(height)))
        wide = max(length * step - (0.6 if length * step > 3 else 0.0), 0.4)
        drawn.append(shape("rect", x=left + start * step, y=top, width=wide, height=bottom - top, class_="bar"))
    for place in sorted({grid.size * k // 6 for k in range(1, 6)}):
        label = readable(level_label(column, place), 12)
        drawn.append(tag("text", label, x=left + place * step, y=STANDING_HEIGHT - 8, class_="mark mid"))
    return drawn


def _listed(column: Column, grid: AxisGrid, counts: Floats) -> Markup:
    """The buckets with the most rows, in their order."""
    rows = []
    for index in np.sort(np.argsort(-counts, kind="stable")[:MOST_LISTED]).tolist():
        first, last = (level_label(column, int(level)) for level in (grid.cuts[index], grid.cuts[index + 1] - 1))
        levels = int(grid.lengths[index])
        label = first if levels == 1 else f"{first} to {last}"
        rows.append((named(label, 60), f"{levels:,}", f"{float(counts[index]):,.0f}"))
    many = grid.buckets > MOST_LISTED
    caption = f"The {MOST_LISTED} with the most rows of {counted(grid.buckets, 'bucket')}." if many else ""
    return page_table(("bucket", "levels", "rows"), rows, numbers=(1, 2), caption=caption)
