"""Statement: what a release promises, in a form to publish."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hush._version import __version__
from hush.errors import ArchiveError, HushError
from hush.privacy.budget import Budget
from hush.privacy.events import Event, event_from_json, price
from hush.privacy.neighbours import Neighbours
from hush.privacy.rational import float_up
from hush.schema.unit import Unit

WARNING = "NOT PRIVATE: made with seeded or watched randomness, for tests only"


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """The privacy of a release: relation, unit, budget, and every event that spent it.

    `private` is False where noise came from a seed; `ledger_head` is the fingerprint of the ledger after the charge.
    """

    budget: Budget
    neighbours: Neighbours
    unit: Unit
    event: Event
    private: bool
    ledger_head: str | None = None
    version: str = __version__

    @property
    def rho(self) -> float:
        """The zCDP that was spent, rounded up."""
        rho = price(self.event).rho
        return float("inf") if rho is None else float_up(rho)

    def lines(self) -> list[tuple[str, str]]:
        """What a person reads: names and values."""
        unit = "one row" if self.unit.column is None else f"one {self.unit.column} (at most {self.unit.max_rows} rows)"
        delta = self.budget.delta or 1e-9
        spent = Budget(rho=self.rho)
        lines = [
            ("Protects", f"{unit}: tables that differ in it lead to nearly the same releases"),
            ("Neighbours", self.neighbours.value),
            ("Budget", str(self.budget)),
            ("Spent", f"rho={self.rho:.6g} zCDP, that is epsilon={spent.epsilon_at(delta):.4g} at delta={delta:g}"),
            ("Noise", "exact discrete Gaussian, bits from the operating system" if self.private else WARNING),
        ]
        return lines if self.ledger_head is None else [*lines, ("Ledger", f"head {self.ledger_head}")]

    def to_json(self) -> dict[str, Any]:
        """The statement as JSON values."""
        return {
            "budget": self.budget.to_json(),
            "neighbours": self.neighbours.name,
            "unit": {"column": self.unit.column, "max_rows": self.unit.max_rows},
            "event": self.event.to_json(),
            "private": self.private,
            "ledger_head": self.ledger_head,
            "hush": self.version,
        }

    @classmethod
    def from_json(cls, body: Any) -> Statement:
        """The statement that `to_json` wrote."""
        try:
            if not isinstance(body, Mapping) or not isinstance(body["private"], bool):
                raise TypeError
            head = body["ledger_head"]
            if head is not None and not isinstance(head, str):
                raise TypeError
            return cls(
                budget=Budget.from_json(body["budget"]),
                neighbours=Neighbours[body["neighbours"]],
                unit=Unit(column=body["unit"]["column"], max_rows=body["unit"]["max_rows"]),
                event=event_from_json(body["event"]),
                private=body["private"],
                ledger_head=head,
                version=str(body["hush"]),
            )
        except (HushError, KeyError, TypeError, AttributeError):
            raise ArchiveError("the file's privacy statement cannot be read; get the release again") from None
