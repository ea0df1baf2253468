"""Atomic write: a file that appears whole under its name, or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from hush.errors import HushError

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


def name_beside(target: Path) -> Path:
    """A new hidden name in the folder of `target`."""
    return target.absolute().parent / f".{target.name}.{secrets.token_hex(8)}"


@contextmanager
def atomic_write(target: Path, error: type[HushError] = HushError) -> Iterator[BinaryIO]:
    """A file to write to, renamed to `target` at the end; after a failure the old file is still there.

    Its mode is what the umask leaves, as for any file: temporary files of the standard library are private to their
    owner, and stay so when they are renamed.
    """
    temporary = name_beside(target)
    try:
        handle = os.open(temporary, _FLAGS, 0o666)
    except OSError as failure:
        raise error(f"cannot write {target}: {failure.strerror}; choose another place") from None
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        os.replace(temporary, target)
    except OSError as failure:
        reason = failure.strerror or "the disk refused it"
        raise error(f"cannot write {target}: {reason}; free some space or choose another place") from None
    finally:
        temporary.unlink(missing_ok=True)
