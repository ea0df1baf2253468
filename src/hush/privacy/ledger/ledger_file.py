"""The file of a ledger: an append-only SQLite table of the entries of a chain.

A charge is on disk before `charge` returns. Each operation opens and closes its own connection, so no connection
crosses a fork or a thread. SQLite's rollback journal makes a commit whole or absent after `kill -9` or a power cut.

SQLite finds the journal of a file by the file's path, and applies any journal it finds there. So a journal that a
killed charge left under one name could undo later charges made under another: another link, another mount, or before
the file was moved. Therefore symbolic links are resolved and hard links refused, and a ledger that verifies without its
journal loses the journal: rolling back could only forget charges. At worst, a charge that was killed before it returned
stays.

Reference: [SQLite, File Locking and Concurrency, sections 4 and 5.1].
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
from hush.privacy.ledger.ledger_chain import Chain, Entry

LOCK_TIMEOUT = 30.0  # seconds to wait for another process
_KEEP_THE_FILE = (
    "keep the file, and treat its datasets as spent up to their caps. A copy may replace it only if the copy contains "
    "the head of the last release: `hush budget COPY --expect-head HEAD`"
)
_APPLICATION_ID = 0x48555348  # "HUSH"
_FORMAT_VERSION = 1
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
_AUTOMATIC_TABLES = {"sqlite_sequence": "CREATE TABLE sqlite_sequence(name,seq)"}  # SQLite makes it for AUTOINCREMENT

# A fork waits until no thread is inside SQLite, whose locks and bookkeeping do not survive being copied half-way.
_busy = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_busy.acquire, after_in_parent=_busy.release, after_in_child=_busy.release)


class LedgerFile:
    """The file of a ledger, which must exist; opening it changes nothing."""

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
        """Create a ledger with a first entry, whole or not at all; an existing file is left alone."""
        self = cls.__new__(cls)
        self.path = self._real = _path(path)
        if not self.path.parent.is_dir():
            raise LedgerError(f"{self.path}: the folder {self.path.parent} does not exist; create it first")
        temporary = name_beside(self.path)
        with self._explained():
            try:
                with _busy, closing(sqlite3.connect(temporary, isolation_level=None)) as connection:
                    connection.execute("PRAGMA synchronous=EXTRA")
                    connection.execute(f"PRAGMA application_id={_APPLICATION_ID}")
                    connection.execute(f"PRAGMA user_version={_FORMAT_VERSION}")
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
        """A connection that sees one state of the file and cannot write."""
        with self._connected() as connection:
            connection.execute("PRAGMA query_only=ON")
            connection.execute("BEGIN")
            self._check_schema(connection)
            yield connection
            connection.execute("ROLLBACK")

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """The only connection that may write; it commits to disk at the end, or leaves the file as it was."""
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
        """The entries after a sequence number, in order; there must be at least one, since a ledger never shrinks."""
        query = f"SELECT {', '.join(_COLUMNS)} FROM entries WHERE sequence > ? ORDER BY sequence"
        rows = connection.execute(query, (after,)).fetchall()
        for row in rows:
            if type(row[0]) is not int or any(type(value) is not str for value in row[1:]):
                raise self.damaged("an entry holds a value of the wrong type")
        last = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'entries'").fetchall()
        if not rows or last != [(rows[-1][0],)]:
            raise self.damaged("entries were removed")
        return [Entry(**dict(zip(_COLUMNS, row, strict=True))) for row in rows]

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        """A connection to a file with a single name, after a needless journal is removed."""
        with self._explained(), _busy:
            self._check_names()
            self._drop_needless_journal()
            with closing(self._connect("mode=rw")) as connection:
                yield connection

    def _drop_needless_journal(self) -> None:
        """Remove the journal of a killed charge if the file verifies without it; otherwise SQLite applies it."""
        journal = self._real.with_name(self._real.name + "-journal")
        if not journal.exists():
            return
        with _sole_access(self._real) as handle:
            if handle is None or not journal.exists():  # another process is charging, or has just finished
                return
            # The connection stays open until the journal is gone: closing it would release the lock.
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
        """Refuse anything but a regular file with a single name: charges under one name could undo others."""
        status = os.stat(self._real)
        if not stat.S_ISREG(status.st_mode):
            raise LedgerError(f"{self.path} is not a regular file; name the ledger's file")
        if status.st_nlink == 1:
            return
        # A process that was killed while it created the file may have left its temporary name: remove that.
        for other in self._real.parent.glob(f".{glob.escape(self._real.name)}.*"):
            if re.fullmatch("[0-9a-f]{16}", other.suffix[1:]) and not Path(f"{other}-journal").exists():
                with suppress(OSError):
                    if other.samefile(self._real):
                        other.unlink()
        if (names := os.stat(self._real).st_nlink) > 1:
            raise LedgerError(
                f"{self.path} has {names} names (hard links): after a crash, a charge under one name could undo "
                "charges under another. Remove all names but one. If a file NAME-journal lies beside one of them, "
                "keep that name"
            )

    def _connect(self, options: str) -> sqlite3.Connection:
        address = f"{self._real.absolute().as_uri()}?{options}"
        connection = sqlite3.connect(address, uri=True, timeout=LOCK_TIMEOUT, isolation_level=None)
        connection.execute("PRAGMA trusted_schema=OFF")
        connection.execute("PRAGMA cell_size_check=ON")
        return connection

    def _check_identity(self, connection: sqlite3.Connection) -> None:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if application != _APPLICATION_ID:
            raise self._no_ledger()
        if version != _FORMAT_VERSION:
            raise LedgerError(
                f"{self.path} has ledger format {version}; this hush reads format {_FORMAT_VERSION}: upgrade hush"
            )

    def _check_schema(self, connection: sqlite3.Connection) -> None:
        self._check_identity(connection)
        tables = connection.execute("SELECT name, sql FROM sqlite_master").fetchall()
        if dict(tables) != _SCHEMA | _AUTOMATIC_TABLES or len(tables) != len(_SCHEMA | _AUTOMATIC_TABLES):
            raise self.damaged("its tables or triggers were changed")

    def damaged(self, how: str) -> LedgerError:
        """The error for a file that is not as hush wrote it; its advice never leads to forgotten charges."""
        return LedgerError(f"{self.path} is damaged or was edited: {how}; {_KEEP_THE_FILE}")

    def _no_ledger(self) -> LedgerError:
        return LedgerError(
            f"{self.path} is not a hush ledger; name another file, or if it used to be one: {_KEEP_THE_FILE}"
        )

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn every error of SQLite or the system into one line that says what to do."""
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
            return LedgerError(f"{self.path} was locked by another process for {LOCK_TIMEOUT:.0f} seconds; try again")
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


@contextmanager
def _sole_access(path: Path) -> Iterator[int | None]:
    """A handle of a file that no connection of any process uses meanwhile; None if some connection uses it, or may.

    POSIX drops all locks of a process on a file when the process closes any handle of it, so this process must have no
    connection to the file.
    """
    first_byte, count = 0x40000000, 512  # what SQLite locks: the pending, the reserved and 510 shared bytes
    try:
        import fcntl
    except ImportError:  # Windows
        yield None
        return
    try:
        handle = os.open(path, os.O_RDWR)
    except PermissionError:
        yield None
        return
    try:
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, count, first_byte)
        except (BlockingIOError, PermissionError):
            yield None
        else:
            yield handle
    finally:
        os.close(handle)


def _path(path: str | os.PathLike[str]) -> Path:
    if "\0" in os.fspath(path):
        raise LedgerError(f"{os.fspath(path)!r} is not a file name; name the ledger's file")
    return Path(path)


def append(connection: sqlite3.Connection, entry: Entry) -> None:
    """Add an entry within an open transaction."""
    marks = ", ".join("?" * len(_COLUMNS))
    connection.execute(f"INSERT INTO entries ({', '.join(_COLUMNS)}) VALUES ({marks})", astuple(entry))
