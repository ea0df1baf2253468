r"""Answers to thresholds from estimated counts, with errors that are exact or at least bound them.

The estimate of a target is linear in the counts of its clique, so its error is known wherever theirs is:

- from residual answers and from products of factors, in closed form (`strategies.threshold_variances`);
- where the noise treats all levels alike, from the variances V_B of one cell of each marginal B of the clique. With
  U_B = V_B prod_{i in B} n_i / prod_{i not in B} n_i = sum_{R within B} h_R, every target has the variance
  sum_R lambda_R^2 h_R / prod n_i, where lambda_R are the eigenvalues of the threshold;
- otherwise, of few cells, target by target from their covariances;
- else bounded: the threshold is a signed sum of cells of marginals, and a standard error is at most the sum of theirs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hush.core.arrays import Floats, reordered
from hush.inference.error_law import ErrorLaw
from hush.inference.error_margins import MOST_WORK, ErrorMargins
from hush.inference.estimates import Estimates, without_constant_columns
from hush.inference.linear_estimates import LocalEstimates
from hush.inference.residual_estimates import ResidualEstimates
from hush.linops.marginal_operators import subset_differences
from hush.strategies.threshold_variances import signed_counts
from hush.workloads import ThresholdTerm

MOST_TARGETS = 1 << 10  # whose errors are found one by one


@dataclass(frozen=True, slots=True, eq=False)
class ThresholdEstimates:
    """The answers of a threshold in row-major order, their standard errors, and whether these are exact."""

    values: Floats  # (targets,)
    std_error: Floats  # (targets,)
    exact: bool
    margins: ErrorMargins


def threshold_estimates(estimates: Estimates, term: ThresholdTerm) -> ThresholdEstimates:
    """Every target of a threshold from estimates of the table over its clique."""
    estimates = without_constant_columns(estimates)
    values = term.exact_answers(estimates.counts(term.clique)).ravel()
    variances, exact = _variances(estimates, term)
    std_error = np.sqrt(np.maximum(np.broadcast_to(variances, term.sizes), 0.0)).ravel()
    alike = all(map(estimates.alike, term.clique))

    def find() -> tuple[tuple[ErrorLaw, ...], np.ndarray[tuple[int], np.dtype[np.int64]]] | None:
        if not (alike and exact and term.queries <= MOST_WORK):
            return None
        law = estimates.error_law(term.clique, _target(term, (0,) * len(term.clique)))
        return None if law is None else ((law,), np.zeros(term.queries, dtype=np.int64))

    margins = ErrorMargins(std_error, np.full(term.queries, 0.5), find, laplace=estimates.laplace)
    return ThresholdEstimates(values, std_error, exact, margins)


def _variances(estimates: Estimates, term: ThresholdTerm) -> tuple[Floats, bool]:
    """The variance of every target, or a bound on it; of length 1 along attributes whose levels are alike."""
    if isinstance(estimates, ResidualEstimates):
        return estimates.strategy.term_variances(term), True
    product = estimates.threshold_product(term) if isinstance(estimates, LocalEstimates) else None
    if product is not None:
        return product.threshold_variances(term), True
    if all(map(estimates.alike, term.clique)):
        return _alike(estimates, term), True
    if term.queries <= MOST_TARGETS:
        return _one_by_one(estimates, term), True
    return _bounded(estimates, term), False


def _alike(estimates: Estimates, term: ThresholdTerm) -> Floats:
    k, cells = len(term.sizes), float(term.queries)
    parts = np.empty(1 << k)
    for number in range(1 << k):
        inside = [axis for axis in range(k) if number >> axis & 1]
        first = np.zeros(term.sizes)
        first[tuple(0 if axis in inside else slice(None) for axis in range(k))] = 1.0
        within = math.prod(term.sizes[axis] for axis in inside)
        variance = float(estimates.covariance(term.clique, first, first, 0))
        parts[number] = variance * within**2 / cells
    noise = np.maximum(subset_differences(parts, k), 0.0)
    return np.full((1,) * k, float(term.eigenvalues**2 @ noise) / cells)


def _one_by_one(estimates: Estimates, term: ThresholdTerm) -> Floats:
    variances = np.empty(term.sizes)
    for target in np.ndindex(term.sizes):
        coefficients = _target(term, target)
        variances[target] = estimates.covariance(term.clique, coefficients, coefficients, 0)
    return variances


def _bounded(estimates: Estimates, term: ThresholdTerm) -> Floats:
    k = len(term.sizes)
    tau = signed_counts(k, term.at_least)
    ones, total = np.ones(term.sizes), np.zeros(term.sizes)
    for number in range(1 << k):
        inside = tuple(name for axis, name in enumerate(term.clique) if number >> axis & 1)
        if tau[len(inside)]:
            names = (*inside, *(name for name in term.clique if name not in inside))
            table = reordered(ones, term.clique, names)
            variances = np.maximum(estimates.covariance(names, table, table, len(inside)), 0.0)
            shape = [term.sizes[axis] if number >> axis & 1 else 1 for axis in range(k)]
            total += abs(tau[len(inside)]) * np.sqrt(variances).reshape(shape)
    return np.asarray(total**2)


def _target(term: ThresholdTerm, target: tuple[int, ...]) -> Floats:
    """The cells that agree with a target often enough, as coefficients of 0 and 1."""
    agreeing = np.zeros(term.sizes, dtype=np.int16)
    for axis, level in enumerate(target):
        agreeing[(slice(None),) * axis + (level,)] += 1
    return (agreeing >= term.at_least).astype(np.float64)
