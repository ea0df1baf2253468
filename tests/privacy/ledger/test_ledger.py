"""Ledger: caps, charges, terms, what is left, and what is refused."""

import math
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hush
from hush import Domain, Neighbours, Workload
from hush.core.errors import BudgetError, LedgerError
from hush.privacy.account import Allowance
from hush.privacy.budget import Budget, Cost
from hush.privacy.events import (
    ComposedEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    NonPrivateEvent,
    SelectionEvent,
    compose,
)
from hush.privacy.ledger import Ledger, ledger_file, open_ledger, terms_of
from hush.privacy.ledger.ledger_chain import Chain, cap_fields, printable
from hush.privacy.noise import law_costing
from hush.privacy.sensitivity import Sensitivity
from hush.schema import Unit
from hush.testing import TinyTable

SELECT = SelectionEvent(Fraction(1))  # rho 1/8, epsilon 1
GAUSS = GaussianEvent(Fraction(2), Fraction(1), True)  # rho 1/4
CAP = Budget(rho=1.0)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.db"


def state(path: Path) -> tuple[bytes, list[str]]:
    """The bytes of a file and the names beside it."""
    return path.read_bytes(), sorted(os.listdir(path.parent))


def test_a_ledger_outlives_its_object(path):
    first = Ledger(path, dataset="census", cap=CAP)
    first.charge(SELECT, note="choose", release="r1")
    first.charge(compose([GAUSS, SELECT]), note="measure", release="r1")
    again = Ledger.open(path, dataset="census")
    assert again.budget == CAP
    assert again.total == first.total == Cost(Fraction(1, 2), None)
    assert again.remaining == Fraction(1, 2)
    assert again.events() == [SELECT, compose([GAUSS, SELECT])]
    assert again.head == first.head
    assert again.dataset == "census"
    again.verify()


def test_entries_hold_all_that_was_said(path):
    ledger = Ledger(path, cap=CAP)
    ledger.charge(LaplaceEvent(Fraction(3), Fraction(1)), note="three", release="r7")
    opened, charged = ledger.entries()
    assert (opened.sequence, opened.action, opened.cap, opened.rho, opened.epsilon) == (1, "cap", CAP, "1/1", "")
    assert (charged.sequence, charged.action, charged.rho, charged.epsilon) == (2, "charge", "1/18", "1/3")
    assert (charged.dataset, charged.note, charged.release) == ("default", "three", "r7")
    assert charged.event == LaplaceEvent(Fraction(3), Fraction(1))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\dZ", charged.time)  # to the minute: entries are public
    assert charged.previous == opened.hash
    assert ledger.head == charged.hash[:32]


def test_a_charge_beyond_the_cap_leaves_the_file_as_it_was(path):
    ledger = Ledger(path, cap=Budget(rho=0.3))
    ledger.charge(GAUSS)
    before = state(path)
    with pytest.raises(BudgetError, match=r"budget.db, dataset 'default': a charge of rho=0.125 exceeds") as refused:
        ledger.charge(SELECT)
    assert refused.value.remaining == Fraction(0.3) - Fraction(1, 4)
    assert refused.value.requested == Fraction(1, 8)
    assert state(path) == before
    assert ledger.total.rho == Fraction(1, 4)


def test_totals_are_exact(path):
    ledger = Ledger(path, cap=CAP)
    third = GaussianEvent(Fraction(3, 2), Fraction(1))
    for _ in range(3):
        ledger.charge(third)
    assert ledger.remaining == 0
    with pytest.raises(BudgetError):
        ledger.charge(GaussianEvent(Fraction(10**300), Fraction(1)))
    assert ledger.total.rho == 1


ONE = Sensitivity(Fraction(1), Fraction(1))


@pytest.mark.parametrize("parts", [1, 3, 7, 10])
def test_equal_shares_fit_and_the_least_more_does_not(path, parts):
    cap = Budget(epsilon=1.0, delta=1e-9)
    ledger = Ledger(path, cap=cap)
    for share in cap.split(parts):
        ledger.charge(law_costing(share.limit, cap, ONE).event(ONE))
    more = ledger.remaining + Fraction(math.ulp(0.0))
    with pytest.raises(BudgetError) as refused:
        ledger.charge(GaussianEvent(1 / (2 * more), Fraction(1)))
    assert refused.value.requested > refused.value.remaining == ledger.remaining
    ledger.verify()


def test_costs_with_thousands_of_digits_are_kept_exactly(path):
    many = compose(GaussianEvent(Fraction(10**9 + n, 7 + n), Fraction(1)) for n in range(400))
    ledger = Ledger(path, cap=CAP)
    ledger.charge(many)
    assert len(ledger.entries()[1].rho) > 5000
    assert Ledger.open(path).total.rho == many.cost.rho
    ledger.verify()


