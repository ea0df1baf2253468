"""Axis: a scale from values to places on the page, with round marks."""

from __future__ import annotations

import math
from dataclasses import dataclass

ROOM = 0.02
STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A linear scale: `low` is drawn at `start`, `high` at `stop`; zero is always on it."""

    low: float
    high: float
    start: float
    stop: float
    ticks: tuple[float, ...]

    @classmethod
    def over(cls, low: float, high: float, *, start: float, stop: float, marks: int = 4) -> Axis:
        """A scale that holds zero and both values with a little room, and about `marks` round marks on it.

        >>> axis = Axis.over(-3, 87, start=0, stop=100)
        >>> axis.ticks, round(axis.high, 2)
        ((0.0, 25.0, 50.0, 75.0), 88.8)
        """
        bottom, top = min(low, 0.0), max(high, 0.0)
        if not (math.isfinite(bottom) and math.isfinite(top) and bottom < top):
            bottom, top = 0.0, 1.0
        room = ROOM * (top - bottom)
        bottom, top = (bottom - room if bottom < 0 else bottom), (top + room if top > 0 else top)
        step = _round_step((top - bottom) / marks)
        ticks = tuple(step * place for place in range(math.ceil(bottom / step), math.floor(top / step) + 1))
        return cls(low=bottom, high=top, start=start, stop=stop, ticks=ticks)

    def __call__(self, value: float) -> float:
        """Where a value is drawn."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.stop - self.start)


def _round_step(size: float) -> float:
    """The smallest of 1, 2, 2.5, 5 times a power of ten that is at least `size`."""
    power = 10.0 ** math.floor(math.log10(size))
    return next(power * step for step in STEPS if power * step >= size * (1 - 1e-9))
