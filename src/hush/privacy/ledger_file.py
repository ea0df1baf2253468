"""The ledger's file: an append-only SQLite table of the entries of a chain.

A charge is on disk before it returns. Each operation opens and closes its own connection, so that nothing is carried
across a fork or between threads. The rollback journal makes a commit whole or absent after `kill -9` or a power cut.
SQLite finds the journal by the file's path, so the file has one name: links are resolved, and hard links are refused.
"""

from __future__ import annotations

import glob
import os
import re
import sqlite3
import stat
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import astuple, fields
from pathlib import Path

from hush.core.errors import LedgerError
from hush.files.atomic_write import name_beside, sync_folder
from hush.privacy.ledger_chain import Chain, Entry
from hush.privacy.ledger_journal import journal_of, sole_access

PATIENCE = 30.0  # seconds to wait for another process
_UNKNOWN = (
    "keep the file, and count its datasets as spent up to their caps. A copy may take its place only if it contains "
    "the head of the last release: `hush budget COPY --expect-head HEAD`"
)
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
        self._real = Path(os.path.realpath(self.path))
        with self._explained():
            self._check_names()
            # `immutable` keeps SQLite from touching the file, or a journal beside it, before it is known to be ours.
            with _busy, closing(self._connect("mode=ro&immutable=1")) as connection:
                self._check_identity(connection)

    @classmethod
    def create(cls, path: str | os.PathLike[str], first: Entry) -> None:
        """Make a ledger that starts with an entry, whole or not at all; one that exists already is left alone."""
        self = cls.__new__(cls)
        self.path = self._real = _path(path)
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
        with self._connected() as connection:
            connection.execute("PRAGMA query_only=ON")
            connection.execute("BEGIN")
            self._check_schema(connection)
            yield connection
            connection.execute("ROLLBACK")

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A connection that alone may write; commits to disk at the end, or leaves the file as it was."""
        with self._connected() as connection:
            connection.execute("PRAGMA synchronous=EXTRA")
            connection.execute("BEGIN IMMEDIATE")
            try:
                self._check_names()  # once more, now that no other process can charge
                self._check_schema(connection)
                yield connection
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def check_pages(self, connection: sqlite3.Connection) -> None:
        """Let SQLite check the structure of the file."""
        if connection.execute("PRAGMA quick_check(1)").fetchall() != [("ok",)]:
            raise self.damaged("its pages contradict each other")

    def entries(self, connection: sqlite3.Connection, after: int = 0) -> list[Entry]:
        """The entries beyond a sequence number, in order; there must be one, for a ledger never shrinks."""
        listed = f"SELECT {', '.join(_COLUMNS)} FROM entries WHERE sequence > ? ORDER BY sequence"
        rows = connection.execute(listed, (after,)).fetchall()
        for row in rows:
            if type(row[0]) is not int or any(type(value) is not str for value in row[1:]):
                raise self.damaged("an entry holds a value of the wrong type")
        counted = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'entries'").fetchall()
        if not rows or counted != [(rows[-1][0],)]:
            raise self.damaged("entries that it once had are gone")
        return [Entry(**dict(zip(_COLUMNS, row, strict=True))) for row in rows]

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        """A connection to a file that has one name, and no journal beside it but one that it needs."""
        with self._explained(), _busy:
            self._check_names()
            self._drop_needless_journal()
            with closing(self._connect("mode=rw")) as connection:
                yield connection

    def _drop_needless_journal(self) -> None:
        """Remove the journal of a killed charge if the file is whole without it; else SQLite applies it."""
        journal = journal_of(self._real)
        if not journal.exists():
            return
        with sole_access(self._real) as handle:
            if handle is None or not journal.exists():  # a charge is under way, or was
                return
            # The connection stays open until the journal is gone: to close it gives up the lock.
            with closing(self._connect("mode=ro&immutable=1")) as connection:
                try:
                    self._check_schema(connection)
                    self.check_pages(connection)
                    Chain().extend(self.entries(connection))
                except (sqlite3.Error, UnicodeError, LedgerError):
                    return
                os.fsync(handle)
                journal.unlink()
                sync_folder(journal.parent)

    def _check_names(self) -> None:
        """Refuse what is no regular file, and a file of several names: charges under one could undo the others'."""
        facts = os.stat(self._real)
        if not stat.S_ISREG(facts.st_mode):
            raise LedgerError(f"{self.path} is not a regular file; name the ledger's file")
        if facts.st_nlink > 1 and self._links() > 1:
            raise LedgerError(
                f"{self.path} has {facts.st_nlink} names (hard links): after a crash, a charge under one could undo "
                "charges under the others. Remove all names but one. If a file NAME-journal lies beside one of them, "
                "that is the name to keep"
            )

    def _links(self) -> int:
        """The names of the file, once those that a process left that was killed while it created the file are gone."""
        for other in self._real.parent.glob(f".{glob.escape(self._real.name)}.*"):
            if re.fullmatch("[0-9a-f]{16}", other.suffix[1:]) and not Path(f"{other}-journal").exists():
                with suppress(OSError):
                    if other.samefile(self._real):
                        other.unlink()
        return os.stat(self._real).st_nlink

    def _connect(self, options: str) -> sqlite3.Connection:
        address = f"{self._real.absolute().as_uri()}?{options}"
        connection = sqlite3.connect(address, uri=True, timeout=PATIENCE, isolation_level=None)
        connection.execute("PRAGMA trusted_schema=OFF")
        connection.execute("PRAGMA cell_size_check=ON")
        return connection

    def _check_identity(self, connection: sqlite3.Connection) -> None:
        (mark,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if mark != _MARK:
            raise self._no_ledger()
        if version != _VERSION:
            raise LedgerError(
                f"{self.path} has ledger format {version}; this hush reads format {_VERSION}: upgrade hush"
            )

    def _check_schema(self, connection: sqlite3.Connection) -> None:
        self._check_identity(connection)
        tables = connection.execute("SELECT name, sql FROM sqlite_master").fetchall()
        if dict(tables) != _SCHEMA | _IMPLIED or len(tables) != len(_SCHEMA | _IMPLIED):
            raise self.damaged("its tables or triggers were changed")

    def damaged(self, how: str) -> LedgerError:
        """What to raise where the file is not what hush wrote; the advice never makes anyone forget what was spent."""
        return LedgerError(f"{self.path} is damaged or was edited: {how}; {_UNKNOWN}")

    def _no_ledger(self) -> LedgerError:
        return LedgerError(f"{self.path} is not a hush ledger; name another file, or if it was one once: {_UNKNOWN}")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn whatever SQLite or the system reports into one line that says what to do."""
        try:
            yield
        except sqlite3.Error as error:
            raise self._explanation(error) from None
        except UnicodeError:
            raise self.damaged("its text cannot be decoded") from None
        except FileNotFoundError:
            raise LedgerError(
                f"{self.path} does not exist; create it with `hush budget init`, stating a cap, if nothing was ever "
                "released from this data; else find its ledger"
            ) from None
        except OSError as error:
            raise LedgerError(f"{self.path} cannot be used as a ledger: {error.strerror}") from None

    def _explanation(self, error: sqlite3.Error) -> LedgerError:
        name = getattr(error, "sqlite_errorname", "")
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            return LedgerError(f"{self.path} was locked by another process for {PATIENCE:.0f} seconds; try again")
        if name == "SQLITE_READONLY_DBMOVED":
            return LedgerError(f"{self.path} was moved or replaced meanwhile; nothing was charged; try again")
        if name.startswith("SQLITE_READONLY"):
            return LedgerError(f"{self.path} or its folder is read-only; make both writable to charge it")
        if name.startswith(("SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")):
            return LedgerError(f"{self.path} cannot be opened or written; check its folder and permissions")
        if name.startswith("SQLITE_TOOBIG"):
            return LedgerError(f"{self.path}: the charge is too large for one entry; nothing was charged; split it")
        if name.startswith(("SQLITE_FULL", "SQLITE_IOERR")):
            return LedgerError(
                f"{self.path} cannot be read or written: {error}; a charge is recorded or not, and no data was read"
            )
        if name.startswith("SQLITE_NOTADB"):
            return self._no_ledger()
        return self.damaged(str(error))


def _path(path: str | os.PathLike[str]) -> Path:
    if "\0" in os.fspath(path):
        raise LedgerError(f"{os.fspath(path)!r} cannot be a file's name; name the ledger's file")
    return Path(path)


def append(connection: sqlite3.Connection, entry: Entry) -> None:
    """Add an entry within an open transaction."""
    marks = ", ".join("?" * len(_COLUMNS))
    connection.execute(f"INSERT INTO entries ({', '.join(_COLUMNS)}) VALUES ({marks})", astuple(entry))
