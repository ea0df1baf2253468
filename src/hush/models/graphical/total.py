"""The total number of rows, estimated from noisy measurements of marginals."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from hush.core.arrays import Floats
from hush.core.domain import Domain
from hush.core.errors import DataError, shown
from hush.linops import AllRange, Identity, Kronecker, LevelSums, LinearOperator, Prefix, Stack, Total
from hush.linops.permuted import Reordered
from hush.privacy.measurement import EXTREME, Measurement, placed

SMALLEST_TOTAL = 1.0
_MOST_DENSE = 1 << 18
_TOLERANCE = 1e-6
_MOST_ITERATIONS = 200


def estimate_total(domain: Domain, measurements: Iterable[Measurement]) -> tuple[float, float]:
    """The total and the standard deviation of its estimate, which is at least 1 since a model needs rows.

    A measurement knows the total where some v has Q^T v = 1; then v^T y is unbiased with variance stddev^2 |v|^2, and
    the shortest v is the best. For a table that is its sum, with variance stddev^2 times its cells. The estimates of
    the measurements are averaged with weights 1 / variance. A total that several measurements know only together is
    not found.

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
    if not weighted / precision <= EXTREME:
        raise DataError(f"the measurements add up to more than {EXTREME:g}; bring values and stddev to another scale")
    return max(weighted / precision, SMALLEST_TOTAL), precision**-0.5


def checked_total(total: float) -> float:
    """A total given by the caller, checked."""
    if isinstance(total, bool) or not isinstance(total, int | float | np.integer | np.floating):
        raise DataError(f"total={shown(total)}: expected a number of records above 0, or None to estimate it")
    if not 1 / EXTREME <= total <= EXTREME:  # NaN fails too
        raise DataError(
            f"total={shown(total)}: expected a finite number of records above 0, {1 / EXTREME:g} .. {EXTREME:g}, or "
            "None to estimate it"
        )
    return float(total)


def _total_of(measurement: Measurement) -> tuple[float, float] | None:
    """The estimate of a placed measurement and its variance; None where it does not know the total."""
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
    """Operators whose Kronecker product it is: a product of cells is 1 everywhere just where each factor is."""
    if isinstance(query, Reordered):  # ones in any order are ones
        return _factors(query.operator)
    return [inner for f in query.factors for inner in _factors(f)] if isinstance(query, Kronecker) else [query]


def _coefficients(query: LinearOperator) -> Floats | None:
    """The shortest v with Q^T v = 1, None where there is none, or it takes too many iterations to find."""
    m, n = query.shape
    if isinstance(query, Identity | Total | LevelSums):
        return np.ones(m)
    if isinstance(query, Prefix):  # its last row is the total, and its rows are independent
        return np.where(np.arange(m) == m - 1, 1.0, 0.0)
    if isinstance(query, AllRange):  # Q^T Q is n + 1 times the inverse of the second differences, so v = Q (e_1 + e_n)
        ends = np.zeros(n)
        ends[0] += 1 / (n + 1)
        ends[-1] += 1 / (n + 1)
        return np.asarray(query @ ends)
    if m * n <= _MOST_DENSE:
        v: Floats = np.linalg.lstsq(query.dense().T, np.ones(n), rcond=None)[0].astype(np.float64)
    else:
        from scipy.sparse.linalg import LinearOperator as SparseOperator
        from scipy.sparse.linalg import lsmr

        adjoint = query.transpose()
        operator = SparseOperator((n, m), matvec=lambda y: adjoint @ y.ravel(), rmatvec=lambda x: query @ x.ravel())
        v = lsmr(operator, np.ones(n), atol=1e-12, btol=1e-12, conlim=0.0, maxiter=min(4 * (m + n), _MOST_ITERATIONS))[
            0
        ]
    missed = np.abs(query.transpose() @ v - 1).max()
    if math.isfinite(missed) and missed <= _TOLERANCE:
        return v
    return _stacked(query) if isinstance(query, Stack) else None


def _stacked(query: Stack) -> Floats | None:
    """The average of what the operators of a stack know, each by its shortest v: unbiased, if not the shortest."""
    weights = query.weights or ()
    solutions = [_coefficients(operator) if w else None for operator, w in zip(query.operators, weights, strict=True)]
    precisions = [0.0 if v is None else w * w / float(v @ v) for v, w in zip(solutions, weights, strict=True)]
    if not any(precisions):
        return None
    stacked = zip(query.operators, solutions, weights, precisions, strict=True)
    scaled = [np.zeros(operator.shape[0]) if v is None else v * (p / w) for operator, v, w, p in stacked]
    return np.concatenate(scaled) / sum(precisions)
