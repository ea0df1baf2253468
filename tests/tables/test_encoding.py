"""The SQL of each kind against the plain Python twin, over every type that a source may store."""

from __future__ import annotations

import datetime as dt
import decimal
import math

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from drawn_schemas import columns
from hush.core.errors import DataError
from hush.schema import Boolean, Categorical, Date, Granularity, Integer, Numeric, Outside, Schema
from hush.tables import read
from hush.tables.dialects.duckdb import DUCKDB
from hush.tables.encoding import Names, encode, refusal

INT64 = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(allow_nan=True, allow_infinity=True)
JANUARY_31 = pa.array([18292, 18293, 18294], pa.date32())  # and the two days after
SLOW = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
REFUSE, CLAMP = Outside.REFUSE, Outside.CLAMP


def levels(column):
    """Values around the levels of a column: the levels themselves, neighbours, and what decodes to them."""
    if isinstance(column, Categorical):
        return [value for value in column.values if isinstance(value, str)]
    if isinstance(column, Integer):
        return [column.low, column.high, column.low - 1, column.high + 1]
    if isinstance(column, Numeric):
        near = [math.nextafter(edge, side) for edge in column.edges for side in (-math.inf, math.inf)]
        return [*column.edges, *near]
    if isinstance(column, Date):
        return [column.start, column.end, column.value(column.levels - 1)]
    return [True, False]


@SLOW
@given(column=columns(kinds=(Integer, Numeric)), values=st.lists(FLOATS, max_size=20))
@example(column=Numeric(name="x", edges=(-1.0, 0.0, 1.0)), values=[-0.0, 0.0, 5e-324, -5e-324])
def test_numbers_stored_as_doubles(column, values, reference, sql_codes) -> None:
    values = [*values, *(float(level) for level in levels(column)), math.nan, math.inf, -math.inf, -0.0, None]
    expected = [reference(column, value) for value in values]
    assert sql_codes(column, pa.array(values, pa.float64())) == expected


@SLOW
@given(column=columns(kinds=(Integer, Numeric)), values=st.lists(FLOATS, max_size=20))
def test_numbers_spelled_as_text(column, values, reference, sql_codes) -> None:
    texts = [repr(value) for value in (*values, *map(float, levels(column)))]
    texts += ["", "  ", "abc", "1e400", "-1e400", "1e-400", " 3 ", "\t4\n", "\u00a05", "NaN", "+7", "0x10", "1,5", None]
    expected = [reference(column, text) for text in texts]
    assert sql_codes(column, pa.array(texts, pa.string())) == expected


@SLOW
@given(column=columns(kinds=(Integer,)), values=st.lists(INT64, max_size=20))
def test_integers_stored_as_integers(column, values, reference, sql_codes) -> None:
    values = [*values, *(level for level in levels(column) if isinstance(level, int)), 2**53 + 1, -(2**53) - 1, None]
    assert sql_codes(column, pa.array(values, pa.int64())) == [reference(column, value) for value in values]


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.decimal128(30, 0)]
)
@pytest.mark.parametrize("low", [-300, 0, 3])
def test_every_width_of_integer(kind, low, reference, sql_codes) -> None:
    column = Integer(name="x", low=low, high=250, outside=CLAMP, missing=True, missing_values=("9", "-9", "1e99"))
    values = [0, 1, 3, 9, 127, None]
    array = pa.array([None if value is None else decimal.Decimal(value) for value in values], pa.decimal128(30, 0))
    assert sql_codes(column, array.cast(kind)) == [reference(column, value) for value in values]


def test_integers_beyond_64_bits_are_outside(sql_codes) -> None:
    huge = pa.array([decimal.Decimal(10) ** 30, -(decimal.Decimal(10) ** 30)], pa.decimal128(38, 0))
    assert sql_codes(Integer(name="x", low=0, high=9, outside=CLAMP), huge) == [9, 0]
    assert sql_codes(Integer(name="x", low=0, high=9), huge) == [None, None]


@SLOW
@given(column=columns(kinds=(Categorical,)), values=st.lists(st.text(max_size=6), max_size=20))
def test_categories_stored_as_text(column, values, reference, sql_codes) -> None:
    values = [*values, *levels(column), *(f" \t{level}\u3000" for level in levels(column)), "", " \n", "\x00", None]
    assert sql_codes(column, pa.array(values, pa.string())) == [reference(column, value) for value in values]


@SLOW
@given(column=columns(kinds=(Categorical,)), values=st.lists(FLOATS | st.integers(-3, 3).map(float), max_size=20))
def test_categories_stored_as_doubles(column, values, reference, sql_codes) -> None:
    values = [*values, *(float(value) for value in column.values if isinstance(value, int | float)), None]
    assert sql_codes(column, pa.array(values, pa.float64())) == [reference(column, value) for value in values]


