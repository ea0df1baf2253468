"""`hush doctor` says what is there, what is missing, and whether noise is exact; a fault is an exit code."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

import hush
from hush.audit.findings import Finding
from hush.cli import doctor_command
from hush.cli.main import main

PROJECT = tomllib.loads((Path(__file__).parent.parent.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
GOOD = Finding(section="Samplers", check="noise", passed=True, detail="100 draws", facts={})
BAD = Finding(section="Samplers", check="noise", passed=False, detail="100 draws", facts={})


def ask(monkeypatch: pytest.MonkeyPatch, finding: Finding, *options: str) -> tuple[int, str]:
    monkeypatch.setattr("hush.audit.self_check.check_samplers", lambda: [finding])
    done = CliRunner().invoke(main, ["doctor", *options])
    return done.exit_code, done.stdout


def test_every_extra_for_users_is_listed() -> None:
    extras = set(PROJECT["optional-dependencies"]) - {"dev", "docs", "bench"}
    assert {part.extra for part in doctor_command.OPTIONAL_PARTS} == extras
    for part in doctor_command.OPTIONAL_PARTS:
        assert any(line.startswith(part.package) for line in PROJECT["optional-dependencies"][part.extra])


def test_what_is_installed_has_its_version_and_what_is_not_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = doctor_command.OptionalPart("nothing", "no_such_module", "tests", "plots")
    monkeypatch.setattr(doctor_command, "OPTIONAL_PARTS", (doctor_command.OPTIONAL_PARTS[0], absent))
    code, output = ask(monkeypatch, GOOD)
    assert code == 0
    assert __import__("pandas").__version__ in output
    assert "missing: pip install 'hush[plots]'" in output
    assert hush.__version__ in output
    assert "draws exact noise" in output


def test_noise_that_is_not_exact_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    code, output = ask(monkeypatch, BAD)
    assert code == 1
    assert "NOT exact" in output
    assert "FAIL" in output


def test_json_has_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    code, output = ask(monkeypatch, GOOD, "--json")
    assert code == 0
    told = json.loads(output)
    assert told["exact_noise"] is True
    assert told["noise"] == [{"check": "noise", "passed": True, "detail": "100 draws"}]
    assert {part["package"] for part in told["parts"]} >= {"pandas", "matplotlib"}


def test_spark_without_java_is_not_said_to_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_command, "_finds_java", lambda: False)
    (spark,) = (part for part in doctor_command.optional_parts() if part["package"] == "pyspark")
    assert spark["version"] is None
    assert "Java" in str(spark["remedy"])


@pytest.mark.slow
def test_this_machine_draws_exact_noise() -> None:
    done = CliRunner().invoke(main, ["doctor"])
    assert done.exit_code == 0
    assert "draws exact noise" in done.stdout
