"""The `hush` command: all commands by name, and the messages when one of them fails.

To add a command, write it in a file of its own and name it in COMMANDS.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple

import click

from hush._version import __version__
from hush.core.errors import HushError, close_match

BAD_INPUT = 2
INTERNAL_ERROR = 70
INTERRUPTED = 130
OBJECTS_PER_COLLECTION = 100_000  # imports make many objects and hardly any garbage
NO_ARGUMENTS_ERROR = getattr(click.exceptions, "NoArgsIsHelpError", ())  # a group without a command; since click 8.2


class LazyCommand(NamedTuple):
    """A command whose module in hush.cli is imported when it is used, and its line in the list of commands."""

    name: str
    module: str
    line: str

    def load(self) -> click.Command:
        """The command."""
        command: click.Command = getattr(import_module(f"hush.cli.{self.module}"), self.name)
        return command


class HushGroup(click.Group):
    """A group whose failures are one line on stderr: exit code 2 for bad input, 70 for a bug in hush.

    Privacy: an unexpected exception may quote cells of the table, so only its type is shown; HUSH_DEBUG=1 in
    the environment shows all of it.
    """

    def __init__(self, *arguments: Any, lazy: Sequence[LazyCommand] = (), **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.lazy = {command.name: command for command in lazy}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands, loaded or not."""
        return sorted({*self.lazy, *super().list_commands(ctx)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a name, which loads it."""
        if cmd_name in self.lazy and cmd_name not in self.commands:
            self.add_command(self.lazy[cmd_name].load())
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that a line names; for a mistyped one, the nearest of all commands, loaded or not."""
        name = args[0]
        if self.get_command(ctx, name) is None and not ctx.resilient_parsing:
            near = close_match(name, self.list_commands(ctx))
            if near is not None:
                ctx.fail(f"No such command {name!r}. Did you mean {near!r}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands, without loading them."""
        lines = {name: command.get_short_help_str(80) for name, command in self.commands.items()}
        lines |= {name: command.line for name, command in self.lazy.items()}
        with formatter.section("Commands"):
            formatter.write_dl([(name, lines[name]) for name in self.list_commands(ctx)])

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command line; raises SystemExit unless `standalone_mode` is false."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, False, **extra)
        gc.set_threshold(OBJECTS_PER_COLLECTION)
        atexit.register(_leave_garbage)
        try:
            code = super().main(args, prog_name, complete_var, False, **extra)
        except HushError as error:
            code = _fail(str(error), BAD_INPUT)
        except click.ClickException as error:
            if isinstance(error, NO_ARGUMENTS_ERROR):
                error.show()
                code = BAD_INPUT
            else:
                code = _fail(_advice(error), BAD_INPUT)
        except click.Abort:
            code = _fail("interrupted", INTERRUPTED)
        except Exception as error:
            if os.environ.get("HUSH_DEBUG") == "1":
                raise
            name = type(error).__name__
            code = _fail(
                f"internal error ({name}); set HUSH_DEBUG=1 to see the traceback, which may contain private values",
                INTERNAL_ERROR,
            )
        sys.exit(code if isinstance(code, int) else 0)


def _leave_garbage() -> None:
    """Spare a short command the final garbage collection, which takes a fifth of its time.

    DuckDB's bindings would complain about what is left, so a command that loaded them ends as usual.
    """
    if "duckdb" not in sys.modules:
        gc.freeze()


def _fail(message: str, code: int) -> int:
    """Print the message on one line, without control characters."""
    line = "".join(mark if mark.isprintable() else " " for mark in message)
    click.echo(f"hush: {' '.join(line.split())}", err=True)
    return code


def _advice(error: click.ClickException) -> str:
    """The message of a usage error and where to read more."""
    message, context = error.format_message().rstrip("."), getattr(error, "ctx", None)
    if context is None:
        return message
    return f"{message}{'' if message.endswith('?') else ';'} see `{context.command_path} --help`"


COMMANDS = (
    LazyCommand("audit", "audit_command", "Look for faults in noise, a mechanism, a ledger, a release."),
    LazyCommand("budget", "budget_command", "Set, show or raise what may be spent on a dataset."),
    LazyCommand("demo", "demo", "Run the main job on an invented table."),
    LazyCommand("doctor", "doctor_command", "Check this installation, and that its noise is exact."),
    LazyCommand("evaluate", "evaluate_command", "Compare synthetic rows with the real ones; not for release."),
    LazyCommand("future", "future_command", "Show what drift of questions would cost a release."),
    LazyCommand("hybrid", "hybrid_command", "Ask people who trust you, and people who do not."),
    LazyCommand("mechanisms", "mechanisms_command", "List the mechanisms and what each of them does."),
    LazyCommand("model", "model_command", "Fit one model to a release FILE and save it."),
    LazyCommand("pareto", "pareto_command", "Show how much privacy buys how much accuracy."),
    LazyCommand("plan", "plan_command", "Show how accurate a release would be."),
    LazyCommand("query", "query_command", "Answer SQL from a release or a model."),
    LazyCommand("release", "release_command", "Measure DATA with noise and spend the budget."),
    LazyCommand("report", "report_command", "Write RELEASE as one HTML page to read."),
    LazyCommand("schema", "schema_command", "Say what the columns of a table may hold."),
    LazyCommand("serve", "studio_command", "Let others ask RELEASE: a page and an API."),
    LazyCommand("studio", "studio_command", "Plan, release and explore in a browser."),
    LazyCommand("synth", "synth_command", "Write synthetic rows from a release or a model."),
)


@click.group(cls=HushGroup, context_settings={"help_option_names": ["-h", "--help"]}, lazy=COMMANDS)
@click.version_option(__version__, "-V", "--version", prog_name="hush")
def main() -> None:
    """Differentially private answers, tables and synthetic copies of a sensitive table."""


@main.command("help")
@click.argument("names", metavar="[COMMAND]...", nargs=-1)
@click.pass_context
def show_help(context: click.Context, names: tuple[str, ...]) -> None:
    """Show what a COMMAND does, as --help does."""
    command: click.Command = main
    parent = context.find_root()
    for name in names:
        subcommand = command.get_command(parent, name) if isinstance(command, click.Group) else None
        if subcommand is None:
            known = ", ".join(command.list_commands(parent)) if isinstance(command, click.Group) else "none"
            near = close_match(name, command.list_commands(parent)) if isinstance(command, click.Group) else None
            hint = f"did you mean {near}?" if near else f"known: {known}"
            raise click.UsageError(f"no command {name!r}; {hint}", parent)
        parent = click.Context(subcommand, info_name=name, parent=parent)
        command = subcommand
    click.echo(command.get_help(parent))
