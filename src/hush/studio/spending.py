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
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import structs

from hush.core.errors import HushError, InterruptedRelease
from hush.loading import load
from hush.mechanisms.release_job import JobStatus, ReleaseJob, finished, partial_file
from hush.privacy.ledger import Ledger
from hush.release.release import Release
from hush.studio.project import EntryState, Project, ProjectFile, ReleaseEntry, digest, process_name

if TYPE_CHECKING:
    from hush.privacy.budget import Budget
    from hush.studio.planned import Planned
    from hush.tables.table import Table

MOST_SHOWN = 16  # plans that wait for confirmation, in all tabs
OpenTable = Callable[[ProjectFile, Any, Callable[[float], None]], "Table"]


class SpendingRefused(HushError):
    """A confirmation that does not belong to what would be charged now."""


class SpendingWork(Protocol):
    """What spends: the job of a release, or of a discovery."""

    @property
    def status(self) -> JobStatus:
        """How far it is."""

    def run(self, reading: Callable[[float], None], on_start: Callable[[], None]) -> str:
        """Read the rows, spend, and keep the result; what to tell the owner at the end."""

    def stop(self) -> None:
        """Stop after the next measurement."""


class ReleaseWork:
    """A release: its rows are read, then its job runs."""

    def __init__(self, job: ReleaseJob, rows: Callable[[Callable[[float], None]], Table]) -> None:
        self._job = job
        self._rows = rows

    @property
    def status(self) -> JobStatus:
        """How far the job is."""
        return self._job.status

    def run(self, reading: Callable[[float], None], on_start: Callable[[], None]) -> str:
        """Read the rows and run the job."""
        table = self._rows(reading)
        reading(1.0)
        self._job.run(table, on_start=on_start)
        return ""

    def stop(self) -> None:
        """Stop after the next measurement."""
        self._job.stop()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSpending:
    """What the owner was shown, with all that decides what is charged and where it is kept."""

    name: str
    output: Path
    budget: Budget
    ledger: Path
    dataset: str
    cap: Budget | None  # of a new ledger, or of people that are new to it
    left: Fraction | None  # in the ledger; None if it does not know these people
    seen: str  # the project without its releases
    work: Callable[[], SpendingWork]
    script: str = ""
    commands: str = ""


