"""The section on precision: the standard errors of the plan and of a naive one, both known before any data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from hush.core.domain import Clique
from hush.inference.estimates import Estimates
from hush.privacy.events import price
from hush.privacy.sensitivity import ONE_CELL, sensitivity
from hush.render.charts import LABEL_SIZE, TICK_SIZE, Axis, picture, vertical_grid
from hush.render.html_page import page_table
from hush.render.labels import error_text, order_name, readable, table_name, width
from hush.render.markup import Markup, lines, shape, tag
from hush.render.text_table import counted
from hush.report.level_groups import cell_errors
from hush.workloads import ProductTerm

if TYPE_CHECKING:
    from hush.release.release import Release

MOST_TABLES = 12
SAMPLED_TABLES_PER_ORDER = 30
LARGEST_TABLE = 200_000
SAMPLED_QUERIES = 48
LARGEST_BLOCK = 4_000_000
MOST_NAMED = 12  # thresholds and formulas
MOST_ROWS = 12
PRECISION_WIDTH = 620.0
PAIR_HEIGHT = 40.0  # of two bars


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """The typical standard error of some tables of the workload, planned and naive.

    Typical is the root mean square over all their numbers. `clique` is set for a single table; else all have `order`
    columns, or any number if that is None. `sampled` tables stand for all `tables`.
    """

    order: int | None
    clique: Clique | None
    tables: int
    sampled: int
    queries: int
    planned: float
    naive: float

    @property
    def ratio(self) -> float:
        """The error of the naive plan over that of the release."""
        return self.naive / self.planned if self.planned > 0 else math.nan


def naive_stddev(release: Release) -> float:
    """The noise of a plan that measures each table of the workload by itself with an equal share of the budget spent.

    A table of counts with Gaussian noise of variance s^2 costs rho = D^2 / (2 s^2), where D^2 is the squared L2
    sensitivity of one table; k tables at rho / k each have s = D sqrt(k / (2 rho)). With Laplace noise k tables at
    epsilon / k each have s = sqrt(2) k D_1 / epsilon.
    """
    statement = release.statement
    if not 0 < statement.rho < math.inf:
        return math.nan
    moved = sensitivity(ONE_CELL, max_rows=statement.unit.max_rows, neighbours=statement.neighbours)
    epsilon = price(statement.event).epsilon
    if epsilon:
        return math.sqrt(2) * len(release.workload) * float(moved.l1 / epsilon)
    return math.sqrt(len(release.workload) * float(moved.l2_squared) / (2 * statement.rho))


def by_order(release: Release) -> list[Precision]:
    """One entry for the tables of each number of columns."""
    orders: dict[int, list[ProductTerm]] = {}
    for term in _products(release):
        orders.setdefault(len(term.clique), []).append(term)
    naive = naive_stddev(release)
    return [_typical(release.estimates, orders[order], naive, None) for order in sorted(orders)]


def by_table(release: Release) -> list[Precision]:
    """One entry for each table of the workload; none if there are many."""
    terms = _products(release)
    if len(terms) > MOST_TABLES or len({term.clique for term in terms}) < len(terms):
        return []
    naive = naive_stddev(release)
    return [_typical(release.estimates, [term], naive, term.clique) for term in terms]


def _products(release: Release) -> list[ProductTerm]:
    """The tables of the workload; thresholds and formulas have no naive answer to compare with."""
    return [product for term in release.workload if (product := term.product) is not None]


def overall(entries: Sequence[Precision]) -> Precision:
    """All the tables of some entries together."""
    finite = [entry for entry in entries if math.isfinite(entry.planned) and math.isfinite(entry.naive)]
    weights = [entry.queries for entry in finite]
    return Precision(
        order=None,
        clique=None,
        tables=sum(entry.tables for entry in finite),
        sampled=sum(entry.sampled for entry in finite),
        queries=sum(weights),
        planned=_root_mean([entry.planned**2 for entry in finite], weights),
        naive=_root_mean([entry.naive**2 for entry in finite], weights),
    )


def _typical(estimates: Estimates, terms: Sequence[ProductTerm], naive: float, clique: Clique | None) -> Precision:
    """The typical errors of some terms, from evenly spread ones if there are many."""
    candidates = [terms[i] for i in spread(len(terms), 4 * SAMPLED_TABLES_PER_ORDER)]  # `covers` takes time
    usable = [
        term
        for term in candidates
        if estimates.domain.size(term.clique) <= LARGEST_TABLE
        and estimates.covers(term.clique)
        and (term.plain or all(math.prod(block.shape) <= LARGEST_BLOCK for block in term.blocks))
    ]
    sampled = [usable[i] for i in spread(len(usable), SAMPLED_TABLES_PER_ORDER)]
    pairs = [_variances(estimates, term, naive) for term in sampled]
    weights = [term.queries for term in sampled]
    return Precision(
        order=len(terms[0].clique),
        clique=clique,
        tables=len(terms),
        sampled=len(sampled),
        queries=sum(term.queries for term in terms),
        planned=_root_mean([planned for planned, _ in pairs], weights),
        naive=_root_mean([unplanned for _, unplanned in pairs], weights),
    )


def _variances(estimates: Estimates, term: ProductTerm, naive: float) -> tuple[float, float]:
    """The mean variance of the answers of a term: as released, and with independent noise on every cell.

    For ranges and other sums, some evenly spread queries stand for all.
    """
    if term.plain:
        return float(np.mean(cell_errors(estimates, term.clique) ** 2)), naive**2
    rows = [block.dense() for block in term.blocks]
    planned, unplanned = [], []
    for query in spread(term.queries, SAMPLED_QUERIES):
        indices = np.unravel_index(query, tuple(len(row) for row in rows))
        coefficients = reduce(np.multiply.outer, [row[i] for row, i in zip(rows, indices, strict=True)], np.ones(()))
        planned.append(float(estimates.covariance(term.clique, coefficients, coefficients, 0)))
        unplanned.append(naive**2 * float(np.sum(coefficients**2)))
    return float(np.mean(planned)), float(np.mean(unplanned))


def spread(length: int, most: int) -> list[int]:
    """At most `most` indices below `length`, evenly spread, including the first and the last.

    >>> spread(3, 5), spread(9, 3)
    ([0, 1, 2], [0, 4, 8])
    """
    if length <= most:
        return list(range(length))
    return [i * (length - 1) // (most - 1) for i in range(most)]


def _root_mean(variances: Sequence[float], weights: Sequence[int]) -> float:
    return math.sqrt(np.average(variances, weights=weights)) if len(variances) else math.nan


def comparison_section(release: Release, entries: Sequence[Precision], number: int) -> Markup:
    """Predicted standard errors, what a naive plan would have had, and the ratio."""
    finite = [entry for entry in entries if math.isfinite(entry.planned) and math.isfinite(entry.naive)][:MOST_ROWS]
    title = tag("h3", "Predicted error, and that of a naive plan", id="precision")
    if not finite:
        unknown = "No standard error is known for the tables of this release beforehand."
        return lines(title, tag("p", unknown) if _products(release) else None, _others(release))
    # One row for each entry, and one for all together.
    noise = error_text(naive_stddev(release))
    whole = [overall(entries)] if len(finite) > 1 else []
    heads = ("tables over", "tables", "predicted standard error", "naive standard error", "naive / predicted")
    rows = [
        (
            order_name(entry.order) if entry.clique is None else table_name(entry.clique),
            f"{entry.tables:,}",
            error_text(entry.planned),
            error_text(entry.naive),
            f"{entry.ratio:.2f}" if math.isfinite(entry.ratio) else "",
        )
        for entry in (*finite, *whole)
    ]
    sampled = " and ".join(
        f"{entry.sampled} of the {counted(entry.tables, 'table')} over {order_name(entry.order)}"
        for entry in finite
        if entry.sampled < entry.tables
    )
    asked = "the one table" if len(release.workload) == 1 else f"all {counted(len(release.workload), 'table')}"
    return lines(
        title,
        tag(
            "p",
            "The plan alone determines the errors, so they were known before any record was read. For comparison, a "
            "naive plan measures every table of the workload by itself with an equal share of the same budget: noise "
            f"of standard deviation {noise} on every cell of {asked}.",
        ),
        tag("figure", tag("div", _chart([*finite, *whole], number), class_="scroll"), class_="single"),
        page_table(heads, rows, numbers=(1, 2, 3, 4)),
        tag(
            "p",
            "A plan spends the budget on all numbers together, and most numbers are in the larger tables. In exchange, "
            "some small tables are less exact than under a naive plan.",
        )
        if any(entry.ratio < 1 for entry in finite)
        else None,
        tag("p", f"The errors were computed from {sampled}, evenly spread.", class_="note") if sampled else None,
        None
        if release.workload.plain
        else tag(
            "p",
            "Of some tables, ranges or other sums were asked for; the errors are those of these answers, or of evenly "
            "spread ones if there are many.",
            class_="note",
        ),
        _others(release),
    )


def _others(release: Release) -> Markup | None:
    """Which thresholds and formulas were asked for, and where their answers are."""
    texts = [term.text for term in release.workload if term.product is None]
    if not texts:
        return None
    more = f" and {len(texts) - MOST_NAMED:,} more" if len(texts) > MOST_NAMED else ""
    named = f"{'; '.join(texts[:MOST_NAMED])}{more}"
    return tag("p", f"Also asked: {named}. release.term(...) has the answers, with their errors.")


def _chart(entries: Sequence[Precision], number: int) -> Markup:
    """Two bars for each entry: the predicted error and that of a naive plan."""
    names = [
        order_name(entry.order) if entry.clique is None else " × ".join(entry.clique) or "total" for entry in entries
    ]
    labels = [readable(name, 30) for name in names]
    left = max(width(label, LABEL_SIZE) for label in labels) + 10
    largest = max(max(entry.planned, entry.naive) for entry in entries)
    axis = Axis.linear(0.0, largest, start=left, stop=PRECISION_WIDTH - 76, marks=5)
    top = 24.0
    bottom = top + PAIR_HEIGHT * len(entries) + 2
    # The key, then the axis and the bars.
    second = left + 22 + width("predicted standard error", TICK_SIZE) + 18
    shapes = [
        shape("rect", x=left, y=2.0, width=14.0, height=10.0, class_="bar"),
        tag("text", "predicted standard error", x=left + 20, y=11.0, class_="mark"),
        shape("rect", x=second, y=2.0, width=14.0, height=10.0, class_="naive"),
        tag("text", "naive plan", x=second + 20, y=11.0, class_="mark"),
        vertical_grid(axis, top, bottom),
    ]
    texts = []
    for index, (entry, name) in enumerate(zip(entries, names, strict=True)):
        y = top + PAIR_HEIGHT * index + 6
        shapes.append(tag("text", labels[index], x=left - 8, y=y + 18, class_="end"))
        for line, (value, kind) in enumerate(((entry.planned, "bar"), (entry.naive, "naive"))):
            shapes.append(shape("rect", x=left, y=y + 14 * line, width=axis(value) - left, height=13.0, class_=kind))
            shapes.append(tag("text", error_text(value), x=axis(value) + 5, y=y + 14 * line + 10, class_="mark"))
        errors = f"{error_text(entry.planned)} predicted, {error_text(entry.naive)} naive"
        texts.append(f"{readable(name, 60)}: {errors}")
    description = "; ".join(texts) + ". The table below has the same numbers."
    title = "Predicted and naive standard errors"
    return picture(title, description, number, bottom + 20, *shapes, wide=PRECISION_WIDTH)
