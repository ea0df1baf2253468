"""A visitor of the studio for tests: sends requests, keeps its cookie, and fills in the forms of pages."""

import http.client
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import uvicorn

from hush.studio.owner import OwnerStudio
from hush.studio.owner_app import bound_socket, owner_server

CODE = "code-of-the-test"


@dataclass
class PageForm:
    """A form of a page with the values of its fields."""

    action: str
    method: str
    fields: list[tuple[str, str]] = field(default_factory=list)


class PageReader(HTMLParser):
    """Reads forms, alerts and the text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.forms: list[PageForm] = []
        self.alerts: list[str] = []
        self.tags: list[str] = []
        self.words: list[str] = []
        self._select = self._textarea = ""
        self._alert = 0
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = {name: value or "" for name, value in attrs}
        self.tags.append(tag)
        if tag == "form":
            self.forms.append(PageForm(known.get("action", ""), known.get("method", "get")))
        if self._alert:
            self._alert += tag == "div"
        elif known.get("role") == "alert":
            self._alert = 1
            self.alerts.append("")
        if not self.forms or known.get("form") == "":
            return
        fields = self.forms[-1].fields
        if tag == "input" and known.get("name"):
            if known.get("type") not in ("checkbox", "radio") or "checked" in known:
                fields.append((known["name"], known.get("value", "")))
        elif tag == "select":
            self._select = known.get("name", "")
        elif tag == "option" and self._select and "selected" in known:
            fields.append((self._select, known.get("value", "")))
        elif tag == "textarea":
            self._textarea = known.get("name", "")
            fields.append((self._textarea, ""))

    def handle_endtag(self, tag: str) -> None:
        if tag == "select":
            self._select = ""
        elif tag == "textarea":
            self._textarea = ""
        elif tag == "div" and self._alert:
            self._alert -= 1

    def handle_data(self, data: str) -> None:
        if self._textarea:
            name, before = self.forms[-1].fields[-1]
            self.forms[-1].fields[-1] = (name, before + data)
        if self._alert:
            self.alerts[-1] += data
        self.words.append(data)

    @property
    def text(self) -> str:
        """The text of the page on one line."""
        return " ".join(" ".join(self.words).split())


@dataclass
class Reply:
    """An answer of the server."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def page(self) -> PageReader:
        """The answer as a page."""
        return PageReader(self.body.decode())

    @property
    def location(self) -> str:
        """Where the answer leads to."""
        return self.headers.get("location", "")


@dataclass
class Visitor:
    """A browser without a screen: one cookie, and the origin of the server."""

    port: int
    cookie: str = ""

    def send(self, method: str, path: str, body: str | bytes | None = None, **headers: str) -> Reply:
        """One request; headers replace those that a browser would send."""
        sent = {"Host": f"127.0.0.1:{self.port}"}
        if self.cookie:
            sent["Cookie"] = self.cookie
        if method == "POST":
            sent["Origin"] = f"http://127.0.0.1:{self.port}"
            sent["Content-Type"] = "application/x-www-form-urlencoded"
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            content = body.encode() if isinstance(body, str) else body
            if content is not None:
                sent.setdefault("Content-Length", str(len(content)))
            for name, value in sent.items():
                if value:
                    connection.putheader(name, value)
            connection.endheaders(content)
            answer = connection.getresponse()
            reply = Reply(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
        finally:
            connection.close()
        if "set-cookie" in reply.headers:
            self.cookie = reply.headers["set-cookie"].split(";")[0]
        return reply

    def get(self, path: str, **headers: str) -> Reply:
        """Open a page."""
        return self.send("GET", path, **headers)

    def post(self, path: str, fields: list[tuple[str, str]] | dict[str, str], **headers: str) -> Reply:
        """Send a form."""
        return self.send("POST", path, urllib.parse.urlencode(fields), **headers)

    def fill(self, path: str, changes: dict[str, str | list[str] | None], at: str = "") -> Reply:
        """Open a page, change fields of its form, and send it; None unticks a box."""
        form = next(form for form in self.get(path).page.forms if form.action == (at or path))
        return self.post(form.action, changed(form.fields, changes))

    def enter(self, code: str = CODE) -> "Visitor":
        """Enter with the code."""
        assert self.post("/enter", {"code": code}).status == 200
        return self


def changed(fields: list[tuple[str, str]], changes: dict[str, str | list[str] | None]) -> list[tuple[str, str]]:
    """The fields of a form with some changed."""
    kept = [(name, value) for name, value in fields if name not in changes]
    for name, value in changes.items():
        if value is not None:
            kept += [(name, item) for item in ([value] if isinstance(value, str) else value)]
    return kept


@contextmanager
def running(studio: OwnerStudio) -> Iterator[Visitor]:
    """The owner's page of a studio, and a visitor who has not entered yet."""
    listening = bound_socket(0)
    with serving(owner_server(studio, listening, CODE), listening) as port:
        try:
            yield Visitor(port)
        finally:
            studio.close()


@contextmanager
def serving(server: uvicorn.Server, listening: object) -> Iterator[int]:
    """A server in a thread, and its port."""
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield listening.getsockname()[1]  # type: ignore[attr-defined]
    finally:
        server.should_exit = True
        thread.join(20)


def write_people(path: Path, rows: int = 400) -> Path:
    """A small invented table: an id, a number, two texts and a date."""
    drawn = np.random.default_rng(1)
    lines = ["person_id,age,sex,region,visited"]
    sexes, regions = "fm", ("north", "south")
    lines += [
        f"{i},{drawn.integers(0, 100)},{sexes[drawn.integers(2)]},{regions[drawn.integers(2)]},"
        f"2024-0{drawn.integers(1, 10)}-11"
        for i in range(rows)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


PEOPLE_COLUMNS: dict[str, str | list[str] | None] = {
    "c1-kind": "integer",
    "c1-low": "0",
    "c1-high": "99",
    "c1-bins": "10",
    "c2-values": "f, m",
    "c3-values": "north\nsouth",
    "c4-kind": "date",
    "c4-used": "yes",
    "c4-start": "2024-01-01",
    "c4-end": "2024-12-31",
    "c4-granularity": "quarter",
}


def describe_people(visitor: Visitor, *, goal: str = "answers", epsilon: str = "2") -> None:
    """Go through all steps up to the confirmation."""
    steps: list[tuple[str, dict[str, str | list[str] | None], str]] = [
        ("/columns", PEOPLE_COLUMNS | {"action": "next"}, "/people"),
        ("/people", {"unit": "person_id", "rows": "400"}, "/questions"),
        ("/questions", {"goal": goal, "order": "1", "table": ["age", "sex"], "action": "next"}, "/budget"),
        ("/budget", {"way": "epsilon", "epsilon": epsilon, "cap": "9"}, "/confirm"),
    ]
    for path, changes, onward in steps:
        reply = visitor.fill(path, changes)
        assert (reply.status, reply.location) == (303, onward), reply.page.alerts
