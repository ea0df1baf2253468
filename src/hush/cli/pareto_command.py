"""`hush pareto`: how much privacy buys how much accuracy."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

import hush
from hush.cli.long_work import COMPILES, long_work
from hush.cli.options import (
    PATH,
    MechanismOption,
    OutputOptions,
    Whole,
    WorkloadOptions,
    format_option,
    option_group,
    output_options,
    workload_options,
)
from hush.cli.stand_in_table import read_stand_in
from hush.core.errors import printable
from hush.render.progress_bar import duration

if TYPE_CHECKING:
    from hush.pareto.front import Front
    from hush.pareto.plan_curves import PlanCurves

ERROR_NAMES = ("workload", "largest")


@dataclass(frozen=True, slots=True)
class CurveOptions:
    """The budgets of a curve, and how it is drawn."""

    low: float | None
    high: float
    delta: float
    points: int
    thorough: bool


@dataclass(frozen=True, slots=True)
class TableOptions:
    """The table to search on; neither is given for exact curves."""

    stand_in: Path | None
    invent: int | None
    front_not_private: bool


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """The options of a search, as `of_stand_in` takes them."""

    evaluations: int
    runs: int
    error: str
    worst_error: float | None
    seconds: float | None
    seed: int
    checkpoint: Path | None


search_options = option_group(
    "search",
    SearchOptions,
    click.option("--evaluations", type=Whole(), default=24, show_default=True, help="Settings to try in a search."),
    click.option("--runs", type=Whole(), default=1, show_default=True, help="Runs of each setting, with new noise."),
    click.option(
        "--error",
        type=click.Choice(ERROR_NAMES),
        default=ERROR_NAMES[0],
        show_default=True,
        help="Of a search: the mean error of tables, or the largest of any answer as a share of the rows.",
    ),
    click.option("--worst-error", type=float, help="The largest error of interest.  [default: 1, or that of zeros]"),
    click.option("--seconds", type=float, help="End the search after about this many seconds."),
    click.option("--seed", type=Whole(), default=0, show_default=True, help="Seed of the search and of its runs."),
    click.option("--checkpoint", type=PATH, help="File written after each try; a search continues from it."),
)


@click.command()
@click.argument("schema", type=PATH)
@workload_options
@click.option("--mechanism", "names", cls=MechanismOption, multiple=True, metavar="NAME")
@option_group(
    "curve",
    CurveOptions,
    click.option("--from", "low", type=float, help="The smallest epsilon.  [default: 0.01; 0.1 for a search]"),
    click.option("--to", "high", type=float, default=10.0, show_default=True, help="The largest epsilon."),
    click.option(
        "--delta", type=float, default=1e-9, show_default=True, help="Delta at every epsilon; 0 for pure epsilon."
    ),
    click.option("--points", type=Whole(), default=31, show_default=True, help="Epsilons on each exact curve."),
    click.option("--thorough", is_flag=True, help="Also plan with what takes long."),
)
@click.option("--at-epsilon", type=float, help="Print the smallest error at this epsilon, or in a search up to it.")
@click.option("--for-error", type=float, help="Print the smallest epsilon with at most this error.")
@option_group(
    "searched",
    TableOptions,
    click.option("--stand-in", type=PATH, help="Public or invented table to search on with an adaptive mechanism."),
    click.option("--invent", type=Whole(), help="Search on this many invented rows; about as many as yours."),
    click.option("--front-not-private", is_flag=True, help="Take a private stand-in; the front is marked private."),
)
@search_options
@format_option
@click.option("--save", type=PATH, help="Write all figures to this JSON file.")
@output_options("Write the front as one HTML page.")
def pareto(
    schema: Path,
    question: WorkloadOptions,
    names: tuple[str, ...],
    curve: CurveOptions,
    at_epsilon: float | None,
    for_error: float | None,
    searched: TableOptions,
    search: SearchOptions,
    as_json: bool,
    save: Path | None,
    output: OutputOptions,
) -> None:
    """Show how much privacy buys how much accuracy.

    For mechanisms whose error is known in advance: the exact RMSE on any table with SCHEMA at several epsilons, and
    where the best mechanism changes. Reads no data.

    With --stand-in: searches over epsilon and the settings of one mechanism on that table, by default aim. The table
    must be public or invented: errors are computed without protection, so the front of private rows is private. With
    --invent, hush invents the rows.
    """
    from rich.console import Console
    from rich.text import Text

    from hush.files.atomic_write import write_whole
    from hush.pareto.front import front_answers

    # Compute exact curves, or search on a stand-in.
    for file in (output, OutputOptions(save, output.force)):
        file.check(schema, searched.stand_in, question.workload_sql, search.checkpoint)
    declared = hush.Schema.load(schema)
    workload = question.read(declared)
    figures: Front | PlanCurves
    if searched.stand_in is None and searched.invent is None:
        if search.error != ERROR_NAMES[0]:
            raise click.UsageError(
                f"--error {search.error} is that of a search on a table; give one with --stand-in or --invent, or "
                "leave it out for exact RMSEs"
            )
        figures = _curves(workload, declared, names, curve)
    else:
        figures = _searched(searched, workload, declared, names, curve, search)

    # Print, and write what was asked for.
    console = Console(stderr=as_json)
    if as_json:
        click.echo(json.dumps(figures.to_dict(), indent=2))
    else:
        console.print(figures.table())
    answers = front_answers(figures, at_epsilon=at_epsilon, for_error=for_error)
    if output.path is not None:
        figures.write_page(output.path, about=_about(schema, declared, question, workload, searched), answers=answers)
    page = [] if output.path is None else [f"The page is in {output.path}."]
    for line in (*answers, *page):
        console.print(Text(printable(line)))
    if save is not None:
        write_whole(save, (json.dumps(figures.to_dict(), indent=1) + "\n").encode())
        console.print(Text(printable(f"All figures are in {save}.")))


def _about(
    path: Path, schema: hush.Schema, question: WorkloadOptions, workload: hush.Workload, searched: TableOptions
) -> dict[str, str]:
    """What a page says of the data and the questions."""
    from hush.render.text_table import counted

    columns = f"{path.name} ({counted(len(schema.columns), 'column')})"
    if searched.stand_in is not None:
        data = f"the stand-in {searched.stand_in.name}, with the schema {columns}"
    elif searched.invent is not None:
        data = f"rows invented from the schema {columns}"
    else:
        data = f"none is read; the errors hold for every table with the schema {columns}"
    texts = [question.workload, question.workload_sql and f"the queries of {question.workload_sql.name}"]
    asked = f"{counted(len(workload), 'question')}, {counted(workload.queries, 'number')}"
    unit = schema.unit
    return {
        "Data": data,
        "Workload": f"{' and '.join(text for text in texts if text)} ({asked})",
        "Unit": f"{unit.column}, at most {counted(unit.max_rows, 'row')} of each" if unit.column else "one row",
    }


def _curves(workload: hush.Workload, schema: hush.Schema, names: tuple[str, ...], curve: CurveOptions) -> PlanCurves:
    """The exact curves of mechanisms whose error is known in advance."""
    from hush.pareto.plan_curves import of_plan
    from hush.render.text_table import counted

    with long_work(
        "planning", f"a plan of every mechanism at {counted(curve.points, 'epsilon')}; {COMPILES}"
    ) as progress:
        return of_plan(
            workload,
            schema,
            epsilons=(0.01 if curve.low is None else curve.low, curve.high),
            points=curve.points,
            delta=curve.delta,
            mechanisms=[name.lower() for name in names] or None,
            thorough=curve.thorough,
            progress=progress,
        )


def _searched(
    searched: TableOptions,
    workload: hush.Workload,
    schema: hush.Schema,
    names: tuple[str, ...],
    curve: CurveOptions,
    search: SearchOptions,
) -> Front:
    """The front of one mechanism, searched on a stand-in."""
    from hush.pareto.stand_in import of_stand_in
    from hush.render.text_table import counted

    if searched.stand_in is not None and searched.invent is not None:
        raise click.UsageError("--stand-in and --invent both say what to search on; give one of them")
    if len(names) > 1:
        raise click.UsageError("a search is over the settings of one mechanism; name one with --mechanism")
    table = read_stand_in(
        searched.stand_in,
        schema,
        searched.invent or 0,
        private=searched.front_not_private,
        otherwise=", or add --front-not-private and keep the front to those who may see the rows",
    )
    expected = f"{counted(search.evaluations, 'release')} on the stand-in"
    expected += f"; {COMPILES}" if search.seconds is None else f", at most about {duration(search.seconds)}"
    with long_work("searching", expected, private=searched.front_not_private) as progress:
        return of_stand_in(
            table,
            workload,
            names[0].lower() if names else "aim",
            epsilons=(0.1 if curve.low is None else curve.low, curve.high),
            delta=curve.delta,
            front_not_private=searched.front_not_private,
            progress=progress,
            **asdict(search),
        )
