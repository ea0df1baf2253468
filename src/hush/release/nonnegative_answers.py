"""NonnegativeAnswers: estimates held to the sign that their queries have on any data, with intervals that still hold.

A query with coefficients >= 0 has an answer >= 0 on every data set, one with coefficients <= 0 an answer <= 0; others
can have any sign and are left as they are.

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
    "the estimates are biased: they are those of data without negative counts. The intervals, and what follows ±, are "
    "those of the unbiased answers; the intervals are cut at zero where the truth cannot be beyond it."
)
SETTLED = "no standard error of the biased estimates is known; term() gives the unbiased ones."
CLIPPED = "the root mean squared error of each estimate is at most what follows ±."


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class NonnegativeAnswers(Answers):
    """Biased estimates whose interval is that of an unbiased answer, cut at zero: not estimate ± z std_error.

    `unbiased` holds the unbiased answers with their standard errors; `signs` has 1 where an answer cannot be negative,
    -1 where it cannot be positive and 0 elsewhere. Cutting off what no data can have loses no coverage.
    """

    unbiased: Quantity
    signs: Signs = field(compare=False)  # (rows,)

    def interval(self, quantity: Quantity) -> tuple[Floats, Floats]:
        """Both ends of the interval of every row: unbiased ± z std_error, cut at zero."""
        margin = self.quantile * self.unbiased.std_error
        return (
            clipped(self.unbiased.estimate - margin, self.signs),
            clipped(self.unbiased.estimate + margin, self.signs),
        )

    def take(self, rows: Codes) -> NonnegativeAnswers:
        """Some of the rows, in the order given."""
        return replace(
            self,
            groups=tuple(group.take(rows) for group in self.groups),
            quantities=tuple(quantity.take(rows) for quantity in self.quantities),
            unbiased=self.unbiased.take(rows),
            signs=self.signs[rows],
        )


def nonnegative_answers(answers: Answers, term: ProductTerm, values: Floats | None) -> NonnegativeAnswers:
    """Unbiased answers to a term with their estimates replaced by `values`, or clipped where these are None.

    The standard errors stay those of the unbiased answers. Clipping can only lower the squared error of an answer, so
    for it they are bounds; for other values they say nothing about each single estimate, and are marked so.
    """
    (own,) = answers.quantities
    signs = query_signs(term)
    estimate = clipped(own.estimate if values is None else np.asarray(values, dtype=np.float64).ravel(), signs)
    error_kind, further = (ErrorKind.BOUND, CLIPPED) if values is None else (ErrorKind.NONE, SETTLED)
    return NonnegativeAnswers(
        groups=answers.groups,
        quantities=(Quantity(own.name, estimate, own.std_error, error_kind),),
        level=answers.level,
        laplace=answers.laplace,
        grain=answers.grain,
        notes=(*answers.notes, BIASED, further),
        unbiased=own,
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
    """Values held to their signs."""
    return np.where(signs > 0, np.maximum(values, 0.0), np.where(signs < 0, np.minimum(values, 0.0), values))


def _row_signs(block: LinearOperator) -> Signs:
    """The sign of every row: that of its sum where it equals the sum of absolute values, up to rounding."""
    if isinstance(block, Identity | Total | Prefix | AllRange | WidthRange):
        return np.ones(block.shape[0], dtype=np.int8)
    sums = block.matmat(np.ones((block.shape[1], 1)))[:, 0]
    whole = block.transpose().column_norms(1)
    one = np.abs(sums) >= whole * (1 - 1e-12)
    return np.where(one, np.where(sums < 0, -1, 1), 0).astype(np.int8)
