"""Spending: the plan that was shown is the plan that is charged, once; the release that runs, stops and goes on.

A page that asks for confirmation shows a plan and a token. The token stands for that very plan, its table, its ledger
and its file, which are held here and not in the form. The first POST with it starts the release; a second one, from a
double click or another tab, finds the release that was started. Nothing that came in between can change what is
charged: if the project changed, the token is refused.

The name of a release is written into the project file before its job starts, so after a crash the owner sees what was
running. What was paid for is in the partial file and in the ledger, and `ReleaseJob` reads both before it spends more.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from hush.core.errors import HushError, InterruptedRelease
from hush.loading import load
from hush.mechanisms.release_job import JobStatus, ReleaseJob, partial_file
from hush.privacy.ledger import Ledger
from hush.release.release import Release
from hush.studio.project import EntryState, Project, ProjectFile, ReleaseEntry, digest

if TYPE_CHECKING:
    from hush.privacy.budget import Budget
    from hush.studio.planned import Planned
    from hush.tables.table import Table

MOST_SHOWN = 16  # plans that wait for confirmation, in all tabs
OpenTable = Callable[[ProjectFile, Any, Callable[[float], None]], "Table"]


class SpendingRefused(HushError):
    """A confirmation that does not belong to what would be charged now."""


@dataclass(frozen=True, slots=True)
class ShownPlan:
    """A plan as the owner was shown it, with all that decides what is charged and where it is kept."""

    planned: Planned
    name: str
    output: Path
    ledger: Path
    dataset: str
    cap: Budget | None  # of a new ledger, or of people that are new to it
    seen: str  # the project without its releases
    script: str
    commands: str


@dataclass(frozen=True, slots=True)
class Running:
    """How far a release is; public facts only."""

    name: str
    state: EntryState
    phase: str = "reading the rows"
    share: float = 0.0
    rounds: int = 0
    columns: tuple[str, ...] = ()
    message: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for the events of the progress page."""
        return asdict(self) | {"columns": list(self.columns)}


