"""Resuming: whether an interrupted release belongs to a plan, and to the ledger that it is charged to.

AdaptivePlan: a plan whose later questions depend on earlier noisy answers, within one budget.

CapacityMechanism: adaptive mechanisms whose model must stay within a size, stated by a preset or in megabytes.
"""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from hush.archive import ArchiveReader
from hush.arrays import Floats
from hush.domain import Clique, Domain
from hush.errors import (
    ArchiveError,
    BudgetError,
    DataError,
    HushError,
    InterruptedRelease,
    LedgerError,
    SizeError,
    WorkloadError,
    is_number,
    shown,
)
from hush.graphical.belief_propagation import in_tree_order, with_domain
from hush.graphical.graphical_model import GraphicalModel
from hush.graphical.junction_tree import JunctionTree
from hush.graphical.model_size import check_fits, sizes_with
from hush.inference.factors import Factors
from hush.mechanisms.plan import Plan, Progress, rows_per_unit
from hush.mechanisms.session import Session
from hush.privacy.account import used_up
from hush.privacy.budget import Budget
from hush.privacy.entropy import Entropy
from hush.privacy.events import Event, GaussianEvent, compose
from hush.privacy.gate import Gate
from hush.privacy.ledger import Ledger
from hush.privacy.sensitivity import Neighbours
from hush.release.measured_release import MeasuredRelease, event_parts
from hush.release.rounds import Round
from hush.schema import Schema
from hush.workloads import Workload

if TYPE_CHECKING:
    from hush.tables.table import Table


def check_resumable(
    plan: AdaptivePlan, release: object, table: Table, ledger: str | Path | Ledger | None, dataset: str
) -> None:
    """Refuse a release that is complete, of another plan, of another table's schema, or charged elsewhere,
    and one that holds rounds which no run plays.

    Privacy: what was spent must be on the same account. A release that was charged to a ledger goes on with that
    ledger and dataset only, and one that was not goes on without any, so that none knows of half a release. Nothing
    is written: a ledger that is not there is not made.
    """

    if not isinstance(release, MeasuredRelease):
        raise DataError(f"resume: expected an interrupted release of {plan.mechanism}, got {type(release).__name__}")
    if release.complete:
        raise BudgetError("the release to resume is complete: its budget is spent, and there is nothing to go on with")
    promise = release.statement
    differing = {
        "mechanism": release.mechanism != plan.mechanism or release.settings != pack_settings(plan.strategy),
        "workload": release.workload != plan.workload,
        "budget": promise.budget != plan.budget,
        "neighbours": promise.neighbours is not plan.neighbours,
        "unit": promise.unit != table.unit,
        "schema": release.schema != table.schema,
    }
    wrong = [what for what, differs in differing.items() if differs]
    if wrong:
        raise DataError(
            f"the release to resume belongs to another plan: not the same {' and '.join(wrong)}; "
            "resume with the plan and the schema that it was started with"
        )
    complaint = release.contradiction()
    if complaint is not None:
        raise DataError(f"the release to resume is damaged: {complaint}; get the file again")
    plan.strategy.check_rounds(release)
    _check_charged(release, ledger, dataset)


def _check_charged(release: MeasuredRelease, ledger: str | Path | Ledger | None, dataset: str) -> None:
    """Refuse a ledger, or a dataset of it, that was not charged for what the release has spent.

    The head says which file it was, and may belong to a charge to another dataset that was made meanwhile; the name
    says which dataset, and where an older file has none, what that was charged with up to the head.
    """
    head = release.statement.ledger_head
    if head is None:
        if ledger is not None:
            raise LedgerError("the release to resume was charged to no ledger; resume it without one")
        return
    if ledger is None:
        raise LedgerError("the release to resume was charged to a ledger; resume it with that ledger")
    path, own = (ledger.path, ledger.dataset) if isinstance(ledger, Ledger) else (Path(ledger), dataset)
    other = "the release to resume was charged to another ledger; resume it with that one"
    if not os.path.lexists(path):
        raise LedgerError(f"{path} does not exist: {other}")
    books = {book.dataset: book for book in Ledger.open_all(path)}
    try:
        next(iter(books.values())).verify(expected_head=head)
    except LedgerError:
        raise LedgerError(f"{path} lacks the head of the release: it is an older copy, or {other}") from None
    if release.dataset not in (None, own):
        raise LedgerError(
            f"the release to resume was charged to the dataset {release.dataset!r} of {path}, not to {own!r}; resume "
            f"it with dataset={release.dataset!r}, --dataset on the command line"
        )
    charged: Counter[Event] = Counter()
    for event in books[own].events(until=head) if own in books else ():
        charged.update(dict(event_parts(event)))
    if Counter(dict(event_parts(release.statement.event))) - charged:
        raise LedgerError(
            f"the release to resume was not charged to the dataset {own!r} of {path}, which has "
            f"{', '.join(map(repr, books))}; resume it with the dataset that was charged"
        )


