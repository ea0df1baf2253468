"""The `hush` command; to add a command, write it in a file of its own and name it in COMMANDS."""

from __future__ import annotations

import click

from hush._version import __version__
from hush.cli.audit_command import audit
from hush.cli.budget_command import budget
from hush.cli.demo import demo
from hush.cli.evaluate_command import evaluate
from hush.cli.mechanisms_command import mechanisms
from hush.cli.model_command import model
from hush.cli.plan_command import plan
from hush.cli.program import HushGroup
from hush.cli.query_command import query
from hush.cli.release_command import release
from hush.cli.report_command import report
from hush.cli.schema_command import schema
from hush.cli.synth_command import synth

COMMANDS: tuple[click.Command, ...] = (
    demo,
    schema,
    mechanisms,
    plan,
    release,
    query,
    model,
    synth,
    evaluate,
    report,
    budget,
    audit,
)


@click.group(cls=HushGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="hush")
def main() -> None:
    """Differentially private answers, tables and synthetic copies of a sensitive table."""


for command in COMMANDS:
    main.add_command(command)
