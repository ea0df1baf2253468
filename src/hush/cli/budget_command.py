"""`hush budget`: set the cap of a ledger, raise it, and show what was spent, by which release, and what is left."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import click

import hush
from hush.cli.options import PATH, BudgetOptions, budget_options, dataset_option, json_options
from hush.core.errors import close_match, printable


class LedgerGroup(click.Group):
    """A group that shows a ledger where a file stands in the place of a command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put `show` before what is neither a command nor a request for help."""
        if args and args[0] not in {*self.commands, *ctx.help_option_names}:
            near = close_match(args[0], self.commands)
            if near is not None and len(args) > 1 and not os.path.lexists(args[0]) and not ctx.resilient_parsing:
                raise click.UsageError(f"no command {args[0]!r}, and no such file; did you mean {near}?", ctx)
            args = ["show", *args]
        return super().parse_args(ctx, args)


@click.group(cls=LedgerGroup)
def budget() -> None:
    """Set, show or raise what may be spent on a dataset.

    `hush budget FILE` is short for `hush budget show FILE`.
    """


@budget.command()
@click.argument("file", type=PATH)
@budget_options
@dataset_option
def init(file: Path, limit: BudgetOptions, dataset: str) -> None:
    """Set the cap of a dataset, before anything is released.

    Makes the ledger FILE, or adds a dataset to it. All releases that name it with --ledger share the cap. A dataset
    that has a cap keeps it: see `hush budget raise`.
    """
    ledger = hush.Ledger.create(file, limit.read(), dataset=dataset)
    words = shlex.join(["--ledger", str(file), *([] if dataset == "default" else ["--dataset", dataset])])
    click.echo(printable(f"{file}, dataset {dataset!r}: all releases together may spend {ledger.budget}."))
    click.echo(printable(f"Release with {words}; see what is left with `{shlex.join(['hush', 'budget', str(file)])}`."))
    click.echo(f"head: {ledger.head}")


@budget.command("raise")
@click.argument("file", type=PATH)
@budget_options
@click.option("--reason", default="", help="Why; it is recorded for good.  [required]")
@dataset_option
def raise_cap(file: Path, limit: BudgetOptions, reason: str, dataset: str) -> None:
    """Raise the cap of a dataset, so that more may be spent on it.

    Everyone in the data is then promised less. The new cap, the time and the reason are an entry of FILE that stays; no
    cap is ever lowered. An --epsilon alone keeps the delta of the cap.
    """
    ledger = hush.Ledger.open(file, dataset=dataset)
    before = ledger.budget
    if limit.epsilon is not None and limit.delta is None and before.delta:
        limit = BudgetOptions(limit.epsilon, before.delta, limit.rho, limit.mu)
    ledger.raise_cap(limit.read(), reason=reason)
    click.echo(printable(f"{file}, dataset {dataset!r}: the cap was {before} and is {ledger.budget} now."))
    click.echo("Everyone in the data is now promised less, over all releases together. The raise stays on record.")
    click.echo(f"head: {ledger.head}")


@budget.command()
@click.argument("file", type=PATH)
@click.option("--dataset", help="Show only this dataset.")
@click.option("--delta", type=float, help="Show epsilon at this delta.")
@click.option("--entries", is_flag=True, help="Show every entry instead of one line per release.")
@json_options
@click.option("--expect-head", metavar="HEX", help="Fail unless the ledger contains this earlier head.")
def show(
    file: Path,
    dataset: str | None,
    delta: float | None,
    entries: bool,
    as_json: bool,
    expect_head: str | None,
) -> None:
    """Show the ledger FILE: what was spent and what is left.

    Lists the caps and the charge of each release, and checks that no entry was changed or removed.
    """
    from rich.console import Console
    from rich.text import Text

    from hush.privacy.budget import require_delta
    from hush.privacy.ledger.ledger_view import ledger_tables

    require_delta(0.0 if delta is None else delta)
    ledgers = hush.Ledger.open_all(file) if dataset is None else [hush.Ledger.open(file, dataset=dataset)]
    ledgers[0].verify(expect_head)
    if as_json:
        click.echo(json.dumps([ledger.to_dict() for ledger in ledgers], indent=2))
        return
    console = Console()
    for ledger in ledgers:
        console.print(*ledger_tables(ledger, delta, entries=entries))
        console.print()
    expected = "; the expected head is in it" if expect_head else ""
    console.print(Text(f"chain whole: every hash, cost and total was recomputed and agrees{expected}"))
    console.print(Text(f"head: {ledgers[0].head}"))
    console.print(Text("Spent epsilon assumes noise levels set in advance; the cap holds either way.", style="dim"))
