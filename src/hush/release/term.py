"""Term answers: the answers to one product of query blocks as labelled rows."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from hush.inference.estimates import Array
from hush.linops import Identity, LinearOperator
from hush.release.answer_columns import Codes, Group, Quantity, TextGroup, group_notes
from hush.release.answers import Answers, spare
from hush.release.row_labels import row_labels
from hush.schema import Column, Schema
from hush.workloads import Term


def term_answers(
    schema: Schema, term: Term, values: Array, variances: Array, *, level: float, notes: Iterable[str] = ()
) -> Answers:
    """One row for each combination of queries; `values` and `variances` have one axis for each block of the term."""
    columns = [schema[name] for name in term.clique]
    codes = np.unravel_index(np.arange(values.size), values.shape) if term.clique else ()
    errors = np.sqrt(np.maximum(variances, 0.0))  # rounding may leave a small negative variance
    return Answers(
        groups=tuple(_group(*each) for each in zip(columns, term.blocks, codes, strict=True)),
        quantities=(Quantity(spare("count", term.clique), values.ravel(), errors.ravel()),),
        level=level,
        notes=(*group_notes(columns), *notes),
    )


def _group(column: Column, block: LinearOperator, codes: Codes) -> Group | TextGroup:
    if isinstance(block, Identity):
        return Group(column.name, column, codes)
    labels = [column.label(code) for code in range(column.size)]
    return TextGroup(column.name, tuple(row_labels(block, labels)), codes)
