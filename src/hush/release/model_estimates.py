"""The estimates of a fitted model: alone, without errors; or along with unbiased ones, with bounds; and its misfit.

With a bound B on the L1 error of a table and D on that of the number of rows, no cell of the model is off by more than
(B + D) / 2, which gives its interval. Without a bound a cell has no interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from hush.core.arrays import Floats
from hush.core.domain import Clique
from hush.core.errors import QueryError, WorkloadError
from hush.inference.best_unbiased import UnbiasedEstimates
from hush.inference.error_law import ErrorLaw
from hush.inference.estimates import BoundedEstimates, Estimates, UnknownErrors
from hush.linops import LinearOperator
from hush.models.distribution import Distribution
from hush.privacy.measurement import Measurement

if TYPE_CHECKING:
    from hush.release.error_bounds import ErrorBounds


class ModelEstimates(UnknownErrors):
    """The counts of a distribution; implements `Estimates`."""

    def __init__(self, distribution: Distribution) -> None:
        super().__init__(distribution.domain, [distribution.domain.attributes])
        self._distribution = distribution

    def counts(self, clique: Clique) -> Floats:
        return self._distribution.counts(clique)

    def product(self, clique: Clique, blocks: Sequence[LinearOperator]) -> tuple[Floats, Floats]:
        answers = self._distribution.product(clique, blocks)
        return answers, np.full(answers.shape, np.nan)


LEAST_MISFIT = 1.5  # a smaller root mean square gives no caveat
CLEAR_MISFIT = {"gaussian": 6.0, "laplace": 12.0}  # in 1 / sqrt(2 m): noise exceeds it with probability about 1e-6
NO_ROWS = (
    "the tables add up to less than 1 record, the least that a model can have; its counts say little, and its shares "
    "follow the noise."
)


class Misfit:
    """The root mean square of (Q mu - y) / stddev, per table and over all numbers: about 1, or less, for noise alone.

    The best model is no farther from the measurements than the true table is. The squared distance of the true table is
    chi-square with one degree of freedom per number m, so sqrt(mean) rarely exceeds 1 + z / sqrt(2 m). `tables` has the
    worst table first.

    >>> import hush
    >>> noisy = [Measurement(("a",), [10.0, 90.0], 1.0), Measurement(("a",), [90.0, 10.0], 1.0)]
    >>> model = hush.fit(hush.Domain({"a": 2}), noisy)
    >>> Misfit(model.distribution, noisy).overall
    40.0
    """

    def __init__(self, distribution: Distribution, measurements: Iterable[Measurement]) -> None:
        domain = distribution.domain
        noisy = [(domain.clique(measurement.clique), measurement.on(domain)) for measurement in measurements]
        tables = distribution.many(measurement.clique for _, measurement in noisy)
        squares: dict[Clique, float] = {}
        self.numbers: dict[Clique, int] = {}
        self._clear: dict[Clique, float] = {}
        for clique, measurement in noisy:
            counts, query = tables[measurement.clique].ravel(), measurement.query
            answers = query @ counts if isinstance(query, LinearOperator) else counts
            scaled = (answers - measurement.values.ravel()) / measurement.stddev
            squares[clique] = squares.get(clique, 0.0) + float(scaled @ scaled)
            self.numbers[clique] = self.numbers.get(clique, 0) + measurement.numbers
            self._clear[clique] = max(self._clear.get(clique, 0.0), CLEAR_MISFIT[measurement.noise])
        sizes = {clique: math.sqrt(square / self.numbers[clique]) for clique, square in squares.items()}
        self.tables = dict(sorted(sizes.items(), key=lambda item: -item[1]))
        self.overall = math.sqrt(sum(squares.values()) / max(sum(self.numbers.values()), 1))

    def where(self, holds: Callable[[Clique], bool]) -> float:
        """The root mean square over the numbers of the tables for which `holds`; NaN if there are no such tables."""
        tables = [clique for clique in self.tables if holds(clique)]
        numbers = sum(self.numbers[clique] for clique in tables)
        squares = sum(self.numbers[clique] * self.tables[clique] ** 2 for clique in tables)
        return math.sqrt(squares / numbers) if numbers else math.nan

    def caveat(self) -> str | None:
        """A warning if noise of the stated size does not explain the distance, over all or in one table."""
        unexplained = [clique for clique, size in self.tables.items() if size > self._limit([clique])]
        if not unexplained and not self.overall > self._limit(self.tables):
            return None
        worst = unexplained[0] if unexplained else next(iter(self.tables))
        return (
            f"the tables differ from the model by {self.overall:.3g} standard deviations (root mean square), most in "
            f"({', '.join(worst)}): {self.tables[worst]:.3g}, more than noise explains; check that all count the same "
            "rows, with levels in the right order, and that stddev, total and constraints are right."
        )

    def _limit(self, cliques: Iterable[Clique]) -> float:
        named = list(cliques)
        numbers = sum(self.numbers[clique] for clique in named)
        clear = max((self._clear[clique] for clique in named), default=0.0)
        return max(LEAST_MISFIT, 1 + clear / math.sqrt(2 * max(numbers, 1)))


# The mean squared distance of a model from noisy tables, in variances of the noise, is 1 for a perfect model and 2 for
# a model that is as far from the truth as the noise is; both are smaller if the model follows the noise.
CLOSER_WITHIN = 1.5


class MeasuredEstimates:
    """Tables of any clique; implements `BoundedEstimates`.

    Inside measured tables: the best linear unbiased estimates, with exact covariances. Elsewhere: the model's counts,
    with NaN for covariances, and a bound on the L1 error of the whole table where one is known.
    """

    def __init__(
        self,
        distribution: Distribution,
        unbiased: UnbiasedEstimates | None,
        bounds: ErrorBounds,
        measurements: Sequence[Measurement] = (),
    ) -> None:
        """`measurements` are what the distribution was fitted to."""
        self._distribution = distribution
        self._measurements = measurements
        self._model = ModelEstimates(distribution)
        self._unbiased = unbiased
        self.bounds = bounds
        self.domain = distribution.domain
        self.laplace = unbiased is not None and unbiased.laplace

    def closer_model(self, clique: Clique) -> ModelEstimates | None:
        """The model, if it is probably closer to a measured table than the noisy tables are; None otherwise.

        The model draws on all tables, so it is closer unless it cannot represent a table precisely enough, as few
        relaxed rows under a large budget cannot. Its misfit of the measured tables that hold the clique tells.
        """
        if not self.has_covariance(clique):
            return None
        distance = self._misfit.where(lambda table: set(self.domain.varying(clique)) <= set(table))
        return self._model if distance**2 <= CLOSER_WITHIN else None

    @cached_property
    def _misfit(self) -> Misfit:
        return Misfit(self._distribution, self._measurements)

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The largest tables with exact errors; all attributes if no table has them."""
        return self._model.cliques if self._unbiased is None else self._unbiased.cliques

    def covers(self, clique: Clique) -> bool:
        """True: every table can be estimated; `has_covariance` and `l1_bound` say how well."""
        return self._model.covers(clique)

    def for_sums(self, clique: Clique, coefficients: Floats, groups: int) -> None:
        """None, because every table is covered."""

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

    def alike(self, name: str) -> bool:
        return self._unbiased is not None and self._unbiased.alike(name)

    def error_law(
        self, clique: Clique, coefficients: Floats, blocks: Sequence[LinearOperator] | None = None
    ) -> ErrorLaw | None:
        return self._source(clique).error_law(clique, coefficients, blocks)

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


