"""Resuming: whether an interrupted release belongs to a plan, and to the ledger that it is charged to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hush.errors import BudgetError, DataError, LedgerError
from hush.privacy.ledger import Ledger
from hush.release.measured import MeasuredRelease

if TYPE_CHECKING:
    from hush.mechanisms.adaptive import AdaptivePlan
    from hush.mechanisms.plan import Table


def check_resumable(
    plan: AdaptivePlan, release: object, table: Table, ledger: str | Path | Ledger | None, dataset: str
) -> None:
    """Refuse a release that is complete, of another plan, of another table's schema, or charged elsewhere.

    Privacy: what was spent must be on the same account. A release that was charged to a ledger goes on with that
    ledger only, and one that was not goes on without any, so that no ledger knows of half a release. Nothing is
    written: a ledger that is not there is not made.
    """
    from hush.mechanisms.adaptive import pack_settings

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
    if promise.ledger_head is None and ledger is not None:
        raise LedgerError("the release to resume was charged to no ledger; resume it without one")
    if promise.ledger_head is not None:
        if ledger is None:
            raise LedgerError("the release to resume was charged to a ledger; resume it with that ledger")
        try:
            book = ledger if isinstance(ledger, Ledger) else Ledger.open(ledger, dataset=dataset)
            book.verify(expected_head=promise.ledger_head)
        except LedgerError:
            raise LedgerError("the release to resume was charged to another ledger; resume it with that one") from None
