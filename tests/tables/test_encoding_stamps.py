"""Encoding of times: every source and type gives the parts of a moment that plain Python gives."""

import csv
import datetime as dt
import re
import zoneinfo
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn_schemas import stamps
from hush.core.errors import DataError
from hush.schema import Schema, Stamp, TimeOfDay, Timestamp
from hush.tables import read

ALL = ("date", "month", "weekday", "hour", "minute")
AROUND_1970 = Timestamp(name="t", start=dt.date(1969, 12, 30), end=dt.date(1970, 1, 2), parts=ALL, minutes=1)
CENTURY = Timestamp(name="t", start=dt.date(1950, 1, 1), end=dt.date(2049, 12, 31), parts=ALL, missing=True)
BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")


def expected(stamp: Stamp, moment: dt.datetime | None) -> tuple[int, ...]:
    """The codes of a moment within the bounds, in plain Python."""
    if moment is None:
        return tuple(column.size - 1 for column in stamp.columns)
    plain = {"hour": moment.hour, "minute": moment.minute // stamp.minutes}
    return tuple(plain[p] if p in plain else stamp.day_code(p, moment.date()) for p in stamp.parts)


def coded(stamp: Stamp, source: Any, **options: Any) -> list[list[int]]:
    """The codes of all rows of a source in each part, sorted."""
    cliques = [(column.name,) for column in stamp.columns]
    counts = read(source, Schema([stamp]), **options).counts(cliques)
    return [np.repeat(np.arange(len(counts[clique])), counts[clique]).tolist() for clique in cliques]


def wanted(stamp: Stamp, moments: Sequence[dt.datetime | None]) -> list[list[int]]:
    """What `coded` should give for these moments."""
    rows = [expected(stamp, moment) for moment in moments]
    return [sorted(row[at] for row in rows) for at in range(len(stamp.parts))]


def written(path: Path, cells: list[str]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["t", "x"], *([cell, "1"] for cell in cells)])
    return path


def as_csv(folder: Path, moments: list[dt.datetime | None]) -> Path:
    return written(folder / "t.csv", ["" if moment is None else str(moment) for moment in moments])


def as_parquet(folder: Path, moments: list[dt.datetime | None]) -> Path:
    pq.write_table(pa.table({"t": pa.array(moments, pa.timestamp("us"))}), folder / "t.parquet")
    return folder / "t.parquet"


def as_duckdb(folder: Path, moments: list[dt.datetime | None]) -> Any:
    connection = duckdb.connect()
    frame = pa.table({"t": pa.array(moments, pa.timestamp("us"))})
    connection.register("frame", frame)
    connection.execute("CREATE TABLE times AS SELECT * FROM frame")
    return connection


ROUTES: dict[str, Callable[[Path, list[dt.datetime | None]], Any]] = {
    "csv": as_csv,
    "parquet": as_parquet,
    "duckdb": as_duckdb,
    "arrow": lambda folder, moments: pa.table({"t": pa.array(moments, pa.timestamp("us"))}),
    "utc": lambda folder, moments: pa.table({"t": pa.array(moments, pa.timestamp("us", "Europe/Berlin"))}),
    "nanoseconds": lambda folder, moments: pa.table({"t": pa.array(moments, pa.timestamp("ns"))}),
    "zoned nanoseconds": lambda folder, moments: pa.table({"t": pa.array(moments, pa.timestamp("ns", "Asia/Tokyo"))}),
    "pandas": lambda folder, moments: pd.DataFrame({"t": pd.Series(moments, dtype="datetime64[ns]")}),
    "objects": lambda folder, moments: pd.DataFrame({"t": pd.Series(moments, dtype=object)}),
    "polars": lambda folder, moments: pl.DataFrame({"t": pl.Series(moments, dtype=pl.Datetime("us"))}),
    "texts": lambda folder, moments: pa.table({"t": [None if m is None else f" {m.isoformat()}Z " for m in moments]}),
}
EDGES: list[dt.datetime | None] = [
    None,
    dt.datetime(1950, 1, 1),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999_999),
    dt.datetime(1970, 1, 1),
    dt.datetime(2000, 2, 29, 12, 15),
    dt.datetime(2024, 2, 29, 23, 59, 59),
    dt.datetime(2049, 12, 31, 23, 59, 59, 999_999),
]


