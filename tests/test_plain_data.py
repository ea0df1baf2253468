"""Plain data: what programs read of answers, plans, releases, bounds and ledgers is JSON and says what hush says."""

import datetime as dt
import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest
from click.testing import CliRunner

import hush
from hush.cli.main import main
from hush.datasets import people, people_schema
from hush.release.answers import Answers
from hush.release.error_bounds import BoundTable, ErrorBound
from hush.schema import Date, Granularity, Integer, Schema

BUDGET = hush.Budget(epsilon=1.0, delta=1e-9)


def json_of(value: Any) -> Any:
    """The plain form after a way through JSON, which must lose nothing."""
    plain = value.to_dict()
    read = json.loads(json.dumps(plain, allow_nan=False))
    assert read == plain
    return read


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plain")
    schema = people_schema()
    schema.save(folder / "people.toml")
    plan = hush.plan(hush.Workload.kway(schema.domain, 1), BUDGET)
    table = hush.read(people(500, seed=1), schema)
    plan.release(table, ledger=folder / "budget.db", name="people").save(folder / "people.hush")
    return folder


def run(*words: object) -> Any:
    done = CliRunner().invoke(main, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_answers_have_rows_with_null_for_what_is_not_known() -> None:
    schema = Schema(
        [
            Date(name="day", start=dt.date(2020, 1, 1), end=dt.date(2020, 1, 2), granularity=Granularity.DAY),
            Integer(name="n", low=0, high=0, missing=True),
        ]
    )
    made = json_of(Answers.of_marginal(schema, ("day", "n"), np.ones((2, 2)), None, 0.9, notes=["a note"]))
    assert made["groups"] == ["day", "n"]
    assert (made["values"], made["level"], made["notes"]) == (["count"], 0.9, ["a note"])
    assert made["rows"][1] == {
        "day": "2020-01-01",
        "n": None,
        "estimate": 1.0,
        "std_error": None,
        "lower": None,
        "upper": None,
        "basis": "none",
    }


def test_a_query_prints_the_plain_form_of_its_answers(folder: Path) -> None:
    sql = "SELECT sex, COUNT(*) FROM t GROUP BY sex"
    made = run("query", folder / "people.hush", sql, "--format", "json")
    answers = hush.load(folder / "people.hush").sql(sql)  # type: ignore[union-attr]
    assert made == json_of(answers)
    assert [row["estimate"] for row in made["rows"]] == answers.estimate.tolist()


def test_a_plan_lists_every_table_with_its_error(folder: Path) -> None:
    plan = hush.plan(hush.Workload.upto(people_schema().domain, 1), BUDGET)
    made = json_of(plan)
    assert [table["std_error"] for table in made["tables"]] == np.sqrt(plan.term_variances).tolist()
    assert [tuple(table["columns"]) for table in made["tables"]] == list(plan.workload.cliques)
    assert made["rmse"] == plan.rmse
    assert Fraction(made["spends"]["rho"]) >= plan.rho
    asked = ("--workload", "<=1-way", "--epsilon", 1, "--delta", 1e-9, "--json")
    assert run("plan", folder / "people.toml", *asked) == made


def test_an_adaptive_plan_has_no_errors_beforehand() -> None:
    made = json_of(hush.plan(hush.Workload.kway(people_schema().domain, 2), BUDGET, mechanism="aim"))
    assert (made["mechanism"], made["rmse"], made["max_std_error"]) == ("aim", None, None)
    assert {table["std_error"] for table in made["tables"]} == {None}


def test_a_plan_for_a_target_error_prints_json_alone(folder: Path) -> None:
    made = run("plan", folder / "people.toml", "--workload", "1-way", "--target-error", 20, "--json")
    assert made["rmse"] <= 20


def test_a_release_says_what_it_promises(folder: Path) -> None:
    release = hush.load(folder / "people.hush")
    made = json_of(release)
    assert made["statement"]["budget"] == {"epsilon": 1.0, "delta": 1e-9}
    assert made["columns"]["sex"] == 2
    assert (made["complete"], made["workload"]["tables"]) == (True, 7)


def test_bounds() -> None:
    known = ErrorBound(clique=("a", "b"), kind="supported", bound=12.0, share=0.5)
    unknown = ErrorBound(clique=("c",), kind="none", bound=math.nan, share=math.nan)
    made = json_of(BoundTable([known, unknown], 0.9, simultaneous=True))
    assert (made["level"], made["simultaneous"]) == (0.9, True)
    assert made["bounds"][0] == {"table": ["a", "b"], "kind": "supported", "bound": 12.0, "share": 0.5}
    assert made["bounds"][1] == {"table": ["c"], "kind": "none", "bound": None, "share": None}


def test_a_ledger_adds_up_exactly(folder: Path) -> None:
    ledger = hush.Ledger.open(folder / "budget.db")
    made = json_of(ledger)
    assert Fraction(made["spent"]) + Fraction(made["left"]) == Fraction(made["limit"]) == ledger.budget.limit
    assert [entry["action"] for entry in made["entries"]] == ["cap", "charge"]
    assert run("budget", folder / "budget.db", "--json") == [made]


@pytest.mark.parametrize(
    "words",
    [["plan", "people.toml", "--workload", "1-way", "--rho", "0.1"], ["budget", "budget.db"], ["mechanisms"]],
    ids=lambda words: words[0],
)
def test_format_json_is_that_of_the_older_flag(folder: Path, words: list[str]) -> None:
    command = [str(folder / word) if (folder / word).exists() else word for word in words]
    assert run(*command, "--format", "json") == run(*command, "--json") != []


def test_evaluate_prints_json_alone(folder: Path, tmp_path: Path) -> None:
    pyarrow.parquet.write_table(people(50, seed=1), tmp_path / "rows.parquet")
    options = ["--schema", folder / "people.toml", "--workload", "1-way", "--format", "json"]
    made = run("evaluate", tmp_path / "rows.parquet", tmp_path / "rows.parquet", *options)
    assert made["rows"] == {"real": 50, "synthetic": 50, "modelled": False}
    assert "not for release" in made["stamp"]


@pytest.mark.parametrize(
    "words", [["plan", "people.toml", "--workload", "1-way", "--rho", "0.1"], ["model", "people.hush"]]
)
def test_files_of_hush_do_not_go_to_standard_output(folder: Path, words: list[str]) -> None:
    command = [str(folder / word) if (folder / word).exists() else word for word in words]
    done = CliRunner().invoke(main, [*command, "-o", "-"])
    assert done.exit_code == 2
    assert "only rows, pages and schemas can be written to standard output; give a file name" in done.stderr