class Spending:
    """Runs the releases of one project, one at a time."""

    def __init__(self, project: Project, open_table: OpenTable) -> None:
        self._project = project
        self._open_table = open_table
        self._shown: OrderedDict[str, ShownPlan] = OrderedDict()
        self._started: dict[str, str] = {}  # tokens that were used -> the name of their release
        self._lock = threading.Lock()
        self._job: ReleaseJob | None = None
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self.running: Running | None = None

    def show(self, shown: ShownPlan) -> str:
        """Keep a plan until it is confirmed; the token stands for it."""
        token = secrets.token_urlsafe(24)
        with self._lock:
            self._shown[token] = shown
            while len(self._shown) > MOST_SHOWN:
                self._shown.popitem(last=False)
        return token

    def confirm(self, token: str) -> str:
        """Start the release of the plan that the token stands for; the name of the release.

        A token that was used leads to the release that it started.
        """
        with self._lock:
            if token in self._started:
                return self._started[token]
            shown = self._shown.get(token)
            if shown is None:
                raise SpendingRefused(
                    "this confirmation is too old, or from before the server was started; nothing was spent. Look at "
                    "what would be spent, and confirm again"
                )
            state = self._project.read()
            if project_digest(state) != shown.seen:
                raise SpendingRefused(
                    "the project changed after this was shown, in another tab; nothing was spent. Look at what would "
                    "be spent now"
                )
            self._refuse_second_run()
            if shown.name in {entry.name for entry in state.releases} or shown.output.exists():
                raise SpendingRefused(
                    f"another release was called {shown.name} in the meantime; nothing was spent. Look at what would "
                    "be spent now"
                )
            if shown.cap is not None:
                Ledger.create(shown.ledger, shown.cap, dataset=shown.dataset)
            del self._shown[token]
            self._started[token] = shown.name
            entry = ReleaseEntry(
                name=shown.name,
                state="running",
                ledger=str(shown.ledger),
                dataset=shown.dataset,
                budget=str(shown.planned.plan.budget),
                started=datetime.now(UTC).isoformat(timespec="minutes"),
                process=os.getpid(),
                script=shown.script,
                commands=shown.commands,
            )
            self._project.put_entry(entry)
            job = ReleaseJob(
                shown.planned.plan, output=shown.output, ledger=shown.ledger, dataset=shown.dataset, name=shown.name
            )
            self._start(job, entry, shown.planned.schema, state)
        return shown.name

    def resume(self, name: str) -> None:
        """Go on with an interrupted release; its measurements are paid for and kept."""
        with self._lock:
            self._refuse_second_run()
            state = self._project.read()
            entry = state.entry(name)
            release = self.kept(entry)
            if release is None or not release.bounded:
                raise SpendingRefused(f"nothing of {name} was kept that could be continued; plan another release")
            if release.complete:
                self._project.put_entry(structs.replace(entry, state="done", message=""))
                return
            entry = structs.replace(entry, state="running", process=os.getpid(), message="")
            self._project.put_entry(entry)
            job = ReleaseJob.resumed(
                release,
                output=self._project.file_of(entry),
                ledger=entry.ledger,
                dataset=entry.dataset,
                name=entry.name,
            )
            self._start(job, entry, release.schema, state)

    def kept(self, entry: ReleaseEntry) -> Release | None:
        """What was measured for a release that did not end: its file, or its partial file."""
        output = self._project.file_of(entry)
        for path in (output, partial_file(output)):
            if path.exists():
                loaded = load(path)
                if isinstance(loaded, Release):
                    return loaded
        return None

    def stop(self) -> None:
        """Ask the running release to stop after its next measurement."""
        self._stopping.set()
        job = self._job
        if job is not None:
            job.stop()

    def close(self, seconds: float = 30.0) -> None:
        """Stop, and wait until what was paid for is kept."""
        self.stop()
        thread = self._thread
        if thread is not None:
            thread.join(seconds)

    def status(self, name: str) -> Running:
        """How far a release is."""
        running, job = self.running, self._job
        if running is None or running.name != name:
            entry = self._project.read().entry(name)
            return Running(name=name, state=entry.state, phase="", message=entry.message)
        if job is None or running.state != "running" or running.phase != "measuring":
            return running
        now: JobStatus = job.status
        return replace(running, share=now.spent, rounds=now.rounds, columns=now.clique)

    def _refuse_second_run(self) -> None:
        if self.running is not None and self.running.state == "running":
            raise SpendingRefused(f"the release {self.running.name} is running; wait until it has ended, or stop it")
        busy = next((entry for entry in self._project.read().releases if entry.state == "running"), None)
        if busy is not None and busy.process != os.getpid():
            raise SpendingRefused(
                f"another server runs the release {busy.name} of this project; wait until it has ended"
            )

    def _start(self, job: ReleaseJob, entry: ReleaseEntry, schema: Any, state: ProjectFile) -> None:
        self._stopping.clear()
        self._job, self.running = job, Running(name=entry.name, state="running")
        self._thread = threading.Thread(target=self._run, args=(job, entry, schema, state), name="hush release")
        self._thread.start()

    def _run(self, job: ReleaseJob, entry: ReleaseEntry, schema: Any, state: ProjectFile) -> None:
        """Read the table and run the job; the project says how it ended."""

        def read(share: float) -> None:
            self.running = replace(running, share=share)
            if self._stopping.is_set():
                raise KeyboardInterrupt

        def started() -> None:
            self.running = replace(running, phase="measuring", share=0.0)

        running = Running(name=entry.name, state="running")
        ended: EntryState = "failed"
        message = ""
        try:
            table = self._open_table(state, schema, read)
            if self._stopping.is_set():
                raise KeyboardInterrupt
            job.run(table, on_start=started)
            ended = "done"
        except InterruptedRelease as stopped:
            ended, message = "interrupted", str(stopped)
        except KeyboardInterrupt:
            ended, message = "interrupted", "It was stopped while the rows were read; that cost nothing."
        except HushError as error:
            message = str(error)
        except Exception as error:  # noqa: BLE001 - an unexpected one may quote cells, so only its type is shown
            message = f"internal error ({type(error).__name__})"
        if ended == "failed" and job.status.kept:
            ended = "interrupted"
        try:
            self._project.put_entry(structs.replace(entry, state=ended, message=message))
        except HushError as error:  # the file of the release, if there is one, is whole all the same
            message = f"{message} The project could not be saved: {error}".strip()
        finally:
            share = 1.0 if ended == "done" else 0.0
            self.running = replace(running, state=ended, phase="", share=share, message=message)
            self._job = None


def project_digest(state: ProjectFile) -> str:
    """A fingerprint of all that decides what a release would be."""
    return digest(state.replaced(releases=[]))


def free_name(state: ProjectFile, stem: str, folder: Path) -> str:
    """A name for the next release that neither the project nor the folder has yet."""
    taken = {entry.name for entry in state.releases}
    number = 1
    while True:
        name = f"{stem}-{number}.hush"
        path = folder / name
        if name not in taken and not path.exists() and not partial_file(path).exists():
            return name
        number += 1
