"""MeasuredSums: noisy sums of values, and what follows from them: sums with exact errors, and the mean in every bin.

A sum over n rows is unit * (noisy integer) + centre * n. The noise of the integer is independent of that of the
counts, so variances add.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from hush.core.arrays import Floats, Integers
from hush.core.domain import Clique, Domain
from hush.core.errors import ArchiveError
from hush.files.codec import IntTable, Stored
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

    def tables_of(self, column: str) -> list[Clique]:
        """The tables by which a column was added up, the most detailed first, and the total last."""
        found = {
            term.clique
            for _, term, _ in self.measured
            if term.column == column and term.grid.power == 1 and not term.grid.by_level
        }
        return sorted({*found, ()}, key=lambda clique: (-len(clique), clique)) if found else []

    def bin_means(self, column: str, rows: Floats, mean: float, error: float) -> Floats | None:
        """The mean value in every level of a column, by its sums by its own bins; None if these were not measured.

        `rows` are those of a model in each level, `mean` and `error` what is known of the mean over all. The distance x
        of a level's sum from its middle is, before looking, anywhere within n r for n rows in a level that reaches r to
        either side: of mean 0 and variance (n r)^2 / 3. Its noisy sum says x, and the mean over all what all x add up
        to. The means are those of x given both, taken as normal.
        """
        for index, term, law in self.measured:
            if term.clique != (column,) or term.column != column or term.grid.power != 1:
                continue
            units, centres = np.array(term.grid.units), np.array(term.grid.centres)
            n = np.maximum(rows[: len(centres)], 0.0)
            most = n * units * term.grid.steps
            prior, noise = most**2 / 3, (units * law.stddev) ** 2
            weight = np.divide(prior, prior + noise, out=np.zeros(len(n)), where=prior > 0)
            x, variance = weight * units * self.integers(index)[: len(n)], prior * (1 - weight)
            if math.isfinite(mean + error) and variance.any():
                unsure = float(variance.sum()) + (error * n.sum()) ** 2
                x = x + variance / unsure * (mean * n.sum() - float(n @ centres + x.sum()))
            x = np.clip(x, -most, most)
            return np.asarray(centres + np.divide(x, n, out=np.zeros(len(n)), where=n > 0))
        return None


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
