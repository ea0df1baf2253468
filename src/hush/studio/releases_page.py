"""The pages of releases: the list of all, and one to explore, with the same work as a script and as commands."""

from __future__ import annotations

import json
import shlex
from urllib.parse import quote, urlencode

from starlette.datastructures import QueryParams
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from hush.core.errors import HushError
from hush.render.html_page import page_table
from hush.render.labels import readable
from hush.render.markup import join, tag
from hush.report import report_html
from hush.studio.explore import (
    DEFAULT_ROWS,
    ExploredRelease,
    asked_rows,
    completion_words,
    drawn_rows,
    explore_markup,
    release_title,
)
from hush.studio.layout import copied
from hush.studio.owner import OwnerStudio

MOST_OWNER_ROWS = 1_000_000  # at a time
REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox allow-same-origin"
STATE_LABELS = {"running": "running", "interrupted": "interrupted", "failed": "failed", "done": "complete"}
MEDIA_TYPES = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}


def show_releases(studio: OwnerStudio, message: str | None = None) -> str:
    """The list of all releases of the project."""
    state = studio.state
    rows = []
    for entry in reversed(state.releases):
        page = f"/releases/{entry.name}" + (
            "" if entry.state == "done" and entry.name.endswith(".hush") else "/progress"
        )
        link = tag("a", readable(entry.name, 60), href=page)
        rows.append((link, STATE_LABELS[entry.state], entry.started[:16].replace("T", " "), readable(entry.budget, 60)))
    body = (
        page_table(("release", "state", "started (UTC)", "budget"), rows)
        if rows
        else tag("p", "Nothing was released yet. The steps above lead to a first release.", class_="empty")
    )
    return studio.page(
        body,
        title="Releases",
        current="/releases",
        message=message,
    )


def show_release(studio: OwnerStudio, name: str, query: QueryParams) -> Response:
    """A release to explore."""
    if (table := asked_table(query)) is not None:
        return RedirectResponse(f"/releases/{name}{table}", status_code=303)
    entry, release = studio.release(name)
    explored = explored_release(studio, name)
    work = tag(
        "section",
        tag("h2", "The same work without a browser"),
        tag("details", tag("summary", "As a Python script"), copied(entry.script, "the script"), id="script"),
        tag("details", tag("summary", "As commands"), copied(entry.commands, "the commands"), id="commands"),
        tag("p", "To let others ask this release, which costs nothing and shows no private data:"),
        copied(f"hush serve {shlex.quote(str(studio.project.file_of(entry)))}", "the command"),
    )
    body = join(explore_markup(explored, query), work if entry.script else None)
    note = "" if release.complete else " (interrupted)"
    page = studio.page(
        body,
        title=f"Release {release_title(name)}{note}",
        current="/releases",
    )
    return HTMLResponse(page)


def asked_table(query: QueryParams) -> str | None:
    """The address of a table whose columns were chosen in the lists of the form; None if none were."""
    chosen = list(dict.fromkeys(name for name in query.getlist("column") if name))
    if not chosen:
        return None
    plain = not any("," in name or name.startswith("[") or name != name.strip() for name in chosen)
    text = ",".join(chosen) if plain else json.dumps(chosen)
    return f"?{urlencode({'columns': text})}#tables"


def explored_release(studio: OwnerStudio, name: str) -> ExploredRelease:
    """A release of the project, as `explore` shows it."""
    _, release = studio.release(name)
    return ExploredRelease(release=release, base=f"/releases/{name}", most_rows=MOST_OWNER_ROWS)


def release_rows(studio: OwnerStudio, name: str, form: str, query: QueryParams) -> Response:
    """Synthetic rows to download."""
    if form not in MEDIA_TYPES:
        raise HushError(f"rows.{form}: expected rows.csv or rows.parquet")
    rows = asked_rows(query.get("rows", str(DEFAULT_ROWS)), MOST_OWNER_ROWS)
    content = drawn_rows(studio.release(name)[1], rows, form)
    headers = {"content-disposition": saved_as(f"{name.removesuffix('.hush')}-rows.{form}")}
    return Response(content, media_type=MEDIA_TYPES[form], headers=headers)


def saved_as(name: str) -> str:
    """The header that makes a browser save a file under a name in any script.

    >>> saved_as("łódź.csv")
    "attachment; filename*=UTF-8''%C5%82%C3%B3d%C5%BA.csv"

    Reference: RFC 6266.
    """
    return f"attachment; filename*=UTF-8''{quote(name, safe='')}"


def release_words(studio: OwnerStudio, name: str) -> Response:
    """The words that SQL is completed with."""
    return JSONResponse(completion_words(studio.release(name)[1].schema))


def release_report(studio: OwnerStudio, name: str) -> Response:
    """The report, under a policy of its own."""
    entry, release = studio.release(name)
    page = report_html(release, dataset=studio.stem, file_name=entry.name)
    return HTMLResponse(page, headers={"content-security-policy": REPORT_POLICY})
