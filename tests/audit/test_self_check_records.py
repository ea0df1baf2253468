"""Ledgers and releases as an audit sees them: sound ones pass, and edited, stray or seeded ones fail."""

import sqlite3
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import hush
from hush import Budget, Domain, Workload
from hush.audit.self_check import check_ledger, check_release
from hush.mechanisms import MWEM, Direct
from hush.privacy.events import GaussianEvent
from hush.privacy.exact_sampling import NotPrivateEntropy
from hush.testing import TinyTable

DOMAIN = Domain({"a": 2, "b": 3})
TABLE: Any = TinyTable(DOMAIN, [(i % 2, i % 3) for i in range(30)])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A release, x.hush, and the ledger that it was charged to, budget.db."""
    plan = Direct().plan(Workload.kway(DOMAIN, 1), Budget(rho=0.5))
    plan.release(TABLE, ledger=tmp_path / "budget.db", dataset="mine").save(tmp_path / "x.hush")
    return tmp_path


def verdicts(findings: Any) -> dict[str, bool]:
    return {finding.check: finding.passed for finding in findings}


def test_sound_records_pass(folder: Path) -> None:
    chain, dataset = check_ledger(folder / "budget.db")
    assert chain.passed
    assert chain.facts["entries"] == 2
    assert dataset.passed
    assert "cap rho=0.5; spent rho=0.5; nothing left" in dataset.detail.replace("0.50000", "0.5")
    findings = check_release(folder / "x.hush", ledger=folder / "budget.db")
    assert verdicts(findings) == {"cost": True, "stamp": True, "charged": True}
    assert "charged to the dataset mine" in findings[-1].detail


def test_the_cost_is_that_of_what_was_measured(tmp_path: Path) -> None:
    release = MWEM(rounds=1).plan(Workload.kway(DOMAIN, 2), Budget(rho=0.5)).release(TABLE)
    release.save(tmp_path / "x.hush")
    cost = check_release(tmp_path / "x.hush")[0]
    assert cost.facts["measured_rho"] == pytest.approx(cost.facts["stated_rho"], rel=1e-12)
    assert cost.facts["stated_rho"] == pytest.approx(0.5, rel=1e-6)


def test_an_edited_release_fails(folder: Path) -> None:
    release: Any = hush.load(folder / "x.hush")
    cheap = GaussianEvent(Fraction(10**6), Fraction(1), True)
    release.statement = replace(release.statement, event=cheap)
    release.save(folder / "edited.hush")
    (finding,) = check_release(folder / "edited.hush", ledger=folder / "budget.db")
    assert not finding.passed
    assert "whose noise it does not account for" in finding.detail


def test_a_seeded_release_fails(tmp_path: Path) -> None:
    plan = Direct().plan(Workload.kway(DOMAIN, 1), Budget(rho=0.5))
    plan.release(TABLE, entropy=NotPrivateEntropy(1)).save(tmp_path / "x.hush")
    assert verdicts(check_release(tmp_path / "x.hush")) == {"cost": True, "stamp": False}


def test_a_release_that_was_not_charged_fails(folder: Path) -> None:
    plan = Direct().plan(Workload.kway(DOMAIN, 1), Budget(rho=0.25))
    plan.release(TABLE).save(folder / "without.hush")
    assert "names no ledger" in check_release(folder / "without.hush", ledger=folder / "budget.db")[-1].detail
    plan.release(TABLE, ledger=folder / "other.db").save(folder / "elsewhere.hush")
    assert not check_release(folder / "elsewhere.hush", ledger=folder / "budget.db")[-1].passed
    release: Any = hush.load(folder / "without.hush")
    release.statement = replace(
        release.statement, ledger_head=hush.Ledger.open(folder / "budget.db", dataset="mine").head
    )
    release.save(folder / "borrowed.hush")
    last = check_release(folder / "borrowed.hush", ledger=folder / "budget.db")[-1]
    assert (last.passed, last.detail) == (
        False,
        "no dataset of the ledger was charged for what the release states",
    )


def test_a_changed_ledger_fails(folder: Path) -> None:
    head = check_ledger(folder / "budget.db")[0].facts["head"]
    assert check_ledger(folder / "budget.db", expected_head=head)[0].passed
    assert not check_ledger(folder / "budget.db", expected_head="0" * 32)[0].passed
    connection = sqlite3.connect(folder / "budget.db")
    for kind, name in connection.execute("SELECT type, name FROM sqlite_master").fetchall():
        if kind == "trigger":
            connection.execute(f"DROP TRIGGER {name}")
    connection.execute("DELETE FROM entries WHERE rowid = (SELECT max(rowid) FROM entries)")
    connection.commit()
    connection.close()
    assert not check_ledger(folder / "budget.db", expected_head=head)[0].passed


def test_files_that_are_not_there_fail(tmp_path: Path) -> None:
    assert not check_ledger(tmp_path / "no.db")[0].passed
    assert not check_release(tmp_path / "no.hush")[0].passed
    assert list(tmp_path.iterdir()) == []
