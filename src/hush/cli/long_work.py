"""What a long command does and how long it takes, on stderr, at a terminal and in a log."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from hush.render.progress_bar import duration, progress_bar

TERMINAL_SECONDS = 2.0  # shorter work says nothing at a terminal
LOG_SECONDS = 5.0  # longer, since a log is read afterwards and scripts like a quiet stderr
LEAST_SHARE = 0.05  # done, before the rest is predicted from it
COMPILES = "a first run compiles once"
PLANNING_TIME = f"usually seconds, longer for many large tables; {COMPILES}"
DISCOVERY_TIME = f"longer with more rows; {COMPILES}"
NO_BAR = math.inf  # for work that does not tell what share of it is done


@contextmanager
def long_work(
    label: str, expected: str, *, private: bool = False, after: float = 0.0
) -> Iterator[Callable[[float], None]]:
    """A progress bar; for long work also a line that says how long it takes, and a line that says how long it took.

    Yields a function to call with the fraction done. The first line comes once the work has become long. It predicts
    the rest from the fraction done, and says `expected` as long as there is no such fraction; it is left out if
    `expected` is empty. The bar waits `after` seconds, as in `progress_bar`.

    Privacy: the time of `private` work depends on the rows. Outside a terminal the first line then comes at once, for
    short work too, and holds `expected` alone; the time that the work took is shown at a terminal only.
    """
    terminal, begin, done = sys.stderr.isatty(), time.monotonic(), 0.0
    least = TERMINAL_SECONDS if terminal else LOG_SECONDS

    def announce() -> None:
        rest = expected
        if done >= LEAST_SHARE:
            rest = f"{min(done, 0.99):.0%} done, about {duration((time.monotonic() - begin) * (1 / done - 1))} more"
        if expected:
            sys.stderr.write(f"hush: {label}: {rest}\n")  # above a bar; click.echo would write into it
            sys.stderr.flush()

    def update(fraction: float) -> None:
        nonlocal done
        done = min(fraction, 1.0)
        bar(fraction)

    timer = threading.Timer(least, announce)
    timer.daemon = True
    if terminal or not private:
        timer.start()
    else:
        announce()
    try:
        with progress_bar(label, after=after) as bar:
            yield update
    finally:
        timer.cancel()
        if timer.ident is not None:
            timer.join()  # a line that has begun is written before the command goes on
    seconds = time.monotonic() - begin
    if seconds >= least and (terminal or not private):
        click.echo(f"hush: {label} took {duration(seconds)}", err=True)
