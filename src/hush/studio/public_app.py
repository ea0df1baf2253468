"""The public page of a release and its API: read-only, and unable to reach private data.

A release is public, so this server may be exposed. It opens one file, the release, and writes none. `public_limits.py`
bounds what a request may ask and how much a visitor may ask for; every answer is post-processing of the release.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias
from urllib.parse import urlencode

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from hush.core.errors import HushError, QueryError, SizeError, shown
from hush.loading import load_release
from hush.release.release import Release
from hush.render.labels import readable
from hush.render.markup import Markup, join, tag
from hush.report import report_html
from hush.studio.api_description import PREFIX, api_description, api_page
from hush.studio.explore import (
    DEFAULT_ROWS,
    LONGEST_QUERY,
    ExploredRelease,
    asked_rows,
    checked_table,
    columns_markup,
    columns_of,
    completion_words,
    drawn_rows,
    explore_markup,
)
from hush.studio.layout import document, notice, outside_page, studio_script, studio_stylesheet
from hush.studio.owner_app import server_config
from hush.studio.public_limits import (
    VISITORS_TO_FILL,
    AnswerDesk,
    Bounds,
    HeldConnections,
    KeptAnswer,
    PromptConnection,
    RequestRate,
    TooBusy,
    problem,
    query_problem,
    selected_of,
    sql_words,
    visitor_of,
)
from hush.studio.releases_page import MEDIA_TYPES, REPORT_POLICY, asked_table

MOST_ANSWER_ROWS = 50_000
MOST_ANSWER_NUMBERS = 500_000  # rows of an answer, times what SELECT lists
LARGEST_SEED = 2**32
HTML, JSON = "text/html; charset=utf-8", "application/json"

Work: TypeAlias = Callable[[Mapping[str, str]], "KeptAnswer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicLimits:
    """What the public page allows: rows at a time, requests of a visitor, questions that wait, memory for answers.

    A rate of 0 has no limit for one visitor, such as behind a proxy, where all seem to be one.
    """

    most_rows: int = 100_000
    requests_per_second: float = 20.0
    most_connections: int = 1000
    most_waiting: int = 200
    kept_megabytes: float = 64.0


class PublicRelease:
    """Answers questions about one release, as bytes that can be kept."""

    def __init__(self, release: Release, *, title: str, file_name: str, limits: PublicLimits) -> None:
        self.release, self.title, self.file_name, self.limits = release, title, file_name, limits
        self.explored = ExploredRelease(release=release, base="", most_rows=limits.most_rows)
        self.description = api_description(release.schema, title=title, most_rows=limits.most_rows)

    def page(self, query: Mapping[str, str]) -> KeptAnswer:
        """The page, with the table and the query that were asked."""
        if "sql" in query:
            query = dict(query) | {"sql": query["sql"][: LONGEST_QUERY + 1]}
            too_large = query_problem(query["sql"], self.release.schema)
            if too_large:
                asked = tag("p", tag("a", "Ask another question", href="/"))
                return self._page(join(notice(too_large), asked), status=400)
        extra = tag(
            "details",
            tag("summary", "Columns"),
            columns_markup(self.release.schema),
        )
        links = tag("p", tag("a", "For programs: the API", href="/api"), class_="soft")
        return self._page(join(explore_markup(self.explored, query), extra, links))

    def api(self) -> KeptAnswer:
        """The page about the API."""
        return self._page(api_page(self.description), title=f"{self.title}: the API")

    def _page(self, body: Markup, *, title: str | None = None, status: int = 200) -> KeptAnswer:
        brand = tag("p", tag("a", readable(self.title, 60), href="/"), class_="brand")
        heading = title or self.title
        content = document(
            join(tag("h1", readable(heading, 80)), body), title=heading, header=tag("header", brand, class_="studio")
        )
        return KeptAnswer(content.encode(), HTML, status)

    def report(self) -> KeptAnswer:
        """The report."""
        page = report_html(self.release, dataset=self.title, file_name=self.file_name)
        return KeptAnswer(page.encode(), HTML)

    def table(self, query: Mapping[str, str]) -> KeptAnswer:
        """A table of counts."""
        clique = checked_table(self.release, columns_of(needed(query, "columns")))
        return self._answers(self.release.marginal(*clique, level=level_of(query)))

    def sql(self, query: Mapping[str, str]) -> KeptAnswer:
        """The answer to a query."""
        text = needed(query, "query")
        too_large = query_problem(text, self.release.schema)
        if too_large:
            raise QueryError(too_large)
        return self._answers(self.release.sql(text, level=level_of(query)), selected_of(sql_words(text)))

    def rows(self, query: Mapping[str, str]) -> KeptAnswer:
        """Synthetic rows; the same seed gives the same rows, so that they can be kept."""
        form, seed = query.get("form", "csv"), query.get("seed", "0")
        if form not in MEDIA_TYPES:
            raise QueryError(f"form={shown(form)}: expected csv or parquet")
        if not (seed.isascii() and seed.isdigit() and len(seed) < 11 and int(seed) < LARGEST_SEED):
            raise QueryError(f"seed={shown(seed)}: expected a whole number below {LARGEST_SEED:,}")
        most = self.limits.most_rows
        count = asked_rows(query.get("rows", str(min(DEFAULT_ROWS, most))), most)
        content = drawn_rows(self.release, count, form, seed=int(seed))
        return KeptAnswer(content, MEDIA_TYPES[form], filename=f"rows.{form}")

    def facts(self) -> KeptAnswer:
        """What was released and what it promises."""
        return self.json(self.release.to_dict() | {"title": self.title})

    def columns(self) -> KeptAnswer:
        """The columns, and the labels of their levels unless they are very many."""
        columns = [
            {
                "name": column.name,
                "kind": column.kind,
                "size": column.size,
                "levels": [column.label(code) for code in range(column.size)] if column.size <= 1000 else None,
            }
            for column in self.release.schema
        ]
        return self.json({"columns": columns})

    def words(self) -> KeptAnswer:
        """The words that SQL is completed with."""
        return self.json(completion_words(self.release.schema))

    def _answers(self, answers: Any, selected: int = 1) -> KeptAnswer:
        most = min(MOST_ANSWER_ROWS, MOST_ANSWER_NUMBERS // selected)
        if len(answers) > most:
            raise SizeError(
                f"the answer has {len(answers):,} rows: at most {most:,} are sent; ask for fewer with WHERE"
            )
        return self.json(answers.to_dict())

    @staticmethod
    def json(value: Any) -> KeptAnswer:
        return KeptAnswer(json.dumps(value, allow_nan=False, ensure_ascii=False).encode(), JSON)


def level_of(query: Mapping[str, str]) -> float:
    """The level of confidence that was asked for."""
    text = query.get("level", "0.95")
    try:
        return float(text)
    except ValueError:
        raise QueryError(f"level={shown(text)}: expected a number between 0 and 1, such as 0.95") from None


class PublicApp:
    """The routes of the public page."""

    def __init__(self, public: PublicRelease) -> None:
        self.public = public
        limits = public.limits
        self.desk = AnswerDesk(most_bytes=int(limits.kept_megabytes * 1e6), most_waiting=limits.most_waiting)
        self.rate = RequestRate(limits.requests_per_second)

    def app(self) -> ASGIApp:
        """The app with its limits."""
        answer, public = self._answer, self.public
        routes = [
            Route("/", self._page),
            Route("/report", answer(lambda query: public.report(), slow=True)),
            Route("/words.json", answer(lambda query: public.words())),
            Route("/rows.{form}", self._rows),
            Route("/style.css", answer(lambda query: KeptAnswer(studio_stylesheet().encode(), "text/css"))),
            Route("/studio.js", answer(lambda query: KeptAnswer(studio_script().encode(), "text/javascript"))),
            Route("/api", answer(lambda query: public.api())),
            Route("/openapi.json", answer(lambda query: public.json(public.description))),
            Route(f"{PREFIX}/release", answer(lambda query: public.facts())),
            Route(f"{PREFIX}/columns", answer(lambda query: public.columns())),
            Route(f"{PREFIX}/table", answer(public.table, "columns", "level")),
            Route(f"{PREFIX}/sql", self._sql, methods=["GET", "POST"]),
            Route(f"{PREFIX}/rows", answer(public.rows, "rows", "form", "seed", slow=True)),
        ]
        handlers: Any = {HTTPException: not_found, HushError: refused_question, Exception: bug}
        inner = Starlette(routes=routes, exception_handlers=handlers)
        return Bounds(inner, self.rate)

    def _answer(self, work: Work, *names: str, slow: bool = False) -> Any:
        """An endpoint whose answer is kept by its path and the parameters of these names; it ignores any other."""

        async def endpoint(request: Request) -> Response:
            given = request.query_params
            query = {name: given[name] for name in names if name in given}
            return await self._kept(request, request.url.path, query, work, slow=slow)

        return endpoint

    async def _kept(
        self, request: Request, path: str, query: Mapping[str, str], work: Work, *, slow: bool = False
    ) -> Response:
        """An answer that is kept, or worked out now at the visitor's expense."""
        key, visitor = f"{path}?{urlencode(sorted(query.items()))}", visitor_of(request.scope)
        if slow:
            named = visitor if self.public.limits.requests_per_second else ""
            answer = await self.desk.answer(key, lambda: work(query), slow=True, visitor=named)
        else:
            answer = await self.desk.answer(key, lambda: self.rate.worked(visitor, lambda: work(query)))
        headers = {"cache-control": "public, max-age=3600"}
        if answer.filename:
            headers["content-disposition"] = f'attachment; filename="{answer.filename}"'
        if path == "/report":
            headers["content-security-policy"] = REPORT_POLICY
        return Response(answer.content, answer.status, headers, media_type=answer.media_type)

    async def _page(self, request: Request) -> Response:
        given = request.query_params
        if (table := asked_table(given)) is not None:
            return RedirectResponse(f"/{table}", status_code=303)
        return await self._kept(request, "/", {n: given[n] for n in ("columns", "sql") if n in given}, self.public.page)

    async def _rows(self, request: Request) -> Response:
        given = request.query_params
        query = {name: given[name] for name in ("rows", "seed") if name in given}
        query["form"] = str(request.path_params["form"])
        return await self._kept(request, f"{PREFIX}/rows", query, self.public.rows, slow=True)

    async def _sql(self, request: Request) -> Response:
        given: Mapping[str, Any] = request.query_params
        if request.method == "POST":
            try:
                given = json.loads(await request.body())
                json.dumps(given, ensure_ascii=False).encode()  # refuses halves of characters
            except (ValueError, RecursionError):
                raise QueryError('the body is no JSON; send {"query": "SELECT ..."}') from None
            if not isinstance(given, dict) or not given.keys() <= {"query", "level"}:
                raise QueryError('the body: expected {"query": "SELECT ...", "level": 0.95}')
        query = {name: str(given[name]) for name in ("query", "level") if name in given}
        return await self._kept(request, f"{PREFIX}/sql", query, self.public.sql)


