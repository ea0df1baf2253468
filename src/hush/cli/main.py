"""The `hush` command; to add a command, write it in a file of its own and name it in COMMANDS."""

from __future__ import annotations

import click

from hush._version import __version__
from hush.cli.program import HushGroup, LazyCommand
from hush.core.errors import close_match

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
