"""Term answers: the answers to one product of query blocks as labelled rows."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from hush.inference.estimates import Estimates
from hush.linops import Identity, Permuted
from hush.release.answer_columns import Group, Quantity, TextGroup, group_notes
from hush.release.answers import Answers, check_level, spare
from hush.release.row_labels import row_labels
from hush.schema import Column, Schema
from hush.workloads import Term


def term_answers(
    schema: Schema, term: Term, estimates: Estimates, *, level: float, notes: Iterable[str] = ()
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
            Group(column.name, column, own) if texts is None else TextGroup(column.name, tuple(texts), own)
            for column, texts, own in zip(columns, labels, codes, strict=True)
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
