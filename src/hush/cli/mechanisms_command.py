"""`hush mechanisms`: which mechanisms there are, and what each takes into account."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.table import Table

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

    from hush.mechanisms.registry import MECHANISMS, TAXONOMY

    known = [TAXONOMY[name] for name in MECHANISMS]
    if as_json:
        click.echo(json.dumps([one.to_dict() for one in known], indent=2))
        return
    console = Console()
    console = Console(width=min(console.width, WIDEST))
    console.print(_flags(known))
    console.print()
    console.print(_words(known))
    console.print()
    console.print(_legend())


def _flags(known: list[Taxonomy]) -> Table:
    table = _table()
    table.add_column("mechanism", no_wrap=True, style="bold")
    for heading, _ in FLAGS:
        table.add_column(heading, justify="center", no_wrap=True)
    table.add_column("noise")
    table.add_column("errors")
    for one in known:
        flags = (one.workload_aware, one.data_aware, one.budget_aware, one.efficiency_aware, one.synthetic)
        table.add_row(one.name, *("✓" if flag else "·" for flag in flags), one.noise, one.errors)
    return table


def _words(known: list[Taxonomy]) -> Table:
    from rich.text import Text

    table = _table(show_header=False)
    table.add_column(no_wrap=True, style="bold")
    table.add_column()
    for one in known:
        table.add_row(one.name, Text(f"{one.description} [{one.reference}]" if one.reference else one.description))
    return table


def _legend() -> Table:
    table = _table(show_header=False)
    table.add_column(no_wrap=True, style="dim")
    table.add_column(style="dim")
    for heading, meaning in (*FLAGS, ERRORS):
        table.add_row(heading, meaning)
    return table


def _table(*, show_header: bool = True) -> Table:
    from rich.table import Table

    return Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=show_header)
