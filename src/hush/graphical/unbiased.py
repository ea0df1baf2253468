"""UnbiasedEstimates: what noisy marginals say together without a model, with exact errors.

Every table splits into parts for the subsets A of its clique, of which those of different sets are uncorrelated. The
part for A of every measurement that contains A estimates the same, so their average with weights 1 / variance is the
best there is, and the sum of the parts is the generalised least squares estimate of a table from all measurements.

Reference: [ResidualPlanner, Alg. 2 and Thm 4.7] for the parts; `strategies.marginal_noise` for their noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from hush.arrays import Floats
from hush.domain import Clique, Domain
from hush.errors import SizeError, WorkloadError, shown
from hush.inference.residual_estimates import ResidualEstimates
from hush.linops import LinearOperator
from hush.privacy.measurement import Measurement, Measurements, placed
from hush.strategies.residual_strategy import marginal_noise

MOST_ATTRIBUTES = 12  # of several levels in a clique: pairs of a subset and one inside it are 3^k


class UnbiasedEstimates:
    """The best linear unbiased estimates from independent noisy tables, mutually consistent; implements `Estimates`.

    Any table inside a measured clique is covered. Counts may be negative. The estimates and their variances hold for
    any noise of the given standard deviations; intervals from them are exact for Gaussian noise.

    >>> domain = Domain({"a": 2, "b": 2})
    >>> both = [Measurement(("a",), [10.0, 20.0], 1.0), Measurement(("b",), [12.0, 16.0], 1.0)]
    >>> estimates = UnbiasedEstimates(domain, both)
    >>> estimates.counts(("a",)).tolist(), estimates.variance(("a",))
    ([9.5, 19.5], 0.75)
    """

    def __init__(self, domain: Domain, measurements: Iterable[Measurement]) -> None:
        self._domain = domain
        self._single = tuple(name for name in domain if domain[name] == 1)
        tables = []
        for one in placed(domain, measurements):
            if one.query is not None:
                raise WorkloadError(
                    f"the measurement of {one.clique!r} has a query: expected a table measured cell by cell; "
                    "leave it out"
                )
            clique = self._several(one.clique)
            if len(clique) > MOST_ATTRIBUTES:
                raise SizeError(
                    f"the measurement of {shown(one.clique)} has {len(clique)} attributes of several levels: unbiased "
                    f"estimates take {MOST_ATTRIBUTES} at most; ask `marginal`, or leave the measurement out"
                )
            tables.append((clique, one.values.reshape(domain.sizes(clique)), one.variance))
        strategy = marginal_noise(domain, [(clique, variance) for clique, _, variance in tables])
        answers = Measurements(strategy, combined=True)
        for index, clique in enumerate(strategy.closure):
            answers[index] = domain.size(clique) * _average(domain, tables, clique)
        self._estimates = ResidualEstimates(answers)

    @property
    def domain(self) -> Domain:
        """The attributes and their sizes."""
        return self._domain

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The largest cliques that can be estimated; attributes of one level are in all of them."""
        return tuple(self._domain.clique((*clique, *self._single)) for clique in self._estimates.cliques)

    def covers(self, clique: Clique) -> bool:
        """Whether some measured clique contains this one."""
        return self._estimates.covers(self._several(self._domain.check(clique)))

    def for_sums(self, clique: Clique, coefficients: Floats, groups: int) -> None:
        """Every table is known cell by cell, or not at all."""

    def counts(self, clique: Clique) -> Floats:
        """Estimated counts over a clique, in the order of its names."""
        return self._estimates.counts(self._several(clique)).reshape(self._domain.sizes(clique))

    def variance(self, clique: Clique) -> float:
        """The variance of every cell of a table: sum_{A subset r} sigma_A^2 prod_A (1 - 1/n_i) prod_{r - A} 1/n_i^2."""
        return self._estimates.strategy.variance(self._several(clique))

    def largest_variance(self, clique: Clique) -> float:
        """The largest eigenvalue of the covariance of a table's cells: max_{A subset r} sigma_A^2 / prod_{r - A} n_i.

        The covariance is sum_A sigma_A^2 prod_A (I - J / n_i) prod_{r - A} J / n_i^2, whose terms live on orthogonal
        spaces. No sum of cells with coefficients of norm 1 has a larger variance.
        """
        strategy = self._estimates.strategy
        names = self._domain.clique(self._several(clique))
        shares = np.ones(1)
        for name in names:  # bit i of a subset's number is attribute i
            shares = np.concatenate([shares / self._domain[name], shares])
        return float(np.max(strategy.sigma_squared[strategy.closure.subsets(names)] * shares))

    def covariance(self, clique: Clique, first: Floats, second: Floats, groups: int) -> Floats:
        """The covariance of two sums over cells for every combination of levels of the first `groups` attributes."""
        sizes = self._domain.sizes(clique)
        several = self._several(clique)
        inner = self._domain.sizes(several)
        own = first.reshape(inner)
        other = own if second is first else second.reshape(inner)
        found = self._estimates.covariance(several, own, other, len(self._several(clique[:groups])))
        return found.reshape(sizes[:groups])

    def product(self, clique: Clique, blocks: Sequence[LinearOperator]) -> tuple[Floats, Floats]:
        """The estimated answers to a product of query blocks and their exact variances, one axis per block."""
        if len(blocks) != len(clique):
            raise WorkloadError(f"{len(blocks)} query blocks for {len(clique)} attributes; give one each")
        own = dict(zip(self._domain.check(clique), blocks, strict=True))
        names = self._several(clique)
        values, variances = self._estimates.product(names, [own[name] for name in names])
        for name in clique:
            if name in self._single:  # its only level has coefficient c in a query
                column = own[name].matmat(np.ones((1, 1)))[:, 0]
                values, variances = np.multiply.outer(values, column), np.multiply.outer(variances, column**2)
                names = (*names, name)
        axes = [names.index(name) for name in clique]
        return values.transpose(axes), variances.transpose(axes)

    def _several(self, clique: Clique) -> Clique:
        """The attributes of more than one level; the others say nothing."""
        return tuple(name for name in clique if self._domain[name] > 1)


def _average(domain: Domain, tables: Sequence[tuple[Clique, Floats, float]], clique: Clique) -> Floats:
    """The average of the tables that contain a clique, each added up to it, with weights 1 / variance.

    A table over r of variance s^2 added up to A has variance s^2 n_r / n_A.

    Reference: [AIM, Thm 2].
    """
    weighted, precision = np.zeros(domain.sizes(clique)), 0.0
    for names, values, variance in tables:
        if set(clique) <= set(names):
            weight = domain.size(clique) / (variance * math.prod(values.shape))
            outside = tuple(axis for axis, name in enumerate(names) if name not in clique)
            weighted += weight * values.sum(axis=outside)
            precision += weight
    return weighted / precision
