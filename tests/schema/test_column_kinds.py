"""Kinds of column: codes partition the values, labels tell them apart, contradictions are refused."""

import datetime as dt
import math
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from drawn_schemas import columns, days, values
from hush.core.errors import SchemaError
from hush.schema import Boolean, Categorical, Column, Date, Granularity, Integer, Numeric, Outside, Schema
from hush.schema.column import LARGEST_INTEGER, LARGEST_SIZE, canonical

CODES_CHECKED = 64


def some_codes(column: Column) -> list[int]:
    ends = [*range(min(column.size, CODES_CHECKED)), *range(max(0, column.size - CODES_CHECKED), column.size)]
    return sorted(set(ends))


@given(columns())
def test_codes_are_levels_then_other_then_missing(column: Column) -> None:
    special = [code for code in (column.other_code, column.missing_code) if code is not None]
    assert special == list(range(column.levels, column.size))
    assert column.levels >= 1
    assert np.iinfo(column.dtype).max >= column.size - 1


@given(columns())
def test_labels_are_unique(column: Column) -> None:
    labels = [column.label(code) for code in some_codes(column)]
    assert len(set(labels)) == len(labels)


@given(columns())
def test_the_value_of_a_level_belongs_to_that_level(column: Column) -> None:
    codes = [code for code in some_codes(column) if code < column.levels]
    match column:
        case Categorical():
            found = [column.texts.index(canonical(column.value(code))) for code in codes]
        case Integer():
            found = [column.code_of(column.value(code)) for code in codes]
        case Numeric():
            found = [column.code_of(column.value(code)) for code in codes]
        case Date():
            found = [column.ordinal(column.value(code)) for code in codes]
        case _:
            found = [int(column.value(code)) for code in codes]
    assert found == codes


@given(columns())
def test_level_values_lists_every_code(column: Column) -> None:
    assume(column.size < 1000)
    listed = column.level_values()
    assert len(listed) == column.size
    assert (listed[-1] is None) == column.missing
    assert all(value is not None for value in listed[: column.levels])


@given(st.lists(values(), min_size=1, unique_by=canonical), st.data())
def test_a_declared_value_has_one_code_in_every_spelling(listed: list, data: st.DataObject) -> None:
    column = Categorical(name="x", values=tuple(listed))
    value = data.draw(st.sampled_from(listed))
    spellings = {canonical(value), canonical(f" {canonical(value)}\t")}
    assert [column.texts.count(text) for text in spellings] == [1]


@given(st.lists(st.floats(-1e300, 1e300), min_size=2, unique=True), st.floats(-1e300, 1e300))
def test_bins_partition_the_numbers_between_the_bounds(edges: list[float], number: float) -> None:
    column = Numeric(name="x", edges=tuple(sorted(edges)))
    number = min(max(number, column.edges[0]), column.edges[-1])
    bins = list(zip(column.edges, column.edges[1:], strict=False))
    inside = [k for k, (low, high) in enumerate(bins) if low <= number < high]
    expected = inside or [len(bins) - 1]  # the last bin is closed
    assert [column.code_of(number)] == expected


@given(columns(kinds=(Date,)), st.data())
def test_days_fall_into_levels_in_order(column: Date, data: st.DataObject) -> None:
    first, second = sorted((data.draw(days(column)), data.draw(days(column))))
    one, two = column.ordinal(first), column.ordinal(second)
    assert 0 <= one <= two < column.levels
    assert column.value(one) <= first
    assert one + 1 == column.levels or column.value(one + 1) > first


@pytest.mark.parametrize(
    ("granularity", "levels", "label"),
    [
        ("day", 1827, "2020-01-15"),
        ("week", 261, "2020-01-15"),
        ("month", 61, "2020-01"),
        ("quarter", 21, "2020-Q1"),
        ("year", 6, "2020"),
    ],
)
def test_date_levels_and_labels(granularity: str, levels: int, label: str) -> None:
    column = Date(name="d", start=dt.date(2020, 1, 15), end=dt.date(2025, 1, 14), granularity=granularity)
    assert (column.levels, column.label(0)) == (levels, label)
    assert column.value(0) == dt.date(2020, 1, 15)
    assert isinstance(column.granularity, Granularity)


