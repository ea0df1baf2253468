"""The data page: choose a file, a folder of Parquet, or a table of a database. Only names and types are read."""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import islice
from pathlib import Path

from starlette.datastructures import FormData
from starlette.responses import HTMLResponse, Response

from hush.core.errors import HushError
from hush.render.markup import Markup, join, tag
from hush.studio.guard import back_to
from hush.studio.layout import button, form, hidden, select, text_field
from hush.studio.owner import DATA_ENDINGS, LEDGER_NAME, OwnerStudio, without_password

MOST_FILES = 100  # of the folder that are listed
IN_PROGRAMS = "with table= (on the command line --table)"  # how a table is named elsewhere
PRIVATE_UNTIL_RELEASED = (
    "hush reads the names and the declared types of the columns, and no row. Rows are first read when you confirm a "
    "release."
)


def show_data(studio: OwnerStudio, message: str | None = None, typed: tuple[str, str] | None = None) -> str:
    """The page; `typed` are a location and a table that were refused."""
    chosen = studio.chosen
    location, table = ("", "") if chosen is None else (chosen.location, chosen.table)
    location, table = typed or (location, table)
    files = data_files(studio)
    picked = next((name for name in files if location in (name, str(studio.folder.absolute() / name))), "")
    path_shown = "" if picked else location
    listed = [("", "choose a file"), *((name, name) for name in files)]
    picker: Markup | None = None
    if files:
        picker = tag(
            "div",
            tag(
                "label", f"A file, or a folder of Parquet files, in {studio.folder.name or studio.folder}", for_="file"
            ),
            select("file", listed, picked, id="file"),
            class_="field",
        )
    database = tag(
        "details",
        tag("summary", "For a database or a spreadsheet"),
        text_field(
            "table", "Table or sheet", table, hint="For a database file, an address or a spreadsheet with sheets."
        ),
        text_field(
            "password",
            "Password",
            "",
            kind="password",
            hint="The password of the address. It stays in memory until the server ends, and hush writes it nowhere.",
            autocomplete="off",
        ),
        class_="more",
        open="open" if table or "://" in location or typed else None,
    )
    path = text_field(
        "location",
        "Or the path of a file or folder, or the address of a database",
        path_shown,
        hint="CSV, Parquet (also a folder of Parquet files), Excel, DuckDB, SQLite, or postgresql://user@host/database.",
        autocomplete="off",
        spellcheck="false",
    )
    body = form(
        "/data",
        hidden("shown", path_shown),
        tag("p", PRIVATE_UNTIL_RELEASED),
        picker,
        path,
        database,
        button("Continue"),
    )
    note = None
    if chosen is not None:
        note = tag("p", "Your work is kept in ", tag("code", str(studio.project.path)), ".", class_="soft")
    return studio.page(
        join(body, note),
        title="Choose the data",
        current="/data",
        message=message,
    )


def save_data(studio: OwnerStudio, fields: FormData) -> Response:
    """Take the data; what was typed stays on the page if it is refused, but for a password."""
    typed, picked = str(fields.get("location", "")).strip(), str(fields.get("file", "")).strip()
    table = str(fields.get("table", "")).strip()
    location = picked if picked and typed in ("", fields.get("shown")) else typed
    try:
        studio.choose(location, table, str(fields.get("password", "")))
    except HushError as error:
        kept, _ = without_password(location)
        words = str(error).replace(IN_PROGRAMS, 'under "Table or sheet"')
        return HTMLResponse(show_data(studio, words, (kept, table)), status_code=400)
    return back_to("/columns")


def data_files(studio: OwnerStudio) -> list[str]:
    """The names of files in the folder that may hold a table, and of folders of Parquet; the ledger holds none."""
    try:
        paths = sorted(studio.folder.iterdir())
        names = [path.name for path in paths if path.name.lower().endswith(DATA_ENDINGS) or holds_parquet(path)]
    except OSError:
        return []
    return [name for name in names if name != LEDGER_NAME][:MOST_FILES]


def holds_parquet(path: Path) -> bool:
    """Whether a folder has a file of Parquet among its first entries."""
    if not path.is_dir() or path.name.startswith("."):
        return False
    with suppress(OSError), os.scandir(path) as entries:
        return any(entry.name.endswith(".parquet") for entry in islice(entries, MOST_FILES))
    return False
