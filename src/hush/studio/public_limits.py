"""Limits of the public page: requests per visitor, work at once, and answers that are kept.

A release never changes, so an answer is worked out once and kept while there is room. Work is done by two threads: one
for quick answers and one for slow ones, such as the report, so that nobody waits for somebody else's report. Whoever
comes while too many wait is told to come back, which keeps memory flat.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

from hush.core.errors import HushError

MOST_VISITORS = 10_000  # whose requests are counted; the visitor who came longest ago is forgotten first
BURST_SECONDS = 10.0  # requests that a visitor may send at once, as seconds of the rate
SLOW_SHARE = 10  # how many quick questions may wait for each slow one
BYTES_PER_ENTRY = 512  # of the cache itself, beside the answer


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

    >>> rate = RequestRate(per_second=1.0)
    >>> sum(rate.allows("a", now=100.0) for _ in range(50)), rate.allows("a", now=101.5), rate.allows("b", now=101.5)
    (10, True, True)
    """

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._most = max(per_second * BURST_SECONDS, 1.0)
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # visitor -> requests left, and when

    def allows(self, visitor: str, *, now: float | None = None) -> bool:
        """Whether a visitor may send a request now; counts it if so."""
        if not self._per_second:
            return True
        at = time.monotonic() if now is None else now
        left, before = self._left.pop(visitor, (self._most, at))
        left = min(left + (at - before) * self._per_second, self._most)
        allowed = left >= 1.0
        self._left[visitor] = (left - 1.0 if allowed else left, at)
        while len(self._left) > MOST_VISITORS:
            self._left.popitem(last=False)
        return allowed


class PromptConnection(H11Protocol):
    """A connection that is closed if its visitor takes too long to send a request, so that nobody can hold them all."""

    seconds: ClassVar[float] = 10.0  # for a request; a slow visitor has up to twice as long

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._look_again(None, False)

    def _look_again(self, before: object, waited: bool) -> None:
        """Close the connection if the same request was awaited the last time; check again later if it was not."""
        cycle = self.cycle
        waits = cycle is None or cycle.response_complete or cycle.more_body
        if self.transport.is_closing():
            return
        if waits and waited and cycle is before:
            self.transport.close()
            return
        self.loop.call_later(self.seconds, self._look_again, cycle, waits)


class AnswerDesk:
    """Works out answers, each once, and keeps those that were asked for last, up to so many bytes."""

    def __init__(self, *, most_bytes: int, most_waiting: int) -> None:
        self._most_bytes = most_bytes
        self._most_waiting = most_waiting
        self._kept: OrderedDict[str, KeptAnswer] = OrderedDict()
        self._bytes = 0
        self._waiting = {False: 0, True: 0}  # quick and slow questions
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

    async def answer(self, key: str, work: Callable[[], KeptAnswer], *, slow: bool = False) -> KeptAnswer:
        """The answer of a key; several who ask for the same wait for one."""
        if (kept := self.kept(key)) is not None:
            return kept
        loop = asyncio.get_running_loop()
        future = self._under_way.get(key)
        if future is None:
            if self._waiting[slow] >= (self._most_waiting // SLOW_SHARE if slow else self._most_waiting):
                raise TooBusy("too many questions wait for an answer; ask again in a few seconds")
            self._waiting[slow] += 1
            future = asyncio.ensure_future(loop.run_in_executor(self._slow if slow else self._quick, work))
            self._under_way[key] = future
            future.add_done_callback(lambda done: self._keep(key, done, slow))
        return await asyncio.shield(future)

    def _keep(self, key: str, done: asyncio.Future[KeptAnswer], slow: bool) -> None:
        """Keep an answer that was worked out, and forget older ones to make room."""
        del self._under_way[key]
        self._waiting[slow] -= 1
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
