"""MeasuredEstimates: noisy tables where they reach, the fitted model elsewhere, with what is known of their errors."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hush.arrays import Floats
from hush.domain import Clique, Domain
from hush.inference.best_unbiased import UnbiasedEstimates
from hush.linops import LinearOperator
from hush.release.error_bounds import ErrorBounds
from hush.release.model_estimates import Distribution, ModelEstimates
from hush.release.rounds import LEAST_STDDEV


class MeasuredEstimates:
    """Tables of any clique; implements `Estimates`, and `Bounded` of `evaluation`.

    Inside measured tables: the best linear unbiased estimates, with exact covariances. Elsewhere: the model's counts,
    whose covariances are NaN, with a bound on the L1 error of the whole table where there is one.
    """

    def __init__(self, distribution: Distribution, unbiased: UnbiasedEstimates | None, bounds: ErrorBounds) -> None:
        self._model = ModelEstimates(distribution)
        self._unbiased = unbiased
        self.bounds = bounds

    @property
    def domain(self) -> Domain:
        """The attributes and their sizes."""
        return self._model.domain

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The largest tables with exact errors; all attributes where no table has them."""
        return self._model.cliques if self._unbiased is None else self._unbiased.cliques

    def covers(self, clique: Clique) -> bool:
        """Every table can be estimated; how well, `has_covariance` and `l1_bound` say."""
        return self._model.covers(clique)

    def for_sums(self, clique: Clique, coefficients: Floats, groups: int) -> None:
        """Every table is known cell by cell."""

    def counts(self, clique: Clique) -> Floats:
        """Unbiased counts inside measured tables, the model's elsewhere."""
        return self._source(clique).counts(clique)

    def covariance(self, clique: Clique, first: Floats, second: Floats, groups: int) -> Floats:
        """The covariance of two sums over cells in every group; NaN where the counts are the model's."""
        return self._source(clique).covariance(clique, first, second, groups)

    def product(self, clique: Clique, blocks: Sequence[LinearOperator]) -> tuple[Floats, Floats]:
        """The estimated answers to a product of query blocks and their variances; NaN where the model gives them."""
        return self._source(clique).product(clique, blocks)

    def has_covariance(self, clique: Clique) -> bool:
        """Whether the table lies inside a measured one."""
        self.domain.check(clique)
        return self._unbiased is not None and self._unbiased.covers(clique)

    def grain(self, clique: Clique) -> float:
        """Half a step of the noise over its standard deviation, of the most exact table that has the clique in it.

        Tables are added up to the clique, which multiplies the variance of r's noise by n_r / n_clique; the step stays
        one. inf where no table is known.
        """
        own, cells = set(clique), self.domain.size(clique)
        variances = [
            max(table.stddev, LEAST_STDDEV) ** 2 * self.domain.size(table.clique) / cells
            for table in self.bounds.noisy_tables
            if table.query is None and own <= set(table.clique)
        ]
        return 0.5 / math.sqrt(min(variances)) if variances else math.inf

    def l1_bound(self, clique: Clique, level: float) -> float:
        """A bound on sum_x |model count - true count| that holds with probability `level`; NaN where there is none."""
        return self.bounds.of(clique, level).bound

    def margin(self, clique: Clique, lowest: Floats, highest: Floats, level: float) -> Floats:
        """How far sums of model counts over a clique, of coefficients between these, can be off; NaN where unknown."""
        return self.bounds.margin(clique, lowest, highest, level)

    def _source(self, clique: Clique) -> UnbiasedEstimates | ModelEstimates:
        if self._unbiased is not None and self._unbiased.covers(self.domain.check(clique)):
            return self._unbiased
        return self._model
