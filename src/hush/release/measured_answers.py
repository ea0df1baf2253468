"""Measured answers: a table or a term of queries from noisy tables and a fitted model, with exact errors or bounds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from hush.domain import Clique
from hush.inference.estimates import Array
from hush.linops import LinearOperator
from hush.release.answer_columns import Basis
from hush.release.answers import Answers, check_level
from hush.release.bound_note import bound_note
from hush.release.measured_estimates import MeasuredEstimates
from hush.release.nonnegative_answers import query_signs
from hush.release.term import term_answers
from hush.schema import Schema
from hush.workloads import Term

BATCH = 2**20  # numbers of a block that are looked at together


def marginal_answers(
    schema: Schema,
    clique: Clique,
    estimates: MeasuredEstimates,
    level: float = 0.95,
    notes: Iterable[str] = (),
    grain: float = 0.0,
) -> Answers:
    """Every cell of a table: unbiased with exact standard errors inside measured tables, else the model's.

    The model's counts have an interval from the bound on the error of the whole table: with B of the table and D of
    the number of records, no cell is off by more than (B + D) / 2. Without a bound they have none. `grain` is that of
    `Answers`, for exact errors; that of the tables with the clique in them is taken where it is less.
    """
    check_level(level)
    names = schema.domain.check(clique)
    counts = estimates.counts(names)
    if estimates.has_covariance(names):
        ones = np.ones(counts.shape)
        variances = estimates.covariance(names, ones, ones, len(names))
        made = Answers.of_marginal(schema, names, counts, variances, level, notes=notes)
        return replace(made, grain=min(grain, estimates.grain(names)))
    margin = float(estimates.margin(names, np.zeros(()), np.ones(()), level))
    bound = estimates.l1_bound(names, level)
    basis = Basis.NONE if np.isnan(margin) else Basis.BOUND
    said = (bound_note(names, bound, level), *notes)
    return Answers.of_marginal(schema, names, counts, None, level, basis=basis, notes=said, margin=margin)


def measured_term_answers(
    schema: Schema,
    term: Term,
    estimates: MeasuredEstimates,
    level: float = 0.95,
    notes: Iterable[str] = (),
    grain: float = 0.0,
) -> Answers:
    """The answers to a term, with exact standard errors or with the bound on its table as in `marginal_answers`."""
    if estimates.has_covariance(term.clique):
        made = term_answers(schema, term, estimates, level=level, notes=notes)
        return replace(made, grain=min(grain, estimates.grain(term.clique)))
    said = bound_note(term.clique, estimates.l1_bound(term.clique, check_level(level)), level)
    made = term_answers(schema, term, estimates, level=level, notes=(said, *notes))
    largest: Array = np.ones(())
    for block in term.blocks:
        largest = np.multiply.outer(largest, _largest(block))
    largest, signs = largest.ravel(), query_signs(term)
    lowest, highest = np.where(signs > 0, 0.0, -largest), np.where(signs < 0, 0.0, largest)
    margin = estimates.margin(term.clique, lowest, highest, level)
    basis = Basis.NONE if np.isnan(margin).all() else Basis.BOUND
    (value,) = made.quantities
    return replace(made, quantities=(replace(value, basis=basis, margin=margin),))


def _largest(block: LinearOperator) -> Array:
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
