"""Options that several commands share, in groups: each group reaches the command as one frozen dataclass."""

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
STDOUT = Path("-")
# fmt: off
MECHANISMS = (
    "auto", "residual", "hdmm", "matrix", "direct", "dawa", "scout", "aim", "mst", "mwem", "privbayes", "privmrf",
    "privsyn", "dualquery", "swift", "rap", "gem", "independent", "gaussian", "all-zero",
)
# fmt: on


class Whole(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4
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
        names = ", ".join(dict.fromkeys([*MECHANISMS, *others]))
        self.help = f"One of {names}. auto takes the best whose error is known in advance. See `hush mechanisms`."
        return super().get_help_record(ctx)


def option_group(name: str, kind: type, *options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Pass options to a command as one argument `name`: a `kind` with a field for each option."""

    def decorate(command: Command) -> Command:
        @wraps(command)
        def run(*arguments: Any, **values: Any) -> Any:
            given = {field.name: values.pop(field.name) for field in fields(kind) if field.name in values}
            return command(*arguments, **{name: kind(**given)}, **values)

        decorated: Any = run
        for option in reversed(options):
            decorated = option(decorated)
        return cast(Command, decorated)

    return decorate


# Output


format_option = click.option(
    "--format",
    "as_json",
    type=click.Choice(["table", "json"], case_sensitive=False),
    default="table",
    show_default=True,
    callback=lambda context, option, form: form == "json",
    help="A table to read, or JSON with all figures.",
)


def json_options(command: Command) -> Command:
    """--format json and its short form --json, as one argument `as_json`."""

    @wraps(command)
    def run(*arguments: Any, as_json: bool, json_flag: bool, **values: Any) -> Any:
        return command(*arguments, as_json=as_json or json_flag, **values)

    short = click.option("--json", "json_flag", is_flag=True, help="Short for --format json.")
    return cast(Command, format_option(short(run)))


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """The file to write, if any, and whether to overwrite it."""

    path: Path | None
    force: bool = False

    @property
    def stdout(self) -> bool:
        """Whether the output goes to standard output: asked for by `-`, or because no file is named."""
        return self.path is None or self.path == STDOUT

    def check(self, *inputs: str | Path | None, stdout: bool = False) -> None:
        """Refuse a file that must not be written, see `check_output`; `-` passes only where `stdout` can be used."""
        if self.path is not None and not (stdout and self.stdout):
            check_output(self.path, force=self.force, inputs=inputs)

    def write(self, text: str, failure: type[HushError] = HushError) -> None:
        """Write a text to the file, or to standard output."""
        from hush.files.atomic_write import write_whole

        if self.path is None or self.stdout:
            click.echo(text, nl=False)
        else:
            write_whole(self.path, text.encode(), failure)


def output_options(text: str, *, required: bool = False) -> Callable[[Command], Command]:
    """-o and --force, as one argument `output`; `text` is the help of -o."""
    return option_group(
        "output",
        OutputOptions,
        click.option("-o", "--output", "path", type=PATH, required=required, help=text),
        click.option("--force", is_flag=True, help="Overwrite the output file if it exists."),
    )


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
    try:
        with output.open("rb") as file:
            begins = file.read(16)
    except OSError as error:
        raise HushError(f"cannot look at {output}: {error.strerror}; choose another name") from None
    if begins == b"SQLite format 3\x00":
        raise HushError(f"{output} is a ledger or another database and is not overwritten; choose another name")
    if not force:
        raise HushError(f"{output} exists already; choose another name or add --force")


# The table


@dataclass(frozen=True, slots=True)
class DataOptions:
    """Where the rows are and which of them to read; the options that a command does not have are None."""

    data: str | None = None
    table: str | None = None
    spark: str | None = None
    query: str | None = None
    where: str | None = None
    timeout: float | None = None
    counts: str | None = None

    def source(self) -> tuple[Any, dict[str, Any]]:
        """The source for `hush.read`, and the arguments that select rows in it; starts Spark where it shall count."""
        source: Any = self.data
        selection: dict[str, Any] = {
            name: getattr(self, name) for name in ("table", "query", "where", "timeout", "counts")
        }
        if self.spark is not None:
            from hush.tables.dialects.spark_sessions import connect, parquet_frame

            path = None if self.data == str(STDOUT) else self.data
            if (path is None) == (self.table is None):
                raise click.UsageError("--spark counts a path of Parquet or a --table of the catalog; give one of them")
            source = connect(self.spark)
            if path is not None:
                source, selection["table"] = parquet_frame(source, path), None
        elif self.data is None:
            raise click.UsageError("Missing argument 'DATA'.")
        return source, {name: value for name, value in selection.items() if value is not None}


_DATA_OPTIONS = {
    "table": click.option("--table", help="Table of a database, or sheet of a spreadsheet."),
    "spark": click.option(
        "--spark",
        help='Count with Spark: a master such as "local[2]", or the address of Spark Connect, sc://host:port. DATA is '
        "then a path of Parquet; leave it out, or write -, for a --table of the catalog.",
    ),
    "query": click.option("--query", help="A SELECT on the database, instead of --table."),
    "where": click.option(
        "--where", help="Read only matching rows of a file, such as 'age >= 18'; see docs/schema.md."
    ),
    "timeout": click.option(
        "--timeout", type=float, help="Most seconds for one statement of a server or cluster.  [default: 3600]"
    ),
    "counts": click.option("--counts", help="Column of an aggregated table with the number of rows of each line."),
}


def data_options(*names: str) -> Callable[[Command], Command]:
    """Some of the options on the rows, as one argument `rows_of`."""
    return option_group("rows_of", DataOptions, *(_DATA_OPTIONS[name] for name in names))


# What to release


@dataclass(frozen=True, slots=True)
class MechanismOptions:
    """The options that choose a mechanism."""

    mechanism: str
    goal: str
    label: str | None
    loss: str
    preset: str | None
    max_size_mb: float | None

    @property
    def given(self) -> bool:
        """Whether any option about the mechanism itself was used."""
        limited = self.preset is not None or self.max_size_mb is not None
        return self.mechanism.lower() != "auto" or self.for_rows or limited

    @property
    def for_rows(self) -> bool:
        """Whether the release is for synthetic rows, so that it needs no workload."""
        return self.goal == "rows" or self.label is not None

    def read(self) -> Mechanism:
        """The mechanism; refuses settings that it does not have."""
        from hush.mechanisms.registry import BUILT_IN, mechanism_of

        options = {"preset": self.preset, "max_size_mb": self.max_size_mb}
        settings = {key: value for key, value in options.items() if value is not None}
        if len(settings) > 1:
            raise click.UsageError("--preset and --max-size-mb both limit the size of the model; leave one of them out")
        mechanism = mechanism_of(self.mechanism, self.loss)
        if self.goal != "answers":
            if mechanism.name != "auto":
                raise click.UsageError(
                    f"--goal chooses the mechanism; leave it out, or leave out --mechanism {self.mechanism}"
                )
            settings["goal"] = self.goal
        for key in settings.keys() - {field.name for field in fields(mechanism)}:
            having = [name for name, kind in BUILT_IN.items() if key in kind.__dataclass_fields__]
            raise click.UsageError(
                f"--{key.replace('_', '-')} is a setting of {', '.join(having)}; {self.mechanism} does not have it, so "
                "leave it out"
            )
        return replace(mechanism, **settings) if settings else mechanism


mechanism_options = option_group(
    "chosen",
    MechanismOptions,
    click.option("--mechanism", cls=MechanismOption, default="auto", show_default=True),
    click.option(
        "--goal",
        type=click.Choice(["answers", "rows"]),
        default="answers",
        show_default=True,
        help="What the release is for, if no mechanism is named: answers with known errors, or synthetic rows.",
    ),
    click.option("--label", help="Column that classifiers trained on the synthetic rows will predict."),
    click.option(
        "--loss", type=click.Choice(["rmse", "maxvar"]), default="rmse", show_default=True, help="What to minimise."
    ),
    click.option("--preset", help="Size of the model: fast, balanced or best."),
    click.option(
        "--max-size-mb",
        type=click.FloatRange(min=0, min_open=True),
        help="Size of the largest model in megabytes, instead of a preset.",
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

    def read(self, schema: hush.Schema, *, for_rows: bool = False) -> hush.Workload:
        """The workload of the text and of the file together; for synthetic rows all pairs, if neither is given."""
        from hush.workloads.workload_text import parse_workload

        if not self.given and for_rows:
            order = min(2, max(len(schema.domain.varying()), 1))  # one column has no pairs
            return parse_workload(schema, f"{order}-way")
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


workload_options = option_group(
    "question",
    WorkloadOptions,
    click.option(
        "--workload",
        help="What to ask: '3-way', '<=2-way', 'small 5000', 'target income 2-way', 'predict income', 'skewed 1', "
        "'age,sex; race', 'age:prefix', '2-of-3', 'sum(income) by sex'.",
    ),
    click.option("--workload-sql", type=PATH, help="File of SELECT COUNT(*) queries, each ending in a semicolon."),
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
        from hush.mechanisms.plan_errors import check_rows
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


budget_options = option_group(
    "limit",
    BudgetOptions,
    click.option("--epsilon", type=float, help="Epsilon of the budget."),
    click.option(
        "--delta",
        type=float,
        help="Delta of the budget, far below 1 / number of people; without it, epsilon is pure.",
    ),
    click.option("--rho", type=float, help="Budget in zCDP."),
    click.option("--mu", type=float, help="Budget in Gaussian DP."),
)


def rows_option(purpose: str = "") -> Callable[[Command], Command]:
    """--rows: the expected size of the table, a public number."""
    text = f"Expected number of rows, a public guess: {purpose}refuses a budget that is too small, and sets delta to "
    return click.option("--rows", type=int, help=f"{text}1/(10 rows) where Gaussian noise needs a --delta.")


@dataclass(frozen=True, slots=True)
class UnitOptions:
    """Whom the release protects; by default what the schema says."""

    unit: str | None = None
    max_rows_per_unit: int | None = None

    def rows(self, schema: hush.Schema) -> int:
        """How many rows of a unit are used at most; refuses another unit than that of the schema without a number."""
        if self.unit not in (None, schema.unit.column) and self.max_rows_per_unit is None:
            raise click.UsageError(f"say how many rows of one {self.unit} are used at most with --max-rows-per-unit")
        return (self.max_rows_per_unit or 1) if self.unit else schema.unit.max_rows


unit_options = option_group(
    "protected",
    UnitOptions,
    click.option("--unit", help="Id column of the people or units to protect.  [default: from the schema]"),
    click.option("--max-rows-per-unit", type=int, help="Use at most this many rows of a unit."),
)


@dataclass(frozen=True, slots=True)
class LedgerOptions:
    """Where the charge is recorded."""

    ledger: Path | None = None
    dataset: str = "default"


dataset_option = click.option(
    "--dataset", default="default", show_default=True, help="Name of the table in the ledger."
)


def ledger_options(text: str) -> Callable[[Command], Command]:
    """--ledger and --dataset, as one argument `book`; `text` is the help of --ledger."""
    return option_group("book", LedgerOptions, click.option("--ledger", type=PATH, help=text), dataset_option)
