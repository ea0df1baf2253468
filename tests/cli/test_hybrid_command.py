"""`hush hybrid` on files: question, report, estimate, head list, demo, and refusals of one line."""

import json
from pathlib import Path
from typing import Any

import pytest

from command_line import run_hush as run
from hush.privacy.ledger import Ledger


def made(folder: Path, *words: object) -> Path:
    path = folder / "question.json"
    result = run("hybrid", "question", *words, "-o", path)
    assert result.exit_code == 0, result.output
    return path


def reports_of(folder: Path, question: Path, values: list[str]) -> Path:
    (folder / "values.txt").write_text("\n".join(values))
    path = folder / "reports.jsonl"
    result = run("hybrid", "report", question, "--values", folder / "values.txt", "-o", path)
    assert result.exit_code == 0, result.output
    return path


def test_a_choice_from_question_to_estimate(tmp_path: Path) -> None:
    question = made(tmp_path, "choice", "--name", "fruit", "--option", "apple", "--option", "pear", "--epsilon", "3")
    reports = reports_of(tmp_path, question, ["apple"] * 300 + ["pear"] * 100)
    result = run("hybrid", "estimate", question, reports, "--format", "json")
    body = json.loads(result.output)
    assert body["reports"] == 400
    assert body["shares"][0]["estimate"] == pytest.approx(0.75, abs=0.2)
    assert "95 % interval" in run("hybrid", "estimate", question, reports).output


@pytest.mark.parametrize(
    ("words", "values", "key"),
    [
        (
            ["number", "--name", "hours", "--lower", "0", "--upper", "12", "--epsilon", "2"],
            ["7", "8", "13"] * 20,
            "mean",
        ),
        (["yes-no", "--name", "smoker", "--epsilon", "1.5"], ["yes", "no"] * 20, "shares"),
        (["choice", "--name", "c", "--option", "a", "--other", "--epsilon", "1"], ["a", "zzz"] * 20, "shares"),
    ],
)
def test_other_kinds(tmp_path: Path, words: list[str], values: list[str], key: str) -> None:
    question = made(tmp_path, *words)
    result = run("hybrid", "estimate", question, reports_of(tmp_path, question, values), "--format", "json")
    assert key in json.loads(result.output)


def test_a_device_remembers_and_says_what_it_moved(tmp_path: Path) -> None:
    question = made(tmp_path, "number", "--name", "hours", "--lower", "0", "--upper", "12", "--epsilon", "2")
    memory = tmp_path / "memory.json"
    first, again = (run("hybrid", "report", question, "13", "--memory", memory) for _ in range(2))
    assert first.stdout == again.stdout
    assert "moved to the nearest bound" in first.stderr
    limited = run("hybrid", "report", question, "5", "--memory", memory, "--limit", "3")
    assert limited.exit_code == 2
    assert "beyond its limit of 3" in limited.output


def test_a_question_is_recorded_before_it_is_written_and_refused_beyond_the_cap(tmp_path: Path) -> None:
    ledger = tmp_path / "budget.db"
    made(tmp_path, "yes-no", "--name", "smoker", "--epsilon", "2", "--ledger", ledger)
    assert Ledger.open(ledger, dataset="clients").remaining == 0
    second = run(
        "hybrid", "question", "yes-no", "--name", "x", "--epsilon", "1", "--ledger", ledger, "-o", tmp_path / "b"
    )
    assert second.exit_code == 2
    assert not (tmp_path / "b").exists()
    shown = run("budget", ledger)
    assert "dataset clients" in shown.output
    assert "each client" in shown.output


def test_a_forged_report_is_refused_by_its_line_and_can_be_skipped(tmp_path: Path) -> None:
    question = made(tmp_path, "yes-no", "--name", "smoker", "--epsilon", "2")
    reports = reports_of(tmp_path, question, ["yes", "no"] * 5)
    lines = reports.read_text().splitlines()
    reports.write_text("\n".join([*lines, lines[0]]))
    refused = run("hybrid", "estimate", question, reports)
    assert refused.exit_code == 2
    assert "line 11: its id was counted before" in refused.output
    kept = run("hybrid", "estimate", question, reports, "--skip-refused")
    assert kept.exit_code == 0
    assert "refused: line 11" in kept.stderr
    assert "From 10 reports" in kept.stdout


def test_a_head_list_becomes_a_question(tmp_path: Path) -> None:
    log = tmp_path / "log.tsv"
    rows = [f"{i}\t{'news' if i % 3 else 'mail'}\t{'a.org' if i % 2 else 'b.org'}" for i in range(600)]
    log.write_text("\n".join(["person\tquery\turl", *rows]))
    head, ledger = tmp_path / "head.json", tmp_path / "budget.db"
    found = run("hybrid", "head-list", log, "--epsilon", "4", "--delta", "1e-5", "--ledger", ledger, "-o", head)
    assert found.exit_code == 0, found.output
    assert {one["query"] for one in json.loads(head.read_text())["queries"]} == {"news", "mail"}
    assert {book.dataset for book in Ledger.open_all(ledger)} == {"opt-in, discovery", "opt-in, estimation"}
    question = made(tmp_path, "records", "--name", "search", "--head-list", head, "--epsilon", "4")
    reports = reports_of(tmp_path, question, ["news\ta.org", "x\ty"] * 10)
    body = json.loads(run("hybrid", "estimate", question, reports, "--format", "json").output)
    assert {share["label"] for share in body["queries"]["shares"]} == {"news", "mail", "*"}
    both = run("hybrid", "estimate", question, reports, "--head-list", head, "--format", "json")
    blended = json.loads(both.output)
    assert set(blended["people"]) == {"opt-in", "clients (search)"}
    assert blended["queries"][0]["query"] == "news"
    assert blended["queries"][0]["share"] == pytest.approx(2 / 3, abs=0.2)
    assert "opt-in weight" in run("hybrid", "estimate", question, reports, "--head-list", head).output
    forged = json.loads(head.read_text())
    for change in ({"rows": 0}, {"noise": -1}, {"estimate": []}, {"records": [["a", "b"]]}, {"estimate": ["x"] * 6}):
        head.write_text(json.dumps(forged | {"opt-in": forged["opt-in"] | change}))
        refused = run("hybrid", "estimate", question, reports, "--head-list", head)
        assert refused.exit_code == 2, refused.output
    forged["opt-in"]["records"][0] = ["news", "elsewhere"]
    head.write_text(json.dumps(forged))
    assert "another head list" in run("hybrid", "estimate", question, reports, "--head-list", head).output


