"""The answers to one term of a workload, one row per query, labelled with what it asks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from hush.errors import WorkloadError
from hush.inference.error_margins import product_margins
from hush.inference.estimates import Estimates
from hush.linops import (
    AllRange,
    Dense,
    Equivalent,
    Identity,
    LevelsAndTotal,
    LinearOperator,
    Permuted,
    Prefix,
    Scaled,
    Stack,
    Total,
    WidthRange,
)
from hush.release.answer_columns import GroupColumn, Quantity, QueryColumn, group_notes
from hush.release.answers import Answers, check_level, spare
from hush.release.intervals import NoiseIntervals
from hush.schema import Column, Schema
from hush.workloads import ProductTerm

TOTAL = "(total)"


def row_labels(block: LinearOperator, labels: Sequence[str]) -> list[str]:
    """One label for each query of a block on an attribute with the given labels of levels.

    >>> row_labels(Prefix(2), ["a", "b"]), row_labels(AllRange(2), ["a", "b"])
    (['<= a', '<= b'], ['a', 'a to b', 'b'])
    >>> row_labels(Dense([[1, 0, 0], [0, 1, 1], [1, 1, 1], [1, 0, 1]]), "abc")
    ['a', 'b to c', '(total)', 'query 4']
    """
    match block:
        case Identity():
            return list(labels)
        case Total():
            return [TOTAL]
        case Prefix():
            return [f"<= {label}" for label in labels]
        case AllRange():
            return [_run(labels, i, j) for i in range(block.size) for j in range(i, block.size)]
        case WidthRange():
            return [_run(labels, i, i + block.width - 1) for i in range(block.shape[0])]
        case LevelsAndTotal():
            return [*_times(block.levels, labels), *_times(block.total, [TOTAL])]
        case Permuted():
            return row_labels(block.operator, [labels[level] for level in block.order])
        case Scaled():
            return _times(block.factor, row_labels(block.operator, labels))
        case Stack():
            weighted = zip(block.operators, block.weights or (), strict=True)
            return [label for inner, weight in weighted for label in _times(weight, row_labels(inner, labels))]
        case Equivalent():
            raise WorkloadError(
                f"{block!r} is known only by its Gram matrix, so its queries cannot be answered one by one; ask for "
                "the counts of the levels, or give the queries themselves"
            )
        case Dense():
            return [_of_row(row, labels, number) for number, row in enumerate(block.dense(), 1)]
    return [f"query {number}" for number in range(1, block.shape[0] + 1)]


def _times(weight: float, labels: Sequence[str]) -> list[str]:
    return [label if weight == 1 else f"{weight:g} x {label}" for label in labels]


def _of_row(row: np.ndarray[tuple[int], np.dtype[np.float64]], labels: Sequence[str], number: int) -> str:
    """A run of levels is named by its ends, any other row by its number."""
    levels = np.flatnonzero(row)
    if not len(levels) or (row[levels] != 1).any() or levels[-1] - levels[0] + 1 != len(levels):
        return f"query {number}"
    return TOTAL if 1 < len(row) == len(levels) else _run(labels, int(levels[0]), int(levels[-1]))


def _run(labels: Sequence[str], first: int, last: int) -> str:
    return labels[first] if first == last else f"{labels[first]} to {labels[last]}"


def term_answers(
    schema: Schema, term: ProductTerm, estimates: Estimates, *, level: float, notes: Iterable[str] = ()
) -> Answers:
    """One row for each combination of queries, one on each attribute, with its estimate and standard error."""
    check_level(level)
    columns = [schema[name] for name in term.clique]
    pairs = list(zip(columns, term.blocks, strict=True))
    labels = [
        None if isinstance(block, Identity) else row_labels(block, [column.label(code) for code in range(column.size)])
        for column, block in pairs
    ]
    values, variances = estimates.product(term.clique, term.blocks)
    codes = np.unravel_index(np.arange(values.size), values.shape) if columns else ()
    errors = np.sqrt(np.maximum(variances, 0.0))  # rounding may leave a small negative variance
    cells, margins = values.ravel(), product_margins(estimates, term.clique, term.blocks, errors)
    orders = [_order_note(column, block) for column, block in pairs if isinstance(block, Permuted)]
    return Answers(
        groups=tuple(
            GroupColumn(column.name, column, code) if texts is None else QueryColumn(column.name, tuple(texts), code)
            for column, texts, code in zip(columns, labels, codes, strict=True)
        ),
        quantities=(
            Quantity(spare("count", term.clique), cells, errors.ravel(), intervals=NoiseIntervals(cells, margins)),
        ),
        level=level,
        notes=(*group_notes(columns), *orders, *notes),
    )


def _order_note(column: Column, block: Permuted) -> str:
    first = ", ".join(column.label(level) for level in block.order[:5])
    return f"{column.name}: its levels stand in the order of the workload: {first}{', ...' * (len(block.order) > 5)}."
