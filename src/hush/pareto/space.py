"""Search space: the settings of a mechanism that may be chosen, each with its range and its scale.

A point of the space is a row of numbers between 0 and 1, one for each setting; a model sees its features, in which a
choice takes one column for each of its values.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from hush.core.arrays import Floats, Integers
from hush.core.errors import SearchError, shown
from hush.core.validation import is_number

Settings: TypeAlias = dict[str, Any]
MOST_GRID = 1_000_000


@dataclass(frozen=True, slots=True)
class RealSetting:
    """A number from `low` to `high`; with `log`, equal ratios are equally far apart."""

    name: str
    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        _check_range(self)

    def values_at(self, places: Floats) -> list[float]:
        """The numbers at places from 0 to 1."""
        a, b = self._ends
        values = a + (b - a) * places
        numbers: list[float] = np.clip(np.exp(values) if self.log else values, self.low, self.high).tolist()
        return numbers

    def place(self, value: Any) -> float:
        """Where a number lies, from 0 to 1."""
        return _place(self, value)

    def features(self, places: Floats) -> Floats:
        """What a model sees."""
        return places[:, None]

    def grid(self, count: int) -> list[float]:
        """Values at equal distances on the scale of the setting."""
        return self.values_at(_even(count))

    @property
    def _ends(self) -> tuple[float, float]:
        return (math.log(self.low), math.log(self.high)) if self.log else (float(self.low), float(self.high))


@dataclass(frozen=True, slots=True)
class IntegerSetting:
    """A whole number from `low` to `high`, both included."""

    name: str
    low: int
    high: int
    log: bool = False

    def __post_init__(self) -> None:
        _check_range(self)
        if int(self.low) != self.low or int(self.high) != self.high:
            raise SearchError(f"{self.name} from {self.low!r} to {self.high!r}: expected whole numbers")

    def values_at(self, places: Floats) -> list[int]:
        """The numbers at places; every number has the same share of a linear scale."""
        numbers: list[int] = self._rounded(places).astype(np.int64).tolist()
        return numbers

    def place(self, value: Any) -> float:
        """The place of a number, in the middle of its share."""
        return _place(self, value)

    def features(self, places: Floats) -> Floats:
        """The place of the rounded number, so that a model knows which points are the same."""
        (a, b), numbers = self._ends, self._rounded(places)
        return np.asarray((((np.log(numbers) if self.log else numbers) - a) / (b - a))[:, None])

    def _rounded(self, places: Floats) -> Floats:
        a, b = self._ends
        values = a + (b - a) * places
        return np.clip(np.rint(np.exp(values) if self.log else values), self.low, self.high)

    def grid(self, count: int) -> list[int]:
        """Whole numbers at about equal distances, each once."""
        first, last = self.place(self.low), self.place(self.high)
        return list(dict.fromkeys(self.values_at(first + (last - first) * _even(count))))

    @property
    def _ends(self) -> tuple[float, float]:
        if self.log:
            return math.log(max(self.low - 0.5, 0.5)), math.log(self.high + 0.5)
        return self.low - 0.5, self.high + 0.5


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
            raise SearchError(f"{self.name}={shown(self.values)}: expected values to choose from, each once")

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
        """Every value, however many are asked for."""
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
            raise SearchError(f"settings {', '.join(self.names)}: every name may appear once")

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
        """The point of some settings; refuses names and values outside the space."""
        if set(settings) != set(self.names):
            raise SearchError(f"settings {shown(sorted(settings))}: expected {', '.join(self.names)}")
        return np.array([setting.place(settings[setting.name]) for setting in self.settings])

    def features(self, points: Floats) -> Floats:
        """What a model sees of points: (n, settings) -> (n, features)."""
        return np.concatenate([s.features(points[:, i]) for i, s in enumerate(self.settings)], axis=1)

    def draw(self, count: int, generator: np.random.Generator) -> Floats:
        """Points with one in each of `count` slices along every setting (a Latin hypercube)."""
        slices = np.array([generator.permutation(count) for _ in self.settings], dtype=np.float64).T
        return (slices.reshape(count, len(self)) + generator.random((count, len(self)))) / max(count, 1)

    def grid(self, count: int) -> list[Settings]:
        """All combinations of at most `count` values of each setting; every value of a choice."""
        if not isinstance(count, int) or count < 1:
            raise SearchError(f"values={shown(count)} of each setting: expected a whole number of at least 1")
        axes = [setting.grid(count) for setting in self.settings]
        if math.prod(map(len, axes)) > MOST_GRID:
            raise SearchError(
                f"a grid of {math.prod(map(len, axes)):,} points is above {MOST_GRID:,}; take fewer values"
            )
        return [dict(zip(self.names, values, strict=True)) for values in itertools.product(*axes)]


def _even(count: int) -> Floats:
    return np.linspace(0.0, 1.0, count) if count > 1 else np.array([0.5])


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name:
        raise SearchError(f"a setting named {shown(name)}: expected a text, such as 'noise'")


def _check_range(setting: RealSetting | IntegerSetting) -> None:
    name, low, high = setting.name, setting.low, setting.high
    _check_name(name)
    if not (is_number(low) and is_number(high) and low < high):
        raise SearchError(f"{name} from {shown(low)} to {shown(high)}: expected numbers, the lower one first")
    if setting.log and low <= 0:
        raise SearchError(f"{name} from {low!r} on a log scale: expected a lower bound above 0")


def _place(setting: RealSetting | IntegerSetting, value: Any) -> float:
    """Where a number lies between the ends of a setting, from 0 to 1; refused outside."""
    if not (is_number(value) and setting.low <= value <= setting.high):
        raise SearchError(f"{setting.name}={shown(value)}: expected a number from {setting.low} to {setting.high}")
    a, b = setting._ends
    return ((math.log(value) if setting.log else float(value)) - a) / (b - a)