def test_a_pure_cap_counts_epsilon(path):
    ledger = Ledger(path, cap=Budget(epsilon=2.0))
    ledger.charge(SELECT)
    assert ledger.remaining == 1
    with pytest.raises(BudgetError, match="never pure epsilon"):
        ledger.charge(GAUSS)
    assert ledger.total == Cost(Fraction(1, 8), Fraction(1))
    ledger.verify()


class Free(SelectionEvent):
    """A subclass that costs what it likes."""

    @property
    def cost(self) -> Cost:
        return Cost()


def spoiled(value: object) -> Event:
    event = SelectionEvent(Fraction(1))
    object.__setattr__(event, "epsilon", value)
    return event


@pytest.mark.parametrize(
    "event",
    [
        NonPrivateEvent("raw"),
        compose([SELECT, NonPrivateEvent()]),
        Free(Fraction(1)),
        ComposedEvent(((Free(Fraction(1)), 3),)),
        Event(),
        None,
        spoiled(Fraction(-1)),
        spoiled(math.nan),
        spoiled(math.inf),
        spoiled(-1.0),
    ],
)
def test_what_has_no_finite_price_is_refused(path, event):
    ledger = Ledger(path, cap=Budget(rho=1e300))
    before = state(path)
    with pytest.raises(BudgetError):
        ledger.charge(event)
    assert state(path) == before


def test_datasets_share_a_file_but_not_a_budget(path):
    first = Ledger(path, dataset="a", cap=Budget(rho=0.25))
    second = Ledger(path, dataset="b", cap=Budget(epsilon=5.0))
    first.charge(GAUSS)
    second.charge(SELECT)
    with pytest.raises(BudgetError):
        first.charge(SELECT)
    assert (first.remaining, second.remaining) == (0, 4)
    assert [entry.sequence for entry in first.entries()] == [1, 3]
    assert [entry.sequence for entry in second.entries()] == [2, 4]
    assert first.head == second.head
    assert [ledger.dataset for ledger in Ledger.open_all(path)] == ["a", "b"]
    first.verify()


def test_events_up_to_a_head(path):
    first, second = (Ledger(path, dataset=name, cap=Budget(rho=9.0)) for name in ("a", "b"))
    first.charge(GAUSS)
    second.charge(SELECT)
    head = first.head
    first.charge(SELECT)
    assert first.events() == [GAUSS, SELECT]
    assert first.events(until=head) == [GAUSS]
    assert second.events(until=head) == [SELECT]
    assert first.events(until="f" * 32) == []
    assert first.path == path


def test_no_two_ledgers_share_a_head(tmp_path, monkeypatch):
    """Made by the same steps in the same second."""
    monkeypatch.setattr("hush.privacy.ledger.ledger._now", lambda: "2024-01-01T00:00:00Z")
    one, other = (Ledger(tmp_path / name, cap=Budget(rho=9.0)) for name in ("one.db", "other.db"))
    one.charge(GAUSS)
    other.charge(GAUSS)
    with pytest.raises(LedgerError, match="lacks the head"):
        other.verify(one.head)


def test_ledgers_from_before_they_had_an_identity_still_open(path):
    entry = Chain().next_entry(dataset="default", time="2024-01-01T00:00:00Z", note="new dataset", **cap_fields(CAP))
    ledger_file.LedgerFile.create(path, entry)
    ledger = Ledger.open(path)
    ledger.charge(SELECT)
    ledger.verify(ledger.head)


def test_a_cap_is_stated_once(path):
    Ledger(path, cap=Budget(epsilon=1.0, delta=1e-9))
    before = state(path)
    assert Ledger(path, cap=Budget(epsilon=1.0, delta=1e-9)).total == Cost()
    with pytest.raises(
        LedgerError, match=r"has the cap epsilon=1, delta=1e-09, not rho=2; .*raise_cap\(budget, reason"
    ):
        Ledger(path, cap=Budget(rho=2.0))
    with pytest.raises(LedgerError, match="has no dataset 'other', only 'default'; to add it, state a cap"):
        Ledger.open(path, dataset="other")
    assert state(path) == before


