"""Conditions on rows: what they select from every source, and what is no test of one row's values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from click.testing import CliRunner

import hush
from hush.cli.main import main
from hush.cli.options import DataOptions, LedgerOptions, UnitOptions
from hush.cli.release_command import resume_command
from hush.core.errors import DataError
from hush.schema import Categorical, Integer, NumberSpelling, Numeric, Schema, Unit
from hush.tables import read
from hush.tables.drafting import draft_schema
from hush.tables.dry_run import dry_run

SCHEMA = Schema([Categorical(name="sex", values=("f", "m"), other=True, missing=True)])
ROWS = {
    "sex": ["f", "m", "f", "m", "f", None],
    "age": [17, 18, 30, None, 9_223_372_036_854_775_807, -5],
    "pay": [0.5, 1.7e308, float("nan"), -1.7e308, 2.5, 10.0],
    "day": ["2020-01-01", "2019-12-31", "", "no day", "2021-05-05", "2020-06-01"],
    "odd name": ["a", "it's", "A", "b", "c", "d"],
}
CONDITIONS: list[tuple[str, list[int]]] = [
    ("age >= 18", [1, 2, 4]),
    ("age < 18 OR sex = 'f'", [0, 2, 4, 5]),
    ("NOT (age BETWEEN 18 AND 30)", [0, 4, 5]),
    ("age IN (17, 30, -5)", [0, 2, 5]),
    ("age IS NULL", [3]),
    ("sex IS NOT NULL AND age IS NOT NULL", [0, 1, 2, 4]),
    ("day >= DATE '2020-01-01'", [0, 4, 5]),
    ("CAST(day AS DATE) < DATE '2020-01-01'", [1]),
    ("\"odd name\" = 'it''s' OR \"odd name\" LIKE 'a%'", [0, 1]),
    ("lower(\"odd name\") = 'a'", [0, 2]),
    ("pay * 2 > 4", [1, 4, 5]),
    ("age * 500000000000000000 > 5", [0, 1]),  # overflows for two rows, which are left out
    ("coalesce(age, 0) = 0", [3]),
    ("age >= 18 -- a comment", [1, 2, 4]),
]


def people() -> pd.DataFrame:
    return pd.DataFrame(ROWS | {"age": pd.array(ROWS["age"], dtype="Int64")})


def sources(folder: Path) -> dict[str, Any]:
    frame = people()
    frame.to_csv(folder / "rows.csv", index=False)
    frame.to_parquet(folder / "rows.parquet")
    return {
        "csv": folder / "rows.csv",
        "parquet": folder / "rows.parquet",
        "pandas": frame,
        "arrow": pa.Table.from_pandas(frame),
        "reader": pa.Table.from_pandas(frame).to_reader(),
    }


@pytest.mark.parametrize("name", ["csv", "parquet", "pandas", "arrow", "reader"])
@pytest.mark.parametrize(("where", "kept"), CONDITIONS, ids=[where for where, _ in CONDITIONS])
def test_only_rows_that_meet_the_condition_are_read(name: str, where: str, kept: list[int], tmp_path: Path) -> None:
    if "500000000000000000" in where and name == "csv":
        kept = [0, 1, 2, 4]  # texts are read as floats, which do not overflow here
    expected = [0, 0, 0, 0]
    for at in kept:
        expected[{"f": 0, "m": 1, None: 3}[ROWS["sex"][at]]] += 1
    counts = read(sources(tmp_path)[name], SCHEMA, where=where).counts([("sex",)])
    assert counts["sex",].tolist() == expected


@pytest.mark.parametrize(
    ("where", "word"),
    [
        ("age > (SELECT avg(age) FROM t)", "one row's values"),
        ("age IN (SELECT 1)", "one row's values"),
        ("EXISTS (SELECT 1)", "one row's values"),
        ("avg(age) > 3", "one row's values"),
        ("row_number() OVER (ORDER BY age) < 5", "one row's values"),
        ("random() < 0.5 AND age > 1", "one row's values"),
        ("day > now()", "one row's values"),
        ("day > current_date", "one row's values"),
        ("age > 1; DROP TABLE t", "one condition"),
        ("age > 1) OR (SELECT 1) = (1", "one condition|one row's values"),
        ("read_text('/etc/passwd') = age", "one row's values"),
        ("getenv('HOME') = sex", "one row's values"),
        ("regexp_matches(sex, '(a+)+')", "one row's values"),
        ("age > $1", "one row's values|one condition"),
        ("age >", "one condition"),
        ("", "characters"),
        ("1 = 1", "names no column"),
        ("t.age > 1", "dot or a star"),
        ("age", "no condition"),
        ("age + 1", "no condition"),
        ("ages > 1", "no column 'ages'"),
    ],
)
def test_what_is_no_test_of_a_row_is_refused_before_a_row_is_read(where: str, word: str, tmp_path: Path) -> None:
    for name in ("csv", "parquet", "arrow"):
        with pytest.raises(DataError, match=word) as refused:
            read(sources(tmp_path)[name], SCHEMA, where=where)
        assert "Binder" not in str(refused.value)


def test_numbers_are_not_compared_with_days(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="compares values of different kinds"):
        read(sources(tmp_path)["parquet"], SCHEMA, where="age = DATE '2020-01-01'")


def test_a_row_is_selected_by_its_own_values_alone(tmp_path: Path) -> None:
    """Whatever else is in the table: each row by itself is selected as it is among the others."""
    frame = people()
    for where, _ in CONDITIONS:
        alone = sum(read(frame.iloc[[at]], SCHEMA, where=where).counts([()])[()] for at in range(len(frame)))
        assert alone == read(frame, SCHEMA, where=where).counts([()])[()]


def test_texts_are_read_by_the_spelling_of_the_schema() -> None:
    euro = Numeric(name="fare", edges=(0, 50, 5000), spelling=NumberSpelling(decimal=",", thousands=".", strip=("€",)))
    rows = pa.table({"fare": ["1.234,50 €", "7 €", "49,99 €"]})
    assert read(rows, Schema([euro]), where="fare > 40").counts([("fare",)])["fare",].tolist() == [1, 1]


def test_rows_are_filtered_before_units_are_capped() -> None:
    rows = pa.table({"id": [1, 1, 1, 2], "age": [5, 20, 30, 40]})
    schema = Schema([Integer(name="age", low=0, high=99)], unit=Unit(column="id", max_rows=1))
    ages = read(rows, schema, where="age < 20 OR age > 35").counts([("age",)])["age",]
    assert ages[[5, 40]].tolist() == [1, 1]
    assert ages.sum() == 2


def test_databases_take_the_condition_in_a_query(postgres: Any) -> None:
    with pytest.raises(DataError, match="write the condition in query="):
        read(postgres.address(), SCHEMA, query="SELECT 'f' AS sex", where="sex = 'f'")


def test_every_command_that_reads_rows_takes_the_condition(tmp_path: Path) -> None:
    path, schema = sources(tmp_path)["csv"], tmp_path / "schema.toml"
    SCHEMA.save(schema)
    where = ("--where", "age >= 18")

    def run(*words: Any) -> str:
        done = CliRunner().invoke(main, [str(word) for word in words])
        assert done.exit_code == 0, done.output
        return done.output

    assert "3 rows" in run("schema", "check", schema, path, *where)
    assert 'values = ["A", "c", "it\'s"]' in run("schema", "draft", path, "--from-data", *where)
    spend = ("--workload", "1-way", "--rho", 50, "--ledger", tmp_path / "b.db", "-o", tmp_path / "r.hush")
    run("release", path, "--schema", schema, *where, *spend)
    assert hush.load(tmp_path / "r.hush").sql("SELECT COUNT(*) FROM t").estimate.item() == pytest.approx(3, abs=3)
    same = tmp_path / "same.csv"
    same.write_text("sex\nf\nm\nf\n")
    run("evaluate", path, same, "--schema", schema, *where, "--workload", "1-way", "--json", tmp_path / "e.json")
    figures = json.loads((tmp_path / "e.json").read_text())
    assert figures["rows"]["real"] == 3
    assert figures["workload"]["error"] == 0
    words = resume_command(DataOptions(data=str(path), where="age >= 18"), schema, path, UnitOptions(), LedgerOptions())
    assert "--where 'age >= 18'" in words


def test_drafts_and_dry_runs_see_the_same_rows(tmp_path: Path) -> None:
    path = sources(tmp_path)["csv"]
    outcome = dry_run(path, SCHEMA, where="age >= 18")
    assert outcome.rows == 3
    assert 'values = ["A", "c", "it\'s"]' in draft_schema(path, from_data=True, where="age >= 18")


def test_a_release_of_filtered_rows_says_nothing_of_the_others(tmp_path: Path) -> None:
    frame = pd.DataFrame({"age": [str(k) for k in range(40)] + ["oops"] * 5})
    schema = Schema([Integer(name="age", low=18, high=39)])
    table = read(frame, schema, where="age >= 18")
    plan = hush.plan("1-way", hush.Budget(rho=50), schema=schema)
    release = plan.release(table, ledger=tmp_path / "budget.db")
    assert release.sql("SELECT COUNT(*) FROM t").estimate.item() == pytest.approx(22, abs=8)