def test_numbers_of_both_groups_are_put_together_and_charged(tmp_path: Path) -> None:
    question = made(tmp_path, "number", "--name", "hours", "--lower", "0", "--upper", "12", "--epsilon", "2")
    reports = reports_of(tmp_path, question, ["7"] * 300)
    numbers, ledger = tmp_path / "numbers.txt", tmp_path / "budget.db"
    numbers.write_text("7\n" * 200)
    words = ("hybrid", "estimate", question, reports, "--opt-in", numbers, "--ledger", ledger)
    body = json.loads(run(*words, "--format", "json").output)
    assert body["mean"] == pytest.approx(7, abs=1.5)
    assert 0 < body["curator weight"] < 1
    assert [book.dataset for book in Ledger.open_all(ledger)] == ["opt-in, estimation"]
    again = run(*words)
    assert again.exit_code == 2
    assert "nothing is left" in again.output
    numbers.write_text("seven")
    assert "one number on each line" in run(*words[:-2]).output
    assert "clients were recorded" in run("hybrid", "estimate", question, reports, "--ledger", ledger).output
    assert "--head-list goes with" in run("hybrid", "estimate", question, reports, "--head-list", numbers).output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["choice", "--name", "x", "--option", "a", "--epsilon", "1"], "one option alone tells nothing"),
        (["choice", "--name", "x", "--option", "a", "--option", "b", "--epsilon", "-1"], "expected a number above 0"),
        (["number", "--name", "x", "--epsilon", "1"], "a number needs --lower and --upper"),
        (["records", "--name", "x", "--epsilon", "1"], "records need --head-list"),
    ],
)
def test_questions_that_cannot_be_asked(words: list[str], message: str) -> None:
    result = run("hybrid", "question", *words)
    assert result.exit_code == 2
    assert message in result.output


def test_files_that_are_something_else_are_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text("{}")
    question = made(tmp_path, "yes-no", "--name", "smoker", "--epsilon", "2")
    cases: list[tuple[list[Any], str]] = [
        (["estimate", other, other], 'expected a JSON object with "hush": "question"'),
        (["estimate", tmp_path / "none.json", other], "cannot be read"),
        (["report", question], "give a VALUE"),
        (["report", question, "maybe"], "none of the options"),
        (["question", "records", "--name", "x", "--epsilon", "1", "--head-list", other], "is no head list"),
        (["head-list", other, "--epsilon", "1", "--delta", "1e-5"], "no column for the person"),
        (["head-list", other, "--epsilon", "x", "--delta", "1e-5"], "expected numbers"),
    ]
    for words, message in cases:
        result = run("hybrid", *words)
        assert (result.exit_code, message in result.output) == (2, True), result.output


def test_the_demo_shows_a_list_and_a_mean() -> None:
    result = run("hybrid", "demo")
    assert result.exit_code == 0
    assert "google" in result.output
    assert "opt-in people" in result.output


SIMULATED = ("hybrid", "simulate", "--people", "20000", "--share", "0.1", "--searchers", "5000")


def test_a_simulation_prints_its_errors_and_where_the_page_is(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    result = run(*SIMULATED, "-o", path)
    assert result.exit_code == 0, result.output
    assert path.read_text().startswith("<!DOCTYPE html>")
    shown = result.stdout
    assert "A mean of 20,000 people, 10 % of whom opt in, at epsilon 1" in shown
    assert [name for name in ("both groups", "opt-in people alone", "everybody as a client") if name not in shown] == []
    assert f"Charts are in {path}" in shown.replace("\n", "")
    again = run(*SIMULATED, "-o", path)
    assert again.exit_code == 2
    assert "exists already" in again.output
    body = json.loads(run(*SIMULATED, "-o", path, "--force", "--format", "json").stdout)
    assert body["page"] == str(path)
    assert body["options"]["people"] == 20_000
    assert set(body["mean"]) == {"both groups", "opt-in people alone", "everybody as a client"}


def test_a_simulation_on_standard_output_is_the_page_alone() -> None:
    result = run(*SIMULATED, "-o", "-")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("<!DOCTYPE html>")
    assert "typical error" not in result.stdout
    assert "typical error" in result.stderr
    both = run(*SIMULATED, "-o", "-", "--format", "json")
    assert both.exit_code == 2
    assert "give -o a file" in both.output
