"""The ledger among processes: killed at any instant, crowded, forked."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("charging.py")


def run(*arguments: object) -> dict:
    command = [sys.executable, str(PROGRAM), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_kill_9_at_any_instant_never_releases_what_was_not_charged(tmp_path):
    found = run("kill", tmp_path / "budget.db", 300, "charge first")
    assert found["kills"] == 300
    assert found["released without a charge"] == 0
    assert found["times charged less than released"] == 0
    assert found["times a charge was lost"] == 0
    assert found["charged"] >= found["released"] > 0
    assert found["kills inside a transaction"] > 20


@pytest.mark.slow
def test_the_kill_test_catches_a_release_before_its_charge(tmp_path):
    found = run("kill", tmp_path / "budget.db", 60, "release first")
    assert found["released without a charge"] > 0
    assert found["times charged less than released"] > 0
    assert found["times a charge was lost"] == 0


@pytest.mark.slow
def test_a_crowd_never_exceeds_the_cap_and_loses_no_entry(tmp_path):
    found = run("crowd", tmp_path / "budget.db", 6, 40, 100)
    assert found["codes"] == [0] * 6
    assert found["taken"] == found["entries"] == found["distinct"] == 100
    assert found["left"] == "0"
    assert found["caps"] == 1


def test_a_crowd_that_fits_is_served_in_full(tmp_path):
    found = run("crowd", tmp_path / "budget.db", 3, 10, 30)
    assert found["taken"] == found["entries"] == found["distinct"] == 30
    assert found["left"] == "0"


def test_forking_amid_threads_neither_hangs_nor_loses_charges(tmp_path):
    found = run("fork", tmp_path / "budget.db", 10)
    assert found["codes"] == [0] * 10
    assert found["charged"] == found["expected"]
