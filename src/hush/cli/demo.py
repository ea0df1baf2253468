"""`hush demo`: the main job on a generated table, from rows to answers with error bars."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

import hush
from hush.cli.options import PATH, progress_bar
from hush.errors import HushError

if TYPE_CHECKING:
    from rich.console import Console

FILES = ("people.csv", "people.toml", "budget.db", "people.hush")
ROWS = 50_000
SEED = 7  # of the invented people; the noise is never seeded
WORKLOAD = "<=2-way + age:prefix,sex"
QUESTIONS = (
    "SELECT sex, COUNT(*) FROM people WHERE age >= 65 GROUP BY sex",
    "SELECT region, AVG(age) FROM people GROUP BY region",
    "SELECT COUNT(*) FROM people WHERE employed AND education IN ('degree', 'doctorate')",
)


@click.command()
@click.option("--folder", type=PATH, help="Keep the demo's files in this folder.  [default: a temporary one]")
def demo(folder: Path | None) -> None:
    """Run the main job on an invented table.

    Releases 50,000 invented people at epsilon = 1 and asks three questions.
    """
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            if (folder / name).exists():
                raise HushError(f"{folder / name} exists already; give the demo an empty folder")
        _run(folder)
        return
    with tempfile.TemporaryDirectory() as temporary:
        _run(Path(temporary))


def _run(folder: Path) -> None:
    from pyarrow import csv
    from rich.console import Console
    from rich.text import Text

    from hush.loading import load_release
    from hush.mechanisms.plan_table import print_plan
    from hush.workloads.text import parse_workload

    console = Console(highlight=False)
    data, schema_file, ledger, output = (folder / name for name in FILES)
    _head(console, "1. A sensitive table and its schema")
    rows, schema = hush.datasets.people(ROWS, seed=SEED), hush.datasets.people_schema()
    csv.write_csv(rows, data)
    schema_file.write_text(schema.to_toml(), encoding="utf-8")
    console.print(f"{ROWS:,} invented people; columns: {', '.join(schema.domain)}.")
    with progress_bar("reading") as progress:
        table = hush.read(data, schema_file, progress=progress)

    _head(console, "2. A plan: how accurate will it be? Nothing is spent yet")
    budget = hush.Budget(epsilon=1.0, delta=1e-9)
    made = hush.plan(parse_workload(schema.domain, WORKLOAD), budget)
    print_plan(console, made, rows=ROWS)

    _head(console, "3. The release: charge the ledger, count, add exact noise")
    with progress_bar("measuring") as progress:
        made.release(table, ledger=ledger, name=output.name, progress=progress).save(output)
    book = hush.Ledger.open(ledger)
    console.print(f"Wrote {output.name}. Ledger: {book.budget} allowed, all of it spent, head {book.head}.")

    _head(console, "4. Questions: each number with its error bar, at no further cost")
    release = load_release(output)
    for question in QUESTIONS:
        console.print(Text(question, style="bold"))
        console.print(str(release.sql(question)), markup=False)
        console.print(Text(f"exact, shown since these people are invented: {_exact(data, question)}\n", style="dim"))


def _exact(data: Path, question: str) -> str:
    """The answer on the rows themselves; for invented people only."""
    import duckdb

    with duckdb.connect() as connection:
        connection.read_csv(str(data)).create_view("people")
        found = connection.execute(question + (" ORDER BY 1" if "GROUP BY" in question else "")).fetchall()
    return "; ".join(
        " ".join(
            f"{cell:,.5g}" if isinstance(cell, float) else f"{cell:,}" if isinstance(cell, int) else str(cell)
            for cell in row
        )
        for row in found
    )


def _head(console: Console, text: str) -> None:
    from rich.rule import Rule
    from rich.text import Text

    console.print()
    console.print(Rule(Text(text, style="bold"), align="left"))
