"""Promises: one ledger for both groups, which shows what opt-in people and clients were promised.

Each group is a dataset of the ledger. The gate charges opt-in people when it measures them. Clients are charged when a
question is published: every device that answers keeps the promise of the question, and the costs of several questions
add up.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from fractions import Fraction

from hush.core.errors import BudgetError
from hush.core.rational import float_up
from hush.core.validation import check_whole
from hush.hybrid.client.question import Question
from hush.privacy.account import Account, Allowance
from hush.privacy.budget import Budget
from hush.privacy.events import LocalEvent
from hush.privacy.ledger import Ledger, open_account

# datasets of the ledger
CLIENTS = "clients"
DISCOVERY = "opt-in, discovery"
ESTIMATION = "opt-in, estimation"
# terms of charges
CURATOR_TERMS = "replace one unit: one opt-in person"
CLIENT_TERMS = "replace one unit: one client's own value, on the device"


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """The epsilon and delta promised to every person of either group, and the ledger that records it.

    The ledger is a file. A dataset that is new to the ledger gets this promise as its cap, unless a larger cap was set
    with `hush budget init --dataset`.
    """

    epsilon: Fraction
    delta: Fraction = Fraction(0)
    ledger: str | None = None
    release: str = "hybrid"

    @classmethod
    def of(
        cls,
        epsilon: float | str | Fraction,
        delta: float | str | Fraction = 0,
        *,
        ledger: str | None = None,
        release: str = "hybrid",
    ) -> Promise:
        """A promise from numbers or texts; 0.1 means 1/10."""
        exact = [Fraction(repr(value) if isinstance(value, float) else value) for value in (epsilon, delta)]
        return cls(epsilon=exact[0], delta=exact[1], ledger=ledger, release=release)

    def __post_init__(self) -> None:
        if not self.epsilon > 0 or not 0 <= self.delta <= Fraction(1, 2):
            raise BudgetError(
                f"epsilon={float(self.epsilon):g}, delta={float(self.delta):g}: expected epsilon above 0 and delta "
                "from 0 to 1/2"
            )

    @property
    def budget(self) -> Budget:
        """The least budget in floats that covers the promise."""
        return Budget(epsilon=float_up(self.epsilon), delta=float_up(self.delta))

    def account(self, dataset: str) -> Account:
        """The account of one group of opt-in people, within the promise and the ledger."""
        return open_account(self.budget, self._ledger(dataset), release=self.release, terms=CURATOR_TERMS)

    def record_question(self, question: Question, *, places: int = 1) -> None:
        """Charge the clients' dataset for a question, before it is published; raises BudgetError beyond its cap.

        `places` is the number of reports of each device (`Device.answer_places`), all of which are charged.
        """
        check_whole(BudgetError, "places", places, least=1)
        event = LocalEvent(places * question.epsilon, places * question.delta)
        each = f", {places} reports of each device" if places > 1 else ""
        note = f"question {question.name}: {question.kind} by {question.mechanism}{each}"
        ledger = self._ledger(CLIENTS)
        if ledger is None:
            Allowance(self.budget).charge(event, note=note)
        else:
            ledger.charge(event, note=note, release=f"question {question.id}", terms=CLIENT_TERMS)

    def _ledger(self, dataset: str) -> Ledger | None:
        if self.ledger is None:
            return None
        known = {book.dataset for book in Ledger.open_all(self.ledger)} if os.path.lexists(self.ledger) else set()
        return Ledger(self.ledger, dataset=dataset, cap=None if dataset in known else self.budget)
