"""Front page: one or several fronts as a self-contained HTML page, with tables and a picture.

The picture shows error against epsilon on a log axis: tried settings as dots, fronts as steps or curves, and the spread
of single runs as bands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from hush.core.errors import SearchError
from hush.pareto.evaluation import merged
from hush.pareto.front import Front, digits, settings_text
from hush.render.charts import CURVE_COLOURS, Axis, curve_style, horizontal_grid, picture, polygon, vertical_grid
from hush.render.html_page import fact_list, made_by, page_html, scrolling
from hush.render.labels import readable
from hush.render.markup import Markup, coordinate, join, lines, shape, tag
from hush.render.text_table import TextTable

CHART_WIDTH, CHART_HEIGHT = 640.0, 400.0
TOP, BOTTOM, RIGHT = 14.0, CHART_HEIGHT - 46.0, CHART_WIDTH - 14.0
SAME_CURVE = 0.01  # curves that differ by less than this share look the same
BAND_SHARE = 0.9  # of single runs


def fronts_html(
    fronts: Sequence[Front],
    *,
    title: str = "Privacy and error",
    about: Mapping[str, str] | None = None,
    answers: Sequence[str] = (),
    marks: Sequence[tuple[float, float, str]] = (),
    table: TextTable | None = None,
) -> str:
    """The fronts as the text of an HTML page; `marks` are places that the picture points out.

    The page begins with `answers`, sentences, and `about`, facts about the data and the questions. A `table` replaces
    the tables of single fronts.
    """
    if not fronts:
        raise SearchError("there is no front to draw; give at least one")
    # the texts
    stamps = list(dict.fromkeys(front.stamp for front in fronts if front.stamp))
    exact = all(front.search.get("method") == "exact" for front in fronts)
    lead = "A smaller epsilon protects people better and makes answers worse. "
    if exact:
        lead += (
            "Each curve shows the RMSE of one mechanism: the square root of the mean squared error of a count, in "
            "rows. It is known exactly before any data is read."
        )
    else:
        lead += "The front shows the least error that was found for each epsilon: no tried settings are better in both."
    caption = f"Dots are tried settings, the line is the front; the shade covers {BAND_SHARE:.0%} of single runs."
    note = (
        "The front itself is not differentially private. It is as private as the rows that its errors were computed "
        "from."
    )
    # the page: answers and facts, the picture, the tables
    facts = [(name, text) for name, text in (about or {}).items() if text]
    body = lines(
        tag("h1", readable(title, 100)),
        *(tag("p", readable(answer, 300), class_="lead") for answer in answers),
        fact_list(facts) if facts else None,
        tag("p", lead),
        *(tag("div", readable(stamp, 300), class_="notice") for stamp in stamps),
        tag(
            "figure",
            tag("div", front_chart(fronts, 1, marks), class_="scroll"),
            legend(fronts) if any(front.name for front in fronts) else None,
            None if exact else tag("figcaption", caption),
            class_="single",
        ),
        *([_section(front) for front in fronts] if table is None else [scrolling(table)]),
        None if exact else tag("p", note, class_="note"),
        made_by(),
    )
    return page_html(body, title=title)


def _section(front: Front) -> Markup:
    """The table of a front, and how many evaluations failed."""
    failed = [evaluation for evaluation in front.evaluations if evaluation.problem]
    problems = readable("; ".join(list(dict.fromkeys(evaluation.problem for evaluation in failed))[:5]), 300)
    return join(
        tag("h2", readable(front.name, 100) or "The front"),
        scrolling(replace(front.table(), title="", notes=())),
        tag("p", f"{len(failed)} evaluations failed: {problems}.", class_="note") if failed else None,
    )


def front_chart(fronts: Sequence[Front], number: int, marks: Sequence[tuple[float, float, str]] = ()) -> Markup:
    """Several fronts in one picture; `marks` are points with a text, such as where two curves cross."""
    # the axes: exact curves have logarithmic errors, searches begin at 0
    tried = [[e for e in merged(front.evaluations) if e.usable and e.epsilon > 0] for front in fronts]
    epsilons = [e.epsilon for evaluations in tried for e in evaluations] or [1.0]
    errors = [e.error for evaluations in tried for e in evaluations]
    heights = [point.quantile((1 + BAND_SHARE) / 2) for front in fronts for point in front]
    exact = all(front.search.get("method") == "exact" for front in fronts)
    highest = max([*heights, *errors], default=1.0)
    if exact and min(errors, default=0) > 0:
        vertical = Axis.logarithmic(min(errors), highest, start=BOTTOM, stop=TOP)
    else:
        vertical = Axis.linear(0.0, highest, start=BOTTOM, stop=TOP, marks=5)
    left = vertical.label_width + 26
    across = Axis.logarithmic(min(epsilons), max(epsilons), start=left, stop=RIGHT)
    shapes = [_grid(across, vertical, left, fronts[0].measure if fronts else "error")]
    # bands, fronts and dots
    for index, (front, evaluations) in enumerate(zip(fronts, tried, strict=True)):
        colour = CURVE_COLOURS[index % len(CURVE_COLOURS)]
        shapes += [_band(front, across, vertical, colour), _steps(front, across, vertical, index, exact=exact)]
        points = front.points
        for e in () if exact else evaluations:
            on = e in points
            style = f"fill: {colour}" if on else "fill: var(--naive); opacity: .55"
            settings = settings_text(e.settings)
            text = f"epsilon {digits(e.epsilon)}, {front.measure} {digits(e.error)}{'; ' if settings else ''}{settings}"
            dot = shape("circle", cx=across(e.epsilon), cy=vertical(e.error), r=3.6 if on else 2.6, style=style)
            shapes.append(tag("g", tag("title", readable(text, 300)), dot))
    # marks and the text for screen readers
    for epsilon, error, text in marks:
        style = "fill: none; stroke: var(--ink); stroke-width: 1.5"
        ring = shape("circle", cx=across(epsilon), cy=vertical(error), r=4.5, style=style)
        shapes.append(tag("g", tag("title", text), ring))
    described = "; ".join(_described(front) for front in fronts)
    return picture("Error against epsilon", described, number, CHART_HEIGHT, *shapes, wide=CHART_WIDTH)


def legend(fronts: Sequence[Front]) -> Markup:
    """The names of the fronts with their lines, and which curves look the same."""
    items = []
    small = "display: inline-block; width: 40px; min-width: 0; height: 10px; margin-right: .4rem"
    for index, front in enumerate(fronts):
        line = shape("line", x1=0.0, x2=40.0, y1=5.0, y2=5.0, style=curve_style(index))
        twin = next((other.name for other in fronts[:index] if same_curve(front, other)), None)
        name = readable(front.name, 60) + (f" (same curve as {readable(twin, 60)})" if twin is not None else "")
        sample = tag("svg", line, viewBox="0 0 40 10", aria_hidden="true", style=small)
        items.append(tag("li", sample, name, class_="soft"))
    return tag("ul", *items, style="list-style: none; padding: 0; columns: 17rem; max-width: none")


def same_curve(front: Front, other: Front) -> bool:
    """Whether two fronts look the same in a picture."""
    pairs, others = front.pairs, other.pairs
    return pairs.shape == others.shape and bool(np.allclose(pairs, others, rtol=SAME_CURVE, atol=0.0))


def _grid(across: Axis, vertical: Axis, left: float, measure: str) -> Markup:
    """The ticks and the names of both axes."""
    middle, scale = (TOP + BOTTOM) / 2, " (log scale)" if vertical.log else ""
    turned = f"rotate(-90 10 {coordinate(middle)})"
    return join(
        horizontal_grid(vertical, left, RIGHT),
        vertical_grid(across, TOP, BOTTOM),
        tag("text", "epsilon (log scale)", x=(left + RIGHT) / 2, y=CHART_HEIGHT - 8, class_="mark mid"),
        tag("text", f"{readable(measure, 40)}{scale}", x=10.0, y=middle, transform=turned, class_="mark mid"),
    )


def _steps(front: Front, across: Axis, vertical: Axis, index: int, *, exact: bool) -> Markup:
    """The front as steps to the right end, or as a line where the whole curve is known."""
    places = [(across(epsilon), vertical(error)) for epsilon, error in front.curve() if epsilon > 0]
    if not places:
        return Markup("")
    if exact:
        return shape("path", d=polygon(places), style=curve_style(index))
    steps = "".join(f"H{coordinate(x)}V{coordinate(y)}" for x, y in places[1:])
    return shape("path", d=f"{polygon(places[:1])}{steps}H{coordinate(RIGHT)}", style=curve_style(index))


def _band(front: Front, across: Axis, vertical: Axis, colour: str) -> Markup:
    """The spread of single runs, as steps along the front."""
    rows = [
        row
        for row, point in zip(front.band(BAND_SHARE), front.points, strict=True)
        if len(point.errors) > 1 and row[0] > 0
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


def _described(front: Front) -> str:
    points, name = front.points, readable(front.name, 60) or "the front"
    if not points:
        return f"{name} has no points"
    first, last = points[0], points[-1]
    return (
        f"{name} has {len(points)} points, from epsilon {first.epsilon:.3g} with {first.error:.3g} to epsilon "
        f"{last.epsilon:.3g} with {last.error:.3g}"
    )
