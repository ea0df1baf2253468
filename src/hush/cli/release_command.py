"""`hush release`: spend a budget on a table, show progress, and resume an interrupted adaptive release."""

from __future__ import annotations

import glob
import shlex
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

import hush
from hush.cli.long_work import DISCOVERY_TIME, NO_BAR, PLANNING_TIME, long_work
from hush.cli.main import INTERRUPTED
from hush.cli.model_command import say, summary
from hush.cli.options import (
    PATH,
    BudgetOptions,
    DataOptions,
    LedgerOptions,
    MechanismOptions,
    OutputOptions,
    UnitOptions,
    WorkloadOptions,
    budget_options,
    data_options,
    ledger_options,
    mechanism_options,
    option_group,
    output_options,
    rows_option,
    unit_options,
    workload_options,
)
from hush.core.errors import ArchiveError, BudgetError, HushError, InterruptedRelease, SchemaError, printable
from hush.render.progress_bar import progress_bar

if TYPE_CHECKING:
    from hush.core.domain import Clique
    from hush.mechanisms.plan import Plan
    from hush.mechanisms.release_job import ReleaseJob
    from hush.privacy.account import Allowance
    from hush.release.record import Round
    from hush.schema.discovery_draft import Draft
    from hush.tables.table import Table


def resume_command(
    rows_of: DataOptions,
    schema: Path,
    output: Path,
    protected: UnitOptions,
    book: LedgerOptions,
    *,
    schema_is_public: bool = False,
) -> str:
    """The command that resumes an interrupted release; an address has no user, password or token in it."""
    data, spark = rows_of.data, rows_of.spark
    if spark is not None:
        from hush.tables.dialects import spark_sessions

        spark = spark_sessions.shown_address(spark)
    elif data is not None and "://" in data:
        from hush.tables.dialects.postgres_sessions import shown_address

        data = shown_address(data)
    options = {
        "--schema": schema,
        "--resume": output,
        "-o": output,
        "--ledger": book.ledger,
        "--dataset": None if book.dataset == "default" else book.dataset,
        "--table": rows_of.table,
        "--spark": spark,
        "--query": rows_of.query,
        "--where": rows_of.where,
        "--timeout": None if rows_of.timeout is None else f"{rows_of.timeout:g}",
        "--unit": protected.unit,
        "--max-rows-per-unit": protected.max_rows_per_unit,
        "--counts": rows_of.counts,
    }
    words = ["hush", "release", *([] if data is None else [data])]
    words += [word for name, value in options.items() if value is not None for word in (name, str(value))]
    return shlex.join([*words, *(["--schema-is-public"] if schema_is_public else [])])


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
        task = progress.add_task(
            "", total=1.0, last=f"{'fitting' if first else 'first tables'}; a first run compiles once"
        )
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
    return text if len(text) <= 40 else text[:39] + "…"


@dataclass(frozen=True, slots=True)
class ReleaseRequest:
    """What to release: a workload, a budget and a mechanism, or a saved plan, or an interrupted release."""

    question: WorkloadOptions
    limit: BudgetOptions
    chosen: MechanismOptions
    plan_file: Path | None
    resume: Path | None
    rows: int | None

    def in_place(self, output: Path) -> bool:
        """Whether the interrupted release is resumed in its own file."""
        return self.resume is not None and self.resume.exists() and output.exists() and output.samefile(self.resume)

    def check(self, output: OutputOptions, *inputs: str | Path | None) -> None:
        """Refuse an output that must not be replaced, and options that a plan or an interrupted release holds."""
        from hush.mechanisms.release_job import is_own_partial

        path = cast(Path, output.path)
        own = self.in_place(path) or is_own_partial(path, self.resume)
        read = [*inputs, self.plan_file, self.question.workload_sql, None if self.in_place(path) else self.resume]
        OutputOptions(path, output.force or own).check(*read)
        for option, file in (("--resume", self.resume), ("--plan", self.plan_file)):
            if file is not None and self.question.given:
                raise click.UsageError(f"{option} holds the workload; leave --workload and --workload-sql out")
            if file is not None and self.chosen.given:
                raise click.UsageError(f"{option} holds the mechanism; leave --mechanism, --goal and its settings out")
        if self.resume is not None and (self.plan_file is not None or self.limit.given):
            raise click.UsageError("--resume holds the plan and the budget; leave --plan and the budget out")

    def job(self, schema: hush.Schema, unit_rows: int, book: LedgerOptions, **spending: Any) -> ReleaseJob:
        """The job that spends the budget of the plan, for units of so many rows."""
        from hush.mechanisms.release_job import ReleaseJob

        spending |= {"ledger": book.ledger, "dataset": book.dataset}
        if self.resume is not None:
            return ReleaseJob.resumed(_loaded_partial(self.resume), **spending)
        if self.plan_file is not None:
            return ReleaseJob(_loaded_plan(self.plan_file, self.limit), **spending)
        workload, mechanism = self.question.read(schema, for_rows=self.chosen.for_rows), self.chosen.read()
        budget = self.limit.read_for(mechanism, self.rows)
        with long_work("planning", PLANNING_TIME) as progress:
            options: dict[str, Any] = {"label": self.chosen.label, "max_rows_per_unit": unit_rows}
            plan = hush.plan(workload, budget, mechanism, **options, progress=progress)
        return ReleaseJob(_payable(plan, book, spending.get("within")), **spending)


