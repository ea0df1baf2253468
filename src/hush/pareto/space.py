"""Search space: the settings that a search may choose, each with its range and scale, and laws to draw them at random.

A point of the space is a row of numbers between 0 and 1, one for each setting. A model sees its features, in which a
choice has one column for each of its values.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np

from hush.core.arrays import Floats, Integers
from hush.core.errors import SearchError, shown
from hush.core.validation import check_number, check_whole, is_number

Settings: TypeAlias = dict[str, Any]
LARGEST_GRID = 1_000_000  # points


@dataclass(frozen=True, slots=True)
class _NumberSetting:
    """A number from `low` to `high`."""

    name: str
    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        _check_name(self.name)
        if not (is_number(self.low) and is_number(self.high) and self.low < self.high):
            raise SearchError(
                f"{self.name} from {shown(self.low)} to {shown(self.high)}: expected two numbers, the lower first"
            )
        if self.log and self.low <= 0:
            raise SearchError(f"{self.name} from {self.low!r} on a log scale: expected a lower bound above 0")

    @property
    def _ends(self) -> tuple[float, float]:
        """The numbers at the places 0 and 1."""
        return float(self.low), float(self.high)

    def _scaled(self, numbers: Floats | float) -> Floats:
        """The places of numbers."""
        a, b = np.log(self._ends) if self.log else self._ends
        return np.asarray(((np.log(numbers) if self.log else numbers) - a) / (b - a))

    def _unscaled(self, places: Floats) -> Floats:
        """The numbers at places from 0 to 1."""
        a, b = np.log(self._ends) if self.log else self._ends
        numbers = a + (b - a) * places
        return np.asarray(np.exp(numbers) if self.log else numbers)

    def place(self, value: Any) -> float:
        """The place of a number, from 0 to 1; a whole number is in the middle of its share."""
        return float(self._scaled(check_number(SearchError, self.name, value, least=self.low, most=self.high)))


@dataclass(frozen=True, slots=True)
class RealSetting(_NumberSetting):
    """A number from `low` to `high`; with `log`, on a logarithmic scale."""

    def values_at(self, places: Floats) -> list[float]:
        """The numbers at places from 0 to 1."""
        numbers: list[float] = np.clip(self._unscaled(places), self.low, self.high).tolist()
        return numbers

    def features(self, places: Floats) -> Floats:
        """The places as a column, for a model."""
        return places[:, None]

    def grid(self, count: int) -> list[float]:
        """Values at equal distances on the scale of the setting."""
        return self.values_at(_even(count))


@dataclass(frozen=True, slots=True)
class IntegerSetting(_NumberSetting):
    """A whole number from `low` to `high`, both included."""

    low: int
    high: int

    def __post_init__(self) -> None:
        _NumberSetting.__post_init__(self)
        if int(self.low) != self.low or int(self.high) != self.high:
            raise SearchError(f"{self.name} from {self.low!r} to {self.high!r}: expected whole numbers")

    @property
    def _ends(self) -> tuple[float, float]:
        return max(self.low - 0.5, 0.5) if self.log else self.low - 0.5, self.high + 0.5

    def values_at(self, places: Floats) -> list[int]:
        """The numbers at places; every number has the same share of a linear scale."""
        numbers: list[int] = self._rounded(places).astype(np.int64).tolist()
        return numbers

    def features(self, places: Floats) -> Floats:
        """The places of the rounded numbers, so that points with equal numbers have equal features."""
        return self._scaled(self._rounded(places))[:, None]

    def _rounded(self, places: Floats) -> Floats:
        return np.clip(np.rint(self._unscaled(places)), self.low, self.high)

    def grid(self, count: int) -> list[int]:
        """Whole numbers at about equal distances, without repeats."""
        first, last = self.place(self.low), self.place(self.high)
        return list(dict.fromkeys(self.values_at(first + (last - first) * _even(count))))


@dataclass(frozen=True, slots=True)
class ChoiceSetting:
    """One of several values without an order."""

    name: str
    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        _check_name(self.name)
        if not isinstance(self.values, Sequence) or isinstance(self.values, str):
            raise SearchError(f"{self.name}={shown(self.values)}: expected a list of values to choose from")
        object.__setattr__(self, "values", tuple(self.values))
        if not self.values or len(set(map(repr, self.values))) < len(self.values):
            raise SearchError(f"{self.name}={shown(self.values)}: expected values to choose from, without repeats")

    def values_at(self, places: Floats) -> list[Any]:
        """The values at places."""
        return [self.values[index] for index in self._indices(places)]

    def place(self, value: Any) -> float:
        """The place of a value."""
        if value not in self.values:
            raise SearchError(f"{self.name}={shown(value)}: expected one of {shown(self.values)}")
        return (self.values.index(value) + 0.5) / len(self.values)

    def features(self, places: Floats) -> Floats:
        """One column for each value, with a 1 for the chosen one."""
        return np.eye(len(self.values))[self._indices(places)]

    def _indices(self, places: Floats) -> Integers:
        return np.minimum((places * len(self.values)).astype(np.int64), len(self.values) - 1)

    def grid(self, count: int) -> list[Any]:
        """Every value, whatever `count` is."""
        return list(self.values)


Setting: TypeAlias = RealSetting | IntegerSetting | ChoiceSetting


class Space:
    """Settings that a search chooses together.

    >>> space = Space([RealSetting("noise", 0.01, 100, log=True), IntegerSetting("cap", 1, 30)])
    >>> space.settings_at(np.array([[1.0, 0.0]]))
    [{'noise': 100.0, 'cap': 1}]
    >>> len(space.grid(3)), space.grid(3)[-1]
    (9, {'noise': 100.0, 'cap': 30})
    """

    def __init__(self, settings: Sequence[Setting]) -> None:
        self.settings = tuple(settings) if isinstance(settings, Sequence) else (settings,)
        if not self.settings:
            raise SearchError(
                "the search space is empty; give at least one setting, such as RealSetting('noise', 1, 9)"
            )
        for setting in self.settings:
            if not isinstance(setting, RealSetting | IntegerSetting | ChoiceSetting):
                raise SearchError(f"setting {shown(setting)}: expected a RealSetting, IntegerSetting or ChoiceSetting")
        if len(set(self.names)) < len(self.names):
            raise SearchError(f"settings {', '.join(self.names)}: expected each name once")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the settings."""
        return tuple(setting.name for setting in self.settings)

    def __len__(self) -> int:
        return len(self.settings)

    def __iter__(self) -> Iterator[Setting]:
        return iter(self.settings)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Space) and self.settings == other.settings

    def __hash__(self) -> int:
        return hash(self.names)

    def settings_at(self, points: Floats) -> list[Settings]:
        """The settings at (n, settings) points."""
        columns = [setting.values_at(points[:, index]) for index, setting in enumerate(self.settings)]
        return [dict(zip(self.names, row, strict=True)) for row in zip(*columns, strict=True)]

    def places_of(self, settings: Mapping[str, Any]) -> Floats:
        """The point at which settings lie; names and values outside the space are refused."""
        if set(settings) != set(self.names):
            raise SearchError(f"settings {shown(sorted(settings))}: expected {', '.join(self.names)}")
        return np.array([setting.place(settings[setting.name]) for setting in self.settings])

    def features(self, points: Floats) -> Floats:
        """The features of points, for a model: (n, settings) -> (n, features)."""
        return np.concatenate([s.features(points[:, i]) for i, s in enumerate(self.settings)], axis=1)

    def draw(self, count: int, generator: np.random.Generator) -> Floats:
        """A Latin hypercube: `count` points, one in each of `count` slices along every setting."""
        slices = np.array([generator.permutation(count) for _ in self.settings], dtype=np.float64).T
        return (slices.reshape(count, len(self)) + generator.random((count, len(self)))) / max(count, 1)

    def grid(self, count: int) -> list[Settings]:
        """All combinations of at most `count` values of each setting; every value of a choice."""
        count = check_whole(SearchError, "values", count, least=1)
        axes = [setting.grid(count) for setting in self.settings]
        if (points := math.prod(map(len, axes))) > LARGEST_GRID:
            raise SearchError(f"a grid of {points:,} points: expected at most {LARGEST_GRID:,}; use fewer values")
        return [dict(zip(self.names, values, strict=True)) for values in itertools.product(*axes)]


