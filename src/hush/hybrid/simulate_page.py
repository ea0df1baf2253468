"""The page of `hush hybrid simulate`: errors against epsilon and against the share who opt in, before anybody is asked.

Means come from closed forms; head lists are simulated on invented people.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hush._version import __version__
from hush.errors import DataError
from hush.hybrid.amplification import amplified_epsilon
from hush.hybrid.blender_simulation import simulate_blender
from hush.hybrid.mean_errors import MeanSetting, client_noise
from hush.hybrid.promises import Promise
from hush.hybrid.search_logs import search_log
from hush.markup import Markup, lines, shape, tag
from hush.report.charts import picture
from hush.report.page import page_html
from hush.text_table import TextTable, number_columns

WIDE, TALL, LEFT, BELOW, TOP = 440.0, 260.0, 58.0, 40.0, 12.0
STROKES = (
    ("var(--bar)", None),
    ("var(--below)", "7 4"),
    ("var(--naive)", "2 3"),
    ("var(--ink)", "10 3 2 3"),
)


@dataclass(frozen=True, slots=True)
class Line:
    """A named line through points."""

    name: str
    x: Sequence[float]
    y: Sequence[float]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulateOptions:
    """What is simulated: how many people, the share who opt in, epsilon, delta, and numbers between two bounds."""

    people: int = 100_000
    share: float = 0.05
    epsilon: float = 1.0
    delta: float = 1e-6
    width: float = 1.0
    stddev: float = 0.25
    log_people: int = 400_000
    runs: int = 1

    def __post_init__(self) -> None:
        if self.stddev > self.width / 2 or self.stddev < 0:
            raise DataError(f"stddev={self.stddev:g}: numbers in a range of {self.width:g} have at most half of that")
        if not (0 < self.epsilon <= 32 and 0 < self.delta <= 0.5 and 0 < self.share < 1):
            raise DataError("expected epsilon from 0 to 32, delta from 0 to 1/2 and a share between 0 and 1")
        if not (100 <= self.people <= 10**9 and 1000 <= self.log_people <= 10**7 and 1 <= self.runs <= 100):
            raise DataError("expected 100 to 10^9 people, 1,000 to 10^7 people who search, and 1 to 100 runs")


def simulate_html(options: SimulateOptions, progress: Callable[[float], None] = lambda share: None) -> str:
    """The page; the same options give the same charts of means, and head lists of new random draws."""
    epsilons = [float(value) for value in np.geomspace(options.epsilon / 8, options.epsilon * 8, 13) if value <= 32]
    least = max(0.001, 2 / options.people)
    shares = [float(value) for value in np.geomspace(least, 0.3, 13)]
    first = _mean_lines(options, [(epsilon, options.share) for epsilon in epsilons], epsilons)
    second = _mean_lines(options, [(options.epsilon, share) for share in shares], shares)
    lists = _list_lines(options, progress)
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
            f"Root mean squared error of the mean of numbers in a range of {options.width:g} with standard deviation "
            f"{options.stddev:g}. Lower is better.",
        ),
        tag(
            "div",
            line_chart("Error against epsilon", "epsilon", "Root mean squared error", first, 1),
            line_chart("Error against the share who opt in", "share who opt in", "Root mean squared error", second, 2),
            class_="figures",
        ),
        tag("div", _gains(options).html(page=True), class_="scroll"),
        tag("h2", "A head list"),
        tag(
            "p",
            f"Sum of the errors of the shares of the ten most common queries of {options.log_people:,} invented "
            "people. Lower is better. Where fewer than ten queries were found, the line has a gap.",
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
            "Both groups are taken to be alike. If people who opt in differ from the others, every mix of the two is "
            "biased, and more people do not help.",
        ),
        tag("p", f"Made by hush {__version__}.", class_="soft"),
    )
    return page_html(body, title="Two groups, simulated")


def _setting(options: SimulateOptions, epsilon: float, share: float) -> MeanSetting:
    """Laplace noise for the curator and the better law for clients."""
    variance = options.stddev**2
    base = MeanSetting.laplace(
        people=options.people, share=share, epsilon=epsilon, variance=variance, width=options.width
    )
    noise = min(
        client_noise(epsilon, mechanism="duchi", variance=variance, width=options.width),
        client_noise(epsilon, mechanism="piecewise", variance=variance, width=options.width),
    )
    return replace(base, client_noise=noise)


def _mean_lines(options: SimulateOptions, settings: list[tuple[float, float]], x: Sequence[float]) -> list[Line]:
    made = [_setting(options, epsilon, share) for epsilon, share in settings]
    return [
        Line("both groups", x, [math.sqrt(s.error(s.best_weight).total) for s in made]),
        Line("opt-in people alone", x, [math.sqrt(s.curator_error.total) for s in made]),
        Line("everybody as a client", x, [math.sqrt(s.everybody_error.total) for s in made]),
    ]


def _gains(options: SimulateOptions) -> TextTable:
    rows = []
    for share in (0.001, 0.01, options.share, 0.1):
        if options.people * share < 1:
            continue
        s = _setting(options, options.epsilon, share)
        gaussian = MeanSetting.gaussian(
            people=options.people,
            share=share,
            epsilon=options.epsilon,
            delta=options.delta,
            variance=options.stddev**2,
            width=options.width,
        )
        seen = amplified_epsilon(
            people=options.people,
            share=share,
            weight=gaussian.best_weight,
            epsilon=options.epsilon,
            delta=options.delta,
        )
        row = (s.best_weight, s.gain(s.best_weight), s.gain_over_worse(s.best_weight), seen.opt_in, seen.clients)
        rows.append((f"{100 * share:g} %", *(f"{value:.3g}" for value in row)))
    headings = ("opt in", "weight", "gain on better", "gain on worse", "epsilon seen, opt-in", "epsilon seen, clients")
    notes = [
        "Gain: times less mean squared error than a group alone. Epsilon seen: towards those who see the mean alone, "
        f"with Gaussian noise at delta {options.delta:g} and the weight that is best for it."
    ]
    return TextTable(columns=number_columns(*headings), rows=list(dict.fromkeys(rows)), notes=notes)


def _list_lines(options: SimulateOptions, progress: Callable[[float], None]) -> list[Line]:
    log = search_log(options.log_people, seed=1)
    x: list[float] = []
    found: dict[str, list[float]] = {"l1": [], "l1 opt-in": [], "l1 clients": []}
    epsilons = (1.0, 2.0, 3.0, 4.0, 6.0)
    for done, epsilon in enumerate(epsilons):
        promise = Promise.of(epsilon, options.delta)
        runs = [
            simulate_blender(log, promise, opt_in_share=options.share, most_queries=10, seed=seed)
            for seed in range(options.runs)
        ]
        progress((done + 1) / len(epsilons))
        if all(run.reached for run in runs):
            x.append(epsilon)
            scores = [run.scores() for run in runs]
            for key, values in found.items():
                values.append(float(np.mean([score[key] for score in scores])))
    names = {"l1": "both groups", "l1 opt-in": "opt-in people alone", "l1 clients": "clients alone"}
    return [Line(names[key], x, values) for key, values in found.items()]
