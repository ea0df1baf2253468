"""Spending: opening the account that a release is charged to."""

from __future__ import annotations

import os
from pathlib import Path

from hush.privacy.account import Account, Allowance
from hush.privacy.budget import Budget
from hush.privacy.ledger import Ledger
from hush.privacy.neighbours import Neighbours
from hush.schema.unit import Unit


def open_ledger(place: str | Path | Ledger, budget: Budget, *, dataset: str = "default") -> Ledger:
    """The ledger of a dataset; a file that does not exist yet is created with this budget as its cap.

    So the first release may spend what it states, and a second one needs a cap that someone raised on purpose.
    """
    if isinstance(place, Ledger):
        return place
    return Ledger.open(place, dataset=dataset) if os.path.lexists(place) else Ledger(place, dataset=dataset, cap=budget)


def open_account(budget: Budget, ledger: Ledger | None, *, release: str, terms: str) -> Allowance:
    """An allowance of one release, whose charges also go to the ledger under the release's name and terms."""
    parent: Account | None = None if ledger is None else ledger.for_release(release, terms=terms)
    return Allowance(budget, parent)


def terms_of(neighbours: Neighbours, unit: Unit) -> str:
    """Whom a release protects, and under which relation; costs add up only under the same terms.

    How many rows of a unit are used at most is no part of it: the unit is the same.
    """
    return f"{neighbours.value}: {'one row' if unit.column is None else f'the rows of one {unit.column!r}'}"
