"""MeasuredSums: noisy sums of values, and the mean value in every bin that follows from them.

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
from hush.core.domain import Clique
from hush.core.errors import ArchiveError
from hush.files.codec import IntTable, Stored
from hush.privacy.noise import Noise
from hush.privacy.sensitivity import RowNorms
from hush.strategies.strategy_files import SumStrategyFile
from hush.strategies.sum_strategy import SumStrategy
from hush.workloads import Workload
from hush.workloads.sum_term import SumTerm


class MeasuredSums:
    """The noisy integers of a strategy's sums; None for sums that an interrupted release did not measure."""

    def __init__(self, strategy: SumStrategy, tables: Sequence[Integers | None] | None = None) -> None:
        self.strategy = strategy
        self.tables: list[Integers | None] = [None] * len(strategy.terms) if tables is None else list(tables)

    @property
    def complete(self) -> bool:
        """Whether all sums were measured."""
        return all(table is not None for table in self.tables)

    @property
    def measured(self) -> list[tuple[int, SumTerm, Noise]]:
        """The index, the term and the noise law of every measured sum."""
        listed = enumerate(zip(self.strategy.terms, self.strategy.laws, strict=True))
        return [(index, term, law) for index, (term, law) in listed if self.tables[index] is not None]

    def integers(self, index: int) -> Floats:
        """The noisy integers of one term, with one axis for each attribute of its clique."""
        return np.asarray(self.tables[index], dtype=np.float64)

    def law_counts(self) -> Counter[tuple[RowNorms, Noise]]:
        """The noise laws of all sums; an interrupted release was charged for all of them, too."""
        return self.strategy.law_counts()

    def tables_of(self, column: str) -> list[Clique]:
        """The cliques by which a column was summed, the most detailed first, and the total last."""
        cliques = {
            term.clique
            for _, term, _ in self.measured
            if term.column == column and term.grid.power == 1 and not term.grid.by_level
        }
        return sorted({*cliques, ()}, key=lambda clique: (-len(clique), clique)) if cliques else []

    def bin_means(self, column: str, rows: Floats, mean: float, error: float) -> Floats | None:
        """The mean value in every level of a column, from its sums by its own bins; None if these were not measured.

        `rows` are a model's rows in each level; `mean` and `error` are an estimate of the mean over all rows and its
        standard error. Let x be a level's sum minus rows times the middle of the level. For n rows in a level of half
        width r, the prior of x is uniform within n r of 0, with variance (n r)^2 / 3. A level's noisy sum measures its
        x, and the overall mean measures the sum of all x. The result is the posterior mean given both, as if normal.
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
                total_variance = float(variance.sum()) + (error * n.sum()) ** 2
                x = x + variance / total_variance * (mean * n.sum() - float(n @ centres + x.sum()))
            x = np.clip(x, -most, most)
            return np.asarray(centres + np.divide(x, n, out=np.zeros(len(n)), where=n > 0))
        return None


class MeasuredSumsFile(Stored):
    """The stored form of measured sums: their noise, and the noisy integers."""

    strategy: SumStrategyFile
    noisy: list[IntTable | None]

    @classmethod
    def of(cls, sums: MeasuredSums) -> MeasuredSumsFile:
        """The stored form; the terms come from the workload."""
        return cls(strategy=SumStrategyFile.of(sums.strategy), noisy=list(sums.tables))

    def build(self, workload: Workload) -> MeasuredSums:
        """The sums; ArchiveError where they do not fit the workload."""
        strategy = self.strategy.build(workload)
        tables: list[Any] = [None if table is None else table.astype(np.int64) for table in self.noisy]
        shapes = [workload.domain.sizes(term.clique) for term in strategy.terms]
        matching = (table is None or table.shape == shape for table, shape in zip(tables, shapes, strict=False))
        if len(tables) != len(shapes) or not all(matching):
            raise ArchiveError("the file's noisy sums do not match its workload; get the release again")
        return MeasuredSums(strategy, tables)
