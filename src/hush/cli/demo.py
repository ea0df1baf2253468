"""`hush demo`: the main job on an invented table: answers with error bars, synthetic rows and a report."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

import hush
from hush.cli.long_work import COMPILES, NO_BAR, long_work
from hush.cli.options import PATH
from hush.cli.synth_command import SYNTHETIC_ROWS_NOTE, write_rows
from hush.core.errors import HushError
from hush.render.progress_bar import progress_bar

if TYPE_CHECKING:
    from rich.console import Console

DEMO_FILES = ("people.csv", "people.toml", "budget.db", "people.hush", "people-synthetic.csv", "report.html")
PEOPLE_ROWS = 50_000
SYNTHETIC_ROWS = 1_000
SHOWN_ROWS = 5
PEOPLE_SEED = 7  # of the invented people; the noise is never seeded
DEMO_WORKLOAD = "<=2-way + age:prefix,sex"
DEMO_QUESTIONS = (
    "SELECT sex, COUNT(*) FROM people WHERE age >= 65 GROUP BY sex",
    "SELECT region, AVG(age) FROM people GROUP BY region",
    "SELECT COUNT(*) FROM people WHERE employed AND education IN ('degree', 'doctorate')",
)


@click.command()
@click.option(
    "--folder", type=PATH, help="Write the demo's files to this folder.  [default: a new one for temporary files]"
)
def demo(folder: Path | None) -> None:
    """Run the main job on an invented table.

    Releases 50,000 invented people at epsilon = 1, asks three questions, draws synthetic rows and writes a report:
    one release, within a cap that is set beforehand.
    """
    if folder is None:
        folder = Path(tempfile.mkdtemp(prefix="hush-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    for name in DEMO_FILES:
        if (folder / name).exists():
            raise HushError(f"{folder / name} exists already; give the demo an empty folder")
    with long_work("the demo", f"under a minute; {COMPILES}", after=NO_BAR):
        _run(folder)


def _run(folder: Path) -> None:
    from rich.console import Console
    from rich.text import Text

    from hush.loading import load_release
    from hush.mechanisms.plan_table import plan_summary
    from hush.render.text_table import TextColumn, TextTable
    from hush.report import write_report
    from hush.workloads.workload_text import parse_workload

    # Invent the table, and cap what may be released from it before anything is.
    console = Console(highlight=False)
    data, schema_file, budget_file, output, synthetic, page = (folder / name for name in DEMO_FILES)
    _head(console, "1. A sensitive table, and a cap on all that is ever released from it")
    rows, schema = hush.datasets.people(PEOPLE_ROWS, seed=PEOPLE_SEED), hush.datasets.people_schema()
    write_rows(data, [rows], lambda _: None)
    schema.save(schema_file)
    console.print(f"{PEOPLE_ROWS:,} invented people; columns: {', '.join(schema.domain)}.")
    ledger = hush.Ledger.create(budget_file, hush.Budget(epsilon=3.0, delta=1e-9))
    console.print(f"{budget_file.name} caps what all releases may spend together: {ledger.budget}.")
    with progress_bar("reading") as progress:
        table = hush.read(data, schema_file, progress=progress)

    # Plan, then release: the same three lines that a real table takes.
    _head(console, "2. A plan: how accurate will it be? Nothing is spent yet")
    budget = hush.Budget(epsilon=1.0, delta=1e-9)
    plan = hush.plan(parse_workload(schema.domain, DEMO_WORKLOAD), budget)
    console.print(plan_summary(plan, rows=PEOPLE_ROWS))
    console.print(Text("hush plan --details shows every table, and how other mechanisms would do.", style="dim"))

    _head(console, "3. The release: charge the ledger, count, add exact noise")
    with progress_bar("measuring") as progress:
        plan.release(table, ledger=ledger, name=output.name, progress=progress).save(output)
    share = 1 - ledger.remaining / ledger.limit
    console.print(f"Wrote {output.name}. Ledger: {float(share):.0%} of the cap is spent, head {ledger.head}.")

    # Everything below only reads the release.
    _head(console, "4. Questions: each number with its error bar, at no further cost")
    release = load_release(output)
    for question in DEMO_QUESTIONS:
        console.print(Text(question, style="bold"))
        console.print(str(release.sql(question)), markup=False)
        console.print(Text(f"exact, shown since these people are invented: {_exact(data, question)}\n", style="dim"))

    _head(console, "5. Synthetic rows: made up from the same release, at no further cost")
    synthetic_rows = release.synthesize(SYNTHETIC_ROWS, seed=PEOPLE_SEED)
    write_rows(synthetic, [synthetic_rows], lambda _: None)
    cells = [["" if v is None else str(v) for v in row.values()] for row in synthetic_rows.to_pylist()[:SHOWN_ROWS]]
    console.print(TextTable(columns=[TextColumn(heading=name) for name in synthetic_rows.column_names], rows=cells))
    console.print(f"Wrote {SYNTHETIC_ROWS:,} rows to {synthetic.name}; these are the first {SHOWN_ROWS}.")
    console.print(Text(SYNTHETIC_ROWS_NOTE, style="dim"))

    _head(console, "6. A report: the release as a page to read, at no further cost")
    write_report(release, page, dataset=f"{PEOPLE_ROWS:,} invented people", file_name=output.name)
    console.print(Text(f"Wrote {page}", overflow="fold"), soft_wrap=True)
    console.print(Text(f"All files of the demo are in {folder}", overflow="fold"), soft_wrap=True)


def _exact(data: Path, question: str) -> str:
    """The exact answer, which is shown for invented people only."""
    import duckdb

    with duckdb.connect() as connection:
        connection.read_csv(str(data)).create_view("people")
        rows = connection.execute(question + (" ORDER BY 1" if "GROUP BY" in question else "")).fetchall()
    return "; ".join(
        " ".join(
            f"{cell:,.5g}" if isinstance(cell, float) else f"{cell:,}" if isinstance(cell, int) else str(cell)
            for cell in row
        )
        for row in rows
    )


def _head(console: Console, text: str) -> None:
    from rich.rule import Rule
    from rich.text import Text

    console.print()
    console.print(Rule(Text(text, style="bold"), align="left"))
