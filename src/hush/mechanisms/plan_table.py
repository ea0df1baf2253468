"""An adaptive plan as a person reads it: its errors are not known beforehand, but what it starts from is.

The plan as a person reads it: what will be measured, how accurate it will be, what it costs.
"""

from __future__ import annotations

import math
from fractions import Fraction
from io import StringIO
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hush.errors import printable
from hush.linops import AllRange, Identity, LevelsAndTotal, LinearOperator, Prefix, WidthRange
from hush.mechanisms.adaptive import AdaptivePlan
from hush.mechanisms.usefulness import OneWay, noise_text
from hush.privacy.budget import Budget, number_text
from hush.privacy.rational import float_up, shown_up
from hush.workloads import Term

if TYPE_CHECKING:
    from hush.mechanisms.adaptive import AdaptivePlan
    from hush.mechanisms.plan import Plan

SHARE = 0.1  # of an average cell


def asked_tables(plan: AdaptivePlan, title: str) -> Table:
    """How many tables of each number of columns are asked, and how large they are."""
    table = Table(box=None, pad_edge=False, title=title, title_justify="left", title_style="bold")
    table.add_column("tables asked", no_wrap=True)
    for name in ("tables", "cells of the least", "cells of the largest"):
        table.add_column(name, justify="right", no_wrap=True)
    orders: dict[int, list[int]] = {}
    for term in plan.workload:
        orders.setdefault(len(term.clique), []).append(term.queries)
    for order, cells in sorted(orders.items()):
        name = f"{order}-way" if order else "(total)"
        table.add_row(name, f"{len(cells):,}", f"{min(cells):,}", f"{max(cells):,}")
    return table


def adaptive_facts(plan: AdaptivePlan, rows: int | None) -> list[tuple[str, str]]:
    """What stands in the place of errors: how accurate one-way tables can be at best, and the mechanism's own facts."""
    columns = plan.strategy.columns(plan.workload)
    best = OneWay.of(plan, columns, plan.rho / len(columns))
    error = f"standard error {noise_text(best.stddev)} if all of the budget goes to them"
    noise = f"a count in {_all(len(columns))} has {error}"
    return [
        ("Error", "not known beforehand: what is measured depends on the data"),
        ("At best", f"{noise}, {_beside_cell(best, rows)}"),
        *plan.facts(),
        ("How good", plan.optimality),
    ]


def _beside_cell(best: OneWay, rows: int | None) -> str:
    """The standard error of a count as a share of the average cell."""
    if rows is not None:
        return f"that is {best.stddev * best.cells / rows:.2%} of the average cell of {rows:,} rows"
    needed = int(np.ceil(float(f"{best.stddev * best.cells / SHARE:.2g}")))
    return f"that is {SHARE:.0%} of the average cell at {needed:,} rows"


def _all(columns: int) -> str:
    return "the one-way table" if columns == 1 else f"the {columns:,} one-way tables"


KINDS = {Identity: "", Prefix: ":prefix", AllRange: ":range", LevelsAndTotal: ":levels"}  # as in workload texts
MOST_ROWS = 24
LARGEST_DELTA = 1e-3  # above it the plan warns
DELTA_WARNING = "delta is the chance of an arbitrary leak; use far less than one over the number of people"


def plan_text(plan: Plan, *, rows: int | None = None, width: int = 100) -> str:
    """The whole description as plain text."""
    buffer = StringIO()
    console = Console(file=buffer, width=width, color_system=None, legacy_windows=False)
    print_plan(console, plan, rows=rows)
    return buffer.getvalue().rstrip()


def print_plan(console: Console, plan: Plan, *, rows: int | None = None) -> None:
    """Print the tables, the totals, the privacy and the resources of a plan; of an adaptive one, what it starts from.

    With `rows`, the expected number of rows, errors are shown relative to the cells of a uniform table of that many
    rows; without it, the table says how many rows make the error a tenth of such a cell.
    """
    console.print(asked_tables(plan, _title(plan)) if isinstance(plan, AdaptivePlan) else _tables(plan, rows))
    console.print(_facts(plan, rows))


def _tables(plan: Plan, rows: int | None) -> Table:
    table = Table(box=None, pad_edge=False, title=_title(plan), title_justify="left", title_style="bold")
    table.add_column("table", overflow="fold")
    for name in ("tables", "cells", "std error", "error / uniform cell" if rows else "rows for 10% error"):
        table.add_column(name, justify="right", no_wrap=True)
    errors = np.sqrt(plan.term_variances)
    terms = plan.workload.terms
    if len(terms) <= MOST_ROWS:
        for term, error in zip(terms, errors, strict=True):
            relative = _relative(error, term, rows)
            table.add_row(Text(_name(term)), "1", f"{term.queries:,}", _short(error), relative)
        return table
    orders = np.array([len(term.clique) for term in terms])
    cells = np.array([float(term.queries) for term in terms])
    for order in np.unique(orders):
        own = orders == order
        places = np.flatnonzero(own)
        extremes = {"least error": places[np.argmin(errors[own])], "most error": places[np.argmax(errors[own])]}
        for label, place in extremes.items() if own.sum() > 1 else [("only", places[0])]:
            name = f"{order}-way, {label}: {_name(terms[place])}"
            count = "" if label == "most error" else f"{own.sum():,}"
            relative = _relative(errors[place], terms[place], rows)
            table.add_row(Text(name), count, f"{cells[place]:,.0f}", _short(errors[place]), relative)
    return table


