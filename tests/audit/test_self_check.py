"""The audit as a whole, in Python, in the terminal and as a page."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import hush
from hush.audit import Audit, Finding, samplers
from hush.audit.audit_page import audit_html
from hush.cli.main import main


@pytest.fixture(autouse=True)
def fewer_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samplers, "SAMPLES", 20_000)
    monkeypatch.setattr(samplers, "CHOICES", 2_000)


def command(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["audit", *map(str, arguments)], env={"COLUMNS": "80"})


def made(*, passed: bool, text: str = "detail") -> Audit:
    facts = {"unit": "rho", "lower_bound": 0.123456, "stated": 0.5}
    return Audit(findings=(Finding(section="Membership", check="x", passed=passed, detail=text, facts=facts),))


def test_audit_in_python() -> None:
    shares: list[float] = []
    told: list[float] = []
    result = hush.audit.audit("direct", hush.Budget(rho=0.5), runs=60, progress=shares.append, on_start=told.append)
    assert [finding.section for finding in result.findings].count("Membership audit on a generated table") == 2
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert told[0] > 0
    assert result.passed == all(finding.passed for finding in result.findings)
    assert json.loads(json.dumps(result.to_dict()))["passed"] == result.passed
    assert "proves no privacy" in str(result)
    assert "similar" in str(result)


def test_a_failure_is_said_and_is_exit_code_1(tmp_path: Path) -> None:
    found = command("--runs", 0, "--ledger", tmp_path / "no.db")
    assert found.exit_code == 1
    assert "1 of 7 checks FAILED: chain." in " ".join(found.output.split())
    assert "FAIL  chain" in found.output


def test_the_command_writes_a_page_and_json(tmp_path: Path) -> None:
    hush.Ledger(tmp_path / "budget.db", cap=hush.Budget(rho=1.0))
    page = tmp_path / "page.html"
    found = command("--runs", 0, "--ledger", tmp_path / "budget.db", "--json", "-o", page)
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["passed"] is True
    assert "8 of 8" in page.read_text()
    again = command("--runs", 0, "-o", page)
    assert again.exit_code != 0  # by the group's own main: exists already
    assert max(map(len, command("--runs", 0).stdout.splitlines())) <= 80


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--expect-head", "00"], "add --ledger"),
        (["--runs", "5"], "runs=5: expected a whole number of at least 20"),
        (["--rho", "60", "--runs", "40"], "too few to prove anything"),
        (["--mechanism", "nothing"], "expected one of"),
        (["--delta", "1e-9"], "no budget was given"),
        (["--max-rows-per-unit", "0"], "max_rows_per_unit=0"),
    ],
)
def test_bad_input_is_refused(arguments: list[str], message: str) -> None:
    found = command(*arguments)
    assert found.exit_code != 0
    assert message in str(found.exception) + found.output


def test_the_page_shows_what_was_proven_and_escapes_everything() -> None:
    page = audit_html(made(passed=True, text="<script>alert(1)</script>"))
    assert "<script>" not in page
    assert "rho ≥ 0.12345" in page
    assert "1 of 1" in page
    assert "A check failed" not in page
    assert "proves no privacy" in page
    failed = audit_html(made(passed=False))
    assert "A check failed" in failed
    assert "1 of 1 checks FAILED: x." in failed


def test_the_headline_tells_the_generated_table_from_the_users_files() -> None:
    """The rho of the audit's own releases is never shown as that of the user's release or ledger."""
    own = {"measured_rho": 0.011, "stated_rho": 0.011, "unit": "epsilon", "stated": 0.15, "budget": {}}
    spent = {"dataset": "people", "spent": 0.25, "unit": "rho", "cap": {}}
    both = Audit(
        findings=(
            *made(passed=True).findings,
            Finding(section="Release people.hush", check="cost", passed=True, detail="", facts=own),
            Finding(section="Ledger budget.db", check="dataset people", passed=True, detail="", facts=spent),
        )
    )
    cards = re.findall(r"<div><b>(.*?)</b><span>(.*?)</span></div>", audit_html(both))
    assert cards == [
        ("3 of 3", "checks passed"),
        ("rho ≥ 0.12345", "lost on the generated table, as an attacker proved"),
        ("rho = 0.5", "stated by the releases of the generated table"),
        ("epsilon = 0.15", "stated by your release people.hush"),
        ("rho = 0.25", "spent on your dataset people, by the ledger"),
    ]
    assert "says nothing about what your own releases cost" in audit_html(both)
    assert "generated table" not in audit_html(Audit(findings=both.findings[1:])).split("What this means")[0]


def test_similarity_is_never_a_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Distances to the real rows prove nothing about privacy: no finding of an audit is about them."""

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("an audit compared rows")

    monkeypatch.setattr("hush.evaluation.comparison.compare", never)
    result = hush.audit.audit("direct", runs=0)
    words = " ".join(finding.check + finding.detail for finding in result.findings).lower()
    assert not any(word in words for word in ("similar", "distance", "closest"))
