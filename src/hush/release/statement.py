"""Statement: the privacy that a release promises, in a form to publish."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hush._version import __version__
from hush.core.errors import ArchiveError, HushError, printable
from hush.core.rational import float_up, shown_up
from hush.core.unit import Unit
from hush.files.codec import Stored, unpack
from hush.privacy.budget import Budget, number_text
from hush.privacy.events import (
    ComposedEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    NoisyChoiceEvent,
    SelectionEvent,
    event_from_dict,
    price,
)
from hush.privacy.sensitivity import Neighbours
from hush.schema.schema import drafted_text

STAMP = "NOT PRIVATE"
SEEDED_CAVEAT = f"{STAMP}: the noise of this release came from a seed, for tests only."
UNPROTECTED_TEXT = "no noise protects what they show, and the release was made on the word that they are public"
SEEDED_NOISE = f"{STAMP}: made with seeded or watched randomness, for tests only"
LEFT_OUT = "How many rows were left out is not in this release; `hush schema check SCHEMA DATA` shows the owner."
NOISE_NAMES = {
    GaussianEvent: "discrete Gaussian",
    LaplaceEvent: "discrete Laplace",
    SelectionEvent: "choices by the exponential mechanism",
    NoisyChoiceEvent: "choices by noisy scores",
}
LONGEST_TEXT = 4096  # characters of a fraction in a file; hush writes a few dozen
MOST_EVENTS = 2**40  # of one kind in a file; a release measures at most some millions of tables
LONGEST_SUM = 2**16  # bits of the denominators of all costs; hush writes powers of two, which share a few dozen


class UnitFile(Stored):
    """A privacy unit in a file."""

    column: str | None
    max_rows: int


class StatementFile(Stored):
    """A statement in a file; its event is read only after its numbers proved short."""

    budget: dict[str, float]
    neighbours: Neighbours
    unit: UnitFile
    event: dict[str, Any]
    private: bool
    seeded: bool
    drafted: list[str]
    constraints: str | None
    ledger_head: str | None
    hush: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """The privacy of a release: relation, unit, budget, and every event that spent it.

    `seeded` is True if the noise came from a seed. `drafted` names the columns and rules of the schema that came from
    private data, whose owner asserted that they are public. With either, nothing is promised and `private` is False.
    `constraints` is the fingerprint of the schema's rules; `ledger_head` is that of the ledger after the charge.
    """

    budget: Budget
    neighbours: Neighbours
    unit: Unit
    event: Event
    seeded: bool
    drafted: tuple[str, ...] = ()
    constraints: str | None = None
    ledger_head: str | None = None
    version: str = __version__

    @property
    def private(self) -> bool:
        """Whether the promise holds: the noise was not seeded, and the schema was not drafted from private data."""
        return not (self.seeded or self.drafted)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why the promise does not hold, as notes for everything made from the release; empty if it holds."""
        return (*((SEEDED_CAVEAT,) if self.seeded else ()), *drafted_warning(self.drafted))

    @property
    def rho(self) -> float:
        """The zCDP that was spent, rounded up."""
        rho = price(self.event).rho
        return float("inf") if rho is None else float_up(rho)

    def lines(self) -> list[tuple[str, str]]:
        """Names and values of the statement as text."""
        column, rows = self.unit.column, self.unit.max_rows
        unit = "one row" if column is None else f"one {printable(column)} (at most {rows} row{'s' if rows > 1 else ''})"
        change = "replacing" if self.neighbours is Neighbours.REPLACE else "adding or removing"
        effect = "barely changes the result" if self.charged else "changes nothing, since nothing was measured"
        lines = [
            ("Protects", f"{unit}: {change} it {effect}"),
            *([] if column is None else [("Rows used", f"{self.unit.cap_text}. {LEFT_OUT}")]),
            ("Neighbours", self.neighbours.value),
            ("Budget", str(self.budget)),
            ("Spent", self._spent()),
            ("Noise", SEEDED_NOISE if self.seeded else self._law()),
        ]
        if self.drafted:
            lines.append(("Schema", f"{STAMP}: {drafted_text(self.drafted)}; {UNPROTECTED_TEXT}"))
        if self.constraints is not None:
            lines.append(("Rules", f"combinations that the schema excludes, SHA-256 {self.constraints}"))
        return lines if self.ledger_head is None else [*lines, ("Ledger", f"head {printable(self.ledger_head)}")]

    @property
    def charged(self) -> bool:
        """Whether anything was measured or chosen; if not, nothing was spent."""
        return bool(event_parts(self.event))

    def _law(self) -> str:
        """Which noise was added, and whether something was chosen at random."""
        if not self.charged:
            return "none: there was nothing to protect"
        kinds = {type(event) for event, _ in event_parts(self.event)}
        laws = [law for kind, law in NOISE_NAMES.items() if kind in kinds] or ["discrete Gaussian"]
        return f"exact {' and '.join(laws)}, bits from the operating system"

    @property
    def spent(self) -> tuple[float, float] | None:
        """The epsilon and delta that were spent, epsilon rounded up; None if nothing bounds them."""
        pure = price(self.event).epsilon
        if pure is not None:
            return float_up(pure), 0.0
        rho, delta = price(self.event).rho, self.budget.delta or 1e-9
        if rho is None or math.isinf(float_up(rho)):
            return None
        epsilon = Budget(rho=float_up(rho)).epsilon_at(delta)
        if self.budget.epsilon is not None and rho <= self.budget.limit:
            epsilon = min(epsilon, self.budget.epsilon)  # a cost within the limit keeps what the budget states
        return epsilon, delta

    def _spent(self) -> str:
        """What was spent, rounded up, so that the text never promises too much privacy."""
        cost = price(self.event)
        if not self.charged:
            return "nothing: no row was counted, and nothing was measured"
        if cost.epsilon is not None:
            return f"epsilon={shown_up(cost.epsilon)} of pure differential privacy"
        if cost.rho is None or self.spent is None:
            return "without bound: no budget covers it"
        epsilon, delta = self.spent
        return f"rho={shown_up(cost.rho)} zCDP, that is epsilon={shown_up(epsilon)} at delta={number_text(delta)}"

    def __str__(self) -> str:
        return "\n".join(f"{name:10}  {value}" for name, value in self.lines())

    def to_dict(self) -> dict[str, Any]:
        """The statement as JSON values."""
        return {
            "budget": self.budget.to_dict(),
            "neighbours": self.neighbours.value,
            "unit": {"column": self.unit.column, "max_rows": self.unit.max_rows},
            "event": self.event.to_dict(),
            "private": self.private,
            "seeded": self.seeded,
            "drafted": list(self.drafted),
            "constraints": self.constraints,
            "ledger_head": self.ledger_head,
            "hush": self.version,
        }

    @classmethod
    def from_dict(cls, body: Any) -> Statement:
        """The statement that `to_dict` wrote."""
        content: StatementFile = unpack(StatementFile, body, None, "privacy statement")
        try:
            _check_lengths(content.event)
            event = event_from_dict(content.event)
            _check_sum(event)
            statement = cls(
                budget=Budget.from_dict(content.budget),
                neighbours=content.neighbours,
                unit=Unit(column=content.unit.column, max_rows=content.unit.max_rows),
                event=event,
                seeded=content.seeded,
                drafted=tuple(content.drafted),
                constraints=content.constraints,
                ledger_head=content.ledger_head,
                version=content.hush,
            )
        except (HushError, TypeError, ValueError, ArithmeticError):
            raise ArchiveError("the file's privacy statement cannot be read; get the release again") from None
        if content.private != statement.private:
            raise ArchiveError("the file's privacy statement contradicts itself; get the release again")
        return statement


