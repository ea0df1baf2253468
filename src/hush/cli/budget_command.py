"""`hush budget`: what was spent, by which release, and what is left."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

import hush
from hush.cli.options import format_option
from hush.errors import LedgerError

ADAPTIVE = "The epsilon spent is for scales fixed beforehand; the cap holds however they were chosen."


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--dataset", help="Show or create only this dataset.  [create: default]")
@click.option("--delta", type=float, help="Show epsilon at this delta. With --create: the delta of the cap.")
@click.option("--entries", is_flag=True, help="Show every entry instead of one line per release.")
@format_option
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option("--expect-head", metavar="HEX", help="Fail unless the ledger contains this earlier head.")
@click.option("--create", is_flag=True, help="Start a ledger, or a dataset in it, with the cap given here.")
@click.option("--raise-cap", is_flag=True, help="Replace the cap by a larger one; needs --reason.")
@click.option("--reason", help="With --raise-cap: why. It is recorded for good.")
@click.option("--epsilon", type=float, help="With --create or --raise-cap: the cap's epsilon.")
@click.option("--rho", type=float, help="With --create or --raise-cap: the cap in zCDP.")
@click.option("--mu", type=float, help="With --create or --raise-cap: the cap in Gaussian DP.")
def budget(
    file: Path,
    dataset: str | None,
    delta: float | None,
    entries: bool,
    form: str,
    as_json: bool,
    expect_head: str | None,
    create: bool,
    raise_cap: bool,
    reason: str | None,
    epsilon: float | None,
    rho: float | None,
    mu: float | None,
) -> None:
    """Show the ledger FILE: what was spent and what is left.

    Lists the caps and the charge of each release, and checks that no entry was changed or removed.
    """
    from rich.console import Console
    from rich.text import Text

    from hush.privacy.budget import require_delta
    from hush.privacy.ledger_view import ledger_tables

    if create:
        cap, delta = hush.Budget(epsilon=epsilon, delta=delta, rho=rho, mu=mu), None
        ledgers = [_created(file, dataset or "default", cap)]
    elif raise_cap:
        ledgers = [hush.Ledger.open(file, dataset=dataset or "default")]
        cap, delta = hush.Budget(epsilon=epsilon, delta=delta, rho=rho, mu=mu), None
        ledgers[0].raise_cap(cap, reason=reason or "")
    elif (epsilon, rho, mu) != (None, None, None):
        raise click.UsageError("--epsilon, --rho and --mu state a cap; add --create or --raise-cap")
    else:
        require_delta(0.0 if delta is None else delta)
        ledgers = hush.Ledger.open_all(file) if dataset is None else [hush.Ledger.open(file, dataset=dataset)]
    ledgers[0].verify(expect_head)
    if as_json or form == "json":
        click.echo(json.dumps([ledger.to_dict() for ledger in ledgers], indent=2))
        return
    console = Console()
    for ledger in ledgers:
        console.print(*ledger_tables(ledger, delta, entries=entries))
        console.print()
    expected = "; the expected head is in it" if expect_head else ""
    console.print(Text(f"chain whole: every hash, cost and total was recomputed and agrees{expected}"))
    console.print(Text(f"head: {ledgers[0].head}"))
    console.print(Text(ADAPTIVE, style="dim"))


def _created(file: Path, dataset: str, cap: hush.Budget) -> hush.Ledger:
    if os.path.lexists(file) and dataset in [ledger.dataset for ledger in hush.Ledger.open_all(file)]:
        raise LedgerError(f"{file} has a dataset {dataset!r} already; leave out --create to see it")
    return hush.Ledger(file, dataset=dataset, cap=cap)
