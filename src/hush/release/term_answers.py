"""The answers to one term of a workload, one row per query, labelled with what it asks; also without negative ones.

A query with coefficients >= 0 has an answer >= 0 on every data set, and one with coefficients <= 0 an answer <= 0. Any
other query can have either sign and keeps its estimate.

Reference: [Li 2013, sec. 3.5.3] for non-negative answers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hush.core.arrays import Floats
from hush.core.errors import WorkloadError
from hush.inference.error_margins import product_margins, sum_margins
from hush.inference.estimates import Estimates
from hush.inference.threshold_estimates import threshold_estimates
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
from hush.release.answer_columns import Codes, ErrorKind, GroupColumn, Quantity, QueryColumn, group_notes
from hush.release.answers import Answers, check_level, spare
from hush.release.intervals import NoiseIntervals, Signs, clipped
from hush.schema import Column, Schema
from hush.workloads import FormulaTerm, ProductTerm, ThresholdTerm

TOTAL = "(total)"
BOUNDED = "the standard errors are at most what follows ±: that of a sum is at most the sum of those of its parts."
BIASED = (
    "the estimates are biased: they come from data without negative counts. The intervals, and what follows ±, are "
    "those of the unbiased answers; the intervals are cut at zero where the truth cannot be beyond it."
)
SETTLED = "no standard error of the biased estimates is known; term() gives the unbiased ones."
CLIPPED = "the root mean squared error of each estimate is at most what follows ±."


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


def threshold_answers(
    schema: Schema, term: ThresholdTerm, estimates: Estimates, *, level: float, notes: Iterable[str] = ()
) -> Answers:
    """One row for each target: the rows that agree with it often enough, with an exact or bounded standard error."""
    check_level(level)
    found = threshold_estimates(estimates, term)
    said = () if found.exact else (BOUNDED,)
    kind = ErrorKind.EXACT if found.exact else ErrorKind.BOUND
    value = Quantity(
        spare("count", term.clique), found.values, found.std_error, kind, NoiseIntervals(found.values, found.margins)
    )
    return targets(schema, term, value, level, (*said, *notes))


def targets(schema: Schema, term: ThresholdTerm, value: Quantity, level: float, notes: Iterable[str]) -> Answers:
    """The answers of a threshold, labelled with their targets."""
    columns = [schema[name] for name in term.clique]
    codes = np.unravel_index(np.arange(term.queries), term.sizes)
    agree = f"each count is of the rows that agree with the line in at least {term.at_least} of {len(columns)} columns."
    return Answers(
        groups=tuple(GroupColumn(column.name, column, code) for column, code in zip(columns, codes, strict=True)),
        quantities=(value,),
        level=level,
        notes=(agree, *group_notes(columns), *notes),
    )


def formula_answers(term: FormulaTerm, estimates: Estimates, *, level: float, notes: Iterable[str] = ()) -> Answers:
    """The number of rows that satisfy a formula, with its exact standard error."""
    check_level(level)
    inside = term.diagram.inside().astype(np.float64)
    values = term.exact_answers(estimates.counts(term.clique))
    variance = np.asarray(estimates.covariance(term.clique, inside, inside, 0))
    error = np.sqrt(np.maximum(variance, 0.0)).reshape(1)
    margins = sum_margins(estimates, term.clique, inside, 0, error)
    value = Quantity("count", values, error, intervals=NoiseIntervals(values, margins))
    return Answers(groups=(), quantities=(value,), level=level, notes=(f"of the rows for which {term.text}.", *notes))


def _order_note(column: Column, block: Permuted) -> str:
    first = ", ".join(column.label(level) for level in block.order[:5])
    return f"{column.name}: its levels stand in the order of the workload: {first}{', ...' * (len(block.order) > 5)}."


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class NonnegativeAnswers(Answers):
    """Biased estimates with the interval of the unbiased answer, cut at zero, instead of their own.

    `unbiased` holds the unbiased answers with their standard errors; `signs` has 1 where an answer cannot be negative,
    -1 where it cannot be positive and 0 elsewhere. Cutting off impossible values loses no coverage.
    """

    unbiased: Quantity
    signs: Signs = field(compare=False)  # (rows,)

    def interval(self, quantity: Quantity) -> tuple[Floats, Floats]:
        """Both ends of the interval of each row: that of the unbiased answer, cut at zero."""
        lower, upper = self.unbiased.intervals.at(self.level)
        return clipped(lower, self.signs), clipped(upper, self.signs)

    def take(self, rows: Codes) -> NonnegativeAnswers:
        return replace(
            self,
            groups=tuple(group.take(rows) for group in self.groups),
            quantities=tuple(quantity.take(rows) for quantity in self.quantities),
            unbiased=self.unbiased.take(rows),
            signs=self.signs[rows],
        )


def nonnegative_answers(answers: Answers, term: ProductTerm, values: Floats | None) -> NonnegativeAnswers:
    """Unbiased answers to a term with their estimates replaced by `values`, or clipped if these are None.

    The standard errors stay those of the unbiased answers. Clipping can only lower the squared error of an answer, so
    they bound the error of clipped answers; they say nothing about single estimates of other values, and are marked so.
    """
    (unbiased,) = answers.quantities
    signs = query_signs(term)
    estimate = clipped(unbiased.estimate if values is None else np.asarray(values, dtype=np.float64).ravel(), signs)
    error_kind, further = (ErrorKind.BOUND, CLIPPED) if values is None else (ErrorKind.NONE, SETTLED)
    return NonnegativeAnswers(
        groups=answers.groups,
        quantities=(Quantity(unbiased.name, estimate, unbiased.std_error, error_kind),),
        level=answers.level,
        notes=(*answers.notes, BIASED, further),
        unbiased=unbiased,
        signs=signs,
    )


def query_signs(term: ProductTerm) -> Signs:
    """1 for each query of a term without negative coefficients, -1 for each without positive ones, 0 for others.

    >>> from hush.linops import Dense
    >>> query_signs(ProductTerm(("a", "b"), (Dense([[1, 2], [1, -1], [0, -1]]), Prefix(2)))).tolist()
    [1, 1, 0, 0, -1, -1]
    """
    signs = np.ones((1,) * len(term.blocks), dtype=np.int8)
    for axis, block in enumerate(term.blocks):
        shape = [1] * len(term.blocks)
        shape[axis] = block.shape[0]
        signs = signs * _row_signs(block).reshape(shape)
    return np.asarray(signs.reshape(math.prod(block.shape[0] for block in term.blocks)))


def _row_signs(block: LinearOperator) -> Signs:
    """The sign of each row: that of its sum, if the sum of absolute values is equal up to rounding; else 0."""
    if isinstance(block, Identity | Total | Prefix | AllRange | WidthRange):
        return np.ones(block.shape[0], dtype=np.int8)
    sums = block.matmat(np.ones((block.shape[1], 1)))[:, 0]
    norms = block.transpose().column_norms(1)
    same_sign = np.abs(sums) >= norms * (1 - 1e-12)
    return np.where(same_sign, np.where(sums < 0, -1, 1), 0).astype(np.int8)
