"""Columns of pandas, polars and Arrow: every type maps to exactly one cell or a clear error."""

from __future__ import annotations

import datetime as dt
import decimal
import fractions
import itertools
import uuid

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from hush.core.errors import DataError, HushError
from hush.schema import Boolean, Categorical, Date, Integer, Numeric, Outside, Schema
from hush.tables import read
from hush.tables.frames import text_of

SECRET = "hunter2"
AGE = Schema([Integer(name="x", low=0, high=4, outside=Outside.CLAMP, missing=True)])
WORD = Schema([Categorical(name="x", values=("a", "b", 1, True, 0.5), other=True, missing=True)])
DAY = Schema([Date(name="x", start=dt.date(2020, 1, 1), end=dt.date(2020, 1, 3), missing=True)])
FLAG = Schema([Boolean(name="x", missing=True)])


def counted(source, schema, **options):
    return read(source, schema, **options).counts([("x",)])[("x",)].tolist()


@pytest.mark.parametrize(
    ("values", "schema", "expected"),
    [
        (pd.Series([0, 1, 4, 9], dtype="int8"), AGE, [1, 1, 0, 0, 2, 0]),
        (pd.Series([0, 1, None], dtype="Int64"), AGE, [1, 1, 0, 0, 0, 1]),
        (pd.Series([0.0, 1.0, None, np.inf]), AGE, [1, 1, 0, 0, 1, 1]),
        (pd.Series([0.0, None], dtype="Float32"), AGE, [1, 0, 0, 0, 0, 1]),
        (pd.Series([True, False]), AGE, [1, 1, 0, 0, 0, 0]),
        (pd.Series([0, 1, 2], dtype=pd.SparseDtype("int64", 0)), AGE, [1, 1, 1, 0, 0, 0]),
        (pd.Series(np.array([1, 2], np.longdouble)), AGE, [0, 1, 1, 0, 0, 0]),
        (pd.Series([10**30, -(10**30), 3, "2", "x", None][:4], dtype=object), AGE, [1, 0, 1, 1, 1, 0]),
        (pd.Series([10**5000, -(10**5000)], dtype=object), AGE, [1, 0, 0, 0, 1, 0]),
        (pd.Series([3, 3.0, np.float32(3), decimal.Decimal("3.0"), b"3", " 3"], dtype=object), AGE, [0, 0, 0, 6, 0, 0]),
        (pd.Series([1, 2, 9], dtype="category"), AGE, [0, 1, 1, 0, 1, 0]),
        (pd.Series([1.0, None], dtype="category"), AGE, [0, 1, 0, 0, 0, 1]),
        (pd.Series(["a", "b", None], dtype="string"), WORD, [1, 1, 0, 0, 0, 0, 1]),
        (pd.Series(["a", "z", None]), WORD, [1, 0, 0, 0, 0, 1, 1]),
        (pd.Series(["a", "b", "a"], dtype="category"), WORD, [2, 1, 0, 0, 0, 0, 0]),
        (pd.Series(["a", 1, 1.0, True, np.True_, 0.5, np.float32(0.5), None, np.nan, pd.NA, pd.NaT], dtype=object),
         WORD, [1, 0, 2, 2, 2, 0, 4]),
        (pd.Series([True, False, None], dtype="boolean"), FLAG, [1, 1, 1]),
        (pd.Series(["yes", False, 1, None], dtype=object), FLAG, [1, 2, 1]),
        (pd.Series(pd.to_datetime(["2020-01-01 00:00", "2020-01-03 23:59", None])), DAY, [1, 0, 1, 1]),
        (pd.Series(pd.to_datetime(["2020-01-01 23:00-05:00"], utc=True)), DAY, [0, 1, 0, 0]),
        (pd.Series(pd.to_datetime(["2020-01-01 23:00"]).tz_localize("America/New_York")), DAY, [0, 1, 0, 0]),
        (pd.Series([dt.date(2020, 1, 2), dt.datetime(2020, 1, 1, 3), pd.Timestamp("2020-01-03"), pd.NaT], dtype=object),
         DAY, [1, 1, 1, 1]),
        (pd.Series(pd.to_datetime(["2020-01-02", "2020-01-02"])).astype("category"), DAY, [0, 2, 0, 0]),
        (pd.Series([], dtype=object), WORD, [0] * 7),
    ],
)  # fmt: skip
def test_pandas_columns(values, schema, expected) -> None:
    assert counted(pd.DataFrame({"x": values}), schema) == expected


