"""Options that several commands share: budgets, workloads, mechanisms, progress bars and output files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

import hush
from hush.core.errors import BudgetError, HushError, WorkloadError

if TYPE_CHECKING:
    from hush.mechanisms.mechanism import Mechanism

Command = TypeVar("Command", bound=Callable[..., Any])
PATH = click.Path(path_type=Path)
WORKLOAD_HELP = (
    "What to ask: '3-way', '<=2-way', 'small 5000', 'target income 2-way', 'skewed 1', 'age,sex; race', 'age:prefix', "
    "'2-of-3', 'sum(income) by sex'."
)
MECHANISMS = (
    "auto",
    "residual",
    "hdmm",
    "matrix",
    "direct",
    "dawa",
    "aim",
    "mst",
    "mwem",
    "privbayes",
    "dualquery",
    "rap",
    "independent",
    "gaussian",
    "all-zero",
)
MECHANISM_HELP = "One of {names}; auto compares those whose errors are known beforehand. See `hush mechanisms`."
INVENTED_SEED = 11  # of rows that commands invent


STDOUT = Path("-")
format_option = click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json"], case_sensitive=False),
    default="table",
    show_default=True,
    help="A table to read, or JSON with everything.",
)


counts_option = click.option(
    "--counts", help="Column of an aggregated table that says how many rows each line stands for."
)


table_option = click.option("--table", help="Which table of a database, or sheet of a spreadsheet, DATA means.")
query_option = click.option("--query", help="A SELECT on the database that DATA means, instead of --table.")
where_option = click.option(
    "--where", help="Read only the rows of a file that meet a condition, such as 'age >= 18'; see docs/schema.md."
)
timeout_option = click.option(
    "--timeout", type=float, help="Seconds that one statement of a server or a cluster may take.  [default: 3600]"
)


spark_option = click.option(
    "--spark",
    help='Count with Spark: a master such as "local[2]", or an address of Spark Connect, sc://host:port. DATA is then '
    "a path of Parquet; leave it out, or write -, for a --table of the catalog.",
)


def source_of(data: str | None, table: str | None, spark: str | None) -> tuple[Any, str | None]:
    """What `hush.read` takes as the source and as the table; starts Spark where it shall count."""
    if spark is None:
        if data is None:
            raise click.UsageError("Missing argument 'DATA'.")
        return data, table
    from hush.tables.dialects.spark_sessions import connect, parquet_frame

    path = None if data == str(STDOUT) else data
    if (path is None) == (table is None):
        raise click.UsageError("--spark counts a path of Parquet or a --table of the catalog; give one of the two")
    session = connect(spark)
    return (session, table) if path is None else (parquet_frame(session, path), None)


class Whole(click.ParamType[int]):
    """A whole number of at least 0."""

    name = "integer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value).strip()
        if not (text.isascii() and text.isdigit() and len(text) <= 18):
            self.fail(f"{value!r}: expected a whole number of at least 0, in digits, such as 10000", param, ctx)
        return int(text)


class MechanismOption(click.Option):
    """--mechanism; its help lists the mechanisms of other packages too, without importing any."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        from importlib.metadata import entry_points

        others = sorted(entry.name for entry in entry_points(group="hush.mechanisms"))
        self.help = MECHANISM_HELP.format(names=", ".join(dict.fromkeys([*MECHANISMS, *others])))
        return super().get_help_record(ctx)


