"""Levels as they are drawn: in round steps, by calendar, or the largest ones, and always all of them."""

import datetime as dt

import numpy as np
import pytest

from hush.report.level_groups import LevelGroups, group_levels, heights_per_row, level_label
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
    assert len(made) - special - made.apart == made.ordinary <= most
    assert len(made.labels) == len(made.ticks) == len(made)
    assert len(set(made.labels)) == len(made)
    assert made.whole is (not made.apart and all(codes.size == 1 for codes in made.members))
    ones = sum(made.indicator(place) for place in range(len(made)))
    assert np.array_equal(ones, np.ones(column.size))


def test_integers_go_in_round_steps() -> None:
    made = group(Integer(name="age", low=17, high=90, missing=True), 20)
    spans = [f"{k} to {k + 4}" for k in range(20, 90, 5)]
    assert made.labels == ("17 to 19", *spans, "90", "(missing)")
    assert made.ticks[:3] == ("17", "20", "25")
    assert made.note == "74 levels drawn in steps of 5"
    assert made.bar_note is not None
    assert "as high as their rows per 5" in made.bar_note  # the first and the last group are narrower
    assert group(Integer(name="d", low=-7, high=7), 8).labels[:2] == ("-7", "-6 to -5")


def test_bins_are_joined_without_a_rest_where_possible() -> None:
    made = group(Numeric.equal_width(name="income", low=0, high=120_000, bins=24, missing=True), 20)
    assert len(made) == 13
    assert made.labels[0] == "0 to 10,000"
    assert made.labels[-2:] == ("110,000 to 120,000", "(missing)")
    assert (made.ticks[1], made.ticks[-1], made.last) == ("10,000", "(missing)", "120,000")
    assert made.note == "24 bins drawn 2 at a time"


def test_bins_of_unequal_width_have_heights_by_width() -> None:
    made = group(Numeric(name="x", edges=(0, 10, 30, 70), missing=True), 20)
    assert made.extents == ((0, 10), (10, 30), (30, 70))
    assert heights_per_row(made).tolist() == [2.0, 1.0, 0.5]
    assert (
        made.bar_note == "bars are as wide as their bins, and as high as their rows per 20; long intervals are cut off"
    )
    even = group(Numeric(name="x", edges=(0, 10, 20, 30)), 20)
    assert heights_per_row(even).tolist() == [1.0, 1.0, 1.0]
    assert even.bar_note is None


def test_bins_too_thin_to_be_seen_are_set_apart() -> None:
    made = group(Numeric(name="gain", edges=(0, 0.01, 1000, 5000, 20_000), missing=True), 20)
    assert made.labels == ("0.01 to 1,000", "1,000 to 5,000", "5,000 to 20,000", "0 to 0.01", "(missing)")
    assert (made.ordinary, made.apart, made.last) == (3, 1, "20,000")
    assert [codes.tolist() for codes in made.members] == [[1], [2], [3], [0], [4]]
    assert made.bar_note is not None
    assert made.bar_note.startswith("0 to 0.01 is drawn apart, as high as its share of all rows")


def test_bins_that_cannot_be_drawn_to_scale_are_said_so() -> None:
    made = group(Numeric(name="x", edges=(0, 1, 10, 100, 1000, 1e4, 1e5, 1e6)), 20)
    assert (made.extents, made.apart) == ((), 0)
    assert made.bar_note == "bins differ too much in width to be drawn to scale, so a tall bar may be a wide bin"


@pytest.mark.parametrize("edges", [(-1.7e308, 0.0, 1.0, 1.7e308), (0.0, 1.0), (0.0, 1e-9, 1.0)])
def test_bins_of_any_width_can_be_grouped(edges: tuple[float, ...]) -> None:
    made = group(Numeric(name="x", edges=edges, missing=True), 20)
    assert sorted(np.concatenate(made.members).tolist()) == list(range(len(edges)))
    assert np.isfinite(heights_per_row(made)).all()


@pytest.mark.parametrize("most", [20, 200])
def test_an_integer_that_holds_most_rows_is_set_apart(most: int) -> None:
    column = Integer(name="gain", low=0, high=99, missing=True)
    counts = np.full(101, 10.0)
    counts[7] = 9000.0
    made = group_levels(column, counts, most)
    assert made.labels[made.ordinary :] == ("exactly 7", "(missing)")
    assert made.apart == 1
    assert sorted(np.concatenate(made.members).tolist()) == list(range(101))
    assert ("5 to 9 without 7" in made.labels) == (most == 20)
    assert group_levels(column, np.full(101, 10.0), most).apart == 0


def test_numbers_of_a_column_are_written_alike() -> None:
    made = group(Integer(name="gain", low=0, high=99_999), 20)
    assert made.labels[:2] == ("0 to 4,999", "5,000 to 9,999")
    assert made.ticks[1] == "5,000"
    assert level_label(Integer(name="year", low=1900, high=2100), 124) == "2024"
    assert level_label(Numeric(name="x", edges=(0, 0.5, 25_000)), 1) == "0.5 to 25,000"


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


def test_points_are_drawn_by_themselves() -> None:
    made = group(Numeric.equal_width(name="x", low=0, high=100, bins=50, points=(0,)), 12)
    assert (made.labels[0], made.labels[made.ordinary]) == ("0 to 10", "exactly 0")
    assert made.members[made.ordinary].tolist() == [0]
    hours = group(Integer.equal_width(name="x", low=0, high=99, bins=20, points=(40,)), 30)
    assert hours.labels[7:9] == ("35 to 39", "41 to 44")
    assert (hours.labels[hours.ordinary :], hours.apart) == (("exactly 40",), 1)
    assert hours.extents[7:9] == ((35.0, 40.0), (41.0, 45.0))
