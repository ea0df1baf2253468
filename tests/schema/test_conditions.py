"""Conditions: values, labels, ranges, wildcards and lists of them as codes, and codes written back."""

import datetime as dt
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from drawn_schemas import columns
from hush.core.errors import SchemaError
from hush.schema import Boolean, Categorical, Column, Date, Integer, Numeric
from hush.schema.conditions import Conditions

SEX = Categorical(name="sex", values=("female", "male", 9), other=True, missing=True, missing_values=("?",))
STAR = Categorical(name="star", values=("*", "**"))
CODE = Categorical(name="code", values=tuple(range(12)), other=True)
FLAG = Boolean(name="flag", missing=True)
AGE = Integer(name="age", low=-5, high=99, missing=True)
PAY = Numeric(name="pay", edges=(0, 10, 50.5, 100), missing=True)
THIRDS = Numeric.equal_width(name="thirds", low=0, high=1, bins=3)
DAY = Date(name="day", start=dt.date(2020, 1, 5), end=dt.date(2020, 3, 20))
MONTH = Date(name="month", start=dt.date(2020, 1, 5), end=dt.date(2020, 12, 20), granularity="month", missing=True)
QUARTER = Date(name="quarter", start=dt.date(2020, 1, 1), end=dt.date(2021, 12, 31), granularity="quarter")

HOURS = Integer(name="hours", low=0, high=9, starts=(0, 6, 8), points=(0, 6, 7))
GAIN = Numeric(name="gain", edges=(0, 10, 20), points=(0, 10, 20))
READ: list[tuple[Column, Any, list[int]]] = [
    (SEX, "male", [1]),
    (SEX, " male ", [1]),
    (SEX, 9, [2]),
    (SEX, 9.0, [2]),
    (SEX, "9", [2]),
    (SEX, "(other)", [3]),
    (SEX, "(missing)", [4]),
    (SEX, "*", [0, 1, 2, 3, 4]),
    (SEX, ["(missing)", "female", "female"], [0, 4]),
    (STAR, "*", [0]),
    (STAR, ["*", "**"], [0, 1]),
    (FLAG, True, [1]),
    (FLAG, "False", [0]),
    (FLAG, ["true", "(missing)"], [1, 2]),
    (AGE, -5, [0]),
    (AGE, "12", [17]),
    (AGE, np.int64(12), [17]),
    (AGE, {"to": -3}, [0, 1, 2]),
    (AGE, {"from": 98}, [103, 104]),
    (AGE, {"from": 0, "to": 0}, [5]),
    (AGE, [{"from": 98, "to": 99}, "(missing)", 0], [5, 103, 104, 105]),
    (PAY, 0, [0]),
    (PAY, 10, [1]),
    (PAY, 9.99, [0]),
    (PAY, 100, [2]),
    (PAY, "[10, 50.5)", [1]),
    (PAY, {"from": 10, "to": 100}, [1, 2]),
    (PAY, {"to": 50.5}, [0, 1]),
    (PAY, {"from": 50.5}, [2]),
    (THIRDS, {"from": 0.333333, "to": 0.666667}, [1]),
    (DAY, dt.date(2020, 1, 6), [1]),
    (DAY, "2020-01-06", [1]),
    (DAY, {"from": dt.date(2020, 3, 19)}, [74, 75]),
    (MONTH, dt.date(2020, 2, 29), [1]),
    (MONTH, "2020-12", [11]),
    (MONTH, {"to": dt.date(2020, 2, 29)}, [0, 1]),
    (MONTH, {"from": dt.date(2020, 1, 5), "to": dt.date(2020, 1, 31)}, [0]),
    (MONTH, {"from": dt.date(2020, 11, 1), "to": dt.date(2020, 12, 20)}, [10, 11]),
    (QUARTER, "2021-Q2", [5]),
    (HOURS, 7, [3]),
    (HOURS, "1 to 5", [1]),
    (HOURS, {"from": 1, "to": 7}, [1, 2, 3]),
    (GAIN, 0, [0]),
    (GAIN, "(0, 10)", [1]),
    (GAIN, {"from": 0, "to": 10}, [0, 1]),
    (GAIN, {"from": 10}, [2, 3, 4]),
    (GAIN, {"to": 20}, [0, 1, 2, 3, 4]),
]


@pytest.mark.parametrize(("column", "condition", "codes"), READ)
def test_conditions_stand_for_codes(column: Column, condition: Any, codes: list[int]) -> None:
    assert Conditions(column).codes(condition).tolist() == codes


WRITTEN: list[tuple[Column, list[int], Any]] = [
    (SEX, [0, 1, 2, 3, 4], "*"),
    (STAR, [0, 1], ["*", "**"]),
    (SEX, [1], "male"),
    (SEX, [2, 3, 4], [9, "(other)", "(missing)"]),
    (FLAG, [0, 1], [False, True]),
    (AGE, [5], 0),
    (AGE, [0, 1, 2, 7, 105], [{"from": -5, "to": -3}, 2, "(missing)"]),
    (PAY, [0, 1], {"from": 0, "to": 50.5}),
    (DAY, [1, 3], [dt.date(2020, 1, 6), dt.date(2020, 1, 8)]),
    (MONTH, [11], "2020-12"),
    (MONTH, [0, 1], {"from": dt.date(2020, 1, 5), "to": dt.date(2020, 2, 29)}),
    (HOURS, [1, 2], {"from": 1, "to": 6}),
    (GAIN, [0], 0),
    (GAIN, [1, 2], ["(0, 10)", 10]),
    (GAIN, [0, 1, 2, 3, 4], "*"),
    (GAIN, [2, 3, 4], {"from": 10, "to": 20}),
]


