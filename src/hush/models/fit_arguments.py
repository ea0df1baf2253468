"""Arguments that the fits of all three models share: the total number of rows, and when to stop."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from hush.core.arrays import Floats
from hush.core.domain import Domain
from hush.core.errors import DataError, WorkloadError
from hush.core.validation import check_number, check_whole
from hush.linops import (
    AllRange,
    CompoundSymmetric,
    Identity,
    Kronecker,
    LevelSums,
    LinearOperator,
    Prefix,
    Scaled,
    Stack,
    Total,
)
from hush.linops.combination import Reordered
from hush.privacy.measurement import LARGEST_MAGNITUDE, Measurement, placed

SMALLEST_TOTAL = 1.0  # a model needs rows
MOST_DENSE_ENTRIES = 1 << 18  # of a query whose coefficients are found by a dense solver
LARGEST_MISS = 1e-6  # of Q^T v from ones, for v to count as a solution
MOST_SOLVER_ITERATIONS = 200


def estimate_total(domain: Domain, measurements: Iterable[Measurement]) -> tuple[float, float]:
    """The estimated total, at least 1, and the standard deviation of the estimate.

    A measurement determines the total if some v has Q^T v = 1. Then v^T y is an unbiased estimate with variance
    stddev^2 |v|^2, and the shortest v is the best. For a table measured cell by cell the estimate is its sum, with
    variance stddev^2 times its cells. The estimates of all measurements are averaged with weights 1 / variance. A total
    that only several measurements together determine is not found.

    Reference: [AIM, Thm 2] with the empty set, where all are tables.

    >>> domain = Domain({"a": 2, "b": 3})
    >>> tables = [Measurement(("a",), [40.0, 62.0], 1.0), Measurement(("b",), [33.0, 33.0, 33.0], 2.0)]
    >>> total, stddev = estimate_total(domain, tables)
    >>> round(total, 3), round(stddev, 3)  # (102 / 2 + 99 / 12) / (1 / 2 + 1 / 12)
    (101.571, 1.309)
    """
    weighted = precision = 0.0
    for measurement in placed(domain, measurements):
        estimate = _total_of(measurement)
        if estimate is not None:
            weighted += estimate[0] / estimate[1]
            precision += 1 / estimate[1]
    if precision == 0:
        raise DataError(
            "no measurement determines the total number of rows: their queries do not add up to all cells; "
            "give total=, or measure a marginal cell by cell"
        )
    if not weighted / precision <= LARGEST_MAGNITUDE:
        raise DataError(
            f"the measurements add up to more than {LARGEST_MAGNITUDE:g}; bring values and stddev to another scale"
        )
    return max(weighted / precision, SMALLEST_TOTAL), precision**-0.5


def checked_total(total: float) -> float:
    """A total given by the caller, checked."""
    hint = ", the number of rows, or None to estimate it"
    return check_number(DataError, "total", total, least=1e-60, most=LARGEST_MAGNITUDE, hint=hint)


def check_stopping(tolerance: float, iterations: int | None = None) -> None:
    """Refuse a `tolerance` outside (0, 1] and a limit of iterations below 1; None stands for the default limit."""
    hint = ", the distance from the exact optimum in standard deviations of the noise"
    check_number(WorkloadError, "tolerance", tolerance, above=0, most=1, hint=hint)
    if iterations is not None:
        check_whole(WorkloadError, "iterations", iterations, least=1)


def tolerated_loss(tolerance: float, numbers: int, value: float = 0.0) -> float:
    """How far above the least loss a fit may stop: m t^2 / 2, or t^2 of the loss itself if m is not known (0).

    For m numbers with Gaussian noise and the exact optimum mu*, convexity gives

        L(mu) - L(mu*) >= sum_j |Q_j (mu_j - mu*_j)|^2 / (2 stddev_j^2),

    so a loss within m t^2 / 2 of the least one is a fit whose answers are within t standard deviations of the noise of
    those of the exact optimum, in the root mean square.
    """
    return 0.5 * tolerance**2 * numbers if numbers else tolerance**2 * abs(value)


def _total_of(measurement: Measurement) -> tuple[float, float] | None:
    """The total estimated from one placed measurement, and its variance; None if it does not determine the total."""
    query = measurement.query
    if not isinstance(query, LinearOperator):
        return float(measurement.values.sum()), measurement.variance * measurement.numbers
    factors = _factors(query)
    answer = measurement.values.reshape([factor.shape[0] for factor in factors])
    length = 1.0
    for factor in reversed(factors):
        v = _coefficients(factor)
        if v is None:
            return None
        answer = answer @ v
        length *= float(v @ v)
    return float(answer), measurement.variance * length


def _factors(query: LinearOperator) -> list[LinearOperator]:
    """The factors of a Kronecker product: its coefficients v are the product of those of its factors."""
    if isinstance(query, Reordered):  # the cells in another order have the same sum
        return _factors(query.operator)
    return [inner for f in query.factors for inner in _factors(f)] if isinstance(query, Kronecker) else [query]


def _coefficients(query: LinearOperator) -> Floats | None:
    """The shortest v with Q^T v = 1; None if there is none, or if the solver does not find it in time."""
    m, n = query.shape
    inner = query.operator if isinstance(query, Scaled) else query
    if isinstance(inner, CompoundSymmetric) and inner.eigenvalue_of_ones == 0:  # a residual: its rows add up to zero
        return None
    if isinstance(query, Identity | Total | LevelSums):
        return np.ones(m)
    if isinstance(query, Prefix):  # its last row is the total, and its rows are independent
        return np.where(np.arange(m) == m - 1, 1.0, 0.0)
    if isinstance(query, AllRange):  # Q^T Q is n + 1 times the inverse of the second differences, so v = Q (e_1 + e_n)
        ends = np.zeros(n)
        ends[0] += 1 / (n + 1)
        ends[-1] += 1 / (n + 1)
        return np.asarray(query @ ends)
    if m * n <= MOST_DENSE_ENTRIES:
        v: Floats = np.linalg.lstsq(query.dense().T, np.ones(n), rcond=None)[0].astype(np.float64)
    else:
        from scipy.sparse.linalg import LinearOperator as SparseOperator
        from scipy.sparse.linalg import lsmr

        adjoint = query.transpose()
        operator = SparseOperator((n, m), matvec=lambda y: adjoint @ y.ravel(), rmatvec=lambda x: query @ x.ravel())
        most = min(4 * (m + n), MOST_SOLVER_ITERATIONS)
        v = lsmr(operator, np.ones(n), atol=1e-12, btol=1e-12, conlim=0.0, maxiter=most)[0]
    missed = np.abs(query.transpose() @ v - 1).max()
    if math.isfinite(missed) and missed <= LARGEST_MISS:
        return v
    return _stacked(query) if isinstance(query, Stack) else None


def _stacked(query: Stack) -> Floats | None:
    """The average of the solutions of the operators in a stack: unbiased, though not the shortest v."""
    weights = query.weights or ()
    solutions = [_coefficients(operator) if w else None for operator, w in zip(query.operators, weights, strict=True)]
    precisions = [0.0 if v is None else w * w / float(v @ v) for v, w in zip(solutions, weights, strict=True)]
    if not any(precisions):
        return None
    stacked = zip(query.operators, solutions, weights, precisions, strict=True)
    scaled = [np.zeros(operator.shape[0]) if v is None else v * (p / w) for operator, v, w, p in stacked]
    return np.concatenate(scaled) / sum(precisions)
