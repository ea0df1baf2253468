"""Front chart: error against epsilon on a log axis, as SVG: points, steps of the front, and bands of single runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hush.pareto.evaluation import Evaluation, merged
from hush.pareto.front import Front, digits, settings_text
from hush.render.charts import CURVE_COLOURS, Axis, curve_style, horizontal_grid, picture, polygon, vertical_grid
from hush.render.labels import readable
from hush.render.markup import Markup, coordinate, join, shape, tag

WIDE, HIGH = 640.0, 400.0
TOP, BOTTOM, RIGHT = 14.0, 46.0, 14.0
ALIKE = 0.01  # curves that differ by less than this share are drawn as one
SHARE = 0.9


def front_chart(fronts: Sequence[Front], number: int, marks: Sequence[tuple[float, float, str]] = ()) -> Markup:
    """Several fronts in one picture; `marks` are points with a text, such as where two curves cross."""
    usable = [[e for e in merged(front.evaluations) if e.usable and e.epsilon > 0] for front in fronts]
    epsilons = [e.epsilon for some in usable for e in some] or [1.0]
    heights = [point.quantile((1 + SHARE) / 2) for front in fronts for point in front]
    curve = all(front.search.get("method") == "exact" for front in fronts)
    errors = [e.error for some in usable for e in some]
    reach = max([*heights, *errors], default=1.0)
    if curve and min(errors, default=0) > 0:
        vertical = Axis.logarithmic(min(errors), reach, start=HIGH - BOTTOM, stop=TOP)
    else:
        vertical = Axis.linear(0.0, reach, start=HIGH - BOTTOM, stop=TOP, marks=5)
    left = vertical.label_width + 26
    across = Axis.logarithmic(min(epsilons), max(epsilons), start=left, stop=WIDE - RIGHT)
    shapes = [_grid(across, vertical, left, fronts[0].measure if fronts else "error")]
    for index, (front, some) in enumerate(zip(fronts, usable, strict=True)):
        colour = CURVE_COLOURS[index % len(CURVE_COLOURS)]
        shapes += [_band(front, across, vertical, colour), _steps(front, across, vertical, index, curve=curve)]
        best = front.points
        shapes += [] if curve else [_dot(front, e, across, vertical, colour, on=e in best) for e in some]
    for epsilon, error, text in marks:
        x, y = across(epsilon), vertical(error)
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
        line = shape("line", x1=0.0, x2=40.0, y1=5.0, y2=5.0, style=curve_style(index))
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


def _grid(across: Axis, vertical: Axis, left: float, measure: str) -> Markup:
    """The ticks of both axes and what the axes show."""
    bottom, middle = HIGH - BOTTOM, (TOP + HIGH - BOTTOM) / 2
    scale = " (log scale)" if vertical.log else ""
    turned = f"rotate(-90 10 {coordinate(middle)})"
    return join(
        horizontal_grid(vertical, left, WIDE - RIGHT),
        vertical_grid(across, TOP, bottom),
        tag("text", "epsilon (log scale)", x=(left + WIDE - RIGHT) / 2, y=HIGH - 8, class_="mark mid"),
        tag("text", f"{readable(measure, 40)}{scale}", x=10.0, y=middle, transform=turned, class_="mark mid"),
    )


def _steps(front: Front, across: Axis, vertical: Axis, index: int, *, curve: bool) -> Markup:
    """The front as steps to the right end, or as a line where the whole curve is known."""
    places = [(across(epsilon), vertical(error)) for epsilon, error in front.curve() if epsilon > 0]
    if not places:
        return Markup("")
    if curve:
        return shape("path", d=polygon(places), style=curve_style(index))
    steps = "".join(f"H{coordinate(x)}V{coordinate(y)}" for x, y in places[1:])
    return shape("path", d=f"{polygon(places[:1])}{steps}H{coordinate(WIDE - RIGHT)}", style=curve_style(index))


def _band(front: Front, across: Axis, vertical: Axis, colour: str) -> Markup:
    """The middle of what single runs attain, as steps along the front."""
    rows = [
        row for row, point in zip(front.band(SHARE), front.points, strict=True) if len(point.errors) > 1 and row[0] > 0
    ]
    if not rows:
        return Markup("")
    ends = [*(row[0] for row in rows[1:]), across.high]
    upper, lower = [], []
    for (epsilon, low, high), end in zip(rows, ends, strict=True):
        for x in (across(epsilon), across(end)):
            upper.append((x, vertical(max(high, vertical.low))))
            lower.append((x, vertical(max(low, vertical.low))))
    return shape("path", d=f"{polygon([*upper, *reversed(lower)])}Z", style=f"fill: {colour}; opacity: .13")


def _dot(front: Front, e: Evaluation, across: Axis, vertical: Axis, colour: str, *, on: bool) -> Markup:
    style = f"fill: {colour}" if on else "fill: var(--naive); opacity: .55"
    circle = shape("circle", cx=across(e.epsilon), cy=vertical(e.error), r=3.6 if on else 2.6, style=style)
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
