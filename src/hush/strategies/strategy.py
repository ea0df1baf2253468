"""Strategy: what a plan asks of the queries that it will measure, whichever way they were selected."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Protocol, Self

from hush.arrays import Floats
from hush.domain import Domain
from hush.privacy.gate import Request
from hush.privacy.sensitivity import Neighbours
from hush.strategies.noise_kind import NoiseKind
from hush.workloads import ProductTerm, Workload


class PredictedErrors(Protocol):
    """The errors that a strategy promises for a workload, before any data is read."""

    @property
    def rmse(self) -> float:
        """sqrt(sum of weight * variance / sum of weight) over all queries."""

    @property
    def means(self) -> Floats:
        """The mean variance over the queries of each term: (terms,)."""

    @property
    def largest(self) -> float:
        """The largest variance of a query, weights left aside."""


class Strategy(Protocol):
    """Queries with exact noise, and the errors they promise; holds no data.

    `cost` is for privacy units of one row: rho of zCDP under Gaussian noise, epsilon under Laplace noise.
    """

    @property
    def kind(self) -> str:
        """What files call strategies of this form, and releases of their answers."""

    @property
    def domain(self) -> Domain: ...
    @property
    def neighbours(self) -> Neighbours: ...
    @property
    def noise(self) -> NoiseKind: ...
    @property
    def cost(self) -> Fraction: ...

    @property
    def tables(self) -> int:
        """How many requests there are."""

    @property
    def numbers(self) -> int:
        """How many numbers are measured in all."""

    @property
    def memory(self) -> int:
        """Bytes that measuring takes at its peak, roughly."""

    def requests(self) -> list[Request]:
        """What will be asked of the gate."""

    def costing(self, cost: Fraction) -> Self:
        """The same queries with the noise of another cost."""

    def errors(self, workload: Workload) -> PredictedErrors:
        """The errors of a workload."""

    def variance(self, clique: Iterable[str]) -> float:
        """The variance of each cell of a marginal, or their mean where they differ."""

    def term_variances(self, term: ProductTerm) -> Floats:
        """The variance of every query of a term, one axis per attribute."""

    def claim(self, loss: str, comparison: Callable[[], str]) -> str:
        """What is claimed of the error, in words; `comparison` sets it beside the lower bound, for those unproven."""

    def check(self, workload: Workload) -> None:
        """Raise where the strategy cannot be measured exactly, or does not support the workload."""

    def inconsistency(self, workload: Workload) -> str | None:
        """Explain why a strategy from a file does not belong to a workload; None where it does."""