def needed(query: Mapping[str, str], name: str) -> str:
    """A parameter that must be there."""
    if name not in query:
        example = {"columns": "columns=age,sex", "query": "query=SELECT COUNT(*) FROM t"}[name]
        raise QueryError(f"{name} is missing; add {example}")
    return query[name]


def for_people(request: Request) -> bool:
    """Whether a refusal is read by a person."""
    return not request.url.path.startswith(PREFIX) and "text/html" in request.headers.get("accept", "")


async def refused_question(request: Request, error: Exception) -> Response:
    """A question that cannot be answered."""
    busy = isinstance(error, TooBusy)
    status = 503 if busy else 400
    if for_people(request):
        body = join(notice(str(error)), tag("p", tag("a", "Ask another question", href="/")))
        return HTMLResponse(outside_page(body, title="No answer"), status_code=status)
    return problem(status, str(error), {"retry-after": "5"} if busy else None)


async def not_found(request: Request, error: Exception) -> Response:
    """An address that nothing is at."""
    status = error.status_code if isinstance(error, HTTPException) else 400
    words = "there is no such page; / has the release and /api the API" if status == 404 else "not understood"
    if for_people(request):
        return HTMLResponse(outside_page(notice(words), title="No such page"), status_code=status)
    return problem(status, words, getattr(error, "headers", None))


async def bug(request: Request, error: Exception) -> Response:
    """A bug in hush."""
    return problem(500, f"internal error ({type(error).__name__})")


def public_app(path: Any, *, title: str | None = None, limits: PublicLimits | None = None) -> PublicApp:
    """The public page of the release in a file."""
    release = load_release(path)
    name = getattr(path, "name", str(path))
    stem = str(name).removesuffix(".hush")
    return PublicApp(PublicRelease(release, title=title or stem, file_name=str(name), limits=limits or PublicLimits()))


def public_server(app: PublicApp) -> uvicorn.Server:
    """The server of a public page."""
    limits = app.public.limits
    config: Any = server_config(app.app())
    config.limit_concurrency = limits.most_connections
    config.timeout_keep_alive = 15
    of_one = limits.most_connections // VISITORS_TO_FILL if limits.requests_per_second else 0
    config.http = partial(PromptConnection, held=HeldConnections(of_one))
    return uvicorn.Server(config)