@pytest.mark.parametrize(
    ("declared", "array"),
    [
        ((1, 2), pa.array([1, 2, 3], pa.int8())),
        ((1, 2), pa.array([1.0, 2.0, 2.5])),
        ((1, 2), pa.array(["1", " 2", "2.0"])),
        (("1", "2"), pa.array([1, 2, 3], pa.uint64())),
        ((True, False), pa.array([True, False, None])),
        (("true", "false"), pa.array([True, False, None])),
        ((0.1, 0.25), pa.array([0.1, 0.25, 0.3], pa.float32())),
        ((0.1, 0.25), pa.array([decimal.Decimal("0.10"), decimal.Decimal("0.25"), decimal.Decimal("0.30")])),
        ((dt.date(2020, 1, 31), "2020-02-01"), JANUARY_31),
        ((dt.date(2020, 1, 31), "2020-02-01"), JANUARY_31.cast("timestamp[us]")),
        (("a", "b"), pa.array(["a", "b", "c"]).dictionary_encode()),
        (("a", "b"), pa.array(["a", "b", "c"], pa.string_view())),
    ],
)  # fmt: skip
def test_a_category_is_the_same_however_it_is_stored(declared, array, sql_codes) -> None:
    assert sql_codes(Categorical(name="x", values=declared), array) == [0, 1, None]
    assert sql_codes(Categorical(name="x", values=declared, other=True, missing=True), array)[:2] == [0, 1]


def test_missing_is_not_other(sql_codes) -> None:
    column = Categorical(name="x", values=("a",), other=True, missing=True, missing_values=("?",))
    assert sql_codes(column, pa.array(["a", "b", "?", " ", None])) == [0, 1, 2, 2, 2]
    assert sql_codes(Categorical(name="x", values=("a",), other=True), pa.array(["b", "", None])) == [1, None, None]


def test_thousands_of_categories(sql_codes) -> None:
    values = tuple(f"it's #{number}" for number in range(5000))
    column = Categorical(name="x", values=values, other=True)
    assert sql_codes(column, pa.array([values[4999], values[0], "none"])) == [4999, 0, 5000]


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array(["TRUE", " f ", "Yes", "no", "Y", "n", "1", "0", "?", "", "maybe", "1.0", None]),
         [1, 0, 1, 0, 1, 0, 1, 0, 2, 2, None, None, 2]),
        (pa.array([True, False, None]), [1, 0, 2]),
        (pa.array([0, 1, 2, None], pa.int8()), [0, 1, None, 2]),
        (pa.array([0.0, 1.0, -0.0, 0.5, math.nan, math.inf]), [0, 1, 0, None, 2, None]),
        (pa.nulls(2), [2, 2]),
    ],
)  # fmt: skip
def test_booleans(array, expected, sql_codes) -> None:
    column = Boolean(name="x", missing=True, missing_values=("?",))
    assert sql_codes(column, array) == expected
    strict = [None if code == 2 else code for code in expected]
    strict = [None if text == "?" else code for code, text in zip(strict, array.to_pylist(), strict=True)]
    assert sql_codes(Boolean(name="x"), array) == strict


DATES = st.dates(dt.date(1, 1, 2), dt.date(9999, 12, 30))


@SLOW
@given(column=columns(kinds=(Date,)), values=st.lists(DATES, max_size=20))
def test_dates_and_timestamps(column, values, reference, sql_codes) -> None:
    values = [*values, *levels(column)]
    expected = [reference(column, value) for value in values]
    days = pa.array(values, pa.date32())
    noon = [dt.datetime.combine(value, dt.time(12, 30)) for value in values]
    assert sql_codes(column, days) == expected
    assert sql_codes(column, pa.array(noon, pa.timestamp("us"))) == expected
    assert sql_codes(column, pa.array(noon, pa.timestamp("us", "UTC"))) == expected
    assert sql_codes(column, pa.array([value.isoformat() for value in values])) == expected
    assert sql_codes(column, pa.array([f" {value.isoformat()}Z" for value in noon])) == expected


def test_a_stamp_with_a_time_zone_counts_on_its_day_in_utc(sql_codes) -> None:
    column = Date(name="x", start=dt.date(2020, 1, 31), end=dt.date(2020, 2, 1))
    late = dt.datetime(2020, 2, 1, 4, 30, tzinfo=dt.UTC)
    assert sql_codes(column, pa.array(["2020-01-31T23:30:00-05:00", "2020-01-31T23:30:00"])) == [1, 0]
    assert sql_codes(column, pa.array([late], pa.timestamp("us", "America/New_York"))) == [1]


@pytest.mark.parametrize("outside", [REFUSE, CLAMP])
def test_odd_dates(outside, sql_codes) -> None:
    column = Date(
        name="x", start=dt.date(2020, 1, 1), end=dt.date(2020, 12, 31), granularity=Granularity.QUARTER,
        outside=outside, missing=True, missing_values=("9999-12-31", "unknown"),
    )  # fmt: skip
    texts = ["infinity", "-infinity", "99999-01-01", "2020-02-30", "31/01/2020", "unknown", "9999-12-31", "", None]
    low, high = (None, None) if outside is REFUSE else (0, 3)
    assert sql_codes(column, pa.array(texts)) == [high, low, high, None, None, 4, 4, 4, 4]
    assert sql_codes(column, pa.array([dt.date(9999, 12, 31), None], pa.date32())) == [4, 4]