OnRound = Callable[[Round, float], None]
NOT_ITS_ROUNDS = "the release to resume holds rounds that {name} does not play; get the file again"


@dataclass(frozen=True, kw_only=True)
class AdaptiveMechanism(ABC):
    """Settings of an adaptive mechanism, and how it spends a session."""

    name: ClassVar[str]
    plan_class: ClassVar[type[AdaptivePlan]]

    @abstractmethod
    def run(self, session: Session, workload: Workload) -> None:
        """Spend the session's budget; what was taken is on its record, and its last model is the release's."""

    def check(self, workload: Workload, budget: Budget) -> None:
        """Refuse settings that do not fit a workload and a budget, before anything is spent."""
        return

    def check_table(self, workload: Workload, schema: Schema) -> None:
        """Refuse settings that do not fit the rules of a schema, before anything is spent."""
        return

    def check_rounds(self, release: MeasuredRelease) -> None:
        """Refuse the rounds of a release to resume unless a run could have played them: here, each took its table."""
        played = Counter(release.domain.clique(one.clique) for one in release.rounds)
        if played - Counter(release.domain.clique(one.clique) for one in release.noisy_tables):
            raise DataError(NOT_ITS_ROUNDS.format(name=self.name))

    def columns(self, workload: Workload) -> list[str]:
        """The columns that the release must know something about: all of the domain."""
        return list(workload.domain)

    def describe(self, plan: AdaptivePlan) -> list[tuple[str, str]]:
        """What a person should know before spending, as names and texts."""
        return []

    def work(self, workload: Workload) -> str:
        """Memory and time that releasing will take, roughly, in words."""
        return "not known beforehand"

    def plan(
        self,
        workload: Workload,
        budget: Budget,
        *,
        neighbours: Neighbours = Neighbours.ADD_REMOVE,
        max_rows_per_unit: int = 1,
    ) -> AdaptivePlan:
        """The plan of these settings; what will be measured shows while it is released."""
        if budget.pure:
            raise BudgetError(
                f"{budget}: {self.name} adds Gaussian noise, which is never pure epsilon; give a delta: "
                f"Budget(epsilon={budget.epsilon!r}, delta=1e-9), or --delta 1e-9"
            )
        if not workload.plain:
            raise WorkloadError(
                f"mechanism={self.name!r} is for workloads of marginals, and this one asks other queries; use "
                "'hdmm' or 'residual' for prefix sums and ranges, or ask for the marginals they are made from"
            )
        self.check(workload, budget)
        return self.plan_class(
            strategy=self,
            workload=workload,
            budget=budget,
            neighbours=neighbours,
            max_rows_per_unit=rows_per_unit(max_rows_per_unit),
            loss="rmse",
        )


