"""A plot of answers: bars for categories, bands for many ordered levels, shades for large tables of two columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hush.core.errors import QueryError
from hush.core.validation import check_choice
from hush.render.plots import COLOURS, Series, new_panels, plain_text, plot_bars, plot_lines, plot_shades
from hush.schema import Categorical
from hush.schema.column import MISSING_LABEL, OTHER_LABEL

if TYPE_CHECKING:
    from hush.inference.intervals import Rows
    from hush.release.answers import Answers, GroupColumn, QueryColumn

KINDS = ("auto", "bars", "lines", "shades")
MOST_SERIES = len(COLOURS)
MOST_LINES = 3  # of which the bands can be told apart
MOST_BAR_LEVELS = 24  # of ordered columns; more levels are drawn as a line
MOST_BARS = 60


def plot_answers(answers: Answers, *, kind: str = "auto", axes: Any = None) -> Any:
    """The matplotlib axes with the answers and their intervals; of several values, an array with the axes of each."""
    # Plots show at most two columns.
    check_choice(QueryError, "kind", kind, KINDS)
    if len(answers.groups) > 2:
        columns = ", ".join(group.name for group in answers.groups)
        raise QueryError(f"a plot shows at most two columns, and the answers have {columns}; ask for two of them")
    if not len(answers):
        raise QueryError("the answers have no rows, so there is nothing to plot")
    if len(answers.quantities) > 1:
        if axes is not None:
            raise QueryError(f"axes= shows one value; choose one, such as answers[{answers.names[0]!r}].plot(axes=...)")
        panels = new_panels(len(answers.quantities))
        for quantity, panel in zip(answers.quantities, panels, strict=True):
            plot_answers(replace(answers, quantities=(quantity,)), kind=kind, axes=panel)
        return panels

    # The column with more levels goes along the axis, an ordered one first; the other one has a series for each level.
    groups = sorted(answers.groups, key=lambda group: (len(set(group.codes.tolist())), _ordered(group)), reverse=True)
    codes = [np.unique(group.codes, return_inverse=True) for group in groups]
    codes += [(np.zeros(1, dtype=np.int64), np.zeros(len(answers), dtype=np.int64))] * (2 - len(codes))
    (levels, along), (lines, across) = codes
    labels, names = _labels(groups[:1], levels), _labels(groups[1:], lines)
    quantity = answers.quantities[0]
    estimate, lower, upper = (np.full((len(lines), len(levels)), np.nan) for _ in range(3))
    for table, values in zip((estimate, lower, upper), (quantity.estimate, *answers.interval(quantity)), strict=True):
        table[across, along] = values

    # Draw bars while they can be told apart, else lines, else shades.
    ordered = bool(groups) and _ordered(groups[0])
    if kind == "auto":
        kind = _chosen(ordered, len(levels), len(lines))
    titles = (groups[0].name if groups else "", groups[1].name if len(groups) > 1 else "")
    if kind == "shades":
        if len(groups) < 2:
            raise QueryError("shades show two columns; ask for a table of two columns, or take kind='bars'")
        margins = np.nan_to_num((upper - lower) / 2)
        axes = plot_shades(names, labels, np.nan_to_num(estimate), margins, names=(titles[1], titles[0]), axes=axes)
    else:
        series = [Series(name, *part) for name, *part in zip(names, estimate, lower, upper, strict=True)]
        if kind == "lines":
            apart = sum(label in (MISSING_LABEL, OTHER_LABEL) for label in labels)
            axes = plot_lines(labels, series, names=titles, apart=apart, axes=axes)
        else:
            axes = plot_bars(labels, series, names=titles, axes=axes)

    # Say what the plot shows, and what its error bars mean.
    by = f" by {' and '.join(group.name for group in answers.groups)}" if groups else ""
    intervals = f"{100 * answers.level:.6g} % intervals" if quantity.known.any() else "errors not known"
    if kind == "shades" and quantity.known.any():
        intervals = f"hatched where the {intervals.removesuffix('s')} reaches zero"
    axes.set_title(plain_text(f"{quantity.name}{by}, {intervals}"), loc="left", fontsize=10)
    return axes


def _chosen(ordered: bool, levels: int, lines: int) -> str:
    if ordered and lines <= MOST_LINES and levels * lines > MOST_BAR_LEVELS:
        return "lines"
    return "bars" if lines == 1 or (lines <= MOST_SERIES and levels * lines <= MOST_BARS) else "shades"


def _ordered(group: GroupColumn | QueryColumn) -> bool:
    column = getattr(group, "column", None)
    return column is not None and not isinstance(column, Categorical)


def _labels(groups: Sequence[GroupColumn | QueryColumn], codes: Rows) -> list[str]:
    """The label of every code of the only group; an empty one without a group."""
    if not groups:
        return [""]
    (group,) = groups
    first = {int(code): row for row, code in reversed(list(enumerate(group.codes)))}
    return [group.label(first[int(code)]) for code in codes]
