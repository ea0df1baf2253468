"""A ledger has one name: hard links are refused, links are resolved, and no journal of an earlier state is applied."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest
from click.testing import CliRunner

from hush.cli.main import main
from hush.errors import LedgerError
from hush.privacy.budget import Budget
from hush.privacy.events import SelectionEvent
from hush.privacy.ledger import Ledger
from hush.privacy.ledger_chain import Entry
from hush.privacy.ledger_file import LedgerFile, append
from hush.privacy.ledger_journal import has_stale_journal

SELECT = SelectionEvent(Fraction(1))  # rho 1/8
CAP = Budget(rho=100.0)
PROGRAM = Path(__file__).with_name("charging.py")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    return tmp_path / "here" / "budget.db"


def journal(path: Path) -> Path:
    return path.with_name(path.name + "-journal")


def charged(path: Path) -> Fraction:
    total = Ledger.open(path).total.rho
    assert total is not None
    return total * 8


def journal_of_a_killed_charge(path: Path) -> bytes:
    """The journal that a process leaves if it is killed once it has begun to write to the file."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA cache_size=1")  # so that pages are written before the commit
    connection.execute("BEGIN IMMEDIATE")
    names = [name for _, name, *_ in connection.execute("PRAGMA table_info(entries)")][1:]
    insert = f"INSERT INTO entries ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"
    for _ in range(20):
        connection.execute(insert, ["x" * 1000] * len(names))
    content = journal(path).read_bytes()
    connection.execute("ROLLBACK")
    connection.close()
    return content


ACTS: dict[str, Callable[[Path, Ledger], object]] = {
    "Ledger(cap)": lambda path, _: Ledger(path, cap=CAP),
    "Ledger.open": lambda path, _: Ledger.open(path),
    "open_all": lambda path, _: Ledger.open_all(path),
    "a new dataset": lambda path, _: Ledger(path, dataset="b", cap=CAP),
    "charge": lambda _, ledger: ledger.charge(SELECT),
    "require": lambda _, ledger: ledger.require(SELECT),
    "raise_cap": lambda _, ledger: ledger.raise_cap(Budget(rho=200.0), reason="more"),
    "remaining": lambda _, ledger: ledger.remaining,
    "head": lambda _, ledger: ledger.head,
    "entries": lambda _, ledger: ledger.entries(),
    "verify": lambda _, ledger: ledger.verify(),
    "to_dict": lambda _, ledger: ledger.to_dict(),
}


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_a_second_name_is_refused_at_every_use_of_either(
    path: Path, tmp_path: Path, act: Callable[..., object]
) -> None:
    ledger = Ledger(path, cap=CAP)
    other = tmp_path / "there" / "other.db"
    os.link(path, other)
    before = path.read_bytes()
    for name in (path, other):
        with pytest.raises(LedgerError, match=r"has 2 names \(hard links\).*Remove all names but one") as refused:
            act(name, ledger)
        assert "\n" not in str(refused.value)
    assert path.read_bytes() == before
    other.unlink()
    act(path, ledger)


def test_the_command_line_refuses_a_second_name(path: Path, tmp_path: Path) -> None:
    Ledger(path, cap=CAP)
    os.link(path, tmp_path / "other.db")
    done = CliRunner().invoke(main, ["budget", str(path)])
    assert done.exit_code == 2
    assert "hard links" in done.output


