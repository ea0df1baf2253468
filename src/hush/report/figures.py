"""The pictures of a report, each with a caption and the numbers behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hush.cell_table import counted
from hush.markup import Markup, join, lines, tag
from hush.report.charts import bar_chart, chart_height
from hush.report.heatmap import heat_map
from hush.report.labels import error_text, interval_text, named, page_table, readable, rounded
from hush.report.level_groups import GroupedCounts, LevelGroups, group_levels, grouped
from hush.report.ranking import Departure

if TYPE_CHECKING:
    from hush.release.release import Release

MOST_CHARTS = 7
MOST_MAPS = 4
MOST_BARS = 60
MOST_NAMES = 15
MAP_SIDE = 20

BARS_INTRO = (
    "Each bar is an estimated count and each whisker its 95 % interval. The estimates are unbiased: noise is as likely "
    "to add as to take away, so small counts may come out negative. Such bars are drawn below zero, in another colour, "
    "and not cut off, because cutting them off would make every sum of small counts too large."
)
MODEL_INTRO = (
    "Each bar is an estimated count. The estimates come from a fitted model, for which no exact standard error is "
    "known, so the bars have no whiskers where none is given."
)
MAPS_INTRO = (
    "The pairs of columns that depart most from independence, among the released tables. The shade of a cell goes with "
    "the square root of its count. A hatched cell is one whose 95 % interval reaches zero: noise alone may explain it."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A picture with the numbers behind it."""

    sums: GroupedCounts
    ranked: Departure

    @property
    def known(self) -> bool:
        """Whether every number has a standard error."""
        return bool(np.isfinite(self.sums.std_error).all())


def bar_figures(release: Release, columns: Sequence[Departure]) -> list[Figure]:
    """The most telling one-way tables: numbers and dates first, then names, in the order of the schema."""
    chosen = {ranked.clique[0]: ranked for ranked in columns[:MOST_CHARTS]}
    figures = []
    for name in (name for name in release.domain if name in chosen):
        grouping = _grouping(release, name, MOST_BARS, MOST_NAMES)
        figures.append(
            Figure(sums=grouped(release.estimates, (grouping,), laplace=release.laplace), ranked=chosen[name])
        )
    return sorted(figures, key=lambda figure: chart_height(figure.sums), reverse=True)  # pairs of like height


def map_figures(release: Release, pairs: Sequence[Departure]) -> list[Figure]:
    """The two-way tables that depart most from independence; one at least, if there is any."""
    chosen = [ranked for ranked in pairs[:MOST_MAPS] if ranked.visible] or list(pairs[:1])
    figures = []
    for ranked in chosen:
        sides = [_grouping(release, name, MAP_SIDE, MAP_SIDE) for name in ranked.clique]
        rows, columns = sorted(sides, key=len)
        figures.append(Figure(sums=grouped(release.estimates, (rows, columns), laplace=release.laplace), ranked=ranked))
    return figures


def bars_section(release: Release, figures: Sequence[Figure], first: int, *, known: bool) -> Markup:
    """One-way tables as bar charts."""
    left_out = len(release.domain) - len(figures)
    more = (
        f"Of {counted(len(release.domain), 'column')}, the {len(figures)} that depart most from a flat table are drawn."
    )
    drawn = [_bar_figure(figure, first + place) for place, figure in enumerate(figures)]
    return lines(
        tag("h2", "One column at a time", id="columns"),
        tag("p", BARS_INTRO if known else MODEL_INTRO),
        tag("p", more, class_="soft") if left_out and figures else None,
        tag("div", *drawn, class_="figures") if drawn else tag("p", "The release has no one-way table to draw."),
    )


def maps_section(figures: Sequence[Figure], first: int) -> Markup:
    """Two-way tables as heat maps."""
    drawn = [_map_figure(figure, first + place) for place, figure in enumerate(figures)]
    return lines(
        tag("h2", "Two columns at a time", id="pairs"),
        tag("p", MAPS_INTRO) if drawn else tag("p", "The release has no two-way table to draw."),
        tag("div", *drawn, class_="figures") if drawn else None,
    )


def _grouping(release: Release, name: str, most: int, most_names: int) -> LevelGroups:
    column = release.schema[name]
    ordered = column.kind in {"integer", "numeric", "date"}
    return group_levels(column, release.counts((name,)), most if ordered else most_names)


def _bar_figure(figure: Figure, number: int) -> Markup:
    sums = figure.sums
    below = int(np.sum(sums.estimate < 0))
    said = [errors_of(sums)]
    if sums.groupings[0].note:
        said.append(sums.groupings[0].note)
    if below:
        said.append(f"{counted(below, 'estimate')} below zero")
    return tag(
        "figure",
        tag("h3", named(sums.names[0], 60)),
        bar_chart(sums, number),
        tag("figcaption", _sentence(said)),
        numbers_of(sums),
    )


def _map_figure(figure: Figure, number: int) -> Markup:
    sums, ranked = figure.sums, figure.ranked
    beside = "; noise alone would give about 1" if ranked.visible else ", no more than noise alone might give"
    said = [f"a typical cell departs from independence by {ranked.departure:.1f} standard errors{beside}"]
    said = [*(said if figure.known else []), errors_of(sums)]
    said += [f"of {readable(side.column.name, 60)}, {side.note}" for side in sums.groupings if side.note]
    title = join(named(sums.names[0], 45), " by ", named(sums.names[1], 45))
    return tag("figure", tag("h3", title), heat_map(sums, number), tag("figcaption", _sentence(said)), numbers_of(sums))


def _sentence(said: Sequence[str]) -> str:
    """Remarks as sentences."""
    return " ".join(f"{remark[:1].upper()}{remark[1:]}." for remark in said)


def numbers_of(sums: GroupedCounts) -> Markup:
    """The numbers of a one- or two-way picture, folded away until asked for."""
    body = _one_way(sums) if sums.estimate.ndim == 1 else _two_way(sums)
    return tag("details", tag("summary", "The numbers"), body)


def _one_way(sums: GroupedCounts) -> Markup:
    rows = [
        (
            named(label),
            rounded(sums.estimate[place], sums.std_error[place]),
            error_text(sums.std_error[place]),
            interval_text(sums.lower[place], sums.upper[place], sums.std_error[place]),
        )
        for place, label in enumerate(sums.groupings[0].labels)
    ]
    return page_table((named(sums.names[0]), "estimate", "standard error", "95 % interval"), rows, numbers=(1, 2, 3))


def _two_way(sums: GroupedCounts) -> Markup:
    first, second = sums.groupings
    heads = (join(named(sums.names[0]), " \\ ", named(sums.names[1])), *(named(label) for label in second.labels))
    rows = [
        (named(label), *(rounded(value, error) for value, error in zip(*pair, strict=True)))
        for label, *pair in zip(first.labels, sums.estimate, sums.std_error, strict=True)
    ]
    return page_table(heads, rows, numbers=range(1, len(heads)), caption=f"Estimates; {errors_of(sums)}.")


def errors_of(sums: GroupedCounts) -> str:
    """The standard errors of a picture in a few words."""
    known = sums.std_error[np.isfinite(sums.std_error)]
    if not known.size:
        return "no standard error is known"
    low, high = float(known.min()), float(known.max())
    if high <= 1.005 * low:
        return f"standard error {error_text(high)}"
    return f"standard errors {error_text(low)} to {error_text(high)}"
