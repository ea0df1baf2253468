"""Estimates of tables that may name columns of a single level, from estimates that know the other columns alone.

Every row has the only level of such a column, so the table over ("country", "sex") holds the numbers of ("sex",) if
`country` has one level. Workloads leave these columns out, and nothing is measured for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import numpy as np

from hush.core.arrays import Floats, reordered
from hush.core.domain import Clique, Domain
from hush.core.errors import WorkloadError
from hush.inference.error_law import ErrorLaw
from hush.inference.estimates import Estimates
from hush.linops import LinearOperator

Varying = TypeVar("Varying", bound=Estimates)


class ConstantColumnEstimates(Generic[Varying]):
    """The estimates of `varying`, for cliques that may also name columns of a single level; implements `Estimates`."""

    def __init__(self, varying: Varying, domain: Domain) -> None:
        self.varying = varying
        self._domain = domain

    @property
    def domain(self) -> Domain:
        return self._domain

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The largest cliques without columns of a single level, which may be added to each."""
        return self.varying.cliques

    def covers(self, clique: Clique) -> bool:
        return self.varying.covers(self._domain.varying(clique))

    def for_sums(self, clique: Clique, coefficients: Floats, groups: int) -> Estimates | None:
        names = self._domain.varying(clique)
        table = np.reshape(coefficients, self._domain.sizes(names))
        known = self.varying.for_sums(names, table, len(self._domain.varying(clique[:groups])))
        return None if known is None else ConstantColumnEstimates(known, self._domain)

    def counts(self, clique: Clique) -> Floats:
        return self.varying.counts(self._domain.varying(clique)).reshape(self._domain.sizes(clique))

    def covariance(self, clique: Clique, first: Floats, second: Floats, groups: int) -> Floats:
        names = self._domain.varying(clique)
        sizes = self._domain.sizes(names)
        left = first.reshape(sizes)
        right = left if second is first else second.reshape(sizes)
        covariances = self.varying.covariance(names, left, right, len(self._domain.varying(clique[:groups])))
        return covariances.reshape(self._domain.sizes(clique[:groups]))

    def product(self, clique: Clique, blocks: Sequence[LinearOperator]) -> tuple[Floats, Floats]:
        if len(blocks) != len(clique):
            raise WorkloadError(f"{len(blocks)} query blocks for {len(clique)} attributes; give one each")
        block_of = dict(zip(self._domain.check(clique), blocks, strict=True))
        names = self._domain.varying(clique)
        values, variances = self.varying.product(names, [block_of[name] for name in names])
        for name in clique:
            if name not in names:  # the only level has coefficient c in a query
                column = block_of[name].matmat(np.ones((1, 1)))[:, 0]
                values, variances = np.multiply.outer(values, column), np.multiply.outer(variances, column**2)
                names = (*names, name)
        return reordered(values, names, clique), reordered(variances, names, clique)

    @property
    def laplace(self) -> bool:
        return self.varying.laplace

    def alike(self, name: str) -> bool:
        return self._domain[name] == 1 or self.varying.alike(name)

    def error_law(
        self, clique: Clique, coefficients: Floats, blocks: Sequence[LinearOperator] | None = None
    ) -> ErrorLaw | None:
        names = self._domain.varying(clique)
        table = np.reshape(coefficients, self._domain.sizes(names))
        if blocks is not None:  # `coefficients` are those of the query over the levels, constant columns included
            blocks = [block for name, block in zip(clique, blocks, strict=True) if name in names]
        return self.varying.error_law(names, table, blocks)


def without_constant_columns(estimates: Estimates) -> Estimates:
    """The estimates that know the columns of several levels alone, and are asked about these alone."""
    return estimates.varying if isinstance(estimates, ConstantColumnEstimates) else estimates
