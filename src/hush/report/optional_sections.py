"""Sections that only some releases have: drawn rows, means, and the buckets of a histogram.

Each function returns None where the release has nothing to show.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from hush.core.errors import HushError
from hush.release.answer_columns import GroupColumn
from hush.render.charts import Axis, horizontal_grid, picture
from hush.render.html_page import page_table
from hush.render.labels import compact, named, readable, rounded, table_name
from hush.render.markup import Markup, lines, shape, tag
from hush.render.text_table import counted
from hush.report.count_charts import STANDING_HEIGHT
from hush.report.level_groups import level_label
from hush.schema import Boolean, Column
from hush.schema.column import MISSING_LABEL, Value

if TYPE_CHECKING:
    from hush.core.arrays import Floats
    from hush.histograms.axis_grid import AxisGrid
    from hush.release.answers import Answers
    from hush.release.release import Release
    from hush.workloads.sum_term import SumTerm

SAMPLE_ROWS = 8
SAMPLE_SEED = 0  # of the draw, not of the noise: the same release gives the same page
MOST_SAMPLE_COLUMNS = 40
MOST_GROUPS = 24  # of a mean
BUCKETS_WIDTH = 900.0
MOST_LISTED_BUCKETS = 200


def sample_section(release: Release) -> Markup | None:
    """Some rows of a synthetic release as they look in a file; None without a model, or with one too large."""
    if not release.bounded:
        return None
    try:
        rows = release.synthesize(SAMPLE_ROWS, method="sampling", seed=SAMPLE_SEED)
    except HushError:
        return None
    declared = {column.source: column for column in reversed(release.schema.columns)}
    columns = [declared[name] for name in rows.column_names[:MOST_SAMPLE_COLUMNS]]
    values = [rows.column(column.source).to_pylist() for column in columns]
    cells = [
        [named(value_text(column, entry), 60) for column, entry in zip(columns, row, strict=True)]
        for row in zip(*values, strict=True)
    ]
    left_out = len(declared) - len(columns)
    caption = f"The first {MOST_SAMPLE_COLUMNS} of {len(declared):,} columns." if left_out else ""
    return lines(
        tag("h2", "Some of its rows", id="rows"),
        tag(
            "p",
            "These rows are made up. Each looks like a record but copies none: they were drawn from a model that was "
            "fitted to noisy counts. You can draw as many as you need, at no further cost to privacy.",
        ),
        page_table([named(column.source, 60) for column in columns], cells, caption=caption),
    )


def value_text(column: Column, value: Value) -> str:
    """A value of a row as it is called elsewhere on the page.

    >>> value_text(Boolean(name="in"), True), value_text(Boolean(name="in"), None)
    ('True', '(missing)')
    """
    if value is None:
        return MISSING_LABEL
    if isinstance(column, Boolean):
        return column.label(int(bool(value)))
    return compact(value) if isinstance(value, float) else str(value)


def means_section(release: Release) -> Markup | None:
    """Means and sums by the groups that they were measured for; None where none were."""
    sums = release.record.sums
    terms = (
        []
        if sums is None
        else [term for _, term, _ in sums.measured if term.grid.power == 1 and not term.grid.by_level]
    )
    tables = [table for term in terms if (table := _means_table(release, term)) is not None]
    return (
        lines(
            tag("h2", "Means", id="means"),
            tag(
                "p",
                "The values of these columns were added up, not only counted by their bins. The intervals hold with "
                "95 % and allow for all noise. A value outside the bounds of the schema counts as the nearer bound.",
            ),
            *tables,
        )
        if tables
        else None
    )


def _means_table(release: Release, term: SumTerm) -> Markup | None:
    try:
        mean, total = release.mean(term.column, term.clique), release.sum(term.column, term.clique)
    except HushError:
        return None
    shown = min(len(mean), MOST_GROUPS)
    rows = [
        (
            *(
                named(level_label(group.column, int(group.codes[row])), 60)
                for group in mean.groups
                if isinstance(group, GroupColumn)
            ),
            *_estimate_and_interval(mean, row),
            *_estimate_and_interval(total, row),
        )
        for row in range(shown)
    ]
    groups = len(mean.groups)
    heads = (*(named(group.name, 60) for group in mean.groups), "mean", "95 % interval", "sum", "95 % interval")
    caption = f"The first {MOST_GROUPS} of {counted(len(mean), 'group')}." if len(mean) > shown else ""
    by = ["of ", named(term.column, 60), *([" by ", table_name(term.clique)] if term.clique else [])]
    return lines(tag("h3", "Mean ", *by), page_table(heads, rows, numbers=range(groups, groups + 4), caption=caption))


def _estimate_and_interval(answers: Answers, row: int) -> tuple[str, str]:
    """An estimate and its interval, with the digits that its error supports."""
    quantity = answers.quantities[0]
    lower, upper = (float(ends[row]) for ends in answers.interval(quantity))
    error = float(quantity.std_error[row])
    if not math.isfinite(error):
        error = (upper - lower) / 4 if math.isfinite(upper - lower) else math.nan
    interval = f"{rounded(lower, error)} to {rounded(upper, error)}" if math.isfinite(lower) else "not known"
    return rounded(float(quantity.estimate[row]), error), interval


def buckets_section(release: Release, number: int) -> Markup | None:
    """The buckets of each gridded column as a histogram; None for other releases. `number` is that of the picture."""
    buckets = release.record.buckets
    if not buckets:
        return None
    figures = [_buckets_figure(release, name, grid, number + axis) for axis, (name, grid) in enumerate(buckets.items())]
    return lines(
        tag("h2", "The histogram and its buckets", id="buckets"),
        tag(
            "p",
            "Levels were counted in buckets, which a few noisy measurements of the table chose. A bar is as wide as "
            "its bucket; its height is the number of rows per level. The release spreads the rows of a bucket evenly "
            "over its levels.",
        ),
        *figures,
    )


def _buckets_figure(release: Release, name: str, grid: AxisGrid, number: int) -> Markup:
    counts = grid.added(release.counts(name), 0)
    title = f"{name}: {counted(grid.buckets, 'bucket')} of {grid.size:,} levels"
    shortest, longest = (f"{int(end):,}" for end in (grid.lengths.min(), grid.lengths.max()))
    sizes = f"The shortest bucket has {shortest}, the longest {longest} levels."
    sizes = "Every level was measured by itself." if grid.whole else sizes
    description = f"{title}. {sizes} The table below has the same numbers."
    drawn = picture(
        title,
        description,
        number,
        STANDING_HEIGHT,
        *_bucket_bars(release.schema[name], grid, counts),
        wide=BUCKETS_WIDTH,
    )
    numbers = tag("details", tag("summary", "The numbers"), _bucket_table(release.schema[name], grid, counts))
    bias = " Every level was measured by itself, so nothing is taken as evenly spread."
    if not all(buckets.whole for buckets in release.record.buckets.values()):
        words = release.record.bias_words
        bias = f" Standard errors and intervals do not cover the error of spreading rows evenly. {words}"
    caption = tag("figcaption", sizes, bias)
    return tag("figure", tag("h3", named(name, 60)), tag("div", drawn, class_="scroll"), caption, numbers)


def _bucket_bars(column: Column, grid: AxisGrid, counts: Floats) -> list[Markup]:
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


def _bucket_table(column: Column, grid: AxisGrid, counts: Floats) -> Markup:
    """The buckets with the most rows, in their order."""
    rows = []
    for index in np.sort(np.argsort(-counts, kind="stable")[:MOST_LISTED_BUCKETS]).tolist():
        first, last = (level_label(column, int(level)) for level in (grid.cuts[index], grid.cuts[index + 1] - 1))
        levels = int(grid.lengths[index])
        label = first if levels == 1 else f"{first} to {last}"
        rows.append((named(label, 60), f"{levels:,}", f"{float(counts[index]):,.0f}"))
    many = grid.buckets > MOST_LISTED_BUCKETS
    caption = f"The {MOST_LISTED_BUCKETS} with the most rows of {counted(grid.buckets, 'bucket')}." if many else ""
    return page_table(("bucket", "levels", "rows"), rows, numbers=(1, 2), caption=caption)
