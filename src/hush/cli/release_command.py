"""`hush release`: spend a budget on a table, show progress, and resume an interrupted adaptive release."""

from __future__ import annotations

import glob
import shlex
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import hush
from hush.cli.model_command import say, summary
from hush.cli.options import (
    PATH,
    BudgetOptions,
    MechanismOptions,
    WorkloadOptions,
    budget_options,
    check_output,
    counts_option,
    mechanism_options,
    query_option,
    source_of,
    spark_option,
    table_option,
    timeout_option,
    where_option,
    workload_options,
)
from hush.cli.program import INTERRUPTED
from hush.core.errors import ArchiveError, BudgetError, HushError, InterruptedRelease, printable
from hush.render.progress_bar import progress_bar

if TYPE_CHECKING:
    from hush.core.domain import Clique
    from hush.mechanisms.plan import Plan
    from hush.mechanisms.release_job import ReleaseJob
    from hush.release.rounds import Round
    from hush.tables.table import Table


def resume_command(
    data: str | None,
    schema: Path,
    ledger: Path | None,
    dataset: str,
    file: Path,
    output: Path,
    *,
    table: str | None = None,
    query: str | None = None,
    where: str | None = None,
    timeout: float | None = None,
    spark: str | None = None,
    unit: str | None = None,
    max_rows_per_unit: int | None = None,
    counts: str | None = None,
    schema_is_public: bool = False,
) -> str:
    """The command that resumes an interrupted release; an address has no user, password or token in it."""
    if spark is not None:
        from hush.tables.dialects import spark_sessions

        spark = spark_sessions.shown_address(spark)
    elif data is not None and "://" in data:
        from hush.tables.dialects.postgres_sessions import shown_address

        data = shown_address(data)
    given = [] if data is None else [data]
    words = ["hush", "release", *given, "--schema", str(schema), "--resume", str(file), "-o", str(output)]
    words += [] if ledger is None else ["--ledger", str(ledger)]
    words += [] if dataset == "default" else ["--dataset", dataset]
    words += [] if table is None else ["--table", table]
    words += [] if spark is None else ["--spark", spark]
    words += [] if query is None else ["--query", query]
    words += [] if where is None else ["--where", where]
    words += [] if timeout is None else ["--timeout", f"{timeout:g}"]
    words += [] if unit is None else ["--unit", unit]
    words += [] if max_rows_per_unit is None else ["--max-rows-per-unit", str(max_rows_per_unit)]
    words += [] if counts is None else ["--counts", counts]
    words += ["--schema-is-public"] if schema_is_public else []
    return shlex.join(words)


LONGEST = 40
FIRST = "first tables; a first run compiles once"
AGAIN = "fitting; a first run compiles once"


