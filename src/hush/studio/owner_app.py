"""The owner's page as an app: which address shows which page, and the server that runs it on loopback."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from hush.core.errors import HushError
from hush.render.markup import join, tag
from hush.studio.budget_page import save_budget, show_budget, show_confirm, show_effect, spend
from hush.studio.columns_page import import_schema, owner_check, save_columns, schema_download, show_columns
from hush.studio.data_page import save_data, show_data
from hush.studio.discovery_page import show_discovery, show_discovery_of, spend_discovery
from hush.studio.guard import HOST, BodyTooLarge, Guard
from hush.studio.layout import button, form, hidden, notice, outside_page, studio_script, studio_stylesheet
from hush.studio.owner import NoData, OwnerStudio
from hush.studio.progress_page import progress_events, resume, show_progress, stop
from hush.studio.questions_page import save_people, save_questions, show_people, show_questions
from hush.studio.releases_page import release_report, release_rows, release_words, show_release, show_releases
from hush.studio.spent_page import raise_cap, show_spent

CONNECTIONS_WAITING = 128
MOST_FIELDS = 20_000  # of a form; a column has about 15
Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]
Show: TypeAlias = Callable[[OwnerStudio, str | None], str]
Save: TypeAlias = Callable[[OwnerStudio, FormData], Response]


def owner_app(studio: OwnerStudio) -> Starlette:
    """The app, without its guard."""
    pages = Pages(studio)
    routes = [
        *pages.step("/data", show_data, save_data),
        *pages.step("/columns", show_columns, save_columns),
        Route("/columns/schema", pages.post(show_columns, import_schema), methods=["POST"]),
        Route("/columns/check", pages.post(show_columns, owner_check), methods=["POST"]),
        Route("/columns/schema.toml", pages.get(lambda request: schema_download(studio))),
        *pages.step("/people", show_people, save_people),
        Route("/discovery", pages.get(lambda request: show_discovery_of(studio, request.query_params))),
        Route("/discovery", pages.post(show_discovery, spend_discovery), methods=["POST"]),
        *pages.step("/questions", show_questions, save_questions),
        *pages.step("/budget", show_budget, save_budget),
        Route("/budget/effect", pages.get(lambda request: show_effect(studio, request.query_params))),
        Route("/confirm", pages.shown(show_confirm)),
        Route("/spend", pages.post(show_confirm, spend), methods=["POST"]),
        Route("/releases", pages.shown(show_releases)),
        Route(
            "/releases/{name}", pages.get(lambda request: show_release(studio, named(request), request.query_params))
        ),
        Route(
            "/releases/{name}/progress", pages.get(lambda request: HTMLResponse(show_progress(studio, named(request))))
        ),
        Route("/releases/{name}/events", pages.get(lambda request: progress_events(studio, named(request)))),
        Route("/releases/{name}/stop", pages.action(stop), methods=["POST"]),
        Route("/releases/{name}/resume", pages.action(resume), methods=["POST"]),
        Route("/releases/{name}/report", pages.get(lambda request: release_report(studio, named(request)))),
        Route("/releases/{name}/words.json", pages.get(lambda request: release_words(studio, named(request)))),
        Route("/releases/{name}/rows.{form}", pages.get(lambda request: rows(studio, request))),
        Route("/ledger", pages.shown(show_spent)),
        Route("/ledger/raise", pages.post(show_spent, raise_cap), methods=["POST"]),
        Route("/", pages.get(lambda request: RedirectResponse(first_page(studio), status_code=303))),
        Route("/style.css", pages.get(lambda request: Response(studio_stylesheet(), media_type="text/css"))),
        Route("/studio.js", pages.get(lambda request: Response(studio_script(), media_type="text/javascript"))),
    ]
    return Starlette(
        routes=routes, exception_handlers={HTTPException: refused, BodyTooLarge: too_large, Exception: failed}
    )


def named(request: Request) -> str:
    """The release in an address."""
    return str(request.path_params["name"])


def rows(studio: OwnerStudio, request: Request) -> Response:
    """Synthetic rows in the form that the address ends in."""
    return release_rows(studio, named(request), str(request.path_params["form"]), request.query_params)


def first_page(studio: OwnerStudio) -> str:
    """The first step that is not done."""
    if studio.chosen is None:
        return "/data"
    state = studio.state
    done = studio.steps_done(state)
    steps = ("/data", "/columns", "/people", "/questions", "/budget")
    return next((step for step in steps if step not in done), "/releases" if state.releases else "/confirm")


class Pages:
    """Turns functions of the pages into endpoints; what they refuse becomes a message on a page."""

    def __init__(self, studio: OwnerStudio) -> None:
        self._studio = studio

    def step(self, path: str, show: Show, save: Save) -> list[Route]:
        """A page with a form."""
        return [Route(path, self.shown(show)), Route(path, self.post(show, save), methods=["POST"])]

    def shown(self, show: Show) -> Endpoint:
        """A page."""
        return self.get(lambda request: HTMLResponse(show(self._studio, None)))

    def get(self, answer: Callable[[Request], Response]) -> Endpoint:
        """An answer to a GET."""

        async def endpoint(request: Request) -> Response:
            try:
                return await run_in_threadpool(answer, request)
            except NoData:
                return RedirectResponse("/data", status_code=303)
            except HushError as error:
                return self._problem(str(error))

        return endpoint

    def post(self, show: Show, save: Save) -> Endpoint:
        """An action; if it is refused, the page says why and shows what is saved."""

        async def endpoint(request: Request) -> Response:
            fields = await request.form(max_files=0, max_fields=MOST_FIELDS)
            try:
                return await run_in_threadpool(save, self._studio, fields)
            except NoData:
                return RedirectResponse("/data", status_code=303)
            except HushError as error:
                message = str(error)
            try:
                return HTMLResponse(await run_in_threadpool(show, self._studio, message), status_code=400)
            except HushError as error:  # what is saved cannot be shown either, such as a project that was spoiled
                return self._problem(str(error))

        return endpoint

    def action(self, act: Callable[[OwnerStudio, str, FormData], Response]) -> Endpoint:
        """An action on a release."""

        async def endpoint(request: Request) -> Response:
            fields = await request.form(max_files=0, max_fields=MOST_FIELDS)
            try:
                return await run_in_threadpool(act, self._studio, named(request), fields)
            except HushError as error:
                return self._problem(str(error))

        return endpoint

    def _problem(self, message: str) -> Response:
        body = join(notice(message), tag("p", tag("a", "Back to the releases", href="/releases")))
        return HTMLResponse(outside_page(body, title="This cannot be shown"), status_code=400)


async def refused(request: Request, error: Exception) -> Response:
    """An address that nothing is at, or a form that cannot be read."""
    status = error.status_code if isinstance(error, HTTPException) else 400
    words = "There is no such page." if status == 404 else "The request was not understood."
    body = join(notice(words), tag("p", tag("a", "To the first page", href="/")))
    return HTMLResponse(outside_page(body, title="hush studio"), status_code=status)


async def too_large(request: Request, error: Exception) -> Response:
    """A body of more bytes than any form has."""
    return PlainTextResponse("The form is too large.\n", status_code=413)


async def failed(request: Request, error: Exception) -> Response:
    """A bug. The exception may quote cells of the table, so only its type is shown."""
    words = f"Internal error ({type(error).__name__}). What was paid for is kept; the releases show how far they are."
    body = join(notice(words), tag("p", tag("a", "To the releases", href="/releases")))
    return HTMLResponse(outside_page(body, title="hush studio"), status_code=500)


def opening_file(code: str, port: int) -> Path:
    """A file that only this user can read; a browser that opens it posts the code, which so is in no address."""
    page = form(
        f"http://{HOST}:{port}/enter",
        hidden("code", code),
        tag("p", "Opening hush studio ..."),
        button("Open"),
        id="enter",
    )
    script = "<script>document.getElementById('enter').submit()</script>"
    path = Path(tempfile.mkdtemp(prefix="hush-studio-"), "open.html")
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(
            f"<!DOCTYPE html><html lang='en'><meta charset='utf-8'><title>hush studio</title>{page}{script}</html>"
        )
    return path


def bound_socket(port: int, host: str = HOST) -> socket.socket:
    """A socket on loopback, or on another address; port 0 is any that is free."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(CONNECTIONS_WAITING)
    except OSError as error:
        listening.close()
        raise HushError(f"port {port} of {host} cannot be used: {error.strerror}; choose another with --port") from None
    return listening


def server_config(app: Any) -> uvicorn.Config:
    """How both servers run: without logs, since an exception may quote cells of a table, and an address a question."""
    return uvicorn.Config(
        app,
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        lifespan="off",
        timeout_graceful_shutdown=2,
    )


def owner_server(studio: OwnerStudio, listening: socket.socket, code: str) -> uvicorn.Server:
    """The server of the owner's page on a socket."""
    port = int(listening.getsockname()[1])
    return uvicorn.Server(server_config(Guard(owner_app(studio), port=port, code=code)))


def serve_owner(
    studio: OwnerStudio, *, port: int = 0, code: str, on_ready: Callable[[int, Path], None] | None = None
) -> None:
    """Run the owner's page until it is interrupted; `on_ready` gets the port, and the file that opens it."""
    listening = bound_socket(port)
    used = int(listening.getsockname()[1])
    opener = opening_file(code, used)
    server = owner_server(studio, listening, code)
    try:
        if on_ready is not None:
            on_ready(used, opener)
        server.run(sockets=[listening])
    finally:
        with suppress(OSError):
            opener.unlink(missing_ok=True)
            opener.parent.rmdir()
        studio.close()
        listening.close()
