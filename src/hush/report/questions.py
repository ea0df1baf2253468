"""Questions: what can be asked of a release, how, and three examples."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hush.domain import Clique
from hush.release.measured import MeasuredRelease
from hush.report.columns import column_table
from hush.report.examples import MOST_ROWS, Example
from hush.report.labels import count, error_text, named, readable, rounded, table_name
from hush.report.markup import Markup, join, lines, tag
from hush.report.summary import order_name
from hush.report.tables import bound_text, interval_text, table

if TYPE_CHECKING:
    from hush.release.answers import Answers
    from hush.release.release import Release

MOST_CLIQUES = 60

HOW = (
    "Any count over the columns of one of these tables, or over fewer of them, can be asked at no further cost to "
    "privacy, in a terminal or in Python. The table may be called anything in FROM; t will do."
)
ADAPTIVE = (
    "Any count over the columns of one of these tables, or over fewer of them, has an exact standard error. Any other "
    "combination of columns can be asked too and is answered by the model, with a bound on its error where one is "
    "known. Asking costs no further privacy, in a terminal or in Python. The table may be called anything in FROM."
)
COMMANDS = """hush query release.hush "SELECT ..."

import hush
hush.load("release.hush").sql("SELECT ...")"""


def questions_section(release: Release, examples: Sequence[Example]) -> Markup:
    """Covered tables, columns, example queries with their answers, and how to ask."""
    return lines(
        tag("h2", "What can be asked", id="questions"),
        tag("p", ADAPTIVE if isinstance(release, MeasuredRelease) else HOW),
        tag("pre", tag("code", COMMANDS)),
        tag("h3", "Tables"),
        covered(release),
        tag("h3", "Columns"),
        column_table(release.schema),
        tag("h3", "Examples") if examples else None,
        *(_example(example) for example in examples),
    )


def covered(release: Release) -> Markup:
    """The largest tables that can be asked; whole orders in a sentence, others one by one up to a number."""
    cliques, columns = release.estimates.cliques, len(release.domain)
    if not cliques:
        return tag("p", "None.")
    if len(cliques) == 1 and len(cliques[0]) == columns:
        return tag("p", f"Any combination of the {count(columns, 'column')}.")
    orders = Counter(len(clique) for clique in cliques)
    whole = {order for order, tables in orders.items() if tables > 1 and tables == math.comb(columns, order)}
    items = [f"Every combination of {order_name(order)}: {count(orders[order], 'table')}." for order in sorted(whole)]
    rest = [clique for clique in cliques if len(clique) not in whole]
    listed = [table_name(clique) for clique in rest[:MOST_CLIQUES]]
    if len(rest) > MOST_CLIQUES:
        listed.append(join(_remaining(rest[MOST_CLIQUES:])))
    return tag("ul", *(tag("li", item) for item in (*items, *listed)))


def _remaining(cliques: Sequence[Clique]) -> str:
    orders = Counter(len(clique) for clique in cliques)
    said = [f"{tables:,} over {order_name(order)}" for order, tables in sorted(orders.items())]
    return f"and {count(len(cliques), 'more table', 'more tables')}: {', '.join(said)}"


def _example(example: Example) -> Markup:
    notes = [readable(note, 300) for note in example.answers.notes]
    return tag(
        "div",
        tag("p", readable(example.question, 300)),
        tag("pre", tag("code", example.sql)),
        _answer_table(example.answers) if example.answers.groups else _answer_line(example.answers),
        tag("p", " ".join(notes), class_="note") if notes else None,
        class_="example",
    )


def _answer_line(answers: Answers) -> Markup:
    (low,), (high,) = answers.interval(answers.quantities[0])
    (value,), (error,) = answers.quantities[0].estimate, answers.quantities[0].std_error
    interval = interval_text(low, high, error)
    told = f", with standard error {error_text(error)} and 95 % interval {interval}." if interval else "."
    if not interval and math.isfinite(low):
        told = f", with 95 % interval {bound_text(low, high)}, from a bound."
    return tag("p", tag("b", rounded(value, error)), " rows", told)


def _answer_table(answers: Answers) -> Markup:
    lower, upper = answers.interval(answers.quantities[0])
    value, error = answers.quantities[0].estimate, answers.quantities[0].std_error
    shown = min(len(answers), MOST_ROWS)
    rows = [
        (
            *(named(group.label(row)) for group in answers.groups),
            rounded(value[row], error[row]),
            error_text(error[row]),
            interval_text(lower[row], upper[row], error[row]) or bound_text(lower[row], upper[row]),
        )
        for row in range(shown)
    ]
    groups = len(answers.groups)
    heads = (*(named(group.name) for group in answers.groups), "count", "standard error", "95 % interval")
    return table(heads, rows, numbers=range(groups, groups + 3))
