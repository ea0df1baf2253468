"""A dry run of rows against a schema: all columns at once, with counts, examples and causes."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from hush.core.errors import DataError
from hush.schema import Boolean, Categorical, Date, Integer, Numeric, Schema, TimeOfDay, Timestamp, Unit
from hush.tables import read
from hush.tables.dry_run import DryRun, dry_run

SCHEMA = Schema(
    [
        Integer(name="age", low=0, high=99),
        Categorical(name="sex", values=("female", "male"), other=True, missing=True),
        Categorical(name="city", values=("ulm", "bonn")),
        Boolean(name="owner"),
    ]
)
ROWS = {
    "age": ["17", "18.5", "18.5", "300", " 20 "],
    "sex": ["female", "", "x", "male", "male"],
    "city": ["Ulm", "bonn", "ULM", "rome", "ulm"],
    "owner": ["yes", "no", "1", "0", "true"],
}


def causes(outcome: DryRun, name: str) -> dict[str, tuple[int, tuple[str, ...]]]:
    column = next(column for column in outcome.columns if column.name == name)
    return {values.cause.split(":")[0]: (values.count, values.examples) for values in column.refused}


def sources(tmp_path: Path) -> list[object]:
    frame = pd.DataFrame(ROWS)
    frame.to_csv(tmp_path / "people.csv", index=False)
    frame.to_parquet(tmp_path / "people.parquet")
    return [
        tmp_path / "people.csv",
        tmp_path / "people.parquet",
        frame,
        pl.DataFrame(ROWS),
        pl.LazyFrame(ROWS),
        pa.table(ROWS),
    ]


def test_every_source_gives_all_columns_with_counts_examples_and_causes(tmp_path) -> None:
    for source in sources(tmp_path):
        outcome = dry_run(source, SCHEMA)
        assert (outcome.rows, outcome.fits) == (5, False)
        assert causes(outcome, "age") == {
            "fractional values in an integer column": (2, ("18.5",)),
            "values above high = 99": (1, ("300",)),
        }
        assert causes(outcome, "city") == {
            "differ from the declared `ulm` in case only": (2, ("ULM", "Ulm")),
            "not among the declared values": (1, ("rome",)),
        }
        fits = {
            column.name: (column.levels, column.missing, column.other, column.refusals) for column in outcome.columns
        }
        assert fits == {"age": (2, 0, 0, 3), "sex": (3, 1, 1, 0), "city": (2, 0, 0, 3), "owner": (5, 0, 0, 0)}


def test_columns_that_are_absent_or_of_another_type_do_not_hide_the_others() -> None:
    table = pa.table({"age": [[1], [2]], "city": ["ulm", "rome"], "owner": [True, False]})
    outcome = dry_run(table, SCHEMA)
    problems = {column.name: column.problem for column in outcome.columns}
    assert problems["age"].startswith("column 'age' is stored as BIGINT[], which the kind 'integer' cannot read")
    assert problems["sex"].startswith("the Arrow table has no column 'sex'")
    assert causes(outcome, "city") == {"not among the declared values": (1, ("rome",))}
    assert causes(outcome, "owner") == {}


def test_the_unit_is_looked_at_too() -> None:
    schema = Schema([Integer(name="x", low=0, high=9)], unit=Unit(column="who"))
    outcome = dry_run(pa.table({"who": ["ann", "", None], "x": [1, 2, 3]}), schema)
    assert causes(outcome, "who") == {"rows without an id": (2, ())}
    assert dry_run(pa.table({"x": [1]}), schema).columns[1].problem.startswith("the Arrow table has no column 'who'")


def test_the_owner_sees_how_many_rows_each_cap_would_keep(tmp_path) -> None:
    ids = [who for who, rows in {"a": 1, "b": 3, "c": 60}.items() for _ in range(rows)] + ["", None]
    frame = pd.DataFrame({"id": ids, "age": "7"})
    schema = Schema([SCHEMA["age"]], unit=Unit(column="id", max_rows=3))
    outcome = dry_run(frame, schema)
    assert outcome.rows_per_unit is not None
    assert outcome.rows_per_unit.units == 3
    assert outcome.rows_per_unit.kept == {1: 3, 2: 5, 3: 7, 5: 9, 10: 14, 20: 24, 50: 54}
    for most, kept in outcome.rows_per_unit.kept.items():
        rows = frame[frame["id"].isin(["a", "b", "c"])]
        assert read(rows, schema, unit="id", max_rows_per_unit=most).counts([()])[()] == kept
    text = str(outcome)
    assert text.startswith("PRIVATE: ")
    assert "(there are 3 values of 'id')" in text
    assert any(line.split() == ["3", "7", "10.6%", "3x", "now"] for line in text.splitlines())
    assert json.loads(json.dumps(outcome.to_dict()))["rows_per_unit"]["kept"]["50"] == 54
    assert dry_run(frame, schema.with_unit(Unit())).rows_per_unit is None


def test_the_text_is_marked_private_and_prints_nothing_that_controls_a_terminal() -> None:
    schema = Schema([Categorical(name="x", values=("a",))])
    text = str(dry_run(pa.table({"x": ["\x1b[31mred", "a"]}), schema))
    assert text.startswith("PRIVATE: exact counts and values of the rows, for the eyes of their owner only.")
    assert "1 not among the declared values" in text
    assert "`\\x1b[31mred`" in text
    assert "\x1b" not in text
    assert "1 of 1 columns do not fit the schema." in text
    assert "not by the values above" in text


def test_rows_that_fit_say_so_and_a_release_would_take_them() -> None:
    table = pa.table({"x": ["a", "a"]})
    schema = Schema([Categorical(name="x", values=("a",))])
    outcome = dry_run(table, schema)
    assert outcome.fits
    assert str(outcome).endswith("All columns fit the schema.")
    assert json.loads(json.dumps(outcome.to_dict()))["private"] is True
    assert read(table, schema).counts([("x",)])[("x",)].tolist() == [2]


def test_a_stream_that_can_be_read_once_is_refused() -> None:
    reader = pa.table({"x": ["a"]}).to_reader()
    with pytest.raises(DataError, match="can be read only once, a dry run reads twice"):
        dry_run(reader, Schema([Categorical(name="x", values=("a",))]))


def test_times_are_looked_at_once_with_their_causes() -> None:
    days = {"start": dt.date(2024, 1, 1), "end": dt.date(2024, 12, 31)}
    schema = Schema([Timestamp(name="pickup", parts=("date", "hour"), **days), TimeOfDay(name="departure")])
    rows = {
        "pickup": ["2024-05-01 10:00", "2023-12-31 10:00", "01.05.2024 10:00", "2024-05-01 10:00 PM", "x", ""],
        "departure": ["08:30", "08:30 PM", "23:59:60", "24:00", "2024-05-01 08:30", "n/a"],
    }
    outcome = dry_run(pa.table(rows), schema)
    assert [(column.name, column.kind, column.levels) for column in outcome.columns] == [
        ("pickup", "timestamp", 1),
        ("departure", "time", 1),
    ]
    assert set(causes(outcome, "pickup")) == {
        "days before start = 2024-01-01",
        "dates in another order or spelling",
        "hours with AM or PM",
        "texts that are no dates",
        "empty cells",
    }
    assert set(causes(outcome, "departure")) == {
        "hours with AM or PM",
        "seconds of 60",
        "texts that are no times of day",
        "dates among times of day",
        "marks for missing",
    }


def test_a_type_that_holds_no_times_is_a_problem_of_the_column() -> None:
    outcome = dry_run(pa.table({"departure": [1.5]}), Schema([TimeOfDay(name="departure")]))
    assert outcome.columns[0].name == "departure"
    assert "which the kind 'time' cannot read" in outcome.columns[0].problem


@pytest.mark.parametrize("kind", [str, float])
def test_values_that_would_be_clamped_are_counted_by_themselves(kind: type) -> None:
    schema = Schema(
        [
            Integer(name="age", low=0, high=99, outside="clamp", missing=True),
            Numeric(name="fare", edges=(0, 20, 50, 100), points=(0,), outside="clamp"),
            Integer(name="year", low=2000, high=2020),
        ]
    )
    rows = {
        "age": [kind(value) for value in (17, -1, 100, 99, 0)],
        "fare": [kind(value) for value in (0, 12.5, 100, 512.3, -3)],
        "year": [kind(value) for value in (2001, 2020, 2000, 2010, 1999)],
    }
    found = dry_run(pa.table(rows), schema)
    counts = [(c.levels, c.clamped, c.missing, c.other, c.refusals) for c in found.columns]
    assert counts == [(3, 2, 0, 0, 0), (3, 2, 0, 0, 0), (4, 0, 0, 0, 1)]
    assert "clamped" in str(found)
    assert found.to_dict()["columns"][1]["clamped"] == 2


def test_days_that_would_be_clamped_are_counted_by_themselves() -> None:
    schema = Schema(
        [
            Date(name="moved", start=dt.date(2020, 1, 1), end=dt.date(2020, 12, 31), outside="clamp"),
            Timestamp(
                name="seen",
                start=dt.date(2020, 1, 1),
                end=dt.date(2020, 12, 31),
                parts=("hour", "date"),
                outside="clamp",
            ),
        ]
    )
    rows = {
        "moved": ["2019-12-31", "2020-01-01", "2021-01-01"],
        "seen": ["2020-05-01 10:00", "2021-05-01 10:00", "2020-12-31 23:59"],
    }
    found = dry_run(pa.table(rows), schema)
    assert [(c.name, c.levels, c.clamped, c.refusals) for c in found.columns] == [("moved", 1, 2, 0), ("seen", 2, 1, 0)]


def test_clamping_is_counted_beside_columns_that_cannot_be_read() -> None:
    clamped = [Integer(name=name, low=0, high=9, outside="clamp") for name in ("absent", "a", "b")]
    found = dry_run(pa.table({"a": [5, 10, 11], "b": [1, 2, -1]}), Schema(clamped))
    assert [(c.name, c.levels, c.clamped, bool(c.problem)) for c in found.columns] == [
        ("absent", 0, 0, True),
        ("a", 1, 2, False),
        ("b", 2, 1, False),
    ]


def test_lines_count_as_often_as_their_counts_say() -> None:
    schema = Schema([Integer(name="age", low=0, high=99, outside="clamp", missing=True)])
    lines = pa.table({"age": ["1", "150", None, "x", "y"], "n": [2**40, 3, 5, 7, 0]})
    found = dry_run(lines, schema, counts="n")
    age, counts = found.columns
    assert found.rows == 2**40 + 15
    assert (age.levels, age.clamped, age.missing, age.refusals) == (2**40, 3, 5, 7)
    assert [values.examples for values in age.refused] == [("x",)]
    assert (counts.name, counts.kind, counts.levels, counts.fits) == ("n", "counts", 5, True)


def test_counts_that_do_not_fit_are_shown_with_their_causes() -> None:
    schema = Schema([Integer(name="age", low=0, high=99)])
    lines = pa.table({"age": [1, 2, 3, 4], "n": ["5", "-2", "0.5", None]})
    found = dry_run(lines, schema, counts="n")
    assert not found.fits
    causes = {values.cause.split(" counts")[0]: values.count for values in found.columns[1].refused}
    assert causes == {"negative": 1, "fractional": 1, "missing": 1}
    assert found.rows == 8
    for counts, problem in ([True] * 4, "cannot be a count"), ([2**61] * 4, "adds up to more than"):
        found = dry_run(pa.table({"age": [1, 2, 3, 4], "n": counts}), schema, counts="n")
        assert not found.fits
        assert problem in str(found)
    assert "has no column 'm'" in str(dry_run(lines, schema, counts="m"))
