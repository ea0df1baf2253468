"""A bar for adaptive releases: the share of the budget that is spent, and what the last round chose."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hush.printable import printable

if TYPE_CHECKING:
    from hush.domain import Clique
    from hush.release.rounds import Round

LONGEST = 40
FIRST = "first tables; a first run compiles once"
AGAIN = "fitting; a first run compiles once"


@contextmanager
def rounds_bar(first: int = 0) -> Iterator[tuple[Callable[[float], None], Callable[[Round, float], None]]]:
    """What to tell of progress and of rounds, `first` of which were played before; silent where stderr is no terminal.

    Privacy: the chosen columns of a round and the budget spent are public facts.
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (
        TextColumn("budget spent"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[last]}"),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=1.0, last=AGAIN if first else FIRST)
        played = first

        def on_round(one: Round, spent: float) -> None:
            nonlocal played
            played += 1
            progress.update(task, completed=spent, last=escape(round_text(played, one.clique)))

        yield lambda spent: progress.update(task, completed=spent), on_round


def round_text(number: int, clique: Clique) -> str:
    """The number of a round and the columns that it chose.

    >>> round_text(3, ("age", "sex"))
    'round 3: age, sex'
    """
    text = f"round {number}: {', '.join(printable(name) for name in clique)}"
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
