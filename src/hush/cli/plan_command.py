"""`hush plan`: how accurate the answers will be, before anything is spent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

import hush
from hush.cli.options import (
    PATH,
    budget_options,
    check_output,
    mechanism_options,
    stated_budget,
    stated_mechanism,
    stated_workload,
    workload_options,
)
from hush.cli.program import BAD_INPUT
from hush.errors import BudgetError, printable

if TYPE_CHECKING:
    from hush.mechanisms.plan import Plan


@click.command()
@click.argument("schema", type=PATH)
@workload_options
@budget_options
@mechanism_options
@click.option(
    "--target-error", type=float, help="Find the smallest budget that reaches this RMSE (or, with maxvar, error)."
)
@click.option(
    "--rows",
    type=int,
    help="Expected number of rows: shows errors relative to a uniform table, and refuses a budget too small for them.",
)
@click.option("--json", "as_json", is_flag=True, help="As JSON, for programs; holds every table.")
@click.option("-o", "--output", type=PATH, help="Save the plan to this file.")
@click.option("--force", is_flag=True, help="Overwrite the output file if it exists.")
def plan(
    schema: Path,
    workload: str | None,
    workload_sql: Path | None,
    epsilon: float | None,
    delta: float | None,
    rho: float | None,
    mu: float | None,
    mechanism: str,
    loss: str,
    preset: str | None,
    max_size_mb: float | None,
    target_error: float | None,
    rows: int | None,
    as_json: bool,
    output: Path | None,
    force: bool,
) -> None:
    """Show how accurate a release would be. Reads no data.

    For tables with SCHEMA: what would be measured, and the error of its answers.
    """
    from rich.console import Console
    from rich.text import Text

    from hush.mechanisms.plan_table import plan_tables
    from hush.mechanisms.usefulness import check_rows
    from hush.privacy.budget import number_text
    from hush.rational import shown_up

    if output is not None:
        check_output(output, force=force, inputs=[schema, workload_sql])
    found = hush.Schema.load(schema)
    asked = stated_workload(found, workload, workload_sql)
    if rows is not None:
        check_rows(rows)
    made: Plan
    if target_error is None:
        budget = stated_budget(epsilon, delta, rho, mu)
        chosen = stated_mechanism(mechanism, loss, preset, max_size_mb)
        made = hush.plan(asked, budget, chosen, max_rows_per_unit=found.unit.max_rows)
    else:
        if (epsilon, rho, mu) != (None, None, None):
            raise BudgetError("--target-error finds the budget; leave out --epsilon, --rho and --mu")
        if mechanism not in ("auto", "residual"):
            raise BudgetError(f"--target-error is for the residual mechanism; leave --mechanism {mechanism} out")
        stated_mechanism("residual", loss, preset, max_size_mb)
        made = hush.plan_for_error(asked, target_error, loss, max_rows_per_unit=found.unit.max_rows)
    useless = None if rows is None else _refusal(made, rows)
    if useless is not None:
        click.echo(f"hush: {useless}", err=True)
    console = Console(stderr=as_json)
    if as_json:
        click.echo(json.dumps(made.to_dict(), indent=2))
    else:
        console.print(*plan_tables(made, rows=rows))
    if target_error is not None:
        at = 1e-9 if delta is None else delta
        worth = hush.Budget(rho=float(made.budget.rho)).epsilon_at(at)
        needs = f"Needs --rho {shown_up(made.budget.rho)}, or --epsilon {shown_up(worth)} --delta {number_text(at)}"
        console.print(Text(needs))
    if useless is not None:
        click.get_current_context().exit(BAD_INPUT)
    if output is not None:
        made.save(output)
        console.print(Text(printable(f"Plan saved to {output}")))


def _refusal(made: Plan, rows: int) -> str | None:
    """Why a budget is too small for an expected number of rows, if it is."""
    try:
        made.check_useful(rows)
    except BudgetError as error:
        return printable(str(error))
    return None