@click.command()
@click.argument("data", type=str, required=False)
@data_options("table", "spark", "query", "where", "timeout", "counts")
@click.option("--schema", type=PATH, help="The schema file of the table; with --discover a draft, or none.")
@click.option(
    "--discover",
    is_flag=True,
    help="Find what the schema leaves open first, with a quarter of the budget; the rest is for the release.",
)
@workload_options
@budget_options
@click.option(
    "--plan", "plan_file", type=PATH, help="A plan saved by `hush plan -o`; a budget given as well is its limit."
)
@click.option(
    "--resume",
    type=PATH,
    help="An interrupted release to continue, which holds the workload and the budget; with --discover, the .partial "
    "file of the discovery.",
)
@mechanism_options
@rows_option()
@option_group("request", ReleaseRequest)
@unit_options
@ledger_options("File that records the charge, made by `hush budget init`; a new one gets this budget as its cap.")
@click.option(
    "--schema-is-public",
    is_flag=True,
    help="You assert that a schema drafted from private data is public. The release is stamped NOT PRIVATE.",
)
@output_options("File to write the release to.", required=True)
def release(
    rows_of: DataOptions,
    schema: Path | None,
    discover: bool,
    request: ReleaseRequest,
    protected: UnitOptions,
    book: LedgerOptions,
    schema_is_public: bool,
    output: OutputOptions,
) -> None:
    """Measure DATA with noise and spend the budget.

    DATA is a CSV, Parquet or Excel file, a pattern of files, a folder of Parquet, a DuckDB or SQLite file with --table,
    a PostgreSQL address (postgresql://user@host/db) with --table or --query, or - for standard input. With --spark,
    Spark counts it. Writes a release, and with --discover its schema beside it.
    """
    from hush.mechanisms.plan_errors import check_useful, delta_warning
    from hush.mechanisms.release_job import check_partial
    from hush.render.text_table import counted

    # Refuse what cannot be written or does not go together, before anything is planned or charged.
    resumed_discovery = request.resume if discover else None
    request = replace(request, resume=None) if discover else request
    request.check(output, *glob.glob(rows_of.data or "", recursive=True), schema, book.ledger)
    path, rows = cast(Path, output.path), request.rows
    new_ledger = book.ledger is not None and not book.ledger.exists()
    shared: dict[str, Any] = {}
    whole = request.limit
    if discover:
        request, schema, shared = _discovered(
            rows_of, schema, request, protected, book, output, resumed_discovery, schema_is_public=schema_is_public
        )
        protected = UnitOptions()  # the schema that was found has the unit
    elif schema is None:
        raise click.UsageError("Missing option '--schema'. Write one with `hush schema draft`, or add --discover.")
    declared = hush.Schema.load(schema)
    unit_rows = protected.rows(declared)

    # Plan, or load the plan; then check it against the schema, the ledger and the expected number of rows.
    given = {"output": path, "force": output.force, "schema_is_public": schema_is_public}
    job = request.job(declared, unit_rows, book, **given, **shared)
    plan = job.plan
    job.check_public(declared)
    if rows is not None:
        check_useful(plan, rows)
    if (warning := delta_warning(plan.budget, rows)) is not None:
        click.echo(f"hush: {warning}", err=True)
    check_partial(path, request.resume, force=output.force)
    if request.plan_file is not None:
        what = f"{len(plan.workload):,} tables, {plan.budget}, {plan.neighbours.value}"
        click.echo(f"Plan {request.plan_file}: {what}, at most {counted(plan.max_rows_per_unit, 'row')} per unit.")

    # Read the rows, charge, count and add noise.
    source, selection = rows_of.source()
    with long_work("reading", "", private=True) as progress:
        table = hush.read(source, declared, **selection, **asdict(protected), progress=progress)
    resumed = None if request.in_place(path) else request.resume
    said = not plan.rho or (plan.adaptive and plan.rmse is None)  # `_run` prints the work of adaptive plans
    try:
        with long_work(f"releasing with {plan.mechanism}", "" if said else plan.work, private=True, after=NO_BAR):
            done = _run(job, table)
    except InterruptedRelease as stopped:
        text = f"{stopped} in {path}"
        if plan.adaptive:
            words = resume_command(rows_of, schema, path, protected, book, schema_is_public=schema_is_public)
            text += f"; resume with: {words}"
        click.echo(f"hush: {printable(text)}", err=True)
        _warn_of(resumed, book.ledger)
        raise click.exceptions.Exit(INTERRUPTED) from None

    # Say what was released and what to mind.
    _say(done, path, late_warning=rows is None and warning is None)
    _warn_of(resumed, book.ledger, charged=done.statement.charged)
    if new_ledger:
        cap = f"its cap is this release's budget, {whole.read() if discover else plan.budget}"
        click.echo(f"New ledger {book.ledger}: {cap}. `hush budget init` sets a cap for several releases.")


