"""Noise laws: exact discrete Gaussian and discrete Laplace, each of which states its own privacy cost.

A law is public configuration. `event(sensitivity)` is the cost of using it and `sample` draws from it; only the gate
adds the draws to private numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from numbers import Rational, Real
from typing import Any, ClassVar, Literal, Protocol

import numpy as np

from hush.core.arrays import Integers
from hush.core.errors import BudgetError, shown
from hush.core.rational import shown_up
from hush.core.validation import check_number
from hush.privacy.budget import Budget
from hush.privacy.events import Event, GaussianEvent, LaplaceEvent
from hush.privacy.exact_sampling import Entropy, envelope
from hush.privacy.gaussian_domination import half_mu_squared
from hush.privacy.sensitivity import Sensitivity

LARGEST_SCALE = 2**44  # keeps every sample far inside int64
SMALLEST_SCALE = Fraction(1, 64)
MOST_TABLES = 2**20  # that may share a budget; a budget that so many tables cannot spend is a mistake
LEAST_STDDEV = 1e-30  # floor for noise that is practically always 0, so that 1 / variance stays finite


class Noise(Protocol):
    """A law of integer noise: its standard deviation, its cost at a sensitivity, and independent draws."""

    @property
    def name(self) -> Literal["gaussian", "laplace"]: ...
    @property
    def stddev(self) -> float: ...
    def event(self, sensitivity: Sensitivity) -> Event: ...
    def sample(self, shape: int | tuple[int, ...], entropy: Entropy) -> Integers: ...
    def pmf(self, values: Any) -> np.ndarray[Any, np.dtype[np.float64]]: ...


@dataclass(frozen=True, slots=True)
class DiscreteGaussian:
    """P(y) proportional to exp(-y^2 / (2 sigma^2)) on the integers, with sigma^2 = `variance_parameter` rational.

    Privacy: on integers of L2 sensitivity Delta it is Delta^2 / (2 sigma^2)-zCDP.
    Reference: [CKS20, Def. 1 and Thm 4].
    """

    name: ClassVar[Literal["gaussian"]] = "gaussian"
    variance_parameter: Fraction

    def __post_init__(self) -> None:
        _require_scale(self.variance_parameter, SMALLEST_SCALE**2, LARGEST_SCALE**2, "variance")

    @classmethod
    def of_scale(cls, sigma: Real | Decimal) -> DiscreteGaussian:
        """The law at sigma, a float, integer or rational, which is used exactly."""
        return cls(_exact_scale("sigma", sigma) ** 2)

    @classmethod
    def for_rho(cls, rho: float | Fraction, sensitivity: Sensitivity) -> DiscreteGaussian:
        """The least noise, up to 2^-40, whose cost on this sensitivity is at most rho."""
        check_number(BudgetError, "rho", rho, above=0)
        return cls(_round_up(sensitivity.l2_squared / (2 * Fraction(rho))))

    @classmethod
    def for_half_mu_squared(cls, amount: Fraction, sensitivity: Sensitivity) -> DiscreteGaussian:
        """The least noise, up to 2^-40, whose cost in Gaussian DP on this sensitivity is at most mu^2/2 = `amount`."""
        check_number(BudgetError, "amount", amount, above=0)
        least = float(sensitivity.l2_squared / (2 * Fraction(amount)))  # of continuous noise; discrete noise needs more
        low, high = least, 4 * least + 1
        while high - low > 2.0**-42 * high:
            middle = (low + high) / 2
            excess = min((11 / 240 if middle >= 1 else 1 / 15) / middle, 1.0)
            low, high = (middle, high) if least * (1 + excess) ** 2 > middle else (low, middle)
        variance = _round_up(Fraction(high))
        while half_mu_squared(variance, sensitivity.l2_squared) > amount:  # once or twice: floats are rounded
            variance = _round_up(variance * (1 + Fraction(1, 2**42)))
        return cls(variance)

    @property
    def stddev(self) -> float:
        """The standard deviation of a draw, at least 1e-30; for small sigma it is below sigma.

        A draw differs from zero with probability about 2 exp(-1 / (2 sigma^2)): below 1e-60 for sigma < 0.06, and soon
        below the least float.
        """
        if self.variance_parameter >= 16:  # the difference is below 1e-100
            return math.sqrt(self.variance_parameter)
        y = np.arange(-64, 65)
        return max(float(np.sqrt(np.sum(self.pmf(y) * y**2))), LEAST_STDDEV)

    def event(self, sensitivity: Sensitivity) -> Event:
        return GaussianEvent(self.variance_parameter, sensitivity.l2_squared, sensitivity.single_cell)

    def sample(self, shape: int | tuple[int, ...], entropy: Entropy) -> Integers:
        return envelope(1 / (2 * self.variance_parameter), True).sample(int(np.prod(shape)), entropy).reshape(shape)

    def pmf(self, values: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Probabilities, for tests and error bars."""
        s2 = float(self.variance_parameter)
        reach = math.ceil(40 * math.sqrt(s2)) + 2
        total = (
            math.sqrt(2 * math.pi * s2)
            if s2 >= 16
            else float(np.exp(-(np.arange(-reach, reach + 1.0) ** 2) / (2 * s2)).sum())
        )
        return np.asarray(np.exp(-(np.asarray(values, dtype=np.float64) ** 2) / (2 * s2)) / total)