class AdaptivePlan(Plan):
    """The settings of an adaptive mechanism for a workload and a budget; its errors show only in the release."""

    made_by: ClassVar[type[AdaptiveMechanism]]
    release_class: ClassVar[type[MeasuredRelease]]
    strategy: AdaptiveMechanism

    @property
    def rmse(self) -> None:
        """Not predictable: what is measured depends on the data."""

    @property
    def max_variance(self) -> None:
        """Not predictable."""

    def variance(self, clique: Iterable[str]) -> None:
        """Not predictable."""
        self.domain.check(clique)

    @property
    def term_variances(self) -> Floats:
        """Not predictable: NaN for every term."""
        return np.full(len(self.workload), np.nan)

    def query_variances(self, which: int = 0) -> Floats:
        """Not predictable: NaN for every query."""
        term = self._listed(which)
        return np.full([block.shape[0] for block in term.blocks], np.nan)

    def with_budget(self, budget: Budget) -> Self:
        """The same settings with another budget."""
        made = self.strategy.plan(
            self.workload, budget, neighbours=self.neighbours, max_rows_per_unit=self.max_rows_per_unit
        )
        return made  # type: ignore[return-value]

    @property
    def rho(self) -> Fraction:
        """The zCDP that releasing costs at most: all of the budget."""
        return self.budget.limit

    @property
    def optimality(self) -> str:
        """What is claimed of the error."""
        return "nothing is promised beforehand; the release states bounds on the error of its tables"

    @property
    def work(self) -> str:
        """Memory and time that releasing will take, roughly."""
        return self.strategy.work(self.workload)

    def facts(self) -> list[tuple[str, str]]:
        """What a person should know before spending."""
        return self.strategy.describe(self)

    def contradiction(self) -> str | None:
        """What a plan from a file shows that it would not do."""
        try:
            self.strategy.check(self.workload, self.budget)
        except HushError as error:
            return str(error)
        return "it has a pure budget" if self.budget.pure else None

    def _pack(self) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
        return pack_settings(self.strategy), {}

    @classmethod
    def _unpack(cls, domain: Domain, entry: Any, archive: ArchiveReader) -> AdaptiveMechanism:
        return unpack_settings(cls.made_by, entry)

    def release(
        self,
        table: Table,
        *,
        ledger: str | Path | Ledger | None = None,
        dataset: str = "default",
        name: str = "",
        progress: Progress | None = None,
        entropy: Entropy | None = None,
        resume: MeasuredRelease | None = None,
        on_round: OnRound | None = None,
        checkpoint: str | Path | None = None,
        on_start: Callable[[], None] | None = None,
    ) -> MeasuredRelease:
        """Spend the budget round by round; see `Plan.release`.

        `resume` is a release of this plan that was interrupted: its noisy tables are paid for and kept, and only what
        is left of the budget is spent, or of the ledger where a run that was killed left charges on it that its file
        knows nothing of. `on_round` is told of every round and the share of the budget spent, public
        facts only. `checkpoint` is a file that holds what was taken so far after every measurement. `on_start` is
        called once nothing is left to refuse, before the first charge.
        """
        from hush.tables.table import CachedTable

        self._check(table)
        self.strategy.check_table(self.workload, table.schema)
        check_possible(table.schema)
        if resume is not None:
            check_resumable(self, resume, table, ledger, dataset)
        account, book = self._spending(table, ledger, dataset, name)
        if resume is not None:
            account.resume(resume.statement.event)
            if book is not None and not used_up(book.remaining, self.budget.limit):
                account.lower(book.remaining)
        if not used_up(account.remaining, self.budget.limit):
            account.require(GaussianEvent(1 / (2 * account.remaining), Fraction(1)))
            table.check()
        elif resume is not None and not resume.noisy_tables:
            raise BudgetError(
                "the release to resume was interrupted before its first noisy table, and nothing is left to "
                "measure one with; plan again with a budget of its own"
            )
        if on_start is not None:
            on_start()
        gate = Gate(CachedTable(table), account, neighbours=self.neighbours, entropy=entropy)

        def told(played: Round | None, spent: float) -> None:
            if checkpoint is not None:
                made(complete=False).save(checkpoint)
            if progress is not None:
                progress(min(spent, 1.0))
            if on_round is not None and played is not None:
                on_round(played, spent)

        session = Session(
            gate,
            account,
            domain=self.domain,
            max_rows=table.unit.max_rows,
            constraints=table.schema.constraints,
            noisy_tables=() if resume is None else resume.noisy_tables,
            rounds=() if resume is None else resume.rounds,
            private=resume is None or resume.statement.private,
            watch=told,
        )

        def made(*, complete: bool) -> MeasuredRelease:
            statement = self._statement(table, compose(account.events), gate, book)
            return self.release_class(
                schema=table.schema,
                workload=self.workload,
                statement=replace(statement, private=statement.private and session.private),
                complete=complete,
                noisy_tables=session.noisy_tables,
                rounds=session.rounds,
                scored=session.scored if complete else None,
                settings=pack_settings(self.strategy),
                fitted=session.model if complete else None,
                dataset=None if complete or book is None else book.dataset,
            )

        try:
            self.strategy.run(session, self.workload)
        except KeyboardInterrupt:
            if not account.events:
                raise
            what = (
                f"interrupted after {len(session.noisy_tables)} noisy tables; those are paid for and kept"
                if session.noisy_tables
                else "interrupted before the first noisy table; what was paid and what is left of the budget is kept"
            )
            raise InterruptedRelease(what, release=made(complete=False)) from None
        return made(complete=True)


