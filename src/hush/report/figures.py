"""The figures of a report: which tables are worth a picture, and each with a caption and its numbers.

A table is compared with one that says nothing: a flat one-way table, or a two-way table of independent columns. The
departure is the root mean square of the differences in units of the cells' standard errors, per degree of freedom;
noise alone gives about 1.

Privacy: post-processing of released values.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy

from hush.core.arrays import Floats
from hush.core.domain import Clique
from hush.inference.estimates import BoundedEstimates, Estimates
from hush.render.html_page import page_table
from hush.render.labels import error_text, interval_text, named, readable, rounded
from hush.render.markup import Markup, join, lines, tag
from hush.render.text_table import counted
from hush.report.count_charts import bar_chart, chart_height, heat_map, stands
from hush.report.level_groups import GroupedCounts, LevelGroups, cell_errors, group_levels, grouped

if TYPE_CHECKING:
    from hush.release.release import Release

LARGEST_PAIR, LARGEST_COLUMN = 50_000, 200_000  # cells of tables that are ranked
MOST_RANKED_COLUMNS = 500
MOST_PAIRED = 24  # the most telling columns, whose pairs are ranked
CHANCE_LEVEL = 1e-5  # since some hundred pairs are compared
MOST_CHARTS = 7
MOST_FOLDED = 500
MOST_ABSENT = 100
MOST_MAPS = 4
MOST_BARS, MOST_NAMES = 60, 15  # bars of numbers and of names, in a chart in sight
FOLDED_BARS, FOLDED_NAMES = 24, 12  # the same in a folded chart
MAP_SIDE = 20  # rows or columns of a heat map
NOT_DRAWN = "(no table of the release has them, or they have one level or very many)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """A table and how far it departs from saying nothing."""

    clique: Clique
    departure: float
    freedom: int

    @property
    def visible(self) -> bool:
        """Whether noise alone does not explain the departure.

        For pure noise, departure^2 times the freedom is about a chi-square variate of that freedom.
        """
        return self.departure**2 * self.freedom > float(scipy.special.chdtri(self.freedom, CHANCE_LEVEL))


def rank_columns(estimates: Estimates) -> list[Departure]:
    """The one-way tables, the most telling first; of equals, the first of the domain."""
    names = [(name,) for name in estimates.domain.attributes if _fit(estimates, (name,))]
    ranked = []
    for clique in names[:MOST_RANKED_COLUMNS]:
        counts, errors = estimates.counts(clique), cell_errors(estimates, clique)
        freedom = max(counts.size - 1, 1)
        size = departure(counts, np.full(counts.shape, counts.mean()), errors, freedom)
        ranked.append(Departure(clique=clique, departure=size, freedom=freedom))
    return sorted(ranked, key=lambda entry: -entry.departure)  # stable: equals keep the order of the domain


def rank_pairs(estimates: Estimates, columns: Sequence[Departure]) -> list[Departure]:
    """The two-way tables among the most telling columns, the strongest dependence first."""
    chosen = {ranked.clique[0] for ranked in columns[:MOST_PAIRED]}
    names = [name for name in estimates.domain.attributes if name in chosen]
    pairs = [pair for pair in itertools.combinations(names, 2) if _fit(estimates, pair)]
    if isinstance(estimates, BoundedEstimates):  # departures with and without known errors do not compare
        pairs = [pair for pair in pairs if estimates.has_covariance(pair)] or pairs
    return sorted((_pair(estimates, pair) for pair in pairs), key=lambda entry: -entry.departure)


def departure(counts: Floats, expected: Floats, errors: Floats, freedom: int) -> float:
    """sqrt(sum ((count - expected) / error)^2 / freedom).

    An unknown error is replaced by that of a count, the root of the expected one.
    """
    usable = np.isfinite(errors) & (errors > 0)
    units = np.where(usable, errors, np.sqrt(np.maximum(np.abs(expected), 1.0)))
    return float(np.sqrt(np.sum(((counts - expected) / units) ** 2) / freedom))


def _pair(estimates: Estimates, clique: Clique) -> Departure:
    """The difference of a cell from r c / n, the product of its row's and column's totals over the total.

    Its variance is that of the cell plus, by the delta method, (c/n)^2 var(r) + (r/n)^2 var(c) + (r c / n^2)^2 var(n);
    their covariances with the cell would lower it and are left out.
    """
    counts, errors = estimates.counts(clique), cell_errors(estimates, clique)
    row_errors, column_errors = (cell_errors(estimates, (name,)) for name in clique)
    total, total_error = float(counts.sum()), float(cell_errors(estimates, ()))
    freedom = max((counts.shape[0] - 1) * (counts.shape[1] - 1), 1)
    if total <= max(2 * total_error, 0.0):  # nothing to compare with: noise hides even the total
        return Departure(clique=clique, departure=0.0, freedom=freedom)
    rows, columns = (counts.sum(axis=axis, keepdims=True) / total for axis in (1, 0))
    expected = total * rows * columns
    spread = (columns * row_errors[:, None]) ** 2 + (rows * column_errors) ** 2 + (rows * columns * total_error) ** 2
    size = departure(counts, expected, np.sqrt(errors**2 + spread), freedom)
    return Departure(clique=clique, departure=size, freedom=freedom)


def _fit(estimates: Estimates, clique: Clique) -> bool:
    largest = LARGEST_COLUMN if len(clique) == 1 else LARGEST_PAIR
    return estimates.covers(clique) and 1 < estimates.domain.size(clique) <= largest


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """The counts of a picture and the rank of their table."""

    sums: GroupedCounts
    ranked: Departure

    @property
    def known(self) -> bool:
        """Whether every number has a standard error."""
        return bool(np.isfinite(self.sums.std_error).all())


def bar_figures(release: Release, columns: Sequence[Departure]) -> list[Figure]:
    """The most telling one-way tables: numbers and dates first, then names, in the order of the schema."""
    figures = _bars(release, columns[:MOST_CHARTS], MOST_BARS, MOST_NAMES)
    return sorted(figures, key=lambda figure: chart_height(figure.sums), reverse=True)  # similar heights side by side


def folded_figures(release: Release, columns: Sequence[Departure]) -> list[Figure]:
    """The other one-way tables, in the order of the schema."""
    return _bars(release, columns[MOST_CHARTS : MOST_CHARTS + MOST_FOLDED], FOLDED_BARS, FOLDED_NAMES)


def _bars(release: Release, columns: Sequence[Departure], most: int, most_names: int) -> list[Figure]:
    """Bar charts of some columns, in the order of the schema."""
    chosen = {ranked.clique[0]: ranked for ranked in columns}
    figures = []
    for name in release.domain:
        if name in chosen:
            grouping = _grouping(release, name, most, most_names)
            figures.append(Figure(sums=grouped(release.estimates, (grouping,)), ranked=chosen[name]))
    return figures


def map_figures(release: Release, pairs: Sequence[Departure]) -> list[Figure]:
    """The two-way tables that depart most from independence; at least one, if there is any."""
    chosen = [ranked for ranked in pairs[:MOST_MAPS] if ranked.visible] or list(pairs[:1])
    figures = []
    for ranked in chosen:
        sides = [_grouping(release, name, MAP_SIDE, MAP_SIDE) for name in ranked.clique]
        rows, columns = sorted(sides, key=len)
        figures.append(Figure(sums=grouped(release.estimates, (rows, columns)), ranked=ranked))
    return figures


def bars_section(release: Release, figures: Sequence[Figure], folded: Sequence[Figure], first: int) -> Markup:
    """One-way tables as bar charts: some in sight, the others folded."""
    known = all(figure.known for figure in (*figures, *folded))
    charts = [_bar_figure(figure, number) for number, figure in enumerate(figures, start=first)]
    more = []
    for number, figure in enumerate(folded, start=first + len(figures)):
        name = tag("summary", named(figure.sums.names[0], 60))
        more.append(tag("details", name, _bar_figure(figure, number), class_="column"))
    shown = {figure.sums.names[0] for figure in (*figures, *folded)}
    absent = [named(name, 60) for name in release.domain if name not in shown]
    if len(absent) > MOST_ABSENT:
        absent[MOST_ABSENT:] = [join(f"and {len(absent) - MOST_ABSENT:,} more")]
    return lines(
        tag("h2", "One column at a time", id="columns"),
        tag(
            "p",
            "Each bar is an estimated count. The line across its end is its 95 % interval: the true count is within it "
            "in 19 of 20 cases. Noise is as likely to add as to take away, so small counts may come out negative. Such "
            "bars are drawn below zero, in another colour. Cutting them off would make every sum of small counts too "
            "large."
            if known
            else "Each bar is an estimated count. The estimates come from a fitted model, for which no exact error is "
            "known, so bars have intervals only where one is known.",
        ),
        tag("div", *charts, class_="figures") if charts else tag("p", "The release has no one-way table to draw."),
        tag("h3", f"{counted(len(more), 'more column')}") if more else None,
        tag("p", "The charts above say most; click a name to open its chart.", class_="soft on-screen")
        if more
        else None,
        tag("p", "Their charts are folded on the page and not printed.", class_="soft on-paper") if more else None,
        *more,
        tag("p", f"Not drawn {NOT_DRAWN}: ", Markup(", ".join(absent)), ".", class_="soft")
        if absent and charts
        else None,
    )


def maps_section(figures: Sequence[Figure], first: int, columns: int) -> Markup:
    """Two-way tables as heat maps, of a release with so many columns drawn one by one."""
    charts = [_map_figure(figure, number) for number, figure in enumerate(figures, start=first)]
    return lines(
        tag("h2", "Two columns at a time", id="pairs"),
        tag(
            "p",
            "The pairs of columns with the strongest association, among the released tables. The shade of a cell goes "
            "with the square root of its count. In a hatched cell the 95 % interval reaches zero: noise alone may "
            "explain it.",
            f" Only pairs of the {MOST_PAIRED} columns that stand out most from the noise were compared."
            if columns > MOST_PAIRED
            else None,
        )
        if charts
        else tag("p", "The release has no two-way table to draw."),
        tag("div", *charts, class_="figures") if charts else None,
    )


def _grouping(release: Release, name: str, most: int, most_names: int) -> LevelGroups:
    column = release.schema[name]
    ordered = column.kind in {"integer", "numeric", "date"}
    return group_levels(column, release.counts((name,)), most if ordered else most_names)


def _bar_figure(figure: Figure, number: int) -> Markup:
    sums = figure.sums
    below = int(np.sum(sums.estimate < 0))
    remarks = [errors_of(sums)]
    grouping = sums.groupings[0]
    remarks += [note for note in (grouping.note, grouping.bar_note if stands(sums) else None) if note]
    if below:
        remarks.append(f"{counted(below, 'estimate')} below zero")
    return tag(
        "figure",
        tag("h3", named(sums.names[0], 60)),
        bar_chart(sums, number),
        tag("figcaption", _sentence(remarks)),
        numbers_of(sums),
    )


def _map_figure(figure: Figure, number: int) -> Markup:
    sums, ranked = figure.sums, figure.ranked
    size = f"{ranked.departure:.1f}" if ranked.departure < 10 else f"{ranked.departure:,.0f}"
    remarks = [
        f"the association is {size} times the noise" if ranked.visible else "noise alone may explain the association"
    ]
    remarks = [*(remarks if figure.known else []), errors_of(sums)]
    remarks += [f"of {readable(side.column.name, 60)}, {side.note}" for side in sums.groupings if side.note]
    title = join(named(sums.names[0], 45), " by ", named(sums.names[1], 45))
    return tag(
        "figure", tag("h3", title), heat_map(sums, number), tag("figcaption", _sentence(remarks)), numbers_of(sums)
    )


def _sentence(remarks: Sequence[str]) -> str:
    """Remarks as sentences."""
    return " ".join(f"{remark[:1].upper()}{remark[1:]}." for remark in remarks)


def numbers_of(sums: GroupedCounts) -> Markup:
    """The numbers of a picture, folded away."""
    names, groups = [named(name) for name in sums.names], sums.groupings
    if sums.estimate.ndim == 1:
        rows = [
            (
                named(label),
                rounded(sums.estimate[i], sums.std_error[i]),
                error_text(sums.std_error[i]),
                interval_text(sums.lower[i], sums.upper[i], sums.std_error[i]),
            )
            for i, label in enumerate(groups[0].labels)
        ]
        table = page_table((*names, "estimate", "standard error", "95 % interval"), rows, numbers=(1, 2, 3))
    else:
        heads = (join(names[0], " \\ ", names[1]), *(named(label) for label in groups[1].labels))
        cells = [
            (named(label), *(rounded(value, error) for value, error in zip(*pair, strict=True)))
            for label, *pair in zip(groups[0].labels, sums.estimate, sums.std_error, strict=True)
        ]
        table = page_table(heads, cells, numbers=range(1, len(heads)), caption=f"Estimates; {errors_of(sums)}.")
    return tag("details", tag("summary", "The numbers"), table)


def errors_of(sums: GroupedCounts) -> str:
    """The margins of a picture in a few words."""
    margins = sums.margin[np.isfinite(sums.margin)]
    if not margins.size:
        return "no error is known"
    low, high = (error_text(float(end)) for end in (margins.min(), margins.max()))
    return (
        f"within ± {high} of the truth in 19 of 20 cases" if low == high else f"within ± {low} to {high} of the truth"
    )


def figure_of(release: Release, clique: Clique, number: int) -> Markup | None:
    """The picture of one table of one or two columns; None if it cannot be drawn. `number` tells pictures apart."""
    if len(clique) not in (1, 2) or not all(_fit(release.estimates, (name,)) for name in clique):
        return None
    if not _fit(release.estimates, clique):
        return None
    if len(clique) == 1:
        sums = grouped(release.estimates, (_grouping(release, clique[0], MOST_BARS, MOST_NAMES),))
        return _bar_figure(Figure(sums=sums, ranked=Departure(clique=clique, departure=0.0, freedom=1)), number)
    sides = sorted((_grouping(release, name, MAP_SIDE, MAP_SIDE) for name in clique), key=len)
    pair = _pair(release.estimates, release.domain.clique(clique))
    return _map_figure(Figure(sums=grouped(release.estimates, (sides[0], sides[1])), ranked=pair), number)
