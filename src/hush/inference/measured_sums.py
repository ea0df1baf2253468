"""MeasuredSums: noisy sums of values, and what follows from them: sums with exact errors, and the mean in every bin.

A sum over n rows is unit * (noisy integer) + centre * n. The noise of the integer is independent of that of the
counts, so variances add.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hush.arrays import Floats, Integers
from hush.codec import IntTable, Stored
from hush.domain import Clique, Domain
from hush.errors import ArchiveError
from hush.privacy.noise import Noise
from hush.privacy.sensitivity import RowNorms
from hush.strategies.strategy_files import SumStrategyFile
from hush.strategies.sum_strategy import SumStrategy
from hush.workloads import Workload
from hush.workloads.sum_term import SumTerm


class MeasuredSums:
    """The noisy integers of the sums of a strategy; None for those that were not measured, as after an interruption."""

    def __init__(self, strategy: SumStrategy, tables: Sequence[Integers | None] | None = None) -> None:
        self.strategy = strategy
        self.tables: list[Integers | None] = [None] * len(strategy.terms) if tables is None else list(tables)

    @property
    def complete(self) -> bool:
        """Whether all of them are there."""
        return all(table is not None for table in self.tables)

    @property
    def measured(self) -> list[tuple[int, SumTerm, Noise]]:
        """The number, the term and the law of the noise of every sum that is there."""
        listed = enumerate(zip(self.strategy.terms, self.strategy.laws, strict=True))
        return [(index, term, law) for index, (term, law) in listed if self.tables[index] is not None]

    def integers(self, index: int) -> Floats:
        """The noisy integers of one term, with one axis for each attribute of its clique."""
        return np.asarray(self.tables[index], dtype=np.float64)

    def law_counts(self) -> Counter[tuple[RowNorms, Noise]]:
        """Those of all sums: an interrupted release has paid for them all."""
        return self.strategy.law_counts()

    def bin_means(self, counts: Callable[[Clique], Floats]) -> dict[str, Floats]:
        """The mean value in every level of each column whose sums by its own bins were measured.

        The noisy mean of a level, drawn towards its middle where it is unsure: with n rows, noise of deviation s and
        values anywhere in a level that reaches r to either side, the weight is n^2 r^2 / 3 / (n^2 r^2 / 3 + s^2).
        """
        means = {}
        for index, term, law in self.measured:
            grid = term.grid
            if term.clique != (term.column,) or grid.power != 1:
                continue
            units, centres = np.array(grid.units), np.array(grid.centres)
            levels = len(centres)
            rows = np.maximum(counts((term.column,))[:levels], 1.0)
            offset = units * self.integers(index)[:levels] / rows
            reach, noise = units * grid.steps, units * law.stddev / rows
            prior = reach**2 / 3
            weight = np.divide(prior, prior + noise**2, out=np.zeros(levels), where=prior > 0)
            means[term.column] = centres + np.clip(weight * offset, -reach, reach)
        return means


class MeasuredSumsFile(Stored):
    """Sums in files: their noise, and the noisy integers."""

    strategy: SumStrategyFile
    noisy: list[IntTable | None]

    @classmethod
    def of(cls, sums: MeasuredSums) -> MeasuredSumsFile:
        """The stored form; the terms are those of the workload."""
        return cls(strategy=SumStrategyFile.of(sums.strategy), noisy=list(sums.tables))

    def build(self, workload: Workload) -> MeasuredSums:
        """The sums; ArchiveError where they do not fit the workload."""
        strategy = self.strategy.build(workload)
        tables: list[Any] = [None if table is None else table.astype(np.int64) for table in self.noisy]
        if [None if t is None else t.shape for t in tables] != _shapes(workload.domain, strategy, tables):
            raise ArchiveError("the file's noisy sums do not fit its workload; get the release again")
        return MeasuredSums(strategy, tables)


def _shapes(domain: Domain, strategy: SumStrategy, tables: Sequence[Any]) -> list[tuple[int, ...] | None]:
    if len(tables) != len(strategy.terms):
        return []
    pairs = zip(strategy.terms, tables, strict=True)
    return [None if table is None else domain.sizes(term.clique) for term, table in pairs]
