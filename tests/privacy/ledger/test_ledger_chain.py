"""Edits to a ledger's file, by SQL and by byte: every one is found, or changes nothing that counts."""

import random
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import astuple, fields, replace
from fractions import Fraction
from pathlib import Path

import pytest

from hush.core.errors import BudgetError, LedgerError
from hush.privacy.budget import Budget
from hush.privacy.events import GaussianEvent, LaplaceEvent, NonPrivateEvent, SelectionEvent
from hush.privacy.ledger import Ledger
from hush.privacy.ledger.ledger_chain import NO_PREDECESSOR, Entry, canonical, cap_fields, charge_fields

SELECT = SelectionEvent(Fraction(1))
CHEAP = SelectionEvent(Fraction(1, 1000))
COLUMNS = [field.name for field in fields(Entry)]


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A ledger of two datasets and seven entries, six of them charges."""
    path = tmp_path_factory.mktemp("original") / "budget.db"
    ledger = Ledger(path, dataset="a", cap=Budget(rho=1.0))
    other = Ledger(path, dataset="b", cap=Budget(epsilon=3.0))
    ledger.charge(SELECT, note="one", release="r1")
    ledger.charge(GaussianEvent(Fraction(10), Fraction(1), True), note="two", release="r1")
    other.charge(LaplaceEvent(Fraction(10), Fraction(1)), note="three", release="r2")
    ledger.charge(SELECT, note="four", release="r2")
    ledger.raise_cap(Budget(rho=1.5), reason="decided")
    return path


@pytest.fixture(scope="module")
def long(original, tmp_path_factory):
    """A ledger whose entries fill several pages."""
    path = Path(shutil.copy(original, tmp_path_factory.mktemp("long") / "budget.db"))
    ledger = Ledger.open(path, dataset="a")
    for number in range(40):
        ledger.charge(CHEAP, note=f"number {number} " + "." * 150)
    return path


@pytest.fixture
def path(original, tmp_path):
    return Path(shutil.copy(original, tmp_path / "budget.db"))


def in_sql(path: Path, *statements: str, values: tuple[object, ...] = ()) -> None:
    """Run SQL with the triggers out of the way and put back as they were."""
    connection = sqlite3.connect(path, isolation_level=None)
    triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for name, _ in triggers:
        connection.execute(f"DROP TRIGGER {name}")
    for statement in statements:
        connection.execute(statement, values)
    for _, sql in triggers:
        connection.execute(sql)
    connection.close()


def rewritten(path: Path, change: Callable[[list[Entry]], list[Entry]]) -> None:
    """Change the entries and seal the whole chain anew, as someone who knows the format would."""
    connection = sqlite3.connect(path, isolation_level=None)
    rows = connection.execute(f"SELECT {', '.join(COLUMNS)} FROM entries ORDER BY sequence").fetchall()
    connection.close()
    previous, sealed = NO_PREDECESSOR, []
    for number, entry in enumerate(change([Entry(**dict(zip(COLUMNS, row, strict=True))) for row in rows]), start=1):
        sealed.append(replace(entry, sequence=number, previous=previous).sealed())
        previous = sealed[-1].hash
    in_sql(path, "DELETE FROM entries", f"UPDATE sqlite_sequence SET seq = {len(sealed)}")
    for entry in sealed:
        in_sql(path, f"INSERT INTO entries VALUES ({', '.join('?' * len(COLUMNS))})", values=astuple(entry))


def with_entry(number: int, **changes: str) -> Callable[[list[Entry]], list[Entry]]:
    return lambda entries: [replace(entry, **(changes if entry.sequence == number else {})) for entry in entries]


def assert_refused(path: Path, message: str) -> None:
    """Opening, verifying and charging all fail, and none changes the file."""
    before = path.read_bytes()
    for act in (
        lambda: Ledger.open(path, dataset="a"),
        lambda: Ledger.open_all(path),
        lambda: Ledger(path, dataset="c", cap=Budget(rho=1.0)),
    ):
        with pytest.raises(LedgerError, match=message) as found:
            act()
        assert "\n" not in str(found.value)
        assert "treat its datasets as spent up to their caps" in str(found.value)
        assert "restore" not in str(found.value)
    assert path.read_bytes() == before


@pytest.mark.parametrize("number", range(1, 8))
@pytest.mark.parametrize("column", COLUMNS[1:])
def test_an_edit_of_any_field_of_any_entry_is_found(path, number, column):
    in_sql(path, f"UPDATE entries SET {column} = {column} || '0' WHERE sequence = {number}")
    assert_refused(path, f"entry {number}: |its tables")


@pytest.mark.parametrize("number", range(1, 8))
def test_a_removed_entry_is_found(path, number):
    in_sql(path, f"DELETE FROM entries WHERE sequence = {number}")
    assert_refused(path, "one was removed or moved|entries were removed")


def test_all_entries_removed_is_found(path):
    in_sql(path, "DELETE FROM entries")
    assert_refused(path, "entries were removed")


def test_reordered_entries_are_found(path):
    in_sql(
        path,
        "UPDATE entries SET sequence = 100 WHERE sequence = 3",
        "UPDATE entries SET sequence = 3 WHERE sequence = 4",
        "UPDATE entries SET sequence = 4 WHERE sequence = 100",
    )
    assert_refused(path, "entry 3: it does not follow the entry before it")


def test_a_shifted_sequence_is_found(path):
    in_sql(path, "UPDATE entries SET sequence = -sequence", "UPDATE entries SET sequence = 10 - sequence")
    assert_refused(path, "expected entry 1|were removed")


def test_an_entry_added_by_hand_is_found(path):
    columns = ", ".join(COLUMNS[1:])
    in_sql(path, f"INSERT INTO entries ({columns}) SELECT {columns} FROM entries WHERE sequence = 3")
    assert_refused(path, "entry 8: it does not follow")


@pytest.mark.parametrize("value", ["x'00'", "x'c328'", "3", "2.5", "CAST(x'ff' AS TEXT)"])
@pytest.mark.parametrize("column", ["note", "rho", "hash"])
def test_values_of_another_type_are_found(path, column, value):
    in_sql(path, f"UPDATE entries SET {column} = {value} WHERE sequence = 3")
    assert_refused(path, "is damaged or was edited")


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TRIGGER entries_stay",
        "DROP TRIGGER entries_stay_as_they_are",
        "CREATE TABLE more (a)",
        "CREATE VIEW more AS SELECT * FROM entries",
        "CREATE INDEX more ON entries (note)",
        "CREATE TRIGGER more AFTER INSERT ON entries BEGIN DELETE FROM entries; END",
        "ALTER TABLE entries ADD COLUMN more TEXT",
        "ALTER TABLE entries RENAME TO other",
    ],
)
def test_a_changed_schema_is_found(path, statement):
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(statement)
    connection.close()
    assert_refused(path, "its tables or triggers were changed")


FREE = charge_fields(CHEAP, CHEAP.cost)
LARGER = cap_fields(Budget(rho=9.0))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (with_entry(3, rho="1/8000"), "entry 3: its cost is not that of its event"),
        (with_entry(3, rho="0/1"), "entry 3: its cost is not that of its event"),
        (with_entry(3, rho=""), "entry 3: its cost is not that of its event"),
        (with_entry(3, epsilon="1/1000"), "entry 3: its cost is not that of its event"),
        (with_entry(3, content=FREE["content"]), "entry 3: its cost is not that of its event"),
        (with_entry(3, rho="2/16"), "entry 3: its cost is not that of its event"),
        (with_entry(3, rho="-1/8"), "entry 3: its cost is not that of its event"),
        (with_entry(3, rho="nan"), "entry 3: its cost is not that of its event"),
        (with_entry(3, rho="1e9"), "entry 3: its cost is not that of its event"),
        (with_entry(1, rho="2/1"), "entry 1: its limit is not that of its cap"),
        (with_entry(1, rho=""), "entry 1: its limit is not that of its cap"),
        (with_entry(1, epsilon="1/1"), "entry 1: its limit is not that of its cap"),
        (with_entry(1, content='{"rho":9.0}'), "entry 1: its limit is not that of its cap"),
        (with_entry(1, content='{"rho":-1.0}'), "entry 1: rho=-1.0: expected a number above 0"),
        (with_entry(1, content='{"who":1.0}'), "entry 1: budget: expected"),
        (with_entry(7, **cap_fields(Budget(rho=0.5))), "entry 7: it does not raise the cap"),
        (with_entry(7, **cap_fields(Budget(epsilon=5.0))), "entry 7: it does not raise the cap"),
        (with_entry(7, dataset="c", action="charge"), "entry 7: it charges a dataset that has no cap"),
        (with_entry(3, action="refund"), "entry 3: its action 'refund' is unknown"),
        (with_entry(3, content="{"), "entry 3: its content is not JSON|canonical"),
        (with_entry(3, content='{"kind": "exponential mechanism","epsilon":"1/1"}'), "not in canonical form"),
        (with_entry(3, content="NaN"), "entry 3: its content is not in canonical form"),
        (with_entry(3, content="1e999"), "entry 3: its content is not in canonical form"),
        (with_entry(3, content="[" * 100_000), "entry 3: its content is not"),
        (with_entry(3, content=canonical({"kind": "unheard of"})), "entry 3: event kind 'unheard of' is unknown"),
        (with_entry(3, content=canonical(NonPrivateEvent().to_dict()), rho="", epsilon=""), "not private"),
        (with_entry(3, note="\x1b[2J"), "entry 3: it holds text that hush never writes"),
        (with_entry(3, release="x" * 300), "entry 3: it holds text that hush never writes"),
        (lambda entries: entries + [entries[2]] * 20, "dataset 'a': the total charged exceeds the cap"),
        (lambda entries: entries[:6] + [entries[2]] * 20 + entries[6:], "the total charged exceeds the cap"),
        (lambda entries: entries[2:], "entry 1: it charges a dataset that has no cap"),
        (lambda entries: [], "entries were removed"),
    ],
)
def test_a_chain_sealed_anew_must_still_make_sense(path, change, message):
    rewritten(path, change)
    assert_refused(path, message)


@pytest.mark.parametrize(
    "change",
    [
        lambda entries: entries[:-1],
        lambda entries: entries[:4],
        lambda entries: entries[:2] + entries[3:],
        with_entry(3, **FREE),
        with_entry(7, **LARGER),
        with_entry(6, note="another"),
        with_entry(1, time="2020-01-01T00:00:00Z"),
    ],
)
def test_a_chain_sealed_anew_and_sound_is_found_by_the_head_kept_elsewhere(original, path, change):
    head = Ledger.open(original, dataset="a").head
    rewritten(path, change)
    forged = Ledger.open(path, dataset="a")
    forged.verify()
    with pytest.raises(LedgerError, match="lacks the head .*another ledger, or an older copy"):
        forged.verify(head)


def test_an_older_file_put_back_is_found_by_its_head(path, tmp_path):
    older = shutil.copy(path, tmp_path / "older.db")
    ledger = Ledger.open(path, dataset="a")
    earlier = ledger.head
    ledger.charge(SELECT)
    later = ledger.head
    ledger.verify(earlier)
    ledger.verify(later)
    ledger.verify(later.upper() + "  ")
    shutil.copy(older, path)
    with pytest.raises(LedgerError, match="was changed|were removed"):
        ledger.charge(SELECT)
    put_back = Ledger.open(path, dataset="a")
    put_back.verify(earlier)
    with pytest.raises(LedgerError, match=f"lacks the head {later}"):
        put_back.verify(later)


def test_an_older_file_put_back_and_charged_again_is_found_by_its_head(path, tmp_path):
    older = shutil.copy(path, tmp_path / "older.db")
    ledger = Ledger.open(path, dataset="a")
    ledger.charge(SELECT, note="first")
    head = ledger.head
    shutil.copy(older, path)
    Ledger.open(path, dataset="a").charge(SELECT, note="second")
    with pytest.raises(LedgerError, match="was changed"):
        ledger.charge(SELECT)
    with pytest.raises(LedgerError, match="lacks the head"):
        Ledger.open(path, dataset="a").verify(head)


@pytest.mark.parametrize("head", ["", "abc", "0" * 31, "g" * 32, "0" * 65, 3])
def test_a_head_that_cannot_be_one_is_refused(path, head):
    with pytest.raises(LedgerError, match="expected the 32 hex digits of a head"):
        Ledger.open(path, dataset="a").verify(head)


def outcome(path: Path) -> object:
    """What a reader of the file gets: the sums and entries, or a refusal."""
    ledgers = Ledger.open_all(path)
    ledgers[0].verify()
    return [(ledger.dataset, ledger.total, ledger.remaining, ledger.entries()) for ledger in ledgers]


def damaged(content: bytes, chance: random.Random) -> bytes:
    """The file with flipped bits, zeroes, a cut, a moved page or noise somewhere."""
    content = bytearray(content)
    at, length = chance.randrange(len(content)), chance.choice([1, 2, 16, 200])
    kind = chance.randrange(6)
    if kind == 0:
        content[at] ^= 1 << chance.randrange(8)
    elif kind == 1:
        content[at] = chance.randrange(256)
    elif kind == 2:
        content[at : at + length] = bytes(len(content[at : at + length]))
    elif kind == 3:
        del content[at:]
    elif kind == 4:
        page, other = (chance.randrange(len(content) // 4096) * 4096 for _ in range(2))
        content[page : page + 4096] = content[other : other + 4096]
    else:
        content[at : at + length] = chance.randbytes(len(content[at : at + length]))
    return bytes(content)


@pytest.mark.parametrize(("name", "seed"), [("original", 0), ("original", 1), ("long", 2), ("long", 3)])
def test_damage_anywhere_is_refused_or_changes_nothing(request, path, name, seed):
    source, chance = request.getfixturevalue(name), random.Random(seed)
    expected, content = outcome(source), source.read_bytes()
    refused = 0
    for _ in range(200):
        path.write_bytes(damaged(content, chance))
        refused += not_the_same(path, expected)
    assert refused > 50


def not_the_same(path: Path, expected: object) -> bool:
    """Whether reading is refused; what is not refused must be all there."""
    found: list[object] = []
    with pytest.raises((LedgerError, StopIteration)):
        found.append(outcome(path))
        raise StopIteration
    assert found in ([], [expected])
    return not found


@pytest.mark.parametrize("name", ["original", "long"])
def test_a_charge_to_a_damaged_file_is_refused_or_recorded_after_all_others(request, path, name):
    source, chance = request.getfixturevalue(name), random.Random(name)
    content, entries = source.read_bytes(), Ledger.open(source, dataset="a").entries()
    recorded = 0
    for _ in range(80):
        path.write_bytes(damaged(content, chance))
        done: list[list[Entry]] = []
        with pytest.raises((LedgerError, StopIteration)):
            Ledger.open(path, dataset="a").charge(SELECT)
            done.append(Ledger.open(path, dataset="a").entries())
            raise StopIteration
        assert [after[:-1] for after in done] in ([], [entries])
        recorded += len(done)
    assert recorded > 0


@pytest.mark.parametrize("length", [0, 1, 15, 16, 99, 100, 512, 4095, 4096, 4097, 8192, 12287])
def test_a_truncated_file_is_refused(path, length):
    path.write_bytes(path.read_bytes()[:length])
    assert_refused(path, "is not a hush ledger|is damaged")


def test_a_charge_after_a_refusal_still_works(path):
    ledger = Ledger.open(path, dataset="a")
    with pytest.raises(BudgetError):
        ledger.charge(SelectionEvent(Fraction(100)))
    ledger.charge(SELECT)
    ledger.verify()
    assert ledger.entries()[-1].sequence == 8
