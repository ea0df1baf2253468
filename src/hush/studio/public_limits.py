"""Limits of the public page: the size of a question, what one visitor may hold and ask for, and work at once.

A release never changes, so an answer is worked out once and kept while there is room. Work is done by two threads: one
for quick answers and one for slow ones, such as the report, so that nobody waits for somebody else's report. Whoever
comes while too many wait is told to come back, which keeps memory flat. A visitor pays for requests, and for the
seconds of quick work that they cause, has few slow questions at a time, and holds only a share of the connections.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from hush.core.errors import HushError, SizeError
from hush.schema import Schema
from hush.sql.quoting import bracketed, tokens_of
from hush.studio.explore import LONGEST_QUERY
from hush.studio.guard import POLICY, with_headers

MOST_VISITORS = 10_000  # whose requests are counted; the visitor who came longest ago is forgotten first
BURST_SECONDS = 10.0  # requests that a visitor may send at once, as seconds of the rate
SLOW_SHARE = 10  # how many quick questions may wait for each slow one
BYTES_PER_ENTRY = 512  # of the cache itself, beside the answer
WORK_FACTOR = 2.0  # a second of quick work counts as so many seconds of requests
LONGEST_WAIT = 5.0  # seconds that a visitor waits at most for what the last work has cost
MOST_SLOW_OF_ONE = 2  # slow questions of a visitor that wait or are worked on
VISITORS_TO_FILL = 10  # how many visitors it takes to hold all connections
MOST_BODY_BYTES = 64 * 1024
LONGEST_ADDRESS = 16 * 1024  # bytes of a query string
MOST_SELECTED = 30  # things that SELECT may list; each quantile is worked out by itself
MOST_QUERY_CELLS = 1_000_000  # of the table over all columns that a query names
MOST_QUERY_NUMBERS = 4_000_000  # cells of that table, times what SELECT lists
PUBLIC_HEADERS = {
    "content-security-policy": POLICY,
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
TOO_MANY = b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 5\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
Answer = TypeVar("Answer")


class TooBusy(HushError):
    """More work waits than is let in; the visitor should come back."""


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """An answer as it is sent."""

    content: bytes
    media_type: str
    status: int = 200
    filename: str | None = None


class RequestRate:
    """A bucket of requests for each visitor, which fills up again at a rate; a rate of 0 counts nothing.

    Work that a visitor causes is taken from the bucket too, which may leave it below zero.

    >>> rate = RequestRate(per_second=1.0)
    >>> sum(rate.allows("a", now=100.0) for _ in range(50)), rate.allows("a", now=101.5), rate.allows("b", now=101.5)
    (10, True, True)
    """

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._most = max(per_second * BURST_SECONDS, 1.0)
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # visitor -> requests left, and when
        self._counting = threading.Lock()

    def allows(self, visitor: str, *, now: float | None = None) -> bool:
        """Whether a visitor may send a request now; counts it if so."""
        if not self._per_second:
            return True
        at = time.monotonic() if now is None else now
        with self._counting:
            left, before = self._left.pop(visitor, (self._most, at))
            left = min(left + (at - before) * self._per_second, self._most)
            allowed = left >= 1.0
            self._left[visitor] = (left - 1.0 if allowed else left, at)
            while len(self._left) > MOST_VISITORS:
                self._left.popitem(last=False)
        return allowed

    def worked(self, visitor: str, work: Callable[[], Answer]) -> Answer:
        """Do work in this thread, and take its seconds of CPU from the visitor who asked for it."""
        start = time.thread_time()
        try:
            return work()
        finally:
            cost = WORK_FACTOR * self._per_second * (time.thread_time() - start)
            with self._counting:
                if visitor in self._left:
                    left, before = self._left[visitor]
                    self._left[visitor] = (max(left - cost, -LONGEST_WAIT * self._per_second), before)


class HeldConnections:
    """How many connections each visitor holds; nobody may hold more than so many, and 0 is no limit.

    >>> held = HeldConnections(2)
    >>> [held.take("a") for _ in range(3)], held.take("b"), held.give_back("a"), held.take("a")
    ([True, True, False], True, None, True)
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._held = Counter[str]()

    def take(self, visitor: str) -> bool:
        """Whether a visitor may hold one more; counts it if so."""
        if self._most and self._held[visitor] >= self._most:
            return False
        self._held[visitor] += 1
        return True

    def give_back(self, visitor: str) -> None:
        """A visitor has closed a connection."""
        self._held[visitor] -= 1
        if not self._held[visitor]:
            del self._held[visitor]


