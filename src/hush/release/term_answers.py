"""The answers to one term of a workload as rows, each labelled with what its query asks for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from hush.errors import WorkloadError
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
            parts = zip(block.operators, block.weights or (), strict=True)
            return [label for part, weight in parts for label in _times(weight, row_labels(part, labels))]
        case Equivalent():
            raise WorkloadError(
                f"{block!r} is known by its Gram matrix alone, so its queries cannot be answered one by one; ask for "
                "the counts of the levels, or give the queries themselves"
            )
        case Dense():
            return [_of_row(row, labels, number) for number, row in enumerate(block.dense(), 1)]
    return [f"query {number}" for number in range(1, block.shape[0] + 1)]


def _times(weight: float, labels: Sequence[str]) -> list[str]:
    return [label if weight == 1 else f"{weight:g} x {label}" for label in labels]


def _of_row(row: np.ndarray[tuple[int], np.dtype[np.float64]], labels: Sequence[str], number: int) -> str:
    """A run of levels by its ends, any other row by its number."""
    held = np.flatnonzero(row)
    if not len(held) or (row[held] != 1).any() or held[-1] - held[0] + 1 != len(held):
        return f"query {number}"
    return TOTAL if 1 < len(row) == len(held) else _run(labels, int(held[0]), int(held[-1]))


def _run(labels: Sequence[str], first: int, last: int) -> str:
    return labels[first] if first == last else f"{labels[first]} to {labels[last]}"


def term_answers(
    schema: Schema, term: ProductTerm, estimates: Estimates, *, level: float, notes: Iterable[str] = ()
) -> Answers:
    """One row for each combination of queries, one on each attribute, with its estimate and standard error."""
    check_level(level)
    columns = [schema[name] for name in term.clique]
    pairs = list(zip(columns, term.blocks, strict=True))
    labels = [None if isinstance(block, Identity) else row_labels(block, _levels(column)) for column, block in pairs]
    values, variances = estimates.product(term.clique, term.blocks)
    codes = np.unravel_index(np.arange(values.size), values.shape) if columns else ()
    errors = np.sqrt(np.maximum(variances, 0.0))  # rounding may leave a small negative variance
    orders = [_order_note(column, block) for column, block in pairs if isinstance(block, Permuted)]
    return Answers(
        groups=tuple(
            GroupColumn(column.name, column, code) if texts is None else QueryColumn(column.name, tuple(texts), code)
            for column, texts, code in zip(columns, labels, codes, strict=True)
        ),
        quantities=(Quantity(spare("count", term.clique), values.ravel(), errors.ravel()),),
        level=level,
        notes=(*group_notes(columns), *orders, *notes),
    )


def _levels(column: Column) -> list[str]:
    return [column.label(code) for code in range(column.size)]


def _order_note(column: Column, block: Permuted) -> str:
    first = ", ".join(column.label(level) for level in block.order[:5])
    return f"{column.name}: its levels stand in the order of the workload: {first}{', ...' * (len(block.order) > 5)}."
