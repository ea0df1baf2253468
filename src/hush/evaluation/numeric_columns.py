"""Numeric columns compared as numbers, not by bins: distances between distributions, means and exact zeros."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hush.core.arrays import Floats
from hush.render.text_table import TextColumn, TextTable, number_columns
from hush.schema import Integer, Numeric, Schema
from hush.tables.read import count_numbers
from hush.tables.table import Counts

MOST_ROWS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberComparison:
    """A column of numbers in both tables; NaN where one of them has no number in it.

    `wasserstein` is the distance by which numbers must be moved on average to turn one distribution into the other,
    in the unit of the column. `kolmogorov` is the largest difference between the shares of rows up to a number: 0 for
    equal distributions, 1 for no overlap. Zeros are the shares of numbers that are exactly 0.

    Privacy: every figure comes from private data without noise, and must not be published.
    """

    column: str
    wasserstein: float
    kolmogorov: float
    real_mean: float
    synthetic_mean: float
    real_zeros: float
    synthetic_zeros: float

    def to_dict(self) -> dict[str, Any]:
        """The figures for JSON, in which NaN is null."""

        def known(number: float) -> float | None:
            return number if math.isfinite(number) else None

        return {
            "column": self.column,
            "wasserstein": known(self.wasserstein),
            "kolmogorov": known(self.kolmogorov),
            "mean": {"real": known(self.real_mean), "synthetic": known(self.synthetic_mean)},
            "zeros": {"real": known(self.real_zeros), "synthetic": known(self.synthetic_zeros)},
        }


def compare_numbers(
    real: Any,
    synthetic: Any,
    schema: Schema | str | Path,
    *,
    table: str | None = None,
    where: str | None = None,
    counts: str | None = None,
) -> tuple[NumberComparison, ...]:
    """The integer and numeric columns of two sources compared as numbers, the worst first.

    `table` says which table of the real source is meant, if that is a database, and `where` which of its rows;
    `counts` names the column that says how many rows each of its lines stands for.

    Sources are those of `hush.read` that can be read again. All rows are compared, and each number as it is in the
    source: neither in its bin nor clamped, except that infinite ones stand at the nearer bound of their column.
    Missing values are left out.

    Privacy: reads the real rows exactly; the result is private. See `hush.evaluation.compare`.

    >>> import pyarrow as pa
    >>> schema = Schema([Numeric(name="fare", edges=(0, 50, 100))])
    >>> real, synthetic = pa.table({"fare": [0.0, 0.0, 10.0, 30.0]}), pa.table({"fare": [20.0, 20.0, 20.0, 20.0]})
    >>> (fare,) = compare_numbers(real, synthetic, schema)
    >>> fare.wasserstein, fare.kolmogorov, fare.real_mean, fare.real_zeros, fare.synthetic_zeros
    (15.0, 0.75, 10.0, 0.5, 0.0)
    """
    declared = schema if isinstance(schema, Schema) else Schema.load(schema)
    exact, estimated = (
        count_numbers(real, declared, table=table, where=where, counts=counts),
        count_numbers(synthetic, declared),
    )
    # Infinite numbers stand at the nearer bound, so that means and distances stay finite.
    entries = []
    for column in declared:
        if isinstance(column, Integer | Numeric) and column.part is None:
            low, high = column.low, column.high
            pairs = [
                (np.where(np.isinf(values), np.clip(values, low, high), values), rows)
                for values, rows in (exact[column.name], estimated[column.name])
            ]
            entries.append(_compared(column.name, *pairs))
    return tuple(sorted(entries, key=lambda entry: -entry.kolmogorov if math.isfinite(entry.kolmogorov) else -math.inf))


def _compared(name: str, exact: tuple[Floats, Counts], estimated: tuple[Floats, Counts]) -> NumberComparison:
    wasserstein, kolmogorov = distances(*exact, *estimated)
    (real_mean, real_zeros), (synthetic_mean, synthetic_zeros) = _summary(*exact), _summary(*estimated)
    return NumberComparison(
        column=name,
        wasserstein=wasserstein,
        kolmogorov=kolmogorov,
        real_mean=real_mean,
        synthetic_mean=synthetic_mean,
        real_zeros=real_zeros,
        synthetic_zeros=synthetic_zeros,
    )


def distances(first: Any, first_rows: Any, second: Any, second_rows: Any) -> tuple[float, float]:
    """The Wasserstein-1 and Kolmogorov distances of two distributions, given as numbers and the rows of each.

    With F and G the shares of rows up to a number, these are the integral of |F - G| and its maximum; O(n log n).
    NaN if one has no rows.
    """
    numbers = np.concatenate([first, second]).astype(np.float64)
    if not (len(first) and len(second)):
        return math.nan, math.nan
    order = np.argsort(numbers, kind="stable")
    steps = np.concatenate(
        [np.asarray(first_rows) / np.sum(first_rows), -np.asarray(second_rows) / np.sum(second_rows)]
    )
    numbers, apart = numbers[order], np.abs(np.cumsum(steps[order]))
    last = np.append(numbers[1:] > numbers[:-1], True)  # F and G are known after all rows of a number
    return float(apart[:-1] @ np.diff(numbers)), float(apart[last].max())


def _summary(numbers: Floats, rows: Counts) -> tuple[float, float]:
    """The mean, and the share of exact zeros."""
    total = float(rows.sum())
    if not total:
        return math.nan, math.nan
    return float(numbers @ rows) / total, float(rows[numbers == 0].sum()) / total


def numbers_table(entries: Sequence[NumberComparison]) -> TextTable:
    """The worst columns as a table.

    Privacy: the figures are private.
    """
    columns = (
        TextColumn(heading="column", fit="fold"),
        *number_columns("mean real", "synthetic", "off by", "distance", "zeros real", "synthetic"),
    )
    rows = [
        (
            entry.column,
            _number(entry.real_mean),
            _number(entry.synthetic_mean),
            _number(entry.wasserstein),
            f"{entry.kolmogorov:.4f}" if math.isfinite(entry.kolmogorov) else "n/a",
            _share(entry.real_zeros),
            _share(entry.synthetic_zeros),
        )
        for entry in entries[:MOST_ROWS]
    ]
    cut = f"; the worst {MOST_ROWS} of {len(entries):,}" if len(entries) > MOST_ROWS else ""
    notes = [
        "off by: how far a number must be moved, on average, to get from one column to the other (Wasserstein-1).",
        "distance: the largest difference between the shares of rows up to a number (Kolmogorov), from 0 to 1.",
        "zeros: the share of numbers that are exactly 0.",
    ]
    return TextTable(columns=columns, rows=rows, title=f"Numbers, as they are and not by bins{cut}", notes=notes)


def _number(value: float) -> str:
    return f"{value:,.5g}" if math.isfinite(value) else "n/a"


def _share(share: float) -> str:
    return f"{100 * share:.1f} %" if math.isfinite(share) else "n/a"