@pytest.mark.parametrize(
    ("values", "schema", "expected"),
    [
        (pl.Series([0, 1, None], dtype=pl.UInt8), AGE, [1, 1, 0, 0, 0, 1]),
        (pl.Series([10**30, 1], dtype=pl.Int128), AGE, [0, 1, 0, 0, 1, 0]),
        (pl.Series([decimal.Decimal("1.00"), None]), AGE, [0, 1, 0, 0, 0, 1]),
        (pl.Series(["a", "b", None], dtype=pl.Categorical), WORD, [1, 1, 0, 0, 0, 0, 1]),
        (pl.Series(["a", "b"], dtype=pl.Enum(["b", "a"])), WORD, [1, 1, 0, 0, 0, 0, 0]),
        (pl.Series(["a", 1, None], dtype=pl.Object), WORD, [1, 0, 1, 0, 0, 0, 1]),
        (pl.Series([None, None], dtype=pl.Null), WORD, [0, 0, 0, 0, 0, 0, 2]),
        (pl.Series([dt.date(2020, 1, 1), None]), DAY, [1, 0, 0, 1]),
        (pl.Series([dt.datetime(2020, 1, 3, 23)]).dt.replace_time_zone("America/New_York"),
         Schema([Date(name="x", start=dt.date(2020, 1, 1), end=dt.date(2020, 1, 4))]), [0, 0, 0, 1]),
        (pl.Series([True, None]), FLAG, [0, 1, 1]),
    ],
)  # fmt: skip
def test_polars_columns(values, schema, expected) -> None:
    frame = pl.DataFrame({"x": values})
    assert counted(frame, schema) == expected
    assert counted(frame.lazy(), schema) == expected


@pytest.mark.parametrize(
    ("array", "schema", "expected"),
    [
        (pa.array(np.array([1, 2], dtype=np.float16)), AGE, [0, 1, 1, 0, 0, 0]),
        (pa.array([decimal.Decimal(10) ** 50, decimal.Decimal(1)], pa.decimal256(60, 2)), AGE, [0, 1, 0, 0, 1, 0]),
        (pa.array([1, 2, None]).dictionary_encode(), AGE, [0, 1, 1, 0, 0, 1]),
        (pa.RunEndEncodedArray.from_arrays([2, 3], [1, 4]), AGE, [0, 2, 0, 0, 1, 0]),
        (pa.nulls(2), AGE, [0, 0, 0, 0, 0, 2]),
        (pa.array(["a", "b"], pa.large_string()), WORD, [1, 1, 0, 0, 0, 0, 0]),
        (pa.array(["1", "2", None], pa.string_view()), AGE, [0, 1, 1, 0, 0, 1]),
        (pa.array([b"\x01", b"\x00"], pa.binary(1)).cast(pa.binary(1)), None, None),
        (pa.ExtensionArray.from_storage(pa.bool8(), pa.array([0, 1], pa.int8())), AGE, [1, 1, 0, 0, 0, 0]),
        (pa.array([1577836800, None], pa.timestamp("s", "Asia/Tokyo")), DAY, [1, 0, 0, 1]),
        (pa.array([0], pa.date64()), Schema([Date(name="x", start=dt.date(1970, 1, 1), end=dt.date(1970, 1, 1))]), [1]),
    ],
)  # fmt: skip
def test_arrow_columns(array, schema, expected) -> None:
    table = pa.table({"x": array})
    if schema is None:
        with pytest.raises(DataError, match="column 'x' is stored as BLOB, which the kind 'integer' cannot read"):
            read(table, AGE)
        return
    assert counted(table, schema) == expected
    assert counted(table.to_reader(1), schema) == expected
    assert counted(table.to_batches()[0], schema) == expected


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        (pd.DataFrame({"x": [[1], [2]]}), "objects of type list"),
        (pd.DataFrame({"x": [{"secret": 1}, 2]}), "objects of type dict"),
        (pd.DataFrame({"x": [1j]}), "stored as complex128"),
        (pd.DataFrame({"x": pd.to_timedelta(["1s"])}), "stored as INTERVAL"),
        (pd.DataFrame({"x": pd.Series([b"\xff", "a"], dtype=object)}), "not UTF-8"),
        (pd.DataFrame({"x": pd.Series(["\ud800", 1], dtype=object)}), "not UTF-8"),
        (pl.DataFrame({"x": [[1], [2]]}), r"stored as BIGINT\[\]"),
        (pl.DataFrame({"x": [{"secret": 1}]}), "stored as STRUCT"),
        (pa.table({"x": pa.array([b"secret"])}), "stored as BLOB"),
        (pa.table({"x": pa.array([[1]])}), r"stored as BIGINT\[\]"),
    ],
)
def test_types_that_cannot_be_read_are_named(source, shown) -> None:
    with pytest.raises(DataError, match=rf"column 'x' .*{shown}") as caught:
        read(source, AGE)
    assert "secret" not in str(caught.value)


