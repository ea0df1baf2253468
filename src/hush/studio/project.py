"""Project: what the owner has said so far, and what was released, in a file beside the data.

Forms are kept as they were typed, so that nothing is lost while something is still wrong. The file holds no secret and
no private value: a password in the address of a database stays in the memory of the server.

Every change reads the file, changes it and writes it whole, so closing the browser, killing the server or a second
server for the same project loses nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from msgspec import field
from msgspec.structs import replace

from hush.core.errors import ArchiveError, HushError
from hush.files.atomic_write import write_whole
from hush.files.codec import Stored, pack, unpack

PROJECT_VERSION = 1
PROJECT_ENDING = ".studio"
KEPT_ENDINGS = (".hush", ".toml")  # of releases, and of schemas that were discovered
LARGEST_PROJECT = 2**26  # bytes; a thousand columns with a thousand levels each
EntryState = Literal["running", "interrupted", "failed", "done"]


class StaleForm(HushError):
    """A form that was opened before the same part of the project changed, in another tab or window."""


class PeopleError(HushError):
    """Something on the page of people that cannot be so."""


class ChosenData(Stored):
    """Where the rows are; an address has no password in it, but says here whether one was typed."""

    location: str
    table: str = ""
    password: bool = False


class ColumnDraft(Stored):
    """A column as it was typed: its kind, the texts of its fields, and further entries as lines of TOML.

    `discover` marks a column whose bounds or levels nobody knows, to be found with a part of the budget.
    """

    name: str
    kind: str
    texts: dict[str, str] = field(default_factory=dict)
    used: bool = True
    discover: bool = False
    missing: bool = False
    clamp: bool = False
    other: bool = False
    more: str = ""
    note: str = ""


class ProtectedPeople(Stored):
    """Who is protected, and roughly how many rows there are, as typed."""

    unit: str = ""
    max_rows: str = "1"
    rows: str = ""
    reviewed: bool = False


class AskedQuestions(Stored):
    """What matters: tables or synthetic rows; all tables up to an order, further ones, averages, a workload.

    `label` is the column that will be predicted from synthetic rows.
    """

    goal: Literal["answers", "rows"] = "answers"
    label: str = ""
    order: str = "2"
    tables: list[list[str]] = field(default_factory=list)
    averages: list[list[str]] = field(default_factory=list)  # a column, then those by which it is averaged
    more: str = ""
    reviewed: bool = False


class TypedBudget(Stored):
    """The budget as typed, by epsilon or by accuracy, and the ledger that is charged."""

    way: Literal["accuracy", "epsilon"] = "accuracy"
    epsilon: str = "1"
    delta: str = "1e-9"
    accuracy: str = "45"
    cap: str = ""
    ledger: str = ""
    dataset: str = "default"
    reviewed: bool = False


class ReleaseEntry(Stored):
    """A release that was started: its name, which is that of its file, its state, its ledger, and how it was made."""

    name: str
    state: EntryState
    ledger: str
    dataset: str
    budget: str
    started: str
    process: str  # that runs it, as `process_name` names it
    script: str = ""
    commands: str = ""
    message: str = ""


class ProjectFile(Stored):
    """Everything in the file of a project."""

    version: int = PROJECT_VERSION
    data: ChosenData | None = None
    columns: list[ColumnDraft] = field(default_factory=list)
    rules: str = ""
    people: ProtectedPeople = field(default_factory=ProtectedPeople)
    questions: AskedQuestions = field(default_factory=AskedQuestions)
    budget: TypedBudget = field(default_factory=TypedBudget)
    releases: list[ReleaseEntry] = field(default_factory=list)

    def replaced(self, **parts: Any) -> ProjectFile:
        """The project with some parts changed."""
        return replace(self, **parts)

    def entry(self, name: str) -> ReleaseEntry:
        """The release of a name."""
        for known in self.releases:
            if known.name == name:
                return known
        raise HushError(f"there is no release {name!r} in this project; the page of releases lists them")


class Project:
    """The file of a project, shared by all tabs and by everything that runs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._changing = threading.RLock()

    @classmethod
    def beside(cls, location: str, table: str, folder: Path) -> Project:
        """The project of some data: beside a file, or in a folder for a database; each table has its own."""
        kept = f".{file_words(table)}{PROJECT_ENDING}" if table else PROJECT_ENDING
        if "://" not in location:
            path = Path(location)
            return cls(path.with_name(path.name + kept))
        return cls(folder / (file_words(location.rpartition("@")[2]) + kept))

    def read(self) -> ProjectFile:
        """The project as it is now; a new one if there is no file yet."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return ProjectFile()
        except OSError as error:
            raise HushError(f"{self.path} cannot be read: {error.strerror}; check its permissions") from None
        if len(content) > LARGEST_PROJECT:
            raise HushError(f"{self.path} is too large to be a project; choose another file with --project")
        try:
            body = json.loads(content)
            version = body.get("version") if isinstance(body, dict) else None
            if isinstance(version, int) and version > PROJECT_VERSION:
                raise HushError(f"{self.path} was written by a newer hush; install that version")
            project: ProjectFile = unpack(ProjectFile, body, None, "project")
        except (ValueError, RecursionError, ArchiveError):
            raise HushError(f"{self.path} is no project of hush studio; choose another file with --project") from None
        return project

    def change(self, **parts: Any) -> ProjectFile:
        """Replace some parts and keep the others."""
        with self.changing() as state:
            return self.write(state.replaced(**parts))

    @contextmanager
    def changing(self) -> Iterator[ProjectFile]:
        """The project as it is now, for a change that no other thread may come in between."""
        with self._changing:
            yield self.read()

    def write(self, state: ProjectFile) -> ProjectFile:
        """Write the whole project."""
        manifest, _ = pack(state)
        write_whole(self.path, json.dumps(manifest, indent=1, ensure_ascii=False).encode("utf-8", "backslashreplace"))
        return state

    def replace_checked(self, seen: str, name: str, part: Any) -> ProjectFile:
        """Replace a part that a form showed as `seen`; StaleForm if it has changed since."""
        with self.changing() as state:
            if digest(getattr(state, name)) != seen:
                raise StaleForm(
                    f"the {name} were changed in another tab or window after this form was opened, so the form was "
                    "not saved; below is what is saved now"
                )
            return self.write(state.replaced(**{name: part}))

    def file_of(self, entry: ReleaseEntry) -> Path:
        """The file of a release: beside the project, whatever the project says."""
        if Path(entry.name).name != entry.name or not entry.name.endswith(KEPT_ENDINGS):
            raise HushError(f"{self.path} names a release {entry.name!r}, which is no name of a release")
        return self.path.absolute().parent / entry.name

    def put_entry(self, entry: ReleaseEntry) -> None:
        """Add a release, or replace the one of the same name."""
        with self.changing() as state:
            others = [known for known in state.releases if known.name != entry.name]
            self.write(state.replaced(releases=[*others, entry]))

    def end_lost_runs(self) -> None:
        """Mark releases as interrupted whose process is gone."""
        with self.changing() as state:
            lost = [entry for entry in state.releases if entry.state == "running" and not _alive(entry.process)]
            for entry in lost:
                self.put_entry(replace(entry, state="interrupted", message="the server was stopped"))


def digest(part: Any) -> str:
    """A short fingerprint of a part of a project."""
    return hashlib.sha256(json.dumps(pack(part)[0], sort_keys=True).encode("utf-8", "backslashreplace")).hexdigest()[
        :32
    ]


def file_words(text: str) -> str:
    """A text as a part of a file's name.

    >>> file_words("db.example:5432/clinic"), file_words("public.people")
    ('db-example-5432-clinic', 'public-people')
    """
    return "".join(mark if mark.isalnum() else "-" for mark in text).strip("-")[-60:]


def process_name(number: int) -> str:
    """A process by its number and, on Linux, the time of its start, since numbers are used again."""
    try:
        started = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        started = ""
    return f"{number} {started}".strip()


def _alive(process: str) -> bool:
    """Whether another process of this name runs; this server's own runs are ended by their threads."""
    number = process.split(" ")[0]
    if not number.isdigit() or int(number) == os.getpid():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return process_name(int(number)) == process