def _facts(plan: Plan, rows: int | None) -> Table:
    facts = Table(box=None, pad_edge=False, show_header=False)
    facts.add_column(style="bold", no_wrap=True)
    facts.add_column(overflow="fold")
    lines = [
        *(adaptive_facts(plan, rows) if isinstance(plan, AdaptivePlan) else _errors(plan)),
        ("Privacy", _privacy(plan)),
        ("Unit", f"{_unit(plan.max_rows_per_unit)}; neighbours: {plan.neighbours.value}"),
        ("Work", plan.work),
    ]
    if (plan.budget.delta or 0.0) > LARGEST_DELTA:
        lines.append(("Warning", f"delta={number_text(plan.budget.delta or 0.0)}: {DELTA_WARNING}"))
    for name, value in lines:
        facts.add_row(name, Text(printable(value)))
    return facts


def _errors(plan: Plan) -> list[tuple[str, str]]:
    return [
        ("Error", f"RMSE {_short(plan.rmse)}, largest standard error {_short(_root(plan.max_variance))}"),
        *_comparison(plan),
        ("How good", plan.optimality),
    ]


def _comparison(plan: Plan) -> list[tuple[str, str]]:
    """The mechanisms that were compared, best first, with the bound that none can beat; and those left out."""
    if not plan.ranking:
        return []
    tried = [f"{own.name} {_short(own.rmse)}" for own in plan.ranking if own.rmse is not None and not own.reason]
    if plan.lower_bound is not None:
        tried.append(f"lower bound {_short(plan.lower_bound[0])}")
    lines = [("Compared", f"RMSE by mechanism: {', '.join(tried)}; {plan.mechanism} is taken")]
    lines.extend(("Left out", f"{own.name}: {own.reason}") for own in plan.ranking if own.rmse is None)
    lines.extend(
        (
            "Also",
            f"{own.name}, with Laplace noise, would give RMSE {_short(own.rmse)}: a stronger promise; leave delta out",
        )
        for own in plan.ranking
        if own.rmse is not None and own.reason
    )
    return lines


def _privacy(plan: Plan) -> str:
    """The budget in every digit, and what is spent of it rounded up."""
    if plan.epsilon is not None:
        spent = f"spends epsilon={shown_up(plan.epsilon)} of pure DP"
        return f"{plan.budget}; {spent}, which is rho={shown_up(plan.rho)} of zCDP at most"
    delta, zcdp = plan.budget.delta or 1e-9, Budget(rho=float_up(plan.rho))
    mu = zcdp.mu  # rounded down, as befits a budget
    if Fraction(mu) ** 2 < 2 * plan.rho:
        mu = math.nextafter(mu, math.inf)
    rho = plan.budget.rho if Fraction(plan.budget.rho) == plan.rho else plan.rho  # as it was stated, to the last digit
    spends = f"spends rho={shown_up(rho)} of zCDP, the same as mu={shown_up(mu)} of Gaussian DP"
    if plan.budget.epsilon is not None:
        return f"{plan.budget}; {spends}"
    worth = f"epsilon={shown_up(zcdp.epsilon_at(delta))} at delta={number_text(delta)}"
    return f"{plan.budget}; {spends}, that is {worth}"


def _unit(rows: int) -> str:
    return "a person or other unit is one row" if rows == 1 else f"a unit is at most {rows} rows"


def _title(plan: Plan) -> str:
    count = len(plan.workload)
    return f"{plan.mechanism}: {count:,} table{'s' if count > 1 else ''}, {plan.workload.queries:,} numbers"


def _name(term: Term) -> str:
    """The attributes of a term, with what is asked of each where that is not its levels."""
    if not term.clique:
        return "(total)"
    return " x ".join(printable(name) + _kind(block) for name, block in zip(term.clique, term.blocks, strict=True))


def _kind(block: LinearOperator) -> str:
    if isinstance(block, WidthRange):
        return f":width{block.width}"
    return next((word for kind, word in KINDS.items() if isinstance(block, kind)), ":queries")


def _relative(error: float, term: Term, rows: int | None) -> str:
    """The error beside the cell of a uniform table, for tables whose cells are disjoint."""
    if not term.plain:
        return "-"
    return f"{error * term.queries / rows:.2%}" if rows else f"{_short(error * term.queries / SHARE)}"


def _root(variance: float | None) -> float | None:
    return None if variance is None else math.sqrt(variance)


def _short(value: float | None) -> str:
    if value is None:
        return "not predictable"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
