"""The best linear unbiased combination of noisy marginals, with exact errors and without a model.

Every table is a sum of residuals, one for each subset A of its clique, and residuals of different sets are
uncorrelated. Every marginal whose clique contains A estimates the same residual of A; the average with weights
1 / variance is the best linear unbiased estimate, and the sum of the averages is the generalised least squares estimate
of a table from all marginals. `strategies.residual_strategy.marginal_noise` has the weights and the noise of the
averages. A marginal is summed down to every subset of its attributes one axis at a time, in O(k cells).

Reference: [ResidualPlanner, Alg. 2 and Thm 4.7] for the residuals; [AIM, Thm 2] for the average.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np

from hush.core.arrays import Floats
from hush.core.domain import Clique, Domain
from hush.core.errors import DataError, SizeError, WorkloadError, shown
from hush.inference.error_law import Law
from hush.inference.estimates import ConstantColumnEstimates
from hush.inference.linear_estimates import LinearMeasurements, answers_of, measured_products
from hush.inference.residual_estimates import NoisySource, ResidualEstimates, subset_levels
from hush.privacy.measurement import Measurement, Measurements, placed
from hush.strategies.linear_strategy import marginal_strategy
from hush.strategies.residual_strategy import ResidualStrategy, is_residual, marginal_noise

MOST_ATTRIBUTES = 12  # of several levels in a clique: there are 3^k pairs of a subset and a subset of it


class UnbiasedEstimates(ConstantColumnEstimates[ResidualEstimates]):
    """The best linear unbiased estimates from independent noisy tables, mutually consistent; implements `Estimates`.

    Any table inside a measured clique is covered; so is the table of a measured residual, if its smaller tables are.
    Counts may be negative. Estimates and variances hold for any noise
    of the given standard deviations; intervals are exact for Gaussian noise.

    >>> domain = Domain({"a": 2, "b": 2})
    >>> both = [Measurement(("a",), [10.0, 20.0], 1.0), Measurement(("b",), [12.0, 16.0], 1.0)]
    >>> estimates = UnbiasedEstimates(domain, both)
    >>> estimates.counts(("a",)).tolist(), estimates.variance(("a",))
    ([9.5, 19.5], 0.75)
    """

    def __init__(self, domain: Domain, measurements: Iterable[Measurement], laws: Sequence[Law] | None = None) -> None:
        """`laws` are the laws of the measurements' noise, if known more exactly than by their standard deviations."""
        tables, sources, residuals = [], [], []
        listed = list(measurements)
        ordered = placed(domain, listed)
        for asked, table, law in zip(listed, ordered, laws or [table.law for table in ordered], strict=True):
            if is_residual(asked.asked):
                residuals.append((asked, table, law))
                continue
            if table.query is not None:
                raise WorkloadError(
                    f"the measurement of {table.clique!r} has a query: expected a table measured cell by cell; leave "
                    "the measurement out"
                )
            clique = domain.varying(table.clique)
            if len(clique) > MOST_ATTRIBUTES:
                raise SizeError(
                    f"the measurement of {shown(table.clique)} has {len(clique)} attributes of several levels: "
                    f"unbiased estimates take {MOST_ATTRIBUTES} at most; ask `marginal`, or leave the measurement out"
                )
            tables.append((clique, table.values.reshape(domain.sizes(clique)), table.variance))
            sources.append(NoisySource(clique, table.variance, law, table.scale))

        if residuals and not tables:
            raise DataError("residuals alone say nothing of the number of rows; measure a table cell by cell too")

        # Residuals of sets whose smaller sets are all known, in tables or as residuals; others answer no table.
        inside = [frozenset(clique) for clique, _, _ in tables]
        known = {
            frozenset(names) for clique in inside for k in range(len(clique) + 1) for names in combinations(clique, k)
        }
        alone: list[tuple[Clique, Floats, float]] = []
        for asked, table, law in sorted(residuals, key=lambda entry: len(entry[1].clique)):
            clique = table.clique
            if all(frozenset(names) in known for names in combinations(clique, len(clique) - 1)):
                known.add(frozenset(clique))
                alone.append((clique, table.values.reshape(domain.sizes(clique)), table.variance))
                scale = table.scale if laws is None else asked.scale
                sources.append(NoisySource(clique, table.variance, law, scale, residual=True))
        noise = [(clique, variance) for clique, _, variance in tables]
        strategy = marginal_noise(domain, noise, residuals=[(clique, variance) for clique, _, variance in alone])
        super().__init__(ResidualEstimates(_combined(strategy, tables, alone), sources), domain)

    def variance(self, clique: Clique) -> float:
        """The variance of every cell of a table: sum_{A subset r} sigma_A^2 prod_A (1 - 1/n_i) prod_{r - A} 1/n_i^2."""
        return self.varying.strategy.variance(self.domain.varying(clique))

    def largest_variance(self, clique: Clique) -> float:
        """The largest eigenvalue of the covariance of a table's cells: max_{A subset r} sigma_A^2 / prod_{r - A} n_i.

        The covariance is sum_A sigma_A^2 prod_A (I - J / n_i) prod_{r - A} J / n_i^2, and its terms act on orthogonal
        spaces. No sum of cells with coefficients of norm 1 has a larger variance.
        """
        strategy = self.varying.strategy
        names = self.domain.clique(self.domain.varying(clique))
        shares = np.ones(1)
        for name in names:  # bit i of a subset's number is attribute i
            shares = np.concatenate([shares / self.domain[name], shares])
        return float(np.max(strategy.sigma_squared[strategy.closure.subsets(names)] * shares))


def combine_marginals(answers: LinearMeasurements) -> ResidualEstimates:
    """Estimates of every set inside a measured product, for a strategy whose products are marginals."""
    measured = measured_products(answers)
    strategy = marginal_strategy(answers.strategy.domain, measured)
    tables = [(product.clique, answers_of(answers, product), product.variance) for product in measured]
    sources = [NoisySource(p.clique, p.variance, p.law, p.query.scale) for p in measured]
    return ResidualEstimates(_combined(strategy, tables), sources)


def _combined(
    strategy: ResidualStrategy,
    tables: Iterable[tuple[Clique, Floats, float]],
    residuals: Iterable[tuple[Clique, Floats, float]] = (),
) -> Measurements[ResidualStrategy]:
    """Residual answers, in floats, averaged from tables and residuals with the variances of their noise."""
    combined = Measurements(strategy, combined=True)
    for clique, values, variance in residuals:
        index = strategy.closure.index(clique)
        scale = math.prod(basis.scale for basis in strategy.clique_bases(clique))
        weight = strategy.sigma_squared[index] / variance * scale
        combined.flat[combined.starts[index] : combined.starts[index + 1]] += weight * values.ravel()
        combined.filled[index] = True
    for clique, values, variance in tables:
        bases = strategy.clique_bases(clique)
        extended = values
        for axis, basis in enumerate(bases):  # level 0 of every axis becomes its total, by least squares
            extended = np.concatenate([basis.total_of(extended, axis), extended], axis=axis)
        positions = strategy.closure.subsets(clique)
        for mask, levels in subset_levels(len(bases)):
            index = positions[mask]
            outside = math.prod(b.total_variance_factor for axis, b in enumerate(bases) if not mask >> axis & 1)
            scale = math.prod(b.scale for axis, b in enumerate(bases) if mask >> axis & 1)
            weight = strategy.sigma_squared[index] / (variance * outside) * scale
            start, stop = combined.starts[index], combined.starts[index + 1]
            combined.flat[start:stop] += weight * np.asarray(extended[levels]).ravel()
            combined.filled[index] = True
    return combined
