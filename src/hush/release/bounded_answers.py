"""Answers from noisy tables where these suffice and from the fitted model elsewhere, with exact errors or bounds.

With a bound B on the L1 error of a table and D on that of the number of records, no cell of the model is off by more
than (B + D) / 2, which gives its interval. Without a bound it has none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from hush.arrays import Floats
from hush.domain import Clique, Domain
from hush.inference.best_unbiased import UnbiasedEstimates
from hush.inference.estimates import BoundedEstimates, Estimates
from hush.linops import LinearOperator
from hush.release.answer_columns import ErrorKind
from hush.release.answers import Answers, check_level
from hush.release.error_bounds import ErrorBounds, bound_note
from hush.release.model_estimates import Distribution, ModelEstimates
from hush.release.nonnegative_answers import query_signs
from hush.release.rounds import LEAST_STDDEV
from hush.release.term_answers import term_answers
from hush.schema import Schema
from hush.workloads import ProductTerm


class MeasuredEstimates:
    """Tables of any clique; implements `BoundedEstimates`.

    Inside measured tables: the best linear unbiased estimates, with exact covariances. Elsewhere: the model's counts,
    with NaN for covariances, and a bound on the L1 error of the whole table where one is known.
    """

    def __init__(self, distribution: Distribution, unbiased: UnbiasedEstimates | None, bounds: ErrorBounds) -> None:
        self._model = ModelEstimates(distribution)
        self._unbiased = unbiased
        self.bounds = bounds

    @property
    def domain(self) -> Domain:
        return self._model.domain

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The largest tables with exact errors; all attributes where no table has them."""
        return self._model.cliques if self._unbiased is None else self._unbiased.cliques

    def covers(self, clique: Clique) -> bool:
        """True: every table can be estimated; `has_covariance` and `l1_bound` say how well."""
        return self._model.covers(clique)

    def for_sums(self, clique: Clique, coefficients: Floats, groups: int) -> None:
        """None: every table is known cell by cell."""

    def counts(self, clique: Clique) -> Floats:
        return self._source(clique).counts(clique)

    def covariance(self, clique: Clique, first: Floats, second: Floats, groups: int) -> Floats:
        return self._source(clique).covariance(clique, first, second, groups)

    def product(self, clique: Clique, blocks: Sequence[LinearOperator]) -> tuple[Floats, Floats]:
        return self._source(clique).product(clique, blocks)

    def has_covariance(self, clique: Clique) -> bool:
        """Whether the table lies inside a measured one."""
        self.domain.check(clique)
        return self._unbiased is not None and self._unbiased.covers(clique)

    def grain(self, clique: Clique) -> float:
        """Half a step of the noise over its standard deviation, for the most precise table that contains the clique.

        Summing a table r to the clique multiplies its noise variance by n_r / n_clique; the step stays one. inf if no
        table contains the clique.
        """
        attributes, cells = set(clique), self.domain.size(clique)
        variances = [
            max(table.stddev, LEAST_STDDEV) ** 2 * self.domain.size(table.clique) / cells
            for table in self.bounds.noisy_tables
            if table.query is None and attributes <= set(table.clique)
        ]
        return 0.5 / math.sqrt(min(variances)) if variances else math.inf

    def l1_bound(self, clique: Clique, level: float) -> float:
        """A bound on sum_x |model count - true count| that holds with probability `level`; NaN if there is none."""
        return self.bounds.of(clique, level).bound

    def margin(self, clique: Clique, lowest: Floats, highest: Floats, level: float) -> Floats:
        """A bound on the error of sums of model counts with coefficients in [lowest, highest]; NaN if unknown."""
        return self.bounds.margin(clique, lowest, highest, level)

    def _source(self, clique: Clique) -> UnbiasedEstimates | ModelEstimates:
        if self._unbiased is not None and self._unbiased.covers(self.domain.check(clique)):
            return self._unbiased
        return self._model


BATCH = 2**20  # numbers of a block held at once


def table_answers(
    schema: Schema,
    clique: Clique,
    estimates: Estimates,
    *,
    level: float = 0.95,
    notes: Iterable[str] = (),
    grain: float = 0.0,
) -> Answers:
    """Every cell of a table; `grain` is that of `Answers`, or of the tables that contain the clique if that is less.

    Unbiased counts have exact standard errors; counts of a model have the bound on their table.
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
    notes = (bound_note(clique, estimates.l1_bound(clique, level), level), *notes)
    return Answers.of_marginal(schema, clique, counts, None, level, error_kind=error_kind, notes=notes, margin=margin)


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
    note = bound_note(term.clique, estimates.l1_bound(term.clique, check_level(level)), level)
    answers = term_answers(schema, term, estimates, level=level, notes=(note, *notes))
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
    largest = np.zeros(rows)
    for start in range(0, columns, step):
        width = min(step, columns - start)
        picked = np.zeros((columns, width))
        picked[np.arange(start, start + width), np.arange(width)] = 1.0
        np.maximum(largest, np.abs(block.matmat(picked)).max(axis=1), out=largest)
    return largest
