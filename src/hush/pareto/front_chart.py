"""Front chart: error against epsilon on a log axis, as SVG: points, steps of the front, and bands of single runs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hush.pareto.evaluation import Evaluation, merged
from hush.pareto.front import Front
from hush.pareto.front_text import digits, settings_text
from hush.render.markup import Markup, coordinate, join, shape, tag
from hush.report.charts import SMALL, Axis, picture
from hush.report.labels import compact, readable, width

WIDE, HIGH = 640.0, 400.0
TOP, BOTTOM, RIGHT = 14.0, 46.0, 14.0
COLOURS = ("var(--bar)", "var(--below)", "#2e8b57", "#8e5bb5", "var(--naive)", "#c2417a", "#6b7d0a", "#1f9aa8")
DASHES = ("", "9 5", "2 4", "12 4 2 4")  # so that a curve shows through another that covers it
ALIKE = 0.01  # curves that differ by less than this share are drawn as one
SHARE = 0.9
MOST_TICKS = 8


def front_chart(fronts: Sequence[Front], number: int, marks: Sequence[tuple[float, float, str]] = ()) -> Markup:
    """Several fronts in one picture; `marks` are points with a text, such as where two curves cross."""
    usable = [[e for e in merged(front.evaluations) if e.usable and e.epsilon > 0] for front in fronts]
    epsilons = [e.epsilon for some in usable for e in some] or [1.0]
    heights = [point.quantile((1 + SHARE) / 2) for front in fronts for point in front]
    curve = all(front.search.get("method") == "exact" for front in fronts)
    errors = [e.error for some in usable for e in some]
    reach = max([*heights, *errors], default=1.0)
    down = (
        _log_axis(min(errors), reach, start=HIGH - BOTTOM, stop=TOP) if curve and min(errors, default=0) > 0 else None
    )
    vertical = down or Axis.over(0.0, reach, start=HIGH - BOTTOM, stop=TOP, marks=5)
    left = max(width(compact(tick), SMALL) for tick in vertical.ticks) + 26
    across = _log_axis(min(epsilons), max(epsilons), start=left, stop=WIDE - RIGHT)
    shapes = [_grid(across, vertical, left, fronts[0].measure if fronts else "error")]
    for index, (front, some) in enumerate(zip(fronts, usable, strict=True)):
        colour = COLOURS[index % len(COLOURS)]
        shapes += [_band(front, across, vertical, colour), _steps(front, across, vertical, index, curve=curve)]
        best = front.points
        shapes += [] if curve else [_dot(front, e, across, vertical, colour, on=e in best) for e in some]
    for epsilon, error, text in marks:
        x, y = across(math.log10(epsilon)), vertical(_scaled(vertical, error))
        shapes.append(
            tag(
                "g",
                tag("title", text),
                shape("circle", cx=x, cy=y, r=4.5, style="fill: none; stroke: var(--ink); stroke-width: 1.5"),
            )
        )
    described = "; ".join(_described(front) for front in fronts)
    return picture("Error against epsilon", described, number, HIGH, *shapes, wide=WIDE)


def legend(fronts: Sequence[Front]) -> Markup:
    """The names of the fronts with their lines, and which of them are covered by another."""
    items = []
    for index, front in enumerate(fronts):
        line = shape("line", x1=0.0, x2=40.0, y1=5.0, y2=5.0, style=_stroke(index))
        small = "display: inline-block; width: 40px; min-width: 0; height: 10px; margin-right: .4rem"
        twin = next((other.name for other in fronts[:index] if alike(front, other)), None)
        name = (
            readable(front.name, 60)
            if twin is None
            else f"{readable(front.name, 60)} (same curve as {readable(twin, 60)})"
        )
        items.append(
            tag("li", tag("svg", line, viewBox="0 0 40 10", aria_hidden="true", style=small), name, class_="soft")
        )
    return tag("ul", *items, style="list-style: none; padding: 0; columns: 17rem; max-width: none")


def alike(front: Front, other: Front) -> bool:
    """Whether two fronts have the same curve, as far as a picture shows."""
    pairs, others = front.pairs, other.pairs
    return pairs.shape == others.shape and bool(np.allclose(pairs, others, rtol=ALIKE, atol=0.0))


def _stroke(index: int) -> str:
    dashes = DASHES[index % len(DASHES)]
    dashed = f"; stroke-dasharray: {dashes}" if dashes else ""
    return f"fill: none; stroke: {COLOURS[index % len(COLOURS)]}; stroke-width: 2{dashed}"


class LogAxis(Axis):
    """A scale of powers of ten, in log10."""


def _log_axis(low: float, high: float, *, start: float, stop: float) -> LogAxis:
    a, b = math.log10(low), math.log10(high)
    room = max(0.03 * (b - a), 0.05)
    a, b = a - room, b + room
    for steps in ((1, 2, 5), (1, 3), (1,)):
        powers = range(math.floor(a) - 1, math.ceil(b) + 1)
        ticks = [step * 10.0**power for power in powers for step in steps if a <= math.log10(step * 10.0**power) <= b]
        if len(ticks) <= MOST_TICKS:
            break
    every = math.ceil(len(ticks) / MOST_TICKS)
    return LogAxis(low=a, high=b, start=start, stop=stop, ticks=tuple(ticks[::every]))


def _scaled(axis: Axis, value: float) -> float:
    return math.log10(value) if isinstance(axis, LogAxis) else value


def _grid(across: LogAxis, vertical: Axis, left: float, measure: str) -> Markup:
    lines = []
    for tick in vertical.ticks:
        y = vertical(_scaled(vertical, tick))
        lines.append(shape("line", x1=left, x2=WIDE - RIGHT, y1=y, y2=y, class_="zero" if tick == 0 else "grid"))
        lines.append(tag("text", compact(tick), x=left - 6, y=y + 4, class_="mark end"))
    for tick in across.ticks:
        x = across(math.log10(tick))
        lines.append(shape("line", x1=x, x2=x, y1=TOP, y2=HIGH - BOTTOM, class_="grid"))
        lines.append(tag("text", compact(tick), x=x, y=HIGH - BOTTOM + 16, class_="mark mid"))
    middle = (left + WIDE - RIGHT) / 2
    lines.append(tag("text", "epsilon (log scale)", x=middle, y=HIGH - 8, class_="mark mid"))
    turned = f"rotate(-90 10 {coordinate((TOP + HIGH - BOTTOM) / 2)})"
    scale = " (log scale)" if isinstance(vertical, LogAxis) else ""
    text = tag(
        "text",
        f"{readable(measure, 40)}{scale}",
        x=10.0,
        y=(TOP + HIGH - BOTTOM) / 2,
        transform=turned,
        class_="mark mid",
    )
    return join(*lines, text)


def _steps(front: Front, across: LogAxis, vertical: Axis, index: int, *, curve: bool) -> Markup:
    """The front as steps to the right end, or as a line where the whole curve is known."""
    places = [(across(math.log10(e)), vertical(_scaled(vertical, y))) for e, y in front.curve() if e > 0]
    if not places:
        return Markup("")
    path = f"M{coordinate(places[0][0])} {coordinate(places[0][1])}"
    for x, y in places[1:]:
        path += f"L{coordinate(x)} {coordinate(y)}" if curve else f"H{coordinate(x)}V{coordinate(y)}"
    path += "" if curve else f"H{coordinate(WIDE - RIGHT)}"
    return shape("path", d=path, style=_stroke(index))


def _band(front: Front, across: LogAxis, vertical: Axis, colour: str) -> Markup:
    """The middle of what single runs attain, as steps along the front."""
    rows = [
        row for row, point in zip(front.band(SHARE), front.points, strict=True) if len(point.errors) > 1 and row[0] > 0
    ]
    if not rows:
        return Markup("")
    ends = [*(row[0] for row in rows[1:]), 10**across.high]
    upper, lower = [], []
    for (epsilon, low, high), end in zip(rows, ends, strict=True):
        for x in (across(math.log10(epsilon)), min(across(math.log10(end)), WIDE - RIGHT)):
            upper.append(f"{coordinate(x)} {coordinate(vertical(_scaled(vertical, max(high, vertical.low))))}")
            lower.append(f"{coordinate(x)} {coordinate(vertical(_scaled(vertical, max(low, vertical.low))))}")
    return shape("path", d=f"M{'L'.join([*upper, *reversed(lower)])}Z", style=f"fill: {colour}; opacity: .13")


def _dot(front: Front, e: Evaluation, across: LogAxis, vertical: Axis, colour: str, *, on: bool) -> Markup:
    style = f"fill: {colour}" if on else "fill: var(--naive); opacity: .55"
    circle = shape("circle", cx=across(math.log10(e.epsilon)), cy=vertical(e.error), r=3.6 if on else 2.6, style=style)
    settings = settings_text(e.settings)
    said = f"epsilon {digits(e.epsilon)}, {front.measure} {digits(e.error)}{'; ' if settings else ''}{settings}"
    return tag("g", tag("title", readable(said, 300)), circle)


def _described(front: Front) -> str:
    points = front.points
    if not points:
        return f"{readable(front.name, 60) or 'the front'} has no points"
    first, last = points[0], points[-1]
    return (
        f"{readable(front.name, 60) or 'the front'} has {len(points)} points, from epsilon {first.epsilon:.3g} with "
        f"{first.error:.3g} to epsilon {last.epsilon:.3g} with {last.error:.3g}"
    )