@dataclass(frozen=True, slots=True)
class DiscreteLaplace:
    """P(y) = tanh(1/(2 scale)) exp(-|y| / scale) on the integers, with a rational scale.

    Privacy: on integers of L1 sensitivity Delta it is (Delta / scale)-DP.
    Reference: [GRS09]; [CKS20, sec. 5.2].
    """

    name: ClassVar[Literal["laplace"]] = "laplace"
    scale: Fraction

    def __post_init__(self) -> None:
        _require_scale(self.scale, SMALLEST_SCALE, LARGEST_SCALE // 64, "scale")

    @classmethod
    def of_scale(cls, scale: Real | Decimal) -> DiscreteLaplace:
        """The law at a scale, a float, integer or rational, which is used exactly."""
        return cls(_exact_scale("scale", scale))

    @classmethod
    def for_epsilon(cls, epsilon: float | Fraction, sensitivity: Sensitivity) -> DiscreteLaplace:
        """The least noise, up to 2^-40, whose cost on this sensitivity is at most epsilon."""
        check_number(BudgetError, "epsilon", epsilon, above=0)
        return cls(_round_up(sensitivity.l1 / Fraction(epsilon)))

    @property
    def stddev(self) -> float:
        """Standard deviation of a draw: sqrt(2 a) / (1 - a) with a = exp(-1/scale)."""
        rate = 1 / float(self.scale)
        return math.sqrt(2 * math.exp(-rate)) / -math.expm1(-rate)

    def event(self, sensitivity: Sensitivity) -> Event:
        return LaplaceEvent(self.scale, sensitivity.l1)

    def sample(self, shape: int | tuple[int, ...], entropy: Entropy) -> Integers:
        return envelope(1 / self.scale, False).sample(int(np.prod(shape)), entropy).reshape(shape)

    def pmf(self, values: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Probabilities, for tests and error bars."""
        rate = 1 / float(self.scale)
        return np.asarray(math.tanh(rate / 2) * np.exp(-rate * np.abs(np.asarray(values, dtype=np.float64))))


def _exact_scale(name: str, value: Real | Decimal) -> Fraction:
    """A scale above 0 as an exact fraction."""
    if isinstance(value, Decimal):
        exact = Fraction(value) if value.is_finite() else Fraction(0)
    elif isinstance(value, Rational) and not isinstance(value, bool):  # of any size; `_require_scale` limits it
        exact = Fraction(value)
    else:
        exact = Fraction(check_number(BudgetError, name, value, above=0, hint="; no noise means no privacy"))
    if exact <= 0:
        raise BudgetError(f"{name}={shown(value)}: expected a number above 0; no noise means no privacy")
    return exact


def _round_up(value: Fraction) -> Fraction:
    """A rational with a short denominator, at or above the value by at most 2^-40 of it."""
    shift = 41 - (value.numerator.bit_length() - value.denominator.bit_length())
    scaled = value * Fraction(2) ** shift
    return Fraction(math.ceil(scaled)) / Fraction(2) ** shift


def _require_scale(value: Fraction, least: Fraction, most: Fraction | int, name: str) -> None:
    if not isinstance(value, Fraction):
        raise BudgetError(f"{name}={shown(value)}: expected a Fraction; use of_scale for other numbers")
    if value <= 0:
        raise BudgetError(f"noise {name}={shown_up(value)}: expected a number above 0; no noise means no privacy")
    if value < least:
        raise BudgetError(
            f"noise {name}={shown_up(value)} is below {float(least):g}: the budget is too large to mean anything"
        )
    if value > most:
        raise BudgetError(
            f"noise {name}={shown_up(value)} is above {float(most):g}: the budget is too small to be of use"
        )


def law_costing(amount: Fraction, budget: Budget, sensitivity: Sensitivity) -> DiscreteGaussian | DiscreteLaplace:
    """The least noise that costs at most an amount in the unit of a budget; never below the smallest scale.

    Laplace noise under a pure budget, Gaussian noise under any other.
    """
    if budget.pure:
        return DiscreteLaplace.for_epsilon(min(amount, sensitivity.l1 / SMALLEST_SCALE), sensitivity)
    amount = min(amount, sensitivity.l2_squared / (2 * SMALLEST_SCALE**2))
    return (DiscreteGaussian.for_half_mu_squared if budget.approximate else DiscreteGaussian.for_rho)(
        amount, sensitivity
    )


def check_drawable(budget: Budget, sensitivity: Sensitivity) -> None:
    """Refuse a budget too small for one table, whose noise would be too large, or too large for `MOST_TABLES` to spend.

    >>> from hush.privacy.sensitivity import Neighbours, ONE_CELL, sensitivity
    >>> check_drawable(Budget(rho=0.5), sensitivity(ONE_CELL, max_rows=1, neighbours=Neighbours.ADD_REMOVE))
    """
    scale_squared = (sensitivity.l1 / budget.limit) ** 2 if budget.pure else sensitivity.l2_squared / (2 * budget.limit)
    tables = MOST_TABLES**2 if budget.pure else MOST_TABLES
    if scale_squared > (LARGEST_SCALE // 64 if budget.pure else LARGEST_SCALE) ** 2:
        raise BudgetError(
            f"{budget}: too small to be of use, since the noise of a single table would be too large; raise it"
        )
    if scale_squared * tables < SMALLEST_SCALE**2:
        raise BudgetError(f"{budget}: too large to mean anything, since a million tables could not spend it; lower it")