class PromptConnection(H11Protocol):
    """A connection that is closed if its visitor is too slow, or holds too many others, so that nobody holds them all.

    A visitor who sends no request, or does not read an answer, is slow.
    """

    seconds: ClassVar[float] = 10.0  # for a request; a slow visitor has up to twice as long
    most_looks: ClassVar[int] = 60  # for an answer: ten minutes

    def __init__(self, *given: Any, held: HeldConnections, **options: Any) -> None:
        super().__init__(*given, **options)
        self._held, self._visitor, self._taken = held, "unknown", False

    def connection_made(self, transport: Any) -> None:
        self._visitor = str((transport.get_extra_info("peername") or ("unknown",))[0])
        self._taken = self._held.take(self._visitor)
        if not self._taken:
            transport.write(TOO_MANY)
            transport.close()
            return
        super().connection_made(transport)
        self._look_again(self, 0)  # no request yet

    def connection_lost(self, exc: Exception | None) -> None:
        if self._taken:
            self._held.give_back(self._visitor)
            super().connection_lost(exc)

    def _look_again(self, before: object, looks: int) -> None:
        """Close the connection if the same request is still awaited, or still answered after many looks."""
        cycle = self.cycle
        waits = cycle is None or cycle.response_complete or cycle.more_body
        if self.transport.is_closing():
            return
        looks = looks + 1 if cycle is before else 0
        if looks >= (1 if waits else self.most_looks):
            self.transport.abort()
            return
        self.loop.call_later(self.seconds, self._look_again, cycle, looks)


class AnswerDesk:
    """Works out answers, each once, and keeps those that were asked for last, up to so many bytes."""

    def __init__(self, *, most_bytes: int, most_waiting: int) -> None:
        self._most_bytes = most_bytes
        self._most_waiting = most_waiting
        self._kept: OrderedDict[str, KeptAnswer] = OrderedDict()
        self._bytes = 0
        self._waiting = {False: 0, True: 0}  # quick and slow questions
        self._slow_of = Counter[str]()  # slow questions of each visitor
        self._under_way: dict[str, asyncio.Future[KeptAnswer]] = {}
        self._quick, self._slow = (ThreadPoolExecutor(1, thread_name_prefix="hush answers") for _ in range(2))

    @property
    def kept_bytes(self) -> int:
        """How many bytes are kept."""
        return self._bytes

    def kept(self, key: str) -> KeptAnswer | None:
        """An answer that is kept."""
        answer = self._kept.get(key)
        if answer is not None:
            self._kept.move_to_end(key)
        return answer

    async def answer(
        self, key: str, work: Callable[[], KeptAnswer], *, slow: bool = False, visitor: str = ""
    ) -> KeptAnswer:
        """The answer of a key; several who ask for the same wait for one. A visitor with a name has few slow ones."""
        if (kept := self.kept(key)) is not None:
            return kept
        loop = asyncio.get_running_loop()
        future = self._under_way.get(key)
        if future is None:
            if self._waiting[slow] >= (self._most_waiting // SLOW_SHARE if slow else self._most_waiting):
                raise TooBusy("too many questions wait for an answer; ask again in a few seconds")
            named = visitor if slow else ""
            if named and self._slow_of[named] >= MOST_SLOW_OF_ONE:
                raise TooBusy("your last questions are still worked on; ask again once they are answered")
            self._waiting[slow] += 1
            self._slow_of[named] += 1
            future = asyncio.ensure_future(loop.run_in_executor(self._slow if slow else self._quick, work))
            self._under_way[key] = future
            future.add_done_callback(lambda done: self._keep(key, done, slow, named))
        return await asyncio.shield(future)

    def _keep(self, key: str, done: asyncio.Future[KeptAnswer], slow: bool, named: str) -> None:
        """Keep an answer that was worked out, and forget older ones to make room."""
        del self._under_way[key]
        self._waiting[slow] -= 1
        self._slow_of[named] -= 1
        if not self._slow_of[named]:
            del self._slow_of[named]
        if done.cancelled() or done.exception() is not None:
            return
        answer = done.result()
        size = len(answer.content) + len(key) + BYTES_PER_ENTRY
        if size > self._most_bytes / 4:
            return
        self._kept[key] = answer
        self._bytes += size
        while self._bytes > self._most_bytes:
            old, forgotten = self._kept.popitem(last=False)
            self._bytes -= len(forgotten.content) + len(old) + BYTES_PER_ENTRY

    def close(self) -> None:
        """End the threads; what waits is given up."""
        for pool in (self._quick, self._slow):
            pool.shutdown(wait=False, cancel_futures=True)


class Bounds:
    """Refuses what is too large or too fast, before the app sees it; adds the security headers."""

    def __init__(self, app: ASGIApp, rate: RequestRate) -> None:
        self._app = app
        self._rate = rate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, with_headers(send, PUBLIC_HEADERS))
            return
        read = 0

        async def counted_receive() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > MOST_BODY_BYTES:
                raise SizeError(f"a body may have at most {MOST_BODY_BYTES:,} bytes; shorten the query")
            return message

        await self._app(scope, counted_receive, with_headers(send, PUBLIC_HEADERS))

    def _refusal(self, scope: Scope) -> Response | None:
        if not self._rate.allows(visitor_of(scope)):
            return problem(429, "too many requests; ask again in a few seconds", {"retry-after": "5"})
        if len(scope.get("query_string", b"")) > LONGEST_ADDRESS:
            return problem(414, "the address is too long; send the query with POST")
        length = dict(scope["headers"]).get(b"content-length", b"0")
        if not length.isdigit() or int(length) > MOST_BODY_BYTES:
            return problem(413, f"a body may have at most {MOST_BODY_BYTES:,} bytes; shorten the query")
        return None


