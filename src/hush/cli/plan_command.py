"""`hush plan`: how accurate the answers will be, before anything is spent."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

import hush
from hush.cli.options import (
    PATH,
    BudgetOptions,
    MechanismOptions,
    WorkloadOptions,
    budget_options,
    check_output,
    format_option,
    mechanism_options,
    workload_options,
)
from hush.cli.program import BAD_INPUT
from hush.core.errors import BudgetError, printable
from hush.render.progress_bar import progress_bar

if TYPE_CHECKING:
    from hush.mechanisms.plan import Plan

PURE = (
    "--epsilon without --delta is pure differential privacy, so the noise is Laplace; add --delta 1e-9 to allow "
    "Gaussian noise, which is often smaller"
)


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
    help="Expected number of rows, a public guess: shows errors relative to a uniform table, refuses a budget that is "
    "too small, and sets delta to 1/(10 rows) where Gaussian noise needs one and --delta is left out.",
)
@click.option("--thorough", is_flag=True, help="With --mechanism auto: also try what takes long or can win little.")
@format_option
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option("-o", "--output", type=PATH, help="Save the plan to this file.")
@click.option("--force", is_flag=True, help="Overwrite the output file if it exists.")
def plan(
    schema: Path,
    question: WorkloadOptions,
    limit: BudgetOptions,
    chosen: MechanismOptions,
    target_error: float | None,
    rows: int | None,
    thorough: bool,
    form: str,
    as_json: bool,
    output: Path | None,
    force: bool,
) -> None:
    """Show how accurate a release would be. Reads no data.

    Lists what would be measured on a table with SCHEMA, and the error of each answer.
    """
    from rich.console import Console
    from rich.text import Text

    from hush.core.rational import shown_up
    from hush.mechanisms.plan_table import plan_tables
    from hush.mechanisms.usefulness import check_rows
    from hush.privacy.budget import number_text

    if output is not None:
        check_output(output, force=force, inputs=[schema, question.workload_sql])
    declared = hush.Schema.load(schema)
    workload, unit_rows = question.read(declared), declared.unit.max_rows
    if rows is not None:
        check_rows(rows)
    plan: Plan
    if target_error is None:
        mechanism = chosen.read()
        budget = limit.read_for(mechanism, rows)
        with progress_bar("planning") as progress:
            plan = hush.plan(
                workload,
                budget,
                mechanism,
                max_rows_per_unit=unit_rows,
                thorough=thorough,
                progress=progress,
            )
    else:
        if limit.given:
            raise BudgetError("--target-error finds the budget; leave out --epsilon, --rho and --mu")
        if chosen.mechanism.lower() not in ("auto", "residual"):
            raise BudgetError(f"--target-error is for the residual mechanism; leave --mechanism {chosen.mechanism} out")
        replace(chosen, mechanism="residual").read()  # refuses settings that residual does not have
        plan = hush.plan_for_error(workload, target_error, chosen.loss, max_rows_per_unit=unit_rows)
    useless = None if rows is None else _refusal(plan, rows)
    if useless is not None:
        click.echo(f"hush: {useless}", err=True)
    as_json = as_json or form == "json"
    console = Console(stderr=as_json)
    if as_json:
        click.echo(json.dumps(plan.to_dict(), indent=2))
    else:
        console.print(*plan_tables(plan, rows=rows))
    if limit.given and plan.budget.pure and plan.epsilon:
        click.echo(f"hush: {PURE}", err=True)
    if target_error is not None:
        at = 1e-9 if limit.delta is None else limit.delta
        worth = hush.Budget(rho=float(plan.budget.rho)).epsilon_at(at)
        needs = f"Needs --rho {shown_up(plan.budget.rho)}, or --epsilon {shown_up(worth)} --delta {number_text(at)}"
        console.print(Text(needs))
    if useless is not None:
        click.get_current_context().exit(BAD_INPUT)
    if output is not None:
        plan.save(output, overwrite=True)
        console.print(Text(printable(f"Plan saved to {output}")))


def _refusal(plan: Plan, rows: int) -> str | None:
    """Explain why a budget is too small for the expected number of rows; None if it is not."""
    from hush.mechanisms.usefulness import check_useful

    try:
        check_useful(plan, rows)
    except BudgetError as error:
        return printable(str(error))
    return None
