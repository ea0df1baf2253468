"""The tables of `hush budget`: the cap, the charges and what is left of one dataset.

`hush budget`: what was spent, by which release, and what is left.
"""

from __future__ import annotations

import os
from collections import Counter
from fractions import Fraction
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

import hush
from hush.errors import BudgetError, LedgerError
from hush.privacy.account import used_up
from hush.privacy.accounting import total_epsilon
from hush.privacy.budget import Budget
from hush.privacy.conversions import zcdp_epsilon
from hush.privacy.events import ComposedEvent, Event, GaussianEvent, LaplaceEvent, SelectionEvent
from hush.privacy.ledger import Ledger
from hush.privacy.ledger_chain import CAP, Entry, printable
from hush.privacy.rational import float_up, root_down, shown_down, shown_up

USUAL_DELTA = 1e-6
SHORTENED = "Charges in a row to one release are one line; --entries shows each."


def print_ledger(console: Console, ledger: Ledger, delta: float | None, *, entries: bool = False) -> None:
    """Show what a ledger allows, what was spent and by which release, and what is left.

    Entries of one release that follow each other are one line, unless every one of the `entries` is wanted.
    """
    cap, spent, left = ledger.budget, Fraction(ledger.budget.spent(ledger.total)), ledger.remaining
    unit = "epsilon" if cap.pure else "rho"
    at = delta if delta is not None else USUAL_DELTA if cap.delta is None else cap.delta
    console.print(Text(f"dataset {printable(ledger.dataset, 200)}", style="bold"))
    summary = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    summary.add_row("cap", f"{unit} {shown_down(spent + left)}", _stated(cap, spent + left, delta, at))
    summary.add_row(
        "spent", f"{unit} {_spent(spent, spent + left)}", str(total_epsilon(ledger.events(), at)) if spent else ""
    )
    nothing = used_up(left, spent + left)
    worth = "" if cap.pure or nothing else f"by itself worth {_worth(left, at)}"
    summary.add_row("left", "nothing" if nothing else f"{unit} {shown_down(left)}", worth)
    console.print(summary)
    groups = [[entry] for entry in ledger.entries()] if entries else _by_release(ledger.entries())
    console.print(_listing(groups, cap, spent + left, unit))
    if any(len(group) > 1 for group in groups):
        console.print(Text(SHORTENED, style="dim"))
    console.print()


def _by_release(entries: list[Entry]) -> list[list[Entry]]:
    """Charges to one release that follow each other, together; caps, and charges to no release, by themselves."""
    groups: list[list[Entry]] = []
    for entry in entries:
        last = groups[-1][-1] if groups else None
        same = last is not None and entry.release and (last.release, last.action) == (entry.release, entry.action)
        if same and entry.action != CAP:
            groups[-1].append(entry)
        else:
            groups.append([entry])
    return groups


