"""Plots with matplotlib, the extra `plots`: bars and lines with error bars, shaded tables, and the errors of a plan.

Every function draws into `axes`, or into new ones, and returns them, so that plots can be combined and changed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hush.core.arrays import Floats
from hush.core.errors import HushError
from hush.render.labels import compact, order_name, readable

INK, SOFT, RULE, NAIVE = "#1c2127", "#59626d", "#e3e7eb", "#8a949f"  # as in style.css
COLOURS = ("#2f74b5", "#d97706", "#2e8b57", "#8e5bb5", "#c2417a", "#6b7d0a")
WIDTH, INCHES_PER_BAR = 7.0, 0.32
MOST_MARKS = 12  # labels along an axis of ordered levels
AXIS_CHARACTERS = 90  # of all labels side by side; more make bars lie on their side
LONGEST_TEXT = 120
GROUP_SHARE = 0.8  # of the distance between two labels that the bars of one take
SHADE_TEXT_CELLS = 120  # in which the numbers of a shaded table can be read


@dataclass(frozen=True, slots=True)
class Series:
    """Estimates with the ends of their intervals, NaN where there is none."""

    name: str
    estimate: Floats
    lower: Floats
    upper: Floats

    @property
    def reach(self) -> Floats:
        """How far each interval reaches below and above its estimate, (2, levels)."""
        return np.nan_to_num(np.maximum([self.estimate - self.lower, self.upper - self.estimate], 0.0))


def new_panels(count: int, *, width: float = WIDTH, height: float = 4.0) -> Any:
    """An array of axes below each other, in a new figure."""
    try:
        from matplotlib import pyplot
    except ImportError:
        raise HushError("plots need matplotlib, which is not installed; run pip install 'hush[plots]'") from None
    _, panels = pyplot.subplots(count, figsize=(width, height * count), layout="constrained", dpi=110, squeeze=False)
    return panels[:, 0]


def new_axes(axes: Any, *, width: float = WIDTH, height: float = 4.0) -> Any:
    """The given axes, or those of a new figure, in the style of all plots."""
    if axes is None:
        (axes,) = new_panels(1, width=width, height=height)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(SOFT)
    axes.tick_params(colors=SOFT, labelsize=9, length=0)
    axes.set_axisbelow(True)
    return axes


def plot_bars(labels: Sequence[str], series: Sequence[Series], *, names: tuple[str, str], axes: Any = None) -> Any:
    """A bar for every level and series, with its interval; bars lie on their side if labels are long.

    `names` are those of the levels and of the series.
    """
    # Long labels, and many of them, are easier to read in lines.
    flat = max(map(len, labels), default=0) * len(labels) > AXIS_CHARACTERS or len(labels) * len(series) > MOST_MARKS
    bars = len(labels) * len(series)
    axes = new_axes(axes, height=max(2.2, 1.2 + INCHES_PER_BAR * bars) if flat else 4.0)
    draw, width = (axes.barh if flat else axes.bar), GROUP_SHARE / len(series)
    places = np.arange(len(labels), dtype=float)
    for index, part in enumerate(series):
        at = places + (index - (len(series) - 1) / 2) * width
        whiskers = {"ecolor": INK, "elinewidth": 1.2, "capsize": 3, "capthick": 1.2}
        errors = {"xerr" if flat else "yerr": part.reach, "error_kw": whiskers}
        draw(at, part.estimate, 0.9 * width, color=_colour(index), alpha=0.85, label=plain_text(part.name), **errors)
    shown = [plain_text(label) for label in labels]
    if flat:
        axes.set_yticks(places, shown, color=INK)
        axes.invert_yaxis()
    else:
        axes.set_xticks(places, shown, color=INK)
    _finish(axes, "x" if flat else "y", names[0], len(series), names[1])
    (axes.axvline if flat else axes.axhline)(0, color=SOFT, linewidth=0.8)
    return axes


def plot_lines(
    labels: Sequence[str], series: Sequence[Series], *, names: tuple[str, str], apart: int = 0, axes: Any = None
) -> Any:
    """A line for every series along ordered levels, with its intervals as a band.

    The last `apart` levels are not part of the order, such as missing: each is a point with an error bar.
    """
    axes = new_axes(axes)
    places = np.arange(len(labels))
    end = len(labels) - apart
    for index, part in enumerate(series):
        colour = _colour(index)
        axes.fill_between(places[:end], part.lower[:end], part.upper[:end], color=colour, alpha=0.2, linewidth=0)
        axes.plot(places[:end], part.estimate[:end], color=colour, linewidth=1.6, label=plain_text(part.name))
        if apart:
            at = places[end:] + 0.25 * (index - (len(series) - 1) / 2)
            bars = {"fmt": "o", "color": colour, "markersize": 4, "capsize": 3}
            axes.errorbar(at, part.estimate[end:], yerr=part.reach[:, end:], **bars)
    _mark_some(axes.set_xticks, labels, wide=True, apart=apart)
    axes.axhline(0, color=SOFT, linewidth=0.8)
    axes.margins(x=0.01)
    _finish(axes, "y", names[0], len(series), names[1])
    return axes


def plot_shades(
    rows: Sequence[str], columns: Sequence[str], cells: Floats, margins: Floats, *, names: tuple[str, str], axes: Any
) -> Any:
    """A table as shades; cells whose intervals reach zero are hatched, also if noise took them below it.

    `cells` and `margins`, the half widths of the intervals, have a line for every one of `rows`.
    """
    height = min(max(2.5, 1.2 + 0.3 * len(rows)), 9.0)
    axes = new_axes(axes, height=height)
    axes.spines["bottom"].set_visible(False)
    top = float(np.max(cells, initial=1.0))
    image = axes.imshow(cells, cmap="Blues", vmin=0, vmax=top, aspect="auto", interpolation="nearest")
    bar = axes.figure.colorbar(image, ax=axes, pad=0.02)
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=SOFT, labelsize=8, length=0)
    _mark_some(axes.set_yticks, rows)
    _mark_some(axes.set_xticks, columns, wide=True)
    unsure = ~(cells > margins)
    if unsure.any() and not unsure.all():
        edges = [np.arange(count + 1) - 0.5 for count in (cells.shape[1], cells.shape[0])]
        blank = np.ma.masked_array(np.zeros(cells.shape), mask=~unsure)
        axes.pcolor(*edges, blank, hatch="////", facecolor="none", edgecolor=NAIVE, linewidth=0, alpha=0.35)
    if cells.size <= SHADE_TEXT_CELLS:
        typical = float(np.median(margins))
        decimals = max(0, 1 - math.floor(math.log10(typical))) if typical > 0 else 6
        for (row, column), value in np.ndenumerate(cells):
            ink = "white" if value > 0.6 * top else INK
            axes.text(
                column, row, compact(round(float(value), decimals)), ha="center", va="center", fontsize=8, color=ink
            )
    axes.set_ylabel(plain_text(names[0]), color=SOFT)
    axes.set_xlabel(plain_text(names[1]), color=SOFT)
    return axes


def _mark_some(set_ticks: Any, labels: Sequence[str], *, wide: bool = False, apart: int = 0) -> None:
    """Label every n-th level, so that no two labels touch, whole numbers at round ones; and the last `apart` levels.

    `wide` labels stand side by side.
    """
    longest = max(map(len, labels), default=0) + 2
    least = -(-len(labels) // max(1, min(MOST_MARKS, AXIS_CHARACTERS // longest if wide else MOST_MARKS)))
    every = next(step * 10**digits for digits in range(20) for step in (1, 2, 5) if step * 10**digits >= least)
    # Ages from 18 on are labelled 20, 30, ...; what stands apart needs room to its left.
    end = len(labels) - apart
    round_levels = [at for at, label in enumerate(labels[:every]) if label.isdecimal() and int(label) % every == 0]
    ordered = range(round_levels[0] if round_levels else 0, max(end - every // 2, 1) if apart else end, every)
    places = [*ordered, *range(end, len(labels))]
    set_ticks(places, [plain_text(labels[at]) for at in places], color=INK)


def plain_text(label: str) -> str:
    """A label that matplotlib shows as it is: a dollar sign would begin a formula."""
    return readable(label, LONGEST_TEXT).replace("$", r"\$")


def _colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]


def _finish(axes: Any, values: str, name: str, series: int, legend: str) -> None:
    axes.grid(axis=values, color=RULE, linewidth=0.8)
    (axes.set_xlabel if values == "y" else axes.set_ylabel)(plain_text(name), color=SOFT)
    number_axis = axes.yaxis if values == "y" else axes.xaxis
    number_axis.set_major_formatter(lambda value, _: compact(value))
    if series > 1:
        beside = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "alignment": "left"}
        axes.legend(title=plain_text(legend), frameon=False, fontsize=9, title_fontsize=9, labelcolor=INK, **beside)


def plot_errors(names: Sequence[str], errors: Floats, orders: Sequence[int], *, axes: Any = None) -> Any:
    """The standard error of each table as a dot, coloured by its number of columns, least error first."""
    axes = new_axes(axes, height=max(2.2, 1.2 + 0.26 * len(names)))
    places = np.arange(len(names))
    kinds = sorted(set(orders))
    for index, order in enumerate(kinds):
        chosen = [at for at, number in enumerate(orders) if number == order]
        axes.hlines(places[chosen], 0, errors[chosen], color=_colour(index), alpha=0.35, linewidth=2)
        axes.plot(errors[chosen], places[chosen], "o", color=_colour(index), markersize=7, label=order_name(order))
    axes.set_yticks(places, [plain_text(name) for name in names], color=INK)
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    _finish(axes, "x", "", len(kinds), "tables over")
    axes.set_xlabel("standard error of each number, in rows", color=SOFT)
    return axes
