"""Stamps: their parts as columns, and whole times put together from parts."""

import datetime as dt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawn_schemas import stamps
from hush.core.errors import SchemaError
from hush.schema import Boolean, Granularity, Schema, Stamp, TimeOfDay, Timestamp, Unit
from hush.schema.schema_toml import read_toml, write_toml
from hush.schema.stamps import joined

LEAP_YEAR = {"start": dt.date(2024, 1, 1), "end": dt.date(2024, 12, 31)}
ALL = ("date", "month", "weekday", "hour", "minute")


def code(stamp: Stamp, part: str, moment: dt.datetime) -> int:
    """The code of a part of a moment, in plain Python."""
    plain = {"hour": moment.hour, "minute": moment.minute // stamp.minutes}
    return plain[part] if part in plain else stamp.day_code(part, moment.date())


def codes_of(stamp: Stamp, moments: list[dt.datetime]) -> dict[str, Any]:
    return {part: np.array([code(stamp, part, moment) for moment in moments], dtype=np.int64) for part in stamp.parts}


def test_parts_are_ordinary_columns() -> None:
    stamp = Timestamp(name="pickup", parts=ALL, granularity="month", minutes=20, missing=True, **LEAP_YEAR)
    schema = Schema([stamp, Boolean(name="paid")])
    assert schema.domain.shape == (13, 13, 8, 25, 4, 2)
    assert [column.source for column in schema] == ["pickup"] * 5 + ["paid"]
    assert schema["pickup.weekday"].label(6) == "Sunday"
    assert schema["pickup.minute"].label(1) == "20 to 39"
    assert schema["pickup.month"].label(0) == "1"


@given(stamps("when"), st.data())
def test_whole_times_have_the_parts_they_were_made_of(stamp: Stamp, data: st.DataObject) -> None:
    first, last = stamp.days
    wanted = st.datetimes(dt.datetime.combine(first, dt.time.min), dt.datetime.combine(last, dt.time.max))
    moments = data.draw(st.lists(wanted, max_size=5))
    codes = codes_of(stamp, moments)
    for generator in (None, np.random.default_rng(1)):
        times = joined(stamp, codes, generator).to_pylist()
        if isinstance(stamp, TimeOfDay):
            times = [dt.datetime.combine(first, time) for time in times]
        assert all(first <= time.date() <= last for time in times)
        again = codes_of(stamp, times)
        assert all(again[part].tolist() == codes[part].tolist() for part in stamp.parts)


def test_a_leap_day_and_the_days_before_1970_are_found() -> None:
    stamp = Timestamp(name="t", start=dt.date(1968, 2, 29), end=dt.date(1968, 2, 29), parts=("month", "weekday"))
    codes = {"month": np.array([1]), "weekday": np.array([3])}
    assert joined(stamp, codes).to_pylist() == [dt.datetime(1968, 2, 29)]


def test_days_are_drawn_evenly_from_those_that_fit() -> None:
    """Mondays of January 2024: 1, 8, 15, 22, 29; each count is within 6 standard deviations, a false alarm in 10^8."""
    stamp = Timestamp(name="t", parts=("month", "weekday"), **LEAP_YEAR)
    codes = {"month": np.zeros(10_000, np.int64), "weekday": np.zeros(10_000, np.int64)}
    times = joined(stamp, codes, np.random.default_rng(2)).to_pylist()
    counts = np.bincount([time.day for time in times], minlength=32)
    assert set(np.flatnonzero(counts)) == {1, 8, 15, 22, 29}
    assert abs(counts[[1, 8, 15, 22, 29]] - 2000).max() < 6 * 40
    assert len({time.hour for time in times}) == 24  # no part says the hour
    assert len({time.second for time in times}) == 60


def test_where_parts_contradict_each_other_the_date_counts_first_then_the_month() -> None:
    stamp = Timestamp(name="t", parts=("weekday", "date", "month"), **LEAP_YEAR)
    codes = {"date": np.array([0]), "month": np.array([5]), "weekday": np.array([4])}
    assert joined(stamp, codes).to_pylist() == [dt.datetime(2024, 1, 1)]
    short = Timestamp(name="t", start=dt.date(2024, 1, 1), end=dt.date(2024, 1, 3), parts=("weekday", "month"))
    codes = {"month": np.array([0, 5]), "weekday": np.array([6, 2])}
    assert joined(short, codes).to_pylist() == [dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 3)]


def test_the_first_part_decides_whether_a_time_is_missing() -> None:
    stamp = Timestamp(name="t", parts=("weekday", "hour"), missing=True, **LEAP_YEAR)
    codes = {"weekday": np.array([7, 0, 7]), "hour": np.array([3, 24, 24])}
    first, second, third = joined(stamp, codes, np.random.default_rng(3)).to_pylist()
    assert (first, third) == (None, None)
    assert second.weekday() == 0