def test_creating_sets_a_cap_and_replaces_nothing(path):
    with pytest.raises(BudgetError, match="cap=3.0: expected a Budget"):
        Ledger.create(path, 3.0)  # type: ignore[arg-type]
    assert not path.exists()
    Ledger.create(path, CAP).charge(SELECT)
    Ledger.create(path, Budget(epsilon=1.0), dataset="other")
    before = state(path)
    for cap in (CAP, Budget(rho=2.0)):
        with pytest.raises(LedgerError, match=r"has a dataset 'default' already, with the cap rho=1, which stays; see"):
            Ledger.create(path, cap)
    assert state(path) == before
    path.with_name("text").write_text("hello")
    with pytest.raises(LedgerError, match="is not a hush ledger"):
        Ledger.create(path.with_name("text"), CAP)


def test_a_cap_can_be_raised_for_a_reason(path):
    ledger = Ledger(path, cap=Budget(rho=0.125))
    ledger.charge(SELECT)
    with pytest.raises(BudgetError):
        ledger.charge(SELECT)
    ledger.raise_cap(Budget(rho=0.25), reason="decided by the board")
    ledger.charge(SELECT)
    assert ledger.budget == Budget(rho=0.25)
    assert ledger.remaining == 0
    assert [entry.action for entry in ledger.entries()] == ["cap", "charge", "cap", "charge"]
    assert ledger.entries()[2].note == "decided by the board"
    ledger.verify()
    assert Ledger(path, cap=Budget(rho=0.25)).total.rho == Fraction(1, 4)


@pytest.mark.parametrize(
    ("budget", "reason", "message"),
    [
        (Budget(rho=1.0), "same", "can only be raised"),
        (Budget(rho=0.5), "lower", "can only be raised"),
        (Budget(epsilon=9.0), "another kind", "one of the same kind; epsilon=9 is not"),
        (Budget(rho=2.0), "", "needs a reason"),
        (Budget(rho=2.0), "  ", "needs a reason"),
        (Budget(rho=2.0), None, "needs a reason"),
    ],
)
def test_a_cap_is_never_lowered_or_raised_in_silence(path, budget, reason, message):
    ledger = Ledger(path, cap=CAP)
    before = state(path)
    with pytest.raises(LedgerError, match=message):
        ledger.raise_cap(budget, reason=reason)
    assert state(path) == before


def test_a_release_spends_through_an_allowance(path):
    ledger = Ledger(path, cap=CAP)
    allowance = Allowance(Budget(rho=0.25), ledger.for_release("2026-01"))
    allowance.charge(SELECT, note="choose")
    assert ledger.for_release("2026-01").remaining == ledger.remaining == Fraction(7, 8)
    assert ledger.for_release("2026-01").budget == CAP
    assert (ledger.entries()[1].release, ledger.entries()[1].note) == ("2026-01", "choose")
    with pytest.raises(BudgetError, match="this release"):
        allowance.charge(GAUSS)
    assert ledger.total.rho == Fraction(1, 8)


def test_a_ledger_that_refuses_stops_the_allowance(path):
    ledger = Ledger(path, cap=Budget(rho=0.125))
    allowance = Allowance(CAP, ledger)
    allowance.charge(SELECT)
    with pytest.raises(BudgetError, match="budget.db"):
        allowance.charge(SELECT)
    assert allowance.cost.rho == ledger.total.rho == Fraction(1, 8)


def test_notes_are_short_and_harmless(path):
    ledger = Ledger(path, cap=CAP)
    ledger.charge(SELECT, note="\x1b[2J\x00\u202e\ud800\n" + "x" * 1000)
    note = ledger.entries()[1].note
    assert note.startswith("\\x1b[2J\\x00\\u202e\\ud800\\nxxx")
    assert len(note) == 200
    assert note.endswith("...")
    ledger.verify()


@given(st.text(max_size=300))
def test_printable_text_prints_as_itself(text):
    shown = printable(text, 200)
    assert shown.isprintable()
    assert len(shown) <= 200
    assert printable(shown, 200) == shown


@pytest.mark.parametrize("name", ["\n", "x" * 201, "\x1b", None, 3])
def test_names_are_short_and_printable(path, name):
    ledger = Ledger(path, cap=CAP)
    before = state(path)
    with pytest.raises(LedgerError, match="release=.*expected printable text of at most 200"):
        ledger.charge(SELECT, release=name)
    with pytest.raises(LedgerError, match="dataset=.*expected printable text"):
        Ledger(path, dataset=name, cap=CAP)
    assert state(path) == before


def test_a_new_ledger_needs_a_cap(path):
    with pytest.raises(LedgerError, match="does not exist; create it by stating a cap"):
        Ledger(path)
    with pytest.raises(LedgerError, match="does not exist"):
        Ledger.open(path)
    with pytest.raises(LedgerError, match="does not exist"):
        Ledger.open_all(path)
    with pytest.raises(BudgetError, match="cap=1.0: expected a Budget"):
        Ledger(path, cap=1.0)
    with pytest.raises(BudgetError, match="too small to spend"):
        Ledger(path, cap=Budget(mu=1e-300))
    assert os.listdir(path.parent) == []


