"""`hush mechanisms`: list the mechanisms and what each takes into account."""

from __future__ import annotations

import json

import click

from hush.cli.options import json_options

WIDEST_OUTPUT = 100
FLAG_MEANINGS = (
    ("asked", "what is measured depends on what the workload asks"),
    ("data", "what is measured depends on the data, within the budget"),
    ("budget", "how much is measured depends on the budget"),
    ("size", "what is measured is limited so that the model stays small"),
    ("rows", "the release holds a model to draw rows from; others fit one when you ask for rows"),
)
ERRORS_MEANING = (
    "errors",
    "which answers are unbiased with exact standard errors; bounded: the error of the model has a bound",
)


@click.command()
@json_options
def mechanisms(as_json: bool) -> None:
    """List the mechanisms and what each of them does.

    Use a name with --mechanism, or with hush.plan(mechanism=...).
    """
    from rich.console import Console

    from hush.mechanisms.registry import mechanisms as all_mechanisms
    from hush.mechanisms.registry import problems
    from hush.render.text_table import TextColumn, TextTable

    entries = list(all_mechanisms().values())
    for problem in problems():
        click.echo(f"hush: {problem}", err=True)
    if as_json:
        click.echo(json.dumps([entry.facts() for entry in entries], indent=2))
        return
    console = Console(width=min(Console().width, WIDEST_OUTPUT))
    rows = []
    for entry in entries:
        flags = (entry.workload_aware, entry.data_aware, entry.budget_aware, entry.efficiency_aware, entry.synthetic)
        rows.append((entry.name, *("✓" if flag else "·" for flag in flags), entry.noise_words, entry.errors_known))
    overview = TextTable(
        columns=(
            TextColumn(heading="mechanism", style="bold"),
            *(TextColumn(heading=heading, align="center") for heading, _ in FLAG_MEANINGS),
            TextColumn(heading="noise", fit="fold"),
            TextColumn(heading="errors", fit="fold"),
        ),
        rows=rows,
    )
    words = TextTable.facts(
        (entry.name, f"{entry.description} [{entry.reference}]" if entry.reference else entry.description)
        for entry in entries
    )
    legend = TextTable.facts((*FLAG_MEANINGS, ERRORS_MEANING), style="dim")
    console.print(overview, "", words, "", legend)
