"""The page of discovery: bounds, bins or values that nobody knows are found with noise, for a budget of their own.

A discovery is spent like a release: what was shown is charged, once, and its partial file keeps what was paid for.
What was found becomes part of the columns, and is public from then on.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeAlias

from msgspec.structs import replace
from starlette.datastructures import FormData, QueryParams
from starlette.responses import HTMLResponse, Response

from hush.core.errors import BudgetError, HushError
from hush.discovery.discovery_job import DiscoveryJob, DiscoveryOutcome, RowsOf
from hush.discovery.discovery_record import DiscoveryRecord
from hush.mechanisms.release_job import JobStatus, partial_file
from hush.privacy.budget import Budget
from hush.render.html_page import fact_list
from hush.render.labels import readable
from hush.render.markup import Markup, join, tag
from hush.schema.discovery_draft import Draft
from hush.studio.budget_page import cap_of, protected_words
from hush.studio.column_draft import discovery_draft, drafts_of, marked_columns, with_discovery
from hush.studio.guard import back_to
from hush.studio.layout import bullet_list, button, form, hidden, meaning, missing, notice, text_field
from hush.studio.owner import OwnerStudio
from hush.studio.planned import budget_words, number, share_words, stated_rows
from hush.studio.project import ProjectFile, ReleaseEntry, TypedBudget
from hush.studio.spending import ShownSpending, SpendingRefused, SpendingWork, free_name, project_digest

SCHEMA_ENDING = ".toml"
DEFAULT_EPSILON, DEFAULT_CAP = "0.2", "1"
HOW_MUCH = (
    "A quarter of all that you plan to spend is often enough: bounds and bins need only rough counts, and a value is "
    "found if many people have it."
)


MakeJob: TypeAlias = Callable[[Callable[[float], None]], DiscoveryJob]  # from what is told its progress


class DiscoveryWork:
    """A discovery: what its draft leaves open is found, and put into the columns of the project."""

    def __init__(
        self, studio: OwnerStudio, output: Path, job: Callable[[Callable[[float], None]], DiscoveryJob]
    ) -> None:
        self._studio = studio
        self._output = output
        self._job = job
        self._share = 0.0
        self._stopping = False

    @property
    def status(self) -> JobStatus:
        """How far it is."""
        return JobStatus(state="running", spent=self._share, kept=partial_file(self._output).exists())

    def run(self, reading: Callable[[float], None], on_start: Callable[[], None]) -> str:
        """Find what is open, save the schema, and change the columns."""

        def progress(share: float) -> None:
            self._share = min(share, 1.0)
            if self._stopping:
                raise KeyboardInterrupt

        reading(0.0)
        job = self._job(progress)
        on_start()
        outcome = job.run()
        outcome.schema.save(self._output)
        partial_file(self._output).unlink(missing_ok=True)
        take_over(self._studio, job.draft, outcome)
        return "\n".join(outcome.notes)

    def stop(self) -> None:
        """Stop after the next measurement."""
        self._stopping = True


def take_over(studio: OwnerStudio, draft: Draft, outcome: DiscoveryOutcome) -> None:
    """Put what was found into the columns of the project; columns that were changed in the meantime stay."""
    found = {column.name: column for column in drafts_of(outcome.schema)}
    opened = {column.name for column in draft.open_columns}
    with studio.project.changing() as state:
        columns = [
            column
            if column.name not in opened or not column.discover
            else found.get(column.name)
            or replace(column, used=False, discover=False, note="the discovery found nothing for its budget")
            for column in state.columns
        ]
        studio.project.write(state.replaced(columns=columns, rules=with_discovery(state.rules, outcome.schema)))


def show_discovery_of(studio: OwnerStudio, query: QueryParams) -> Response:
    """The page, for a budget that is being considered."""
    typed = studio.state.budget
    considered = replace(
        typed,
        epsilon=query.get("epsilon", DEFAULT_EPSILON),
        delta=query.get("delta", typed.delta),
        cap=query.get("cap", typed.cap or DEFAULT_CAP),
    )
    return HTMLResponse(show_discovery(studio, None, considered))


def show_discovery(studio: OwnerStudio, message: str | None = None, considered: TypedBudget | None = None) -> str:
    """The page: what is open, what finding it would cost, and the button that spends it."""
    state = studio.state
    typed = considered or replace(state.budget, epsilon=DEFAULT_EPSILON, cap=state.budget.cap or DEFAULT_CAP)
    marked = marked_columns(state)
    if marked:
        fields = [
            text_field("epsilon", "Epsilon", typed.epsilon, term="epsilon", hint=HOW_MUCH, inputmode="decimal"),
            text_field("delta", "Delta", typed.delta, term="delta", inputmode="decimal"),
        ]
        if is_new(studio, state):
            hint = "The discovery starts the ledger, which then holds the cap. Leave room for the release that follows."
            label = "Cap: epsilon of the discovery and all releases together"
            fields.append(text_field("cap", label, typed.cap, term="cap", hint=hint, inputmode="decimal"))
        show = tag("button", "Show what it costs", type="submit", class_="plain")
        body = join(
            meaning("discovery"),
            tag("p", "Columns with something to find:"),
            bullet_list([readable(name, 60) for name in marked]),
            tag("form", *fields, show, method="get", action="/discovery"),
            confirmation(studio, state, typed),
        )
    else:
        words = "No column is marked. Mark columns on their page if nobody knows their bounds or values."
        body = tag("p", words, class_="empty")
    return studio.page(
        body,
        title="Discover what nobody knows",
        current="/columns",
        message=message,
    )


def is_new(studio: OwnerStudio, state: ProjectFile) -> bool:
    """Whether a discovery would start the ledger; what is wrong with the ledger is said by the confirmation."""
    try:
        return studio.ledger(state) is None
    except HushError:
        return False


def confirmation(studio: OwnerStudio, state: ProjectFile, typed: TypedBudget) -> Markup:
    """What a discovery would charge, in words, and the form that charges it."""
    try:
        budget = Budget(epsilon=number(typed.epsilon, "epsilon", "0.2"), delta=number(typed.delta, "delta", "1e-9"))
        draft = discovery_draft(state)
        ledger, cap = studio.ledger(state), cap_of(studio, state.replaced(budget=typed), budget)
        if cap is not None and (cap.epsilon or 0.0) <= (budget.epsilon or 0.0):
            raise BudgetError("the discovery alone would use up the cap; write a larger one, with room for a release")
    except BudgetError as error:
        return notice(str(error))
    except HushError as error:
        return missing(error, here="/discovery")
    folder = studio.project.path.absolute().parent
    name = free_name(state, f"{studio.stem}-columns", folder, SCHEMA_ENDING)
    output, path, dataset = folder / name, studio.ledger_path(state), state.budget.dataset
    make = partial(discovery_job, studio, state, draft, budget, output, ledger=path, dataset=dataset, name=name)
    shown = ShownSpending(
        name=name,
        output=output,
        budget=budget,
        ledger=path,
        dataset=dataset,
        cap=cap,
        left=None if ledger is None else ledger.remaining,
        seen=project_digest(state),
        work=lambda: DiscoveryWork(studio, output, make),
    )
    unit = draft.unit
    left = f"a new one, with a cap of {budget_words(cap or budget)}"
    if ledger is not None:
        left = f"{share_words(ledger.remaining, ledger.limit)} of its cap is left now"
    facts = [
        ("You will spend", f"{budget_words(budget)}, once and for good"),
        ("Protects", protected_words(unit)),
        ("Ledger", f"{path.name}, dataset {readable(dataset, 60)}: {left}"),
        ("File", str(output)),
    ]
    token = hidden("token", studio.spending.show(shown))
    spend = button(f"Spend {budget_words(budget)} and discover", id="spend")
    return join(fact_list(facts), form("/discovery", token, spend, class_="spend"))


def discovery_job(
    studio: OwnerStudio,
    state: ProjectFile,
    draft: Draft,
    budget: Budget,
    output: Path,
    progress: Callable[[float], None],
    *,
    ledger: Path,
    dataset: str,
    name: str,
    resume: Path | None = None,
) -> DiscoveryJob:
    """The job of a discovery."""
    location, table = studio.source(state)
    return DiscoveryJob(
        RowsOf(source=location, table=table),
        draft,
        budget,
        ledger=ledger,
        dataset=dataset,
        name=name,
        partial=partial_file(output),
        resume=resume,
        rows=stated_rows(state),
        progress=progress,
    )


def spend_discovery(studio: OwnerStudio, fields: FormData) -> Response:
    """Charge what was shown, once."""
    name = studio.spending.confirm(str(fields.get("token", "")))
    return back_to(f"/releases/{name}/progress")


def resume_discovery(studio: OwnerStudio, name: str) -> None:
    """Go on with an interrupted discovery, with the draft and the budget that it started with."""
    state = studio.state
    entry: ReleaseEntry = state.entry(name)
    output = studio.project.file_of(entry)
    kept = partial_file(output)
    if not kept.exists():
        raise SpendingRefused(f"nothing of {name} was kept that could be continued; discover anew")
    budget = DiscoveryRecord.load(kept).statement.budget
    make = partial(
        discovery_job,
        studio,
        state,
        discovery_draft(state),
        budget,
        output,
        ledger=Path(entry.ledger),
        dataset=entry.dataset,
        name=name,
        resume=kept,
    )
    work: SpendingWork = DiscoveryWork(studio, output, make)
    studio.spending.go_on(entry, work)
