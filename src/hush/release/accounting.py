"""Accounting: what the measurements of a release cost, and whether its statement pays for each of them.

A statement is text in a file, and anybody can edit it. The queries and the laws of their noise say what they cost, so
the cost is computed again, event by event. Noise events must match in kind, sensitivity and scale; choices on record
must match in epsilon; all events together must keep to the budget.

A statement may say more than this: choices that left no round, and tables of a run that was killed after a charge, are
paid for and not in the file. It never says less. Answers to a fixed strategy are paid for by one charge, so there the
noise events are the same on both sides. A budget above the cost is no contradiction: a run may spend less than it may.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import astuple
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hush.core.errors import BudgetError
from hush.privacy.events import CHOICE_EVENTS, ComposedEvent, Event, SelectionEvent, price
from hush.privacy.noise import Noise
from hush.privacy.privacy_filter import Tally, is_within
from hush.privacy.sensitivity import RowNorms, sensitivity
from hush.release.statement import Statement, event_parts

if TYPE_CHECKING:
    from hush.release.record import Record

ROUNDING_SLACK = Fraction(
    1, 10**9
)  # other machines and versions may round the same noise or budget to other last digits
LARGEST_EPSILON = 2**64


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
    return beyond_budget(statement)


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


def beyond_budget(statement: Statement) -> str | None:
    """Explain that the stated events exceed the stated budget; None if they do not."""
    tally = Tally()
    try:
        cost, most = price(statement.event), statement.budget.limit * (1 + ROUNDING_SLACK)
        tally.add(statement.event, cost)
        within = is_within(statement.budget, most, cost, tally)
    except BudgetError as error:
        return str(error)
    return None if within else "it spent more than its budget"
