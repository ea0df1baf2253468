"""The ledger for people: tables of the cap, the charges and what is left of a dataset."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

from hush.core.rational import float_up, root_down, shown_down, shown_up
from hush.privacy.account import used_up
from hush.privacy.budget import Budget, Cost
from hush.privacy.conversions import zcdp_epsilon
from hush.privacy.events import (
    ComposedEvent,
    DiscoveryEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    LocalEvent,
    NoisyChoiceEvent,
    PromisedEvent,
    SelectionEvent,
)
from hush.privacy.ledger import Ledger
from hush.privacy.ledger_chain import CAP, Entry, printable
from hush.privacy.privacy_filter import Tally, left_of
from hush.privacy.total_epsilon import total_epsilon
from hush.render.text_table import TextColumn, TextTable, number_columns

DEFAULT_DELTA = 1e-6
GROUPED_NOTE = "Consecutive charges to one release share a line; --entries lists them all."


def ledger_tables(ledger: Ledger, delta: float | None, *, entries: bool = False) -> tuple[TextTable, TextTable]:
    """A summary of cap, spent and left; then the charges of each release.

    Consecutive charges to one release share a line, unless `entries` is true.
    """
    cap, limit, left = ledger.budget, ledger.limit, ledger.remaining
    spent, unit = limit - left, "epsilon" if cap.pure else "rho"
    at = delta if delta is not None else DEFAULT_DELTA if cap.delta is None else cap.delta
    nothing = used_up(left, limit)
    worth = [] if cap.pure or nothing else [f"alone worth {_worth(left, at)}"]
    if not cap.pure and spent and (pure := ledger.pure_remaining) is not None and not used_up(pure, pure + 1):
        worth.append(f"or epsilon={shown_down(pure)} of pure noise, like all charges so far")
    stated = str(cap)
    if not cap.pure and (cap.epsilon is None or delta is not None):
        stated += f": {_worth(limit, at)}"
    summary = [
        ("cap", f"{unit} {shown_down(limit)}", stated),
        ("spent", f"{unit} {_spent(spent, limit)}", str(total_epsilon(ledger.events(), at)) if spent else ""),
        ("left", "nothing" if nothing else f"{unit} {shown_down(left)}", "; ".join(worth)),
    ]
    groups = [[entry] for entry in ledger.entries()] if entries else _by_release(ledger.entries())
    return (
        TextTable(
            columns=(TextColumn(), TextColumn(), TextColumn(fit="fold")),
            rows=summary,
            title=f"dataset {printable(ledger.dataset, 200)}",
        ),
        _listing(groups, cap, limit, unit),
    )


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


def _listing(groups: list[list[Entry]], cap: Budget, limit: Fraction, unit: str) -> TextTable:
    columns = (
        TextColumn(heading="#", align="right"),
        TextColumn(heading="time (UTC)"),
        TextColumn(heading="release", fit="fold", widest=14),
        TextColumn(heading="what and why", fit="fold"),
        *number_columns(unit, "total"),
    )
    rows, running, total, tally = [], Fraction(0), Cost(), Tally()
    for group in groups:
        first, costs = group[0], ("", "")
        if first.action != CAP:
            before = running
            for entry in group:
                total = total + entry.cost
                tally.add(entry.event, entry.cost)
            running = limit - max(left_of(cap, limit, total, tally), Fraction(0))
            costs = (_spent(running - before, limit), _spent(running, limit))
        number = str(first.sequence) if len(group) == 1 else f"{first.sequence}-{group[-1].sequence}"
        what = _what(first) if len(group) == 1 else f"{len(group):,} entries"
        rows.append((number, first.time[:16].replace("T", " "), printable(first.release, 200), what, *costs))
        if len(group) == 1 and first.note:
            rows.append(("", "", "", first.note, "", ""))
    shortened = any(len(group) > 1 for group in groups)
    return TextTable(columns=columns, rows=rows, notes=[GROUPED_NOTE] if shortened else [])


def _spent(amount: Fraction, limit: Fraction) -> str:
    """An amount rounded up, but never above its limit as printed, which is rounded down."""
    up, most = shown_up(amount), shown_down(limit)
    return most if amount <= limit and Fraction(up) > Fraction(most) else up


def _worth(rho: Fraction, delta: float) -> str:
    """An amount of zCDP as (epsilon, delta)."""
    epsilon = zcdp_epsilon(float_up(rho), delta)
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
        case PromisedEvent():
            delta = f", delta {shown_up(event.delta)}" if event.delta else ""
            each = "each client at " if isinstance(event, LocalEvent) else ""
            return f"{event.kind}, {each}epsilon {shown_up(event.epsilon)}{delta}"
        case _:
            return event.kind
