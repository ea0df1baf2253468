"""Comparison: the errors of the plan beside those of a naive one, as a small chart and a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hush.report.axis import Axis
from hush.report.charts import FONT, SMALL, picture
from hush.report.labels import compact, count, error_text, readable, table_name, width
from hush.report.markup import Markup, join, lines, shape, tag
from hush.report.precision import LARGEST_TABLE, Precision, naive_stddev, overall
from hush.report.summary import order_name
from hush.report.tables import table

if TYPE_CHECKING:
    from hush.release.release import Release

WIDE = 620.0
PAIR = 40.0
MOST_ROWS = 12

INTRO = (
    "How large the errors are follows from the plan alone and was known before any record was read. For comparison, a "
    "naive plan measures every table of the workload by itself with an equal share of the same budget: "
)
WHOLE = (
    "A plan spends the budget for all numbers together, and most numbers are in the larger tables. In exchange, some "
    "small tables are less exact than a naive plan would have them."
)
QUERIES = (
    "Some of the tables are asked for ranges or other sums; the errors are those of the answers asked for, and of "
    "evenly spread ones where they are many."
)


def comparison_section(release: Release, entries: Sequence[Precision], number: int) -> Markup:
    """Predicted standard errors, what a naive plan would have had, and the ratio."""
    shown = [entry for entry in entries if math.isfinite(entry.planned) and math.isfinite(entry.naive)][:MOST_ROWS]
    title = tag("h2", "Predicted error, and that of a naive plan", id="precision")
    if not shown:
        return lines(title, tag("p", "No standard error is known for the tables of this release beforehand."))
    noise = error_text(naive_stddev(release))
    whole = [overall(entries)] if len(shown) > 1 else []
    heads = ("tables over", "tables", "predicted standard error", "naive standard error", "naive / predicted")
    rows = [
        (
            _name(entry),
            f"{entry.tables:,}",
            error_text(entry.planned),
            error_text(entry.naive),
            f"{entry.ratio:.2f}" if math.isfinite(entry.ratio) else "",
        )
        for entry in (*shown, *whole)
    ]
    sampled = [entry for entry in shown if entry.looked_at < entry.tables]
    return lines(
        title,
        tag("p", f"{INTRO}noise of standard deviation {noise} on every cell of {_tables(release)}."),
        tag("figure", _chart([*shown, *whole], number), class_="single"),
        table(heads, rows, numbers=(1, 2, 3, 4)),
        tag("p", WHOLE) if any(entry.ratio < 1 for entry in shown) else None,
        tag("p", _sampled(sampled), class_="note") if sampled else None,
        None if release.workload.plain else tag("p", QUERIES, class_="note"),
    )


def _chart(entries: Sequence[Precision], number: int) -> Markup:
    names = [readable(_plain_name(entry), 30) for entry in entries]
    left = max(width(name, FONT) for name in names) + 10
    largest = max(max(entry.planned, entry.naive) for entry in entries)
    axis = Axis.over(0.0, largest, start=left, stop=WIDE - 76, marks=5)
    top = 24.0
    bottom = top + PAIR * len(entries) + 2
    parts = [_key(left)]
    for tick in axis.ticks:
        kind = "zero" if tick == 0 else "grid"
        parts.append(shape("line", x1=axis(tick), x2=axis(tick), y1=top, y2=bottom, class_=kind))
        parts.append(tag("text", compact(tick), x=axis(tick), y=bottom + 14, class_="mark mid"))
    for place, (entry, name) in enumerate(zip(entries, names, strict=True)):
        y = top + PAIR * place + 6
        parts.append(tag("text", name, x=left - 8, y=y + 18, class_="end"))
        for line, (value, kind) in enumerate(((entry.planned, "bar"), (entry.naive, "naive"))):
            parts.append(shape("rect", x=left, y=y + 14 * line, width=axis(value) - left, height=13.0, class_=kind))
            parts.append(tag("text", error_text(value), x=axis(value) + 5, y=y + 14 * line + 10, class_="mark"))
    return picture("Predicted and naive standard errors", _described(entries), number, bottom + 20, *parts, wide=WIDE)


def _key(left: float) -> Markup:
    second = left + 22 + width("predicted standard error", SMALL) + 18
    return join(
        shape("rect", x=left, y=2.0, width=14.0, height=10.0, class_="bar"),
        tag("text", "predicted standard error", x=left + 20, y=11.0, class_="mark"),
        shape("rect", x=second, y=2.0, width=14.0, height=10.0, class_="naive"),
        tag("text", "naive plan", x=second + 20, y=11.0, class_="mark"),
    )


def _described(entries: Sequence[Precision]) -> str:
    said = [
        f"{readable(_plain_name(entry), 60)}: {error_text(entry.planned)} predicted, {error_text(entry.naive)} naive"
        for entry in entries
    ]
    return "; ".join(said) + ". The table below has the same numbers."


def _name(entry: Precision) -> str:
    return order_name(entry.order) if entry.clique is None else table_name(entry.clique)


def _plain_name(entry: Precision) -> str:
    if entry.clique is None:
        return order_name(entry.order)
    return " × ".join(entry.clique) or "total"


def _tables(release: Release) -> str:
    tables = len(release.workload)
    return "the one table" if tables == 1 else f"all {count(tables, 'table')}"


def _sampled(entries: Sequence[Precision]) -> str:
    said = [
        f"{entry.looked_at} of the {count(entry.tables, 'table')} over {order_name(entry.order)}" for entry in entries
    ]
    return f"Looked at: {', '.join(said)}, evenly spread among those of at most {LARGEST_TABLE:,} cells."
