"""LinearAnswers: the noisy integers of every part of a linear strategy, kept as they are taken."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hush.errors import DataError, SizeError
from hush.memory import available_memory, readable
from hush.strategies.linear import LinearStrategy
from hush.strategies.part import Part

Floats = np.ndarray[Any, np.dtype[np.float64]]
Integers = np.ndarray[Any, np.dtype[np.int64]]


class LinearAnswers:
    """One array of integers per part, in the order of the strategy's parts; None where not measured."""

    def __init__(self, strategy: LinearStrategy) -> None:
        needed, free = 8 * strategy.numbers, available_memory()
        if needed > 0.8 * free:
            raise SizeError(
                f"the noisy answers take {readable(needed)}, more than the {readable(0.8 * free)} that can be had; "
                "drop an attribute, use wider bins or ask for fewer attributes at once"
            )
        self.strategy = strategy
        self.values: list[Integers | None] = [None] * len(strategy.parts)

    def __setitem__(self, index: int, values: Any) -> None:
        array, shape = np.asarray(values), self.strategy.parts[index].query.shape
        if array.dtype.kind != "i" or math.prod(array.shape) != math.prod(shape):
            raise DataError(
                f"answers of part {index}: expected integers of shape {shape}, got {array.dtype} of {array.shape}"
            )
        self.values[index] = array.reshape(shape).astype(np.int64, copy=False)

    @property
    def filled(self) -> list[Part]:
        """The parts whose answers are there."""
        return [part for part, own in zip(self.strategy.parts, self.values, strict=True) if own is not None]

    def integers(self, part: Part) -> Integers:
        """The answers of a part as they were taken."""
        own = self.values[self.strategy.parts.index(part)]
        if own is None:
            raise DataError(f"the answers over {part.clique!r} are missing; load the whole release")
        return own

    def of(self, part: Part) -> Floats:
        """The answers of a part over the scale of its integers."""
        return self.integers(part) / part.query.scale
