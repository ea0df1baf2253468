"""The ledger for people: tables of the cap, the charges and what is left of a dataset."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

from hush.core.rational import float_up, root_down, shown_down, shown_up
from hush.privacy.account import used_up
from hush.privacy.budget import Budget
from hush.privacy.conversions import gaussian_epsilon, zcdp_epsilon
from hush.privacy.events import (
    ComposedEvent,
    DiscoveryEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    LocalEvent,
    NoisyChoiceEvent,
    PromisedEvent,
    RareKeyEvent,
    SelectionEvent,
    compose,
    price,
)
from hush.privacy.ledger import Ledger
from hush.privacy.ledger.ledger import NEW_DATASET
from hush.privacy.ledger.ledger_chain import CAP, Entry, printable
from hush.privacy.total_epsilon import total_epsilon
from hush.render.text_table import TextColumn, TextTable, number_columns

DEFAULT_DELTA = 1e-6
MOST_LIKE_THE_LAST = 1000  # releases to try
GROUPED_NOTE = "Consecutive charges to one release share a line; --entries lists them all."


def ledger_tables(ledger: Ledger, delta: float | None, *, entries: bool = False) -> tuple[TextTable, TextTable]:
    """A summary of cap, spent and left; then the charges of each release.

    Consecutive charges to one release share a line, unless `entries` is true.
    """
    cap, limit, left = ledger.budget, ledger.limit, ledger.remaining
    spent, unit = limit - left, cap.unit
    at = delta if delta is not None else DEFAULT_DELTA if cap.delta is None else cap.delta
    nothing = used_up(left, limit)
    # What is left, in words: further releases, epsilon, pure noise.
    worth = [] if cap.pure or nothing else [f"alone worth {_worth(cap, left, at)}"]
    pure = ledger.pure_remaining
    if not cap.pure and spent and pure is not None and not used_up(pure, pure + 1):
        worth.append(f"or epsilon={shown_down(pure)} of pure noise")
    if (room := _room(ledger)) is not None:
        worth.insert(0, room)
    stated = str(cap)
    if not cap.pure and (cap.epsilon is None or delta is not None):
        stated += f": {_worth(cap, limit, at)}"
    amounts = ["100 %", _share(spent, limit), f"{math.floor(left / limit * 1000) / 10:g} %"]
    if not cap.approximate:
        amounts = [f"{unit} {text}" for text in (shown_down(limit), _spent(spent, limit), shown_down(left))]
    summary = [
        ("cap", amounts[0], stated),
        ("spent", amounts[1], str(total_epsilon(ledger.events(), at)) if spent else ""),
        ("left", "nothing" if nothing else amounts[2], "; ".join(worth)),
    ]
    groups = [[entry] for entry in ledger.entries()] if entries else _by_release(ledger.entries())
    return (
        TextTable(
            columns=(TextColumn(), TextColumn(), TextColumn(fit="fold")),
            rows=summary,
            title=f"dataset {printable(ledger.dataset, 200)}",
        ),
        _listing(groups, ledger),
    )


def _room(ledger: Ledger) -> str | None:
    """For how many more releases like the last one there is room; None if nothing was charged."""
    charges = [entry for entry in ledger.entries() if entry.action != CAP]
    if not charges:
        return None
    name = charges[-1].release
    last = compose(e.event for e in charges if e.release == name) if name else charges[-1].event
    charged, cost, more = ledger.filter(), price(last), 0
    while more < MOST_LIKE_THE_LAST and (charged := charged.after(last, cost)).kept:
        more += 1
    if not more:
        return "no room for another release like the last one"
    most = f"over {MOST_LIKE_THE_LAST - 1:,}" if more == MOST_LIKE_THE_LAST else f"{more:,}"
    return f"room for {most} more release{'s' if more > 1 else ''} like the last one"


def _by_release(entries: list[Entry]) -> list[list[Entry]]:
    """Groups of consecutive charges to one release; each cap, and each charge without a release, is its own group."""
    groups: list[list[Entry]] = []
    for entry in entries:
        last = groups[-1][-1] if groups else None
        same = last is not None and entry.release and (last.release, last.action) == (entry.release, entry.action)
        if same and entry.action != CAP:
            groups[-1].append(entry)
        else:
            groups.append([entry])
    return groups


def _listing(groups: list[list[Entry]], ledger: Ledger) -> TextTable:
    unit, limit = ledger.budget.unit, ledger.limit
    columns = (
        TextColumn(heading="#", align="right"),
        TextColumn(heading="time (UTC)"),
        TextColumn(heading="release", fit="fold", widest=14),
        TextColumn(heading="what and why", fit="fold"),
        *number_columns("of the cap" if ledger.budget.approximate else unit, "total"),
    )
    rows, running, charged = [], Fraction(0), ledger.filter(empty=True)
    for group in groups:
        first, costs = group[0], ("", "")
        if first.action != CAP:
            before = running
            for entry in group:
                charged.add(entry.event, entry.cost)
            running = limit - max(charged.left, Fraction(0))
            shown = _share if ledger.budget.approximate else _spent
            costs = (shown(running - before, limit), shown(running, limit))
        number = str(first.sequence) if len(group) == 1 else f"{first.sequence}-{group[-1].sequence}"
        what = _what(first) if len(group) == 1 else f"{len(group):,} entries"
        rows.append((number, first.time[:16].replace("T", " "), printable(first.release, 200), what, *costs))
        if len(group) == 1 and first.note:
            new = first.note.startswith(NEW_DATASET)  # its random digits tell people nothing
            rows.append(("", "", "", NEW_DATASET if new else first.note, "", ""))
    shortened = any(len(group) > 1 for group in groups)
    return TextTable(columns=columns, rows=rows, notes=[GROUPED_NOTE] if shortened else [])


def _share(amount: Fraction, limit: Fraction) -> str:
    """An amount as a share of the cap, rounded up.

    >>> _share(Fraction(1, 3), Fraction(1)), _share(Fraction(1, 10**6), Fraction(1))
    ('33.4 %', '0.1 %')
    """
    return f"{math.ceil(amount / limit * 1000) / 10:g} %"


def _spent(amount: Fraction, limit: Fraction) -> str:
    """An amount rounded up, but never above its limit as printed, which is rounded down."""
    up, most = shown_up(amount), shown_down(limit)
    return most if amount <= limit and Fraction(up) > Fraction(most) else up


def _worth(cap: Budget, amount: Fraction, delta: float) -> str:
    """An amount in the unit of a cap as (epsilon, delta)."""
    if cap.approximate:
        epsilon = gaussian_epsilon(math.sqrt(2 * float_up(amount)), delta)
    else:
        epsilon = zcdp_epsilon(float_up(amount), delta)
    return f"epsilon={shown_up(epsilon)} at delta={delta:g}"


def _what(entry: Entry) -> str:
    if entry.action == CAP:
        return f"cap: {entry.cap}"
    event = entry.event
    if not isinstance(event, ComposedEvent):
        return _described(event)
    if len(event.parts) == 1:
        (simple, count) = event.parts[0]
        return f"{count:,} x {_described(simple)}"
    counts: Counter[str] = Counter()
    for simple, count in event.parts:
        counts[simple.kind] += count
    return ", ".join(f"{count:,} x {kind}" for kind, count in counts.items())


def _described(event: Event) -> str:
    match event:
        case GaussianEvent():
            return f"{event.kind}, sigma {shown_down(root_down(event.variance))}"
        case LaplaceEvent():
            return f"{event.kind}, scale {shown_down(event.scale)}"
        case SelectionEvent() | NoisyChoiceEvent():
            return f"{event.kind}, epsilon {shown_up(event.epsilon)}"
        case DiscoveryEvent():
            cost = event.cost
            return f"{event.kind}, epsilon {shown_up(cost.epsilon or Fraction(0))}, delta {shown_up(cost.delta)}"
        case RareKeyEvent():
            return f"{event.kind}, delta {shown_up(event.cost.delta)}"
        case PromisedEvent():
            delta = f", delta {shown_up(event.delta)}" if event.delta else ""
            each = "each client at " if isinstance(event, LocalEvent) else ""
            return f"{event.kind}, {each}epsilon {shown_up(event.epsilon)}{delta}"
        case _:
            return event.kind
