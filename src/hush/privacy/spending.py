"""Spending: opening the account that a release is charged to."""

from __future__ import annotations

import os
from pathlib import Path

from hush.privacy.account import Account, Allowance
from hush.privacy.budget import Budget
from hush.privacy.ledger import Ledger


def open_ledger(place: str | Path | Ledger, budget: Budget, *, dataset: str = "default") -> Ledger:
    """The ledger of a dataset; a file that does not exist yet is created with this budget as its cap.

    So the first release may spend what it states, and a second one needs a cap that someone raised on purpose.
    """
    if isinstance(place, Ledger):
        return place
    return Ledger.open(place, dataset=dataset) if os.path.lexists(place) else Ledger(place, dataset=dataset, cap=budget)


def open_account(budget: Budget, ledger: Ledger | None, release: str) -> Allowance:
    """An allowance of one release, whose charges also go to the ledger."""
    parent: Account | None = None
    if ledger is not None:
        parent = ledger.for_release(release) if release else ledger
    return Allowance(budget, parent)