@contextmanager
def rounds_bar(first: int = 0) -> Iterator[tuple[Callable[[float], None], Callable[[Round, float], None]]]:
    """Callbacks that show progress and rounds, after `first` earlier ones; silent if stderr is no terminal.

    Privacy: the chosen columns of a round and the budget spent are public facts.
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal:  # a disabled bar of some versions still ends with a line
        yield (lambda spent: None), (lambda round, spent: None)
        return
    columns = (
        TextColumn("budget spent"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[last]}"),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=1.0, last=AGAIN if first else FIRST)
        played = first

        def on_round(round: Round, spent: float) -> None:
            nonlocal played
            played += 1
            progress.update(task, completed=spent, last=escape(round_text(played, round.clique)))

        yield lambda spent: progress.update(task, completed=spent), on_round


def round_text(number: int, clique: Clique) -> str:
    """The number of a round and the columns it chose.

    >>> round_text(3, ("age", "sex"))
    'round 3: age, sex'
    """
    text = f"round {number}: {', '.join(printable(name) for name in clique)}"
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


@click.command()
@click.argument("data", type=str, required=False)
@table_option
@spark_option
@query_option
@where_option
@timeout_option
@click.option("--schema", type=PATH, required=True, help="The schema file of the table.")
@workload_options
@budget_options
@click.option(
    "--plan",
    "plan_file",
    type=PATH,
    help="A plan saved by `hush plan -o`, instead of a workload. A budget given as well is its limit.",
)
@click.option("--resume", type=PATH, help="An interrupted release to continue; it holds the workload and the budget.")
@mechanism_options
@click.option(
    "--rows",
    type=int,
    help="Expected number of rows, a public guess: refuses a budget that is too small, and sets delta to 1/(10 rows) "
    "where Gaussian noise needs one and --delta is left out.",
)
@click.option("--unit", help="Id column of the people or units to protect.  [default: from the schema]")
@click.option("--max-rows-per-unit", type=int, help="At most this many rows of a unit are used.")
@counts_option
@click.option(
    "--ledger",
    type=PATH,
    help="File that records the charge, made by `hush budget init`; a new one gets this budget as its cap.",
)
@click.option("--dataset", default="default", show_default=True, help="Name of the table in the ledger.")
@click.option(
    "--schema-is-public",
    is_flag=True,
    help="You assert that a schema drafted from private data is public. The release is stamped NOT PRIVATE.",
)
@click.option("-o", "--output", type=PATH, required=True, help="File to write the release to.")
@click.option("--force", is_flag=True, help="Overwrite the output file if it exists.")
def release(
    data: str | None,
    table: str | None,
    spark: str | None,
    query: str | None,
    where: str | None,
    timeout: float | None,
    schema: Path,
    question: WorkloadOptions,
    limit: BudgetOptions,
    plan_file: Path | None,
    resume: Path | None,
    chosen: MechanismOptions,
    rows: int | None,
    unit: str | None,
    max_rows_per_unit: int | None,
    counts: str | None,
    ledger: Path | None,
    dataset: str,
    schema_is_public: bool,
    output: Path,
    force: bool,
) -> None:
    """Measure DATA with noise and spend the budget.

    DATA is a CSV, Parquet or Excel file, a pattern of files, a folder of Parquet, a file of DuckDB or SQLite with
    --table, the address of a PostgreSQL database (postgresql://user@host/db) with --table or --query, or - for standard
    input. With --spark it is what Spark counts. Writes a release.
    """
    from hush.mechanisms.release_job import ReleaseJob, check_partial, is_own_partial
    from hush.mechanisms.usefulness import check_useful, delta_warning, released_delta_warning
    from hush.schema import Unit

    again = resume is not None and resume.exists() and output.exists() and output.samefile(resume)
    files = [schema, plan_file, question.workload_sql, ledger, None if again else resume]
    inputs = [*glob.glob(data or "", recursive=True), *files]
    check_output(output, force=force or again or is_own_partial(output, resume), inputs=inputs)
    declared = hush.Schema.load(schema)
    if unit is not None and max_rows_per_unit is None and unit != declared.unit.column:
        raise click.UsageError(f"say how many rows of one {unit} are used at most with --max-rows-per-unit")
    protected = Unit(column=unit, max_rows=max_rows_per_unit or 1) if unit else declared.unit
    for option, file in (("--resume", resume), ("--plan", plan_file)):
        if file is not None and question.given:
            raise click.UsageError(f"{option} holds the workload; leave --workload and --workload-sql out")
        if file is not None and chosen.given:
            raise click.UsageError(f"{option} holds the mechanism; leave --mechanism and its settings out")
    spending: dict[str, Any] = {
        "output": output,
        "ledger": ledger,
        "dataset": dataset,
        "force": force,
        "schema_is_public": schema_is_public,
    }
    if resume is not None:
        if plan_file is not None or limit.given:
            raise click.UsageError("--resume holds the plan and the budget; leave --plan and the budget out")
        job = ReleaseJob.resumed(_loaded_partial(resume), **spending)
    elif plan_file is not None:
        job = ReleaseJob(_loaded_plan(plan_file, limit), **spending)
    else:
        workload, mechanism = question.read(declared), chosen.read()
        budget = limit.read_for(mechanism, rows)
        with progress_bar("planning") as progress:
            plan = hush.plan(workload, budget, mechanism, max_rows_per_unit=protected.max_rows, progress=progress)
        job = ReleaseJob(_payable(plan, ledger, dataset), **spending)
    plan = job.plan
    job.check_public(declared)
    if rows is not None:
        check_useful(plan, rows)
    if (warning := delta_warning(plan.budget, rows)) is not None:
        click.echo(f"hush: {warning}", err=True)
    check_partial(output, resume, force=force)
    new_ledger = ledger is not None and not ledger.exists()
    _announce_plan(plan, plan_file)
    source, named = source_of(data, table, spark)
    with progress_bar("reading") as progress:
        rows_read = hush.read(
            source,
            declared,
            table=named,
            query=query,
            where=where,
            timeout=timeout,
            unit=unit,
            max_rows_per_unit=max_rows_per_unit,
            counts=counts,
            progress=progress,
        )
    try:
        done = _run(job, rows_read)
    except InterruptedRelease as stopped:
        text = f"{stopped} in {output}"
        if plan.adaptive:
            words = resume_command(
                data,
                schema,
                ledger,
                dataset,
                output,
                output,
                table=table,
                spark=spark,
                query=query,
                where=where,
                timeout=timeout,
                unit=unit,
                max_rows_per_unit=max_rows_per_unit,
                counts=counts,
                schema_is_public=schema_is_public,
            )
            text += f"; resume with: {words}"
        click.echo(f"hush: {printable(text)}", err=True)
        _warn_of(None if again else resume, ledger)
        raise click.exceptions.Exit(INTERRUPTED) from None
    _say(done, output)
    late = released_delta_warning(done) if rows is None and warning is None else None
    for note in (*done.statement.warnings, *([] if late is None else [late])):
        click.echo(f"hush: {note}", err=True)
    _warn_of(None if again else resume, ledger)
    if ledger is None and done.statement.charged:
        click.echo("hush: no --ledger was given, so this spending is recorded nowhere but in the release", err=True)
    if new_ledger:
        click.echo(
            f"New ledger {ledger}: its cap is this release's budget, {plan.budget}. `hush budget init` sets a cap for "
            "several releases."
        )


def _loaded_partial(file: Path) -> hush.Release:
    """An interrupted release of an adaptive mechanism."""
    release = hush.load(file)
    if not isinstance(release, hush.Release) or not release.bounded:
        raise ArchiveError(f"{file} is no release of an adaptive mechanism; only those can be resumed")
    if release.complete:
        raise BudgetError(f"{file} is complete: its budget is spent, and there is nothing to resume")
    return release


def _loaded_plan(file: Path, limit: BudgetOptions) -> Plan:
    """A saved plan; a budget given as well is its limit."""
    from hush.mechanisms.plan import Plan

    plan = hush.load(file)
    if not isinstance(plan, Plan):
        kind = "release" if isinstance(plan, hush.Release) else "model"
        raise ArchiveError(f"{file} is a {kind}, not a plan")
    if limit.given and not plan.within(most := limit.read()):
        raise BudgetError(f"the plan spends {plan.budget}, more than the {most} given here; plan again for less")
    return plan


def _payable(plan: Plan, ledger: Path | None, dataset: str) -> Plan:
    """The plan, or the best one with the other noise if only that fits in what is left of the ledger."""
    if plan.alternative is None or ledger is None or not ledger.exists():
        return plan
    book = hush.Ledger.open(ledger, dataset=dataset)
    if plan.payable(book) or not plan.alternative.payable(book):
        return plan
    other, noise = plan.alternative, "Gaussian" if plan.epsilon is not None else "Laplace"
    click.echo(
        f"hush: {ledger} has no room left for the plan of least error, RMSE {plan.rmse:.3g}; this release takes "
        f"{noise} noise instead, RMSE {other.rmse:.3g}",
        err=True,
    )
    return other


def _announce_plan(plan: Plan, plan_file: Path | None) -> None:
    """Say what a saved plan is about to spend."""
    if plan_file is not None:
        what = f"{len(plan.workload):,} tables, {plan.budget}, {plan.neighbours.value}"
        rows = "1 row" if plan.max_rows_per_unit == 1 else f"{plan.max_rows_per_unit} rows"
        click.echo(f"Plan {plan_file}: {what}, at most {rows} per unit.")


def _run(job: ReleaseJob, table: Table) -> hush.Release:
    """Run the job with a progress bar, shown only after all checks have passed."""
    with ExitStack() as stack:
        if not job.plan.adaptive:
            return job.run(table, progress=stack.enter_context(progress_bar("measuring")))
        bar: list[Any] = []

        def start() -> None:
            _announce(job.plan, job.resume)
            bar.extend(stack.enter_context(rounds_bar(job.status.rounds)))

        try:
            return job.run(
                table,
                progress=lambda share: bar[0](share),
                on_round=lambda played, share: bar[1](played, share),
                on_start=start,
            )
        except InterruptedRelease:
            raise
        except HushError:
            if job.status.kept:
                stack.close()
                click.echo(f"hush: {job.partial} keeps the noisy tables so far; continue with --resume", err=True)
            raise


def _announce(plan: Plan, partial: hush.Release | None) -> None:
    """Say what a resumed run has, and how long a run takes if its plan states no error."""
    if partial is not None:
        share = partial.statement.rho / plan.budget.rho
        tables = (
            f"{len(partial.noisy_tables):,} noisy tables are kept" if partial.noisy_tables else "no table was measured"
        )
        say(f"Resuming {plan.mechanism}: {tables}, which cost {share:.0%} of {plan.budget}; the rest is spent now.")
    if plan.rmse is None:
        say(f"Work: {plan.work}.")


def _warn_of(resumed: Path | None, ledger: Path | None) -> None:
    """Warn that an interrupted release that was resumed into another file must not be used again."""
    if resumed is not None and resumed.exists():
        alone = "" if ledger is not None else ", and without a ledger nothing would stop it"
        click.echo(f"hush: {resumed} must not be resumed again: its budget is spent elsewhere now{alone}", err=True)


def _say(done: hush.Release, output: Path) -> None:
    from rich.console import Console

    from hush.render.text_table import TextTable

    written = f'{output}: ask it with `hush query {output} "SELECT ..."`'
    Console().print(TextTable.facts([*done.statement.lines(), *_measured(done), ("Written", written)]))


def _measured(done: hush.Release) -> list[tuple[str, str]]:
    """What an adaptive mechanism measured."""
    if not done.bounded:
        return []
    rounds = f" in {len(done.rounds):,} rounds" if done.rounds else ""
    model = "" if done.record.fitted is None else f"; {summary(done.model())}"
    return [("Measured", f"{len(done.noisy_tables):,} noisy tables{rounds}{model}")]