def test_a_name_made_while_a_charge_waits_is_found_under_the_lock(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(path, cap=CAP)
    connect = LedgerFile._connect
    connected: list[str] = []

    def link_second(self: LedgerFile, options: str) -> sqlite3.Connection:
        connected.append(options)
        if len(connected) == 2:  # the first reads what is left, the second is for the charge
            os.link(path, tmp_path / "other.db")
        return connect(self, options)

    monkeypatch.setattr(LedgerFile, "_connect", link_second)
    content = path.read_bytes()
    with pytest.raises(LedgerError, match="hard links"):
        ledger.charge(SELECT)
    assert len(connected) == 2
    assert path.read_bytes() == content


def test_a_symbolic_link_has_the_journal_of_its_file(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Ledger(path, cap=CAP).charge(SELECT)
    link = tmp_path / "there" / "link.db"
    link.symlink_to(path)
    seen: list[tuple[bool, list[str]]] = []

    def look(connection: sqlite3.Connection, entry: Entry) -> None:
        append(connection, entry)
        seen.append((journal(path).exists(), os.listdir(tmp_path / "there")))

    monkeypatch.setattr("hush.privacy.ledger.append", look)
    Ledger.open(link).charge(SELECT)
    assert seen == [(True, ["link.db"])]
    kept = journal_of_a_killed_charge(path)
    journal(path).write_bytes(kept)
    assert charged(link) == 2  # SQLite has found the journal and used it up
    assert not journal(path).exists()


def test_a_journal_that_is_needed_is_applied(path: Path) -> None:
    ledger = Ledger(path, cap=CAP)
    ledger.charge(SELECT)
    kept = journal_of_a_killed_charge(path)
    journal(path).write_bytes(kept)
    assert not has_stale_journal(path)
    assert charged(path) == 1
    assert not journal(path).exists()


@pytest.mark.parametrize("later", [2, 5])
def test_a_journal_older_than_the_file_is_not_applied(path: Path, later: int) -> None:
    """As another mount of the file, or a name it had before, would leave it: the file has one name, and is whole."""
    ledger = Ledger(path, cap=CAP)
    ledger.charge(SELECT)
    kept = journal_of_a_killed_charge(path)
    for _ in range(later):
        ledger.charge(SELECT)
    journal(path).write_bytes(kept)
    content = path.read_bytes()
    for act in (lambda: Ledger.open(path), lambda: ledger.charge(SELECT), ledger.verify):
        with pytest.raises(LedgerError, match="-journal is older than the ledger.*Move it to another folder"):
            act()
    assert (path.read_bytes(), journal(path).read_bytes()) == (content, kept)
    journal(path).rename(path.with_name("moved"))
    assert charged(path) == 1 + later


def test_without_the_check_an_older_journal_undoes_charges(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check is needed: SQLite applies the journal, and what is left verifies."""
    ledger = Ledger(path, cap=CAP)
    kept = journal_of_a_killed_charge(path)
    for _ in range(5):
        ledger.charge(SELECT)
    journal(path).write_bytes(kept)
    monkeypatch.setattr("hush.privacy.ledger_file.has_stale_journal", lambda path: False)
    Ledger.open(path).verify()
    assert charged(path) == 0


def test_a_journal_that_was_never_flushed_is_stale_once_the_file_has_grown(path: Path) -> None:
    ledger = Ledger(path, cap=CAP)
    kept = journal_of_a_killed_charge(path)
    unflushed = kept[:8] + bytes(4) + kept[12:]
    journal(path).write_bytes(unflushed)
    assert not has_stale_journal(path)
    journal(path).unlink()
    for number in range(40):
        ledger.charge(SELECT, note=f"{number}" + "." * 190)
    journal(path).write_bytes(unflushed)
    assert has_stale_journal(path)


@pytest.mark.parametrize("content", [b"", b"\0" * 600, b"x" * 5000, bytes.fromhex("d9d505f920a163d7") + b"\xff" * 600])
def test_journals_that_sqlite_ignores_are_ignored(path: Path, content: bytes) -> None:
    ledger = Ledger(path, cap=CAP)
    ledger.charge(SELECT)
    journal(path).write_bytes(content)
    assert not has_stale_journal(path)
    assert charged(path) == 1


def test_a_ledger_whose_creator_was_killed_opens(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed between giving the file its name and removing the one under which it was made."""
    (entry,) = Ledger(tmp_path / "there" / "other.db", cap=CAP).entries()
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", lambda self, missing_ok=False: None)
        LedgerFile.create(path, entry)
    assert len(os.listdir(path.parent)) == 2
    assert path.stat().st_nlink == 2
    assert charged(path) == 0
    assert os.listdir(path.parent) == [path.name]


def test_names_that_hush_did_not_make_are_left_alone(path: Path) -> None:
    Ledger(path, cap=CAP)
    for name in (".budget.db.copy", ".budget.db.0123456789abcdeg", "budget.db.0123456789abcdef"):
        os.link(path, path.with_name(name))
    shutil.copy(path, path.with_name(".budget.db.0123456789abcdef"))
    names = sorted(os.listdir(path.parent))
    with pytest.raises(LedgerError, match="has 4 names"):
        Ledger.open(path)
    assert sorted(os.listdir(path.parent)) == names


@pytest.mark.slow
def test_charges_after_a_kill_under_another_name_are_never_lost(path: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(PROGRAM), "links", str(path), str(tmp_path / "there" / "other.db"), "6"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["journals left by a kill"] == 6
    assert found["opened while there were two names"] == 0
    assert found["lost by plain SQLite"] > 0  # the kills do leave journals that undo charges
    assert found["lost"] == 0
