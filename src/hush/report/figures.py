"""The pictures of a report, each with a caption and the numbers behind it; two-way tables are heat maps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hush.render.charts import CHART_WIDTH, TICK_SIZE, picture
from hush.render.html_page import page_table
from hush.render.labels import compact, error_text, interval_text, named, readable, rounded, width
from hush.render.markup import Markup, join, lines, shape, tag
from hush.render.text_table import counted
from hush.report.bar_charts import bar_chart, chart_height, stands, tip
from hush.report.level_groups import GroupedCounts, LevelGroups, group_levels, grouped
from hush.report.ranking import MOST_PAIRED, Departure

if TYPE_CHECKING:
    from hush.release.release import Release

ROW_LABEL = 20
COLUMN_LABEL = 12
WRITTEN = 64  # cells up to which numbers are written into them
TURNS = 0.68  # the shade at which white and black text are equally legible, in both colour schemes
SHADES = 6
WIDEST = 72.0
HATCH = 6.0


def heat_map(sums: GroupedCounts, number: int) -> Markup:
    """A two-way table, rows down and columns across; `number` tells the charts of a page apart.

    The shade follows the square root of the count, so that small cells stay distinct beside large ones.
    """
    rows, columns = sums.groupings
    row_labels = [_row_label(rows, i) for i in range(len(rows))]
    column_labels = [readable(tick, COLUMN_LABEL) for tick in columns.ticks]
    left = max(width(label, TICK_SIZE) for label in row_labels) + 8
    longest = max(width(label, TICK_SIZE) for label in (*column_labels, readable(columns.last or "", COLUMN_LABEL)))
    wide = min((CHART_WIDTH - left) / len(columns), WIDEST)
    upright = longest + 2 <= wide
    if not upright:
        wide = min((CHART_WIDTH - left - 0.5 * width(column_labels[-1], TICK_SIZE)) / len(columns), WIDEST)
    tall = min(max(wide, 16.0), 26.0)
    top = 18.0 if upright else 12 + 0.75 * longest
    largest = max(float(np.nanmax(sums.estimate)), 0.0)
    written = sums.estimate.size <= WRITTEN and wide >= max(_number_width(sums), 20)
    shapes, texts, hatched = [], [], []
    for i in range(len(rows)):
        y = top + tall * i
        shapes.append(tag("text", row_labels[i], x=left - 6, y=y + tall / 2 + 4, class_="mark end"))
        for j in range(len(columns)):
            x = left + wide * j
            shade = _shade(float(sums.estimate[i, j]), largest)
            cell = _swatch(x, y, wide - 1, tall - 1, shade)
            shapes.append(tag("g", tag("title", tip(sums, i, j)), cell))
            if sums.doubtful[i, j]:
                hatched.append(_hatch(x, y, wide - 1, tall - 1))
            if written:
                kind = "mid deep" if shade > TURNS else "mid pale"
                texts.append(tag("text", _short(sums, i, j), x=x + (wide - 1) / 2, y=y + tall / 2 + 3.5, class_=kind))
    for j, label in enumerate(column_labels):
        begins = columns.edges and j < columns.ordinary
        x = left + wide * (j + (0.0 if begins else 0.5))
        if columns.last is not None and j == columns.ordinary:
            x = max(x, left + wide * j + 2 * TICK_SIZE)  # beside the end of the last ordinary group
        shapes.append(_column_label(label, x, top - 5, upright=upright))
    if columns.last is not None:
        end = readable(columns.last, COLUMN_LABEL)
        shapes.append(_column_label(end, left + wide * columns.ordinary, top - 5, upright=upright))
    if hatched:
        shapes.append(shape("path", d="".join(hatched), class_="hatch"))
    shapes += texts
    bottom = top + tall * len(rows)
    shapes.append(_legend(largest, bottom + 10, bool(hatched)))
    return picture(_title(sums), _described(sums), number, bottom + 48, *shapes)


def _row_label(rows: LevelGroups, i: int) -> str:
    """The label of a row; if a span is too long, only its start."""
    label = readable(rows.labels[i], ROW_LABEL)
    if label.endswith("…") and rows.edges and i < rows.ordinary:
        return readable(f"{rows.ticks[i]} …", ROW_LABEL)
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
    return max(width(_short(sums, i, j), TICK_SIZE) for i in range(rows) for j in range(columns)) + 4


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
    """Swatches from zero to the largest count, and one that explains hatching."""
    wide = 26.0
    shapes = [_swatch(2 + wide * k, y, wide - 1, 11.0, k / (SHADES - 1)) for k in range(SHADES)]
    ends = 2 + wide * SHADES
    shapes.append(tag("text", "0", x=2.0, y=y + 25, class_="mark"))
    shapes.append(tag("text", compact(float(f"{largest / 4:.2g}")), x=2 + (ends - 2) / 2, y=y + 25, class_="mark mid"))
    shapes.append(tag("text", compact(float(f"{largest:.3g}")), x=ends, y=y + 25, class_="mark end"))
    if hatched:
        x = ends + 22
        shapes.append(_swatch(x, y, wide - 1, 11.0, 0.0))
        shapes.append(shape("path", d=_hatch(x, y, wide - 1, 11.0), class_="hatch"))
        shapes.append(tag("text", "interval reaches zero", x=x + wide + 5, y=y + 10, class_="mark"))
    return join(*shapes)


def _title(sums: GroupedCounts) -> str:
    first, second = (readable(name, 60) for name in sums.names)
    return f"Estimated counts by {first} (down) and {second} (across)"


def _described(sums: GroupedCounts) -> str:
    rows, columns = sums.groupings
    i, j = (int(index) for index in np.unravel_index(int(np.nanargmax(sums.estimate)), sums.estimate.shape))
    hidden = int(sums.doubtful.sum())
    return (
        f"{len(rows)} rows and {len(columns)} columns; the largest cell is {tip(sums, i, j)}. "
        f"{hidden} of {sums.estimate.size} cells are hatched: their interval reaches zero. "
        "The table below has every number."
    )


MOST_CHARTS = 7
MOST_FOLDED = 500
MOST_ABSENT = 100
MOST_MAPS = 4
MOST_BARS, MOST_NAMES = 60, 15
FOLDED_BARS, FOLDED_NAMES = 24, 12
MAP_SIDE = 20

BARS_INTRO = (
    "Each bar is an estimated count. The line across its end is its 95 % interval: the true count is within it in 19 "
    "of 20 cases. Noise is as likely to add as to take away, so small counts may come out negative. Such bars are "
    "drawn below zero, in another colour, and not cut off, because cutting them off would make every sum of small "
    "counts too large."
)
ABSENT = "Not drawn, because no table of the release has them, or because they have one level or very many: "
MODEL_INTRO = (
    "Each bar is an estimated count. The estimates come from a fitted model, for which no exact error is known, so the "
    "bars have no intervals where none is given."
)
MAPS_INTRO = (
    "The pairs of columns that have most to do with each other, among the released tables. The shade of a cell goes "
    "with the square root of its count. In a hatched cell the 95 % interval reaches zero: noise alone may explain it."
)

OF_SOME = f" Only pairs of the {MOST_PAIRED} columns that stand out most from the noise were compared."


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
    figures = [_bars(release, ranked, MOST_BARS, MOST_NAMES) for ranked in _in_order(release, columns[:MOST_CHARTS])]
    return sorted(figures, key=lambda figure: chart_height(figure.sums), reverse=True)  # similar heights side by side


def folded_figures(release: Release, columns: Sequence[Departure]) -> list[Figure]:
    """The other one-way tables, in the order of the schema."""
    rest = _in_order(release, columns[MOST_CHARTS : MOST_CHARTS + MOST_FOLDED])
    return [_bars(release, ranked, FOLDED_BARS, FOLDED_NAMES) for ranked in rest]


def _in_order(release: Release, columns: Sequence[Departure]) -> list[Departure]:
    chosen = {ranked.clique[0]: ranked for ranked in columns}
    return [chosen[name] for name in release.domain if name in chosen]


def _bars(release: Release, ranked: Departure, most: int, most_names: int) -> Figure:
    grouping = _grouping(release, ranked.clique[0], most, most_names)
    return Figure(sums=grouped(release.estimates, (grouping,)), ranked=ranked)


def map_figures(release: Release, pairs: Sequence[Departure]) -> list[Figure]:
    """The two-way tables that depart most from independence; at least one, if there is any."""
    chosen = [ranked for ranked in pairs[:MOST_MAPS] if ranked.visible] or list(pairs[:1])
    figures = []
    for ranked in chosen:
        sides = [_grouping(release, name, MAP_SIDE, MAP_SIDE) for name in ranked.clique]
        rows, columns = sorted(sides, key=len)
        figures.append(Figure(sums=grouped(release.estimates, (rows, columns)), ranked=ranked))
    return figures


def bars_section(
    release: Release, figures: Sequence[Figure], folded: Sequence[Figure], first: int, *, known: bool
) -> Markup:
    """One-way tables as bar charts: some in sight, the others folded."""
    charts = [_bar_figure(figure, number) for number, figure in enumerate(figures, start=first)]
    more = [_folded(figure, number) for number, figure in enumerate(folded, start=first + len(figures))]
    shown = {figure.sums.names[0] for figure in (*figures, *folded)}
    absent = [named(name, 60) for name in release.domain if name not in shown]
    if len(absent) > MOST_ABSENT:
        absent[MOST_ABSENT:] = [join(f"and {len(absent) - MOST_ABSENT:,} more")]
    return lines(
        tag("h2", "One column at a time", id="columns"),
        tag("p", BARS_INTRO if known else MODEL_INTRO),
        tag("div", *charts, class_="figures") if charts else tag("p", "The release has no one-way table to draw."),
        tag("h3", f"{counted(len(more), 'more column')}") if more else None,
        tag("p", "Those above say most; open the others by their names.", class_="soft on-screen") if more else None,
        tag("p", "They are folded on the page and not printed.", class_="soft on-paper") if more else None,
        *more,
        tag("p", ABSENT, Markup(", ".join(absent)), ".", class_="soft") if absent and charts else None,
    )


def _folded(figure: Figure, number: int) -> Markup:
    return tag("details", tag("summary", named(figure.sums.names[0], 60)), _bar_figure(figure, number), class_="column")


def maps_section(figures: Sequence[Figure], first: int, columns: int) -> Markup:
    """Two-way tables as heat maps, of a release with so many columns drawn one by one."""
    charts = [_map_figure(figure, number) for number, figure in enumerate(figures, start=first)]
    return lines(
        tag("h2", "Two columns at a time", id="pairs"),
        tag("p", MAPS_INTRO, OF_SOME if columns > MOST_PAIRED else None)
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
    beyond = f"a typical cell is {ranked.departure:.1f} times as far from what unrelated columns would give as noise is"
    remarks = [beyond if ranked.visible else "noise alone may explain what connects these columns"]
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
    body = _numbers_of_column(sums) if sums.estimate.ndim == 1 else _numbers_of_pair(sums)
    return tag("details", tag("summary", "The numbers"), body)


def _numbers_of_column(sums: GroupedCounts) -> Markup:
    rows = [
        (
            named(label),
            rounded(sums.estimate[i], sums.std_error[i]),
            error_text(sums.std_error[i]),
            interval_text(sums.lower[i], sums.upper[i], sums.std_error[i]),
        )
        for i, label in enumerate(sums.groupings[0].labels)
    ]
    return page_table((named(sums.names[0]), "estimate", "standard error", "95 % interval"), rows, numbers=(1, 2, 3))


def _numbers_of_pair(sums: GroupedCounts) -> Markup:
    first, second = sums.groupings
    heads = (join(named(sums.names[0]), " \\ ", named(sums.names[1])), *(named(label) for label in second.labels))
    rows = [
        (named(label), *(rounded(value, error) for value, error in zip(*pair, strict=True)))
        for label, *pair in zip(first.labels, sums.estimate, sums.std_error, strict=True)
    ]
    return page_table(heads, rows, numbers=range(1, len(heads)), caption=f"Estimates; {errors_of(sums)}.")


def errors_of(sums: GroupedCounts) -> str:
    """The margins of a picture in a few words."""
    margins = sums.margin[np.isfinite(sums.margin)]
    if not margins.size:
        return "no error is known"
    low, high = (error_text(float(end)) for end in (margins.min(), margins.max()))
    return (
        f"within ± {high} of the truth in 19 of 20 cases" if low == high else f"within ± {low} to {high} of the truth"
    )