def pack_settings(mechanism: AdaptiveMechanism) -> dict[str, Any]:
    """The settings as JSON values."""
    return json.loads(json.dumps(asdict(mechanism)))  # type: ignore[no-any-return]


def unpack_settings(kind: type[AdaptiveMechanism], entry: Any) -> AdaptiveMechanism:
    """The settings that `pack_settings` made."""
    known = {one.name for one in fields(kind)}
    if not isinstance(entry, dict) or set(entry) != known:
        raise ArchiveError(f"the file's settings of {kind.name} are not those of this hush; make it anew")
    made = {name: tuple(value) if isinstance(value, list) else value for name, value in entry.items()}
    try:
        return kind(**made)
    except (HushError, TypeError, ValueError):
        raise ArchiveError(f"the file's settings of {kind.name} cannot be read; make it anew") from None


def check_capacity(domain: Domain, cliques: Iterable[Clique], limit: float, schema: Schema | None = None) -> None:
    """Refuse a limit that is too small for the model that a run starts with."""
    rules = [one.clique for one in schema.constraints] if schema is not None else []
    try:
        check_fits(domain, [*cliques, *rules], limit)
    except HushError as error:
        raise type(error)(f"the model that the run starts with: {error}") from None


def check_possible(schema: Schema) -> None:
    """Refuse rules that no row can keep together; a look at pairs of them, as a schema takes, does not find all."""
    rules = schema.constraints
    if rules:
        tree = in_tree_order(JunctionTree.build(schema.domain, [one.clique for one in rules]))
        factors = Factors(tree.domain, [])
        GraphicalModel(schema.domain, tree, factors, np.zeros(factors.size), 1.0, rules).belief  # noqa: B018


PRESETS = {"fast": 4.0, "balanced": 16.0, "best": 80.0}  # megabytes
CELL_MB = 8e-6


@dataclass(frozen=True, kw_only=True)
class CapacityMechanism(AdaptiveMechanism):
    """Settings of a mechanism that measures no table which would take its model beyond `max_size_mb`."""

    preset: str = "balanced"
    max_size_mb: float | None = None

    def __post_init__(self) -> None:
        if self.preset not in PRESETS:
            raise WorkloadError(f"preset={shown(self.preset)}: expected one of {', '.join(PRESETS)}")
        if self.max_size_mb is not None and not (is_number(self.max_size_mb) and self.max_size_mb > 0):
            raise SizeError(f"max_size_mb={shown(self.max_size_mb)}: expected megabytes, a number above 0")

    @property
    def limit_mb(self) -> float:
        """The size of the model, at most."""
        return PRESETS[self.preset] if self.max_size_mb is None else float(self.max_size_mb)

    def sizes_mb(
        self,
        domain: Domain,
        known: Sequence[Clique],
        candidates: Sequence[Clique],
        tree: JunctionTree | None = None,
        *,
        limit_mb: float | None = None,
    ) -> Floats:
        """The size of the model of `known` tables, whose tree may be given, with each candidate in it.

        It may be a little above the true one where that is within the limit anyway.
        """
        own = None if tree is None else with_domain(tree, domain)
        enough = (self.limit_mb if limit_mb is None else limit_mb) / CELL_MB
        return CELL_MB * np.array(sizes_with(domain, known, candidates, tree=own, enough=enough), dtype=np.float64)


def check_flag(**flags: object) -> None:
    """Refuse a setting that is neither True nor False."""
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise WorkloadError(f"{name}={shown(value)}: expected True or False")
