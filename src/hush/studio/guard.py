"""Guard: who may use the owner's page, decided before any of its code sees a request.

The page listens on loopback alone, but every program and every website that the owner opens can reach loopback too:

- A website cannot pretend to be the page. `Host` must be exactly the address of the server, so a name that was rebound
  to loopback is refused. A POST must come from the page itself (`Origin`), and the browser keeps the cookie from
  requests that other sites cause (`SameSite=Strict`).
- Another user of the machine cannot enter. A code opens the page once; it is sent in the body of a POST, never in an
  address, so no log, history or list of processes has it.
- What a page shows cannot run: the content security policy allows the server's own script and style and nothing else.

Bodies are bounded, and nothing is stored in caches.
"""

from __future__ import annotations

import hmac
import secrets
import threading
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hush.render.markup import join, tag
from hush.studio.layout import notice, outside_page, void

HOST = "127.0.0.1"
MOST_BODY_BYTES = 4 * 2**20  # a form of a thousand columns, each with a few hundred levels
MOST_CODE_BYTES = 1024
PUBLIC_PATHS = ("/style.css", "/studio.js")  # hold nothing about the data
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
SECURITY_HEADERS = {
    "content-security-policy": POLICY,
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "same-origin",  # with no-referrer, browsers would send `Origin: null`
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class BodyTooLarge(Exception):
    """A body of more bytes than any form of the page has."""


class Guard:
    """Lets requests of the owner's browser through to the app, and refuses all others.

    `code` is what the owner enters; it works once. `port` is that of the server.
    """

    def __init__(self, app: ASGIApp, *, port: int, code: str) -> None:
        self._app = app
        self.address = f"{HOST}:{port}"
        self.origin = f"http://{self.address}"
        self._cookie = f"hush_studio_{port}"  # browsers share cookies between ports
        self._code: str | None = code
        self._session: str | None = None
        self._entering = threading.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        headers, method, path = Headers(scope=scope), scope["method"], scope["path"]
        refusal = self._refusal(headers, method, path)
        if refusal is not None:
            await refusal(scope, receive, with_headers(send, SECURITY_HEADERS))
        elif path == "/enter" and method == "POST":
            response = await self._enter(receive)
            await response(scope, receive, with_headers(send, SECURITY_HEADERS))
        elif path in PUBLIC_PATHS or self._entered(headers):
            await self._bounded(scope, receive, with_headers(send, SECURITY_HEADERS))
        else:
            status = 200 if path == "/" else 403
            await HTMLResponse(enter_page(), status_code=status)(scope, receive, with_headers(send, SECURITY_HEADERS))

    def _refusal(self, headers: Headers, method: str, path: str) -> Response | None:
        """Why a request cannot come from the page itself; None if it can."""
        if headers.getlist("host") != [self.address]:
            return PlainTextResponse(f"This server is {self.origin} and has no other name.\n", status_code=421)
        if method not in ("GET", "HEAD", "POST"):
            return PlainTextResponse("Only GET and POST are understood.\n", status_code=405)
        # The local file that opens the page has the origin "null"; the code in its body is its right to enter.
        entering = path == "/enter" and method == "POST"
        origins = [[self.origin], ["null"]] if entering else [[self.origin]]
        if method == "POST" and headers.getlist("origin") not in origins:
            return PlainTextResponse("This request comes from another site and was refused.\n", status_code=403)
        site = headers.get("sec-fetch-site", "none")
        if not entering and path != "/" and site not in ("same-origin", "none"):
            return PlainTextResponse("This request comes from another site and was refused.\n", status_code=403)
        return None

    async def _enter(self, receive: Receive) -> Response:
        """Check the code, use it up, and give the browser its cookie."""
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if len(body) > MOST_CODE_BYTES:
                return PlainTextResponse("The code is much shorter.\n", status_code=413)
            if not message.get("more_body"):
                break
        given = parse_qs(body.decode("latin-1")).get("code", [""])[0].strip()
        with self._entering:
            if self._code is None or not hmac.compare_digest(given.encode(), self._code.encode()):
                used = self._code is None
                return HTMLResponse(enter_page(used=used, wrong=not used), status_code=403)
            self._code, self._session = None, secrets.token_urlsafe(32)
        # A redirect would still count as caused by the file that posted the code, and so come without the cookie.
        body_ = join(
            tag("p", "You are in."),
            tag("p", tag("a", "Go on to the studio", href="/data", id="onward", class_="button")),
        )
        response = HTMLResponse(outside_page(body_, title="hush studio", onward=True))
        response.set_cookie(self._cookie, self._session, httponly=True, samesite="strict", path="/")
        return response

    def _entered(self, headers: Headers) -> bool:
        """Whether a request has the cookie of this server."""
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return False
        session = self._session
        return (
            cookie is not None and session is not None and hmac.compare_digest(cookie.value.encode(), session.encode())
        )

    async def _bounded(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, with a body of bounded size."""
        declared, started, read = Headers(scope=scope).get("content-length", "0"), False, 0
        too_large = PlainTextResponse(
            f"A form may have at most {MOST_BODY_BYTES // 2**20} MB; name a file instead of pasting it.\n",
            status_code=413,
        )
        if not declared.isdigit() or int(declared) > MOST_BODY_BYTES:
            await too_large(scope, receive, send)
            return

        async def counted_receive() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > MOST_BODY_BYTES:
                raise BodyTooLarge
            return message

        async def noted_send(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, counted_receive, noted_send)
        except BodyTooLarge:
            if not started:
                await too_large(scope, receive, send)


def with_headers(send: Send, added: Mapping[str, str]) -> Send:
    """Add headers to a response, unless it has them already."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in added.items():
                headers.setdefault(name, value)
        await send(message)

    return sending


def enter_page(*, used: bool = False, wrong: bool = False) -> str:
    """The page that asks for the code."""
    problem = None
    if used:
        problem = notice("The code was used already. Use the browser that it opened, or start `hush studio` again.")
    elif wrong:
        problem = notice("This is not the code. Copy it from the terminal where `hush studio` runs.")
    form = tag(
        "form",
        tag("label", "Code from the terminal", for_="code"),
        void("input", name="code", id="code", autocomplete="off", required="required", autofocus="autofocus"),
        tag("button", "Open", type="submit"),
        method="post",
        action="/enter",
        id="enter",
    )
    text = "This page is for the owner of the data. The terminal that started it shows a code that opens it once."
    return outside_page(join(problem, tag("p", text), form), title="hush studio")


def new_code() -> str:
    """A code that nobody can guess."""
    return secrets.token_urlsafe(16)


def back_to(path: str) -> RedirectResponse:
    """After a POST: the page to show next, which a reload does not post again."""
    return RedirectResponse(path, status_code=303)
