"""Every kind of file that hush writes is whole, the old one or the new one, after a power cut at any step."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).with_name("power_cuts.py")
BEFORE = {step: ["old"] for step in ("open", "chmod", "write", "flush", "rename")}
AFTER = {step: ["new"] for step in ("open folder", "flush folder", "return")}
KINDS = (
    "release.hush",
    "release.hush.partial",
    "plan.hush",
    "model.hush",
    "rows.csv",
    "rows.parquet",
    "schema.toml",
    "draft.toml",
    "report.html",
)


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    done = subprocess.run([sys.executable, str(PROGRAM)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    results: dict[str, Any] = json.loads(done.stdout)
    assert set(results) == {*KINDS, "first.hush", "in-place", "unflushed"}
    return results


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_is_the_old_one_until_it_is_the_new_one(found: dict[str, Any], kind: str) -> None:
    expected = {"code": 0, "end": "new", "flushed": True, "alone": True, "differ": True, "left": BEFORE | AFTER}
    assert found[kind] == expected


@pytest.mark.slow
def test_a_first_file_is_absent_until_it_is_whole(found: dict[str, Any]) -> None:
    absent = {step: left for step, left in BEFORE.items() if step != "chmod"}
    assert found["first.hush"]["left"] == absent | AFTER


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "step"), [("in-place", "write"), ("in-place", "flush"), ("unflushed", "return")])
def test_the_power_cuts_break_files_that_are_written_wrongly(found: dict[str, Any], kind: str, step: str) -> None:
    assert found[kind]["left"][step] == ["broken"]
