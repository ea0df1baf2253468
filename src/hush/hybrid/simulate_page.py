"""The page of `hush hybrid simulate`: errors of means and head lists before anybody is asked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from hush._version import __version__
from hush.core.errors import DataError
from hush.hybrid.amplification import amplified_epsilon
from hush.hybrid.mean_errors import MeanSetting
from hush.hybrid.simulated_errors import Line, SimulatedErrors, SimulateOptions, mean_setting, two_digits
from hush.render.markup import Markup, lines, shape, tag
from hush.render.text_table import TextTable, fixed_text, number_columns
from hush.report.charts import picture
from hush.report.page import page_html

WIDE, TALL, LEFT, BELOW, TOP = 440.0, 260.0, 58.0, 40.0, 12.0
STROKES = (
    ("var(--bar)", None),
    ("var(--below)", "7 4"),
    ("var(--naive)", "2 3"),
    ("var(--ink)", "10 3 2 3"),
)


def line_chart(title: str, across: str, up: str, drawn: Sequence[Line], number: int) -> Markup:
    """Lines on two logarithmic axes, with a mark at every point; points that are not positive are left out."""
    points = [(x, y) for line in drawn for x, y in zip(line.x, line.y, strict=True) if x > 0 and y > 0]
    if not points:
        raise DataError("a chart without points")
    low_x, high_x = min(x for x, _ in points), max(x for x, _ in points)
    low_y, high_y = min(y for _, y in points), max(y for _, y in points)

    def place(value: float, low: float, high: float, start: float, stop: float) -> float:
        return start + (math.log(value / low) / math.log(high / low) if high > low else 0.5) * (stop - start)

    def at(x: float, y: float) -> tuple[float, float]:
        return place(x, low_x, high_x, LEFT, WIDE - 12), place(y, low_y, high_y, TALL - BELOW, TOP)

    content: list[Markup] = []
    for tick in _ticks(low_y, high_y):
        y = at(low_x, tick)[1]
        content.append(shape("line", x1=LEFT, x2=WIDE - 12, y1=y, y2=y, stroke="var(--rule)"))
        content.append(_text(f"{tick:g}", LEFT - 6, y + 4, "end"))
    below = TALL - BELOW + 16
    content += [_text(f"{tick:g}", at(tick, low_y)[0], below, "middle") for tick in _ticks(low_x, high_x)]
    content.append(_text(across, (LEFT + WIDE) / 2, TALL - 4, "middle"))
    for line, (colour, dashes) in zip(drawn, STROKES, strict=False):
        places = [at(x, y) for x, y in zip(line.x, line.y, strict=True) if x > 0 and y > 0]
        path = " ".join(f"{'L' if i else 'M'}{x:.1f} {y:.1f}" for i, (x, y) in enumerate(places))
        content.append(shape("path", d=path, fill="none", stroke=colour, stroke_width="2", stroke_dasharray=dashes))
        content += [shape("circle", cx=x, cy=y, r=2.2, fill=colour) for x, y in places]
    ends = "; ".join(f"{line.name} from {line.y[0]:.3g} to {line.y[-1]:.3g}" for line in drawn)
    image = picture(title, f"{up} against {across}: {ends}.", number, TALL, *content)
    keys = [
        tag("span", tag("span", "\u25a0 ", style=f"color: {colour}"), f"{line.name}   ")
        for line, (colour, _) in zip(drawn, STROKES, strict=False)
    ]
    return tag("figure", tag("h3", title), image, tag("figcaption", f"{up}. ", *keys))


def _text(text: str, x: float, y: float, anchor: str) -> Markup:
    return shape("text", text, x=x, y=y, text_anchor=anchor, font_size="11", fill="var(--soft)")


def _ticks(low: float, high: float) -> list[float]:
    """One, two and five times powers of ten within a range; the ends if there are none."""
    powers = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    found = [step * 10.0**power for power in powers for step in (1, 2, 5)]
    inside = [tick for tick in found if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9)]
    if len(inside) > 7:
        inside = [tick for tick in inside if abs(math.log10(tick) - round(math.log10(tick))) < 1e-9] or inside
    return inside or [low, high]


def simulate_html(found: SimulatedErrors) -> str:
    """The page of simulated errors."""
    options, lists = found.options, found.head_list
    body = lines(
        tag("h1", "What two groups would tell you"),
        tag(
            "p",
            f"{options.people:,} people, of whom {100 * options.share:g} % let a curator see their data. Everybody is "
            f"promised epsilon {options.epsilon:g}. Nobody was asked: errors of means are exact formulas, and head "
            "lists are simulated on invented people.",
            class_="lead",
        ),
        tag("h2", "A mean"),
        tag(
            "p",
            f"Root mean squared error of the mean of numbers in a range of {options.width:,.10g} with standard "
            f"deviation {options.stddev:,.10g}. Lower is better.",
        ),
        tag(
            "div",
            line_chart("Error against epsilon", "epsilon", "Root mean squared error", found.mean_by_epsilon, 1),
            line_chart(
                "Error against the share who opt in",
                "share who opt in",
                "Root mean squared error",
                found.mean_by_share,
                2,
            ),
            class_="figures",
        ),
        tag("div", _gains(options).html(page=True), class_="scroll"),
        tag("h3", "If both groups added Gaussian noise"),
        tag(
            "p",
            "The noise of one group would then also protect the other, against someone who sees only the published "
            "mean. hush adds other noise to means: what it promises is the epsilon above.",
        ),
        tag("div", _amplified(options).html(page=True), class_="scroll"),
        tag("h2", "A head list"),
        tag(
            "p",
            f"Sum of the errors of the shares of the ten most common queries of {options.log_people:,} invented "
            "people. Lower is better. Where fewer than ten queries were found, there is no point.",
        ),
        tag(
            "div",
            line_chart("Error against epsilon, head list", "epsilon", "l1 distance", lists, 3),
            class_="figures",
        )
        if any(line.y for line in lists)
        else tag("p", "No head list of ten queries was found at any epsilon; more people must opt in."),
        tag("h2", "What this does not say"),
        tag(
            "p",
            "Both groups are taken to be alike. If people who opt in differ from the others, a mean with these weights "
            "is biased, and more people do not help. Weights by the number of people avoid that, with more noise.",
        ),
        tag("p", f"Made by hush {__version__}.", class_="soft"),
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
    notes = [f"Epsilon against someone who sees only the mean, at delta {options.delta:g} and the best weight."]
    return TextTable(columns=number_columns("opt in", "opt-in people", "clients"), rows=rows, notes=notes)
