"""Files beside others: a new file that is renamed once it is whole, so that no half of one is ever seen."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


def new_beside(target: Path) -> tuple[int, Path]:
    """A handle and the name of an empty file in the folder of `target`.

    Its mode is what the umask leaves, as that of any file: temporary files of the standard library are their owner's
    alone, and stay so when they are renamed.
    """
    name = target.absolute().parent / f".{target.name}.{secrets.token_hex(4)}"
    return os.open(name, _FLAGS, 0o666), name
