"""Atomic write: every file that hush writes appears whole under its name, or not at all.

The steps: write a new hidden file in the same folder, flush it to disk, rename it, flush the folder. A crash or a power
cut at any step leaves the old file or the new file, whole; at worst a hidden file remains. Once the call returns, the
new file is on disk.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from hush.core.errors import HushError

_NEW_FILE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
_NO_FOLDER_SYNC = {errno.EACCES, errno.EPERM, errno.EINVAL, errno.ENOTSUP}  # from systems that cannot flush folders


def name_beside(target: Path) -> Path:
    """A new hidden name in the folder of `target`."""
    return target.absolute().parent / f".{target.name}.{secrets.token_hex(8)}"


def check_new(target: str | Path, *, overwrite: bool) -> None:
    """Refuse a name that is taken, unless the file may be overwritten."""
    if not overwrite and os.path.lexists(target):
        raise HushError(f"{target} exists already; choose another name, or replace it with overwrite=True")


def write_whole(target: str | Path, content: bytes, error: type[HushError] = HushError) -> None:
    """Write a whole file; if that fails, raise `error` and keep the old file."""
    with atomic_write(Path(target), error) as file:
        file.write(content)


def check_writable(target: Path, error: type[HushError] = HushError) -> None:
    """Refuse a place where no file can be written, before anything is paid for that it should keep; tries it out."""
    _, _, temporary, handle = _new_file(target, error)
    os.close(handle)
    with suppress(OSError):
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_write(target: Path, error: type[HushError] = HushError) -> Iterator[BinaryIO]:
    """A file to write to, renamed to `target` at the end; after a failure the old file is still there.

    A new file has the mode of the umask; a file that replaces another keeps its mode. If `target` is a symbolic link,
    the file that it points to is replaced.
    """
    place, mode, temporary, handle = _new_file(target, error)
    try:
        with os.fdopen(handle, "wb") as file:
            if mode is not None:
                os.chmod(temporary, stat.S_IMODE(mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, place)
        sync_folder(place.parent)
    except OSError as failure:
        raise error(f"cannot write {target}: {_reason(failure)}; free some space or choose another place") from None
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _new_file(target: Path, error: type[HushError]) -> tuple[Path, int | None, Path, int]:
    """Where a file will be, the mode of the one there, and a new hidden file beside it with its open handle."""
    try:
        place = Path(os.path.realpath(target))
        mode = None
        with suppress(FileNotFoundError):
            mode = os.stat(place).st_mode
        if mode is not None and not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is not a regular file and is not replaced")
        temporary = name_beside(place)
        return place, mode, temporary, os.open(temporary, _NEW_FILE_FLAGS, 0o666)
    except (OSError, ValueError) as failure:  # ValueError: a null byte in the path
        raise error(f"cannot write {target}: {_reason(failure)}; choose another place") from None


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power cut, if the system can."""
    try:
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as failure:
        if failure.errno not in _NO_FOLDER_SYNC:
            raise


def _reason(failure: OSError | ValueError) -> str:
    return getattr(failure, "strerror", None) or str(failure) or "the disk refused it"
