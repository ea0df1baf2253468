"""`hush.count`: one table of counts with error bars, in one call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hush.core.errors import SchemaError
from hush.planning import plan
from hush.privacy.budget import Budget
from hush.privacy.ledger import Ledger, open_account, open_ledger, terms_of
from hush.release.answers import Answers, check_level
from hush.schema import Schema
from hush.schema.column import Value
from hush.tables.public_levels import Bounds, check_columns, public_schema
from hush.tables.read import read
from hush.workloads import Workload

NO_LEDGER = "no ledger adds up what such tables spend; add ledger='budget.db'."


def count(
    data: Any,
    *columns: str,
    epsilon: float,
    delta: float | None = None,
    schema: Schema | str | Path | None = None,
    levels: Mapping[str, Iterable[Value]] | None = None,
    bounds: Mapping[str, Bounds] | None = None,
    missing: bool = False,
    where: str | None = None,
    unit: str | None = None,
    max_rows_per_unit: int | None = None,
    ledger: str | Path | Ledger | None = None,
    level: float = 0.95,
) -> Answers:
    """The counts of rows by some columns, each with its interval; spends epsilon, once for each call.

    What the columns may hold must be public: a `schema`; or `levels` of categories and `bounds` of numbers and days,
    `(lowest, highest)` or `(lowest, highest, bins)`; or types that hold their levels: booleans and polars enums.
    Nothing is taken from the rows, nor are the categories of pandas, which usually come from them. Whole bounds less
    than 120 apart, such as (0, 99), make every whole number a level; write (0.0, 4.0) for real numbers. `missing=True`
    gives missing values a level; otherwise they are refused. `data`, `where`, `unit` and `max_rows_per_unit` are as in
    `hush.read`; for more than one table, plan them together with `hush.plan`, which is more accurate for the same
    epsilon.

    >>> import hush
    >>> rows = hush.datasets.people(5000, seed=1)
    >>> answers = count(rows, "sex", "employed", epsilon=1.0, levels={"sex": ["female", "male"]})
    >>> answers.to_arrow().column_names
    ['sex', 'employed', 'estimate', 'std_error', 'lower', 'upper', 'basis']

    Privacy: epsilon, or (epsilon, delta), for adding or removing a row, or at most `max_rows_per_unit` rows of a unit.
    """
    # The levels are those of the schema, or stated here; everything stated is checked before any row is read.
    check_columns(columns)
    check_level(level)
    if schema is None:
        declared = public_schema(data, columns, levels=levels or {}, bounds=bounds or {}, missing=missing)
    elif levels or bounds or missing:
        raise SchemaError("schema= says what the columns hold; leave out levels=, bounds= and missing=")
    else:
        declared = (schema if isinstance(schema, Schema) else Schema.load(schema)).select(*columns)
    budget = Budget(epsilon=epsilon, delta=delta) if delta else Budget(epsilon=epsilon)
    table = read(data, declared, where=where, unit=unit, max_rows_per_unit=max_rows_per_unit)
    # One table, planned, measured and answered.
    asked = Workload.marginals(table.domain, [columns])
    planned = plan(asked, budget, schema=table.schema)
    name, book = f"count by {', '.join(columns)}", None if ledger is None else open_ledger(ledger, budget)
    account = open_account(budget, book, release=name, terms=terms_of(planned.neighbours, table.unit))
    if planned.alternative is not None and not planned.payable(account):
        planned = planned.alternative  # Laplace noise for the whole epsilon does not add up with what was spent
    answers = planned.release(table, ledger=book, name=name).marginal(*columns, level=level)
    notes = [f"this table cost {planned.budget}."]
    if table.unit.column is None:
        notes.append("it protects one row; if a person may have several rows, name the id column with unit=.")
    notes += [NO_LEDGER] if ledger is None else []
    return replace(answers, notes=(*answers.notes, *notes))
