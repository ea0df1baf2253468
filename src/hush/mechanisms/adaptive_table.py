"""An adaptive plan as a person reads it: its errors are not known beforehand, but what it starts from is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from rich.table import Table

from hush.mechanisms.usefulness import OneWay, noise_text

if TYPE_CHECKING:
    from hush.mechanisms.adaptive import AdaptivePlan

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