def covered(estimates: Estimates, clique: Iterable[str], *, unbiased: bool = False) -> Clique:
    """The names of a clique; refused unless it can be estimated, and without bias if `unbiased`."""
    names = estimates.domain.check(clique)
    if unbiased and isinstance(estimates, BoundedEstimates) and not estimates.has_covariance(names):
        raise QueryError(
            f"no noisy table of the release holds {names!r}, so there is no unbiased estimate of it; leave "
            "unbiased=True out for the estimate of the fitted model"
        )
    if not estimates.covers(names):
        raise WorkloadError(
            f"the release has no table over {names!r}; a workload with that marginal would have covered it; "
            "release.model() estimates it, without an error bar"
        )
    return names


def closer_model(estimates: Estimates, clique: Clique, *, unbiased: bool) -> ModelEstimates | None:
    """The model of an adaptive mechanism, if its counts are probably closer than unbiased ones; None otherwise."""
    if unbiased or not isinstance(estimates, MeasuredEstimates):
        return None
    return estimates.closer_model(clique)


def mean_variance(estimates: Estimates, clique: Clique) -> float:
    """The mean variance of the cells of a table."""
    ones = np.ones(estimates.domain.sizes(clique))
    return float(np.mean(estimates.covariance(clique, ones, ones, len(clique))))
