"""The ledger's file: an append-only SQLite table of entries, each sealed with a hash over itself and the one before.

A replay checks every seal, every cost against its event and every total against its cap; it trusts nothing else in
the file. The chain shows edits, removals and reordering. That a whole file was put back to an older state shows only
against a fingerprint kept elsewhere, such as in a release.

A charge is on disk before it returns. Each operation opens and closes its own connection, so that nothing is carried
across a fork or between threads. The rollback journal makes a commit whole or absent after `kill -9` or a power cut.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import stat
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, astuple, dataclass, field, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from hush.atomic_write import name_beside, sync_folder
from hush.errors import BudgetError, LedgerError
from hush.privacy.account import remaining_of
from hush.privacy.budget import Budget, Cost
from hush.privacy.events import Event, event_from_dict
from hush.rational import parse_rational, rational_text

START = "0" * 64  # what the first entry names as its predecessor
FINGERPRINT = 32  # hex digits
NOTE_LENGTH = 200
CAP, CHARGE = "cap", "charge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of a ledger, as stored: public, and text throughout, so that its hash has one meaning.

    `action` is "charge" with an event as `content`, or "cap" with a budget. `rho` and `epsilon` are exact rationals:
    a charge's cost, or a cap's limit in its own unit; empty where there is no bound. `terms` says whom a charge
    protects and under which relation: costs under different terms do not add up.
    """

    sequence: int
    dataset: str
    time: str
    action: str
    content: str
    rho: str
    epsilon: str
    note: str
    release: str
    terms: str
    previous: str
    hash: str = ""

    def sealed(self) -> Entry:
        """The entry with its hash: SHA-256 over canonical JSON of every other field."""
        body = asdict(self)
        del body["hash"]
        return replace(self, hash=hashlib.sha256(canonical(body).encode("ascii")).hexdigest())

    @property
    def event(self) -> Event:
        """What a charge was for."""
        return event_from_dict(_parsed(self.content))

    @property
    def cap(self) -> Budget:
        """What a cap allows."""
        return Budget.from_dict(_parsed(self.content))

    @property
    def cost(self) -> Cost:
        """The cost, or the limit, as its text says."""
        rho, epsilon = (
            parse_rational(text, name) if text else None
            for text, name in ((self.rho, "rho"), (self.epsilon, "epsilon"))
        )
        return Cost(rho, epsilon)


def charge_fields(event: Event, cost: Cost) -> dict[str, str]:
    """The fields of an entry that say what a charge is for and what it costs."""
    rho, epsilon = ("" if value is None else rational_text(value) for value in (cost.rho, cost.epsilon))
    return {"action": CHARGE, "content": canonical(event.to_dict()), "rho": rho, "epsilon": epsilon}


def cap_fields(cap: Budget) -> dict[str, str]:
    """The fields of an entry that state a cap. The limit is stored, so that no later version can convert it anew."""
    if not isinstance(cap, Budget):
        raise BudgetError(f"cap={cap!r}: expected a Budget, such as Budget(epsilon=1.0, delta=1e-9)")
    limit = rational_text(cap.limit)
    rho, epsilon = ("", limit) if cap.pure else (limit, "")
    return {"action": CAP, "content": canonical(cap.to_dict()), "rho": rho, "epsilon": epsilon}


@dataclass(slots=True)
class Book:
    """The state of one dataset: its cap and what was spent."""

    cap: Budget
    limit: Fraction
    spent: Cost = field(default_factory=Cost)
    terms: str = ""
    pending: list[Cost] = field(default_factory=list)

    def settle(self) -> None:
        """Add up what is pending and check it against the cap; totals only grow, so the last one decides."""
        self.spent = Cost.total([self.spent, *self.pending])
        self.pending = []
        if self.cap.spent(self.spent) > self.limit:
            raise LedgerError("the total charged exceeds the cap")

    @property
    def remaining(self) -> Fraction:
        """What is left, in the unit of the cap."""
        return remaining_of(self.cap, self.limit, self.spent)


