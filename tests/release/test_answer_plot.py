"""Which plot answers get: bars, lines or shades, and what they refuse."""

from __future__ import annotations

import matplotlib
import numpy as np
import pytest

import hush
from hush.errors import QueryError
from hush.release.answers import Answers
from hush.schema import Categorical, Integer, Schema

matplotlib.use("Agg")

SCHEMA = Schema(
    [
        Integer(name="age", low=0, high=39, missing=True),
        Categorical(name="sex", values=("f", "m")),
        Categorical(name="town", values=tuple("abcdefgh")),
        Integer(name="rooms", low=1, high=3),
    ]
)


@pytest.fixture(autouse=True)
def _closed_figures():
    yield
    from matplotlib import pyplot

    pyplot.close("all")


def answers(*names: str) -> Answers:
    counts = np.arange(np.prod(SCHEMA.domain.sizes(names)), dtype=float).reshape(SCHEMA.domain.sizes(names)) + 10
    return Answers.of_marginal(SCHEMA, names, counts, 4.0)


@pytest.mark.parametrize(
    ("names", "patches", "lines", "images"),
    [
        ((), 1, 0, 0),
        (("sex",), 2, 0, 0),
        (("sex", "rooms"), 6, 0, 0),
        (("rooms", "sex"), 6, 0, 0),
        (("age",), 0, 1, 0),
        (("sex", "age"), 0, 2, 0),
        (("age", "rooms"), 0, 3, 0),
        (("town", "age"), 0, 0, 1),
        (("town", "town2"), 0, 0, 1),
    ],
)
def test_the_columns_choose_the_plot(names, patches, lines, images) -> None:
    if "town2" in names:
        other = Schema([*SCHEMA, Categorical(name="town2", values=tuple("abcdefghij"))])
        axes = Answers.of_marginal(other, names, np.ones((8, 10)), 4.0).plot()
    else:
        axes = answers(*names).plot()
    drawn = [line for line in axes.lines if len(line.get_xdata()) == 40]
    assert (len(axes.patches), len(drawn), len(axes.images)) == (patches, lines, images)


def test_cells_stand_where_their_levels_are() -> None:
    axes = answers("sex", "rooms").plot()
    assert [bar.get_height() for bar in axes.patches] == [10, 11, 12, 13, 14, 15]  # f by rooms, then m by rooms
    assert [text.get_text() for text in axes.get_xticklabels()] == ["1", "2", "3"]
    turned = answers("rooms", "sex").plot()
    assert [bar.get_height() for bar in turned.patches] == [10, 12, 14, 11, 13, 15]


def test_rows_in_any_order_give_the_same_plot() -> None:
    whole = answers("sex", "rooms")
    shuffled = whole.take(np.array([5, 0, 3, 1, 4, 2]))
    heights = [[bar.get_height() for bar in part.plot().patches] for part in (whole, shuffled)]
    assert heights[0] == heights[1]


def test_the_title_says_what_the_error_bars_are() -> None:
    assert answers("sex").at_level(0.9).plot().get_title(loc="left") == "count by sex, 90 % intervals"
    unknown = Answers.of_marginal(SCHEMA, ("sex",), [1.0, 2.0], None, error_kind="none")
    assert unknown.plot().get_title(loc="left") == "count by sex, errors not known"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (lambda: answers("age", "sex", "rooms").plot(), "at most two columns"),
        (lambda: answers("sex").plot(kind="pie"), "'auto', 'bars', 'lines', 'shades'"),
        (lambda: answers("sex").plot(kind="shades"), "shades show two columns"),
        (lambda: answers("sex").take(np.array([], dtype=int)).plot(), "no rows"),
    ],
)
def test_what_a_plot_cannot_show_is_refused(asked, message) -> None:
    with pytest.raises(QueryError, match=message):
        asked()


def test_a_release_and_its_plan_plot_themselves() -> None:
    schema = hush.datasets.people_schema()
    table = hush.read(hush.datasets.people(300, seed=1), schema)
    plan = hush.plan("sex; region; sex,region", hush.Budget(rho=0.5), "residual", schema=schema)
    axes = plan.plot()
    assert [text.get_text() for text in axes.get_yticklabels()] == ["sex x region", "region", "sex"]
    release = plan.release(table)
    answered = release.marginal("region", "sex")
    heights = sorted(bar.get_height() for bar in release.plot("region", "sex").patches)
    assert heights == sorted(answered.estimate.tolist())
    assert "<table>" in plan._repr_html_()
    several = release.sql(
        "SELECT sex, COUNT(*) AS n, COUNT(*) FILTER (WHERE region = 'North') AS north FROM t GROUP BY 1"
    )
    panels = several.plot()
    assert [panel.get_title(loc="left").split(" by ")[0] for panel in panels] == ["n", "north"]
    assert [len(panel.patches) for panel in panels] == [2, 2]
    with pytest.raises(QueryError, match=r"answers\['n'\]\.plot\(axes=...\)"):
        several.plot(axes=panels[0])
    assert len(several["n"].plot().patches) == 2


def test_errors_that_nobody_knows_are_not_plotted() -> None:
    plan = hush.plan("sex; region", hush.Budget(rho=0.5), "mst", schema=hush.datasets.people_schema())
    with pytest.raises(hush.HushError, match="not known beforehand"):
        plan.plot()
