"""The comparison as a person reads it: the stamp, the workload, then the worst columns and pairs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from hush.cell_table import CellColumn, CellTable, counted, number_columns

if TYPE_CHECKING:
    from hush.evaluation.comparison import Comparison

MOST_ROWS = 10  # of columns, and of pairs
BAR = 16  # cells of the worst distance
_FINE = "▏▎▍▌▋▊▉█"


def comparison_tables(comparison: Comparison) -> list[CellTable]:
    """The figures of the workload, and the columns and pairs that are furthest off.

    Privacy: what they say is private; see `Comparison`.
    """
    tables = [CellTable.facts(_lines(comparison)), _worst("Columns", "column", comparison.columns.items())]
    if comparison.pairs:
        pairs = [(_named(pair.columns), pair.distance) for pair in comparison.pairs]
        strengths = [(f"{pair.real:.3f}", f"{pair.synthetic:.3f}") for pair in comparison.pairs]
        tables.append(_worst("Pairs", "pair", pairs, number_columns("V real", "V synthetic"), strengths))
    return tables


def bar(share: float) -> str:
    """A bar of up to `BAR` cells for a number from 0 to 1; anything above 0 is seen.

    >>> bar(0.25), bar(0.0), bar(1e-9)
    ('████', '', '▏')
    """
    eighths = min(max(round(8 * BAR * share), 1 if share > 0 else 0), 8 * BAR)
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (_FINE[rest - 1] if rest else "")


def _lines(comparison: Comparison) -> Iterable[tuple[str, str]]:
    errors, workload = comparison.errors, comparison.workload
    kind = "in the model" if comparison.modelled else "synthetic"
    yield "Rows", f"{comparison.real_rows:,} real, {comparison.synthetic_rows:,.0f} {kind}"
    yield "Workload", f"{counted(len(workload), 'table')}, {counted(workload.queries, 'number')}"
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
    rows = counted(max(round(fraction * comparison.real_rows), 1), "row")
    beyond = "; more than all rows, for samples repeat rows" if fraction > 1 else ""
    return f"as near as a sample of {_percent(fraction)} of the real rows ({rows}, with replacement){beyond}"


def _worst(
    title: str,
    noun: str,
    entries: Iterable[tuple[str, float]],
    more_columns: Sequence[CellColumn] = (),
    more_cells: Sequence[tuple[str, ...]] | None = None,
) -> CellTable:
    """The first entries with their distances, and bars beside that of the worst."""
    listed = list(entries)
    distances = [distance for _, distance in listed]
    figures = f"total variation distance: mean {np.mean(distances):.3g}, median {np.median(distances):.3g}"
    cut = f"; the worst {MOST_ROWS} of {len(listed):,}" if len(listed) > MOST_ROWS else ""
    most = distances[0]
    rows = [
        (name, f"{distance:.4f}", f"{bar(distance / most if most > 0 else 0.0):<{BAR}}", *more)
        for (name, distance), more in zip(listed, more_cells or [()] * len(listed), strict=True)
    ][:MOST_ROWS]
    columns = (CellColumn(heading=noun, fit="fold"), *number_columns("distance"), CellColumn(), *more_columns)
    return CellTable(columns=columns, rows=rows, title=f"{title}, {figures}{cut}")


def _named(clique: Iterable[str]) -> str:
    return " x ".join(clique) or "(total)"


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.3g} %" if fraction < 10 else f"{100 * fraction:,.0f} %"