def test_canonical_text_does_not_depend_on_the_type() -> None:
    spellings = [3, 3.0, np.int32(3), np.float64(3), " 3 ", "3"]
    assert {canonical(value) for value in spellings} == {"3"}
    assert canonical(True) == canonical(np.bool_(True)) == "true"
    assert canonical(-0.0) == "0"
    assert canonical(1e300) == "1e+300"
    assert canonical(dt.date(2020, 1, 2)) == "2020-01-02"


def test_numpy_values_become_python_values() -> None:
    column = Categorical(name="x", values=(np.int64(1), np.str_("a"), np.float32(0.5)))
    assert [type(value) for value in column.values] == [int, str, float]
    assert type(Integer(name="x", low=np.int8(1), high=np.int64(2)).low) is int


def test_numeric_labels_use_the_digits_they_need() -> None:
    assert Numeric(name="x", edges=(0, 1 / 3, 1)).label(0) == "[0, 0.333333)"
    assert Numeric(name="x", edges=(0, 1 / 3, 1)).label(1) == "[0.333333, 1]"
    assert Numeric(name="x", edges=(1e9, 1e9 + 1, 1e9 + 2)).label(0) == "[1000000000, 1000000001)"


def test_middles_of_the_widest_and_the_narrowest_bins() -> None:
    widest = Numeric(name="x", edges=(-1.7e308, 1.7e308))
    assert widest.value(0) == 0.0
    narrow = Numeric(name="x", edges=(1.0, math.nextafter(1.0, 2), math.nextafter(math.nextafter(1.0, 2), 2)))
    assert [narrow.code_of(narrow.value(code)) for code in (0, 1)] == [0, 1]


def test_equal_width_edges() -> None:
    column = Numeric.equal_width(name="x", low=0, high=1, bins=4)
    assert column.edges == (0.0, 0.25, 0.5, 0.75, 1.0)
    assert Numeric.equal_width(name="x", low=-0.0, high=1, bins=1) == Numeric(name="x", edges=(0, 1))


def test_the_last_code_is_missing_and_the_one_before_other() -> None:
    column = Categorical(name="x", values=("a", "b"), other=True, missing=True)
    assert [column.label(code) for code in range(4)] == ["a", "b", "(other)", "(missing)"]
    assert column.level_values() == ["a", "b", "other", None]


def test_dtype_is_the_smallest_that_fits() -> None:
    sizes = {256: np.uint8, 257: np.uint16, 2**16: np.uint16, 2**16 + 1: np.uint32, LARGEST_SIZE: np.uint32}
    assert {n: Integer(name="x", low=0, high=n - 1).dtype.type for n in sizes} == sizes