@pytest.mark.parametrize("route", ROUTES)
def test_every_source_gives_the_same_parts(route: str, tmp_path: Path) -> None:
    source = ROUTES[route](tmp_path, EDGES)
    options = {"table": "times"} if route == "duckdb" else {}
    assert coded(CENTURY, source, **options) == wanted(CENTURY, EDGES)


@pytest.mark.parametrize("engine", ["memory", "stream", "sql"])
def test_every_engine_gives_the_same_parts(engine: str, tmp_path: Path) -> None:
    assert coded(CENTURY, as_csv(tmp_path, EDGES), engine=engine) == wanted(CENTURY, EDGES)


@settings(max_examples=8)
@given(stamps("t"), st.data())
def test_texts_and_types_agree_with_python(stamp: Stamp, data: st.DataObject) -> None:
    first, last = stamp.days
    inside = st.datetimes(dt.datetime.combine(first, dt.time.min), dt.datetime.combine(last, dt.time.max))
    drawn = data.draw(st.lists(st.none() | inside if stamp.missing else inside, max_size=6))
    marks = set(stamp.missing_values)
    moments = [m for m in drawn if m is None or not marks & {str(m), str(m.time()), m.isoformat()}]
    if isinstance(stamp, TimeOfDay):
        times = [None if moment is None else moment.time() for moment in moments]
        typed: list[pa.Array] = [pa.array(times, pa.time64("us")), pa.array(times, pa.time64("ns"))]
        text = pa.array([None if time is None else str(time) for time in times], pa.string())
    else:
        typed = [pa.array(moments, pa.timestamp("us")), pa.array(moments, pa.timestamp("us", "UTC"))]
        text = pa.array([None if moment is None else str(moment) for moment in moments], pa.string())
    for array in (text, *typed):
        assert coded(stamp, pa.table({"t": array})) == wanted(stamp, moments)


def test_a_zone_is_taken_to_utc_in_texts_and_types_alike() -> None:
    moment = dt.datetime(2024, 7, 1, 1, 30, tzinfo=BERLIN)
    codes = wanted(CENTURY, [dt.datetime(2024, 6, 30, 23, 30)])
    for source in (
        pa.table({"t": ["2024-07-01T01:30:00+02:00"]}),
        pa.table({"t": pa.array([moment])}),
        pd.DataFrame({"t": pd.Series([moment], dtype=object)}),
        pd.DataFrame({"t": pd.to_datetime([moment])}),
        pl.DataFrame({"t": [moment]}),
    ):
        assert coded(CENTURY, source) == codes


def test_a_date_alone_is_its_midnight() -> None:
    codes = wanted(CENTURY, [dt.datetime(2024, 2, 29)])
    for values in (["2024-02-29"], [dt.date(2024, 2, 29)]):
        assert coded(CENTURY, pa.table({"t": values})) == codes


def test_nanoseconds_before_1970_are_rounded_down_like_their_text() -> None:
    """DuckDB cuts them towards 1970, which would move the last moment of 1969 into the next year."""
    nanoseconds = pa.table({"t": pa.array([-100], pa.int64()).cast(pa.timestamp("ns"))})
    text = pa.table({"t": ["1969-12-31 23:59:59.9999999"]})
    codes = wanted(AROUND_1970, [dt.datetime(1969, 12, 31, 23, 59)])
    assert coded(AROUND_1970, nanoseconds) == coded(AROUND_1970, text) == codes


def test_missing_is_null_blank_or_a_mark_in_text_and_type() -> None:
    stamp = Timestamp(
        name="t",
        start=dt.date(1900, 1, 1),
        end=dt.date(2024, 12, 31),
        parts=("weekday", "hour"),
        missing=True,
        missing_values=("?", "1900-01-01"),
    )
    codes = wanted(stamp, [None, None])
    assert coded(stamp, pa.table({"t": [" ", "?"]})) == codes
    assert coded(stamp, pa.table({"t": ["1900-01-01 00:00:00", "1900-01-01"]})) == codes
    assert coded(stamp, pa.table({"t": pa.array([dt.datetime(1900, 1, 1), None])})) == codes
    assert coded(stamp, pa.table({"t": pa.nulls(2)})) == codes