def test_a_missing_number_is_missing_however_it_is_stored(sql_codes) -> None:
    column = Integer(name="x", low=-10, high=10, missing=True, missing_values=("-9", "n/a"))
    assert sql_codes(column, pa.array([-9, 1, None])) == [21, 11, 21]
    assert sql_codes(column, pa.array([-9.0, 1.0, math.nan])) == [21, 11, 21]
    assert sql_codes(column, pa.array(["-9.0", "n/a", " -9 ", "1"])) == [21, 21, 21, 11]


@pytest.mark.parametrize(
    ("column", "stored", "shown"),
    [
        (Integer(name="x", low=0, high=1), "DATE", "DATE"),
        (Numeric(name="x", edges=(0, 1)), "TIMESTAMP", "TIMESTAMP"),
        (Boolean(name="x"), "DATE", "DATE"),
        (Date(name="x", start=dt.date(2020, 1, 1), end=dt.date(2020, 1, 2)), "INTEGER", "INTEGER"),
        (Categorical(name="x", values=("a",)), "STRUCT(secret VARCHAR)", "STRUCT"),
        (Categorical(name="x", values=("a",)), "INTEGER[]", "INTEGER[]"),
        (Categorical(name="x", values=("a",)), "BLOB", "BLOB"),
        (Integer(name="x", low=0, high=1), "MAP(VARCHAR, INTEGER)", "MAP"),
        (Categorical(name="x", values=("a",)), "INTERVAL", "INTERVAL"),
    ],
)  # fmt: skip
def test_a_type_that_cannot_hold_the_column_is_named(column, stored, shown) -> None:
    with pytest.raises(DataError, match=rf"column 'x' is stored as {shown.replace('[]', '.*')}, which") as caught:
        encode(column, stored, Names.numbered(0, "c0"), DUCKDB)
    assert "secret" not in str(caught.value)


def test_the_remedy_fits_the_column() -> None:
    assert "add other = true, set missing = true" in refusal(Categorical(name="x", values=("a",)))
    assert 'set outside = "clamp"' in refusal(Integer(name="x", low=0, high=1))
    assert refusal(Integer(name="x", low=0, high=1, outside=CLAMP, missing=True)) == (
        "column 'x' holds values outside its declared levels (how many is private); clean the source"
    )


@pytest.mark.parametrize("engine", ["memory", "stream", "sql"])
@pytest.mark.parametrize("how", ["column", "setting"])
@pytest.mark.parametrize(
    ("column", "texts", "expected"),
    [
        (Categorical(name="x", values=("a", "A", "é"), other=True, missing=True, missing_values=("na",)),
         ["a", "A", "e", "NA", "na", " a "], [2, 1, 0, 2, 1]),
        (Boolean(name="x", missing=True, missing_values=("na",)), ["YES", "no", "na", ""], [1, 1, 2]),
        (Integer(name="x", low=0, high=1, missing=True, missing_values=("na",)), ["0", "1", "na", " "], [1, 1, 2]),
        (Date(name="x", start=dt.date(2020, 1, 1), end=dt.date(2020, 1, 2), missing=True, missing_values=("na",)),
         ["2020-01-01", "na"], [1, 0, 1]),
        (Boolean(name="x", missing=True, missing_values=("na",)), ["yés"], None),
        (Boolean(name="x", missing=True, missing_values=("na",)), ["ná"], None),
        (Boolean(name="x", missing=True, missing_values=("na",)), ["NA"], None),
        (Integer(name="x", low=0, high=1, missing=True, missing_values=("na",)), ["NA"], None),
        (Numeric(name="x", edges=(0, 1), missing=True, missing_values=("na",)), ["ná"], None),
        (Date(name="x", start=dt.date(2020, 1, 1), end=dt.date(2020, 1, 2), missing=True, missing_values=("na",)),
         ["NA"], None),
    ],
)  # fmt: skip
def test_texts_are_compared_as_bytes_whatever_the_collation(engine, how, column, texts, expected) -> None:
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE t (x VARCHAR {'COLLATE NOCASE.NOACCENT' if how == 'column' else ''})")
    connection.executemany("INSERT INTO t VALUES (?)", [[text] for text in texts])
    if how == "setting":
        connection.execute("SET default_collation = 'nocase.noaccent'")
    schema = Schema([column])
    if expected is None:
        with pytest.raises(DataError, match="holds values outside its declared levels"):
            read(connection, schema, table="t", engine=engine).counts([("x",)])
    else:
        assert read(connection, schema, table="t", engine=engine).counts([("x",)])[("x",)].tolist() == expected
