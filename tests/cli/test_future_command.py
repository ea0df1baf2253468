"""`hush future` on invented and public tables; private ones are refused."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pyarrow.csv
import pytest

import hush
from command_line import run_for_output as run
from hush.core.unit import Unit

QUICK = ["--mechanism", "independent", "--runs", "2", "--draws", "4", "--drift", "0,1"]


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    path = tmp_path / "people.toml"
    hush.datasets.people_schema().save(path)
    return path


def test_rows_are_invented_from_the_schema(schema: Path) -> None:
    code, text = run("future", schema, "--workload", "sex,region; 2-of sex,region,employed", "--rows", 500, *QUICK)
    assert code == 0
    assert "total variation" in text
    assert "Made from a public or invented table" in text


def with_unit(path: Path, max_rows: int) -> None:
    hush.Schema.load(path).with_unit(Unit(column="patient", max_rows=max_rows)).save(path, overwrite=True)


def test_units_are_invented_with_as_many_rows_as_are_used(schema: Path) -> None:
    errors = []
    for max_rows in (1, 4):
        with_unit(schema, max_rows)
        words = ["--workload", "sex; region", "--rows", 2001, *QUICK]
        code, text = run("future", schema, *words, "--format", "json")
        assert code == 0, text
        figures = json.loads(text[text.index("{") :])
        assert figures["table_rows"] == 2001
        errors.append(figures["present_error"])
    assert errors[1] > 2 * errors[0]  # noise for four rows of a unit


def test_a_stand_in_with_units_is_read(schema: Path, tmp_path: Path) -> None:
    data, rows = tmp_path / "public.csv", hush.datasets.people(400, seed=1)
    pyarrow.csv.write_csv(rows.append_column("patient", [[number // 4 for number in range(400)]]), data)
    with_unit(schema, 2)
    words = ["--workload", "sex,region", "--stand-in", data, *QUICK, "--format", "json"]
    code, text = run("future", schema, *words)
    assert code == 0, text
    assert json.loads(text[text.index("{") :])["table_rows"] == 200  # two of the four rows of each


@pytest.mark.parametrize("page", ["docs/thresholds.md", "docs/command-line.md"])
def test_the_command_of_a_page_runs_as_written(schema: Path, page: str) -> None:
    text = (Path(__file__).parents[2] / page).read_text(encoding="utf-8")
    (line,) = [line.strip() for line in text.splitlines() if line.startswith("    hush future ")]
    words = [str(schema) if word == "people.toml" else word for word in shlex.split(line, comments=True)[1:]]
    code, text = run(*words, "--rows", 500, *QUICK)
    assert code == 0
    assert "future error" in text


def test_a_stand_in_is_read(schema: Path, tmp_path: Path) -> None:
    data = tmp_path / "public.csv"
    pyarrow.csv.write_csv(hush.datasets.people(400, seed=1), data)
    words = ["future", schema, "--workload", "sex,region", "--stand-in", data, "--pad", 4, "--chances", "zipf", *QUICK]
    code, text = run(*words, "--format", "json")
    assert code == 0
    figures = json.loads(text[text.index("{") :])
    assert [row["drift"] for row in figures["drifts"]] == [0.0, 1.0]
    assert 0 < figures["drifts"][0]["error"] < 1


def test_chances_may_be_given_for_some_columns(schema: Path) -> None:
    words = ["future", schema, "--workload", "sex,region", "--chances", "sex=5, region=1,age=1", "--rows", 300, *QUICK]
    code, text = run(*words, "--format", "json")
    assert code == 0
    stays, reversed_ = json.loads(text[text.index("{") :])["drifts"]
    assert (stays["distance"], reversed_["distance"]) == (0.0, pytest.approx(4 / 7))


def test_a_table_beside_a_ledger_is_refused(schema: Path, tmp_path: Path) -> None:
    data = tmp_path / "people.csv"
    pyarrow.csv.write_csv(hush.datasets.people(40, seed=1), data)
    assert run("budget", "init", tmp_path / "budget.db", "--epsilon", "1", "--delta", "1e-9")[0] == 0
    (tmp_path / "public").mkdir()
    (tmp_path / "public" / "link.csv").symlink_to(data)
    for name in (data, tmp_path / "public" / "link.csv"):
        code, text = run("future", schema, "--workload", "sex,region", "--stand-in", name, *QUICK)
        assert code == 2
        assert "the ledger budget.db is in the folder of" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--drift", "0,2"], "expected numbers from 0, where all stays, to 1"),
        (["--drift", "x"], "expected numbers from 0 to 1"),
        (["--runs", "0"], "runs=0: expected a whole number of at least 1"),
        (["--rows", "0"], "the exact table has no rows"),
        (["--chances", "zip"], "expected history, uniform, zipf or geometric, or different columns with numbers"),
        (["--chances", "sex=1,sex=2"], "different columns with numbers, such as sex=5,age=2"),
        (["--chances", "sex=1"], "size=2: expected a whole number from 1 to 1, the columns that"),
        (["--chances", "sex=1,age=0"], "expected finite numbers above 0"),
        (["--chances", "sex=1,height=2"], "'height' is not in the domain"),
        (["--workload", "sex; 2-of-3"], "put a + before it, as in age,sex + 2-of-3"),
        (["--workload", "4-of sex,region"], "a threshold of at least 4 of 2 attributes: expected a whole number"),
    ],
)
def test_bad_options_are_refused(schema: Path, words: list[str], message: str) -> None:
    code, text = run("future", schema, "--workload", "sex,region", "--rows", 100, *QUICK, *words)
    assert code == 2
    assert message in " ".join(text.split())