def test_decoding_joins_the_parts_where_they_stood() -> None:
    stamp = Timestamp(name="t", parts=("date", "hour"), **LEAP_YEAR)
    schema = Schema([Boolean(name="a"), stamp, TimeOfDay(name="b")])
    codes = {name: np.array([1]) for name in schema.domain}
    table = schema.decode(codes)
    assert table.to_pylist() == [{"a": True, "t": dt.datetime(2024, 1, 2, 1), "b": dt.time(1)}]
    assert schema.decode({"t.hour": np.array([7])}).to_pylist() == [{"t": dt.datetime(2024, 1, 1, 7)}]
    with pytest.raises(SchemaError, match="differ in length"):
        schema.decode({"t.hour": np.array([7]), "t.date": np.array([7, 8])})
    with pytest.raises(SchemaError, match=r"codes must lie in 0 \.\. 23"):
        schema.decode({"t.hour": np.array([24])})


def test_a_file_says_them_in_one_table() -> None:
    text = """hush_schema = 1

[columns.pickup]
kind = "timestamp"
start = 2024-01-01
end = 2024-12-31
parts = ["date", "hour", "minute"]
granularity = "week"
minutes = 30
outside = "clamp"
missing = true
missing_values = ["?"]

[columns.departure]
kind = "time"
parts = ["hour"]
"""
    schema = read_toml(text)
    assert schema.domain.shape == (54, 25, 3, 24)
    assert write_toml(schema) == text


BROKEN: list[tuple[str, str]] = [
    ('kind = "timestamp"\nstart = 2024-01-01\nend = 2024-12-31', "parts is missing; list what is counted"),
    (
        'kind = "timestamp"\nstart = 2024-01-01\nend = 2024-12-31\nparts = []',
        "parts = .*expected a list of some of date",
    ),
    ('kind = "timestamp"\nstart = 2024-01-01\nend = 2024-12-31\nparts = ["day"]', "part 'day': expected one of date"),
    ('kind = "timestamp"\nstart = 2024-01-01\nend = 2024-12-31\nparts = ["hour", "hour"]', "lists a part twice"),
    ('kind = "timestamp"\nstart = 2024-12-31\nend = 2024-01-01\nparts = ["hour"]', "is after end"),
    (
        'kind = "timestamp"\nstart = 2024-01-01T00:00:00\nend = 2024-12-31\nparts = ["hour"]',
        "expected a date, such as 2020-01-31",
    ),
    ('kind = "timestamp"\nstart = 2024-01-01\nparts = ["hour"]', "end is missing; write the last possible day"),
    (
        'kind = "timestamp"\nstart = 2024-01-01\nend = 2024-12-31\nparts = ["hour"]\ngranularity = "week"',
        "'date'; list it",
    ),
    ('kind = "time"\nminutes = 7\nparts = ["minute"]', "minutes = 7: expected a width that divides the hour"),
    ('kind = "time"\nminutes = 30', "minutes = 30 goes with the part 'minute'"),
    ('kind = "time"\nparts = ["date"]', "expected one of hour, minute for the kind 'time'"),
    ('kind = "time"\nstart = 2024-01-01', "unknown key 'start'"),
    ('kind = "times"', "did you mean 'time'"),
]


@pytest.mark.parametrize(("entries", "message"), BROKEN, ids=[message for _, message in BROKEN])
def test_mistakes_are_named(entries: str, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        read_toml(f"hush_schema = 1\n[columns.t]\n{entries}\n")


def test_a_schema_has_all_parts_of_a_column_once() -> None:
    stamp = Timestamp(name="t", parts=("date", "hour"), **LEAP_YEAR)
    with pytest.raises(SchemaError, match="declare it once, with all of its parts; found hour"):
        Schema([stamp.columns[1]])
    with pytest.raises(SchemaError, match="with all of its parts"):
        Schema([stamp.columns[0], Boolean(name="b"), stamp.columns[1]])
    with pytest.raises(SchemaError, match="'t' is declared twice"):
        Schema([stamp, Boolean(name="t")])
    with pytest.raises(SchemaError, match="'t.hour' is declared twice"):
        Schema([stamp, Boolean(name="t.hour")])
    with pytest.raises(SchemaError, match="is the privacy unit"):
        Schema([stamp], unit=Unit(column="t"))
    assert Schema(Schema([stamp]).columns) == Schema([stamp])


def test_drafted_times_are_marked() -> None:
    schema = Schema([TimeOfDay(name="t", parts=("hour", "minute"), from_private_data=True)])
    assert schema.from_private_data == ("t.hour", "t.minute")
    assert read_toml(write_toml(schema)).from_private_data == ("t.hour", "t.minute")


def test_granularity_is_one_of_those_of_dates() -> None:
    assert Timestamp(name="t", parts=("date",), granularity="week", **LEAP_YEAR).granularity is Granularity.WEEK
    with pytest.raises(SchemaError, match="granularity='hour': expected one of 'day', 'week'"):
        Timestamp(name="t", parts=("date",), granularity="hour", **LEAP_YEAR)
