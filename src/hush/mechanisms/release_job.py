"""ReleaseJob: one release from its plan to its file, with checks, charges, progress, a partial file and resuming.

Every front end drives the same object. `Plan.release` is a job without a file; the command line and a web page give it
one, and show its status.
"""

from __future__ import annotations

import math
import os
import shlex
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from hush.core.constraints import fingerprint
from hush.core.domain import Domain
from hush.core.errors import ArchiveError, BudgetError, DataError, HushError, InterruptedRelease, LedgerError
from hush.files.atomic_write import check_writable
from hush.mechanisms.plan import OnRound, Plan, Progress
from hush.mechanisms.registry import mechanism_class
from hush.mechanisms.session import Session, Watch
from hush.privacy.account import Allowance, used_up
from hush.privacy.events import compose
from hush.privacy.exact_sampling import Entropy
from hush.privacy.gate import MOST_SCORED_ROWS, Gate
from hush.privacy.ledger import Ledger, open_account, open_ledger, terms_of
from hush.privacy.measurement import Measurement
from hush.privacy.noise import law_costing
from hush.privacy.sensitivity import Sensitivity
from hush.release.record import Round
from hush.release.release import Release
from hush.release.statement import Statement, uncharged
from hush.schema import Schema
from hush.schema.schema import refuse_drafted

if TYPE_CHECKING:
    from hush.tables.table import Table

State = Literal["ready", "running", "interrupted", "failed", "done"]
SAVED_SHARE = 1 / 8  # of a run with a single charge, after which its tables so far are saved again
NOTHING_SPENT = "the job was stopped before its first charge; nothing was spent"


