"""The section on means: the sums of values that were measured, as means and sums of each group with their intervals."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hush.core.errors import HushError
from hush.release.answer_columns import GroupColumn
from hush.render.html_page import page_table
from hush.render.labels import named, rounded, table_name
from hush.render.markup import Markup, lines, tag
from hush.render.text_table import counted
from hush.report.level_groups import level_label

if TYPE_CHECKING:
    from hush.release.answers import Answers
    from hush.release.release import Release
    from hush.workloads.sum_term import SumTerm

MOST_GROUPS = 24
INTRO = (
    "The values of these columns were added up, not only counted by their bins. The intervals hold with 95 % and allow "
    "for all noise. A value outside the bounds of the schema counts as the nearer bound."
)


def means_section(release: Release) -> Markup | None:
    """Means and sums by the groups that they were measured for; None where none were."""
    sums = release.record.sums
    terms = [] if sums is None else [term for _, term, _ in sums.measured if _shown(term)]
    tables = [table for term in terms if (table := _table(release, term)) is not None]
    return lines(tag("h2", "Means", id="means"), tag("p", INTRO), *tables) if tables else None


def _shown(term: SumTerm) -> bool:
    return term.grid.power == 1 and not term.grid.by_level


def _table(release: Release, term: SumTerm) -> Markup | None:
    try:
        mean, total = release.mean(term.column, term.clique), release.sum(term.column, term.clique)
    except HushError:
        return None
    shown = min(len(mean), MOST_GROUPS)
    rows = [
        (
            *(named(level_label(group.column, int(group.codes[row])), 60) for group in _groups(mean)),
            *_number(mean, row),
            *_number(total, row),
        )
        for row in range(shown)
    ]
    groups = len(mean.groups)
    heads = (*(named(group.name, 60) for group in mean.groups), "mean", "95 % interval", "sum", "95 % interval")
    caption = f"The first {MOST_GROUPS} of {counted(len(mean), 'group')}." if len(mean) > shown else ""
    by = ["of ", named(term.column, 60), *([" by ", table_name(term.clique)] if term.clique else [])]
    return lines(tag("h3", "Mean ", *by), page_table(heads, rows, numbers=range(groups, groups + 4), caption=caption))


def _groups(answers: Answers) -> list[GroupColumn]:
    return [group for group in answers.groups if isinstance(group, GroupColumn)]


def _number(answers: Answers, row: int) -> tuple[str, str]:
    """An estimate and its interval, with the digits that its error supports."""
    quantity = answers.quantities[0]
    lower, upper = (float(ends[row]) for ends in answers.interval(quantity))
    error = float(quantity.std_error[row])
    if not math.isfinite(error):
        error = (upper - lower) / 4 if math.isfinite(upper - lower) else math.nan
    interval = f"{rounded(lower, error)} to {rounded(upper, error)}" if math.isfinite(lower) else "not known"
    return rounded(float(quantity.estimate[row]), error), interval
