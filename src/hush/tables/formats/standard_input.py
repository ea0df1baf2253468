"""Standard input as a file: a pipe can be read once, while drafting, checking and comparing read several times."""

from __future__ import annotations

import atexit
import os
import sys
import tempfile
from pathlib import Path
from typing import IO

from hush.core.errors import DataError, SizeError
from hush.core.memory import memory_limit, readable

DASH = "-"  # the path that means standard input
NAME = "standard input"
_CHUNK = 2**20
_kept: list[tuple[object, Path]] = []  # each pipe, and where its content is


def standard_input() -> Path:
    """A file with all that came through standard input, which is read the first time.

    Privacy: where the system can, the file lies in memory alone; elsewhere it is a temporary one, for this user only,
    removed when the program ends.
    """
    pipe = getattr(sys.stdin, "buffer", None)
    if pipe is None or pipe.closed or sys.stdin.isatty():
        raise DataError(f"nothing comes through {NAME}; pipe a CSV or Parquet file into it, or give its path instead")
    for known, path in _kept:
        if known is pipe:
            return path
    file, path = _unnamed()
    room = memory_limit(None) // 2
    while chunk := pipe.read(_CHUNK):
        room -= len(chunk)
        if room < 0:
            file.close()
            raise SizeError(
                f"{NAME} holds more than {readable(memory_limit(None) // 2)}; give the path of a file instead"
            )
        file.write(chunk)
    file.flush()
    _kept.append((pipe, path))
    atexit.register(file.close)
    return path


def _unnamed() -> tuple[IO[bytes], Path]:
    """A file to write and the path to read it from."""
    if hasattr(os, "memfd_create"):
        number = os.memfd_create("hush")
        return os.fdopen(number, "wb"), Path(f"/proc/self/fd/{number}")
    named = tempfile.NamedTemporaryFile(prefix="hush-")  # noqa: SIM115
    return named, Path(named.name)
