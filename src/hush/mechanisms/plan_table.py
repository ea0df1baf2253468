"""The plan as a person reads it: first the four lines to decide by, then the details.

An adaptive plan does not know its errors beforehand; its details say how it starts instead.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from hush.core.errors import WorkloadError
from hush.core.rational import float_up, shown_up
from hush.mechanisms.plan_errors import OneWay, delta_warning, noise_text
from hush.privacy.budget import Budget, number_text
from hush.privacy.sensitivity import Neighbours
from hush.render.text_table import TextColumn, TextTable, counted, number_columns
from hush.schema.schema import drafted_text

if TYPE_CHECKING:
    from hush.mechanisms.plan import Plan

TENTH_OF_CELL = 0.1  # the error, over an average cell, that the number of rows is given for
MOST_LISTED_TABLES = 24
LARGEST_ERROR_RATIO = 1.5  # up to which the stronger promise of Laplace noise is offered


def plan_text(plan: Plan, *, rows: int | None = None, width: int = 100, details: bool = True) -> str:
    """The plan as plain text: the summary, and the details if they are asked for."""
    tables = plan_tables(plan, rows=rows) if details else (plan_summary(plan, rows=rows),)
    return "\n\n".join(table.text(width) for table in tables)


def plan_summary(plan: Plan, *, rows: int | None = None) -> TextTable:
    """The lines to decide by: who is protected, the typical and the largest error, the cost; and warnings."""
    unit = "one row" if plan.max_rows_per_unit == 1 else f"all rows of one unit, at most {plan.max_rows_per_unit:,}"
    change = "adding or removing" if plan.neighbours is Neighbours.ADD_REMOVE else "changing"
    it = "it" if plan.max_rows_per_unit == 1 else "them"
    typical = largest = _unknown_error(plan)
    if plan.rmse is not None:
        typical = f"± {_short(plan.rmse)} rows on a typical count"
        most = plan.max_variance
        largest = "not known: the queries are not listed" if most is None else f"± {_short(math.sqrt(most))} rows"
    elif plan.strategy is not None:
        typical = largest = _short(None)
    elif not plan.adaptive:
        typical = largest = plan.settings.states
    elif plan.settings.told_by_columns:
        columns = plan.settings.columns(plan.workload)
        best = OneWay.of(plan, columns, plan.rho / len(columns))
        typical = f"not known beforehand; at best ± {noise_text(best.stddev)} rows on a count of one column"
    time = plan.settings.work(plan.workload) if plan.strategy is None else f"{plan.seconds:,.1f} s, plus counting"
    lines = [
        ("Protects", f"{unit}: {change} {it} barely changes the result"),
        ("Typical error", typical),
        ("Largest error", largest),
        ("Cost", f"{plan.budget if plan.rho else 'no budget: nothing is measured'}; {time}"),
    ]
    if plan.domain.from_private_data:
        drafted = drafted_text(plan.domain.clique(plan.domain.from_private_data))
        lines.append(("Warning", f"levels of the schema were {drafted}; `release` refuses such a plan"))
    if (warning := delta_warning(plan.budget, rows)) is not None:
        lines.append(("Warning", warning))
    facts = TextTable.facts(lines)
    title = f"{plan.mechanism}: {counted(len(plan.workload), 'table')}, {plan.workload.queries:,} numbers"
    return TextTable(columns=facts.columns, rows=facts.rows, title=title)


def plan_tables(plan: Plan, *, rows: int | None = None) -> tuple[TextTable, TextTable, TextTable]:
    """The summary; the tables of a plan with their errors; then the comparison, privacy and resources.

    With `rows`, the expected number of rows, errors are relative to the cells of a uniform table of that many rows;
    without it, the table says how many rows make the error a tenth of such a cell.
    """
    if plan.strategy is None:
        facts = _adaptive_facts(plan, rows)
    else:
        largest = None if plan.max_variance is None else math.sqrt(plan.max_variance)
        error = f"RMSE {_short(plan.rmse)}, largest standard error {_short(largest)}"
        facts = [("Error", error), *_comparison(plan), ("How good", plan.optimality)]
    unit = "a person or other unit is one row"
    if (rows_per_unit := plan.max_rows_per_unit) > 1:
        noise = f"noise is {rows_per_unit:,} times that for 1 row per unit"
        unit = f"a unit is at most {rows_per_unit:,} rows, others are left out; {noise}"
    lines = [
        *facts,
        *_sum_facts(plan),
        ("Privacy", _privacy(plan)),
        ("Unit", f"{unit}; neighbours: {plan.neighbours.value}"),
        ("Work", plan.work),
        *([] if plan.strategy is None else plan.settings.describe(plan)),
    ]
    tables = _tables_by_order(plan) if plan.strategy is None else _expected_errors(plan, rows)
    return plan_summary(plan, rows=rows), tables, TextTable.facts(lines)


def plan_plot(plan: Plan, *, axes: Any = None) -> Any:
    """The standard error of each table as a dot, least error first; of many tables, an even choice with both ends."""
    errors, terms = np.sqrt(np.maximum(plan.term_variances, 0.0)), plan.workload.terms
    if plan.strategy is None or not np.isfinite(errors).all():
        raise WorkloadError(
            f"plan.plot() shows errors, and those of {plan.mechanism} are not known beforehand; plot the "
            "answers of the release instead: release.plot(...)"
        )
    from hush.render.plots import plot_errors

    order = np.argsort(errors, kind="stable")
    count = min(len(order), MOST_LISTED_TABLES)
    chosen = order[np.unique(np.linspace(0, len(order) - 1, count).round().astype(int))]
    names = [terms[at].text if terms[at].clique else "total" for at in chosen]
    axes = plot_errors(names, errors[chosen], [len(terms[at].clique) for at in chosen], axes=axes)
    shown = f"{len(chosen)} of {counted(len(order), 'table')}" if len(chosen) < len(order) else "every table"
    axes.set_title(f"{plan.mechanism}, {plan.budget}: {shown}", loc="left", fontsize=10)
    return axes


def plan_dict(plan: Plan) -> dict[str, Any]:
    """The tables of a plan, its errors and its cost as plain data; None for what is not known beforehand."""
    # Tables and sums, with the standard error of each.
    errors = [math.sqrt(variance) if variance >= 0 else None for variance in plan.term_variances.tolist()]
    tables = [
        {"columns": list(term.clique), "name": term.text, "numbers": term.queries, "std_error": error}
        for term, error in zip(plan.workload, errors, strict=True)
    ]
    sums = [] if plan.sums is None else zip(plan.sums.terms, plan.sums.std_errors.tolist(), strict=True)
    # The best plan with the other kind of noise.
    other = plan.alternative
    noise = None if other is None or other.strategy is None else other.strategy.noise.value
    return {
        "mechanism": plan.mechanism,
        "loss": plan.loss,
        "budget": plan.budget.to_dict(),
        "spends": {"rho": float_up(plan.rho), "epsilon": None if plan.epsilon is None else float_up(plan.epsilon)},
        "neighbours": plan.neighbours.value,
        "max_rows_per_unit": plan.max_rows_per_unit,
        "from_private_data": list(plan.domain.clique(plan.domain.from_private_data)),
        "rmse": plan.rmse,
        "max_std_error": None if plan.max_variance is None else math.sqrt(plan.max_variance),
        "lower_bound": None if plan.lower_bound is None else plan.lower_bound[0],
        "optimality": plan.optimality,
        "work": plan.work,
        "compared": [{"mechanism": entry.name, "rmse": entry.rmse, "note": entry.reason} for entry in plan.ranking],
        "alternative": None if other is None else {"mechanism": other.mechanism, "rmse": other.rmse, "noise": noise},
        "tables": tables,
        "sums": [
            {
                "name": term.text,
                "column": term.column,
                "by": list(term.clique),
                "numbers": plan.domain.size(term.clique),
                "std_error": error,
                "grid": term.largest_unit,
            }
            for term, error in sums
        ],
    }


def _sum_facts(plan: Plan) -> list[tuple[str, str]]:
    """The error of every sum of values, and how the budget is split between counts and sums."""
    if plan.sums is None:
        return []
    lines = []
    for term, error in zip(plan.sums.terms, plan.sums.std_errors.tolist(), strict=True):
        at_most = "at most " if term.grid.by_level else ""
        grid = "whole numbers" if term.grid.exact else f"steps of {term.largest_unit:.2g}"
        lines.append(("Sums", f"{term.text}: {at_most}{_short(error)} of noise in each, on {grid}"))
    whole = plan.budget.limit / plan.max_rows_per_unit**2  # of an adaptive plan
    if plan.strategy is not None:
        whole = plan.strategy.cost + plan.sums.cost
    share = float(plan.sums.cost / whole)
    return [*lines, ("Split", f"{1 - share:.0%} of the budget for counts, {share:.0%} for sums; weights change it")]


def _tables_by_order(plan: Plan) -> TextTable:
    """The number of tables in the workload for each number of columns, and their sizes."""
    columns = (
        TextColumn(heading="tables asked"),
        *number_columns("tables", "smallest table (cells)", "largest table (cells)"),
    )
    orders: dict[int, list[int]] = {}
    for term in plan.workload:
        orders.setdefault(len(term.clique), []).append(term.queries)
    rows = [
        (f"{order}-way" if order else "(total)", f"{len(cells):,}", f"{min(cells):,}", f"{max(cells):,}")
        for order, cells in sorted(orders.items())
    ]
    return TextTable(columns=columns, rows=rows)


def _unknown_error(plan: Plan) -> str:
    return "not known beforehand" + (": what is measured depends on the data" if plan.settings.data_aware else "")


def _adaptive_facts(plan: Plan, rows: int | None) -> list[tuple[str, str]]:
    """In place of errors: the best accuracy of one-way tables, and what the mechanism says of itself."""
    if not plan.adaptive:
        return [("Error", plan.settings.states), *plan.settings.describe(plan)]
    lines = [("Error", _unknown_error(plan))]
    if plan.settings.told_by_columns:
        columns = plan.settings.columns(plan.workload)
        best = OneWay.of(plan, columns, plan.rho / len(columns))
        tables = "the one-way table" if len(columns) == 1 else f"the {len(columns):,} one-way tables"
        noise = f"a count in {tables} has standard error {noise_text(best.stddev)} if all of the budget goes to them"
        needed = int(np.ceil(float(f"{best.stddev * best.cells / TENTH_OF_CELL:.2g}")))
        relative = f"{TENTH_OF_CELL:.0%} of the average cell at {needed:,} rows"
        if rows is not None:
            relative = f"{best.stddev * best.cells / rows:.2%} of the average cell of {rows:,} rows"
        lines.append(("At best", f"{noise}, that is {relative}"))
    return [*_comparison(plan), *lines, *plan.settings.describe(plan), ("How good", plan.optimality)]


def _expected_errors(plan: Plan, rows: int | None) -> TextTable:
    """The standard error of each table; of many tables, the least and the most for each number of columns.

    The last column relates the error to the cell of a uniform table, for tables with disjoint cells.
    """
    columns = (
        TextColumn(heading="table", fit="fold"),
        *number_columns("tables", "cells", "std error", "error / uniform cell" if rows else "rows for 10% error"),
    )
    errors, terms = np.sqrt(plan.term_variances), plan.workload.terms
    entries: list[tuple[str, str, int]] = []  # the name, how many tables, and the index of the term that is shown
    if len(terms) <= MOST_LISTED_TABLES:
        entries = [(term.text, "1", index) for index, term in enumerate(terms)]
    else:
        orders = np.array([len(term.clique) for term in terms])
        for order in np.unique(orders):
            indices = np.flatnonzero(orders == order)
            least, most = indices[np.argmin(errors[indices])], indices[np.argmax(errors[indices])]
            label = "least error" if len(indices) > 1 else "only"
            entries.append((f"{order}-way, {label}: {terms[least].text}", f"{len(indices):,}", least))
            if len(indices) > 1:
                entries.append((f"{order}-way, most error: {terms[most].text}", "", most))
    shown = []
    for name, tables, index in entries:
        term, error = terms[index], errors[index]
        relative = f"{error * term.queries / rows:.2%}" if rows else _short(error * term.queries / TENTH_OF_CELL)
        shown.append((name, tables, f"{term.queries:,}", _short(error), relative if term.plain else "-"))
    return TextTable(columns=columns, rows=shown)


def _comparison(plan: Plan) -> list[tuple[str, str]]:
    """The mechanisms that were compared, best first, with the bound that none can beat; and those left out."""
    if not plan.ranking:
        return []
    if plan.adaptive:  # for synthetic rows: no errors are known beforehand, so there are reasons instead
        return [
            ("Chosen" if entry.name == plan.mechanism else "Instead of", f"{entry.name}: {entry.reason}")
            for entry in plan.ranking
        ]
    tried = [
        f"{entry.name} {_short(entry.rmse)}" for entry in plan.ranking if entry.rmse is not None and not entry.reason
    ]
    if plan.lower_bound is not None:
        tried.append(f"lower bound {_short(plan.lower_bound[0])}")
    noise = "" if plan.alternative is None else f" {'with Laplace noise' if plan.epsilon else 'with Gaussian noise'}"
    lines = [("Compared", f"RMSE by mechanism: {', '.join(tried)}; {plan.mechanism}{noise} is taken")]
    lines.extend(
        ("Skipped" if entry.skipped else "Left out", f"{entry.name}: {entry.reason}")
        for entry in plan.ranking
        if entry.rmse is None
    )
    # How to take the other kind of noise, if both were compared and the other is worth a thought.
    other = plan.alternative
    if other is None or plan.rmse is None or other.rmse is None:
        return lines
    if plan.epsilon is not None:
        promise = f"keeps the stronger promise of epsilon={shown_up(plan.epsilon)}; leave delta out to state that"
        gaussian = f"RMSE {_short(other.rmse)}: --mechanism {other.mechanism}, or mechanism={other.mechanism!r}"
        text = f"{promise}. If the ledger has no room for it beside other charges, take Gaussian noise, {gaussian}"
        lines.append(("Choice", f"Laplace noise {text}"))
    elif other.epsilon is not None and other.rmse <= LARGEST_ERROR_RATIO * plan.rmse:
        promise = f"the stronger promise of epsilon={shown_up(other.epsilon)} at RMSE {_short(other.rmse)}"
        lines.append(("Choice", f"Laplace noise would keep {promise}; for that, leave delta out"))
    return lines


def _privacy(plan: Plan) -> str:
    """The budget in all its digits, and the cost rounded up."""
    if not plan.rho:
        return f"{plan.budget}; spends nothing, since nothing is measured"
    if plan.epsilon is not None:
        stated = plan.epsilon if plan.epsilon != plan.budget.limit else plan.budget.epsilon or 0.0  # to the last digit
        spent = f"spends epsilon={shown_up(stated)} of pure DP"
        return f"{plan.budget}; {spent}, which is rho={shown_up(plan.rho)} of zCDP at most"
    delta, zcdp = plan.budget.delta or 1e-9, Budget(rho=float_up(plan.rho))
    mu = zcdp.mu  # rounded down, as befits a budget
    if Fraction(mu) ** 2 < 2 * plan.rho:
        mu = math.nextafter(mu, math.inf)
    if plan.budget.approximate:
        spends = f"at most mu={shown_up(mu)} of Gaussian DP" if plan.adaptive else f"rho={shown_up(plan.rho)} of zCDP"
        return f"{plan.budget}{_saved(plan)}; spends {spends}"
    rho = plan.budget.rho if Fraction(plan.budget.rho) == plan.rho else plan.rho  # as it was stated, to the last digit
    spends = f"spends rho={shown_up(rho)} of zCDP, the same as mu={shown_up(mu)} of Gaussian DP"
    worth = f"epsilon={shown_up(zcdp.epsilon_at(delta))} at delta={number_text(delta)}"
    return f"{plan.budget}; {spends}, that is {worth}"


def _saved(plan: Plan) -> str:
    """How much less noise the plan has than a plan by the conversion from zCDP; nothing for other budgets and noise."""
    if not plan.budget.approximate or plan.epsilon is not None:
        return ""
    saved = 1 - math.sqrt(plan.budget.rho / plan.rho)
    return f" (noise {saved:.1%} below the zCDP conversion)".replace("%", " %") if saved >= 5e-4 else ""


def _short(value: float | None) -> str:
    return "not predictable" if value is None else noise_text(value)
