"""The page of `hush hybrid simulate`: errors of means and head lists before anybody is asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hush.core.errors import DataError
from hush.hybrid.amplification import amplified_epsilon
from hush.hybrid.mean_errors import MeanSetting
from hush.hybrid.simulated_errors import Line, SimulatedErrors, SimulateOptions, mean_setting, two_digits
from hush.render.charts import (
    CHART_WIDTH,
    CURVE_COLOURS,
    Axis,
    curve_style,
    horizontal_grid,
    picture,
    polygon,
    vertical_grid,
)
from hush.render.html_page import made_by, page_html, scrolling
from hush.render.markup import Markup, lines, shape, tag
from hush.render.text_table import TextTable, fixed_text, number_columns

CHART_HEIGHT, TOP, BOTTOM = 260.0, 12.0, 40.0


def line_chart(title: str, across: str, up: str, drawn: Sequence[Line], number: int) -> Markup:
    """Lines on two logarithmic axes, with a mark at every point; points that are not positive are left out."""
    curves = [[(x, y) for x, y in zip(line.x, line.y, strict=True) if x > 0 and y > 0] for line in drawn]
    points = [point for curve in curves for point in curve]
    if not points:
        raise DataError("a chart without points")
    bottom = CHART_HEIGHT - BOTTOM
    vertical = Axis.logarithmic(min(y for _, y in points), max(y for _, y in points), start=bottom, stop=TOP)
    left, right = vertical.label_width + 12, CHART_WIDTH - 12
    horizontal = Axis.logarithmic(min(x for x, _ in points), max(x for x, _ in points), start=left, stop=right)
    content = [
        horizontal_grid(vertical, left, right),
        vertical_grid(horizontal, TOP, bottom),
        tag("text", across, x=(left + right) / 2, y=CHART_HEIGHT - 4, class_="mark mid"),
    ]
    keys = []
    for index, (line, curve) in enumerate(zip(drawn, curves, strict=True)):
        places = [(horizontal(x), vertical(y)) for x, y in curve]
        colour = CURVE_COLOURS[index % len(CURVE_COLOURS)]
        content.append(shape("path", d=polygon(places), style=curve_style(index)))
        content += [shape("circle", cx=x, cy=y, r=2.2, fill=colour) for x, y in places]
        keys.append(tag("span", tag("span", "\u25a0 ", style=f"color: {colour}"), f"{line.name}   "))
    ends = "; ".join(f"{line.name} from {line.y[0]:.3g} to {line.y[-1]:.3g}" for line in drawn)
    image = picture(title, f"{up} against {across}: {ends}.", number, CHART_HEIGHT, *content)
    return tag("figure", tag("h3", title), image, tag("figcaption", f"{up}. ", *keys))


def simulate_html(found: SimulatedErrors) -> str:
    """The page of simulated errors."""
    options, lists = found.options, found.head_list
    # errors of a mean, by epsilon and by share
    error = "Root mean squared error"
    mean_charts = (
        line_chart("Error against epsilon", "epsilon", error, found.mean_by_epsilon, 1),
        line_chart("Error against the share who opt in", "share who opt in", error, found.mean_by_share, 2),
    )
    # errors of a head list, if one was found
    if any(line.y for line in lists):
        chart = line_chart("Error against epsilon, head list", "epsilon", "l1 distance", lists, 3)
        list_chart = tag("div", chart, class_="figures")
    else:
        list_chart = tag("p", "No head list of ten queries was found at any epsilon; more people must opt in.")
    # the texts
    lead = (
        f"{options.people:,} people, of whom {100 * options.share:g} % let a curator see their data. Everybody is "
        f"promised epsilon {options.epsilon:g}. Nobody was asked: errors of means are exact formulas, and head lists "
        "are simulated on invented people."
    )
    of_means = (
        f"Root mean squared error of the mean of numbers in a range of {options.width:,.10g} with standard deviation "
        f"{options.stddev:,.10g}. Lower is better."
    )
    of_gaussian_noise = (
        "The noise of one group would then also protect the other, against someone who sees only the published mean. "
        "hush adds other noise to means: its promise is the epsilon above."
    )
    of_lists = (
        f"Total error of the shares of the ten most common queries of {options.log_people:,} invented people. Lower is "
        "better. There is no point where fewer than ten queries were found."
    )
    limits = (
        "Both groups are assumed to be alike. If people who opt in differ from the others, a mean with these weights "
        "is biased, and more people do not help. Weights by the number of people avoid this, with more noise."
    )
    body = lines(
        tag("h1", "What two groups would tell you"),
        tag("p", lead, class_="lead"),
        tag("h2", "A mean"),
        tag("p", of_means),
        tag("div", *mean_charts, class_="figures"),
        scrolling(_gains(options)),
        tag("h3", "If both groups added Gaussian noise"),
        tag("p", of_gaussian_noise),
        scrolling(_amplified(options)),
        tag("h2", "A head list"),
        tag("p", of_lists),
        list_chart,
        tag("h2", "What this does not say"),
        tag("p", limits),
        made_by(),
    )
    return page_html(body, title="Two groups, simulated")


def _shares(options: SimulateOptions) -> list[float]:
    """Shares of people who opt in, of at least one person."""
    return [share for share in sorted({0.001, 0.01, options.share, 0.1}) if options.people * share >= 1]


def _gains(options: SimulateOptions) -> TextTable:
    rows = []
    for share in _shares(options):
        setting = mean_setting(options, options.epsilon, share)
        best = setting.best_weight
        gains = (setting.gain(best), setting.gain_over_worse(best))
        rows.append((f"{100 * share:g} %", f"{two_digits(100 * best)} %", *(fixed_text(gain, 2) for gain in gains)))
    headings = ("opt in", "their weight", "gain on better", "gain on worse")
    notes = ["Gain: how many times smaller the mean squared error is than that of the better or the worse group alone."]
    return TextTable(columns=number_columns(*headings), rows=rows, notes=notes)


def _amplified(options: SimulateOptions) -> TextTable:
    rows = []
    for share in _shares(options):
        promised: dict[str, Any] = {
            "people": options.people,
            "share": share,
            "epsilon": options.epsilon,
            "delta": options.delta,
        }
        setting = MeanSetting.gaussian(**promised, variance=options.stddev**2, width=options.width)
        seen = amplified_epsilon(**promised, weight=setting.best_weight)
        rows.append((f"{100 * share:g} %", two_digits(seen.opt_in), two_digits(seen.clients)))
    notes = [
        f"Epsilon against someone who sees only the published mean, at delta {options.delta:g} and the best weight."
    ]
    return TextTable(columns=number_columns("opt in", "opt-in people", "clients"), rows=rows, notes=notes)
