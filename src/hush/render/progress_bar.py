"""Progress bars, shown on stderr while long work runs, and times for people to read."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

SECONDS_BEFORE_BAR = 1.0  # a Python call that is done sooner shows no bar
_bars: list[Any] = []  # the bar on the screen; there is room for one


@contextmanager
def progress_bar(label: str, *, after: float = 0.0) -> Iterator[Callable[[float], None]]:
    """A bar on stderr: yields a function to call with the fraction done.

    The bar appears with the first fraction later than `after` seconds. Nothing is shown if stderr is no terminal, in a
    notebook without ipywidgets, or while another bar is shown.
    """
    visible = sys.stderr.isatty() or "FORCE_COLOR" in os.environ
    if "ipykernel" in sys.modules:  # a notebook says that it is a terminal, and without ipywidgets the bar is a warning
        visible = find_spec("ipywidgets") is not None
    if not visible:
        yield lambda fraction: None
        return
    start, shown = time.monotonic(), list[Any]()

    def update(fraction: float) -> None:
        if not shown and not _bars and time.monotonic() - start >= after:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"))
            bar = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True)
            bar.add_task(label, total=1.0)
            bar.start()
            shown.append(bar)
            _bars.append(bar)
        if shown:
            shown[0].update(shown[0].task_ids[0], completed=fraction)

    if not after:
        update(0.0)
    try:
        yield update
    finally:
        if shown:
            shown[0].stop()
            _bars.remove(shown[0])


def duration(seconds: float) -> str:
    """A time in one unit, in two digits.

    >>> [duration(seconds) for seconds in (0.2, 14.2, 115.0, 200.0, 9000.0, 4e5)]
    ['1 s', '14 s', '120 s', '3.3 min', '2.5 h', '110 h']
    """
    unit, length = next((entry for entry in (("s", 1), ("min", 60)) if seconds < 120 * entry[1]), ("h", 3600))
    number = float(f"{max(seconds, 1) / length:.2g}")
    return f"{number:g} {unit}"
