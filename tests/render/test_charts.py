"""Axes of charts: linear ones hold zero, logarithmic ones have round ticks inside, labels do not touch."""

import re

import pytest

from hush.render.charts import MOST_LOG_TICKS, Axis, vertical_grid


def test_an_axis_holds_zero_and_has_round_marks() -> None:
    axis = Axis.linear(12.0, 87.0, start=10, stop=110)
    assert axis.low == 0
    assert axis(0.0) == 10
    assert axis.ticks == (0.0, 25.0, 50.0, 75.0)
    assert Axis.linear(0.0, 0.0, start=0, stop=1).ticks[0] == 0.0
    assert Axis.linear(-5.0, -1.0, start=0, stop=1).high == 0.0
    assert Axis.linear(float("nan"), 3.0, start=0, stop=1).high > 0


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [(0.9, 11, [1, 2, 5, 10]), (1e-4, 1, [1e-4, 1e-3, 1e-2, 0.1, 1]), (1.1, 1.2, [1.1, 1.2]), (7.0, 7.0, [7.0])],
)
def test_ticks_of_logarithms_are_round_and_inside(low: float, high: float, ticks: list[float]) -> None:
    axis = Axis.logarithmic(low, high, start=0, stop=100)
    assert list(axis.ticks) == pytest.approx(ticks)
    assert all(0 <= axis(tick) <= 100 for tick in axis.ticks)


def test_a_wide_range_of_logarithms_has_few_ticks() -> None:
    assert len(Axis.logarithmic(1e-15, 1e15, start=0, stop=1).ticks) <= MOST_LOG_TICKS


def test_logarithms_are_evenly_spaced() -> None:
    axis = Axis.logarithmic(1, 100, start=0, stop=100)
    assert axis(10) - axis(1) == pytest.approx(axis(100) - axis(10))


def test_labels_of_a_narrow_axis_are_thinned_from_zero() -> None:
    axis = Axis.linear(0, 1_000_000, start=0, stop=120, marks=5)
    labels = re.findall(r">([^<]*)</text>", vertical_grid(axis, 0, 10))
    assert labels[0] == "0"
    assert 1 < len(labels) < len(axis.ticks)
