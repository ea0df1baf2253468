"""One answer of a threshold or a marginal: the rows that agree with one target in at least r of k columns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hush.core.arrays import Floats, Integers, Numbers
from hush.core.domain import Clique
from hush.core.errors import WorkloadError
from hush.linops import LinearOperator
from hush.privacy.gate import Counts
from hush.privacy.sensitivity import RowNorms


@dataclass(frozen=True, slots=True)
class TargetRow(LinearOperator):
    """One line of a threshold's matrix: a one for each cell that agrees with `target` in `at_least` axes, or more.

    >>> TargetRow((2, 3), (0, 2), 1).dense().astype(int).tolist()
    [[1, 1, 1, 0, 0, 1]]
    """

    sizes: tuple[int, ...]
    target: tuple[int, ...]
    at_least: int

    def __post_init__(self) -> None:
        inside = len(self.target) == len(self.sizes) and all(
            0 <= code < size for code, size in zip(self.target, self.sizes, strict=True)
        )
        if not inside or not 1 <= self.at_least <= len(self.sizes):
            raise WorkloadError(
                f"target {self.target!r}, at least {self.at_least!r}, of {self.sizes!r} levels: expected a level of "
                f"each attribute, and 1 to {len(self.sizes)} of them"
            )

    @property
    def shape(self) -> tuple[int, int]:
        return 1, math.prod(self.sizes)

    def matmat(self, x: Floats) -> Floats:
        tables = x.reshape(*self.sizes, x.shape[1])
        return np.asarray(agreeing(tables, self.target, self.at_least))[None, :]

    def adjoint(self, y: Floats) -> Floats:
        agree = np.zeros(self.sizes, dtype=np.int64)
        for axis, code in enumerate(self.target):
            agree[(slice(None),) * axis + (code,)] += 1
        return np.asarray((agree.reshape(-1, 1) >= self.at_least) * y)


def agreeing(table: Numbers, target: tuple[int, ...], at_least: int) -> Numbers:
    """The sum of the cells that agree with a target in at least so many of the leading axes; exact on integers.

    About two passes over the table: what agrees in an axis is one slice of it, and every pass leaves the axis out.
    """
    tallies = [table]  # tallies[j]: the cells that agree in j axes so far, or in `at_least` and more
    for code in target:
        split = [np.zeros_like(tallies[0][0]) for _ in range(min(len(tallies), at_least) + 1)]
        for j, part in enumerate(tallies):
            agree = part[code]
            split[min(j + 1, at_least)] += agree
            split[j] += part.sum(axis=0) - agree
        tallies = split
    return tallies[at_least]


@dataclass(frozen=True, slots=True)
class TargetQuery:
    """The number of rows that agree with a target in at least `at_least` attributes of a clique.

    Privacy: a row adds one or nothing, and exchanging it for another moves the number by at most one.
    """

    clique: Clique
    sizes: tuple[int, ...]
    target: tuple[int, ...]
    at_least: int
    scale: ClassVar[int] = 1

    def __post_init__(self) -> None:
        TargetRow(self.sizes, self.target, self.at_least)

    @property
    def cliques(self) -> tuple[Clique, ...]:
        return (self.clique,)

    @property
    def row_norms(self) -> RowNorms:
        return RowNorms.of_number(1, 1)

    @property
    def operator(self) -> TargetRow:
        return TargetRow(self.sizes, self.target, self.at_least)

    def answer(self, counts: Counts) -> Integers:
        return np.asarray(agreeing(counts[self.clique], self.target, self.at_least), dtype=np.int64).reshape(1)
