"""`hush future`: how well a release made for past questions would answer future ones."""

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
    Whole,
    WorkloadOptions,
    format_option,
    option_group,
    workload_options,
)
from hush.cli.stand_in_table import read_stand_in

if TYPE_CHECKING:
    from hush.evaluation.column_chances import ColumnChances

CHANCE_LAWS = ("history", "uniform", "zipf", "geometric")


class Drifts(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4
    """Numbers from 0 to 1 with commas between them."""

    name = "numbers"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, ...]:
        try:
            drifts = tuple(float(number) for number in str(value).split(","))
        except ValueError:
            self.fail(f"{value!r}: expected numbers from 0 to 1, such as 0,0.1,0.5", param, ctx)
        if not all(0 <= drift <= 1 for drift in drifts):
            self.fail(f"{value!r}: expected numbers from 0, where all stays, to 1, the reverse", param, ctx)
        return drifts


class Chances(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4
    """The name of a law, or columns with their masses: "sex=5,age=2"."""

    name = "law"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str | dict[str, float]:
        text = str(value).strip()
        if text.lower() in CHANCE_LAWS:
            return text.lower()
        pairs = [part.rpartition("=") for part in text.split(",")]
        try:
            masses = {name.strip(): float(mass) for name, _, mass in pairs}
        except ValueError:
            masses = {}
        if len(masses) < len(pairs) or "" in masses:
            self.fail(
                f"{value!r}: expected {', '.join(CHANCE_LAWS[:-1])} or {CHANCE_LAWS[-1]}, or different columns with "
                "numbers, such as sex=5,age=2",
                param,
                ctx,
            )
        return masses


@dataclass(frozen=True, slots=True)
class StudyOptions:
    """The options of the study, as `future_study` takes them."""

    drifts: tuple[float, ...]
    draws: int
    runs: int
    pad: int | None
    seed: int


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
@option_group(
    "study",
    StudyOptions,
    click.option(
        "--drift", "drifts", type=Drifts(), default="0,0.05,0.1,0.2,0.5,1", show_default=True, help="Drifts to try."
    ),
    click.option("--draws", type=Whole(), default=64, show_default=True, help="Future questions for each release."),
    click.option("--runs", type=Whole(), default=5, show_default=True, help="Releases to make."),
    click.option("--pad", type=Whole(), help="Add random questions to the workload until it has this many."),
    click.option("--seed", type=Whole(), default=0, show_default=True, help="Seed of noise, drift and questions."),
)
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
    study: StudyOptions,
    as_json: bool,
) -> None:
    """Show what drift of questions would cost a release.

    The workload lists past questions. hush releases a public or invented table with SCHEMA for it several times, and
    asks each release what may come next: the same numbers of columns, with columns as likely as before (drift 0), in a
    random order (0.5), or in reverse (1). For each drift it shows the mean error of a question, with an interval.

    The table must be public or invented: errors are computed without protection, and nothing is charged.
    """
    from rich.console import Console

    from hush.evaluation.future_error import future_study
    from hush.render.text_table import counted

    # Read or invent the table, release it several times, and ask each release.
    declared = hush.Schema.load(schema)
    workload = question.read(declared)
    table = read_stand_in(stand_in, declared, rows)
    expected = f"{counted(study.runs, 'release')}, each followed by questions; {COMPILES}"
    with long_work("releasing and asking", expected) as progress:
        errors = future_study(
            table,
            workload,
            hush.Budget(epsilon=epsilon, delta=delta) if delta else hush.Budget(epsilon=epsilon),
            mechanism=mechanism.lower(),
            chances=_chances(chances, table.domain, study.seed),
            progress=progress,
            **asdict(study),
        )
    if as_json:
        click.echo(json.dumps(errors.to_dict(), indent=2))
    else:
        Console().print(errors.table())


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
