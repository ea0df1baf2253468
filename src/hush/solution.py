"""Solution: what a solver found, how well, and what to do if that was not well enough; and a bar while it works."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from hush.errors import ConvergenceError

Value = TypeVar("Value", covariant=True)

SOLVED = "solved"
TOLERANCE = 0.01  # of fitted models, unless stated


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution(Generic[Value]):
    """A value with the state in which its solver stopped.

    `status` is "solved", or says what was not reached and what to do about it; `stats` holds numbers such as
    `iterations`, `value`, `lower_bound` and `gap`.

    >>> Solution(value=3, stats={"gap": 0.0}).checked()
    3
    """

    value: Value
    status: str = SOLVED
    stats: Mapping[str, float] = field(default_factory=dict)

    @property
    def solved(self) -> bool:
        """Whether the tolerance was reached."""
        return self.status == SOLVED

    def checked(self) -> Value:
        """The value if it was solved; ConvergenceError with the status, which names the remedy, if not."""
        if not self.solved:
            raise ConvergenceError(self.status)
        return self.value


LONG = 1.0  # seconds of work after which a bar of Python appears
_bars: list[Any] = []  # the bar on the screen; there is room for one


@contextmanager
def progress_bar(label: str, *, after: float = 0.0) -> Iterator[Callable[[float], None]]:
    """A bar on stderr that is updated with fractions, and appears with the first of them after so many seconds.

    Nothing is shown if stderr is no terminal and there is no notebook, or while another bar is shown.
    """
    if not (sys.stderr.isatty() or "FORCE_COLOR" in os.environ or "ipykernel" in sys.modules):
        yield lambda fraction: None
        return
    start, own = time.monotonic(), list[Any]()

    def update(fraction: float) -> None:
        if not own and not _bars and time.monotonic() - start >= after:
            own.append(_started(label))
            _bars.append(own[0])
        if own:
            own[0].update(own[0].task_ids[0], completed=fraction)

    if not after:
        update(0.0)
    try:
        yield update
    finally:
        if own:
            own[0].stop()
            _bars.remove(own[0])


def _started(label: str) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    bar.add_task(label, total=1.0)
    bar.start()
    return bar