class Chain:
    """The replay of a ledger's entries up to some length: the head, and a book for each dataset."""

    def __init__(self) -> None:
        self.length = 0
        self.head = START
        self.books: dict[str, Book] = {}

    def next_entry(
        self, *, dataset: str, time: str, note: str, release: str = "", terms: str = "", **fields: str
    ) -> Entry:
        """The sealed entry that would follow; the chain itself does not change."""
        return Entry(
            sequence=self.length + 1,
            dataset=dataset,
            time=time,
            note=printable(note, NOTE_LENGTH),
            release=release,
            terms=terms,
            previous=self.head,
            **fields,
        ).sealed()

    def extend(self, entries: Iterable[Entry]) -> None:
        """Verify the entries that follow and take them in; raises LedgerError at the first that does not hold."""
        for entry in entries:
            with _refusing(f"entry {entry.sequence}"):
                self._take(entry)
        for dataset, book in self.books.items():
            with _refusing(f"dataset {dataset!r}"):
                book.settle()

    def _take(self, entry: Entry) -> None:
        _require(entry.sequence == self.length + 1, f"expected entry {self.length + 1}: one was removed or moved")
        _require(entry.previous == self.head, "it does not follow the entry before it: one was edited or moved")
        _require(entry.sealed().hash == entry.hash, "it does not match its hash: it was edited")
        texts = (entry.dataset, entry.time, entry.note, entry.release, entry.terms)
        _require(all(map(_harmless, texts)), "it holds text that hush never writes")
        _require(_is_canonical(entry.content), "its content is not in canonical form")
        book = self.books.get(entry.dataset)
        if entry.action == CAP:
            self.books[entry.dataset] = _book_of(entry, book)
        else:
            _require(entry.action == CHARGE, f"its action {entry.action!r} is unknown")
            _require(book is not None, "it charges a dataset that has no cap yet")
            cost = entry.event.cost
            _require(cost.rho is not None, "it is for an event that is not private")
            _require(cost == entry.cost, "its cost is not that of its event")
            if book is not None:
                _require(entry.terms in ("", book.terms) or not book.terms, "its terms are not those of its dataset")
                book.terms = book.terms or entry.terms
                book.pending.append(cost)
        self.length, self.head = entry.sequence, entry.hash


def _book_of(entry: Entry, before: Book | None) -> Book:
    cap, limits = entry.cap, entry.cost
    limit = limits.epsilon if cap.pure else limits.rho
    unused = limits.rho if cap.pure else limits.epsilon
    if limit is None or unused is not None or abs(limit - cap.limit) > cap.limit / 10**9:
        raise LedgerError("its limit is not that of its cap")
    if before is None:
        return Book(cap, limit)
    before.settle()
    _require(before.cap.pure == cap.pure and before.limit < limit, "it does not raise the cap")
    return Book(cap, limit, before.spent, before.terms)


