"""Output files: whether they may be written is found out before any work, and some are never replaced."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from hush.errors import HushError

_SQLITE = b"SQLite format 3\x00"


def check_output(output: Path, *, force: bool, inputs: Iterable[str | Path | None] = ()) -> None:
    """Refuse an output that cannot be written, exists already, or must not be replaced.

    A file that the command reads, and any SQLite file (a ledger among them), is refused even with `force`, and so is
    whatever is no regular file.
    """
    folder = output.absolute().parent
    if not folder.is_dir():
        raise HushError(f"{folder} is no folder; make it first")
    if not os.access(folder, os.W_OK):
        raise HushError(f"{folder} cannot be written to; choose another folder")
    if not os.path.lexists(output):
        return
    if not output.is_file():
        raise HushError(f"{output} is no regular file and is not replaced; choose another name")
    for other in inputs:
        if other is not None and Path(other).exists() and output.samefile(other):
            raise HushError(f"{output} is read by this command and is not overwritten; choose another name")
    if _begins_with(output, _SQLITE):
        raise HushError(f"{output} is a ledger or another database and is not overwritten; choose another name")
    if not force:
        raise HushError(f"{output} exists already; choose another name or add --force")


def _begins_with(path: Path, mark: bytes) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(mark)) == mark
    except OSError as error:
        raise HushError(f"cannot look at {path}: {error.strerror}; choose another name") from None
