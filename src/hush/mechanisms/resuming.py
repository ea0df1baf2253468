"""Resuming: whether an interrupted release belongs to a plan, and to the ledger that it is charged to."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from hush.errors import BudgetError, DataError, LedgerError
from hush.mechanisms.plan import Plan
from hush.mechanisms.registry import mechanism_class
from hush.privacy.events import Event
from hush.privacy.ledger import Ledger
from hush.release.release import Release
from hush.release.table_content import event_parts

if TYPE_CHECKING:
    from hush.tables.table import Table


def plan_of(release: Release) -> Plan:
    """The plan that an interrupted release belongs to; its mechanism must be installed."""
    if release.complete:
        raise BudgetError("the release is complete: its budget is spent, and there is nothing to go on with")
    promise = release.statement
    return (
        mechanism_class(release.mechanism)
        .from_settings(release.settings)
        .plan(release.workload, promise.budget, neighbours=promise.neighbours, max_rows_per_unit=promise.unit.max_rows)
    )


def check_resumable(
    plan: Plan, release: object, table: Table, ledger: str | Path | Ledger | None, dataset: str
) -> None:
    """Refuse a release that is complete, of another plan, of another table's schema, or charged elsewhere,
    and one that holds rounds which no run plays.

    Privacy: what was spent must be on the same account. A release that was charged to a ledger goes on with that
    ledger and dataset only, and one that was not goes on without any, so that none knows of half a release. Nothing
    is written: a ledger that is not there is not made.
    """

    if not isinstance(release, Release):
        raise DataError(f"resume: expected an interrupted release of {plan.mechanism}, got {type(release).__name__}")
    if not plan.adaptive:
        raise DataError(f"a release of {plan.mechanism} is measured with one charge and cannot be resumed")
    if release.complete:
        raise BudgetError("the release to resume is complete: its budget is spent, and there is nothing to go on with")
    promise = release.statement
    differing = {
        "mechanism": release.mechanism != plan.mechanism or release.settings != plan.settings.pack_settings(),
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
    problem = release.inconsistency()
    if problem is not None:
        raise DataError(f"the release to resume is damaged: {problem}; get the file again")
    plan.settings.check_rounds(release)
    _check_charged(release, ledger, dataset)


def _check_charged(release: Release, ledger: str | Path | Ledger | None, dataset: str) -> None:
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
    path, name = (ledger.path, ledger.dataset) if isinstance(ledger, Ledger) else (Path(ledger), dataset)
    other = "the release to resume was charged to another ledger; resume it with that one"
    if not os.path.lexists(path):
        raise LedgerError(f"{path} does not exist: {other}")
    books = {book.dataset: book for book in Ledger.open_all(path)}
    try:
        next(iter(books.values())).verify(expected_head=head)
    except LedgerError:
        raise LedgerError(f"{path} lacks the head of the release: it is an older copy, or {other}") from None
    if release.dataset not in (None, name):
        raise LedgerError(
            f"the release to resume was charged to the dataset {release.dataset!r} of {path}, not to {name!r}; resume "
            f"it with dataset={release.dataset!r}, --dataset on the command line"
        )
    charged: Counter[Event] = Counter()
    for event in books[name].events(until=head) if name in books else ():
        charged.update(dict(event_parts(event)))
    if Counter(dict(event_parts(release.statement.event))) - charged:
        raise LedgerError(
            f"the release to resume was not charged to the dataset {name!r} of {path}, which has "
            f"{', '.join(map(repr, books))}; resume it with the dataset that was charged"
        )
