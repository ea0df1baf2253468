"""`hush pareto`: how much privacy buys how much accuracy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

import hush
from hush.cli.options import (
    INVENTED_SEED,
    PATH,
    MechanismOption,
    Whole,
    WorkloadOptions,
    check_output,
    format_option,
    workload_options,
)
from hush.core.errors import printable
from hush.render.progress_bar import progress_bar

if TYPE_CHECKING:
    from hush.pareto.front import Front
    from hush.pareto.plan_curves import PlanCurves

ERRORS = ("workload", "largest")
OTHERWISE = ", or add --front-not-private and keep the front to those who may see the rows"


@click.command()
@click.argument("schema", type=PATH)
@workload_options
@click.option("--mechanism", "names", cls=MechanismOption, multiple=True, metavar="NAME")
@click.option("--from", "low", type=float, help="The least epsilon.  [default: 0.01; 0.1 for a search]")
@click.option("--to", "high", type=float, default=10.0, show_default=True, help="The largest epsilon.")
@click.option(
    "--delta", type=float, default=1e-9, show_default=True, help="Delta at every epsilon; 0 for pure epsilon."
)
@click.option("--points", type=Whole(), default=31, show_default=True, help="Epsilons on each exact curve.")
@click.option("--thorough", is_flag=True, help="Also plan with what takes long.")
@click.option("--at-epsilon", type=float, help="Print the least error at this epsilon, or in a search up to it.")
@click.option("--for-error", type=float, help="Print the least epsilon with at most this error.")
@click.option("--stand-in", type=PATH, help="Public or invented table to search on with an adaptive mechanism.")
@click.option("--invent", type=Whole(), help="Search on so many rows invented from SCHEMA; about as many as yours.")
@click.option("--evaluations", type=Whole(), default=24, show_default=True, help="Settings to try in a search.")
@click.option("--runs", type=Whole(), default=1, show_default=True, help="Runs of each try, with noise of their own.")
@click.option(
    "--error",
    type=click.Choice(ERRORS),
    default=ERRORS[0],
    show_default=True,
    help="Of a search: the mean error of tables, or the largest of any answer as a share of the rows.",
)
@click.option("--worst-error", type=float, help="The largest error of interest.  [default: 1, or that of zeros]")
@click.option("--seconds", type=float, help="End the search after about so many seconds.")
@click.option("--seed", type=Whole(), default=0, show_default=True, help="Seed of the search and of its runs.")
@click.option("--checkpoint", type=PATH, help="File to write after each try; a search goes on from it.")
@click.option("--front-not-private", is_flag=True, help="Take a private stand-in; the front is marked private.")
@format_option
@click.option("-o", "--output", type=PATH, help="Write the front as one HTML page.")
@click.option("--save", type=PATH, help="Write every figure to this JSON file.")
@click.option("--force", is_flag=True, help="Overwrite output files that exist.")
def pareto(
    schema: Path,
    question: WorkloadOptions,
    names: tuple[str, ...],
    low: float | None,
    high: float,
    delta: float,
    points: int,
    thorough: bool,
    at_epsilon: float | None,
    for_error: float | None,
    stand_in: Path | None,
    invent: int | None,
    evaluations: int,
    runs: int,
    error: str,
    worst_error: float | None,
    seconds: float | None,
    seed: int,
    checkpoint: Path | None,
    front_not_private: bool,
    form: str,
    output: Path | None,
    save: Path | None,
    force: bool,
) -> None:
    """Show how much privacy buys how much accuracy.

    For mechanisms whose error is known beforehand, lists the exact RMSE on any table with SCHEMA at several epsilons,
    and where the best mechanism changes. Reads no data.

    With --stand-in, searches over epsilon and the settings of one mechanism on that table, by default aim. The table
    must be public or invented: errors are computed without protection, so the front of private rows is private. With
    --invent, hush invents the rows.
    """
    from rich.console import Console
    from rich.text import Text

    from hush.files.atomic_write import write_whole
    from hush.pareto.front import front_answers

    for file in (output, save):
        if file is not None:
            check_output(file, force=force, inputs=[schema, stand_in, question.workload_sql, checkpoint])
    declared = hush.Schema.load(schema)
    workload = question.read(declared)
    made: Front | PlanCurves
    if stand_in is not None and invent is not None:
        raise click.UsageError("--stand-in and --invent both say what to search on; give one of them")
    exact = stand_in is None and invent is None
    if exact and error != ERRORS[0]:
        raise click.UsageError(
            f"--error {error} is that of a search on a table; give one with --stand-in or --invent, or leave it out "
            "for exact RMSEs"
        )
    if exact:
        made = _curves(workload, declared, names, (0.01 if low is None else low, high), points, delta, thorough)
    else:
        made = _searched(
            stand_in,
            invent,
            workload,
            declared,
            names,
            front_not_private,
            epsilons=(0.1 if low is None else low, high),
            delta=delta,
            evaluations=evaluations,
            runs=runs,
            error=error,
            worst_error=worst_error,
            seconds=seconds,
            seed=seed,
            checkpoint=checkpoint,
        )
    console = Console(stderr=form == "json")
    if form == "json":
        click.echo(json.dumps(made.to_dict(), indent=2))
    else:
        console.print(made.table())
    said = front_answers(made, at_epsilon=at_epsilon, for_error=for_error)
    for answer in said:
        console.print(Text(printable(answer)))
    if output is not None:
        made.write_page(output, about=_about(schema, declared, question, workload, stand_in, invent), answers=said)
        console.print(Text(printable(f"The page is in {output}.")))
    if save is not None:
        write_whole(save, (json.dumps(made.to_dict(), indent=1) + "\n").encode())
        console.print(Text(printable(f"Every figure is in {save}.")))


def _about(
    path: Path,
    schema: hush.Schema,
    question: WorkloadOptions,
    workload: hush.Workload,
    stand_in: Path | None,
    invent: int | None,
) -> dict[str, str]:
    """What a page says of the data and the questions."""
    from hush.render.text_table import counted

    columns = f"{path.name} ({counted(len(schema.columns), 'column')})"
    data = f"none is read; the errors are those of every table with the schema {columns}"
    if stand_in is not None:
        data = f"the stand-in {stand_in.name}, with the schema {columns}"
    elif invent is not None:
        data = f"rows invented from the schema {columns}"
    texts = [question.workload, question.workload_sql and f"the queries of {question.workload_sql.name}"]
    asked = f"{counted(len(workload), 'question')}, {counted(workload.queries, 'number')}"
    unit = schema.unit
    return {
        "Data": data,
        "Workload": f"{' and '.join(text for text in texts if text)} ({asked})",
        "Unit": f"{unit.column}, at most {counted(unit.max_rows, 'row')} of each" if unit.column else "one row",
    }


def _curves(
    workload: hush.Workload,
    schema: hush.Schema,
    names: tuple[str, ...],
    epsilons: tuple[float, float],
    points: int,
    delta: float,
    thorough: bool,
) -> PlanCurves:
    from hush.pareto.plan_curves import of_plan

    with progress_bar("planning") as progress:
        return of_plan(
            workload,
            schema,
            epsilons=epsilons,
            points=points,
            delta=delta,
            mechanisms=[name.lower() for name in names] or None,
            thorough=thorough,
            progress=progress,
        )


def _searched(
    stand_in: Path | None,
    invent: int | None,
    workload: hush.Workload,
    schema: hush.Schema,
    names: tuple[str, ...],
    front_not_private: bool,
    **options: object,
) -> Front:
    from hush.pareto.stand_in import check_not_protected, of_stand_in

    if len(names) > 1:
        raise click.UsageError("a search is over the settings of one mechanism; name one with --mechanism")
    if stand_in is None:
        table = hush.read(hush.datasets.invented(schema, invent or 0, seed=INVENTED_SEED), schema)
    else:
        if not front_not_private:
            check_not_protected(stand_in, otherwise=OTHERWISE)
        with progress_bar("reading the stand-in") as progress:
            table = hush.read(str(stand_in), schema, progress=progress)
    with progress_bar("searching") as progress:
        return of_stand_in(
            table,
            workload,
            names[0].lower() if names else "aim",
            front_not_private=front_not_private,
            progress=progress,
            **options,  # type: ignore[arg-type]
        )