def release_spending(planned: Planned, rows: Callable[[Callable[[float], None]], Table], **shown: Any) -> ShownSpending:
    """The release of a plan, to be shown."""

    def work() -> SpendingWork:
        options = {name: shown[name] for name in ("output", "ledger", "dataset", "name")}
        checkpoint = partial_file(shown["output"])
        return ReleaseWork(ReleaseJob(planned.plan, checkpoint=checkpoint, **options), rows)

    return ShownSpending(budget=planned.plan.budget, work=work, **shown)


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
    stopping: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for the events of the progress page."""
        return asdict(self) | {"columns": list(self.columns)}


class Spending:
    """Runs the releases of one project, one at a time."""

    def __init__(self, project: Project, open_table: OpenTable) -> None:
        self._project = project
        self._open_table = open_table
        self._shown: OrderedDict[str, ShownSpending] = OrderedDict()
        self._started: dict[str, str] = {}  # tokens that were used -> the name of their release
        self._lock = threading.Lock()
        self._work: SpendingWork | None = None
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self.running: Running | None = None

    def show(self, shown: ShownSpending) -> str:
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
            books = {book.dataset: book for book in Ledger.open_all(shown.ledger)} if shown.ledger.exists() else {}
            if (books[shown.dataset].remaining if shown.dataset in books else None) != shown.left:
                raise SpendingRefused(
                    "the ledger changed after this was shown; nothing was spent. Look at what would be spent now"
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
                budget=str(shown.budget),
                started=datetime.now(UTC).isoformat(timespec="minutes"),
                process=process_name(os.getpid()),
                script=shown.script,
                commands=shown.commands,
            )
            self._project.put_entry(entry)
            self._start(shown.work(), entry)
        return shown.name

    def resume(self, name: str) -> None:
        """Go on with an interrupted release; its measurements are paid for and kept."""
        self._refuse_second_run()
        state = self._project.read()
        entry = state.entry(name)
        release = self.kept(entry)
        output = self._project.file_of(entry)
        if release is not None and (whole := finished(release)) is not None:
            whole.save(output, overwrite=True)
            partial_file(output).unlink(missing_ok=True)
            release = whole
        if release is None or not (release.bounded or release.complete):
            raise SpendingRefused(f"nothing of {name} was kept that could be continued; plan another release")
        if release.complete:
            self._project.put_entry(structs.replace(entry, state="done", message=""))
            return
        job = ReleaseJob.resumed(release, output=output, ledger=entry.ledger, dataset=entry.dataset, name=entry.name)
        self.go_on(entry, ReleaseWork(job, partial(self._open_table, state, release.schema)))

    def go_on(self, entry: ReleaseEntry, work: SpendingWork) -> None:
        """Start work again that was interrupted."""
        with self._lock:
            self._refuse_second_run()
            if self._project.read().entry(entry.name) != entry:
                raise SpendingRefused(f"{entry.name} went on in another tab; see how far it is")
            entry = structs.replace(entry, state="running", process=process_name(os.getpid()), message="")
            self._project.put_entry(entry)
            self._start(work, entry)

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
        work = self._work
        if work is not None:
            work.stop()

    def close(self, seconds: float = 30.0) -> None:
        """Stop, and wait until what was paid for is kept."""
        self.stop()
        thread = self._thread
        if thread is not None:
            thread.join(seconds)

    def status(self, name: str) -> Running:
        """How far a release is."""
        running, work = self.running, self._work
        if running is None or running.name != name:
            entry = self._project.read().entry(name)
            return Running(name=name, state=entry.state, phase="", message=entry.message)
        if work is None or running.state != "running":
            return running
        running = replace(running, stopping=self._stopping.is_set())
        if running.phase != "measuring":
            return running
        now = work.status
        return replace(running, share=now.spent, rounds=now.rounds, columns=now.clique)

    def _refuse_second_run(self) -> None:
        if self.running is not None and self.running.state == "running":
            raise SpendingRefused(f"the release {self.running.name} is running; wait until it has ended, or stop it")
        busy = next((entry for entry in self._project.read().releases if entry.state == "running"), None)
        if busy is not None and busy.process != process_name(os.getpid()):
            raise SpendingRefused(
                f"another server runs the release {busy.name} of this project; wait until it has ended"
            )

    def _start(self, work: SpendingWork, entry: ReleaseEntry) -> None:
        self._stopping.clear()
        self._work, self.running = work, Running(name=entry.name, state="running")
        self._thread = threading.Thread(target=self._run, args=(work, entry), name="hush release")
        self._thread.start()

    def _run(self, work: SpendingWork, entry: ReleaseEntry) -> None:
        """Run the work; the project says how it ended."""

        def reading(share: float) -> None:
            self.running = replace(running, share=share)
            if self._stopping.is_set():
                raise KeyboardInterrupt

        def started() -> None:
            self.running = replace(running, phase="measuring", share=0.0)

        running = Running(name=entry.name, state="running")
        ended: EntryState = "failed"
        message = ""
        try:
            message = work.run(reading, started)
            ended = "done"
        except InterruptedRelease as stopped:
            ended, message = "interrupted", str(stopped)
        except KeyboardInterrupt:
            ended, message = "interrupted", "it was stopped while the rows were read, which cost nothing"
        except HushError as error:
            message = str(error)
        except Exception as error:  # noqa: BLE001 - an unexpected one may quote cells, so only its type is shown
            message = f"internal error ({type(error).__name__})"
        if ended == "failed" and work.status.kept:
            ended = "interrupted"
        try:
            self._project.put_entry(structs.replace(entry, state=ended, message=message))
        except HushError as error:  # the file of the release, if there is one, is whole all the same
            message = f"{message} The project could not be saved: {error}".strip()
        finally:
            share = 1.0 if ended == "done" else 0.0
            self.running = replace(running, state=ended, phase="", share=share, message=message)
            self._work = None


def project_digest(state: ProjectFile) -> str:
    """A fingerprint of all that decides what a release would be."""
    return digest(state.replaced(releases=[]))


def free_name(state: ProjectFile, stem: str, folder: Path, ending: str = ".hush") -> str:
    """A name for the next release that neither the project nor the folder has yet."""
    taken = {entry.name for entry in state.releases}
    number = 1
    while True:
        name = f"{stem}-{number}{ending}"
        path = folder / name
        if name not in taken and not path.exists() and not partial_file(path).exists():
            return name
        number += 1
