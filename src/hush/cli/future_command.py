"""`hush future`: how well a release made for the tables of yesterday would answer those of tomorrow."""

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
    format_option,
    workload_options,
)
from hush.render.progress_bar import progress_bar

if TYPE_CHECKING:
    from hush.evaluation.column_chances import ColumnChances

LAWS = ("history", "uniform", "zipf", "geometric")


class Drifts(click.ParamType[tuple[float, ...]]):
    """Numbers from 0 to 1 with commas between them."""

    name = "numbers"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, ...]:
        try:
            drifts = tuple(float(each) for each in str(value).split(","))
        except ValueError:
            self.fail(f"{value!r}: expected numbers from 0 to 1, such as 0,0.1,0.5", param, ctx)
        if not all(0 <= each <= 1 for each in drifts):
            self.fail(f"{value!r}: expected numbers from 0, where all stays, to 1, the reverse", param, ctx)
        return drifts


class Chances(click.ParamType[str | dict[str, float]]):
    """The name of a law, or columns with their masses: "sex=5,age=2"."""

    name = "law"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str | dict[str, float]:
        text = str(value).strip()
        if text.lower() in LAWS:
            return text.lower()
        pairs = [part.rpartition("=") for part in text.split(",")]
        try:
            masses = {name.strip(): float(mass) for name, _, mass in pairs}
        except ValueError:
            masses = {}
        if len(masses) < len(pairs) or "" in masses:
            self.fail(
                f"{value!r}: expected {', '.join(LAWS[:-1])} or {LAWS[-1]}, or different columns with numbers, such as "
                "sex=5,age=2",
                param,
                ctx,
            )
        return masses


@click.command()
@click.argument("schema", type=PATH)
@workload_options
@click.option("--stand-in", type=PATH, help="Public or invented table to try on.  [default: rows invented from SCHEMA]")
@click.option("--rows", type=Whole(), default=20_000, show_default=True, help="Rows to invent; about as many as yours.")
@click.option("--mechanism", cls=MechanismOption, default="aim", show_default=True)
@click.option("--epsilon", type=float, default=1.0, show_default=True, help="Epsilon of the release.")
@click.option("--delta", type=float, default=1e-9, show_default=True, help="Delta of the release; 0 for pure epsilon.")
@click.option(
    "--chances",
    type=Chances(),
    default="history",
    show_default=True,
    help="How likely a column is to be asked for: as often as in the workload (history), uniform, zipf, geometric, or "
    "numbers for some columns, such as sex=5,age=2.",
)
@click.option(
    "--drift", "drifts", type=Drifts(), default="0,0.05,0.1,0.2,0.5,1", show_default=True, help="Drifts to try."
)
@click.option("--draws", type=Whole(), default=64, show_default=True, help="Questions of tomorrow for each release.")
@click.option("--runs", type=Whole(), default=5, show_default=True, help="Releases to make.")
@click.option("--pad", type=Whole(), help="Add random questions to the workload until it has so many.")
@click.option("--seed", type=Whole(), default=0, show_default=True, help="Seed of noise, drift and questions.")
@format_option
def future(
    schema: Path,
    question: WorkloadOptions,
    stand_in: Path | None,
    rows: int,
    mechanism: str,
    epsilon: float,
    delta: float,
    chances: str | dict[str, float],
    drifts: tuple[float, ...],
    draws: int,
    runs: int,
    pad: int | None,
    seed: int,
    form: str,
) -> None:
    """Show what drift of questions would cost a release.

    The workload lists what was asked last year. A public or invented table with SCHEMA is released for it several
    times. Then it is asked what may come next year: the same numbers of columns, with columns as likely as before
    (drift 0), in a random order (0.5), or in reverse (1). For each drift the mean error of a question is shown, with an
    interval.

    The table must be public or invented: errors are computed without protection, and nothing is charged.
    """
    from rich.console import Console

    from hush.evaluation.future_error import future_study
    from hush.pareto.stand_in import check_not_protected

    declared = hush.Schema.load(schema)
    workload = question.read(declared)
    if stand_in is None:
        table = hush.read(hush.datasets.invented(declared, rows, seed=INVENTED_SEED), declared)
    else:
        check_not_protected(stand_in)
        with progress_bar("reading the stand-in") as progress:
            table = hush.read(str(stand_in), declared, progress=progress)
    with progress_bar("releasing and asking") as progress:
        study = future_study(
            table,
            workload,
            hush.Budget(epsilon=epsilon, delta=delta) if delta else hush.Budget(epsilon=epsilon),
            mechanism=mechanism.lower(),
            chances=_chances(chances, table.domain, seed),
            drifts=drifts,
            draws=draws,
            runs=runs,
            pad=pad,
            seed=seed,
            progress=progress,
        )
    if form == "json":
        click.echo(json.dumps(study.to_dict(), indent=2))
    else:
        Console().print(study.table())


def _chances(chances: str | dict[str, float], domain: hush.Domain, seed: int) -> ColumnChances | None:
    from hush.evaluation.column_chances import ColumnChances

    if isinstance(chances, dict):
        return ColumnChances.given(chances)
    columns = [column for column in domain if domain[column] > 1]
    if chances == "history":
        return None
    if chances == "uniform":
        return ColumnChances.uniform(columns)
    return getattr(ColumnChances, chances)(columns, seed=seed)  # type: ignore[no-any-return]
