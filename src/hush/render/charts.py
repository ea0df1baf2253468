"""Parts of charts that every page shares: axes with round ticks, grid lines, curve styles, cells, and the SVG frame."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hush.render.labels import compact, width
from hush.render.markup import Markup, coordinate, join, shape, tag

CHART_WIDTH = 440.0  # two charts stand side by side on a page
LABEL_SIZE, TICK_SIZE = 12.0, 11.0  # font sizes in pixels, as in style.css
AXIS_PADDING = 0.02  # free space beyond the extreme values, as a share of the axis
MOST_LOG_TICKS = 8
WHITE_TEXT_SHADE = 0.68  # the shade at which white and black text are equally legible, in both colour schemes
CURVE_COLOURS = ("var(--bar)", "var(--below)", "#2e8b57", "#8e5bb5", "var(--naive)", "#c2417a", "#6b7d0a", "#1f9aa8")
CURVE_DASHES = ("", "9 5", "2 4", "12 4 2 4")  # so that a curve shows through another that covers it


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A linear or logarithmic scale: `low` is drawn at coordinate `start`, `high` at `stop`."""

    low: float
    high: float
    start: float
    stop: float
    ticks: tuple[float, ...]
    log: bool = False

    @classmethod
    def linear(cls, low: float, high: float, *, start: float, stop: float, marks: int = 4) -> Axis:
        """A scale that contains zero and both values with a little room, and about `marks` round ticks.

        >>> axis = Axis.linear(-3, 87, start=0, stop=100)
        >>> axis.ticks, round(axis.high, 2)
        ((0.0, 25.0, 50.0, 75.0), 88.8)
        """
        bottom, top = min(low, 0.0), max(high, 0.0)
        if not (math.isfinite(bottom) and math.isfinite(top) and bottom < top):
            bottom, top = 0.0, 1.0
        padding = AXIS_PADDING * (top - bottom)
        bottom, top = (bottom - padding if bottom < 0 else bottom), (top + padding if top > 0 else top)
        # The step is the smallest of 1, 2, 2.5, 5, 10 times a power of ten that leaves at most `marks` intervals.
        size = (top - bottom) / marks
        power = 10.0 ** math.floor(math.log10(size))
        step = next(power * factor for factor in (1.0, 2.0, 2.5, 5.0, 10.0) if power * factor >= size * (1 - 1e-9))
        ticks = tuple(step * k for k in range(math.ceil(bottom / step), math.floor(top / step) + 1))
        return cls(low=bottom, high=top, start=start, stop=stop, ticks=ticks)

    @classmethod
    def logarithmic(cls, low: float, high: float, *, start: float, stop: float) -> Axis:
        """A scale of logarithms for positive values, with ticks at round multiples of powers of ten.

        >>> [Axis.logarithmic(low, high, start=0, stop=1).ticks for low, high in ((1, 10), (1, 1000), (1.1, 1.2))]
        [(1.0, 2.0, 5.0, 10.0), (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0), (1.1, 1.2)]
        """
        padding = max(0.03 * math.log10(high / low), 0.05)
        bottom, top = math.log10(low) - padding, math.log10(high) + padding
        powers = [10.0**power for power in range(math.floor(bottom) - 1, math.ceil(top) + 1)]
        for factors in ((1, 2, 5), (1, 3), (1,)):
            ticks = [f * power for power in powers for f in factors if bottom <= math.log10(f * power) <= top]
            if len(ticks) <= MOST_LOG_TICKS:
                break
        if len(ticks) < 2:  # no two round numbers in the range: mark its ends
            ticks = sorted({float(f"{end:.3g}") for end in (low, high)})
        ticks = ticks[:: math.ceil(len(ticks) / MOST_LOG_TICKS)]
        return cls(low=10**bottom, high=10**top, start=start, stop=stop, ticks=tuple(ticks), log=True)

    def __call__(self, value: float) -> float:
        """The coordinate of a value."""
        share = (
            math.log(value / self.low) / math.log(self.high / self.low)
            if self.log
            else (value - self.low) / (self.high - self.low)
        )
        return self.start + share * (self.stop - self.start)

    @property
    def label_width(self) -> float:
        """The width of the longest tick label."""
        return max(width(compact(tick), TICK_SIZE) for tick in self.ticks)


def horizontal_grid(axis: Axis, left: float, right: float) -> Markup:
    """A line from `left` to `right` at each tick of a vertical axis, labelled on the left."""
    return join(
        *(
            join(
                shape("line", x1=left, x2=right, y1=axis(tick), y2=axis(tick), class_="grid" if tick else "zero"),
                tag("text", compact(tick), x=left - 6, y=axis(tick) + 4, class_="mark end"),
            )
            for tick in axis.ticks
        )
    )


def vertical_grid(axis: Axis, top: float, bottom: float) -> Markup:
    """A line from `top` to `bottom` at each tick of a horizontal axis, labelled below; fewer ticks if labels touch."""
    gap = abs(axis.stop - axis.start) / max(len(axis.ticks) - 1, 1)
    every = 1 if axis.log else max(1, math.ceil((axis.label_width + 10) / gap))
    zero = axis.ticks.index(min(axis.ticks, key=abs))  # every n-th tick, counted from zero
    return join(
        *(
            join(
                shape("line", x1=axis(tick), x2=axis(tick), y1=top, y2=bottom, class_="grid" if tick else "zero"),
                tag("text", compact(tick), x=axis(tick), y=bottom + 14, class_="mark mid"),
            )
            for index, tick in enumerate(axis.ticks)
            if (index - zero) % every == 0
        )
    )


def curve_style(index: int) -> str:
    """The colour and the dashes of the curve with this index, as a CSS style."""
    dashes = CURVE_DASHES[index % len(CURVE_DASHES)]
    dashed = f"; stroke-dasharray: {dashes}" if dashes else ""
    return f"fill: none; stroke: {CURVE_COLOURS[index % len(CURVE_COLOURS)]}; stroke-width: 2{dashed}"


def polygon(places: list[tuple[float, float]]) -> str:
    """The points joined by straight lines, as commands of an SVG path.

    >>> polygon([(0, 1), (2.5, 3)])
    'M0 1L2.5 3'
    """
    return "M" + "L".join(f"{coordinate(x)} {coordinate(y)}" for x, y in places)


def picture(
    title: str, description: str, number: int, height: float, *content: str, wide: float = CHART_WIDTH
) -> Markup:
    """An SVG image with a title and a description for screen readers; `number` makes their ids unique on the page."""
    return tag(
        "svg",
        tag("title", title, id=f"title-{number}"),
        tag("desc", description, id=f"desc-{number}"),
        *content,
        viewBox=f"0 0 {wide:.0f} {math.ceil(height)}",
        role="img",
        aria_labelledby=f"title-{number} desc-{number}",
    )


def swatch(x: float, y: float, wide: float, tall: float, shade: float) -> Markup:
    """A cell of a heat map; `shade` is from 0 to 1."""
    return shape("rect", x=x, y=y, width=wide, height=tall, class_="cell", fill_opacity=f"{max(shade, 0.02):.2f}")
