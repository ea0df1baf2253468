"""The rollback journal beside a ledger: found out as stale before SQLite applies it.

SQLite names the journal of a file by the file's path, and applies whichever journal it finds there. A journal that a
killed charge left under one name undoes later charges that were made under another: another link, another mount, or
before the file was moved. The journal holds the file's first page as it was, with SQLite's count of changes C. A file
that needs the journal still counts C, or C + 1 if the killed charge got that far; any other count is later.

Reference: [SQLite file format, sections 1.3.7 and 3].
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import BinaryIO

_MAGIC = bytes.fromhex("d9d505f920a163d7")
_HEADER = struct.Struct(">8sIIIII")  # magic, pages kept, nonce, pages of the file, sector size, page size
_UNTIL_THE_END = 0xFFFFFFFF
_CHANGES = slice(24, 28)  # in the first page


def has_stale_journal(path: Path) -> bool:
    """Whether the journal beside a file is older than the file, so that applying it would undo later changes.

    Takes no lock: a journal that is there unchanged before and after the file is read was there all along.
    """
    journal = path.with_name(path.name + "-journal")
    try:
        with journal.open("rb") as kept, path.open("rb") as file:
            head = kept.read(_HEADER.size)
            changes, size = file.read(100)[_CHANGES], os.fstat(file.fileno()).st_size
            stale = _is_stale(head, kept, changes, size)
            with journal.open("rb") as again:
                return stale and again.read(_HEADER.size) == head
    except FileNotFoundError:
        return False


def _is_stale(head: bytes, journal: BinaryIO, changes: bytes, size: int) -> bool:
    if len(head) < _HEADER.size or len(changes) < 4:
        return False
    magic, count, _, pages, sector, page = _HEADER.unpack(head)
    if magic != _MAGIC or not 512 <= page <= 65536 or not 32 <= sector <= 65536:
        return False  # SQLite does not apply it
    if count == 0:  # it was not flushed, so nothing was written to the file
        return size > int(pages) * int(page)
    before = _first_page(journal, count, sector, page)
    if before is None:
        return False
    later = int.from_bytes(changes) - int.from_bytes(before[_CHANGES])
    return later % 2**32 not in (0, 1)


def _first_page(journal: BinaryIO, count: int, sector: int, page: int) -> bytes | None:
    """The first page of the file as the journal keeps it."""
    start = sector
    while True:
        kept = 0
        while kept < count or count == _UNTIL_THE_END:
            journal.seek(start)
            record = journal.read(4 + page + 4)
            if len(record) < 4 + page + 4:
                return None
            if record[:4] == b"\0\0\0\1":
                return record[4:-4]
            start, kept = start + len(record), kept + 1
        start = -(-start // sector) * sector  # the next header, where a long journal has several
        journal.seek(start)
        head = journal.read(_HEADER.size)
        if len(head) < _HEADER.size or not head.startswith(_MAGIC):
            return None
        count, start = _HEADER.unpack(head)[1], start + sector
