"""A fitted model as a source of answers without errors, and its misfit: how far noisy numbers are from it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from hush.core.arrays import Floats
from hush.core.domain import Clique, Domain
from hush.inference.estimates import Estimates
from hush.linops import LinearOperator
from hush.models.distribution import Distribution
from hush.privacy.measurement import Measurement


class ModelEstimates:
    """A distribution's counts as `Estimates`; their covariances are not known and are NaN."""

    def __init__(self, distribution: Distribution) -> None:
        self._distribution = distribution

    @property
    def domain(self) -> Domain:
        return self._distribution.domain

    @property
    def cliques(self) -> tuple[Clique, ...]:
        return (self.domain.attributes,)

    def covers(self, clique: Clique) -> bool:
        self.domain.check(clique)
        return True

    def for_sums(self, clique: Clique, coefficients: Floats, groups: int) -> Estimates | None:
        return None

    def counts(self, clique: Clique) -> Floats:
        return self._distribution.counts(clique)

    def covariance(self, clique: Clique, first: Floats, second: Floats, groups: int) -> Floats:
        return np.full(self.domain.sizes(clique)[:groups], np.nan)

    def product(self, clique: Clique, blocks: Sequence[LinearOperator]) -> tuple[Floats, Floats]:
        answers = self._distribution.product(clique, blocks)
        return answers, np.full(answers.shape, np.nan)

    laplace = False

    def alike(self, name: str) -> bool:
        return True

    def error_law(self, clique: Clique, coefficients: Floats, blocks: Sequence[LinearOperator] | None = None) -> None:
        """None: how far a model is off is no law of noise."""


LEAST = 1.5  # a smaller root mean square gives no caveat
CLEAR = {"gaussian": 6.0, "laplace": 12.0}  # in 1 / sqrt(2 m): noise alone exceeds it with probability about 1e-6
NO_ROWS = (
    "the tables add up to less than 1 record, the least that a model can have; its counts say little, and its shares "
    "follow the noise."
)


class Misfit:
    """The root mean square of (Q mu - y) / stddev, per table and over all numbers: about 1, or less, for noise alone.

    The best model is no farther from the measurements than the true table is. The squared distance of that is
    chi-square with one degree of freedom per number, so sqrt(mean) exceeds 1 + z / sqrt(2 m) with a small probability
    only. `tables` has the worst first.

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
            self._clear[clique] = max(self._clear.get(clique, 0.0), CLEAR[measurement.noise])
        sizes = {clique: math.sqrt(square / self.numbers[clique]) for clique, square in squares.items()}
        self.tables = dict(sorted(sizes.items(), key=lambda item: -item[1]))
        self.overall = math.sqrt(sum(squares.values()) / max(sum(self.numbers.values()), 1))

    def where(self, holds: Callable[[Clique], bool]) -> float:
        """The root mean square over the numbers of the tables for which `holds`; NaN if there is none."""
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
        return max(LEAST, 1 + clear / math.sqrt(2 * max(numbers, 1)))
