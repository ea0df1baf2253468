"""The rollback journal beside a ledger: used for a file that is torn, never for one that is whole.

SQLite names the journal of a file by the file's path, and applies whichever journal it finds there. A journal that a
killed charge left under one name so undoes later charges that were made under another: another link, another mount, or
before the file was moved. A ledger that verifies without its journal does not need it. Rolling it back could only
forget charges, so the journal goes; at worst a charge stays that was killed before it returned.

Reference: [SQLite, File Locking and Concurrency, sections 4 and 5.1].
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_FIRST_BYTE, _BYTES = 0x40000000, 512  # what SQLite locks: pending, reserved, and 510 shared bytes


def journal_of(path: Path) -> Path:
    """Where SQLite keeps the journal of a file."""
    return path.with_name(path.name + "-journal")


@contextmanager
def sole_access(path: Path) -> Iterator[int | None]:
    """A handle of a file that no connection of any process reads or writes meanwhile; None if some do, or may.

    POSIX drops all locks of a process on a file once it closes any handle of the file, so this process must have no
    connection to it.
    """
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
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, _BYTES, _FIRST_BYTE)
        except (BlockingIOError, PermissionError):
            yield None
        else:
            yield handle
    finally:
        os.close(handle)
