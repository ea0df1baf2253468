"""Sampling laws: how random search draws a setting, with the laws and domains of the document.

A law draws until the number is within its own range, which may exceed that of the space.

Reference: [DPareto, Tables 3.1 to 3.3].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from hush.core.errors import SearchError
from hush.core.validation import is_number
from hush.pareto.space import IntegerSetting, RealSetting, Settings, Space

MOST_DRAWS = 10_000


class Law(Protocol):
    """A distribution of one setting."""

    def draw(self, generator: np.random.Generator) -> float:
        """One number."""


def _check_law(law: object, low: float, high: float, spread: float = 1.0) -> None:
    if not (is_number(low) and is_number(high) and low < high and is_number(spread) and spread > 0):
        raise SearchError(f"{law!r}: expected numbers, low below high, and a deviation or rate above 0")


@dataclass(frozen=True, slots=True)
class UniformLaw:
    """Evenly from `low` to `high`."""

    low: float
    high: float

    def __post_init__(self) -> None:
        _check_law(self, self.low, self.high)

    def draw(self, generator: np.random.Generator) -> float:
        return float(generator.uniform(self.low, self.high))


@dataclass(frozen=True, slots=True)
class NormalLaw:
    """Normal(mean, deviation^2) within a range."""

    mean: float
    deviation: float
    low: float
    high: float

    def __post_init__(self) -> None:
        _check_law(self, self.low, self.high, self.deviation)

    def draw(self, generator: np.random.Generator) -> float:
        return _within(self.low, self.high, lambda: float(generator.normal(self.mean, self.deviation)))


@dataclass(frozen=True, slots=True)
class ExponentialLaw:
    """`low` plus an exponential number of this rate, at most `high`."""

    rate: float
    low: float
    high: float

    def __post_init__(self) -> None:
        _check_law(self, self.low, self.high, self.rate)

    def draw(self, generator: np.random.Generator) -> float:
        return _within(self.low, self.high, lambda: self.low + float(generator.exponential(1 / self.rate)))


def draw_settings(space: Space, laws: Mapping[str, Law], generator: np.random.Generator) -> Settings:
    """Settings by their laws; those without one evenly over their scale. Whole numbers are rounded."""
    drawn: Settings = {}
    for setting in space:
        law = laws.get(setting.name)
        if law is None:
            drawn[setting.name] = setting.values_at(generator.random(1))[0]
        else:
            number = law.draw(generator)
            drawn[setting.name] = round(number) if isinstance(setting, IntegerSetting) else number
    return drawn


def adult_space() -> Space:
    """The domain for the Adult data, on linear scales; `noise` is the noise multiplier, a standard deviation."""
    return Space(
        [
            IntegerSetting("epochs", 1, 64),
            IntegerSetting("lot", 8, 512),
            RealSetting("learning_rate", 5e-4, 5e-2),
            RealSetting("noise", 0.1, 16.0),
            RealSetting("clip", 0.1, 4.0),
        ]
    )


def mnist_space() -> Space:
    """The domain for MNIST, on linear scales."""
    return Space(
        [
            IntegerSetting("epochs", 1, 400),
            IntegerSetting("lot", 16, 4000),
            RealSetting("learning_rate", 1e-3, 0.5),
            RealSetting("noise", 0.1, 16.0),
            RealSetting("clip", 0.1, 12.0),
        ]
    )


ADULT_LAWS: Mapping[str, Law] = {
    "epochs": UniformLaw(1, 64),
    "lot": NormalLaw(128, 64, 8, 512),
    "learning_rate": ExponentialLaw(10, 1e-3, 1e-1),
    "noise": ExponentialLaw(0.1, 0.1, 16),
    "clip": ExponentialLaw(0.1, 0.1, 4),
}
MNIST_LAWS: Mapping[str, Law] = {
    "epochs": UniformLaw(1, 400),
    "lot": NormalLaw(800, 800, 16, 4000),
    "learning_rate": ExponentialLaw(10, 1e-3, 0.5),
    "noise": ExponentialLaw(0.5, 0.1, 16),
    "clip": ExponentialLaw(0.5, 0.1, 12),
}


def _within(low: float, high: float, draw: Callable[[], float]) -> float:
    for _ in range(MOST_DRAWS):
        number = draw()
        if low <= number <= high:
            return number
    raise SearchError(f"the law hardly ever draws a number from {low:g} to {high:g}; widen the range")
