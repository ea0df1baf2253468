"""The audit as a whole, in Python, in the terminal and as a page; sampler checks find planted faults."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import hush
from hush.audit import Audit, Finding, check_samplers, self_check
from hush.cli.main import main
from hush.privacy.noise import DiscreteGaussian, DiscreteLaplace
from hush.privacy.selection import ExponentialMechanism


@pytest.fixture(autouse=True)
def fewer_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """A twentieth of a scale is found with 10^5 draws, a quarter with far fewer."""
    monkeypatch.setattr(self_check, "DRAWS_PER_SCALE", 20_000)
    monkeypatch.setattr(self_check, "PRIVATE_CHOICES", 2_000)


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
    page = made(passed=True, text="<script>alert(1)</script>").html()
    assert "<script>" not in page
    assert "rho ≥ 0.12345" in page
    assert "1 of 1" in page
    assert "A check failed" not in page
    assert "proves no privacy" in page
    failed = made(passed=False).html()
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
    cards = re.findall(r"<div><b>(.*?)</b><span>(.*?)</span></div>", both.html())
    assert cards == [
        ("3 of 3", "checks passed"),
        ("rho ≥ 0.12345", "lost on the generated table, as an attacker proved"),
        ("rho = 0.5", "stated by the releases of the generated table"),
        ("epsilon = 0.15", "stated by your release people.hush"),
        ("rho = 0.25", "spent on your dataset people, by the ledger"),
    ]
    assert "says nothing about what your own releases cost" in both.html()
    assert "generated table" not in Audit(findings=both.findings[1:]).html().split("What this means")[0]


def test_similarity_is_never_a_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Distances to the real rows prove nothing about privacy: no finding of an audit is about them."""

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("an audit compared rows")

    monkeypatch.setattr("hush.evaluation.comparison.compare", never)
    result = hush.audit.audit("direct", runs=0)
    words = " ".join(finding.check + finding.detail for finding in result.findings).lower()
    assert not any(word in words for word in ("similar", "distance", "closest"))


def test_samplers_and_controls_pass() -> None:
    """False alarms at a rate of 1e-4, by `FALSE_ALARMS`."""
    findings = check_samplers()
    assert [finding.check.startswith("control") for finding in findings] == [False, True] * 3
    assert all(finding.passed for finding in findings)


@pytest.mark.parametrize("law", [DiscreteGaussian, DiscreteLaplace])
def test_noise_that_is_too_small_is_found(law: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    original = law.sample

    def narrower(self: Any, shape: Any, entropy: Any) -> Any:
        scale = self.variance_parameter if law is DiscreteGaussian else self.scale
        return original(law(scale * 16 / 25 if law is DiscreteGaussian else scale * 4 / 5), shape, entropy)

    monkeypatch.setattr(law, "sample", narrower)
    failed = {finding.check for finding in check_samplers() if not finding.passed}
    assert f"discrete {'Gaussian' if law is DiscreteGaussian else 'Laplace'} noise" in failed


def test_repeated_noise_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    original = DiscreteLaplace.sample

    def twice(self: Any, shape: int, entropy: Any) -> Any:
        return np.repeat(original(self, shape // 2, entropy), 2)

    monkeypatch.setattr(DiscreteLaplace, "sample", twice)
    assert not next(finding for finding in check_samplers() if finding.check == "discrete Laplace noise").passed


def test_choices_that_are_too_sharp_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    original = ExponentialMechanism.choose

    def sharper(self: Any, scores: Any, entropy: Any) -> int:
        return original(ExponentialMechanism(self.epsilon * 2), scores, entropy)

    monkeypatch.setattr(ExponentialMechanism, "choose", sharper)
    assert not next(finding for finding in check_samplers() if finding.check == "exponential mechanism").passed


def test_a_test_that_sees_nothing_fails_its_control(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(self_check, "law_pvalue", lambda *_: 1.0)
    failed = [finding.check for finding in check_samplers() if not finding.passed]
    assert failed == [f"control: discrete {name} noise off by a quarter" for name in ("Gaussian", "Laplace")]
