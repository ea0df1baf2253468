"""Adaptive releases on the command line: what they take, where they are kept while they run, how they go on."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import hush
from hush.cli.rounds_bar import rounds_bar
from hush.errors import ArchiveError, BudgetError, HushError

if TYPE_CHECKING:
    from hush.mechanisms.adaptive import AdaptivePlan
    from hush.release.measured import MeasuredRelease
    from hush.tables.table import Table


def partial_file(output: Path) -> Path:
    """Where the noisy tables are kept until the release is whole.

    >>> partial_file(Path("people.hush")).name
    'people.hush.partial'
    """
    return output.with_name(f"{output.name}.partial")


def is_own_partial(output: Path, resume: Path | None) -> bool:
    """Whether a run goes on from the file that was kept beside its own output."""
    partial = partial_file(output)
    return resume is not None and resume.exists() and partial.exists() and partial.samefile(resume)


def check_partial(output: Path, resume: Path | None, *, force: bool) -> None:
    """Refuse to overwrite what a release that was cut off has paid for."""
    partial = partial_file(output)
    if partial.exists() and not is_own_partial(output, resume) and not force:
        raise HushError(
            f"{partial} holds the noisy tables of a release that was cut off, and they are paid for; go on with "
            f"--resume {shlex.quote(str(partial))}, or add --force to overwrite it"
        )


def loaded_partial(file: Path) -> tuple[AdaptivePlan, MeasuredRelease]:
    """An interrupted release and the plan that it belongs to."""
    from hush.loading import load
    from hush.mechanisms.adaptive import unpack_settings
    from hush.mechanisms.registry import PLANS
    from hush.release.measured import MeasuredRelease

    found = load(file)
    if not isinstance(found, MeasuredRelease):
        raise ArchiveError(f"{file} is no release of an adaptive mechanism, which alone can be resumed")
    if found.complete:
        raise BudgetError(f"{file} is complete: its budget is spent, and there is nothing to go on with")
    kind: type[AdaptivePlan] = PLANS[found.mechanism]
    settings = unpack_settings(kind.made_by, found.settings)
    promise = found.statement
    made = settings.plan(
        found.workload, promise.budget, neighbours=promise.neighbours, max_rows_per_unit=promise.unit.max_rows
    )
    return made, found


def release_in_rounds(
    plan: AdaptivePlan,
    table: Table,
    output: Path,
    resume: MeasuredRelease | None,
    announce: Callable[[], None],
    **spending: Any,
) -> MeasuredRelease:
    """Spend the budget with a bar, keeping every noisy table beside the output as it is taken.

    `announce` is called once nothing is left to refuse.
    """
    partial = partial_file(output)
    kept: list[float] = []  # shares of the budget at which this run wrote the file
    with ExitStack() as stack:
        bar: list[Any] = []

        def start() -> None:
            announce()
            bar.extend(stack.enter_context(rounds_bar(0 if resume is None else len(resume.rounds))))

        def progress(share: float) -> None:
            kept.append(share)
            bar[0](share)

        def on_round(played: Any, share: float) -> None:
            bar[1](played, share)

        try:
            return plan.release(
                table,
                progress=progress,
                on_round=on_round,
                checkpoint=partial,
                resume=resume,
                on_start=start,
                **spending,
            )
        except hush.errors.InterruptedRelease:
            raise
        except HushError:
            if not kept:
                raise
            stack.close()
            click.echo(f"hush: the noisy tables so far are kept in {partial}; --resume goes on with them", err=True)
            raise


def resume_command(
    data: str,
    schema: Path,
    ledger: Path | None,
    dataset: str,
    file: Path,
    output: Path,
    *,
    unit: str | None = None,
    max_rows_per_unit: int | None = None,
) -> str:
    """The command that goes on with an interrupted release."""
    words = ["hush", "release", data, "--schema", str(schema), "--resume", str(file), "-o", str(output)]
    words += [] if ledger is None else ["--ledger", str(ledger)]
    words += [] if dataset == "default" else ["--dataset", dataset]
    words += [] if unit is None else ["--unit", unit]
    words += [] if max_rows_per_unit is None else ["--max-rows-per-unit", str(max_rows_per_unit)]
    return shlex.join(words)
