"""Bars are as wide as their bins, their areas compare, the last edge is labelled, and point masses stand apart."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hush.release.release import Release
from hush.render.charts import CHART_WIDTH
from hush.report import report_html
from hush.report.count_charts import bar_chart
from hush.report.level_groups import group_levels, grouped
from hush.schema import Column, Integer, Numeric, Schema

BAR = re.compile(r'<title>([^:<]*): [^<]*</title><rect x="([\d.-]+)" y="([\d.-]+)" width="([\d.]+)" height="([\d.]+)"')
MARK = re.compile(r'<text x="([\d.]+)" y="[\d.]+" class="mark mid">([^<]*)<')


def chart(make: Callable[..., Release], column: Column, counts: Any, variance: float = 1.0) -> str:
    release = make(Schema([column]), order=1, counts={(column.name,): counts}, variance=variance)
    return bar_chart(grouped(release.estimates, (group_levels(column, np.asarray(counts, float), 60),)), 1)


def bars(text: str) -> dict[str, tuple[float, float, float, float]]:
    """Label -> x, y, width, height."""
    return {label: (float(x), float(y), float(w), float(h)) for label, x, y, w, h in BAR.findall(text)}


def marks(text: str) -> dict[str, float]:
    return {label: float(x) for x, label in MARK.findall(text)}


def test_bars_are_as_wide_as_their_bins_and_areas_compare(make: Callable[..., Release]) -> None:
    text = chart(make, Numeric(name="x", edges=(0, 10, 30, 70, 100)), [1000.0, 1000.0, 1000.0, 500.0])
    drawn = bars(text)
    places = marks(text)
    scale = (places["100"] - places["0"]) / 100
    assert places["30"] - places["10"] == pytest.approx(20 * scale, abs=0.2)
    assert drawn["30 to 70"][2] + 4 == pytest.approx(40 * scale, abs=0.3)
    heights = [drawn[label][3] for label in ("0 to 10", "10 to 30", "30 to 70", "70 to 100")]
    assert heights == pytest.approx([heights[0] / k for k in (1, 2, 4, 6)], abs=0.2)


def test_the_last_edge_is_labelled(make: Callable[..., Release]) -> None:
    equal = Numeric.equal_width(name="income", low=0, high=120_000, bins=24, missing=True)
    places = marks(chart(make, equal, [100.0] * 25))
    assert {"0", "25,000", "100,000", "120,000", "(missing)"} <= set(places)
    assert places["(missing)"] - places["120,000"] > 0.6 * 11 * (len("120,000") + len("(missing)")) / 2
    assert max(places.values()) < CHART_WIDTH
    assert "99" in marks(chart(make, Integer(name="age", low=0, high=99), [100.0] * 100))


def test_a_point_mass_stands_apart_and_leaves_the_others_visible(make: Callable[..., Release]) -> None:
    counts = np.full(50, 20.0)
    counts[0] = 9000.0
    text = chart(make, Integer(name="gain", low=0, high=49), counts, variance=9.0)
    drawn = bars(text)
    assert drawn["exactly 0"][0] + drawn["exactly 0"][2] < drawn["1"][0]
    assert drawn["1"][3] > 100  # of 210; beside 9,000 rows it would be less than a pixel high
    assert drawn["exactly 0"][3] / (210 - 26 - 16) == pytest.approx(9000 / 9980, abs=0.03)
    assert ">9,000<" in text


def test_bars_of_few_bins_lie_and_say_nothing_of_widths(make: Callable[..., Release], read_page: Any) -> None:
    counts = {("x",): [100.0, 200.0, 300.0]}
    page = read_page(report_html(make(Schema([Numeric(name="x", edges=(0, 1, 10, 70))]), order=1, counts=counts)))
    (caption,) = [text for text in page.texts("figcaption") if text.startswith("Within")]
    assert "wide" not in caption
    assert "height" not in caption


def test_levels_of_equal_width_share_one_axis(make: Callable[..., Release]) -> None:
    text = chart(make, Numeric(name="x", edges=(0, 10, 20, 30), missing=True), [100.0, 50.0, 25.0, 50.0])
    drawn = bars(text)
    assert drawn["(missing)"][3] == pytest.approx(drawn["10 to 20"][3], abs=0.1)


def test_long_intervals_of_narrow_bins_leave_room_for_the_bars(make: Callable[..., Release]) -> None:
    edges = (0, 1, 30, 60, 90)
    text = chart(make, Numeric(name="x", edges=edges), [3.0, 1000.0, 1000.0, 1000.0], variance=10_000.0)
    assert bars(text)["60 to 90"][3] > 60
    ends = [float(y) for y in re.findall(r"M[\d.]+ ([\d.-]+)h", text)]
    assert min(ends) >= 0
    assert max(ends) <= 210


def test_unknown_errors_are_drawn_without_intervals(make: Callable[..., Release]) -> None:
    text = chart(make, Numeric(name="x", edges=(0, 10, 30, 70, 100)), [1000.0, 1.0, 1.0, 500.0], variance=float("nan"))
    assert "whisker" not in text
    assert "nan" not in text
