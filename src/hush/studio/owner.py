"""The owner's studio: one project, its data, its plans and its releases, as pages and actions use them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from hush.core.errors import DataError, HushError, LedgerError
from hush.privacy.ledger import Ledger
from hush.release.release import Release
from hush.render.markup import Markup
from hush.schema import Schema
from hush.studio.column_draft import first_draft, state_of
from hush.studio.layout import owner_page
from hush.studio.planned import Planner
from hush.studio.project import PROJECT_ENDING, ChosenData, Project, ProjectFile, ReleaseEntry, file_words
from hush.studio.spending import Spending
from hush.tables.drafting import guessed_columns
from hush.tables.read import read

if TYPE_CHECKING:
    from hush.tables.table import Table

SECRET_OPTIONS = ("password", "sslpassword", "passfile")  # of an address of PostgreSQL
DATA_ENDINGS = (".csv", ".tsv", ".txt", ".csv.gz", ".parquet", ".xlsx", ".duckdb", ".db", ".sqlite")
LEDGER_NAME = "budget.db"  # beside the project
MOST_RELEASES_KEPT = 3  # in memory


class NoData(HushError):
    """No data was chosen yet, so there is no project."""


class OwnerStudio:
    """What the owner's page works with: a folder, and the project of the data that was chosen.

    `project_path` is that of the project, by default beside the data; `ledger` is the ledger that new projects charge.
    """

    def __init__(self, folder: Path, *, project_path: Path | None = None, ledger: Path | None = None) -> None:
        self.folder = folder
        self.planner = Planner()
        self._project_path = project_path
        self._ledger = ledger
        self._project: Project | None = None
        self._spending: Spending | None = None
        self._passwords: dict[str, str] = {}  # by address; in memory only
        self._loaded: dict[str, tuple[float, Release]] = {}
        if project_path is not None and project_path.exists():
            self._use(Project(project_path))

    @property
    def project(self) -> Project:
        """The project of the data that was chosen."""
        if self._project is None:
            raise NoData("choose data first")
        return self._project

    @property
    def spending(self) -> Spending:
        """What spends the budget of the project."""
        if self._spending is None:
            raise NoData("choose data first")
        return self._spending

    @property
    def state(self) -> ProjectFile:
        """The project as it is now."""
        return self.project.read()

    @property
    def chosen(self) -> ChosenData | None:
        """The data, if some was chosen."""
        return None if self._project is None else self._project.read().data

    def choose(self, location: str, table: str = "", password: str = "") -> None:
        """Take some data: read the names and types of its columns, and open or begin its project."""
        location, secret = without_password(location.strip())
        if not location:
            raise DataError("name a file, a folder of Parquet, or the address of a database")
        password = password or secret
        if "://" not in location:
            location = str((self.folder / Path(location).expanduser()).absolute())
        elif password:
            self._passwords[location] = password
        asked = location in self._passwords
        guessed = guessed_columns(self._with_password(location), table=table or None)
        running = None if self._spending is None else self._spending.running
        if running is not None and running.state == "running":
            raise HushError(f"the release {running.name} is running; wait until it has ended")
        path = self._project_path
        project = Project(path) if path is not None else Project.beside(location, table, self.folder)
        with project.changing() as state:
            known = {draft.name: draft for draft in state.columns}
            drafts = [known.get(column.name) or first_draft(column) for column in guessed]
            data = ChosenData(location=location, table=table, password=asked)
            if state.data is not None and state.releases and not same_data(state.data, data):
                raise HushError(
                    f"{project.path} has releases of {state.data.location}; start `hush studio` with another --project "
                    "for other data"
                )
            if state.data != data or state.columns != drafts:
                project.write(state.replaced(data=data, columns=drafts))
        self._use(project)

    def _use(self, project: Project) -> None:
        project.read()
        project.end_lost_runs()
        self._project, self._spending = project, Spending(project, self.open_table)

    def _with_password(self, location: str) -> str:
        """An address with the password that was typed since the server was started."""
        password = self._passwords.get(location)
        if password is None:
            return location
        parts = urlsplit(location)
        user, at, host = parts.netloc.rpartition("@")
        return urlunsplit(parts._replace(netloc=f"{user}:{quote(password, safe='')}{at or '@'}{host}"))

    def source(self, state: ProjectFile) -> tuple[str, str | None]:
        """The data of a project, for `hush.read`: where it is, and the table."""
        if state.data is None:
            raise NoData("choose data first")
        return self._with_password(state.data.location), state.data.table or None

    def open_table(self, state: ProjectFile, schema: Schema, progress: Callable[[float], None]) -> Table:
        """The rows behind a schema."""
        location, table = self.source(state)
        return read(location, schema, table=table, progress=progress)

    def ledger_path(self, state: ProjectFile) -> Path:
        """The ledger that releases of the project are charged to."""
        if state.budget.ledger:
            return (self.project.path.parent / state.budget.ledger).absolute()
        return (self._ledger or self.project.path.with_name(LEDGER_NAME)).absolute()

    def ledger(self, state: ProjectFile) -> Ledger | None:
        """The ledger, if it exists and knows the dataset; LedgerError if it should, since releases were charged to it.

        Privacy: a ledger that was lost is never begun anew, since that would forget what was spent.
        """
        path, dataset = self.ledger_path(state), state.budget.dataset
        known = {ledger.dataset: ledger for ledger in Ledger.open_all(path)} if path.exists() else {}
        if dataset not in known:
            for entry in state.releases:
                if entry.state != "failed" and entry.dataset == dataset and Path(entry.ledger).name == path.name:
                    raise LedgerError(
                        f"{path} is not the ledger that {entry.name} was charged to: it lacks the dataset {dataset!r}, "
                        "or the file is gone. Put that file back, since a new one would forget what was spent"
                    )
        return known.get(dataset)

    @property
    def password_needed(self) -> bool:
        """Whether the data needs a password that was forgotten when a server ended."""
        data = self.state.data
        return data is not None and data.password and data.location not in self._passwords

    @property
    def stem(self) -> str:
        """The name of the table, or of the data, for names of files."""
        data = self.state.data
        if data is not None and data.table:
            return file_words(data.table) or "data"
        return self.project.path.name.removesuffix(PROJECT_ENDING).split(".")[0] or "data"

    @property
    def dataset_name(self) -> str:
        """The name of the data, for the head of pages."""
        chosen = self.chosen
        if chosen is None:
            return ""
        name = chosen.location.rpartition("/")[2] or chosen.location
        return f"{name}, {chosen.table}" if chosen.table else name

    def steps_done(self, state: ProjectFile) -> list[str]:
        """The steps whose part of the project is complete."""
        ready = [state_of(draft, state.people.unit).state for draft in state.columns]
        done = {
            "/data": state.data is not None,
            "/columns": "ready" in ready and not {"unfinished", "discover"} & set(ready),
            "/people": state.people.reviewed,
            "/questions": state.questions.reviewed,
            "/budget": state.budget.reviewed,
        }
        return [address for address, finished in done.items() if finished]

    def page(
        self,
        body: Markup,
        *,
        title: str,
        current: str,
        message: str | Markup | None = None,
        wide: bool = False,
    ) -> str:
        """A page of the owner, with the steps that are done and the name of the data."""
        done = () if self._project is None else self.steps_done(self.state)
        return owner_page(
            body, title=title, current=current, dataset=self.dataset_name, done=done, wide=wide, message=message
        )

    def release(self, name: str) -> tuple[ReleaseEntry, Release]:
        """A release of the project, or what an interrupted one has measured."""
        entry = self.state.entry(name)
        path = self.project.file_of(entry)
        changed = path.stat().st_mtime if path.exists() else 0.0
        kept = self._loaded.get(name)
        if kept is not None and kept[0] == changed:
            return entry, kept[1]
        release = self.spending.kept(entry)
        if release is None:
            raise HushError(f"nothing of the release {name!r} was kept")
        self._loaded[name] = (changed, release)
        while len(self._loaded) > MOST_RELEASES_KEPT:
            del self._loaded[next(iter(self._loaded))]
        return entry, release

    def close(self) -> None:
        """Stop what runs, and keep what was paid for."""
        if self._spending is not None:
            self._spending.close()


def same_data(first: ChosenData, second: ChosenData) -> bool:
    """Whether two places hold the same data, as far as names tell; a file may have moved with its project.

    >>> same_data(ChosenData("/a/people.csv"), ChosenData("/b/people.csv"))
    True
    """
    names = [data.location if "://" in data.location else Path(data.location).name for data in (first, second)]
    return names[0] == names[1] and first.table == second.table


def without_password(location: str) -> tuple[str, str]:
    """An address of a database without its password, and the password.

    >>> without_password("postgresql://anna:se%40cret@db/clinic?sslmode=require")
    ('postgresql://anna@db/clinic?sslmode=require', 'se@cret')
    >>> without_password("people.csv")
    ('people.csv', '')
    """
    if "://" not in location:
        return location, ""
    try:
        parts = urlsplit(location)
        password = parts.password
    except ValueError:
        raise DataError("the address cannot be read; write postgresql://user@host/database") from None
    user, at, host = parts.netloc.rpartition("@")
    options = parse_qsl(parts.query, keep_blank_values=True)
    kept = [(key, value) for key, value in options if key not in SECRET_OPTIONS]
    in_options = next((value for key, value in options if key == "password"), "")
    parts = parts._replace(netloc=f"{user.split(':')[0]}{at}{host}", query=urlencode(kept))
    return urlunsplit(parts), unquote(password or "") or in_options