BAD = [
    (lambda: Boolean(name=" "), "column name ' ': expected non-empty text"),
    (lambda: Boolean(name=3), "column name 3: expected non-empty text"),
    (lambda: Boolean(name="\ud800"), "not valid Unicode text"),
    (lambda: Boolean(name="x", missing="yes"), "missing='yes': expected True or False"),
    (lambda: Boolean(name="x", missing_values=("?",)), "lists missing_values .* set missing = true"),
    (lambda: Boolean(name="x", missing=True, missing_values="NA"), "expected a list of texts"),
    (lambda: Boolean(name="x", missing=True, missing_values=("\udc00",)), "not valid Unicode text"),
    (lambda: Categorical(name="x", values=()), "declares no values; list every value"),
    (lambda: Categorical(name="x", values="ab"), "expected a list of values"),
    (lambda: Categorical(name="x", values=("a", "b", " a")), "declares the value 'a' twice"),
    (lambda: Categorical(name="x", values=(1, "1.0", 1.0)), "declares the value '1' twice"),
    (lambda: Categorical(name="x", values=("a", None)), "lists None as a value, which means missing"),
    (lambda: Categorical(name="x", values=("None", None)), "lists None as a value, which means missing"),
    (lambda: Categorical(name="x", values=(math.nan,)), "lists nan as a value, which means missing"),
    (lambda: Categorical(name="x", values=(" ",)), "which means missing; set missing = true"),
    (lambda: Categorical(name="x", values=(math.inf,)), "expected a finite number"),
    (lambda: Categorical(name="x", values=(2**63,)), "more than 64 bits; write it as text"),
    (lambda: Categorical(name="x", values=(["a"],)), "expected text, a number, a boolean or a date"),
    (lambda: Categorical(name="x", values=(dt.datetime(2020, 1, 1),)), "expected text, a number"),
    (lambda: Categorical(name="x", values=("\ud800",)), "not valid Unicode text"),
    (lambda: Categorical(name="x", values=("a",), other=1), "other=1: expected True or False"),
    (lambda: Categorical(name="x", values=("other",), other=True), "remove 'other' or set other = false"),
    (lambda: Categorical(name="x", values=("(missing)",), missing=True), "is also a level's label"),
    (
        lambda: Categorical(name="x", values=("?",), missing=True, missing_values=("?",)),
        "both as a value and as missing",
    ),
    (lambda: Integer(name="x", low=2, high=1), "low = 2 is above high = 1; swap them"),
    (lambda: Integer(name="x", low=0.5, high=1), "low=0.5: expected a whole number"),
    (lambda: Integer(name="x", low=True, high=1), "low=True: expected a whole number"),
    (lambda: Integer(name="x", low=0, high=LARGEST_INTEGER + 1), "expected a whole number from"),
    (lambda: Integer(name="x", low=0, high=LARGEST_SIZE), "levels: at most 2147483648"),
    (lambda: Integer(name="x", low=0, high=1, outside="drop"), "outside='drop': expected one of 'refuse', 'clamp'"),
    (lambda: Numeric(name="x", edges=(1,)), "expected at least two edges, found 1"),
    (lambda: Numeric(name="x", edges=3.0), "expected a list of numbers"),
    (lambda: Numeric(name="x", edges=(0, math.nan)), "edges=nan: expected a finite number"),
    (lambda: Numeric(name="x", edges=(0, "1")), "edges='1': expected a number"),
    (lambda: Numeric(name="x", edges=(0, 10**400)), "an integer of 1329 bits: expected a finite number"),
    (lambda: Numeric(name="x", edges=(0, 1, 1)), "edges must increase"),
    (lambda: Numeric.equal_width(name="x", low=1, high=1, bins=2), "low = 1 is not below high = 1"),
    (lambda: Numeric.equal_width(name="x", low=0, high=math.inf, bins=2), "high=inf: expected a finite number"),
    (lambda: Numeric.equal_width(name="x", low=0, high=1, bins=0), "bins=0: expected a whole number from 1"),
    (lambda: Numeric.equal_width(name="x", low=0, high=1, bins=True), "bins=True: expected a whole number from 1"),
    (lambda: Numeric.equal_width(name="x", low=0, high=1, bins=10**9), "expected a whole number from 1 to 1,048,576"),
    (lambda: Date(name="x", start="2020-01-01", end=dt.date(2021, 1, 1)), "expected a date such as 2020-01-31"),
    (lambda: Date(name="x", start=dt.datetime(2020, 1, 1), end=dt.date(2021, 1, 1)), "expected a date such as"),
    (lambda: Date(name="x", start=dt.date(2021, 1, 1), end=dt.date(2020, 1, 1)), "is after end = 2020-01-01; swap"),
    (
        lambda: Date(name="x", start=dt.date(2020, 1, 1), end=dt.date(2020, 1, 1), granularity="decade"),
        "granularity='decade': expected one of 'day', 'week', 'month', 'quarter', 'year'",
    ),
]


