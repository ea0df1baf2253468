"""Sums of the values of a column, as integers: the grid that values are rounded to, and the query for the gate.

A value v of a row becomes u = round((f(v) - centre) / unit), an integer between -steps and steps, whatever the value
is and however its arithmetic rounds. The sum of the values over n rows is then unit * sum(u) + n * centre; sum(u) is
measured here, and n is a count. `f` is the value, or the square of its distance from an origin; centring halves the
sensitivity. Values are clamped to the ends of the grid before anything is computed from them, so that no arithmetic
overflows: an engine that failed on one huge value would reveal that its row exists.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hush.core.domain import Clique
from hush.core.errors import BudgetError
from hush.core.validation import check_whole
from hush.privacy.sensitivity import ONE_CELL, RowNorms

MOST_STEPS = 2**24  # keeps sums over 2^37 rows far inside int64


@dataclass(frozen=True, slots=True)
class ValueGrid:
    """Turns the values of a column into integers from -steps to steps: u = round((f(v) - centre) / unit).

    f(v) = v with `power` 1, (v - origin)^2 with `power` 2, and 1 with `power` 0, which counts values. `centres` and
    `units` have one entry for all values, or one for each level of the column. Rows of a level with unit 0 add nothing;
    neither do rows whose value is missing, which have the level `missing`. `exact` says that every value lies on the
    grid.
    """

    column: str
    steps: int
    centres: tuple[float, ...]
    units: tuple[float, ...]
    power: int = 1
    origin: float = 0.0
    missing: int | None = None
    exact: bool = False

    def __post_init__(self) -> None:
        if self.power == 0 and (self.steps, self.centres, self.units) != (1, (0.0,), (1.0,)):
            raise BudgetError(f"the grid of {self.column!r} counts values, each as 1: expected one step of 1 from 0")
        check_whole(BudgetError, f"the grid of {self.column!r}: steps", self.steps, least=1, most=MOST_STEPS)
        fits = len(self.centres) == len(self.units) >= 1 and self.power in (0, 1, 2)
        if not (fits and all(map(math.isfinite, (*self.centres, *self.units, self.origin))) and min(self.units) >= 0):
            raise BudgetError(
                f"the grid of {self.column!r}: expected finite centres, as many units of at least 0, power 0 to 2"
            )

    @property
    def by_level(self) -> bool:
        """Whether every level of the column has a centre and a unit of its own."""
        return len(self.centres) > 1

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the largest value on the grid; values beyond them are clamped."""
        reach = [(centre, self.steps * unit) for centre, unit in zip(self.centres, self.units, strict=True)]
        if self.power == 2:
            distance = max(math.sqrt(max(centre + half, 0.0)) for centre, half in reach)
            return self.origin - distance, self.origin + distance
        return min(centre - half for centre, half in reach), max(centre + half for centre, half in reach)

    def integers(self, values: Any, levels: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The integer of every value, given with its level; databases compute the same in SQL."""
        numbers, codes = np.clip(np.asarray(values, dtype=np.float64), *self.ends), np.asarray(levels)
        absent = np.zeros(codes.shape, dtype=bool) if self.missing is None else codes == self.missing
        level = np.where(absent, 0, codes if self.by_level else 0)
        centre, unit = np.array(self.centres)[level], np.array(self.units)[level]
        f = (numbers - self.origin * (self.power == 2)) ** self.power
        ignored = absent | (unit == 0)
        u = (np.where(ignored, 0.0, f) - centre) / np.where(unit == 0, 1.0, unit)
        u = np.copysign(np.floor(np.abs(u) + 0.5), u)  # halves are rounded away from zero
        return np.asarray(np.where(ignored, 0, np.clip(u, -self.steps, self.steps)), dtype=np.int64)


@dataclass(frozen=True, slots=True)
class SumQuery:
    """The sum of the integers of a grid in each cell of the table over a clique.

    Privacy: one row adds an integer of at most `steps` in absolute value to one cell. Exchanging a row moves one cell
    by at most twice `steps`, or two cells by `steps` each; with `power` 0, a row adds 1 or nothing.
    """

    clique: Clique
    grid: ValueGrid
    scale: ClassVar[int] = 1

    @property
    def cliques(self) -> tuple[Clique, ...]:
        return (self.clique,)

    @property
    def largest_factor(self) -> int:
        """The largest number that one row can add to an answer, in absolute value."""
        return self.grid.steps

    @property
    def row_norms(self) -> RowNorms:
        return ONE_CELL if self.grid.power == 0 else RowNorms.of_number(self.grid.steps, 2 * self.grid.steps)

    def answer(self, tables: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
        exact: np.ndarray[Any, np.dtype[np.int64]] = tables[self]
        return exact