def test_text_that_is_not_utf_8_is_refused() -> None:
    offsets = pa.py_buffer(np.array([0, 1, 3], np.int32))
    broken = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"a\xff\xfe")])
    for source in (pa.table({"x": broken}), pa.table({"x": broken}).to_reader()):
        with pytest.raises(DataError, match="not UTF-8|cannot be read"):
            read(source, WORD)


def test_a_name_that_polars_would_take_for_a_pattern() -> None:
    schema = Schema([Integer(name="^x.*$", low=0, high=1)])
    frame = pl.DataFrame({"^x.*$": [1], "x1": [0]})
    assert read(frame.lazy(), schema).counts([("^x.*$",)])[("^x.*$",)].tolist() == [0, 1]


def test_names_may_repeat_where_nobody_asks_for_them() -> None:
    frame = pd.DataFrame([[1, 2, 3, 4]], columns=["x", "y", "y", 0])
    assert counted(frame, AGE) == [0, 1, 0, 0, 0, 0]
    twice = pd.DataFrame([[1, 2]], columns=["x", "x"])
    for source in (twice, pa.table([pa.array([1]), pa.array([2])], names=["x", "x"])):
        with pytest.raises(DataError, match="has several columns named 'x'; rename all but one"):
            read(source, AGE)


def test_a_column_in_the_index_is_pointed_out() -> None:
    frame = pd.DataFrame({"x": [1], "y": [2]}).set_index("x")
    with pytest.raises(DataError, match=r"no column 'x'; it is in the index: call reset_index\(\) first"):
        read(frame, AGE)
    assert counted(frame.reset_index(), AGE) == [0, 1, 0, 0, 0, 0]


def test_a_label_that_is_no_text_is_known_by_its_text() -> None:
    schema = Schema([Numeric(name="0", edges=(0, 1, 2))])
    assert read(pd.DataFrame([[0.5], [1.5]]), schema).counts([("0",)])[("0",)].tolist() == [1, 1]


def test_the_source_is_left_as_it_was() -> None:
    frame = pd.DataFrame({"x": pd.Series([1, "2", None], dtype=object), "y": [1, 2, 3]})
    before = frame.copy(deep=True)
    read(frame, AGE)
    pd.testing.assert_frame_equal(frame, before)


def broken(value):
    raise {"key": KeyError, "zero": ZeroDivisionError}[value](SECRET)


@pytest.mark.parametrize(
    "frame",
    [
        pl.LazyFrame({"x": [SECRET]}).select(pl.col("x").cast(pl.Int64)),
        pl.LazyFrame({"x": [SECRET]}).select(pl.col("x").str.to_date("%Y")),
        pl.LazyFrame({"x": ["key"]}).select(pl.col("x").map_elements(broken, return_dtype=pl.Int64)),
        pl.LazyFrame({"x": ["zero"]}).map_batches(lambda frame: broken(frame["x"][0])),
        pl.LazyFrame({"y": [SECRET]}).select(pl.col(SECRET).alias("x")),
    ],
    ids=itertools.count(),
)
@pytest.mark.filterwarnings("ignore")
def test_a_lazy_frame_that_fails_is_not_quoted(frame) -> None:
    with pytest.raises(
        DataError, match="^the LazyFrame cannot be collected; collect it yourself to see why$"
    ) as caught:
        read(frame, AGE)
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pl.LazyFrame, pa.table])
def test_labels_of_a_frame_without_a_header_are_not_quoted(make) -> None:
    schema = Schema([Integer(name="diagnosis", low=0, high=1)])
    with pytest.raises(DataError, match="no column 'diagnosis'; none of its columns is spelled alike"):
        read(make({f"diagnosis {SECRET[0]}": [0]}), schema)


class Hostile:
    """An object whose every question fails with what it holds."""

    def __getattr__(self, name):
        raise LookupError(SECRET)

    __str__ = __repr__ = __hash__ = __len__ = __bool__ = __float__ = __int__ = __array__ = lambda *_: broken("key")


class HostileInt(int):
    __abs__ = __int__ = __str__ = __repr__ = __index__ = __lt__ = __gt__ = lambda *_: broken("zero")


