"""Strategy: the protocol of the queries that a plan measures, and the kind of noise that they get.

A strategy of several products, each of sensitivity one, gives product j the share c_j of the budget. Under Gaussian
noise the budget is rho of zCDP and the variance of product j is P / c_j; under Laplace noise the budget is epsilon and
the variance is P / c_j^2. P is the variance that the whole budget buys: 1 / (2 rho), or 2 / epsilon^2. `split_exactly`
splits a budget into exact shares that never add up to more.

Reference: [HDMM, Def. 21] for the split. Differs from the printed tables, whose Gaussian column uses the split of the
Laplace one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from enum import StrEnum
from fractions import Fraction
from typing import Protocol, Self

import numpy as np

from hush.core.arrays import Floats
from hush.core.domain import Domain
from hush.core.errors import BudgetError
from hush.privacy.gate import Request
from hush.privacy.noise import LEAST_STDDEV, SMALLEST_SCALE, DiscreteGaussian, Noise
from hush.privacy.sensitivity import Neighbours, RowNorms
from hush.workloads import Term, Workload


class NoiseKind(StrEnum):
    """Which noise protects a strategy's answers.

    >>> NoiseKind.GAUSSIAN.shares(np.array([1.0, 4.0])), NoiseKind.LAPLACE.shares(np.array([1.0, 8.0]))
    (array([0.33333333, 0.66666667]), array([0.33333333, 0.66666667]))
    """

    GAUSSIAN = "gaussian"
    LAPLACE = "laplace"

    @property
    def norm(self) -> int:
        """The norm of a column that sets the privacy cost: 2 or 1."""
        return 2 if self is NoiseKind.GAUSSIAN else 1

    def variance(self, share: Floats) -> Floats:
        """The variance of a product of sensitivity one per unit of P."""
        return np.asarray(1 / np.asarray(share, dtype=np.float64) ** self._power)

    def shares(self, errors: Floats) -> Floats:
        """The split that makes sum_j errors_j * variance(c_j) smallest: c ~ errors^(1/2), or errors^(1/3)."""
        roots = np.asarray(errors, dtype=np.float64) ** (1 / (self._power + 1))
        return np.asarray(roots / roots.sum())

    def total(self, errors: Floats) -> float:
        """The smallest sum of errors_j * variance(c_j): (sum errors^(1/2))^2, or (sum errors^(1/3))^3."""
        degree = self._power + 1
        return float(np.sum(np.asarray(errors, dtype=np.float64) ** (1 / degree)) ** degree)

    @property
    def _power(self) -> int:
        return 1 if self is NoiseKind.GAUSSIAN else 2


def unit_variance(noise: NoiseKind, budget: Fraction) -> float:
    """P: the least variance of exact integer noise that costs the whole budget, rho or epsilon, at sensitivity one.

    Laplace noise on integers has variance 2a / (1 - a)^2 with a = exp(-epsilon), below the 2 / epsilon^2 of continuous
    noise; on finer grids, and with smaller shares of the budget, it approaches that from below. So does Gaussian noise.
    A variance below the range of floats is returned as 0, one above as infinity.

    >>> unit_variance(NoiseKind.GAUSSIAN, Fraction(1, 50)), round(unit_variance(NoiseKind.LAPLACE, Fraction(1)), 3)
    (25.0, 1.841)
    """
    if noise is NoiseKind.LAPLACE:
        rate = float(budget)
        squared = math.expm1(-rate) ** 2
        return 2 * math.exp(-rate) / squared if squared else math.inf
    variance = 1 / (2 * budget)
    stddev = DiscreteGaussian(variance).stddev if variance >= SMALLEST_SCALE**2 else 0.0
    return stddev**2 if stddev > LEAST_STDDEV else 0.0


SHARE_BITS = 48  # significant bits of a share of the budget


def split_exactly(
    weights: Floats,  # (shares,), their sum about the budget or below
    budget: Fraction,
) -> list[Fraction]:
    """One binary fraction per weight, each within 2^-46 of its weight, that add up to at most the budget.

    >>> sum(split_exactly(np.array([0.1, 0.2, 0.7]), Fraction(1))) <= 1
    True
    """
    if not (np.isfinite(weights).all() and float(budget) > 1e-100):
        raise BudgetError(
            f"a budget of {float(budget):g} cannot be shared out: it is too small, or a share is not finite"
        )
    scaled = weights * (float(budget) / max(math.fsum(weights), float(budget)) * (1 - 2.0**-47))
    # Round each distinct weight down to SHARE_BITS significant bits.
    known: dict[float, Fraction] = {}
    for weight in set(scaled.tolist()):
        mantissa, exponent = math.frexp(weight)
        known[weight] = math.floor(math.ldexp(mantissa, SHARE_BITS)) * Fraction(2) ** (exponent - SHARE_BITS)
    shares = [known[weight] for weight in scaled.tolist()]
    if sum_binary(shares) > budget or min(known.values()) <= 0:
        raise BudgetError(f"a budget of {float(budget)!r} is too small to be split into {len(shares)} shares")
    return shares


def sum_binary(values: list[Fraction]) -> Fraction:
    """The exact sum of fractions whose denominators are powers of two."""
    bits = max((value.denominator.bit_length() for value in values), default=1)
    return Fraction(
        sum(value.numerator << (bits - value.denominator.bit_length()) for value in values), 1 << (bits - 1)
    )


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
        """The largest variance of a query, whatever the weights."""


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

    def law_counts(self) -> Counter[tuple[RowNorms, Noise]]:
        """How many requests share each pair of row norms and noise law."""

    def costing(self, cost: Fraction) -> Self:
        """The same queries with the noise of another cost."""

    def errors(self, workload: Workload) -> PredictedErrors:
        """The errors of a workload."""

    def variance(self, clique: Iterable[str]) -> float:
        """The variance of each cell of a marginal, or their mean where they differ."""

    def term_variances(self, term: Term) -> Floats:
        """The variance of every query of a term, one axis per attribute."""

    def claim(self, loss: str, comparison: Callable[[], str]) -> str:
        """How good the error is, in words; `comparison` adds its ratio to the lower bound if it may not be optimal."""

    def check(self, workload: Workload) -> None:
        """Refuse a strategy that cannot be measured exactly or does not support the workload."""

    def inconsistency(self, workload: Workload) -> str | None:
        """Explain why a strategy from a file does not belong to a workload; None where it does."""
