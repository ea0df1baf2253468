"""NonnegativeAnswers: estimates clipped to the sign that their queries have on any data, with valid intervals.

A query with coefficients >= 0 has an answer >= 0 on every data set, and one with coefficients <= 0 an answer <= 0. Any
other query can have either sign and keeps its estimate.

Reference: [Li 2013, sec. 3.5.3].
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hush.arrays import Floats
from hush.linops import AllRange, Identity, LinearOperator, Prefix, Total, WidthRange
from hush.release.answer_columns import Codes, ErrorKind, Quantity
from hush.release.answers import Answers
from hush.workloads import ProductTerm

Signs = np.ndarray[Any, np.dtype[np.int8]]
BIASED = (
    "the estimates are biased: they come from data without negative counts. The intervals, and what follows ±, are "
    "those of the unbiased answers; the intervals are cut at zero where the truth cannot be beyond it."
)
SETTLED = "no standard error of the biased estimates is known; term() gives the unbiased ones."
CLIPPED = "the root mean squared error of each estimate is at most what follows ±."


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


def clipped(values: Floats, signs: Signs) -> Floats:
    """Values clipped to their signs."""
    return np.where(signs > 0, np.maximum(values, 0.0), np.where(signs < 0, np.minimum(values, 0.0), values))


def _row_signs(block: LinearOperator) -> Signs:
    """The sign of each row: that of its sum, if the sum of absolute values is equal up to rounding; else 0."""
    if isinstance(block, Identity | Total | Prefix | AllRange | WidthRange):
        return np.ones(block.shape[0], dtype=np.int8)
    sums = block.matmat(np.ones((block.shape[1], 1)))[:, 0]
    norms = block.transpose().column_norms(1)
    same_sign = np.abs(sums) >= norms * (1 - 1e-12)
    return np.where(same_sign, np.where(sums < 0, -1, 1), 0).astype(np.int8)
