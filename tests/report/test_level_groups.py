"""Levels as they are drawn: in round steps, by calendar, or the largest ones, and always all of them."""

import datetime as dt

import numpy as np
import pytest

from hush.report.charts import Axis
from hush.report.level_groups import LevelGroups, group_levels
from hush.schema import Boolean, Categorical, Column, Date, Granularity, Integer, Numeric


def group(column: Column, most: int) -> LevelGroups:
    return group_levels(column, np.arange(column.size, dtype=float), most)


COLUMNS = [
    Integer(name="x", low=17, high=90, missing=True),
    Integer(name="x", low=-250, high=250),
    Integer(name="x", low=5, high=5),
    Numeric.equal_width(name="x", low=0, high=1, bins=100, missing=True),
    Numeric(name="x", edges=(0, 1, 10, 100, 1000)),
    Numeric.equal_width(name="x", low=0, high=100, bins=50, points=(0, 30.5), missing=True),
    Numeric(name="x", edges=(0, 100), points=tuple(range(0, 101, 5))),
    Integer.equal_width(name="x", low=0, high=999, bins=100, points=(0, 40), missing=True),
    Integer(name="x", low=0, high=99, starts=(0, 18, 65)),
    Date(name="x", start=dt.date(2019, 12, 30), end=dt.date(2024, 2, 3), missing=True),
    Date(name="x", start=dt.date(2019, 12, 30), end=dt.date(2024, 2, 3), granularity=Granularity.WEEK),
    Date(name="x", start=dt.date(1800, 1, 1), end=dt.date(2024, 2, 3), granularity=Granularity.MONTH),
    Date(name="x", start=dt.date(1800, 1, 1), end=dt.date(2024, 2, 3), granularity=Granularity.YEAR),
    Categorical(name="x", values=tuple(f"v{i}" for i in range(90)), other=True, missing=True),
    Boolean(name="x", missing=True),
]


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: f"{column.kind}-{column.size}")
@pytest.mark.parametrize("most", [7, 20, 60])
def test_every_level_is_drawn_once_and_groups_are_few(column: Column, most: int) -> None:
    made = group(column, most)
    assert sorted(np.concatenate(made.members).tolist()) == list(range(column.size))
    special = (column.other_code is not None) + column.missing
    assert len(made) - special == made.ordinary <= most
    assert len(made.labels) == len(made.ticks) == len(made)
    assert len(set(made.labels)) == len(made)
    assert made.whole is all(codes.size == 1 for codes in made.members)
    ones = sum(made.indicator(place) for place in range(len(made)))
    assert np.array_equal(ones, np.ones(column.size))


def test_integers_go_in_round_steps() -> None:
    made = group(Integer(name="age", low=17, high=90, missing=True), 20)
    assert made.labels == (*("17–19", "20–24"), *(f"{k}–{k + 4}" for k in range(25, 90, 5)), "90", "(missing)")
    assert made.ticks[:3] == ("17", "20", "25")
    assert made.note == "74 levels drawn in steps of 5"
    assert group(Integer(name="d", low=-7, high=7), 8).labels[:2] == ("-7", "-6 to -5")


def test_bins_are_joined_without_a_rest_where_possible() -> None:
    made = group(Numeric.equal_width(name="income", low=0, high=120_000, bins=24, missing=True), 20)
    assert len(made) == 13
    assert made.labels[0] == "[0, 10000)"
    assert made.labels[-2:] == ("[110000, 120000]", "(missing)")
    assert made.note == "24 bins drawn 2 at a time"


def test_bins_of_unequal_width_are_said_to_be() -> None:
    made = group(Numeric(name="x", edges=(0, 1, 10, 100)), 20)
    assert made.note == "bins differ in width, so a tall bar may be a wide bin"


def test_dates_go_by_the_calendar() -> None:
    days = Date(name="d", start=dt.date(2019, 12, 30), end=dt.date(2024, 2, 3))
    assert group(days, 60).labels[:2] == ("2019-12", "2020-01")
    assert group(days, 60).note == "1,497 days drawn by month"
    assert group(days, 20).labels[:2] == ("2019-Q4", "2020-Q1")
    assert group(days, 7).labels == ("2019", "2020", "2021", "2022", "2023", "2024")
    assert group(days, 7).members[0].tolist() == [0, 1]


def test_the_largest_levels_are_kept_and_the_rest_added_up() -> None:
    column = Categorical(name="c", values=("a", "b", "c", "d", "e"), missing=True)
    made = group_levels(column, np.array([1.0, 5.0, -2.0, 9.0, 5.0, 100.0]), 3)
    assert made.labels == ("d", "b", "3 more levels", "(missing)")
    assert made.members[2].tolist() == [0, 2, 4]


def test_an_axis_holds_zero_and_has_round_marks() -> None:
    axis = Axis.over(12.0, 87.0, start=10, stop=110)
    assert axis.low == 0
    assert axis(0.0) == 10
    assert axis.ticks == (0.0, 25.0, 50.0, 75.0)
    assert Axis.over(0.0, 0.0, start=0, stop=1).ticks[0] == 0.0
    assert Axis.over(-5.0, -1.0, start=0, stop=1).high == 0.0
    assert Axis.over(float("nan"), 3.0, start=0, stop=1).high > 0


def test_points_are_drawn_by_themselves() -> None:
    made = group(Numeric.equal_width(name="x", low=0, high=100, bins=50, points=(0,)), 12)
    assert made.labels[:2] == ("0", "(0, 10)")
    assert made.members[0].tolist() == [0]
    hours = group(Integer.equal_width(name="x", low=0, high=99, bins=20, points=(40,)), 30)
    assert hours.labels[7:10] == ("35 to 39", "40", "41 to 44")