def _gathered(name: str, kind: type, *options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Pass options to a command as one argument `name`: a `kind` with a field for each option."""

    def decorate(command: Command) -> Command:
        @wraps(command)
        def run(*arguments: Any, **values: Any) -> Any:
            values[name] = kind(**{field.name: values.pop(field.name) for field in fields(kind)})
            return command(*arguments, **values)

        decorated: Any = run
        for option in reversed(options):
            decorated = option(decorated)
        return cast(Command, decorated)

    return decorate


@dataclass(frozen=True, slots=True)
class MechanismOptions:
    """The options that choose a mechanism."""

    mechanism: str
    loss: str
    preset: str | None
    max_size_mb: float | None

    @property
    def given(self) -> bool:
        """Whether any option about the mechanism itself was used."""
        return self.mechanism.lower() != "auto" or self.preset is not None or self.max_size_mb is not None

    def read(self) -> Mechanism:
        """The mechanism; refuses settings that it does not have."""
        from hush.mechanisms.registry import BUILT_IN, mechanism_of

        options = {"preset": self.preset, "max_size_mb": self.max_size_mb}
        settings = {key: value for key, value in options.items() if value is not None}
        if len(settings) > 1:
            raise click.UsageError("--preset and --max-size-mb both limit the size of the model; leave one of them out")
        mechanism = mechanism_of(self.mechanism, self.loss)
        for key in settings.keys() - {field.name for field in fields(mechanism)}:
            able = [name for name, kind in BUILT_IN.items() if key in kind.__dataclass_fields__]
            raise click.UsageError(
                f"--{key.replace('_', '-')} is a setting of {', '.join(able)}; {self.mechanism} does not have it, so "
                "leave it out"
            )
        return replace(mechanism, **settings) if settings else mechanism


mechanism_options = _gathered(
    "chosen",
    MechanismOptions,
    click.option("--mechanism", cls=MechanismOption, default="auto", show_default=True),
    click.option(
        "--loss", type=click.Choice(["rmse", "maxvar"]), default="rmse", show_default=True, help="What to minimise."
    ),
    click.option("--preset", help="Size of the model to measure for: fast, balanced or best."),
    click.option(
        "--max-size-mb",
        type=click.FloatRange(min=0, min_open=True),
        help="Largest model to measure for, in megabytes; instead of a preset.",
    ),
)


@dataclass(frozen=True, slots=True)
class WorkloadOptions:
    """The options that state a workload: a text, a file of SQL queries, or both."""

    workload: str | None
    workload_sql: Path | None

    @property
    def given(self) -> bool:
        """Whether either option was used."""
        return self.workload is not None or self.workload_sql is not None

    def read(self, schema: hush.Schema) -> hush.Workload:
        """The workload of the text and of the file together."""
        from hush.workloads.workload_text import parse_workload

        if not self.given:
            raise click.UsageError("say what to ask with --workload, or with --workload-sql and a file of queries")
        described = None if self.workload is None else parse_workload(schema, self.workload)
        if (file := self.workload_sql) is None:
            return described if described is not None else parse_workload(schema.domain, "")
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise WorkloadError(f"{file} cannot be read: {getattr(error, 'strerror', None) or 'not UTF-8'}") from None
        queries = hush.Workload.sql(schema, text)
        return queries if described is None else described + queries


workload_options = _gathered(
    "question",
    WorkloadOptions,
    click.option("--workload", help=WORKLOAD_HELP),
    click.option(
        "--workload-sql", type=PATH, help="File of SELECT COUNT(*) queries to ask, each ending in a semicolon."
    ),
)


@dataclass(frozen=True, slots=True)
class BudgetOptions:
    """The options that state a budget."""

    epsilon: float | None
    delta: float | None
    rho: float | None
    mu: float | None

    @property
    def given(self) -> bool:
        """Whether an amount was stated; a delta alone is none."""
        return (self.epsilon, self.rho, self.mu) != (None, None, None)

    def read(self) -> hush.Budget:
        """The budget; if there is none, an error that says how to state one."""
        if not self.given:
            raise BudgetError("no budget was given; add --epsilon 1 --delta 1e-9, or --rho 0.01")
        return hush.Budget(epsilon=self.epsilon, delta=self.delta, rho=self.rho, mu=self.mu)

    def read_for(self, mechanism: Mechanism, rows: int | None) -> hush.Budget:
        """The budget; where Gaussian noise needs a delta and none was given, 1 / (10 rows), with a warning.

        Privacy: `rows` is a public number that the owner states. Without it there is no default.
        """
        from hush.mechanisms.usefulness import check_rows
        from hush.privacy.budget import number_text

        budget = self.read()
        if not budget.pure or self.delta is not None:
            return budget
        try:
            mechanism.accounted(budget)
            return budget
        except BudgetError:
            needed = f"{mechanism.name} adds Gaussian noise, which needs a delta, and no --delta was given"
        if rows is None:
            raise BudgetError(
                f"{budget}: {needed}; add --delta 1e-9, or --rows with the public number of rows, which sets delta to "
                "1/(10 rows)"
            )
        chosen = hush.Budget(epsilon=self.epsilon, delta=1 / (10 * check_rows(rows)))
        click.echo(
            f"hush: {needed}; delta={number_text(chosen.delta or 0.0)} was chosen, 1/(10 rows) for --rows {rows}. "
            "Delta is the chance that the promise of epsilon fails; add --delta to choose your own",
            err=True,
        )
        return chosen


budget_options = _gathered(
    "limit",
    BudgetOptions,
    click.option("--epsilon", type=float, help="Epsilon of the budget."),
    click.option(
        "--delta",
        type=float,
        help="Delta of the budget, far below one over the number of people; without it epsilon is pure.",
    ),
    click.option("--rho", type=float, help="Budget in zCDP."),
    click.option("--mu", type=float, help="Budget in Gaussian DP."),
)


_SQLITE = b"SQLite format 3\x00"


def check_output(output: Path, *, force: bool, inputs: Iterable[str | Path | None] = ()) -> None:
    """Refuse an output that cannot be written, exists already, or must not be replaced.

    Even `force` does not replace a file that the command reads, a SQLite file (such as a ledger), or anything but a
    regular file. A command that writes text or rows handles `-`, standard output, before it comes here.
    """
    if output == STDOUT:
        raise HushError("-o -: only rows, pages and schemas can be written to standard output; give a file name")
    folder = Path(os.path.realpath(output)).parent  # where a link leads is where the file is written
    if not folder.is_dir():
        raise HushError(f"{folder} is no folder; create it first")
    if not os.access(folder, os.W_OK):
        raise HushError(f"{folder} cannot be written to; choose another folder")
    if not os.path.lexists(output):
        return
    if not output.is_file():
        raise HushError(f"{output} is no regular file and is not replaced; choose another name")
    for read in inputs:
        if read is not None and Path(read).exists() and output.samefile(read):
            raise HushError(f"{output} is read by this command and is not overwritten; choose another name")
    if _begins_with(output, _SQLITE):
        raise HushError(f"{output} is a ledger or another database and is not overwritten; choose another name")
    if not force:
        raise HushError(f"{output} exists already; choose another name or add --force")


def _begins_with(path: Path, mark: bytes) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(mark)) == mark
    except OSError as error:
        raise HushError(f"cannot look at {path}: {error.strerror}; choose another name") from None