def other_database(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (a)")
    connection.close()


def ledger_with(pragma: str, path: Path) -> None:
    Ledger(path, cap=CAP)
    connection = sqlite3.connect(path)
    connection.execute(pragma)
    connection.close()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path.write_bytes(b""), "is not a hush ledger"),
        (lambda path: path.write_text("epsilon\n1.0\n"), "is not a hush ledger"),
        (lambda path: path.write_bytes(b"SQLite format 3\0" + b"\0" * 84), "is not a hush ledger"),
        (lambda path: path.write_bytes(os.urandom(5000)), "is not a hush ledger"),
        (other_database, "is not a hush ledger; name another file"),
        (lambda path: ledger_with("PRAGMA user_version=2", path), "has ledger format 2; .*upgrade hush"),
        (lambda path: ledger_with("PRAGMA user_version=0", path), "has ledger format 0"),
        (lambda path: ledger_with("PRAGMA application_id=1", path), "is not a hush ledger"),
    ],
)
def test_what_is_not_a_ledger_is_refused_and_left_alone(path, make, message):
    make(path)
    before = state(path)
    for act in (lambda: Ledger(path, cap=CAP), lambda: Ledger.open(path), lambda: Ledger.open_all(path)):
        with pytest.raises(LedgerError, match=message) as refused:
            act()
        assert "\n" not in str(refused.value)
    assert state(path) == before


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "is not a regular file"),
        ("pipe", "is not a regular file"),
        ("missing/budget.db", "the folder .*missing does not exist; create it first"),
        ("file/budget.db", "the folder .*file does not exist"),
        ("dangling", "does not exist"),
        ("a\0b", "is not a file name"),
        ("x" * 300, "cannot be used as a ledger: File name too long"),
    ],
)
def test_places_where_no_ledger_can_be(tmp_path, name, message):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(LedgerError, match=message):
        Ledger(f"{tmp_path}/{name}", cap=CAP)
    assert sorted(os.listdir(tmp_path)) == before


def test_names_that_need_quoting(tmp_path):
    path = tmp_path / "a b?mode=ro#é%41.db"
    Ledger(path, cap=CAP).charge(SELECT)
    assert Ledger.open(path).total.rho == Fraction(1, 8)
    assert os.listdir(tmp_path) == [path.name]


def test_a_link_is_followed(tmp_path, path):
    Ledger(path, cap=CAP)
    (tmp_path / "link").symlink_to(path)
    Ledger.open(tmp_path / "link").charge(SELECT)
    assert Ledger.open(path).total.rho == Fraction(1, 8)


