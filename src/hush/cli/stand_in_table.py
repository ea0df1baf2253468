"""Stand-in tables: public or invented rows to try a mechanism on, and the refusal of files that seem to be private."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hush
from hush.core.errors import HushError, SearchError, printable
from hush.render.progress_bar import progress_bar

if TYPE_CHECKING:
    from hush.tables.table import Table

INVENTED_SEED = 11  # of rows that commands invent
LONGEST_LINK_CHAIN = 40  # as in Linux
SQLITE_MAGIC = b"SQLite format 3\x00"


def read_stand_in(
    path: Path | None, schema: hush.Schema, rows: int, *, private: bool = False, otherwise: str = ""
) -> Table:
    """A public table to try a mechanism on: that of a file, or so many rows invented from the schema.

    Privacy: a file beside a ledger is taken for private and refused, unless `private` says that the owner knows.
    """
    if path is None:
        return hush.read(hush.datasets.invented(schema, rows, seed=INVENTED_SEED), schema)
    if not private:
        check_not_protected(path, otherwise=otherwise)
    with progress_bar("reading the stand-in") as progress:
        return hush.read(str(path), schema, progress=progress)


def check_not_protected(path: str | Path, *, otherwise: str = "") -> None:
    """Refuse files whose rows seem to be private: a ledger is in the folder of one of their names.

    The names are those of the path, of the files that it matches or holds, and of the targets of links. The other names
    of a file with hard links cannot be found, so such a file is refused too. `otherwise` says what else can be done.
    """
    from hush.tables.formats.file_sources import STANDARD_INPUT_PATH, files_of

    if str(path) == STANDARD_INPUT_PATH:
        return
    files = files_of(path)
    names = [name for file in (Path(path).expanduser(), *files) for name in _names(file.absolute())]
    folders = dict.fromkeys(folder for name in names for folder in (name, name.parent))
    ledger = next((file for folder in folders for file in _ledgers(folder)), None)
    linked = next((file for file in files if file.stat().st_nlink > 1), None)
    if ledger is not None:
        reason = f"the ledger {printable(ledger.name)} is in the folder of {printable(str(path))}"
    elif linked is not None:
        reason = f"{printable(str(linked))} has other names (hard links), which may be in the folder of a ledger"
        otherwise = f", such as a copy of this one if its rows are public{otherwise}"
    else:
        return
    raise SearchError(
        f"{reason}, so its rows seem to be private, and figures made from them are not protected; give a public or "
        f"invented table{otherwise}"
    )


def _names(path: Path) -> Iterator[Path]:
    """A path and, if it is a link, every further path on the way to its target."""
    for _ in range(LONGEST_LINK_CHAIN):
        yield path
        if not path.is_symlink():
            break
        path = path.parent / os.readlink(path)


def _ledgers(folder: Path) -> Iterator[Path]:
    """The ledgers in a folder."""
    for file in sorted(folder.iterdir()) if folder.is_dir() else ():
        try:
            with file.open("rb") as opened:
                begins = opened.read(len(SQLITE_MAGIC))
            if begins == SQLITE_MAGIC and hush.Ledger.open_all(file):
                yield file
        except (OSError, HushError):
            continue
