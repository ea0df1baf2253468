r"""Answers to terms that are no products, from estimated counts, with errors that are exact or at least bound them.

The estimate of a query is linear in the counts of its clique, so its error is known wherever theirs is:

- from residual answers, and in closed form from products of factors (`strategies.variance_forms`);
- where the noise treats all levels alike, and the term does too, all queries have the error of the first;
- otherwise query by query from the covariances of the cells;
- else bounded: a term of many queries that is a signed sum of marginals has at most the sum of their standard errors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hush.core.arrays import Floats, reordered
from hush.inference.error_law import ErrorLaw
from hush.inference.error_margins import MOST_LAWS, MOST_WORK, ErrorMargins, KnownLaws
from hush.inference.estimates import Estimates, without_constant_columns
from hush.inference.linear_estimates import LocalEstimates
from hush.inference.residual_estimates import ResidualEstimates
from hush.workloads import Term

MOST_QUERIES = 1 << 10  # whose errors are found one by one where they can be bounded instead


@dataclass(frozen=True, slots=True, eq=False)
class TermEstimates:
    """The answers of a term in row-major order, their standard errors, and whether these are exact."""

    values: Floats  # (queries,)
    std_error: Floats  # (queries,)
    exact: bool
    margins: ErrorMargins


def term_estimates(estimates: Estimates, term: Term) -> TermEstimates:
    """Every answer of a term from estimates of the table over its clique."""
    estimates = without_constant_columns(estimates)
    sizes = estimates.domain.sizes(term.clique)
    values = np.ravel(term.exact_answers(estimates.counts(term.clique)))
    variances, exact = _variances(estimates, term, sizes)
    std_error = np.sqrt(np.maximum(np.broadcast_to(variances, sizes if term.per_cell else values.shape), 0.0)).ravel()
    alike = term.symmetric and all(map(estimates.alike, term.clique))
    cells = estimates.domain.size(term.clique)

    def find() -> KnownLaws | None:
        different = 1 if alike else term.queries
        if term.symmetric and not (alike and exact and term.queries <= MOST_WORK):
            return None
        if different > MOST_LAWS or (not term.symmetric and different * cells > MOST_WORK):
            return None
        laws: list[ErrorLaw] = []
        for query in range(different):
            law = estimates.error_law(term.clique, term.coefficients(query, sizes))
            if law is None:
                return None
            laws.append(law)
        places = np.zeros(term.queries, dtype=np.int64) if alike else np.arange(term.queries)
        return tuple(laws), places

    lowest, highest = term.extremes(sizes)
    half_steps = np.broadcast_to(np.maximum(np.abs(lowest), np.abs(highest)) / 2, std_error.shape)
    margins = ErrorMargins(std_error, half_steps, find, laplace=estimates.laplace)
    return TermEstimates(values, std_error, exact, margins)


def _variances(estimates: Estimates, term: Term, sizes: tuple[int, ...]) -> tuple[Floats, bool]:
    """The variance of every query, or a bound on it; of length 1 along attributes whose levels are alike."""
    if isinstance(estimates, ResidualEstimates):
        return estimates.strategy.term_variances(term), True
    product = estimates.product_of_levels(term.clique) if isinstance(estimates, LocalEstimates) else None
    closed = None if product is None else product.term_variances(term)
    if closed is not None:
        return closed, True
    if term.symmetric and all(map(estimates.alike, term.clique)):
        return _one_by_one(estimates, term, sizes, 1), True
    if term.queries <= MOST_QUERIES or term.signed_counts is None:
        variances = _one_by_one(estimates, term, sizes, term.queries)
        return variances.reshape(sizes if term.per_cell else -1), True
    return _bounded(estimates, term, term.signed_counts, sizes), False


def _one_by_one(estimates: Estimates, term: Term, sizes: tuple[int, ...], queries: int) -> Floats:
    """The variances of the first queries: (queries,)."""
    variances = np.empty(queries)
    for query in range(queries):
        coefficients = term.coefficients(query, sizes)
        variances[query] = estimates.covariance(term.clique, coefficients, coefficients, 0)
    return variances


def _bounded(estimates: Estimates, term: Term, tau: tuple[float, ...], sizes: tuple[int, ...]) -> Floats:
    """At most the square of sum_B |tau_|B|| (standard error of the cell of marginal B), shaped like the cells."""
    k = len(sizes)
    ones, total = np.ones(sizes), np.zeros(sizes)
    for number in range(1 << k):
        inside = tuple(name for axis, name in enumerate(term.clique) if number >> axis & 1)
        if tau[len(inside)]:
            names = (*inside, *(name for name in term.clique if name not in inside))
            table = reordered(ones, term.clique, names)
            variances = np.maximum(estimates.covariance(names, table, table, len(inside)), 0.0)
            shape = [sizes[axis] if number >> axis & 1 else 1 for axis in range(k)]
            total += abs(tau[len(inside)]) * np.sqrt(variances).reshape(shape)
    return np.asarray(total**2)