class HostileFloat(float):
    __float__ = __str__ = __repr__ = __abs__ = __int__ = __eq__ = __ne__ = __hash__ = lambda *_: broken("zero")


class HostileDecimal(decimal.Decimal):
    is_nan = __str__ = as_tuple = __float__ = lambda *_: broken("key")


class HostileZone(dt.tzinfo):
    def utcoffset(self, when):
        raise ZeroDivisionError(SECRET)


def zoned(year, month, day, hours):
    return dt.datetime(year, month, day, tzinfo=dt.timezone(dt.timedelta(hours=hours)))


@pytest.mark.parametrize("unit", [None, "x"])
@pytest.mark.parametrize(
    "value",
    [
        zoned(1, 1, 1, 14), dt.datetime.max.replace(tzinfo=dt.timezone(dt.timedelta(hours=-14))),
        dt.datetime(2020, 1, 1, tzinfo=HostileZone()), Hostile(), HostileDecimal("1.5"), HostileInt(7),
        HostileFloat(0.5), [SECRET], {SECRET}, object(), np.array([SECRET]), pd.Period("2020"), pd.Timedelta(1),
        pd.Interval(0, 1), 1j, np.complex64(1), bytearray(b"hunter2"), memoryview(b"hunter2"), np.void(b"hunter2"),
        range(3), Hostile, decimal.Decimal("sNaN"), decimal.Decimal("1e999999"), decimal.Decimal("-1e-999999"),
        10**5000, np.datetime64(2**62, "Y"), np.datetime64(1, "as"), np.timedelta64(1, "s"), "\ud800", b"\xff",
        np.str_("\ud800"), dt.timedelta(1), fractions.Fraction(1, 3), float("inf"), np.longdouble("1e4000"),
    ],
    ids=itertools.count(),
)  # fmt: skip
@pytest.mark.parametrize("where", ["object", "category", "polars"])
def test_hostile_objects_are_read_or_refused_without_being_quoted(value, unit, where) -> None:
    cells = np.empty(2, dtype=object)
    cells[0], cells[1] = value, 1
    if where == "polars":
        source = pl.DataFrame({"x": pl.Series(list(cells), dtype=pl.Object), "y": [0, 0]})
    else:
        column = pd.Series(cells, dtype=object)
        try:
            source = pd.DataFrame({"x": column if where == "object" else column.astype("category"), "y": 0})
        except Exception:  # noqa: BLE001 - nothing to test where pandas cannot make a category of it
            return
    schema = Schema([Integer(name="y", low=0, high=0)]) if unit else WORD
    try:
        read(source, schema, unit=unit).counts([()])
    except HushError as error:
        assert SECRET not in str(error)  # noqa: PT017
        assert error.__context__ is None  # noqa: PT017
        assert error.__cause__ is None  # noqa: PT017


def test_a_zoned_time_without_a_date_in_utc_is_refused() -> None:
    for value in (zoned(1, 1, 1, 14), dt.datetime.max.replace(tzinfo=dt.timezone(dt.timedelta(hours=-14)))):
        with pytest.raises(DataError, match="column 'x' holds a time that has no date in UTC"):
            counted(pd.DataFrame({"x": pd.Series([value, "a"], dtype=object)}), WORD)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None), (float("nan"), None), (np.datetime64("NaT"), None), (decimal.Decimal("nan"), None),
        (pd.NA, None), (True, "true"), (np.int64(3), "3"), (-0.0, "0"), (1e300, "1e+300"), (10**400, "inf"),
        (np.float32(0.1), "0.1"), (decimal.Decimal("1e400"), "inf"), (b"x", "x"),
        (pd.Timestamp("2020-01-01") + pd.Timedelta(1), "2020-01-01 00:00:00.000000001"),
        (np.datetime64("2020-01-01T00:00:00.5"), "2020-01-01 00:00:00.5"), (np.datetime64("2020-01"), "2020-01-01"),
        (dt.datetime(2020, 1, 1), "2020-01-01"), (np.datetime64("2020-01-01T00:00:00"), "2020-01-01"),
        (np.datetime64("2020-01-01T10:00:00"), "2020-01-01 10:00:00"), (dt.date(2020, 1, 1), "2020-01-01"),
        (dt.datetime(2020, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=2))), "2019-12-31 22:00:00"),
        (uuid.UUID(int=0), "00000000-0000-0000-0000-000000000000"),
    ],
)  # fmt: skip
def test_objects_as_text(value, text) -> None:
    assert text_of(value, "x") == text