REFUSED = [
    "2024-06-31 10:00:00",
    "2024-06-30 23:59:60",
    "2024-06-30 25:00:00",
    "30.06.2024 10:00",
    "2024-06-30 10:00 PM",
    "infinity",
    "-infinity",
    "now",
    "",
    "1.5",
]


@pytest.mark.parametrize("cell", REFUSED)
@pytest.mark.parametrize("part", ALL)
def test_what_is_no_moment_is_refused_by_every_part(cell: str, part: str) -> None:
    for outside in ("refuse", "clamp"):
        stamp = Timestamp(
            name="t", start=dt.date(2020, 1, 1), end=dt.date(2024, 12, 31), parts=(part,), outside=outside
        )
        with pytest.raises(DataError, match="column 't' holds values outside its declared levels"):
            coded(stamp, pa.table({"t": [cell]}))


@pytest.mark.parametrize("part", ALL)
@pytest.mark.parametrize("moment", [dt.datetime(2019, 12, 31, 23, 59), dt.datetime(2025, 1, 1)])
def test_days_outside_are_refused_or_moved_to_the_nearer_bound(part: str, moment: dt.datetime) -> None:
    days = {"name": "t", "start": dt.date(2020, 1, 1), "end": dt.date(2024, 12, 31), "parts": (part,)}
    for values in ([moment], [str(moment)]):
        with pytest.raises(DataError, match=re.escape('set outside = "clamp", set missing = true')):
            coded(Timestamp(**days), pa.table({"t": values}))
        clamped = Timestamp(**days, outside="clamp")
        day = min(max(moment.date(), clamped.start), clamped.end)
        codes = wanted(clamped, [dt.datetime.combine(day, moment.time())])
        assert coded(clamped, pa.table({"t": values})) == codes


def test_one_message_names_the_column_once() -> None:
    with pytest.raises(DataError, match="^column 't' holds values outside") as caught:
        coded(CENTURY, pa.table({"t": ["soon"]}))
    assert "t.hour" not in str(caught.value)
    assert "soon" not in str(caught.value)


TIMES = {
    "00:00": (0, 0),
    "0:07": (0, 0),
    "23:59:59.999999": (23, 3),
    "08:30:00": (8, 2),
    " 8:44 ": (8, 2),
}


def test_times_of_day_are_read_as_people_write_them() -> None:
    stamp = TimeOfDay(name="t", parts=("hour", "minute"))
    for text, codes in TIMES.items():
        assert coded(stamp, pa.table({"t": [text]})) == [[codes[0]], [codes[1]]]
    assert coded(stamp, pd.DataFrame({"t": [dt.time(8, 30)]})) == [[8], [2]]
    assert coded(stamp, pl.DataFrame({"t": [dt.time(8, 30)]})) == [[8], [2]]
    assert coded(TimeOfDay(name="t", missing=True, missing_values=("00:00",)), pa.table({"t": [dt.time()]})) == [[24]]


@pytest.mark.parametrize("cell", ["24:00", "23:59:60", "8", "8:5", "08:30 PM", "2024-01-01 08:30", "08:30+02:00", "x"])
def test_what_is_no_time_of_day_is_refused(cell: str) -> None:
    with pytest.raises(DataError, match="column 't' holds values outside its declared levels"):
        coded(TimeOfDay(name="t"), pa.table({"t": [cell]}))


def test_types_that_hold_no_times_are_named() -> None:
    with pytest.raises(DataError, match="column 't' is stored as BIGINT, which the kind 'timestamp' cannot read"):
        coded(CENTURY, pa.table({"t": [1]}))
    with pytest.raises(DataError, match="column 't' is stored as TIMESTAMP, which the kind 'time' cannot read"):
        coded(TimeOfDay(name="t"), pa.table({"t": [dt.datetime(2024, 1, 1)]}))