def visitor_of(scope: Scope) -> str:
    """The address that a request comes from."""
    return str((scope.get("client") or ("unknown",))[0])


def problem(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """A refusal for programs."""
    return JSONResponse({"error": message}, status_code=status, headers=dict(headers or {}))


def query_problem(text: str, schema: Schema) -> str:
    """Why a query is not worked out: its text, or the table over all columns that it names, is too large."""
    if len(text) > LONGEST_QUERY:
        return f"the query is too long: at most {LONGEST_QUERY:,} characters are possible; shorten it"
    words = sql_words(text)
    named, cells, selected = set(words), 1, selected_of(words)
    for column in schema:
        if not named.isdisjoint((column.name.casefold(), column.source.casefold())):
            cells *= column.size
    if cells > MOST_QUERY_CELLS:
        return (
            f"the table over the columns of the query has {cells:,} cells: at most {MOST_QUERY_CELLS:,} are worked "
            "out here; name fewer columns"
        )
    if selected > MOST_SELECTED:
        return f"SELECT lists {selected:,} things: at most {MOST_SELECTED} are worked out here; ask in several queries"
    if cells * selected > MOST_QUERY_NUMBERS:
        return (
            f"SELECT lists {selected:,} numbers for each of {cells:,} cells: at most {MOST_QUERY_NUMBERS:,} numbers "
            "are worked out here; select fewer"
        )
    return ""


def sql_words(text: str) -> list[str]:
    """The words and marks of a query, in small letters; none if it cannot be read, which its parser refuses."""
    try:
        return [token.text.casefold() for token in tokens_of(bracketed(text, tokens_of(text)))]
    except Exception:  # noqa: BLE001 - sqlglot raises several types; the query itself is refused with its reason later
        return []


def selected_of(words: list[str]) -> int:
    """At most how many things a query selects: one more than there are commas before the last FROM.

    >>> selected_of(["select", "sex", ",", "count", "(", "*", ")", "from", "t"])
    2
    """
    end = len(words) - words[::-1].index("from") if "from" in words else len(words)
    return words[:end].count(",") + 1