def _listing(groups: list[list[Entry]], cap: Budget, limit: Fraction, unit: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("time (UTC)", no_wrap=True)
    table.add_column("release", overflow="fold", max_width=14)
    table.add_column("what and why", overflow="fold")
    table.add_column(unit, justify="right", no_wrap=True)
    table.add_column("total", justify="right", no_wrap=True)
    running = Fraction(0)
    for group in groups:
        first, costs = group[0], ["", ""]
        if first.action != CAP:
            cost = sum((Fraction(cap.spent(entry.cost)) for entry in group), Fraction(0))
            running += cost
            costs = [_spent(cost, limit), _spent(running, limit)]
        number = str(first.sequence) if len(group) == 1 else f"{first.sequence}-{group[-1].sequence}"
        time, what = first.time[:16].replace("T", " "), _said(first) if len(group) == 1 else f"{len(group):,} entries"
        table.add_row(*(Text(cell) for cell in [number, time, printable(first.release, 200), what, *costs]))
    return table


def _spent(amount: Fraction, limit: Fraction) -> str:
    """An amount rounded up, but not beyond what is shown of the limit that it is within, which is rounded down."""
    up, most = shown_up(amount), shown_down(limit)
    return most if amount <= limit and Fraction(up) > Fraction(most) else up


def _said(entry: Entry) -> str:
    return "\n".join(filter(None, (_what(entry), entry.note)))


def _stated(cap: Budget, limit: Fraction, delta: float | None, at: float) -> str:
    if cap.pure or (cap.epsilon is not None and delta is None):
        return str(cap)
    return f"{cap}: {_worth(limit, at)}"


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
        (part, count) = event.parts[0]
        return f"{count:,} x {_described(part)}"
    counts: Counter[str] = Counter()
    for part, count in event.parts:
        counts[part.kind] += count
    return ", ".join(f"{count:,} x {kind}" for kind, count in counts.items())


def _described(event: Event) -> str:
    match event:
        case GaussianEvent():
            return f"{event.kind}, sigma {shown_down(root_down(event.variance))}"
        case LaplaceEvent():
            return f"{event.kind}, scale {shown_down(event.scale)}"
        case SelectionEvent():
            return f"{event.kind}, epsilon {shown_up(event.epsilon)}"
        case _:
            return event.kind


ADAPTIVE = "The epsilon spent is for scales fixed beforehand; the cap holds however they were chosen."


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--dataset", help="Show, or create, only this dataset.  [create: default]")
@click.option("--delta", type=float, help="Show epsilon at this delta; with --create, the delta of the cap.")
@click.option("--entries", is_flag=True, help="Show every entry; without it, one line for each release.")
@click.option("--expect-head", metavar="HEX", help="Fail unless the ledger holds this head of an earlier state.")
@click.option("--create", is_flag=True, help="Start a ledger, or a dataset in it, with the cap given here.")
@click.option("--raise-cap", is_flag=True, help="Replace the cap by the larger one given here; needs --reason.")
@click.option("--reason", help="With --raise-cap: why; it is recorded for good.")
@click.option("--epsilon", type=float, help="With --create or --raise-cap: the cap's epsilon.")
@click.option("--rho", type=float, help="With --create or --raise-cap: the cap in zCDP.")
@click.option("--mu", type=float, help="With --create or --raise-cap: the cap in Gaussian DP.")
def budget(
    file: Path,
    dataset: str | None,
    delta: float | None,
    entries: bool,
    expect_head: str | None,
    create: bool,
    raise_cap: bool,
    reason: str | None,
    epsilon: float | None,
    rho: float | None,
    mu: float | None,
) -> None:
    """Show the ledger FILE: what was spent and what is left.

    Shows caps and what each release was charged, and whether the chain of entries is whole.
    """
    from rich.console import Console
    from rich.text import Text

    if create:
        cap = hush.Budget(epsilon=epsilon, delta=delta, rho=rho, mu=mu)
        ledgers = [_created(file, dataset or "default", cap)]
        delta = None
    elif raise_cap:
        ledgers = [hush.Ledger.open(file, dataset=dataset or "default")]
        ledgers[0].raise_cap(hush.Budget(epsilon=epsilon, delta=delta, rho=rho, mu=mu), reason=reason or "")
        delta = None
    elif (epsilon, rho, mu) != (None, None, None):
        raise click.UsageError("--epsilon, --rho and --mu state a cap; add --create or --raise-cap")
    elif delta is not None and not 0 <= delta < 1:
        raise BudgetError(f"delta={delta}: expected a number in [0, 1), such as 1e-6")
    else:
        ledgers = hush.Ledger.open_all(file) if dataset is None else [hush.Ledger.open(file, dataset=dataset)]
    ledgers[0].verify(expect_head)
    console = Console()
    for ledger in ledgers:
        print_ledger(console, ledger, delta, entries=entries)
    found = "; the expected head is in it" if expect_head else ""
    console.print(Text(f"chain whole: every hash, cost and total was recomputed and agrees{found}"))
    console.print(Text(f"head: {ledgers[0].head}"))
    console.print(Text(ADAPTIVE, style="dim"))


def _created(file: Path, dataset: str, cap: hush.Budget) -> hush.Ledger:
    if os.path.lexists(file) and dataset in [ledger.dataset for ledger in hush.Ledger.open_all(file)]:
        raise LedgerError(f"{file} has a dataset {dataset!r} already; leave out --create to see it")
    return hush.Ledger(file, dataset=dataset, cap=cap)
