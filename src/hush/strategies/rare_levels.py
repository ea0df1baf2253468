"""Rare levels: merge the levels of a column whose noisy counts are small, and count tables of merged levels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from hush.core.arrays import Integers, merged_along
from hush.core.domain import Clique
from hush.core.errors import WorkloadError
from hush.linops import Identity, Kronecker, LevelSums, LinearOperator
from hush.privacy.gate import Counts
from hush.privacy.sensitivity import ONE_CELL, RowNorms

KEPT_LEVEL_STDDEVS = 3.0  # a level is rare if its noisy count is below this many standard deviations of the noise


@dataclass(frozen=True, slots=True, eq=False)
class Merging:
    """For some columns, which level each of their codes is counted under: 0 .. k-1, all of them in use.

    Public: computed from noisy counts.
    """

    codes: Mapping[str, Integers]
    operators: Mapping[str, LevelSums] = field(init=False)

    def __post_init__(self) -> None:
        operators = {}
        for name, codes in self.codes.items():  # a level without codes would count the codes of the next level twice
            try:
                operators[name] = LevelSums(codes)
            except WorkloadError:
                raise WorkloadError(f"merged levels of {name!r}: expected 0 .. k-1, all of them in use") from None
        object.__setattr__(self, "operators", operators)

    def touches(self, clique: Iterable[str]) -> bool:
        """Whether a table over the clique has merged levels."""
        return any(name in self.codes for name in clique)

    def table(self, clique: Clique, counts: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The table with the counts of merged levels added up; whole numbers stay exact."""
        for axis, name in enumerate(clique):
            if name in self.codes:
                counts = merged_along(counts, self.codes[name], axis)
        return counts

    def sizes(self, clique: Clique, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of a merged table, from that of the whole one."""
        pairs = zip(clique, sizes, strict=True)
        return tuple(int(self.codes[name].max()) + 1 if name in self.codes else size for name, size in pairs)


@dataclass(frozen=True, slots=True)
class MergedQuery:
    """The table over a clique of these sizes with merged levels: each row adds one to one cell."""

    clique: Clique
    sizes: tuple[int, ...]  # before levels are merged
    merging: Merging
    scale: ClassVar[int] = 1

    @property
    def cliques(self) -> tuple[Clique, ...]:
        return (self.clique,)

    @property
    def row_norms(self) -> RowNorms:
        return ONE_CELL

    @property
    def operator(self) -> LinearOperator:
        """The sums of merged levels, one factor for each attribute."""
        merged = self.merging.operators
        return Kronecker(
            [
                merged[name] if name in merged else Identity(size)
                for name, size in zip(self.clique, self.sizes, strict=True)
            ]
        )

    def answer(self, counts: Counts) -> Integers:
        return self.merging.table(self.clique, counts[self.clique])


def merge_rare(columns: Iterable[tuple[str, np.ndarray[Any, Any], float]], most: int | None = None) -> Merging | None:
    """The merging of the levels whose noisy count is below three standard deviations; None where there is none.

    `columns` are names, noisy counts and the standard deviation of their noise. Rare levels become one level, the last;
    a column with fewer than two rare levels keeps all its levels. `most` limits the levels of a merged column: those
    with the largest noisy counts stay separate.

    Privacy: post-processing of noisy counts.
    Reference: [MST, sec. 4].

    >>> merge_rare([("city", np.array([90, 2, 70, -1]), 5.0), ("sex", np.array([80, 3]), 5.0)]).codes
    {'city': array([0, 2, 1, 2])}
    """
    codes = {}
    for name, counts, stddev in columns:
        rare = counts < KEPT_LEVEL_STDDEVS * stddev
        if most is not None and len(counts) - rare.sum() + bool(rare.any()) > most:
            rare[:] = True
            rare[np.argsort(-counts, kind="stable")[: most - 1]] = False
        if rare.sum() >= 2:
            codes[name] = np.where(rare, (~rare).sum(), np.cumsum(~rare) - 1).astype(np.int64)
    return Merging(codes) if codes else None


def merge_neighbours(columns: Mapping[str, np.ndarray[Any, Any]], most: int) -> Merging:
    """The merging of neighbouring levels into at most `most` groups with about equally many rows each.

    `columns` are the estimated counts of each column, and `most` is at least 3. A column without rows, or with at most
    so many levels, keeps its levels.

    Privacy: post-processing of noisy counts.

    >>> merge_neighbours({"age": np.array([10.0, 0.0, 30.0, 5.0, 15.0]), "sex": np.array([30.0, 30.0])}, 3).codes
    {'age': array([0, 0, 1, 2, 2])}
    """
    codes = {}
    for name, counts in columns.items():
        held = np.maximum(counts, 0.0)
        if len(held) > most and held.sum() > 0:
            middles = (np.cumsum(held) - held / 2) / held.sum()
            groups = np.minimum(most * middles, most - 1).astype(np.int64)
            codes[name] = np.unique(groups, return_inverse=True)[1].astype(np.int64)
    return Merging(codes)