def canonical(value: Any) -> str:
    """JSON with one form for each value: sorted names, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def printable(text: str, length: int) -> str:
    r"""Text of at most a length that prints as itself: control and other unprintable characters are escaped.

    >>> printable("\x1b[2Jgone", 100)
    '\\x1b[2Jgone'
    """
    shown = "".join(
        character if character.isprintable() else character.encode("unicode_escape", "surrogatepass").decode("ascii")
        for character in text[: length + 1]
    )
    return shown if len(shown) <= length else shown[: length - 3] + "..."


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise LedgerError("its content is not JSON") from None


def _is_canonical(text: str) -> bool:
    try:
        return canonical(_parsed(text)) == text
    except (ValueError, RecursionError):
        return False


def _harmless(text: str) -> bool:
    """No control characters; which other characters are printable differs between versions of Unicode."""
    return len(text) <= NOTE_LENGTH and not any(c < " " or "\x7f" <= c <= "\x9f" for c in text)


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise LedgerError(message)


@contextmanager
def _refusing(what: str) -> Iterator[None]:
    try:
        yield
    except (BudgetError, LedgerError) as error:
        raise LedgerError(f"{what}: {error}") from None


PATIENCE = 30.0  # seconds to wait for another process
_MARK = 0x48555348  # "HUSH", SQLite's application id
_VERSION = 1
_COLUMNS = tuple(field.name for field in fields(Entry))
_SCHEMA = {
    "entries": "CREATE TABLE entries (sequence INTEGER PRIMARY KEY AUTOINCREMENT, "
    + ", ".join(f"{name} TEXT NOT NULL" for name in _COLUMNS[1:])
    + ")",
    "entries_stay_as_they_are": "CREATE TRIGGER entries_stay_as_they_are BEFORE UPDATE ON entries "
    "BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END",
    "entries_stay": "CREATE TRIGGER entries_stay BEFORE DELETE ON entries "
    "BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END",
}
_IMPLIED = {"sqlite_sequence": "CREATE TABLE sqlite_sequence(name,seq)"}  # made by AUTOINCREMENT

# A fork waits until no thread is inside SQLite: its locks and bookkeeping do not survive being copied half-way.
_busy = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_busy.acquire, after_in_parent=_busy.release, after_in_child=_busy.release)


class LedgerFile:
    """A ledger's file, which must exist and be one; opening it changes nothing."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = _path(path)
        with self._explained():
            if not stat.S_ISREG(os.stat(self.path).st_mode):
                raise LedgerError(f"{self.path} is not a regular file; name the ledger's file")
            # `immutable` keeps SQLite from touching the file, or a journal beside it, before it is known to be ours.
            with _busy, closing(self._connect("mode=ro&immutable=1")) as connection:
                self._check_identity(connection)

    @classmethod
    def create(cls, path: str | os.PathLike[str], first: Entry) -> None:
        """Make a ledger that starts with an entry, whole or not at all; one that exists already is left alone."""
        self = cls.__new__(cls)
        self.path = _path(path)
        if not self.path.parent.is_dir():
            raise LedgerError(f"{self.path}: the folder {self.path.parent} does not exist; create it first")
        temporary = name_beside(self.path)
        with self._explained():
            try:
                with _busy, closing(sqlite3.connect(temporary, isolation_level=None)) as connection:
                    connection.execute("PRAGMA synchronous=EXTRA")
                    connection.execute(f"PRAGMA application_id={_MARK}")
                    connection.execute(f"PRAGMA user_version={_VERSION}")
                    connection.execute("BEGIN IMMEDIATE")
                    for statement in _SCHEMA.values():
                        connection.execute(statement)
                    append(connection, first)
                    connection.execute("COMMIT")
                with suppress(FileExistsError):
                    os.link(temporary, self.path)
                sync_folder(self.path.parent)
            finally:
                temporary.unlink(missing_ok=True)

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection that sees one state of the file, and writes nothing."""
        with self._explained(), _busy, closing(self._connect("mode=rw")) as connection:
            connection.execute("PRAGMA query_only=ON")
            connection.execute("BEGIN")
            self._check_schema(connection)
            yield connection
            connection.execute("ROLLBACK")

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A connection that alone may write; commits to disk at the end, or leaves the file as it was."""
        with self._explained(), _busy, closing(self._connect("mode=rw")) as connection:
            connection.execute("PRAGMA synchronous=EXTRA")
            connection.execute("BEGIN IMMEDIATE")
            try:
                self._check_schema(connection)
                yield connection
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def check_pages(self, connection: sqlite3.Connection) -> None:
        """Let SQLite check the structure of the file."""
        if connection.execute("PRAGMA quick_check(1)").fetchall() != [("ok",)]:
            raise self._damaged("its pages contradict each other")

    def entries(self, connection: sqlite3.Connection, after: int = 0) -> list[Entry]:
        """The entries beyond a sequence number, in order; there must be one, for a ledger never shrinks."""
        listed = f"SELECT {', '.join(_COLUMNS)} FROM entries WHERE sequence > ? ORDER BY sequence"
        rows = connection.execute(listed, (after,)).fetchall()
        for row in rows:
            if type(row[0]) is not int or any(type(value) is not str for value in row[1:]):
                raise self._damaged("an entry holds a value of the wrong type")
        counted = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'entries'").fetchall()
        if not rows or counted != [(rows[-1][0],)]:
            raise self._damaged("entries that it once had are gone")
        return [Entry(**dict(zip(_COLUMNS, row, strict=True))) for row in rows]

    def _connect(self, options: str) -> sqlite3.Connection:
        address = f"{self.path.absolute().as_uri()}?{options}"
        connection = sqlite3.connect(address, uri=True, timeout=PATIENCE, isolation_level=None)
        connection.execute("PRAGMA trusted_schema=OFF")
        connection.execute("PRAGMA cell_size_check=ON")
        return connection

    def _check_identity(self, connection: sqlite3.Connection) -> None:
        (mark,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if mark != _MARK:
            raise LedgerError(f"{self.path} is not a hush ledger; name another file")
        if version != _VERSION:
            raise LedgerError(
                f"{self.path} has ledger format {version}; this hush reads format {_VERSION}: upgrade hush"
            )

    def _check_schema(self, connection: sqlite3.Connection) -> None:
        self._check_identity(connection)
        tables = connection.execute("SELECT name, sql FROM sqlite_master").fetchall()
        if dict(tables) != _SCHEMA | _IMPLIED or len(tables) != len(_SCHEMA | _IMPLIED):
            raise self._damaged("its tables or triggers were changed")

    def _damaged(self, how: str) -> LedgerError:
        return LedgerError(f"{self.path} is damaged or was edited: {how}; restore it from a copy")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn whatever SQLite or the system reports into one line that says what to do."""
        try:
            yield
        except sqlite3.Error as error:
            raise self._explanation(error) from None
        except UnicodeError:
            raise self._damaged("its text cannot be decoded") from None
        except FileNotFoundError:
            raise LedgerError(
                f"{self.path} does not exist; create it with `hush budget --create`, stating a cap"
            ) from None
        except OSError as error:
            raise LedgerError(f"{self.path} cannot be used as a ledger: {error.strerror}") from None

    def _explanation(self, error: sqlite3.Error) -> LedgerError:
        name = getattr(error, "sqlite_errorname", "")
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            return LedgerError(f"{self.path} was locked by another process for {PATIENCE:.0f} seconds; try again")
        if name.startswith("SQLITE_READONLY"):
            return LedgerError(f"{self.path} or its folder is read-only; make both writable to charge it")
        if name.startswith(("SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")):
            return LedgerError(f"{self.path} cannot be opened or written; check its folder and permissions")
        if name.startswith(("SQLITE_FULL", "SQLITE_IOERR")):
            return LedgerError(
                f"{self.path} cannot be read or written: {error}; a charge is recorded or not, and no data was read"
            )
        if name.startswith("SQLITE_NOTADB"):
            return LedgerError(f"{self.path} is not a hush ledger; name another file")
        return self._damaged(str(error))


def _path(path: str | os.PathLike[str]) -> Path:
    if "\0" in os.fspath(path):
        raise LedgerError(f"{os.fspath(path)!r} cannot be a file's name; name the ledger's file")
    return Path(path)


def append(connection: sqlite3.Connection, entry: Entry) -> None:
    """Add an entry within an open transaction."""
    marks = ", ".join("?" * len(_COLUMNS))
    connection.execute(f"INSERT INTO entries ({', '.join(_COLUMNS)}) VALUES ({marks})", astuple(entry))
