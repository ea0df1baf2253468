"""`hush query --threshold`: rows that match in r of k columns, from a release and from a model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import hush
from command_line import run_for_output as run

CLIQUE = ("sex", "region", "employed")


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("query") / "people.hush"
    table = hush.read(hush.datasets.people(300, seed=1), hush.datasets.people_schema())
    workload = hush.Workload.marginals(table.domain, [CLIQUE])
    hush.plan(workload, hush.Budget(rho=0.5), mechanism="residual").release(table).save(path)
    return path


def test_a_threshold_is_answered_with_its_errors(release: Path) -> None:
    code, text = run("query", release, "--threshold", "2-of sex,region,employed", "--format", "json")
    assert code == 0
    answers = json.loads(text)
    expected = hush.load(release).threshold(CLIQUE, r=2).to_dict()
    assert answers == expected
    assert {row["basis"] for row in answers["rows"]} == {"exact"}


def test_a_model_answers_without_errors(release: Path, tmp_path: Path) -> None:
    model = tmp_path / "model.hush"
    assert run("model", release, "-o", model)[0] == 0
    code, text = run("query", model, "--threshold", "1-of sex,employed", "--format", "json")
    assert code == 0
    assert {row["basis"] for row in json.loads(text)["rows"]} == {"none"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--threshold", "2-of-3"], "expected one set of columns, such as"),
        (["--threshold", "age:prefix"], "expected one set of columns, such as"),
        (["--threshold", "4-of sex,region"], "at least 4 of 2 attributes"),
        (["--threshold", "1-of sex,income"], "has no table over"),
        (["--threshold", "1-of sex,region", "--term", "0"], "ask either SQL or, with --term"),
        ([], "ask either SQL or, with --term"),
    ],
)
def test_what_cannot_be_asked_is_refused(release: Path, words: list[str], message: str) -> None:
    code, text = run("query", release, *words)
    assert code == 2
    assert message in " ".join(text.split())


def test_all_rows_are_printed_on_request(release: Path) -> None:
    sums = "COUNT(*) AS n, 2 * COUNT(*) AS twice, 1000000 * COUNT(*) AS millions"
    sql = f"SELECT region, sex, employed, {sums} FROM t GROUP BY region, sex, employed"
    few, everything = run("query", release, sql), run("query", release, sql, "--all")
    answers = hush.load(release).sql(sql)
    assert "--all prints all 20 rows" in few[1]
    assert (few[0], everything[0]) == (0, 0)
    assert "more rows" not in everything[1]
    lines = [line for line in everything[1].splitlines() if " twice " in line or " n " in line]
    assert len(lines) == 2 * len(answers)  # one line for each value of each group