def _discovered(
    rows_of: DataOptions,
    draft_file: Path | None,
    request: ReleaseRequest,
    protected: UnitOptions,
    book: LedgerOptions,
    output: OutputOptions,
    resume: Path | None,
    *,
    schema_is_public: bool,
) -> tuple[ReleaseRequest, Path, dict[str, Any]]:
    """The request with the rest of the budget, the schema that a discovery found, and the account that both charge."""
    from hush.discovery.discovery_job import RowsOf
    from hush.discovery.quick_release import DISCOVERY_SHARE, answerable, discover_first
    from hush.render.text_table import counted

    # What goes together, and where the schema is written.
    if request.plan_file is not None:
        raise click.UsageError("--discover comes before planning; leave --plan out")
    path = cast(Path, output.path).with_suffix(".toml")
    if path == output.path:
        raise click.UsageError(f"-o {path}: the schema that is found goes there; end the release in .hush")
    if path.is_file() and not output.force:
        raise SchemaError(
            f"{path} exists already. If a release stopped after its discovery had written it, release with --schema "
            f"{path} instead of --discover and with the rest of the budget; else choose another name or add --force"
        )
    OutputOptions(path, output.force).check(rows_of.data, draft_file, book.ledger)
    if not request.question.given and request.chosen.goal != "rows":
        raise click.UsageError("say what to ask with --workload, or add --goal rows")

    source, selection = rows_of.source()
    draft = _draft(source, selection, draft_file, protected)

    # Refuse what the release would refuse, then spend a part of the budget.
    budget, chosen = request.limit.read(), request.chosen
    if chosen.label is not None and chosen.goal != "rows" and chosen.mechanism.lower() == "auto":
        raise click.UsageError("--label is for synthetic rows; add --goal rows, or name a mechanism")
    kept = path.with_name(f"{path.name}.partial")
    opened = f"{counted(len(draft.open_columns), 'open column')}; {DISCOVERY_TIME}"
    try:
        with long_work("discovering", opened, private=True):
            first = discover_first(
                RowsOf(source=source, **selection),
                draft,
                budget,
                chosen.read(),
                workload=request.question.workload,
                label=chosen.label,
                schema_is_public=schema_is_public,
                ledger=book.ledger,
                dataset=book.dataset,
                name=cast(Path, output.path).name,
                partial=kept,
                resume=resume,
                rows=request.rows,
            )
    except InterruptedRelease as stopped:
        click.echo(f"hush: {printable(f'{stopped}; resume with the same command and --resume {kept}')}", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
    first.schema.save(path, overwrite=output.force)
    kept.unlink(missing_ok=True)
    for note in first.notes:
        click.echo(f"discovered: {printable(note)}")
    if first.within is None:
        click.echo(f"Schema {path}: nothing was left to discover, so the whole budget is for the release.")
    else:
        click.echo(
            f"Schema {path}: {float(DISCOVERY_SHARE):.0%} of {budget} was spent on it (by itself {first.spent}); the "
            f"rest is for the release (by itself {first.rest})."
        )
    question = request.question
    if question.workload is not None:
        workload, said = answerable(question.workload, first.schema)
        question = replace(question, workload=workload)
        for line in said:
            click.echo(f"hush: {printable(line)}", err=True)
    amounts = first.rest.to_dict()
    limit = replace(request.limit, **{name: amounts.get(name) for name in ("epsilon", "delta", "rho", "mu")})
    return replace(request, limit=limit, question=question), path, {"within": first.within, "evidence": first.evidence}


def _draft(source: Any, selection: dict[str, Any], draft_file: Path | None, protected: UnitOptions) -> Draft:
    """The draft in a file, or one guessed from names and types, which prints what it assumes."""
    from hush.core.unit import ROW, Unit
    from hush.discovery.guessed_draft import guessed_draft
    from hush.schema.discovery_draft import Draft

    unit, cap = protected.unit, protected.max_rows_per_unit
    if draft_file is not None:
        if unit is not None or cap is not None:
            raise click.UsageError("the draft names the unit in [unit]; leave --unit and --max-rows-per-unit out")
        return Draft.load(draft_file)
    if unit is None and cap is not None:
        raise click.UsageError("--max-rows-per-unit goes with --unit, the id column; name it")
    options = {name: value for name, value in selection.items() if name in ("table", "query")}
    guess = guessed_draft(source, unit=ROW if unit is None else Unit(column=unit, max_rows=cap or 1), **options)
    for line in guess.assumed:
        click.echo(f"assumed: {printable(line)}")
    return replace(guess.draft, open_unit=unit is not None and cap is None)  # a cap that nobody states is found


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


def _payable(plan: Plan, book: LedgerOptions, within: Allowance | None) -> Plan:
    """The plan, or the best one with the other noise if only that fits in what is left of the ledger or the account."""
    account: Allowance | hush.Ledger | None = within
    if within is None and book.ledger is not None and book.ledger.exists():
        account = hush.Ledger.open(book.ledger, dataset=book.dataset)
    other = plan if account is None else plan.fitting(account)
    if other is plan:
        return plan
    full = f"{book.ledger} has" if within is None else "after the discovery there is"
    noise = "wider" if (plan.epsilon is None) is (other.epsilon is None) else "Laplace" if other.epsilon else "Gaussian"
    click.echo(
        f"hush: {full} no room left for the plan of least error, RMSE {plan.rmse:.3g}; this release takes "
        f"{noise} noise instead, RMSE {other.rmse:.3g}",
        err=True,
    )
    return other


def _run(job: ReleaseJob, table: Table) -> hush.Release:
    """Run the job with a progress bar, shown only after all checks have passed."""
    with ExitStack() as stack:
        if not job.plan.adaptive:
            return job.run(table, progress=stack.enter_context(progress_bar("measuring")))
        bar: list[Any] = []

        def start() -> None:
            if job.resume is not None:
                tables = len(job.resume.noisy_tables)
                held = f"{tables:,} noisy tables are kept" if tables else "no table was measured"
                share = job.resume.statement.rho / float(job.plan.budget.limit)
                cost = f"which cost {share:.0%} of {job.plan.budget}; the rest is spent now"
                say(f"Resuming {job.plan.mechanism}: {held}, {cost}.")
            if job.plan.rmse is None:
                say(f"Work: {job.plan.work}.")
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


def _warn_of(resumed: Path | None, ledger: Path | None, *, charged: bool = False) -> None:
    """Warn of an interrupted release that was resumed into another file, and of a charge that no ledger records."""
    if resumed is not None and resumed.exists():
        alone = "" if ledger is not None else ", and without a ledger nothing would stop it"
        click.echo(f"hush: {resumed} must not be resumed again: its budget is spent elsewhere now{alone}", err=True)
    if ledger is None and charged:
        click.echo("hush: no --ledger was given, so only the release itself records what was spent", err=True)


def _say(done: hush.Release, output: Path, *, late_warning: bool) -> None:
    """Print the statement of a release and its warnings; `late_warning` if no delta was checked beforehand."""
    from rich.console import Console

    from hush.mechanisms.plan_errors import released_delta_warning
    from hush.render.text_table import TextTable

    facts = done.statement_lines()
    if done.bounded:
        rounds = f" in {len(done.rounds):,} rounds" if done.rounds else ""
        model = "" if done.record.fitted is None else f"; {summary(done.model())}"
        facts.append(("Measured", f"{len(done.noisy_tables):,} noisy tables{rounds}{model}"))
    facts.append(("Written", f'{output}: ask it with `hush query {output} "SELECT ..."`'))
    Console().print(TextTable.facts(facts))
    late = released_delta_warning(done) if late_warning else None
    for note in (*done.statement.warnings, *([] if late is None else [late])):
        click.echo(f"hush: {note}", err=True)
