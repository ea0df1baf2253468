"""Plots show the numbers they are given, with their intervals, and nothing is read as a formula."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from hush.errors import HushError
from hush.render.plots import Series, new_axes, plain_text, plot_bars, plot_errors, plot_lines, plot_shades

matplotlib = pytest.importorskip("matplotlib")
pyplot = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def _closed_figures():
    pyplot.switch_backend("Agg")
    yield
    pyplot.close("all")


def series(name: str, *estimates: float, reach: float = 2.0) -> Series:
    values = np.array(estimates)
    return Series(name, values, values - reach, values + reach)


def whiskers(axes) -> list[tuple[float, float]]:
    """The ends of all error bars."""
    bars = [part for part in axes.containers if type(part).__name__ == "ErrorbarContainer"]
    return [
        tuple(np.ptp(segment, axis=0)) for bar in bars for lines in bar.lines[2] for segment in lines.get_segments()
    ]


def test_bars_have_the_heights_and_intervals_given() -> None:
    axes = plot_bars(["a", "b"], [series("x", 5.0, -1.0), series("y", 3.0, 4.0, reach=1.0)], names=("level", "kind"))
    assert [bar.get_height() for bar in axes.patches] == [5.0, -1.0, 3.0, 4.0]
    assert [height for _, height in whiskers(axes)] == [4.0, 4.0, 2.0, 2.0]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["x", "y"]


def test_long_labels_turn_the_bars() -> None:
    axes = plot_bars(["a long name " * 4, "b"], [series("x", 5.0, 2.0)] * 2, names=("level", "kind"))
    assert [bar.get_width() for bar in axes.patches] == [5.0, 2.0] * 2
    assert [width for width, _ in whiskers(axes)] == [4.0] * 4


def test_an_unknown_interval_is_no_error_bar() -> None:
    unknown = Series("x", np.array([5.0]), np.array([np.nan]), np.array([np.nan]))
    assert unknown.reach.tolist() == [[0.0], [0.0]]


def test_levels_apart_are_points_beside_the_line() -> None:
    axes = plot_lines(["1", "2", "3", "(missing)"], [series("x", 1, 2, 3, 9)], names=("level", ""), apart=1)
    assert [len(line.get_xdata()) for line in axes.lines if line.get_label() == "x"] == [3]
    assert whiskers(axes) == [(0.0, 4.0)]


@pytest.mark.parametrize(
    ("labels", "apart", "shown"),
    [
        ([str(age) for age in range(100)], 0, [str(age) for age in range(0, 100, 10)]),
        ([str(age) for age in range(18, 90)], 0, ["20", "30", "40", "50", "60", "70", "80"]),
        ([*(f"[{n}, {n + 1})" for n in range(40)), "(missing)"], 1, ["[0, 1)", "[10, 11)", "(missing)"]),
        (["a", "b"], 0, ["a", "b"]),
    ],
)
def test_round_levels_are_labelled_and_those_apart(labels: list[str], apart: int, shown: list[str]) -> None:
    axes = plot_lines(labels, [series("x", *range(len(labels)))], names=("level", ""), apart=apart)
    marked = [text.get_text() for text in axes.get_xticklabels()]
    assert set(shown) <= set(marked)
    assert len(marked) <= 12
    assert [labels[round(place)] for place in axes.get_xticks()] == marked


def test_shades_hatch_what_may_be_zero() -> None:
    cells = np.array([[9.0, 1.0], [8.0, -7.0]])
    axes = plot_shades(["a", "b"], ["c", "d"], cells, np.full((2, 2), 2.0), names=("row", "column"), axes=None)
    hatched = [part for part in axes.collections if part.get_hatch()]
    assert len(hatched) == 1
    assert hatched[0].get_array().mask.tolist() == [[True, False], [True, False]]
    assert {text.get_text() for text in axes.texts} == {"9", "1", "8", "-7"}


def test_errors_are_dots_in_the_order_given() -> None:
    axes = plot_errors(["a", "a x b"], np.array([1.0, 3.0]), [1, 2])
    assert [text.get_text() for text in axes.get_yticklabels()] == ["a", "a x b"]
    assert [list(line.get_xdata()) for line in axes.lines] == [[1.0], [3.0]]


def test_labels_are_no_formulas_and_no_control_characters() -> None:
    assert plain_text("$5\u202e") == "\\$5\\u202e"
    axes = plot_bars(["$5", "$_{", "a\nb"], [series("x", 1, 2, 3)], names=("$price$", ""))
    axes.figure.canvas.draw()  # an unfinished formula would raise
    assert axes.get_xlabel() == "\\$price\\$"


def test_axes_that_are_given_are_drawn_into() -> None:
    _, (left, right) = pyplot.subplots(1, 2)
    assert plot_bars(["a"], [series("x", 1.0)], names=("", ""), axes=right) is right
    assert not left.patches


def test_without_matplotlib_the_message_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(HushError, match=r"pip install 'hush\[plots\]'"):
        new_axes(None)
