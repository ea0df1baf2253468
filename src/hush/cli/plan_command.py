"""`hush plan`: how accurate the answers will be, before anything is spent."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

import hush
from hush.cli.long_work import NO_BAR, PLANNING_TIME, long_work
from hush.cli.main import BAD_INPUT
from hush.cli.options import (
    PATH,
    BudgetOptions,
    MechanismOptions,
    OutputOptions,
    WorkloadOptions,
    budget_options,
    json_options,
    mechanism_options,
    output_options,
    rows_option,
    workload_options,
)
from hush.core.errors import BudgetError, printable

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
@rows_option("shows errors relative to a uniform table, ")
@click.option("--details", is_flag=True, help="Show every table, the comparison of mechanisms and the full privacy.")
@click.option("--thorough", is_flag=True, help="With --mechanism auto: also try what takes long or can win little.")
@json_options
@output_options("Save the plan to this file.")
def plan(
    schema: Path,
    question: WorkloadOptions,
    limit: BudgetOptions,
    chosen: MechanismOptions,
    target_error: float | None,
    rows: int | None,
    details: bool,
    thorough: bool,
    as_json: bool,
    output: OutputOptions,
) -> None:
    """Show how accurate a release would be. Reads no data.

    Says what a release of a table with SCHEMA costs and how large its errors are; --details lists every table.
    """
    from rich.console import Console
    from rich.text import Text

    from hush.mechanisms.plan_errors import check_rows, check_useful
    from hush.mechanisms.plan_table import plan_summary, plan_tables

    # Plan for a budget, or find the budget for a target error.
    output.check(schema, question.workload_sql)
    declared = hush.Schema.load(schema)
    workload = question.read(declared, for_rows=chosen.for_rows)
    if rows is not None:
        check_rows(rows)
    plan = _planned(workload, limit, chosen, target_error, rows, thorough, declared.unit.max_rows)

    # Show it, on stderr if JSON goes to stdout; a budget that is too small for the rows is shown and refused.
    useless = None
    if rows is not None:
        try:
            check_useful(plan, rows)
        except BudgetError as error:
            useless = printable(str(error))
            click.echo(f"hush: {useless}", err=True)
    console = Console(stderr=as_json)
    if as_json:
        click.echo(json.dumps(plan.to_dict(), indent=2))
    else:
        console.print(*(plan_tables(plan, rows=rows) if details else (plan_summary(plan, rows=rows),)))
    if limit.given and plan.budget.pure and plan.epsilon:
        click.echo(
            "hush: --epsilon without --delta is pure differential privacy, so the noise is Laplace; add --delta 1e-9 "
            "to allow Gaussian noise, which is often smaller",
            err=True,
        )
    if target_error is not None:
        console.print(Text(_needed_budget(plan, 1e-9 if limit.delta is None else limit.delta)))
    if useless is not None:
        click.get_current_context().exit(BAD_INPUT)
    if output.path is not None:
        plan.save(output.path, overwrite=True)
        console.print(Text(printable(f"Plan saved to {output.path}")))


def _needed_budget(plan: Plan, delta: float) -> str:
    """The budget of a plan, as options of `hush release`."""
    from hush.core.rational import shown_up
    from hush.privacy.budget import number_text

    epsilon = shown_up(hush.Budget(rho=float(plan.budget.rho)).epsilon_at(delta))
    return f"Needs --rho {shown_up(plan.budget.rho)}, or --epsilon {epsilon} --delta {number_text(delta)}"


def _planned(
    workload: hush.Workload,
    limit: BudgetOptions,
    chosen: MechanismOptions,
    target_error: float | None,
    rows: int | None,
    thorough: bool,
    unit_rows: int,
) -> Plan:
    """The plan for a budget, or the plan with the smallest budget that reaches an error."""
    if target_error is None:
        mechanism = chosen.read()
        budget = limit.read_for(mechanism, rows)
        with long_work("planning", PLANNING_TIME) as progress:
            return hush.plan(
                workload,
                budget,
                mechanism,
                label=chosen.label,
                max_rows_per_unit=unit_rows,
                thorough=thorough,
                progress=progress,
            )
    if limit.given:
        raise BudgetError("--target-error finds the budget; leave out --epsilon, --rho and --mu")
    if chosen.label is not None:
        raise click.UsageError("--target-error is for answers, and --label for synthetic rows; leave one of them out")
    if chosen.mechanism.lower() not in ("auto", "residual"):
        raise BudgetError(f"--target-error is for the residual mechanism; leave --mechanism {chosen.mechanism} out")
    replace(chosen, mechanism="residual").read()  # refuses settings that residual does not have
    with long_work("planning", PLANNING_TIME, after=NO_BAR):
        return hush.plan_for_error(workload, target_error, chosen.loss, max_rows_per_unit=unit_rows)
