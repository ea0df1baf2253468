"""`hush release`: spend a budget on a table."""

from __future__ import annotations

import glob
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

import hush
from hush.cli.options import (
    MECHANISM_HELP,
    PATH,
    budget_options,
    progress_bar,
    stated_budget,
    stated_workload,
    workload_options,
)
from hush.cli.output import check_output
from hush.errors import ArchiveError, BudgetError, InterruptedRelease

if TYPE_CHECKING:
    from hush.mechanisms.plan import Plan


@click.command()
@click.argument("data", type=str)
@click.option("--schema", type=PATH, required=True, help="The schema file of the table.")
@workload_options
@budget_options
@click.option(
    "--plan",
    "plan_file",
    type=PATH,
    help="A plan saved by `hush plan -o`, in place of a workload; a budget given too is its limit.",
)
@click.option("--mechanism", default="auto", show_default=True, help=MECHANISM_HELP)
@click.option(
    "--loss", type=click.Choice(["rmse", "maxvar"]), default="rmse", show_default=True, help="What to make small."
)
@click.option("--unit", help="Id column whose presence is hidden.  [default: as the schema says]")
@click.option("--max-rows-per-unit", type=int, help="Rows of a unit that are used at most.")
@click.option("--ledger", type=PATH, help="File that records the charge; made with this budget as its cap if absent.")
@click.option("--dataset", default="default", show_default=True, help="Name of the table in the ledger.")
@click.option("-o", "--output", type=PATH, required=True, help="File to write the release to.")
@click.option("--force", is_flag=True, help="Overwrite the output file if it exists.")
def release(
    data: str,
    schema: Path,
    workload: str | None,
    workload_sql: Path | None,
    epsilon: float | None,
    delta: float | None,
    rho: float | None,
    mu: float | None,
    plan_file: Path | None,
    mechanism: str,
    loss: str,
    unit: str | None,
    max_rows_per_unit: int | None,
    ledger: Path | None,
    dataset: str,
    output: Path,
    force: bool,
) -> None:
    """Measure DATA with noise and spend the budget.

    DATA is a CSV or Parquet file, or a pattern of them; a release is written.
    """
    from hush.schema import Unit

    check_output(
        output, force=force, inputs=[*glob.glob(data, recursive=True), schema, plan_file, workload_sql, ledger]
    )
    declared = hush.Schema.load(schema)
    if unit is not None and max_rows_per_unit is None and unit != declared.unit.column:
        raise click.UsageError(f"say how many rows of one {unit} are used at most with --max-rows-per-unit")
    own = Unit(column=unit, max_rows=max_rows_per_unit or 1) if unit else declared.unit
    if plan_file is not None:
        if workload is not None or workload_sql is not None:
            raise click.UsageError("--plan holds the workload; leave --workload and --workload-sql out")
        made = _loaded_plan(plan_file, epsilon, delta, rho, mu)
    else:
        asked = stated_workload(declared, workload, workload_sql)
        made = hush.plan(asked, stated_budget(epsilon, delta, rho, mu), mechanism, loss, max_rows_per_unit=own.max_rows)
    new_ledger = ledger is not None and not ledger.exists()
    _announce(made, plan_file)
    with progress_bar("reading") as progress:
        table = hush.read(data, declared, unit=unit, max_rows_per_unit=max_rows_per_unit, progress=progress)
    with progress_bar("measuring") as progress:
        try:
            done = made.release(table, ledger=ledger, dataset=dataset, name=output.name, progress=progress)
        except InterruptedRelease as stopped:
            if isinstance(stopped.release, hush.Release):
                _save(stopped.release, output)
            raise InterruptedRelease(f"{stopped} in {output}", release=stopped.release) from None
    _save(done, output)
    _say(done, output)
    if ledger is None:
        click.echo("hush: no --ledger was given, so this spending is recorded nowhere but in the release", err=True)
    if new_ledger:
        click.echo(f"New ledger {ledger}: its cap is this release's budget, {made.budget}.")


def _loaded_plan(
    plan_file: Path, epsilon: float | None, delta: float | None, rho: float | None, mu: float | None
) -> Plan:
    """A saved plan; a budget given beside it is the most that it may spend."""
    from hush.mechanisms.plan import Plan

    made = hush.load(plan_file)
    if not isinstance(made, Plan):
        kind = "release" if isinstance(made, hush.Release) else "model"
        raise ArchiveError(f"{plan_file} is a {kind}, not a plan")
    if (epsilon, rho, mu) != (None, None, None):
        most = stated_budget(epsilon, delta, rho, mu)
        if not made.within(most):
            raise BudgetError(f"the plan spends {made.budget}, more than the {most} given here; plan again for less")
    return made


def _announce(made: Plan, plan_file: Path | None) -> None:
    """Say what is about to be spent, where it was decided elsewhere."""
    if plan_file is not None:
        what = f"{len(made.workload):,} tables, {made.budget}, {made.neighbours.value}"
        rows = "1 row" if made.max_rows_per_unit == 1 else f"{made.max_rows_per_unit} rows"
        click.echo(f"Plan {plan_file}: {what}, at most {rows} per unit.")


def _save(done: hush.Release, output: Path) -> None:
    """Write what was paid for; if that fails, to the folder for temporary files."""
    try:
        done.save(output)
    except ArchiveError as error:
        rescue = Path(tempfile.mkdtemp(prefix="hush-"), output.name)
        done.save(rescue)
        raise ArchiveError(f"{error}; the budget is spent, and the release is kept in {rescue}") from None


def _say(done: hush.Release, output: Path) -> None:
    from rich.console import Console
    from rich.table import Table as Grid
    from rich.text import Text

    console = Console()
    grid = Grid(box=None, pad_edge=False, show_header=False)
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in done.statement.lines():
        grid.add_row(name, Text(value))
    grid.add_row("Written", Text(f'{output}: ask it with `hush query {output} "SELECT ..."`'))
    console.print(grid)
