"""Answers to a table or a term, with exact standard errors or with a bound on the error of the whole table.

Counts of a model have an interval from the bound: with B of the table and D of the number of records, no cell is off by
more than (B + D) / 2. Without a bound they have none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from hush.arrays import Floats
from hush.domain import Clique
from hush.inference.estimates import BoundedEstimates, Estimates
from hush.linops import LinearOperator
from hush.release.answer_columns import ErrorKind
from hush.release.answers import Answers, check_level
from hush.release.error_bounds import bound_note
from hush.release.nonnegative_answers import query_signs
from hush.release.term_answers import term_answers
from hush.schema import Schema
from hush.workloads import ProductTerm

BATCH = 2**20  # numbers of a block that are looked at together


def table_answers(
    schema: Schema,
    clique: Clique,
    estimates: Estimates,
    *,
    level: float = 0.95,
    notes: Iterable[str] = (),
    grain: float = 0.0,
) -> Answers:
    """Every cell of a table; `grain` is that of `Answers`, or that of the tables that hold the clique where it is less.

    Unbiased counts have exact standard errors, counts of a model the bound on their table.
    """
    check_level(level)
    counts = estimates.counts(clique)
    if not (isinstance(estimates, BoundedEstimates) and not estimates.has_covariance(clique)):
        ones = np.ones(counts.shape)
        variances = estimates.covariance(clique, ones, ones, len(clique))
        answers = Answers.of_marginal(schema, clique, counts, variances, level, notes=notes)
        return replace(answers, grain=_grain(estimates, clique, grain))
    margin = float(estimates.margin(clique, np.zeros(()), np.ones(()), level))
    error_kind = ErrorKind.NONE if np.isnan(margin) else ErrorKind.BOUND
    said = (bound_note(clique, estimates.l1_bound(clique, level), level), *notes)
    return Answers.of_marginal(schema, clique, counts, None, level, error_kind=error_kind, notes=said, margin=margin)


def bounded_term_answers(
    schema: Schema,
    term: ProductTerm,
    estimates: Estimates,
    *,
    level: float = 0.95,
    notes: Iterable[str] = (),
    grain: float = 0.0,
) -> Answers:
    """Every query of a term, with exact standard errors or with the bound on its table, as in `table_answers`."""
    if not (isinstance(estimates, BoundedEstimates) and not estimates.has_covariance(term.clique)):
        answers = term_answers(schema, term, estimates, level=level, notes=notes)
        return replace(answers, grain=_grain(estimates, term.clique, grain))
    said = bound_note(term.clique, estimates.l1_bound(term.clique, check_level(level)), level)
    answers = term_answers(schema, term, estimates, level=level, notes=(said, *notes))
    largest: Floats = np.ones(())
    for block in term.blocks:
        largest = np.multiply.outer(largest, _largest(block))
    largest, signs = largest.ravel(), query_signs(term)
    lowest, highest = np.where(signs > 0, 0.0, -largest), np.where(signs < 0, 0.0, largest)
    margin = estimates.margin(term.clique, lowest, highest, level)
    error_kind = ErrorKind.NONE if np.isnan(margin).all() else ErrorKind.BOUND
    (value,) = answers.quantities
    return replace(answers, quantities=(replace(value, error_kind=error_kind, margin=margin),))


def _grain(estimates: Estimates, clique: Clique, grain: float) -> float:
    return min(grain, estimates.grain(clique)) if isinstance(estimates, BoundedEstimates) else grain


def _largest(block: LinearOperator) -> Floats:
    """The largest absolute coefficient of every query of a block, (rows,)."""
    rows, columns = block.shape
    step = max(1, BATCH // rows)
    found = np.zeros(rows)
    for start in range(0, columns, step):
        width = min(step, columns - start)
        picked = np.zeros((columns, width))
        picked[np.arange(start, start + width), np.arange(width)] = 1.0
        np.maximum(found, np.abs(block.matmat(picked)).max(axis=1), out=found)
    return found