@pytest.mark.parametrize(("build", "message"), BAD)
def test_contradictions_are_refused(build, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        build()


def test_refuse_is_the_default_outside() -> None:
    assert Integer(name="x", low=0, high=1).outside is Outside.REFUSE
    assert Numeric(name="x", edges=(0, 1), outside="clamp").outside is Outside.CLAMP


@given(st.floats(-1e300, 1e300), st.floats(1e-300, 1e300), st.integers(1, 60))
def test_edges_of_equal_width_are_the_nearest_floats(low: float, width: float, bins: int) -> None:
    high = low + width
    exact = [Fraction(low) + (Fraction(high) - Fraction(low)) * k / bins for k in range(bins + 1)]
    assert Numeric.edges_of_equal_width(low, high, bins) == tuple(float(edge) for edge in exact)


def test_a_schema_has_only_so_many_bins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hush.schema.schema.MOST_BINS", 1000)
    columns = [Numeric.equal_width(name=name, low=0, high=1, bins=500) for name in "ab"]
    assert Schema(columns).domain.size() == 250_000
    with pytest.raises(SchemaError, match="up to 'c' have 1,001 bins in all: at most 1,000 are possible; use fewer"):
        Schema([*columns, Numeric(name="c", edges=(0, 1))])


def labels(column: Column) -> list[str]:
    return [column.label(code) for code in range(column.size)]


def test_integers_in_bins_stay_integers() -> None:
    hours = Integer.equal_width(name="hours", low=1, high=10, bins=4, missing=True)
    assert labels(hours) == ["1 to 3", "4 to 5", "6 to 8", "9 to 10", "(missing)"]
    assert hours.level_values() == [2, 4, 7, 9, None]
    assert [type(value) for value in hours.level_values()[:4]] == [int] * 4
    assert labels(Integer(name="x", low=-5, high=9, starts=(-5, 0, 9))) == ["-5 to -1", "0 to 8", "9"]


@pytest.mark.parametrize(("low", "high", "bins"), [(0, 99, 10), (-7, 5, 13), (0, 99, 7), (5, 5, 1), (0, 2**53, 3)])
def test_bins_of_integers_cover_all_and_differ_by_one_at_most(low: int, high: int, bins: int) -> None:
    column = Integer.equal_width(name="x", low=low, high=high, bins=bins)
    ends = [column.ends(code) for code in range(column.levels)]
    assert (len(ends), ends[0][0], ends[-1][1]) == (bins, low, high)
    assert all(b[0] == a[1] + 1 for a, b in pairwise(ends))
    widths = {last - first for first, last in ends}
    assert max(widths) - min(widths) <= 1


def test_points_are_levels_of_their_own() -> None:
    gain = Numeric(name="gain", edges=(0, 100, 1000), points=(0,))
    assert labels(gain) == ["0", "(0, 100)", "[100, 1000]"]
    assert gain.level_values() == [0.0, 50.0, 550.0]
    inside = Numeric(name="x", edges=(0, 10, 20), points=(10, 5, 20))
    assert inside.points == (5.0, 10.0, 20.0)
    assert labels(inside) == ["[0, 5)", "5", "(5, 10)", "10", "(10, 20)", "20"]
    years = Integer(name="y", low=0, high=20, starts=(0, 10), points=(0, 15))
    assert labels(years) == ["0", "1 to 9", "10 to 14", "15", "16 to 20"]


def test_every_float_has_one_level_also_next_to_a_point() -> None:
    column = Numeric(name="x", edges=(0, 10), points=(0, math.nextafter(0, 1), 3))
    near = [0.0, 5e-324, 1e-323, math.nextafter(3, 0), 3.0, math.nextafter(3, 9), 10.0]
    assert [column.code_of(value) for value in near] == [0, 1, 2, 2, 3, 4, 4]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Integer(name="x", low=0, high=9, points=(0,)), "every integer is a level already"),
        (lambda: Integer(name="x", low=0, high=9, starts=(1, 5)), "starts must begin with low = 0"),
        (lambda: Integer(name="x", low=0, high=9, starts=(0, 5, 5)), "and increase up to high = 9"),
        (lambda: Integer(name="x", low=0, high=9, starts=(0, 10)), "up to high = 9 at most"),
        (lambda: Integer(name="x", low=0, high=9, starts=(0, 2.5)), "starts=2.5: expected a whole number"),
        (lambda: Integer(name="x", low=0, high=9, starts=(0,), points=(10,)), r"the point 10 lies outside 0 \.\. 9"),
        (lambda: Integer.equal_width(name="x", low=0, high=9, bins=11), "bins = 11 for 10 integers; use fewer"),
        (lambda: Integer.equal_width(name="x", low=0, high=9, bins=0), "bins=0: expected a whole number from 1"),
        (lambda: Numeric(name="x", edges=(0, 9), points=(9.5,)), r"the point 9.5 lies outside 0 \.\. 9"),
        (lambda: Numeric(name="x", edges=(0, 9), points=(math.nan,)), "points=nan: expected a finite number"),
        (lambda: Numeric(name="x", edges=(0, 9999), points=range(1001)), "lists 1,001 points: at most 1,000"),
        (lambda: Numeric(name="x", edges=(0, 9), points=5), "points=5: expected a list of numbers"),
        (
            lambda: Numeric(name="x", edges=(0, 9), points=(0,), missing=True, missing_values=("0",)),
            "has 0.0 both as a point and as missing; keep one",
        ),
    ],
)
def test_bins_and_points_that_cannot_be_are_refused(make: Callable[[], Column], words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        make()