@pytest.mark.parametrize(("column", "codes", "condition"), WRITTEN)
def test_codes_are_written_briefly(column: Column, codes: list[int], condition: Any) -> None:
    assert Conditions(column).written(codes) == condition


@pytest.mark.parametrize("column", [GAIN, HOURS], ids=lambda column: column.name)
def test_every_set_of_bins_and_points_is_written_and_read_back(column: Column) -> None:
    conditions = Conditions(column)
    for chosen in range(1, 2**column.size):
        codes = [code for code in range(column.size) if chosen >> code & 1]
        assert conditions.codes(conditions.written(codes)).tolist() == codes


@given(columns(), st.data())
def test_what_is_written_is_read_back(column: Column, data: st.DataObject) -> None:
    drawn = data.draw(st.lists(st.integers(0, column.size - 1), min_size=1, max_size=8))
    codes = sorted({code for start in drawn for code in range(start, min(start + 3, column.size))})
    conditions = Conditions(column)
    assert conditions.codes(conditions.written(codes)).tolist() == codes


@given(columns(), st.data())
def test_every_label_stands_for_its_level(column: Column, data: st.DataObject) -> None:
    code = data.draw(st.integers(0, column.size - 1))
    label = column.label(code)
    assume(label != "*")
    assert Conditions(column).codes(label).tolist() == [code]


BAD: list[tuple[Column, Any, str]] = [
    (SEX, "mail", "column 'sex': 'mail' is none of its levels; did you mean 'male'?"),
    (SEX, "unknown thing", "is none of its levels; expected one of its values: 'female', 'male'"),
    (CODE, "zz", r"expected one of its values: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, \.\.\. \(12 in all\), '\(other\)'$"),
    (SEX, "?", r"'\?' means missing; write \"\(missing\)\""),
    (SEX, {"from": 1}, "is a range, and a categorical column has no order; list the values"),
    (SEX, [], "the list is empty; list at least one level"),
    (SEX, [["male"]], "the list holds another list; write one list"),
    (SEX, None, "None is none of its levels"),
    (SEX, dt.datetime(2020, 1, 1), "is none of its levels"),
    (SEX, 2**99, "is none of its levels"),
    (FLAG, 1, "1 is none of its levels; expected true or false"),
    (AGE, 100, r"100 lies outside -5 \.\. 99; give a value inside$"),
    (AGE, "100", r"100 lies outside -5 \.\. 99"),
    (AGE, 1.0, "1.0 is none of its levels; expected an integer or a range"),
    (AGE, True, "True is none of its levels"),
    (AGE, "(mising)", r"did you mean '\(missing\)'?"),
    (AGE, {"from": 9, "to": 3}, "column 'age': {from = 9, to = 3} holds no level; from must lie before to"),
    (AGE, {}, 'has neither from nor to; give one of them, or write "\\*"'),
    (AGE, {"form": 3}, "column 'age': unknown key 'form'; did you mean 'from'?"),
    (AGE, {"from": "3"}, "'3' is a text at the end of a range; write it without quotes"),
    (AGE, {"from": 3, "to": 200}, r"200 lies outside -5 \.\. 99"),
    (PAY, {"from": 3}, r"3 cuts the bin \[0, 10\); write the edge 0 or 10"),
    (PAY, {"to": 60}, r"60 cuts the bin \[50.5, 100\]; write the edge 50.5 or 100"),
    (PAY, {"from": 10, "to": 10}, "holds no level"),
    (HOURS, {"from": 3}, "3 cuts the bin 1 to 5; write from = 1$"),
    (HOURS, {"to": 3}, "3 cuts the bin 1 to 5; write to = 5$"),
    (GAIN, {"from": 3}, r"3 cuts the bin \(0, 10\); write the edge 0 or 10"),
    (PAY, float("nan"), r"nan lies outside 0 \.\. 100"),
    (PAY, "[10, 50)", r"did you mean '\[10, 50.5\)'?"),
    (DAY, dt.date(2020, 1, 4), r"2020-01-04 lies outside 2020-01-05 \.\. 2020-03-20"),
    (DAY, "2020-01-04", "expected a date such as 2020-01-31"),
    (
        MONTH,
        {"from": dt.date(2020, 2, 2)},
        "2020-02-02 cuts the month 2020-02-01 to 2020-02-29; write from = 2020-02-01",
    ),
    (MONTH, {"to": dt.date(2020, 2, 2)}, "write to = 2020-02-29"),
    (MONTH, {"to": 3}, "3 is none of its levels; expected a date"),
]


@pytest.mark.parametrize(("column", "condition", "message"), BAD)
def test_mistakes_are_named(column: Column, condition: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        Conditions(column).codes(condition)


def test_days_of_a_level() -> None:
    assert [MONTH.days(code) for code in (0, 1, 11)] == [
        (dt.date(2020, 1, 5), dt.date(2020, 1, 31)),
        (dt.date(2020, 2, 1), dt.date(2020, 2, 29)),
        (dt.date(2020, 12, 1), dt.date(2020, 12, 20)),
    ]