@dataclass(frozen=True, slots=True)
class JobStatus:
    """The progress of a job, in public facts. `kept` says whether the partial file holds what was paid for."""

    state: State = "ready"
    spent: float = 0.0  # share of the budget
    rounds: int = 0
    clique: tuple[str, ...] = ()  # of the last round
    kept: bool = False
    message: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The status as plain data, for JSON."""
        return asdict(self) | {"clique": list(self.clique)}


class ReleaseJob:
    """Spend the budget of a plan on a table, once, and keep what was paid for whatever happens.

    `ledger` is a file that records every charge for good; a new one is created with the plan's budget as its cap.
    `name` is what the ledger calls the release. With `output` the release is written there, and an adaptive run saves
    its measurements in `partial` as it goes; a run with a single charge does if `checkpoint` names a file. `force`
    overwrites the partial file of an earlier run, which is refused otherwise. `resume` is an interrupted release of the
    same plan: its measurements are paid for and kept, and only the rest of the budget is spent. A schema that was
    drafted from private data is refused, unless `schema_is_public` asserts that its levels and rules are public; the
    release is then stamped as not private. With `within` the charges go to that account, whose budget this release
    shares with others, and which charges the ledger. `evidence` are noisy tables of the same rows that were paid for
    before, such as those of a discovery; `scout` fits its model to them as well. `entropy` is for tests.

    Privacy: the plan's budget, under its neighbours, for units of at most `max_rows_per_unit` rows. All checks come
    before the first charge.

    >>> import hush
    >>> table = hush.read(hush.datasets.people(1000, seed=1), hush.datasets.people_schema())
    >>> job = ReleaseJob(hush.plan(hush.Workload.kway(table.domain, 1), hush.Budget(rho=0.5)))
    >>> job.run(table).complete, job.status.state, job.status.spent
    (True, 'done', 1.0)
    """

    def __init__(
        self,
        plan: Plan,
        *,
        output: str | Path | None = None,
        ledger: str | Path | Ledger | None = None,
        dataset: str = "default",
        name: str | None = None,
        resume: Release | None = None,
        checkpoint: str | Path | None = None,
        force: bool = False,
        schema_is_public: bool = False,
        within: Allowance | None = None,
        evidence: Sequence[Measurement] = (),
        entropy: Entropy | None = None,
    ) -> None:
        self.plan = plan
        self.output = None if output is None else Path(output)
        self.ledger = ledger
        self.dataset = dataset
        self.name = name if name is not None else "" if self.output is None else self.output.name
        self.resume = resume
        self.status = JobStatus(rounds=len(resume.rounds) if isinstance(resume, Release) else 0)
        self._checkpoint = None if checkpoint is None else Path(checkpoint)
        self.entropy = entropy
        self._force = force
        self._within = within
        self._evidence = tuple(evidence)
        self._schema_is_public = schema_is_public
        self._memory = math.inf  # that is left beyond what the mechanism needs
        self._stopping = threading.Event()
        self._starting = threading.Lock()

    @classmethod
    def resumed(cls, release: Release, **options: Any) -> Self:
        """The job that continues an interrupted release with its own plan; takes the options of a job."""
        if release.record.charged_at_once:
            raise BudgetError(f"a release of {release.mechanism} is measured with one charge and cannot be resumed")
        if release.complete:
            raise BudgetError("the release is complete: its budget is spent, and there is nothing to resume")
        promise = release.statement
        mechanism = mechanism_class(release.mechanism).from_settings(release.settings)
        plan = mechanism.plan(
            release.workload, promise.budget, neighbours=promise.neighbours, max_rows_per_unit=promise.unit.max_rows
        )
        return cls(plan, resume=release, **options)

    @property
    def partial(self) -> Path | None:
        """The file that keeps the measurements of an adaptive run until the release is complete."""
        return partial_file(self.output) if self.output is not None and self.plan.adaptive else self._checkpoint

    def stop(self) -> None:
        """Ask a run in another thread to stop after its next measurement; what it paid for is kept."""
        self._stopping.set()

    def run(
        self,
        table: Table,
        *,
        progress: Progress | None = None,
        on_round: OnRound | None = None,
        on_start: Callable[[], None] | None = None,
    ) -> Release:
        """Check, charge, measure, infer, save; InterruptedRelease carries what was paid for if the run is stopped.

        `on_start` is called after the last check, before the first charge. `progress` gets the share of the budget
        spent, `on_round` every round; public facts only. All of it sees one state of the rows.
        """
        with table.snapshot() if hasattr(table, "snapshot") else nullcontext():
            # A job runs once; one that was refused before its first charge may be tried again.
            with self._starting:
                if self.status.state != "ready":
                    raise BudgetError(f"this job is {self.status.state}; a job runs once, make another")
                self._update(state="running")
            try:
                account, book = self._open(table)
                if on_start is not None:
                    on_start()
            except BaseException:
                self._update(state="ready")
                raise
            return self._measure(table, account, book, progress, on_round)

    def _measure(
        self, table: Table, account: Allowance, book: Ledger | None, progress: Progress | None, on_round: OnRound | None
    ) -> Release:
        """Spend the account, infer and save; keep what was paid for if the run is stopped."""

        # After every measurement: keep what is paid for, report, and stop if asked to.
        due = 0.0  # the share at which a run with a single charge saves next; an adaptive one saves every table

        def watch(played: Round | None, share: float) -> None:
            nonlocal due
            if self.partial is not None and (self.plan.adaptive or share >= min(due, 1.0)):
                try:
                    release_so_far(complete=False).save(self.partial, overwrite=True)
                except ArchiveError as error:  # such as a full disk
                    stopped = release_so_far(complete=False)
                    self._save(stopped)
                    raise InterruptedRelease(
                        f"{error}; what was measured is paid for, and this error has it in its attribute release",
                        release=stopped,
                    ) from None
                due = share + SAVED_SHARE
            self._update(spent=min(share, 1.0), kept=self.partial is not None)
            if progress is not None:
                progress(min(share, 1.0))
            if played is not None:
                self._update(rounds=self.status.rounds + 1, clique=played.clique)
                if on_round is not None:
                    on_round(played, share)
            # a single charge that is fully measured leaves nothing to resume
            if self._stopping.is_set() and (self.plan.adaptive or share < 1):
                raise KeyboardInterrupt

        session = self._session(table, account, watch)
        release_so_far = partial(self._release, table, session, account, book)

        # Measure, infer and save; if the run is stopped, save what was paid for.
        try:
            if self._stopping.is_set():
                raise KeyboardInterrupt
            if self.plan.adaptive:
                measure_sums(session)
            self.plan.settings.run(session, self.plan)
            done = release_so_far(complete=True)
            self._save(done)
        except KeyboardInterrupt:
            if not account.events:
                self._update(state="interrupted", message=NOTHING_SPENT)
                if self._stopping.is_set():
                    raise InterruptedRelease(NOTHING_SPENT) from None
                raise
            stopped = release_so_far(complete=False)
            self._update(state="interrupted", message=stopped.record.interruption())
            self._save(stopped)
            raise InterruptedRelease(self.status.message, release=stopped) from None
        except BaseException:
            self._update(state="failed")
            raise
        self._update(state="done", spent=1.0)
        return done

    def _session(self, table: Table, account: Allowance, watch: Watch) -> Session:
        """The session of the run; an adaptive one keeps counted tables, as far as memory goes."""
        from hush.tables.sources import BYTES_PER_COUNT
        from hush.tables.table import CachedTable  # loads the database engine

        plan, resume = self.plan, self.resume
        counted = plan.settings.counted(plan, table.schema)
        cached_bytes = self._memory / 4 + BYTES_PER_COUNT * sum(map(plan.domain.size, counted))
        source = CachedTable(table, most=cached_bytes) if plan.adaptive else table
        return Session(
            Gate(source, account, neighbours=plan.neighbours, entropy=self.entropy),
            account,
            domain=plan.domain,
            max_rows=table.unit.max_rows,
            constraints=table.schema.constraints,
            record=plan.settings.new_record(plan) if resume is None else resume.record.resumed(),
            watch=watch,
            sums=plan.sums,
            memory=self._memory,
            evidence=self._evidence,
        )

    def _release(
        self, table: Table, session: Session, account: Allowance, book: Ledger | None, *, complete: bool
    ) -> Release:
        """The release of everything measured so far."""
        plan = self.plan
        # a resumed run repeats what its first part states of noise that is not private and of private levels
        seeded = self.resume is not None and self.resume.statement.seeded
        earlier = () if self.resume is None else self.resume.statement.drafted
        planned = plan.domain.clique(plan.domain.from_private_data)
        session.record.fitted = session.model if complete else None
        session.record.scored = session.scored if complete else None
        statement = Statement(
            budget=plan.budget,
            neighbours=plan.neighbours,
            unit=table.unit,
            event=account.events[0] if len(account.events) == 1 else compose(account.events),
            seeded=seeded or not session.gate.private,
            drafted=tuple(dict.fromkeys((*earlier, *planned, *table.schema.from_private_data))),
            constraints=fingerprint(table.schema.constraints),
            ledger_head=None if book is None else book.head,
        )
        return Release(
            mechanism=plan.mechanism,
            schema=table.schema,
            workload=plan.workload,
            statement=statement,
            record=session.record,
            settings=plan.settings.pack_settings(),
            complete=complete,
            dataset=None if complete or book is None else book.dataset,
        )

    def check_public(self, schema: Schema) -> None:
        """Refuse a schema or a plan that was drafted from private data, unless the owner asserted that it is public.

        Privacy: asked before rows are read and before anything is charged.
        """
        if not self._schema_is_public:
            refuse_drafted(schema.from_private_data)
            refuse_drafted(self.plan.domain.clique(self.plan.domain.from_private_data), planned=True)

    def _open(self, table: Table) -> tuple[Allowance, Ledger | None]:
        """The account of the run and its ledger, after all checks."""
        plan, resume = self.plan, self.resume
        if self.output is not None and plan.adaptive and resume is None:
            check_partial(self.output, None, force=self._force)
        for file in (self.output, self.partial):
            if file is not None:
                check_writable(file, ArchiveError)
        check_table(plan, table)
        self.check_public(table.schema)
        plan.settings.check_table(plan, table.schema)
        self._memory = plan.settings.check_memory(plan, table.schema)
        table.require(plan.settings.counted(plan, table.schema))
        plan.settings.pack_settings()  # refuses settings that the file of the release could not hold
        if resume is not None:
            check_resumable(plan, resume, table, self.ledger, self.dataset)
        book = None if self.ledger is None else open_ledger(self.ledger, plan.budget, dataset=self.dataset)
        terms = terms_of(plan.neighbours, table.unit)
        account = open_account(plan.budget, book, release=self.name, terms=terms, within=self._within)
        if resume is not None:
            account.resume(resume.statement.event)
            if book is not None and not used_up(book.remaining, plan.budget.limit):
                account.lower(book.remaining)
        if plan.adaptive and not used_up(account.remaining, plan.budget.limit):
            bound = Sensitivity(Fraction(1), Fraction(1))
            account.require(law_costing(account.remaining, plan.budget, bound).event(bound))
            table.check(MOST_SCORED_ROWS)
        elif resume is not None and not resume.record.tables:
            raise BudgetError(
                "the release to resume was interrupted before its first noisy table, and nothing is left to "
                "measure one with; plan again with a budget of its own"
            )
        return account, book

    def _update(self, **facts: Any) -> None:
        self.status = replace(self.status, **facts)

    def _save(self, release: Release) -> None:
        """Write what was paid for; if that fails, save it in the folder for temporary files."""
        if self.output is None:
            return
        try:
            release.save(self.output, overwrite=True)
            partial_file(self.output).unlink(missing_ok=True)
        except ArchiveError as error:
            rescue = Path(tempfile.mkdtemp(prefix="hush-"), self.output.name)
            release.save(rescue, overwrite=True)
            self._update(state="failed")
            raise ArchiveError(f"{error}; the budget is spent, and the release is kept in {rescue}") from None


def finished(release: Release) -> Release | None:
    """A release with a single charge that was cut off after its last noisy table, as complete; None if tables lack.

    Privacy: post-processing. Tables that lack are never measured under the old charge, since their noise may have been
    drawn before the end.
    """
    if release.complete or not release.record.charged_at_once:
        return None
    parts = ("mechanism", "schema", "workload", "statement", "record", "settings")
    whole = Release(**{name: getattr(release, name) for name in parts})
    return whole if whole.inconsistency() is None else None


def measure_sums(session: Session) -> None:
    """Noisy sums of values, unless they were measured before; charged together, before the first is read."""
    sums = session.record.sums
    if sums is None or any(table is not None for table in sums.tables):
        return
    requests = sums.strategy.requests()
    for index, answer in enumerate(session.gate.measure(requests, note=f"{len(requests)} sums of values")):
        sums.tables[index] = answer.raw
    session.tell(None, 0.0)


def partial_file(output: Path) -> Path:
    """The file that keeps the measurements of an adaptive run until the release is complete.

    >>> partial_file(Path("people.hush")).name
    'people.hush.partial'
    """
    return output.with_name(f"{output.name}.partial")


def check_partial(output: Path, resumed: Path | None, *, force: bool = False) -> None:
    """Refuse to overwrite what an interrupted release has paid for, unless the run resumes that very file."""
    partial = partial_file(output)
    if partial.exists() and not is_own_partial(output, resumed) and not force:
        raise HushError(
            f"{partial} holds the noisy tables of an interrupted release, and they are paid for; continue with "
            f"--resume {shlex.quote(str(partial))}, or add --force to overwrite it"
        )


def is_own_partial(output: Path, resumed: Path | None) -> bool:
    """Whether a run resumes the partial file beside its own output."""
    partial = partial_file(output)
    return resumed is not None and resumed.exists() and partial.exists() and partial.samefile(resumed)


def check_table(plan: Plan, table: Table) -> None:
    """Refuse anything but a table with the domain and the privacy units of the plan."""
    if not all(hasattr(table, name) for name in ("schema", "domain", "unit", "counts")):
        raise DataError(
            f"table: expected what hush.read gives, got {type(table).__name__}; write hush.read(data, schema)"
        )
    if table.domain != plan.domain:
        raise DataError(_difference(plan.domain, table.domain))
    if table.unit.max_rows != plan.max_rows_per_unit:
        raise DataError(
            f"the plan is for units of at most {plan.max_rows_per_unit} rows, the table has {table.unit.max_rows}; "
            f"plan again with max_rows_per_unit={table.unit.max_rows}"
        )


def _difference(planned: Domain, stated: Domain) -> str:
    """The first difference between the domains of a plan and a table, in words."""
    advice = "use the schema that the plan was made with, or plan again"
    for name in planned:
        if name not in stated:
            return f"the plan has the attribute {name!r}, the table's schema has not; {advice}"
        if planned[name] != stated[name]:
            return f"attribute {name!r} has {planned[name]} levels in the plan, {stated[name]} in the table; {advice}"
    for name in stated:
        if name not in planned:
            return f"the table's schema has the attribute {name!r}, the plan has not; {advice}"
    return f"the plan and the table list their attributes in different orders; {advice}"


def check_resumable(
    plan: Plan, release: object, table: Table, ledger: str | Path | Ledger | None, dataset: str
) -> None:
    """Refuse a release that is complete, of another plan or schema, charged elsewhere, or with impossible rounds.

    Privacy: what was spent must be on the same account. A release charged to a ledger resumes with that ledger and
    dataset only; one that was not resumes without any. So no ledger knows of half a release. Nothing is written, and no
    ledger is created.
    """
    if not isinstance(release, Release):
        raise DataError(f"resume: expected an interrupted release of {plan.mechanism}, got {type(release).__name__}")
    if not plan.adaptive:
        raise DataError(f"a release of {plan.mechanism} is measured with one charge and cannot be resumed")
    if release.complete:
        raise BudgetError("the release to resume is complete: its budget is spent, and nothing is left to measure")
    promise = release.statement
    differing = {
        "mechanism": release.mechanism != plan.mechanism or release.settings != plan.settings.pack_settings(),
        "workload": release.workload != plan.workload,
        "budget": promise.budget != plan.budget,
        "neighbours": promise.neighbours is not plan.neighbours,
        "unit": promise.unit != table.unit,
        "schema": release.schema != table.schema,
        "record": release.record.kind != plan.settings.new_record(plan).kind,
    }
    wrong = [what for what, differs in differing.items() if differs]
    if wrong:
        raise DataError(
            f"the release to resume belongs to another plan: not the same {' and '.join(wrong)}; "
            "resume with the plan and the schema that it started with"
        )
    problem = release.inconsistency()
    if problem is not None:
        raise DataError(f"the release to resume is damaged: {problem}; get the file again")
    plan.settings.check_rounds(release)
    check_charged(release.statement, release.dataset, ledger, dataset)


def check_charged(
    statement: Statement,
    charged: str | None,
    ledger: str | Path | Ledger | None,
    dataset: str,
    what: str = "the release",
) -> None:
    """Refuse a ledger, or a dataset of it, that was not charged for what an interrupted run has spent.

    The head identifies the ledger; it may belong to a later charge to another dataset. The name identifies the dataset.
    An older file has no name: the charges up to the head decide.
    """
    head = statement.ledger_head
    if head is None:
        if ledger is not None:
            raise LedgerError(f"{what} to resume was charged to no ledger; resume it without one")
        return
    if ledger is None:
        raise LedgerError(f"{what} to resume was charged to a ledger; resume it with that ledger")
    path, name = (ledger.path, ledger.dataset) if isinstance(ledger, Ledger) else (Path(ledger), dataset)
    other = f"{what} to resume was charged to another ledger; resume it with that one"
    if not os.path.lexists(path):
        raise LedgerError(f"{path} does not exist: {other}")
    books = {book.dataset: book for book in Ledger.open_all(path)}
    try:
        next(iter(books.values())).verify(expected_head=head)
    except LedgerError:
        raise LedgerError(f"{path} lacks the head of {what}: it is an older copy, or {other}") from None
    if charged not in (None, name):
        raise LedgerError(
            f"{what} to resume was charged to the dataset {charged!r} of {path}, not to {name!r}; resume "
            f"it with dataset={charged!r}, --dataset on the command line"
        )
    if uncharged(statement, books[name].events(until=head) if name in books else ()):
        raise LedgerError(
            f"{what} to resume was not charged to the dataset {name!r} of {path}, which has "
            f"{', '.join(map(repr, books))}; resume it with the dataset that was charged"
        )
