"""The file of a ledger: links, journals, killed charges, and several processes."""

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
from hush.core.errors import LedgerError
from hush.privacy.budget import Budget
from hush.privacy.events import SelectionEvent
from hush.privacy.ledger import Ledger
from hush.privacy.ledger.ledger_chain import Entry
from hush.privacy.ledger.ledger_file import LedgerFile, append

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

    def link_now(self: LedgerFile, options: str) -> sqlite3.Connection:
        connected.append(options)
        os.link(path, tmp_path / "other.db")
        return connect(self, options)

    monkeypatch.setattr(LedgerFile, "_connect", link_now)
    content = path.read_bytes()
    with pytest.raises(LedgerError, match="hard links"):
        ledger.charge(SELECT)
    assert len(connected) == 1
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

    monkeypatch.setattr("hush.privacy.ledger.ledger.append", look)
    Ledger.open(link).charge(SELECT)
    assert seen == [(True, ["link.db"])]
    kept = journal_of_a_killed_charge(path)
    journal(path).write_bytes(kept)
    assert charged(link) == 2
    assert not journal(path).exists()


@pytest.mark.parametrize("later", [0, 1, 5])
def test_a_journal_does_not_undo_later_charges(path: Path, later: int) -> None:
    """As another mount of the file, or a name it had before, would leave it: the file has one name, and is whole."""
    ledger = Ledger(path, cap=CAP)
    ledger.charge(SELECT)
    kept = journal_of_a_killed_charge(path)
    for _ in range(later):
        ledger.charge(SELECT)
    head, content = ledger.head, path.read_bytes()
    journal(path).write_bytes(kept)
    Ledger.open(path).verify(head)
    assert path.read_bytes() == content
    assert not journal(path).exists()
    journal(path).write_bytes(kept)
    ledger.charge(SELECT)
    assert charged(path) == later + 2


def test_without_the_check_the_journal_undoes_them(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check is needed: SQLite applies the journal, and what is left verifies."""
    ledger = Ledger(path, cap=CAP)
    kept = journal_of_a_killed_charge(path)
    for _ in range(5):
        ledger.charge(SELECT)
    journal(path).write_bytes(kept)
    monkeypatch.setattr(LedgerFile, "_drop_needless_journal", lambda self: None)
    Ledger.open(path).verify()
    assert charged(path) == 0


def test_a_torn_file_needs_its_journal(path: Path) -> None:
    ledger = Ledger(path, cap=CAP)
    for number in range(40):
        ledger.charge(SELECT, note=f"{number} " + "." * 190)
    content, kept = path.read_bytes(), journal_of_a_killed_charge(path)
    assert kept[512:516] == b"\0\0\0\2" or kept[512 + 4104 : 516 + 4104] == b"\0\0\0\2"  # it keeps the second page
    path.write_bytes(content[:4096] + bytes(4096) + content[8192:])
    with pytest.raises(LedgerError, match="is damaged"):
        Ledger.open(path)
    journal(path).write_bytes(kept)
    assert charged(path) == 40
    assert path.read_bytes() == content


def test_a_journal_that_cannot_be_removed_is_not_applied(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(path, cap=CAP)
    kept = journal_of_a_killed_charge(path)
    ledger.charge(SELECT)
    journal(path).write_bytes(kept)

    def refuse(self: Path, missing_ok: bool = False) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        with pytest.raises(LedgerError, match="cannot be used as a ledger: Permission denied"):
            Ledger.open(path)
    assert charged(path) == 1


def test_the_journal_of_a_charge_under_way_is_left_alone(path: Path) -> None:
    ledger = Ledger(path, cap=CAP)
    ledger.charge(SELECT)
    live = subprocess.Popen(
        [sys.executable, "-c", LIVE, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert live.stdin is not None
    assert live.stdout is not None
    assert live.stdout.readline() == "begun\n"
    assert journal(path).exists()
    assert ledger.remaining == CAP.limit - Fraction(1, 8)
    assert charged(path) == 1
    assert journal(path).exists()
    live.stdin.write("\n")
    live.stdin.close()
    assert live.wait(30) == 0
    live.stdout.close()
    assert charged(path) == 2


LIVE = """
import sys
from fractions import Fraction
import hush.privacy.ledger
from hush.privacy.events import SelectionEvent
append = hush.privacy.ledger.ledger.append
def slowly(connection, entry):
    append(connection, entry)
    print("begun", flush=True)
    sys.stdin.readline()
hush.privacy.ledger.ledger.append = slowly
hush.privacy.ledger.Ledger.open(sys.argv[1]).charge(SelectionEvent(Fraction(1)))
"""


@pytest.mark.parametrize("content", [b"", b"\0" * 600, b"x" * 5000, bytes.fromhex("d9d505f920a163d7") + b"\xff" * 600])
def test_files_that_are_no_journal_change_nothing(path: Path, content: bytes) -> None:
    ledger = Ledger(path, cap=CAP)
    ledger.charge(SELECT)
    journal(path).write_bytes(content)
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


def run(*arguments: object) -> dict:
    command = [sys.executable, str(PROGRAM), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_kill_9_at_any_instant_never_releases_what_was_not_charged(tmp_path):
    found = run("kill", tmp_path / "budget.db", 150, "charge first")
    assert found["kills"] == 150
    assert found["released without a charge"] == 0
    assert found["times charged less than released"] == 0
    assert found["times a charge was lost"] == 0
    assert found["charged"] >= found["released"] > 0
    assert found["kills inside a transaction"] > 10


@pytest.mark.slow
def test_the_kill_test_catches_a_release_before_its_charge(tmp_path):
    found = run("kill", tmp_path / "budget.db", 60, "release first")
    assert found["released without a charge"] > 0
    assert found["times charged less than released"] > 0
    assert found["times a charge was lost"] == 0


@pytest.mark.slow
def test_a_crowd_never_exceeds_the_cap_and_loses_no_entry(tmp_path):
    found = run("crowd", tmp_path / "budget.db", 6, 20, 60)
    assert found["codes"] == [0] * 6
    assert found["taken"] == found["entries"] == found["distinct"] == 60
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
