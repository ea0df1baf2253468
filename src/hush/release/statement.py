"""Statement: the privacy that a release promises, in a form to publish; and whether its measurements bear it out.

A statement is text in a file, and anybody can edit it. The queries and the laws of their noise say what they cost, so
the cost is computed again, event by event. Noise events must match in kind, sensitivity and scale; choices on record
must match in epsilon; all events together must keep to the budget.

A statement may say more than the measurements: choices that left no round, and tables of a run that was killed after a
charge, are paid for and not in the file. It never says less. Answers to a fixed strategy are paid for by one charge, so
there the noise events are the same on both sides. A run may spend less than its budget.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hush._version import __version__
from hush.core.errors import ArchiveError, BudgetError, HushError, printable
from hush.core.rational import float_up, shown_up
from hush.core.unit import Unit
from hush.files.codec import Stored, unpack
from hush.privacy.budget import Budget, number_text
from hush.privacy.events import (
    CHOICE_EVENTS,
    ComposedEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    NoisyChoiceEvent,
    SelectionEvent,
    event_from_dict,
    price,
)
from hush.privacy.gaussian_filter import keeps
from hush.privacy.noise import Noise
from hush.privacy.sensitivity import Neighbours, RowNorms, sensitivity
from hush.schema.schema import drafted_text

if TYPE_CHECKING:
    from hush.release.record import Record

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
ROUNDING_SLACK = Fraction(1, 10**9)  # other machines may round the last digits of noise or budgets differently
LARGEST_EPSILON = 2**64  # of a choice; larger ones do not fit a float
LONGEST_TEXT = 4096  # characters of a fraction in a file; hush writes a few dozen
MOST_EVENTS = 2**40  # of one kind in a file; a release measures at most some millions of tables
LONGEST_SUM = 2**21  # bits of the denominators of all costs: those of 50,000 different noises, added up in seconds


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
        noise = "none: there was nothing to protect"
        if self.charged:
            kinds = {type(event) for event, _ in event_parts(self.event)}
            laws = [law for kind, law in NOISE_NAMES.items() if kind in kinds] or ["discrete Gaussian"]
            noise = f"exact {' and '.join(laws)}, bits from the operating system"
        lines = [
            ("Protects", f"{unit}: {change} it {effect}"),
            *([] if column is None else [("Rows used", f"{self.unit.cap_text}. {LEFT_OUT}")]),
            ("Neighbours", self.neighbours.value),
            ("Budget", str(self.budget)),
            ("Spent", self._spent()),
            ("Noise", SEEDED_NOISE if self.seeded else noise),
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
        if self.budget.epsilon is not None and keeps(self.budget, self.event, slack=ROUNDING_SLACK):
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
        notion = "in Gaussian DP, and " if self.budget.approximate else ""
        worth = f"epsilon={shown_up(epsilon)} at delta={number_text(delta)}"
        return f"{worth}, {notion}rho={shown_up(cost.rho)} of zCDP"

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
            # Refuse costs whose exact sum would have millions of digits and take days.
            costs = [inner.cost.rho for inner, _ in event_parts(event)]
            denominators = {rho.denominator for rho in costs if rho is not None}
            if sum(denominator.bit_length() for denominator in denominators) > LONGEST_SUM:
                raise ArchiveError("the events of the file have no short sum")
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


def measured_event(statement: Statement, record: Record) -> ComposedEvent:
    """What the noise of every answer and every choice on record cost a unit of the statement, as one event."""
    noise = noise_events(statement, record.all_law_counts())
    choices = Counter(SelectionEvent(Fraction(played.epsilon)) for played in record.rounds if played.epsilon > 0)
    return ComposedEvent((*noise.items(), *choices.items()))


def noise_events(statement: Statement, laws: Mapping[tuple[RowNorms, Noise], int]) -> Counter[Event]:
    """The events of queries with these norms and noise laws, each with how often it happened."""
    events: Counter[Event] = Counter()
    for (norms, law), count in laws.items():
        bound = sensitivity(norms, max_rows=statement.unit.max_rows, neighbours=statement.neighbours)
        events[law.event(bound)] += count
    return events


def contradiction(statement: Statement, record: Record) -> str | None:
    """Explain why a statement is not that of these measurements; None if it is."""
    unpaid, unused = noise_differences(statement, record)
    if unpaid:
        return "it holds a table whose noise it does not account for"
    if unused and record.charged_at_once:
        return "it accounts for noise that it does not hold"
    choices: Counter[float] = Counter()
    for event, count in event_parts(statement.event):
        if isinstance(event, SelectionEvent) and event.epsilon < LARGEST_EPSILON:
            choices[float(event.epsilon)] += count
    if Counter(played.epsilon for played in record.rounds if played.epsilon > 0) - choices:
        return "it holds a choice that it does not account for"
    # All stated events together must keep to the stated budget.
    try:
        within = keeps(statement.budget, statement.event, slack=ROUNDING_SLACK)
    except BudgetError as error:
        return str(error)
    return None if within else "it spent more than its budget"


def noise_differences(statement: Statement, record: Record) -> tuple[Counter[Event], Counter[Event]]:
    """Noise that was measured and is not stated, and noise that is stated and was not measured."""
    parts = event_parts(statement.event)
    stated = Counter({event: count for event, count in parts if not isinstance(event, CHOICE_EVENTS)})
    return unmatched(noise_events(statement, record.all_law_counts()), stated)


def unmatched(measured: Counter[Event], stated: Counter[Event]) -> tuple[Counter[Event], Counter[Event]]:
    """What each side has that the other lacks; noise counts as equal up to `ROUNDING_SLACK`."""
    unpaid, unused = measured - stated, stated - measured
    waiting: dict[Any, deque[Event]] = {}
    for event in sorted(unused, key=_noise):
        waiting.setdefault(_kind(event), deque()).append(event)
    for event in sorted(unpaid, key=_noise):
        alike, noise = waiting.get(_kind(event), deque()), _noise(event)
        while unpaid[event] and alike and _noise(alike[0]) <= noise * (1 + ROUNDING_SLACK):
            other = alike[0]
            if _noise(other) >= noise * (1 - ROUNDING_SLACK):
                matched = min(unpaid[event], unused[other])
                unpaid[event] -= matched
                unused[other] -= matched
            if not unused[other] or _noise(other) < noise * (1 - ROUNDING_SLACK):
                alike.popleft()
    return +unpaid, +unused


def _noise(event: Event) -> Fraction:
    """The variance or scale of noise; 0 for events without."""
    first = next(iter(astuple(event)), 0)
    return first if isinstance(first, Fraction) else Fraction(0)


def _kind(event: Event) -> tuple[Any, ...]:
    """The type of an event and all but the scale of its noise."""
    return type(event), *astuple(event)[1:]


def uncharged(statement: Statement, charged: Iterable[Event]) -> Counter[Event]:
    """The stated events that are not among those that a ledger was charged for."""
    recorded: Counter[Event] = Counter()
    for event in charged:
        recorded.update(dict(event_parts(event)))
    return Counter(dict(event_parts(statement.event))) - recorded
