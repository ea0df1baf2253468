"""`hush hybrid simulate`: errors of means by closed forms and of head lists by simulation, and their page."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from hush.core.errors import DataError
from hush.core.validation import check_number, check_whole
from hush.hybrid.blender_simulation import search_log, simulate_blender
from hush.hybrid.heat_maps import EPSILONS, SHARES, HeatMap, amplification_map, gain_map
from hush.hybrid.mean_errors import MeanSetting, amplified_epsilon, client_noise
from hush.hybrid.promises import Promise
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
from hush.render.text_table import TextColumn, TextTable, fixed_text, number_columns

MOST_QUERIES = 10
LIST_EPSILONS = (1.0, 2.0, 3.0, 4.0, 6.0)
LIST_METHODS = {"both": "both groups", "opt-in": "opt-in people alone", "clients": "clients alone"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulateOptions:
    """The people of a simulation, the share who opt in, epsilon, delta, and the spread of their numbers."""

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
            raise DataError(f"stddev={self.stddev:g}: expected at most half of the range, {self.width / 2:g}")
        check_number(DataError, "epsilon", self.epsilon, above=0, most=32)
        check_number(DataError, "delta", self.delta, above=0, most=0.5)
        check_number(DataError, "share", self.share, above=0, below=1)
        check_whole(DataError, "people", self.people, least=100, most=10**9)
        check_whole(DataError, "log_people", self.log_people, least=1000, most=10**7)
        check_whole(DataError, "runs", self.runs, least=1, most=100)


@dataclass(frozen=True, slots=True)
class Line:
    """The errors of one method, at several epsilons or several shares of opt-in people."""

    name: str
    x: Sequence[float]
    y: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedErrors:
    """Root mean squared errors of a mean, and total errors of the shares of a head list, by method.

    `mean` has the errors at the epsilon and the share of the options. Lines of `head_list` omit epsilons at which fewer
    than ten queries were found.
    """

    options: SimulateOptions
    mean: dict[str, float]
    mean_by_epsilon: list[Line]
    mean_by_share: list[Line]
    head_list: list[Line]

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""

        def plain(lines: list[Line], axis: str) -> dict[str, Any]:
            return {axis: list(lines[0].x), "errors": {line.name: list(line.y) for line in lines}}

        return {
            "options": asdict(self.options),
            "mean": self.mean,
            "mean by epsilon": plain(self.mean_by_epsilon, "epsilon"),
            "mean by share": plain(self.mean_by_share, "share"),
            "maps": {
                name: shown.to_dict() for name, shown in zip(("gain", "amplified"), maps(self.options), strict=True)
            },
            "head list by epsilon": plain(self.head_list, "epsilon"),
        }

    def tables(self) -> tuple[TextTable, TextTable]:
        """The errors of a mean and of head lists, as tables to read."""
        options, lists = self.options, self.head_list
        asked = f"{options.people:,} people, {100 * options.share:g} % of whom opt in, at epsilon {options.epsilon:g}"
        spread = f"Numbers in a range of {options.width:,.10g} with standard deviation {options.stddev:,.10g}."
        means = TextTable(
            title=f"A mean of {asked}",
            columns=(TextColumn(heading="method"), *number_columns("typical error")),
            rows=[(name, two_digits(error)) for name, error in self.mean.items()],
            notes=[f"{spread} The typical error is the root mean squared error."],
        )
        epsilons = [str(float(f"{epsilon:.3g}")).removesuffix(".0") for epsilon in lists[0].x]
        errors = [[two_digits(line.y[i]) for line in lists] for i in range(len(epsilons))]
        return means, TextTable(
            title=f"A head list of {options.log_people:,} invented people, {100 * options.share:g} % of whom opt in",
            columns=number_columns("epsilon", *(line.name for line in lists)) if epsilons else (),
            rows=[(epsilon, *row) for epsilon, row in zip(epsilons, errors, strict=True)],
            notes=[
                f"Errors of the shares of the {MOST_QUERIES} most common queries, added up."
                if epsilons
                else f"No list of {MOST_QUERIES} queries was found at any epsilon; more people must opt in."
            ],
        )


def simulate_errors(
    options: SimulateOptions, progress: Callable[[float], None] = lambda share: None
) -> SimulatedErrors:
    """Predict the errors. Those of means are exact; those of head lists change with the noise of each simulation."""
    epsilons = [float(value) for value in np.geomspace(options.epsilon / 8, options.epsilon * 8, 13) if value <= 32]
    least = max(0.001, 2 / options.people)
    shares = [float(value) for value in np.geomspace(least, 0.3, 13)]
    here = _mean_lines(options, [(options.epsilon, options.share)], [options.epsilon])
    return SimulatedErrors(
        options=options,
        mean={line.name: line.y[0] for line in here},
        mean_by_epsilon=_mean_lines(options, [(epsilon, options.share) for epsilon in epsilons], epsilons),
        mean_by_share=_mean_lines(options, [(options.epsilon, share) for share in shares], shares),
        head_list=_list_lines(options, progress),
    )


def mean_setting(options: SimulateOptions, epsilon: float, share: float) -> MeanSetting:
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
    means = [mean_setting(options, epsilon, share) for epsilon, share in settings]
    return [
        Line("both groups", x, [math.sqrt(mean.error(mean.best_weight).total) for mean in means]),
        Line("opt-in people alone", x, [math.sqrt(mean.curator_error.total) for mean in means]),
        Line("everybody as a client", x, [math.sqrt(mean.everybody_error.total) for mean in means]),
    ]


def _list_lines(options: SimulateOptions, progress: Callable[[float], None]) -> list[Line]:
    log = search_log(options.log_people, seed=1)
    x: list[float] = []
    found: dict[str, list[float]] = {key: [] for key in LIST_METHODS}
    epsilons = sorted({*LIST_EPSILONS, options.epsilon})
    for done, epsilon in enumerate(epsilons):
        promise = Promise.of(epsilon, options.delta)
        runs = [
            simulate_blender(log, promise, opt_in_share=options.share, most_queries=MOST_QUERIES, seed=seed)
            for seed in range(options.runs)
        ]
        progress((done + 1) / len(epsilons))
        if all(run.reached for run in runs):
            x.append(epsilon)
            errors = [run.share_errors() for run in runs]
            for key, values in found.items():
                values.append(float(np.mean([error[key] for error in errors])))
    return [Line(LIST_METHODS[key], x, values) for key, values in found.items()]


def two_digits(number: float) -> str:
    """A number with two significant digits at least, without an exponent.

    >>> two_digits(0.00123), two_digits(0.25), two_digits(12.34), two_digits(52345.6)
    ('0.0012', '0.25', '12', '52,346')
    """
    return fixed_text(number, max(1 - math.floor(math.log10(number)), 0) if number > 0 else 0)


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
    # maps over two settings
    gains, amplified = maps(options)
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
        "The noise of each group then also protects the other, against someone who sees only the published mean. With "
        "other noise, and against everybody else, the promise is the epsilon above."
    )
    of_gains = "How many times smaller the mean squared error of both groups is than that of the better group alone."
    of_coalitions = "The larger epsilon of both groups. A coalition is the share of clients who reveal their noise."
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
        _map_figure("How much both groups gain together", gains, 4, of_gains),
        tag("h3", "If both groups add Gaussian noise"),
        tag("p", of_gaussian_noise),
        scrolling(_amplified(options)),
        _map_figure("Epsilon against someone who sees only the mean", amplified, 5, of_coalitions),
        tag("h2", "A head list"),
        tag("p", of_lists),
        list_chart,
        tag("h2", "What this does not say"),
        tag("p", limits),
        made_by(),
    )
    return page_html(body, title="Two groups, simulated")


def maps(options: SimulateOptions) -> tuple[HeatMap, HeatMap]:
    """The gain over shares and epsilons, and epsilon against outsiders over shares and coalitions."""
    shares = [share for share in SHARES if options.people * share >= 1]
    gains = gain_map(
        options.people,
        options.stddev**2,
        width=options.width,
        shares=shares,
        epsilons=EPSILONS,
        setting=lambda share, epsilon: mean_setting(options, epsilon, share),
    )
    amplified = amplification_map(
        options.people,
        options.stddev**2,
        epsilon=options.epsilon,
        delta=options.delta,
        width=options.width,
        shares=shares,
    )
    return gains, amplified


def _map_figure(title: str, shown: HeatMap, number: int, caption: str) -> Markup:
    chart = tag("figure", tag("h3", title), shown.chart(number), tag("figcaption", caption))
    return tag("div", chart, class_="figures")


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
