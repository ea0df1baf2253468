"""Estimates: the questions that every release answers, whatever its mechanism."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from hush.core.arrays import Floats
from hush.core.domain import Clique, Domain
from hush.inference.error_law import ErrorLaw
from hush.linops import LinearOperator


class Estimates(Protocol):
    """Unbiased or model-based estimates of tables of counts, with their errors; pure post-processing.

    Cliques come and go in the caller's attribute order.
    """

    @property
    def domain(self) -> Domain: ...

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The largest cliques that can be estimated; so can any subset of one, with any columns of a single level."""

    def covers(self, clique: Clique) -> bool:
        """Whether the table over a clique can be estimated."""

    def for_sums(self, clique: Clique, coefficients: Floats, groups: int) -> Estimates | None:
        """Estimates of a table for these sums alone, where some that it does not cover are known; None otherwise.

        The sums are those of `covariance`. Its sums are unbiased; its single counts mean nothing.
        """

    def counts(self, clique: Clique) -> Floats:
        """Estimated counts, of shape `domain.sizes(clique)`."""

    def covariance(self, clique: Clique, first: Floats, second: Floats, groups: int) -> Floats:
        """The covariance of two sums over cells, for every combination of levels of the first `groups` attributes.

        `first` and `second` are coefficients of shape `domain.sizes(clique)`. For each cell g of the first `groups`
        axes the sums are f_g = sum_x first[g, x] count[g, x], and likewise for `second`; returns cov(f_g, s_g) with the
        shape of those axes. With first = second = 1 and all axes grouped it is the variance of every cell.
        """

    def product(self, clique: Clique, blocks: Sequence[LinearOperator]) -> tuple[Floats, Floats]:
        """The estimated answers to a product of query blocks on a clique and their variances, one axis per block.

        WorkloadError where the product cannot be estimated; it may be possible without the table over the clique.
        """

    @property
    def laplace(self) -> bool:
        """Whether some of the noise has Laplace tails."""

    def alike(self, name: str) -> bool:
        """Whether the noise treats all levels of an attribute alike, so that errors stay when levels change places."""

    def error_law(
        self, clique: Clique, coefficients: Floats, blocks: Sequence[LinearOperator] | None = None
    ) -> ErrorLaw | None:
        """The law of the error of one sum over the cells of a clique; None if it is not known or too much work.

        With `blocks`, the sum is one of the queries of that product, as `product` estimates them.
        """


@runtime_checkable
class BoundedEstimates(Protocol):
    """Estimates some of whose tables have no covariances, but a bound on their error as a whole."""

    def has_covariance(self, clique: Clique) -> bool:
        """Whether the covariances of a table are known."""

    def l1_bound(self, clique: Clique, level: float) -> float:
        """A bound on sum_x |estimated count - true count|; NaN where there is none."""

    def margin(self, clique: Clique, lowest: Floats, highest: Floats, level: float) -> Floats:
        """How far sums over a table with coefficients between these can be off; NaN where it is not known."""