def test_a_relative_path_stays_where_it_was(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Ledger("budget.db", cap=CAP).charge(SELECT)
    assert Ledger.open(tmp_path / "budget.db").total.rho == Fraction(1, 8)


def test_a_lock_held_too_long_is_reported(path, monkeypatch):
    ledger = Ledger(path, cap=CAP)
    monkeypatch.setattr(ledger_file, "LOCK_TIMEOUT", 0.1)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(LedgerError, match="was locked by another process for .* seconds; try again"):
        ledger.charge(SELECT)
    with pytest.raises(LedgerError, match="was locked"):
        ledger.verify()
    holder.execute("ROLLBACK")
    holder.close()
    ledger.charge(SELECT)
    assert ledger.total.rho == Fraction(1, 8)


def test_a_writer_waits_for_its_turn(path):
    ledger = Ledger(path, cap=CAP)
    holder = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    holder.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(0.3, holder.execute, ["ROLLBACK"])
    timer.start()
    ledger.charge(SELECT)
    timer.join()
    holder.close()
    assert ledger.total.rho == Fraction(1, 8)


def test_two_objects_on_one_file_see_each_other(path):
    first, second = Ledger(path, cap=CAP), Ledger(path)
    for ledger in (first, second, first, second):
        ledger.charge(SELECT)
    assert first.total == second.total
    assert first.remaining == Fraction(1, 2)


def test_threads_share_a_ledger(path):
    ledger, taken = Ledger(path, cap=Budget(rho=2.0)), []

    def spend() -> None:
        for _ in range(6):
            with suppress(BudgetError):
                ledger.charge(SELECT)
                taken.append(SELECT)

    threads = [threading.Thread(target=spend) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == len(ledger.events()) == 16
    ledger.verify()


READ_ONLY = """
import os, sys, urllib.parse  # pathlib would import it once the rights to read it are gone
from fractions import Fraction
from hush.core.errors import LedgerError
from hush.privacy.events import SelectionEvent
from hush.privacy.ledger import Ledger
os.setuid(65534) if os.getuid() == 0 else None
ledger = Ledger.open(sys.argv[1])
ledger.verify(ledger.head)
print(ledger.remaining, len(ledger.entries()))
charge = lambda: ledger.charge(SelectionEvent(Fraction(1)))
join = lambda: Ledger(sys.argv[1], dataset="b", cap=ledger.budget)
for act in (charge, join):
    try:
        act()
    except LedgerError as error:
        print(error)
"""


@pytest.mark.parametrize(("mode", "folder_mode"), [(0o444, 0o777), (0o666, 0o555), (0o444, 0o555)])
def test_a_ledger_that_cannot_be_written_can_be_read(mode, folder_mode):
    folder = Path(tempfile.mkdtemp())  # in reach of a user without rights, unlike tmp_path
    path = folder / "budget.db"
    Ledger(path, cap=CAP).charge(SELECT)
    path.chmod(mode)
    folder.chmod(folder_mode)
    before = state(path)
    done = subprocess.run([sys.executable, "-c", READ_ONLY, str(path)], capture_output=True, text=True, check=False)
    after = state(path)
    folder.chmod(0o755)
    shutil.rmtree(folder)
    assert done.returncode == 0, done.stderr
    remaining, *refusals = done.stdout.splitlines()
    assert remaining == "7/8 2"
    assert refusals == [f"{path} or its folder is read-only; make both writable to charge it"] * 2
    assert after == before


def test_an_append_only_table_refuses_changes(path):
    Ledger(path, cap=CAP).charge(SELECT)
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in ("UPDATE entries SET rho = '0/1'", "DELETE FROM entries"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute(statement)
    connection.close()
    assert Ledger.open(path).total.rho == Fraction(1, 8)


DOMAIN = Domain({"a": 2, "b": 2})
ROWS = [(0, 0), (1, 1), (1, 0)]
WORKLOAD = Workload.kway(DOMAIN, 1)
SHARE = Budget(rho=0.1)
PEOPLE = TinyTable(DOMAIN, ROWS, unit=Unit(column="id", max_rows=2), units=[1, 1, 2])
PEOPLE_BY_THREE = TinyTable(DOMAIN, ROWS, unit=Unit(column="id", max_rows=3), units=[1, 1, 2])


def test_costs_under_other_terms_are_refused_since_they_do_not_add_up(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "budget.db", cap=Budget(rho=1.0))
    plan = hush.plan(WORKLOAD, SHARE, max_rows_per_unit=2)
    plan.release(PEOPLE, ledger=ledger)
    spent = ledger.total
    rows = TinyTable(DOMAIN, ROWS)
    with pytest.raises(BudgetError, match="do not add up"):
        hush.plan(WORKLOAD, SHARE).release(rows, ledger=ledger)
    with pytest.raises(BudgetError, match="do not add up"):
        hush.plan(WORKLOAD, SHARE, max_rows_per_unit=2, neighbours=Neighbours.REPLACE).release(PEOPLE, ledger=ledger)
    assert (ledger.total, rows.reads) == (spent, 0)
    hush.plan(WORKLOAD, SHARE, max_rows_per_unit=3).release(PEOPLE_BY_THREE, ledger=ledger)
    other = Ledger(tmp_path / "budget.db", dataset="rows", cap=Budget(rho=1.0))
    hush.plan(WORKLOAD, SHARE).release(rows, ledger=other)
    other.verify()
    assert [entry.terms for entry in other.entries() if entry.action == "charge"] == ["add or remove one unit: one row"]


def test_terms_name_the_unit_and_the_relation() -> None:
    assert terms_of(Neighbours.REPLACE, Unit(column="id", max_rows=5)) == "replace one unit: the rows of one 'id'"


def test_a_ledger_is_made_with_the_budget_as_its_cap(tmp_path: Path) -> None:
    made = open_ledger(tmp_path / "budget.db", SHARE, dataset="d")
    assert (made.budget, made.dataset) == (SHARE, "d")
    assert open_ledger(made, SHARE) is made
    assert open_ledger(tmp_path / "budget.db", Budget(rho=9.0), dataset="d").budget == SHARE
    with pytest.raises(LedgerError, match="no dataset 'other'"):
        open_ledger(tmp_path / "budget.db", SHARE, dataset="other")
