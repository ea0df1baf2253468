"""The comparison as a person reads it: the stamp, the workload, then the worst columns and pairs."""

from __future__ import annotations

from collections.abc import Iterable
from io import StringIO
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hush.errors import printable

if TYPE_CHECKING:
    from hush.evaluation.comparison import Comparison

MOST_COLUMNS = 10
MOST_PAIRS = 10
BAR = 16  # cells of the worst distance
_FINE = "▏▎▍▌▋▊▉█"


def comparison_text(comparison: Comparison, *, width: int = 100) -> str:
    """The whole comparison as plain text."""
    buffer = StringIO()
    print_comparison(Console(file=buffer, width=width, color_system=None, legacy_windows=False), comparison)
    return "\n".join(line.rstrip() for line in buffer.getvalue().rstrip().splitlines())


def print_comparison(console: Console, comparison: Comparison) -> None:
    """Print the stamp, the figures of the workload, and the columns and pairs that are furthest off.

    Privacy: what is printed is private; see `Comparison`.
    """
    from hush.evaluation.comparison import STAMP

    console.print(Text(STAMP, style="bold red"))
    console.print()
    console.print(_figures(comparison))
    console.print()
    distances = list(comparison.columns.values())
    console.print(_title("Columns", distances, MOST_COLUMNS))
    console.print(_columns(comparison))
    if comparison.pairs:
        console.print()
        console.print(_title("Pairs", [pair.distance for pair in comparison.pairs], MOST_PAIRS))
        console.print(_pairs(comparison))


def bar(share: float) -> str:
    """A bar of up to `BAR` cells for a number from 0 to 1; anything above 0 is seen.

    >>> bar(0.25), bar(0.0), bar(1e-9)
    ('████', '', '▏')
    """
    eighths = min(max(round(8 * BAR * share), 1 if share > 0 else 0), 8 * BAR)
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (_FINE[rest - 1] if rest else "")


def _figures(comparison: Comparison) -> Table:
    grid = Table(box=None, pad_edge=False, show_header=False)
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in _lines(comparison):
        grid.add_row(name, Text(printable(value)))
    return grid


def _lines(comparison: Comparison) -> Iterable[tuple[str, str]]:
    errors, workload = comparison.errors, comparison.workload
    kind = "in the model" if comparison.modelled else "synthetic"
    yield "Rows", f"{comparison.real_rows:,} real, {comparison.synthetic_rows:,.0f} {kind}"
    yield "Workload", f"{_number(len(workload), 'table')}, {_number(workload.queries, 'number')}"
    yield "Error", f"{errors.share_error:.3g} in shares, from 0 to 2 for tables of counts: as if both had as many rows"
    if comparison.same_rows:
        yield "", f"{errors.error:.3g} in counts that are off in a table, per real row (AIM's workload error)"
    else:
        yield "", "not in counts, for the numbers of rows differ; draw as many rows for AIM's workload error"
    worst = int(np.argmax(errors.distances))
    where = f"; worst {errors.distances[worst]:.3g}: {_named(workload.terms[worst].clique)}"
    beyond = "" if workload.plain else " (queries overlap, so it may pass 1)"
    yield "Distance", f"mean {errors.mean_distance:.3g} over the tables{where if len(workload) > 1 else ''}{beyond}"
    yield "Worth", _worth(comparison)
    if comparison.pairs:
        off = [pair.difference for pair in comparison.pairs]
        most = comparison.pairs[int(np.argmax(off))]
        strengths = f"{most.real:.2f} real, {most.synthetic:.2f} synthetic"
        yield (
            "Association",
            f"Cramér's V is off by {np.mean(off):.3g} on average; most: {_named(most.columns)} ({strengths})",
        )


def _worth(comparison: Comparison) -> str:
    fraction = comparison.equivalent_fraction
    if fraction is None:
        return "not known as a sample: the workload asks for more than counts of records"
    if comparison.capped:
        return f"more than a sample of {fraction:.0f} times the real rows"
    if fraction == 0:
        return "no more than a sample of one real row"
    rows = f"{_number(max(round(fraction * comparison.real_rows), 1), 'row')}"
    beyond = "; more than all rows, for samples repeat rows" if fraction > 1 else ""
    return f"as near as a sample of {_percent(fraction)} of the real rows ({rows}, with replacement){beyond}"


def _title(name: str, distances: list[float], most: int) -> Text:
    title = Text(name, style="bold")
    figures = f"total variation distance: mean {np.mean(distances):.3g}, median {np.median(distances):.3g}"
    more = f"; the worst {most} of {len(distances):,}" if most < len(distances) else ""
    return title.append(f"  {figures}{more}", style="not bold")


def _columns(comparison: Comparison) -> Table:
    shown = list(comparison.columns.items())[:MOST_COLUMNS]
    table = _listing("column")
    for name, distance in shown:
        table.add_row(Text(printable(name)), f"{distance:.4f}", bar(_ratio(distance, shown[0][1])))
    return table


def _pairs(comparison: Comparison) -> Table:
    shown = comparison.pairs[:MOST_PAIRS]
    table = _listing("pair")
    table.add_column("V real", justify="right", no_wrap=True)
    table.add_column("V synthetic", justify="right", no_wrap=True)
    for pair in shown:
        length = bar(_ratio(pair.distance, shown[0].distance))
        table.add_row(
            Text(_named(pair.columns)), f"{pair.distance:.4f}", length, f"{pair.real:.3f}", f"{pair.synthetic:.3f}"
        )
    return table


def _listing(noun: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column(noun, overflow="fold")
    table.add_column("distance", justify="right", no_wrap=True)
    table.add_column("", min_width=BAR, no_wrap=True)
    return table


def _ratio(distance: float, worst: float) -> float:
    return distance / worst if worst > 0 else 0.0


def _named(clique: Iterable[str]) -> str:
    return " x ".join(map(printable, clique)) or "(total)"


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.3g} %" if fraction < 10 else f"{100 * fraction:,.0f} %"
