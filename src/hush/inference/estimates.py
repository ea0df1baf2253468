"""Estimates: the questions that every release answers, for any mechanism; and small implementations.

`Estimates` is the protocol. `ConstantColumnEstimates` adds columns of a single level to estimates that leave them out:
every row has the only level of such a column, so the table over ("country", "sex") holds the counts of ("sex",) if
`country` has one level; workloads leave these columns out, and nothing is measured for them. `UnknownErrors` is the
base of estimates of all tables whose errors are not known, such as those of a model. `ZeroEstimates` answers 0 to
everything, the yardstick of mechanisms that measure something.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Generic, Protocol, TypeVar, runtime_checkable

import numpy as np

from hush.core.arrays import Floats, reordered
from hush.core.domain import Clique, Domain, maximal_cliques
from hush.core.errors import SizeError, WorkloadError
from hush.core.memory import available_memory, readable
from hush.inference.error_law import ErrorLaw
from hush.linops import LinearOperator

Varying = TypeVar("Varying", bound="Estimates")


class Estimates(Protocol):
    """Unbiased or model-based estimates of tables of counts, with their errors; pure post-processing.

    Tables have their axes in the order of the caller's clique.
    """

    @property
    def domain(self) -> Domain: ...

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The largest cliques whose tables can be estimated; so can any subset, and any columns of a single level."""

    def covers(self, clique: Clique) -> bool:
        """Whether the table over a clique can be estimated."""

    def for_sums(self, clique: Clique, coefficients: Floats, groups: int) -> Estimates | None:
        """Estimates for certain sums over a table that is not covered, if the sums are known; None otherwise.

        The sums are those of `covariance`. The estimates of these sums are unbiased; single counts are meaningless.
        """

    def counts(self, clique: Clique) -> Floats:
        """Estimated counts, of shape `domain.sizes(clique)`."""

    def covariance(self, clique: Clique, first: Floats, second: Floats, groups: int) -> Floats:
        """The covariance of two sums over cells, for every combination of levels of the first `groups` attributes.

        `first` and `second` are coefficients of shape `domain.sizes(clique)`. For each cell g of the first `groups`
        axes the sums are f_g = sum_x first[g, x] count[g, x], and likewise for `second`; returns cov(f_g, s_g) with the
        shape of those axes. With first = second = 1 and all axes grouped, that is the variance of every cell.
        """

    def product(self, clique: Clique, blocks: Sequence[LinearOperator]) -> tuple[Floats, Floats]:
        """The estimated answers to a product of query blocks on a clique and their variances, one axis per block.

        WorkloadError if the product cannot be estimated; it may be known even if the table is not.
        """

    @property
    def laplace(self) -> bool:
        """Whether some of the noise has Laplace tails."""

    def alike(self, name: str) -> bool:
        """Whether the noise treats all levels of an attribute alike: permuting them does not change any error."""

    def error_law(
        self, clique: Clique, coefficients: Floats, blocks: Sequence[LinearOperator] | None = None
    ) -> ErrorLaw | None:
        """The law of the error of one sum over the cells of a clique; None if unknown or too costly.

        With `blocks`, the sum is one of the queries of that product, as `product` estimates them.
        """


@runtime_checkable
class BoundedEstimates(Protocol):
    """Estimates with tables that have no covariances, but a bound on their total error."""

    def has_covariance(self, clique: Clique) -> bool:
        """Whether the covariances of a table are known."""

    def l1_bound(self, clique: Clique, level: float) -> float:
        """A bound on sum_x |estimated count - true count|; NaN if there is none."""

    def margin(self, clique: Clique, lowest: Floats, highest: Floats, level: float) -> Floats:
        """A bound on the error of sums over a table with coefficients between these; NaN if unknown."""


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
        """The largest cliques, without columns of a single level; these may be added to each."""
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
            if name not in names:  # every query has one coefficient for the only level
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
        if blocks is not None:  # `coefficients` include those of constant columns already
            blocks = [block for name, block in zip(clique, blocks, strict=True) if name in names]
        return self.varying.error_law(names, table, blocks)


def without_constant_columns(estimates: Estimates) -> Estimates:
    """The wrapped estimates, which know only columns of several levels."""
    return estimates.varying if isinstance(estimates, ConstantColumnEstimates) else estimates


class UnknownErrors:
    """Estimates of every table whose errors are not known: all covariances are NaN, and no error has a law."""

    laplace = False

    def __init__(self, domain: Domain, cliques: Iterable[Clique]) -> None:
        self.domain = domain
        self.cliques = tuple(cliques)

    def covers(self, clique: Clique) -> bool:
        self.domain.check(clique)
        return True

    def for_sums(self, clique: Clique, coefficients: Floats, groups: int) -> None:
        """None, because every table is covered."""

    def covariance(self, clique: Clique, first: Floats, second: Floats, groups: int) -> Floats:
        return np.full(self.domain.sizes(clique)[:groups], np.nan)

    def alike(self, name: str) -> bool:
        return True

    def error_law(self, clique: Clique, coefficients: Floats, blocks: Sequence[LinearOperator] | None = None) -> None:
        """None, because the error is not that of noise."""


class ZeroEstimates(UnknownErrors):
    """A count of 0 in every cell of every table; implements `Estimates`. `cliques` are the largest requested tables.

    >>> zeros = ZeroEstimates(Domain({"a": 2, "b": 3}), [("a",)])
    >>> zeros.counts(("b",)).tolist(), zeros.cliques
    ([0.0, 0.0, 0.0], (('a',),))
    """

    def __init__(self, domain: Domain, asked: Iterable[Clique]) -> None:
        super().__init__(domain, maximal_cliques(list(asked)))

    def counts(self, clique: Clique) -> Floats:
        sizes, cells = self.domain.sizes(clique), self.domain.size(clique)
        if 8 * cells > 0.8 * available_memory():
            raise SizeError(f"a table of {cells:,} zeros takes {readable(8 * cells)}; ask for one over fewer columns")
        return np.zeros(sizes)

    def product(self, clique: Clique, blocks: Sequence[LinearOperator]) -> tuple[Floats, Floats]:
        shape = [block.shape[0] for block in blocks]
        return np.zeros(shape), np.full(shape, np.nan)
