"""Resampling: the expected error of a plain sample of the records, and the size of sample with a given error."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from hush.core.arrays import Floats
from hush.core.errors import WorkloadError, shown
from hush.core.validation import check_whole

LARGEST_FRACTION = 100.0
MOST_PENDING = 2**22  # counts waiting to be merged
STIRLING_FROM = 16.0  # five terms of the series are exact to a float from here on


def expected_deviation(shares: Any, records: int) -> Floats:
    """E|p - X/K| for X ~ Binomial(K, p), for every share p of an array.

    (2/K) s C(K, s) p^s (1-p)^(K-s+1) with s = ceil(K p). The probability C(K, s) p^s (1-p)^(K-s) comes from its
    deviance, which keeps 13 digits at any K: log Gamma itself loses half of them at a million records.

    Reference: [AIM, App. C, Lemma 2]; [Loader 2000] for the deviance.
    Differs from [AIM, Lemma 2]: the printed formula has a sum over s in front; there is a single s.

    >>> expected_deviation([0.5], 1).tolist(), expected_deviation([0.0, 0.5, 1.0], 2).round(3).tolist()
    ([0.5], [0.0, 0.25, 0.0])
    """
    from scipy.special import xlog1py

    k = check_whole(WorkloadError, "records", records, least=1)
    probabilities = np.asarray(shares, dtype=np.float64)
    if probabilities.size and not (probabilities.min() >= 0 and probabilities.max() <= 1):
        raise WorkloadError("shares: expected numbers between 0 and 1; divide counts by their total")
    inside = (probabilities > 0) & (probabilities < 1)
    # The deviation of 1 - p is the same, and more exact near p = 1.
    p = np.minimum(probabilities[inside], 1 - probabilities[inside])
    s = np.clip(np.ceil(k * p), 1.0, k)
    above, rest = s - k * p, k * (1 - p)
    # s log(s / (k p)) + (k - s) log((k - s) / (k - k p)), with 0 log 0 = 0
    deviance = s * np.log1p(above / (k * p)) + xlog1py(k - s, -np.minimum(above / rest, 1.0))
    log_chance = _log_gamma_excess(np.array([k])) - _log_gamma_excess(s) - _log_gamma_excess(k - s) - deviance
    deviations = np.zeros(probabilities.shape)
    deviations[inside] = 2 * (s / k) * (1 - p) * np.exp(log_chance)
    return deviations


def expected_error(counts: Any, records: int) -> float:
    """E||mu/N - mu^/K||_1 between a table of counts mu and that of K records drawn from its N with replacement.

    Reference: [AIM, App. C, Thm. 7].

    >>> expected_error([5, 5], 1), expected_error([10, 0], 3)
    (1.0, 0.0)
    """
    table = np.asarray(counts, dtype=np.float64)
    total = _checked_total(float(table.sum()))
    values, times = np.unique(table, return_counts=True)
    return math.fsum(times * expected_deviation(values / total, records))


def equivalent_fraction(
    tables: Iterable[Any], error: float, total: float, weights: Sequence[float] | None = None
) -> float:
    """The K/N at which samples of K records are expected to have a given error, over a workload of k tables.

    The error of a sample is (1/k) sum_i c_i E||mu_i/N - mu^_i/K||_1. It falls with K: the shares of K+1 records are the
    average, over the record left out, of those of K records, and a norm is convex. So K is found by bisection, with
    linear interpolation between neighbours.

    `tables` are counts of `total` records, or of those that satisfy a predicate. They may come one by one: only the
    distinct counts of each are kept. The fraction is 0 if a single record has no larger error, and at most
    `LARGEST_FRACTION`, since an error of 0 would need samples without end.

    Privacy: the tables are exact, so the fraction is as private as they are.

    Reference: [AIM, App. C].

    >>> round(equivalent_fraction([[40, 60], [10, 90]], error=0.1, total=100), 3)
    0.394
    """
    sampled = Resampling(total)
    factors = None if weights is None else [float(weight) for weight in weights]
    if factors is not None and not all(math.isfinite(weight) and weight >= 0 for weight in factors):
        raise WorkloadError(f"weights={shown(weights)}: expected finite numbers >= 0")
    for table in tables:
        if factors is not None and sampled.tables == len(factors):
            raise WorkloadError(f"{len(factors)} weights for more tables than that; give one each")
        sampled.add(table, 1.0 if factors is None else factors[sampled.tables])
    if factors is not None and sampled.tables < len(factors):
        raise WorkloadError(f"{len(factors)} weights for {sampled.tables} tables; give one each")
    return sampled.fraction(error)


class Resampling:
    """The distinct counts in the exact tables of a workload, each with its total weight."""

    def __init__(self, total: float) -> None:
        self.total = _checked_total(float(total))
        self.tables = 0
        self._values: list[Floats] = []
        self._weights: list[Floats] = []
        self._pending = 0

    def add(self, counts: Any, weight: float = 1.0) -> None:
        """Add a table."""
        table = np.asarray(counts, dtype=np.float64).ravel()
        values, times = np.unique(table[table != 0], return_counts=True)
        if len(values) and not (values[0] > 0 and values[-1] <= self.total):
            raise WorkloadError("tables: expected counts from 0 to the number of records; a sample has no others")
        self.tables += 1
        self._values.append(values)
        self._weights.append(weight * times.astype(np.float64))
        self._pending += len(values)
        if self._pending > MOST_PENDING:
            self._merge()

    def error(self, records: int) -> float:
        """(1/k) sum_i c_i E||mu_i/N - mu^_i/K||_1 for samples of K records."""
        self._merge()
        if not self.tables:
            raise WorkloadError("tables: expected at least one table")
        deviations = expected_deviation(self._values[0] / self.total, records)
        return float(self._weights[0] @ deviations) / self.tables

    def fraction(self, error: float) -> float:
        """See `equivalent_fraction`."""
        if not (math.isfinite(error) and error >= 0):
            raise WorkloadError(f"error={shown(error)}: expected a finite number of at least 0")
        low, high = 1, math.ceil(LARGEST_FRACTION * self.total)
        at_low, at_high = self.error(low), self.error(high)
        if error >= at_low:
            return 0.0
        if error <= at_high:
            return LARGEST_FRACTION
        while high - low > 1:
            middle = min(max(math.isqrt(low * high), low + 1), high - 1)
            at_middle = self.error(middle)
            if at_middle > error:
                low, at_low = middle, at_middle
            else:
                high, at_high = middle, at_middle
        return (low + (at_low - error) / (at_low - at_high)) / self.total

    def _merge(self) -> None:
        """Keep each distinct count once."""
        if len(self._values) == 1:
            return
        values, weights = (np.concatenate([np.zeros(0), *arrays]) for arrays in (self._values, self._weights))
        distinct, inverse = np.unique(values, return_inverse=True)
        weights = np.bincount(inverse, weights, len(distinct)).astype(np.float64)  # bincount of no table gives integers
        self._values, self._weights, self._pending = [distinct], [weights], 0


def _log_gamma_excess(n: Floats) -> Floats:
    """log n! - n log n + n for whole n >= 0; small at any n, although its terms are not."""
    from scipy.special import gammaln, xlogy

    large = np.maximum(n, STIRLING_FROM)
    x = 1 / (large * large)
    series = (1 / 12 - x * (1 / 360 - x * (1 / 1260 - x * (1 / 1680 - x / 1188)))) / large
    small = np.minimum(n, STIRLING_FROM)
    direct = gammaln(small + 1) - xlogy(small, small) + small
    return np.where(n >= STIRLING_FROM, 0.5 * np.log(2 * math.pi * large) + series, direct)


def _checked_total(total: float) -> float:
    if not (math.isfinite(total) and total > 0):
        raise WorkloadError(f"total={shown(total)}: expected the number of records, more than 0")
    return total