def _even(count: int) -> Floats:
    return np.linspace(0.0, 1.0, count) if count > 1 else np.array([0.5])


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name:
        raise SearchError(f"a setting named {shown(name)}: expected a text, such as 'noise'")


class Law(Protocol):
    """The distribution from which random search draws one setting."""

    def draw(self, generator: np.random.Generator) -> float:
        """One number."""


@dataclass(frozen=True, slots=True)
class UniformLaw:
    """Uniform from `low` to `high`."""

    low: float
    high: float

    def __post_init__(self) -> None:
        _check_law(self, self.low, self.high)

    def draw(self, generator: np.random.Generator) -> float:
        return float(generator.uniform(self.low, self.high))


@dataclass(frozen=True, slots=True)
class NormalLaw:
    """Normal(mean, deviation^2), drawn again until it is from `low` to `high`."""

    mean: float
    deviation: float
    low: float
    high: float

    def __post_init__(self) -> None:
        _check_law(self, self.low, self.high, self.deviation)

    def draw(self, generator: np.random.Generator) -> float:
        return _draw_within(self.low, self.high, lambda: float(generator.normal(self.mean, self.deviation)))


@dataclass(frozen=True, slots=True)
class ExponentialLaw:
    """`low` plus an exponential number of this rate, drawn again until it is at most `high`."""

    rate: float
    low: float
    high: float

    def __post_init__(self) -> None:
        _check_law(self, self.low, self.high, self.rate)

    def draw(self, generator: np.random.Generator) -> float:
        return _draw_within(self.low, self.high, lambda: self.low + float(generator.exponential(1 / self.rate)))


def draw_settings(space: Space, laws: Mapping[str, Law], generator: np.random.Generator) -> Settings:
    """Settings drawn by their laws, or uniformly on their scale without a law; whole numbers are rounded.

    The range of a law may exceed that of the space.
    """
    drawn: Settings = {}
    for setting in space:
        law = laws.get(setting.name)
        if law is None:
            drawn[setting.name] = setting.values_at(generator.random(1))[0]
        else:
            number = law.draw(generator)
            drawn[setting.name] = round(number) if isinstance(setting, IntegerSetting) else number
    return drawn


def _check_law(law: object, low: float, high: float, spread: float = 1.0) -> None:
    if not (is_number(low) and is_number(high) and low < high and is_number(spread) and spread > 0):
        raise SearchError(f"{law!r}: expected numbers, low below high, and a deviation or rate above 0")


def _draw_within(low: float, high: float, draw: Callable[[], float]) -> float:
    for _ in range(10_000):
        number = draw()
        if low <= number <= high:
            return number
    raise SearchError(f"the law hardly ever draws a number from {low:g} to {high:g}; widen the range")
