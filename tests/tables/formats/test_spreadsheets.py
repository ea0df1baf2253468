"""Spreadsheets: cells mean what the same values mean in memory; names of sheets and columns are looked up."""

from __future__ import annotations

import datetime as dt
import re
import sys
import zipfile

import openpyxl
import pytest

from hush.core.errors import DataError
from hush.schema import Boolean, Categorical, Date, Integer, Numeric, Schema, Unit
from hush.tables import read
from hush.tables.drafting import draft_schema

SCHEMA = Schema(
    [
        Integer(name="age", low=0, high=3),
        Categorical(name="sex", values=("f", "m"), missing=True),
        Numeric(name="pay", edges=(0, 0.1, 1, 100)),
        Date(name="day", start=dt.date(2020, 1, 1), end=dt.date(2020, 1, 3), granularity="day"),
        Boolean(name="own"),
    ]
)
HEADER = ["id", "age", " sex ", "pay", "day", "own", None]
ROWS = [
    [7, 1, "f", 0.1, dt.datetime(2020, 1, 2), True],
    [7.0, 1.0, " m ", "0.05", dt.date(2020, 1, 2), "no"],
    [],
    ["8", 3, None, 99, dt.datetime(2020, 1, 3, 23, 59), 1],
]


@pytest.fixture
def path(tmp_path):
    book = openpyxl.Workbook()
    book.active.title = "People"
    for row in ([], HEADER, *ROWS):
        book.active.append(row)
    book.save(tmp_path / "data.xlsx")
    return tmp_path / "data.xlsx"


@pytest.mark.parametrize("engine", ["memory", "stream", "sql"])
def test_cells_are_coded(engine, path) -> None:
    counts = read(path, SCHEMA, engine=engine).counts([("age",), ("sex",), ("pay",), ("day",), ("own",)])
    assert [counts[name,].tolist() for name in SCHEMA.domain] == [
        [0, 2, 0, 1],
        [1, 1, 1],
        [1, 1, 1],
        [0, 2, 1],
        [1, 2],
    ]
    people = read(path, SCHEMA, unit="id", max_rows_per_unit=1, engine=engine)
    assert people.counts([()])[()].tolist() == 2  # 7 and 7.0 are one id


def test_sheets_are_chosen_by_name(path) -> None:
    book = openpyxl.load_workbook(path)
    book.create_sheet("Other")
    book.save(path)
    with pytest.raises(DataError, match="has several sheets; say which with table= .*--table.*: 'People', 'Other'"):
        read(path, SCHEMA)
    with pytest.raises(DataError, match="has no sheet 'people'; it has 'People', 'Other'"):
        read(path, SCHEMA, table="people")
    with pytest.raises(DataError, match="the sheet 'Other' of the file .* is empty"):
        read(path, SCHEMA, table="Other")
    assert read(path, SCHEMA, table="People").counts([()])[()].tolist() == 3


def test_what_does_not_fit_is_named_without_its_cells(path) -> None:
    with pytest.raises(DataError, match="the sheet 'People' of the file .* has no column 'ages'"):
        read(path, Schema([*SCHEMA, Integer(name="ages", low=0, high=1)]))
    with pytest.raises(DataError, match="none of the schema's columns is in the first row") as caught:
        read(path, Schema([Integer(name="x", low=0, high=1)]))
    assert "age" not in str(caught.value)
    with pytest.raises(DataError, match="query= goes with databases"):
        read(path, SCHEMA, query="SELECT 1")


def test_a_draft_of_a_sheet(path) -> None:
    assert '[columns.age]\nkind = "integer"          # a guess' in draft_schema(path)
    assert "high = 3" in draft_schema(path, from_data=True)


def test_without_the_reader_the_message_says_what_to_install(path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(DataError, match=r"reading Excel needs openpyxl; run: pip install 'hush\[excel\]'"):
        read(path, SCHEMA.with_unit(Unit()))


def test_formulas_that_were_never_computed_are_refused_with_their_address(path) -> None:
    """openpyxl writes formulas without values, as programs do that export a sheet."""
    book = openpyxl.load_workbook(path)
    book.active["D3"] = "=0.05*2"  # pay of the first row
    book.save(path)
    with pytest.raises(DataError) as refused:
        read(path, SCHEMA)
    assert str(refused.value) == (
        f"the sheet 'People' of the file {str(path)!r}: the formula in cell D3 has no computed value, and others may "
        "have none either; open the file in a spreadsheet program, save it, and read it again"
    )
    others = Schema([column for column in SCHEMA if column.name != "pay"])
    assert read(path, others).counts([()])[()].tolist() == 3  # a column that nobody reads
    with pytest.raises(DataError, match="cell D3"):
        draft_schema(path)


def test_a_name_that_is_a_formula_is_refused_likewise(path) -> None:
    book = openpyxl.load_workbook(path)
    book.active["B2"] = '="a" & "ge"'
    book.save(path)
    with pytest.raises(DataError, match="formula in cell B2 has no computed value"):
        read(path, SCHEMA)


def test_a_formula_with_a_value_counts_also_where_that_is_empty_text(path, tmp_path) -> None:
    book = openpyxl.load_workbook(path)
    book.active["C3"], book.active["D3"] = "=1", "=2"
    book.save(path)
    computed = tmp_path / "computed.xlsx"
    with zipfile.ZipFile(path) as before, zipfile.ZipFile(computed, "w") as after:
        for item in before.namelist():
            text = before.read(item)
            text = re.sub(rb'<c r="C3"[^>]*><f>1</f><v ?/></c>', b'<c r="C3" t="str"><f>1</f><v></v></c>', text)
            text = re.sub(rb"<f>2</f><v ?/>", b"<f>2</f><v>0.05</v>", text)
            after.writestr(item, text)
    counts = read(computed, SCHEMA).counts([("sex",), ("pay",)])
    assert counts["sex",].tolist() == [0, 1, 2]
    assert counts["pay",].tolist() == [2, 0, 1]
