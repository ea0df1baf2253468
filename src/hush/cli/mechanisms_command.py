"""`hush mechanisms`: which mechanisms there are, and what each takes into account."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from hush.mechanisms.registry import Taxonomy

WIDEST = 100
FLAGS = (
    ("asked", "what is measured reflects what the workload asks"),
    ("data", "what is measured is chosen by the data, within the budget"),
    ("budget", "how much is measured follows the budget"),
    ("size", "what is measured is kept such that its model stays small"),
    ("rows", "a model that rows are drawn from is in the release; others are fitted when rows are wanted"),
)
ERRORS = (
    "errors",
    "which answers are unbiased, with exact standard errors; bounded: how far off the model may be is known",
)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="As JSON, for programs.")
def mechanisms(as_json: bool) -> None:
    """List the mechanisms and what each of them does.

    The names go where --mechanism is asked for, and hush.plan(mechanism=...).
    """
    from rich.console import Console

    from hush.cell_table import CellColumn, CellTable
    from hush.mechanisms.registry import MECHANISMS, TAXONOMY

    known = [TAXONOMY[name] for name in MECHANISMS]
    if as_json:
        click.echo(json.dumps([entry.to_dict() for entry in known], indent=2))
        return
    console = Console(width=min(Console().width, WIDEST))
    flags = CellTable(
        columns=(
            CellColumn(heading="mechanism", style="bold"),
            *(CellColumn(heading=heading, align="center") for heading, _ in FLAGS),
            CellColumn(heading="noise", fit="fold"),
            CellColumn(heading="errors", fit="fold"),
        ),
        rows=[(entry.name, *_marks(entry), entry.noise, entry.errors) for entry in known],
    )
    words = CellTable.facts(
        (entry.name, f"{entry.description} [{entry.reference}]" if entry.reference else entry.description)
        for entry in known
    )
    legend = CellTable.facts((*FLAGS, ERRORS), style="dim")
    console.print(flags, "", words, "", legend)


def _marks(entry: Taxonomy) -> Iterator[str]:
    flags = (entry.workload_aware, entry.data_aware, entry.budget_aware, entry.efficiency_aware, entry.synthetic)
    return ("✓" if flag else "·" for flag in flags)