def drafted_warning(names: Sequence[str]) -> tuple[str, ...]:
    """A note that these parts of a schema came from private data; none where there are none."""
    return (f"{STAMP}: parts of the schema were {drafted_text(names)}.",) if names else ()


def event_parts(event: Event) -> tuple[tuple[Event, int], ...]:
    """The events that an event is composed of, each with how often."""
    return tuple(event.parts) if isinstance(event, ComposedEvent) else ((event, 1),)


def _check_lengths(body: Any) -> None:
    """Refuse long texts before they are read as fractions, and counts that no release can have."""
    stack = [body]
    while stack:
        value = stack.pop()
        if isinstance(value, str) and len(value) > LONGEST_TEXT:
            raise ArchiveError("an event of the file is too long")
        if isinstance(value, int | float) and value > MOST_EVENTS:
            raise ArchiveError("an event of the file happened more often than any can")
        if isinstance(value, Mapping | list):
            stack.extend(value.values() if isinstance(value, Mapping) else value)


def _check_sum(event: Event) -> None:
    """Refuse costs whose exact sum would have millions of digits and take days."""
    denominators = {rho.denominator for inner, _ in event_parts(event) if (rho := inner.cost.rho) is not None}
    if sum(denominator.bit_length() for denominator in denominators) > LONGEST_SUM:
        raise ArchiveError("the events of the file have no short sum")
