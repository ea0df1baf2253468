"""`hush audit`: the owner's self-check in one command."""

from __future__ import annotations

import json
from pathlib import Path

import click

import hush
from hush.cli.long_work import long_work
from hush.cli.options import (
    PATH,
    BudgetOptions,
    MechanismOptions,
    OutputOptions,
    Whole,
    budget_options,
    mechanism_options,
    output_options,
)
from hush.core.errors import printable


@click.command()
@mechanism_options
@budget_options
@click.option(
    "--runs",
    type=Whole(),
    help="Releases of each generated table; more prove more, 0 skips them.  [default: 600, adaptive 200]",
)
@click.option("--max-rows-per-unit", type=int, default=1, show_default=True, help="Rows of the person looked for.")
@click.option("--ledger", type=PATH, help="Verify this ledger too.")
@click.option("--expect-head", metavar="HEX", help="Fail unless the ledger contains this earlier head.")
@click.option("--release", "released", type=PATH, help="Recompute the cost of this release; find it in the ledger.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@output_options("Also write the result as an HTML page.")
def audit(
    chosen: MechanismOptions,
    limit: BudgetOptions,
    runs: int | None,
    max_rows_per_unit: int,
    ledger: Path | None,
    expect_head: str | None,
    released: Path | None,
    as_json: bool,
    output: OutputOptions,
) -> None:
    """Look for faults in noise, a mechanism, a ledger, a release.

    Tests the noise against its exact law. Releases two generated tables that differ in one person many times, tries to
    tell them apart, and compares the privacy loss that this proves with the claimed one. Verifies a ledger, and
    recomputes the cost of a release. Reads no private table and spends nothing. Exit code 1 means that a check failed.
    """
    from rich.console import Console
    from rich.text import Text

    from hush.audit import audit as run_audit
    from hush.audit.findings import AUDIT_LIMITS, finding_table

    # Check the options, then audit.
    if expect_head is not None and ledger is None:
        raise click.UsageError("--expect-head is about a ledger; add --ledger")
    if chosen.label is not None:
        raise click.UsageError("--label belongs to a workload, and an audit has its own; leave --label out")
    output.check(ledger, released)
    budget = limit.read() if limit.given or limit.delta is not None else hush.Budget(rho=0.5)
    with long_work("auditing", "") as progress:  # on_start says how long
        result = run_audit(
            chosen.read(),
            budget,
            runs=runs,
            max_rows_per_unit=max_rows_per_unit,
            ledger=ledger,
            expected_head=expect_head,
            release=released,
            progress=progress,
            on_start=lambda seconds: click.echo(f"hush: this takes about {_duration(seconds)}", err=True),
        )

    # Write the page, print the findings, and fail if a check failed.
    if output.path is not None:
        result.write_page(output.path)
    if as_json:
        click.echo(json.dumps(result.to_dict(), indent=2))
    else:
        console = Console()
        for section, findings in result.sections.items():
            console.print(finding_table(findings, title=section))
            console.print()
        console.print(Text(result.summary, style="bold" if result.passed else "bold red"))
        console.print(Text(AUDIT_LIMITS, style="dim"))
        if output.path is not None:
            console.print(Text(printable(f"wrote {output.path}")))
    if not result.passed:
        raise click.exceptions.Exit(1)


def _duration(seconds: float) -> str:
    """A time for people to read.

    >>> _duration(4.2), _duration(90), _duration(400)
    ('5 seconds', '90 seconds', '7 minutes')
    """
    rounded = 5 * max(1, round(seconds / 5))
    return f"{rounded} seconds" if rounded <= 100 else f"{-(-rounded // 60)} minutes"
