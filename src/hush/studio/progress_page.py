"""The progress page: how far a release is, with buttons to stop it and to go on; its events as a stream."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData
from starlette.responses import Response, StreamingResponse

from hush.core.errors import HushError
from hush.mechanisms.release_job import finished, partial_file
from hush.privacy.ledger import Ledger
from hush.privacy.ledger.ledger_chain import CHARGE
from hush.render.labels import readable
from hush.render.markup import Markup, join, tag
from hush.render.text_table import counted
from hush.studio.column_draft import with_boxes
from hush.studio.discovery_page import SCHEMA_ENDING, resume_discovery
from hush.studio.guard import back_to
from hush.studio.layout import bullet_list, button, form, notice, sentence
from hush.studio.owner import OwnerStudio
from hush.studio.planned import share_words
from hush.studio.project import ReleaseEntry
from hush.studio.spending import Running

SECONDS_BETWEEN_EVENTS = 0.25
MEASURED_KEPT = "What was measured is paid for and kept."
PHASES = {"reading the rows": "Reading the rows", "measuring": "Measuring with noise", "": ""}


def show_progress(studio: OwnerStudio, name: str, message: str | None = None) -> str:
    """The page."""
    entry, status = studio.state.entry(name), studio.spending.status(name)
    if status.state == "running":
        body = running_markup(name, status)
    elif status.state == "done" and name.endswith(SCHEMA_ENDING):
        found = [readable(note, 500) for note in entry.message.splitlines()]
        onward = tag("p", tag("a", "See the columns", href="/columns", class_="button", id="explore"))
        body = join(notice("The discovery is complete.", kind="good"), bullet_list(found) if found else None, onward)
    elif status.state == "done":
        text = notice("The release is complete. Nothing that you do with it costs anything further.", kind="good")
        body = join(text, tag("p", tag("a", "Explore it", href=f"/releases/{name}", class_="button", id="explore")))
    else:
        body = ended_markup(studio, entry, status)
    return studio.page(
        body,
        title=f"Discovery {name}" if name.endswith(SCHEMA_ENDING) else f"Release {name}",
        current="/releases",
        message=message,
    )


def running_markup(name: str, status: Running) -> Markup:
    """A release that runs; the script keeps it up to date, and a reload shows it too."""
    percent = round(100 * status.share)
    return tag(
        "section",
        tag("p", f"{PHASES.get(status.phase, '')} ...", id="phase", role="status"),
        tag("progress", f"{percent} %", value=str(percent), max="100", id="share", aria_label="Share that is done"),
        tag("p", progress_words(status), id="details", class_="soft"),
        tag(
            "p",
            "You may close this page; the release goes on. Its budget is charged once, whatever happens.",
            class_="soft",
        ),
        None if status.stopping else form(f"/releases/{name}/stop", button("Stop after this measurement", plain=True)),
        tag("noscript", tag("p", tag("a", "Show how far it is", href=f"/releases/{name}/progress"))),
        id="progress",
        data_events=f"/releases/{name}/events",
    )


def progress_words(status: Running) -> str:
    """How far a release is, in words."""
    stopping = " It stops after this measurement." if status.stopping else ""
    if status.phase != "measuring":
        return f"Nothing is charged yet.{stopping}"
    words = f"{status.share:.0%} of the budget is spent".replace("%", " %")
    rounds = f", {counted(status.rounds, 'round')}" if status.rounds else ""
    last = f", last {readable(' × '.join(status.columns), 80)}" if status.columns else ""
    return f"{words}{rounds}{last}.{stopping}"


def ended_markup(studio: OwnerStudio, entry: ReleaseEntry, status: Running) -> Markup:
    """A release that failed or was interrupted: what was charged, what is kept, and what can be done."""
    if entry.name.endswith(SCHEMA_ENDING):
        return ended_discovery(studio, entry, status)
    try:
        kept = studio.spending.kept(entry)
    except HushError as error:
        return notice(str(error))
    charged = charged_words(entry)
    words: list[str] = []
    actions: list[Markup] = []
    if kept is not None and kept.bounded and not kept.complete:
        words += [MEASURED_KEPT, "Going on spends only the rest of its budget."]
        actions.append(form(f"/releases/{entry.name}/resume", button("Go on with this release", id="resume")))
        actions.append(tag("p", tag("a", "Explore what was measured", href=f"/releases/{entry.name}")))
    elif kept is not None and (kept.complete or finished(kept) is not None):
        words += ["All was measured, and nothing more is charged."]
        actions.append(form(f"/releases/{entry.name}/resume", button("Finish this release", id="resume")))
    elif kept is not None:
        words += [MEASURED_KEPT, "Its budget was charged once."]
        actions.append(tag("p", tag("a", "Explore what was measured", href=f"/releases/{entry.name}")))
    elif charged:
        words.append(
            f"Before it stopped, {charged} of the cap was charged, and nothing was kept. hush does not charge again by "
            "itself; a new release is charged anew."
        )
    else:
        words.append("Nothing was charged. Fix the problem, and confirm again.")
        actions.append(tag("p", tag("a", "To the columns", href="/columns")))
        actions.append(tag("p", tag("a", "To the confirmation", href="/confirm")))
    return join(notice(ended_words("release", entry, status, words)), *actions)


def ended_words(what: str, entry: ReleaseEntry, status: Running, words: list[str]) -> str:
    """That something ended, why, and what follows; what the reason says already is not said again."""
    message = readable(with_boxes(status.message or entry.message), 2000)
    if message.startswith("interrupted"):
        first = [f"The {what} was {message}."]
    else:
        state = "was interrupted" if entry.state == "interrupted" else "has failed"
        first = [f"The {what} {state}.", *([sentence(message)] if message else [])]
    if "paid for" in message:
        words = [text for text in words if text != MEASURED_KEPT]
    return " ".join([*first, *words])


def ended_discovery(studio: OwnerStudio, entry: ReleaseEntry, status: Running) -> Markup:
    """A discovery that failed or was interrupted."""
    words: list[str] = []
    actions = [tag("p", tag("a", "Back to the discovery", href="/discovery"))]
    if partial_file(studio.project.file_of(entry)).exists():
        words += [MEASURED_KEPT, "Going on pays for nothing twice."]
        actions.insert(0, form(f"/releases/{entry.name}/resume", button("Go on with this discovery", id="resume")))
    elif charged := charged_words(entry):
        words.append(
            f"Before it stopped, {charged} of the cap was charged, and nothing was kept. hush does not charge again by "
            "itself."
        )
    else:
        words.append("Nothing was charged.")
    return join(notice(ended_words("discovery", entry, status, words)), *actions)


def charged_words(entry: ReleaseEntry) -> str:
    """How much of the cap a release was charged; nothing if the ledger has no charge of it."""
    try:
        ledger = Ledger.open(entry.ledger, dataset=entry.dataset)
    except HushError:
        return ""
    charged = ledger.filter(empty=True)
    for charge in ledger.entries():
        if charge.release == entry.name and charge.action == CHARGE:
            charged.add(charge.event, charge.cost)
    share = charged.limit - charged.left
    return share_words(share, charged.limit) if share > 0 else ""


def stop(studio: OwnerStudio, name: str, fields: FormData) -> Response:
    """Stop a release after its next measurement."""
    if studio.spending.status(name).state == "running":
        studio.spending.stop()
    return back_to(f"/releases/{name}/progress")


def resume(studio: OwnerStudio, name: str, fields: FormData) -> Response:
    """Go on with an interrupted release."""
    if name.endswith(SCHEMA_ENDING):
        resume_discovery(studio, name)
    else:
        studio.spending.resume(name)
    return back_to(f"/releases/{name}/progress")


def progress_events(studio: OwnerStudio, name: str) -> Response:
    """The progress as server-sent events, until the release ends."""

    async def events() -> AsyncIterator[str]:
        last = ""
        while True:
            status = await run_in_threadpool(studio.spending.status, name)
            words = {"phase_words": PHASES.get(status.phase, ""), "words": progress_words(status)}
            text = json.dumps(status.to_dict() | words)
            if text != last:
                yield f"data: {text}\n\n"
                last = text
            if status.state != "running":
                return
            await asyncio.sleep(SECONDS_BETWEEN_EVENTS)

    return StreamingResponse(events(), media_type="text/event-stream")
