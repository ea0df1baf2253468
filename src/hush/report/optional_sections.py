"""Sections that only some releases have: drawn rows, means, the buckets of a histogram, and, of adaptive releases,
bounds on the error of the model and what each round measured.

Each function returns None if the release has nothing to show.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from hush.core.errors import HushError, WorkloadError
from hush.core.memory import readable as size_text
from hush.mechanisms.registry import mechanism_class
from hush.privacy.budget import Budget
from hush.release.answers import GroupColumn
from hush.render.charts import Axis, horizontal_grid, picture
from hush.render.html_page import page_table
from hush.render.labels import compact, error_text, named, order_name, readable, rounded, table_name
from hush.render.markup import Markup, lines, shape, tag
from hush.render.text_table import counted
from hush.report.count_charts import STANDING_HEIGHT
from hush.report.level_groups import CONFIDENCE_LEVEL, level_label
from hush.schema import Boolean, Column
from hush.schema.column import MISSING_LABEL, Value
from hush.strategies.rare_levels import MergedQuery

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
MOST_TABLES = 200
MOST_ROUNDS = 400
UNFOLDED_ROUNDS = 24  # more rounds are folded away
BOUND_KINDS = {
    "supported": "supported: measured, or part of a measured table",
    "surveyed": "surveyed: the noisy distance from an earlier model is known",
    "unsupported": "unsupported: could have been measured and was not chosen",
    "none": "no bound below 200 % is known",
}


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


def discovery_section(release: Release) -> Markup | None:
    """What was found in the rows about the schema, and what that cost; None if the schema was written by hand."""
    schema = release.schema
    run = schema.discovery
    if run is None:
        return None
    declared = {column.source: column if column.part is None else column.part.stamp for column in schema}
    found = [(named(name, 60), column.discovered) for name, column in declared.items() if column.discovered is not None]
    if run.max_rows is not None:
        found.append((named("rows per unit"), run.max_rows))
    limit = float(Budget.from_dict(dict(run.budget)).limit)
    cells = [[name, readable(one.note, 600), f"{one.cost / limit:.0%}", f"{one.failure:.1%}"] for name, one in found]
    budget = Budget.from_dict(dict(run.budget))
    return lines(
        tag("h2", "What was discovered", id="discovered"),
        tag(
            "p",
            "Bounds, bins or levels of these columns were not known beforehand. hush found them in the rows, with "
            f"noise, for a budget of {budget}, spent in addition to the budget of the release. The rest of the schema "
            "is public knowledge. A statement about rows outside is wrong with at most the given chance.",
        ),
        page_table(
            [named("Column"), named("What was found"), named("Share of that budget"), named("Chance of being wrong")],
            cells,
        ),
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


def bounds_section(release: Release) -> Markup:
    """Bounds of all tables measured, scored or asked for: by number of columns and kind, then table by table."""
    requested = (release.domain.clique(clique) for clique in release.workload.cliques if clique)
    cliques = sorted(dict.fromkeys([*release.bounds.cliques, *requested]), key=len)
    single, together = (
        release.bounds.all(cliques, level=CONFIDENCE_LEVEL, simultaneous=both) for both in (False, True)
    )
    pairs = list(zip(single, together, strict=True))
    # One row for each number of columns and kind of bound, then one for each table.
    heads = ("tables over", "known from", "tables", "middle error", "largest error", "largest, all together")
    rows = []
    groups = {(len(bound.clique), bound.kind) for bound in single}
    for order, kind in sorted(groups, key=lambda group: (group[0], list(BOUND_KINDS).index(group[1]))):
        group = [pair for pair in pairs if (len(pair[0].clique), pair[0].kind) == (order, kind)]
        shares = sorted(bound.share for bound, _ in group)
        numbers = ("", "", "")
        if kind != "none":
            joint = [both.share for _, both in group]
            largest = math.nan if any(map(math.isnan, joint)) else max(joint)
            numbers = (share_text(shares[len(shares) // 2]), share_text(shares[-1]), share_text(largest))
        rows.append((order_name(order), BOUND_KINDS[kind], f"{len(group):,}", *numbers))
    listed = [
        (
            table_name(bound.clique),
            BOUND_KINDS[bound.kind].partition(":")[0],
            share_text(bound.share),
            share_text(joint.share),
        )
        for bound, joint in pairs[:MOST_TABLES]
    ]
    caption = f"The first {MOST_TABLES} of {len(pairs):,} tables." if len(pairs) > MOST_TABLES else ""
    list_heads = ("table", "known from", "error at most", "all together")
    return lines(
        tag("h3", "How far off it can be", id="bounds"),
        tag(
            "p",
            "This release chose what to measure while measuring, so its errors were not known beforehand. They can be "
            "bounded now, at no cost to privacy. The error of a table is the sum, over its cells, of the distance "
            "between the count in the model and the true count, here as a share of the rows. Each bound holds with "
            "95 %; those in the last column hold with 95 % all together. Tables without a common cell are 200 % apart, "
            "so a bound of 200 % or more is shown as not known. The bounds treat the measured tables as if they had "
            "been named beforehand, and their noise as nearly Gaussian. That is not proven, but in simulations the "
            "bounds failed less often than they say.",
        ),
        page_table(heads, rows, numbers=(2, 3, 4, 5)),
        tag(
            "p",
            "A supported table was measured, by itself or inside a larger one, and its noisy values say how far the "
            "model can be off. An unsupported one could have been measured and was not chosen; had the model been far "
            "off there, it would probably have been chosen. Such bounds are wide, and the truth is often much closer.",
        ),
        tag(
            "details",
            tag("summary", f"The bounds of {counted(len(listed), 'table')}"),
            page_table(list_heads, listed, numbers=(2, 3), caption=caption),
        ),
    )


def share_text(share: float) -> str:
    """A bound as a percentage of the rows, rounded up.

    >>> share_text(0.01234), share_text(0.5), share_text(float("nan"))
    ('1.3 %', '50.0 %', 'not known')
    """
    return "not known" if math.isnan(share) else f"{math.ceil(1000 * share - 1e-9) / 10:.1f} %"


def rounds_section(release: Release) -> Markup:
    """What was measured before and in the rounds; all tables of mechanisms without such rounds."""
    try:
        played = bool(release.rounds) and mechanism_class(release.mechanism).refits
    except WorkloadError:  # the mechanism is not installed here, so nothing is claimed of it
        played = False
    tables = release.noisy_tables
    first = tables[: max(len(tables) - len(release.rounds), 0)] if played else tables
    if played:
        intro = (
            f"This release chose what to measure as it went along. It began with {counted(len(first), 'noisy table')}. "
            "Every round then chose one more table at random, preferring tables that the model got wrong so far, "
            "measured it with noise, and fitted the model to all noisy tables again. One budget paid for choices and "
            "noise."
        )
    else:
        orders = sorted(Counter(len(noisy.clique) for noisy in tables).items())
        texts = [f"{counted(orders[0][1], 'table')} over {order_name(orders[0][0])}"]
        texts += [f"{number:,} over {order_name(order)}" for order, number in orders[1:]]
        intro = f"This release measured {' and '.join(texts)} with noise and fitted one model to all of them."
        if release.rounds:
            intro += " It chose the tables below at random, guided by the data. One budget paid for choices and noise."
    heads = ("table", "cells", "standard deviation of the noise")
    rows = [
        (
            Markup(table_name(noisy.clique) + " with merged levels" * isinstance(noisy.asked, MergedQuery)),
            f"{noisy.values.size:,}",
            error_text(noisy.stddev),
        )
        for noisy in first[:MOST_ROUNDS]
    ]
    caption = f"The first {MOST_ROUNDS} of {counted(len(first), 'table')}." if len(first) > MOST_ROUNDS else ""
    began = page_table(heads, rows, numbers=(1, 2), caption=caption)
    title = f"The {counted(len(first), 'table')} measured{' first' if played else ''}"
    return lines(
        tag("h3", "How it was made", id="made"),
        tag("p", intro),
        tag("p", "After a round that changed the model by less than its noise, rounds have less noise and cost more.")
        if any(round.annealed for round in release.rounds)
        else None,
        _rounds(release) if release.rounds else None,
        tag("details", tag("summary", title), began) if release.rounds or len(first) > UNFOLDED_ROUNDS else began,
    )


def _rounds(release: Release) -> Markup:
    annealed = any(round.annealed for round in release.rounds)
    heads = ["round", "chosen", "candidates", "standard deviation of the noise", "model"]
    heads += ["next rounds cost more"] if annealed else []
    rows = [
        (
            f"{number:,}",
            table_name(round.clique),
            f"{round.candidates:,}",
            error_text(round.stddev) if round.stddev else "not measured",
            size_text(1e6 * round.size_mb) if round.size_mb else "",
            *(["yes" if round.annealed else ""] if annealed else []),
        )
        for number, round in enumerate(release.rounds[:MOST_ROUNDS], start=1)
    ]
    left_out = len(release.rounds) > MOST_ROUNDS
    caption = f"The first {MOST_ROUNDS} of {len(release.rounds):,} rounds." if left_out else ""
    inner = page_table(heads, rows, numbers=(2, 3, 4), caption=caption)
    if len(release.rounds) <= UNFOLDED_ROUNDS:
        return inner
    return tag("details", tag("summary", f"The {counted(len(release.rounds), 'round')}"), inner)
