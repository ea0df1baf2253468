"""RunLevels: rare levels of columns counted together, in all tables that a run measures from some moment on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property

from hush.core.arrays import Floats, Integers
from hush.core.domain import Clique
from hush.mechanisms.session import Session
from hush.privacy.gate import Gate, LinearQuery, MarginalQuery
from hush.privacy.measurement import Measurement
from hush.strategies.rare_levels import MergedQuery, Merging, merge_rare
from hush.workloads.threshold_term import TargetQuery


class RunLevels:
    """The levels of every column as a run counts them; at first each by itself.

    Public: which levels are merged is computed from noisy counts.
    """

    def __init__(self, session: Session, merging: Merging | None = None) -> None:
        self._session = session
        self.merging = merging
        self.codes: Mapping[str, Integers] = {} if merging is None else merging.codes

    @classmethod
    def rare(cls, session: Session, most: int | None = None) -> RunLevels:
        """Merge rare levels by the first noisy table of every column; see `merge_rare`."""
        first: dict[Clique, Measurement] = {}
        for table in session.noisy_tables:
            if len(table.clique) == 1 and not isinstance(table.asked, MergedQuery):
                first.setdefault(table.clique, table)
        columns = ((clique[0], table.values, table.stddev) for clique, table in first.items())
        return cls(session, merge_rare(columns, most))

    @cached_property
    def gate(self) -> Gate:
        """The gate that counts merged levels as one; tables over many wide columns are never made."""
        gate = self._session.gate
        return gate.coarse(self.codes) if self.codes else gate

    @cached_property
    def _sizes(self) -> dict[str, int]:
        """The number of levels of every column, with rare ones merged."""
        domain = self._session.domain
        sizes = domain.shape if self.merging is None else self.merging.sizes(domain.attributes, domain.shape)
        return dict(zip(domain.attributes, sizes, strict=True))

    def cells(self, clique: Clique) -> int:
        """The number of cells of a table over a clique, as it would be measured."""
        return math.prod(self._sizes[name] for name in clique)

    def tables(self, tables: Mapping[Clique, Floats]) -> dict[Clique, Floats]:
        """Tables of a model as they would be measured."""
        if self.merging is None:
            return dict(tables)
        return {clique: self.merging.table(clique, table) for clique, table in tables.items()}

    def query(self, clique: Clique) -> LinearQuery:
        """The table over a clique, as it is measured and recorded."""
        if self.merging is None or not self.merging.touches(clique):
            return MarginalQuery(clique)
        return MergedQuery(clique, self._session.domain.sizes(clique), self.merging)

    def target(self, query: TargetQuery) -> TargetQuery:
        """A single answer as the coarse gate counts it. Its target names levels that are merged with no other."""
        if self.merging is None:
            return query
        target = tuple(
            int(self.codes[name][code]) if name in self.codes else code
            for name, code in zip(query.clique, query.target, strict=True)
        )
        return TargetQuery(query.clique, self.merging.sizes(query.clique, query.sizes), target, query.at_least)

    def measure(
        self, asked: Sequence[Clique | TargetQuery], rho: Fraction | Sequence[Fraction], *, note: str
    ) -> list[Measurement]:
        """As `Session.measure`, for tables and single answers that the coarse gate counts."""
        recorded = [self.query(query) if isinstance(query, tuple) else query for query in asked]
        counted = [MarginalQuery(query) if isinstance(query, tuple) else self.target(query) for query in asked]
        return self._session.measure(recorded, rho, note=note, counted=(self.gate, counted))
